// One point of a study. Memory comes first: it follows from formulas, so that what does not fit is never planned. Left
// out: breakdown and traffic, which `orrery run` reports of a point worth looking at.
#include "tools/study/point.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sim/error.h"
#include "tools/report/text.h"
#include "workloads/step/memory.h"
#include "workloads/step/step.h"
#include "workloads/step/training_cost.h"

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

std::string in_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

}  // namespace

std::string_view name_of(PointStatus status) {
  static constexpr std::array<std::string_view, 4> kNames{"ok", "oom", "infeasible", "error"};
  return kNames[static_cast<std::size_t>(status)];
}

PointResult evaluate(const scenarios::Scenario& scenario, workloads::StepCache& cache) {
  const workloads::Job& job = scenario.job;
  PointResult result;
  const double capacity_gb = static_cast<double>(job.machine.device.memory().value()) / 1e9;
  result.peak_memory_gb = workloads::peak_memory(job) / 1e9;
  if (result.peak_memory_gb > capacity_gb) {
    result.status = PointStatus::oom;
    result.reason = fmt::format("out of memory: needs {} of {} per GPU", bytes_text(result.peak_memory_gb * 1e9),
                                bytes_text(capacity_gb * 1e9));
    return result;
  }
  workloads::StepOptions options;
  options.brief = true;
  options.energy = true;
  options.cache = &cache;
  const workloads::StepReport report = workloads::simulate_step(job, options);
  const workloads::TrainingCost cost =
      workloads::training_cost(job.training, job.machine.gpus, report.evaluation.tokens_per_s);
  result.status = PointStatus::ok;
  result.iteration_s = sim::to_seconds(report.iteration);
  result.tokens_per_s = report.rates.tokens_per_s;
  result.mfu_pct = report.rates.mfu_pct;
  result.time_to_train_s = cost.time_s;
  result.cost_usd = cost.usd;
  result.usd_per_million_tokens = cost.usd_per_million_tokens;
  if (report.energy.known) result.energy_per_token_j = report.energy.site_w() / report.rates.tokens_per_s;
  return result;
}

PointResult failed_point() {
  PointResult result;
  const auto internal = [&](const std::string& what) {
    result.status = PointStatus::error;
    result.reason = in_one_line("internal error: " + what);
  };
  try {
    throw;
  } catch (const sim::UserError& error) {
    result.status = PointStatus::infeasible;
    result.reason = in_one_line(error.what());
  } catch (const std::bad_alloc&) {
    internal("out of the host's memory");
  } catch (const std::exception& error) {
    internal(error.what());
  }
  return result;
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
