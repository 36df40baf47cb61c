// `orrery advise`: what to change about a job, each change simulated, with its reason, how sure it is and the command.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "scenarios/yaml_text.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/explain/advice.h"
#include "tools/explain/advice_text.h"
#include "tools/explain/served_advice.h"
#include "tools/parallel.h"
#include "tools/question.h"
#include "tools/report/output.h"
#include "tools/report/report.h"

namespace orrery::tools {

namespace {

struct AdviseFlags {
  FirstQuestion first;
  std::string scenario, json;
  std::vector<std::string> sets;
  std::size_t top = 5, pairs = AdviceOptions{}.pairs;
  unsigned jobs = 0;
};

int run_served(const AdviseFlags& options, const sim::Settings& document) {
  const ServedAdvice advice = advise_served(document, options.jobs > 0 ? options.jobs : default_jobs());
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, served_advice_json(advice)); });
  if (options.json != "-") write_served_advice(std::cout, advice, options.scenario, options.top);
  return kDone;
}

int run(AdviseFlags& options) {
  check_writable(options.json);
  std::vector<std::string> assumed;
  sim::Settings document = asked_scenario(options.scenario, options.first, options.sets, assumed);
  options.scenario = typed(options.scenario, options.first);
  if (options.first.asked()) lay_out(document, options.sets, options.jobs > 0 ? options.jobs : default_jobs());
  if (!options.first.out.empty()) {
    write_output(options.first.out, [&](std::ostream& out) { out << scenarios::yaml_text(document); });
    options.sets.clear();  // the file has them
  }
  const InterruptGuard guard;
  if (document.is_mapping() && document.find("serving") != nullptr) return run_served(options, document);
  AdviceOptions asked;
  asked.top = options.top;
  asked.pairs = options.pairs;
  asked.jobs = options.jobs > 0 ? options.jobs : default_jobs();
  const Advice advice = advise(document, asked);
  if (!options.json.empty()) {
    write_output(options.json,
                 [&](std::ostream& out) { write_json(out, advice_json(advice, options.scenario, options.sets)); });
  }
  if (options.json != "-") write_advice(std::cout, advice, options.scenario, options.sets);
  if (advice.interrupted) return kInterrupted;
  return advice.counts.errors > 0 ? kBug : kDone;
}

}  // namespace

Action declare_advise(CommandOptions app) {
  const auto options = std::make_shared<AdviseFlags>();
  app.add_option("scenario", options->scenario, "scenario file (YAML), or --model, --device and --gpus");
  declare_question(app, options->first, true);
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_option("--top", options->top, "how many suggestions to show (default 5)").check(Range(1, 1000));
  app.add_option("--pairs", options->pairs,
                 "pairs of changes to simulate, the most promising first; 0 for single changes alone (default 32)")
      .type_name("N")
      .check(Range(0, 768));
  app.add_option("--jobs", options->jobs, "simulations at a time (default: one per core)").check(Range(1, 1024));
  app.add_option("--json", options->json, "write the result as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  return [options] { return run(*options); };
}

}  // namespace orrery::tools
