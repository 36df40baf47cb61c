// Do an encoder of text and a decoder that attends to what it made weigh, compute and exchange what Vaswani et al.
// (arXiv 1706.03762) and T5 (arXiv 1910.10683) say? And inputs of every layer's own beside the hidden state, and layers
// that read keys of others, what Gemma 3n's and Gemma 4's code says?
#include <fmt/format.h>

#include <string>
#include <vector>

#include "scenarios/library.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/workloads/example.h"
#include "workloads/model/carried.h"
#include "workloads/model/causal_flops.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

constexpr double kHidden = 1024, kHeads = 16, kDim = 64, kFfn = 2816, kVocab = 2560;

Job stacks_job(const std::string& model, const std::string& layout, const std::vector<std::string>& sets = {}) {
  const std::string text =
      fmt::format(R"(
name: stacks
cluster: {{device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}}
model: {{hidden: 1024, vocab: 2560, seq: 768, norm: rms_norm, biases: none, tied_embeddings: true,
        gated_mlp: true, {}}}
parallelism: {{{}{}}}
batch: {{global: 64, micro: 2}}
precision: bf16
software: megatron-core-0.16
)",
                  model, layout.find("sharding") == std::string::npos ? "sharding: optimizer, " : "", layout);
  sim::Settings document = scenarios::parse_yaml(text, "stacks.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return scenarios::load_scenario(document).job;
}

std::string stacks_refusal(const std::string& model, const std::string& layout = "tensor: 1",
                           const std::vector<std::string>& sets = {}) {
  try {
    stacks_job(model, layout, sets);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "";
}

const std::string kMixers =
    "mixers: {B: {kind: bidirectional, heads: 16, head_dim: 64}, A: {kind: attention, heads: 16, head_dim: 64}, "
    "X: {kind: cross, heads: 16, head_dim: 64}}, channels: {F: {kind: mlp, ffn_hidden: 2816}}, positions: relative";
std::string stacks(int encoder, int decoder, int source = 512) {
  return fmt::format("source_tokens: {}, blocks: [{{pattern: B+F, repeat: {}}}, {{pattern: A+X+F, repeat: {}}}], {}",
                     source, encoder, decoder, kMixers);
}

const std::string kInputs =
    "positions: rotary, post_norm: true, activation: gelu, layer_inputs: {width: 128, vocab: 3000}, "
    "blocks: {pattern: W+F+P A+F+P WS+F+P AS+F+P, repeat: 2}, channels: {F: {kind: mlp, ffn_hidden: 2816}}, mixers: {"
    "W: {kind: sliding, heads: 8, kv_heads: 2, head_dim: 128, window: 256, qk_norm: true}, "
    "A: {kind: attention, heads: 8, kv_heads: 2, head_dim: 256, qk_norm: true}, "
    "WS: {kind: sliding, heads: 8, kv_heads: 2, head_dim: 128, window: 256, qk_norm: true, shares_keys: true}, "
    "AS: {kind: attention, heads: 8, kv_heads: 2, head_dim: 256, qk_norm: true, shares_keys: true}, "
    "P: {kind: operators, run: [{op: product, in: 1024, out: 128}, "
    "{op: elementwise, reads: 256, writes: 128, keeps: 256}, {op: product, in: 128, out: 1024}, {op: residual}]}}";

/// Both counts of every row are one, and ranks that nothing tells apart are simulated once.
void check_laws(const Job& job) {
  const StepReport folded = simulate_step(job);
  CHECK(tests::contradiction(folded) == "");
  Question full;
  full.ranks = Question::Ranks::every;
  CHECK(tests::comparable(simulate_step(job, full)) == tests::comparable(folded));
}

}  // namespace

TEST_CASE("an encoder and a decoder weigh what T5's paper says") {
  const double attention = 4 * kHidden * kHeads * kDim + kHidden, mlp = 3 * kHidden * kFfn + kHidden;
  const double ends = kVocab * kHidden + 2 * 32 * kHeads;  // and buckets of distances, of each stack
  const Model model = stacks_job(stacks(6, 4), "tensor: 1").model;
  CHECK(parameter_count(model) == Approx(ends + 6 * (attention + mlp) + 4 * (2 * attention + mlp)).epsilon(1e-12));
}

TEST_CASE("an encoder computes for the source's tokens, a decoder for the target's, across for both") {
  const double source = 512, target = 256, width = kHeads * kDim;
  const double attention = 2 * 4 * kHidden * width, mlp = 2 * 3 * kHidden * kFfn;  // a token
  const double encoder = source * (attention + mlp) + 4 * source * source * width;
  const double own = target * (attention + mlp) + 4 * target * target * width;
  // Queries and the output of the target, keys and values of the source.
  const double across = (target + source) * attention / 2 + 4 * target * source * width;
  const double head = 2 * target * kHidden * kVocab;
  const Model model = stacks_job(stacks(6, 4), "tensor: 1").model;
  const double flops = 3 * (6 * encoder + 4 * (own + across) + head);
  CHECK(model_flops(model, 1) == Approx(flops).epsilon(1e-12));
  // Only the decoder's own attention is masked.
  CHECK(causal_model_flops(model, 1) == Approx(flops - 3 * 4 * 2 * target * target * width).epsilon(1e-12));
}

TEST_CASE("an encoder and a decoder are folded, and counted twice") {
  for (const char* layout : {"tensor: 1", "tensor: 2, sequence_parallel: true", "tensor: 4, sequence_parallel: false",
                             "tensor: 2, pipeline: 2, sequence_parallel: true", "tensor: 1, pipeline: 4",
                             "tensor: 1, sharding: parameters"}) {
    for (const char* more : {"recompute=none", "recompute=full", "recompute={kind: selective, modules: [norms, mlp]}",
                             "precision=fp8", "attention=unfused"}) {
      INFO(layout << ", " << more);
      check_laws(stacks_job(stacks(4, 4), layout, {more}));
    }
  }
}

TEST_CASE("a longer source costs the encoder and attention across alone") {
  const auto step = [](const std::string& model) {
    // So many tokens at a time that no host is waited for.
    return simulate_step(stacks_job(model, "tensor: 1", {"batch.micro=32", "batch.global=512"})).iteration;
  };
  // Of one length in sum the encoder's share grows where the decoder has more blocks.
  CHECK(step(stacks(12, 2, 512)) > step(stacks(12, 2, 256)));
  CHECK(step(stacks(2, 12, 512)) < step(stacks(2, 12, 256)));
}

TEST_CASE("an encoder alone sees what comes later too") {
  const std::string blocks =
      "positions: learned, blocks: {pattern: B+F, repeat: 8}, channels: {F: {kind: mlp, "
      "ffn_hidden: 2816}}, mixers: {B: {kind: ";
  const Job both = stacks_job(blocks + "bidirectional, heads: 16}}", "tensor: 2, sequence_parallel: true"),
            behind = stacks_job(blocks + "attention, heads: 16}}", "tensor: 2, sequence_parallel: true");
  CHECK(parameter_count(both.model) == parameter_count(behind.model));
  CHECK(model_flops(both.model, 1) == model_flops(behind.model, 1));
  CHECK(causal_model_flops(both.model, 1) == model_flops(both.model, 1));
  const auto longer = [&](const char* kind) {
    return simulate_step(stacks_job(blocks + kind + ", heads: 16}}", "tensor: 1", {"model.seq=16384"})).iteration;
  };
  CHECK(longer("bidirectional") > longer("attention"));
  check_laws(both);
}

TEST_CASE("inputs of every layer's own and shared keys weigh what they say") {
  const Model model = stacks_job(kInputs, "tensor: 1").model;
  const double h = kHidden, own = 128, layers = 8, norms = 2 * h;  // ahead of and behind a half
  const auto attention = [&](double dim, bool makes) {
    return (8 + (makes ? 4 : 0)) * dim * h + 8 * dim * h + (makes ? 2 : 1) * dim + norms;
  };
  const double mlp = 3 * h * kFfn + norms, behind = 2 * h * own + h;
  const double mixers =
      2 * (attention(128, true) + attention(256, true) + attention(128, false) + attention(256, false));
  const double inputs = 3000 * layers * own + h * layers * own + own;
  CHECK(parameter_count(model) == Approx(kVocab * h + inputs + mixers + layers * (mlp + behind)).epsilon(1e-12));
}

TEST_CASE("inputs of every layer's own and shared keys are folded, and counted twice") {
  for (const char* layout : {"tensor: 1", "tensor: 2, sequence_parallel: true", "tensor: 2, sequence_parallel: false",
                             "tensor: 1, sharding: parameters", "tensor: 1, pipeline: 4",
                             "tensor: 2, pipeline: 2, sequence_parallel: true"}) {
    for (const char* more : {"recompute=none", "recompute=full", "precision=fp8"}) {
      INFO(layout << ", " << more);
      check_laws(stacks_job(kInputs, layout, {more}));
    }
  }
}

TEST_CASE("layers that read keys of others hold and compute less") {
  const auto shared = [](const char* whether) {
    return simulate_step(
        stacks_job(kInputs, "tensor: 1", {fmt::format("model.mixers.WS.shares_keys={}", whether), "batch.micro=4"}));
  };
  const StepReport with = shared("true"), without = shared("false");
  CHECK(with.iteration < without.iteration);
  CHECK(with.memory.peak_bytes < without.memory.peak_bytes);
}

TEST_CASE("stages hand on the inputs of all layers beside hidden states") {
  const auto message = [](const char* width) {
    const StepReport report = simulate_step(
        stacks_job(kInputs, "tensor: 1, pipeline: 4", {std::string("model.layer_inputs.width=") + width}));
    for (const TrafficRow& row : report.traffic)
      if (row.what == "activations, forward") return row.bytes_per_call;
    return 0.0;
  };
  // The first stage's message carries the keys and values too that the second reads: two heads of 128, two of 256.
  const double keys = 2 * (2 * 128 + 2 * 256);
  const double tokens = message("128") / (2 * (kHidden + 8 * 128 + keys));  // of a micro-batch
  CHECK(tokens == 2 * 768);
  CHECK(message("256") == Approx(2 * tokens * (kHidden + 8 * 256 + keys)));
}

TEST_CASE("keys that later layers read go along with hidden states as far as their last reader") {
  const std::string model =
      "positions: rotary, blocks: A+F B+F S+F T+F S+F A+F, channels: {F: {kind: mlp, ffn_hidden: 2816}}, mixers: {"
      "A: {kind: attention, heads: 8, kv_heads: 2, head_dim: 128}, "
      "B: {kind: sliding, heads: 8, kv_heads: 4, head_dim: 128, window: 256}, "
      "S: {kind: attention, heads: 8, kv_heads: 2, head_dim: 128, shares_keys: true}, "
      "T: {kind: sliding, heads: 8, kv_heads: 4, head_dim: 128, window: 256, shares_keys: true}}";
  // Blocks 2 and 4 (from 0) read those of block 0, block 3 those of block 1; nothing reads the last block's.
  const double whole = 2 * 2 * 128, near = 2 * 4 * 128, tokens = 2 * 768, bytes = 2;
  const double into[]{0, whole, whole + near, whole + near, whole, 0};
  for (std::int64_t block = 0; block < 6; ++block)
    CHECK(carried_into(stacks_job(model, "tensor: 1").model, block) == into[block]);
  // Of a message in the mean over the boundaries between stages, each tensor rank's alone.
  const auto sent = [&](const std::string& layout, double boundaries, double ranks,
                        const std::vector<std::string>& sets = {}) {
    const Job job = stacks_job(model, layout, sets);
    check_laws(job);
    const double micro_batches = 64 / 2;
    for (const TrafficRow& row : simulate_step(job).traffic)
      if (row.what == "activations, forward" && row.operation == "send_receive")
        return row.simulated_bytes / micro_batches / boundaries / ranks;
    return 0.0;
  };
  const double one = tokens * bytes;
  const std::vector<std::string> six{"cluster.gpus=24"};
  CHECK(sent("tensor: 1, pipeline: 2", 1, 1) == Approx(one * (kHidden + into[3])));
  CHECK(sent("tensor: 2, sequence_parallel: true, pipeline: 2", 1, 2) == Approx(one * (kHidden + into[3]) / 2));
  // Megatron-Core sends whole hidden states in parts too, a rank its own heads of keys in any case.
  CHECK(sent("tensor: 2, sequence_parallel: false, pipeline: 2", 1, 2) == Approx(one * (kHidden + into[3]) / 2));
  // Two stages of three chunks have a block in each, as six stages have.
  const double all = into[1] + into[2] + into[3] + into[4] + into[5];
  CHECK(sent("tensor: 1, pipeline: 6", 5, 1, six) == Approx(one * (kHidden + all / 5)));
  CHECK(sent("tensor: 1, pipeline: 2, virtual_pipeline: 3", 5, 1) == Approx(one * (kHidden + all / 5)));
}

TEST_CASE("wider inputs of layers take longer, and more rows of their table are held") {
  const auto with = [](const char* set) {
    return simulate_step(stacks_job(kInputs, "tensor: 1", {set, "batch.micro=4"}));
  };
  const StepReport usual = with("model.layer_inputs.vocab=3000");
  CHECK(with("model.layer_inputs.width=1024").iteration > usual.iteration);
  CHECK(with("model.layer_inputs.vocab=30000").memory.peak_bytes > usual.memory.peak_bytes);
}

TEST_CASE("stacks that cannot be are refused in a line") {
  const auto refused = [](const std::string& model, const char* with, const std::string& layout = "tensor: 1",
                          const std::vector<std::string>& sets = {}) {
    const std::string message = stacks_refusal(model, layout, sets);
    INFO(message);
    CHECK(message.find(with) != std::string::npos);
    CHECK(message.find("expected") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  };
  CHECK(stacks_refusal(stacks(2, 2)) == "");
  refused(stacks(2, 2, 768), "expected fewer than model.seq");
  refused("blocks: \"B+F A+X+F\", " + kMixers, "without model.source_tokens");
  refused(
      "source_tokens: 512, blocks: {pattern: B+mlp, repeat: 2}, ffn_hidden: 512, mixers: {B: {kind: bidirectional, "
      "heads: 16}}",
      "attention across");
  refused("source_tokens: 512, blocks: \"A+X+F B+F\", " + kMixers, "the encoder's blocks first");
  refused("source_tokens: 512, blocks: \"B+F A+F+X\", " + kMixers, "behind the block's own");
  refused(stacks(2, 2), "parallelism.context", "tensor: 1, context: 2");
  refused(stacks(2, 2, 511), "parallelism.tensor", "tensor: 2, sequence_parallel: true");
  refused(stacks(2, 2), "finetune", "tensor: 1", {"finetune={kind: lora, rank: 8}"});
  refused(kInputs, "model.layer_inputs.width", "tensor: 1", {"model.layer_inputs.width=0"});
}
