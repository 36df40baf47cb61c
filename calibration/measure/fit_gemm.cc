// Fit of the wave model: structure first, corrections over what it leaves.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "calibration/measure/cross_validation.h"
#include "calibration/measure/fit.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

/// What rates and set-up times of all tiles follow from.
struct TileLaw {
  double best = 0.9;           // share of peak that an endless tile would reach
  double a = 10, b = 10;       // elements; what a short side costs
  double fill = 5e-7;          // seconds per tile
  double per_element = 3e-11;  // seconds per output element
};

void set_tiles(const TileLaw& law, std::vector<Tile>& tiles) {
  for (Tile& t : tiles) {
    t.rate = std::min(1.0, law.best / (1 + law.a / t.m + law.b / t.n));
    t.setup = law.fill + law.per_element * t.m * t.n;
  }
}

/// Parameters are searched as logarithms, so that they stay positive, and clamped to what is physical.
std::vector<double> first_guess(const GemmModel& m, double quantisation) {
  const TileLaw law;
  std::vector<double> p;
  for (double x : {m.launch, quantisation, m.memory_efficiency, m.join_time, m.join_efficiency, law.best, law.a, law.b,
                   law.fill, law.per_element, m.cast.launch, m.cast.per_element})
    if (x > 0) p.push_back(std::log(x));
  return p;
}

GemmModel unpack_gemm(GemmModel m, const std::vector<double>& p) {
  std::size_t i = 0;
  const auto take = [&](double low, double high) { return std::clamp(std::exp(p[i++]), low, high); };
  m.launch = take(3e-7, 2e-5);
  m.quantisation = take(1e-3, 1);
  m.memory_efficiency = take(0.2, 0.98);
  m.join_time = take(1e-8, 2e-5);
  m.join_efficiency = take(0.1, 20);
  TileLaw law;
  law.best = take(0.05, 1);
  law.a = take(0.01, 300);
  law.b = take(0.01, 300);
  law.fill = take(1e-9, 2e-5);
  law.per_element = take(1e-15, 1e-9);
  set_tiles(law, m.tiles);
  if (m.cast.per_element > 0) {
    m.cast.launch = take(1e-6, 5e-5);
    m.cast.per_element = take(1e-15, 1e-10);
  }
  return m;
}

/// Tile shapes that libraries ship: powers of two, as older ones do, or all multiples of 64 that the accumulators of
/// one processor hold.
std::vector<Tile> tile_shapes(bool all_multiples) {
  std::vector<Tile> out;
  for (double m : {64., 128., 192., 256.})
    for (double n : {64., 128., 192., 256.}) {
      const bool other = m == 192 || n == 192;
      if (all_multiples ? m * n <= 192 * 192 : !other && m * n <= 128 * 256) out.push_back({m, n, 0.9, 1e-6});
    }
  return out;
}

struct StructureSamples {
  std::vector<GemmModel::Shape> shapes;
  std::vector<double> log_seconds;

  void errors(const GemmModel& m, std::vector<double>& out) const {
    out.resize(shapes.size());
    for (std::size_t i = 0; i < shapes.size(); ++i) out[i] = std::log(m.structure(shapes[i])) - log_seconds[i];
  }
};

/// Lets every tile's rate and set-up time leave the law, as far as samples ask for it: each of a tile's numbers counts
/// like a few samples that say it does not.
GemmModel loosen(const GemmModel& lawful, const StructureSamples& samples, int iterations) {
  constexpr double kTrust = 0.1;  // log error that leaving the law by a factor of e counts as
  const std::size_t tiles = lawful.tiles.size();
  const auto with = [&](const std::vector<double>& p) {
    GemmModel m = lawful;
    for (std::size_t t = 0; t < tiles; ++t) {
      m.tiles[t].rate = std::clamp(m.tiles[t].rate * std::exp(p[t]), 0.02, 1.0);
      m.tiles[t].setup = std::min(m.tiles[t].setup * std::exp(p[tiles + t]), 1e-4);
    }
    m.launch = std::clamp(m.launch * std::exp(p[2 * tiles]), 3e-7, 2e-5);
    m.quantisation = std::clamp(m.quantisation * std::exp(p[2 * tiles + 1]), 1e-3, 1.0);
    m.memory_efficiency = std::clamp(m.memory_efficiency * std::exp(p[2 * tiles + 2]), 0.2, 0.98);
    return m;
  };
  const LogErrors errors = [&](const std::vector<double>& p, std::vector<double>& out) {
    samples.errors(with(p), out);
    const auto copies = std::max<std::size_t>(1, samples.shapes.size() / 300);
    for (std::size_t c = 0; c < copies; ++c)
      for (double x : p) out.push_back(kTrust * x);
  };
  return with(levenberg_marquardt(errors, std::vector<double>(2 * tiles + 3, 0.0), iterations).parameters);
}

GemmModel fit_structure(const GemmModel& start, std::span<const GemmSample> all, const GemmFitOptions& options) {
  const std::size_t stride = std::max<std::size_t>(1, all.size() / options.search_samples);
  StructureSamples samples;
  for (std::size_t i = 0; i < all.size(); i += stride) {
    samples.shapes.push_back(model_shape(all[i].shape));
    samples.log_seconds.push_back(std::log(all[i].seconds));
  }
  GemmModel best;
  double least = 1e300;
  for (bool all_multiples : {false, true})
    for (double quantisation : {0.9, 0.3}) {  // strict and loose waves are valleys apart
      GemmModel from = start;
      from.tiles = tile_shapes(all_multiples);
      const LogErrors errors = [&](const std::vector<double>& p, std::vector<double>& out) {
        samples.errors(unpack_gemm(from, p), out);
      };
      const LogFit fit = levenberg_marquardt(errors, first_guess(from, quantisation), options.iterations);
      if (fit.cost < least) {
        least = fit.cost;
        best = unpack_gemm(from, fit.parameters);
      }
    }
  return loosen(best, samples, options.iterations);
}

/// Median of what the corrections leave, for each form that has samples of its own.
void fit_forms(GemmModel& model, std::span<const GemmSample> samples) {
  std::array<std::vector<double>, kGemmForms> left;
  for (const GemmSample& g : samples) {
    const auto shape = model_shape(g.shape);
    left[static_cast<std::size_t>(g.shape.form)].push_back(std::log(g.seconds / model.seconds(shape)));
  }
  for (std::size_t f = 0; f < kGemmForms; ++f)
    if (f > 0 && left[f].size() >= 10 && !left[0].empty()) {
      const double factor = std::exp(quantile(left[f], 0.5) - quantile(left[0], 0.5));
      model.form_factor[f] = std::clamp(factor, 0.5, 2.0);
    }
}

Judged judged_gemm(const GemmModel& model, const GemmSample& s) {
  return {model.seconds(model_shape(s.shape)) / s.seconds - 1, kByFlops.of(flops_of(s.shape))};
}

std::vector<double> between(const std::vector<double>& knots, double low, double high) {
  std::vector<double> out;
  for (double k : knots)
    if (k >= low && k <= high) out.push_back(k);
  if (out.empty()) out.push_back(low);
  return out;
}

/// Every second knot, keeping the ends.
std::vector<double> thinned(const std::vector<double>& knots) {
  std::vector<double> out;
  for (std::size_t i = 0; i < knots.size(); i += 2) out.push_back(knots[i]);
  if (out.back() != knots.back()) out.push_back(knots.back());
  return out;
}

}  // namespace

GemmModel::Shape model_shape(const Gemm& g) {
  return {static_cast<double>(g.m),
          static_cast<double>(g.n),
          static_cast<double>(g.k),
          static_cast<double>(g.batch),
          g.accumulate,
          g.cast_input,
          g.form,
          static_cast<double>(bytes_of(g.sum))};
}

Sizes sizes_of(const Gemm& g) { return {static_cast<double>(g.m), static_cast<double>(g.n), static_cast<double>(g.k)}; }

double flops_of(const Gemm& g) {
  return 2 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) *
         static_cast<double>(g.batch);
}

GemmModel gemm_start(double peak, double processors, double memory_bandwidth, DataType type) {
  GemmModel g;
  g.peak = peak;
  g.processors = processors;
  g.memory_bandwidth = memory_bandwidth;
  g.element_bytes = operand_bytes(type);
  g.memory_efficiency = 0.7;
  g.join_time = 3e-6;
  g.join_efficiency = 2;
  g.tiles = tile_shapes(false);
  set_tiles(TileLaw{}, g.tiles);
  return g;
}

GemmFitOptions gemm_options(std::span<const GemmSample> samples) {
  std::set<double> m, n, k;
  for (const auto& s : samples) {
    const Sizes sizes = sizes_of(s.shape);
    m.insert(sizes[0]);
    n.insert(sizes[1]);
    k.insert(sizes[2]);
  }
  SIM_CHECK(!m.empty(), "no samples");
  const std::vector<double> knots{16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536};
  GemmFitOptions out;
  out.surface.m = between({16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 32768}, *m.begin(), *m.rbegin());
  out.surface.n = between(knots, *n.begin(), *n.rbegin());
  out.surface.k = between(knots, *k.begin(), *k.rbegin());
  out.surface.smoothness = 0.2;
  out.surface.flatness = 0.02;
  out.surface.largest_fall = 0.09;
  out.surface.largest_fall_k = 0.3;
  const auto surface_knots = [&] { return out.surface.m.size() * out.surface.n.size() * out.surface.k.size(); };
  while (surface_knots() > std::max<std::size_t>(8, samples.size() / 4))
    for (auto* axis : {&out.surface.m, &out.surface.n, &out.surface.k}) *axis = thinned(*axis);
  // Libraries choose tiles by the sizes of the output, so its correction has a knot at each of these. Along k a choice
  // holds over long stretches.
  const std::vector<double> detail_k = between({768, 4096, 16384}, *k.begin(), *k.rbegin());
  if (m.size() * n.size() * detail_k.size() * 3 > samples.size()) return out;
  out.detail.m.assign(m.begin(), m.end());
  out.detail.n.assign(n.begin(), n.end());
  out.detail.k = detail_k;
  out.detail.smoothness = 0;
  out.detail.shrinkage = 0.3;
  out.detail.flatness_k = 0.5;
  out.detail.largest_fall = 0.09;
  out.detail.largest_fall_k = 0.3;
  return out;
}

GemmModel fit_gemm(const GemmModel& begin, std::span<const GemmSample> samples, const GemmFitOptions& options) {
  SIM_CHECK(!samples.empty(), "no samples");
  GemmModel start = begin;
  const bool casts = std::any_of(samples.begin(), samples.end(), [](const auto& s) { return s.shape.cast_input; });
  start.cast.launch = casts ? 1e-5 : 0;
  start.cast.per_element = casts ? 2e-12 : 0;
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
  // Each correction is fitted to what the other leaves; twice is enough for both to settle.
  for (int round = 0; round < 2 && !options.detail.m.empty(); ++round) {
    for (std::size_t i = 0; i < points.size(); ++i)
      points[i].log_error = left[i] - points[i].share * model.surface.at(points[i].m, points[i].n, points[i].k);
    model.detail = fit_surface(options.detail, points);
    for (std::size_t i = 0; i < points.size(); ++i)
      points[i].log_error = left[i] - points[i].share * model.detail.at(points[i].m, points[i].n, points[i].k);
    model.surface = fit_surface(options.surface, points);
  }
  fit_forms(model, samples);
  return model;
}

namespace {

std::vector<GemmSample> ragged_of(std::span<const GemmSample> samples) {
  std::vector<GemmSample> out;
  for (const GemmSample& s : samples)
    if (std::fmod(static_cast<double>(s.shape.m), kWholeRows) != 0) out.push_back(s);
  return out;
}

SurfaceOptions ragged_options(std::span<const GemmSample> samples) {
  constexpr double kApart = 1.05;  // nearer sizes share a knot
  std::set<double> m, n;
  for (const GemmSample& s : samples) {
    m.insert(static_cast<double>(s.shape.m));
    n.insert(static_cast<double>(s.shape.n));
  }
  SurfaceOptions out;
  for (const double size : m)
    if (out.m.empty() || size > kApart * out.m.back()) out.m.push_back(size);
  out.n.assign(n.begin(), n.end());
  out.k = {256, 1024, 4096, 16384};
  if (3 * out.m.size() * out.n.size() * out.k.size() > samples.size()) {
    out.m = thinned(out.m);
    out.n = thinned(out.n);
    out.k = {1024, 8192};
  }
  out.smoothness = 0;
  out.shrinkage = 0.3;
  out.flatness_k = 0.3;
  out.largest_fall = 0.09;
  out.largest_fall_k = 0.3;
  return out;
}

}  // namespace

GemmModel fit_ragged(const GemmModel& whole, std::span<const GemmSample> all) {
  constexpr std::size_t kFewest = 100;
  const std::vector<GemmSample> samples = ragged_of(all);
  if (samples.size() < kFewest) return whole;
  GemmModel best = whole;
  double least = 1e300;
  for (const double step : {1., 16., 32., 64., 128.}) {
    GemmModel model = whole;
    model.row_step = step;
    model.ragged = {};
    double cost = 0;
    for (const GemmSample& s : samples) cost += robust_error(std::log(model.seconds(model_shape(s.shape)) / s.seconds));
    if (cost >= least) continue;
    least = cost;
    best = std::move(model);
  }
  std::vector<SurfacePoint> points;
  for (const GemmSample& s : samples) {
    const GemmModel::Shape shape = model_shape(s.shape);
    points.push_back({shape.m, shape.n, shape.k, std::log(s.seconds / best.seconds(shape)),
                      best.correctable(shape, best.structure(shape))});
  }
  best.ragged = fit_surface(ragged_options(samples), points);
  return best;
}

FitQuality judge_ragged(const GemmModel& whole, std::span<const GemmSample> all, int folds) {
  const std::vector<GemmSample> samples = ragged_of(all);
  return cross_validate(
      std::span<const GemmSample>(samples), folds, [&](const auto& train) { return fit_ragged(whole, train); },
      [](const GemmModel& model, const GemmSample& s) { return judged_gemm(model, s); },
      [](const GemmSample& s) { return sizes_of(s.shape); });
}

FitError gemm_error(const GemmModel& model, std::span<const GemmSample> samples) {
  std::vector<double> relative;
  for (const GemmSample& s : samples) relative.push_back(judged_gemm(model, s).relative);
  return summarise(std::move(relative));
}

FitQuality judge_gemm(const GemmModel& start, std::span<const GemmSample> samples, const GemmFitOptions& options,
                      int folds) {
  FitQuality out = cross_validate(
      samples, folds, [&](const auto& train) { return fit_gemm(start, train, options); },
      [](const GemmModel& model, const GemmSample& s) { return judged_gemm(model, s); },
      [](const GemmSample& s) { return sizes_of(s.shape); });
  std::vector<double> flops;
  for (const auto& s : samples) flops.push_back(flops_of(s.shape));
  const double limit = quantile(flops, 0.9);
  std::vector<GemmSample> train, test;
  for (const auto& s : samples) (flops_of(s.shape) < limit ? train : test).push_back(s);
  if (!train.empty()) out.beyond = gemm_error(fit_gemm(start, train, options), test);
  return out;
}

}  // namespace orrery::calibration
