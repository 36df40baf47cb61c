// Weights, quantiles and the table of residuals. The bandwidths say what is meant by like; they are round numbers, not
// fitted: a factor e^2 in GPUs, e^1.5 in work per kernel, another software generation, half of the time elsewhere. Work
// of another kind is three of them away: what a mixture of experts is off by, rows of dense models do not show.
#include "tools/explain/like_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <tuple>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "sim/text_file.h"
#include "tools/report/csv.h"

namespace orrery::tools {

namespace {

constexpr double kEverywhere = 0.002;  // weight of a row that is nothing like it: the fallback where none is
constexpr std::size_t kNamed = 3;

/// Work of one layer's kernels on one GPU: small ones are bound by launches.
double log_work(const Features& f) {
  const double hidden = static_cast<double>(f.sizes.hidden);
  return std::log(hidden * hidden * static_cast<double>(f.sizes.micro_batch * f.sizes.seq) /
                  static_cast<double>(f.sizes.tensor));
}

double squared(double x) { return x * x; }

std::string family(const std::string& device) { return device.substr(0, device.find('-')); }

struct Weighed {
  double log_ratio = 0, weight = 0;
};

/// The value below which a share `p` of the weight lies; `rows` as in LikeRows.
double quantile(const std::vector<Weighed>& sorted, double total, double rows, double p) {
  const double wanted = std::clamp(0.5 + (p - 0.5) * (1 + 1 / rows), 0.0, 1.0) * total;
  double sum = 0;
  for (const Weighed& row : sorted) {
    sum += row.weight;
    if (sum >= wanted * (1 - 1e-12)) return row.log_ratio;
  }
  return sorted.back().log_ratio;
}

std::optional<double> log_ratio(const std::string& metric, double measured, double predicted) {
  if (metric.empty() || measured <= 0 || predicted <= 0) return std::nullopt;
  const double ratio = std::log(measured / predicted);
  return metric == "iteration_s" ? ratio : -ratio;
}

}  // namespace

double likeness(const Features& a, const Features& b) { return std::exp(-distance_squared(a, b) / 2) + kEverywhere; }

double distance_squared(const Features& a, const Features& b) {
  double d = 0;
  if (a.work != b.work) d += 9.0;
  if (a.device != b.device) d += family(a.device) == family(b.device) ? 0.25 : 1.0;
  if (a.software != b.software) d += 1.0;
  if (a.fabric != b.fabric) d += 0.25;
  if (a.recompute != b.recompute) d += 0.25;
  if (a.schedule != b.schedule) d += 0.25;
  d += squared(std::log(static_cast<double>(a.gpus) / static_cast<double>(b.gpus)) / 2);
  d += squared((log_work(a) - log_work(b)) / 1.5);
  double whole_a = 0, whole_b = 0, elsewhere = 0;
  for (std::size_t c = 0; c < workloads::kCategories; ++c) {
    whole_a += a.exposed_s[c];
    whole_b += b.exposed_s[c];
  }
  if (whole_a <= 0 || whole_b <= 0) return d;
  // Tables of earlier versions have the host's time under `other`, so the two are compared as one.
  const auto of_other = static_cast<std::size_t>(workloads::Category::other);
  const auto of_host = static_cast<std::size_t>(workloads::Category::host);
  const auto part = [&](const Features& f, std::size_t c) {
    return c == of_other ? f.exposed_s[of_other] + f.exposed_s[of_host] : f.exposed_s[c];
  };
  for (std::size_t c = 0; c < workloads::kCategories; ++c) {
    if (c != of_host) elsewhere += std::abs(part(a, c) / whole_a - part(b, c) / whole_b);
  }
  return d + squared(elsewhere / 0.5);
}

std::vector<KnownRow> known_rows(const std::vector<ValidationRow>& rows) {
  std::vector<KnownRow> known;
  for (const ValidationRow& row : rows) {
    if (!row.measured || !row.predicted || row.features.gpus < 1) continue;
    const auto ratio = log_ratio(row.metric, *row.measured, *row.predicted);
    if (ratio) known.push_back({row.list, row.id, row.features, *ratio, row.metric, *row.measured, row.fitted});
  }
  return known;
}

std::vector<KnownRow> read_known_rows(const std::string& file) {
  constexpr double kLargest = 1e18;  // of any figure, in its unit
  std::istringstream in(sim::read_text(file, "a table of orrery validate --rows"));
  std::string line;
  std::getline(in, line);
  std::map<std::string, std::size_t> column;
  int number = 1;
  const auto broken = [&](const std::string& what) {
    return sim::UserError({file, number, 0}, "", fmt::format("{}, expected a row of orrery validate --rows", what));
  };
  const auto cells_of = [&] {
    try {
      return csv_cells(line);
    } catch (const std::invalid_argument& error) {
      throw broken(error.what());
    }
  };
  const std::vector<std::string> head = cells_of();
  for (std::size_t i = 0; i < head.size(); ++i) column[head[i]] = i;
  std::vector<KnownRow> known;
  for (number = 2; std::getline(in, line); ++number) {
    const std::vector<std::string> cells = cells_of();
    const auto text = [&](const std::string& name) -> const std::string& {
      const auto at = column.find(name);
      if (at == column.end() || at->second >= cells.size()) throw broken(fmt::format("has no cell '{}'", name));
      return cells[at->second];
    };
    // An empty cell is 0: a row that was not simulated has no figures.
    const auto number_of = [&](const std::string& name) {
      const std::string& cell = text(name);
      double value = 0;
      const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
      if (cell.empty()) return 0.0;
      if (error != std::errc{} || end != cell.data() + cell.size() || !(std::abs(value) <= kLargest))
        throw broken(fmt::format("got '{}' for {}", cell, name));
      return value;
    };
    const auto count_of = [&](const std::string& name) { return static_cast<std::int64_t>(number_of(name)); };
    Features f;
    if (column.contains("work")) f.work = text("work");  // tables of earlier versions have none
    f.device = text("device");
    f.software = text("software");
    f.fabric = text("fabric");
    f.recompute = text("recompute");
    f.schedule = text("schedule");
    f.gpus = count_of("gpus");
    f.sizes.hidden = count_of("hidden");
    f.sizes.micro_batch = count_of("micro_batch");
    f.sizes.seq = count_of("seq");
    f.sizes.tensor = count_of("tensor");
    for (std::size_t c = 0; c < workloads::kCategories; ++c) {
      const std::string name = std::string(workloads::name_of(static_cast<workloads::Category>(c))) + "_s";
      if (name != "host_s" || column.contains(name)) f.exposed_s[c] = number_of(name);
    }
    const auto ratio = log_ratio(text("metric"), number_of("measured"), number_of("predicted"));
    if (!ratio) continue;
    if (f.gpus < 1 || f.sizes.hidden < 1 || f.sizes.micro_batch < 1 || f.sizes.seq < 1 || f.sizes.tensor < 1)
      throw broken("has sizes below 1");
    const bool fitted = count_of("fitted") == 1;
    known.push_back({text("list"), text("id"), f, *ratio, text("metric"), number_of("measured"), fitted});
  }
  return known;
}

std::vector<KnownRow> shipped_known_rows() {
  const std::string file = scenarios::data_directory() + "/scenarios/published/residuals.csv";
  return std::filesystem::exists(file) ? read_known_rows(file) : std::vector<KnownRow>{};
}

const KnownRow* same_measurement(const Features& features, const Metric& metric, const std::vector<KnownRow>& known) {
  constexpr double kDigits = 1e-5;  // that a table of rows keeps
  const auto size = [](const Features& f) {
    return std::tuple(f.gpus, f.sizes.hidden, f.sizes.micro_batch, f.sizes.seq, f.sizes.tensor);
  };
  for (const KnownRow& row : known) {
    const bool figure = row.metric == metric.name && row.measured > 0 &&
                        std::abs(row.measured - metric.measured) <= kDigits * row.measured;
    if (figure && size(row.features) == size(features)) return &row;
  }
  return nullptr;
}

std::optional<LikeRows> like_rows(const Features& features, const std::vector<KnownRow>& known,
                                  const KnownRow* left_out) {
  std::map<std::string, double> by_list;
  std::vector<std::pair<double, const KnownRow*>> near;  // weight before lists are evened out
  for (const KnownRow& row : known) {
    if (&row == left_out || row.fitted) continue;
    const double weight = likeness(features, row.features);
    by_list[row.list] += weight;
    near.emplace_back(weight, &row);
  }
  if (near.empty()) return std::nullopt;
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Weighed> sorted;
  double total = 0, squares = 0;
  for (const auto& [weight, row] : near) {
    sorted.push_back({row->log_ratio, weight / std::sqrt(by_list.at(row->list))});
    total += sorted.back().weight;
    squares += squared(sorted.back().weight);
  }
  std::sort(sorted.begin(), sorted.end(), [](const Weighed& a, const Weighed& b) {
    return a.log_ratio != b.log_ratio ? a.log_ratio < b.log_ratio : a.weight < b.weight;
  });
  LikeRows like;
  like.rows = total * total / squares;
  for (std::size_t i = 0; i < std::min(kNamed, near.size()); ++i) like.nearest.push_back(near[i].second->id);
  const auto factor = [&](double p) { return std::exp(quantile(sorted, total, like.rows, p)); };
  like.low68 = factor(0.16);
  like.high68 = factor(0.84);
  like.low90 = factor(0.05);
  like.high90 = factor(0.95);
  return like;
}

LikeRows widened(LikeRows like, const Widening& by) {
  like.low68 *= std::exp(-by.at68);
  like.high68 *= std::exp(by.at68);
  like.low90 *= std::exp(-by.at90);
  like.high90 *= std::exp(by.at90);
  return like;
}

namespace {

/// A row in no fit and the intervals that others give it.
struct Asked {
  const KnownRow* row = nullptr;
  LikeRows own, other;  // from all other rows; from other lists
};

/// How far outside an interval a ratio lies, as a logarithm; below 0 inside.
double outside(double log_ratio, double low, double high) {
  return std::max(std::log(low) - log_ratio, log_ratio - std::log(high));
}

/// What the rows of all lists but one ask for; the root of a list's rows counts.
Widening widening_without(const std::string& list, const std::vector<Asked>& asked,
                          const std::map<std::string, double>& rows_of) {
  std::vector<Weighed> at68, at90;
  double total = 0;
  for (const Asked& one : asked) {
    if (one.row->list == list) continue;
    const double weight = 1 / std::sqrt(rows_of.at(one.row->list));
    at68.push_back({outside(one.row->log_ratio, one.other.low68, one.other.high68), weight});
    at90.push_back({outside(one.row->log_ratio, one.other.low90, one.other.high90), weight});
    total += weight;
  }
  const auto share = [&](std::vector<Weighed>& rows, double held) {
    std::sort(rows.begin(), rows.end(), [](const Weighed& a, const Weighed& b) { return a.log_ratio < b.log_ratio; });
    double sum = 0;
    for (const Weighed& row : rows) {
      sum += row.weight;
      if (sum >= held * total * (1 - 1e-12)) return std::max(0.0, row.log_ratio);
    }
    return 0.0;
  };
  return {share(at68, 0.68), share(at90, 0.90)};
}

void count(const Asked& one, const Widening& by, Held& held) {
  constexpr double kRounding = 1e-9;  // of logarithms there and back
  const LikeRows fresh = widened(one.other, by);
  const auto holds = [&](double low, double high) {
    return outside(one.row->log_ratio, low, high) <= kRounding ? 1 : 0;
  };
  ++held.rows;
  held.held68 += holds(one.own.low68, one.own.high68);
  held.held90 += holds(one.own.low90, one.own.high90);
  held.new68 += holds(fresh.low68, fresh.high68);
  held.new90 += holds(fresh.low90, fresh.high90);
}

void turn_into_shares(Held& held) {
  for (double* share : {&held.held68, &held.held90, &held.new68, &held.new90})
    *share *= held.rows > 0 ? 100 / static_cast<double>(held.rows) : 0;
}

}  // namespace

Coverage coverage_of(const std::vector<KnownRow>& known) {
  std::map<std::string, double> rows_of;
  std::map<std::string, std::vector<KnownRow>> without;
  for (const KnownRow& row : known) {
    if (!row.fitted) ++rows_of[row.list];
  }
  for (const auto& [list, rows] : rows_of) {
    for (const KnownRow& row : known) {
      if (row.list != list && !row.fitted) without[list].push_back(row);
    }
  }
  std::vector<Asked> asked;
  for (const KnownRow& row : known) {
    if (row.fitted) continue;
    const auto own = like_rows(row.features, known, &row);
    const auto other = like_rows(row.features, without[row.list]);
    if (own && other) asked.push_back({&row, *own, *other});
  }
  Coverage out;
  for (const auto& [list, rows] : rows_of) {
    Held held{.list = list};
    const Widening by = widening_without(list, asked, rows_of);
    for (const Asked& one : asked) {
      if (one.row->list != list) continue;
      count(one, by, held);
      count(one, by, out.all);
    }
    turn_into_shares(held);
    out.lists.push_back(held);
  }
  turn_into_shares(out.all);
  out.widening = widening_without("", asked, rows_of);
  return out;
}

}  // namespace orrery::tools
