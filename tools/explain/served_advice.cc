// Changes that an operator has at hand, and their order: a change is better where more requests keep the promise, up to
// the share that was promised; then where a GPU writes more (open loops write what comes: fewer GPUs), and where
// neither moves by a hundredth, by the time to the first token and for each further one.
#include "tools/explain/served_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "scenarios/scenario.h"
#include "scenarios/serving.h"
#include "sim/error.h"
#include "tools/parallel.h"
#include "tools/report/text.h"
#include "tools/study/serving_study.h"

namespace orrery::tools {

using sim::Settings;

namespace {

constexpr double kServedNoise = 0.01;  // a change of less gains nothing

ServedChange simulate_change(const Settings& base, const std::string& what, const std::vector<std::string>& sets) {
  Settings document = base;
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  const ServingStudy study = study_serving(scenarios::load_serving(document));
  ServedChange change;
  change.what = what;
  change.sets = sets;
  change.gpus = study.mean_gpus();
  const auto all = static_cast<double>(study.completed + study.refused + study.turned_away + study.lost);
  change.kept_pct = all > 0 ? 100 * study.good / all : 0;
  if (study.duration_s > 0) change.per_gpu = study.output_tokens / study.duration_s / change.gpus;
  change.ttft_s = study.ttft.p99;
  change.tpot_s = study.tpot.p99;
  if (study.outcome.output_tokens > 0) change.joules = study.joules / static_cast<double>(study.outcome.output_tokens);
  return change;
}

/// A pool's keys with some replaced: below a list a set lays the whole list.
std::string pool_with(const Settings& document, const std::vector<std::pair<std::string, std::string>>& keys) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : keys) parts.push_back(fmt::format("{}: {}", key, value));
  const Settings* pools = document.at("serving").find("pools");
  if (pools != nullptr && pools->is_sequence()) {
    for (const auto& [name, member] : pools->items()[0].members()) {
      const auto replaced = [&, &own = name](const auto& key) { return key.first == own; };
      if (member.is_scalar() && std::none_of(keys.begin(), keys.end(), replaced))
        parts.push_back(fmt::format("{}: {}", name, member.text()));
    }
  }
  return fmt::format("serving.pools=[{{{}}}]", fmt::join(parts, ", "));
}

std::string pool_layout_text(const workloads::ServedLayout& l) {
  return fmt::format("{{tensor: {}, pipeline: {}, expert: {}, attention_data: {}}}", l.tensor, l.pipeline, l.expert,
                     l.attention_data);
}

struct ServedCandidate {
  std::string what, set;
};

std::vector<ServedCandidate> served_candidates_of(const Settings& document, const scenarios::ServingScenario& s) {
  std::vector<ServedCandidate> all;
  const auto name = [](serving::Router router) { return std::string(name_of(router)); };
  for (const auto router : {serving::Router::least_loaded, serving::Router::prefix_aware})
    if (s.router != router && s.replicas > 1)
      all.push_back({"router " + name(router), "serving.router=" + name(router)});
  if (s.replica.precision.kv_bytes == 2) all.push_back({"keys and values in fp8", "precision.kv_cache=fp8"});
  if (s.replica.precision.weights == workloads::WeightType::bf16)
    all.push_back({"weights in fp8", "precision.weights=fp8"});
  // Of one pool, whose other keys are all plain: the list is laid anew.
  const Settings* pools = document.at("serving").find("pools");
  bool plain = !s.answers;
  if (plain && pools != nullptr && pools->is_sequence())
    for (const auto& [key, member] : pools->items()[0].members())
      plain = plain && (member.is_scalar() || key == "parallelism");
  if (!plain) return all;
  const std::string kept = pool_layout_text(s.replica.layout);
  const auto add = [&](const std::string& what, std::vector<std::pair<std::string, std::string>> keys) {
    const auto has = [](const auto& key) { return key.first == "parallelism"; };
    if (std::none_of(keys.begin(), keys.end(), has)) keys.emplace_back("parallelism", kept);
    all.push_back({what, pool_with(document, keys)});
  };
  for (const std::int64_t tokens : {s.limits.max_batched_tokens / 2, s.limits.max_batched_tokens * 2})
    if (tokens >= s.limits.max_sequences)
      add(fmt::format("at most {} tokens an iteration", tokens), {{"max_batched_tokens", std::to_string(tokens)}});
  if (!s.prefix_caching) add("beginnings of prompts found in the cache", {{"prefix_caching", "true"}});
  if (!s.chunked_prefill) add("prompts in chunks", {{"chunked_prefill", "true"}});
  if (s.replicas > 1 && !s.autoscale)
    add(fmt::format("{} replicas in place of {}", s.replicas - 1, s.replicas),
        {{"replicas", std::to_string(s.replicas - 1)}});
  if ((s.replicas + 1) * s.replica.layout.gpus() <= s.machine.gpus && !s.autoscale)
    add(fmt::format("{} replicas in place of {}", s.replicas + 1, s.replicas),
        {{"replicas", std::to_string(s.replicas + 1)}});
  for (const bool wider : {true, false}) {
    workloads::ServedLayout layout = s.replica.layout;
    if (s.autoscale || (wider ? s.replicas : layout.tensor) % 2 != 0) continue;
    layout.tensor = wider ? 2 * layout.tensor : layout.tensor / 2;
    const std::int64_t replicas = wider ? s.replicas / 2 : 2 * s.replicas;
    add(fmt::format("{} replicas of TP {}", replicas, layout.tensor),
        {{"parallelism", pool_layout_text(layout)}, {"replicas", std::to_string(replicas)}});
  }
  return all;
}

/// How much better the second is: above 0 where it is.
double served_gain(const ServedAdvice& advice, double percentile, const ServedChange& then) {
  const ServedChange& now = advice.now;
  if (advice.promised) {
    const double kept = std::min(then.kept_pct, percentile) - std::min(now.kept_pct, percentile);
    if (std::abs(kept) > 100 * kServedNoise / 10) return 1000 * kept;
  }
  const double more = now.per_gpu > 0 ? then.per_gpu / now.per_gpu - 1 : 0;
  if (std::abs(more) > kServedNoise) return more;
  const auto shorter = [](double before, double after) { return before > 0 ? (before - after) / before : 0; };
  const double quicker = (shorter(now.ttft_s, then.ttft_s) + shorter(now.tpot_s, then.tpot_s)) / 2;
  return std::abs(quicker) > kServedNoise ? quicker / 1000 : 0;
}

void add_served_row(TextTable& table, const ServedChange& change, const std::string& what) {
  table.add_row({what, fmt::format("{:.1f} %", change.kept_pct), number_text(change.gpus), number_text(change.per_gpu),
                 time_text(change.ttft_s), time_text(change.tpot_s),
                 change.joules > 0 ? number_text(change.joules) : std::string("-")});
}

}  // namespace

ServedAdvice advise_served(const Settings& document, unsigned jobs) {
  const scenarios::ServingScenario base = scenarios::load_serving(document);
  ServedAdvice advice;
  advice.scenario = base.id;
  advice.promised = base.slo.any();
  advice.now = simulate_change(document, "", {});
  const std::vector<ServedCandidate> candidates = served_candidates_of(document, base);
  std::vector<std::optional<ServedChange>> changes(candidates.size());
  std::vector<std::string> refusals(candidates.size());
  for_each_parallel(candidates.size(), jobs, "changes", [&](std::size_t i) {
    try {
      changes[i] = simulate_change(document, candidates[i].what, {candidates[i].set});
    } catch (const sim::UserError& error) {
      refusals[i] = fmt::format("{}: {}", candidates[i].what, error.what());
    }
  });
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!changes[i])
      advice.refused.push_back(refusals[i]);
    else
      (served_gain(advice, base.slo.percentile, *changes[i]) > 0 ? advice.better : advice.other).push_back(*changes[i]);
  }
  for (auto* list : {&advice.better, &advice.other})
    std::stable_sort(list->begin(), list->end(), [&](const ServedChange& a, const ServedChange& b) {
      return served_gain(advice, base.slo.percentile, a) > served_gain(advice, base.slo.percentile, b);
    });
  return advice;
}

void write_served_advice(std::ostream& out, const ServedAdvice& advice, const std::string& scenario, std::size_t top) {
  out << fmt::format("{}: what each change gains, of {} simulated\n\n", advice.scenario,
                     advice.better.size() + advice.other.size());
  TextTable table({{"", Align::left},
                   {advice.promised ? "kept" : "served"},
                   {"GPUs"},
                   {"tokens/s/GPU"},
                   {"TTFT, p99"},
                   {"TPOT, p99"},
                   {"J a token"}});
  add_served_row(table, advice.now, "as it is");
  for (std::size_t i = 0; i < std::min(top, advice.better.size()); ++i)
    add_served_row(table, advice.better[i], "+ " + advice.better[i].what);
  for (const ServedChange& change : advice.other) add_served_row(table, change, "- " + change.what);
  table.write(out);
  if (advice.better.empty()) out << "\n  Nothing tried gains a hundredth.\n";
  for (std::size_t i = 0; i < std::min(top, advice.better.size()); ++i)
    out << fmt::format("\n{}. {}\n   orrery serving {} --set '{}'\n", i + 1, advice.better[i].what, scenario,
                       fmt::join(advice.better[i].sets, "' --set '"));
  if (!advice.refused.empty()) out << "\nCannot be\n";
  for (const std::string& text : advice.refused) out << wrapped(text, "  - ", "    ");
}

nlohmann::ordered_json served_advice_json(const ServedAdvice& advice) {
  const auto one = [](const ServedChange& c) {
    nlohmann::ordered_json json{{"change", c.what}, {"kept_pct", c.kept_pct}, {"gpus", c.gpus}};
    json["output_tokens_per_s_per_gpu"] = c.per_gpu;
    json["ttft_s"] = c.ttft_s;
    json["tpot_s"] = c.tpot_s;
    json["set"] = c.sets;
    return json;
  };
  nlohmann::ordered_json json{{"scenario", advice.scenario}, {"now", one(advice.now)}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const auto* list : {&advice.better, &advice.other})
    for (const ServedChange& change : *list) {
      json["rows"].push_back(one(change));
      json["rows"].back()["gains"] = list == &advice.better;
    }
  json["refused"] = advice.refused;
  return json;
}

}  // namespace orrery::tools
