// Candidates and the fit.
#include "workloads/runs/campaign/interval.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery::campaign {

std::vector<std::int64_t> interval_candidates(std::int64_t centre) {
  constexpr int kEachWay = 5;
  std::vector<std::int64_t> candidates;
  for (int i = -kEachWay; i <= kEachWay; ++i) {
    const double steps = static_cast<double>(centre) * std::pow(3.0, static_cast<double>(i) / kEachWay);
    candidates.push_back(std::max<std::int64_t>(1, std::llround(steps)));
  }
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  return candidates;
}

namespace {

/// Solves a symmetric 3 x 3 system by Cramer's rule; zeros where it is singular.
std::array<double, 3> solve(const std::array<std::array<double, 3>, 3>& m, const std::array<double, 3>& right) {
  const auto determinant = [](const std::array<std::array<double, 3>, 3>& a) {
    return a[0][0] * (a[1][1] * a[2][2] - a[1][2] * a[2][1]) - a[0][1] * (a[1][0] * a[2][2] - a[1][2] * a[2][0]) +
           a[0][2] * (a[1][0] * a[2][1] - a[1][1] * a[2][0]);
  };
  const double whole = determinant(m);
  std::array<double, 3> solution{};
  if (whole == 0) return solution;
  for (std::size_t column = 0; column < 3; ++column) {
    auto replaced = m;
    for (std::size_t row = 0; row < 3; ++row) replaced[row][column] = right[row];
    solution[column] = determinant(replaced) / whole;
  }
  return solution;
}

}  // namespace

double best_interval(const std::vector<IntervalCost>& points) {
  const auto cheapest =
      std::min_element(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.cost < b.cost; });
  if (points.size() < 4) return points.empty() ? 0 : cheapest->interval;
  // In units of the middle point, so that the three columns are of one size.
  const double unit = points[points.size() / 2].interval, base = cheapest->cost;
  std::array<std::array<double, 3>, 3> normal{};
  std::array<double, 3> right{};
  for (const IntervalCost& point : points) {
    const double x = point.interval / unit, y = point.cost - base;
    const std::array<double, 3> row{1 / x, x, 1};
    for (std::size_t i = 0; i < 3; ++i) {
      right[i] += row[i] * y;
      for (std::size_t j = 0; j < 3; ++j) normal[i][j] += row[i] * row[j];
    }
  }
  const auto [falling, rising, constant] = solve(normal, right);
  if (!(falling > 0 && rising > 0)) return cheapest->interval;
  const double found = unit * std::sqrt(falling / rising);
  return std::clamp(found, points.front().interval, points.back().interval);
}

}  // namespace orrery::campaign
