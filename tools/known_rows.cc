// The table of residuals and the distance of two rows.
#include "tools/known_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <unordered_set>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "sim/plain_cells.h"
#include "sim/plain_number.h"
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

std::optional<double> log_ratio(std::string_view metric, double measured, double predicted) {
  if (metric.empty() || measured <= 0 || predicted <= 0) return std::nullopt;
  const double ratio = std::log(measured / predicted);
  return metric == "iteration_s" ? ratio : -ratio;
}

std::vector<KnownRow> marked(std::vector<KnownRow> known) {
  const std::vector<std::string> ids = state_unknown();
  const std::unordered_set<std::string_view> unknown(ids.begin(), ids.end());
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

namespace {

/// The lines of a table of rows, one after the other: two thousand of them are read with every prediction, so that
/// columns are looked up once, cells are not copied, and a line is gone through once.
class RowTable {
 public:
  struct RowColumn {
    std::string name;
    std::size_t at = std::string::npos;  // npos: there is none
  };

  explicit RowTable(const std::string& file)
      : file_(file), text_(sim::read_text(file, "a table of orrery validate --rows")) {
    next();
    head_.assign(row_.begin(), row_.end());
  }

  /// Goes to the next line, of which there may be none.
  bool next() {
    ++number_;
    if (begin_ >= text_.size() && number_ > 1) return false;
    const std::size_t end = std::min(text_.find('\n', begin_), text_.size());
    const std::string_view line = std::string_view(text_).substr(begin_, end - begin_);
    row_.clear();
    const std::size_t quotes = sim::take_plain_cells(line, row_);
    try {
      if (quotes <= line.size()) {
        const std::vector<std::string_view>& rest = cells_.of(line.substr(quotes));
        row_.insert(row_.end(), rest.begin(), rest.end());
      }
    } catch (const std::invalid_argument& error) {
      throw broken(error.what());
    }
    begin_ = end + 1;
    return true;
  }
  /// Of two columns of one name the later one.
  RowColumn column(std::string name) const {
    const auto found = std::find(head_.rbegin(), head_.rend(), name);
    const bool there = found != head_.rend();
    return {std::move(name), there ? static_cast<std::size_t>(head_.rend() - found) - 1 : std::string::npos};
  }
  std::string_view text(const RowColumn& column) const {
    if (column.at >= row_.size()) throw broken(fmt::format("has no cell '{}'", column.name));
    return row_[column.at];
  }
  /// An empty cell is 0: a row that was not simulated has no figures. Most figures are a single digit.
  double number(const RowColumn& column) const {
    const std::string_view cell = text(column);
    if (cell.size() == 1 && cell[0] >= '0' && cell[0] <= '9') return cell[0] - '0';
    if (const std::optional<double> plain = sim::plain_number(cell)) return *plain;
    return any_number(cell, column);
  }
  /// More than there are, as lines go.
  std::size_t most_rows() const { return text_.size() / 256; }
  std::int64_t count(const RowColumn& column) const { return static_cast<std::int64_t>(number(column)); }
  sim::UserError broken(const std::string& what) const {
    return sim::UserError({file_, number_, 0}, "", fmt::format("{}, expected a row of orrery validate --rows", what));
  }

 private:
  double any_number(std::string_view cell, const RowColumn& column) const {
    constexpr double kLargest = 1e18;  // of any figure, in its unit
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc{} || end != cell.data() + cell.size() || !(std::abs(value) <= kLargest))
      throw broken(fmt::format("got '{}' for {}", cell, column.name));
    return value;
  }

  std::string file_, text_;
  std::size_t begin_ = 0;  // of the next line
  int number_ = 0;
  CsvCells cells_;  // keeps those of the last line that are quoted
  std::vector<std::string_view> row_;
  std::vector<std::string> head_;
};

}  // namespace

std::vector<KnownRow> read_known_rows(const std::string& file) {
  RowTable table(file);
  using RowColumn = RowTable::RowColumn;
  const std::array<std::pair<RowColumn, std::string Features::*>, 8> texts{
      {{table.column("device"), &Features::device},
       {table.column("software"), &Features::software},
       {table.column("fabric"), &Features::fabric},
       {table.column("recompute"), &Features::recompute},
       {table.column("schedule"), &Features::schedule},
       {table.column("sharding"), &Features::sharding},
       {table.column("attention"), &Features::attention},
       {table.column("precision"), &Features::precision}}};
  using Sizes = Features::Sizes;
  const std::array<std::pair<RowColumn, std::int64_t Sizes::*>, 10> sizes{
      {{table.column("pipeline"), &Sizes::pipeline},
       {table.column("virtual_pipeline"), &Sizes::virtual_pipeline},
       {table.column("data"), &Sizes::data},
       {table.column("context"), &Sizes::context},
       {table.column("layers"), &Sizes::layers},
       {table.column("global_batch"), &Sizes::global_batch},
       {table.column("hidden"), &Sizes::hidden},
       {table.column("micro_batch"), &Sizes::micro_batch},
       {table.column("seq"), &Sizes::seq},
       {table.column("tensor"), &Sizes::tensor}}};
  std::vector<std::pair<RowColumn, std::size_t>> exposed;
  for (std::size_t c = 0; c < workloads::kCategories; ++c) {
    const RowColumn column = table.column(std::string(workloads::name_of(static_cast<workloads::Category>(c))) + "_s");
    if (column.name != "host_s" || column.at != std::string::npos) exposed.emplace_back(column, c);
  }
  const RowColumn work = table.column("work");  // tables of earlier versions have none
  const RowColumn gpus = table.column("gpus"), fitted = table.column("fitted");
  const RowColumn list = table.column("list"), id = table.column("id");
  const RowColumn metric = table.column("metric"), measured = table.column("measured");
  const RowColumn predicted = table.column("predicted");
  std::vector<KnownRow> known;
  known.reserve(table.most_rows());
  while (table.next()) {
    const std::string_view name = table.text(metric);
    const double figure = table.number(measured);
    const auto ratio = log_ratio(name, figure, table.number(predicted));
    KnownRow& row = known.emplace_back();
    Features& f = row.features;
    if (work.at != std::string::npos) f.work = std::string(table.text(work));
    for (const auto& [column, member] : texts) f.*member = std::string(table.text(column));
    f.gpus = table.count(gpus);
    for (const auto& [column, member] : sizes) f.sizes.*member = table.count(column);
    for (const auto& [column, c] : exposed) f.exposed_s[c] = table.number(column);
    if (!ratio) {
      known.pop_back();
      continue;
    }
    if (f.gpus < 1 || f.sizes.hidden < 1 || f.sizes.micro_batch < 1 || f.sizes.seq < 1 || f.sizes.tensor < 1)
      throw table.broken("has sizes below 1");
    row.list = std::string(table.text(list));
    row.id = std::string(table.text(id));
    row.log_ratio = *ratio;
    row.metric = std::string(name);
    row.measured = figure;
    row.fitted = table.count(fitted) == 1;
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
