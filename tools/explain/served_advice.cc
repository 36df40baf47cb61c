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

using PoolKeys = std::vector<std::pair<std::string, std::string>>;

/// A pool's keys with some replaced, of those that are plain.
std::string pool_text(const Settings* pool, const PoolKeys& keys) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : keys) parts.push_back(fmt::format("{}: {}", key, value));
  if (pool != nullptr) {
    for (const auto& [name, member] : pool->members()) {
      const auto replaced = [&, &own = name](const auto& key) { return key.first == own; };
      if (member.is_scalar() && std::none_of(keys.begin(), keys.end(), replaced))
        parts.push_back(fmt::format("{}: {}", name, member.text()));
    }
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

const Settings* pool_at(const Settings& document, std::size_t number) {
  const Settings* pools = document.at("serving").find("pools");
  return pools != nullptr && pools->is_sequence() && pools->items().size() > number ? &pools->items()[number] : nullptr;
}

/// Of the first pool: below a list a set lays the whole list.
std::string pool_with(const Settings& document, const PoolKeys& keys) {
  return fmt::format("serving.pools=[{}]", pool_text(pool_at(document, 0), keys));
}

std::string pool_layout_text(const workloads::ServedLayout& l) {
  return fmt::format(
      "{{tensor: {}, pipeline: {}, expert: {}, attention_data: {}{}}}", l.tensor, l.pipeline, l.expert,
      l.attention_data,
      l.experts_apart() ? fmt::format(", expert_gpus: {}, micro_batches: {}", l.expert_gpus, l.micro_batches) : "");
}

struct ServedCandidate {
  std::string what, set;
  std::string more = {};  // a further set; empty: none
  std::vector<std::string> sets() const { return more.empty() ? std::vector{set} : std::vector{set, more}; }
};

/// Whether all that a pool says is plain, but for its layout: the list is laid anew.
bool is_plain(const Settings* pool) {
  if (pool == nullptr) return true;
  return std::all_of(pool->members().begin(), pool->members().end(),
                     [](const auto& member) { return member.second.is_scalar() || member.first == "parallelism"; });
}

/// Of one pool that computes prompts and writes answers.
void add_of_one_pool(std::vector<ServedCandidate>& all, const Settings& document, const scenarios::ServingScenario& s) {
  const std::string kept = pool_layout_text(s.replica.layout);
  const auto add = [&](const std::string& what, PoolKeys keys) {
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
  if (!s.traffic.priorities.empty() && s.order == serving::Order::arrival)
    add("the urgent first", {{"order", "priority"}});
  for (const bool wider : {true, false}) {
    workloads::ServedLayout layout = s.replica.layout;
    if (s.autoscale || (wider ? s.replicas : layout.tensor) % 2 != 0) continue;
    layout.tensor = wider ? 2 * layout.tensor : layout.tensor / 2;
    const std::int64_t replicas = wider ? s.replicas / 2 : 2 * s.replicas;
    add(fmt::format("{} replicas of TP {}", replicas, layout.tensor),
        {{"parallelism", pool_layout_text(layout)}, {"replicas", std::to_string(replicas)}});
  }
  if (s.replicas < 2 || s.autoscale || s.failures || s.order != serving::Order::arrival) return;
  // Apart, on the same GPUs: shares of the replicas that compute prompts.
  const Settings* pool = pool_at(document, 0);
  for (const std::int64_t parts : {4, 2}) {
    const std::int64_t prompts = std::max<std::int64_t>(1, s.replicas / parts);
    if (parts == 4 && prompts == std::max<std::int64_t>(1, s.replicas / 2)) continue;
    const auto text = [&](const char* role, std::int64_t replicas) {
      return pool_text(pool, {{"role", role}, {"replicas", std::to_string(replicas)}, {"parallelism", kept}});
    };
    all.push_back(
        {fmt::format("prompts on {} of {} replicas, answers on the rest", prompts, s.replicas),
         fmt::format("serving.pools=[{}, {}]", text("prefill", prompts), text("decode", s.replicas - prompts))});
  }
}

/// Of two pools: replicas of each, GPUs that pass from one to the other, how caches are handed over, one pool for all.
void add_of_two_pools(std::vector<ServedCandidate>& all, const Settings& document,
                      const scenarios::ServingScenario& s) {
  const bool swapped = pool_at(document, 0)->find("role")->text() == "decode";
  const Settings *prompts = pool_at(document, swapped ? 1 : 0), *answers = pool_at(document, swapped ? 0 : 1);
  const auto text = [](const Settings* pool, const scenarios::ServedPool& own, std::int64_t replicas, PoolKeys more) {
    more.emplace_back("replicas", std::to_string(replicas));
    more.emplace_back("parallelism", pool_layout_text(own.replica.layout));
    return pool_text(pool, more);
  };
  const auto add = [&](const std::string& what, std::int64_t first, std::int64_t second, const PoolKeys& of_first,
                       const PoolKeys& of_second) {
    if (first < 1 || second < 1) return;
    if (first * s.replica.layout.gpus() + second * s.answers->replica.layout.gpus() > s.machine.gpus) return;
    all.push_back({what, fmt::format("serving.pools=[{}, {}]", text(prompts, s, first, of_first),
                                     text(answers, *s.answers, second, of_second))});
  };
  const std::int64_t first = s.replicas, second = s.answers->replicas;
  const auto told = [&](std::int64_t a, std::int64_t b) {
    return fmt::format("{} replicas for prompts and {} for answers in place of {} and {}", a, b, first, second);
  };
  for (const auto& [more, further] : {std::pair(1, 0), {-1, 0}, {0, 1}, {0, -1}, {1, -1}, {-1, 1}})
    add(told(first + more, second + further), first + more, second + further, {}, {});
  for (const std::int64_t tokens : {s.limits.max_batched_tokens / 2, s.limits.max_batched_tokens * 2})
    if (tokens >= s.limits.max_sequences)
      add(fmt::format("at most {} tokens of prompts an iteration", tokens), first, second,
          {{"max_batched_tokens", std::to_string(tokens)}}, {});
  for (const std::int64_t most : {s.answers->limits.max_sequences / 2, s.answers->limits.max_sequences * 2})
    if (most >= 1 && most <= s.answers->limits.max_batched_tokens)
      add(fmt::format("at most {} answers under way", most), first, second, {},
          {{"max_sequences", std::to_string(most)}});
  if (s.transfer.handing == serving::Handing::whole)
    all.push_back({"caches handed over layer by layer", "serving.kv_transfer.mode=layer_by_layer"});
  const workloads::ServedLayout& layout = s.answers->replica.layout;
  if (!layout.experts_apart())
    all.push_back({fmt::format("together, on {} replicas", s.all_gpus() / layout.gpus()),
                   fmt::format("serving.pools=[{}]",
                               pool_text(answers, {{"role", "both"},
                                                   {"replicas", std::to_string(s.all_gpus() / layout.gpus())},
                                                   {"parallelism", pool_layout_text(layout)}})),
                   document.at("serving").find("kv_transfer") != nullptr ? "serving.kv_transfer=null" : ""});
}

std::vector<ServedCandidate> served_candidates_of(const Settings& document, const scenarios::ServingScenario& s) {
  std::vector<ServedCandidate> all;
  const auto name = [](serving::Router router) { return std::string(name_of(router)); };
  for (const auto router : {serving::Router::least_loaded, serving::Router::prefix_aware})
    if (s.router != router && s.replicas > 1)
      all.push_back({"router " + name(router), "serving.router=" + name(router)});
  if (s.replica.precision.kv_bytes == 2) all.push_back({"keys and values in fp8", "precision.kv_cache=fp8"});
  if (s.replica.precision.weights == workloads::WeightType::bf16)
    all.push_back({"weights in fp8", "precision.weights=fp8"});
  if (!is_plain(pool_at(document, 0)) || !is_plain(pool_at(document, 1))) return all;
  if (s.answers)
    add_of_two_pools(all, document, s);
  else
    add_of_one_pool(all, document, s);
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
      changes[i] = simulate_change(document, candidates[i].what, candidates[i].sets());
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
