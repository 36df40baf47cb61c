// Predictions beside measurements: what `orrery validate` computes, apart from how it is printed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/scenario.h"
#include "workloads/step/step.h"

namespace orrery::tools {

/// Whether `text` is `pattern`, or begins with what stands before a trailing *.
bool matches(std::string_view text, std::string_view pattern);

enum class RowStatus { ok, oom, error };
std::string_view name_of(RowStatus status);

/// A measured figure and how a step report answers it.
struct Metric {
  std::string name;  // of the contract: iteration_s, tokens_per_s, tflops_per_gpu or mfu_pct; empty: none measured
  double measured = 0;
  double predicted = 0;
};

/// The first of iteration_s, tokens_per_s, tflops_per_gpu and mfu_pct that was measured. TFLOP/s count hardware FLOPs
/// where the record's `tflops_kind` begins with "hardware" or "megatron" (Megatron-LM's own formula counts recomputed
/// FLOPs; Narayanan et al. 2021, equation 3), model FLOPs otherwise.
Metric compare(const scenarios::Measured& measured, const workloads::StepReport& report);

/// A record of a list.
struct ListedRecord {
  std::string list;  // the file, without folder and suffix
  sim::Settings settings;
};
/// The records of `paths`, as they stand: files as given; of a folder, its *.yaml and *.yml in the order of their
/// names. Throws sim::UserError.
std::vector<ListedRecord> read_lists(const std::vector<std::string>& paths);
/// The record's `id`, else its `name`, else "line N".
std::string record_id(const sim::Settings& record);

/// What tells rows apart: for tables by cause, and for finding rows like another.
struct Features {
  /// The kind of work: dense, mixture, recommender, or adapters, which alone are trained.
  std::string work = "dense";
  std::string device, fabric, software, schedule, recompute, sharding, attention, precision;
  std::int64_t gpus = 0;
  struct Sizes {
    std::int64_t tensor = 0, pipeline = 0, virtual_pipeline = 0, data = 0, context = 0;
    std::int64_t global_batch = 0, micro_batch = 0, layers = 0, hidden = 0, seq = 0;
  } sizes;
  std::array<double, workloads::kCategories> exposed_s{};  // the predicted breakdown
  double step_s = 0;                                       // predicted, whatever the metric
  /// What the record states of its job, key by key in their order: neither names nor what was measured.
  std::vector<std::pair<std::string, std::string>> facts = {};
};
Features features_of(const workloads::Job& job, const workloads::StepReport& report);

struct ValidationRow {
  std::string list;  // the file, without folder and suffix
  std::string id;
  std::string metric;  // empty when the record could not be loaded or measured nothing comparable
  std::optional<double> measured, predicted;
  std::optional<double> error_pct;  // of the step's time, whatever the metric: what a rate means for it
  struct Memory {
    std::optional<double> measured_gb, predicted_gb;  // decimal GB of the fullest GPU
    std::optional<bool> measured_oom;
    bool predicted_oom = false;
  } memory;
  struct Energy {
    std::optional<double> measured_w, predicted_w;  // mean of a GPU
    std::optional<double> measured_j, predicted_j;  // of a step of the whole job
  } energy;
  bool measured_failed = false;  // it did not finish, and nobody says why
  bool fitted = false;           // the record took part in fitting the shipped profiles or software generations
  bool internal = false;         // the error is ours
  RowStatus status = RowStatus::ok;
  std::string message;  // of an error
  std::string source;   // what the record cites
  Features features;    // of a record that could be simulated
};

/// One record, whatever happens to it: a record that cannot be loaded or simulated becomes a row with status error.
/// Status oom: the prediction does not fit the memory, and the record does not say that the measurement ran out too.
/// `options`: brief ones leave memory and breakdown at 0.
/// `fitted`: as fitted_records; a record that cites no source is nobody's.
ValidationRow validate_record(const ListedRecord& listed, const std::vector<std::string>& fitted,
                              const workloads::Question& options = {});

/// Ids of the records that calibration was fitted to, from calibration/fitted.yaml; empty when there is none. An entry
/// that ends in * stands for all ids that begin so.
std::vector<std::string> fitted_records();

/// Over rows that have an error_pct. All zero for none.
struct ErrorSummary {
  std::size_t n = 0;
  double mape_pct = 0, median_ape_pct = 0, p90_ape_pct = 0, max_ape_pct = 0;  // of the sizes of errors of the step
  double bias_pct = 0;  // their mean; above 0: predicted steps are too long
};
ErrorSummary summarize(std::vector<double> error_pct);
/// Between the two values that the share `p` lies between, in proportion (Hyndman and Fan's definition 7); 0 of none.
double quantile(std::vector<double> values, double p);

}  // namespace orrery::tools
