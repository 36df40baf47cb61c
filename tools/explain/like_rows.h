// How far published rows like a scenario were from their predictions: the empirical side of an answer's uncertainty.
// Rows are weighed by likeness (device, software, fabric, size, where the time goes), and the root of what a list then
// weighs counts, since rows of one source share causes. The quantiles of measured / predicted over these weights are
// the interval, widened by how few rows they amount to. Rows that a number was fitted on say nothing about a prediction
// and are left out. A scenario of which no row is known comes from a source that is new, and sources differ by more
// than rows of one: its interval is widened until it holds what it promises of rows whose source is left out as a whole
// (conformal quantiles: Romano, Patterson and Candes, NeurIPS 2019, equations 6 to 8). Left out: a trend within the
// neighbourhood.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/validation.h"

namespace orrery::tools {

/// A published row as the interval needs it.
struct KnownRow {
  std::string list, id;
  Features features;
  double log_ratio = 0;  // ln(measured seconds / predicted seconds) of its step
  std::string metric = {};
  double measured = 0;  // in the metric's unit
  bool fitted = false;  // took part in fitting a number
};
/// Rows of a table that `orrery validate --rows` wrote. Throws sim::UserError for a broken one.
std::vector<KnownRow> read_known_rows(const std::string& file);
/// The same of rows in memory; those without a comparison are left out.
std::vector<KnownRow> known_rows(const std::vector<ValidationRow>& rows);
/// scenarios/published/residuals.csv, which tools/scoreboard writes; empty when it is not there.
std::vector<KnownRow> shipped_known_rows();

/// Squared distance of two rows, in bandwidths; 0: alike in all that is looked at.
double distance_squared(const Features& a, const Features& b);
/// A row's weight by it: 1 for one alike, next to nothing, but something, for one that is nothing like.
double likeness(const Features& a, const Features& b);

struct LikeRows {
  double rows = 0;  // how many independent rows the weights amount to (Kish)
  std::vector<std::string> nearest;
  /// Factors on the prediction: 68 and 90 % of such rows were measured between them.
  double low68 = 1, high68 = 1, low90 = 1, high90 = 1;
};
/// The row of `known` that is this very measurement, whatever it is called: the same figure of a run of the same size;
/// nullptr where there is none.
const KnownRow* same_measurement(const Features& features, const Metric& metric, const std::vector<KnownRow>& known);

/// `left_out`: of `known`, the row itself when a known row is asked about; nothing where no row is known that was not
/// fitted.
std::optional<LikeRows> like_rows(const Features& features, const std::vector<KnownRow>& known,
                                  const KnownRow* left_out = nullptr);

/// By how much, in ln(measured / predicted), the ends of intervals move out for a source that is new.
struct Widening {
  double at68 = 0, at90 = 0;
};
LikeRows widened(LikeRows like, const Widening& by);

/// How many of the known rows in no fit such intervals hold, in per cent: each row from all others, and from the rows
/// of other lists alone, widened by what those ask for, as for a scenario whose source is new.
struct Held {
  std::string list;  // empty: of all lists
  std::int64_t rows = 0;
  double held68 = 0, held90 = 0, new68 = 0, new90 = 0;
};
struct Coverage {
  Held all;
  std::vector<Held> lists;
  Widening widening;  // that all lists ask for
};
Coverage coverage_of(const std::vector<KnownRow>& known);

}  // namespace orrery::tools
