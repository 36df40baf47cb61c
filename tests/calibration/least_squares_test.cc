// Do bounded least squares find the optimum that algebra finds, and say what the rows do not determine?
#include "calibration/device/least_squares.h"

#include <cmath>

#include "tests/catch.h"

using namespace orrery::calibration;

namespace {

/// Residuals of rows that are linear in the point: sum over p of slope[i][p] x[p], minus target[i].
Residuals linear(std::vector<std::vector<double>> slope, std::vector<double> target) {
  return [=](const std::vector<Point>& points) {
    std::vector<std::vector<double>> all;
    for (const Point& x : points) {
      std::vector<double> residuals;
      for (std::size_t i = 0; i < target.size(); ++i) {
        double sum = -target[i];
        for (std::size_t p = 0; p < x.size(); ++p) sum += slope[i][p] * x[p];
        residuals.push_back(sum);
      }
      all.push_back(std::move(residuals));
    }
    return all;
  };
}

}  // namespace

TEST_CASE("the optimum of a line through three points is that of the normal equations") {
  // Rows 1 x = 0.2, 2 x = 0.9, 1 x = 0.4: x = (0.2 + 1.8 + 0.4) / (1 + 4 + 1) = 0.4, residuals 0.2, -0.1, 0.
  const LeastSquaresFit fit = least_squares(linear({{1}, {2}, {1}}, {0.2, 0.9, 0.4}), {0.9});
  CHECK(fit.at[0] == Approx(0.4).margin(1e-4));
  CHECK(fit.cost == Approx(0.05).margin(1e-6));
  // Variance of the residuals 0.05 / (3 - 1); information 6 / 0.025 = 240, and 12 from the bounds.
  const Determination told = determination(fit);
  CHECK(told.standard_error[0] == Approx(std::sqrt(1 / 252.0)).epsilon(1e-3));
  CHECK(told.singular_values[0] == Approx(std::sqrt(240.0)).epsilon(1e-3));
}

TEST_CASE("an optimum outside of the box ends at the bound, and the others go on from there") {
  // x + y = 1.5 and x - y = 1: x would be 1.25. With x = 1: (y - 0.5)^2 + (0 - y)^2 is least at y = 0.25.
  const LeastSquaresFit fit = least_squares(linear({{1, 1}, {1, -1}}, {1.5, 1.0}), {0.5, 0.5});
  CHECK(fit.at[0] == Approx(1.0));
  CHECK(fit.at[1] == Approx(0.25).margin(1e-3));
}

TEST_CASE("what no row depends on, or only a sum, is said not to be determined") {
  const LeastSquaresFit none = least_squares(linear({{1, 0}, {1, 0}, {1, 0}}, {0.1, 0.2, 0.3}), {0.5, 0.5});
  CHECK(none.at[1] == 0.5);
  CHECK(determination(none).standard_error[1] == Approx(kSpread));
  CHECK(determination(none).singular_values[1] == Approx(0).margin(1e-6));

  const LeastSquaresFit sum = least_squares(linear({{1, 1}, {1, 1}, {1, 1}}, {0.99, 1.0, 1.01}), {0.3, 0.3});
  CHECK(sum.at[0] + sum.at[1] == Approx(1.0).margin(1e-4));
  const Determination told = determination(sum);
  CHECK(told.correlation[0][1] < -0.99);
  CHECK(told.standard_error[0] > kSpread / 2);
  CHECK(told.weakest[0] == Approx(-told.weakest[1]).margin(1e-6));
}

TEST_CASE("a robust loss lets one row in five be wrong") {
  const std::vector<std::vector<double>> slope(5, {1.0});
  const std::vector<double> target{0.3, 0.3, 0.3, 0.3, 0.9};
  CHECK(least_squares(linear(slope, target), {0.5}).at[0] == Approx(0.42).margin(1e-4));  // the mean
  // Beyond the knee the wrong row pulls with the knee alone: 4 (x - 0.3) = 0.05.
  LeastSquaresOptions robust;
  robust.knee = 0.05;
  CHECK(least_squares(linear(slope, target), {0.5}, robust).at[0] == Approx(0.3125).margin(1e-3));
  // Weighed by three, it is counted as three rows: (4 x 0.3 + 3 x 0.9) / 7.
  LeastSquaresOptions weighed;
  weighed.weights = {1, 1, 1, 1, 3};
  CHECK(least_squares(linear(slope, target), {0.5}, weighed).at[0] == Approx(3.9 / 7).margin(1e-4));
}

TEST_CASE("with heavy tails a row far off hardly pulls, unless it is a prior") {
  const std::vector<std::vector<double>> slope(5, {1.0});
  const std::vector<double> target{0.3, 0.3, 0.3, 0.3, 0.9};
  LeastSquaresOptions heavy;
  heavy.tail = 0.1;
  // Slopes r / (1 + (r / 0.1)^2) balance where 4 x 0.0041 = 0.596 / (1 + 5.96^2) = 0.0163.
  CHECK(least_squares(linear(slope, target), {0.5}, heavy).at[0] == Approx(0.3041).margin(3e-4));
  // As a prior the last counts as a square: no slope of the four, at most 4 x 0.05, holds it from going past 0.8.
  heavy.exact_from = 4;
  CHECK(least_squares(linear(slope, target), {0.5}, heavy).at[0] > 0.8);
}

TEST_CASE("eigenvalues of a matrix worked out by hand") {
  // [[2, 1], [1, 2]]: 3 along (1, 1), 1 along (1, -1).
  const Eigen eigen = symmetric_eigen({2, 1, 1, 2}, 2);
  CHECK(eigen.values[0] == Approx(3));
  CHECK(eigen.values[1] == Approx(1));
  CHECK(eigen.vectors[0][0] == Approx(eigen.vectors[0][1]));
  CHECK(eigen.vectors[1][0] == Approx(-eigen.vectors[1][1]));
}
