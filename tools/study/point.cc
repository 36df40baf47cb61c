// One point of a study as a row of a table: its columns, written and read back.
#include "tools/study/point.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tools/report/text.h"

namespace orrery::tools {

namespace {

constexpr std::array kStatuses{PointStatus::ok, PointStatus::oom, PointStatus::infeasible, PointStatus::error};

using Number = double PointResult::*;
/// The numbers of a result, as columns, and the worst status that has them.
struct NumberColumn {
  const char* name;
  Number number;
  bool of_oom;     // an oom row has it too
  bool may_be_no;  // zero means that the scenario does not say enough
};
constexpr std::array<NumberColumn, 8> kNumbers{
    {{"iteration_s", &PointResult::iteration_s, false, false},
     {"tokens_per_s", &PointResult::tokens_per_s, false, false},
     {"mfu_pct", &PointResult::mfu_pct, false, false},
     {"peak_memory_gb", &PointResult::peak_memory_gb, true, false},
     {"time_to_train_s", &PointResult::time_to_train_s, false, true},
     {"cost_usd", &PointResult::cost_usd, false, true},
     {"usd_per_million_tokens", &PointResult::usd_per_million_tokens, false, true},
     {"energy_per_token_j", &PointResult::energy_per_token_j, false, true}}};

bool applies(const NumberColumn& column, const PointResult& result) {
  const bool has = result.status == PointStatus::ok || (column.of_oom && result.status == PointStatus::oom);
  return has && !(column.may_be_no && result.*column.number == 0);
}

double number_of(const std::string& cell) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool whole = error == std::errc{} && end == cell.data() + cell.size();
  if (!whole || !std::isfinite(value) || value < 0) throw std::invalid_argument("no finite number above zero: " + cell);
  return value;
}

}  // namespace

std::string_view name_of(PointStatus status) {
  static constexpr std::array<std::string_view, 4> kNames{"ok", "oom", "infeasible", "error"};
  return kNames[static_cast<std::size_t>(status)];
}

const std::vector<std::string>& point_columns() {
  static const std::vector<std::string> columns = [] {
    std::vector<std::string> names{"status"};
    for (const NumberColumn& column : kNumbers) names.emplace_back(column.name);
    names.emplace_back("reason");
    return names;
  }();
  return columns;
}

std::vector<std::string> cells_of(const PointResult& result) {
  std::vector<std::string> cells{std::string(name_of(result.status))};
  for (const NumberColumn& column : kNumbers) {
    cells.push_back(applies(column, result) ? fmt::format("{}", result.*column.number) : "");
  }
  cells.push_back(result.reason);
  return cells;
}

PointResult point_of(const std::vector<std::string>& cells, std::size_t first) {
  if (cells.size() < first + point_columns().size()) throw std::invalid_argument("a row with too few cells");
  PointResult result;
  const auto status = std::find_if(kStatuses.begin(), kStatuses.end(),
                                   [&](PointStatus known) { return name_of(known) == cells[first]; });
  if (status == kStatuses.end()) throw std::invalid_argument("no status: " + cells[first]);
  result.status = *status;
  for (std::size_t i = 0; i < kNumbers.size(); ++i) {
    const std::string& cell = cells[first + 1 + i];
    if (!cell.empty()) result.*kNumbers[i].number = number_of(cell);
  }
  result.reason = cells[first + 1 + kNumbers.size()];
  return result;
}

void add_point(nlohmann::ordered_json& row, const PointResult& result) {
  row["status"] = name_of(result.status);
  for (const NumberColumn& column : kNumbers) {
    row[column.name] = applies(column, result) ? nlohmann::ordered_json(result.*column.number) : nullptr;
  }
  row["reason"] = result.reason.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(result.reason);
}

std::vector<std::string> point_titles(bool energy) {
  return {"status", "step", "tokens/s", energy ? "J/token" : "MFU", "memory", "cost"};
}

std::vector<std::string> point_text(const PointResult& result, bool energy) {
  const bool ok = result.status == PointStatus::ok;
  std::string cost;
  if (result.cost_usd > 0) {
    cost = fmt::format("{} USD", count_text(result.cost_usd));
  } else if (result.usd_per_million_tokens > 0) {
    cost = fmt::format("{} USD/Mtok", number_text(result.usd_per_million_tokens));
  }
  return {std::string(name_of(result.status)),
          ok ? time_text(result.iteration_s) : "-",
          ok ? si_text(result.tokens_per_s, "") : "-",
          ok ? energy ? number_text(result.energy_per_token_j) : fmt::format("{:.1f} %", result.mfu_pct) : "-",
          ok || result.status == PointStatus::oom ? bytes_text(result.peak_memory_gb * 1e9) : "-",
          cost.empty() ? "-" : cost};
}

}  // namespace orrery::tools
