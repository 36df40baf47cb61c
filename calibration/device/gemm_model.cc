// The wave model of gemm_model.h.
#include "calibration/device/gemm_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sim/error.h"

namespace orrery::calibration {
namespace {

struct Bracket {
  std::size_t low = 0;
  double weight = 0;  // of the upper knot
};

Bracket bracket(const std::vector<double>& knots, double x) {
  const std::size_t last = knots.size() - 1;
  if (x <= knots.front() || last == 0) return {0, 0};
  if (x >= knots[last]) return {last - 1, 1};
  std::size_t low = 0;
  while (x > knots[low + 1]) ++low;
  return {low, (x - knots[low]) / (knots[low + 1] - knots[low])};
}

std::vector<double> logs(const std::vector<double>& sizes) {
  std::vector<double> out;
  out.reserve(sizes.size());
  for (double s : sizes) out.push_back(std::log(s));
  return out;
}

constexpr std::array<double, 4> kSplits{1, 2, 4, 8};

bool is_ragged(double rows) { return std::fmod(rows, kWholeRows) != 0; }

}  // namespace

void Surface::prepare() {
  log_m_ = logs(m);
  log_n_ = logs(n);
  log_k_ = logs(k);
}

void Surface::shares(const std::array<double, 3>& log_sizes, Share (&out)[8]) const {
  const Bracket bm = bracket(log_m_, log_sizes[0]), bn = bracket(log_n_, log_sizes[1]),
                bk = bracket(log_k_, log_sizes[2]);
  for (std::size_t corner = 0; corner < 8; ++corner) {
    const std::size_t up_m = corner & 1, up_n = (corner >> 1) & 1, up_k = corner >> 2;
    const std::size_t im = std::min(bm.low + up_m, m.size() - 1), in = std::min(bn.low + up_n, n.size() - 1),
                      ik = std::min(bk.low + up_k, k.size() - 1);
    out[corner].knot = (im * n.size() + in) * k.size() + ik;
    out[corner].weight =
        (up_m ? bm.weight : 1 - bm.weight) * (up_n ? bn.weight : 1 - bn.weight) * (up_k ? bk.weight : 1 - bk.weight);
  }
}

double Surface::at(double size_m, double size_n, double size_k) const {
  return value.empty() ? 0 : at_log({std::log(size_m), std::log(size_n), std::log(size_k)});
}

double Surface::at_log(const std::array<double, 3>& log_sizes) const {
  if (value.empty()) return 0;
  Share around[8];
  shares(log_sizes, around);
  double sum = 0;
  for (const Share& s : around) sum += s.weight * value[s.knot];
  return sum;
}

double GemmModel::traffic(const Shape& s) const {
  const double output = s.accumulate ? 2 * s.sum_bytes : written_bytes();
  return s.batch * (element_bytes * (s.m * s.k + s.k * s.n) + output * s.m * s.n);
}

double GemmModel::compute(const Shape& s) const {
  const double k = std::ceil(s.k / kInnerStep) * kInnerStep;
  const double m = row_step > 1 ? std::ceil(s.m / row_step) * row_step : s.m;
  const double rate = peak / processors;
  const double exposed =  // seconds per element of a processor's tile
      s.accumulate ? accumulate_exposed * (2 * s.sum_bytes - written_bytes()) * processors / memory_bandwidth : 0.0;
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& t : tiles) {
    const double outputs = s.batch * std::ceil(m / t.m) * std::ceil(s.n / t.n);
    const double loop = 2 * t.m * t.n * k / (t.rate * rate);
    for (double split : kSplits) {
      // Splitting pays only while processors idle; beyond one full wave it adds work.
      if (split > 1 && outputs * split > 2 * processors) break;
      const double share = outputs * split / processors;
      const double waves = quantisation * std::ceil(share) + (1 - quantisation) * std::max(share, 1.0);
      double time = waves * (loop / split + t.setup + exposed * t.m * t.n);
      if (split > 1) time += join_time + split * s.batch * s.m * s.n * 4 / (join_efficiency * memory_bandwidth);
      best = std::min(best, time);
    }
  }
  return best;
}

double GemmModel::structure(const Shape& s) const {
  const double c = compute(s);
  const double mem = traffic(s) / (memory_efficiency * memory_bandwidth);
  const double high = std::max(c, mem), ratio = std::min(c, mem) / high;
  const double square = ratio * ratio;
  double time = launch + high * std::sqrt(std::sqrt(1 + square * square));
  if (s.cast_input) time += cast.launch + cast.per_element * s.batch * s.m * s.k;
  return time;
}

double GemmModel::roofline(const Shape& s) const {
  return std::max(2 * s.m * s.n * s.k * s.batch / peak, traffic(s) / memory_bandwidth);
}

double GemmModel::correctable(const Shape& s, double structure_seconds) const {
  return 1 - (launch + (s.cast_input ? cast.launch : 0.0)) / structure_seconds;
}

double GemmModel::seconds(const Shape& s) const {
  const double time = structure(s);
  const std::array<double, 3> log_sizes{std::log(s.m), std::log(s.n), std::log(s.k)};
  double correction = surface.at_log(log_sizes) + detail.at_log(log_sizes);
  if (!ragged.value.empty() && is_ragged(s.m)) correction += ragged.at_log(log_sizes);
  if (const double form = form_factor[static_cast<std::size_t>(s.form)]; form != 1) correction += std::log(form);
  return std::max(time * std::exp(correctable(s, time) * correction), roofline(s));
}

}  // namespace orrery::calibration
