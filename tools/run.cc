// `orrery run`: one training step of one scenario, as text, JSON or a trace.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "scenarios/would_fit.h"
#include "tools/commands.h"
#include "tools/report/output.h"
#include "tools/report/report.h"
#include "tools/report/trace.h"
#include "workloads/step.h"

namespace orrery::tools {

namespace {

struct RunOptions {
  std::string scenario, ranks = "folded", json, trace;
  std::vector<std::string> sets;
};

int run(const RunOptions& options) {
  check_writable(options.json);
  check_writable(options.trace);
  const sim::Settings document = scenarios::read_scenario(options.scenario, options.sets);
  const scenarios::Scenario scenario = scenarios::load_scenario(document);
  workloads::StepOptions step;
  step.full = options.ranks == "full";
  step.timelines = !options.trace.empty();
  step.count_memory = true;
  workloads::StepReport report = workloads::simulate_step(scenario.job, step);
  if (!report.fits) report.would_fit = scenarios::would_fit(document);
  if (!options.trace.empty()) {
    write_output(options.trace, [&](std::ostream& out) { write_trace(out, scenario.id, report.timelines); });
  }
  if (!options.json.empty()) {
    write_output(options.json, [&](std::ostream& out) { write_json(out, report_json(scenario, report)); });
  }
  // What goes to standard output stays one document.
  if (options.json != "-" && options.trace != "-") write_report(std::cout, scenario, report);
  return kDone;
}

}  // namespace

Action declare_run(CLI::App& app) {
  const auto options = std::make_shared<RunOptions>();
  app.add_option("scenario", options->scenario, "scenario file (YAML)")->required();
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_option("--ranks", options->ranks, "folded: one rank per class of equals; full: every rank (default folded)")
      ->check(CLI::IsMember({"folded", "full"}));
  app.add_option("--json", options->json, "write the result as JSON to FILE, or to standard output for -")
      ->type_name("FILE");
  app.add_option("--trace", options->trace, "write a timeline that ui.perfetto.dev opens")->type_name("FILE");
  return [options] { return run(*options); };
}

}  // namespace orrery::tools
