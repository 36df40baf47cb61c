// Journal files. A row is one write(2) to a file opened for appending: after a kill of the program it is there whole
// or, as the last, cut off. Left out: fsync per row; a power cut may take the rows of the last seconds, and what it
// leaves half written their checks refuse.
#include "tools/study/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <sstream>
#include <stdexcept>

#include "sim/error.h"
#include "sim/hash.h"
#include "sim/text_file.h"
#include "tools/report/csv.h"
#include "tools/report/output.h"

namespace orrery::tools {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const std::string& file, int error) {
  throw sim::UserError(fmt::format("{}: cannot be written: {}; what is finished stays in it, and --resume goes on",
                                   file, error != 0 ? std::strerror(error) : "the disk is full"));
}

/// Where the last whole line ends.
std::size_t whole_lines(const std::string& text) {
  const std::size_t last = text.rfind('\n');
  return last == std::string::npos ? 0 : last + 1;
}

std::string text_of(const std::string& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    throw sim::UserError(
        fmt::format("{}: cannot be resumed: there is no such file; --csv {} would begin it", file, file));
  }
  constexpr std::size_t kLargest = std::size_t{4} << 30;
  return sim::read_text(file, "the file of this very sweep, as --csv left it", kLargest);
}

/// Sixteen hexadecimal digits over the text of a row. No signature: it finds accidents, and edits by hand.
std::string check_of(std::string_view line) {
  std::uint64_t hash = line.size();
  for (const char c : line) hash = sim::hash_pair(hash, static_cast<unsigned char>(c));
  return fmt::format("{:016x}", hash);
}

}  // namespace

std::string JournalForm::header() const {
  std::vector<std::string> cells{"index"};
  cells.insert(cells.end(), columns.begin(), columns.end());
  cells.insert(cells.end(), {"sweep", "check"});
  return csv_line(cells);
}

std::string JournalForm::row(std::size_t index, const std::vector<std::string>& cells) const {
  SIM_CHECK(cells.size() == columns.size(), "{} cells for {} columns", cells.size(), columns.size());
  std::vector<std::string> all{fmt::format("{}", index)};
  all.insert(all.end(), cells.begin(), cells.end());
  all.push_back(fingerprint);
  const std::string line = csv_line(all);
  return line + ',' + check_of(line);
}

JournalRows read_journal(const std::string& file, const JournalForm& form) {
  const std::string text = text_of(file), header = form.header();
  const auto refuse_row = [&](std::size_t line, const std::string& why) {
    throw sim::UserError({file, static_cast<int>(line), 1}, "",
                         fmt::format("got {}, expected the file of this very sweep, as --csv left it", why));
  };
  JournalRows rows;
  if (whole_lines(text) == 0) {
    if (!header.starts_with(text)) refuse_row(1, "no table of a sweep");
    return rows;
  }
  std::istringstream lines(text.substr(0, whole_lines(text)));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    if (++number == 1) {
      if (line != header) refuse_row(1, fmt::format("the columns {} where this sweep has {}", line, header));
      continue;
    }
    std::vector<std::string> cells;
    try {
      cells = csv_cells(line);
    } catch (const std::invalid_argument& error) {
      refuse_row(number, error.what());
    }
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(cells[0].data(), cells[0].data() + cells[0].size(), index);
    const bool is_index = error == std::errc{} && end == cells[0].data() + cells[0].size() && index < form.points;
    if (!is_index || cells.size() != form.columns.size() + 3) refuse_row(number, "what is no row of a sweep");
    const std::string& sweep = cells[cells.size() - 2];
    if (sweep != form.fingerprint) {
      refuse_row(number, fmt::format("a row of sweep {}, and this one is {} (another scenario, other values, or other "
                                     "profiles)",
                                     sweep, form.fingerprint));
    }
    const std::string_view checked = std::string_view(line).substr(0, line.rfind(','));
    const bool as_written = csv_line(cells) == line;  // an apostrophe or a quote more reads as the same cells
    if (!as_written || cells.back() != check_of(checked))
      refuse_row(number, "a row that was changed: its check does not hold");
    if (!rows.emplace(index, line).second) refuse_row(number, fmt::format("point {} a second time", index));
  }
  return rows;
}

Journal::Journal(std::string file, const JournalForm& form, const std::string& resumed, const JournalRows& rows)
    : file_(std::move(file)) {
  check_writable(file_);
  std::error_code ignored;
  special_ = fs::exists(file_, ignored) && !fs::is_regular_file(file_, ignored);
  const bool goes_on = !resumed.empty() && fs::equivalent(resumed, file_, ignored);
  if (goes_on) {
    const std::size_t whole = whole_lines(text_of(file_));
    if (::truncate(file_.c_str(), static_cast<off_t>(whole)) != 0) refuse(file_, errno);
    descriptor_ = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (descriptor_ < 0) refuse(file_, errno);
    if (whole == 0) append(form.header());
    return;
  }
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (special_ ? 0 : O_TRUNC), 0666);
  if (descriptor_ < 0) refuse(file_, errno);
  append(form.header());
  for (const auto& [index, row] : rows) append(row);
}

Journal::~Journal() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Journal::append(const std::string& row) {
  const std::string line = row + '\n';
  for (std::size_t written = 0; written < line.size();) {
    const ssize_t count = ::write(descriptor_, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) refuse(file_, count < 0 ? errno : 0);
    written += static_cast<std::size_t>(count);
  }
}

void Journal::finish(const JournalForm& form, const JournalRows& rows) {
  if (special_) return;
  write_output(file_, [&](std::ostream& out) {
    out << form.header() << '\n';
    for (const auto& [index, row] : rows) out << row << '\n';
  });
}

}  // namespace orrery::tools
