// Fit of the attention model: structure by Nelder-Mead, surface over what it leaves.
#include <algorithm>
#include <cmath>

#include "calibration/fit.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

std::vector<double> pack(const AttentionModel& a) {
  return {std::log(a.rate_64),         std::log(a.rate_128),          std::log(a.setup),
          std::log(a.quantisation),    std::log(a.memory_efficiency), std::log(a.cache_launch),
          std::log(a.cache_efficiency)};
}

AttentionModel unpack(AttentionModel a, const std::vector<double>& p) {
  std::size_t i = 0;
  const auto take = [&](double low, double high) { return std::clamp(std::exp(p[i++]), low, high); };
  a.rate_64 = take(0.05, 1), a.rate_128 = take(0.05, 1);
  a.setup = take(1e-8, 1e-4);
  a.quantisation = take(0, 1);
  a.memory_efficiency = take(0.2, 0.95);
  a.cache_launch = take(1e-8, 1e-4), a.cache_efficiency = take(0.02, 2);
  return a;
}

FitError errors_of(const AttentionModel& model, std::span<const AttentionSample> samples,
                   std::vector<double>& relative) {
  for (const AttentionSample& s : samples) relative.push_back(model.seconds(model_shape(s.shape)) / s.seconds - 1);
  return summarise(relative);
}

}  // namespace

AttentionModel::Shape model_shape(const Attention& a) {
  const auto d = [](std::int64_t x) { return static_cast<double>(x); };
  return {d(a.batch),    d(a.queries), d(a.keys), d(a.heads), d(a.kv_heads),
          d(a.head_dim), d(a.window),  a.causal,  a.backward, a.cache_write};
}

AttentionModel fit_attention(const AttentionModel& start, std::span<const AttentionSample> samples,
                             const SurfaceOptions& surface) {
  SIM_CHECK(!samples.empty(), "no samples");
  const auto cost = [&](const std::vector<double>& p) {
    const AttentionModel m = unpack(start, p);
    double sum = 0;
    for (const AttentionSample& s : samples)
      sum += robust_error(std::log(m.structure(model_shape(s.shape)) / s.seconds));
    return sum / static_cast<double>(samples.size());
  };
  const std::vector<double> first = pack(start);
  AttentionModel model = unpack(start, nelder_mead(cost, first, std::vector<double>(first.size(), 0.3), 2500));
  std::vector<SurfacePoint> points;
  for (const AttentionSample& s : samples) {
    const auto shape = model_shape(s.shape);
    points.push_back(
        {shape.queries, shape.batch * shape.heads, shape.head_dim, std::log(s.seconds / model.structure(shape))});
  }
  model.surface = fit_surface(surface, points);
  return model;
}

FitError attention_error(const AttentionModel& model, std::span<const AttentionSample> samples) {
  std::vector<double> relative;
  return errors_of(model, samples, relative);
}

FitError cross_validate_attention(const AttentionModel& start, std::span<const AttentionSample> samples,
                                  const SurfaceOptions& surface, int folds) {
  std::vector<double> relative;
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<AttentionSample> train, test;
    for (std::size_t i = 0; i < samples.size(); ++i) (fold_of(i, folds) == fold ? test : train).push_back(samples[i]);
    errors_of(fit_attention(start, train, surface), test, relative);
  }
  return summarise(std::move(relative));
}

}  // namespace orrery::calibration
