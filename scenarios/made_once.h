// Internal to the room: what is made of a document, remembered with it. Thousands of scenarios name the same few
// devices and software generations, whose tables of numbers take longer to read and check than all the rest of a
// scenario. A memo, not state: what a document comes to hangs on its text alone. Left out: documents that are no longer
// used are not let go; a process reads those that ship, and a few of its user's.
#pragma once

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

#include "sim/settings.h"

namespace orrery::scenarios {

/// For several threads at a time; two that miss the same document at once both make it.
template <class Value>
class MadeOnce {
 public:
  /// make(document), where it was not made for a copy of this very document before. What throws is not remembered.
  template <class Make>
  Value of(const sim::Settings& document, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      const auto known =
          std::find_if(known_.begin(), known_.end(), [&](const auto& one) { return one.first.same_as(document); });
      if (known != known_.end()) {
        known_.splice(known_.begin(), known_, known);
        return known->second;
      }
    }
    Value made = make(document);
    const std::lock_guard lock(mutex_);
    known_.emplace_front(document, made);
    if (known_.size() > kMost) known_.pop_back();
    return made;
  }

 private:
  static constexpr std::size_t kMost = 128;  // there are fewer of a kind

  std::mutex mutex_;
  std::list<std::pair<sim::Settings, Value>> known_;  // asked for last first
};

}  // namespace orrery::scenarios
