// Do blocks by pattern compute, hold and exchange what their parts say? A pattern of the parts of a plain family is
// that family; hybrids keep the laws of every model; what mixers with a state weigh and compute follows from their
// papers.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "scenarios/library.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/workloads/example.h"
#include "workloads/job/job_values.h"
#include "workloads/memory/memory.h"
#include "workloads/model/families/families.h"
#include "workloads/model/kept.h"
#include "workloads/model/mixers/mixers.h"
#include "workloads/model/passes.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

using PatternSets = std::vector<std::string>;

Job pattern_job(const std::string& model, const std::string& layout, const PatternSets& sets = {}) {
  const std::string text =
      fmt::format(R"(
name: pattern
cluster: {{device: h100-sxm-80gb, gpus: 32, fabric: ndr-rail}}
model: {{hidden: 1024, heads: 8, kv_heads: 4, vocab: 2560, seq: 1024, gated_mlp: true, tied_embeddings: false,
        positions: rotary, norm: rms_norm, biases: none, {}}}
parallelism: {{{}{}}}
batch: {{global: 64, micro: 1}}
precision: bf16
software: megatron-core-0.16
)",
                  model, layout.find("sharding") == std::string::npos ? "sharding: optimizer, " : "", layout);
  sim::Settings document = scenarios::parse_yaml(text, "pattern.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return scenarios::load_scenario(document).job;
}

const std::string kDense = "layers: 8, ffn_hidden: 4096",
                  kDensePattern = "blocks: {pattern: attention+mlp, repeat: 8}, ffn_hidden: 4096";
const std::string kExperts = "experts: 16, top_k: 4, expert_ffn_hidden: 512, shared_experts: 1";
const std::string kMixture = "kind: moe, layers: 8, " + kExperts;
/// One of each mixer, with both channels.
const std::string kAll =
    "blocks: [M F M A, {pattern: G+E G+E K+F A+E, repeat: 2}, A+M+F L+E], mixers: {"
    "M: {kind: mamba2, state: 64, heads: 16, head_dim: 64, groups: 4}, A: {kind: attention, output_gate: true}, "
    "G: {kind: gated_delta, heads: 16, head_dim: 64, key_heads: 8}, K: {kind: kda, heads: 8, head_dim: 64}, "
    "L: {kind: lightning, heads: 8, head_dim: 128}}, channels: {F: {kind: mlp, ffn_hidden: 2048}, "
    "E: {kind: moe, experts: 16, top_k: 4, expert_ffn_hidden: 512, shared_experts: 1}}";

const std::string kLayouts[]{
    "tensor: 1, pipeline: 1",
    "tensor: 2, pipeline: 2, sequence_parallel: true",
    "tensor: 4, pipeline: 2, virtual_pipeline: 2, sequence_parallel: true",
    "tensor: 1, pipeline: 4, sharding: gradients",
    "tensor: 1, pipeline: 1, sharding: parameters",
};

std::string refusal(const std::string& model, const std::string& layout = "tensor: 1", const PatternSets& sets = {}) {
  try {
    pattern_job(model, layout, sets);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "";
}

/// But for what was assumed, which says how many layers there are in other words.
std::string numbers_of(const StepReport& report) {
  std::string text = tests::comparable(report);
  return text.substr(0, text.rfind(fmt::format("\n{}", fmt::join(report.assumptions, "\n"))));
}

}  // namespace

TEST_CASE("a pattern of attention and MLP is the dense family, to the picosecond") {
  for (const std::string& layout : kLayouts) {
    for (const char* more : {"recompute=none", "recompute=full", "recompute=selective", "precision=fp8"}) {
      INFO(layout << ", " << more);
      const StepReport plain = simulate_step(pattern_job(kDense, layout, {more}));
      const StepReport pattern = simulate_step(pattern_job(kDensePattern, layout, {more}));
      CHECK(numbers_of(plain) == numbers_of(pattern));
      CHECK(tests::contradiction(pattern) == "");
    }
  }
  const std::string no_sp = "tensor: 2, pipeline: 2, sequence_parallel: false";
  CHECK(numbers_of(simulate_step(pattern_job(kDense, no_sp))) ==
        numbers_of(simulate_step(pattern_job(kDensePattern, no_sp))));
  CHECK(tests::contradiction(simulate_step(pattern_job(kDensePattern, no_sp))) == "");
  const std::string context = "tensor: 2, context: 2, sequence_parallel: true";
  CHECK(numbers_of(simulate_step(pattern_job(kDense, context))) ==
        numbers_of(simulate_step(pattern_job(kDensePattern, context))));
}

TEST_CASE("a pattern of attention and experts is the family of mixtures, to the picosecond") {
  const std::string pattern = "kind: moe, blocks: {pattern: attention+moe, repeat: 8}, " + kExperts;
  for (const std::string layout : {"tensor: 2, pipeline: 2, sequence_parallel: true, expert: 4",
                                   "tensor: 1, pipeline: 1, expert: 8", "tensor: 1, pipeline: 2, expert: 1"}) {
    for (const char* more : {"recompute=none", "recompute=full", "experts.dispatcher=deepep"}) {
      INFO(layout << ", " << more);
      const StepReport report = simulate_step(pattern_job(pattern, layout, {more}));
      CHECK(numbers_of(simulate_step(pattern_job(kMixture, layout, {more}))) == numbers_of(report));
      CHECK(tests::contradiction(report) == "");
    }
  }
}

TEST_CASE("more tensor ranks than heads of keys share these in a pattern too, counted twice") {
  const std::string gated =
      "ffn_hidden: 2048, blocks: {pattern: M A+mlp, repeat: 4}, mixers: {M: {kind: mamba2, state: 64, heads: 16, "
      "head_dim: 64, groups: 8}, A: {kind: attention, heads: 8, kv_heads: 2, head_dim: 128, output_gate: true}}";
  for (const char* layout : {"tensor: 4, sequence_parallel: true", "tensor: 8, sequence_parallel: true",
                             "tensor: 4, pipeline: 2, sequence_parallel: false"}) {
    for (const char* more : {"recompute=none", "recompute=full"}) {
      INFO(layout << ", " << more);
      CHECK(tests::contradiction(simulate_step(pattern_job(gated, layout, {more}))) == "");
    }
  }
  CHECK(refusal(gated, "tensor: 4", {"software=megatron-2021"}).find("kv_heads") != std::string::npos);
}

TEST_CASE("windows by pattern are windows in turn") {
  const std::string turns = "layers: 8, ffn_hidden: 4096, attention_window: 256, attention_window_every: 4";
  const std::string pattern =
      "ffn_hidden: 4096, attention_window: 256, blocks: {pattern: S+mlp S+mlp S+mlp attention+mlp, repeat: 2}, "
      "mixers: {S: {kind: sliding}}";
  const std::string states =
      "ffn_hidden: 2048, blocks: K+mlp A+M+mlp K A, mixers: {K: {kind: kda, heads: 8, head_dim: 64}, "
      "M: {kind: mamba2, state: 64, heads: 16, head_dim: 64, groups: 4}, A: {kind: attention, output_gate: true}}";
  for (const char* whole : {"tensor: 2, pipeline: 2, sequence_parallel: false", "tensor: 4, sequence_parallel: false"})
    CHECK(tests::contradiction(simulate_step(pattern_job(states, whole))) == "");
  const std::string layout = "tensor: 2, pipeline: 2, sequence_parallel: true";
  CHECK(numbers_of(simulate_step(pattern_job(turns, layout))) ==
        numbers_of(simulate_step(pattern_job(pattern, layout))));
}

TEST_CASE("hybrids are folded, counted twice, and hold what their formulas say") {
  for (const std::string layout :
       {"tensor: 1, pipeline: 1, expert: 8", "tensor: 2, pipeline: 2, sequence_parallel: true, expert: 4",
        "tensor: 4, pipeline: 4, sequence_parallel: true, expert: 2", "tensor: 1, pipeline: 2, expert: 16",
        "tensor: 2, pipeline: 1, expert: 2, expert_tensor: 2, sequence_parallel: true",
        "tensor: 1, pipeline: 1, sharding: parameters, expert: 4"}) {
    for (const char* more :
         {"recompute=none", "recompute=full", "recompute={kind: selective, modules: [norms, mlp]}"}) {
      INFO(layout << ", " << more);
      const Job job = pattern_job(kAll, layout, {more});
      const StepReport folded = simulate_step(job);
      CHECK(tests::contradiction(folded) == "");
      Question full;
      full.ranks = Question::Ranks::every;
      CHECK(tests::comparable(simulate_step(job, full)) == tests::comparable(folded));
    }
  }
}

namespace {
/// Experts behind a narrower product, values narrower than keys, values that are keys, layers that predict further.
const std::string kWidths =
    "blocks: {pattern: W+F A+E W+E S+F, repeat: 2}, mtp_layers: 2, mtp_block: A+E, mixers: {"
    "W: {kind: sliding, window: 256, heads: 8, kv_heads: 4, head_dim: 96, v_dim: 64}, "
    "A: {kind: attention, head_dim: 96, v_dim: 64, output_gate: true}, "
    "S: {kind: attention, heads: 8, kv_heads: 4, head_dim: 128, key_is_value: true, qk_norm: true}}, "
    "channels: {F: {kind: mlp, ffn_hidden: 2048}, "
    "E: {kind: moe, experts: 16, top_k: 4, expert_ffn_hidden: 512, expert_latent: 256, shared_experts: 1}}";
}  // namespace

TEST_CASE("widths of their own and further predictions are folded, and counted twice") {
  for (const std::string layout :
       {"tensor: 1, pipeline: 1, expert: 8", "tensor: 2, pipeline: 2, sequence_parallel: true, expert: 4",
        "tensor: 4, pipeline: 2, sequence_parallel: true, expert: 2, expert_tensor: 2",
        "tensor: 1, pipeline: 4, sharding: parameters, expert: 4"}) {
    for (const char* more : {"recompute=none", "recompute=full", "recompute=selective", "precision=fp8",
                             "experts.dispatcher=deepep", "experts.dispatcher=allgather"}) {
      INFO(layout << ", " << more);
      const Job job = pattern_job(kWidths, layout, {more});
      const StepReport folded = simulate_step(job);
      CHECK(tests::contradiction(folded) == "");
      Question full;
      full.ranks = Question::Ranks::every;
      CHECK(tests::comparable(simulate_step(job, full)) == tests::comparable(folded));
    }
  }
}

TEST_CASE("a dense model with further predictions is counted twice too") {
  for (const char* layout : {"tensor: 1", "tensor: 2, pipeline: 2, sequence_parallel: true",
                             "tensor: 2, sequence_parallel: false", "tensor: 1, sharding: parameters"}) {
    for (const char* more : {"recompute=none", "recompute=full", "model.biases=qkv"}) {
      INFO(layout << ", " << more);
      CHECK(tests::contradiction(simulate_step(pattern_job(kDense + ", mtp_layers: 2", layout, {more}))) == "");
    }
  }
}

TEST_CASE("context ranks exchange keys and values of widths of their own") {
  const std::string narrow =
      "ffn_hidden: 2048, blocks: {pattern: A+mlp, repeat: 4}, mixers: {A: {kind: attention, "
      "head_dim: 96, v_dim: 64}}";
  for (const char* method : {"ring", "all_gather", "all_to_all"}) {
    INFO(method);
    const std::string layout = fmt::format("tensor: 1, context: 2, context_method: {}", method);
    CHECK(tests::contradiction(simulate_step(pattern_job(narrow, layout))) == "");
  }
  CHECK(refusal(kWidths, "tensor: 1, context: 2, context_method: all_to_all, expert: 4").find("several widths") !=
        std::string::npos);
}

TEST_CASE("widths of their own weigh and compute what they say") {
  const Model model = pattern_job(kWidths, "tensor: 1, expert: 8").model;
  const double h = 1024, s = 1024, vocab = 2560;
  // Queries and keys of 96, values of 64; and one product for keys that are values.
  const double narrow = h * (8 * 96 + 4 * 96 + 4 * 64) + 8 * 64 * h, gate = h * 8 * 64;
  const double one = h * (8 * 128 + 4 * 128) + 8 * 128 * h, norms = h, heads = 2 * 128;
  const double mlp = 3 * h * 2048 + norms;
  const double experts = 16 * h + 2 * h * 256 + 16.0 * 3 * 256 * 512 + 3 * h * 512 + norms;
  const double attends = narrow + gate + norms;
  const double blocks =
      2 * ((narrow + norms + mlp) + (attends + experts) + (narrow + norms + experts) + (one + norms + heads + mlp));
  const double further = 2 * (attends + experts + 2 * h * h + 3 * norms);
  CHECK(parameter_count(model) == Approx(2 * vocab * h + blocks + further).epsilon(1e-12));

  // Two FLOPs a weight that a token meets, three passes; scores and their sums at each width.
  const double met = 4 * (narrow + gate + 16 * h + 2 * h * 256 + 4.0 * 3 * 256 * 512 + 3 * h * 512) +
                     2 * (narrow + 3 * h * 2048) +
                     2 * (narrow + 16 * h + 2 * h * 256 + 4.0 * 3 * 256 * 512 + 3 * h * 512) +
                     2 * (one + 3 * h * 2048) + 2 * 2 * h * h + 3 * vocab * h;
  const double scores = 2 * s * (4 * 8 * (96 + 64) * s + 4 * 8 * (96 + 64) * 256 + 2 * 8 * (128 + 128) * s);
  CHECK(model_flops(model, 1) == Approx(3 * (2 * met * s + scores)).epsilon(1e-12));
}

TEST_CASE("adapters stand beside the attention and the MLPs of a pattern") {
  const std::string sizes = "ffn_hidden: 4096", dense = "layers: 8, " + sizes;
  for (const char* modules : {"finetune={kind: lora, rank: 16}", "finetune={kind: lora, rank: 16, modules: all}",
                              "finetune={kind: qlora, rank: 16, modules: all}"}) {
    INFO(modules);
    const StepReport plain = simulate_step(pattern_job(dense, "tensor: 1", {modules}));
    const StepReport pattern = simulate_step(pattern_job(kDensePattern, "tensor: 1", {modules}));
    CHECK(plain.iteration == pattern.iteration);
    CHECK(plain.memory.peak_bytes == pattern.memory.peak_bytes);
    CHECK(tests::contradiction(pattern) == "");
  }
  const std::string states =
      "blocks: {pattern: M+F W+F S+F, repeat: 3}, mixers: {M: {kind: mamba2, state: 64, heads: 16, head_dim: 64, "
      "groups: 2}, "
      "W: {kind: sliding, window: 256, head_dim: 96, v_dim: 64}, S: {kind: attention, key_is_value: true}}, "
      "channels: {F: {kind: mlp, ffn_hidden: 2048}}";
  for (const char* modules : {"finetune={kind: lora, rank: 16}", "finetune={kind: lora, rank: 16, modules: all}"}) {
    for (const char* layout : {"tensor: 1, pipeline: 2", "tensor: 1, sharding: parameters",
                               "tensor: 2, sequence_parallel: true", "tensor: 2, pipeline: 2"}) {
      INFO(modules << ", " << layout);
      CHECK(tests::contradiction(simulate_step(pattern_job(states, layout, {modules}))) == "");
    }
  }
  const char* lora = "finetune={kind: lora, rank: 16}";
  CHECK(refusal("blocks: M M, mixers: {M: {kind: mamba2, state: 64, heads: 16, head_dim: 64}}", "tensor: 1", {lora})
            .find("nothing is trained") != std::string::npos);
}

TEST_CASE("context ranks of mixers with a state exchange positions for heads") {
  const std::string mamba =
      "blocks: {pattern: M M+F A+F M+E, repeat: 2}, mixers: {M: {kind: mamba2, state: 64, heads: 16, head_dim: 64, "
      "groups: 8}, A: {kind: attention}}, channels: {F: {kind: mlp, ffn_hidden: 2048}, E: {kind: moe, experts: 16, "
      "top_k: 4, expert_ffn_hidden: 512}}";
  const std::string delta =
      "blocks: {pattern: G+F G+F A+F, repeat: 2}, mixers: {G: {kind: gated_delta, heads: 16, head_dim: 64, key_heads: "
      "8}, A: {kind: attention}}, channels: {F: {kind: mlp, ffn_hidden: 2048}}";
  for (const std::string& model : {mamba, delta}) {
    for (const char* layout : {"tensor: 1, context: 2", "tensor: 2, context: 4, sequence_parallel: true",
                               "tensor: 2, context: 2, pipeline: 2, sequence_parallel: true"}) {
      for (const char* more : {"recompute=none", "recompute=full", "recompute=selective", "precision=fp8"}) {
        INFO(model << ", " << layout << ", " << more);
        const Job job = pattern_job(model, layout, {more});
        const StepReport folded = simulate_step(job);
        CHECK(tests::contradiction(folded) == "");
        Question full;
        full.ranks = Question::Ranks::every;
        CHECK(tests::comparable(simulate_step(job, full)) == tests::comparable(folded));
      }
    }
  }
  // A rank scans twice the positions of half the heads, and has as much to keep.
  const Job whole = pattern_job(mamba, "tensor: 1", {"batch.global=32"}),
            cut = pattern_job(mamba, "tensor: 1, context: 2");
  const Network one = network_of(whole), two = network_of(cut);
  const auto scans = [](const Network& network) {
    double flops = 0;
    for (const Layer& layer : network.kinds) flops += forward_flops(layer).mixers;
    return flops;
  };
  CHECK(scans(two) == Approx(scans(one) / 2).epsilon(1e-12));
}

TEST_CASE("context ranks of Kimi Delta and lightning attention hand states on, and scan what is theirs") {
  const std::string channels = "A: {kind: attention}}, channels: {F: {kind: mlp, ffn_hidden: 2048}}";
  for (const std::string mixer : {"kda, heads: 8, head_dim: 64", "lightning, heads: 8, head_dim: 128"}) {
    const std::string model =
        "blocks: {pattern: K+F K+F A+F, repeat: 2}, mixers: {K: {kind: " + mixer + "}, " + channels;
    for (const char* layout : {"tensor: 1, context: 2", "tensor: 2, context: 4, sequence_parallel: true",
                               "tensor: 2, context: 2, pipeline: 2, sequence_parallel: true"}) {
      for (const char* more : {"recompute=none", "recompute=full", "precision=fp8"}) {
        INFO(model << ", " << layout << ", " << more);
        const Job job = pattern_job(model, layout, {more});
        const StepReport folded = simulate_step(job);
        CHECK(tests::contradiction(folded) == "");
        Question full;
        full.ranks = Question::Ranks::every;
        CHECK(tests::comparable(simulate_step(job, full)) == tests::comparable(folded));
      }
    }
    // Of four layers and 64 sequences: a group of two gathers the states of both, in fp32, once in each direction.
    const StepReport report = simulate_step(pattern_job(model, "tensor: 1, context: 2"));
    double gathered = 0;
    for (const TrafficRow& row : report.traffic)
      if (row.what.starts_with("mixer state")) gathered += row.simulated_bytes;
    const double head = mixer.starts_with("kda") ? 64 * (64 + 64) : 128 * 128;
    CHECK(gathered == Approx(2 * 4 * 64 * 2 * 8 * head * 4).epsilon(1e-9));
  }
}

TEST_CASE("mixers with a state weigh what their papers say") {
  const auto weighs = [](const std::string& mixer) {
    const auto count = [&](int blocks) {
      return parameter_count(
          pattern_job(fmt::format("blocks: {{pattern: X, repeat: {}}}, mixers: {{X: {}}}", blocks, mixer), "tensor: 1")
              .model);
    };
    return count(3) - count(2) - 1024;  // without the norm ahead of it
  };
  const double h = 1024;
  // Mamba-2: z and x of 16 x 64, B and C of 4 x 128, a step a head; taps and biases; A, D and bias of the step; norm.
  const double inner = 16 * 64, groups = 4 * 128;
  CHECK(weighs("{kind: mamba2, state: 128, heads: 16, head_dim: 64, groups: 4}") ==
        Approx(h * (2 * inner + 2 * groups + 16) + 5 * (inner + 2 * groups) + 3 * 16 + inner + inner * h));
  const double values = 16 * 128, keys = 8 * 64;
  CHECK(weighs("{kind: gated_delta, heads: 16, head_dim: 128, key_heads: 8, key_dim: 64}") ==
        Approx(h * (2 * values + 2 * keys + 2 * 16) + 4 * (values + 2 * keys) + 2 * 16 + 128 + values * h));
  const double width = 8 * 128;
  CHECK(weighs("{kind: kda, heads: 8, head_dim: 128}") ==
        Approx(3 * h * width + h * 8 + 3 * 4 * width + 8 + width + 2 * (h * 128 + 128 * width) + 128 + width * h));
  CHECK(weighs("{kind: lightning, heads: 8, head_dim: 128}") == Approx(4 * h * width + width + width * h));
}

TEST_CASE("model FLOPs of a scan are those of one position after the other") {
  const auto flops = [](const std::string& mixer) {
    const auto count = [&](int blocks) {
      return model_flops(
          pattern_job(fmt::format("blocks: {{pattern: X, repeat: {}}}, mixers: {{X: {}}}", blocks, mixer), "tensor: 1")
              .model,
          1);
    };
    return (count(3) - count(2)) / 3 / 1024;  // of a token's forward pass
  };
  const double h = 1024, state = 16 * 64 * 128;
  const double in = h * (2 * 16 * 64 + 2 * 4 * 128 + 16), out = h * 16 * 64;
  CHECK(flops("{kind: mamba2, state: 128, heads: 16, head_dim: 64, groups: 4}") == Approx(2 * (in + out) + 7 * state));
  CHECK(flops("{kind: gated_delta, heads: 16, head_dim: 64, key_dim: 128}") ==
        Approx(2 * (h * (2 * 1024 + 2 * 2048 + 32) + out) + 8 * state));
}

TEST_CASE("a scan takes longer with more of anything, and its backward pass more than its forward pass") {
  const calibration::DeviceProfile device = pattern_job(kAll, "tensor: 1, expert: 8").machine.device;
  using calibration::Scan;
  for (const MixerKind* kind : mixer_kinds()) {
    Scan scan;
    scan.kind = kind->scan;
    scan.positions = 4096;
    scan.heads = scan.key_heads = 16;
    scan.key_dim = scan.value_dim = 128;
    const sim::Duration once = device.scan(scan);
    const auto with = [&](auto change) {
      Scan more = scan;
      change(more);
      return device.scan(more);
    };
    CHECK(with([](Scan& s) { s.batch = 2; }) > once);
    CHECK(with([](Scan& s) { s.positions *= 2; }) > once);
    CHECK(with([](Scan& s) { s.heads *= 2; }) > once);
    CHECK(with([](Scan& s) { s.value_dim *= 2; }) > once);
    CHECK(with([](Scan& s) { s.key_dim *= 2; }) > once);
    CHECK(with([](Scan& s) { s.pass = calibration::ScanPass::backward; }) > once);
  }
}

TEST_CASE("what a profile says of scans moves the step") {
  const auto step = [](const PatternSets& sets) {
    return simulate_step(pattern_job(kAll, "tensor: 1, expert: 8", sets)).iteration;
  };
  const sim::Duration shipped = step({});
  const std::string inherits = "cluster.device.inherits=h100-sxm-80gb";
  CHECK(step({inherits}) == shipped);
  for (const char* kernel : {"convolution", "chunks"}) {
    INFO(kernel);
    const std::string at = std::string("cluster.device.scans.") + kernel;
    CHECK(step({inherits, at + "={launch: 1 ms, bandwidth: 0.7}"}) > shipped);
    CHECK(step({inherits, at + "={launch: 3.3 us, bandwidth: 0.01}"}) > shipped);
  }
  CHECK(step({inherits, "cluster.device.scans.chunks={launch: 3.3 us, bandwidth: 0.49, rate: 0.001}"}) > shipped);
}

TEST_CASE("letters, words and lists say the same blocks") {
  const std::string rest =
      ", mixers: {M: {kind: mamba2, state: 64, heads: 16, head_dim: 64, groups: 4}, \"*\": {kind: attention}}, "
      "channels: {E: {kind: mlp, ffn_hidden: 2048}}";
  const Model letters = pattern_job("blocks: MEME*E" + rest, "tensor: 1").model;
  CHECK(letters.layers == 6);
  for (const char* same :
       {"blocks: M E M E * E", "blocks: [M, E, ME, \"*E\"]", "blocks: [{pattern: M E, repeat: 2}, \"*\", E]",
        "blocks: {pattern: [{pattern: [M, E], repeat: 2}, \"* E\"], repeat: 1}"})
    CHECK(pattern_job(same + rest, "tensor: 1").model == letters);
}

TEST_CASE("patterns that cannot be are refused in a line") {
  const std::string mamba = ", mixers: {M: {kind: mamba2, state: 64, heads: 16, head_dim: 64, groups: 4}}";
  CHECK(refusal("blocks: M X" + mamba).find("got X, expected names") != std::string::npos);
  CHECK(refusal("blocks: M+M" + mamba).find("one mixer with a state") != std::string::npos);
  CHECK(refusal("ffn_hidden: 64, blocks: mlp+M" + mamba).find("behind them one channel") != std::string::npos);
  CHECK(refusal("layers: 3, blocks: M M" + mamba).find("expected 2") != std::string::npos);
  CHECK(refusal("ffn_hidden: 64, blocks: attention+mlp" + mamba).find("is in no block") != std::string::npos);
  CHECK(refusal("layers: 2" + mamba).find("expected model.blocks") != std::string::npos);
  CHECK(refusal("blocks: M M, mtp_block: M" + mamba).find("expected model.mtp_layers") != std::string::npos);
  CHECK(refusal("blocks: M M, mtp_layers: 1, mtp_block: X" + mamba).find("got X, expected names") != std::string::npos);
  CHECK(refusal("layers: 2, mtp_block: M").find("expected model.blocks") != std::string::npos);
  CHECK(refusal("blocks: A, mixers: {A: {kind: attention, v_dim: 64, key_is_value: true}}").find("they are the keys") !=
        std::string::npos);
  CHECK(refusal("blocks: M, parallel_block: true" + mamba).find("parallel_block") != std::string::npos);
  CHECK(refusal("blocks: M M, dense_layers: 1" + mamba).find("layers in turn") != std::string::npos);
  CHECK(refusal("blocks: M M, attention_window: 16" + mamba).find("sliding or chunked") != std::string::npos);
  CHECK(refusal("blocks: M M, top_k: 2" + mamba).find("a channel of kind moe") != std::string::npos);
  CHECK(refusal("blocks: M, mixers: {M: {kind: attention, groups: 2}}").find("expected one of heads") !=
        std::string::npos);
  CHECK(refusal("blocks: {pattern: {pattern: M, repeat: 9000}, repeat: 9000}" + mamba).find("at most 10000") !=
        std::string::npos);
  CHECK(refusal("blocks: M" + mamba, "tensor: 8, sequence_parallel: true").find("groups of the mixer") !=
        std::string::npos);
  CHECK(refusal("blocks: M" + mamba, "tensor: 1, context: 8").find("expected a divisor of its 16 heads and 4") !=
        std::string::npos);
  CHECK(refusal("blocks: M N, mixers: {M: {kind: mamba2, state: 64, heads: 16, head_dim: 64, groups: 4}, N: {kind: "
                "mamba2, state: 32, heads: 16, head_dim: 64, groups: 4}}",
                "tensor: 1, context: 2")
            .find("one kind of mixer") != std::string::npos);
}
