// The event queue: a 4-ary heap of 16-byte events. Four children share a cache line, and sift-down, the costly half,
// takes half the levels of a binary heap (LaMarca & Ladner, The influence of caches on the performance of heaps,
// 1996). An event is a hint; whether it still holds, the owner's table says (`version`). Ties break by content, so
// equal sets of events come out in the same order whatever the order they were pushed in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace orrery::sim {

struct Event {
  std::int64_t at = 0;        // ps
  std::uint32_t subject = 0;  // row of the owner's table
  std::uint32_t version = 0;  // of that row when the event was made
};
static_assert(sizeof(Event) == 16 && std::is_trivially_copyable_v<Event>);

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  /// The earliest event; the queue is not empty.
  const Event& top() const { return heap_.front(); }
  void reserve(std::size_t n) { heap_.reserve(n); }

  void push(const Event& event) {
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / kChildren;
      if (!before(event, heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
  }

  Event pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    const std::size_t n = heap_.size();
    if (n == 0) return first;
    std::size_t hole = 0;
    while (true) {
      const std::size_t begin = hole * kChildren + 1;
      if (begin >= n) break;
      std::size_t least = begin;
      const std::size_t end = std::min(begin + kChildren, n);
      for (std::size_t child = begin + 1; child < end; ++child) {
        if (before(heap_[child], heap_[least])) least = child;
      }
      if (!before(heap_[least], last)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = last;
    return first;
  }

 private:
  static constexpr std::size_t kChildren = 4;
  static bool before(const Event& a, const Event& b) {
    if (a.at != b.at) return a.at < b.at;
    if (a.subject != b.subject) return a.subject < b.subject;
    return a.version < b.version;
  }

  std::vector<Event> heap_;
};

}  // namespace orrery::sim
