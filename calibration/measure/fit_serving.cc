// The fit of fit_serving.h.
#include "calibration/measure/fit_serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "sim/error.h"

namespace orrery::calibration {
namespace {

constexpr std::size_t kStructureSamples = 2000;
constexpr double kBend = 0.1, kSlope = 0.02, kShrink = 0.01;  // in samples at a knot
constexpr double kLargest = 4;
constexpr double kKneeOfWeights = 0.03;
constexpr int kReweighted = 6, kSteps = 200;

std::vector<double> clamped(const ServingFamily& family, const std::vector<double>& logs) {
  std::vector<double> out;
  for (std::size_t i = 0; i < logs.size(); ++i)
    out.push_back(std::clamp(std::exp(logs[i]), family.parameters[i].low, family.parameters[i].high));
  return out;
}

std::vector<double> fit_serving_parameters(const ServingFamily& family, const ServingFacts& facts,
                                           std::span<const ServingSample> samples) {
  std::vector<const ServingSample*> some;
  const std::size_t stride = std::max<std::size_t>(1, samples.size() / kStructureSamples);
  for (std::size_t i = 0; i < samples.size(); i += stride) some.push_back(&samples[i]);
  const LogErrors errors = [&](const std::vector<double>& p, std::vector<double>& out) {
    const std::vector<double> own = clamped(family, p);
    out.clear();
    for (const ServingSample* s : some)
      out.push_back(std::log(family.structure(facts, own, s->asked.work) / s->seconds));
  };
  std::vector<double> start;
  for (const ServingFamily::Parameter& p : family.parameters) start.push_back(std::log(p.start));
  return clamped(family, levenberg_marquardt(errors, start, 60).parameters);
}

/// Knots that enclose the samples' sizes; axes of one knot go.
std::vector<Correction::Grid> enclosing(const ServingFamily& family, std::span<const ServingSample> samples) {
  Correction::Sizes low, high;
  low.fill(1e300);
  high.fill(0);
  for (const ServingSample& s : samples) {
    const Correction::Sizes sizes = family.sizes(s.asked.work);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      low[i] = std::min(low[i], sizes[i]);
      high[i] = std::max(high[i], sizes[i]);
    }
  }
  std::vector<Correction::Grid> out;
  for (const std::vector<Correction::Axis>& axes : family.grids) {
    Correction::Grid grid;
    for (Correction::Axis axis : axes) {
      std::vector<double>& knots = axis.knots;
      while (knots.size() > 1 && knots[knots.size() - 2] >= high[axis.size]) knots.pop_back();
      while (knots.size() > 1 && knots[1] <= low[axis.size]) knots.erase(knots.begin());
      if (knots.size() > 1) grid.axes.push_back(axis);
    }
    if (grid.axes.empty()) continue;
    grid.value.assign(grid.knots(), 0);
    out.push_back(grid);
  }
  return out;
}

struct CorrectionPoint {
  std::vector<Correction::Share> around;  // knots of all grids, one after the other
  double error = 0;
};

/// The normal equations of weighted points and bends, never written out: their product with a vector.
class Equations {
 public:
  Equations(const std::vector<Correction::Grid>& grids, std::span<const CorrectionPoint> points)
      : grids_(grids), points_(points), weights_(points.size(), 1) {
    for (const Correction::Grid& grid : grids) size_ += grid.knots();
  }

  std::size_t size() const { return size_; }
  void reweight(const std::vector<double>& value) {
    for (std::size_t i = 0; i < points_.size(); ++i)
      weights_[i] = kKneeOfWeights / std::max(kKneeOfWeights, std::abs(points_[i].error - predicted(i, value)));
  }
  std::vector<double> right() const {
    std::vector<double> out(size_, 0);
    for (std::size_t i = 0; i < points_.size(); ++i) spread(i, weights_[i] * points_[i].error, out);
    return out;
  }
  std::vector<double> times(const std::vector<double>& x) const {
    std::vector<double> out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = kShrink * x[i];
    for (std::size_t i = 0; i < points_.size(); ++i) spread(i, weights_[i] * predicted(i, x), out);
    std::size_t first = 0;
    for (const Correction::Grid& grid : grids_) {
      add_bends(grid, first, x, out);
      first += grid.knots();
    }
    return out;
  }

 private:
  static void add_bends(const Correction::Grid& grid, std::size_t first, const std::vector<double>& x,
                        std::vector<double>& out) {
    std::size_t stride = 1;
    for (std::size_t a = grid.axes.size(); a-- > 0;) {
      const std::size_t n = grid.axes[a].knots.size();
      for (std::size_t k = 0; k < grid.knots(); ++k) {
        const std::size_t at = k / stride % n, i = first + k;
        if (at + 1 < n) {
          const double d = kSlope * (x[i + stride] - x[i]);
          out[i + stride] += d;
          out[i] -= d;
        }
        if (at == 0 || at + 1 >= n) continue;
        const double d = kBend * (x[i - stride] - 2 * x[i] + x[i + stride]);
        out[i - stride] += d;
        out[i] -= 2 * d;
        out[i + stride] += d;
      }
      stride *= n;
    }
  }
  double predicted(std::size_t i, const std::vector<double>& x) const {
    double sum = 0;
    for (const Correction::Share& s : points_[i].around) sum += s.weight * x[s.knot];
    return sum;
  }
  void spread(std::size_t i, double value, std::vector<double>& out) const {
    for (const Correction::Share& s : points_[i].around) out[s.knot] += s.weight * value;
  }
  const std::vector<Correction::Grid>& grids_;
  std::span<const CorrectionPoint> points_;
  std::vector<double> weights_;
  std::size_t size_ = 0;
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Hestenes and Stiefel, Methods of conjugate gradients (1952), from where `x` stands.
void conjugate_gradients(const Equations& e, std::vector<double>& x) {
  std::vector<double> r = e.right();
  const double whole = dot(r, r);
  const std::vector<double> first = e.times(x);
  for (std::size_t i = 0; i < r.size(); ++i) r[i] -= first[i];
  std::vector<double> p = r;
  double square = dot(r, r);
  for (int step = 0; step < kSteps && square > 1e-10 * whole; ++step) {
    const std::vector<double> q = e.times(p);
    const double alpha = square / dot(p, q);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] += alpha * p[i];
      r[i] -= alpha * q[i];
    }
    const double next = dot(r, r);
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = r[i] + next / square * p[i];
    square = next;
  }
}

void fit_correction(ServingKernel& kernel, const ServingFacts& facts, std::span<const ServingSample> samples) {
  std::vector<Correction::Grid> grids = enclosing(*kernel.family, samples);
  std::vector<CorrectionPoint> points(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Work& work = samples[i].asked.work;
    const Correction::Sizes sizes = kernel.family->sizes(work);
    points[i].error = std::log(samples[i].seconds / kernel.family->structure(facts, kernel.parameters, work));
    std::size_t first = 0;
    for (const Correction::Grid& grid : grids) {
      Correction::Corners around;
      const std::size_t count = Correction::shares(grid, sizes, around);
      for (std::size_t c = 0; c < count; ++c) points[i].around.push_back({first + around[c].knot, around[c].weight});
      first += grid.knots();
    }
  }
  Equations equations(grids, points);
  std::vector<double> value(equations.size(), 0);
  for (int round = 0; round < kReweighted; ++round) {
    if (round > 0) equations.reweight(value);
    conjugate_gradients(equations, value);
  }
  std::size_t first = 0;
  for (Correction::Grid& grid : grids)
    for (double& v : grid.value) v = std::clamp(value[first++], -kLargest, kLargest);
  kernel.correction.grids = std::move(grids);
}

}  // namespace

bool held_out(const ServingSample& sample) { return sample.shape % 1000 < 300; }

ServingKernel fit_serving_kernel(const ServingFamily& family, const ServingFacts& facts,
                                 std::span<const ServingSample> samples) {
  SIM_CHECK(!samples.empty(), "no samples");
  ServingKernel out{&family, fit_serving_parameters(family, facts, samples), {}};
  fit_correction(out, facts, samples);
  return out;
}

FitError serving_error(const ServingKernel& kernel, const ServingFacts& facts, std::span<const ServingSample> samples) {
  std::vector<double> relative;
  for (const ServingSample& s : samples) relative.push_back(kernel.seconds(facts, s.asked.work) / s.seconds - 1);
  return summarise(std::move(relative));
}

FittedServingKernel fit_and_judge(const ServingFamily& family, const ServingFacts& facts,
                                  std::span<const ServingSample> samples) {
  std::vector<ServingSample> seen, unseen;
  for (const ServingSample& s : samples) (held_out(s) ? unseen : seen).push_back(s);
  FittedServingKernel out{fit_serving_kernel(family, facts, samples), {}};
  out.error.all = serving_error(out.kernel, facts, samples);
  if (!seen.empty()) out.error.held_out = serving_error(fit_serving_kernel(family, facts, seen), facts, unseen);
  return out;
}

FittedServing fit_serving(const ServingFacts& facts, std::span<const ServingSample> samples) {
  std::map<std::tuple<Engine, std::size_t, std::size_t>, std::vector<ServingSample>> kinds;
  for (const ServingSample& s : samples) kinds[{s.engine, s.asked.family, s.asked.variant}].push_back(s);
  FittedServing out;
  out.yaml =
      "engines:  # structures: calibration/device/serving_families.h; error: of all shapes, and of three tenths held "
      "out\n";
  std::string engine_before, family_before;
  for (const auto& [kind, all] : kinds) {
    const auto& [engine, f, variant] = kind;
    const ServingFamily& family = *serving_families()[f];
    const auto [kernel, error] = fit_and_judge(family, facts, all);
    if (name_of(engine) != engine_before) {
      engine_before = name_of(engine);
      family_before.clear();
      out.yaml += fmt::format("  {}:\n", engine_before);
    }
    if (family.name != family_before) {
      family_before = family.name;
      out.yaml += fmt::format("    {}:\n", family_before);
    }
    out.yaml += fmt::format("      {}:\n", family.variants[variant]);
    out.yaml += to_yaml(kernel, error, "", 8);
    const FitError bare = serving_error({&family, kernel.parameters, {}}, facts, all);
    std::size_t knots = 0;
    for (const Correction::Grid& grid : kernel.correction.grids) knots += grid.value.size();
    out.summary += fmt::format(
        "{:7} {:20} {:14} {:6} samples {:6.2f} / {:6.2f} %, held out {:6.2f} / {:6.2f} %, structure {:6.2f} / {:6.2f}, "
        "{} knots\n",
        engine_before, family.name, family.variants[variant], error.all.samples, error.all.median_ape,
        error.all.p90_ape, error.held_out.median_ape, error.held_out.p90_ape, bare.median_ape, bare.p90_ape, knots);
  }
  return out;
}

}  // namespace orrery::calibration
