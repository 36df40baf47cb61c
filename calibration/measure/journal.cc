// Written with the system's own calls: a stream's buffer could be lost, and its errors come late.
#include "calibration/measure/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "sim/error.h"
#include "sim/settings.h"
#include "sim/text_file.h"

namespace orrery::calibration {
namespace {

using sim::Place;
using sim::UserError;

constexpr const char* kFormat = "# orrery samples 1";

std::string identity_line(const std::string& identity) { return "# of: " + identity; }

}  // namespace

Journal::Journal(const std::string& file, const std::string& identity, const std::vector<std::string>& notes,
                 bool resume)
    : file_(file) {
  const bool exists = ::access(file.c_str(), F_OK) == 0;
  if (exists && !resume) {
    throw UserError(Place{file, 0, 0}, "samples",
                    "exists already, expected --resume, which continues it, or another --out");
  }
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0)
    throw UserError(Place{file, 0, 0}, "samples", "cannot be written: " + std::string(std::strerror(errno)));
  try {
    if (exists) read(identity);
    if (::lseek(descriptor_, 0, SEEK_END) == 0) {
      std::string head = fmt::format("{}\n{}\n", kFormat, identity_line(identity));
      for (const std::string& note : notes) head += "# " + note + "\n";
      write(head + std::string(kMeasuredColumns) + "\n");
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

Journal::~Journal() { ::close(descriptor_); }

void Journal::read(const std::string& identity) {
  const std::string text = sim::read_text(file_, "a table that orrery calibrate began");
  // Everything after the last line break was cut off while it was written.
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  std::istringstream in(text.substr(0, whole));
  int number = 0;
  bool columns = false;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (number == 1 && line != kFormat)
      throw UserError(Place{file_, 1, 1}, "samples", "got '" + line + "', expected " + kFormat);
    if (number == 2 && line != identity_line(identity)) {
      throw UserError(Place{file_, 2, 1}, "samples",
                      "got '" + line + "', expected on this machine: " + identity_line(identity));
    }
    if (line.empty() || line[0] == '#') continue;
    if (!columns) {
      if (line != kMeasuredColumns)
        throw UserError(Place{file_, number, 1}, "header",
                        "got '" + line + "', expected " + std::string(kMeasuredColumns));
      columns = true;
      continue;
    }
    const std::string key = key_of_row(line);
    if (key.empty()) throw UserError(Place{file_, number, 1}, "line", "does not have the columns of the header");
    done_.insert(key);
  }
  // A head that was cut off is written anew.
  const std::size_t keep = columns ? whole : 0;
  if (keep != text.size() && ::ftruncate(descriptor_, static_cast<off_t>(keep)) != 0)
    throw UserError(Place{file_, 0, 0}, "samples", "cannot be shortened: " + std::string(std::strerror(errno)));
}

void Journal::write(const std::string& text) {
  const off_t before = ::lseek(descriptor_, 0, SEEK_END);
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::write(descriptor_, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const std::string why = std::strerror(errno);
      // Half a row would read as a cut one; none is better. Should this fail too, resuming drops it.
      static_cast<void>(::ftruncate(descriptor_, before) == 0);
      throw UserError(
          Place{file_, 0, 0}, "samples",
          fmt::format("cannot be written: {}; its {} finished rows are kept, --resume continues", why, done_.size()));
    }
    written += static_cast<std::size_t>(n);
  }
}

void Journal::append(const std::string& row) {
  write(row + "\n");
  done_.insert(key_of_row(row));
}

}  // namespace orrery::calibration
