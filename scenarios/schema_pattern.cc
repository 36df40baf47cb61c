// The part of the scenario language's table that blocks by pattern have. See schema.h.
#include "scenarios/schema_pattern.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "scenarios/load_pattern.h"
#include "sim/key_rows.h"
#include "workloads/model/mixers/mixers.h"

namespace orrery::scenarios {

namespace {

/// What names stand for: of a mixer or a channel, its kind's keys; others are refused as they are read.
void add_kinds(const std::string& at, std::vector<std::string> kinds, std::vector<Key> own, const char* meaning,
               std::vector<Key>& out) {
  out.push_back(sim::key_row(at, "mapping", "", "-", {}, meaning));
  out.push_back(
      sim::key_row(at + ".*", "mapping", "", "-", {}, "One of them, by the name that model.blocks gives it."));
  out.push_back(sim::key_row(at + ".*.kind", "choice", "", "", std::move(kinds), "What it is."));
  for (Key& key : own) {
    key.path = at + ".*." + key.path;
    out.push_back(std::move(key));
  }
}

const std::string kOfModel = "the model's";

/// Of attention; heads and head_dim of all mixers.
std::vector<Key> of_attention() {
  return {
      sim::key_row("heads", "integer", "heads", kOfModel, {}, "Query heads; of a mixer with a state its value heads.",
                   {"1", "1000000"}),
      sim::key_row("kv_heads", "integer", "heads", kOfModel, {}, "Key/value heads of attention.", {"1", "1000000"}),
      sim::key_row("head_dim", "integer", "elements", kOfModel, {}, "Size of one head (of values).", {"1", "65536"}),
      sim::key_row("qk_norm", "boolean", "", kOfModel, {}, "Queries and keys of every head are normalised."),
      sim::key_row("output_gate", "boolean", "", "false", {},
                   "Attention's output is scaled by a sigmoid that the query projection makes too (Qwen3-Next)."),
      sim::key_row("window", "integer", "tokens", "model.attention_window", {},
                   "Of sliding and chunked attention; of csa and hca, beside compressed keys, 128 by default.",
                   {"1", "100000000"}),
      sim::key_row("q_lora", "integer", "elements", kOfModel, {}, "Compressed queries, of mla, dsa, csa, hca.",
                   {"0", "1000000"}),
      sim::key_row("kv_lora", "integer", "elements", kOfModel, {}, "Compressed keys and values, of mla, dsa.",
                   {"1", "1000000"}),
      sim::key_row("qk_nope_dim", "integer", "elements", kOfModel, {},
                   "Of a head's key the part without positions, of mla.", {"1", "65536"}),
      sim::key_row("qk_rope_dim", "integer", "elements", kOfModel, {}, "And the part that is rotated.", {"1", "65536"}),
      sim::key_row("v_dim", "integer", "elements", "the model's; of attention head_dim", {},
                   "Of a head's value (MiMo-V2: 128 beside keys of 192).", {"1", "65536"}),
      sim::key_row("key_is_value", "boolean", "", "false", {},
                   "Values are what the product of the keys makes, ahead of norm and rotation (Gemma 4)."),
      sim::key_row("shares_keys", "boolean", "", "false", {},
                   "It reads keys and values that a layer ahead has made, and makes none (the last layers of Gemma 3n, "
                   "Gemma 4 E2B)."),
      sim::key_row("index_heads", "integer", "heads", "64; of msa kv_heads", {},
                   "Heads of the indexer that chooses keys, of dsa, csa and msa; 0: keys that a layer ahead chose.",
                   {"0", "1000000"}),
      sim::key_row("index_dim", "integer", "elements", "128", {}, "Size of one of these.", {"1", "65536"}),
      sim::key_row("index_top_k", "integer", "keys", "", {},
                   "Keys that a query attends to; of csa compressed ones, of msa blocks.", {"1", "100000000"}),
      sim::key_row("index_block", "integer", "tokens", "128", {}, "Tokens of a block, of msa.", {"1", "1000000"}),
      sim::key_row("compress", "integer", "tokens", "4 of csa, 128 of hca", {},
                   "Tokens to a compressed key; 0: the window is seen alone.", {"0", "1000000"}),
      sim::key_row("out_groups", "integer", "groups", "", {}, "Groups of heads of the output, of csa and hca.",
                   {"1", "1000000"}),
      sim::key_row("out_lora", "integer", "elements", "", {}, "Width that each is multiplied down to.",
                   {"1", "1000000"}),
  };
}

/// Of mixers with a state, beside heads and head_dim: widths that kinds have, and what most have.
std::vector<Key> of_states() {
  std::vector<Key> keys;
  for (const workloads::MixerKind* kind : workloads::mixer_kinds()) {
    for (const workloads::MixerWidth& width : kind->widths) {
      const bool known = std::any_of(keys.begin(), keys.end(), [&](const Key& key) { return key.path == width.key; });
      if (!known)
        keys.push_back(sim::key_row(width.key, "integer", width.unit, width.fallback_text, {}, width.meaning,
                                    {width.least, width.most}));
    }
  }
  for (Key& key :
       std::vector<Key>{sim::key_row("conv", "integer", "positions", "4; of lightning 0", {},
                                     "Taps of the convolution ahead of the scan.", {"0", "64"}),
                        sim::key_row("chunk", "integer", "positions", "256 of mamba2, 64 of the others", {},
                                     "Positions of a chunk of the scan.", {"16", "4096"}),
                        sim::key_row("gated_norm", "boolean", "", "true", {},
                                     "What the scan makes is normalised, times its gate; else times it alone.")})
    keys.push_back(std::move(key));
  return keys;
}

/// A mixer that is the operators of a graph.
std::vector<Key> of_operators() {
  std::vector<Key> keys{
      sim::key_row("run", "list", "", "", {},
                   "Of operators: a block that no family has, as the operators of its graph in order."),
      sim::key_row("run[].op", "choice", "", "",
                   {"norm", "product", "attention", "matmul", "elementwise", "copy", "residual"},
                   "What it is: a norm of the hidden state, a product with a weight, attention, a product of two "
                   "activations, a kernel bound by memory, a copy, the sum onto the residual stream."),
      sim::key_row("run[].name", "text", "", "", {}, "Name in the graph, for people."),
      sim::key_row("run[].in", "integer", "elements", "", {}, "Width that a product reads.", {"1", "10000000"}),
      sim::key_row("run[].out", "integer", "elements", "", {}, "Width that it makes.", {"1", "10000000"}),
      sim::key_row(
          "run[].cut", "choice", "", "none", {"none", "out", "in", "sum"},
          "How tensor ranks share a product out: by outputs, by inputs, by inputs with sums that every rank goes on "
          "from whole (sum), or not at all. Of a kernel bound by memory out says that its weights are shared out."),
      sim::key_row("run[].beside", "boolean", "", "false", {}, "A product reads what the one ahead of it reads."),
      sim::key_row("run[].causal", "boolean", "", "true", {}, "Attention sees no later positions.")};
  for (const auto& [name, unit, meaning] : {std::tuple{"heads", "heads", "Query heads of attention."},
                                            {"kv_heads", "heads", "Key/value heads of it."},
                                            {"head_dim", "elements", "Size of one head."}})
    keys.push_back(sim::key_row(std::string("run[].") + name, "integer", unit, "", {}, meaning, {"1", "1000000"}));
  for (const auto& [name, unit, fallback, meaning] :
       {std::tuple{"reads", "elements", "0", "Of a token, read forward."},
        {"writes", "elements", "0", "Written forward."},
        {"backward", "elements", "reads + writes + keeps", "Moved backward."},
        {"keeps", "elements", "0", "Kept for the backward pass."},
        {"weights", "parameters", "0", "Beside a matrix: biases, scales."},
        {"flops", "FLOPs", "", "Of a token, of a product of two activations."}})
    keys.push_back(sim::key_row(std::string("run[].") + name, "number", unit, fallback, {}, meaning, {"0", "1e12"}));
  keys.push_back(sim::key_row("run[].share", "number", "", "1", {},
                              "Of a sequence's tokens that it runs on: a stream with weights of its own, or 1 / seq.",
                              {"1e-9", "1e6"}));
  keys.push_back(sim::key_row("run[].shared", "boolean", "", "false", {},
                              "Its weights are those of a layer ahead with the same operator (Zamba2)."));
  keys.push_back(sim::key_row("run[].ahead", "number", "elements", "0", {},
                              "Of a token's that it reads those that a layer ahead made, the last one that makes so "
                              "many: stages of a pipeline hand them on.",
                              {"0", "1e12"}));
  return keys;
}

/// Of what stands ahead of blocks or goes through all of them.
std::vector<Key> of_ends() {
  return {sim::key_row("model.encoder", "mapping", "", "-", {},
                       "An encoder of images ahead of the decoder (ViT), on its first stage."),
          sim::key_row("model.encoder.layers", "integer", "layers", "", {}, "Blocks.", {"1", "10000"}),
          sim::key_row("model.encoder.hidden", "integer", "elements", "", {}, "Width of a patch.", {"1", "10000000"}),
          sim::key_row("model.encoder.heads", "integer", "heads", "", {}, "Attention heads.", {"1", "1000000"}),
          sim::key_row("model.encoder.ffn_hidden", "integer", "elements", "", {}, "Inner size of an MLP.",
                       {"1", "10000000"}),
          sim::key_row("model.encoder.gated_mlp", "boolean", "", "false", {},
                       "An MLP with a gate, RMS norms and biases of queries, keys and values alone; else GeLU, layer "
                       "norms and all biases."),
          sim::key_row("model.encoder.patch", "integer", "elements", "", {},
                       "Numbers of a patch: channels, frames and pixels.", {"1", "10000000"}),
          sim::key_row("model.encoder.positions", "integer", "patches", "0", {}, "Rows of a learned table.",
                       {"0", "100000000"}),
          sim::key_row("model.encoder.images", "integer", "images", "", {}, "Images of a sequence, in the mean.",
                       {"1", "100000000"}),
          sim::key_row("model.encoder.image_patches", "integer", "patches", "", {}, "Patches of an image.",
                       {"1", "100000000"}),
          sim::key_row("model.encoder.merge", "integer", "patches", "1", {}, "Patches that become one token.",
                       {"1", "1000000"}),
          sim::key_row("model.encoder.mergers", "integer", "mergers", "1", {},
                       "That make tokens: of the last block, and of blocks in between (DeepStack).", {"1", "10000"}),
          sim::key_row("model.source_tokens", "integer", "tokens", "-", {},
                       "Of model.seq those that an encoder of text reads, in blocks of bidirectional attention ahead "
                       "of the decoder's, which attend to what it made (cross) and have the other tokens (T5).",
                       {"1", "100000000"}),
          sim::key_row("model.low_rank", "integer", "elements", "-", {},
                       "Every linear layer of a block is two narrower ones with so many elements between them "
                       "(FinGPT-HPC): r (n + m) weights in place of n m.",
                       {"1", "10000000"}),
          sim::key_row("model.layer_inputs", "mapping", "", "-", {},
                       "Inputs of every layer's own beside the hidden state (Gemma 3n, Gemma 4 E2B); what a layer does "
                       "with its own is operators of its block."),
          sim::key_row("model.layer_inputs.width", "integer", "elements", "", {}, "Of a layer.", {"1", "10000000"}),
          sim::key_row("model.layer_inputs.vocab", "integer", "words", "model.vocab", {}, "Rows of their table.",
                       {"1", "100000000"})};
}

}  // namespace

std::vector<Key> pattern_keys() {
  std::vector<Key> keys = of_ends();
  std::vector<Key> of_blocks{
      sim::key_row(
          "model.blocks", "text", "", "-", {},
          "Blocks in order, by names of mixers and channels: \"M E M E A E\"; a block of both is \"A+E\", two mixers "
          "side by side \"A+M+E\". Or a list of such texts and of {pattern, repeat}; model.layers follows."),
      sim::key_row("model.blocks.pattern", "text", "", "", {}, "Blocks that are repeated, as text or a list."),
      sim::key_row("model.blocks.repeat", "integer", "", "1", {}, "How many times.", {"1", "10000"}),
      sim::key_row("model.blocks[].pattern", "text", "", "", {}, "Blocks that are repeated, as text or a list."),
      sim::key_row("model.blocks[].repeat", "integer", "", "1", {}, "How many times.", {"1", "10000"}),
      sim::key_row("model.mtp_block", "text", "", "the last of model.blocks", {},
                   "The block, as model.blocks names it, of layers that predict further tokens (model.mtp_layers)."),
      sim::key_row("model.active_parameters", "number", "parameters", "-", {},
                   "Parameters that a token meets, as the source states them, for people.", {"1", "1e18"}),
  };
  for (Key& key : of_blocks) keys.push_back(std::move(key));
  std::vector<Key> mixers = of_attention(), states = of_states();
  for (Key& key : states) mixers.push_back(std::move(key));
  for (Key& key : of_operators()) mixers.push_back(std::move(key));
  add_kinds("model.mixers", mixer_names(), std::move(mixers),
            "What tells positions of each other in blocks: attention or a state.", keys);
  std::vector<Key> experts;
  constexpr std::string_view of_all = "shared_experts";
  for (const auto& [name, unit, meaning] :
       {std::tuple{"ffn_hidden", "elements", "Inner size of an MLP."},
        {"experts", "experts", "Routed experts, of moe."},
        {"top_k", "experts", "Routed experts that a token goes to."},
        {"expert_groups", "groups", "Groups that they are dealt into."},
        {"top_groups", "groups", "Of these, those whose experts a token may go to."},
        {"expert_ffn_hidden", "elements", "Inner size of an expert."},
        {"expert_latent", "elements", "Width at routed experts, behind a product down to it (LatentMoE)."},
        {"shared_experts", "experts", "Experts that every token goes through."},
        {"shared_expert_ffn_hidden", "elements", "Inner size of one of these."}})
    experts.push_back(
        sim::key_row(name, "integer", unit, kOfModel, {}, meaning, {name == of_all ? "0" : "1", "10000000"}));
  experts.push_back(
      sim::key_row("shared_gate", "boolean", "", kOfModel, {}, "The shared experts' output is scaled by a gate."));
  experts.push_back(sim::key_row("activation_clamp", "number", "", kOfModel, {},
                                 "Limit of what enters the gated activation.", {"0", "1000000"}));
  add_kinds("model.channels", {"mlp", "moe", "none"}, std::move(experts), "What follows in blocks: an MLP or experts.",
            keys);
  return keys;
}

}  // namespace orrery::scenarios
