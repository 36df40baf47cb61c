// The table of residuals and the distance of two rows.
#include "tools/explain/known_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "sim/text_file.h"
#include "tools/report/csv.h"
#include "tools/report/scoreboard.h"

namespace orrery::tools {

namespace {

constexpr double kEverywhere = 0.002;  // weight of a row that is nothing like it: the fallback where none is

/// Work of one layer's kernels on one GPU: small ones are bound by launches.
double log_work(const Features& f) {
  const double hidden = static_cast<double>(f.sizes.hidden);
  return std::log(hidden * hidden * static_cast<double>(f.sizes.micro_batch * f.sizes.seq) /
                  static_cast<double>(f.sizes.tensor));
}

double squared(double x) { return x * x; }

std::string_view family(std::string_view device) { return device.substr(0, device.find('-')); }

std::optional<double> log_ratio(const std::string& metric, double measured, double predicted) {
  if (metric.empty() || measured <= 0 || predicted <= 0) return std::nullopt;
  const double ratio = std::log(measured / predicted);
  return metric == "iteration_s" ? ratio : -ratio;
}

std::vector<KnownRow> marked(std::vector<KnownRow> known) {
  const std::vector<std::string> ids = state_unknown();
  const std::set<std::string> unknown(ids.begin(), ids.end());
  for (KnownRow& row : known) row.state_unknown = unknown.contains(row.id);
  return known;
}

}  // namespace

std::string_view framework_of(std::string_view software) { return software.substr(0, software.find('-')); }

double host_share(const Features& features) {
  double whole = 0;
  for (const double seconds : features.exposed_s) whole += seconds;
  return whole > 0 ? features.exposed_s[static_cast<std::size_t>(workloads::Category::host)] / whole : 0;
}

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
  return marked(std::move(known));
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
    f.sharding = text("sharding");
    f.attention = text("attention");
    f.precision = text("precision");
    f.sizes.pipeline = count_of("pipeline");
    f.sizes.virtual_pipeline = count_of("virtual_pipeline");
    f.sizes.data = count_of("data");
    f.sizes.context = count_of("context");
    f.sizes.layers = count_of("layers");
    f.sizes.global_batch = count_of("global_batch");
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
  return std::filesystem::exists(file) ? marked(read_known_rows(file)) : std::vector<KnownRow>{};
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

}  // namespace orrery::tools
