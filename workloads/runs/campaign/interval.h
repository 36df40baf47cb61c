// The best checkpoint interval of a campaign, found by running it at several.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery::campaign {

/// Steps between checkpoints to try: from a third of `centre` to three times as much in even ratios, each once, rising.
std::vector<std::int64_t> interval_candidates(std::int64_t centre);

struct IntervalCost {
  double interval = 0;  // steps
  double cost = 0;      // time of a step that counts, mean over seeds
};
/// The minimum of the A / x + B x + C that fits the points best (least squares): what saving costs falls as 1 / x, what
/// is lost grows as x, so that all points vote, and the noise of one cannot move it far. Where one of A and B is not
/// above zero, the cheapest point.
double best_interval(const std::vector<IntervalCost>& points);

}  // namespace orrery::campaign
