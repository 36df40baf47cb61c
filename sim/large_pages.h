// Memory for tables whose rows are read in no order: ten thousand ranks fill tens of megabytes, and with pages of 4 KiB
// each of their rows costs a walk through the page tables beside its own way from memory. From a few megabytes on such
// a table asks for pages of 2 MiB (Linux, transparent huge pages); where there are none it is a table like any other.
#pragma once

#include <cstddef>
#include <vector>

namespace orrery::sim {

/// `bytes` of memory, at least at the beginning of a cache line. Throws std::bad_alloc.
void* take_table(std::size_t bytes);
void give_table_back(void* table, std::size_t bytes);

/// An allocator of such tables.
template <class T>
struct LargePages {
  using value_type = T;
  LargePages() = default;
  template <class U>
  explicit LargePages(const LargePages<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(take_table(n * sizeof(T))); }
  void deallocate(T* rows, std::size_t n) { give_table_back(rows, n * sizeof(T)); }
  friend bool operator==(const LargePages&, const LargePages&) { return true; }
};

template <class T>
using LargeTable = std::vector<T, LargePages<T>>;

}  // namespace orrery::sim
