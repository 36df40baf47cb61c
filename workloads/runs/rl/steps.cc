// The two ways through time: one after the other, and overlapped.
#include "workloads/runs/rl/steps.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"

namespace orrery::rl {

namespace {

std::vector<Time> last_of(const Rollout& rollout, std::size_t from, std::size_t until) {
  std::vector<Time> ends;
  for (std::size_t i = from; i < until; ++i) ends.push_back(rollout.served[i].last);
  return ends;
}

double tokens_of(const std::vector<Sample>& samples) {
  double tokens = 0;
  for (const Sample& sample : samples) tokens += sample.input + sample.output;
  return tokens;
}

/// The trainer's line of a step, part by part, from `at` on; returns its end.
Time train_step(const Prices& prices, std::int64_t step, Time at, Steps& out, PartTimes& parts) {
  for (const auto& [part, time] :
       {std::pair(Part::reward, prices.reward), std::pair(Part::host, prices.host),
        std::pair(Part::logprob, prices.logprob), std::pair(Part::reference, prices.reference),
        std::pair(Part::critic, prices.critic), std::pair(Part::training, prices.training)}) {
    parts[static_cast<std::size_t>(part)] += time;
    if (time > 0) out.spans.push_back({step, part, false, at, at + time});
    at += time;
  }
  return at;
}

void count_batch(const Batch& batch, Steps& out) {
  out.trained += static_cast<double>(batch.trained.size());
  out.tokens += tokens_of(batch.trained);
  out.written += static_cast<double>(batch.written());
}

/// Samples that are not through when enough others are, as they stand then.
std::vector<Sample> cut_short(const std::vector<Handed>& handed, const Rollout& rollout, Time at) {
  std::vector<Sample> left;
  for (std::size_t i = 0; i < handed.size(); ++i) {
    const serving::Served& s = rollout.served[i];
    if (s.last <= at) continue;
    Sample sample = handed[i].sample;
    std::int32_t done = 0;
    if (s.first <= at && s.last > s.first) {
      const double share = static_cast<double>(at - s.first) / static_cast<double>(s.last - s.first);
      done = std::min(sample.output - 1, 1 + static_cast<std::int32_t>(share * (sample.output - 1)));
    }
    sample.input += done;
    sample.carried += done;
    sample.output -= done;
    left.push_back(sample);
  }
  return left;
}

/// What a mean over the counted steps is taken of.
void take_means(Steps& out, std::int64_t steps) {
  const auto n = static_cast<double>(steps);
  const auto mean = [&](Time& time) { time = static_cast<Time>(std::llround(static_cast<double>(time) / n)); };
  mean(out.step);
  for (Time& part : out.parts) mean(part);
  mean(out.generation);
  mean(out.half);
  for (double* sum : {&out.trained, &out.tokens, &out.written}) *sum /= n;
}

/// One batch's rounds, one after the other. Returns the time that they take.
Time write_rounds(const Batch& batch, const Fleet& fleet, serving::StepTimes& times, Steps& out, Time& busy) {
  Time at = 0;
  out.ends.clear();
  for (const std::vector<Sample>& round : batch.rounds) {
    std::vector<Handed> handed;
    for (const Sample& sample : round) handed.push_back({0, sample});
    const Rollout rollout = generate(handed, fleet, times);
    for (const serving::Served& served : rollout.served) out.ends.push_back(at + served.last);
    at += rollout.end;
    busy += rollout.busy;
    out.refused += rollout.refused;
    out.preemptions += rollout.preemptions;
  }
  return at;
}

/// A batch of which the last answers are left to the next step, and those that were left to this one.
Time write_most(const StepSpec& spec, const Batch& batch, std::vector<Sample>& left, const Fleet& fleet,
                serving::StepTimes& times, Steps& out, Time& busy) {
  std::vector<Handed> handed;
  for (const Sample& sample : left) handed.push_back({0, sample});
  const auto most = static_cast<std::size_t>(std::llround(spec.oversampling * static_cast<double>(spec.batch.count())));
  for (const Sample& sample : batch.rounds.front()) {
    if (handed.size() >= std::max(most, left.size())) break;
    Sample own = sample;
    own.prompt += static_cast<std::int32_t>(spec.batch.prompts) + 1;  // no prompt of those that were left
    handed.push_back({0, own});
  }
  const Rollout rollout = generate(handed, fleet, times);
  out.ends = last_of(rollout, 0, rollout.served.size());
  const Time end = time_of(out.ends, spec.batch.count());
  left = cut_short(handed, rollout, end);
  busy += std::min(rollout.busy, end * fleet.replicas);
  out.refused += rollout.refused;
  out.preemptions += rollout.preemptions;
  return end;
}

/// Engine and trainer by turns, on the same GPUs.
Steps run_in_turn(const StepSpec& spec, const Prices& prices, const Fleet& fleet, serving::StepTimes& times) {
  Steps out;
  Time at = 0, busy = 0;
  std::vector<Sample> left;
  const bool partial = spec.oversampling > 1;
  const std::int64_t warm = partial ? 2 : 0;  // steps until what is left over is as much as in any
  BatchSpec drawn = spec.batch;
  if (partial)
    drawn.round = static_cast<std::int64_t>(std::ceil(spec.oversampling * static_cast<double>(drawn.prompts)));
  for (std::int64_t step = 0; step < warm + spec.steps; ++step) {
    const Batch batch = draw_batch(drawn, step);
    const bool counts = step >= warm;
    if (step == warm) {
      out.spans.clear();
      at = 0;
      busy = 0;
      out.parts = {};
    }
    const Time began = at;
    const auto add = [&](Part part, bool engine, Time time) {
      out.parts[static_cast<std::size_t>(part)] += time;
      if (time > 0) out.spans.push_back({step - warm, part, engine, at, at + time});
      at += time;
    };
    const Time generation =
        partial ? write_most(spec, batch, left, fleet, times, out, busy) : write_rounds(batch, fleet, times, out, busy);
    add(Part::generation, true, generation);
    add(Part::swap, false, prices.to_trainer);
    at = train_step(prices, step - warm, at, out, out.parts);
    add(Part::swap, false, prices.to_engine);
    add(Part::weight_transfer, false, prices.weight_transfer);
    if (!counts) continue;
    out.step += at - began;
    out.generation += generation;
    out.half += time_of(out.ends, static_cast<std::int64_t>(out.ends.size() / 2));
    count_batch(batch, out);
    for (const Sample& sample : batch.trained) out.lengths.push_back(sample.output);
  }
  const double whole = static_cast<double>(at) * static_cast<double>(fleet.replicas);
  out.engine_busy = whole > 0 ? static_cast<double>(busy) / whole : 0;
  take_means(out, spec.steps);
  return out;
}

/// The engine's clock against that of the wall: it stands while weights come.
class EngineClock {
 public:
  void stop(Time at, Time length) { stops_.push_back({at, length}); }
  Time of_wall(Time wall) const {
    Time engine = wall;
    for (const Stop& stop : stops_)
      if (stop.at < wall) engine -= std::min(stop.length, wall - stop.at);
    return engine;
  }
  Time to_wall(Time engine) const {
    Time wall = engine;
    for (const Stop& stop : stops_)  // by time; what ends just as weights come ends ahead of them
      if (stop.at < wall) wall += stop.length;
    return wall;
  }

 private:
  struct Stop {
    Time at, length;
  };
  std::vector<Stop> stops_;
};

/// Of the replica that has most, tokens whose caches are lost at `at`.
Time lost_tokens(const std::vector<Handed>& handed, const Rollout& rollout, std::int64_t replicas, Time at) {
  std::vector<Time> tokens(static_cast<std::size_t>(replicas), 0);
  for (std::size_t i = 0; i < handed.size(); ++i) {
    const serving::Served& s = rollout.served[i];
    if (s.first > at || s.last <= at) continue;
    const double share = static_cast<double>(at - s.first) / static_cast<double>(std::max<Time>(1, s.last - s.first));
    tokens[static_cast<std::size_t>(s.replica)] +=
        handed[i].sample.input + static_cast<Time>(share * handed[i].sample.output);
  }
  return *std::max_element(tokens.begin(), tokens.end());
}

/// Engine and trainer side by side.
class Overlapped {
 public:
  Overlapped(const StepSpec& spec, const Prices& prices, const Fleet& fleet, serving::StepTimes& times)
      : spec_(spec), prices_(prices), fleet_(fleet), times_(times) {}

  Steps run() {
    // As many batches as are under way at once, and one, until the steps are like any other.
    const std::int64_t warm = spec_.staleness > 0 ? spec_.staleness + 2 : 0, steps = warm + spec_.steps;
    for (std::int64_t i = 0; i <= std::min(spec_.staleness, steps - 1); ++i) hand_in(0);
    Time counted_from = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      if (step == warm) {
        counted_from = free_;
        out_.parts = {};
      }
      one_step(step, step >= warm);
      if (step + 1 < steps && static_cast<std::int64_t>(batches_.size()) < steps) hand_in(clock_.of_wall(free_));
    }
    const Time span = free_ - counted_from;
    out_.step = span;
    for (Span& s : out_.spans) {
      s.step -= warm;
      s.from -= counted_from;
      s.until -= counted_from;
    }
    std::erase_if(out_.spans, [](const Span& s) { return s.until <= 0 || s.step < 0; });
    const double whole = static_cast<double>(free_) * static_cast<double>(fleet_.replicas);
    out_.engine_busy = whole > 0 ? static_cast<double>(busy_) / whole : 0;
    take_means(out_, spec_.steps);
    return out_;
  }

 private:
  struct Under {
    Batch batch;
    std::size_t from = 0, until = 0;  // of handed_
    Time at = 0;                      // in the engine's time
  };

  void hand_in(Time at) {
    Under under;
    under.batch = draw_batch(spec_.batch, static_cast<std::int64_t>(batches_.size()));
    under.from = handed_.size();
    under.at = at;
    const std::int32_t first = handed_.empty() ? 0 : handed_.back().sample.prompt + 1;  // no prompt comes twice
    for (const std::vector<Sample>& round : under.batch.rounds)
      for (const Sample& sample : round) handed_.push_back({at, {sample.prompt + first, sample.input, sample.output}});
    under.until = handed_.size();
    batches_.push_back(std::move(under));
  }

  void one_step(std::int64_t step, bool counts) {
    const Rollout rollout = generate(handed_, fleet_, times_);
    const Under& own = batches_[static_cast<std::size_t>(step)];
    const std::vector<Time> ends = last_of(rollout, own.from, own.until);
    Time done = time_of(ends, static_cast<std::int64_t>(ends.size()));
    if (spec_.order == Order::first)
      done = time_of(last_of(rollout, 0, handed_.size()), static_cast<std::int64_t>(own.until));
    const Time ready = clock_.to_wall(done), start = std::max(free_, ready);
    const Time handed = clock_.to_wall(own.at);
    const Part waiting = spec_.placement == Placement::separate ? Part::generation : Part::wait;
    out_.parts[static_cast<std::size_t>(waiting)] += start - free_;
    out_.spans.push_back({step, Part::generation, true, handed, ready});
    if (start > free_) out_.spans.push_back({step, Part::wait, false, free_, start});
    const Time trained = train_step(prices_, step, start, out_, out_.parts);
    Time sent = trained;
    if (spec_.under_way == UnderWay::drain) {
      for (const serving::Served& served : rollout.served) sent = std::max(sent, clock_.to_wall(served.last));
      out_.parts[static_cast<std::size_t>(Part::wait)] += sent - trained;
      if (sent > trained) out_.spans.push_back({step, Part::wait, false, trained, sent});
    }
    const Time over = sent + prices_.weight_transfer;
    out_.parts[static_cast<std::size_t>(Part::weight_transfer)] += prices_.weight_transfer;
    out_.spans.push_back({step, Part::weight_transfer, false, sent, over});
    out_.spans.push_back({step, Part::weight_transfer, true, sent, over});
    Time stop = prices_.weight_transfer;
    if (spec_.under_way == UnderWay::interrupt)
      stop += prices_.per_cached_token * lost_tokens(handed_, rollout, fleet_.replicas, clock_.of_wall(sent));
    clock_.stop(sent, stop);
    free_ = over;
    if (counts) {
      out_.generation += ready - handed;
      out_.half += clock_.to_wall(time_of(ends, static_cast<std::int64_t>(ends.size() / 2))) - handed;
      count_batch(own.batch, out_);
      for (const Sample& sample : own.batch.trained) out_.lengths.push_back(sample.output);
      out_.ends.clear();
      for (const Time end : ends) out_.ends.push_back(clock_.to_wall(end) - handed);
    }
    busy_ = rollout.busy;
    out_.refused = rollout.refused;
    out_.preemptions = rollout.preemptions;
  }

  const StepSpec& spec_;
  const Prices& prices_;
  const Fleet& fleet_;
  serving::StepTimes& times_;
  EngineClock clock_;
  std::vector<Handed> handed_;
  std::vector<Under> batches_;
  Time free_ = 0, busy_ = 0;  // of the trainer; of the engine
  Steps out_;
};

}  // namespace

std::string_view name_of(Part part) {
  static constexpr std::array<std::string_view, kParts> kNames{
      "generation", "reward", "logprob", "reference", "critic", "training", "weight_transfer", "swap", "host", "wait"};
  return kNames[static_cast<std::size_t>(part)];
}

Steps run_steps(const StepSpec& spec, const Prices& prices, const Fleet& fleet, serving::StepTimes& times) {
  SIM_CHECK(spec.steps >= 1, "no step to count");
  if (spec.placement == Placement::colocated) return run_in_turn(spec, prices, fleet, times);
  return Overlapped(spec, prices, fleet, times).run();
}

}  // namespace orrery::rl
