// `orrery diff`: a profiler's traces beside the prediction of the scenario that they were taken of.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/learn/difference.h"
#include "tools/learn/difference_page.h"
#include "tools/learn/predicted.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"

namespace orrery::tools {

namespace {

struct DiffOptions {
  std::vector<std::string> files, sets;
  std::string json, report;
};

int diff(const DiffOptions& options) {
  if (options.files.size() < 2)
    throw sim::UserError("orrery: diff: got one file, expected traces and, last, the scenario that they were taken of");
  const auto yaml = [](const std::string& file) { return file.ends_with(".yaml") || file.ends_with(".yml"); };
  if (yaml(options.files.front()) && !yaml(options.files.back()))
    throw sim::UserError(fmt::format("orrery: diff: got the scenario {} first, expected traces and, last, the scenario",
                                     options.files.front()));
  check_writable(options.json);
  check_report(options.report);
  const scenarios::Scenario scenario =
      scenarios::load_scenario(scenarios::read_scenario(options.files.back(), options.sets));
  std::vector<Trace> measured;
  for (std::size_t i = 0; i + 1 < options.files.size(); ++i) {
    for (Trace& trace : read_trace(options.files[i])) measured.push_back(std::move(trace));
  }
  const std::vector<std::int64_t> ranks = ranks_of(measured, scenario.job.parallelism, scenario.job.machine.gpus);
  const std::vector<Trace> predicted = predict(scenario, ranks);
  const Difference difference = difference_of(measured, predicted, ranks);
  if (!options.report.empty()) {
    write_output(options.report, [&](std::ostream& out) {
      write_page(out, difference_page(difference, measured.front(), predicted.front(), scenario.id));
    });
  }
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, difference_json(difference)); });
  if (options.json != "-" && options.report != "-") write_difference(std::cout, difference);
  return kDone;
}

}  // namespace

Action declare_diff(CommandOptions app) {
  const auto options = std::make_shared<DiffOptions>();
  app.add_option(
         "files", options->files,
         "traces of PyTorch's profiler (.json, .json.gz), exports of Nsight Systems (.sqlite) or this program's "
         "own, a rank each; last, the scenario (YAML)")
      .required()
      .type_name("TRACE... SCENARIO");
  app.add_option("--json", options->json, "write the parts as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--report", options->report, "write a page with charts and both timelines to FILE.html")
      .type_name("FILE");
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  return [options] { return diff(*options); };
}

}  // namespace orrery::tools
