// What optimizers keep and what their steps run, against their papers' arithmetic written out.
#include "workloads/model/optimizer_step.h"

#include <algorithm>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/compile/step_end.h"
#include "workloads/job/job_values.h"
#include "workloads/memory/memory.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// One layer of tokens' model on one GPU: 8 heads of 64, MLP of 2048, a vocabulary of 4096 words.
Job small(const std::string& optimizer, std::vector<std::string> sets = {}) {
  sets.insert(sets.begin(),
              {"cluster.gpus=1", "parallelism={tensor: 1, pipeline: 1, data: 1}", "batch={global: 1, micro: 1}",
               "model={kind: gpt, layers: 1, hidden: 512, heads: 8, ffn_hidden: 2048, vocab: 4096, seq: 128, "
               "positions: rotary, tied_embeddings: false, biases: none, norm: rms_norm, gated_mlp: false}",
               "optimizer=" + optimizer, "software.optimizer_states=fp32"});
  return tests::small_job(sets);
}

/// Elements of the block's matrices (qkv, attention's projection, up, down), of both tables, and of three norms.
constexpr double kMatrices = 512.0 * (3 * 512 + 512 + 2048 + 2048), kTables = 2 * 4096.0 * 512, kNorms = 3 * 512;
constexpr double kAll = kMatrices + kTables + kNorms;

double states_of(const Job& job) {
  const LayerSplit split = split_layers(job);
  return stage_memory(job, split).at(0).optimizer;
}

}  // namespace

TEST_CASE("optimizers keep beside the fp32 copy what their papers say") {
  CHECK(states_of(small("adam")) == Approx(12 * kAll));
  CHECK(states_of(small("sgd")) == Approx(8 * kAll));
  CHECK(states_of(small("lion")) == Approx(8 * kAll));                              // one moment
  CHECK(states_of(small("adamw_8bit")) == Approx((4 + 2 + 2 * 4.0 / 256) * kAll));  // a byte each, a scale for 256
  CHECK(states_of(small("muon")) == Approx(8 * kMatrices + 12 * (kTables + kNorms)));
  // Rows and columns: 1536 + 512 of qkv, 512 + 512 of the projection, 2048 + 512 of up and of down.
  CHECK(states_of(small("adafactor")) == Approx(4 * kAll + 4 * (2048 + 1024 + 2560 + 2560)));
  // Without the copy, moments in 8 bits and sums in fp32 stay what they are.
  const std::vector<std::string> alone{"precision={matmul: bf16, master: none}"};
  CHECK(states_of(small("adamw_8bit", alone)) == Approx((2 + 2 * 4.0 / 256) * kAll));
  CHECK(states_of(small("lion", alone)) == Approx(2 * kAll));
  CHECK(states_of(small("sgd", alone)) == 0);
}

TEST_CASE("Muon's iterations are the products of its paper, shared out with the states") {
  const Job job = small("muon");
  const LayerSplit split = split_layers(job);
  const StageLayout stage{split, job.parallelism.chunk_map(), 0};
  UpdatedWeights weights;
  add_weights(stage, data_parallelism_of(job), OptimizerKind::muon, weights);
  CHECK(weights.held == Approx(kAll));
  CHECK(weights.matrices == Approx(kMatrices));
  double flops = 0, adam = 0;
  const std::vector<Kernel> kernels =
      optimizer_kernels(OptimizerKind::muon, job.method.precision, job.software.optimizer, job.machine.device, weights);
  for (const Kernel& kernel : kernels) {
    flops += kernel.flops;
    if (kernel.name == "adam") adam += kernel.bytes;
  }
  // Of a matrix m x n with m <= n, five times: X X^T and B X of 2 m^2 n FLOPs each, A A of 2 m^3. All four have a side
  // of 512; the others are 1536, 512, 2048 and 2048.
  const auto iterations = [](double m, double n) { return 5 * (4 * m * m * n + 2 * m * m * m); };
  CHECK(flops == Approx(iterations(512, 1536) + iterations(512, 512) + 2 * iterations(512, 2048)));
  // Adam takes the rest: master weight and two moments read and written, a gradient read, the copy written.
  const double gradient = calibration::bytes_of(job.method.precision.gradients);
  CHECK(adam == Approx((kTables + kNorms) * (24 + gradient + 2)));
  for (SizedMatrices& of : weights.sizes) of.number /= 4;
  double quarter = 0;
  for (const Kernel& kernel : optimizer_kernels(OptimizerKind::muon, job.method.precision, job.software.optimizer,
                                                job.machine.device, weights))
    quarter += kernel.flops;
  CHECK(quarter == Approx(flops / 4));
}

TEST_CASE("Muon is refused where no rank has whole matrices") {
  CHECK_THROWS_AS(tests::small_job({"optimizer=muon", "parallelism.sharding=parameters"}), sim::UserError);
  CHECK_NOTHROW(tests::small_job({"optimizer=muon", "parallelism.sharding=optimizer"}));
}
