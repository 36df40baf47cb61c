// Requests in their order, and between them what happens to the fleet.
#include "workloads/runs/serving/elastic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <queue>

#include "sim/error.h"
#include "sim/hash.h"
#include "workloads/runs/serving/replica.h"
#include "workloads/runs/serving/routing.h"

namespace orrery::serving {

std::string_view name_of(ScaleBy by) {
  static constexpr std::array<std::string_view, 3> kNames{"under_way", "waiting", "cache"};
  return kNames[static_cast<std::size_t>(by)];
}

std::string_view name_of(AtFailure what) {
  static constexpr std::array<std::string_view, 3> kNames{"migrate", "again", "lost"};
  return kNames[static_cast<std::size_t>(what)];
}

std::string_view name_of(FleetEvent::What what) {
  static constexpr std::array<std::string_view, 6> kNames{"asked_for",  "ready", "drains",
                                                          "given_back", "fails", "noticed"};
  return kNames[static_cast<std::size_t>(what)];
}

namespace {

class Elastic {
 public:
  Elastic(const Trace& trace, const Fleet& fleet, StepTimes& times)
      : trace_(trace),
        fleet_(fleet),
        times_(times),
        slow_(times, fleet.slow_factor),
        last_(trace.requests.back().arrival),
        sequences_(trace.requests.size()),
        slots_(static_cast<std::size_t>(fleet.autoscale ? fleet.autoscale->most : fleet.replicas)) {
    out_.requests.resize(trace.requests.size());
    out_.samples.resize(slots_.size());
    for (std::int64_t i = 0; i < fleet.replicas; ++i) {
      hold(i, 0);
      begin(i, 0);
    }
    if (fleet.autoscale) push({fleet.autoscale->every, What::measure, 0, 0});
    if (fleet.failures) draw_failures();
  }

  Outcome run() {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(trace_.requests.size()); ++i) {
      const Time arrival = trace_.requests[static_cast<std::size_t>(i)].arrival;
      happen_until(arrival);
      deal(i, arrival);
    }
    happen_until(kNever);
    SIM_CHECK(door_.empty(), "{} requests wait for a replica for ever", door_.size());
    for (Slot& slot : slots_) {
      if (slot.replica) slot.replica->run(kNever);
    }
    finish();
    return std::move(out_);
  }

 private:
  enum class State : std::uint8_t { away, starting, ready, draining, failed };
  struct Slot {
    State state = State::away;
    std::unique_ptr<Replica> replica;
    std::int64_t life = 0;  // that events ahead are of
    std::size_t held = 0;   // where Outcome::held has it
    Time drains = 0;
    bool leaves = false;  // is given back once its failure is over
  };
  /// In the order in which they happen at one instant.
  enum class What : std::uint8_t { ready, noticed, fails, measure, scale };
  struct Event {
    Time at = 0;
    What what = What::ready;
    std::int64_t slot = 0, life = 0;  // of scale: the measured sum's place
    bool operator<(const Event& other) const {
      if (at != other.at) return at > other.at;  // the earliest on top
      if (what != other.what) return what > other.what;
      return slot > other.slot;
    }
  };

  Slot& at(std::int64_t i) { return slots_[static_cast<std::size_t>(i)]; }
  void push(const Event& event) { events_.push(event); }
  void note(Time at, FleetEvent::What what, std::int64_t slot) {
    out_.events.push_back({at, what, static_cast<std::int32_t>(slot)});
  }

  void hold(std::int64_t i, Time now) {
    at(i).held = out_.held.size();
    out_.held.push_back({static_cast<std::int32_t>(i), now, kNever});
  }

  /// Its GPUs are given back.
  void release(std::int64_t i, Time now) {
    Slot& slot = at(i);
    out_.held[slot.held].until = now;
    note(now, FleetEvent::What::given_back, i);
    if (slot.replica) retired_.push_back(std::move(slot.replica));
    slot.state = State::away;
    ++slot.life;
  }

  void begin(std::int64_t i, Time now) {
    Slot& slot = at(i);
    StepTimes& times = i < fleet_.slow ? static_cast<StepTimes&>(slow_) : times_;
    slot.replica = std::make_unique<Replica>(trace_, fleet_.limits, times, sequences_, out_,
                                             static_cast<std::int32_t>(i), nullptr);
    slot.state = State::ready;
    note(now, FleetEvent::What::ready, i);
    open();
  }

  /// Replicas that requests go to.
  void open() {
    open_.clear();
    looks_ = {};
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const bool unnoticed = slots_[i].state == State::failed && slots_[i].replica && !slots_[i].leaves;
      if (slots_[i].state == State::ready || unnoticed) open_.push_back(static_cast<std::int64_t>(i));
    }
  }

  void deal(std::int32_t id, Time now) {
    if (open_.empty()) {
      door_.push_back(id);
      return;
    }
    const Request& request = trace_.requests[static_cast<std::size_t>(id)];
    const auto then = [&](std::int64_t number) -> Replica& {
      Replica& replica = *at(open_[static_cast<std::size_t>(number)]).replica;
      replica.run(now);
      return replica;
    };
    const std::int64_t number = routed(fleet_, std::ssize(open_), trace_, request, turns_, now, looks_, then);
    at(open_[static_cast<std::size_t>(number)]).replica->add(id, now, request.arrival);
  }

  void happen_until(Time until) {
    while (!events_.empty() && events_.top().at <= until) {
      const Event event = events_.top();
      events_.pop();
      switch (event.what) {
        case What::ready:
          ready(event);
          break;
        case What::noticed:
          noticed(event);
          break;
        case What::fails:
          fails(event);
          break;
        case What::measure:
          measure(event.at);
          break;
        case What::scale:
          scale(event.at, sums_[static_cast<std::size_t>(event.slot)]);
          break;
      }
    }
  }

  void ready(const Event& event) {
    if (at(event.slot).life != event.life) return;
    if (at(event.slot).leaves) {
      at(event.slot).leaves = false;
      return release(event.slot, event.at);
    }
    begin(event.slot, event.at);
    for (std::size_t n = door_.size(); n > 0; --n) {
      const std::int32_t id = door_.front();
      door_.pop_front();
      deal(id, event.at);
    }
  }

  // Failures.
  void draw_failures() {
    const Failures& failures = *fleet_.failures;
    for (std::int64_t i = 0; i < std::ssize(slots_); ++i) {
      if (failures.mean_s > 0)
        next_failure(i, 0, 0);
      else if (i < failures.replicas && failures.at <= last_)
        push({failures.at, What::fails, i, 0});
    }
  }

  void next_failure(std::int64_t slot, Time from, std::int64_t count) {
    const std::uint64_t key = sim::hash_pair(sim::hash_pair(fleet_.failures->seed, static_cast<std::uint64_t>(slot)),
                                             static_cast<std::uint64_t>(count));
    const double uniform = (static_cast<double>(sim::mix64(key) >> 11) + 0.5) * 0x1p-53;
    const double gap = -std::log(uniform) * fleet_.failures->mean_s * 1e12;
    if (gap > static_cast<double>(last_ - from)) return;
    push({from + std::max<Time>(1, std::llround(gap)), What::fails, slot, count + 1});
  }

  void fails(const Event& event) {
    if (fleet_.failures->mean_s > 0) next_failure(event.slot, event.at, event.life);
    Slot& slot = at(event.slot);
    if (slot.state != State::ready && slot.state != State::draining) return;
    slot.replica->fail(event.at);
    if (slot.state == State::draining && slot.replica->under_way() == 0)
      return release(event.slot, std::max(slot.drains, std::min(event.at, slot.replica->now())));
    slot.leaves = slot.state == State::draining;
    slot.state = State::failed;
    note(event.at, FleetEvent::What::fails, event.slot);
    push({std::max(event.at + fleet_.failures->noticed, slot.replica->now()), What::noticed, event.slot, slot.life});
  }

  void noticed(const Event& event) {
    Slot& slot = at(event.slot);
    note(event.at, FleetEvent::What::noticed, event.slot);
    const std::vector<std::int32_t> requests = slot.replica->abandon();
    retired_.push_back(std::move(slot.replica));
    push({event.at + fleet_.failures->restart, What::ready, event.slot, slot.life});
    open();
    for (const std::int32_t id : requests) {
      Sequence& s = sequences_[static_cast<std::size_t>(id)];
      Served& served = out_.requests[static_cast<std::size_t>(id)];
      s.staged_from = s.staged_until = 0;
      if (fleet_.failures->requests == AtFailure::lost) {
        out_.lost_tokens += s.generated;
        served.lost = true;
        served.last = event.at;
        continue;
      }
      if (fleet_.failures->requests == AtFailure::again) {
        out_.lost_tokens += s.generated;
        s.generated = 0;
        served.first = kNever;
      }
      ++out_.moved;
      deal(id, event.at);
    }
  }

  // Scaling.
  void measure(Time now) {
    const Autoscale& scale = *fleet_.autoscale;
    if (now > last_) return;
    double sum = scale.by == ScaleBy::cache ? 0 : static_cast<double>(door_.size());
    for (const std::int64_t i : open_) {
      Replica& replica = *at(i).replica;
      replica.run(now);
      const KvBlocks& blocks = replica.scheduler().blocks();
      sum += scale.by == ScaleBy::under_way ? static_cast<double>(replica.under_way())
             : scale.by == ScaleBy::waiting
                 ? static_cast<double>(replica.under_way() - replica.scheduler().running())
                 : static_cast<double>(blocks.used()) / static_cast<double>(blocks.capacity());
    }
    push({now + scale.lag, What::scale, std::ssize(sums_), 0});
    sums_.push_back(sum);
    push({now + scale.every, What::measure, 0, 0});
  }

  std::int64_t count(State state) const {
    return std::count_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.state == state; });
  }

  void scale(Time now, double sum) {
    const Autoscale& scale = *fleet_.autoscale;
    if (now > last_) return;
    for (std::int64_t i = 0; i < std::ssize(slots_); ++i) drained(i, now);
    const std::int64_t failed = std::count_if(
        slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.state == State::failed && !slot.leaves; });
    const std::int64_t current = count(State::ready) + count(State::starting) + failed;
    const double ratio = sum / (static_cast<double>(current) * scale.target);
    std::int64_t wanted = current;
    if (std::abs(ratio - 1) > scale.tolerance)
      wanted =
          std::clamp(static_cast<std::int64_t>(std::ceil(std::min(1e9, sum / scale.target))), scale.least, scale.most);
    wishes_.push_back({now, wanted});
    while (wishes_.front().first < now - scale.hold) wishes_.pop_front();
    std::int64_t most = 0;
    for (const auto& [when, wish] : wishes_) most = std::max(most, wish);
    if (wanted > current)
      grow(wanted - current, now);
    else
      shrink(current - std::min(current, most), now);
  }

  void grow(std::int64_t more, Time now) {
    for (std::int64_t i = 0; i < std::ssize(slots_) && more > 0; ++i) {
      if (at(i).state != State::away) continue;
      at(i).state = State::starting;
      hold(i, now);
      note(now, FleetEvent::What::asked_for, i);
      push({now + fleet_.autoscale->start, What::ready, i, at(i).life});
      --more;
    }
  }

  /// Those that start go first, then those with the least to do.
  void shrink(std::int64_t fewer, Time now) {
    for (std::int64_t i = std::ssize(slots_); i-- > 0 && fewer > 0;) {
      if (at(i).state != State::starting) continue;
      release(i, now);
      --fewer;
    }
    for (; fewer > 0; --fewer) {
      std::int64_t least = -1;
      for (std::int64_t i = 0; i < std::ssize(slots_); ++i) {
        if (at(i).state != State::ready) continue;
        at(i).replica->run(now);
        if (least < 0 || at(i).replica->under_way() <= at(least).replica->under_way()) least = i;
      }
      if (least < 0) break;
      at(least).state = State::draining;
      at(least).drains = now;
      note(now, FleetEvent::What::drains, least);
      drained(least, now);
    }
    open();
  }

  void drained(std::int64_t i, Time now) {
    Slot& slot = at(i);
    if (slot.state != State::draining) return;
    slot.replica->run(now);
    if (slot.replica->under_way() == 0 && slot.replica->now() <= now)
      release(i, std::max(slot.drains, slot.replica->now()));
  }

  void finish() {
    for (std::int64_t i = 0; i < std::ssize(slots_); ++i) {
      if (at(i).state == State::draining) release(i, std::max(at(i).drains, at(i).replica->now()));
    }
    for (Slot& slot : slots_) {
      if (slot.replica) retired_.push_back(std::move(slot.replica));
    }
    for (const auto& replica : retired_) {
      out_.prompt_tokens += replica->scheduler().prompt_tokens();
      out_.found_tokens += replica->scheduler().found_tokens();
      add_tiers(out_.tiers, replica->tiers());
    }
    out_.end = std::max(out_.end, last_);
    for (Held& held : out_.held) held.until = std::max(held.from, std::min(held.until, out_.end));
    std::stable_sort(out_.events.begin(), out_.events.end(),
                     [](const FleetEvent& a, const FleetEvent& b) { return a.at < b.at; });
  }

  const Trace& trace_;
  const Fleet& fleet_;
  StepTimes& times_;
  SlowTimes slow_;
  Time last_;  // arrival
  std::vector<Sequence> sequences_;
  Outcome out_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<Replica>> retired_;
  std::vector<std::int64_t> open_;
  std::deque<std::int32_t> door_;  // requests that no replica takes
  Turns turns_;
  Looks looks_;
  std::priority_queue<Event> events_;
  std::vector<double> sums_;
  std::deque<std::pair<Time, std::int64_t>> wishes_;
};

}  // namespace

Outcome serve_elastic(const Trace& trace, const Fleet& fleet, StepTimes& times) {
  SIM_CHECK(fleet.limits.batching != nullptr && trace.concurrency == 0 && !trace.requests.empty(),
            "a fleet that changes serves an open loop");
  return Elastic(trace, fleet, times).run();
}

}  // namespace orrery::serving
