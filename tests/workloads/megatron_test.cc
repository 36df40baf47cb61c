// What Megatron-LM runs beside its GEMMs: biases, norms, the optimizer's passes, collectives behind weight gradients.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "tests/workloads/layers.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;
using calibration::Streaming;

namespace {

/// Seconds of the kernels of this name in a pass over two layers.
double seconds_of(const Pieces& pieces, std::string_view name) {
  double sum = 0;
  for (const Piece& piece : pieces) {
    for (const Kernel& kernel : piece.kernels) sum += kernel.name == name ? sim::to_seconds(kernel.time) : 0;
  }
  return sum;
}

LayerPasses two_layers(const std::vector<std::string>& sets) {
  return tests::passes_over(tests::small_job(sets), {2, false, false});
}

}  // namespace

TEST_CASE(
    "a bias that no GEMM adds is read and written with its layer's output, its gradient is a sum over the tokens") {
  const Job job = tests::small_job();
  const double outputs = 1024.0 * 3 * 2048 / 2;  // tokens x (q, k, v) over two tensor ranks, of 16 bit
  const auto pass = [&](double bytes) {
    return sim::to_seconds(job.machine.device.streaming(Streaming::accumulate, bytes));
  };
  const LayerPasses apart = two_layers({});
  CHECK(seconds_of(apart.forward, "add qkv bias") == Approx(2 * pass(outputs * 4)));
  CHECK(seconds_of(apart.backward, "qkv bias gradient") == Approx(2 * pass(outputs * 2)));
  const LayerPasses fused = two_layers({"software.bias_in_gemm=true"});
  CHECK(seconds_of(fused.forward, "add qkv bias") == 0);
  CHECK(seconds_of(fused.backward, "qkv bias gradient") == 0);
}

TEST_CASE("a persistent layer norm takes its weights' gradients from the reading that makes those of its inputs") {
  const char* const weights = "layer norm weight gradient";
  const LayerPasses one = two_layers({"software.recipe.norm=persistent"});
  const LayerPasses two = two_layers({"software.recipe.norm=fused"});
  CHECK(seconds_of(one.backward, weights) == 0);
  CHECK(seconds_of(two.backward, weights) > 0);
  CHECK(seconds_of(one.backward, "layer norm backward") == seconds_of(two.backward, "layer norm backward"));
}

TEST_CASE("fp16 gradients are unscaled, and weights copied, in passes of their own") {
  // Bytes per parameter: adam reads and writes three fp32 tensors and reads a gradient; the 16-bit weight is written by
  // it, or by a copy that reads the fp32 one. Unscaling reads and writes fp32.
  struct Expected {
    const char* precision;
    const char* recipe;
    double bytes;
  };
  for (const Expected& e : {Expected{"fp16", "with_passes", 28 + 8 + 6}, Expected{"bf16", "with_passes", 28 + 6},
                            Expected{"bf16", "fused", 28 + 2}}) {
    const Job job = tests::small_job({std::string("precision=") + e.precision, "software.fp16_accumulation=fp32",
                                      std::string("software.recipe.optimizer=") + e.recipe});
    double bytes = 0;
    for (const Kernel& kernel : optimizer_kernels(job.method.optimizer, job.method.precision, job.software.optimizer,
                                                  job.machine.device, {1e9, 1e9}))
      bytes += kernel.name == "clear gradients" ? 0 : kernel.bytes;
    INFO(e.precision << ' ' << e.recipe);
    CHECK(bytes == Approx(1e9 * e.bytes));
  }
}

TEST_CASE("a collective behind weight gradients takes its processors from them for as long as it lasts") {
  const std::vector<std::string> flat{"parallelism.pipeline=1",
                                      "parallelism.data=8",
                                      "batch.micro=4",
                                      "model.hidden=4096",
                                      "model.heads=32",
                                      "model.ffn_hidden=16384",
                                      "overlap=null",
                                      "software.async_tensor_backward=true",
                                      "software.tensor_overlap_slowdown=1"};
  const auto step = [&](const char* processors) {
    std::vector<std::string> sets = flat;
    sets.push_back(std::string("software.collective_processors=") + processors);
    return sim::to_seconds(simulate_step(tests::small_job(sets)).iteration);
  };
  const Job job = tests::small_job(flat);
  // One micro-batch of 4 x 1024 tokens; behind the weight gradients of q, k, v and of the MLP of eight layers, and of
  // the head. 27 of 108 processors: a quarter of the collective's time is lost.
  const double reduction = sim::to_seconds(
      job.machine.device.node_collective(calibration::CollectiveOp::all_reduce, 2, sim::Bytes(4 * 1024 * 4096 * 2))
          .total());
  CHECK(step("27") - step("0") == Approx((2 * 8 + 1) * reduction / 4).epsilon(1e-3));
}
