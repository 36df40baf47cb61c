// Events by instant. Where replicas do the same, thousands of events lie at one instant: the heap (event_queue.h) then
// holds the instant once, and who has an event at it stands in a list beside it. Whether an instant has a list yet, a
// small table says that remembers the last instants asked for; one that it has forgotten gets another list, and all of
// an instant are put together when it comes. An instant with one event is an entry of the heap and nothing else.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/event_queue.h"
#include "sim/hash.h"

namespace orrery::sim {

class InstantQueue {
 public:
  bool empty() const { return heap_.empty(); }
  /// The earliest instant; the queue is not empty.
  std::int64_t next() const { return heap_.top().at; }

  void push(const Event& event) {
    Recent& recent = recent_[place(event.at)];
    if (recent.at != event.at) {
      recent = {event.at, kNone};
      heap_.push({event.at, event.subject, event.version});
      return;
    }
    if (recent.list == kNone) {
      recent.list = unused_list();
      heap_.push({event.at, kList, recent.list});
    }
    lists_[recent.list].push_back(event);
  }

  /// All events of the earliest instant, by subject and version; valid until the next call.
  std::span<const Event> take() {
    const std::int64_t now = next();
    Recent& recent = recent_[place(now)];
    if (recent.at == now) recent = {};
    taken_.clear();
    while (!heap_.empty() && heap_.top().at == now) {
      const Event event = heap_.pop();
      if (event.subject == kList)
        take_list(event.version);
      else
        taken_.push_back(event);
    }
    const auto before = [](const Event& a, const Event& b) {
      return a.subject != b.subject ? a.subject < b.subject : a.version < b.version;
    };
    if (!std::is_sorted(taken_.begin(), taken_.end(), before)) std::sort(taken_.begin(), taken_.end(), before);
    return taken_;
  }

  /// No event has this subject.
  static constexpr std::uint32_t kList = 0xffffffff;

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::size_t kRecent = 64;

  struct Recent {
    std::int64_t at = -1;
    std::uint32_t list = kNone;  // none: a single event
  };

  static std::size_t place(std::int64_t at) { return mix64(static_cast<std::uint64_t>(at)) % kRecent; }

  std::uint32_t unused_list() {
    if (unused_.empty()) {
      lists_.emplace_back();
      return static_cast<std::uint32_t>(lists_.size() - 1);
    }
    const std::uint32_t list = unused_.back();
    unused_.pop_back();
    return list;
  }

  void take_list(std::uint32_t number) {
    std::vector<Event>& list = lists_[number];
    taken_.insert(taken_.end(), list.begin(), list.end());
    list.clear();
    unused_.push_back(number);
  }

  EventQueue heap_;                        // single events, and lists by number
  std::vector<std::vector<Event>> lists_;  // of one instant each
  std::vector<std::uint32_t> unused_;      // lists of none
  std::array<Recent, kRecent> recent_;
  std::vector<Event> taken_;
};

}  // namespace orrery::sim
