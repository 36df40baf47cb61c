// What products on several streams take over what the tiles of a device's dense products say, by least squares of the
// logarithms over what was measured of them. Structure and corrections of dense products are told together alone, and
// streams see the structure: without samples of their own they inherit whatever part of a product's time the fit put
// into the corrections.
#include <array>
#include <cmath>

#include "calibration/measure/fit.h"
#include "sim/real.h"

namespace orrery::calibration {
namespace {

using sim::real;

constexpr double kRidge = 0.02;                        // of each number towards what profiles without samples have
constexpr double kStreams = 4;                         // as in profile_experts.cc
constexpr int kTogetherSteps = 80, kHiddenSteps = 50;  // steps of the search

struct Parts {
  double pooled = 0, apart = 0, least = 0, seconds = 0;
  double predicted(const GemmModel::Streams& s) const {
    const double together = std::max(s.together * pooled, least);
    return apart <= together ? together : together + (1 - s.hidden) * (apart - together);
  }
};

Parts parts_of(const GemmModel& dense, const GroupedSample& sample) {
  const GroupedGemm& g = sample.shape;
  const double n = real(g.out), k = real(g.in);
  std::vector<GroupMember> members;
  Parts out;
  double rows = 0;
  for (const std::int64_t tokens : g.tokens) {
    if (tokens == 0) continue;
    members.push_back({real(tokens), n, k, 1});
    out.apart += dense.seconds({real(tokens), n, k});
    rows += real(tokens);
  }
  const double busy = real(std::ssize(members));
  if (busy > 0) out.pooled = grouped_from(dense).seconds(members, rows / busy, n, k);
  out.least = dense.launch * std::ceil(busy / kStreams);
  out.seconds = sample.seconds;
  return out;
}

}  // namespace

std::optional<GemmModel::Streams> fit_streams(const GemmModel& dense, std::span<const GroupedSample> samples,
                                              DataType type) {
  std::vector<Parts> all;
  for (const GroupedSample& s : samples)
    if (s.shape.dtype == type && s.shape.kernel == GroupedKernel::streams && s.shape.form == Gemm::Form::forward &&
        !s.shape.accumulate)
      all.push_back(parts_of(dense, s));
  if (all.size() < 2) return {};
  const GemmModel::Streams usual;
  GemmModel::Streams best = usual;
  double least = 1e300;
  for (int i = 0; i <= kTogetherSteps; ++i)
    for (int h = 0; h <= kHiddenSteps; ++h) {
      const GemmModel::Streams one{std::exp2(2.0 * i / kTogetherSteps - 1), static_cast<double>(h) / kHiddenSteps};
      double cost = kRidge * (std::pow(std::log(one.together), 2) + std::pow(one.hidden - usual.hidden, 2));
      for (const Parts& p : all) cost += std::pow(std::log(p.predicted(one) / p.seconds), 2);
      if (cost >= least) continue;
      least = cost;
      best = one;
    }
  return best;
}

}  // namespace orrery::calibration
