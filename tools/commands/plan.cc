// `orrery plan`: the compiled program of a pipeline stage as text, the artefact between a scenario and its simulation;
// or, --layers, what its layers run in a step, kernel by kernel.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/report/layer_lines.h"
#include "tools/report/output.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "workloads/compile/program_text.h"
#include "workloads/job/step_plan.h"

namespace orrery::tools {

namespace {

struct PlanOptions {
  std::string scenario, json;
  std::vector<std::string> sets;
  std::int64_t stage = 0, passes = 0;
  bool kernels = false, folded = false, layers = false;
};

/// What the layers of a stage run, as a table or as JSON.
void write_layers(const PlanOptions& options, const scenarios::Scenario& scenario,
                  const workloads::StagePrograms& programs) {
  const workloads::Network network = workloads::network_of(scenario.job);
  const LayerLines lines = layer_lines(programs, network, options.stage);
  if (!options.json.empty()) {
    nlohmann::ordered_json json = to_json(lines);
    json["scenario"] = scenario.id;
    json["stage"] = options.stage;
    write_output(options.json, [&](std::ostream& out) { write_json(out, json); });
  }
  if (options.json == "-") return;
  std::cout << wrapped(fmt::format("{}: {}", scenario.id, scenario_line(scenario.job)), "", "  ") << text(lines);
}

int plan(const PlanOptions& options) {
  if (!options.json.empty() && !options.layers)
    throw sim::UserError("--json: got no --layers, expected both: a program has no JSON of its own");
  if (options.layers && options.folded)
    throw sim::UserError("--layers: got --folded too, expected one: a folded pass has no kernels to count");
  check_writable(options.json);
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
  if (options.layers) {
    write_layers(options, scenario, compiled.stages);
    return kDone;
  }
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
  app.add_flag("--layers", options->layers,
               "what the stage's layers run in a step, kernel by kernel: launches, bytes, FLOPs, time, recipe");
  app.add_option("--json", options->json, "with --layers, write the lines as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_flag("--folded", options->folded,
               "as a folded run takes it: a pass that nothing outside can disturb is one operation");
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  return [options] { return plan(*options); };
}

}  // namespace orrery::tools
