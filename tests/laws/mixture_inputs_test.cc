// What the keys of mixtures of experts move. The walk over the schema (inputs_test.cc) asks for these cases too.
#include "tests/catch.h"
#include "tests/laws/inputs.h"

using namespace orrery;
using namespace orrery::tests;

namespace {

/// Laid over the document of the walk: 16 experts over eight ranks of a node, two stages.
const Sets kMixture{
    "model={kind: moe, layers: 8, hidden: 2048, heads: 16, ffn_hidden: 8192, vocab: 51200, seq: 1024, "
    "experts: 16, top_k: 2, expert_ffn_hidden: 2048}",
    "parallelism={tensor: 1, pipeline: 2, data: 8, expert: 8, sharding: none}"};
const Sets kLatent{"model.attention_kind=mla", "model.kv_lora=512",    "model.q_lora=512",
                   "model.qk_nope_dim=128",    "model.qk_rope_dim=64", "model.v_dim=128"};

Sets with(const Sets& more) { return plus(kMixture, more); }

}  // namespace

std::vector<Case> orrery::tests::mixture_cases() {
  using enum Effect;
  return {
      {"parallelism.expert", faster, "8", with({}), "2"},  // gradients of fewer experts a rank to reduce
      {"parallelism.expert_tensor", slower, "2", with({"parallelism.expert=4"}), "1"},
      {"model.experts", more_memory, "32", with({}), "16"},
      {"model.top_k", slower, "4", with({}), "2"},
      {"model.expert_groups", faster, "8", with({"experts.dispatcher=deepep", "model.top_groups=1"}), "1"},
      {"model.top_groups", slower, "4", with({"experts.dispatcher=deepep", "model.expert_groups=8"}), "1"},
      {"model.expert_ffn_hidden", slower, "4096", with({}), "2048"},
      {"model.expert_latent", more_memory, "1024", with({}), "256"},
      {"model.shared_experts", slower, "2", with({}), "0"},
      {"model.shared_expert_ffn_hidden", slower, "4096", with({"model.shared_experts=1"}), "2048"},
      {"model.shared_gate", more_memory, "true", with({"model.shared_experts=1"}), "false"},
      {"model.dense_layers", differs, "2", with({}), "0"},
      {"model.moe_every", differs, "2", with({}), "1"},
      {"model.mtp_layers", slower, "1", with({}), "0"},
      {"model.attention_kind", refused, "gqa", with({}), ""},
      {"model.kv_lora", slower, "1024", with(kLatent), "512"},
      {"model.q_lora", slower, "1024", with(kLatent), "512"},
      {"model.qk_nope_dim", slower, "256", with(kLatent), "128"},
      {"model.qk_rope_dim", slower, "128", with(kLatent), "64"},
      {"model.v_dim", slower, "256", with(kLatent), "128"},
      {"experts.dispatcher", differs, "allgather", with({}), "alltoall"},
      {"experts.dispatcher_sms", faster, "32", with({"experts.dispatcher=deepep"}), "4"},
      {"experts.grouped_gemm", slower, "false", with({}), "true"},
      {"experts.fused_mlp", faster, "true", with({"model.biases=all"}), "false"},
      {"experts.paged_stash", slower, "true", with({}), "false"},
      {"software.recipe.expert-weights", slower, "on_activations", with({}), "on_outputs"},
      {"software.recipe.expert-blocks", slower, "copied", with({"cluster.device=h100-sxm-80gb", "precision=fp8"}),
       "as_they_come"},
      {"software.expert_spare_processors", slower, "16",
       with({"cluster.device=h100-sxm-80gb", "precision=fp8", "experts.fused_mlp=true", "overlap.experts=true",
             "parallelism={tensor: 1, data: 16, expert: 16, sharding: none}"}),
       "0"},
      {"model.activation_clamp", slower, "7", with({}), "0"},
      {"experts.overlap_shared", faster, "true", with({"model.shared_experts=2"}), "false"},
      {"experts.fp8_dispatch", faster, "true", with({}), "false"},
      {"experts.capacity_factor", faster, "0.5", with({}), "0"},
      {"experts.pad_to_capacity", slower, "true", with({"experts.capacity_factor=2"}), "false"},
      {"experts.imbalance", slower, "1.5", with({}), "1"},
      {"experts.skew", slower, "1.2", with({}), "0"},
      {"experts.seed", differs, "2", with({"experts.skew=1.2"}), "1"},
      {"experts.fused_permutation", slower, "false", with({}), "true"},
      {"experts.fused_router", faster, "true", with({}), "false"},
      {"experts.router_fp32", faster, "false", with({}), "true"},
      {"software.defaults.experts.fused_permutation", slower, "false", with({}), "true"},
      {"software.recipe.expert-rows", slower, "weighed_in_fp32", with({}), "as_they_come"},
      {"overlap.experts", faster, "true", with({"parallelism={tensor: 1, data: 16, expert: 16, sharding: none}"}),
       "false"},
      {"software.host.expert_layer_host", slower, "20 ms", with({}), "0 us"},
      {"software.host.graphs", faster, "ahead_of_counts", with({"software.expert_layer_host='20 ms'"}), "none"},
      {"software.host.expert_dispatch_host", slower, "20 ms", with({}), "0 us"},
      {"software.host.expert_host", slower, "20 ms", with({}), "0 us"},
      {"software.host.expert_quantisers_host", slower, "20 ms", with({"cluster.device=h100-sxm-80gb", "precision=fp8"}),
       "0 us"},
      {"software.host.expert_overlap_host", slower, "20 ms",
       with({"parallelism={tensor: 1, data: 16, expert: 16, sharding: none}", "overlap.experts=true"}), "0 us"},
      {"software.experts_follow_tensor", differs, "true",
       with({"parallelism={tensor: 2, data: 8, expert: 8, sequence_parallel: true, sharding: none}"}), "false"},
      {"software.exchange_share", slower, "0.01",
       with({"parallelism={tensor: 1, data: 16, expert: 16, sharding: none}"}), "1"},
      {"recompute.kind", slower, "recompute={kind: full}", with({}), "recompute={kind: none}"},
      {"recompute.modules", slower, "recompute={modules: [moe_act]}", with({}), "recompute={modules: []}"},
  };
}

TEST_CASE("every key of a mixture of experts moves the answer as it must, or is refused") {
  for (const Case& c : mixture_cases()) check(c);
}
