// The loop.
#include "workloads/runs/serving/replica.h"

#include <algorithm>

#include "sim/error.h"

namespace orrery::serving {

Replica::Replica(const Trace& trace, const Limits& limits, StepTimes& times, std::vector<Sequence>& sequences,
                 Outcome& outcome, std::int32_t number, ClosedLoop* loop)
    : tiers_(limits.tiers),
      scheduler_(trace, limits, sequences),
      times_(times),
      outcome_(outcome),
      loop_(loop),
      number_(number),
      trace_(trace) {
  if (!limits.tiers.empty() && limits.prefix_caching) scheduler_.lie_above(&tiers_);
}

bool Replica::could_begin() const {
  const bool overtakes = scheduler_.limits().order == Order::priority;
  return (scheduler_.waiting().empty() || scheduler_.gathering() || overtakes) &&
         scheduler_.running() < scheduler_.limits().sequences;
}

std::int64_t Replica::steps_until(Time seen, std::int64_t most) {
  const std::int64_t reached =
      seen > now_ ? steps_to_reach(times_, scheduler_.decoding(), scheduler_.keys(), most, seen - now_) : 0;
  std::int64_t steps = std::max<std::int64_t>(1, reached + (scheduler_.limits().ahead ? 1 : 0));
  if (const std::int64_t every = scheduler_.limits().polls_every; every > 1) {
    const std::int64_t since = (scheduler_.steps() - polled_) % every;
    steps = (since + steps + every - 1) / every * every - since;
  }
  return std::min(steps, most);
}

void Replica::note_polls(std::int64_t sequences, std::int64_t keys, std::int64_t steps) {
  const std::int64_t every = scheduler_.limits().polls_every;
  if (every == 1) return;
  const std::int64_t since = (scheduler_.steps() - polled_) % every;
  const std::int64_t last = (since + steps - 1) / every * every - since;  // before the stretch's end
  if (last < 1) return;
  const std::int64_t behind = scheduler_.limits().ahead ? last - 1 : last;
  polled_known_ = now_ + (behind > 0 ? time_of_steps(times_, sequences, keys, behind) : 0);
}

bool Replica::come(std::int32_t request, Time at, Time arrival) {
  Served& served = outcome_.requests[static_cast<std::size_t>(request)];
  served.arrival = arrival;
  served.replica = number_;
  if (scheduler_.blocks_at_end(request) > scheduler_.blocks().capacity()) {
    served.refused = true;
    return false;
  }
  if (full()) {
    served.refused = served.turned_away = true;
    return false;
  }
  read_ = std::max(read_, at) + scheduler_.limits().front_token * scheduler_.request(request).input;
  Time seen = read_ + scheduler_.limits().front;
  if (!scheduler_.limits().tiers.empty() && scheduler_.limits().prefix_caching) {
    const auto contents = trace_.contents_of(scheduler_.request(request));
    const std::int64_t here = scheduler_.blocks().found(contents);
    const CacheTiers::Read read = tiers_.read(contents.subspan(static_cast<std::size_t>(here)), seen);
    if (read.contents > 0) scheduler_.stage(request, here, here + read.contents);
    seen = read.there;
  }
  // Who waits for what is read is overtaken.
  const auto later = [](Time time, const Coming& other) { return time < other.seen; };
  coming_.insert(std::upper_bound(coming_.begin(), coming_.end(), seen, later), {seen, request});
  return true;
}

std::int64_t Replica::found(std::span<const std::int32_t> contents) const {
  const std::int64_t here = scheduler_.blocks().found(contents);
  return here + tiers_.found(contents.subspan(static_cast<std::size_t>(here)));
}

Time Replica::next_turn(Time at) {
  if (stretch_.steps == 0 || at <= now_) return std::max(at, now_);
  const std::int64_t sequences = scheduler_.decoding(), keys = scheduler_.keys();
  const std::int64_t steps = steps_to_reach(times_, sequences, keys, stretch_.steps, at - now_);
  return now_ + time_of_steps(times_, sequences, keys, steps);
}

std::vector<bool> Replica::contents() const {
  std::vector<bool> all(static_cast<std::size_t>(trace_.different));
  for (std::int32_t content = 0; content < trace_.different; ++content)
    all[static_cast<std::size_t>(content)] = found({&content, 1}) > 0;
  return all;
}

void Replica::fail(Time at) {
  run(at);
  if (stretch_.steps > 0) {
    const std::int64_t sequences = scheduler_.decoding(), keys = scheduler_.keys();
    std::int64_t steps = at > now_ ? steps_to_reach(times_, sequences, keys, stretch_.steps, at - now_) : 0;
    while (steps > 0 && now_ + time_of_steps(times_, sequences, keys, steps) > at) --steps;
    if (steps > 0) {
      stretch_ = {steps, now_ + time_of_steps(times_, sequences, keys, steps)};
      do_stretch();
    }
    stretch_ = {};
  }
  failed_ = true;
}

std::vector<std::int32_t> Replica::abandon() {
  for (const Coming& joining : joining_) {
    outcome_.requests[static_cast<std::size_t>(joining.request)].begun = now_;
    scheduler_.join(joining.request);
  }
  joining_.clear();
  while (scheduler_.running() > 0) {
    Served& served = outcome_.requests[static_cast<std::size_t>(scheduler_.preempt())];
    if (served.first != kNever) served.last = now_;
  }
  scheduler_.take_preempted();
  const std::deque<std::int32_t> waiting = scheduler_.take_waiting();
  std::vector<std::int32_t> all(waiting.begin(), waiting.end());
  for (const Coming& coming : coming_) all.push_back(coming.request);
  coming_.clear();
  return all;
}

void Replica::add(std::int32_t request, Time at, Time arrival) {
  run(at);
  if (!come(request, at, arrival) || stretch_.steps == 0 || !could_begin()) return;
  const std::int64_t steps = steps_until(coming_.front().seen, stretch_.steps);
  if (steps == stretch_.steps) return;
  stretch_ = {steps, now_ + time_of_steps(times_, scheduler_.decoding(), scheduler_.keys(), steps)};
}

Time Replica::first_seen() const {
  const Time comes = coming_.empty() ? kNever : coming_.front().seen;
  return joining_.empty() ? comes : std::min(comes, joining_.front().seen);
}

Time Replica::next() const {
  if (failed_) return kNever;
  if (stretch_.steps > 0) return stretch_.end;
  if (blocked_) return kNever;
  if (!idle()) return now_;
  const Time seen = first_seen();
  return seen == kNever ? kNever : std::max(now_, seen);
}

void Replica::act() {
  if (stretch_.steps > 0) {
    do_stretch();
    end_all();
    return;
  }
  now_ = next();
  plan_next();
}

void Replica::run(Time until) {
  for (;;) {
    const Time at = next();
    if (at == kNever || (in_stretch() ? at > until : at >= until)) return;
    act();
  }
}

void Replica::wake(Time at) {
  if (!blocked_) return;
  blocked_ = false;
  began_ = now_ = std::max(now_, at);
}

void Replica::give_left(std::int64_t blocks, Time at) {
  scheduler_.give_left(blocks);
  wake(at);
}

void Replica::join(std::int32_t request, Time at, Time shown) {
  Served& served = outcome_.requests[static_cast<std::size_t>(request)];
  if (scheduler_.sequence(request).generated == 0) {
    served.arrival = at;
    served.first = served.last = shown;
  } else if (shown != kNever) {  // behind a failure its tokens go on
    outcome_.between_tokens.add(static_cast<double>(shown - served.last), 1);
    served.last = shown;
  }
  served.replica = number_;
  joining_.push_back({at, request});
  wake(at);
  if (stretch_.steps == 0) return;
  const std::int64_t steps = steps_until(joining_.front().seen, stretch_.steps);
  if (steps < stretch_.steps)
    stretch_ = {steps, now_ + time_of_steps(times_, scheduler_.decoding(), scheduler_.keys(), steps)};
}

void Replica::take_in() {
  const Time known = scheduler_.limits().ahead && !idle() ? began_ : now_;
  while (!joining_.empty() && joining_.front().seen <= known) {
    const std::int32_t id = joining_.front().request;
    Served& served = outcome_.requests[static_cast<std::size_t>(id)];
    joining_.pop_front();
    served.begun = now_;
    scheduler_.join(id);
    if (served.first == kNever)
      joined_.push_back(id);
    else
      since_.emplace_back(served.last, 1);
  }
  const bool looks = idle() || polls_now();
  if (looks) polled_ = scheduler_.steps();
  while (!coming_.empty() && coming_.front().seen <= (looks ? known : polled_known_)) {
    scheduler_.wait(coming_.front().request);
    coming_.pop_front();
  }
}

void Replica::plan_next() {
  take_in();
  plan_.decodes = true;
  plan_.chunks.clear();
  scheduler_.limits().batching->next(scheduler_, plan_);
  const std::vector<std::int32_t> preempted = scheduler_.take_preempted();
  outcome_.preemptions += static_cast<std::int64_t>(preempted.size());
  for (const std::int32_t id : preempted) {
    Served& served = outcome_.requests[static_cast<std::size_t>(id)];
    ++served.preemptions;
    if (served.first != kNever) served.last = now_;  // its last token so far
  }
  sample();
  if (!plan_.chunks.empty()) return do_mixed(plan_);
  const std::int64_t sequences = scheduler_.decoding();
  blocked_ = sequences == 0 && (left_ != nullptr || scheduler_.reserved() > 0);
  if (blocked_) return;
  SIM_CHECK(sequences > 0, "nothing runs, and {} requests wait", scheduler_.waiting().size());
  // Nothing changes before the first end, or before a block is missing.
  std::int64_t steps = std::min(scheduler_.steps_to_end(), scheduler_.steps_of_blocks());
  // A preemption frees blocks: who waits may begin in the iteration behind it.
  if (!preempted.empty()) steps = 1;
  if (scheduler_.gathering()) steps = std::min(steps, scheduler_.gather_left());
  if (!coming_.empty() && could_begin()) steps = std::min(steps, steps_until(coming_.front().seen, steps));
  if (!joining_.empty()) steps = std::min(steps, steps_until(joining_.front().seen, steps));
  stretch_.steps = steps;
  stretch_.end = now_ + time_of_steps(times_, sequences, scheduler_.keys(), steps);
}

void Replica::count_blocks(Time span) {
  const std::int64_t used = scheduler_.blocks().used();
  outcome_.block_time += static_cast<double>(used) * static_cast<double>(span);
  outcome_.peak_blocks = std::max(outcome_.peak_blocks, used);
}

Hour& Replica::hour() {
  constexpr Time kHour = 3'600'000'000'000'000;
  const std::size_t at = std::min(static_cast<std::size_t>(now_ / kHour), Outcome::kMostHours - 1);
  if (outcome_.hours.size() <= at) outcome_.hours.resize(at + 1);
  return outcome_.hours[at];
}

void Replica::add_to(std::vector<Work>& list, std::size_t at, const Work& work) {
  if (list.size() <= at) list.resize(at + 1);
  list[at] += work;
}

void Replica::do_mixed(const Plan& plan) {
  pieces_.clear();
  std::int64_t fresh = 0, finished = 0;
  double pairs = 0;
  for (const Chunk& chunk : plan.chunks) {
    const Sequence& s = scheduler_.sequence(chunk.sequence);
    Served& served = outcome_.requests[static_cast<std::size_t>(chunk.sequence)];
    if (served.begun == kNever) served.begun = now_;
    pieces_.push_back({chunk.fresh, s.computed});
    fresh += chunk.fresh;
    finished += s.computed + chunk.fresh == s.prompt ? 1 : 0;
    const auto tokens = static_cast<double>(chunk.fresh);
    pairs += tokens * (static_cast<double>(s.computed) + (tokens + 1) / 2);
  }
  const std::int64_t decodes = plan.decodes ? scheduler_.decoding() : 0;
  const std::int64_t keys = decodes > 0 ? scheduler_.keys() : 0;
  const Time took = times_.mixed({decodes, keys, pieces_, decodes + finished});
  const auto at = static_cast<std::size_t>((fresh + decodes) / Outcome::kMixedClass);
  const Work work{1,
                  static_cast<double>(decodes),
                  static_cast<double>(keys),
                  static_cast<double>(pieces_.size()),
                  static_cast<double>(fresh),
                  pairs,
                  static_cast<double>(decodes + finished),
                  took};
  add_to(outcome_.mixed, at, work);
  Hour& hour = this->hour();
  add_to(hour.mixed, at, work);
  hour.output_tokens += static_cast<double>(decodes + finished);
  outcome_.busy += took;
  if (decodes > 0) {
    // Drafts that are accepted in the mean come to whole tokens now and then.
    credit_ += scheduler_.limits().tokens_per_iteration - 1;
    std::int64_t steps = 1;
    if (credit_ >= 1) {
      const std::int64_t most = std::min(scheduler_.steps_to_end(), scheduler_.steps_of_blocks());
      steps = std::clamp<std::int64_t>(1 + static_cast<std::int64_t>(credit_), 1, std::max<std::int64_t>(1, most));
      credit_ = std::min(credit_ - static_cast<double>(steps - 1), 1.0);
    }
    scheduler_.do_steps(steps);
    record_steps(steps, took);
    show_first(now_ + took);
  }
  count_blocks(took);
  began_ = now_;
  now_ += took;
  polled_ = scheduler_.steps();
  for (const Chunk& chunk : plan.chunks) {
    if (scheduler_.finish_chunk(chunk)) emit_first(chunk.sequence);
  }
  end_all();
}

void Replica::emit_first(std::int32_t id) {
  Served& served = outcome_.requests[static_cast<std::size_t>(id)];
  ++outcome_.output_tokens;
  if (served.first == kNever) {
    served.first = now_;
    outcome_.first_time += static_cast<double>(now_ - served.arrival);
    ++outcome_.firsts;
  } else {  // behind a preemption its tokens go on
    outcome_.between_tokens.add(static_cast<double>(now_ - served.last), 1);
  }
  served.last = now_;
  if (scheduler_.sequence(id).generated < scheduler_.request(id).output) since_.emplace_back(now_, 1);
}

void Replica::show_first(Time at) {
  for (const std::int32_t id : joined_) outcome_.requests[static_cast<std::size_t>(id)].first = at;
  joined_.clear();
}

void Replica::do_stretch() {
  const std::int64_t steps = stretch_.steps;
  const std::int64_t sequences = scheduler_.decoding(), keys = scheduler_.keys();
  const Time took = stretch_.end - now_;
  const auto at = static_cast<std::size_t>(sequences);
  const auto n = static_cast<double>(steps), b = static_cast<double>(sequences);
  Work work;
  work.iterations = n;
  work.decodes = work.sampled = n * b;
  work.keys = n * static_cast<double>(keys) + b * n * (n - 1) / 2;
  work.time = took;
  add_to(outcome_.decode, at, work);
  Hour& hour = this->hour();
  add_to(hour.decode, at, work);
  hour.output_tokens += n * b;
  outcome_.busy += took;
  record_steps(steps, took);
  if (!joined_.empty()) show_first(now_ + times_.decode(sequences, keys).at(keys));
  note_polls(sequences, keys, steps);
  scheduler_.do_steps(steps);
  count_blocks(took);
  now_ += took;
  if (scheduler_.limits().ahead) {
    const std::int64_t last = keys + (steps - 1) * sequences;
    began_ = now_ - times_.decode(sequences, last).at(last);
  }
  stretch_ = {};
}

void Replica::record_steps(std::int64_t steps, Time took) {
  const std::int64_t sequences = scheduler_.decoding();
  outcome_.output_tokens += steps * sequences;
  // The first gap of those that have just had their first token, or that stood still, is another than an iteration.
  const Time each = took / steps;
  std::int64_t others = sequences - std::ssize(joined_);
  for (const auto& [at, count] : since_) {
    outcome_.between_tokens.add(static_cast<double>(now_ + each - at), static_cast<double>(count));
    others -= count;
  }
  since_.clear();
  if (others > 0) outcome_.between_tokens.add(static_cast<double>(now_ + each - last_), static_cast<double>(others));
  if (steps > 1) outcome_.between_tokens.add(static_cast<double>(each), static_cast<double>((steps - 1) * sequences));
  last_ = now_ + took;
}

void Replica::end_all() {
  scheduler_.each_finished([&](std::int32_t id) {
    outcome_.requests[static_cast<std::size_t>(id)].last = now_;
    outcome_.end = std::max(outcome_.end, now_);
    if (left_ != nullptr) {
      left_->push_back({id, now_, scheduler_.leave_behind(id)});
    } else {
      scheduler_.leave(id);
    }
    if (told_ != nullptr) told_->push_back({id, now_, 0});
    // Behind one that is refused the next comes at once.
    while (loop_ != nullptr && loop_->next < loop_->end && !come(loop_->next++, now_, now_)) continue;
  });
}

void Replica::sample() {
  auto& samples = outcome_.samples[static_cast<std::size_t>(number_)];
  const Sample next{now_, static_cast<std::int32_t>(scheduler_.running()),
                    static_cast<std::int32_t>(scheduler_.waiting().size()), scheduler_.blocks().used()};
  // As many as a picture has room for, at equal distances of events: every other goes when there are more.
  constexpr std::size_t kMost = 4096;
  if (skip_ > 0) {
    --skip_;
    return;
  }
  samples.push_back(next);
  skip_ = stride_ - 1;
  if (samples.size() < kMost) return;
  for (std::size_t i = 0; 2 * i < samples.size(); ++i) samples[i] = samples[2 * i];
  samples.resize((samples.size() + 1) / 2);
  stride_ *= 2;
}

}  // namespace orrery::serving
