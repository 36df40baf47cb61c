// `orrery collective`: what nccl-tests would print on a cluster: one collective alone, size by size, over its first N
// GPUs; beside what it did print, where its output is given. Bus bandwidth is what each GPU sends per second
// (nccl-tests, doc/PERFORMANCE.md). Left out: noise between repetitions, and groups that skip GPUs.
#include "workloads/collectives/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "sim/error.h"
#include "tools/cluster.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/import/import.h"
#include "tools/import/nccl_tests.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/report/sheet.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

using calibration::CollectiveOp;
using nlohmann::ordered_json;
using sim::UserError;
using workloads::TimedCollective;

constexpr double kMostBytes = 1e15;
constexpr int kMostGpus = 1 << 17;
constexpr std::size_t kMostSizes = 1000;
constexpr std::array<CollectiveOp, 6> kOps{CollectiveOp::all_reduce,     CollectiveOp::all_gather,
                                           CollectiveOp::reduce_scatter, CollectiveOp::all_to_all,
                                           CollectiveOp::broadcast,      CollectiveOp::send_receive};

struct CollectiveOptions {
  ClusterOptions cluster;
  std::string op, sizes = "1MB:1GB:2", algorithm{workloads::kAuto}, measured, json, report;
  std::int64_t gpus = 0;
};

[[noreturn]] void refuse_sizes(const std::string& text, const std::string& why) {
  throw UserError({"--sizes", 0, 0}, "",
                  fmt::format("got '{}', {}, expected BEGIN:END:FACTOR, as in 1MB:1GB:2", text, why));
}

/// "64 MB", "1GiB", or a plain count of bytes.
double size_of(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  const auto value = sim::Settings::scalar(plain ? text + " B" : text, {"--sizes", 0, 0}).as_bytes();
  return static_cast<double>(value.value());
}

/// BEGIN:END:FACTOR, BEGIN:END (doubling) or one size.
std::vector<double> sizes_of(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() > 3) refuse_sizes(text, "which has more than three parts");
  const double begin = size_of(parts[0]), end = parts.size() > 1 ? size_of(parts[1]) : begin;
  double factor = 2;
  if (parts.size() == 3) {
    const char* last = parts[2].data() + parts[2].size();
    const auto [at, error] = std::from_chars(parts[2].data(), last, factor);
    if (error != std::errc{} || at != last || !(factor > 1 && factor <= 1e6)) {
      refuse_sizes(text, "whose factor is no number above 1");
    }
  }
  if (begin < 1 || end < begin || end > kMostBytes) refuse_sizes(text, "which is no range of sizes from 1 B to 1 PB");
  std::vector<double> sizes;
  for (double size = begin; size <= end * (1 + 1e-9); size *= factor) {
    if (sizes.empty() || std::round(size) > sizes.back()) sizes.push_back(std::round(size));
    if (sizes.size() > kMostSizes) refuse_sizes(text, fmt::format("which makes more than {} sizes", kMostSizes));
  }
  return sizes;
}

CollectiveOp op_of(const std::string& name) {
  const auto found = std::find_if(kOps.begin(), kOps.end(), [&](CollectiveOp op) { return name_of(op) == name; });
  SIM_CHECK(found != kOps.end(), "the operation '{}' passed its check", name);
  return *found;
}

/// A fabric gets whole nodes: a part-filled last node is not a cluster that can be bought.
std::int64_t whole_nodes(const CollectiveOptions& options) {
  const sim::Settings device = document_of("devices", options.cluster.device);
  const std::int64_t node = topology::load_node_spec(device.at("node")).gpus;
  return options.gpus <= node ? options.gpus : (options.gpus + node - 1) / node * node;
}

std::string_view algorithm_of(const CollectiveOptions& options, CollectiveOp op, const workloads::GroupShape& shape,
                              const NamedCluster& named) {
  if (options.algorithm == workloads::kAuto) return workloads::kAuto;
  std::vector<std::string_view> names = workloads::algorithms_of(op, shape, named.device, named.software);
  if (!named.cluster.fabric_spec().switches.sharp) std::erase(names, "sharp");
  const auto found = std::find(names.begin(), names.end(), options.algorithm);
  if (found != names.end()) return *found;
  throw UserError(fmt::format("--algorithm: got '{}', for {} over {} GPUs in {} node{}, expected {}, {}",
                              options.algorithm, options.op, shape.ranks, shape.nodes, shape.nodes == 1 ? "" : "s",
                              workloads::kAuto, fmt::join(names, ", ")));
}

struct Row {
  double bytes = 0, time_us = 0, algbw_gbs = 0, busbw_gbs = 0;
  std::string_view algorithm;
  double measured_us = 0;  // 0: not measured
  double error_pct() const { return 100 * (time_us / measured_us - 1); }
};

/// What an output of nccl-tests says of the call takes the place of what was not asked for.
std::vector<NcclTestsRow> read_measured(CollectiveOptions& options) {
  if (options.measured.empty()) return {};
  const NcclTests tests = read_nccl_tests(read_text(options.measured), options.measured);
  if (options.op.empty() &&
      std::any_of(kOps.begin(), kOps.end(), [&](CollectiveOp op) { return name_of(op) == tests.operation; })) {
    options.op = tests.operation;
  }
  if (options.gpus == 0) options.gpus = tests.gpus;
  std::map<double, NcclTestsRow> by_size;  // of a size that comes twice the quicker
  for (const NcclTestsRow& row : tests.rows) {
    const auto [at, fresh] = by_size.emplace(row.bytes, row);
    if (!fresh) at->second.seconds = std::min(at->second.seconds, row.seconds);
  }
  std::vector<NcclTestsRow> rows;
  for (const auto& [bytes, row] : by_size) rows.push_back(row);
  return rows;
}

/// Median of the errors' sizes, of rows that were measured.
std::optional<double> median_error(const std::vector<Row>& rows) {
  std::vector<double> errors;
  for (const Row& row : rows) {
    if (row.measured_us > 0) errors.push_back(std::abs(row.error_pct()));
  }
  if (errors.empty()) return std::nullopt;
  std::sort(errors.begin(), errors.end());
  return (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
}

std::vector<Row> rows_of(const CollectiveOptions& options, const std::vector<TimedCollective>& times,
                         const std::vector<NcclTestsRow>& measured) {
  const double factor = sent_share(options.op, options.gpus);
  std::vector<Row> rows;
  for (const TimedCollective& timed : times) {
    const double seconds = sim::to_seconds(timed.time), algbw = timed.bytes / seconds * 1e-9;
    rows.push_back({timed.bytes, seconds * 1e6, algbw, algbw * factor, timed.algorithm});
    if (!measured.empty()) rows.back().measured_us = measured[rows.size() - 1].seconds * 1e6;
  }
  return rows;
}

TextTable table_of(const std::vector<Row>& rows) {
  std::vector<Column> columns{{"bytes"}, {"time_us"}, {"algbw_gbs"}, {"busbw_gbs"}, {"algorithm", Align::left}};
  const bool measured = rows.front().measured_us > 0;
  if (measured) columns.insert(columns.end(), {{"measured_us"}, {"error_pct"}});
  TextTable table(columns);
  for (const Row& row : rows) {
    std::vector<std::string> cells{fmt::format("{:.0f}", row.bytes), fmt::format("{:.2f}", row.time_us),
                                   fmt::format("{:.2f}", row.algbw_gbs), fmt::format("{:.2f}", row.busbw_gbs),
                                   std::string(row.algorithm)};
    if (measured) {
      cells.push_back(fmt::format("{:.2f}", row.measured_us));
      cells.push_back(fmt::format("{:+.1f}", row.error_pct()));
    }
    table.add_row(cells);
  }
  return table;
}

Sheet sheet_of(const CollectiveOptions& options, const std::string& title, const std::vector<Row>& rows) {
  Sheet sheet(fmt::format("{} over {} GPUs", options.op, options.gpus), title);
  SheetChart chart{"Bandwidth by size", "bytes", "GB/s", {}, {}, {{"bus bandwidth", {}}, {"algorithm bandwidth", {}}}};
  SheetChart times{"Time by size", "bytes", "us", {}, {}, {{"time", {}}}};
  for (const Row& row : rows) {
    chart.x.push_back(row.bytes);
    times.x.push_back(row.bytes);
    chart.series[0].values.push_back(row.busbw_gbs);
    chart.series[1].values.push_back(row.algbw_gbs);
    times.series[0].values.push_back(row.time_us);
  }
  const Row& most =
      *std::max_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.busbw_gbs < b.busbw_gbs; });
  sheet.add_fact("most bus bandwidth", fmt::format("{:.2f} GB/s", most.busbw_gbs),
                 fmt::format("at {}, by {}", bytes_text(most.bytes), most.algorithm));
  sheet.add_fact("smallest message", time_text(rows.front().time_us * 1e-6), bytes_text(rows.front().bytes));
  sheet.add_chart("Bandwidth", "Bus bandwidth: what each GPU sends per second, as nccl-tests counts.", chart);
  sheet.add_chart("Time", {}, times);
  sheet.add_table("Sizes", {}, table_of(rows));
  return sheet;
}

ordered_json rows_json(const CollectiveOptions& options, const std::string& title, const std::vector<Row>& rows) {
  ordered_json json;
  json["cluster"] = title;
  json["op"] = options.op;
  json["gpus"] = options.gpus;
  json["rows"] = ordered_json::array();
  for (const Row& row : rows) {
    json["rows"].push_back({{"bytes", static_cast<std::int64_t>(row.bytes)},
                            {"time_us", row.time_us},
                            {"algbw_gbs", row.algbw_gbs},
                            {"busbw_gbs", row.busbw_gbs},
                            {"algorithm", row.algorithm}});
    if (row.measured_us == 0) continue;
    json["rows"].back()["measured_us"] = row.measured_us;
    json["rows"].back()["error_pct"] = row.error_pct();
  }
  if (const auto median = median_error(rows)) json["median_ape_pct"] = *median;
  return json;
}

/// Refuses a call that neither the options nor the measured output says whole.
void check_call(const CollectiveOptions& options) {
  const char* why =
      options.measured.empty() ? "is not given" : "is not given, nor does the output of nccl-tests say it";
  if (options.op.empty()) throw UserError(fmt::format("--op: {}, expected a collective, as in --op all_reduce", why));
  if (options.gpus == 0) throw UserError(fmt::format("--gpus: {}, expected how many GPUs take part", why));
  if (options.gpus < 2 || options.gpus > kMostGpus)
    throw UserError(fmt::format("--gpus: got {}, expected 2 to {}", options.gpus, kMostGpus));
}

int collective(CollectiveOptions options) {
  check_writable(options.json);
  check_report(options.report);
  const std::vector<NcclTestsRow> measured = read_measured(options);
  check_call(options);
  const CollectiveOp op = op_of(options.op);
  std::vector<double> sizes = measured.empty() ? sizes_of(options.sizes) : std::vector<double>{};
  for (const NcclTestsRow& row : measured) sizes.push_back(row.bytes);
  const NamedCluster named = read_cluster(options.cluster, whole_nodes(options));
  if (options.gpus > named.cluster.gpus()) {
    throw UserError(
        fmt::format("--gpus: got {}, expected at most the {} GPUs of the cluster", options.gpus, named.cluster.gpus()));
  }
  std::vector<std::int64_t> gpus(static_cast<std::size_t>(options.gpus));
  std::iota(gpus.begin(), gpus.end(), 0);
  const std::string_view algorithm = algorithm_of(options, op, workloads::shape_of(gpus, named.cluster), named);
  const std::vector<Row> rows = rows_of(
      options, workloads::time_collective(op, sizes, gpus, named.cluster, named.device, named.software, algorithm),
      measured);
  if (!options.json.empty()) {
    write_output(options.json, [&](std::ostream& out) { write_json(out, rows_json(options, named.title, rows)); });
  }
  if (!options.report.empty()) {
    write_output(options.report,
                 [&](std::ostream& out) { write_page(out, sheet_of(options, named.title, rows).page()); });
  }
  if (options.json != "-" && options.report != "-") {
    std::cout << wrapped(fmt::format("{}, {} over {} GPUs", named.title, options.op, options.gpus), "", "  ");
    table_of(rows).write(std::cout);
    if (const auto median = median_error(rows))
      std::cout << fmt::format("measured: {}, median error {:.1f} %\n", options.measured, *median);
  }
  return kDone;
}

}  // namespace

Action declare_collective(CommandOptions app) {
  const auto options = std::make_shared<CollectiveOptions>();
  std::vector<std::string> names;
  for (const CollectiveOp op : kOps) names.emplace_back(name_of(op));
  declare_cluster(app, options->cluster);
  app.add_option("--op", options->op, "the collective").check(OneOf(names));
  app.add_option("--gpus", options->gpus, "GPUs that take part: the first N of the cluster").check(Range(2, kMostGpus));
  app.add_option(
         "--measured", options->measured,
         "what nccl-tests or rccl-tests printed: its sizes, its GPUs and, where it says it, its collective, with "
         "its times beside the predicted ones")
      .type_name("FILE");
  app.add_option("--sizes", options->sizes, "BEGIN:END:FACTOR of the whole buffer (default 1MB:1GB:2)")
      .type_name("SIZES");
  app.add_option("--algorithm", options->algorithm, "auto (default), or the name of one that fits the group")
      .type_name("NAME");
  app.add_option("--json", options->json, "write the rows as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--report", options->report, "write the rows and charts as one HTML file that needs no network")
      .type_name("FILE");
  return [options] { return collective(*options); };
}

}  // namespace orrery::tools
