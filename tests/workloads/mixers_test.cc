// Do mixers with a state hold together, each by its own file? What a mixer says twice, in lists and as closed forms,
// has to agree; and RWKV-7's, which no framework cuts, has to be what its paper counts.
#include "workloads/model/mixers/mixers.h"

#include <fmt/format.h>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "workloads/model/kept.h"
#include "workloads/model/token_flops.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// Those that have to be given, and as many groups as the widest layout cuts.
std::string widths_of(const MixerKind& kind) {
  std::string text;
  for (const MixerWidth& width : kind.widths) {
    if (width.fallback == nullptr) text += fmt::format(", {}: 32", width.key);
    if (std::string_view(width.key) == "groups") text += ", groups: 4";
  }
  return text;
}

scenarios::Scenario mixer_scenario(const std::string& mixers, const std::string& blocks, const std::string& layout) {
  return scenarios::load_scenario(scenarios::parse_yaml(
      fmt::format("name: mixers\ncluster: {{device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}}\n"
                  "model: {{hidden: 1024, vocab: 2560, seq: 1024, gated_mlp: false, activation: squared_relu, "
                  "tied_embeddings: false, positions: none, norm: layer_norm, biases: none, heads: 16, "
                  "ffn_hidden: 4096, blocks: {{pattern: {}, repeat: 4}}, mixers: {{{}}}}}\n"
                  "parallelism: {{{}, sharding: optimizer}}\nbatch: {{global: 32, micro: 1}}\nprecision: bf16\n"
                  "software: megatron-core-0.16\n",
                  blocks, mixers, layout),
      "mixers.yaml"));
}

const std::string kRwkv =
    "R: {kind: rwkv7, heads: 16, head_dim: 64, decay_rank: 64, rate_rank: 64, value_rank: 32, gate_rank: 128}";

}  // namespace

TEST_CASE("every mixer with a state is cut over tensor, context and pipeline ranks, counted twice") {
  for (const MixerKind* kind : mixer_kinds()) {
    const std::string mixer = fmt::format("X: {{kind: {}, heads: 16, head_dim: 64{}}}", kind->name, widths_of(*kind));
    for (const char* layout : {"tensor: 1", "tensor: 4, sequence_parallel: true", "tensor: 2, pipeline: 2",
                               "tensor: 2, context: 2, sequence_parallel: true"}) {
      INFO(kind->name << ", " << layout);
      CHECK(tests::contradiction(simulate_step(mixer_scenario(mixer, "X+mlp", layout).job)) == "");
    }
  }
}

TEST_CASE("RWKV-7 weighs what its paper says") {
  // arXiv 2503.14456, appendix on parameters: 2 D V + 4 D + L D (12 D + 2 (dw + da + dv + dg) + 19) - (2 D dv + D); of
  // these a norm behind the embedding and the last norm, 4 D, are not counted here.
  const double d = 1024, v = 2560, layers = 4, ranks = 64 + 64 + 32 + 128;
  const double all = 2 * d * v + layers * d * (12 * d + 2 * ranks + 19);
  CHECK(parameter_count(mixer_scenario(kRwkv, "R+mlp", "tensor: 1").job.model) == all);
  // A first layer has no thin product to its values, nor its bias.
  const std::string first =
      "R: {kind: rwkv7, heads: 16, head_dim: 64, decay_rank: 64, rate_rank: 64, value_rank: 0, gate_rank: 128}";
  CHECK(parameter_count(mixer_scenario(first, "R+mlp", "tensor: 1").job.model) == all - layers * (2 * d * 32 + d));
}

TEST_CASE("RWKV-7's first layer stands beside the others, on context ranks too") {
  const std::string both =
      kRwkv +
      ", S: {kind: rwkv7, heads: 16, head_dim: 64, decay_rank: 64, rate_rank: 64, value_rank: 0, gate_rank: 128}";
  for (const char* layout : {"tensor: 1", "tensor: 2, context: 2, sequence_parallel: true"})
    CHECK(tests::contradiction(simulate_step(mixer_scenario(both, "S+mlp R+mlp", layout).job)) == "");
}

TEST_CASE("RWKV-7 computes its products and eight for each element of its states") {
  const auto flops = [](std::int64_t blocks) {
    Model model = mixer_scenario(kRwkv, "R", "tensor: 1").job.model;
    model.pattern.blocks.assign(static_cast<std::size_t>(blocks), 0);
    model.layers = blocks;
    return model_flops(model, 1) / 3 / 1024;  // of a token's forward pass
  };
  const double h = 1024, ranks = 64 + 64 + 32 + 128;
  CHECK(flops(3) - flops(2) == Approx(2 * (4 * h * h + 2 * h * ranks) + 8 * 16 * 64 * 64));
}

TEST_CASE("a token's mixtures are kept where a mixer has several") {
  const auto kept = [](const std::string& mixer) {
    const Job job = mixer_scenario(mixer, "R", "tensor: 1").job;
    const StepReport report = simulate_step(job);
    return report.memory.stages.at(0).activations;
  };
  const std::string kda = "R: {kind: kda, heads: 16, head_dim: 64}";
  CHECK(kept(kRwkv) > kept(kda));
}

TEST_CASE("Kimi's delta rule makes decays and gates by thin products, or by whole ones") {
  const auto job = [](const char* ranks, const char* layout = "tensor: 1") {
    return mixer_scenario(fmt::format("K: {{kind: kda, heads: 16, head_dim: 64{}}}", ranks), "K+mlp", layout).job;
  };
  // Four layers; decays and gates are as wide as the hidden state, thin products as a head inside.
  const double h = 1024, thin = 2 * 64 * h, both = parameter_count(job("").model);
  CHECK(parameter_count(job(", gate_rank: 0").model) - both == 4 * (h * h - thin));
  CHECK(parameter_count(job(", decay_rank: 0, gate_rank: 0").model) - both == 4 * 2 * (h * h - thin));
  CHECK(parameter_count(job(", decay_rank: 128").model) - both == 4 * thin);
  CHECK(model_flops(job(", gate_rank: 0").model, 1) - model_flops(job("").model, 1) ==
        Approx(3 * 1024 * 2 * 4 * (h * h - thin)));
  for (const char* ranks : {", gate_rank: 0", ", decay_rank: 0", ", decay_rank: 0, gate_rank: 0"})
    for (const char* layout :
         {"tensor: 1", "tensor: 4, sequence_parallel: true", "tensor: 2, context: 2, sequence_parallel: true"}) {
      INFO(ranks << ", " << layout);
      CHECK(tests::contradiction(simulate_step(job(ranks, layout))) == "");
    }
}
