// Published rows beside their predictions, as intervals and errors of differences need them, and how like two rows are:
// device, software, fabric, size, where the time goes. The bandwidths say what is meant by like; they are round
// numbers, not fitted: a factor e^2 in GPUs, e^1.5 in work per kernel, another software generation, half of the time
// elsewhere. Work of another kind is three of them away: what a mixture of experts is off by, rows of dense models do
// not show.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/validation.h"

namespace orrery::tools {

/// A published row as the interval needs it.
struct KnownRow {
  std::string list, id;
  Features features;
  double log_ratio = 0;  // ln(measured seconds / predicted seconds) of its step
  std::string metric = {};
  double measured = 0;         // in the metric's unit
  bool fitted = false;         // took part in fitting a number
  bool state_unknown = false;  // nobody knows how it ran (scenarios/published/state_unknown.yaml)
  /// Whether it says how far a prediction of a stated job may be off.
  bool evidence() const { return !fitted && !state_unknown; }
};
/// Rows of a table that `orrery validate --rows` wrote. Throws sim::UserError for a broken one.
std::vector<KnownRow> read_known_rows(const std::string& file);
/// The same of rows in memory; those without a comparison are left out.
std::vector<KnownRow> known_rows(const std::vector<ValidationRow>& rows);
/// scenarios/published/residuals.csv, which tools/scoreboard writes; empty when it is not there.
std::vector<KnownRow> shipped_known_rows();

/// Of what a row ran, what its likeness to others hangs on; texts lie elsewhere, and stay.
struct RowTraits {
  RowTraits() = default;
  explicit RowTraits(const Features& features);
  /// Fills in what follows from a row's work and its predicted breakdown.
  void measure(const std::array<double, workloads::kCategories>& exposed_s);

  std::string_view work, device, software, fabric, recompute, schedule;
  std::int64_t gpus = 0, hidden = 0, micro_batch = 0, seq = 0, tensor = 0;
  double log_work = 0;  // of one layer's kernels on one GPU: small ones are bound by launches
  bool timed = false;   // there is a breakdown
  std::array<double, workloads::kCategories> shares{};  // of the step; the host's under other, as in earlier tables
};
/// A known row with its texts elsewhere: two thousand are looked at with every answer.
struct RowView {
  RowView() = default;
  explicit RowView(const KnownRow& row);

  std::string_view list, id, metric;
  RowTraits traits;
  double log_ratio = 0, measured = 0;
  bool evidence = false;
};
/// shipped_known_rows() as views, of which none is copied where the program holds the table packed.
class ShippedRows {
 public:
  ShippedRows();
  ShippedRows(const ShippedRows&) = delete;
  ShippedRows& operator=(const ShippedRows&) = delete;
  std::span<const RowView> all() const { return views_; }

 private:
  std::vector<KnownRow> rows_;  // what views look at where it was not packed
  std::vector<RowView> views_;
};
std::vector<RowView> views_of(const std::vector<KnownRow>& rows);
/// The view of a row of `known` among its views; null for none.
inline const RowView* view_of(const std::vector<RowView>& views, const std::vector<KnownRow>& known,
                              const KnownRow* row) {
  return row != nullptr ? &views[static_cast<std::size_t>(row - known.data())] : nullptr;
}

/// The framework of a generation: `megatron` of megatron-core-0.16, `nemo` of nemo-25.04.
std::string_view framework_of(std::string_view software);
/// The share of a predicted step that waits for the host.
double host_share(const Features& features);

/// Squared distance of two rows, in bandwidths; 0: alike in all that is looked at.
double distance_squared(const RowTraits& a, const RowTraits& b);
double distance_squared(const Features& a, const Features& b);
/// A row's weight by it: 1 for one alike, next to nothing, but something, for one that is nothing like.
double likeness(const RowTraits& a, const RowTraits& b);
double likeness(const Features& a, const Features& b);

/// The row of `known` that is this very measurement, whatever it is called: the same figure of a run of the same size;
/// nullptr where there is none.
const KnownRow* same_measurement(const Features& features, const Metric& metric, const std::vector<KnownRow>& known);
const RowView* same_measurement(const Features& features, const Metric& metric, std::span<const RowView> known);

}  // namespace orrery::tools
