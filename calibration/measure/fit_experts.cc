// Fit of the products of experts to tables of whole layers: the constants of grouped kernels and of what surrounds them
// first, then a correction over tokens of an expert and the weight's sizes.
#include <algorithm>
#include <cmath>
#include <set>

#include "calibration/measure/cross_validation.h"
#include "calibration/measure/fit.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

constexpr std::size_t kSearchSamples = 1500;
constexpr int kHalves = 2;

std::vector<double> first_grouped() {
  std::vector<double> p;
  for (double x : {0.9, 0.7, 0.8, 10., 10., 5e-7, 3e-11, 2e-5, 1e-11, 1e-12, 1e-8, 0.7, 0.7, 0.7, 3e-6, 2e-5, 5e-9})
    p.push_back(std::log(x));
  return p;
}

/// A row's time does not say which part is the products' and which moves around them. Both keep to what is known of
/// each alone: products run no faster than the peak, rows move at no less than a third of the memory's bandwidth, and
/// an activation costs nothing at best, where it is fused with a product. Dense products of random numbers are no
/// bound: power holds them back, while the collector leaves weights of experts as they were allocated, and whole layers
/// reach up to a fifth more than dense products do at their best.
constexpr double kFastest = 1;
constexpr double kSlowestRows = 0.35, kFastestRows = 1.5, kFused = 3;

/// Parameters are searched as logarithms and clamped to what is physical; tiles by the law of fit_gemm.cc.
ExpertModel unpack_experts(ExpertModel m, const std::vector<double>& p) {
  std::size_t i = 0;
  const auto take = [&](double low, double high) { return std::clamp(std::exp(p[i++]), low, high); };
  m.products.quantisation = take(1e-3, 1);
  m.products.memory_efficiency = take(0.2, 0.98);
  const double best = take(0.05, kFastest), a = take(0.01, 300), b = take(0.01, 300);
  const double fill = take(1e-9, 2e-5), per_element = take(1e-15, 1e-9);
  for (Tile& t : m.products.tiles) {
    t.rate = std::min(1.0, best / (1 + a / t.m + b / t.n));
    t.setup = fill + per_element * t.m * t.n;
  }
  m.around.fixed = take(1e-6, 1e-4);
  m.around.choice = take(1e-13, 1e-8);
  m.around.score = take(1e-15, 1e-9);
  m.around.expert = take(1e-10, 1e-6);
  m.around.gather = take(kSlowestRows, kFastestRows);
  m.around.activate = take(kSlowestRows, kFused);
  m.around.scatter = take(kSlowestRows, kFastestRows);
  m.around.sort = take(1e-8, 5e-5);
  m.around.unfused = take(1e-6, 1e-4);
  m.around.unfused_token = take(1e-11, 1e-7);
  return m;
}

struct Measured {
  ExpertWork work;
  double seconds = 0;
};

ExpertModel fit_grouped(const ExpertModel& start, const std::vector<Measured>& all) {
  std::vector<const Measured*> some;
  const std::size_t stride = std::max<std::size_t>(1, all.size() / kSearchSamples);
  for (std::size_t i = 0; i < all.size(); i += stride) some.push_back(&all[i]);
  const LogErrors errors = [&](const std::vector<double>& p, std::vector<double>& out) {
    const ExpertModel m = unpack_experts(start, p);
    out.clear();
    for (const Measured* s : some) out.push_back(std::log(s->work.parts(m.products, m.around).total / s->seconds));
  };
  return unpack_experts(start, levenberg_marquardt(errors, first_grouped(), 60).parameters);
}

std::vector<double> within(const std::vector<double>& knots, double low, double high) {
  std::vector<double> out;
  for (std::size_t i = 0; i < knots.size(); ++i) {
    const bool above = i + 1 == knots.size() || knots[i + 1] > low, below = i == 0 || knots[i - 1] < high;
    if (above && below) out.push_back(knots[i]);
  }
  return out;
}

/// Knots that enclose the sizes of the samples.
SurfaceOptions surface_options(const std::vector<Measured>& all) {
  std::array<double, 3> low{1e18, 1e18, 1e18}, high{1, 1, 1};
  for (const Measured& m : all)
    for (const auto& at : {m.work.first_sizes(), m.work.second_sizes()})
      for (std::size_t axis = 0; axis < 3; ++axis) {
        low[axis] = std::min(low[axis], at[axis]);
        high[axis] = std::max(high[axis], at[axis]);
      }
  SurfaceOptions out;
  out.m = within({1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384}, low[0], high[0]);
  out.n = within({128, 512, 1024, 2048, 4096, 8192, 32768}, low[1], high[1]);
  out.k = within({64, 256, 512, 1024, 2048, 4096, 8192}, low[2], high[2]);
  out.smoothness = 0.2;
  out.shrinkage = 0.05;
  out.flatness = 0.02;
  out.largest_fall = 0.09;
  out.largest_fall_k = 0.3;
  return out;
}

ExpertModel fitted_experts(const GroupedModel& device, const std::vector<Measured>& all) {
  ExpertModel start;
  start.products = device;
  start.products.best_rate = kFastest;
  start.products.surface = {};
  for (Tile& t : start.products.tiles) t = {t.m, t.n, 0.9, 1e-6};
  ExpertModel model = fit_grouped(start, all);
  // What no row met was not fitted.
  if (std::all_of(all.begin(), all.end(), [](const Measured& m) { return m.work.chooses_fused(); }))
    model.around.unfused = model.around.unfused_token = 0;
  std::vector<SurfacePoint> points;
  for (const Measured& m : all) {
    const ExpertWork::Parts p = m.work.parts(model.products, model.around);
    const auto a = m.work.first_sizes(), b = m.work.second_sizes();
    points.push_back(
        {a[0], a[1], a[2], std::log(m.seconds / p.total), p.first / p.total, b[0], b[1], b[2], p.second / p.total});
  }
  model.products.surface = fit_surface(surface_options(all), points);
  return model;
}

}  // namespace

std::vector<Tile> served_tiles(const DeviceProfile::Model::Sheet& sheet, DataType type) {
  const auto has = [&](DataType t) { return sheet.has[static_cast<std::size_t>(t)]; };
  if (!has(DataType::fp8)) return {{32, 128}, {64, 128}, {128, 128}};
  std::vector<Tile> out;
  if (!has(DataType::nvfp4) && type != DataType::fp8_blockwise) {
    for (double m : {16., 32., 64., 128., 256.}) out.push_back({m, 128});
    out.push_back({128, 64});
    out.push_back({128, 256});
    return out;
  }
  for (double m : {16., 32., 64., 128., 256.})
    for (double n : {64., 128., 256.})
      if (m * n <= 128 * 256) out.push_back({m, n});
  return out;
}

ExpertModel fit_experts(const GroupedModel& device, std::span<const ExpertSample> samples) {
  SIM_CHECK(!samples.empty(), "no samples");
  std::vector<Measured> all;
  for (const ExpertSample& s : samples)
    if (s.tuned) all.push_back({ExpertWork(s.shape), s.seconds});
  SIM_CHECK(!all.empty(), "no samples whose products were tuned");
  return fitted_experts(device, all);
}

FitQuality judge_experts(const GroupedModel& device, std::span<const ExpertSample> samples) {
  std::vector<Measured> halves[kHalves];
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (samples[i].tuned) halves[fold_of(i, kHalves)].push_back({ExpertWork(samples[i].shape), samples[i].seconds});
  std::vector<Judged> held_out;
  FitQuality out;
  Sizes from{1e18, 1e18, 1e18}, to{1, 1, 1};
  for (int test = 0; test < kHalves; ++test) {
    if (halves[1 - test].empty()) continue;
    const ExpertModel model = fitted_experts(device, halves[1 - test]);
    for (const Measured& m : halves[test]) {
      const double predicted = m.work.seconds(model.products, model.around);
      for (const auto& at : {m.work.first_sizes(), m.work.second_sizes()})
        for (std::size_t axis = 0; axis < 3; ++axis) {
          from[axis] = std::min(from[axis], at[axis]);
          to[axis] = std::max(to[axis], at[axis]);
        }
      held_out.push_back({predicted / m.seconds - 1, kByFlops.of(m.work.flops())});
    }
  }
  out = quality_of(held_out, kHalves);
  out.from = from;
  out.to = to;
  return out;
}

}  // namespace orrery::calibration
