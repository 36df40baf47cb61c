// The time of expert_layer.h.
#include "calibration/device/expert_layer.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"
#include "sim/real.h"

namespace orrery::calibration {
namespace {

constexpr double kSixteenBits = 2;
/// A measurement is the mean of five draws that nobody can know; so few of its own would scatter as much again.
constexpr std::uint64_t kDraws = 32;

using sim::real;

/// The last power of two of the tokens, as far as the tuner goes: MoERunner.tuning_config.
std::int64_t timed_tokens(std::int64_t tokens) {
  constexpr std::int64_t kMost = 8192;
  std::int64_t out = 1;
  while (2 * out <= std::min(tokens, kMost)) out *= 2;
  return out;
}

}  // namespace

ExpertWork::ExpertWork(const ExpertLayer& l)
    : tokens_(real(l.tokens)),
      top_k_(real(l.top_k)),
      experts_(real(l.experts)),
      local_(real(l.experts / l.expert_ranks)),
      hidden_(real(l.hidden)),
      ffn_(real(l.ffn / l.tensor)),
      first_out_(ffn_ * (l.gated ? 2 : 1)) {
  SIM_CHECK(l.ffn >= l.tensor && l.tensor >= 1, "experts {} wide in {} parts", l.ffn, l.tensor);
  double busy = 0;
  const std::uint64_t draws = l.alpha > 0 ? kDraws : 1;
  const double each = 1 / real(static_cast<std::int64_t>(draws));
  const Routing routing{l.tokens, l.top_k, l.experts, l.expert_ranks, l.alpha, l.beyond};
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    std::vector<double> rows;
    for (const std::int64_t tokens : tokens_of_experts(routing, draw)) {
      rows.push_back(real(tokens));
      assigned_ += real(tokens) * each;
      if (tokens > 0) busy += each;
    }
    group_.add_draw(rows, 1);
  }
  if (busy > 0) rows_ = assigned_ / busy;
  if (l.dtype == DataType::fp8_blockwise) {
    timed_ = group_;
    return;
  }
  const std::vector<double> chance = tokens_by_chance(timed_tokens(l.tokens), top_k_ / experts_);
  timed_.add_draw(chance, local_ / real(static_cast<std::int64_t>(chance.size())));
}

double ExpertWork::around(const GroupedModel& products, const ServedExperts& s) const {
  const double gathered = assigned_ * hidden_ * (kSixteenBits + products.element_bytes);
  const double activated = assigned_ * (first_out_ * kSixteenBits + ffn_ * products.element_bytes);
  const double returned = (assigned_ + tokens_) * hidden_ * kSixteenBits;
  const double sort = sorts_at_once(tokens_, top_k_) ? 0 : s.sort;
  const double choose = chooses_fused() ? 0 : s.unfused + s.unfused_token * tokens_;
  return s.fixed + sort + choose + s.choice * tokens_ * top_k_ + s.score * tokens_ * experts_ + s.expert * local_ +
         (gathered / s.gather + activated / s.activate + returned / s.scatter) / products.memory_bandwidth;
}

ExpertWork::Parts ExpertWork::parts(const GroupedModel& products, const ServedExperts& s) const {
  Parts out;
  out.first = products.served(group_, timed_, first_out_, hidden_) - products.launch;
  out.second = products.served(group_, timed_, hidden_, ffn_) - products.launch;
  out.around = around(products, s) + 2 * products.launch;
  out.total = out.first + out.second + out.around;
  return out;
}

double ExpertWork::seconds(const GroupedModel& products, const ServedExperts& s) const {
  const Parts p = parts(products, s);
  const auto corrected = [&](double time, const std::array<double, 3>& at) {
    const double fastest = 2 * assigned_ * at[1] * at[2] / (products.best_rate * products.peak);
    return std::max(time * std::exp(products.surface.at(at[0], at[1], at[2])), fastest);
  };
  return p.around + corrected(p.first, first_sizes()) + corrected(p.second, second_sizes());
}

double ExpertWork::flops() const { return 2 * assigned_ * hidden_ * (first_out_ + ffn_); }

}  // namespace orrery::calibration
