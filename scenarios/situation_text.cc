// What is perturbed or placed on purpose, in a sentence each, for the assumptions of a report. Left out: what becomes
// of it, which the breakdown says (slow_gpu, partner_wait).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "scenarios/load.h"
#include "workloads/job/job_values.h"

namespace orrery::scenarios {

namespace {

using topology::Fault;
using workloads::Perturbation;

/// The first few of a list by `text`, and how many more there are.
template <class Items, class Text>
std::string some_of(const Items& items, const Text& text) {
  constexpr std::size_t kShown = 6;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < items.size() && i < kShown; ++i) shown.push_back(text(items[i]));
  if (items.size() > kShown) shown.push_back(fmt::format("and {} more", items.size() - kShown));
  return fmt::format("{}", fmt::join(shown, ", "));
}

std::string fault_text(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::slow_link:
      return fmt::format("{} to {} at {:g} of its rate", fault.a, fault.b, fault.rate);
    case Fault::Kind::lost_link:
      return fault.lanes == 0 ? fmt::format("{} to {} lost", fault.a, fault.b)
                              : fmt::format("{} to {} without {} of its lanes", fault.a, fault.b, fault.lanes);
    case Fault::Kind::lost_switch:
      return fmt::format("{} lost", fault.a);
  }
  return {};
}

std::string background_text(const topology::Faults& faults) {
  std::vector<std::string> tiers;
  for (std::size_t t = 0; t < faults.background.size(); ++t) {
    if (faults.background[t] > 0) {
      tiers.push_back(fmt::format("{:g} of every {} link", faults.background[t],
                                  topology::name_of(static_cast<topology::Tier>(t))));
    }
  }
  return fmt::format("{}", fmt::join(tiers, ", "));
}

/// Which stages lie on which kind of nodes, and the layers that were balanced over them.
void say_kinds(workloads::Job& job) {
  const workloads::Machine& machine = job.machine;
  for (std::size_t kind = 0; machine.mixed() && kind < machine.mixture.kinds(); ++kind) {
    std::vector<std::size_t> stages;
    for (std::size_t stage = 0; stage < machine.mixture.kind_of_stage.size(); ++stage) {
      if (machine.mixture.kind_of_stage[stage] == kind) stages.push_back(stage);
    }
    job.assumptions.push_back(fmt::format("cluster.others: {} x {} hold stage{} {}.", machine.gpus_of_kind(kind),
                                          machine.device_of_kind(kind).name(), stages.size() == 1 ? "" : "s",
                                          fmt::join(stages, ", ")));
  }
  if (machine.mixture.balances_layers) {
    job.assumptions.push_back(
        fmt::format("parallelism.stage_layers: balanced is [{}].", fmt::join(job.parallelism.stage_layers, ", ")));
  }
}

}  // namespace

void say_situation(workloads::Job& job) {
  for (std::size_t kind = 0; kind < job.machine.mixture.kinds(); ++kind) {
    const calibration::DeviceProfile& device = job.machine.device_of_kind(kind);
    if (device.clock() >= 1) continue;
    job.assumptions.push_back(
        fmt::format("A limit of {:g} W leaves products {:.0f} % and fused attention {:.0f} % of their pace in a short "
                    "benchmark{}.",
                    job.power.limit_of(device.power()), 100 * device.power().product_speed(device.clock()),
                    100 * device.clock(), kind > 0 ? " on " + device.name() : ""));
  }
  say_kinds(job);
  const Perturbation& perturbed = job.perturbation;
  const auto say = [&](const char* key, const std::string& what) {
    job.assumptions.push_back(fmt::format("perturb.{}: {}.", key, what));
  };
  if (!perturbed.slow_gpus.empty()) {
    say("slow_gpus", some_of(perturbed.slow_gpus, [](const Perturbation::SlowGpu& slow) {
          return fmt::format("GPU {} computes {:g} times as long", slow.gpu, slow.slowdown);
        }));
  }
  if (const double spread = job.machine.fabric.gpus.spread; spread > 0) {
    const double slowest = workloads::program_inputs_of(job, workloads::Workload::training_step).slowest;
    job.assumptions.push_back(fmt::format(
        "cluster.fabric.gpu_spread: GPUs differ by {:g} % (standard deviation): those that wait for each other compute "
        "{:.1f} % longer than one of the mean.",
        100 * spread, 100 * (slowest - 1)));
  }
  if (job.power.warmer_k != 0 || job.power.temperature_spread_k > 0) {
    job.assumptions.push_back(
        fmt::format("power: GPUs are {:g} K warmer than the device's constants hold at, and differ by {:g} K (standard "
                    "deviation); with "
                    "{:g} % more of what stands for each kelvin that is {:.2f} % of kernels' times.",
                    job.power.warmer_k, job.power.temperature_spread_k, 100 * job.power.leakage_per_k,
                    100 * job.power.pace_spread));
  }
  if (!job.power.rows.empty()) {
    const workloads::Cooling& cooling = job.power.cooling;
    std::vector<std::string> rows;
    for (const workloads::WarmRow& row : job.power.rows)
      rows.push_back(fmt::format("{:.0f} C at {:.1f} % of the highest clock{}", row.temperature_c, 100 * row.clock,
                                 row.throttled ? ", slowed down by its temperature" : ""));
    const bool alone = rows.size() == 1;
    job.assumptions.push_back(fmt::format(
        "power.cooling: {} of {:g} C takes GPUs to {}{}, {:.0f} s after a start (three time constants).",
        cooling.by == workloads::Cooling::By::air ? "air" : "coolant", cooling.inlet_c, fmt::join(rows, ", then "),
        alone ? "" : " from row to row of a node; all go at the pace of the slowest", 3 * cooling.time_constant_s));
  }
  if (!perturbed.slow_nics.empty()) {
    say("slow_nics", some_of(perturbed.slow_nics, [](const Perturbation::SlowNic& slow) {
          return fmt::format("NIC {} of node {} at {:g} of its rate", slow.nic, slow.node, slow.rate);
        }));
  }
  if (!perturbed.faults.list.empty()) say("links and switches", some_of(perturbed.faults.list, fault_text));
  if (const std::string taken = background_text(perturbed.faults); !taken.empty())
    say("background", "others' traffic takes " + taken);
  if (perturbed.jitter_sigma > 0) {
    say("jitter", fmt::format("compute times vary by a lognormal of sigma {:g}, seed {}", perturbed.jitter_sigma,
                              perturbed.jitter_seed));
  }
  if (perturbed.routing.skew > 0) {
    job.assumptions.push_back(
        fmt::format("experts.seed: every rank draws its tokens, by seed {}; its memory is that of "
                    "the mean.",
                    perturbed.routing.seed));
  }
  if (perturbed.message_sigma > 0) {
    say("message_jitter", fmt::format("latencies of transfers vary by a lognormal of sigma {:g}, seed {}",
                                      perturbed.message_sigma, perturbed.message_seed));
  }
  if (job.placement.kind == workloads::Placement::Kind::random)
    job.assumptions.push_back(fmt::format("placement: GPUs are dealt out at random, seed {}.", job.placement.seed));
  if (job.placement.kind == workloads::Placement::Kind::list)
    job.assumptions.emplace_back("placement: ranks are on the GPUs that placement.gpus lists.");
}

}  // namespace orrery::scenarios
