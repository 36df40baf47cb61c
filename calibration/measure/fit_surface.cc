// The correction surface by iteratively reweighted ridge regression: least absolute errors, small second differences,
// and no fall so steep that a larger shape would be faster.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "calibration/measure/fit.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

/// Adds `weight` times the square of a second difference along one axis of the knots to the normal equations.
void smooth(std::vector<double>& a, std::size_t knots, std::size_t first, std::size_t stride,
            const std::vector<double>& x, std::size_t i, double weight) {
  const double left = std::log(x[i] / x[i - 1]), right = std::log(x[i + 1] / x[i]);
  // Second divided difference, scaled to equal weights on an even grid.
  const double c[3] = {2 * right / (left + right), -2, 2 * left / (left + right)};
  for (std::size_t u = 0; u < 3; ++u)
    for (std::size_t v = 0; v < 3; ++v)
      a[(first + (i - 1 + u) * stride) * knots + first + (i - 1 + v) * stride] += weight * c[u] * c[v];
}

/// The same with a first difference, to the knot `stride` before.
void flatten(std::vector<double>& a, std::size_t knots, std::size_t here, std::size_t stride, double weight) {
  const std::size_t before = here - stride;
  a[here * knots + here] += weight;
  a[before * knots + before] += weight;
  a[here * knots + before] -= weight;
  a[before * knots + here] -= weight;
}

void smooth_all(std::vector<double>& a, const Surface& s, const SurfaceOptions& o) {
  const std::size_t knots = s.size(), nn = s.n.size(), nk = s.k.size();
  for (std::size_t m = 0; m < s.m.size(); ++m)
    for (std::size_t n = 0; n < nn; ++n)
      for (std::size_t k = 0; k < nk; ++k) {
        if (m > 0 && m + 1 < s.m.size()) smooth(a, knots, n * nk + k, nn * nk, s.m, m, o.smoothness);
        if (n > 0 && n + 1 < nn) smooth(a, knots, m * nn * nk + k, nk, s.n, n, o.smoothness);
        if (k > 0 && k + 1 < nk) smooth(a, knots, (m * nn + n) * nk, 1, s.k, k, o.smoothness);
        const std::size_t here = (m * nn + n) * nk + k;
        if (m > 0) flatten(a, knots, here, nn * nk, o.flatness);
        if (n > 0) flatten(a, knots, here, nk, o.flatness);
        if (k > 0) flatten(a, knots, here, 1, o.flatness + o.flatness_k);
      }
}

/// Steepest allowed fall per unit of ln(size), below what the loader refuses.
constexpr double kSteepestFall = 0.85;

/// Moves knots that fall too steeply towards each other, each by half.
void limit_falls(Surface& s, const SurfaceOptions& o) {
  const std::size_t nn = s.n.size(), nk = s.k.size();
  bool moved = false;
  const auto meet = [&](std::size_t from, std::size_t to, double growth, double largest) {
    const double excess = s.value[from] - s.value[to] - std::min(kSteepestFall * std::log(growth), largest);
    if (excess <= 0) return;
    s.value[from] -= excess / 2;
    s.value[to] += excess / 2;
    moved = moved || excess > 1e-4;
  };
  for (int round = 0; round == 0 || (moved && round < 200); ++round) {
    moved = false;
    for (std::size_t m = 0; m < s.m.size(); ++m)
      for (std::size_t n = 0; n < nn; ++n)
        for (std::size_t k = 0; k < nk; ++k) {
          const std::size_t here = (m * nn + n) * nk + k;
          if (m + 1 < s.m.size()) meet(here, here + nn * nk, s.m[m + 1] / s.m[m], o.largest_fall);
          if (n + 1 < nn) meet(here, here + nk, s.n[n + 1] / s.n[n], o.largest_fall);
          if (k + 1 < nk) meet(here, here + 1, s.k[k + 1] / s.k[k], o.largest_fall_k);
        }
  }
}

}  // namespace

Surface fit_surface(const SurfaceOptions& options, std::span<const SurfacePoint> points) {
  Surface s;
  s.m = options.m;
  s.n = options.n;
  s.k = options.k;
  s.prepare();
  const std::size_t knots = s.size();
  s.value.assign(knots, 0.0);
  struct Row {
    Surface::Share places[16];
    std::size_t used = 8;
    double target = 0;
    std::span<const Surface::Share> around() const { return {places, used}; }
  };
  std::vector<Row> rows(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const SurfacePoint& point = points[i];
    Surface::Share corners[8];
    const auto place = [&](double m, double n, double k, double share, std::size_t first) {
      s.shares({std::log(m), std::log(n), std::log(k)}, corners);
      for (std::size_t c = 0; c < 8; ++c) rows[i].places[first + c] = {corners[c].knot, corners[c].weight * share};
    };
    place(point.m, point.n, point.k, point.share, 0);
    if (point.other_share > 0) {
      place(point.other_m, point.other_n, point.other_k, point.other_share, 8);
      rows[i].used = 16;
    }
    rows[i].target = point.log_error;
  }
  for (int round = 0; round < 6; ++round) {
    std::vector<double> a(knots * knots, 0.0), b(knots, 0.0);
    for (const Row& r : rows) {
      double now = 0;
      for (const auto& k : r.around()) now += k.weight * s.value[k.knot];
      // Weights of the first round are equal; later 1/|error|, which turns squares into absolute errors.
      const double w = round == 0 ? 1.0 : 0.03 / std::max(0.01, std::fabs(r.target - now));
      for (const auto& k : r.around()) {
        b[k.knot] += w * k.weight * r.target;
        for (const auto& l : r.around()) a[k.knot * knots + l.knot] += w * k.weight * l.weight;
      }
    }
    smooth_all(a, s, options);
    for (std::size_t i = 0; i < knots; ++i) a[i * knots + i] += options.shrinkage;
    s.value = solve_spd(std::move(a), std::move(b));
  }
  limit_falls(s, options);
  return s;
}

int fold_of(std::size_t i, int folds) {
  std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;
  x ^= x >> 31;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 29;
  return static_cast<int>(x % static_cast<std::uint64_t>(folds));
}

}  // namespace orrery::calibration
