// Least squares on the unit box, in plain loops: a dozen parameters, hundreds of rows.
#include "calibration/device/least_squares.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "calibration/device/optimise.h"
#include "sim/error.h"

namespace orrery::calibration {

namespace {

constexpr double kStep = 0.01;     // of the box: wide enough to look past the kinks of max() and of tiles
constexpr double kFar = 0.5;       // longest move of a coordinate in one iteration
constexpr double kSettled = 1e-5;  // relative gain below which a fit has converged

double row_weight(const LeastSquaresOptions& options, std::size_t row) {
  return options.weights.empty() ? 1.0 : options.weights[row];
}

/// What one residual adds to the cost, and the weight under which its square has the slope of that.
struct Loss {
  double cost = 0, weight = 1;
};
Loss loss_of(const LeastSquaresOptions& options, std::size_t row, double residual) {
  const double r = std::abs(residual);
  if (row < options.exact_from && std::isfinite(options.tail)) {
    const double scaled = r / options.tail;
    return {options.tail * options.tail * std::log1p(scaled * scaled), 1 / (1 + scaled * scaled)};
  }
  if (row >= options.exact_from || r <= options.knee) return {r * r, 1};
  return {options.knee * (2 * r - options.knee), options.knee / r};
}

double cost_of(const LeastSquaresOptions& options, const std::vector<double>& residuals) {
  double sum = 0;
  for (std::size_t i = 0; i < residuals.size(); ++i)
    sum += row_weight(options, i) * loss_of(options, i, residuals[i]).cost;
  return sum;
}

std::vector<double> weights_of(const LeastSquaresOptions& options, const std::vector<double>& residuals) {
  std::vector<double> weights(residuals.size());
  for (std::size_t i = 0; i < residuals.size(); ++i)
    weights[i] = row_weight(options, i) * loss_of(options, i, residuals[i]).weight;
  return weights;
}

/// Forward differences, backward at the upper bound; all points in one call.
std::vector<std::vector<double>> jacobian_at(const Residuals& residuals, const Point& at,
                                             const std::vector<double>& here) {
  std::vector<Point> points(at.size(), at);
  for (std::size_t p = 0; p < at.size(); ++p) points[p][p] += at[p] + kStep <= 1 ? kStep : -kStep;
  std::vector<std::vector<double>> columns = residuals(points);
  for (std::size_t p = 0; p < at.size(); ++p) {
    for (std::size_t i = 0; i < here.size(); ++i) columns[p][i] = (columns[p][i] - here[i]) / (points[p][p] - at[p]);
  }
  return columns;
}

double dot(const std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += weights[i] * a[i] * b[i];
  return sum;
}

/// The move of Marquardt's damped normal equations over the coordinates that are free: neither at a bound with the way
/// down leading out of the box, nor without effect.
Point damped_move(const LeastSquaresFit& fit, double damping) {
  std::vector<std::size_t> free;
  std::vector<double> down(fit.at.size());
  for (std::size_t p = 0; p < fit.at.size(); ++p) {
    down[p] = -dot(fit.jacobian[p], fit.residuals, fit.weights);
    const bool outward = (fit.at[p] <= 0 && down[p] < 0) || (fit.at[p] >= 1 && down[p] > 0);
    if (!outward && dot(fit.jacobian[p], fit.jacobian[p], fit.weights) > 0) free.push_back(p);
  }
  Point move(fit.at.size(), 0.0);
  if (free.empty()) return move;
  const std::size_t n = free.size();
  std::vector<double> a(n * n), b(n);
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    b[i] = down[free[i]];
    for (std::size_t j = 0; j < n; ++j) a[i * n + j] = dot(fit.jacobian[free[i]], fit.jacobian[free[j]], fit.weights);
    largest = std::max(largest, a[i * n + i]);
  }
  for (std::size_t i = 0; i < n; ++i) a[i * n + i] += damping * a[i * n + i] + 1e-9 * largest;
  const std::vector<double> solved = solve_spd(std::move(a), std::move(b));
  for (std::size_t i = 0; i < n; ++i) move[free[i]] = std::clamp(solved[i], -kFar, kFar);
  return move;
}

}  // namespace

LeastSquaresFit least_squares(const Residuals& residuals, Point start, const LeastSquaresOptions& options) {
  LeastSquaresFit fit;
  for (double& x : start) x = std::clamp(x, 0.0, 1.0);
  fit.at = std::move(start);
  fit.residuals = residuals({fit.at}).front();
  SIM_CHECK(options.weights.empty() || options.weights.size() == fit.residuals.size(), "{} weights for {} rows",
            options.weights.size(), fit.residuals.size());
  fit.cost = cost_of(options, fit.residuals);
  fit.weights = weights_of(options, fit.residuals);
  double damping = 1e-2;
  bool settled = fit.at.empty();
  while (true) {
    fit.jacobian = jacobian_at(residuals, fit.at, fit.residuals);
    if (settled || fit.iterations >= options.iterations) return fit;
    ++fit.iterations;
    const double before = fit.cost;
    for (int attempt = 0; attempt < 6 && fit.cost >= before; ++attempt) {
      const Point move = damped_move(fit, damping);
      Point next = fit.at;
      for (std::size_t p = 0; p < next.size(); ++p) next[p] = std::clamp(next[p] + move[p], 0.0, 1.0);
      if (next == fit.at) break;
      std::vector<double> there = residuals({next}).front();
      const double cost = cost_of(options, there);
      if (cost < fit.cost) {
        fit.at = std::move(next);
        fit.residuals = std::move(there);
        fit.cost = cost;
        fit.weights = weights_of(options, fit.residuals);
        damping = std::max(1e-5, damping / 5);
      } else {
        damping *= 6;
      }
    }
    settled = before - fit.cost <= kSettled * before;
  }
}

Eigen symmetric_eigen(std::vector<double> m, std::size_t n) {
  Eigen eigen;
  eigen.vectors.assign(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) eigen.vectors[i][i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, on = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) (i == j ? on : off) += m[i * n + j] * m[i * n + j];
    }
    if (off <= 1e-26 * on) break;
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        if (m[p * n + q] == 0) continue;
        const double theta = (m[q * n + q] - m[p * n + p]) / (2 * m[p * n + q]);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (std::size_t k = 0; k < n; ++k) {
          const double a = m[k * n + p], b = m[k * n + q];
          m[k * n + p] = c * a - s * b;
          m[k * n + q] = s * a + c * b;
        }
        for (std::size_t k = 0; k < n; ++k) {
          const double a = m[p * n + k], b = m[q * n + k];
          m[p * n + k] = c * a - s * b;
          m[q * n + k] = s * a + c * b;
          const double v = eigen.vectors[p][k], w = eigen.vectors[q][k];
          eigen.vectors[p][k] = c * v - s * w;
          eigen.vectors[q][k] = s * v + c * w;
        }
      }
    }
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return m[a * n + a] > m[b * n + b]; });
  std::vector<std::vector<double>> vectors;
  for (const std::size_t i : order) {
    eigen.values.push_back(m[i * n + i]);
    vectors.push_back(std::move(eigen.vectors[i]));
  }
  eigen.vectors = std::move(vectors);
  return eigen;
}

Determination determination(const LeastSquaresFit& fit) {
  const std::size_t n = fit.at.size();
  Determination out;
  if (n == 0) return out;
  const double rows = static_cast<double>(fit.residuals.size());
  const double free = std::max(1.0, rows - static_cast<double>(n));
  // A perfect fit would leave no scatter; nothing that is measured repeats better than to a part in ten thousand.
  const double variance = std::max(dot(fit.residuals, fit.residuals, fit.weights) / free, 1e-8);
  std::vector<double> information(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      information[i * n + j] = dot(fit.jacobian[i], fit.jacobian[j], fit.weights) / variance;
    }
  }
  const Eigen eigen = symmetric_eigen(std::move(information), n);
  constexpr double kBefore = 1 / (kSpread * kSpread);
  std::vector<double> covariance(n * n, 0.0);
  for (std::size_t k = 0; k < n; ++k) {
    const double value = std::max(eigen.values[k], 0.0);
    out.singular_values.push_back(std::sqrt(value));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        covariance[i * n + j] += eigen.vectors[k][i] * eigen.vectors[k][j] / (value + kBefore);
      }
    }
  }
  out.weakest = eigen.vectors.back();
  out.correlation.assign(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) {
    out.standard_error.push_back(std::sqrt(covariance[i * n + i]));
    for (std::size_t j = 0; j < n; ++j) {
      out.correlation[i][j] = covariance[i * n + j] / std::sqrt(covariance[i * n + i] * covariance[j * n + j]);
    }
  }
  return out;
}

}  // namespace orrery::calibration
