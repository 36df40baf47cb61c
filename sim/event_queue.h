// The event queue: a 4-ary heap of 16-byte events. Four children lie in one cache line, and sift-down, the costly half,
// takes half the levels of a binary heap (LaMarca & Ladner, The influence of caches on the performance of heaps,
// 1996). A popped event's place is filled from below without a look at the event that comes from the end, which then
// rises a little: it nearly always belongs at the bottom (Wegener, Bottom-up heapsort, 1993). An event is a hint;
// whether it still holds, the owner's table says (`version`). Ties break by content, so equal sets of events come out
// in the same order whatever the order they were pushed in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "sim/large_pages.h"

namespace orrery::sim {

struct Event {
  std::int64_t at = 0;        // ps, not negative
  std::uint32_t subject = 0;  // row of the owner's table
  std::uint32_t version = 0;  // of that row when the event was made
};
static_assert(sizeof(Event) == 16 && std::is_trivially_copyable_v<Event>);

class EventQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// The earliest event; the queue is not empty.
  const Event& top() const { return heap_[kFirst]; }
  void reserve(std::size_t n) { heap_.reserve(n + kFirst); }

  void push(const Event& event) {
    if (heap_.empty()) heap_.resize(kFirst);
    heap_.push_back(event);
    rise(event, size_++);
  }

  Event pop() {
    const Event first = top();
    const Event last = heap_.back();
    heap_.pop_back();
    if (--size_ == 0) return first;
    Event* const heap = heap_.data() + kFirst;
    std::size_t hole = 0;
    std::size_t begin = 1;
    for (; begin + kChildren <= size_; begin = hole * kChildren + 1) {
      if (size_ > kNear) prefetch(heap + std::min(begin * kChildren + 1, size_));
      const std::size_t low = begin + (before(heap[begin + 1], heap[begin]) ? 1 : 0);
      const std::size_t high = begin + (before(heap[begin + 3], heap[begin + 2]) ? 3 : 2);
      const std::size_t least = before(heap[high], heap[low]) ? high : low;
      heap[hole] = heap[least];
      hole = least;
    }
    if (begin < size_) {
      std::size_t least = begin;
      for (std::size_t child = begin + 1; child < size_; ++child) {
        if (before(heap[child], heap[least])) least = child;
      }
      heap[hole] = heap[least];
      hole = least;
    }
    rise(last, hole);
    return first;
  }

 private:
  static constexpr std::size_t kChildren = 4;
  static constexpr std::size_t kNear = 2048;  // events that the nearest cache holds
  static constexpr std::size_t kFirst = 3;    // rows left unused, so that the children of each event begin a cache line

  static bool before(const Event& a, const Event& b) {
    if (a.at != b.at) return a.at < b.at;
    if (a.subject != b.subject) return a.subject < b.subject;
    return a.version < b.version;
  }
  /// The grandchildren of the row that is being filled: by when the child is chosen, its children are on their way.
  static void prefetch(const Event* grandchildren) {
    for (std::size_t line = 0; line < kChildren; ++line) __builtin_prefetch(grandchildren + line * kChildren);
  }

  /// Puts `event` into the row `hole` or above it.
  void rise(const Event& event, std::size_t hole) {
    Event* const heap = heap_.data() + kFirst;
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / kChildren;
      if (!before(event, heap[parent])) break;
      heap[hole] = heap[parent];
      hole = parent;
    }
    heap[hole] = event;
  }

  LargeTable<Event> heap_;  // behind kFirst unused rows
  std::size_t size_ = 0;
};

}  // namespace orrery::sim
