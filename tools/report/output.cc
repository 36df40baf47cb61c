// Output files: a file without a name in the target's folder, which is synchronised, named and renamed over the target
// (POSIX rename replaces in one step). Left out: owners and access lists of a file that is replaced.
#include "tools/report/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
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

/// What is written beside `target` under a name is called after the machine and the process, ahead of whose number this
/// stands.
std::string partial_prefix(const std::string& target) {
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return fmt::format("{}.partial-{}-", target, host);
}

/// Removes what programs of this machine left beside `target` that were killed while they wrote it.
void remove_abandoned(const fs::path& target) {
  const std::string prefix = partial_prefix(target.filename().string());
  std::error_code ignored;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const long process = std::strtol(name.c_str() + prefix.size(), nullptr, 10);
    const bool gone = process > 0 && ::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
    if (gone) fs::remove(entry.path(), ignored);
  }
}

/// A file that becomes `target` in one step, or goes when it does not. It has no name while it is written, so that a
/// kill leaves nothing; where the file system cannot do that (O_TMPFILE), a name of its own. An existing target's
/// permissions stay.
class Replacement {
 public:
  Replacement(std::string shown, std::string target)
      : shown_(std::move(shown)),
        target_(std::move(target)),
        partial_(fmt::format("{}{}", partial_prefix(target_), ::getpid())) {
    struct stat old {};
    const bool replaces = ::stat(target_.c_str(), &old) == 0;
    const mode_t mode = replaces ? old.st_mode & kPermissions : kAnybody;
    const fs::path folder = fs::path(target_).has_parent_path() ? fs::path(target_).parent_path() : fs::path(".");
    descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    named_ = descriptor_ < 0 || ::access(path().c_str(), W_OK) != 0;  // no /proc
    if (named_) {
      if (descriptor_ >= 0) ::close(descriptor_);
      remove_abandoned(target_);
      descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
      if (descriptor_ < 0) refuse(shown_, errno);
    }
    if (replaces) static_cast<void>(::fchmod(descriptor_, mode));  // past the umask, where the file system can
  }
  ~Replacement() {
    ::close(descriptor_);
    if (named_) ::unlink(partial_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  /// Where to write.
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }
  std::string file() const { return named_ ? partial_ : path(); }

  /// On the disk first, so that a power cut leaves the old file or the new one.
  void commit() {
    if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail(errno);
    if (!named_) {
      ::unlink(partial_.c_str());
      if (::linkat(AT_FDCWD, path().c_str(), AT_FDCWD, partial_.c_str(), AT_SYMLINK_FOLLOW) != 0) fail(errno);
      named_ = true;
    }
    if (::rename(partial_.c_str(), target_.c_str()) != 0) fail(errno);
    named_ = false;
  }

 private:
  static constexpr mode_t kPermissions = 0777, kAnybody = 0666;

  [[noreturn]] void fail(int error) const { refuse(shown_, error); }

  std::string shown_, target_, partial_;
  int descriptor_ = -1;
  bool named_ = false;  // partial_ is there
};

/// The file that a symbolic link stands for, so that renaming does not replace the link.
std::string target_of(const std::string& path) {
  std::error_code failed;
  const fs::path target = fs::weakly_canonical(path, failed);
  if (failed) refuse(path, failed.value());  // a circle of links, or a name that is too long
  return target.string();
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
  Replacement replacement(path, target_of(path));
  write_to(path, replacement.file(), body);
  replacement.commit();
}

}  // namespace orrery::tools
