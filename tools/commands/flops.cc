// `orrery flops`: parameters and FLOPs of a model, of a step and of a training, by the conventions that papers count
// by, and of milestone systems beside published estimates. Left out: anything but products of matrices.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/report/formulas.h"
#include "tools/report/milestones.h"
#include "tools/report/output.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "workloads/model/token_flops.h"
#include "workloads/step/step.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;

struct FlopsOptions {
  std::string subject, json, plot, format = "text";
  std::vector<std::string> sets;
  double tokens = 0;
  bool milestones = false;
};

/// What is asked about: a model, and the scenario that it is in.
struct Subject {
  std::string name;
  workloads::Model model;
  std::optional<scenarios::Scenario> scenario;
};

Subject subject_of(const FlopsOptions& options) {
  const std::vector<std::string> models = scenarios::shipped("models");
  Subject subject;
  sim::Settings document;
  if (std::find(models.begin(), models.end(), options.subject) != models.end()) {
    document =
        scenarios::read_yaml(fmt::format("{}/scenarios/models/{}.yaml", scenarios::data_directory(), options.subject));
    for (const std::string& set : options.sets) scenarios::apply_set(document, set);
  } else {
    document = scenarios::read_scenario(options.subject, options.sets);
  }
  if (!document.is_mapping()) document.expected("a model or a scenario: a mapping of keys");
  if (const sim::Settings* several = document.find("models"); several != nullptr)
    several->fail("are several models, expected one: orrery flops takes the name of each");
  if (document.find("serving") != nullptr || document.find("rl") != nullptr) {  // of which the model alone is asked
    const sim::Settings& model = document.at("model");
    subject.name = model.is_scalar() ? model.text() : options.subject;
    subject.model = model_of(scenarios::resolve(scenarios::shelf_of("models"), model).document);
    return subject;
  }
  if (document.find("model") == nullptr) {
    subject.model = model_of(document);
    subject.name = options.subject;
    return subject;
  }
  if (options.tokens > 0) scenarios::apply_set(document, fmt::format("training.tokens={}", options.tokens));
  const scenarios::Scenario scenario = scenarios::load_scenario(document);
  subject.name = scenario.id;
  subject.model = scenario.job.model;
  subject.scenario = scenario;
  return subject;
}

/// Tokens by what they make up.
std::vector<std::pair<std::string, double>> amounts(const FlopsOptions& options, const Subject& subject) {
  std::vector<std::pair<std::string, double>> amounts{{"token", 1}};
  double training = options.tokens;
  if (subject.scenario) {
    const workloads::Job& job = subject.scenario->job;
    amounts.emplace_back("step", static_cast<double>(job.batch.global) * static_cast<double>(subject.model.seq));
    if (training == 0) training = job.training.tokens;
  }
  if (training > 0) amounts.emplace_back("training", training);
  return amounts;
}

void write_model(std::ostream& out, const FlopsOptions& options, const Subject& subject) {
  const workloads::Model& model = subject.model;
  const workloads::TokenFlops flops = workloads::token_flops(model);
  const double all = workloads::parameter_count(model), active = workloads::active_parameter_count(model);
  const std::string sizes =
      model.recommender.any()
          ? fmt::format("{} tables of width {}, {} cross layers; a token is a sample", model.recommender.tables.size(),
                        model.recommender.width, model.recommender.cross_layers)
          : fmt::format("{} layers, hidden {}, sequences of {}", model.layers, model.hidden, model.seq);
  out << wrapped(fmt::format("{}: {}", subject.name, sizes), "", "  ");
  out << fmt::format("  {} parameters{}\n\n", si_text(all, ""),
                     active < all ? fmt::format(", of which a token meets {}", si_text(active, "")) : "");
  TextTable table(
      {{"FLOPs of training, forward and backward", Align::left}, {"tokens"}, {"square"}, {"causal"}, {"6 N D"}}, "");
  for (const auto& [name, tokens] : amounts(options, subject)) {
    table.add_row({"a " + name, si_text(tokens, ""), fmt::format("{:.4g}", flops.training_square() * tokens),
                   fmt::format("{:.4g}", flops.training_causal() * tokens),
                   fmt::format("{:.4g}", workloads::six_n(model) * tokens)});
  }
  table.write(out);
  out << "square: attention over the whole square of a sequence, as Megatron-LM counts; causal: the pairs\n"
         "that a causal mask leaves; 6 N D: six for each parameter that a token meets, and each token\n";
}

ordered_json model_json(const FlopsOptions& options, const Subject& subject) {
  const workloads::TokenFlops flops = workloads::token_flops(subject.model);
  ordered_json json;
  json["name"] = subject.name;
  json["parameters"] = workloads::parameter_count(subject.model);
  json["active_parameters"] = workloads::active_parameter_count(subject.model);
  json["rows"] = ordered_json::array();
  for (const auto& [name, tokens] : amounts(options, subject)) {
    json["rows"].push_back({{"what", name},
                            {"tokens", tokens},
                            {"square", flops.training_square() * tokens},
                            {"causal", flops.training_causal() * tokens},
                            {"six_n", workloads::six_n(subject.model) * tokens}});
  }
  return json;
}

int milestones(const FlopsOptions& options) {
  const sim::Settings document =
      scenarios::read_yaml(scenarios::data_directory() + "/scenarios/reproduce/milestones.yaml");
  const std::vector<Milestone> rows = milestones_of(document);
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, milestones_json("milestones", rows)); });
  if (!options.plot.empty())
    write_output(options.plot,
                 [&](std::ostream& out) { write_milestone_chart(out, document.at("title").text(), rows); });
  if (options.json != "-" && options.plot != "-")
    write_grid(std::cout, grid_format(options.format), milestones_grid(document.at("title").text(), rows));
  return kDone;
}

int flops(const FlopsOptions& options) {
  check_writable(options.json);
  check_writable(options.plot);
  if (!options.plot.empty() && !options.milestones)
    throw sim::UserError("orrery: flops: --plot: got no --milestones, whose compute it draws, expected both");
  if (options.milestones) return milestones(options);
  if (options.subject.empty()) {
    throw sim::UserError(
        "orrery: flops: there is no model, expected the name or file of a model or scenario, or --milestones");
  }
  if (options.format != "text")
    throw sim::UserError("orrery: --format: a model is written as text or JSON, expected text");
  const Subject subject = subject_of(options);
  std::vector<Formula> formulas;
  if (subject.scenario) formulas = formulas_of(*subject.scenario, workloads::simulate_step(subject.scenario->job));
  if (!options.json.empty()) {
    ordered_json json = model_json(options, subject);
    if (subject.scenario) json["formulas"] = formulas_json(formulas);
    write_output(options.json, [&](std::ostream& out) { write_json(out, json); });
  }
  if (options.json != "-") {
    write_model(std::cout, options, subject);
    if (subject.scenario) write_formulas(std::cout, formulas);
  }
  return kDone;
}

}  // namespace

Action declare_flops(CommandOptions app) {
  const auto options = std::make_shared<FlopsOptions>();
  app.add_option("subject", options->subject, "name or file of a model or of a scenario");
  app.add_option("--tokens", options->tokens, "tokens to train on (default: the scenario's training.tokens)")
      .check(Range(1.0, 1e18))
      .type_name("N");
  app.add_flag("--milestones", options->milestones, "milestone systems beside published estimates");
  app.add_option("--set", options->sets, "key.path=value, laid over the document; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_option("--format", options->format, "of --milestones: text (default), markdown, latex, csv or html")
      .check(OneOf(grid_format_names()));
  app.add_option("--plot", options->plot, "of --milestones: draw compute over time as SVG into FILE").type_name("FILE");
  app.add_option("--json", options->json, "write the result as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  return [options] { return flops(*options); };
}

}  // namespace orrery::tools
