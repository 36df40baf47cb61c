// DualPipe (DeepSeek-V3, arXiv 2412.19437, section 3.2.1 and figure 5; steps as in github.com/deepseek-ai/DualPipe).
// Half of the micro-batches enter at stage 0 (chunk 0), half at stage p-1 (chunk 1), so every stage holds two blocks
// and two copies of the model exist. In the middle of the step a stage runs the forward pass of one direction together
// with the backward pass of the other. Bubble (p/2-1)(F&B + B - 3W), at most p+1 micro-batches held. Not modelled: what
// a pair gains by hiding the communication of one pass behind the arithmetic of the other: here F&B takes F + B.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim/error.h"
#include "workloads/schedules/catalogue.h"

namespace orrery::workloads {

namespace {
class TwoWays {
 public:
  /// Stages of the second half see the directions the other way round: their own is the one that enters at stage p-1.
  TwoWays(bool mirrored, std::int32_t half) : mirrored_(mirrored), half_(half) {}

  void forward(std::int32_t way) { add(PassKind::forward, way, forwards_); }
  void backward(std::int32_t way) { add(PassKind::backward, way, backwards_); }
  void both(std::int32_t forward_way, std::int32_t backward_way) {
    forward(forward_way);
    passes.back().with_next = true;
    backward(backward_way);
  }
  void input_gradient(std::int32_t way) {
    add(PassKind::input_gradient, way, backwards_);
    put_off_.push_back(passes.back());
  }
  void weight_gradient() {
    Pass pass = put_off_[next_weight_++];
    pass.kind = PassKind::weight_gradient;
    passes.push_back(pass);
  }
  std::vector<Pass> passes;

 private:
  void add(PassKind kind, std::int32_t way, std::array<std::int32_t, 2>& counts) {
    const std::int32_t chunk = mirrored_ ? 1 - way : way;
    const std::int32_t m = chunk * half_ + counts[static_cast<std::size_t>(chunk)]++;
    passes.push_back({kind, chunk, m});
  }
  bool mirrored_;
  std::int32_t half_;  // micro-batches of one direction
  std::array<std::int32_t, 2> forwards_{}, backwards_{};
  std::vector<Pass> put_off_;
  std::size_t next_weight_ = 0;
};

std::optional<Misfit> dualpipe_misfit(const PipelineShape& shape) {
  if (shape.stages % 2 != 0)
    return Misfit{Misfit::Of::stages, "with dualpipe, which pairs stages from both ends, expected an even number"};
  if (shape.microbatches % 2 != 0 || shape.microbatches < 2 * shape.stages) {
    return Misfit{Misfit::Of::microbatches,
                  fmt::format("an even number of at least 2 x pipeline = {}", 2 * shape.stages)};
  }
  return std::nullopt;
}

std::vector<Pass> dualpipe_passes(std::int32_t stage, const PipelineShape& shape) {
  const std::int32_t stages = shape.stages, microbatches = shape.microbatches;
  SIM_CHECK(!dualpipe_misfit(shape), "DualPipe of {} stages, {} micro-batches", stages, microbatches);
  const std::int32_t depth = std::min(stage, stages - 1 - stage);  // distance from the nearer end
  const std::int32_t inner = stages / 2 - 1 - depth;               // stages of this half further in
  TwoWays ways(stage >= stages / 2, microbatches / 2);
  for (std::int32_t i = 0; i < 2 * inner; ++i) ways.forward(0);
  for (std::int32_t i = 0; i < depth + 1; ++i) {
    ways.forward(0);
    ways.forward(1);
  }
  for (std::int32_t i = 0; i < inner; ++i) {
    ways.input_gradient(1);
    ways.weight_gradient();
    ways.forward(1);
  }
  for (std::int32_t i = 0; i < microbatches / 2 - stages + depth + 1; ++i) {
    if (i == 0 && inner == 0) {  // the middle stages begin apart, which the others need to start
      ways.forward(0);
      ways.backward(1);
    } else {
      ways.both(0, 1);
    }
    ways.both(1, 0);
  }
  for (std::int32_t i = 0; i < inner; ++i) {
    ways.backward(1);
    ways.both(1, 0);
  }
  // The later half of these passes puts weight gradients off, to fill the waits of the steps below.
  for (std::int32_t i = 0; i < 2 * (depth + 1); ++i) {
    const std::int32_t way = 1 - i % 2;
    if (i > depth) {
      ways.input_gradient(way);
    } else {
      ways.backward(way);
    }
  }
  for (std::int32_t i = 0; i < inner; ++i) {
    ways.weight_gradient();
    ways.input_gradient(0);
  }
  for (std::int32_t i = 0; i < depth + 1; ++i) ways.weight_gradient();
  return ways.passes;
}
}  // namespace

constinit const Schedule schedules::dualpipe{
    .name = "dualpipe",
    .meaning = "two copies of the model, micro-batches from both ends; holds p + 1 micro-batches",
    .paper = "DeepSeek-V3, arXiv 2412.19437, section 3.2.1",
    .passes = dualpipe_passes,
    .order = ChunkOrder::both_ways,
    .chunks = 2,
    .backward = BackwardPasses::mixed,
    .runtimes = {.post_ahead = true},
    .constraints = dualpipe_misfit,
};

}  // namespace orrery::workloads
