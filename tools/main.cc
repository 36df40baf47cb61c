// The program: everything is in the room's library, so that tests and benchmarks can link it.
#include "tools/commands/commands.h"

#ifdef __GLIBC__
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {
/// A run touches ten megabytes, and a page of 4 KiB at a time the kernel's part is a sixth of it: the heap begins with
/// pages of 2 MiB where the system has them.
void begin_with_large_pages() {
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20;
  constexpr int kFirst = 64 << 20, kLater = 1 << 20;
  ::mallopt(M_TOP_PAD, kFirst);
  void* const first = std::malloc(kPage / 8);
  ::mallopt(M_TOP_PAD, kLater);
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(first) + kPage - 1) / kPage * kPage;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(::sbrk(0)) / kPage * kPage;
  if (first != nullptr && begin < end && end - begin <= kFirst)
    static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE));
  std::free(first);
}
}  // namespace
#endif

int main(int argc, char** argv) {
#ifdef __GLIBC__
  // Studies plan steps of some megabytes and throw them away by the thousand. Memory that goes back to the kernel every
  // time comes back page by page, at a twelfth of their time.
  constexpr int kKept = 256 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kKept);
  ::mallopt(M_TRIM_THRESHOLD, kKept);
  begin_with_large_pages();
#endif
  return orrery::tools::run_command_line(argc, argv);
}
