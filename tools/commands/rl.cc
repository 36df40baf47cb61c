// `orrery rl`: a step of reinforcement learning after pre-training: answers, scores, updates, weights to the engine.
#include "scenarios/rl.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/parallel.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/study/rl.h"

namespace orrery::tools {

namespace {

struct RlFlags {
  std::string scenario, json, report;
  std::vector<std::string> sets;
  bool split = false;
  unsigned jobs = 0;
};

int rl_command(const RlFlags& options) {
  check_writable(options.json);
  check_report(options.report);
  const sim::Settings document = scenarios::read_scenario(options.scenario, options.sets);
  const RlStudy study = study_rl(scenarios::load_rl(document));
  const InterruptGuard guard;
  std::vector<RlSplit> splits;
  if (options.split) splits = split_rl(document, options.jobs > 0 ? options.jobs : default_jobs());
  if (InterruptGuard::interrupted()) return kInterrupted;
  if (!options.json.empty()) {
    nlohmann::ordered_json json = rl_json(study);
    if (options.split) json["splits"] = rl_splits_json(splits);
    write_output(options.json, [&](std::ostream& out) { write_json(out, json); });
  }
  if (!options.report.empty())
    write_output(options.report, [&](std::ostream& out) { write_page(out, rl_page(study)); });
  if (options.json == "-" || options.report == "-") return kDone;
  write_rl(std::cout, study);
  if (options.split) write_rl_splits(std::cout, splits);
  return kDone;
}

}  // namespace

Action declare_rl(CommandOptions app) {
  const auto options = std::make_shared<RlFlags>();
  app.add_option("scenario", options->scenario, "scenario with a section rl, a file (YAML) or a name").required();
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_flag("--split", options->split, "every split of the GPUs between engine and trainer, the fastest first");
  app.add_option("--jobs", options->jobs, "splits at a time (default: one per core)").check(Range(1, 1024));
  app.add_option("--json", options->json, "write the result as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--report", options->report, "write charts as one HTML file that needs no network").type_name("FILE");
  return [options] { return rl_command(*options); };
}

}  // namespace orrery::tools
