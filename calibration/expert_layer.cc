// The time of expert_layer.h.
#include "calibration/expert_layer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "calibration/routing.h"
#include "sim/error.h"
#include "sim/real.h"

namespace orrery::calibration {
namespace {

constexpr double kSixteenBits = 2;
constexpr std::uint64_t kDraws = 4;  // measurements average five; more change no time by as much as these scatter

using sim::real;

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
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    std::map<std::int64_t, double> experts_with;
    for (const std::int64_t tokens : tokens_of_experts({l.tokens, l.top_k, l.experts, l.expert_ranks, l.alpha}, draw))
      if (tokens > 0) experts_with[tokens] += 1;
    std::vector<Load>& loads = draws_.emplace_back();
    for (const auto& [tokens, count] : experts_with) {
      loads.push_back({real(tokens), count});
      assigned_ += real(tokens) * count / real(static_cast<std::int64_t>(draws));
      busy += count / real(static_cast<std::int64_t>(draws));
    }
  }
  if (busy > 0) rows_ = assigned_ / busy;
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
  const auto share = 1.0 / real(static_cast<std::int64_t>(draws_.size()));
  std::vector<GroupMember> group;
  const auto product = [&](const std::vector<Load>& loads, double columns, double depth) {
    group.clear();
    for (const Load& l : loads) group.push_back({l.tokens, columns, depth, l.experts});
    return products.structure(group) - products.launch;
  };
  for (const std::vector<Load>& loads : draws_) {
    out.first += share * product(loads, first_out_, hidden_);
    out.second += share * product(loads, hidden_, ffn_);
  }
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
