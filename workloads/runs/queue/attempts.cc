// Starts of jobs. Failures of a start are drawn when it begins, from (seed, job, failures before). See attempts.h.
#include "workloads/runs/queue/attempts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/error.h"
#include "sim/hash.h"

namespace orrery::queue {

namespace {
/// Longer than any trace runs.
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 2;
}  // namespace

std::int64_t stretched(std::int64_t time_ms, double factor) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(time_ms) * factor - 1e-6));
}

double uniform(std::uint64_t draw) { return (static_cast<double>(draw >> 11) + 1) * 0x1p-53; }

Attempts::Attempts(const Trace& trace, std::uint64_t seed, Outcome& out) : trace_(trace), seed_(seed), out_(out) {
  for (const Request& job : trace.jobs) states_.push_back({job.work_ms});
}

void Attempts::start(std::uint32_t job, std::int64_t now, double factor) {
  State& state = states_[job];
  state.started_ms = now;
  state.factor = factor;
  state.comes_up_ms = comes_up(job);
  const std::int64_t runs = state.comes_up_ms + std::max(state.left_ms, stretched(state.left_ms, factor));
  const std::int64_t until_failure = failure_in(job);
  state.fails = until_failure < runs;
  state.ends_ms = now + std::min(runs, until_failure);
}

std::int64_t Attempts::failure_in(std::uint32_t job) const {
  const double rate =
      trace_.failures.per_gpu_ms * static_cast<double>(trace_.jobs[job].gpus) + trace_.failures.per_job_ms;
  if (!(rate > 0)) return kNever;
  const std::uint64_t draw =
      sim::hash_pair(sim::hash_pair(seed_ + 1, job), static_cast<std::uint64_t>(states_[job].failures));
  const double wait = -std::log(uniform(draw)) / rate;
  return wait < 1e18 ? std::max<std::int64_t>(1, std::llround(wait)) : kNever;
}

void Attempts::account(std::uint32_t job, std::int64_t now, std::int64_t kept_ms) {
  const State& state = states_[job];
  const std::int64_t gpus = trace_.jobs[job].gpus, ran = now - state.started_ms;
  const std::int64_t up = std::min(ran, state.comes_up_ms);
  const std::int64_t kept = std::min(ran - up, std::max(kept_ms, stretched(kept_ms, state.factor)));
  const auto count = [&](Use use, std::int64_t time_ms) {
    out_.gpu_ms[static_cast<std::size_t>(use)] += static_cast<__int128>(gpus) * time_ms;
  };
  count(Use::restart, up);
  count(Use::work, kept_ms);
  count(Use::slow_down, kept - kept_ms);
  count(Use::lost, ran - up - kept);
}

void Attempts::fail(std::uint32_t job, std::int64_t now) {
  State& state = states_[job];
  const std::int64_t worked = std::max<std::int64_t>(0, now - state.started_ms - state.comes_up_ms);
  const auto done = std::min(state.left_ms, static_cast<std::int64_t>(static_cast<double>(worked) / state.factor));
  const std::int64_t every = trace_.failures.checkpoint_ms;
  const std::int64_t saved = every > 0 ? done / every * every : 0;
  account(job, now, saved);
  state.left_ms -= saved;
  ++out_.jobs[job].failures;
  if (++state.failures <= kMostStarts) return;
  throw sim::UserError(fmt::format(
      "job {} of the trace, on {} GPUs, fails {} times before it is done, expected failures that are rarer, "
      "or checkpoints that are closer",
      job + 1, trace_.jobs[job].gpus, kMostStarts));
}

}  // namespace orrery::queue
