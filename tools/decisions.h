// What a prediction is bought for: a decision. Of measured rows that differ in their layout alone, was the layout that
// is predicted the fastest one a fast one (regret: its measured step over the best measured, less one), and are layouts
// ordered right? Of rows that differ in one key alone, has the change the right sign and size? The time of the layout
// chosen is apart: the best of many predictions is the one that the model flatters most (the winner's curse: Smith and
// Winkler, Management Science 52, 2006). Left out: rows that did not run, whose loss has no measure.
#pragma once

#include <string>
#include <vector>

#include "tools/validation.h"

namespace orrery::tools {

/// Rows of a list that state the same but for parallelism, micro-batch and recomputation: three layouts or more. Of
/// repeats of one layout the median stands for all.
struct LayoutGroup {
  std::string list;
  std::vector<const ValidationRow*> rows;      // one a layout
  const ValidationRow* chosen = nullptr;       // predicted the fastest, of those predicted to fit if any is
  const ValidationRow* best = nullptr;         // measured the fastest
  std::vector<const ValidationRow*> measured;  // what a search says to measure before one decides (pair_errors.h)
  double regret_pct() const;                   // of the chosen one
  double measured_regret_pct() const;          // of the fastest of those measured
  double chosen_off_pct() const;               // its predicted step over its measured one, less one
};
/// `rows` must outlive them.
std::vector<LayoutGroup> layout_groups(const std::vector<ValidationRow>& rows);

struct Decisions {
  std::size_t groups = 0, pairs = 0;  // pairs of one group whose measured steps are more than 5 % apart
  double ordered_right_pct = 0;       // of these
  double regret_mean_pct = 0, regret_median_pct = 0, regret_p90_pct = 0;
  // Where what a search says to measure is measured: layouts a group, and the regret of the fastest of these. The
  // errors that say which are tied were fitted to pairs of these rows, six numbers to all of them.
  double to_measure_mean = 0, measured_regret_mean_pct = 0, measured_regret_p90_pct = 0;
  double chosen_off_mean_pct = 0, chosen_off_median_pct = 0;  // with its sign; its size
  double chosen_within_10_pct = 0;                            // groups whose chosen layout is off by no more
};
/// Of the groups of `list`, or of all lists where it is empty.
Decisions decisions_of(const std::vector<LayoutGroup>& groups, const std::string& list);

/// Two rows of a list that differ in one key (replicas follow), and in their measured steps by more than 3 %. Sizes of
/// the job and of the batch are no change of a layout, and do not count.
struct ChangedPair {
  std::string list, key;
  double measured_pct = 0, predicted_pct = 0;  // the second row's step over the first's, less one
};
std::vector<ChangedPair> changed_pairs(const std::vector<ValidationRow>& rows);

struct PairSummary {
  std::size_t n = 0;
  double sign_right_pct = 0, size_off_median_points = 0, size_off_p90_points = 0;
};
/// Of the pairs of `list`, or of all lists where it is empty.
PairSummary summary_of(const std::vector<ChangedPair>& pairs, const std::string& list);

}  // namespace orrery::tools
