// Does sparse attention compute, hold and exchange what its papers say? Parameters and FLOPs by formula, laws that hold
// for every model, and what its keys move.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "calibration/device/scan.h"
#include "scenarios/library.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/workloads/example.h"
#include "workloads/job/job_values.h"
#include "workloads/memory/memory.h"
#include "workloads/model/causal_flops.h"
#include "workloads/model/families/families.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

Job sparse_job(const std::string& blocks, const std::string& mixers, const std::string& layout,
               const std::vector<std::string>& sets = {}) {
  const std::string text =
      fmt::format(R"(
name: sparse
cluster: {{device: h100-sxm-80gb, gpus: 32, fabric: ndr-rail}}
model: {{hidden: 1024, vocab: 2560, seq: 4096, gated_mlp: true, tied_embeddings: false, positions: rotary,
        norm: rms_norm, biases: none, blocks: {}, mixers: {{{}}},
        channels: {{E: {{kind: moe, experts: 16, top_k: 4, expert_ffn_hidden: 512, shared_experts: 1}}}}}}
parallelism: {{{}{}}}
batch: {{global: 64, micro: 1}}
precision: bf16
software: megatron-core-0.16
)",
                  blocks, mixers, layout.find("sharding") == std::string::npos ? "sharding: optimizer, " : "", layout);
  sim::Settings document = scenarios::parse_yaml(text, "sparse.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return scenarios::load_scenario(document).job;
}

const std::string kLatentWidths = "heads: 8, q_lora: 256, kv_lora: 128, qk_nope_dim: 64, qk_rope_dim: 32, v_dim: 64";
const std::string kChosen = "A: {kind: dsa, " + kLatentWidths + ", index_heads: 4, index_dim: 64, index_top_k: 512}";
const std::string kShared = kChosen + ", S: {kind: dsa, " + kLatentWidths + ", index_heads: 0, index_top_k: 512}";
const std::string kBlocks =
    "A: {kind: msa, heads: 8, kv_heads: 4, head_dim: 128, qk_norm: true, index_dim: 64, index_top_k: 4}";
const std::string kCompressed = "heads: 8, head_dim: 128, q_lora: 256, out_groups: 4, out_lora: 128";
const std::string kFew = "A: {kind: csa, " + kCompressed + ", index_heads: 4, index_dim: 64, index_top_k: 256}";
const std::string kMany = "A: {kind: hca, " + kCompressed + "}";
const std::string kWindow = "A: {kind: hca, " + kCompressed + ", compress: 0, window: 256}";

/// Of one more block of the mixer alone.
template <class Count>
double of_a_block(const std::string& mixers, Count count) {
  const auto of = [&](int blocks) {
    const std::string pattern = fmt::format("[E, {{pattern: A, repeat: {}}}]", blocks);
    return count(sparse_job(pattern, mixers, "tensor: 1, expert: 8").model);
  };
  return of(3) - of(2);
}

double parameters_of(const std::string& mixers) {
  return of_a_block(mixers, [](const Model& model) { return parameter_count(model); });
}

std::string sparse_refusal(const std::string& mixers, const std::string& layout = "tensor: 1, expert: 8") {
  try {
    sparse_job("A E A E", mixers, layout);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("sparse mixers weigh what their papers say") {
  const double h = 1024, q = 256, kv = 128, nope = 64, rope = 32, v = 64, heads = 8;
  const double latent =
      h * q + q + q * heads * (nope + rope) + h * (kv + rope) + kv + kv * heads * (nope + v) + heads * v * h + h;
  const double index_heads = 4, index = 64;
  // The indexer: queries from compressed ones, keys and weights from hidden states, a layer norm of keys.
  const double indexer = q * index_heads * index + h * index + h * index_heads + 2 * index;
  CHECK(parameters_of(kChosen) == Approx(latent + indexer));
  CHECK(parameters_of("A: {kind: dsa, " + kLatentWidths + ", index_heads: 0, index_top_k: 512}") == Approx(latent));

  const double wide = 128, kv_heads = 4;
  const double grouped = h * (heads + 2 * kv_heads) * wide + heads * wide * h + 2 * wide + h;
  CHECK(parameters_of(kBlocks) == Approx(grouped + h * kv_heads * index + h * index + 2 * index));

  // Queries down and up, one head of keys, the output by groups; norms of both, of the hidden state, a sink a head.
  const double base = h * q + q * heads * wide + h * wide + 128 * heads * wide + 4 * 128 * h + q + wide + h + heads;
  CHECK(parameters_of(kWindow) == Approx(base));
  const double many = 2 * h * wide + 128 * wide + wide;  // values and gates; a place for each of 128 tokens; a norm
  CHECK(parameters_of(kMany) == Approx(base + many));
  const double few = 2 * h * 2 * wide + 4 * 2 * wide + wide;  // overlapping: twice
  const double own = 2 * h * 2 * index + 4 * 2 * index + index;
  CHECK(parameters_of(kFew) == Approx(base + few + q * index_heads * index + h * index_heads + own));
}

TEST_CASE("kernels of sparse attention do what those that calibrate runs do") {
  using calibration::MixerKernel;
  using calibration::ScanPass;
  const auto kernels_of = [](const std::string& mixers) {
    std::vector<MixerOp::Kernel> out;
    for (const Layer& layer : network_of(sparse_job("A E A E", mixers, "tensor: 1, expert: 8")).kinds)
      for (const LayerOp& op : layer.ops)
        if (const auto* mixer = std::get_if<MixerOp>(&op)) {
          out.insert(out.end(), mixer->forward.begin(), mixer->forward.end());
          out.insert(out.end(), mixer->backward.begin(), mixer->backward.end());
        }
    return out;
  };
  const auto same = [](const std::vector<MixerOp::Kernel>& kernels, std::string_view name,
                       const calibration::SparseKernel& measured) {
    INFO(name);
    const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const auto& k) { return k.name == name; });
    REQUIRE(found != kernels.end());
    const calibration::MixerWork work = work_of(measured);
    CHECK(found->kernel == measured.kernel);
    CHECK(found->work.flops == Approx(work.flops).epsilon(1e-12));
    CHECK(found->work.bytes == Approx(work.bytes).epsilon(1e-12));
    CHECK(found->work.launches == work.launches);
  };
  const calibration::DataType bf16 = calibration::DataType::bf16;
  const std::vector<MixerOp::Kernel> latent = kernels_of(kChosen), blocks = kernels_of(kBlocks);
  same(latent, "index scores", {MixerKernel::index, ScanPass::forward, bf16, 4096, 4, 1, 64, 1, 512, 1});
  same(latent, "choice of keys", {MixerKernel::choice, ScanPass::forward, bf16, 4096, 1, 1, 1, 1, 512, 1});
  for (const ScanPass pass : {ScanPass::forward, ScanPass::backward}) {
    const char* name = pass == ScanPass::forward ? "sparse attention" : "sparse attention backward";
    same(latent, name, {MixerKernel::attention, pass, bf16, 4096, 8, 1, 128 + 32, 128, 512, 1});
    // Four blocks of 128 keys for each head of keys.
    same(blocks, name, {MixerKernel::block_attention, pass, bf16, 4096, 8, 4, 128, 128, 512, 128});
  }
}

TEST_CASE("model FLOPs of sparse attention count chosen keys, and the causal ones the pairs below the diagonal") {
  const double s = 4096, heads = 8, chosen = 512, absorbed = 2 * 128 + 32, index = 4 * 64;
  const auto forward = [](const Model& model) { return model_flops(model, 1) / 3; };
  const auto causal = [](const Model& model) { return causal_model_flops(model, 1) / 3; };
  const double latent = of_a_block("A: {kind: mla, " + kLatentWidths + "}", forward);
  const double square = 2 * s * s * heads * (64 + 32 + 64);  // of latent attention, all keys whole
  const double indexer = 2 * s * (256 * index + 1024 * (64 + 4));
  CHECK(of_a_block(kChosen, forward) ==
        Approx(latent - square + indexer + 2 * s * chosen * heads * absorbed + 2 * s * s * index));
  CHECK(of_a_block(kChosen, causal) ==
        Approx(latent - square + indexer + 2 * chosen * (s - chosen / 2) * heads * absorbed + s * s * index));
  // Compressed keys: the window, and a key for 128 tokens.
  const double window = of_a_block(kWindow, forward), many = of_a_block(kMany, forward);
  CHECK(many - window == Approx(2 * s * 2 * 1024 * 128 + 4 * s * (s / 128 + 128 - 256) * heads * 128));
}

TEST_CASE("sparse attention is folded, counted twice, and holds what its formulas say") {
  struct Layout {
    std::string mixers, blocks, layout;
  };
  const std::vector<Layout> all{
      {kChosen, "{pattern: A+E, repeat: 8}", "tensor: 1, expert: 8"},
      {kChosen, "{pattern: A+E, repeat: 8}", "tensor: 2, pipeline: 2, sequence_parallel: true, expert: 4"},
      {kShared, "{pattern: A+E S+E, repeat: 4}", "tensor: 4, pipeline: 2, sequence_parallel: true, expert: 2"},
      {kChosen, "{pattern: A+E, repeat: 8}", "tensor: 1, sharding: parameters, expert: 4"},
      {kBlocks, "{pattern: A+E, repeat: 8}", "tensor: 2, pipeline: 2, sequence_parallel: true, expert: 4"},
      {kBlocks, "{pattern: A+E, repeat: 8}", "tensor: 4, pipeline: 4, sequence_parallel: true, expert: 2"},
      {kFew, "{pattern: A+E, repeat: 8}", "tensor: 1, pipeline: 2, expert: 16"},
      {kMany, "{pattern: A+E, repeat: 8}", "tensor: 1, sharding: parameters, expert: 4"},
      {kWindow, "{pattern: A+E, repeat: 8}", "tensor: 1, pipeline: 4, expert: 8"},
      {kChosen, "{pattern: A+E, repeat: 8}", "tensor: 1, context: 4, context_method: all_gather, expert: 8"},
      {kShared, "{pattern: A+E S+E, repeat: 4}",
       "tensor: 2, context: 2, context_method: all_gather, pipeline: 2, sequence_parallel: true, expert: 2"},
      {kBlocks, "{pattern: A+E, repeat: 8}",
       "tensor: 2, context: 4, context_method: all_gather, sequence_parallel: true, expert: 4"},
      {kFew, "{pattern: A+E, repeat: 8}", "tensor: 1, context: 2, context_method: all_gather, expert: 4"},
      {kMany, "{pattern: A+E, repeat: 8}", "tensor: 1, context: 4, context_method: all_gather, expert: 4"},
      {kWindow, "{pattern: A+E, repeat: 8}", "tensor: 1, context: 2, context_method: all_gather, expert: 8"},
  };
  for (const auto& [mixers, blocks, layout] : all) {
    for (const char* more :
         {"recompute=none", "recompute=full", "recompute={kind: selective, modules: [norms, mlp]}", "precision=fp8"}) {
      INFO(mixers << ", " << layout << ", " << more);
      const Job job = sparse_job(blocks, mixers, layout, {more});
      const StepReport folded = simulate_step(job);
      CHECK(tests::contradiction(folded) == "");
      Question full;
      full.ranks = Question::Ranks::every;
      CHECK(tests::comparable(simulate_step(job, full)) == tests::comparable(folded));
    }
  }
}

TEST_CASE("every key of sparse attention moves the step the way that it says") {
  const auto step = [](const std::string& mixers, std::vector<std::string> sets = {}) {
    sets.insert(sets.begin(), "model.seq=32768");  // long enough that no host is waited for
    return simulate_step(sparse_job("{pattern: A+E, repeat: 8}", mixers, "tensor: 1, expert: 8", sets)).iteration;
  };
  const sim::Duration chosen = step(kChosen), blocks = step(kBlocks), few = step(kFew), many = step(kMany);
  CHECK(step(kChosen, {"model.mixers.A.index_top_k=1024"}) > chosen);
  CHECK(step(kChosen, {"model.mixers.A.index_heads=64"}) > chosen);
  CHECK(step(kChosen, {"model.mixers.A.index_dim=512"}) > chosen);
  CHECK(step(kBlocks, {"model.mixers.A.index_block=256"}) > blocks);
  CHECK(step(kBlocks, {"model.mixers.A.index_top_k=16"}) > blocks);
  CHECK(step(kFew, {"model.mixers.A.compress=2"}) > few);
  CHECK(step(kMany, {"model.mixers.A.compress=16"}) > many);
  CHECK(step(kMany, {"model.mixers.A.window=1024"}) > many);
  CHECK(step(kMany, {"model.mixers.A.out_lora=512"}) > many);
  CHECK(step(kMany, {"model.mixers.A.out_groups=8", "model.mixers.A.out_lora=256"}) > many);
  for (const char* kernel : {"index", "choice", "attention"}) {
    INFO(kernel);
    const std::string slow = fmt::format("cluster.device.sparse.{}={{launch: 1 ms, bandwidth: 0.1}}", kernel);
    CHECK(step(kChosen, {"cluster.device.inherits=h100-sxm-80gb", slow}) > chosen);
  }
}

TEST_CASE("a long sequence costs chosen keys less than all of them") {
  const auto seconds = [](const std::string& mixers, const char* seq) {
    return sim::to_seconds(
        simulate_step(sparse_job("{pattern: A+E, repeat: 8}", mixers, "tensor: 1, expert: 8, sharding: parameters",
                                 {std::string("model.seq=") + seq, "batch.global=32"}))
            .iteration);
  };
  const std::string all = "A: {kind: mla, " + kLatentWidths + "}";
  CHECK(seconds(kChosen, "131072") < seconds(all, "131072"));
  // Twice the tokens are nearly twice the time where attention has no square, but for the indexer's.
  CHECK(seconds(kMany, "65536") / seconds(kMany, "32768") < seconds(all, "65536") / seconds(all, "32768"));
}

TEST_CASE("context ranks gather the keys that queries choose from, and scatter their gradients") {
  const std::string context = "tensor: 1, context: 4, context_method: all_gather, expert: 8";
  const double tokens = 4096, ranks = 4, layers = 8, microbatches = 8, bytes = 2, data = 8;
  // Each rank reads what the other three hold: keys of latent attention and those of the indexer, once in the forward
  // pass; gradients go the other way.
  const auto gathered = [&](const std::string& mixers, const char* what) {
    double sum = 0;
    for (const TrafficRow& row : simulate_step(sparse_job("{pattern: A+E, repeat: 8}", mixers, context)).traffic)
      if (row.dimension == "context" && row.what == what) sum += row.simulated_bytes;
    return sum;
  };
  const auto expected = [&](double elements) {
    return elements * bytes * (ranks - 1) / ranks * layers * microbatches * ranks * data;
  };
  for (const char* way : {"forward", "backward"}) {
    INFO(way);
    const std::string keys = way == std::string("forward") ? "chosen keys, forward" : "chosen key gradients, backward";
    const std::string index = way == std::string("forward") ? "index keys, forward" : "index key gradients, backward";
    CHECK(gathered(kChosen, keys.c_str()) == Approx(expected(tokens * (128 + 32))));
    CHECK(gathered(kChosen, index.c_str()) == Approx(expected(tokens * 64)));
    CHECK(gathered(kBlocks, keys.c_str()) == Approx(expected(tokens * 2 * 4 * 128)));
    CHECK(gathered(kFew, keys.c_str()) == Approx(expected(tokens / 4 * 128)));
    CHECK(gathered(kMany, keys.c_str()) == Approx(expected(tokens / 128 * 128)));
  }
  // What a rank computes is its share, but for what is ahead of the last rank's queries where keys are compressed.
  const auto seconds = [](const std::string& mixers, const std::string& layout) {
    return sim::to_seconds(
        simulate_step(sparse_job("{pattern: A+E, repeat: 8}", mixers, layout, {"model.seq=65536", "batch.global=32"}))
            .iteration);
  };
  const std::string whole = "tensor: 1, expert: 8";
  for (const std::string& mixers : {kChosen, kBlocks, kFew, kMany}) {
    INFO(mixers);
    // Four ranks to a sequence have a fourth of its tokens and four times the sequences: about the same step.
    CHECK(seconds(mixers, context) > 0.9 * seconds(mixers, whole));
    CHECK(seconds(mixers, context) < 2 * seconds(mixers, whole));
  }
}

TEST_CASE(
    "keys are gathered once more for the blocks that run again, and for "
    "no others") {
  const std::string context = "tensor: 1, context: 4, context_method: all_gather, expert: 8";
  const auto gathered = [&](const std::string& recompute, const char* what) {
    const StepReport report =
        simulate_step(sparse_job("A E S E A E S E", kShared, context, {"recompute=" + recompute}));
    CHECK(tests::contradiction(report) == "");
    double sum = 0;
    for (const TrafficRow& row : report.traffic)
      if (row.dimension == "context" && row.what == what) sum += row.simulated_bytes;
    return sum;
  };
  const char* const keys = "chosen keys, forward (recomputed)";
  const char* const index = "index keys, forward (recomputed)";
  // Of the eight blocks the first with A, of all A and S the half is A.
  const double all = gathered("full", keys), indexed = gathered("full", index);
  CHECK(all > 0);
  CHECK(gathered("{kind: full, layers: 1}", keys) == Approx(all / 4));
  CHECK(gathered("{kind: full, layers: 1}", index) == Approx(indexed / 2));
  CHECK(gathered("{kind: full, layers: 4}", keys) == Approx(all / 2));
  CHECK(gathered("{kind: full, layers: 4}", index) == Approx(indexed / 2));
}

TEST_CASE("sparse attention that cannot be is refused in a line") {
  const std::string whole = "tensor: 2, sequence_parallel: true, expert: 8";
  CHECK(sparse_refusal(kFew, whole).find("no framework cuts it") != std::string::npos);
  CHECK(
      sparse_refusal(kChosen, "tensor: 2, sequence_parallel: false, expert: 8").find("parallelism.sequence_parallel") !=
      std::string::npos);
  CHECK(sparse_refusal(kChosen, "tensor: 1, context: 2, context_method: ring, expert: 8").find("some of the keys") !=
        std::string::npos);
  CHECK(sparse_refusal("A: {kind: dsa, " + kLatentWidths + "}").find("index_top_k") != std::string::npos);
  CHECK(sparse_refusal("A: {kind: csa, heads: 8, head_dim: 128, q_lora: 256, index_top_k: 8, out_lora: 1}")
            .find("out_groups") != std::string::npos);
  CHECK(sparse_refusal("A: {kind: hca, heads: 8, head_dim: 128, q_lora: 256, out_groups: 3, out_lora: 64}")
            .find("divisor of 8 heads") != std::string::npos);
  CHECK(sparse_refusal("A: {kind: hca, index_heads: 3}").find("expected one of heads") != std::string::npos);
  CHECK(sparse_refusal("A: {kind: msa, heads: 8, kv_heads: 4, index_heads: 0, index_top_k: 4}")
            .find("only dsa and csa") != std::string::npos);
}
