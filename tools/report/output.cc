// Output files: temporary file beside the target, then rename (POSIX rename replaces in one step). Left out: fsync; a
// report that a power cut destroys can be made again.
#include "tools/report/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

#include "sim/error.h"

namespace orrery::tools {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const std::string& path, int error) {
  throw sim::UserError(fmt::format("{}: cannot be written: {}; give a path in a folder that can be written", path,
                                   error != 0 ? std::strerror(error) : "the disk is full"));
}

/// A device or a pipe has no "beside", and renaming over one would replace it.
bool is_special(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

void write_to(const std::string& shown, const std::string& file, const std::function<void(std::ostream&)>& body) {
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  if (!out) refuse(shown, errno);
  body(out);
  errno = 0;
  out.close();  // a full disk often shows only here
  if (!out) refuse(shown, errno);
}

/// The file that a symbolic link stands for, so that renaming does not replace the link.
std::string target_of(const std::string& path) {
  std::error_code failed;
  const fs::path target = fs::weakly_canonical(path, failed);
  return failed ? path : target.string();
}

}  // namespace

void check_writable(const std::string& path) {
  if (path.empty() || path == "-" || is_special(path)) return;
  const fs::path target = target_of(path);
  std::error_code ignored;
  if (fs::is_directory(target, ignored)) refuse(path, EISDIR);
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, ignored)) refuse(path, fs::exists(folder, ignored) ? ENOTDIR : ENOENT);
  if (::access(folder.c_str(), W_OK) != 0) refuse(path, errno);
}

void write_output(const std::string& path, const std::function<void(std::ostream&)>& body) {
  if (path == "-") {
    body(std::cout);  // the command line checks standard output once, at the end
    return;
  }
  if (is_special(path)) return write_to(path, path, body);
  check_writable(path);
  const std::string target = target_of(path);
  const std::string partial = fmt::format("{}.partial-{}", target, ::getpid());
  try {
    write_to(path, partial, body);
    std::error_code failed;
    fs::rename(partial, target, failed);
    if (failed) refuse(path, failed.value());
  } catch (...) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    throw;
  }
}

}  // namespace orrery::tools
