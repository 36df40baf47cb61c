// ZB-V (Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362, figure 4). Chunk 0 runs down the
// stages and chunk 1 back up, so that the first stage has both ends of the model and the last gradient of a micro-batch
// returns to where it began. Every stage holds at most 2p halves, 1F1B's p micro-batches. No bubble where F, b and W
// take as long, given at least 2p - 1 micro-batches; with fewer the order is that of 2p - 1, the missing ones left out.
#include <algorithm>
#include <array>

#include "workloads/schedules/catalogue.h"

namespace orrery::workloads {

namespace {
class Vee {
 public:
  explicit Vee(std::int32_t microbatches) : microbatches_(microbatches) {}
  void forward(std::int32_t chunk) { add(PassKind::forward, chunk, forwards_); }
  void input_gradient(std::int32_t chunk) { add(PassKind::input_gradient, chunk, inputs_); }
  void weight_gradient(std::int32_t chunk) { add(PassKind::weight_gradient, chunk, weights_); }
  void backward(std::int32_t chunk) {
    input_gradient(chunk);
    weight_gradient(chunk);
  }
  std::int32_t forwards(std::int32_t chunk) const { return forwards_[static_cast<std::size_t>(chunk)]; }
  void drain(std::int32_t chunk) {
    const auto c = static_cast<std::size_t>(chunk);
    while (weights_[c] < inputs_[c]) weight_gradient(chunk);
  }
  std::vector<Pass> passes;

 private:
  void add(PassKind kind, std::int32_t chunk, std::array<std::int32_t, 2>& counts) {
    const std::int32_t m = counts[static_cast<std::size_t>(chunk)]++;
    if (m < microbatches_) passes.push_back({kind, chunk, m});
  }
  std::int32_t microbatches_;
  std::array<std::int32_t, 2> forwards_{}, inputs_{}, weights_{};
};

std::vector<Pass> zb_v_passes(std::int32_t stage, const PipelineShape& shape) {
  const std::int32_t stages = shape.stages, microbatches = shape.microbatches;
  const std::int32_t all = std::max(2 * stages - 1, microbatches);
  Vee vee(microbatches);
  for (std::int32_t i = 0; i < 2 * (stages - stage) - 1; ++i) vee.forward(0);
  for (std::int32_t i = 0; i < stage; ++i) {
    vee.forward(1);
    vee.forward(0);
  }
  for (std::int32_t i = 0; i < stages - stage; ++i) {
    vee.forward(1);
    vee.backward(1);
  }
  while (vee.forwards(1) < vee.forwards(0) || vee.forwards(0) < all) {
    if (vee.forwards(0) < all) vee.forward(0);
    vee.backward(0);
    vee.forward(1);
    vee.backward(1);
  }
  for (std::int32_t i = 0; i < stage; ++i) {
    vee.input_gradient(0);
    vee.input_gradient(1);
  }
  for (std::int32_t i = 0; i < stages - stage; ++i) vee.backward(0);
  vee.drain(1);
  vee.drain(0);
  return vee.passes;
}
}  // namespace

constinit const Schedule schedules::zb_v{
    .name = "zb_v",
    .meaning = "split backward passes over two chunks laid as a V; holds p micro-batches, no bubble at best",
    .paper = "Qi et al., arXiv 2405.15362, figure 4",
    .passes = zb_v_passes,
    .order = ChunkOrder::vee,
    .chunks = 2,
    .backward = BackwardPasses::cut,
    .runtimes = {.post_ahead = true, .place_by_times = true, .step_apart = true},
};

}  // namespace orrery::workloads
