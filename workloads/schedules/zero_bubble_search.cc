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
        most_(static_cast<double>(held_at_most) + 1e-9),
        times_(times),
        cost_(median(times)),
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

  /// What the authors' code plans with: the median of each pass over the stages.
  static PipelineTimes::Passes median(const PipelineTimes& times) {
    const auto middle = [&](double PipelineTimes::Passes::*of) {
      std::vector<double> all;
      for (const PipelineTimes::Passes& cell : times.cells) all.push_back(cell.*of);
      std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
      return all[all.size() / 2];
    };
    using P = PipelineTimes::Passes;
    return {middle(&P::forward), middle(&P::input_gradient), middle(&P::weight_gradient)};
  }

 private:
  struct Stage {
    double clock = 0, waited = 0;
    std::int32_t forwards = 0, gradients = 0, weights = 0;  // passes put so far
    std::vector<double> forward_done, gradient_done;
    std::vector<Pass> passes;
  };
  /// Micro-batches' activations, in those of one.
  double held_by(std::size_t s) const {
    const Stage& stage = at_[s];
    return stage.forwards - stage.gradients + times_.kept_between * (stage.gradients - stage.weights);
  }

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
    const double done = put(s, PassKind::forward, at_[s].forwards, forward_arrives(s), cost_.forward);
    at_[s].forward_done[nth(at_[s].forwards++)] = done;
  }
  void gradient(std::size_t s) {
    const double done = put(s, PassKind::input_gradient, at_[s].gradients, gradient_arrives(s), cost_.input_gradient);
    at_[s].gradient_done[nth(at_[s].gradients++)] = done;
  }
  void weight(std::size_t s) { put(s, PassKind::weight_gradient, at_[s].weights++, 0, cost_.weight_gradient); }

  /// Weight gradients in the time until something arrives.
  void fill_wait(std::size_t s, double arrives) {
    Stage& stage = at_[s];
    while (stage.weights < stage.gradients && stage.clock + cost_.weight_gradient <= arrives) weight(s);
    if (stage.weights == stage.gradients || stage.clock >= arrives) return;
    if (choices_.eager || stage.waited + arrives - stage.clock > longest_wait_) weight(s);
  }

  /// The first forward pass everywhere, then more until the first gradient comes back, earlier stages always ahead of
  /// later ones.
  void warm_up() {
    for (std::size_t s = 0; s < p_; ++s) forward(s);
    std::vector<std::int32_t> more(p_, 0);
    double back = at_[p_ - 1].clock + cost_.input_gradient;
    for (std::size_t s = p_ - 1; s-- > 0;) {
      double clock = at_[s].clock;
      const auto fits = [&] {
        return (choices_.overrun_first ? clock : clock + cost_.forward) < back + times_.message;
      };
      while (1 + more[s] < m_ && 2 + more[s] <= most_ && fits()) {
        ++more[s];
        clock += cost_.forward;
      }
      back = std::max(clock, back + times_.message) + cost_.input_gradient;
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
    const double gradient_back = at_[s + 1].clock + cost_.forward + cost_.input_gradient + times_.message;
    double ready = at_[s].clock + cost_.forward;
    double held = held_by(s) + 1;
    for (auto w = at_[s].weights; held > most_ && w < at_[s].gradients; ++w) {
      held -= times_.kept_between;
      ready += cost_.weight_gradient;
    }
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
      while (held_by(s) + 1 > most_ && at_[s].weights < at_[s].gradients) weight(s);
      fill_wait(s, forward_arrives(s));
      forward(s);
    }
  }

  std::size_t p_;
  std::int32_t m_;
  double most_;
  const PipelineTimes& times_;
  PipelineTimes::Passes cost_;  // of every stage
  Choices choices_;
  std::vector<Stage> at_;
  double longest_wait_ = 0;  // of any stage, after its first pass
};

}  // namespace

StageOrders search_zero_bubble(std::int64_t stages, std::int32_t microbatches, std::int64_t held_at_most,
                               const PipelineTimes& times) {
  const ChunkMap map(ChunkOrder::loop, stages, 1);
  StageOrders best;
  PipelineTimes as_planned = times;
  std::fill(as_planned.cells.begin(), as_planned.cells.end(), Search::median(times));
  std::optional<double> least;
  for (int choice = 0; choice < 8; ++choice) {
    const Choices choices{(choice & 1) != 0, (choice & 2) != 0, (choice & 4) != 0};
    Search search(stages, microbatches, held_at_most, times, choices);
    StageOrders orders = search.orders();
    const std::optional<double> longest = longest_stage(orders, map, as_planned);
    if (longest && (!least || is_shorter(*longest, *least))) {
      least = longest;
      best = std::move(orders);
    }
  }
  SIM_CHECK(least.has_value(), "no order of {} stages and {} micro-batches runs through", stages, microbatches);
  return best;
}

}  // namespace orrery::workloads
