// W, its inverse, and what it consists of.
#include "workloads/runs/campaign/progress.h"

#include <algorithm>

namespace orrery::campaign {

namespace {

struct ShareName {
  std::string_view name, meaning;
};
constexpr std::array<ShareName, kShares> kNames{{
    {"work", "Steps that count, at the simulated time with the whole machine."},
    {"excess", "What real steps take beyond the simulated ones."},
    {"data", "Waits for data."},
    {"fewer_replicas", "What steps take longer with nodes missing."},
    {"slow", "What steps take longer with a slow GPU or NIC, unseen."},
    {"evaluation", "Evaluation passes."},
    {"checkpoint", "Stalls of checkpoints."},
    {"lost", "What failures threw away, since the checkpoints that the job came back to."},
    {"detection", "From failures to the stop of the job."},
    {"diagnosis", "From the stop to knowing which nodes to leave out."},
    {"waiting", "Waits for nodes."},
    {"restart", "Swaps, scheduler and containers."},
    {"initialisation", "Communicators of the collective library."},
    {"loading", "Loading checkpoints."},
    {"warm_up", "First steps and first batches after a restart."},
    {"drain", "Saving ahead of planned stops."},
    {"maintenance", "Planned stops."},
}};

/// Steps of a phase below `step`.
std::int64_t steps_of(const Plan& plan, std::size_t phase, std::int64_t step) {
  const std::int64_t end = phase + 1 < plan.phases.size() ? plan.phases[phase + 1].begin : plan.steps;
  return std::max<std::int64_t>(0, std::min(step, end) - plan.phases[phase].begin);
}

}  // namespace

std::string_view name_of(Share share) { return kNames[static_cast<std::size_t>(share)].name; }
std::string_view meaning_of(Share share) { return kNames[static_cast<std::size_t>(share)].meaning; }

Elapsed sum(const Shares& shares) {
  Elapsed total{};
  for (const Elapsed share : shares) total += share;
  return total;
}

Elapsed time_until(const Plan& plan, std::int64_t step, std::size_t state) {
  Picoseconds time = 0;
  for (std::size_t p = 0; p < plan.phases.size(); ++p)
    time += static_cast<Picoseconds>(steps_of(plan, p, step)) * plan.phases[p].step[state];
  if (plan.evaluation.every > 0)
    time += static_cast<Picoseconds>(step / plan.evaluation.every) * plan.evaluation.time.value();
  for (const Save& save : plan.saves) time += static_cast<Picoseconds>(step / save.every) * save.stall.value();
  return Elapsed(time);
}

std::int64_t steps_within(const Plan& plan, std::int64_t from, Elapsed time, std::size_t state) {
  const Elapsed before = time_until(plan, from, state);
  const auto fits = [&](std::int64_t steps) { return time_until(plan, from + steps, state) - before <= time; };
  const std::int64_t most = plan.steps - from;
  if (time < Elapsed{} || most <= 0) return 0;
  // A guess by the last phase's pace, then outwards in growing strides until `low` fits and `high` does not.
  const double guess = static_cast<double>(time.value()) / static_cast<double>(plan.phases.back().step[state]);
  std::int64_t low = 0, high = most + 1, stride = 1;
  const std::int64_t probe = guess < static_cast<double>(most) ? static_cast<std::int64_t>(guess) : most;
  if (fits(probe)) {
    for (low = probe; low + stride <= most && fits(low + stride); stride *= 2) low += stride;
    high = std::min(high, low + stride);
  } else {
    for (high = probe; high - stride > 0 && !fits(high - stride); stride *= 2) high -= stride;
    low = std::max<std::int64_t>(0, high - stride);
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    if (fits(middle))
      low = middle;
    else
      high = middle;
  }
  return low;
}

void add_content(const Plan& plan, std::int64_t from, std::int64_t to, std::size_t state, Shares& shares) {
  const std::size_t level = state / plan.slow * plan.slow;  // as many replicas, nothing slow
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    const Phase& phase = plan.phases[p];
    const Picoseconds steps = steps_of(plan, p, to) - steps_of(plan, p, from);
    const std::int64_t all = phase.priced[0], fewer = phase.priced[level], now = phase.priced[state];
    at(shares, Share::work) += Elapsed(steps * all);
    at(shares, Share::fewer_replicas) += Elapsed(steps * (fewer - all));
    at(shares, Share::slow) += Elapsed(steps * (now - fewer));
    at(shares, Share::data) += Elapsed(steps * plan.data_per_step);
    at(shares, Share::excess) += Elapsed(steps * (phase.step[state] - now - plan.data_per_step));
  }
  if (plan.evaluation.every > 0) {
    const Picoseconds passes = to / plan.evaluation.every - from / plan.evaluation.every;
    at(shares, Share::evaluation) += Elapsed(passes * plan.evaluation.time.value());
  }
  for (const Save& save : plan.saves)
    at(shares, Share::checkpoint) +=
        Elapsed(static_cast<Picoseconds>(to / save.every - from / save.every) * save.stall.value());
}

}  // namespace orrery::campaign
