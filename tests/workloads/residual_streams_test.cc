// Do several residual streams move, hold, weigh and send what arXiv 2512.24880 says of them?
#include <fmt/format.h>

#include <string>
#include <variant>
#include <vector>

#include "scenarios/library.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "workloads/job/job_values.h"
#include "workloads/memory/memory.h"
#include "workloads/model/families/families.h"
#include "workloads/model/kept.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

constexpr std::int64_t kHidden = 1024, kSeq = 2048;

Job job_of(const std::string& model, std::int64_t streams, const std::vector<std::string>& sets = {}) {
  sim::Settings document = scenarios::parse_yaml(
      fmt::format(
          "name: streams\ncluster: {{device: h100-sxm-80gb, gpus: 32, fabric: ndr-rail}}\n"
          "model: {{hidden: {}, vocab: 2560, seq: {}, gated_mlp: true, tied_embeddings: false, positions: rotary, "
          "norm: rms_norm, biases: none, {}}}\n"
          "parallelism: {{pipeline: 2, data: 16, sharding: optimizer}}\nbatch: {{global: 64, micro: 1}}\nprecision: "
          "bf16\nsoftware: megatron-core-0.16\n",
          kHidden, kSeq, model),
      "streams.yaml");
  scenarios::apply_set(document, fmt::format("model.residual_streams={}", streams));
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return scenarios::load_scenario(document).job;
}

const std::string kDense = "layers: 8, heads: 8, ffn_hidden: 4096";
const std::string kMixture =
    "kind: moe, layers: 8, heads: 8, ffn_hidden: 4096, experts: 8, top_k: 2, expert_ffn_hidden: 512, shared_experts: "
    "1, dense_layers: 1";
const std::string kPattern =
    "blocks: {pattern: A+C M+C, repeat: 4}, mixers: {A: {kind: attention, heads: 8}, M: {kind: gated_delta, heads: 8, "
    "head_dim: "
    "128}}, channels: {C: {kind: mlp, ffn_hidden: 4096}}";

/// Bytes that kernels bound by memory move in the blocks of one layer of each kind.
double moved(const Job& job, Direction direction) {
  double bytes = 0;
  const Network layers = network_of(job);
  for (const Layer& layer : layers.kinds) {
    if (layer.kind != LayerKind::block) continue;
    for (const LayerOp& op : layer.ops)
      if (const auto* s = std::get_if<StreamingOp>(&op); s != nullptr && s->direction == direction)
        bytes += s->elements * s->bytes_each;
  }
  return bytes;
}

TEST_CASE("halves read and write what the paper counts of n streams") {
  const double x = kHidden * kSeq * 2.0, n = 4;
  // Section 4.3, of one half: coefficients read n C; what the half reads takes n C and gives C; what it writes takes
  // n C and C and gives n C. In place of a residual sum, which takes two and gives one.
  const double forward = n + (n + 1) + (2 * n + 1), sum = 3;
  CHECK(moved(job_of(kDense, 4), Direction::forward) - moved(job_of(kDense, 1), Direction::forward) ==
        Approx(2 * (forward - sum) * x));
  CHECK(moved(job_of(kDense, 4), Direction::backward) >
        moved(job_of(kDense, 1), Direction::backward) + 2 * forward * x);
}

TEST_CASE("maps weigh n (n + 2) numbers of n C each around a half, and n ahead of the head") {
  for (const std::string& model : {kDense, kMixture, kPattern}) {
    INFO(model);
    const double one = parameter_count(job_of(model, 1).model);
    for (const std::int64_t n : {2, 4, 7}) {
      const double state = static_cast<double>(n * kHidden), maps = static_cast<double>(n * (n + 2));
      CHECK(parameter_count(job_of(model, n).model) - one ==
            Approx(8 * 2 * (maps * state + maps + 3) + static_cast<double>(n) * (state + 1) + 1));
    }
  }
}

TEST_CASE("streams are kept for backward passes, and all that is kept of a layer that is recomputed") {
  const double x = kHidden * kSeq * 2.0;
  const auto kept = [](const Job& job) {
    double bytes = 0;
    const Network layers = network_of(job);
    for (const Layer& layer : layers.kinds)
      if (layer.kind == LayerKind::block) bytes += bytes_of(layer).kept;
    return bytes;
  };
  // Of each half n streams and its output.
  CHECK(kept(job_of(kDense, 4)) - kept(job_of(kDense, 1)) == Approx(2 * (4 + 1) * x));
  const std::vector<std::string> again{"recompute=full"};
  CHECK(kept(job_of(kDense, 4, again)) == Approx(4 * x));
  CHECK(kept(job_of(kDense, 1, again)) == Approx(x));
}

TEST_CASE("stages hand on all streams, both counts of traffic agree, and folded is full") {
  for (const std::string& model : {kDense, kMixture, kPattern}) {
    for (const std::string& layout :
         {std::string("{pipeline: 2, data: 16}"), std::string("{pipeline: 2, tensor: 2, data: 8}"),
          std::string("{pipeline: 4, data: 8, virtual_pipeline: 2, schedule: interleaved_1f1b}")}) {
      INFO(model << " " << layout);
      const std::vector<std::string> sets{"parallelism=" + layout};
      const StepReport four = simulate_step(job_of(model, 4, sets)), one = simulate_step(job_of(model, 1, sets));
      CHECK(tests::contradiction(four) == "");
      Question full;
      full.ranks = Question::Ranks::every;
      CHECK(tests::comparable(simulate_step(job_of(model, 4, sets), full)) == tests::comparable(four));
      const auto messages = [](const StepReport& report) {
        double bytes = 0;
        for (const TrafficRow& row : report.traffic)
          if (row.operation == "send_receive") bytes += row.simulated_bytes;
        return bytes;
      };
      CHECK(messages(four) == Approx(4 * messages(one)));
      CHECK(messages(four) > 0);
    }
  }
}

TEST_CASE("a step is longer with more streams, by no more than their bytes") {
  const double one = sim::to_seconds(simulate_step(job_of(kPattern, 1), {}).iteration),
               two = sim::to_seconds(simulate_step(job_of(kPattern, 2), {}).iteration),
               four = sim::to_seconds(simulate_step(job_of(kPattern, 4), {}).iteration);
  CHECK(one < two);
  CHECK(two < four);
}

}  // namespace
