// Traces of requests in the forms that are published. See trace_file.h.
#include "tools/study/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "sim/error.h"
#include "tools/import/parse_json.h"
#include "tools/study/table_file.h"

namespace orrery::tools {

using serving::Request;
using serving::Trace;

namespace {

constexpr double kMostTokens = 1e8, kMostSeconds = 9e6;
constexpr std::int32_t kContentTokens = 512, kSmallContentTokens = 16;

struct TraceRow {
  double at = 0;
  double input = 0, output = 0;
  std::vector<std::int64_t> contents;
  std::int32_t priority = 0;
};

struct TraceRows {
  std::vector<TraceRow> rows;
  std::int32_t content_tokens = kContentTokens;
};

/// Sorts by arrival, begins at 0, and numbers content.
Trace trace_of_rows(const std::string& file, TraceRows all, double time_scale, std::int64_t most) {
  std::vector<TraceRow>& rows = all.rows;
  if (rows.empty()) throw sim::UserError(fmt::format("{}: holds no requests", file));
  std::stable_sort(rows.begin(), rows.end(), [](const TraceRow& a, const TraceRow& b) { return a.at < b.at; });
  if (most > 0 && static_cast<std::int64_t>(rows.size()) > most) rows.resize(static_cast<std::size_t>(most));
  Trace trace;
  trace.content_tokens = all.content_tokens;
  std::map<std::int64_t, std::int32_t> names;
  for (const TraceRow& row : rows) {
    Request request;
    const double at = (row.at - rows.front().at) * time_scale;
    if (!(at <= kMostSeconds))
      throw sim::UserError(fmt::format("{}: lasts {:.3g} s, expected at most {:.3g}", file, at, kMostSeconds));
    request.arrival = static_cast<serving::Time>(std::llround(at * 1e12));
    request.input = static_cast<std::int32_t>(row.input);
    request.output = static_cast<std::int32_t>(std::max(1.0, row.output));
    request.content = static_cast<std::uint32_t>(trace.contents.size());
    request.priority = row.priority;
    const std::size_t whole =
        std::min(row.contents.size(), static_cast<std::size_t>(request.input / all.content_tokens));
    request.contents = static_cast<std::uint32_t>(whole);
    for (std::size_t i = 0; i < whole; ++i) {
      const auto name = names.emplace(row.contents[i], static_cast<std::int32_t>(names.size()));
      trace.contents.push_back(name.first->second);
    }
    trace.requests.push_back(request);
  }
  trace.different = static_cast<std::int32_t>(names.size());
  return trace;
}

void check_row(const std::string& file, int line, const TraceRow& row) {
  const auto wrong = [&](const char* key, double got) {
    throw sim::UserError(sim::Place{file, line, 1}, key, fmt::format("got {}, expected 1 to {}", got, kMostTokens));
  };
  if (!(row.input >= 1 && row.input <= kMostTokens)) wrong("input", row.input);
  if (!(row.output >= 0 && row.output <= kMostTokens)) wrong("output", row.output);
}

/// "2023-11-16 18:15:46.6805900" as seconds; or a number of them.
std::optional<double> seconds_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, used = 0;
  double second = 0;
  if (std::sscanf(text.c_str(), "%d-%d-%d%*1[ T]%d:%d:%lf%n", &year, &month, &day, &hour, &minute, &second, &used) < 6)
    return std::nullopt;
  // Days since 1970: Howard Hinnant, chrono-compatible low-level date algorithms, days_from_civil.
  const int y = month <= 2 ? year - 1 : year, era = (y >= 0 ? y : y - 399) / 400;
  const int yoe = y - era * 400, doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const double days = era * 146097.0 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
  return days * 86400 + hour * 3600 + minute * 60 + second;
}

/// Leading tokens that a request of a measured run shares with an earlier one, in blocks of 16; the rest is its own.
void share_prefix(const TableFile& table, std::size_t row, std::vector<TraceRow>& rows, TraceRow& one) {
  const auto with = table.number(row, "shared_with_request");
  const auto shared =
      static_cast<std::size_t>(table.number(row, "prefix_tokens_shared").value_or(0)) / kSmallContentTokens;
  const auto whole = static_cast<std::size_t>(one.input) / kSmallContentTokens;
  if (with && (*with != std::floor(*with) || *with >= static_cast<double>(rows.size())))
    table.fail(row, "shared_with_request", "expected the number of an earlier request");
  for (std::size_t block = 0; block < whole; ++block) {
    const bool old = with && block < shared && block < rows[static_cast<std::size_t>(*with)].contents.size();
    constexpr std::int64_t kMostBlocks = 10'000'000;
    one.contents.push_back(old ? rows[static_cast<std::size_t>(*with)].contents[block]
                               : static_cast<std::int64_t>(row) * kMostBlocks + static_cast<std::int64_t>(block));
  }
}

TraceRows rows_of_table(const std::string& file, const std::string& text) {
  const TableFile table = TableFile::parse(file, text);
  struct Form {
    const char *at, *input, *output;
  };
  static constexpr Form kForms[] = {{"arrival_s", "input_tokens", "output_tokens"},
                                    {"queued_s", "input_tokens", "output_tokens"},
                                    {"TIMESTAMP", "ContextTokens", "GeneratedTokens"},
                                    {"Timestamp", "Request tokens", "Response tokens"}};
  const auto form = std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& f) {
    return table.has(f.at) && table.has(f.input) && table.has(f.output);
  });
  if (form == std::end(kForms))
    throw sim::UserError(
        fmt::format("{}: has the columns {}, expected arrival_s, input_tokens, output_tokens, or Azure's or BurstGPT's",
                    file, fmt::join(table.columns(), ", ")));
  std::vector<TraceRow> rows;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    TraceRow row;
    const auto at = seconds_of(table.text(i, form->at));
    if (!at) table.fail(i, form->at, "expected seconds, or a date and a time");
    row.at = *at;
    row.input = table.needed(i, form->input);
    row.output = table.needed(i, form->output);
    if (row.input > kMostTokens || row.input < 1) table.fail(i, form->input, "expected 1 to 100000000 tokens");
    if (row.output > kMostTokens) table.fail(i, form->output, "expected at most 100000000 tokens");
    const double priority = table.number(i, "priority").value_or(0);
    if (priority != std::floor(priority) || std::abs(priority) > 1e6)
      table.fail(i, "priority", "expected a whole number, the least for the most urgent");
    row.priority = static_cast<std::int32_t>(priority);
    if (table.has("shared_with_request")) share_prefix(table, i, rows, row);
    const std::string& blocks = table.text(i, "prefix_blocks_of_512");
    const char *next = blocks.data(), *end = next + blocks.size();
    while (next < end) {
      std::int64_t name = 0;
      const auto [after, error] = std::from_chars(next, end, name);
      if (error != std::errc()) table.fail(i, "prefix_blocks_of_512", "expected numbers of blocks");
      row.contents.push_back(name);
      next = after;
      while (next < end && *next == ' ') ++next;
    }
    rows.push_back(std::move(row));
  }
  return {std::move(rows), table.has("shared_with_request") ? kSmallContentTokens : kContentTokens};
}

std::vector<TraceRow> rows_of_lines(const std::string& file, const std::string& text) {
  std::vector<TraceRow> rows;
  std::size_t from = 0;
  for (int line = 1; from < text.size(); ++line) {
    std::size_t end = text.find('\n', from);
    if (end == std::string::npos) end = text.size();
    const std::string one = text.substr(from, end - from);
    from = end + 1;
    if (one.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      const nlohmann::json json = parse_json(one);
      TraceRow row;
      row.at = json.at("timestamp").get<double>() / 1000;
      row.input = json.at("input_length").get<double>();
      row.output = json.at("output_length").get<double>();
      if (json.contains("hash_ids")) row.contents = json["hash_ids"].get<std::vector<std::int64_t>>();
      check_row(file, line, row);
      rows.push_back(std::move(row));
    } catch (const JsonProblem& problem) {
      throw sim::UserError(sim::Place{file, line, static_cast<int>(problem.at) + 1}, "request",
                           problem.got + ", expected an object in JSON");
    } catch (const nlohmann::json::exception&) {
      throw sim::UserError(sim::Place{file, line, 1}, "request",
                           "expected an object of timestamp, input_length, output_length and hash_ids");
    }
  }
  return rows;
}

/// Of `vllm bench serve --save-result`.
std::vector<TraceRow> rows_of_bench(const std::string& file, const nlohmann::json& json) {
  try {
    const auto inputs = json.at("input_lens").get<std::vector<double>>();
    const auto outputs = json.at("output_lens").get<std::vector<double>>();
    std::vector<double> starts(inputs.size(), 0);
    if (json.contains("start_times")) starts = json["start_times"].get<std::vector<double>>();
    if (outputs.size() != inputs.size() || starts.size() != inputs.size())
      throw sim::UserError(fmt::format("{}: input_lens, output_lens and start_times differ in length", file));
    std::vector<TraceRow> rows;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      rows.push_back({starts[i], inputs[i], outputs[i], {}});
      check_row(file, 1, rows.back());
    }
    return rows;
  } catch (const nlohmann::json::exception&) {
    throw sim::UserError(fmt::format("{}: expected lists of numbers input_lens and output_lens", file));
  }
}

/// Null where the text is more than one document: a line each.
nlohmann::json whole_document(const std::string& text) {
  try {
    return parse_json(text);
  } catch (const JsonProblem&) {
    return {};
  }
}

}  // namespace

Trace read_trace(const std::string& file, double time_scale, std::int64_t most) {
  const std::string text = read_packed_text(file, "a trace of requests");
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  TraceRows rows;
  if (begin != std::string::npos && text[begin] == '{') {
    const nlohmann::json whole = whole_document(text);
    rows.rows = whole.contains("input_lens") ? rows_of_bench(file, whole) : rows_of_lines(file, text);
  } else {
    rows = rows_of_table(file, text);
  }
  return trace_of_rows(file, std::move(rows), time_scale, most);
}

}  // namespace orrery::tools
