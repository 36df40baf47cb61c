// A step of reinforcement learning, from its document to where its time goes. See rl_study.h.
#include "tools/study/rl_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/parallel.h"
#include "tools/study/serving_study.h"
#include "workloads/step/serving_memory.h"

namespace orrery::tools {

using scenarios::RlScenario;
using scenarios::ServingScenario;

RlStudy study_rl(const RlScenario& scenario) {
  RlStudy study;
  study.scenario = scenario;
  const ServingScenario& rollout = scenario.rollout;
  workloads::IterationTimes times(rollout.replica,
                                  scenarios::kernels_of(rollout.machine.device, rollout.replica.engine.kernels));
  study.kernels = times.kernels().provenance();
  const workloads::ServingMemory memory = workloads::serving_memory(
      rollout.replica, times.pass(), static_cast<double>(rollout.machine.device.memory().value()), rollout.limits);
  if (memory.blocks < 1)
    throw sim::UserError(no_room_for_cache(scenario.id, "rl.rollout.pools", rollout, rollout, memory));
  const std::int64_t groups = rollout.replica.layout.attention_data;
  study.blocks = memory.blocks * groups;
  rl::Fleet fleet;
  fleet.replicas = rollout.replicas;
  fleet.concurrency = scenario.concurrency;
  fleet.by_sample = scenario.framework.dealing == calibration::Dealing::samples;
  fleet.limits = rollout.scheduler_limits(study.blocks);
  study.prices = rl_prices(scenario, times);
  study.steps = rl::run_steps(scenario.spec, study.prices.times, fleet, times);
  if (study.steps.refused > 0)
    throw sim::UserError(
        fmt::format("{}: {} answers need more than the whole cache of a replica, {} tokens, expected shorter answers "
                    "or more GPUs a replica",
                    scenario.id, study.steps.refused, study.blocks * rollout.limits.block_tokens));
  return study;
}

std::vector<RlSplit> split_rl(const sim::Settings& document, unsigned jobs) {
  const RlScenario base = scenarios::load_rl(document);
  if (base.spec.placement == rl::Placement::colocated)
    throw sim::UserError(fmt::format(
        "{}: engine and trainer share their GPUs, expected rl.placement: separate or asynchronous to split them",
        base.id));
  const std::int64_t replica = base.rollout.replica.layout.gpus(), node = base.rollout.machine.gpus_per_node;
  const workloads::Parallelism& layout = base.update.parallelism;
  const std::int64_t model = layout.tensor * layout.pipeline * layout.context;
  std::vector<RlSplit> splits;
  for (std::int64_t gpus = std::lcm(replica, node); gpus < base.gpus; gpus += std::lcm(replica, node))
    if ((base.gpus - gpus) % model == 0) splits.push_back({gpus, base.gpus - gpus, 0, 0, 0, 0, true, ""});
  // Of many splits even ones are tried.
  constexpr std::size_t kMostSplits = 64;
  if (const std::size_t every = (splits.size() + kMostSplits - 1) / kMostSplits; every > 1) {
    std::vector<RlSplit> some;
    for (std::size_t i = every - 1; i < splits.size(); i += every) some.push_back(splits[i]);
    splits = std::move(some);
  }
  for_each_parallel(splits.size(), jobs, "splits", [&](std::size_t i) {
    RlSplit& split = splits[i];
    sim::Settings changed = document;
    const sim::Settings& placement = document.at("rl").at("placement");
    if (placement.is_scalar()) {
      sim::Settings mapping = sim::Settings::mapping(placement.place());
      mapping.set("kind", placement);
      changed.set_path("rl.placement", mapping);
    }
    changed.set_path("rl.placement.rollout_gpus",
                     sim::Settings::scalar(std::to_string(split.rollout_gpus), placement.place()));
    try {
      const RlStudy study = study_rl(scenarios::load_rl(changed));
      split.step_s = study.step_s();
      split.tokens_per_s_per_gpu = study.tokens_per_s_per_gpu();
      split.wait_s = study.part_s(rl::Part::wait);
      split.engine_busy = study.steps.engine_busy;
      split.fits = study.prices.fits;
    } catch (const sim::UserError& error) {
      split.reason = error.what();
    }
  });
  std::stable_sort(splits.begin(), splits.end(), [](const RlSplit& a, const RlSplit& b) {
    const auto rank = [](const RlSplit& s) { return s.reason.empty() ? s.fits ? 0 : 1 : 2; };
    return rank(a) != rank(b) ? rank(a) < rank(b) : a.step_s < b.step_s;
  });
  return splits;
}

}  // namespace orrery::tools
