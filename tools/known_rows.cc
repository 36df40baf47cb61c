// The table of residuals and the distance of two rows.
#include "tools/known_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <unordered_set>

#include "scenarios/packed_documents.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "sim/packed_table.h"
#include "sim/plain_cells.h"
#include "sim/plain_number.h"
#include "sim/text_file.h"
#include "tools/report/csv.h"
#include "tools/report/scoreboard.h"

namespace orrery::tools {

namespace {

constexpr const char* kRowTable = "a table of orrery validate --rows";
constexpr double kEverywhere = 0.002;  // weight of a row that is nothing like it: the fallback where none is

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

RowTraits::RowTraits(const Features& f)
    : work(f.work),
      device(f.device),
      software(f.software),
      fabric(f.fabric),
      recompute(f.recompute),
      schedule(f.schedule),
      gpus(f.gpus),
      hidden(f.sizes.hidden),
      micro_batch(f.sizes.micro_batch),
      seq(f.sizes.seq),
      tensor(f.sizes.tensor) {
  measure(f.exposed_s);
}

void RowTraits::measure(const std::array<double, workloads::kCategories>& exposed_s) {
  const auto wide = static_cast<double>(hidden);
  log_work = std::log(wide * wide * static_cast<double>(micro_batch * seq) / static_cast<double>(tensor));
  double whole = 0;
  for (const double seconds : exposed_s) whole += seconds;
  timed = whole > 0;
  if (!timed) return;
  // Tables of earlier versions have the host's time under `other`, so the two are compared as one.
  constexpr auto kOther = static_cast<std::size_t>(workloads::Category::other);
  constexpr auto kHost = static_cast<std::size_t>(workloads::Category::host);
  for (std::size_t c = 0; c < workloads::kCategories; ++c)
    shares[c] = (c == kOther ? exposed_s[kOther] + exposed_s[kHost] : c == kHost ? 0 : exposed_s[c]) / whole;
}

RowView::RowView(const KnownRow& row)
    : list(row.list),
      id(row.id),
      metric(row.metric),
      traits(row.features),
      log_ratio(row.log_ratio),
      measured(row.measured),
      evidence(row.evidence()) {}

std::vector<RowView> views_of(const std::vector<KnownRow>& rows) { return {rows.begin(), rows.end()}; }

double likeness(const RowTraits& a, const RowTraits& b) { return std::exp(-distance_squared(a, b) / 2) + kEverywhere; }
double likeness(const Features& a, const Features& b) { return likeness(RowTraits(a), RowTraits(b)); }
double distance_squared(const Features& a, const Features& b) { return distance_squared(RowTraits(a), RowTraits(b)); }

double distance_squared(const RowTraits& a, const RowTraits& b) {
  double d = 0;
  if (a.work != b.work) d += 9.0;
  if (a.device != b.device) d += family(a.device) == family(b.device) ? 0.25 : 1.0;
  if (a.software != b.software) d += 1.0;
  if (a.fabric != b.fabric) d += 0.25;
  if (a.recompute != b.recompute) d += 0.25;
  if (a.schedule != b.schedule) d += 0.25;
  d += squared(std::log(static_cast<double>(a.gpus) / static_cast<double>(b.gpus)) / 2);
  d += squared((a.log_work - b.log_work) / 1.5);
  if (!a.timed || !b.timed) return d;
  double elsewhere = 0;
  for (std::size_t c = 0; c < workloads::kCategories; ++c) elsewhere += std::abs(a.shares[c] - b.shares[c]);
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

  explicit RowTable(const std::string& file) : file_(file), text_(sim::read_text(file, kRowTable)) {
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

namespace {

/// The columns of a packed table that views look at.
class PackedRows {
 public:
  explicit PackedRows(std::string_view bytes) : table_(bytes) {
    for (std::size_t c = 0; c < workloads::kCategories; ++c) {
      const std::string name = std::string(workloads::name_of(static_cast<workloads::Category>(c))) + "_s";
      if (name != "host_s" || table_.column(name)) exposed_.emplace_back(c, number(name));
    }
  }

  /// Nothing where a column is missing, or a row is wrong: who reads the text says what.
  std::optional<std::vector<RowView>> views() const {
    std::vector<RowView> out;
    if (!complete_) return std::nullopt;
    const std::vector<std::string> ids = state_unknown();
    const std::unordered_set<std::string_view> unknown(ids.begin(), ids.end());
    std::array<bool, kSpots> spots{};  // what most names are not found at
    for (const std::string_view name : ids) spots[spot(name)] = true;
    out.reserve(table_.rows());
    for (std::size_t row = 0; row < table_.rows(); ++row) {
      RowView view;
      view.metric = table_.text(metric_, row);
      view.measured = table_.number(measured_, row);
      const auto ratio = log_ratio(view.metric, view.measured, table_.number(predicted_, row));
      if (!ratio) continue;
      view.log_ratio = *ratio;
      read(view.traits, row);
      const RowTraits& f = view.traits;
      if (f.gpus < 1 || f.hidden < 1 || f.micro_batch < 1 || f.seq < 1 || f.tensor < 1) return std::nullopt;
      view.list = table_.text(list_, row);
      view.id = table_.text(id_, row);
      const bool known = !spots[spot(view.id)] || !unknown.contains(view.id);
      view.evidence = known && count(fitted_, row) != 1;
      out.push_back(view);
    }
    return out;
  }

 private:
  using PackedColumn = sim::PackedTable::Column;
  static constexpr std::size_t kSpots = 4096;

  static std::size_t spot(std::string_view name) {
    std::size_t sum = name.size();
    for (std::size_t i = 0; i < std::min<std::size_t>(name.size(), 6); ++i)
      sum = sum * 31 + static_cast<unsigned char>(name[name.size() - 1 - i]);
    return sum % kSpots;
  }

  PackedColumn column(std::string_view name, bool numbers) {
    const auto column = table_.column(name);
    complete_ = complete_ && column && column->numbers == numbers;
    return column.value_or(PackedColumn{});
  }
  PackedColumn text(std::string_view name) { return column(name, false); }
  PackedColumn number(std::string_view name) { return column(name, true); }
  std::int64_t count(const PackedColumn& column, std::size_t row) const {
    return static_cast<std::int64_t>(table_.number(column, row));
  }

  void read(RowTraits& f, std::size_t row) const {
    f.work = table_.text(work_, row);
    f.device = table_.text(device_, row);
    f.software = table_.text(software_, row);
    f.fabric = table_.text(fabric_, row);
    f.recompute = table_.text(recompute_, row);
    f.schedule = table_.text(schedule_, row);
    f.gpus = count(gpus_, row);
    f.hidden = count(hidden_, row);
    f.micro_batch = count(micro_batch_, row);
    f.seq = count(seq_, row);
    f.tensor = count(tensor_, row);
    std::array<double, workloads::kCategories> exposed_s{};
    for (const auto& [c, column] : exposed_) exposed_s[c] = table_.number(column, row);
    f.measure(exposed_s);
  }

  sim::PackedTable table_;
  bool complete_ = true;
  PackedColumn list_ = text("list"), id_ = text("id"), metric_ = text("metric"), measured_ = number("measured"),
               predicted_ = number("predicted"), fitted_ = number("fitted"), work_ = text("work"),
               device_ = text("device"), software_ = text("software"), fabric_ = text("fabric"),
               recompute_ = text("recompute"), schedule_ = text("schedule"), gpus_ = number("gpus"),
               hidden_ = number("hidden"), micro_batch_ = number("micro_batch"), seq_ = number("seq"),
               tensor_ = number("tensor");
  std::vector<std::pair<std::size_t, PackedColumn>> exposed_;
};

std::string shipped_file() { return scenarios::data_directory() + "/scenarios/published/residuals.csv"; }

}  // namespace

std::vector<KnownRow> shipped_known_rows() {
  const std::string file = shipped_file();
  return std::filesystem::exists(file) ? marked(read_known_rows(file)) : std::vector<KnownRow>{};
}

ShippedRows::ShippedRows() {
  const std::string file = shipped_file();
  if (!std::filesystem::exists(file)) return;
  const auto packed = scenarios::packed_file(sim::read_block(file, kRowTable).text());
  if (auto views = packed ? PackedRows(packed->bytes).views() : std::nullopt) {
    views_ = *std::move(views);
    return;
  }
  rows_ = marked(read_known_rows(file));
  views_ = views_of(rows_);
}

namespace {

/// The row of `known`, whose sizes are those of its traits, that is this very measurement.
template <class Row, class TraitsOf>
const Row* same_of(const Features& features, const Metric& metric, std::span<const Row> known,
                   const TraitsOf& traits_of) {
  constexpr double kDigits = 1e-5;  // that a table of rows keeps
  const RowTraits asked(features);
  for (const Row& row : known) {
    const bool figure = row.metric == metric.name && row.measured > 0 &&
                        std::abs(row.measured - metric.measured) <= kDigits * row.measured;
    if (!figure) continue;
    const RowTraits& of = traits_of(row);
    const bool size = of.gpus == asked.gpus && of.hidden == asked.hidden && of.micro_batch == asked.micro_batch &&
                      of.seq == asked.seq && of.tensor == asked.tensor;
    if (size) return &row;
  }
  return nullptr;
}

}  // namespace

const KnownRow* same_measurement(const Features& features, const Metric& metric, const std::vector<KnownRow>& known) {
  return same_of(features, metric, std::span(known), [](const KnownRow& row) { return RowTraits(row.features); });
}
const RowView* same_measurement(const Features& features, const Metric& metric, std::span<const RowView> known) {
  return same_of(features, metric, known, [](const RowView& row) -> const RowTraits& { return row.traits; });
}

}  // namespace orrery::tools
