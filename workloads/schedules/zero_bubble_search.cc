// The heuristic scheduler of Qi et al., arXiv 2401.10241, section 3.1, for one chunk per stage: the published runs
// ZB-1p and ZB-2p order their passes with it. All stages advance together, micro-batch by micro-batch. Three choices
// are left open by the paper and tried both ways: one more forward pass before the first gradient although that delays
// it; holding a forward pass back where the stage after cannot use it yet; a weight gradient in a wait shorter than it
// takes although no stage has waited longer. Left out: the integer programme that the paper runs on small cases.
#include <algorithm>

#include "sim/error.h"
#include "workloads/schedules/zero_bubble.h"

namespace orrery::workloads {

namespace {

struct Choices {
  bool overrun_first = false, hold_back = false, eager = false;
};

class Search {
 public:
  Search(std::int64_t stages, std::int32_t microbatches, std::int64_t held_at_most, const PipelineTimes& times,
         Choices choices)
      : p_(static_cast<std::size_t>(stages)),
        m_(microbatches),
        most_(held_at_most),
        times_(times),
        choices_(choices),
        at_(p_) {
    for (Stage& stage : at_) {
      stage.forward_done.assign(static_cast<std::size_t>(m_), 0.0);
      stage.gradient_done.assign(static_cast<std::size_t>(m_), 0.0);
    }
  }

  StageOrders orders() {
    warm_up();
    for (std::int32_t m = 1; m < m_; ++m) {
      run_forwards();
      for (std::size_t s = p_; s-- > 0;) {
        fill_wait(s, gradient_arrives(s));
        // The first stage has nothing to feed any more: its weight gradients cost nobody time.
        while (s == 0 && at_[0].forwards == m_ && at_[0].weights < at_[0].gradients) weight(0);
        gradient(s);
      }
    }
    StageOrders out;
    for (std::size_t s = 0; s < p_; ++s) {
      while (at_[s].weights < m_) weight(s);
      out.push_back(std::move(at_[s].passes));
    }
    return out;
  }

 private:
  struct Stage {
    double clock = 0, waited = 0;
    std::int32_t forwards = 0, gradients = 0, weights = 0;  // passes put so far
    std::vector<double> forward_done, gradient_done;
    std::vector<Pass> passes;
    std::int64_t held() const { return forwards - weights; }
  };
  const PipelineTimes::Passes& cost(std::size_t s) const { return times_.cells[s]; }
  static std::size_t nth(std::int32_t m) { return static_cast<std::size_t>(m); }

  double forward_arrives(std::size_t s) const {
    return s == 0 ? 0 : at_[s - 1].forward_done[nth(at_[s].forwards)] + times_.message;
  }
  double gradient_arrives(std::size_t s) const {
    return s + 1 == p_ ? 0 : at_[s + 1].gradient_done[nth(at_[s].gradients)] + times_.message;
  }

  double put(std::size_t s, PassKind kind, std::int32_t m, double arrives, double takes) {
    Stage& stage = at_[s];
    const double start = std::max(stage.clock, arrives);
    if (stage.forwards > 0) stage.waited += start - stage.clock;
    longest_wait_ = std::max(longest_wait_, stage.waited);
    stage.passes.push_back({kind, 0, m});
    return stage.clock = start + takes;
  }
  void forward(std::size_t s) {
    const double done = put(s, PassKind::forward, at_[s].forwards, forward_arrives(s), cost(s).forward);
    at_[s].forward_done[nth(at_[s].forwards++)] = done;
  }
  void gradient(std::size_t s) {
    const double done = put(s, PassKind::input_gradient, at_[s].gradients, gradient_arrives(s), cost(s).input_gradient);
    at_[s].gradient_done[nth(at_[s].gradients++)] = done;
  }
  void weight(std::size_t s) { put(s, PassKind::weight_gradient, at_[s].weights++, 0, cost(s).weight_gradient); }

  /// Weight gradients in the time until something arrives.
  void fill_wait(std::size_t s, double arrives) {
    Stage& stage = at_[s];
    while (stage.weights < stage.gradients && stage.clock + cost(s).weight_gradient <= arrives) weight(s);
    if (stage.weights == stage.gradients || stage.clock >= arrives) return;
    if (choices_.eager || stage.waited + arrives - stage.clock > longest_wait_) weight(s);
  }

  /// The first forward pass everywhere, then more until the first gradient comes back, earlier stages always ahead of
  /// later ones.
  void warm_up() {
    for (std::size_t s = 0; s < p_; ++s) forward(s);
    std::vector<std::int32_t> more(p_, 0);
    double back = at_[p_ - 1].clock + cost(p_ - 1).input_gradient;
    for (std::size_t s = p_ - 1; s-- > 0;) {
      double clock = at_[s].clock;
      const auto fits = [&] {
        return (choices_.overrun_first ? clock : clock + cost(s).forward) < back + times_.message;
      };
      while (1 + more[s] < m_ && 1 + more[s] < most_ && fits()) ++more[s], clock += cost(s).forward;
      back = std::max(clock, back + times_.message) + cost(s).input_gradient;
    }
    for (std::size_t s = 1; s < p_; ++s) {
      while (more[s] > 0 && more[s] >= more[s - 1] && 1 + more[s] < m_) --more[s];
    }
    for (std::size_t s = 0; s < p_; ++s) {
      for (std::int32_t i = 0; i < more[s]; ++i) forward(s);
    }
    for (std::size_t s = p_; s-- > 0;) gradient(s);
  }

  /// Whether a forward pass now would come too early for the stage after and too late for this one's next gradient.
  bool held_back(std::size_t s) const {
    if (!choices_.hold_back || s + 1 == p_ || at_[s].forwards < at_[s + 1].forwards + 2) return false;
    const double gradient_back = at_[s + 1].clock + cost(s + 1).forward + cost(s + 1).input_gradient + times_.message;
    double ready = at_[s].clock + cost(s).forward;
    if (at_[s].held() + 1 > most_) ready += cost(s).weight_gradient;
    if (ready <= gradient_back) return false;
    return at_[s].clock >= gradient_back || gradient_back - at_[s].clock <= longest_wait_ - at_[s].waited;
  }

  void run_forwards() {
    std::vector<bool> runs(p_, false);
    for (std::size_t s = 0; s < p_; ++s) runs[s] = at_[s].forwards < m_ && !held_back(s);
    for (std::size_t s = p_ - 1; s-- > 0;) {
      // A stage that skips leaves those before it as far ahead as they were; one that has run out does not hold them.
      if (!runs[s + 1] && at_[s + 1].forwards < m_) runs[s] = false;
    }
    for (std::size_t s = 0; s < p_; ++s) {
      if (!runs[s] || (s > 0 && at_[s - 1].forwards <= at_[s].forwards)) continue;
      while (at_[s].held() >= most_ && at_[s].weights < at_[s].gradients) weight(s);
      fill_wait(s, forward_arrives(s));
      forward(s);
    }
  }

  std::size_t p_;
  std::int32_t m_;
  std::int64_t most_;
  const PipelineTimes& times_;
  Choices choices_;
  std::vector<Stage> at_;
  double longest_wait_ = 0;  // of any stage, after its first pass
};

}  // namespace

StageOrders search_zero_bubble(std::int64_t stages, std::int32_t microbatches, std::int64_t held_at_most,
                               const PipelineTimes& times) {
  const ChunkMap map(ScheduleKind::zb_h1, stages, 1);
  StageOrders best;
  std::optional<double> least;
  for (int choice = 0; choice < 8; ++choice) {
    const Choices choices{(choice & 1) != 0, (choice & 2) != 0, (choice & 4) != 0};
    StageOrders orders = Search(stages, microbatches, held_at_most, times, choices).orders();
    const std::optional<double> longest = longest_stage(orders, map, times);
    if (longest && (!least || *longest < *least)) least = longest, best = std::move(orders);
  }
  SIM_CHECK(least.has_value(), "no order of {} stages and {} micro-batches runs through", stages, microbatches);
  return best;
}

}  // namespace orrery::workloads
