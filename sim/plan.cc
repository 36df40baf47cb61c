// Building a plan and checking that its tables fit together.
#include "sim/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/error.h"
#include "sim/fluid.h"
#include "sim/network.h"

namespace orrery::sim {

namespace {

/// Items wait for transfers before them, and add up to a time.
void check_stretch(const Stretch& stretch, std::uint32_t number) {
  std::int64_t issue = 0, total = 0;
  std::uint32_t transfers = 0, awaited = 0;
  for (const Stretch::Item& item : stretch.items) {
    SIM_CHECK(item.issue >= 0 && item.duration >= 0 && item.transfers <= transfers, "program {}: a stretch", number);
    SIM_CHECK(item.transfer || item.issue_bound >= item.issue, "program {}: issue bound of a stretch", number);
    SIM_CHECK(std::isfinite(item.work) && item.work >= 0 && std::isfinite(item.rate_cap) && item.rate_cap >= 0,
              "program {}: a transfer of a stretch", number);
    issue = saturating_add(issue, item.issue);
    total = saturating_add(saturating_add(total, item.duration), item.issue_bound);
    transfers += item.transfer ? 1 : 0;
    awaited = std::max(awaited, item.transfer ? 0 : item.transfers);
  }
  SIM_CHECK(transfers > 0 && awaited == transfers, "program {}: a stretch waits for {} of its {} transfers", number,
            awaited, transfers);
  if (issue >= kLatest) refuse_time("a host's work");
  if (total >= kLatest) refuse_time("a run of kernels");
}

/// The two operations of a stretch stand together.
void check_stretch_ends(const Program& program, std::uint32_t op) {
  const auto is = [&](std::size_t other, OpKind kind) {
    return other < program.kind.size() && program.kind[other] == kind && program.slot[other] == program.slot[op] &&
           program.pattern[other] == program.pattern[op] && program.stream[other] != program.stream[op];
  };
  SIM_CHECK(program.slot[op] != kNoSlot && program.pattern[op] < program.stretches.size(),
            "operation {}: an unknown stretch", op);
  if (program.kind[op] == OpKind::stretch)
    SIM_CHECK(is(op + std::size_t{1}, OpKind::stretch_transfers), "operation {}: a stretch's compute alone", op);
  else
    SIM_CHECK(op > 0 && is(op - std::size_t{1}, OpKind::stretch) && program.waits_of(op).empty() &&
                  program.issue[op] == 0 && program.duration[op] == 0,
              "operation {}: a stretch's transfers alone", op);
}

void check_program(const Program& program, std::uint32_t number, std::uint8_t streams) {
  for (const Stretch& stretch : program.stretches) check_stretch(stretch, number);
  const std::size_t n = program.kind.size();
  const bool columns = program.stream.size() == n && program.category.size() == n && program.host_waits.size() == n &&
                       program.issue.size() == n && program.duration.size() == n && program.issue_bound.size() == n &&
                       program.slot.size() == n && program.pattern.size() == n && program.work.size() == n &&
                       program.rate_cap.size() == n && program.waits_begin.size() == n + 1;
  SIM_CHECK(columns, "program {}: columns of unequal length", number);
  SIM_CHECK(program.waits_begin.back() == program.waits.size(), "program {}: waits", number);
  std::int64_t issue = 0;  // of all operations so far: what the host adds up
  for (std::uint32_t op = 0; op < n; ++op) {
    SIM_CHECK(program.stream[op] < streams, "program {} operation {}: stream {}", number, op, program.stream[op]);
    SIM_CHECK(program.issue[op] >= 0 && program.duration[op] >= 0, "program {} operation {}: issue {}, duration {}",
              number, op, program.issue[op], program.duration[op]);
    issue = saturating_add(issue, program.issue[op]);
    if (issue >= kLatest) refuse_time("a host's work");
    if (program.duration[op] >= kLatest) refuse_time("a kernel");
    SIM_CHECK(program.waits_begin[op] <= program.waits_begin[op + 1], "program {} operation {}: waits", number, op);
    for (const std::uint32_t wait : program.waits_of(op)) {
      SIM_CHECK(wait < op, "program {} operation {} waits for the later operation {}", number, op, wait);
    }
    if (program.kind[op] == OpKind::compute) {
      SIM_CHECK(program.issue_bound[op] >= program.issue[op], "program {} operation {}: issue bound {} below issue {}",
                number, op, program.issue_bound[op], program.issue[op]);
      if (program.issue_bound[op] >= kLatest) refuse_time("a run of kernels");
    } else if (program.kind[op] != OpKind::transfer) {
      check_stretch_ends(program, op);
    } else {
      SIM_CHECK(program.slot[op] != kNoSlot, "program {} operation {}: a transfer without a communicator", number, op);
      SIM_CHECK(std::isfinite(program.work[op]) && program.work[op] >= 0, "program {} operation {}: work", number, op);
      SIM_CHECK(std::isfinite(program.rate_cap[op]) && program.rate_cap[op] >= 0, "program {} operation {}: rate cap",
                number, op);
    }
  }
}

void check_network(const Network& network) {
  SIM_CHECK(network.route_begin.size() == network.routes() + 1, "routes");
  SIM_CHECK(network.route_begin.back() == network.route_links.size(), "route links");
  // A machine has millions of links: without a branch for each, and then the one that is wrong.
  bool sound = true;
  for (const double capacity : network.capacity)
    sound &= capacity > 0 && capacity <= std::numeric_limits<double>::max();
  if (!sound) {
    for (const double capacity : network.capacity)
      SIM_CHECK(std::isfinite(capacity) && capacity > 0, "capacity {}", capacity);
  }
  for (const Duration latency : network.route_latency) {
    SIM_CHECK(latency.value() >= 0, "route latency {}", latency.value());
    if (latency.value() >= kLatest) refuse_time("a message");
  }
  for (const WeightedLink& link : network.route_links) {
    SIM_CHECK(index(link.link) < network.capacity.size(), "route over unknown link {}", index(link.link));
    SIM_CHECK(std::isfinite(link.weight) && link.weight > 0, "weight {}", link.weight);
  }
}

/// For each program and slot one more than the highest pattern that its transfers use.
std::vector<std::vector<std::uint64_t>> patterns_by_slot(const Plan& plan) {
  std::vector<std::vector<std::uint64_t>> result(plan.programs.size());
  for (std::uint32_t p = 0; p < plan.programs.size(); ++p) {
    const Program& program = plan.programs[ProgramId{p}];
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] == OpKind::compute || program.kind[op] == OpKind::stretch_transfers) continue;
      SIM_CHECK(program.slot[op] < plan.slots.size(), "program {} operation {}: slot {}", p, op, program.slot[op]);
      auto& needed = result[p];
      if (needed.size() <= program.slot[op]) needed.resize(program.slot[op] + 1, 0);
      const auto need = [&](std::uint32_t pattern) {
        needed[program.slot[op]] = std::max(needed[program.slot[op]], pattern + std::uint64_t{1});
      };
      if (program.kind[op] == OpKind::transfer) need(program.pattern[op]);
      if (program.kind[op] != OpKind::stretch) continue;
      for (const Stretch::Item& item : program.stretches[program.pattern[op]].items) {
        if (item.transfer) need(item.pattern);
      }
    }
  }
  return result;
}

/// Rows are whole, factors are times, and every instance has a place.
void check_loads(const Plan& plan) {
  const Loads& loads = plan.loads;
  if (!loads.any()) return;
  SIM_CHECK(loads.places > 0 && loads.factors.size() % loads.places == 0, "{} factors in rows of {}",
            loads.factors.size(), loads.places);
  for (const double factor : loads.factors) SIM_CHECK(std::isfinite(factor) && factor >= 0, "a load of {}", factor);
  for (const Instance& instance : plan.instances)
    SIM_CHECK(instance.load_place < loads.places, "place {} of {}", instance.load_place, loads.places);
}

/// A stretch's communicator is its instance's own, and times are not drawn.
void check_alone(const Plan& plan, InstanceId i) {
  const Instance& instance = plan.instances[i];
  const Program& program = plan.programs[instance.program];
  if (program.stretches.empty()) return;
  SIM_CHECK(instance.slowdown == 1.0 && plan.noise.sigma == 0 && plan.message_noise.sigma == 0 && !plan.loads.any(),
            "instance {}: a stretch of drawn times", index(i));
  const auto slots = plan.slots_of(i);
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] != OpKind::stretch) continue;
    SIM_CHECK(plan.communicators[slots[program.slot[op]]].members == 1, "instance {}: a stretch among several",
              index(i));
  }
}

}  // namespace

Op Program::op_at(std::uint32_t op) const {
  Op out;
  out.kind = kind[op];
  out.stream = stream[op];
  out.category = category[op];
  out.host_waits = host_waits[op] != 0;
  out.issue = Duration(issue[op]);
  out.duration = Duration(duration[op]);
  out.issue_bound = Duration(issue_bound[op]);
  out.slot = slot[op];
  out.pattern = pattern[op];
  out.work = work[op];
  out.rate_cap = rate_cap[op];
  out.loaded = loaded[op];
  return out;
}

std::uint32_t Program::add(const Op& op, std::span<const std::uint32_t> after) {
  const std::uint32_t at = size();
  kind.push_back(op.kind);
  stream.push_back(op.stream);
  category.push_back(op.category);
  host_waits.push_back(op.host_waits ? 1 : 0);
  issue.push_back(op.issue.value());
  duration.push_back(op.duration.value());
  issue_bound.push_back(op.issue_bound.value());
  slot.push_back(op.slot);
  pattern.push_back(op.pattern);
  work.push_back(op.work);
  rate_cap.push_back(op.rate_cap);
  loaded.push_back(op.loaded);
  for (const std::uint32_t wait : after) {
    SIM_CHECK(wait < at, "operation {} waits for operation {}, which is not earlier", at, wait);
    waits.push_back(wait);
  }
  waits_begin.push_back(static_cast<std::uint32_t>(waits.size()));
  return at;
}

InstanceId Plan::add_instance(const Instance& instance, std::span<const CommunicatorId> communicators_by_slot) {
  slots.insert(slots.end(), communicators_by_slot.begin(), communicators_by_slot.end());
  slots_begin.push_back(static_cast<std::uint32_t>(slots.size()));
  return instances.push_back(instance);
}

void check(const Plan& plan, const Network& network) {
  constexpr std::uint8_t kMostStreams = 32;
  SIM_CHECK(plan.streams >= 1 && plan.streams <= kMostStreams, "{} streams", plan.streams);
  for (const Noise& noise : {plan.noise, plan.message_noise})
    SIM_CHECK(std::isfinite(noise.sigma) && noise.sigma >= 0, "noise sigma {}", noise.sigma);
  check_loads(plan);
  check_network(network);
  for (std::uint32_t p = 0; p < plan.programs.size(); ++p) check_program(plan.programs[ProgramId{p}], p, plan.streams);
  SIM_CHECK(plan.slots_begin.size() == plan.instances.size() + 1 && plan.slots_begin.back() == plan.slots.size(),
            "slots of instances");

  std::vector<std::uint32_t> arrivals(plan.communicators.size());
  for (const CommunicatorId c : plan.slots) {
    SIM_CHECK(index(c) < plan.communicators.size(), "unknown communicator {}", index(c));
    ++arrivals[index(c)];
  }
  for (std::uint32_t c = 0; c < plan.communicators.size(); ++c) {
    const Communicator& communicator = plan.communicators[CommunicatorId{c}];
    SIM_CHECK(communicator.members == arrivals[c], "communicator {} has {} members, but {} slots name it", c,
              communicator.members, arrivals[c]);
    SIM_CHECK(communicator.patterns >= 1 &&
                  std::uint64_t{index(communicator.first_route)} + communicator.patterns <= network.routes(),
              "communicator {} uses routes {} to +{} of {}", c, index(communicator.first_route), communicator.patterns,
              network.routes());
  }
  const auto patterns_needed = patterns_by_slot(plan);
  for (std::uint32_t i = 0; i < plan.instances.size(); ++i) {
    const Instance& instance = plan.instances[InstanceId{i}];
    SIM_CHECK(index(instance.program) < plan.programs.size(), "instance {}: unknown program", i);
    SIM_CHECK(std::isfinite(instance.slowdown) && instance.slowdown > 0, "instance {}: slowdown {}", i,
              instance.slowdown);
    const auto& needed = patterns_needed[index(instance.program)];
    const auto have = plan.slots_of(InstanceId{i});
    SIM_CHECK(needed.size() <= have.size(), "instance {} has {} slots, its program uses {}", i, have.size(),
              needed.size());
    for (std::size_t s = 0; s < needed.size(); ++s) {
      SIM_CHECK(needed[s] <= plan.communicators[have[s]].patterns, "instance {} slot {}: pattern {} of {}", i, s,
                needed[s], plan.communicators[have[s]].patterns);
    }
    check_alone(plan, InstanceId{i});
  }
}

}  // namespace orrery::sim
