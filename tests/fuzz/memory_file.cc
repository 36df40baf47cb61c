// By memfd_create(2), under the name that /proc has for it.
#include "tests/fuzz/memory_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/target.h"

namespace orrery::fuzz {

MemoryFile::MemoryFile() : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
  expect(descriptor_ >= 0, "memfd_create fails");
  name_ = "/proc/self/fd/" + std::to_string(descriptor_);
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

const std::string& MemoryFile::with(const std::string& bytes) {
  expect(::ftruncate(descriptor_, 0) == 0, "ftruncate fails");
  const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), 0);
  expect(written == static_cast<ssize_t>(bytes.size()), "pwrite fails");
  return name_;
}

std::string MemoryFile::contents() const {
  struct stat facts {};
  expect(::fstat(descriptor_, &facts) == 0, "fstat fails");
  std::string text(static_cast<std::size_t>(facts.st_size), '\0');
  expect(::pread(descriptor_, text.data(), text.size(), 0) == facts.st_size, "pread fails");
  return text;
}

MemoryFile& memory_file() {
  static MemoryFile file;
  return file;
}

}  // namespace orrery::fuzz
