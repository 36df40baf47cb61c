// Runs are those of the commands, so that page and command line cannot differ. What a browser asks for is bounded
// tighter than what a terminal does, since nobody there can end it: two million requests. Left out: files of requests,
// which the command line reads.
#include "tools/whatif/served.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/rl.h"
#include "scenarios/serving.h"
#include "scenarios/yaml_text.h"
#include "sim/error.h"
#include "tools/study/rl.h"
#include "tools/study/serving.h"
#include "tools/whatif/served_layout.h"

namespace orrery::tools {

using nlohmann::ordered_json;
using scenarios::ServingScenario;
using sim::Settings;
using sim::UserError;

namespace {

constexpr double kMostRequests = 2e6;

/// A scenario that a browser may ask for.
ServingScenario load_asked(const Settings& document) {
  ServingScenario scenario = scenarios::load_serving(document);
  if (scenario.workload)
    document.at("workload")
        .fail("is one iteration, which orrery run looks at; expected none where requests are served");
  const serving::Traffic& traffic = scenario.traffic;
  double level = traffic.levels.empty() ? 1 : 0;
  for (const double one : traffic.levels) level += one / static_cast<double>(traffic.levels.size());
  const double requests =
      traffic.requests > 0 ? static_cast<double>(traffic.requests) : level * traffic.rate * traffic.duration;
  if (requests > kMostRequests)
    document.at("traffic").fail(
        fmt::format("comes to {:.3g} requests, expected at most {:g} on this page; the command line takes more",
                    requests, kMostRequests));
  return scenario;
}

ordered_json served_row(const Settings& document) {
  const ServingStudy study = study_serving(load_asked(document));
  const ordered_json all = serving_json(study);
  ordered_json row{{"status", "ok"}};
  for (const char* key : {"gpus", "completed", "duration", "request_throughput", "request_goodput", "output_throughput",
                          "output_tokens_per_s_per_gpu", "tokens_per_s_per_user", "saturated", "mean_ttft_ms",
                          "p99_ttft_ms", "mean_tpot_ms", "p99_tpot_ms", "energy_per_token_j", "usd_per_million_tokens"})
    row[key] = all.at(key);
  return row;
}

ordered_json rl_row(const Settings& document) {
  const RlStudy study = study_rl(scenarios::load_rl(document));
  const ordered_json all = rl_json(study);
  ordered_json row{{"status", "ok"}};
  for (const char* key : {"gpus", "rollout_gpus", "training_gpus", "step_s", "tokens_per_s_per_gpu", "generation_s",
                          "training_s", "wait_s", "engine_busy_pct", "memory"})
    row[key] = all.at(key);
  return row;
}

}  // namespace

std::string_view name_of(QuestionKind kind) {
  return kind == QuestionKind::rl ? "rl" : kind == QuestionKind::serve ? "serve" : "train";
}

QuestionKind kind_of(const Settings& document) {
  if (!document.is_mapping()) return QuestionKind::train;
  if (document.find("rl") != nullptr) return QuestionKind::rl;
  return document.find("serving") != nullptr ? QuestionKind::serve : QuestionKind::train;
}

ordered_json answer_served(const Settings& document, bool charts) {
  const ServingStudy study = study_serving(load_asked(document));
  ordered_json out{{"kind", "serve"}};
  out["result"] = serving_json(study);
  out["layout"] = served_layout(study.scenario, document);
  out["yaml"] = scenarios::yaml_text(document);
  if (charts) out["charts"] = serving_page(study);
  return out;
}

ordered_json answer_rl(const Settings& document, bool charts) {
  const RlStudy study = study_rl(scenarios::load_rl(document));
  ordered_json out{{"kind", "rl"}};
  out["result"] = rl_json(study);
  out["layout"] = rl_layout(study.scenario, document);
  out["yaml"] = scenarios::yaml_text(document);
  if (charts) out["charts"] = rl_page(study);
  return out;
}

ordered_json served_point(const Settings& document) {
  try {
    return kind_of(document) == QuestionKind::rl ? rl_row(document) : served_row(document);
  } catch (const UserError& error) {
    return {{"status", "infeasible"}, {"reason", error.what()}};
  }
}

std::string served_complaint(const Settings& document) {
  try {
    if (kind_of(document) == QuestionKind::rl)
      served_pools(scenarios::load_rl(document).rollout);
    else
      served_pools(load_asked(document));
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace orrery::tools
