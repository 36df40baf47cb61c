// Slots for replicas, and what happens to them.
#include "workloads/runs/serving/pool.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/hash.h"

namespace orrery::serving {

std::string_view name_of(ScaleBy by) {
  static constexpr std::array<std::string_view, 5> kNames{"under_way", "waiting", "cache", "ttft", "itl"};
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

Pool::Pool(const Trace& trace, const Fleet& fleet, StepTimes& times, Time last, const Tells& tells, std::uint64_t salt)
    : trace_(trace),
      fleet_(fleet),
      times_(times),
      slow_(times, fleet.slow_factor),
      last_(last),
      tells_(tells),
      salt_(salt),
      sequences_(trace.requests.size()),
      slots_(static_cast<std::size_t>(fleet.autoscale ? fleet.autoscale->most : fleet.replicas)) {
  outcome.requests.resize(trace.requests.size());
  outcome.samples.resize(slots_.size());
  for (std::int64_t i = 0; i < fleet.replicas; ++i) {
    if (changes()) hold(i, 0);
    begin(i, 0);
  }
  if (fleet.autoscale) events_.push({fleet.autoscale->every, What::measure, 0, 0});
  if (fleet.failures) draw_failures();
}

std::optional<Pool::Act> Pool::first() {
  while (!acts_.empty()) {
    const Act act = acts_.top();
    const Slot& s = slot(act.replica);
    if (s.replica && s.replica->next() == act.at && (s.replica->in_stretch() ? 0 : 1) == act.rank) return act;
    acts_.pop();
  }
  return std::nullopt;
}

Pool::Change Pool::happen(std::int64_t outside) {
  const Event event = events_.top();
  events_.pop();
  switch (event.what) {
    case What::ready:
      return ready(event);
    case What::noticed:
      return noticed(event);
    case What::fails:
      return fails(event);
    case What::measure:
      measure(event.at, outside);
      return {};
    case What::scale:
      return scale(event.at, figures_[static_cast<std::size_t>(event.slot)]);
  }
  return {};
}

void Pool::hold(std::int64_t i, Time now) {
  slot(i).held = outcome.held.size();
  outcome.held.push_back({static_cast<std::int32_t>(i), now, kNever});
}

/// Its GPUs are given back.
void Pool::release(std::int64_t i, Time now) {
  Slot& s = slot(i);
  outcome.held[s.held].until = now;
  note(now, FleetEvent::What::given_back, i);
  if (s.replica) retired_.push_back(std::move(s.replica));
  s.state = State::away;
  ++s.life;
}

void Pool::begin(std::int64_t i, Time now) {
  Slot& s = slot(i);
  StepTimes& times = i < fleet_.slow ? static_cast<StepTimes&>(slow_) : times_;
  s.replica = std::make_unique<Replica>(trace_, fleet_.limits, times, sequences_, outcome, static_cast<std::int32_t>(i),
                                        nullptr);
  if (tells_.left != nullptr) s.replica->leave_behind(*tells_.left);
  if (tells_.told != nullptr) s.replica->tell(*tells_.told);
  s.state = State::ready;
  s.kept = 0;
  if (changes()) note(now, FleetEvent::What::ready, i);
  open_anew();
}

void Pool::open_anew() {
  open_.clear();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const bool unnoticed = slots_[i].state == State::failed && slots_[i].replica && !slots_[i].leaves;
    if (slots_[i].state == State::ready || unnoticed) open_.push_back(static_cast<std::int64_t>(i));
  }
}

Pool::Change Pool::ready(const Event& event) {
  Slot& s = slot(event.slot);
  if (s.life != event.life) return {};
  if (s.leaves) {
    s.leaves = false;
    release(event.slot, event.at);
    return {};
  }
  begin(event.slot, event.at);
  return {Change::What::opens, event.at, event.slot, {}};
}

void Pool::draw_failures() {
  const Failures& failures = *fleet_.failures;
  for (std::int64_t i = 0; i < std::ssize(slots_); ++i) {
    if (failures.mean_s > 0)
      next_failure(i, 0, 0);
    else if (i < failures.replicas && failures.at <= last_)
      events_.push({failures.at, What::fails, i, 0});
  }
}

void Pool::next_failure(std::int64_t i, Time from, std::int64_t count) {
  const std::uint64_t seed = salt_ == 0 ? fleet_.failures->seed : sim::hash_pair(fleet_.failures->seed, salt_);
  const std::uint64_t key =
      sim::hash_pair(sim::hash_pair(seed, static_cast<std::uint64_t>(i)), static_cast<std::uint64_t>(count));
  const double uniform = (static_cast<double>(sim::mix64(key) >> 11) + 0.5) * 0x1p-53;
  const double gap = -std::log(uniform) * fleet_.failures->mean_s * 1e12;
  if (gap > static_cast<double>(last_ - from)) return;
  events_.push({from + std::max<Time>(1, std::llround(gap)), What::fails, i, count + 1});
}

Pool::Change Pool::fails(const Event& event) {
  if (fleet_.failures->mean_s > 0) next_failure(event.slot, event.at, event.life);
  Slot& s = slot(event.slot);
  if ((s.state != State::ready && s.state != State::draining) || failures_ >= kMostFailures) return {};
  s.replica->fail(event.at);
  if (s.state == State::draining && s.replica->under_way() == 0 && s.kept == 0) {
    release(event.slot, std::max({s.drains, s.gave, std::min(event.at, s.replica->now())}));
    return {};
  }
  ++failures_;
  s.leaves = s.state == State::draining;
  s.state = State::failed;
  note(event.at, FleetEvent::What::fails, event.slot);
  events_.push({std::max(event.at + fleet_.failures->noticed, s.replica->now()), What::noticed, event.slot, s.life});
  return {Change::What::fails, event.at, event.slot, {}};
}

Pool::Change Pool::noticed(const Event& event) {
  Slot& s = slot(event.slot);
  note(event.at, FleetEvent::What::noticed, event.slot);
  Change change{Change::What::noticed, event.at, event.slot, s.replica->abandon()};
  retired_.push_back(std::move(s.replica));
  s.kept = 0;
  events_.push({event.at + fleet_.failures->restart, What::ready, event.slot, s.life});
  open_anew();
  return change;
}

double Pool::mean_first(std::int64_t outside) {
  const double time = outcome.first_time - first_time_, count = outcome.firsts - firsts_;
  first_time_ = outcome.first_time;
  firsts_ = outcome.firsts;
  if (count > 0) return time / count / 1e12;
  // Nobody had a first token: all is quiet, or nothing is known.
  bool quiet = outside == 0;
  for (const std::int64_t i : open_) quiet = quiet && at(i).under_way() == 0;
  return quiet ? 0 : fleet_.autoscale->target;
}

double Pool::mean_between() {
  double time = 0, sequences = 0;
  for (const std::int64_t i : open_) {
    const Scheduler& scheduler = at(i).scheduler();
    if (scheduler.decoding() == 0) continue;
    StepTimes& times = i < fleet_.slow ? static_cast<StepTimes&>(slow_) : times_;
    const auto count = static_cast<double>(scheduler.decoding());
    time += count * static_cast<double>(times.decode(scheduler.decoding(), scheduler.keys()).at(scheduler.keys()));
    sequences += count;
  }
  return sequences > 0 ? time / sequences / 1e12 : 0;
}

/// Summed over replicas, or a mean.
double Pool::measured(Time now, std::int64_t outside) {
  const Autoscale& scale = *fleet_.autoscale;
  for (const std::int64_t i : open_) at(i).run(now);
  if (scale.by == ScaleBy::ttft) return mean_first(outside);
  if (scale.by == ScaleBy::itl) return mean_between();
  double sum = scale.by == ScaleBy::cache ? 0 : static_cast<double>(outside);
  for (const std::int64_t i : open_) {
    Replica& replica = at(i);
    const KvBlocks& blocks = replica.scheduler().blocks();
    sum += scale.by == ScaleBy::under_way ? static_cast<double>(replica.under_way())
           : scale.by == ScaleBy::waiting ? static_cast<double>(replica.under_way() - replica.scheduler().running())
                                          : static_cast<double>(blocks.used()) / static_cast<double>(blocks.capacity());
  }
  return sum;
}

void Pool::measure(Time now, std::int64_t outside) {
  const Autoscale& scale = *fleet_.autoscale;
  if (now > last_) return;
  events_.push({now + scale.lag, What::scale, std::ssize(figures_), 0});
  figures_.push_back(measured(now, outside));
  events_.push({now + scale.every, What::measure, 0, 0});
}

std::int64_t Pool::count(State state) const {
  return std::count_if(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.state == state; });
}

Pool::Change Pool::scale(Time now, double figure) {
  const Autoscale& scale = *fleet_.autoscale;
  if (now > last_) return {};
  for (std::int64_t i = 0; i < std::ssize(slots_); ++i) drained(i, now);
  const std::int64_t failed =
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& s) { return s.state == State::failed && !s.leaves; });
  const std::int64_t current = count(State::ready) + count(State::starting) + failed;
  const double sum = is_mean(scale.by) ? figure * static_cast<double>(current) : figure;
  const double ratio = sum / (static_cast<double>(current) * scale.target);
  std::int64_t wanted = current;
  if (std::abs(ratio - 1) > scale.tolerance)
    wanted =
        std::clamp(static_cast<std::int64_t>(std::ceil(std::min(1e9, sum / scale.target))), scale.least, scale.most);
  wishes_.push_back({now, wanted});
  while (wishes_.front().first < now - scale.hold) wishes_.pop_front();
  std::int64_t most = 0;
  for (const auto& [when, wish] : wishes_) most = std::max(most, wish);
  const std::size_t were = open_.size();
  if (wanted > current)
    grow(wanted - current, now);
  else
    shrink(current - std::min(current, most), now);
  return open_.size() < were ? Change{Change::What::closes, now, 0, {}} : Change{};
}

void Pool::grow(std::int64_t more, Time now) {
  for (std::int64_t i = 0; i < std::ssize(slots_) && more > 0; ++i) {
    if (slot(i).state != State::away) continue;
    slot(i).state = State::starting;
    hold(i, now);
    note(now, FleetEvent::What::asked_for, i);
    events_.push({now + fleet_.autoscale->start, What::ready, i, slot(i).life});
    --more;
  }
}

/// Those that start go first, then those with the least to do.
void Pool::shrink(std::int64_t fewer, Time now) {
  for (std::int64_t i = std::ssize(slots_); i-- > 0 && fewer > 0;) {
    if (slot(i).state != State::starting) continue;
    release(i, now);
    --fewer;
  }
  for (; fewer > 0; --fewer) {
    std::int64_t least = -1;
    for (std::int64_t i = 0; i < std::ssize(slots_); ++i) {
      if (slot(i).state != State::ready) continue;
      at(i).run(now);
      if (least < 0 || at(i).under_way() <= at(least).under_way()) least = i;
    }
    if (least < 0) break;
    slot(least).state = State::draining;
    slot(least).drains = now;
    note(now, FleetEvent::What::drains, least);
    drained(least, now);
  }
  open_anew();
}

void Pool::drained(std::int64_t i, Time now) {
  Slot& s = slot(i);
  if (s.state != State::draining) return;
  s.replica->run(now);
  if (s.replica->under_way() == 0 && s.kept == 0 && s.replica->now() <= now)
    release(i, std::max({s.drains, s.gave, s.replica->now()}));
}

void Pool::finish(Time end) {
  for (std::int64_t i = 0; i < std::ssize(slots_); ++i)
    if (slot(i).state == State::draining) release(i, std::max({slot(i).drains, slot(i).gave, at(i).now()}));
  // In the order in which they came to be where none left.
  for (Slot& s : slots_) {
    if (s.replica) retired_.push_back(std::move(s.replica));
  }
  for (const auto& replica : retired_) {
    outcome.prompt_tokens += replica->scheduler().prompt_tokens();
    outcome.found_tokens += replica->scheduler().found_tokens();
    add_tiers(outcome.tiers, replica->tiers());
  }
  if (!changes()) return;
  outcome.end = std::max(outcome.end, end);
  for (Held& held : outcome.held) held.until = std::max(held.from, std::min(held.until, outcome.end));
  std::stable_sort(outcome.events.begin(), outcome.events.end(),
                   [](const FleetEvent& a, const FleetEvent& b) { return a.at < b.at; });
}

}  // namespace orrery::serving
