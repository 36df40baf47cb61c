// Runs orders of passes by given times, and lets weight gradients fill the gaps. See zero_bubble.h. Messages take a
// fixed time and never share links: the engine decides about the rest.
#include "workloads/schedules/zero_bubble.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>

#include "sim/error.h"

namespace orrery::workloads {

namespace {

constexpr double kNotYet = -1;

/// Clocks of the stages, and when each forward pass and input gradient was done.
class Clocks {
 public:
  Clocks(const ChunkMap& map, const PipelineTimes& times, std::int32_t microbatches)
      : map_(map),
        times_(times),
        microbatches_(microbatches),
        now_(count(map.stages()), 0.0),
        first_(now_.size(), kNotYet) {
    done_[0].assign(count(map.stages() * map.chunks() * microbatches), kNotYet);
    done_[1] = done_[0];
  }

  /// When the inputs of a pass are there; kNotYet while they are not.
  double ready(std::int64_t stage, const Pass& pass) const {
    if (pass.kind == PassKind::weight_gradient) return 0;
    const bool forward = pass.kind == PassKind::forward;
    const Cell cell{stage, pass.chunk};
    const std::optional<Cell> source = forward ? map_.previous(cell) : map_.next(cell);
    if (!source) return forward ? 0 : done_[0][slot(cell, pass.microbatch)];
    const double at = done_[forward ? 0 : 1][slot(*source, pass.microbatch)];
    return at == kNotYet || source->stage == stage ? at : at + times_.message;
  }

  void run(std::int64_t stage, const Pass& pass, double ready) {
    const auto s = count(stage);
    const Cell cell{stage, pass.chunk};
    const double start = std::max(now_[s], ready);
    if (first_[s] == kNotYet) first_[s] = start;
    now_[s] = start + duration(cell, pass.kind);
    if (pass.kind == PassKind::forward) done_[0][slot(cell, pass.microbatch)] = now_[s];
    if (sends_gradient(pass.kind)) done_[1][slot(cell, pass.microbatch)] = now_[s];
  }

  double now(std::int64_t stage) const { return now_[count(stage)]; }
  double longest() const {
    double most = 0;
    for (std::size_t s = 0; s < now_.size(); ++s) most = std::max(most, now_[s] - std::max(first_[s], 0.0));
    return most;
  }
  double duration(Cell cell, PassKind kind) const {
    const PipelineTimes::Passes& of = times_.of(map_, cell);
    switch (kind) {
      case PassKind::forward:
        return of.forward;
      case PassKind::input_gradient:
        return of.input_gradient;
      case PassKind::weight_gradient:
        return of.weight_gradient;
      case PassKind::backward:
        break;
    }
    return of.input_gradient + of.weight_gradient;
  }

 private:
  static std::size_t count(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::size_t slot(Cell cell, std::int32_t microbatch) const {
    return count((cell.stage * map_.chunks() + cell.chunk) * microbatches_ + microbatch);
  }
  const ChunkMap& map_;
  const PipelineTimes& times_;
  std::int64_t microbatches_;
  std::vector<double> now_, first_;
  std::array<std::vector<double>, 2> done_;  // forward passes, input gradients
};

std::int32_t microbatches_in(const StageOrders& orders) {
  std::int32_t most = 0;
  for (const auto& passes : orders) {
    for (const Pass& pass : passes) most = std::max(most, pass.microbatch + 1);
  }
  return most;
}

std::size_t passes_in(const StageOrders& orders) {
  std::size_t sum = 0;
  for (const auto& passes : orders) sum += passes.size();
  return sum;
}

/// Calls step(stage) over and over until a whole round does nothing; step returns whether it did something.
template <class Step>
void until_stuck(std::size_t stages, Step step) {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < stages; ++s) {
      while (step(s)) moved = true;
    }
  }
}

}  // namespace

std::optional<double> longest_stage(const StageOrders& orders, const ChunkMap& map, const PipelineTimes& times) {
  Clocks clocks(map, times, microbatches_in(orders));
  std::vector<std::size_t> at(orders.size(), 0);
  std::size_t left = passes_in(orders);
  until_stuck(orders.size(), [&](std::size_t s) {
    if (at[s] == orders[s].size()) return false;
    const Pass& pass = orders[s][at[s]];
    const double ready = clocks.ready(static_cast<std::int64_t>(s), pass);
    if (ready == kNotYet) return false;
    clocks.run(static_cast<std::int64_t>(s), pass, ready);
    ++at[s];
    --left;
    return true;
  });
  return left == 0 ? std::optional(clocks.longest()) : std::nullopt;
}

bool is_shorter(double time, double than) {
  constexpr double kRounding = 1e-9;
  return time < than * (1 - kRounding);
}

StageOrders place_weight_gradients(const StageOrders& orders, const ChunkMap& map, const PipelineTimes& times,
                                   std::int64_t held_at_most, bool eager) {
  StageOrders fixed = orders, placed(orders.size());
  for (auto& passes : fixed)
    std::erase_if(passes, [](const Pass& pass) { return pass.kind == PassKind::weight_gradient; });
  Clocks clocks(map, times, microbatches_in(orders));
  std::vector<std::size_t> at(orders.size(), 0);
  std::vector<std::int64_t> held(orders.size(), 0);
  std::vector<std::deque<Pass>> waiting(orders.size());
  const auto weight = [&](std::size_t s) {
    const auto stage = static_cast<std::int64_t>(s);
    const Pass pass = waiting[s].front();
    waiting[s].pop_front();
    clocks.run(stage, pass, 0);
    placed[s].push_back(pass);
    --held[s];
  };
  until_stuck(orders.size(), [&](std::size_t s) {
    if (at[s] == fixed[s].size()) return false;
    const auto stage = static_cast<std::int64_t>(s);
    const Pass& pass = fixed[s][at[s]];
    const double ready = clocks.ready(stage, pass);
    if (ready == kNotYet) return false;
    while (pass.kind == PassKind::forward && held[s] >= held_at_most && !waiting[s].empty()) weight(s);
    const auto fits = [&] {
      const Pass& next = waiting[s].front();
      return clocks.now(stage) + clocks.duration({stage, next.chunk}, next.kind) <= ready;
    };
    while (!waiting[s].empty() && fits()) weight(s);
    if (eager && !waiting[s].empty() && clocks.now(stage) < ready) weight(s);
    clocks.run(stage, pass, ready);
    placed[s].push_back(pass);
    if (pass.kind == PassKind::forward) ++held[s];
    if (pass.kind == PassKind::input_gradient)
      waiting[s].push_back({PassKind::weight_gradient, pass.chunk, pass.microbatch});
    ++at[s];
    return true;
  });
  for (std::size_t s = 0; s < orders.size(); ++s) {
    while (!waiting[s].empty()) weight(s);
  }
  SIM_CHECK(passes_in(placed) == passes_in(orders), "an order locks up");
  return placed;
}

std::vector<Pass> repeated(const BuildingBlock& block, std::int32_t microbatches) {
  struct Timed {
    std::int32_t at;
    Pass pass;
  };
  std::vector<Timed> timed;
  for (std::int32_t chunk = 0; chunk < 2; ++chunk) {
    for (std::int32_t m = 0; m < microbatches; ++m) {
      timed.push_back({block.forward[chunk] + m * block.interval, {PassKind::forward, chunk, m}});
      timed.push_back({block.input_gradient[chunk] + m * block.interval, {PassKind::input_gradient, chunk, m}});
    }
  }
  std::sort(timed.begin(), timed.end(), [](const Timed& a, const Timed& b) { return a.at < b.at; });
  std::vector<Pass> passes;
  std::deque<Pass> waiting;
  const auto weight = [&] {
    passes.push_back(waiting.front());
    waiting.pop_front();
  };
  std::int32_t free = std::numeric_limits<std::int32_t>::max();
  for (const Timed& next : timed) {
    for (; free < next.at && !waiting.empty(); ++free) weight();
    passes.push_back(next.pass);
    free = next.at + 1;
    if (next.pass.kind == PassKind::input_gradient)
      waiting.push_back({PassKind::weight_gradient, next.pass.chunk, next.pass.microbatch});
  }
  while (!waiting.empty()) weight();
  return passes;
}

StageOrders best_orders(const Schedule& schedule, const PipelineShape& shape, const PipelineTimes& times) {
  const ChunkMap map = schedule.map(shape.stages, shape.chunks);
  StageOrders paper = paper_orders(schedule, shape);
  if (!schedule.runtimes.place_by_times) return paper;
  std::int64_t held = 0;
  for (const auto& passes : paper) {
    std::int64_t now = 0;
    for (const Pass& pass : passes) {
      now += pass.kind == PassKind::forward ? 1 : ends_microbatch(pass.kind) ? -1 : 0;
      held = std::max(held, now);
    }
  }
  StageOrders best = paper;
  std::optional<double> least = longest_stage(paper, map, times);
  SIM_CHECK(least.has_value(), "the order of {} locks up", schedule.name);
  const auto consider = [&](StageOrders orders) {
    const std::optional<double> longest = longest_stage(orders, map, times);
    if (longest && is_shorter(*longest, *least)) {
      least = longest;
      best = std::move(orders);
    }
  };
  for (const bool eager : {false, true}) consider(place_weight_gradients(paper, map, times, held, eager));
  const std::int64_t limit = schedule.held_when_searched ? schedule.held_when_searched(map.stages()) : held;
  if (map.chunks() == 1) consider(search_zero_bubble(map.stages(), shape.microbatches, limit, times));
  return best;
}

}  // namespace orrery::workloads
