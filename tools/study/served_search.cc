// See served_search.h. A layout is tensor x attention groups x expert groups of at most the cluster's GPUs (and at most
// kMostGpus); what else a pool says is kept. Fewest GPUs: replicas double until the promise is kept, and are bisected;
// together first, then apart with the pairs of the layouts that did best, answers' replicas found beside more than
// enough of prompts', and these then cut down. Left out: pipelines, limits of batches, devices; `orrery sweep` varies
// any key.
#include "tools/study/served_search.h"

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

/// GPUs of a replica that are tried.
constexpr std::int64_t kMostGpus = 64;
constexpr std::size_t kPairs = 3;

struct PoolLayout {
  std::int64_t tensor = 1, attention_data = 1, expert = 1;
  std::int64_t gpus() const { return tensor * attention_data; }
  std::string text() const {
    std::string out = fmt::format("TP{}", tensor);
    if (attention_data > 1) out += fmt::format(" DP{}", attention_data);
    if (expert > 1) out += fmt::format(" EP{}", expert);
    return out;
  }
};

class Space {
 public:
  explicit Space(const Settings& document) : document_(document), base_(scenarios::load_serving(document)) {
    const Settings* pools = document.at("serving").find("pools");
    if (pools != nullptr && pools->is_sequence()) kept_ = kept_of(pools->items()[0]);
    const workloads::Model& model = base_.replica.model;
    for (std::int64_t gpus = 1; gpus <= std::min(kMostGpus, base_.machine.gpus); gpus *= 2) {
      for (std::int64_t tensor = gpus; tensor >= 1; tensor /= 2) {
        const bool mixture = model.experts.any();
        if (tensor < gpus && !mixture) break;
        layouts_.push_back({tensor, gpus / tensor, 1});
        if (mixture && gpus > 1) layouts_.push_back({tensor, gpus / tensor, gpus});
      }
    }
  }
  const scenarios::ServingScenario& base() const { return base_; }
  const std::vector<PoolLayout>& layouts() const { return layouts_; }
  std::int64_t most_gpus() const { return base_.machine.gpus; }

  std::string pool(const char* role, const PoolLayout& layout, std::int64_t replicas) const {
    return fmt::format("{{role: {}, replicas: {}, parallelism: {{tensor: {}, attention_data: {}, expert: {}}}{}}}",
                       role, replicas, layout.tensor, layout.attention_data, layout.expert, kept_);
  }

  /// Nothing where the loader refuses it, or it does not fit.
  std::optional<ServedFleet> simulate(const std::string& text, const std::vector<std::string>& pools,
                                      std::int64_t concurrency, std::string& refusal) const {
    ServedFleet fleet;
    fleet.layout = text;
    fleet.concurrency = concurrency;
    fleet.sets.push_back(fmt::format("serving.pools=[{}]", fmt::join(pools, ", ")));
    if (concurrency > 0) {
      fleet.sets.push_back(fmt::format("traffic.concurrency={}", concurrency));
      fleet.sets.push_back(fmt::format("traffic.requests={}", std::max<std::int64_t>(3 * concurrency, 32)));
    }
    Settings document = document_;
    for (const std::string& set : fleet.sets) scenarios::apply_set(document, set);
    try {
      const ServingStudy study = study_serving(scenarios::load_serving(document));
      fleet.gpus = study.gpus();
      if (study.completed == 0 || study.duration_s <= 0) return std::nullopt;
      fleet.per_gpu = study.output_tokens / study.duration_s / static_cast<double>(fleet.gpus);
      fleet.per_user = study.tpot.mean > 0 ? 1 / study.tpot.mean : 0;
      const bool closed = concurrency > 0;
      fleet.ttft_s = closed ? study.ttft.mean : study.ttft.p99;
      fleet.tpot_s = closed ? study.tpot.mean : study.tpot.p99;
      fleet.kept_pct =
          study.refused > 0 ? 0 : 100 * study.good / static_cast<double>(study.completed + study.turned_away);
      return fleet;
    } catch (const sim::UserError& error) {
      refusal = error.what();
      return std::nullopt;
    }
  }

 private:
  /// What a pool says beside its layout, as it says it.
  static std::string kept_of(const Settings& pool) {
    std::string kept;
    for (const auto& [name, member] : pool.members()) {
      if (name == "name" || name == "role" || name == "replicas" || name == "parallelism" || !member.is_scalar())
        continue;
      kept += fmt::format(", {}: {}", name, member.text());
    }
    return kept;
  }

  Settings document_;
  scenarios::ServingScenario base_;
  std::vector<PoolLayout> layouts_;
  std::string kept_;
};

/// The least count in [1, most] that `keeps`, which more never breaks; 0 where none does.
template <class Keeps>
std::int64_t least(std::int64_t most, Keeps&& keeps) {
  std::int64_t low = 0, high = 1;
  while (high < most && !keeps(high)) {
    low = high;
    high = std::min(most, 2 * high);
  }
  if (high == most && !keeps(high)) return 0;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (keeps(middle) ? high : low) = middle;
  }
  return high;
}

/// Fleets of one layout, or of a pair, by the fewest replicas.
struct Found {
  std::optional<ServedFleet> fleet;
  PoolLayout first, second;
  std::string refusal;
  std::int64_t tried = 0;
};

void find_together(const Space& space, Found& found) {
  const double promised = space.base().slo.percentile;
  std::optional<ServedFleet> kept;
  const std::int64_t replicas = least(space.most_gpus() / found.first.gpus(), [&](std::int64_t n) {
    ++found.tried;
    auto fleet = space.simulate(fmt::format("{} x {}", n, found.first.text()), {space.pool("both", found.first, n)}, 0,
                                found.refusal);
    const bool keeps = fleet && fleet->kept_pct >= promised;
    if (keeps) kept = std::move(fleet);
    return keeps;
  });
  if (replicas > 0) found.fleet = std::move(kept);
}

void find_apart(const Space& space, Found& found) {
  const double promised = space.base().slo.percentile;
  std::optional<ServedFleet> kept;
  const auto keeps = [&](std::int64_t prompts, std::int64_t answers) {
    if (prompts < 1 || answers < 1) return false;
    ++found.tried;
    auto fleet = space.simulate(
        fmt::format("{} x {} for prompts, {} x {} for answers", prompts, found.first.text(), answers,
                    found.second.text()),
        {space.pool("prefill", found.first, prompts), space.pool("decode", found.second, answers)}, 0, found.refusal);
    if (!fleet || fleet->kept_pct < promised) return false;
    kept = std::move(fleet);
    return true;
  };
  const std::int64_t half = space.most_gpus() / 2;
  const std::int64_t many = half / found.first.gpus();
  if (many < 1) return;
  const std::int64_t answers = least(half / found.second.gpus(), [&](std::int64_t n) { return keeps(many, n); });
  if (answers == 0) return;
  least(many, [&](std::int64_t n) { return keeps(n, answers); });
  found.fleet = std::move(kept);
}

void count(ServedSearch& search, std::vector<Found>& all) {
  for (Found& found : all) {
    search.tried += found.tried;
    if (found.fleet) {
      search.best.push_back(*found.fleet);
    } else {
      ++search.infeasible;
      if (search.refusal.empty()) search.refusal = found.refusal;
    }
  }
}

void search_fewest(const Space& space, ServedSearch& search, unsigned jobs) {
  std::vector<Found> together;
  for (const PoolLayout& layout : space.layouts()) together.push_back({std::nullopt, layout, layout, {}, 0});
  for_each_parallel(together.size(), jobs, "layouts", [&](std::size_t i) { find_together(space, together[i]); });
  std::vector<PoolLayout> good;
  std::vector<Found> sorted = together;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Found& a, const Found& b) {
    return (a.fleet ? a.fleet->gpus : INT64_MAX) < (b.fleet ? b.fleet->gpus : INT64_MAX);
  });
  for (const Found& found : sorted) {
    if (found.fleet && good.size() < kPairs) good.push_back(found.first);
  }
  count(search, together);
  std::vector<Found> apart;
  for (const PoolLayout& prompts : good)
    for (const PoolLayout& answers : good) apart.push_back({std::nullopt, prompts, answers, {}, 0});
  for_each_parallel(apart.size(), jobs, "pairs", [&](std::size_t i) { find_apart(space, apart[i]); });
  count(search, apart);
  std::stable_sort(search.best.begin(), search.best.end(), [](const ServedFleet& a, const ServedFleet& b) {
    return a.gpus != b.gpus ? a.gpus < b.gpus : a.tpot_s < b.tpot_s;
  });
}

/// Fleets that no other beats in both, the fastest for a user first.
std::vector<ServedFleet> front_of(std::vector<ServedFleet> fleets) {
  std::stable_sort(fleets.begin(), fleets.end(), [](const ServedFleet& a, const ServedFleet& b) {
    return a.per_user != b.per_user ? a.per_user > b.per_user : a.per_gpu > b.per_gpu;
  });
  std::vector<ServedFleet> front;
  for (ServedFleet& fleet : fleets) {
    if (front.empty() || fleet.per_gpu > front.back().per_gpu) front.push_back(std::move(fleet));
  }
  return front;
}

void search_front(const Space& space, ServedSearch& search, unsigned jobs) {
  struct Point {
    std::string text;
    std::vector<std::string> pools;
    std::int64_t concurrency;
  };
  std::vector<Point> points;
  const auto add = [&](const std::string& text, const std::vector<std::string>& pools, std::int64_t gpus) {
    if (gpus > space.most_gpus()) return;
    for (std::int64_t under_way = 1; under_way <= 256 * gpus && under_way <= 16384; under_way *= 4)
      points.push_back({text, pools, under_way});
  };
  for (const PoolLayout& layout : space.layouts()) add(layout.text(), {space.pool("both", layout, 1)}, layout.gpus());
  // Apart: one replica of answers, and prompts' at ratios of 1:2 to 2:1 of GPUs.
  for (const PoolLayout& answers : space.layouts()) {
    for (const PoolLayout& prompts : space.layouts()) {
      const std::int64_t ratio = answers.gpus() / prompts.gpus();
      if (answers.gpus() % prompts.gpus() != 0 || ratio > 4 || prompts.expert > 1 || answers.gpus() < 2) continue;
      for (const std::int64_t replicas : {std::max<std::int64_t>(1, ratio / 2), ratio, 2 * ratio})
        add(fmt::format("{} x {} for prompts, {} for answers", replicas, prompts.text(), answers.text()),
            {space.pool("prefill", prompts, replicas), space.pool("decode", answers, 1)},
            replicas * prompts.gpus() + answers.gpus());
    }
  }
  std::vector<std::optional<ServedFleet>> fleets(points.size());
  std::vector<std::string> refusals(points.size());
  for_each_parallel(points.size(), jobs, "fleets", [&](std::size_t i) {
    fleets[i] = space.simulate(points[i].text, points[i].pools, points[i].concurrency, refusals[i]);
  });
  const scenarios::Slo& slo = space.base().slo;
  std::vector<ServedFleet> good;
  for (std::size_t i = 0; i < points.size(); ++i) {
    ++search.tried;
    if (!fleets[i]) {
      ++search.infeasible;
      if (search.refusal.empty()) search.refusal = refusals[i];
    } else if (!slo.any() || fleets[i]->kept_pct >= slo.percentile) {
      good.push_back(std::move(*fleets[i]));
    }
  }
  search.best = front_of(std::move(good));
}

}  // namespace

ServedSearch search_served(const Settings& document, std::size_t top, unsigned jobs) {
  const Space space(document);
  ServedSearch search;
  search.scenario = space.base().id;
  search.fewest = space.base().traffic.concurrency == 0;
  if (search.fewest && !space.base().slo.any())
    document.at("serving").fail("says not what is promised, expected slo, as in slo: {ttft: 500 ms, tpot: 30 ms}");
  if (search.fewest)
    search_fewest(space, search, jobs);
  else
    search_front(space, search, jobs);
  if (search.fewest && search.best.size() > top) search.best.resize(top);
  return search;
}

void write_served_fleets(std::ostream& out, const ServedSearch& search) {
  out << fmt::format("{}: {}; {} fleets simulated\n\n", search.scenario,
                     search.fewest ? "the fewest GPUs that keep what is promised"
                                   : "tokens a second and GPU against tokens a second and user",
                     search.tried);
  if (search.best.empty()) {
    out << wrapped("No fleet of at most the cluster's GPUs does." +
                       (search.refusal.empty() ? std::string() : " One of the reasons: " + search.refusal),
                   "  ", "  ");
    return;
  }
  std::vector<Column> columns{{"fleet", Align::left},
                              {"GPUs"},
                              {"under way"},
                              {"tokens/s/GPU"},
                              {"tokens/s/user"},
                              {search.fewest ? "TTFT, p99" : "TTFT"},
                              {search.fewest ? "TPOT, p99" : "TPOT"}};
  if (search.fewest) columns.erase(columns.begin() + 2);
  TextTable table(std::move(columns), "", 2);
  for (const ServedFleet& fleet : search.best) {
    std::vector<std::string> cells{
        shortened(fleet.layout, 52), std::to_string(fleet.gpus),  std::to_string(fleet.concurrency),
        number_text(fleet.per_gpu),  number_text(fleet.per_user), time_text(fleet.ttft_s),
        time_text(fleet.tpot_s)};
    if (search.fewest) cells.erase(cells.begin() + 2);
    table.add_row(std::move(cells));
  }
  table.write(out);
}

void write_served_search(std::ostream& out, const ServedSearch& search) {
  write_served_fleets(out, search);
  if (search.best.empty()) return;
  out << "\nThe first:\n  orrery serving SCENARIO";
  for (const std::string& set : search.best.front().sets) out << fmt::format(" --set '{}'", set);
  out << '\n';
}

nlohmann::ordered_json served_search_json(const ServedSearch& search) {
  nlohmann::ordered_json json{{"scenario", search.scenario},
                              {"objective", search.fewest ? "gpus" : "front"},
                              {"simulated", search.tried},
                              {"infeasible", search.infeasible}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const ServedFleet& fleet : search.best)
    json["rows"].push_back({{"layout", fleet.layout},
                            {"gpus", fleet.gpus},
                            {"concurrency", fleet.concurrency},
                            {"output_tokens_per_s_per_gpu", fleet.per_gpu},
                            {"tokens_per_s_per_user", fleet.per_user},
                            {"ttft_s", fleet.ttft_s},
                            {"tpot_s", fleet.tpot_s},
                            {"kept_pct", fleet.kept_pct},
                            {"set", fleet.sets}});
  return json;
}

}  // namespace orrery::tools
