// The event queue: a radix heap (Ahuja, Mehlhorn, Orlin & Tarjan, Faster algorithms for the shortest path problem,
// 1990). Time only moves on, so an event is kept by the highest digit in which its instant differs from the last one
// taken, and by what that digit is: a push writes to the end of a list, and when the earliest instant lies in a list of
// several, this is dealt out among those below, in the order of memory and a few times in all. An instant is handed out
// whole, which is how replicas that do the same meet: thousands of events at a time. An event is a hint; whether it
// still holds, the owner's table says (`version`). Ties break by content, so equal sets of events come out in the same
// order whatever the order they were pushed in.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "sim/error.h"
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
  bool empty() const { return levels_ == 0; }
  /// The earliest instant; the queue is not empty.
  std::int64_t next() const { return lists_[earliest()].least; }

  /// Not before the instant taken last.
  void push(const Event& event) {
    SIM_CHECK(event.at >= now_, "an event at {} ps, after {} ps", event.at, now_);
    put(event);
  }

  /// All events of the earliest instant, by subject and version; valid until the next call.
  std::span<const Event> take() {
    const std::size_t number = earliest();
    List& list = lists_[number];
    now_ = list.least;
    const std::size_t level = number / kDigits;
    filled_[level] &= ~(std::uint32_t{1} << number % kDigits);
    if (filled_[level] == 0) levels_ &= ~(std::uint32_t{1} << level);
    taken_.clear();
    taken_.swap(list.events);
    if (taken_.size() == 1) return taken_;
    if (level > 0) deal_out();
    const auto before = [](const Event& a, const Event& b) {
      return a.subject != b.subject ? a.subject < b.subject : a.version < b.version;
    };
    if (!std::is_sorted(taken_.begin(), taken_.end(), before)) std::sort(taken_.begin(), taken_.end(), before);
    return taken_;
  }

 private:
  static constexpr std::size_t kBits = 4, kDigits = std::size_t{1} << kBits, kLevels = 64 / kBits;

  /// Instants that have all digits above the list's in common with now_, and the list's own with each other.
  struct List {
    LargeTable<Event> events;
    std::int64_t least = 0;
  };

  /// `level` digits of an instant lie below the highest in which it differs from now_. On level 0 a list is an instant.
  std::size_t place(std::int64_t at) const {
    const auto differs = static_cast<std::uint64_t>(at ^ now_) | 1;
    const std::size_t level = static_cast<std::size_t>(std::bit_width(differs) - 1) / kBits;
    return level * kDigits + (static_cast<std::uint64_t>(at) >> level * kBits) % kDigits;
  }
  std::size_t earliest() const {
    const auto level = static_cast<std::size_t>(std::countr_zero(levels_));
    return level * kDigits + static_cast<std::size_t>(std::countr_zero(filled_[level]));
  }
  [[gnu::always_inline]] void put(const Event& event) {
    const std::size_t number = place(event.at), level = number / kDigits;
    const std::uint32_t bit = std::uint32_t{1} << number % kDigits;
    List& list = lists_[number];
    list.least = (filled_[level] & bit) != 0 ? std::min(list.least, event.at) : event.at;
    list.events.push_back(event);
    filled_[level] |= bit;
    levels_ |= std::uint32_t{1} << level;
  }
  /// Keeps those of this instant.
  void deal_out() {
    std::size_t kept = 0;
    for (const Event& event : taken_) {
      if (event.at == now_)
        taken_[kept++] = event;
      else
        put(event);
    }
    taken_.resize(kept);
  }

  std::array<List, kDigits * kLevels> lists_;    // by level and digit
  std::array<std::uint32_t, kLevels> filled_{};  // bit per digit: the list is not empty
  std::uint32_t levels_ = 0;                     // bit per level likewise
  std::int64_t now_ = 0;                         // taken last
  LargeTable<Event> taken_;
};

}  // namespace orrery::sim
