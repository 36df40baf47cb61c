// Fit of the wave model: structure first, surface over what it leaves.
#include <algorithm>
#include <cmath>

#include "calibration/fit.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

// Parameters are searched as logarithms, so that they stay positive; shares are kept below 1 by clamping.
std::vector<double> pack(const GemmModel& m) {
  std::vector<double> p{std::log(m.launch), std::log(m.quantisation), std::log(m.memory_efficiency),
                        std::log(m.join_time), std::log(m.join_efficiency)};
  for (const Tile& t : m.tiles) p.push_back(std::log(t.rate)), p.push_back(std::log(t.setup));
  if (m.cast_time > 0) p.push_back(std::log(m.cast_launch)), p.push_back(std::log(m.cast_time));
  return p;
}

GemmModel unpack(GemmModel m, const std::vector<double>& p) {
  std::size_t i = 0;
  const auto take = [&](double low, double high) { return std::clamp(std::exp(p[i++]), low, high); };
  m.launch = take(5e-7, 2e-5);
  m.quantisation = take(0, 1);
  m.memory_efficiency = take(0.3, 0.95);
  m.join_time = take(1e-7, 2e-5);
  m.join_efficiency = take(0.2, 10);
  for (Tile& t : m.tiles) t.rate = take(0.05, 1), t.setup = take(1e-8, 2e-5);
  if (m.cast_time > 0) m.cast_launch = take(1e-6, 5e-5), m.cast_time = take(1e-15, 1e-10);
  return m;
}

GemmModel fit_structure(const GemmModel& start, std::span<const GemmSample> samples, const GemmFitOptions& options) {
  const std::size_t stride = std::max<std::size_t>(1, samples.size() / options.search_samples);
  std::vector<GemmModel::Shape> shapes;
  std::vector<double> measured;
  for (std::size_t i = 0; i < samples.size(); i += stride)
    shapes.push_back(model_shape(samples[i].shape)), measured.push_back(std::log(samples[i].seconds));
  const auto cost = [&](const std::vector<double>& p) {
    const GemmModel m = unpack(start, p);
    double sum = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) sum += robust_error(std::log(m.structure(shapes[i])) - measured[i]);
    return sum / static_cast<double>(shapes.size());
  };
  const std::vector<double> first = pack(start);
  return unpack(start, nelder_mead(cost, first, std::vector<double>(first.size(), 0.25), options.evaluations));
}

}  // namespace

GemmModel::Shape model_shape(const Gemm& g) {
  return {static_cast<double>(g.m),
          static_cast<double>(g.n),
          static_cast<double>(g.k),
          static_cast<double>(g.batch),
          g.accumulate,
          g.cast_input};
}

GemmModel gemm_start(double peak, double processors, double memory_bandwidth, DataType type) {
  GemmModel g;
  g.peak = peak, g.processors = processors, g.memory_bandwidth = memory_bandwidth, g.element_bytes = bytes_of(type);
  // CUTLASS's and cuBLAS's shapes; large tiles reuse operands best, small ones leave fewer processors idle.
  g.tiles = {{256, 128, 0.9, 1e-6}, {128, 256, 0.9, 1e-6}, {128, 128, 0.85, 1e-6}, {128, 64, 0.7, 1e-6},
             {64, 128, 0.7, 1e-6},  {64, 256, 0.7, 1e-6},  {256, 256, 0.8, 1e-6},  {64, 64, 0.5, 1e-6},
             {192, 128, 0.8, 1e-6}, {128, 192, 0.8, 1e-6}};
  if (type == DataType::fp8) g.cast_launch = 1e-5, g.cast_time = 2e-12;
  return g;
}

GemmModel fit_gemm(const GemmModel& start, std::span<const GemmSample> samples, const GemmFitOptions& options) {
  SIM_CHECK(!samples.empty() && !start.tiles.empty(), "{} samples, {} tiles", samples.size(), start.tiles.size());
  GemmModel model = fit_structure(start, samples, options);
  std::vector<SurfacePoint> points;
  std::vector<double> left;  // ln(measured / structure)
  for (const GemmSample& g : samples) {
    const auto shape = model_shape(g.shape);
    const double structure = model.structure(shape);
    left.push_back(std::log(g.seconds / structure));
    points.push_back({shape.m, shape.n, shape.k, left.back(), model.correctable(shape, structure)});
  }
  model.surface = fit_surface(options.surface, points);
  if (options.detail.m.empty()) return model;
  // Each correction is fitted to what the other leaves; twice is enough for both to settle.
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < points.size(); ++i)
      points[i].log_error = left[i] - points[i].share * model.surface.at(points[i].m, points[i].n, points[i].k);
    model.detail = fit_surface(options.detail, points);
    for (std::size_t i = 0; i < points.size(); ++i)
      points[i].log_error = left[i] - points[i].share * model.detail.at(points[i].m, points[i].n, points[i].k);
    model.surface = fit_surface(options.surface, points);
  }
  return model;
}

FitError gemm_error(const GemmModel& model, std::span<const GemmSample> samples) {
  std::vector<double> relative;
  for (const GemmSample& s : samples) relative.push_back(model.seconds(model_shape(s.shape)) / s.seconds - 1);
  return summarise(std::move(relative));
}

FitError cross_validate_gemm(const GemmModel& start, std::span<const GemmSample> samples, const GemmFitOptions& options,
                             int folds) {
  std::vector<double> relative;
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<GemmSample> train, test;
    for (std::size_t i = 0; i < samples.size(); ++i) (fold_of(i, folds) == fold ? test : train).push_back(samples[i]);
    const GemmModel model = fit_gemm(start, train, options);
    for (const GemmSample& s : test) relative.push_back(model.seconds(model_shape(s.shape)) / s.seconds - 1);
  }
  return summarise(std::move(relative));
}

}  // namespace orrery::calibration
