// `orrery plan`: the compiled program of a pipeline stage as text, the artefact between a scenario and its simulation.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/command_options.h"
#include "tools/commands.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "workloads/compile/program_text.h"
#include "workloads/step/step_plan.h"

namespace orrery::tools {

namespace {

struct PlanOptions {
  std::string scenario;
  std::vector<std::string> sets;
  std::int64_t stage = 0, passes = 0;
  bool kernels = false, folded = false;
};

int plan(const PlanOptions& options) {
  const scenarios::Scenario scenario =
      scenarios::load_scenario(scenarios::read_scenario(options.scenario, options.sets));
  const workloads::Job& job = scenario.job;
  if (options.stage >= job.parallelism.pipeline) {
    throw sim::UserError(fmt::format("--stage: got {}, expected 0 to {}, the stages of the scenario", options.stage,
                                     job.parallelism.pipeline - 1));
  }
  const topology::Cluster cluster = workloads::cluster_of(workloads::site_of(job));
  const auto groups = workloads::make_groups(workloads::group_inputs_of(job), cluster, true);
  const workloads::StepPlan compiled =
      workloads::make_plan(job, cluster, groups, {workloads::Workload::training_step, options.folded});
  std::cout << wrapped(fmt::format("{}: {}", scenario.id, scenario_line(job)), "", "  ")
            << workloads::program_text(compiled.stages, options.stage, {options.passes, options.kernels});
  return kDone;
}

}  // namespace

Action declare_plan(CommandOptions app) {
  const auto options = std::make_shared<PlanOptions>();
  app.add_option("scenario", options->scenario, "scenario file (YAML)").required();
  app.add_option("--stage", options->stage, "pipeline stage, from 0 (default)").check(AtLeastZero{}).type_name("N");
  app.add_option("--passes", options->passes,
                 "the first N passes in full (default: the first of each kind, cut where they are long)")
      .check(MoreThanZero{})
      .type_name("N");
  app.add_flag("--kernels", options->kernels, "below each compute operation its kernels, with their times");
  app.add_flag("--folded", options->folded,
               "as a folded run takes it: a pass that nothing outside can disturb is one operation");
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  return [options] { return plan(*options); };
}

}  // namespace orrery::tools
