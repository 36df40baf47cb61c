// When what fails next.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/runs/campaign/plan.h"
#include "workloads/runs/campaign/random.h"

namespace orrery::campaign {

/// A cause strikes.
struct Strike {
  Elapsed at = kNoTime;
  std::size_t cause = 0;
};

/// All causes of a plan as one process in time. Those with exponential times are drawn together, and which of them it
/// was by their rates; each of Weibull's keeps its own next event, found by inverting its cumulative hazard
/// n ((age + t) / theta)^k.
class FailureClock {
 public:
  FailureClock(const Plan& plan, std::uint64_t seed);
  /// The next strike, which stays the next until it is taken.
  const Strike& next() const { return next_; }
  void take();
  /// Nothing strikes from `from` to `until`: exponential times wait as long, others until its end.
  void shelter(Elapsed from, Elapsed until);

 private:
  void draw_exponential(Elapsed after);
  void draw_weibull(std::size_t which, Elapsed after);
  void choose();

  struct Ageing {
    std::size_t cause;
    Random random;
    Elapsed at;
  };
  const std::vector<Hazard>& hazards_;
  double rate_ = 0;
  std::vector<double> cumulated_;  // of exponential rates, by cause
  Random random_;
  Strike exponential_, next_;
  std::vector<Ageing> ageing_;
};

}  // namespace orrery::campaign
