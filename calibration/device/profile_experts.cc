// DeviceProfile's answers for the products of experts, by the kernel that launches them.
//
// `grouped` deals the tiles of all experts out together (grouped_model.h). `loop` is a dense product for each expert.
// `streams` lies between the loop and the tiles of dense products dealt out together; a launch hides behind other
// streams' kernels but not behind its own stream's.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "calibration/device/expert_layer.h"
#include "calibration/device/profile.h"
#include "calibration/device/profile_model.h"
#include "sim/error.h"
#include "sim/real.h"

namespace orrery::calibration {
namespace {

using sim::real;

/// Seconds at the clocks of a long step, which the launch does not depend on.
Duration sustained(double launch, double isolated, double factor) {
  return sim::seconds(std::min(kLongestKernel, launch + std::max(0.0, isolated - launch) / factor));
}

/// TransformerEngine's nvte_multi_tensor_gemm: get_num_compute_streams() in common/util/multi_stream.cpp.
constexpr double kStreams = 4;

// Weight gradients run as if all their tiles were dealt out together. Where they are added to fp32 ones they expose as
// much of that as dense ones do, and reach what one kernel for all experts reaches of memory's rate: beside the others
// of SimuMax's tables (gemm_model.h) 24 on a B200 are then priced 5 % too high in the median and scatter by 12 % (20
// and 27 without), four on an A100 7 % (11).

/// Rows, columns and depth of an expert's product with so many tokens, in the form that the shape asks for.
Gemm member(const GroupedGemm& g, std::int64_t tokens) {
  Gemm out;
  out.dtype = g.dtype;
  out.form = g.form;
  out.accumulate = g.accumulate;
  out.sum = g.sum;
  switch (g.form) {
    case Gemm::Form::forward:
      out.m = tokens;
      out.n = g.out;
      out.k = g.in;
      break;
    case Gemm::Form::data_gradient:
      out.m = tokens;
      out.n = g.in;
      out.k = g.out;
      break;
    case Gemm::Form::weight_gradient:
      out.m = g.out;
      out.n = g.in;
      out.k = tokens;
      break;
  }
  return out;
}

struct Group {
  std::vector<GroupMember> members;  // equal neighbours together
  double busy = 0, tokens = 0;       // experts that have tokens, and theirs
};

Group group_of(const GroupedGemm& g) {
  Group out;
  std::int64_t before = 0;
  for (const std::int64_t tokens : g.tokens) {
    SIM_CHECK(tokens >= 0, "an expert with {} tokens", tokens);
    if (tokens == 0) continue;
    out.busy += 1;
    out.tokens += real(tokens);
    if (tokens == before) {
      out.members.back().count += 1;
      continue;
    }
    const Gemm one = member(g, tokens);
    out.members.push_back({real(one.m), real(one.n), real(one.k), 1});
    before = tokens;
  }
  return out;
}

}  // namespace

Duration DeviceProfile::grouped_gemm(const GroupedGemm& g) const {
  SIM_CHECK(g.out >= 1 && g.in >= 1, "experts of {} x {}", g.out, g.in);
  const auto type = static_cast<std::size_t>(g.dtype);
  const double factor = product_speed(g.dtype);
  const auto one_by_one = [&] {
    Duration sum{};
    for (const std::int64_t tokens : g.tokens)
      if (tokens > 0) sum = sum + gemm(member(g, tokens));
    return sum;
  };
  if (g.kernel == GroupedKernel::loop) return one_by_one();
  const Group group = group_of(g);
  if (group.busy == 0) return sim::seconds(model_->experts.products[type].launch);
  const double bytes = GroupedModel::result_bytes(g.accumulate, bytes_of(g.sum));
  // A weight gradient is corrected as the forward product of the same tokens is.
  const bool over_inputs = g.form == Gemm::Form::data_gradient;
  const double columns = real(over_inputs ? g.in : g.out), depth = real(over_inputs ? g.out : g.in);
  const double rows = group.tokens / group.busy;
  if (g.kernel == GroupedKernel::grouped) {
    const GroupedModel& model = model_->experts.products[type];
    return sustained(model.launch, model.seconds(group.members, rows, columns, depth, bytes), factor);
  }
  const GemmModel& dense = model_->gemm[type];
  GroupedModel streams = grouped_from(dense);
  if (g.accumulate) streams.memory_efficiency = model_->experts.products[type].memory_efficiency;
  const double together = streams.seconds(group.members, rows, columns, depth, bytes) *
                          dense.form_factor[static_cast<std::size_t>(g.form)] * dense.streams.together;
  const Duration pooled = std::max(sustained(dense.launch, together, factor),
                                   sim::seconds(dense.launch * std::ceil(group.busy / kStreams)));
  if (g.form == Gemm::Form::weight_gradient) return pooled;
  const Duration apart = one_by_one();
  if (apart <= pooled) return pooled;
  return pooled + sim::seconds((1 - dense.streams.hidden) * sim::to_seconds(apart - pooled));
}

Duration DeviceProfile::served_experts(const ExpertLayer& layer) const {
  const auto type = static_cast<std::size_t>(layer.dtype);
  const GroupedModel& products = model_->experts.products[type];
  const ExpertWork work(layer);
  const double isolated = work.seconds(products, model_->experts.around[type]);
  const double factor = product_speed(layer.dtype);
  return sustained(products.launch, isolated, factor);
}

double DeviceProfile::uncertainty(const GroupedGemm& g) const {
  const Group group = group_of(g);
  const double flops = 2 * group.tokens * real(g.out) * real(g.in);
  const double rows = group.busy > 0 ? group.tokens / group.busy : 1;
  return model_->error.grouped[static_cast<std::size_t>(g.dtype)].at(kByFlops.of(flops),
                                                                     {rows, real(g.out), real(g.in)});
}

}  // namespace orrery::calibration
