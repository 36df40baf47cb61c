// Published rows beside their predictions, as intervals and errors of differences need them, and how like two rows are:
// device, software, fabric, size, where the time goes. The bandwidths say what is meant by like; they are round
// numbers, not fitted: a factor e^2 in GPUs, e^1.5 in work per kernel, another software generation, half of the time
// elsewhere. Work of another kind is three of them away: what a mixture of experts is off by, rows of dense models do
// not show.
#pragma once

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

/// The framework of a generation: `megatron` of megatron-core-0.16, `nemo` of nemo-25.04.
std::string_view framework_of(std::string_view software);
/// The share of a predicted step that waits for the host.
double host_share(const Features& features);

/// Squared distance of two rows, in bandwidths; 0: alike in all that is looked at.
double distance_squared(const Features& a, const Features& b);
/// A row's weight by it: 1 for one alike, next to nothing, but something, for one that is nothing like.
double likeness(const Features& a, const Features& b);

/// The row of `known` that is this very measurement, whatever it is called: the same figure of a run of the same size;
/// nullptr where there is none.
const KnownRow* same_measurement(const Features& features, const Metric& metric, const std::vector<KnownRow>& known);

}  // namespace orrery::tools
