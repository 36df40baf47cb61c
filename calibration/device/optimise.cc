// Nelder-Mead, Levenberg-Marquardt and Cholesky, in plain loops: fits have tens of structural and a thousand linear
// parameters.
#include "calibration/device/optimise.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/error.h"

namespace orrery::calibration {
namespace {

using Point = std::vector<double>;
using Function = std::function<double(const Point&)>;

struct Simplex {
  std::vector<Point> points;
  std::vector<double> values;

  void sort() {
    std::vector<std::size_t> order(points.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a] < values[b]; });
    std::vector<Point> p;
    std::vector<double> v;
    for (auto i : order) {
      p.push_back(points[i]);
      v.push_back(values[i]);
    }
    points = std::move(p);
    values = std::move(v);
  }
};

Point mix(const Point& a, const Point& b, double t) {  // a + t (b - a)
  Point out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = a[i] + t * (b[i] - a[i]);
  return out;
}

/// One descent; returns the calls used.
int descend(const Function& f, Point& best, const Point& step, int evaluations) {
  const std::size_t n = best.size();
  Simplex s;
  int calls = 0;
  const auto value = [&](const Point& p) {
    ++calls;
    return f(p);
  };
  s.points.push_back(best);
  s.values.push_back(value(best));
  for (std::size_t i = 0; i < n; ++i) {
    Point p = best;
    p[i] += step[i];
    s.values.push_back(value(p));
    s.points.push_back(std::move(p));
  }
  while (calls < evaluations) {
    s.sort();
    if (s.values[n] - s.values[0] < 1e-9 * std::fabs(s.values[0]) + 1e-15) break;
    Point centre(n, 0.0);
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t i = 0; i < n; ++i) centre[i] += s.points[j][i] / static_cast<double>(n);
    const auto accept = [&](Point p, double v) {
      s.points[n] = std::move(p);
      s.values[n] = v;
    };
    Point reflected = mix(centre, s.points[n], -1);
    const double r = value(reflected);
    if (r < s.values[0]) {
      Point expanded = mix(centre, s.points[n], -2);
      const double e = value(expanded);
      if (e < r)
        accept(std::move(expanded), e);
      else
        accept(std::move(reflected), r);
    } else if (r < s.values[n - 1]) {
      accept(std::move(reflected), r);
    } else {
      Point inner = mix(centre, r < s.values[n] ? reflected : s.points[n], 0.5);
      const double v = value(inner);
      if (v < std::min(r, s.values[n])) {
        accept(std::move(inner), v);
      } else {
        for (std::size_t j = 1; j <= n; ++j) {
          s.points[j] = mix(s.points[0], s.points[j], 0.5);
          s.values[j] = value(s.points[j]);
        }
      }
    }
  }
  s.sort();
  best = s.points[0];
  return calls;
}

constexpr double kKnee = 0.02;

double mean_robust(const std::vector<double>& errors) {
  double sum = 0;
  for (double x : errors) sum += robust_error(x);
  return sum / static_cast<double>(errors.size());
}

struct NormalEquations {
  std::vector<double> a, b;
};

/// Of the weighted least squares problem whose residuals are `errors` and whose columns are `slope`.
NormalEquations normal_equations(const std::vector<std::vector<double>>& slope, const std::vector<double>& errors) {
  const std::size_t n = slope.size();
  NormalEquations e{std::vector<double>(n * n, 0.0), std::vector<double>(n, 0.0)};
  for (std::size_t s = 0; s < errors.size(); ++s) {
    const double weight = kKnee / std::max(kKnee, std::fabs(errors[s]));
    for (std::size_t i = 0; i < n; ++i) {
      const double w = weight * slope[i][s];
      e.b[i] -= w * errors[s];
      for (std::size_t j = 0; j <= i; ++j) e.a[i * n + j] += w * slope[j][s];
    }
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j) e.a[j * n + i] = e.a[i * n + j];
  return e;
}

double percentile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1) + 0.5)];
}

}  // namespace

std::vector<double> nelder_mead(const Function& f, Point start, const Point& step, int evaluations) {
  double before = f(start);
  double scale = 1;
  while (evaluations > 0) {
    Point scaled = step;
    for (double& x : scaled) x *= scale;
    evaluations -= descend(f, start, scaled, evaluations);
    const double after = f(start);
    if (before - after < 1e-4 * std::fabs(before) && scale < 0.3) break;
    before = after;
    scale *= -0.6;  // the next simplex looks the other way
  }
  return start;
}

double robust_error(double log_error) {
  const double x = std::fabs(log_error);
  return x < kKnee ? x * x / (2 * kKnee) : x - kKnee / 2;
}

LogFit levenberg_marquardt(const LogErrors& errors, Point start, int iterations) {
  constexpr double kStep = 0.01, kLongestMove = 0.7;
  const std::size_t n = start.size();
  std::vector<double> now, next;
  errors(start, now);
  double cost = mean_robust(now), damping = 1e-2;
  std::vector<std::vector<double>> slope(n);
  for (int i = 0; i < iterations; ++i) {
    for (std::size_t p = 0; p < n; ++p) {
      Point moved = start;
      moved[p] += kStep;
      errors(moved, slope[p]);
      for (std::size_t s = 0; s < now.size(); ++s) slope[p][s] = (slope[p][s] - now[s]) / kStep;
    }
    const NormalEquations e = normal_equations(slope, now);
    const double before = cost;
    for (int attempt = 0; attempt < 6 && cost >= before; ++attempt) {
      std::vector<double> a = e.a;
      // The small constant keeps a parameter that no sample depends on from making the system singular.
      for (std::size_t p = 0; p < n; ++p)
        a[p * n + p] += damping * a[p * n + p] + 1e-6 * static_cast<double>(now.size());
      const Point move = solve_spd(std::move(a), e.b);
      Point moved = start;
      for (std::size_t p = 0; p < n; ++p) moved[p] += std::clamp(move[p], -kLongestMove, kLongestMove);
      errors(moved, next);
      const double c = mean_robust(next);
      if (c < cost) {
        cost = c;
        start = std::move(moved);
        now.swap(next);
        damping = std::max(1e-4, damping / 4);
      } else {
        damping *= 5;
      }
    }
    if (before - cost < 1e-4 * before && i >= 5) break;
  }
  return {std::move(start), cost};
}

std::vector<double> solve_spd(std::vector<double> a, std::vector<double> b) {
  const std::size_t n = b.size();
  SIM_CHECK(a.size() == n * n, "a {} x {} system has {} entries", n, n, a.size());
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = j; i < n; ++i) {
      double sum = a[i * n + j];
      for (std::size_t l = 0; l < j; ++l) sum -= a[i * n + l] * a[j * n + l];
      if (i == j) {
        SIM_CHECK(sum > 0, "pivot {} of {} is {}", j, n, sum);
        a[j * n + j] = std::sqrt(sum);
      } else {
        a[i * n + j] = sum / a[j * n + j];
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t l = 0; l < i; ++l) b[i] -= a[i * n + l] * b[l];
    b[i] /= a[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t l = i + 1; l < n; ++l) b[i] -= a[l * n + i] * b[l];
    b[i] /= a[i * n + i];
  }
  return b;
}

FitError summarise(std::vector<double> relative) {
  FitError out;
  out.samples = relative.size();
  if (relative.empty()) return out;
  std::sort(relative.begin(), relative.end());
  out.bias = 100 * percentile(relative, 0.5);
  for (double& r : relative) r = std::fabs(r);
  std::sort(relative.begin(), relative.end());
  out.median_ape = 100 * percentile(relative, 0.5);
  out.p90_ape = 100 * percentile(relative, 0.9);
  return out;
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return percentile(values, q);
}

}  // namespace orrery::calibration
