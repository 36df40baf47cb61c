// Fit of the attention model: structure by Nelder-Mead, surface over what it leaves; the backward pass by one ratio.
#include <algorithm>
#include <cmath>

#include "calibration/measure/cross_validation.h"
#include "calibration/measure/fit.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

std::vector<double> pack_attention(const AttentionModel& a) {
  std::vector<double> p;
  for (double x : {a.rate_64, a.rate_128, a.setup, a.quantisation, a.memory_efficiency, a.cache.launch,
                   a.cache.launch > 0 ? a.cache.efficiency : 0.0})
    if (x > 0) p.push_back(std::log(x));
  return p;
}

AttentionModel unpack_attention(AttentionModel a, const std::vector<double>& p) {
  std::size_t i = 0;
  const auto take = [&](double low, double high) { return std::clamp(std::exp(p[i++]), low, high); };
  a.rate_64 = take(0.05, 1);
  a.rate_128 = take(0.05, 1);
  a.setup = take(1e-8, 1e-4);
  a.quantisation = take(1e-3, 1);
  a.memory_efficiency = take(0.2, 0.95);
  if (a.cache.launch > 0) {
    a.cache.launch = take(1e-8, 1e-4);
    a.cache.efficiency = take(0.02, 2);
  }
  return a;
}

Judged judged_attention(const AttentionModel& model, const AttentionSample& s) {
  return {model.seconds(model_shape(s.shape)) / s.seconds - 1, kByFlops.of(flops_of(s.shape))};
}

/// The rate of the backward pass over that of the forward pass with the least error.
double fit_backward(AttentionModel model, std::span<const AttentionSample> backward) {
  const auto with = [&](const std::vector<double>& p) {
    model.backward_ratio = std::clamp(std::exp(p[0]), 0.2, 1.0);
    return model;
  };
  const LogErrors errors = [&](const std::vector<double>& p, std::vector<double>& out) {
    const AttentionModel m = with(p);
    out.clear();
    for (const AttentionSample& s : backward) out.push_back(std::log(m.seconds(model_shape(s.shape)) / s.seconds));
  };
  return with(levenberg_marquardt(errors, {std::log(0.7)}, 40).parameters).backward_ratio;
}

std::vector<AttentionSample> of_pass(std::span<const AttentionSample> samples, bool backward) {
  std::vector<AttentionSample> out;
  for (const AttentionSample& s : samples)
    if (s.shape.backward == backward) out.push_back(s);
  return out;
}

}  // namespace

Sizes sizes_of(const Attention& a) {
  return {static_cast<double>(a.queries), static_cast<double>(a.batch) * static_cast<double>(a.heads),
          static_cast<double>(a.head_dim)};
}

double flops_of(const Attention& a) {
  const auto shape = model_shape(a);
  return 4 * shape.batch * shape.heads * shape.head_dim * AttentionModel::pairs(shape) * (a.backward ? 2.5 : 1.0);
}

SurfaceOptions attention_options(std::span<const AttentionSample> samples) {
  bool has_64 = false;
  std::int64_t widest = 0;
  for (const auto& s : samples) {
    has_64 = has_64 || s.shape.head_dim <= 64;
    widest = std::max(widest, s.shape.head_dim);
  }
  SurfaceOptions out;
  out.m = {512, 1024, 2048, 4096, 8192, 16384};
  out.n = {4, 16, 64, 256, 1024};
  out.k = has_64 ? std::vector<double>{64, 128} : std::vector<double>{128};
  // Wider heads fit in fewer of a processor's registers, and libraries have kernels of their own for them: of a GB200's
  // samples that no fit has seen 8.0 % at the ninetieth percentile, 10.6 with two knots.
  for (const std::int64_t wide : {256, 512})
    if (widest >= wide) out.k.push_back(static_cast<double>(wide));
  if (samples.size() < 4 * out.m.size() * out.n.size() * out.k.size()) {
    out.m = {512, 4096, 16384};
    out.n = {4, 64, 1024};
    out.smoothness = 1;
    out.shrinkage = 0.3;
  }
  return out;
}

AttentionModel::Shape model_shape(const Attention& a) {
  const auto d = [](std::int64_t x) { return static_cast<double>(x); };
  return {d(a.batch),    d(a.queries), d(a.keys), d(a.heads), d(a.kv_heads),
          d(a.head_dim), d(a.window),  a.causal,  a.backward, a.cache_write};
}

AttentionModel fit_attention(const AttentionModel& begin, std::span<const AttentionSample> all,
                             const SurfaceOptions& surface) {
  const std::vector<AttentionSample> samples = of_pass(all, false), backward = of_pass(all, true);
  SIM_CHECK(!samples.empty(), "no samples of the forward pass");
  AttentionModel start = begin;
  const bool caches = std::any_of(samples.begin(), samples.end(), [](const auto& s) { return s.shape.cache_write; });
  start.cache.launch = caches ? 1e-5 : 0;
  const auto cost = [&](const std::vector<double>& p) {
    const AttentionModel m = unpack_attention(start, p);
    double sum = 0;
    for (const AttentionSample& s : samples)
      sum += robust_error(std::log(m.structure(model_shape(s.shape)) / s.seconds));
    return sum / static_cast<double>(samples.size());
  };
  const std::vector<double> first = pack_attention(start);
  AttentionModel model =
      unpack_attention(start, nelder_mead(cost, first, std::vector<double>(first.size(), 0.3), 2500));
  std::vector<SurfacePoint> points;
  for (const AttentionSample& s : samples) {
    const auto shape = model_shape(s.shape);
    points.push_back(
        {shape.queries, shape.batch * shape.heads, shape.head_dim, std::log(s.seconds / model.structure(shape))});
  }
  model.surface = fit_surface(surface, points);
  if (!backward.empty()) model.backward_ratio = fit_backward(model, backward);
  return model;
}

FitError attention_error(const AttentionModel& model, std::span<const AttentionSample> samples) {
  std::vector<double> relative;
  for (const AttentionSample& s : samples) relative.push_back(judged_attention(model, s).relative);
  return summarise(std::move(relative));
}

FitQuality judge_attention(const AttentionModel& start, std::span<const AttentionSample> all,
                           const SurfaceOptions& surface, int folds) {
  const std::vector<AttentionSample> samples = of_pass(all, false);
  return cross_validate(
      std::span<const AttentionSample>(samples), folds,
      [&](const auto& train) { return fit_attention(start, train, surface); },
      [](const AttentionModel& model, const AttentionSample& s) { return judged_attention(model, s); },
      [](const AttentionSample& s) { return sizes_of(s.shape); });
}

}  // namespace orrery::calibration
