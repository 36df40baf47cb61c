// A job's programs and groups. See step_plan.h.
#include "workloads/job/step_plan.h"

#include <utility>

#include "workloads/job/step_passes.h"

namespace orrery::workloads {

namespace {
StagePrices stage_prices(const Machine& machine, const calibration::Software& software,
                         const topology::Cluster& cluster, const GroupShapes& shapes, bool both_ways) {
  StagePrices prices{{}, machine.mixture.kind_of_stage};
  std::vector<const calibration::DeviceProfile*> devices;
  for (std::size_t kind = 0; machine.mixed() && kind < machine.mixture.kinds(); ++kind)
    devices.push_back(&machine.device_of_kind(kind));
  for (std::size_t kind = 0; kind < machine.mixture.kinds(); ++kind)
    prices.kinds.push_back({machine.device_of_kind(kind), software, cluster, shapes, devices, both_ways});
  return prices;
}
}  // namespace

StepPlan make_plan(const Job& job, const topology::Cluster& cluster, std::shared_ptr<const Groups> groups,
                   const PlanOptions& options) {
  StepPlan out;
  out.split = split_layers(job);
  ProgramInputs inputs = program_inputs_of(job, options.workload);
  if (options.step_microbatches > 0)
    inputs.slowest = slowest_of(pace_spread_of(job.machine, job.power), job.parallelism, options.step_microbatches);
  WholePasses whole = options.compact ? groups->whole_passes : WholePasses{};
  whole.stretches = options.compact && options.timed && groups->in_step;
  out.stages = compile_programs(
      inputs, out.split, step_passes(job, out.split),
      stage_prices(job.machine, job.software, cluster, groups->shapes, job.parallelism.schedule->copies() > 1),
      groups->slots, whole);
  out.groups = std::move(groups);
  return out;
}

}  // namespace orrery::workloads
