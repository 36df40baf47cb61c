// See large_pages.h.
#include "sim/large_pages.h"

#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace orrery::sim {

namespace {
constexpr std::size_t kPage = std::size_t{2} << 20;
constexpr std::size_t kLarge = 2 * kPage;
constexpr std::size_t kLine = 64;  // bytes of a cache line

std::align_val_t alignment_of(std::size_t bytes) { return std::align_val_t{bytes < kLarge ? kLine : kPage}; }
}  // namespace

void* take_table(std::size_t bytes) {
  void* table = ::operator new(bytes, alignment_of(bytes));
#if defined(MADV_HUGEPAGE)
  // What is refused costs time alone.
  if (bytes >= kLarge) static_cast<void>(madvise(table, bytes, MADV_HUGEPAGE));
#endif
  return table;
}

void give_table_back(void* table, std::size_t bytes) { ::operator delete(table, alignment_of(bytes)); }

}  // namespace orrery::sim
