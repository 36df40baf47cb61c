// `orrery flows`: max-min sharing alone. A table of flows, each with its start, its bytes and the links it crosses,
// becomes a plan in which every flow is an instance of its own: a wait until it starts, then one transfer. So what is
// timed and checked here is the engine that runs training steps. All links have one capacity and no latency. Left out:
// routing (the table names the links) and folding (the table says nothing about which flows are alike).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "sim/engine.h"
#include "sim/settings.h"
#include "tools/commands.h"
#include "tools/report/output.h"

namespace orrery::tools {

namespace {

using sim::UserError;

constexpr double kMostBytes = 1e18;
constexpr double kLongest = 2e6;  // seconds; the engine's clock ends after 26 days

struct FlowsOptions {
  std::string paths, capacity = "25 GB/s", out;
};

struct Flow {
  std::string id;
  double bytes = 0, start_s = 0;
  std::vector<sim::WeightedLink> links;
};

struct FlowTable {
  std::vector<Flow> flows;
  std::vector<std::uint32_t> crossings;  // of every link, how often flows cross it
};

enum PathColumn : std::size_t { kId, kSource, kDestination, kBytes, kStart, kLinks, kColumns };
constexpr std::array<std::string_view, kColumns> kNames{"id", "src", "dst", "bytes", "start_s", "links"};

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return text.substr(0, 0);
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// Cuts the text up to `separator` (or the end) off `rest`; false when nothing is left.
bool take(std::string_view& rest, char separator, std::string_view& piece) {
  if (rest.data() == nullptr) return false;
  const std::size_t at = rest.find(separator);
  piece = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return true;
}

/// Reads the table line by line; every complaint names line and column.
class PathReader {
 public:
  explicit PathReader(const std::string& file) : file_(file) {
    std::error_code failed;
    std::ifstream in(file, std::ios::binary);
    if (!in || std::filesystem::is_directory(file, failed)) {
      throw UserError(fmt::format("{}: cannot be read, a table of flows (CSV) would be right", file));
    }
    text_.assign(std::istreambuf_iterator<char>(in), {});
  }

  FlowTable read() {
    std::string_view rest = text_, line;
    if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
    take(rest, '\n', line);
    read_header(line);
    while (take(rest, '\n', line)) {
      ++line_;
      if (!trimmed(line).empty()) read_row(line);
    }
    if (table_.flows.empty()) throw UserError({file_, line_, 1}, "id", "the table holds no flow");
    return std::move(table_);
  }

 private:
  std::vector<std::string_view> split(std::string_view line) {
    std::vector<std::string_view> fields;
    line_begin_ = line.data();
    for (std::string_view field; take(line, ',', field);) fields.push_back(trimmed(field));
    return fields;
  }

  void read_header(std::string_view line) {
    std::array<bool, kColumns> found{};
    const std::vector<std::string_view> fields = split(line);
    columns_ = fields.size();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      // A name may be followed by a remark: "links(space separated)".
      const std::string_view name = trimmed(fields[i].substr(0, fields[i].find('(')));
      for (std::size_t c = 0; c < kColumns; ++c) {
        if (name != kNames[c]) continue;
        if (found[c]) fail(fields[i], kNames[c], "the header names this column twice");
        found[c] = true;
        place_[c] = i;
      }
    }
    for (std::size_t c = 0; c < kColumns; ++c) {
      if (found[c]) continue;
      throw UserError({file_, 1, 1}, std::string(kNames[c]),
                      fmt::format("the header lacks this column, {} would be right", fmt::join(kNames, ",")));
    }
  }

  void read_row(std::string_view line) {
    const std::vector<std::string_view> fields = split(line);
    if (fields.size() != columns_) {
      const std::size_t first_missing = std::min(fields.size(), columns_);
      std::string_view key = "line";
      for (std::size_t c = 0; c < kColumns; ++c) {
        if (place_[c] == first_missing) key = kNames[c];
      }
      fail(fields.back(), key, fmt::format("read {} columns, {} would be right", fields.size(), columns_));
    }
    const auto field = [&](PathColumn c) { return fields[place_[c]]; };
    for (const PathColumn c : {kId, kSource, kDestination}) {
      if (field(c).empty()) fail(field(c), kNames[c], "read nothing, a name or number would be right");
    }
    Flow flow;
    flow.id = field(kId);
    if (const auto [known, fresh] = ids_.emplace(field(kId), line_); !fresh) {
      fail(field(kId), kNames[kId],
           fmt::format("read '{}', which line {} has too; every flow needs an id of its own", flow.id, known->second));
    }
    flow.bytes = number(field(kBytes), kBytes, kMostBytes);
    flow.start_s = number(field(kStart), kStart, kLongest);
    std::string_view names = field(kLinks), name;
    while (take(names, ' ', name)) {
      if (name = trimmed(name); !name.empty()) flow.links.push_back({link_of(name), 1.0});
    }
    if (flow.links.empty()) {
      fail(field(kLinks), kNames[kLinks], "read nothing, names of links with spaces between them would be right");
    }
    table_.flows.push_back(std::move(flow));
  }

  double number(std::string_view text, PathColumn column, double most) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    // The comparison also refuses NaN.
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value <= most)) {
      fail(text, kNames[column], fmt::format("read '{}', a number from 0 to {:.0e} would be right", text, most));
    }
    return value;
  }

  sim::LinkId link_of(std::string_view name) {
    const auto number = static_cast<std::uint32_t>(table_.crossings.size());
    const auto [at, fresh] = links_.emplace(name, number);
    if (fresh) table_.crossings.push_back(0);
    ++table_.crossings[at->second];
    return sim::LinkId{at->second};
  }

  [[noreturn]] void fail(std::string_view field, std::string_view key, const std::string& message) const {
    const auto column = field.data() == nullptr ? 1 : static_cast<int>(field.data() - line_begin_) + 1;
    throw UserError({file_, line_, column}, std::string(key), message);
  }

  const std::string file_;
  std::string text_;  // of the whole file, into which the names below point
  int line_ = 1;
  const char* line_begin_ = nullptr;
  FlowTable table_;
  std::size_t columns_ = 0;
  std::array<std::size_t, kColumns> place_{};
  std::unordered_map<std::string_view, int> ids_;
  std::unordered_map<std::string_view, std::uint32_t> links_;
};

/// What the engine's clock cannot hold is the user's mistake. A flow's rate is at least the capacity over the crossings
/// of its fullest link, and while anything flows one link is full, which bounds every time that the engine predicts.
void check_length(const FlowTable& table, double capacity, const std::string& file) {
  double bytes = 0, largest = 0, last_start = 0;
  for (const Flow& flow : table.flows) {
    bytes += flow.bytes;
    largest = std::max(largest, flow.bytes);
    last_start = std::max(last_start, flow.start_s);
  }
  const double crossings = *std::max_element(table.crossings.begin(), table.crossings.end());
  const double longest = last_start + (bytes + crossings * largest) / capacity;
  if (longest <= kLongest) return;
  throw UserError(fmt::format("{}: at {:.4g} bytes/s these flows may take {:.2g} s, at most {:.0e} s would be right",
                              file, capacity, longest, kLongest));
}

struct Shared {
  std::vector<sim::SimTime> end;  // in the order of the table
  std::uint64_t solves = 0;
};

Shared share(const FlowTable& table, sim::Bandwidth capacity) {
  sim::Network network;
  sim::Plan plan;
  for (std::size_t i = 0; i < table.crossings.size(); ++i) network.add_link(capacity);
  for (const Flow& flow : table.flows) {
    const sim::RouteId route = network.add_route(flow.links, sim::Duration{});
    const std::array<sim::CommunicatorId, 1> alone{plan.communicators.push_back({1, route, 1})};
    sim::Program program;
    sim::Op wait, transfer;
    wait.duration = sim::seconds(flow.start_s);
    program.add(wait);
    transfer.kind = sim::OpKind::transfer;
    transfer.slot = 0;
    transfer.work = flow.bytes;
    program.add(transfer);
    plan.add_instance({plan.programs.push_back(std::move(program)), 1.0, 0}, alone);
  }
  const sim::Result result = sim::run(plan, network);
  SIM_CHECK(result.outcome == sim::Outcome::finished, "{} flows are stuck", result.stuck.size());
  return {result.last_finish.rows(), result.solves};
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void write_ends(std::ostream& out, const FlowTable& table, const Shared& shared) {
  constexpr std::int64_t kSecond = 1'000'000'000'000;  // picoseconds; digits, not doubles, so that none is lost
  out << "id,end_s\n";
  for (std::size_t i = 0; i < table.flows.size(); ++i) {
    const std::int64_t end = shared.end[i].value();
    out << fmt::format("{},{}.{:012}\n", table.flows[i].id, end / kSecond, end % kSecond);
  }
}

int flows(const FlowsOptions& options) {
  check_writable(options.out);
  const sim::Bandwidth capacity = sim::Settings::scalar(options.capacity, {"--capacity", 0, 0}).as_bandwidth();
  const double begin = cpu_seconds();
  const FlowTable table = PathReader(options.paths).read();
  check_length(table, capacity.value(), options.paths);
  const double read = cpu_seconds();
  const Shared shared = share(table, capacity);
  const double end = cpu_seconds();
  const bool to_stdout = options.out.empty() || options.out == "-";
  write_output(to_stdout ? "-" : options.out, [&](std::ostream& out) { write_ends(out, table, shared); });
  // Standard output stays one document.
  (to_stdout ? std::cerr : std::cout) << fmt::format(
      "solves: {}, flows: {}, links: {}, CPU seconds: {:.3f} (reading {:.3f}, sharing {:.3f})\n", shared.solves,
      table.flows.size(), table.crossings.size(), end - begin, read - begin, end - read);
  return kDone;
}

}  // namespace

Action declare_flows(CLI::App& app) {
  const auto options = std::make_shared<FlowsOptions>();
  app.add_option("paths", options->paths, "table of flows (CSV): id,src,dst,bytes,start_s,links")->required();
  app.add_option("--capacity", options->capacity, "of every link, one direction (default 25 GB/s)")->type_name("RATE");
  app.add_option("--out", options->out, "write id,end_s to FILE (default: standard output)")->type_name("FILE");
  return [options] { return flows(*options); };
}

}  // namespace orrery::tools
