// `orrery serving`: requests served by one or more replicas of a model.
#include "scenarios/serving.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "scenarios/scenario.h"
#include "scenarios/yaml_text.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/served_question.h"
#include "tools/study/served_models.h"
#include "tools/study/serving.h"

namespace orrery::tools {

namespace {

struct ServingFlags {
  ServedQuestion asked;
  std::string scenario, json, report, requests, timeline;
  std::vector<std::string> sets;
};

/// What is written, by flags: each as the study's own functions have it.
template <class Study>
struct Writers {
  nlohmann::ordered_json (*json)(const Study&);
  nlohmann::ordered_json (*page)(const Study&);
  void (*requests)(std::ostream&, const Study&);
  void (*timeline)(std::ostream&, const Study&);
  void (*text)(std::ostream&, const Study&);
};

template <class Study>
void write_study(const ServingFlags& options, const Study& study, const Writers<Study>& writers) {
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, writers.json(study)); });
  if (!options.report.empty())
    write_output(options.report, [&](std::ostream& out) { write_page(out, writers.page(study)); });
  if (!options.requests.empty())
    write_output(options.requests, [&](std::ostream& out) { writers.requests(out, study); });
  if (!options.timeline.empty())
    write_output(options.timeline, [&](std::ostream& out) { writers.timeline(out, study); });
  const bool documents =
      options.json == "-" || options.report == "-" || options.requests == "-" || options.timeline == "-";
  if (!documents) writers.text(std::cout, study);
}

int serving_command(const ServingFlags& options) {
  for (const std::string& file : {options.json, options.requests, options.timeline}) check_writable(file);
  check_report(options.report);
  check_writable(options.asked.out);
  std::vector<std::string> assumed;
  const sim::Settings document = asked_service(options.scenario, options.asked, options.sets, assumed);
  if (!options.asked.out.empty())
    write_output(options.asked.out, [&](std::ostream& out) { out << scenarios::yaml_text(document); });
  if (scenarios::serves_several(document)) {
    write_study<ServedModelsStudy>(options, study_served_models(scenarios::load_served_models(document)),
                                   {served_models_json, served_models_page, write_models_requests_csv,
                                    write_models_timeline_csv, write_served_models});
    return kDone;
  }
  scenarios::ServingScenario scenario = scenarios::load_serving(document);
  if (scenario.workload)
    document.at("workload")
        .fail("is one iteration, which orrery run looks at; expected none where requests are served");
  for (auto said = assumed.rbegin(); said != assumed.rend(); ++said)
    scenario.assumptions.insert(scenario.assumptions.begin(), fmt::format("Assumed: {}.", *said));
  write_study<ServingStudy>(options, study_serving(scenario),
                            {serving_json, serving_page, write_requests_csv, write_timeline_csv, write_serving});
  return kDone;
}

}  // namespace

Action declare_serving(CommandOptions app) {
  const auto options = std::make_shared<ServingFlags>();
  app.add_option(
      "scenario", options->scenario,
      "scenario with a serving section or a list of models, a file (YAML) or a name, or --model, --device and "
      "--gpus");
  declare_served_question(app, options->asked);
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_option("--json", options->json, "write the result as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--report", options->report, "write charts as one HTML file that needs no network").type_name("FILE");
  app.add_option("--requests", options->requests, "write a row for each request as CSV to FILE").type_name("FILE");
  app.add_option("--timeline", options->timeline, "write what runs, waits and is cached over time as CSV to FILE")
      .type_name("FILE");
  return [options] { return serving_command(*options); };
}

}  // namespace orrery::tools
