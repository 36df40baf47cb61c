// The part of the scenario language's table that mixtures of experts have. See schema.h.
#include "scenarios/schema_mixture.h"

#include "sim/key_rows.h"

namespace orrery::scenarios {

namespace {
const std::string kOfSoftware = "that of the software";
}  // namespace

/// What a mixture of experts has beyond these.
std::vector<Key> mixture_keys() {
  return {
      sim::key_row("model.experts", "integer", "experts", "-", {}, "Routed experts of a layer; for kind moe.",
                   {"1", "65536"}),
      sim::key_row("model.top_k", "integer", "experts", "-", {}, "Routed experts that a token goes to; for kind moe.",
                   {"1", "65536"}),
      sim::key_row("model.expert_groups", "integer", "groups", "1", {},
                   "Groups that the routed experts are dealt into, in order (DeepSeek-V3: n_group).", {"1", "65536"}),
      sim::key_row("model.top_groups", "integer", "groups", "all", {},
                   "Of these groups, those whose experts a token may go to, so that it reaches fewer ranks and nodes "
                   "(topk_group).",
                   {"1", "65536"}),
      sim::key_row("model.expert_ffn_hidden", "integer", "elements", "-", {}, "Inner size of an expert; for kind moe.",
                   {"1", "10000000"}),
      sim::key_row(
          "model.expert_latent", "integer", "elements", "model.hidden", {},
          "Width of what routed experts read and write, behind a product down to it and ahead of one up (LatentMoE).",
          {"1", "10000000"}),
      sim::key_row("model.shared_experts", "integer", "experts", "0", {}, "Experts that every token goes through.",
                   {"0", "1024"}),
      sim::key_row("model.shared_expert_ffn_hidden", "integer", "elements", "expert_ffn_hidden", {},
                   "Inner size of one of these.", {"1", "10000000"}),
      sim::key_row("model.shared_gate", "boolean", "", "false", {},
                   "The shared experts' output is scaled by a gate (Qwen 2 MoE)."),
      sim::key_row("model.dense_layers", "integer", "layers", "0", {},
                   "First layers, with a dense MLP of ffn_hidden instead.", {"0", "10000"}),
      sim::key_row("model.moe_every", "integer", "layers", "1", {},
                   "Behind these, the last of every so many layers has experts, the others a dense MLP.",
                   {"1", "10000"}),
      sim::key_row("model.residual_streams", "integer", "streams", "1", {},
                   "Residual streams that halves of blocks read and write through maps of their own: "
                   "manifold-constrained hyper-connections (arXiv 2512.24880; DeepSeek-V4: 4).",
                   {"1", "64"}),
      sim::key_row("model.mtp_layers", "integer", "layers", "0", {},
                   "Layers behind the last that predict further tokens (DeepSeek-V3, arXiv 2412.19437).", {"0", "64"}),
      sim::key_row("model.activation_clamp", "number", "", "none", {},
                   "What enters the experts' gated activation is cut to so much on both sides, by kernels of its own "
                   "(gpt-oss: 7).",
                   {"0", "1000000"}),
  };
}

/// Of attention through compressed vectors, which came with them.
std::vector<Key> latent_keys() {
  return {
      sim::key_row("model.attention_kind", "choice", "", "usual", {"usual", "mla"},
                   "mla: keys and values through a compressed vector (multi-head latent attention, arXiv 2405.04434)."),
      sim::key_row("model.kv_lora", "integer", "elements", "-", {}, "Compressed keys and values of a token; for mla.",
                   {"1", "1000000"}),
      sim::key_row("model.q_lora", "integer", "elements", "none: from the hidden state", {},
                   "Compressed queries; for mla.", {"0", "1000000"}),
      sim::key_row("model.qk_nope_dim", "integer", "elements", "-", {},
                   "Of a head's query and key, the part without positions.", {"1", "65536"}),
      sim::key_row("model.qk_rope_dim", "integer", "elements", "-", {}, "And the part that is rotated.",
                   {"1", "65536"}),
      sim::key_row("model.v_dim", "integer", "elements", "-", {}, "Of a head's value; for mla.", {"1", "65536"}),
  };
}

/// How tokens come to experts.
std::vector<Key> expert_keys() {
  return {
      sim::key_row("experts", "mapping", "", kOfSoftware, {},
                   "How a mixture's tokens come to their experts; for kind moe."),
      sim::key_row(
          "experts.dispatcher", "choice", "", kOfSoftware, {"alltoall", "allgather", "deepep", "hybridep"},
          "Copies of tokens sent to each expert's rank, all tokens gathered, or tokens sent once a node and rank."),
      sim::key_row(
          "experts.dispatcher_sms", "number", "SMs", "that of the dispatcher's document", {},
          "SMs that a kernel of deepep or hybridep takes, also from what another micro-batch computes beside it.",
          {"1", "1024"}),
      sim::key_row("experts.grouped_gemm", "boolean", "", kOfSoftware, {},
                   "The products of a rank's experts are one call."),
      sim::key_row(
          "experts.fused_mlp", "boolean", "", "false", {},
          "Products, activation and scaled biases of the experts are one module of fused kernels (TransformerEngine)."),
      sim::key_row(
          "experts.paged_stash", "boolean", "", "false", {},
          "Buffers of experts have room for more tokens than come, so that the host need not know how many; what is "
          "kept for the backward pass goes through the pages of a buffer for all layers (Megatron-Core)."),
      sim::key_row("experts.fp8_dispatch", "boolean", "", kOfSoftware, {},
                   "Tokens are cast to fp8 before they are sent."),
      sim::key_row("experts.overlap_shared", "boolean", "", kOfSoftware, {},
                   "Shared experts run beside the exchanges."),
      sim::key_row("experts.capacity_factor", "number", "", "none: no token is dropped", {},
                   "Tokens that an expert has room for, over the mean; more are dropped.", {"0", "1024"}),
      sim::key_row("experts.pad_to_capacity", "boolean", "", "false", {},
                   "Experts compute as many tokens as they have room for."),
      sim::key_row("experts.fused_permutation", "boolean", "", kOfSoftware, {},
                   "One kernel puts tokens into the order of experts or back; else they are picked row by row and "
                   "added up again element by element."),
      sim::key_row("experts.fused_router", "boolean", "", "false", {}, "Scores, top-k and map are one kernel."),
      sim::key_row("experts.router_fp32", "boolean", "", "true", {},
                   "Scores and the weights that follow from them are in fp32 (Megatron-Core, --moe-router-dtype fp32), "
                   "else in the type of the hidden state."),
      sim::key_row("experts.imbalance", "number", "", "1", {},
                   "Tokens of the busiest rank of an expert group over the mean; every other waits for it.",
                   {"1", "1024"}),
      sim::key_row(
          "experts.skew", "number", "", "0: balanced", {},
          "Exponent of the power law that loads of experts are drawn from: 1.01 as DeepSeek-R1's, 1.2 as Qwen3-235B's.",
          {"0", "8"}),
      sim::key_row("experts.seed", "integer", "", "none: the busiest rank, in the mean, stands for all of its group",
                   {}, "With skew: every rank draws what it is given, anew in every layer's pass over a micro-batch.",
                   {"0", "9007199254740992"}),
  };
}

}  // namespace orrery::scenarios
