// The event queue: a radix heap (Ahuja, Mehlhorn, Orlin & Tarjan, Faster algorithms for the shortest path problem,
// 1990) with a sorted front. Time only moves on, so an event is kept by the highest digit in which its instant differs
// from one that lies before all others, and by what that digit is: a push writes to the end of a list. The list with
// the earliest instant becomes the front if it is short: it is sorted by counting, without a branch, and handed out
// from its beginning; what comes due before its end is inserted. A long list is dealt out among those below, in the
// order of memory and a few times in all, or handed out where it is a single instant, which is how replicas that do the
// same meet: thousands of events at a time. An event is a hint; whether it still holds, the owner's table says
// (`version`). Ties break by content, so equal sets of events come out in the same order whatever the order they were
// pushed in.
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
  bool empty() const { return next_ == end_ && levels_ == 0; }
  /// The earliest instant; the queue is not empty.
  std::int64_t next() const {
    if (next_ != end_) return front_[next_].at;
    if (soonest_ == kUnknown) soonest_ = least_of(lists_[earliest()]);
    return soonest_;
  }

  /// The instant taken last; 0 before.
  std::int64_t now() const { return now_; }

  /// Not before the instant taken last.
  void push(const Event& event) {
    SIM_CHECK(event.at >= now_, "an event at {} ps, after {} ps", event.at, now_);
    if (static_cast<std::uint64_t>(event.at ^ base_) < front_range_)
      insert(event);
    else
      put(event);
  }

  /// Calls with(event) for each event, in no particular order; then the queue is as it was at first.
  template <class With>
  void empty_into(With with) {
    for (; next_ != end_; ++next_) with(front_[next_]);
    for (; levels_ != 0; levels_ &= levels_ - 1) {
      const auto level = static_cast<std::size_t>(std::countr_zero(levels_));
      for (; filled_[level] != 0; filled_[level] &= filled_[level] - 1) {
        List& list = lists_[level * kDigits + static_cast<std::size_t>(std::countr_zero(filled_[level]))];
        for (const Event& event : list) with(event);
        list.clear();
      }
    }
    next_ = end_ = 0;
    now_ = base_ = 0;
    soonest_ = kUnknown;
    front_range_ = 0;
  }

  /// All events of the earliest instant, by subject and version; valid until the next call.
  std::span<const Event> take() {
    const std::span<Event> events = next_ == end_ ? take_list() : take_front();
    if (events.size() == 1) return events;
    const auto before = [](const Event& a, const Event& b) {
      return a.subject != b.subject ? a.subject < b.subject : a.version < b.version;
    };
    if (!std::is_sorted(events.begin(), events.end(), before)) std::sort(events.begin(), events.end(), before);
    return events;
  }

 private:
  static constexpr std::size_t kBits = 5, kDigits = std::size_t{1} << kBits, kLevels = (64 + kBits - 1) / kBits;
  static constexpr std::size_t kFront = 24;     // events of a list that becomes the front
  static constexpr std::int64_t kUnknown = -1;  // ps

  /// Instants that have all digits above the list's in common with base_, and the list's own with each other.
  using List = LargeTable<Event>;

  static std::int64_t least_of(const List& list) {
    std::int64_t least = list.front().at;
    for (const Event& event : list) least = std::min(least, event.at);
    return least;
  }
  /// `level` digits of an instant lie below the highest in which it differs from base_. On level 0 a list is an
  /// instant.
  std::size_t place(std::int64_t at) const {
    const auto differs = static_cast<std::uint64_t>(at ^ base_) | 1;
    const std::size_t level = static_cast<std::size_t>(std::bit_width(differs) - 1) / kBits;
    return level * kDigits + (static_cast<std::uint64_t>(at) >> level * kBits) % kDigits;
  }
  std::size_t earliest() const {
    const auto level = static_cast<std::size_t>(std::countr_zero(levels_));
    return level * kDigits + static_cast<std::size_t>(std::countr_zero(filled_[level]));
  }
  [[gnu::always_inline]] void put(const Event& event) {
    if (event.at < soonest_) soonest_ = event.at;
    const std::size_t number = place(event.at), level = number / kDigits;
    lists_[number].push_back(event);
    filled_[level] |= std::uint32_t{1} << number % kDigits;
    levels_ |= std::uint32_t{1} << level;
  }
  /// Into the front, behind what is due by then. What has been handed out stays where it is.
  void insert(const Event& event) {
    if (end_ == front_.size()) {
      spill();
      put(event);
      return;
    }
    std::size_t at = end_++;
    for (; at > next_ && front_[at - 1].at > event.at; --at) front_[at] = front_[at - 1];
    front_[at] = event;
  }
  [[gnu::noinline]] void spill() {
    front_range_ = 0;
    for (; next_ != end_; ++next_) put(front_[next_]);
  }
  std::span<Event> take_front() {
    if (next_ > kFront) {
      std::copy(front_.data() + next_, front_.data() + end_, front_.data());
      end_ -= next_;
      next_ = 0;
    }
    const std::size_t first = next_++;
    now_ = front_[first].at;
    while (next_ != end_ && front_[next_].at == now_) ++next_;
    return {&front_[first], next_ - first};
  }
  std::span<Event> take_list() {
    const std::size_t number = earliest(), level = number / kDigits;
    filled_[level] &= ~(std::uint32_t{1} << number % kDigits);
    if (filled_[level] == 0) levels_ &= ~(std::uint32_t{1} << level);
    soonest_ = kUnknown;
    List& list = lists_[number];
    if (list.size() <= kFront) {
      front_range_ = std::uint64_t{1} << level * kBits;
      base_ = list.front().at & -static_cast<std::int64_t>(front_range_);
      sort_into_front(list);
      list.clear();
      return take_front();
    }
    front_range_ = 0;
    base_ = now_ = least_of(list);
    taken_.clear();
    std::int64_t differ = 0;
    for (const Event& event : list) differ |= event.at ^ now_;
    if (differ == 0)
      taken_.swap(list);
    else
      deal_out(list);
    return taken_;
  }
  /// An event's place is the number of those that are due before it.
  void sort_into_front(const List& list) {
    next_ = 0;
    end_ = list.size();
    const Event* const events = list.data();
    const std::size_t count = list.size();
    if (count == 1) {
      front_[0] = events[0];
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t at = events[i].at;
      std::size_t before = 0;
      for (std::size_t k = 0; k < i; ++k) before += events[k].at <= at ? 1 : 0;
      for (std::size_t k = i + 1; k < count; ++k) before += events[k].at < at ? 1 : 0;
      front_[before] = events[i];
    }
  }
  /// Those of this instant are taken. Every list keeps its memory, which is as large as such a list becomes.
  void deal_out(List& list) {
    for (const Event& event : list) {
      if (event.at == now_)
        taken_.push_back(event);
      else
        put(event);
    }
    list.clear();
  }

  std::array<List, kDigits * kLevels> lists_;    // by level and digit
  std::array<std::uint32_t, kLevels> filled_{};  // bit per digit: the list is not empty
  std::uint32_t levels_ = 0;                     // bit per level likewise
  std::int64_t now_ = 0;                         // taken last
  std::int64_t base_ = 0;                        // no event lies before it
  mutable std::int64_t soonest_ = kUnknown;      // of the lists, once it was asked for
  std::array<Event, 2 * kFront> front_;          // next_ to end_, by instant
  std::size_t next_ = 0, end_ = 0;
  std::uint64_t front_range_ = 0;  // what differs from base_ by less belongs to the front
  List taken_;
};

}  // namespace orrery::sim
