// Comparison of predictions with measurements. Left out: weights; every record counts once.
#include "tools/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <new>
#include <numeric>

#include "sim/error.h"

namespace orrery::tools {

bool matches(std::string_view text, std::string_view pattern) {
  if (!pattern.ends_with('*')) return text == pattern;
  return text.starts_with(pattern.substr(0, pattern.size() - 1));
}

std::string_view name_of(RowStatus status) {
  switch (status) {
    case RowStatus::ok:
      return "ok";
    case RowStatus::oom:
      return "oom";
    case RowStatus::error:
      return "error";
  }
  return "error";
}

Metric compare(const scenarios::Measured& measured, const workloads::StepReport& report) {
  if (measured.iteration_s) return {"iteration_s", *measured.iteration_s, sim::to_seconds(report.iteration)};
  if (measured.tokens_per_s) return {"tokens_per_s", *measured.tokens_per_s, report.rates.tokens_per_s};
  if (measured.tflops_per_gpu) {
    const bool hardware = measured.tflops_kind.starts_with("hardware") || measured.tflops_kind.starts_with("megatron");
    return {"tflops_per_gpu", *measured.tflops_per_gpu,
            hardware ? report.rates.hardware_tflops_per_gpu : report.rates.model_tflops_per_gpu};
  }
  if (measured.mfu_pct) return {"mfu_pct", *measured.mfu_pct, report.rates.mfu_pct};
  return {};
}

Features features_of(const workloads::Job& job, const workloads::StepReport& report) {
  Features f;
  if (job.method.adapters.any()) f.work = "adapters";
  if (job.model.experts.any()) f.work = "mixture";
  if (job.model.recommender.any()) f.work = "recommender";
  f.device = job.machine.device.name();
  f.fabric = job.machine.fabric.name;
  f.software = job.software.name;
  f.schedule = job.parallelism.schedule->name;
  f.recompute = name_of(job.method.recompute);
  f.sharding = name_of(job.parallelism.sharding);
  f.attention = name_of(job.method.attention);
  f.precision = name_of(job.method.precision.matmul);
  f.gpus = job.machine.gpus;
  f.sizes.tensor = job.parallelism.tensor;
  f.sizes.pipeline = job.parallelism.pipeline;
  f.sizes.data = job.parallelism.data;
  f.sizes.virtual_pipeline = job.parallelism.virtual_pipeline;
  f.sizes.context = job.parallelism.context;
  f.sizes.global_batch = job.batch.global;
  f.sizes.micro_batch = job.batch.micro;
  f.sizes.layers = job.model.layers;
  f.sizes.hidden = job.model.hidden;
  f.sizes.seq = job.model.seq;
  f.exposed_s = report.breakdown_s;
  return f;
}

namespace {

/// The predicted figure that the source's way of reading memory answers to, in GB.
double memory_gb(const scenarios::Measured& measured, const workloads::StepReport& report) {
  if (measured.memory.rank != "fullest" && !report.memory.stages.empty()) {
    const bool first = measured.memory.rank == "first";
    const workloads::StageMemory& stage = first ? report.memory.stages.front() : report.memory.stages.back();
    if (measured.memory.kind == "allocated") return stage.allocated / 1e9;
    if (measured.memory.kind == "reserved") return stage.reserved() / 1e9;
    return stage.total / 1e9;
  }
  if (measured.memory.kind == "allocated") return report.memory.allocated_bytes / 1e9;
  if (measured.memory.kind == "reserved") return report.memory.reserved_bytes / 1e9;
  return report.memory.peak_bytes / 1e9;
}

/// By how much the predicted step is longer: a rate that is too high is a step that is too short.
std::optional<double> step_error_pct(const Metric& metric) {
  const bool is_time = metric.name == "iteration_s";
  const double predicted = is_time ? metric.predicted : metric.measured;
  const double measured = is_time ? metric.measured : metric.predicted;
  if (!(measured > 0)) return std::nullopt;
  return 100 * (predicted - measured) / measured;
}

std::string text_of(const sim::Settings& value) {
  if (value.is_scalar()) return value.text();
  std::string text;
  for (const auto& [key, member] : value.members()) text += key + ": " + text_of(member) + ", ";
  for (const sim::Settings& item : value.items()) text += text_of(item) + ", ";
  return "[" + text + "]";
}

/// The scalars and lists below `section`, by their paths.
void add_facts(const sim::Settings& section, const std::string& path, ValidationRow& row) {
  for (const auto& [key, value] : section.members()) {
    if (value.is_null()) continue;
    if (value.is_mapping())
      add_facts(value, path + key + ".", row);
    else
      row.features.facts.emplace_back(path + key, text_of(value));
  }
}

/// See Features::facts.
void state_facts(const sim::Settings& record, ValidationRow& row) {
  static constexpr std::array<std::string_view, 7> kNames{"id",    "name",     "description", "source",
                                                          "notes", "measured", "extra"};
  if (!record.is_mapping()) return;
  sim::Settings job = sim::Settings::mapping(record.place());
  for (const auto& [key, value] : record.members()) {
    if (std::find(kNames.begin(), kNames.end(), key) == kNames.end()) job.set(key, value);
  }
  add_facts(job, "", row);
  std::erase_if(row.features.facts, [](const auto& fact) { return fact.first == "model.label"; });
  std::sort(row.features.facts.begin(), row.features.facts.end());
}

void predict(ValidationRow& row, const sim::Settings& record, const workloads::Question& options) {
  const scenarios::Scenario scenario = scenarios::load_scenario(record);
  if (!scenario.measured) record.fail("has no 'measured' section, expected measured: {iteration_s: ...}");
  const scenarios::Measured& measured = *scenario.measured;
  row.source = scenario.source;
  const workloads::StepReport report = workloads::simulate_step(scenario.job, options);
  row.features = features_of(scenario.job, report);
  row.features.step_s = sim::to_seconds(report.iteration);
  state_facts(record, row);
  row.memory.measured_oom = measured.memory.oom;
  row.memory.predicted_oom = !report.memory.fits;
  row.memory.measured_gb = measured.memory.peak_gb;
  if (options.parts == workloads::Question::Parts::all) row.memory.predicted_gb = memory_gb(measured, report);
  row.energy.measured_w = measured.power_w;
  row.energy.measured_j = measured.energy_j;
  if (report.energy.known) {
    row.energy.predicted_w = report.energy.gpu_w();
    row.energy.predicted_j = report.energy.total_j();
  }
  row.measured_failed = measured.failed;
  if (!report.memory.fits && !measured.memory.oom.value_or(measured.failed)) row.status = RowStatus::oom;
  const Metric metric = compare(measured, report);
  if (metric.name.empty()) {
    // Compared beside the metric, or with nothing.
    if (measured.memory.oom.has_value() || measured.memory.peak_gb.has_value() || measured.failed) return;
    if (measured.evaluation_s || measured.memory.model_state_gb || measured.power_w || measured.energy_j) return;
    record.fail("measured names nothing to compare, expected iteration_s, tokens_per_s, tflops_per_gpu or mfu_pct");
  }
  row.metric = metric.name;
  row.measured = metric.measured;
  row.predicted = metric.predicted;
  row.error_pct = step_error_pct(metric);
}

/// Files as given; of a folder, its *.yaml and *.yml in the order of their names.
std::vector<std::string> list_files(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code failed;
    if (!fs::is_directory(path, failed)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, failed)) {
      const std::string suffix = entry.path().extension().string();
      if (suffix == ".yaml" || suffix == ".yml") found.push_back(entry.path().string());
    }
    if (failed) throw sim::UserError(fmt::format("{}: the folder cannot be read: {}", path, failed.message()));
    if (found.empty()) throw sim::UserError(fmt::format("{}: the folder holds no *.yaml file, expected lists", path));
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace

std::vector<ListedRecord> read_lists(const std::vector<std::string>& paths) {
  std::vector<ListedRecord> records;
  for (const std::string& file : list_files(paths)) {
    for (const sim::Settings& record : scenarios::read_records(file)) {
      ListedRecord& listed = records.emplace_back();
      listed.list = std::filesystem::path(file).stem().string();
      listed.settings = record;
    }
  }
  return records;
}

std::string record_id(const sim::Settings& record) {
  for (const char* key : {"id", "name"}) {
    const sim::Settings* value = record.is_mapping() ? record.find(key) : nullptr;
    if (value != nullptr && value->is_scalar()) return value->text();
  }
  return "line " + std::to_string(record.place().line);
}

ValidationRow validate_record(const ListedRecord& listed, const std::vector<std::string>& fitted,
                              const workloads::Question& options) {
  const sim::Settings& record = listed.settings;
  ValidationRow row;
  row.list = listed.list;
  row.id = record_id(record);
  row.fitted = record.is_mapping() && record.find("source") != nullptr &&
               std::any_of(fitted.begin(), fitted.end(), [&](const std::string& p) { return matches(row.id, p); });
  const auto fail = [&](const std::string& message, bool internal) {
    row.status = RowStatus::error;
    row.message = message;
    row.internal = internal;
  };
  try {
    predict(row, record, options);
  } catch (const sim::UserError& error) {
    fail(error.what(), false);
  } catch (const std::bad_alloc&) {
    fail("internal error: out of memory", true);
  } catch (const std::exception& error) {
    fail(std::string("internal error: ") + error.what(), true);
  }
  return row;
}

std::vector<std::string> fitted_records() {
  const std::string file = scenarios::data_directory() + "/calibration/fitted.yaml";
  std::vector<std::string> ids;
  if (!std::filesystem::exists(file)) return ids;
  const sim::Settings document = scenarios::read_yaml(file);
  if (!document.is_sequence()) document.fail("expected a list of {parameters: [...], records: [...]}");
  for (const sim::Settings& fit : document.items()) {
    fit.refuse_unknown({"parameters", "note", "records"});
    for (const sim::Settings& record : fit.at("records").items()) ids.push_back(record.text());
  }
  return ids;
}

double quantile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const double rest = at - static_cast<double>(below);
  if (rest == 0) return values[below];
  return values[below] * (1 - rest) + values[below + 1] * rest;
}

ErrorSummary summarize(std::vector<double> error_pct) {
  ErrorSummary summary;
  summary.n = error_pct.size();
  if (error_pct.empty()) return summary;
  const double n = static_cast<double>(error_pct.size());
  summary.bias_pct = std::accumulate(error_pct.begin(), error_pct.end(), 0.0) / n;
  for (double& error : error_pct) error = std::abs(error);
  std::sort(error_pct.begin(), error_pct.end());
  summary.mape_pct = std::accumulate(error_pct.begin(), error_pct.end(), 0.0) / n;
  summary.max_ape_pct = error_pct.back();
  summary.median_ape_pct = quantile(error_pct, 0.5);
  summary.p90_ape_pct = quantile(error_pct, 0.9);
  return summary;
}

}  // namespace orrery::tools
