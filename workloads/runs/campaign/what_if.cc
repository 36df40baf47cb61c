// The list. Halves throughout, so that the gains can be compared; intervals of checkpoints follow the failure rate
// where they were left to Daly's formula.
#include "workloads/runs/campaign/what_if.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::campaign {

namespace {

void halve(double& value) { value /= 2; }

void add_failures(const Spec& spec, const Plan& plan, std::vector<WhatIf>& list) {
  const auto add = [&](std::string what, const auto& change) {
    list.push_back({std::move(what), spec});
    for (Cause& cause : list.back().spec.fleet.causes) change(cause);
  };
  if (spec.fleet.causes.empty()) return;
  add("half as many failures of every kind", [](Cause& cause) { cause.mtbf_h *= 2; });
  // The three that strike most often.
  std::vector<std::pair<double, std::string>> order;
  for (const Hazard& hazard : plan.hazards)
    order.emplace_back(-hazard.rate - (hazard.components > 0 ? hazard.components / hazard.theta_s : 0), hazard.name);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < std::min<std::size_t>(3, order.size()); ++i) {
    add(fmt::format("half as many of {}", order[i].second), [&](Cause& cause) {
      if (cause.name == order[i].second) cause.mtbf_h *= 2;
    });
  }
  add("detection in half the time", [](Cause& cause) { halve(cause.detection_s); });
  Repair& detection = list.back().spec.repair;
  halve(detection.detection_s);
  halve(detection.hang_detection_s);
  halve(detection.slow_detection_s);
  add("diagnosis in half the time", [](Cause& cause) { halve(cause.diagnosis_s); });
  halve(list.back().spec.repair.diagnosis_s);
  const bool repaired = std::any_of(spec.fleet.causes.begin(), spec.fleet.causes.end(),
                                    [](const Cause& cause) { return cause.repair_s > 0; });
  if (!repaired) return;
  add("repairs in half the time", [](Cause& cause) { halve(cause.repair_s); });
  const std::int64_t more = std::max<std::int64_t>(1, plan.pool.nodes / 100);
  add(fmt::format("{} spare nodes more", more), [](Cause&) {});
  list.back().spec.repair.spares += more;
}

}  // namespace

std::vector<WhatIf> what_ifs(const Spec& spec, const Machine& machine, const Plan& plan) {
  std::vector<WhatIf> list;
  add_failures(spec, plan, list);
  const auto add = [&](bool matters, std::string what, const auto& change) {
    if (!matters) return;
    list.push_back({std::move(what), spec});
    change(list.back().spec);
  };
  const Repair& repair = spec.repair;
  const bool fails = !spec.fleet.causes.empty();
  add(fails && repair.scheduler_s + repair.container_s > 0, "scheduler and containers in half the time", [](Spec& s) {
    halve(s.repair.scheduler_s);
    halve(s.repair.container_s);
  });
  add(fails && plan.restart.initialise[0] > Elapsed{}, "communicators in half the time", [](Spec& s) {
    halve(s.repair.initialisation_s);
    halve(s.repair.initialisation_per_rank_s);
  });
  add(fails, "checkpoints that stall, write and load twice as fast", [&](Spec& s) {
    s.checkpoint.snapshot = 2 * (s.checkpoint.snapshot > 0 ? s.checkpoint.snapshot : machine.pcie);
    for (Tier& tier : s.checkpoint.tiers) {
      tier.write *= 2;
      tier.read *= 2;
      tier.total *= 2;
    }
  });
  const bool remembered = spec.checkpoint.tiers.front().to != Store::storage;
  add(fails && !remembered, "checkpoints in a neighbour's memory too, ten times as often", [](Spec& s) {
    constexpr std::int64_t kTimes = 10;
    for (Tier& tier : s.checkpoint.tiers) tier.one_in *= kTimes;
    s.checkpoint.tiers.insert(s.checkpoint.tiers.begin(), {Store::neighbour, 1, true, 10e9, 10e9, 0});
  });
  add(spec.step_excess > 0, "half the jitter", [](Spec& s) { halve(s.step_excess); });
  add(spec.data_per_step_s > 0, "half the waits for data", [](Spec& s) { halve(s.data_per_step_s); });
  add(spec.maintenance.for_s > 0, "maintenance in half the time", [](Spec& s) { halve(s.maintenance.for_s); });
  return list;
}

}  // namespace orrery::campaign
