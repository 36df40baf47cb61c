// At every instant first all jobs that end, then nodes that are mended, then all that arrive, then who starts; between
// two instants nothing changes, so that what the GPUs do is added up in closed form. Whether a start of a job ends in a
// failure, and when, is drawn from (seed, job, start) when it starts.
#include "workloads/queue/replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "sim/error.h"
#include "sim/hash.h"

namespace orrery::queue {

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
/// How many waiting jobs are looked at behind the first one, as schedulers bound it too (Slurm's bf_max_job_test).
constexpr int kDepth = 1000;

class Replay {
 public:
  Replay(const Layout& layout, const Trace& trace, const Policy& policy, std::uint64_t seed)
      : layout_(layout), trace_(trace), policy_(policy), seed_(seed), pool_(layout), shares_(trace.jobs.size()) {
    out_.jobs.resize(trace.jobs.size());
    expected_end_.resize(trace.jobs.size());
    for (const Request& job : trace.jobs) states_.push_back({job.work_ms});
  }

  Outcome go() {
    if (trace_.jobs.empty()) return std::move(out_);
    now_ = out_.begin_ms = trace_.jobs.front().submit_ms;
    held_ = {{now_, 0}};
    while (next_ < trace_.jobs.size() || !running_.empty() || !waiting_.empty()) {
      const std::int64_t arrival = next_ < trace_.jobs.size() ? trace_.jobs[next_].submit_ms : kNever;
      const std::int64_t end = running_.empty() ? kNever : running_.begin()->first;
      const std::int64_t mended = in_repair_.empty() ? kNever : in_repair_.begin()->first;
      SIM_CHECK(std::min({arrival, end, mended}) != kNever, "{} jobs wait on an empty cluster", waiting_.size());
      pass_until(std::min({arrival, end, mended}));
      while (!running_.empty() && running_.begin()->first == now_) end_first();
      while (!in_repair_.empty() && in_repair_.begin()->first == now_) mend_first();
      while (next_ < trace_.jobs.size() && trace_.jobs[next_].submit_ms == now_) arrive();
      start_jobs();
    }
    out_.end_ms = now_;
    slice();
    return std::move(out_);
  }

 private:
  using Timed = std::pair<std::int64_t, std::uint32_t>;  // a time, or what ranks a job in the queue; and the job

  void count(Use use, __int128 gpu_ms) { out_.gpu_ms[static_cast<std::size_t>(use)] += gpu_ms; }

  void pass_until(std::int64_t time) {
    const __int128 free = static_cast<__int128>(pool_.free_gpus()) * (time - now_);
    if (waiting_.empty())
      count(Use::idle, free);
    else if (trace_.jobs[waiting_.begin()->second].gpus <= pool_.free_gpus())
      count(Use::fragmented, free);
    else
      count(Use::short_of, free);
    const std::int64_t mending = static_cast<std::int64_t>(in_repair_.size()) * layout_.gpus_per_node;
    count(Use::repair, static_cast<__int128>(mending) * (time - now_));
    const std::int64_t held = layout_.gpus() - pool_.free_gpus() - mending;
    if (held != held_.back().second) held_.emplace_back(now_, held);
    now_ = time;
  }

  void end_first() {
    const std::uint32_t job = running_.begin()->second;
    if (!states_[job].fails) {
      leave(job);
      account(job, states_[job].left_ms);
      return;
    }
    ++failures_;
    const std::uint64_t draw = sim::hash_pair(sim::hash_pair(seed_, job), static_cast<std::uint64_t>(failures_));
    const Shares held = shares_[job];
    fail(job);
    if (!(uniform(draw) < trace_.failures.node_share)) return;
    const std::int32_t node = held[static_cast<std::size_t>(sim::hash_pair(draw, 1)) % held.size()].node;
    std::vector<std::uint32_t> beside;
    for (const auto& [end, other] : running_) {
      const auto on_it = [&](const Share& share) { return share.node == node; };
      if (std::any_of(shares_[other].begin(), shares_[other].end(), on_it)) beside.push_back(other);
    }
    for (const std::uint32_t other : beside) fail(other);
    pool_.take({{node, layout_.gpus_per_node}});
    in_repair_.insert({now_ + std::max<std::int64_t>(1, trace_.failures.repair_ms), static_cast<std::uint32_t>(node)});
  }

  void mend_first() {
    pool_.give_back({{static_cast<std::int32_t>(in_repair_.begin()->second), layout_.gpus_per_node}});
    in_repair_.erase(in_repair_.begin());
  }

  /// The job gives its nodes back.
  void leave(std::uint32_t job) {
    running_.erase({states_[job].ends_ms, job});
    expected_.erase({expected_end_[job], job});
    pool_.give_back(shares_[job]);
    std::int64_t taken = 0;
    for (const Share& share : shares_[job]) taken += share.gpus;
    const std::int64_t ran = now_ - states_[job].started_ms;
    count(Use::rounding, static_cast<__int128>(taken - trace_.jobs[job].gpus) * ran);
    out_.jobs[job].end_ms = now_;
    out_.jobs[job].running_ms += ran;
    shares_[job] = {};
  }

  /// Counts what the GPUs of the job did since it started, of which `kept_ms` of its work count for good.
  void account(std::uint32_t job, std::int64_t kept_ms) {
    const State& state = states_[job];
    const std::int64_t gpus = trace_.jobs[job].gpus, ran = now_ - state.started_ms;
    const std::int64_t up = std::min(ran, state.comes_up_ms);
    const std::int64_t kept = std::min(ran - up, std::max(kept_ms, stretched(kept_ms, state.factor)));
    count(Use::restart, static_cast<__int128>(gpus) * up);
    count(Use::work, static_cast<__int128>(gpus) * kept_ms);
    count(Use::slow_down, static_cast<__int128>(gpus) * (kept - kept_ms));
    count(Use::lost, static_cast<__int128>(gpus) * (ran - up - kept));
  }

  /// Goes back to its last checkpoint, and to its place in the queue.
  void fail(std::uint32_t job) {
    State& state = states_[job];
    leave(job);
    const std::int64_t worked = std::max<std::int64_t>(0, now_ - state.started_ms - state.comes_up_ms);
    const auto done = std::min(state.left_ms, static_cast<std::int64_t>(static_cast<double>(worked) / state.factor));
    const std::int64_t every = trace_.failures.checkpoint_ms;
    const std::int64_t saved = every > 0 ? done / every * every : 0;
    account(job, saved);
    state.left_ms -= saved;
    ++out_.jobs[job].failures;
    if (++state.starts > kMostStarts)
      throw sim::UserError(
          fmt::format("job {} of the trace, on {} GPUs, fails {} times before it is done, expected failures that are "
                      "rarer, or checkpoints that are closer",
                      job + 1, trace_.jobs[job].gpus, kMostStarts));
    waiting_.insert({policy_.order == Order::shortest ? trace_.jobs[job].limit_ms : 0, job});
  }

  /// In (0, 1].
  static double uniform(std::uint64_t draw) { return (static_cast<double>(draw >> 11) + 1) * 0x1p-53; }

  void arrive() {
    const auto job = static_cast<std::uint32_t>(next_++);
    waiting_.insert({policy_.order == Order::shortest ? trace_.jobs[job].limit_ms : 0, job});
  }

  double factor(const Request& job, const Shares& shares) const {
    return pool_.at_best(shares) ? 1 : trace_.curves[job.curve][static_cast<std::size_t>(pool_.span_of(shares))];
  }
  static std::int64_t stretched(std::int64_t time_ms, double factor) {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(time_ms) * factor - 1e-6));
  }
  std::int64_t expected_end(std::uint32_t job, const Shares& shares) const {
    const Request& asked = trace_.jobs[job];
    return now_ + comes_up(job) + std::max<std::int64_t>(1, stretched(asked.limit_ms, factor(asked, shares)));
  }

  std::int64_t comes_up(std::uint32_t job) const { return states_[job].starts > 0 ? trace_.failures.restart_ms : 0; }

  Shares choose(std::uint32_t job, const std::vector<char>& reserved = {}) const {
    return pool_.choose(trace_.jobs[job].gpus, policy_.placement, sim::hash_pair(seed_, job), reserved);
  }

  void start(std::set<Timed>::iterator place, Shares shares) {
    const std::uint32_t index = place->second;
    const Request& job = trace_.jobs[index];
    Placed& placed = out_.jobs[index];
    placed.span = pool_.span_of(shares);
    placed.units = pool_.units_of(shares);
    placed.at_best = pool_.at_best(shares);
    State& state = states_[index];
    if (placed.failures == 0) placed.start_ms = now_;
    state.started_ms = now_;
    state.factor = factor(job, shares);
    state.comes_up_ms = comes_up(index);
    const std::int64_t runs = state.comes_up_ms + std::max(state.left_ms, stretched(state.left_ms, state.factor));
    const std::int64_t until_failure = failure_in(index);
    state.fails = until_failure < runs;
    state.ends_ms = now_ + std::min(runs, until_failure);
    expected_end_[index] = expected_end(index, shares);
    expected_.insert({expected_end_[index], index});
    running_.insert({state.ends_ms, index});
    pool_.take(shares);
    shares_[index] = std::move(shares);
    waiting_.erase(place);
  }

  /// From a start of the job to its next failure; kNever / 2 where nothing fails.
  std::int64_t failure_in(std::uint32_t job) const {
    const double rate =
        trace_.failures.per_gpu_ms * static_cast<double>(trace_.jobs[job].gpus) + trace_.failures.per_job_ms;
    if (!(rate > 0)) return kNever / 2;
    const std::uint64_t draw =
        sim::hash_pair(sim::hash_pair(seed_ + 1, job), static_cast<std::uint64_t>(states_[job].starts));
    const double wait = -std::log(uniform(draw)) / rate;
    return wait < 1e18 ? std::max<std::int64_t>(1, std::llround(wait)) : kNever / 2;
  }

  void start_jobs() {
    while (!waiting_.empty() && pool_.holds(trace_.jobs[waiting_.begin()->second].gpus))
      start(waiting_.begin(), choose(waiting_.begin()->second));
    if (policy_.order == Order::backfill && waiting_.size() > 1 && pool_.free_gpus() > 0) backfill();
  }

  /// The nodes that are set aside for the first in the queue, and from when on.
  struct Reservation {
    std::int64_t from_ms = 0;
    std::vector<char> nodes;
  };
  Reservation reserve() const {
    const std::uint32_t first = waiting_.begin()->second;
    NodePool later = pool_;
    Reservation reservation;
    for (const auto& [end, job] : expected_) {
      later.give_back(shares_[job]);
      reservation.from_ms = std::max(end, now_ + 1);  // who runs beyond its limit ends soon
      if (later.holds(trace_.jobs[first].gpus)) break;
    }
    for (const auto& [mended, node] : in_repair_) {
      if (later.holds(trace_.jobs[first].gpus)) break;
      later.give_back({{static_cast<std::int32_t>(node), layout_.gpus_per_node}});
      reservation.from_ms = std::max(reservation.from_ms, mended);
    }
    reservation.nodes.assign(layout_.unit_of.size(), 0);
    for (const Share& share : later.choose(trace_.jobs[first].gpus, policy_.placement, sim::hash_pair(seed_, first)))
      reservation.nodes[static_cast<std::size_t>(share.node)] = 1;
    return reservation;
  }

  void backfill() {
    const Reservation reservation = reserve();
    NodePool::Counts open = pool_.counts(reservation.nodes);
    int looked_at = 0;
    for (auto place = std::next(waiting_.begin()); place != waiting_.end() && looked_at < kDepth; ++looked_at) {
      const auto here = place++;
      const std::uint32_t job = here->second;
      const Request& asked = trace_.jobs[job];
      Shares shares;
      if (now_ + comes_up(job) + asked.limit_ms <= reservation.from_ms && pool_.holds(asked.gpus)) {
        shares = choose(job);
        if (expected_end(job, shares) > reservation.from_ms) shares.clear();
      }
      if (shares.empty()) {
        if (!pool_.holds(asked.gpus, open)) continue;
        shares = choose(job, reservation.nodes);
      }
      ++out_.backfilled;
      start(here, std::move(shares));
      if (pool_.free_gpus() == 0) return;
      open = pool_.counts(reservation.nodes);
    }
  }

  /// The GPUs held over time, as means of even slices.
  void slice() {
    out_.held_gpus.assign(kSlices, 0);
    const std::int64_t whole = out_.end_ms - out_.begin_ms;
    if (whole <= 0) return;
    held_.emplace_back(out_.end_ms, 0);
    const auto edge = [&](std::size_t slice) {
      return out_.begin_ms + static_cast<std::int64_t>(static_cast<__int128>(whole) * static_cast<std::int64_t>(slice) /
                                                       static_cast<std::int64_t>(kSlices));
    };
    std::size_t piece = 0;
    for (std::size_t s = 0; s < kSlices; ++s) {
      const std::int64_t from = edge(s), until = edge(s + 1);
      __int128 sum = 0;
      while (piece + 1 < held_.size() && held_[piece + 1].first <= from) ++piece;
      for (std::size_t p = piece; p + 1 < held_.size() && held_[p].first < until; ++p) {
        const std::int64_t begin = std::max(from, held_[p].first), end = std::min(until, held_[p + 1].first);
        sum += static_cast<__int128>(std::max<std::int64_t>(0, end - begin)) * held_[p].second;
      }
      out_.held_gpus[s] = until > from ? static_cast<std::int64_t>(sum / (until - from)) : held_[piece].second;
    }
  }

  const Layout& layout_;
  const Trace& trace_;
  Policy policy_;
  std::uint64_t seed_;
  NodePool pool_;
  std::vector<Shares> shares_;              // by job, while it runs
  std::vector<std::int64_t> expected_end_;  // by job, once it runs
  /// What a job has still to do, and how its start under way goes.
  struct State {
    std::int64_t left_ms = 0, starts = 0;  // starts: that have failed
    std::int64_t started_ms = 0, comes_up_ms = 0, ends_ms = 0;
    double factor = 1;
    bool fails = false;
  };
  std::vector<State> states_;
  std::int64_t failures_ = 0;
  std::set<Timed> waiting_, running_, expected_, in_repair_;  // in_repair_: when, and the node
  std::vector<std::pair<std::int64_t, std::int64_t>> held_;   // from when on, GPUs that jobs hold
  std::size_t next_ = 0;
  std::int64_t now_ = 0;
  Outcome out_;
};

}  // namespace

Outcome replay(const Layout& layout, const Trace& trace, const Policy& policy, std::uint64_t seed) {
  return Replay(layout, trace, policy, seed).go();
}

}  // namespace orrery::queue
