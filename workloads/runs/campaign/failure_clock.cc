// The superposed process.
#include "workloads/runs/campaign/failure_clock.h"

#include <algorithm>
#include <cmath>

namespace orrery::campaign {

FailureClock::FailureClock(const Plan& plan, std::uint64_t seed) : hazards_(plan.hazards), random_(seed, 0) {
  for (std::size_t i = 0; i < hazards_.size(); ++i) {
    rate_ += hazards_[i].rate;
    cumulated_.push_back(rate_);
    if (hazards_[i].components > 0) {
      ageing_.push_back({i, Random(seed, i + 1), {}});
      draw_weibull(ageing_.size() - 1, {});
    }
  }
  draw_exponential({});
  choose();
}

void FailureClock::take() {
  const Strike taken = next_;
  if (taken.at == exponential_.at && taken.cause == exponential_.cause) {
    draw_exponential(taken.at);
  } else {
    for (std::size_t i = 0; i < ageing_.size(); ++i) {
      if (ageing_[i].cause == taken.cause) draw_weibull(i, taken.at);
    }
  }
  choose();
}

void FailureClock::shelter(Elapsed from, Elapsed until) {
  if (exponential_.at != kNoTime) exponential_.at += until - from;
  for (Ageing& ageing : ageing_) ageing.at = std::max(ageing.at, until);
  choose();
}

void FailureClock::draw_exponential(Elapsed after) {
  exponential_ = {};
  if (!(rate_ > 0)) return;
  const double wait = random_.exponential() / rate_, which = random_.uniform() * rate_;
  exponential_.at = std::min(kNoTime, after + elapsed(std::min(wait, 1e13)));
  const auto cause = std::upper_bound(cumulated_.begin(), cumulated_.end(), which);
  exponential_.cause = static_cast<std::size_t>(std::min(cause, cumulated_.end() - 1) - cumulated_.begin());
}

void FailureClock::draw_weibull(std::size_t which, Elapsed after) {
  Ageing& ageing = ageing_[which];
  const Hazard& hazard = hazards_[ageing.cause];
  const double age = (hazard.age_s + to_seconds(after)) / hazard.theta_s;
  const double hazard_until = std::pow(age, hazard.shape) + ageing.random.exponential() / hazard.components;
  const double at = hazard.theta_s * std::pow(hazard_until, 1 / hazard.shape) - hazard.age_s;
  // Rounding must not lead back in time.
  ageing.at = std::max(after, std::min(kNoTime, elapsed(std::min(at, 1e13))));
}

void FailureClock::choose() {
  next_ = exponential_;
  for (const Ageing& ageing : ageing_) {
    if (ageing.at < next_.at) next_ = {ageing.at, ageing.cause};
  }
}

}  // namespace orrery::campaign
