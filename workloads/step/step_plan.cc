// A job's programs and groups. See step_plan.h.
#include "workloads/step/step_plan.h"

#include <utility>

#include "workloads/step/step_cache.h"
#include "workloads/step/step_passes.h"

namespace orrery::workloads {

StepPlan make_plan(const Job& job, const topology::Cluster& cluster, std::shared_ptr<const Groups> groups,
                   const PlanOptions& options) {
  StepPlan out;
  out.split = split_layers(job);
  out.stages = compile_programs(program_inputs_of(job, options.workload), out.split, step_passes(job, out.split),
                                {job.machine.device, job.software, cluster, groups->shapes}, groups->slots,
                                options.compact ? groups->tensor_rate_limit : 0);
  out.groups = std::move(groups);
  return out;
}

PlannedStep plan_step(const Job& job) {
  StepCache cache(1);
  PlannedStep planned;
  planned.cluster = cache.cluster_of(site_of(job));
  planned.plan = make_plan(job, *planned.cluster, cache.groups_of(planned.cluster, group_inputs_of(job)),
                           {Workload::training_step, true});
  return planned;
}

}  // namespace orrery::workloads
