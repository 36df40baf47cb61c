// At every instant first all jobs that end, then nodes that are mended, then all that arrive, then who starts; between
// two instants nothing changes, so that what the GPUs do is added up in closed form. Starts of jobs and
// their failures: attempts.h.
#include "workloads/runs/queue/replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "sim/error.h"
#include "sim/hash.h"
#include "workloads/runs/queue/attempts.h"

namespace orrery::queue {

namespace {

constexpr std::int64_t kNoStart = std::numeric_limits<std::int64_t>::max();
/// How many waiting jobs are looked at behind the first one, as schedulers bound it too (Slurm's bf_max_job_test).
constexpr int kDepth = 1000;

/// The GPUs held over time, as means of even slices. `held`: from when on, GPUs that jobs hold.
void slice(std::vector<std::pair<std::int64_t, std::int64_t>> held, Outcome& out) {
  out.held_gpus.assign(kSlices, 0);
  const std::int64_t whole = out.end_ms - out.begin_ms;
  if (whole <= 0) return;
  held.emplace_back(out.end_ms, 0);
  const auto edge = [&](std::size_t slice) {
    return out.begin_ms + static_cast<std::int64_t>(static_cast<__int128>(whole) * static_cast<std::int64_t>(slice) /
                                                    static_cast<std::int64_t>(kSlices));
  };
  std::size_t piece = 0;
  for (std::size_t s = 0; s < kSlices; ++s) {
    const std::int64_t from = edge(s), until = edge(s + 1);
    __int128 sum = 0;
    while (piece + 1 < held.size() && held[piece + 1].first <= from) ++piece;
    for (std::size_t p = piece; p + 1 < held.size() && held[p].first < until; ++p) {
      const std::int64_t begin = std::max(from, held[p].first), end = std::min(until, held[p + 1].first);
      sum += static_cast<__int128>(std::max<std::int64_t>(0, end - begin)) * held[p].second;
    }
    out.held_gpus[s] = until > from ? static_cast<std::int64_t>(sum / (until - from)) : held[piece].second;
  }
}

using Timed = std::pair<std::int64_t, std::uint32_t>;  // a time, or what ranks a job in the queue; and the job
/// The nodes that are set aside for the first in the queue, and from when on.
struct Reservation {
  std::int64_t from_ms = 0;
  std::vector<char> nodes;
};
/// What a job has and when the scheduler thinks that it ends, while it runs.
struct Running {
  Shares shares;
  std::int64_t expected_end = 0;
};

class Replay {
 public:
  Replay(const Layout& layout, const Trace& trace, const Policy& policy, std::uint64_t seed)
      : layout_(layout),
        trace_(trace),
        policy_(policy),
        seed_(seed),
        pool_(layout),
        jobs_(trace.jobs.size()),
        attempts_(trace, seed, out_) {
    out_.jobs.resize(trace.jobs.size());
  }

  Outcome go() {
    if (trace_.jobs.empty()) return std::move(out_);
    now_ = out_.begin_ms = trace_.jobs.front().submit_ms;
    held_ = {{now_, 0}};
    while (next_ < trace_.jobs.size() || !running_.empty() || !waiting_.empty()) {
      const std::int64_t arrival = next_ < trace_.jobs.size() ? trace_.jobs[next_].submit_ms : kNoStart;
      const std::int64_t end = running_.empty() ? kNoStart : running_.begin()->first;
      const std::int64_t mended = in_repair_.empty() ? kNoStart : in_repair_.begin()->first;
      SIM_CHECK(std::min({arrival, end, mended}) != kNoStart, "{} jobs wait on an empty cluster", waiting_.size());
      pass_until(std::min({arrival, end, mended}));
      while (!running_.empty() && running_.begin()->first == now_) end_first();
      while (!in_repair_.empty() && in_repair_.begin()->first == now_) mend_first();
      while (next_ < trace_.jobs.size() && trace_.jobs[next_].submit_ms == now_) arrive();
      start_jobs();
    }
    out_.end_ms = now_;
    slice(std::move(held_), out_);
    return std::move(out_);
  }

 private:
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

  void arrive() {
    const auto job = static_cast<std::uint32_t>(next_++);
    waiting_.insert({policy_.order == Order::shortest ? trace_.jobs[job].limit_ms : 0, job});
  }

  void end_first() {
    const std::uint32_t job = running_.begin()->second;
    const Shares held = jobs_[job].shares;
    if (!attempts_.fails(job)) {
      leave(job);
      return attempts_.finish(job, now_);
    }
    fail(job);
    const auto before = static_cast<std::uint64_t>(out_.jobs[job].failures);
    const std::uint64_t draw = sim::hash_pair(sim::hash_pair(seed_, job), before);
    if (!(uniform(draw) < trace_.failures.node_share)) return;
    const std::int32_t node = held[static_cast<std::size_t>(sim::hash_pair(draw, 1)) % held.size()].node;
    std::vector<std::uint32_t> beside;
    for (const auto& [end, other] : running_) {
      const auto on_it = [&](const Share& share) { return share.node == node; };
      if (std::any_of(jobs_[other].shares.begin(), jobs_[other].shares.end(), on_it)) beside.push_back(other);
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
    running_.erase({attempts_.ends(job), job});
    expected_.erase({jobs_[job].expected_end, job});
    Shares& shares = jobs_[job].shares;
    pool_.give_back(shares);
    std::int64_t taken = 0;
    for (const Share& share : shares) taken += share.gpus;
    const std::int64_t ran = now_ - attempts_.started(job);
    count(Use::rounding, static_cast<__int128>(taken - trace_.jobs[job].gpus) * ran);
    out_.jobs[job].end_ms = now_;
    out_.jobs[job].running_ms += ran;
    shares = {};
  }

  /// Goes back to its last checkpoint, and to its place in the queue.
  void fail(std::uint32_t job) {
    leave(job);
    attempts_.fail(job, now_);
    waiting_.insert({policy_.order == Order::shortest ? trace_.jobs[job].limit_ms : 0, job});
  }

  double factor(const Request& job, const Shares& shares) const {
    return pool_.at_best(shares) ? 1 : trace_.curves[job.curve][static_cast<std::size_t>(pool_.span_of(shares))];
  }
  std::int64_t expected_end(std::uint32_t job, const Shares& shares) const {
    const Request& asked = trace_.jobs[job];
    return now_ + attempts_.comes_up(job) + std::max<std::int64_t>(1, stretched(asked.limit_ms, factor(asked, shares)));
  }

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
    if (placed.failures == 0) placed.start_ms = now_;
    attempts_.start(index, now_, factor(job, shares));
    jobs_[index].expected_end = expected_end(index, shares);
    expected_.insert({jobs_[index].expected_end, index});
    running_.insert({attempts_.ends(index), index});
    pool_.take(shares);
    jobs_[index].shares = std::move(shares);
    waiting_.erase(place);
  }

  void start_jobs() {
    while (!waiting_.empty() && pool_.holds(trace_.jobs[waiting_.begin()->second].gpus))
      start(waiting_.begin(), choose(waiting_.begin()->second));
    if (policy_.order == Order::backfill && waiting_.size() > 1 && pool_.free_gpus() > 0) backfill();
  }

  Reservation reserve() const {
    const std::uint32_t first = waiting_.begin()->second;
    NodePool later = pool_;
    Reservation reservation;
    for (const auto& [end, job] : expected_) {
      later.give_back(jobs_[job].shares);
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
      if (now_ + attempts_.comes_up(job) + asked.limit_ms <= reservation.from_ms && pool_.holds(asked.gpus)) {
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

  const Layout& layout_;
  const Trace& trace_;
  Policy policy_;
  std::uint64_t seed_;
  NodePool pool_;
  std::vector<Running> jobs_;
  std::set<Timed> waiting_, running_, expected_, in_repair_;  // in_repair_: when, and the node
  std::vector<std::pair<std::int64_t, std::int64_t>> held_;   // from when on, GPUs that jobs hold
  std::size_t next_ = 0;
  std::int64_t now_ = 0;
  Outcome out_;
  Attempts attempts_;
};

}  // namespace

Outcome replay(const Layout& layout, const Trace& trace, const Policy& policy, std::uint64_t seed) {
  return Replay(layout, trace, policy, seed).go();
}

}  // namespace orrery::queue
