// Data of the reports that set things side by side. The page works out the differences from the parts of each step.
#include "tools/report/comparison_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/report/report.h"
#include "tools/report/run_page.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;

ordered_json part_of(const ComparedSystem& system) {
  const workloads::StepReport& report = system.report;
  const workloads::Job& job = system.scenario.job;
  ordered_json json = system_json(system);
  json["name"] = system.name;
  json["line"] = scenario_line(job);
  json["tokens_per_step"] = static_cast<double>(job.batch.global) * static_cast<double>(job.model.seq);
  json["breakdown_s"] = report.breakdown_s;
  json["busiest_stage"] = report.busiest_stage;
  const auto fullest = std::max_element(report.memory.stages.begin(), report.memory.stages.end(),
                                        [](const auto& a, const auto& b) { return a.total < b.total; });
  if (fullest != report.memory.stages.end()) {
    json["memory_gb"] = {fullest->parameters / 1e9, fullest->gradients / 1e9, fullest->optimizer / 1e9,
                         fullest->activations / 1e9, fullest->buffers / 1e9};
  }
  json["traffic_gb"] = ordered_json::object();
  for (const workloads::TrafficRow& row : report.traffic) {
    const double moved = row.calls * row.bytes_per_call * sent_share(row.operation, row.group) / 1e9;
    json["traffic_gb"][row.dimension] = json["traffic_gb"].value(row.dimension, 0.0) + moved;
  }
  if (!report.busiest.bars.empty()) json["pipeline"] = pipeline_page(system.scenario, report);
  json["assumptions"] = report.assumptions;
  json["provenance"] = {{"device", job.machine.device.name(), job.machine.device.provenance()},
                        {"fabric", job.machine.fabric.name, job.machine.fabric.provenance},
                        {"training software", job.software.name, job.software.provenance}};
  return json;
}

ordered_json optional_json(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json summary_json(const std::vector<ValidationRow>& rows, const std::string& list) {
  std::vector<double> errors;
  std::size_t fitted = 0, oom = 0, failed = 0, all = 0;
  for (const ValidationRow& row : rows) {
    if (!list.empty() && row.list != list) continue;
    ++all;
    if (row.error_pct) errors.push_back(*row.error_pct);
    fitted += row.fitted ? 1 : 0;
    oom += row.status == RowStatus::oom ? 1 : 0;
    failed += row.status == RowStatus::error ? 1 : 0;
  }
  const ErrorSummary summary = summarize(errors);
  return {{"list", list},
          {"rows", all},
          {"n", summary.n},
          {"mape_pct", summary.mape_pct},
          {"median_ape_pct", summary.median_ape_pct},
          {"max_ape_pct", summary.max_ape_pct},
          {"bias_pct", summary.bias_pct},
          {"fitted", fitted},
          {"oom", oom},
          {"errors", failed}};
}

ordered_json row_part(const ValidationRow& row) {
  ordered_json json{{"list", row.list},
                    {"id", row.id},
                    {"metric", row.metric},
                    {"measured", optional_json(row.measured)},
                    {"predicted", optional_json(row.predicted)},
                    {"error", optional_json(row.error_pct)},
                    {"fitted", row.fitted},
                    {"status", name_of(row.status)}};
  if (!row.message.empty()) json["message"] = row.message;
  if (row.memory.predicted_gb && row.memory.measured_gb)
    json["memory"] = {*row.memory.measured_gb, *row.memory.predicted_gb};
  return json;
}

}  // namespace

ordered_json comparison_page(const std::vector<ComparedSystem>& systems, const std::vector<ComparisonRow>& rows) {
  ordered_json page;
  page["kind"] = "compare";
  std::string names;
  for (const ComparedSystem& system : systems) names += (names.empty() ? "" : ", ") + system.name;
  page["title"] = "Comparison of " + shortened(names, 120);
  page["subtitle"] = "One training step of each.";
  page["systems"] = ordered_json::array();
  for (const ComparedSystem& system : systems) page["systems"].push_back(part_of(system));
  page["pairs"] = ordered_json::array();
  for (const ComparisonRow& row : rows) {
    if (row.target == nullptr) continue;
    ordered_json pair;
    pair["target"] = row.target - systems.data();
    pair["baseline"] = row.baseline - systems.data();
    pair["ratios"] = ordered_json::array();
    for (const Ratio& ratio : ratios_of(row.target->report, row.baseline->report))
      pair["ratios"].push_back({ratio.name, optional_json(ratio.value), ratio.meaning});
    page["pairs"].push_back(std::move(pair));
  }
  return page;
}

ordered_json validation_page(const std::vector<ValidationRow>& rows, std::size_t records) {
  ordered_json page;
  page["kind"] = "validate";
  page["title"] = "Predicted beside measured";
  page["records"] = records;
  page["rows"] = ordered_json::array();
  std::vector<std::string> lists;
  for (const ValidationRow& row : rows) {
    page["rows"].push_back(row_part(row));
    if (std::find(lists.begin(), lists.end(), row.list) == lists.end()) lists.push_back(row.list);
  }
  page["subtitle"] = fmt::format("{} records of {} lists", rows.size(), lists.size());
  page["lists"] = ordered_json::array();
  for (const std::string& list : lists) page["lists"].push_back(summary_json(rows, list));
  page["all"] = summary_json(rows, "");
  std::vector<ValidationRow> unfitted;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(unfitted),
               [](const ValidationRow& row) { return !row.fitted; });
  page["unfitted"] = summary_json(unfitted, "");
  return page;
}

}  // namespace orrery::tools
