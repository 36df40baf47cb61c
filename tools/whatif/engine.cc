// Requests of the what-if page. A step is simulated as `orrery run` does it and reported by the same functions, so that
// page and command line cannot differ; points of a sweep as `orrery sweep` does. Left out: traces, every rank for
// itself and campaigns, which the command line has.
#include "tools/whatif/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "scenarios/scenario.h"
#include "scenarios/shipped_only.h"
#include "scenarios/would_fit.h"
#include "scenarios/yaml_text.h"
#include "sim/error.h"
#include "tools/explain/advice.h"
#include "tools/explain/advice_text.h"
#include "tools/explain/newness.h"
#include "tools/explain/served_advice.h"
#include "tools/import/parse_json.h"
#include "tools/parallel.h"
#include "tools/report/report.h"
#include "tools/report/run_page.h"
#include "tools/study/point.h"
#include "tools/study/rl.h"
#include "tools/whatif/catalogue.h"
#include "tools/whatif/drafts.h"
#include "tools/whatif/layout.h"
#include "tools/whatif/nearest.h"
#include "tools/whatif/served.h"
#include "workloads/step/step.h"
#include "workloads/step/step_cache.h"

namespace orrery::tools {

using nlohmann::json;
using nlohmann::ordered_json;
using sim::Settings;
using sim::UserError;
using Wanted = WhatIfEngine::Wanted;

namespace {

constexpr std::size_t kMostSets = 256;
constexpr std::size_t kMostPoints = 4096;  // of one request
constexpr std::size_t kRemembered = 16;    // clusters and layouts: of 12,288 ranks, folded, about a megabyte each

std::string text_of(const json& request, const char* key, const char* otherwise) {
  const auto member = request.find(key);
  if (member == request.end()) return otherwise;
  if (!member->is_string()) throw UserError(fmt::format("request: {}: got {}, expected text", key, member->dump()));
  return member->get<std::string>();
}

std::vector<std::string> sets_of(const json& sets) {
  const bool words = sets.is_array() && sets.size() <= kMostSets &&
                     std::all_of(sets.begin(), sets.end(), [](const json& set) { return set.is_string(); });
  if (!words) throw UserError(fmt::format("request: sets: expected a list of at most {} texts", kMostSets));
  return sets.get<std::vector<std::string>>();
}

/// The document of a request: its text, or the one record of a list, with its sets laid over it.
Settings document_of(const json& request) {
  const std::string file = text_of(request, "file", "scenario.yaml");
  Settings document = scenarios::parse_yaml(text_of(request, "text", ""), file);
  if (document.is_sequence() && document.items().size() == 1 && document.items().front().is_mapping()) {
    const Settings record = document.items().front();
    document = Settings::mapping(record.place());
    for (const auto& [name, member] : record.members()) document.set(name, member);
  }
  if (document.is_sequence()) {
    throw UserError(sim::Place{file, 0, 0}, "",
                    fmt::format("holds {} records, expected one scenario", document.items().size()));
  }
  if (document.is_null()) throw UserError(sim::Place{file, 0, 0}, "", "is empty, expected a scenario");
  if (request.contains("sets"))
    for (const std::string& set : sets_of(request["sets"])) scenarios::apply_set(document, set);
  return document;
}

}  // namespace

struct WhatIfEngine::State {
  explicit State(Names which) : names(which) {}

  Names names;
  workloads::StepCache cache{kRemembered};

  ordered_json run(const json& request);
  ordered_json step(const Settings& document, const json& request);
  ordered_json remedies(const json& request);
  ordered_json point(const Settings& document, const std::vector<std::string>& sets);
  ordered_json points(const json& request, const Wanted& wanted);
  ordered_json answer(const json& request, const Wanted& wanted);
};

/// Of what is served or post-trained.
ordered_json answer_of(const Settings& document, bool charts) {
  return kind_of(document) == QuestionKind::rl ? answer_rl(document, charts) : answer_served(document, charts);
}

/// The same with the nearest that runs in place of what cannot.
ordered_json run_served(const Settings& document, const json& request) {
  const bool charts = request.value("charts", json(false)) == json(true);
  try {
    return answer_of(document, charts);
  } catch (const UserError& error) {
    if (request.value("nearest", json(false)) != json(true)) throw;
    ordered_json out{{"error", error.what()}, {"kind", name_of(kind_of(document))}}, found;
    const auto runs = [&](const Settings& changed) -> std::string {
      try {
        found = answer_of(changed, false);
      } catch (const UserError& still) {
        return still.what();
      }
      return {};
    };
    if (const auto nearest = nearest_served(document, text_of(request, "changed", ""), error.what(), runs)) {
      out["nearest"] = {{"set", nearest->sets}, {"keeps", nearest->keeps}, {"follows", nearest->follows}};
      out["layout"] = found.at("layout");
    }
    return out;
  }
}

ordered_json WhatIfEngine::State::run(const json& request) {
  const Settings document = document_of(request);
  if (kind_of(document) != QuestionKind::train) return run_served(document, request);
  if (request.value("nearest", json(false)) != json(true)) return step(document, request);
  try {
    return step(document, request);
  } catch (const UserError& error) {
    ordered_json out{{"error", error.what()}};
    const auto runs = [&](const Settings& changed) -> std::string {
      try {
        workloads::Question options;
        options.cache = &cache;
        workloads::simulate_step(scenarios::load_scenario(changed).job, options);
      } catch (const UserError& still) {
        return still.what();
      }
      return {};
    };
    if (const auto nearest = nearest_that_runs(document, text_of(request, "changed", ""), error.what(), runs)) {
      out["nearest"] = {{"set", nearest->sets}, {"keeps", nearest->keeps}, {"follows", nearest->follows}};
      out["layout"] = layout_json(scenarios::load_scenario(nearest->document));
    }
    return out;
  }
}

/// Simulations at a time: a page without a server has one thread for each of its engines.
unsigned jobs_here() {
#ifdef ORRERY_DATA_MOUNTED
  return 1;
#else
  return default_jobs();
#endif
}

/// How sure: the interval of such steps by the published rows that ship, which are read once.
void add_interval(ordered_json& out, const scenarios::Scenario& scenario, const workloads::StepReport& report) {
  const auto interval = interval_of_run(scenario, report);
  if (!interval) return;
  out["interval"] = interval_json(*interval, sim::to_seconds(report.iteration), features_of(scenario.job, report));
}

ordered_json advice_on(const Settings& document, const std::string& file) {
  if (kind_of(document) == QuestionKind::serve) return served_advice_json(advise_served(document, jobs_here()));
  constexpr std::size_t kShown = 5;
  AdviceOptions options;
  options.top = kShown;
  options.pairs = 0;
  options.jobs = jobs_here();
  return advice_json(advise(document, options), file, {});
}
ordered_json splits_of(const Settings& document) {
  return {{"splits", rl_splits_json(split_rl(document, jobs_here()))}};
}

ordered_json WhatIfEngine::State::step(const Settings& document, const json& request) {
  const scenarios::Scenario scenario = scenarios::load_scenario(document);
  const bool charts = request.value("charts", json(false)) == json(true);
  workloads::Question options;
  options.counts_memory = true;
  if (charts) options.stages = workloads::Question::Stages::bars;
  options.cache = &cache;
  workloads::StepReport report = workloads::simulate_step(scenario.job, options);
  const bool remedies = request.value("remedies", json(true)) == json(true);
  if (!report.memory.fits && remedies) report.memory.would_fit = scenarios::would_fit(document);
  ordered_json out{{"kind", name_of(QuestionKind::train)}};
  out["result"] = report_json(scenario, report);
  out["layout"] = layout_json(scenario);
  out["yaml"] = scenarios::yaml_text(document);
  if (charts) {
    out["charts"] = pipeline_page(scenario, report);
    add_interval(out, scenario, report);
  }
  return out;
}

ordered_json WhatIfEngine::State::remedies(const json& request) {
  ordered_json list = ordered_json::array();
  for (const workloads::Remedy& remedy : scenarios::would_fit(document_of(request)))
    list.push_back({{"set", remedy.changes}, {"peak_bytes", remedy.peak_bytes}});
  return {{"would_fit", std::move(list)}};
}

ordered_json WhatIfEngine::State::point(const Settings& document, const std::vector<std::string>& sets) {
  const auto changed = [&] {
    Settings other = document;
    for (const std::string& set : sets) scenarios::apply_set(other, set);
    return other;
  };
  if (kind_of(document) != QuestionKind::train) return served_point(changed());
  ordered_json row = ordered_json::object();
  add_point(row, evaluate_made([&] { return scenarios::load_scenario(changed()); }, cache));
  return row;
}

ordered_json WhatIfEngine::State::points(const json& request, const Wanted& wanted) {
  const Settings document = document_of(request);
  const auto points = request.find("points");
  if (points == request.end() || !points->is_array() || points->size() > kMostPoints)
    throw UserError(fmt::format("request: points: expected a list of at most {} lists of sets", kMostPoints));
  ordered_json rows = ordered_json::array();
  for (const json& sets : *points) {
    if (wanted && !wanted()) throw UserError("request: nobody waits for its answer");
    rows.push_back(point(document, sets_of(sets)));
  }
  return {{"points", std::move(rows)}};
}

ordered_json WhatIfEngine::State::answer(const json& request, const Wanted& wanted) {
  if (!request.is_object()) throw UserError("request: expected an object of JSON");
  const std::string what = text_of(request, "do", "");
  if (what == "catalogue") return catalogue_json();
  if (what == "run") return run(request);
  if (what == "remedies") return remedies(request);
  if (what == "advise") return advice_on(document_of(request), text_of(request, "file", "scenario.yaml"));
  if (what == "splits") return splits_of(document_of(request));
  if (what == "points") return points(request, wanted);
  if (what == "import") {
    return draft_json(text_of(request, "form", ""), text_of(request, "text", ""),
                      text_of(request, "file", "configuration"));
  }
  throw UserError(fmt::format(
      "request: do: got \"{}\", expected catalogue, run, remedies, advise, splits, points or import", what));
}

WhatIfEngine::WhatIfEngine(Names names) : state_(std::make_unique<State>(names)) {}
WhatIfEngine::~WhatIfEngine() = default;

std::string WhatIfEngine::answer(const std::string& request, const Wanted& wanted) {
  ordered_json out;
  try {
    std::optional<scenarios::ShippedOnly> shipped_only;  // who asks from a browser reads no files of this machine
    if (state_->names == Names::shipped) shipped_only.emplace();
    out = state_->answer(parse_json(request), wanted);
  } catch (const UserError& error) {
    out = {{"error", error.what()}};
  } catch (const JsonProblem& problem) {
    out = {{"error", fmt::format("request:1:{}: {}, expected a request", problem.at + 1, problem.got)}};
  } catch (const json::exception& error) {
    out = {{"error", fmt::format("request: is no JSON that the engine reads: {}", error.what())}};
  } catch (const std::bad_alloc&) {
    out = {{"bug", "out of memory"}};
  } catch (const std::exception& error) {
    out = {{"bug", error.what()}};
  }
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace orrery::tools
