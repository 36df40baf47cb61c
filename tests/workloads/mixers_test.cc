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
