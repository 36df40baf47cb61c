// `orrery flows`: max-min sharing alone. A table of flows, each with its start, its bytes and the links it crosses, is
// handed to sim::Fluid, which moves the transfers of training steps too; so what is timed and checked here is what runs
// there. All links have one capacity and no latency. Left out: routing (the table names the links).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/error.h"
#include "sim/fluid.h"
#include "sim/hash.h"
#include "sim/network.h"
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

struct FlowTable {
  std::vector<std::string_view> id;  // in the text that was read
  std::vector<double> bytes, start_s;
  sim::Network network;                  // a link for each name; a route for each flow
  std::vector<std::uint32_t> crossings;  // of every link, how often flows cross it
};

/// Names and their numbers, in one flat table (open addressing, linear probing): half of the time that reading a large
/// table takes is looking names up.
class Names {
 public:
  struct Row {
    std::string_view name;
    std::uint32_t number = 0;
  };

  /// The row of `name`, and whether it is new; then the number is `number`.
  std::pair<const Row*, bool> insert(std::string_view name, std::uint32_t number) {
    if (2 * size_ >= rows_.size()) grow();
    Row* row = find(name);
    if (row->name.data() != nullptr) return {row, false};
    *row = {name, number};
    ++size_;
    return {row, true};
  }

 private:
  static std::uint64_t hash(std::string_view name) {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    std::uint64_t hash = name.size(), word = 0;
    for (; name.size() >= kWord; name.remove_prefix(kWord)) {
      std::memcpy(&word, name.data(), kWord);
      hash = sim::mix64(hash ^ word);
    }
    word = 0;
    std::memcpy(&word, name.data(), name.size());
    return sim::mix64(hash ^ word);
  }

  Row* find(std::string_view name) {
    std::size_t at = hash(name) & (rows_.size() - 1);
    while (rows_[at].name.data() != nullptr && rows_[at].name != name) at = (at + 1) & (rows_.size() - 1);
    return &rows_[at];
  }

  void grow() {
    constexpr std::size_t kLeast = 1024;
    std::vector<Row> before(std::max(kLeast, 4 * rows_.size()));
    before.swap(rows_);
    for (const Row& row : before) {
      if (row.name.data() != nullptr) *find(row.name) = row;
    }
  }

  std::vector<Row> rows_;  // a power of two of them; no name: not used
  std::size_t size_ = 0;
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

std::string read_text(const std::string& file) {
  std::error_code failed;
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file, failed)) {
    throw UserError(fmt::format("{}: cannot be read, a table of flows (CSV) would be right", file));
  }
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  std::string text;
  while (in) {
    const std::size_t before = text.size();
    text.resize(before + kBlock);
    in.read(text.data() + before, kBlock);
    text.resize(before + static_cast<std::size_t>(in.gcount()));
  }
  return text;
}

/// Reads the table line by line; every complaint names line and column.
class PathReader {
 public:
  PathReader(const std::string& file, std::string_view text, sim::Bandwidth capacity)
      : file_(file), text_(text), capacity_(capacity) {}

  FlowTable read() {
    std::string_view rest = text_, line;
    if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
    take(rest, '\n', line);
    read_header(line);
    while (take(rest, '\n', line)) {
      ++line_;
      if (!trimmed(line).empty()) read_row(line);
    }
    if (table_.id.empty()) throw UserError({file_, line_, 1}, "id", "the table holds no flow");
    return std::move(table_);
  }

 private:
  /// The fields of a line; valid until the next call.
  const std::vector<std::string_view>& split(std::string_view line) {
    fields_.clear();
    line_begin_ = line.data();
    for (std::string_view field; take(line, ',', field);) fields_.push_back(trimmed(field));
    return fields_;
  }

  void read_header(std::string_view line) {
    std::array<bool, kColumns> found{};
    const std::vector<std::string_view>& fields = split(line);
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
    const std::vector<std::string_view>& fields = split(line);
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
    const std::string_view id = field(kId);
    if (const auto [known, fresh] = ids_.insert(id, static_cast<std::uint32_t>(line_)); !fresh) {
      fail(id, kNames[kId],
           fmt::format("read '{}', which line {} has too; every flow needs an id of its own", id, known->number));
    }
    table_.id.push_back(id);
    table_.bytes.push_back(number(field(kBytes), kBytes, kMostBytes));
    table_.start_s.push_back(number(field(kStart), kStart, kLongest));
    path_.clear();
    std::string_view names = field(kLinks), name;
    while (take(names, ' ', name)) {
      if (name = trimmed(name); !name.empty()) path_.push_back({link_of(name), 1.0});
    }
    if (path_.empty()) {
      fail(field(kLinks), kNames[kLinks], "read nothing, names of links with spaces between them would be right");
    }
    table_.network.add_route(path_, sim::Duration{});
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
    const auto [row, fresh] = links_.insert(name, static_cast<std::uint32_t>(table_.crossings.size()));
    if (fresh) {
      table_.crossings.push_back(0);
      table_.network.add_link(capacity_);
    }
    ++table_.crossings[row->number];
    return sim::LinkId{row->number};
  }

  [[noreturn]] void fail(std::string_view field, std::string_view key, const std::string& message) const {
    const auto column = field.data() == nullptr ? 1 : static_cast<int>(field.data() - line_begin_) + 1;
    throw UserError({file_, line_, column}, std::string(key), message);
  }

  const std::string file_;
  const std::string_view text_;  // of the whole file, into which the names below point
  const sim::Bandwidth capacity_;
  int line_ = 1;
  const char* line_begin_ = nullptr;
  FlowTable table_;
  std::size_t columns_ = 0;
  std::array<std::size_t, kColumns> place_{};
  Names ids_, links_;
  std::vector<std::string_view> fields_;
  std::vector<sim::WeightedLink> path_;
};

/// What the engine's clock cannot hold is the user's mistake. A flow's rate is at least the capacity over the crossings
/// of its fullest link, and while anything flows one link is full, which bounds every time that the engine predicts.
void check_length(const FlowTable& table, double capacity, const std::string& file) {
  double bytes = 0, largest = 0, last_start = 0;
  for (std::size_t i = 0; i < table.id.size(); ++i) {
    bytes += table.bytes[i];
    largest = std::max(largest, table.bytes[i]);
    last_start = std::max(last_start, table.start_s[i]);
  }
  const double crossings = *std::max_element(table.crossings.begin(), table.crossings.end());
  const double longest = last_start + (bytes + crossings * largest) / capacity;
  if (longest <= kLongest) return;
  throw UserError(fmt::format("{}: at {:.4g} bytes/s these flows may take {:.2g} s, at most {:.0e} s would be right",
                              file, capacity, longest, kLongest));
}

struct Shared {
  std::vector<std::int64_t> end;  // ps, in the order of the table
  std::uint64_t solves = 0;
};

Shared share(const FlowTable& table) {
  Shared shared;
  shared.end.resize(table.id.size());
  sim::Fluid fluid(table.network.capacity);
  for (std::uint32_t i = 0; i < table.id.size(); ++i) {
    shared.end[i] = sim::seconds(table.start_s[i]).value();
    if (table.bytes[i] <= 0) continue;
    fluid.begin(i, shared.end[i], table.bytes[i], table.network.links_of(sim::RouteId{i}), 0.0);
  }
  fluid.run([&](std::uint32_t flow, std::int64_t at) { shared.end[flow] = at; });
  shared.solves = fluid.solves();
  return shared;
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void write_ends(std::ostream& out, const FlowTable& table, const Shared& shared) {
  constexpr std::int64_t kSecond = 1'000'000'000'000;  // picoseconds; digits, not doubles, so that none is lost
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "id,end_s\n");
  for (std::size_t i = 0; i < table.id.size(); ++i) {
    const std::int64_t end = shared.end[i];
    fmt::format_to(std::back_inserter(text), "{},{}.{:012}\n", table.id[i], end / kSecond, end % kSecond);
  }
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

int flows(const FlowsOptions& options) {
  check_writable(options.out);
  const sim::Bandwidth capacity = sim::Settings::scalar(options.capacity, {"--capacity", 0, 0}).as_bandwidth();
  const double begin = cpu_seconds();
  const std::string text = read_text(options.paths);
  const FlowTable table = PathReader(options.paths, text, capacity).read();
  check_length(table, capacity.value(), options.paths);
  const double read = cpu_seconds();
  const Shared shared = share(table);
  const double end = cpu_seconds();
  const bool to_stdout = options.out.empty() || options.out == "-";
  write_output(to_stdout ? "-" : options.out, [&](std::ostream& out) { write_ends(out, table, shared); });
  // Standard output stays one document.
  (to_stdout ? std::cerr : std::cout) << fmt::format(
      "solves: {}, flows: {}, links: {}, CPU seconds: {:.3f} (reading {:.3f}, sharing {:.3f})\n", shared.solves,
      table.id.size(), table.crossings.size(), end - begin, read - begin, end - read);
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
