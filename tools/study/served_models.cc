// Sums over models, and what is written of them. See served_models.h.
#include "tools/study/served_models.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/report/csv.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "tools/study/serving.h"

namespace orrery::tools {

using nlohmann::ordered_json;

namespace {

bool keeps_promise(const ServingStudy& study) {
  return study.refused == 0 && study.lost == 0 &&
         100 * study.good >= study.scenario.slo.percentile * static_cast<double>(study.completed + study.turned_away);
}

double watts_of(const ServingStudy& study) { return study.fleet_s > 0 ? study.joules / study.fleet_s : 0; }

double rate_of_model(const ServingStudy& study, double count) {
  return study.duration_s > 0 ? count / study.duration_s : 0;
}

std::string promise_text(const ServingStudy& study) {
  if (!study.scenario.slo.any()) return "-";
  const double share = study.good / static_cast<double>(std::max<std::int64_t>(1, study.completed));
  return fmt::format("{:.1f} %{}", 100 * share, keeps_promise(study) ? "" : ", broken");
}

std::string total_text(const ServedModelsStudy& study) {
  const ServedModelsStudy::Totals t = study.totals();
  std::string text = fmt::format("{} of the cluster's {} GPUs serve; {} requests/s, {} tokens/s written", t.gpus,
                                 study.scenario.gpus, number_text(t.requests_per_s), number_text(t.output_per_s));
  if (t.watts > 0)
    text += fmt::format("; {} kW, {} J a token written", number_text(t.watts / 1e3), number_text(t.joules_per_token()));
  if (t.usd_per_hour > 0)
    text += fmt::format("; {} USD an hour, {} a million tokens written", number_text(t.usd_per_hour),
                        number_text(t.usd_per_million()));
  return text + ".";
}

}  // namespace

ServedModelsStudy::Totals ServedModelsStudy::totals() const {
  Totals t;
  bool powered = true;
  for (const ServingStudy& model : models) {
    t.gpus += model.gpus();
    t.mean_gpus += model.mean_gpus();
    t.requests_per_s += rate_of_model(model, static_cast<double>(model.completed));
    t.good_per_s += rate_of_model(model, model.scenario.slo.any() ? model.good : static_cast<double>(model.completed));
    t.output_per_s += rate_of_model(model, model.output_tokens);
    t.tokens_per_s += rate_of_model(model, model.input_tokens + model.output_tokens);
    t.joules += model.joules;
    t.watts += watts_of(model);
    powered = powered && model.joules > 0;
    t.gpu_hours += model.gpu_s / 3600;
    t.usd += model.usd();
    const double held = model.scenario.scales() ? model.mean_gpus() : static_cast<double>(model.gpus());
    t.usd_per_hour += held * model.scenario.price_per_gpu_hour_usd;
    t.promised += model.scenario.slo.any() ? 1 : 0;
    t.kept += model.scenario.slo.any() && keeps_promise(model) ? 1 : 0;
  }
  if (!powered) t.watts = t.joules = 0;
  return t;
}

ServedModelsStudy study_served_models(const scenarios::ServedModels& scenario) {
  for (const scenarios::ServingScenario& model : scenario.models)
    if (model.workload)
      throw sim::UserError(
          fmt::format("{}: workload is one iteration, expected none where requests are served", model.id));
  return {scenario, study_serving(scenario.models)};
}

void write_served_models(std::ostream& out, const ServedModelsStudy& study) {
  out << wrapped(fmt::format("{}: {} models on one cluster", study.scenario.id, study.models.size()), "", "  ");
  if (!study.scenario.description.empty()) out << wrapped(study.scenario.description, "  ", "  ");
  out << '\n';
  TextTable table({{"model", Align::left},
                   {"GPUs"},
                   {"requests/s"},
                   {"tokens/s"},
                   {"TTFT, p99"},
                   {"TPOT, p99"},
                   {"promise kept for"},
                   {"kW"}},
                  "", 2);
  for (const ServingStudy& model : study.models)
    table.add_row({shortened(model.scenario.id, 28), std::to_string(model.gpus()),
                   number_text(rate_of_model(model, static_cast<double>(model.completed))),
                   number_text(rate_of_model(model, model.output_tokens)), time_text(model.ttft.p99),
                   time_text(model.tpot.p99), promise_text(model),
                   model.joules > 0 ? number_text(watts_of(model) / 1e3) : "-"});
  table.write(out);
  out << '\n' << wrapped("Together: " + total_text(study), "  ", "  ");
  for (const ServingStudy& model : study.models) {
    out << '\n';
    write_serving(out, model);
  }
}

ordered_json served_models_json(const ServedModelsStudy& study) {
  const ServedModelsStudy::Totals t = study.totals();
  ordered_json json{{"scenario", study.scenario.id}, {"cluster_gpus", study.scenario.gpus}};
  json["totals"] = {{"gpus", t.gpus},
                    {"mean_gpus", t.mean_gpus},
                    {"request_throughput", t.requests_per_s},
                    {"request_goodput", t.good_per_s},
                    {"output_throughput", t.output_per_s},
                    {"total_token_throughput", t.tokens_per_s},
                    {"output_tokens_per_s_per_gpu", t.output_per_s / t.mean_gpus},
                    {"gpu_hours", t.gpu_hours}};
  ordered_json& totals = json["totals"];
  totals["power_w"] = t.watts > 0 ? ordered_json(t.watts) : ordered_json();
  totals["energy_j"] = t.joules > 0 ? ordered_json(t.joules) : ordered_json();
  totals["energy_per_token_j"] = t.watts > 0 ? ordered_json(t.joules_per_token()) : ordered_json();
  totals["usd"] = t.usd > 0 ? ordered_json(t.usd) : ordered_json();
  totals["usd_per_hour"] = t.usd_per_hour > 0 ? ordered_json(t.usd_per_hour) : ordered_json();
  totals["usd_per_million_output_tokens"] = t.usd_per_hour > 0 ? ordered_json(t.usd_per_million()) : ordered_json();
  totals["promises"] = t.promised;
  totals["promises_kept"] = t.kept;
  json["models"] = ordered_json::array();
  for (const ServingStudy& model : study.models) {
    ordered_json one = serving_json(model);
    one["first_gpu"] = model.scenario.share.first;
    json["models"].push_back(std::move(one));
  }
  return json;
}

ordered_json served_models_page(const ServedModelsStudy& study) {
  const ServedModelsStudy::Totals t = study.totals();
  ordered_json page{{"kind", "serving"},
                    {"title", "Serving of " + shortened(study.scenario.id, 120)},
                    {"subtitle", fmt::format("{} models on {} GPUs", study.models.size(), t.gpus)},
                    {"description", study.scenario.description}};
  page["facts"] = ordered_json::array();
  const auto fact = [&](const char* name, const std::string& value, const std::string& note) {
    page["facts"].push_back({name, value, note});
  };
  fact("GPUs", std::to_string(t.gpus), fmt::format("of the cluster's {}", study.scenario.gpus));
  fact("tokens/s", number_text(t.output_per_s), "written");
  fact("requests/s", number_text(t.requests_per_s), fmt::format("{} of {} promises kept", t.kept, t.promised));
  if (t.watts > 0)
    fact("power", number_text(t.watts / 1e3) + " kW", number_text(t.joules_per_token()) + " J a token written");
  if (t.usd_per_hour > 0)
    fact("cost", number_text(t.usd_per_hour) + " USD",
         "an hour; " + number_text(t.usd_per_million()) + " a million tokens");
  page["models"] = ordered_json::array();
  for (const ServingStudy& model : study.models) {
    ordered_json one = serving_page(model);
    one["name"] = model.scenario.id;
    one["row"] = {model.scenario.id,
                  std::to_string(model.gpus()),
                  number_text(rate_of_model(model, static_cast<double>(model.completed))),
                  number_text(rate_of_model(model, model.output_tokens)),
                  time_text(model.ttft.p99),
                  time_text(model.tpot.p99),
                  promise_text(model)};
    page["models"].push_back(std::move(one));
  }
  return page;
}

namespace {

/// A table of each model, one behind the other with one heading.
template <class Write>
void write_models_csv(std::ostream& out, const ServedModelsStudy& study, Write&& write) {
  bool headed = false;
  for (const ServingStudy& model : study.models) {
    std::ostringstream text;
    write(text, model);
    std::istringstream lines(text.str());
    std::string line;
    for (std::size_t number = 0; std::getline(lines, line); ++number) {
      if (number == 0 && headed) continue;
      out << (number == 0 ? "model" : csv_line({model.scenario.id})) << ',' << line << '\n';
    }
    headed = true;
  }
}

}  // namespace

void write_models_requests_csv(std::ostream& out, const ServedModelsStudy& study) {
  write_models_csv(out, study, write_requests_csv);
}

void write_models_timeline_csv(std::ostream& out, const ServedModelsStudy& study) {
  write_models_csv(out, study, write_timeline_csv);
}

ServedModelsSearch search_served_models(const sim::Settings& document, std::size_t top, unsigned jobs) {
  const scenarios::ServedModels base = scenarios::load_served_models(document);
  const std::vector<sim::Settings> documents = scenarios::documents_of_models(document);
  ServedModelsSearch search;
  search.scenario = base.id;
  search.cluster_gpus = base.gpus;
  bool all = true;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    search.models.push_back(search_served(documents[i], top, jobs));
    const ServedSearch& found = search.models.back();
    all = all && found.fewest && !found.best.empty();
    if (!all) continue;
    search.gpus += found.best.front().gpus;
    for (const std::string& set : found.best.front().sets) search.sets.push_back(fmt::format("models[{}].{}", i, set));
    search.sets.push_back(fmt::format("models[{}].gpus={}", i, found.best.front().gpus));
  }
  if (!all) {
    search.gpus = 0;
    search.sets.clear();
    return search;
  }
  sim::Settings best = document;
  for (const std::string& set : search.sets) scenarios::apply_set(best, set);
  try {
    const ServedModelsStudy study = study_served_models(scenarios::load_served_models(best));
    search.together = study.totals().kept == study.totals().promised;
  } catch (const sim::UserError& error) {
    search.refusal = error.what();
  }
  return search;
}

void write_served_models_search(std::ostream& out, const ServedModelsSearch& search, const std::string& command) {
  for (const ServedSearch& model : search.models) {
    write_served_fleets(out, model);
    out << '\n';
  }
  if (search.gpus == 0) return;
  out << wrapped(
      fmt::format("{}: {} GPUs for all, of the cluster's {}. {}", search.scenario, search.gpus, search.cluster_gpus,
                  !search.refusal.empty() ? "They do not run together: " + search.refusal
                  : search.together       ? "Together they keep what is promised."
                                          : "Together they do not keep what is promised: their caches "
                                            "share links of the cluster."),
      "", "  ");
  out << "\nAll of them:\n  " << command;
  for (const std::string& set : search.sets) out << fmt::format(" --set '{}'", set);
  out << '\n';
}

ordered_json served_models_search_json(const ServedModelsSearch& search) {
  ordered_json json{{"scenario", search.scenario}, {"cluster_gpus", search.cluster_gpus}};
  json["gpus"] = search.gpus > 0 ? ordered_json(search.gpus) : ordered_json();
  json["kept_together"] = search.gpus > 0 ? ordered_json(search.together) : ordered_json();
  json["set"] = search.sets;
  json["models"] = ordered_json::array();
  for (const ServedSearch& model : search.models) json["models"].push_back(served_search_json(model));
  return json;
}

}  // namespace orrery::tools
