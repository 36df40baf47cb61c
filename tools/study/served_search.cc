// See served_search.h. A layout is tensor x attention groups x expert groups of at most the cluster's GPUs (and at most
// kMostGpus); what else a pool says is kept. Fewest GPUs: replicas double until the promise is kept, and are bisected;
// together first, then apart with the pairs of the layouts that did best, answers' replicas found beside more than
// enough of prompts', and these then cut down; of a mixture's best pairs also with as many GPUs beside for experts
// alone. For the peak the same from there on. Left out: pipelines, limits of batches, devices; `orrery sweep` varies
// any key.
#include "tools/study/served_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "scenarios/scenario.h"
#include "scenarios/serving.h"
#include "sim/error.h"
#include "tools/parallel.h"
#include "tools/report/text.h"
#include "tools/study/served_tables.h"
#include "tools/study/serving_study.h"

namespace orrery::tools {

using sim::Settings;

namespace {

/// GPUs of a replica that are tried.
constexpr std::int64_t kMostGpus = 64;
constexpr std::size_t kPairs = 3;

struct PoolLayout {
  std::int64_t tensor = 1, attention_data = 1, expert = 1;
  std::int64_t expert_gpus = 0, micro_batches = 1;  // of answers whose experts lie apart
  std::int64_t gpus() const { return tensor * attention_data + expert_gpus; }
  std::string text() const {
    std::string out = fmt::format("TP{}", tensor);
    if (attention_data > 1) out += fmt::format(" DP{}", attention_data);
    if (expert > 1) out += fmt::format(" EP{}", expert);
    if (expert_gpus > 0) out += fmt::format(" apart, {} micro-batches", micro_batches);
    return out;
  }
};

/// The stretch of so many seconds, at most a fifth of the whole, in which most requests come.
BusiestStretch busiest_of(const serving::Trace& trace, double window_s) {
  constexpr double kPicosecondsASecond = 1e12;
  const std::vector<serving::Request>& all = trace.requests;
  const double span = static_cast<double>(all.back().arrival - all.front().arrival) / kPicosecondsASecond;
  BusiestStretch busiest;
  if (!(span > 0)) return busiest;
  busiest.window_s = std::min(window_s, span / 5);
  busiest.mean_per_s = static_cast<double>(all.size()) / span;
  const auto window = static_cast<serving::Time>(busiest.window_s * kPicosecondsASecond);
  std::size_t most = 0, until = 0;
  for (std::size_t from = 0; from < all.size(); ++from) {
    while (until < all.size() && all[until].arrival < all[from].arrival + window) ++until;
    if (until - from <= most) continue;
    most = until - from;
    busiest.from_s = static_cast<double>(all[from].arrival) / kPicosecondsASecond;
  }
  busiest.requests_per_s = static_cast<double>(most) / busiest.window_s;
  return busiest;
}

/// Of the requests that come there, those within what was promised, in per cent.
double kept_within(const ServingStudy& study, const BusiestStretch& stretch) {
  constexpr double kPicosecondsASecond = 1e12;
  double all = 0, kept = 0;
  for (std::size_t i = 0; i < study.trace.requests.size(); ++i) {
    const double at = static_cast<double>(study.trace.requests[i].arrival) / kPicosecondsASecond;
    if (at < stretch.from_s || at >= stretch.from_s + stretch.window_s) continue;
    ++all;
    kept += study.within_promise(i) ? 1 : 0;
  }
  return all > 0 ? 100 * kept / all : 100;
}

class Space {
 public:
  explicit Space(const Settings& document) : document_(document), base_(scenarios::load_serving(document)) {
    const Settings* pools = document.at("serving").find("pools");
    if (pools != nullptr && pools->is_sequence()) kept_ = kept_of(pools->items()[0]);
    // How many replicas there are is the question.
    if (document.at("serving").find("autoscale") != nullptr) document_.set_path("serving.autoscale", Settings{});
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
  BusiestStretch busiest() const { return busiest_of(traffic_of(base_), base_.slo.window_s); }

  std::string pool(const char* role, const PoolLayout& layout, std::int64_t replicas) const {
    const std::string apart = layout.expert_gpus > 0 ? fmt::format(", expert_gpus: {}, micro_batches: {}",
                                                                   layout.expert_gpus, layout.micro_batches)
                                                     : "";
    return fmt::format("{{role: {}, replicas: {}, parallelism: {{tensor: {}, attention_data: {}, expert: {}{}}}{}}}",
                       role, replicas, layout.tensor, layout.attention_data, layout.expert, apart, kept_);
  }

  /// A fleet as it was loaded, which others of the same pools have with other requests under way.
  struct Loaded {
    std::mutex mutex;
    std::optional<scenarios::ServingScenario> scenario;
  };

  /// Nothing where the loader refuses it, or it does not fit.
  std::optional<ServedFleet> simulate(const std::string& text, const std::vector<std::string>& pools,
                                      std::int64_t concurrency, std::string& refusal, Loaded* loaded = nullptr) {
    ServedFleet fleet;
    fleet.layout = text;
    fleet.apart = pools.size() > 1;
    fleet.concurrency = concurrency;
    fleet.sets.push_back(fmt::format("serving.pools=[{}]", fmt::join(pools, ", ")));
    // Where one pool does both, nothing is handed over.
    if (!fleet.apart && document_.at("serving").find("kv_transfer") != nullptr)
      fleet.sets.emplace_back("serving.kv_transfer=null");
    if (concurrency > 0) {
      fleet.sets.push_back(fmt::format("traffic.concurrency={}", concurrency));
      fleet.sets.push_back(fmt::format("traffic.requests={}", std::max<std::int64_t>(3 * concurrency, 32)));
    }
    Settings document = document_;
    for (const std::string& set : fleet.sets) scenarios::apply_set(document, set);
    try {
      const ServingStudy study = study_serving(load(document, loaded), &tables_);
      fleet.gpus = study.gpus();
      if (study.completed == 0 || study.duration_s <= 0) return std::nullopt;
      fleet.per_gpu = study.output_tokens / study.duration_s / static_cast<double>(fleet.gpus);
      fleet.per_user = study.tpot.mean > 0 ? 1 / study.tpot.mean : 0;
      const bool closed = concurrency > 0;
      fleet.ttft_s = closed ? study.ttft.mean : study.ttft.p99;
      fleet.tpot_s = closed ? study.tpot.mean : study.tpot.p99;
      fleet.kept_pct =
          study.refused > 0 ? 0 : 100 * study.good / static_cast<double>(study.completed + study.turned_away);
      if (!closed) fleet.peak_kept_pct = kept_within(study, busiest_of(study.trace, base_.slo.window_s));
      return fleet;
    } catch (const sim::UserError& error) {
      refusal = error.what();
      return std::nullopt;
    }
  }

 private:
  scenarios::ServingScenario load(const Settings& document, Loaded* loaded) const {
    if (loaded == nullptr || base_.workload) return scenarios::load_serving(document);
    const std::lock_guard lock(loaded->mutex);
    if (loaded->scenario)
      scenarios::take_under_way(document, *loaded->scenario);
    else
      loaded->scenario = scenarios::load_serving(document);
    return *loaded->scenario;
  }

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
  ServedTables tables_;
};

/// The least count in [from, most] that `keeps`, which more never breaks; 0 where none does.
template <class Keeps>
std::int64_t least(std::int64_t from, std::int64_t most, Keeps&& keeps) {
  if (from > most) return 0;
  std::int64_t low = from - 1, high = from;
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

/// Fleets of one layout, or of a pair, by their replicas, each simulated once.
struct Found {
  PoolLayout first, second;
  std::optional<ServedFleet> fleet = {}, at_peak = {};  // with the fewest that keep the promise
  std::string refusal = {};
  std::map<std::pair<std::int64_t, std::int64_t>, std::optional<ServedFleet>> known = {};

  /// `answers`: 0 where they are written together with prompts.
  const std::optional<ServedFleet>& with(Space& space, std::int64_t prompts, std::int64_t answers) {
    const auto [place, fresh] = known.try_emplace({prompts, answers});
    if (!fresh) return place->second;
    if (answers == 0)
      place->second = space.simulate(fmt::format("{} x {}", prompts, first.text()),
                                     {space.pool("both", first, prompts)}, 0, refusal);
    else
      place->second = space.simulate(
          fmt::format("{} x {} for prompts, {} x {} for answers", prompts, first.text(), answers, second.text()),
          {space.pool("prefill", first, prompts), space.pool("decode", second, answers)}, 0, refusal);
    return place->second;
  }
};

void find_together(Space& space, Found& found) {
  const double promised = space.base().slo.percentile;
  const std::int64_t most = space.most_gpus() / found.first.gpus();
  const auto keeps = [&](std::int64_t n) {
    const auto& fleet = found.with(space, n, 0);
    return fleet && fleet->kept_pct >= promised;
  };
  const std::int64_t replicas = least(1, most, keeps);
  if (replicas == 0) return;
  found.fleet = found.with(space, replicas, 0);
  const std::int64_t peak = least(
      replicas, most, [&](std::int64_t n) { return keeps(n) && found.with(space, n, 0)->peak_kept_pct >= promised; });
  if (peak > 0) found.at_peak = found.with(space, peak, 0);
}

void find_apart(Space& space, Found& found) {
  const double promised = space.base().slo.percentile;
  const std::int64_t half = space.most_gpus() / 2;
  const std::int64_t many = half / found.first.gpus(), most = half / found.second.gpus();
  if (many < 1 || most < 1) return;
  // Answers' replicas beside more than enough of prompts', and these then cut down.
  const auto fewest = [&](std::int64_t prompts_from, std::int64_t answers_from, auto&& keeps) {
    const std::int64_t answers = least(answers_from, most, [&](std::int64_t n) { return keeps(many, n); });
    const std::int64_t prompts =
        answers == 0 ? 0 : least(prompts_from, many, [&](std::int64_t n) { return keeps(n, answers); });
    return std::pair(prompts, answers);
  };
  const auto keeps = [&](std::int64_t prompts, std::int64_t answers) {
    const auto& fleet = found.with(space, prompts, answers);
    return fleet && fleet->kept_pct >= promised;
  };
  const auto [prompts, answers] = fewest(1, 1, keeps);
  if (prompts == 0) return;
  found.fleet = found.with(space, prompts, answers);
  const auto peak = fewest(prompts, answers, [&](std::int64_t p, std::int64_t a) {
    return keeps(p, a) && found.with(space, p, a)->peak_kept_pct >= promised;
  });
  if (peak.first > 0) found.at_peak = found.with(space, peak.first, peak.second);
}

void count(ServedSearch& search, std::vector<Found>& all) {
  for (Found& found : all) {
    search.tried += static_cast<std::int64_t>(found.known.size());
    if (found.at_peak) search.at_peak.push_back(*found.at_peak);
    if (found.fleet) {
      search.best.push_back(*found.fleet);
    } else {
      ++search.infeasible;
      if (search.refusal.empty()) search.refusal = found.refusal;
    }
  }
}

/// The best pairs of a mixture, with as many GPUs beside those that write answers for experts alone.
std::vector<Found> experts_apart(const Space& space, const std::vector<Found>& pairs) {
  std::vector<Found> out;
  std::vector<const Found*> sorted;
  const std::int64_t most = space.base().replica.model.experts.count;
  for (const Found& found : pairs)
    if (found.fleet && most > 0) sorted.push_back(&found);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Found* a, const Found* b) { return a->fleet->gpus < b->fleet->gpus; });
  if (sorted.size() > kPairs) sorted.resize(kPairs);
  for (const Found* found : sorted) {
    PoolLayout answers = found->second;
    answers.expert = answers.expert_gpus = std::max<std::int64_t>(2, answers.gpus());
    if (answers.expert > most) continue;
    for (const std::int64_t batches : {2, 3}) {
      answers.micro_batches = batches;
      out.push_back({found->first, answers});
    }
  }
  return out;
}

void search_fewest(Space& space, ServedSearch& search, unsigned jobs) {
  std::vector<Found> together;
  for (const PoolLayout& layout : space.layouts()) together.push_back({layout, layout});
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
    for (const PoolLayout& answers : good) apart.push_back({prompts, answers});
  for_each_parallel(apart.size(), jobs, "pairs", [&](std::size_t i) { find_apart(space, apart[i]); });
  count(search, apart);
  std::vector<Found> experts = experts_apart(space, apart);
  for_each_parallel(experts.size(), jobs, "experts apart", [&](std::size_t i) { find_apart(space, experts[i]); });
  count(search, experts);
  for (auto* list : {&search.best, &search.at_peak})
    std::stable_sort(list->begin(), list->end(), [](const ServedFleet& a, const ServedFleet& b) {
      return a.gpus != b.gpus ? a.gpus < b.gpus : a.tpot_s < b.tpot_s;
    });
  search.busiest = space.busiest();
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

void search_front(Space& space, ServedSearch& search, unsigned jobs) {
  struct Point {
    std::string text;
    std::vector<std::string> pools;
    std::int64_t concurrency;
    Space::Loaded* loaded;
  };
  std::vector<Point> points;
  std::deque<Space::Loaded> loaded;  // a fleet each
  const auto add = [&](const std::string& text, const std::vector<std::string>& pools, std::int64_t gpus) {
    if (gpus > space.most_gpus()) return;
    loaded.emplace_back();
    for (std::int64_t under_way = 1; under_way <= 256 * gpus && under_way <= 16384; under_way *= 4)
      points.push_back({text, pools, under_way, &loaded.back()});
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
    fleets[i] = space.simulate(points[i].text, points[i].pools, points[i].concurrency, refusals[i], points[i].loaded);
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
  for (const ServedFleet& fleet : good) {
    std::optional<ServedFleet>& best = fleet.apart ? search.apart : search.together;
    if (!best || fleet.per_gpu > best->per_gpu) best = fleet;
  }
  search.best = front_of(std::move(good));
}

}  // namespace

ServedSearch search_served(const Settings& document, std::size_t top, unsigned jobs) {
  Space space(document);
  ServedSearch search;
  search.scenario = space.base().id;
  search.fewest = space.base().traffic.concurrency == 0;
  if (search.fewest && !space.base().slo.any())
    document.at("serving").fail("says not what is promised, expected slo, as in slo: {ttft: 500 ms, tpot: 30 ms}");
  if (search.fewest)
    search_fewest(space, search, jobs);
  else
    search_front(space, search, jobs);
  search.percentile = space.base().slo.percentile;
  if (!search.fewest) return search;
  for (const ServedFleet& fleet : search.best) {
    std::optional<ServedFleet>& best = fleet.apart ? search.apart : search.together;
    if (!best) best = fleet;
  }
  for (auto* list : {&search.best, &search.at_peak})
    if (list->size() > top) list->resize(top);
  return search;
}

namespace {

void write_fleet_table(std::ostream& out, const std::vector<ServedFleet>& fleets, bool fewest) {
  std::vector<Column> columns{{"fleet", Align::left},
                              {"GPUs"},
                              {"under way"},
                              {"tokens/s/GPU"},
                              {"tokens/s/user"},
                              {fewest ? "TTFT, p99" : "TTFT"},
                              {fewest ? "TPOT, p99" : "TPOT"}};
  if (fewest) columns.erase(columns.begin() + 2);
  TextTable table(std::move(columns), "", 2);
  for (const ServedFleet& fleet : fleets) {
    std::vector<std::string> cells{
        shortened(fleet.layout, 52), std::to_string(fleet.gpus),  std::to_string(fleet.concurrency),
        number_text(fleet.per_gpu),  number_text(fleet.per_user), time_text(fleet.ttft_s),
        time_text(fleet.tpot_s)};
    if (fewest) cells.erase(cells.begin() + 2);
    table.add_row(std::move(cells));
  }
  table.write(out);
}

/// Which of the two kinds is better, and by how much.
std::string kinds_text(const ServedSearch& search) {
  const auto told = [&](const char* kind, const std::optional<ServedFleet>& fleet) {
    if (!fleet) return fmt::format("{}: no fleet that was tried does", kind);
    return search.fewest ? fmt::format("{}: {} GPUs ({})", kind, fleet->gpus, fleet->layout)
                         : fmt::format("{}: {} tokens/s/GPU ({})", kind, number_text(fleet->per_gpu), fleet->layout);
  };
  return fmt::format("{}; {}.", told("Prompts and answers together", search.together), told("apart", search.apart));
}

}  // namespace

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
  write_fleet_table(out, search.best, search.fewest);
  out << '\n' << wrapped(kinds_text(search), "  ", "  ");
  const BusiestStretch& busiest = search.busiest;
  if (!search.fewest || !(busiest.window_s > 0)) return;
  const std::string peak = fmt::format("In the busiest {}, from {} on, {} requests come a second, in the mean {}.",
                                       time_text(busiest.window_s), time_text(busiest.from_s),
                                       number_text(busiest.requests_per_s), number_text(busiest.mean_per_s));
  out << '\n'
      << wrapped(peak + (search.at_peak.empty() ? " No fleet keeps the promise for these too." : " For these too:"),
                 "  ", "  ");
  if (search.at_peak.empty()) return;
  out << '\n';
  write_fleet_table(out, search.at_peak, true);
}

void write_served_search(std::ostream& out, const ServedSearch& search, const std::string& command) {
  write_served_fleets(out, search);
  if (search.best.empty()) return;
  std::string first = command;
  for (const std::string& set : search.best.front().sets) first += fmt::format(" --set '{}'", set);
  out << "\nThe first:\n  " << first << '\n';
}

namespace {

nlohmann::ordered_json fleet_json(const ServedFleet& fleet) {
  return {{"layout", fleet.layout},
          {"apart", fleet.apart},
          {"gpus", fleet.gpus},
          {"concurrency", fleet.concurrency},
          {"output_tokens_per_s_per_gpu", fleet.per_gpu},
          {"tokens_per_s_per_user", fleet.per_user},
          {"ttft_s", fleet.ttft_s},
          {"tpot_s", fleet.tpot_s},
          {"kept_pct", fleet.kept_pct},
          {"peak_kept_pct", fleet.peak_kept_pct},
          {"set", fleet.sets}};
}

nlohmann::ordered_json kind_json(const std::optional<ServedFleet>& fleet) {
  return fleet ? fleet_json(*fleet) : nlohmann::ordered_json();
}

}  // namespace

nlohmann::ordered_json served_search_json(const ServedSearch& search) {
  nlohmann::ordered_json json{{"scenario", search.scenario},
                              {"objective", search.fewest ? "gpus" : "front"},
                              {"simulated", search.tried},
                              {"infeasible", search.infeasible}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const ServedFleet& fleet : search.best) json["rows"].push_back(fleet_json(fleet));
  json["together"] = kind_json(search.together);
  json["apart"] = kind_json(search.apart);
  if (!search.fewest) return json;
  json["peak"] = {{"window_s", search.busiest.window_s},
                  {"requests_per_s", search.busiest.requests_per_s},
                  {"mean_requests_per_s", search.busiest.mean_per_s}};
  json["peak"]["rows"] = nlohmann::ordered_json::array();
  for (const ServedFleet& fleet : search.at_peak) json["peak"]["rows"].push_back(fleet_json(fleet));
  return json;
}

namespace {

std::int64_t length_in(std::string_view text, std::string_view all) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1)
    throw sim::UserError(fmt::format(
        "search: --lengths: got '{}', expected tokens of prompts and answers, as in 1024:128,8192:1024", all));
  return value;
}

}  // namespace

std::vector<ServedWorkloadSearch> search_workloads(const Settings& document, const std::string& lengths,
                                                   unsigned jobs) {
  std::vector<ServedWorkloadSearch> searches;
  for (std::size_t from = 0; from <= lengths.size();) {
    const std::size_t comma = std::min(lengths.find(',', from), lengths.size());
    const std::string_view pair = std::string_view(lengths).substr(from, comma - from);
    const std::size_t colon = std::min(pair.find(':'), pair.size());
    ServedWorkloadSearch one;
    one.input = length_in(pair.substr(0, colon), lengths);
    one.output = length_in(colon < pair.size() ? pair.substr(colon + 1) : std::string_view(), lengths);
    searches.push_back(std::move(one));
    from = comma + 1;
  }
  if (const Settings* traffic = document.find("traffic"); traffic != nullptr && traffic->find("trace") != nullptr)
    traffic->at("trace").fail("has lengths of its own, expected rate or concurrency beside --lengths");
  for (ServedWorkloadSearch& one : searches) {
    Settings own = document;
    scenarios::apply_set(own, fmt::format("traffic.input={}", one.input));
    scenarios::apply_set(own, fmt::format("traffic.output={}", one.output));
    one.search = search_served(own, 1, jobs);
  }
  return searches;
}

void write_workload_searches(std::ostream& out, const std::vector<ServedWorkloadSearch>& searches) {
  const bool fewest = searches.front().search.fewest;
  out << fmt::format("{}: prompts and answers together or apart, by their lengths; {}\n\n",
                     searches.front().search.scenario,
                     fewest ? "GPUs that keep what is promised" : "most tokens a second and GPU");
  TextTable table({{"prompt"}, {"answer"}, {"together"}, {"apart"}, {"better", Align::left}, {"by"}}, "", 2);
  for (const ServedWorkloadSearch& one : searches) {
    const auto value = [&](const std::optional<ServedFleet>& fleet) {
      return !fleet ? std::string("-") : fewest ? std::to_string(fleet->gpus) : number_text(fleet->per_gpu);
    };
    // Of costs: GPUs, or their time for a token.
    const auto cost = [&](const std::optional<ServedFleet>& fleet) {
      return !fleet ? 1e300 : fewest ? static_cast<double>(fleet->gpus) : 1 / fleet->per_gpu;
    };
    const double a = cost(one.search.together), b = cost(one.search.apart);
    const bool any = std::min(a, b) < 1e300;
    table.add_row({std::to_string(one.input), std::to_string(one.output), value(one.search.together),
                   value(one.search.apart),
                   !any     ? "-"
                   : a == b ? "alike"
                   : a < b  ? "together"
                            : "apart",
                   any && std::max(a, b) < 1e300 ? fmt::format("{:.0f} %", 100 * (std::max(a, b) / std::min(a, b) - 1))
                                                 : std::string("-")});
  }
  table.write(out);
}

nlohmann::ordered_json workload_searches_json(const std::vector<ServedWorkloadSearch>& searches) {
  nlohmann::ordered_json json{{"scenario", searches.front().search.scenario},
                              {"objective", searches.front().search.fewest ? "gpus" : "front"}};
  json["workloads"] = nlohmann::ordered_json::array();
  for (const ServedWorkloadSearch& one : searches)
    json["workloads"].push_back({{"input_tokens", one.input},
                                 {"output_tokens", one.output},
                                 {"together", kind_json(one.search.together)},
                                 {"apart", kind_json(one.search.apart)}});
  return json;
}

}  // namespace orrery::tools
