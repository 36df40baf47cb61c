// The slow engine; see reference.h.
#include "tests/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "sim/noise.h"

namespace orrery::reference {

namespace {

using sim::index;
using sim::InstanceId;
using sim::OpKind;
using Time = std::optional<std::int64_t>;

/// One operation of one rank; each time is set when it becomes known.
struct Task {
  Time issued;  // the host begins to issue it
  Time ready;   // compute: stream, waits and host; transfer: its member arrives
  Time start;
  Time finish;  // may lie in the future
};

struct Rank {
  std::vector<Task> tasks;
  std::uint32_t host_next = 0;
  std::int64_t host_time = 0;
  std::optional<std::uint32_t> host_blocked_on;
};

struct Transfer {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> arrived;  // rank, operation
  std::int64_t last_arrival = 0;
  Time fluid;  // when the fluid part begins
  bool flowing = false;
  bool done = false;
  double remaining = 0;
  double rate = 0;
  Time finish;  // predicted
};

/// Adds the times of all tasks, and what follows from them, to a result.
void report(const std::vector<Rank>& ranks, sim::Result& result) {
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {
    sim::Record record{InstanceId{i}, {}, {}, {}};
    sim::SimTime last{};
    const auto time = [](const Time& t) { return t ? sim::SimTime(*t) : sim::kNever; };
    for (const Task& task : ranks[i].tasks) {
      record.ready.push_back(time(task.ready));
      record.start.push_back(time(task.start));
      record.finish.push_back(time(task.finish));
      if (task.finish) last = std::max(last, sim::SimTime(*task.finish));
      if (!task.finish) result.outcome = sim::Outcome::deadlock;
    }
    result.last_finish.push_back(last);
    result.makespan = std::max(result.makespan, last);
    result.records.push_back(std::move(record));
  }
}

class Slow {
 public:
  Slow(const sim::Plan& plan, const sim::Network& network) : plan_(plan), network_(network) {
    for (std::uint32_t i = 0; i < plan.instances.size(); ++i) {
      ranks_.emplace_back();
      ranks_.back().tasks.resize(program(i).size());
    }
  }

  sim::Result run() {
    while (true) {
      ++result_.events;
      while (step_hosts() || step_streams() || step_transfers()) {
      }
      share();
      const Time next = next_instant();
      if (!next) break;
      for (auto& [key, t] : transfers_) {
        if (t.flowing && !t.done) t.remaining -= t.rate * static_cast<double>(*next - now_) * 1e-12;
      }
      now_ = *next;
    }
    report(ranks_, result_);
    return std::move(result_);
  }

 private:
  const sim::Program& program(std::uint32_t i) const { return plan_.programs[plan_.instances[InstanceId{i}].program]; }
  bool past(const Time& t) const { return t && *t <= now_; }

  bool step_hosts() {
    bool progress = false;
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      const sim::Program& p = program(i);
      if (rank.host_blocked_on && past(rank.tasks[*rank.host_blocked_on].finish)) {
        rank.host_time = std::max(rank.host_time, *rank.tasks[*rank.host_blocked_on].finish);
        rank.host_blocked_on.reset();
        progress = true;
      }
      while (!rank.host_blocked_on && rank.host_next < p.size()) {
        const std::uint32_t op = rank.host_next++;
        rank.tasks[op].issued = rank.host_time;
        rank.host_time += p.issue[op];
        if (p.host_waits[op] != 0) rank.host_blocked_on = op;
        progress = true;
      }
    }
    return progress;
  }

  /// When stream and waits of an operation are done, if they all are by now.
  Time device_ready(std::uint32_t i, std::uint32_t op) const {
    const sim::Program& p = program(i);
    std::int64_t ready = 0;
    for (std::uint32_t before = 0; before < op; ++before) {
      const auto waits = p.waits_of(op);
      const bool needed =
          p.stream[before] == p.stream[op] || std::find(waits.begin(), waits.end(), before) != waits.end();
      if (!needed) continue;
      if (!past(ranks_[i].tasks[before].finish)) return {};
      ready = std::max(ready, *ranks_[i].tasks[before].finish);
    }
    return ready;
  }

  bool step_streams() {
    bool progress = false;
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
      const sim::Program& p = program(i);
      for (std::uint32_t op = 0; op < p.size(); ++op) {
        Task& task = ranks_[i].tasks[op];
        if (task.ready || !task.issued) continue;
        const Time device = device_ready(i, op);
        if (!device) continue;
        if (p.kind[op] == OpKind::transfer) {
          task.ready = std::max(*device, *task.issued + p.issue[op]);
        } else {
          const sim::Instance& instance = plan_.instances[InstanceId{i}];
          const double load = sim::load_factor(plan_.loads, instance.load_group, instance.load_place, op);
          const double factor = instance.slowdown * sim::noise_factor(plan_.noise, instance.noise_key, op) *
                                (1 + p.loaded[op] * (load - 1));
          const auto scaled = sim::scale_compute(p.duration[op], p.issue_bound[op], p.issue[op], factor);
          task.ready = task.start = std::max(*device, *task.issued);
          task.finish = std::max(*device + scaled.duration, *task.issued + scaled.issue_bound);
        }
        progress = true;
      }
    }
    return progress;
  }

  bool step_transfers() {
    bool progress = false;
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
      const sim::Program& p = program(i);
      std::map<std::uint32_t, std::uint32_t> issued_on_slot;
      for (std::uint32_t op = 0; op < p.size(); ++op) {
        if (p.kind[op] != OpKind::transfer) continue;
        const std::uint32_t occurrence = issued_on_slot[p.slot[op]]++;
        const Task& task = ranks_[i].tasks[op];
        const sim::CommunicatorId c = plan_.slots_of(InstanceId{i})[p.slot[op]];
        auto& transfer = transfers_[{index(c), occurrence}];
        const auto seen = std::find(transfer.arrived.begin(), transfer.arrived.end(), std::pair{i, op});
        if (!past(task.ready) || seen != transfer.arrived.end()) continue;
        transfer.arrived.emplace_back(i, op);
        transfer.last_arrival = std::max(transfer.last_arrival, *task.ready);
        progress = true;
      }
    }
    for (auto& [key, t] : transfers_) progress = step_transfer(key.first, key.second, t) || progress;
    return progress;
  }

  bool step_transfer(std::uint32_t communicator, std::uint32_t occurrence, Transfer& t) {
    const sim::Communicator& c = plan_.communicators[sim::CommunicatorId{communicator}];
    if (t.done || t.arrived.size() < c.members) return false;
    const auto [rank, op] = t.arrived.front();
    const sim::Program& p = program(rank);
    const std::uint32_t route = index(c.first_route) + p.pattern[op];
    if (!t.fluid) {
      const std::int64_t latency = p.duration[op] + network_.route_latency[route].value();
      t.fluid = t.last_arrival + sim::noisy_latency(plan_.message_noise, c.noise_key, occurrence, latency);
      return true;
    }
    if (!t.flowing) {
      if (!past(t.fluid)) return false;
      t.flowing = true;
      t.remaining = p.work[op];
      const bool unlimited = p.rate_cap[op] <= 0 && network_.links_of(sim::RouteId{route}).empty();
      if (t.remaining <= 0 || unlimited) t.finish = now_;
      return true;
    }
    if (!past(t.finish)) return false;
    t.done = true;
    for (const auto& [i, member_op] : t.arrived) {
      ranks_[i].tasks[member_op].start = t.last_arrival;
      ranks_[i].tasks[member_op].finish = now_;
    }
    return true;
  }

  void share() {
    std::vector<Transfer*> active;
    std::vector<sim::Demand> demands;
    for (auto& [key, t] : transfers_) {
      if (!t.flowing || t.done) continue;
      const auto [rank, op] = t.arrived.front();
      const sim::Program& p = program(rank);
      const sim::Communicator& c = plan_.communicators[sim::CommunicatorId{key.first}];
      active.push_back(&t);
      demands.push_back({network_.links_of(sim::RouteId{index(c.first_route) + p.pattern[op]}), p.rate_cap[op]});
    }
    ++result_.solves;
    const std::vector<double> rates = reference::max_min_rates(demands, network_.capacity);
    for (std::size_t a = 0; a < active.size(); ++a) {
      Transfer& t = *active[a];
      if (t.finish && std::abs(rates[a] - t.rate) <= 1e-9 * t.rate) continue;  // unchanged: so is its finish
      t.rate = rates[a];
      t.finish = now_ + std::max<std::int64_t>(1, std::llround(std::max(0.0, t.remaining) / t.rate * 1e12));
    }
  }

  Time next_instant() const {
    Time next;
    const auto consider = [&](const Time& t) {
      if (t && *t > now_ && (!next || *t < *next)) next = t;
    };
    for (const Rank& rank : ranks_) {
      for (const Task& task : rank.tasks) {
        consider(task.ready);
        consider(task.finish);
      }
    }
    for (const auto& [key, t] : transfers_) {
      if (t.done) continue;
      consider(t.fluid);
      consider(t.finish);
    }
    return next;
  }

  const sim::Plan& plan_;
  const sim::Network& network_;
  std::vector<Rank> ranks_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Transfer> transfers_;
  std::int64_t now_ = 0;
  sim::Result result_;
};

}  // namespace

sim::Result run(const sim::Plan& plan, const sim::Network& network) { return Slow(plan, network).run(); }

}  // namespace orrery::reference
