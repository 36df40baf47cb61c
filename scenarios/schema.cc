// The table of the scenario language. The loader refuses what is not listed here; the defaults are those that the
// loader takes. Below `cluster.device`, `cluster.fabric` and `software` lie the keys of the documents that these names
// stand for; the rooms that read them list them.
#include "scenarios/schema.h"

#include <algorithm>
#include <array>

#include "calibration/device/kernel.h"
#include "calibration/device/keys.h"
#include "calibration/framework/rl_framework.h"
#include "scenarios/schema_finetune.h"
#include "scenarios/schema_measured.h"
#include "scenarios/schema_mixture.h"
#include "scenarios/schema_offload.h"
#include "scenarios/schema_pattern.h"
#include "scenarios/schema_power.h"
#include "scenarios/schema_recommender.h"
#include "scenarios/schema_rl.h"
#include "scenarios/schema_serving.h"
#include "sim/key_rows.h"
#include "topology/cluster.h"
#include "workloads/runs/campaign/spec.h"
#include "workloads/schedules/catalogue.h"

namespace orrery::scenarios {

namespace {

using Rows = std::vector<Key>;

constexpr const char* kUnknown = "unknown";
const std::string kBySoftware = "that of the software";

using workloads::Schedule;

/// "zb_h1, zb_h2 and zb_v": the schedules for which `holds` does.
std::string schedules_that(bool (*holds)(const Schedule&)) {
  std::string text;
  const std::vector<std::string> names = workloads::schedule_names(holds);
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

Rows document_keys() {
  return {
      sim::key_row("name", "text", "", "the id, else the file's name", {}, "Name of the scenario, in reports."),
      sim::key_row("id", "text", "", "the name", {}, "Name of a record in a list of measurements."),
      sim::key_row("description", "text", "", "-", {}, "What the scenario is, for people."),
      sim::key_row("source", "text", "", "-", {},
                   "Where a measured record was published; validate knows some tables by it."),
      sim::key_row("notes", "text", "", "-", {}, "Remarks on a measured record."),
      sim::key_row(
          "extra", "mapping", "", "-", {},
          "Facts of a measured run that the language has no key for: listed as not modelled, and they change nothing."),
      sim::key_row("extra.*", "text", "", "-", {}, "One such fact, with any value."),
  };
}

Rows cluster_keys() {
  return {
      sim::key_row("cluster", "mapping", "", "", {}, "The machine that the job runs on."),
      sim::key_row("cluster.device", "name", "", "", {},
                   "Device: a file of calibration/profiles, a path, or a mapping that may inherit one."),
      sim::key_row("cluster.device.inherits", "name", "", "-", {},
                   "A device profile; the other members of the mapping change it."),
      sim::key_row("cluster.gpus", "integer", "GPUs", "", {},
                   "GPUs (or dies, where a device is one die) that the job uses.", {"1", "1048576"}),
      sim::key_row("cluster.gpus_per_node", "integer", "GPUs", "all that a node holds", {},
                   "GPUs of each node that the job uses.", {"1", "1048576"}),
      sim::key_row("cluster.gpus_per_domain", "integer", "GPUs", "the most that all domains fill alike", {},
                   "GPUs of each NVLink domain that the job uses, where the fabric joins nodes by NVLink; the last one "
                   "may have fewer.",
                   {"1", "1048576"}),
      sim::key_row(
          "cluster.others", "list", "", "-", {},
          "Nodes of other kinds than cluster.device, each {device, gpus, stages}; the last nodes of the cluster."),
      sim::key_row("cluster.others[].device", "name", "", "", {}, "Device of these nodes: a name or a path."),
      sim::key_row("cluster.others[].gpus", "integer", "GPUs", "", {},
                   "How many of cluster.gpus, which counts all, are of this kind: whole nodes.", {"1", "1048576"}),
      sim::key_row("cluster.others[].stages", "list", "stages", "those that the placement puts there: the last", {},
                   "Pipeline stages on these nodes.", {"0", "1048575"}),
      sim::key_row("cluster.fabric", "name", "", "single-node where one node is enough", {},
                   "Network between nodes: a file of scenarios/fabrics, a path, or a mapping that may inherit one."),
      sim::key_row("cluster.fabric.inherits", "name", "", "-", {},
                   "A fabric; the other members of the mapping change it."),
  };
}

/// Sizes, and where they come from.
Rows model_keys() {
  return {
      sim::key_row("model", "name", "", "", {},
                   "The model: a file of scenarios/models, a path, or a mapping that may inherit one."),
      sim::key_row("model.inherits", "name", "", "-", {}, "A model; the other members of the mapping change it."),
      sim::key_row("model.name", "text", "", "the file's name", {}, "Name of the model, in reports."),
      sim::key_row(
          "model.kind", "choice", "", "gpt", {"gpt", "moe", "dlrm"},
          "Family: gpt is a decoder-only transformer, moe one with experts in place of some MLPs, dlrm a recommender."),
      sim::key_row("model.layers", "integer", "layers", "", {}, "Transformer layers; with blocks as many as these.",
                   {"1", "10000"}),
      sim::key_row("model.hidden", "integer", "elements", "", {},
                   "Hidden size h; a multiple of heads unless head_dim is given.", {"1", "1000000"}),
      sim::key_row("model.heads", "integer", "heads", "", {}, "Query heads.", {"1", "1000000"}),
      sim::key_row("model.kv_heads", "integer", "heads", "heads", {},
                   "Key/value heads; fewer than heads is grouped-query attention.", {"1", "1000000"}),
      sim::key_row("model.head_dim", "integer", "elements", "hidden / heads", {}, "Size of one head.", {"1", "65536"}),
      sim::key_row("model.ffn_hidden", "integer", "elements",
                   "4 x hidden; gated: 8/3 x hidden rounded up to a multiple of 256", {}, "Inner size of the MLP.",
                   {"1", "10000000"}),
      sim::key_row("model.vocab", "integer", "tokens", "", {},
                   "Vocabulary, padded to a multiple of 128 x tensor as Megatron-LM does.", {"1", "100000000"}),
      sim::key_row("model.seq", "integer", "tokens", "", {}, "Sequence length.", {"1", "100000000"}),
      sim::key_row("model.label", "text", "", "-", {}, "Free text."),
      sim::key_row("model.provenance", "text", "", "-", {}, "Where the sizes come from, for people."),
      sim::key_row("model.parameters", "number", "parameters", "-", {},
                   "Count that the source states, for people; a test holds the shipped models to it.", {"1", "1e18"}),
  };
}

/// What a model computes with its sizes.
Rows model_feature_keys() {
  return {
      sim::key_row("model.gated_mlp", "boolean", "", "true for activation swiglu, else false", {},
                   "Two up projections instead of one, multiplied with each other."),
      sim::key_row("model.activation", "choice", "", "swiglu with gated_mlp, else gelu",
                   {"gelu", "swiglu", "squared_relu", "relu"},
                   "What the MLP applies inside, to one of its up projections; gelu with gated_mlp is GeGLU."),
      sim::key_row("model.parallel_block", "boolean", "", "false", {},
                   "Attention and MLP side by side, with one layer norm and one reduction."),
      sim::key_row(
          "model.post_norm", "boolean", "", "false", {},
          "Attention and MLP normalise their output too, ahead of the residual sum (Gemma 2, arXiv 2408.00118)."),
      sim::key_row(
          "model.attention_window", "integer", "tokens", "none: full causal attention", {},
          "Each query sees the last so many keys (sliding window), or those of its chunk (attention_window_kind).",
          {"0", "100000000"}),
      sim::key_row("model.attention_window_every", "integer", "layers", "-", {},
                   "Of so many layers in turn the last sees all keys, the others the window: 2 in Gemma 2, 6 in Gemma "
                   "3, 4 in Llama 4.",
                   {"1", "10000"}),
      sim::key_row("model.attention_window_kind", "choice", "", "sliding", {"sliding", "chunked"},
                   "What the window is: the last so many keys of each query, or its chunk, where positions are cut at "
                   "multiples of attention_window and each chunk attends by itself (Llama 4: 8192, of four layers "
                   "three). A chunk may be longer than the sequence."),
      sim::key_row("model.qk_norm", "boolean", "", "false", {},
                   "Queries and keys of every head are normalised ahead of the rotation (Qwen 3, Gemma 3)."),
      sim::key_row("model.rotary_factor", "number", "", "1: rotation alone", {},
                   "Factor on queries and keys beside their rotation, as YaRN has (0.1 ln s + 1 for sequences s times "
                   "as long); fused kernels have none.",
                   {"0.001", "1000"}),
      sim::key_row("model.tied_embeddings", "boolean", "",
                   "true; false with optimizer_post_validation where first and last layer lie apart", {},
                   "Input and output embeddings share their weights."),
      sim::key_row(
          "model.positions", "choice", "", "learned", {"learned", "rotary", "none", "alibi", "relative"},
          "How positions are told apart: a learned table of seq rows, queries and keys rotated in every layer, nothing "
          "that costs, or ALiBi's bias on the scores, which costs where attention is not fused."),
      sim::key_row("model.norm", "choice", "", "layer_norm", {"layer_norm", "rms_norm"},
                   "Norms with scale and shift, or scale alone."),
      sim::key_row("model.biases", "choice", "", "all", {"all", "qkv", "none"},
                   "Which linear layers of a block add a bias."),
  };
}

Rows layout_keys() {
  return {
      sim::key_row("parallelism", "mapping", "", "every degree 1", {}, "How the work is laid out over the GPUs."),
      sim::key_row("parallelism.tensor", "integer", "ranks", "1", {},
                   "Tensor-parallel degree; divides heads, kv_heads and ffn_hidden.", {"1", "1048576"}),
      sim::key_row(
          "parallelism.tensor_in", "integer", "ranks", "1", {},
          "Of the tensor ranks those that share out the inputs of column-parallel layers and the outputs of "
          "row-parallel ones, as AxoNN does; divides tensor and model.hidden. The rest share out the other side.",
          {"1", "1048576"}),
      sim::key_row("parallelism.pipeline", "integer", "stages", "1", {}, "Pipeline stages.", {"1", "10000"}),
      sim::key_row("parallelism.virtual_pipeline", "integer", "chunks", "1", {},
                   "Chunks of layers per stage (interleaving); " +
                       schedules_that([](const Schedule& s) { return s.chunks == 2; }) + " have two.",
                   {"1", "10000"}),
      sim::key_row("parallelism.data", "integer", "ranks", "gpus / (tensor x pipeline x context)", {},
                   "Data-parallel degree.", {"1", "1048576"}),
      sim::key_row("parallelism.context", "integer", "ranks", "1", {},
                   "Context-parallel degree: sequences cut over so many ranks; needs flash attention without a window.",
                   {"1", "1048576"}),
      sim::key_row("parallelism.context_method", "choice", "", "ring", {"ring", "all_gather", "all_to_all"},
                   "Keys and values sent round the context ranks beside attention, or gathered before it; or queries, "
                   "keys and values exchanged, so that every rank attends for a part of the heads over all positions, "
                   "and the output back."),
      sim::key_row("parallelism.stage_layers", "list", "layers", "as even as can be", {},
                   "Layers of every piece of the pipeline (stages x chunks), first to last; or balanced, so that the "
                   "piece that takes longest on its device takes least."),
      sim::key_row("parallelism.optimizer_post_validation", "boolean", "",
                   "true for " + schedules_that([](const Schedule& s) { return s.runtimes.step_apart; }), {},
                   "Stages step the optimizer as they finish and check the gradient norm afterwards."),
      sim::key_row(
          "parallelism.expert", "integer", "ranks", "1", {},
          "Ranks that share out the experts of a layer, inside tensor x context x data; divides model.experts.",
          {"1", "1048576"}),
      sim::key_row("parallelism.expert_tensor", "integer", "ranks", "1", {},
                   "Ranks that every expert is cut over; divides model.expert_ffn_hidden.", {"1", "1048576"}),
  };
}

Rows sharing_keys() {
  return {
      sim::key_row("parallelism.sequence_parallel", "boolean", "", kBySoftware, {},
                   "Norms, dropout and residuals cut along the sequence over the tensor group."),
      sim::key_row("parallelism.sharding", "choice", "", kBySoftware, {"none", "optimizer", "gradients", "parameters"},
                   "What data-parallel ranks share out instead of repeating: ZeRO stages 0 to 3."),
      sim::key_row("parallelism.shard_group", "integer", "ranks", "all that hold the same weights", {},
                   "Ranks that share out what sharding names; further groups repeat it (hybrid sharding).",
                   {"1", "1048576"}),
      sim::key_row(
          "parallelism.weight_group", "integer", "ranks", "as shard_group", {},
          "With sharding: parameters, neighbours inside a shard group that share out the weights, which gather only "
          "among themselves and get new ones after a step (low-bandwidth partitioning); divides it.",
          {"1", "1048576"}),
      sim::key_row("parallelism.gradient_group", "integer", "ranks", "as shard_group", {},
                   "With sharding: parameters, neighbours inside a shard group among which every backward pass reduces "
                   "gradients; what they share out is added up between such groups once a step; divides it.",
                   {"1", "1048576"}),
      sim::key_row("parallelism.secondary_group", "integer", "ranks", "none", {},
                   "With sharding: parameters, neighbours inside a shard group that share out a second copy of the "
                   "weights, from which backward passes gather (ZeRO++ hpZ); divides it.",
                   {"1", "1048576"}),
      sim::key_row("parallelism.schedule", "choice", "",
                   "interleaved_1f1b with more than one chunk, else 1f1b or that of the software",
                   workloads::schedule_names(), "Pipeline schedule; " + schedules_that([](const Schedule& s) {
                                                  return s.splits_backward();
                                                }) + " split the backward pass."),
  };
}

Rows batch_keys() {
  return {
      sim::key_row("batch", "mapping", "", "", {}, "Sequences per step."),
      sim::key_row("batch.global", "integer", "sequences", "", {}, "Sequences per step; a multiple of data x micro.",
                   {"1", "1000000000"}),
      sim::key_row("batch.micro", "integer", "sequences", "1", {}, "Sequences per micro-batch and data-parallel rank.",
                   {"1", "1000000"}),
      sim::key_row(
          "batch.document_tokens", "integer", "tokens", "model.seq: one document", {},
          "Length of the documents that sequences are packed with, each of which attends to itself alone; of documents "
          "of many lengths the mean weighted by tokens, which attention's cost goes by (sum of squares over sum).",
          {"1", "100000000"}),
  };
}

Rows option_keys() {
  return {
      sim::key_row("precision", "choice", "", "bf16", calibration::data_type_names(),
                   "Training type, or a mapping per class of tensors."),
      sim::key_row("precision.matmul", "choice", "", "bf16", calibration::data_type_names(),
                   "Operands of the linear layers; those from fp8 on are cast from 16 bit, with scales."),
      sim::key_row("precision.activations", "choice", "", "that of matmul; types with scales: bf16",
                   {"fp32", "fp16", "bf16"}, "What flows between kernels and over the network."),
      sim::key_row("precision.gradients", "choice", "", kBySoftware, {"fp32", "bf16", "fp16"},
                   "The data-parallel reduction."),
      sim::key_row("precision.parameters", "choice", "", kBySoftware, {"fp32", "bf16", "fp16", "fp8"},
                   "The parameter all-gather."),
      sim::key_row("precision.master", "choice", "", kBySoftware, {"none", "fp32"},
                   "The copy of the weights that the optimizer updates; none: weights in 16 bits are updated as they "
                   "are, moments have their type, and sgd has no momentum, as PyTorch's by default."),
      sim::key_row("recompute", "choice", "", kBySoftware, {"none", "selective", "full", "partial"},
                   "What the backward pass computes again: nothing, attention, or whole layers; or a part of which a "
                   "record says no more, which is read as attention."),
      sim::key_row("recompute.kind", "choice", "", "selective", {"none", "selective", "full"}, "As recompute alone."),
      sim::key_row("recompute.layers", "integer", "", "all", {},
                   "Blocks that are recomputed, or parts of them: the first N of a stage's chunk.", {"1", "10000"}),
      sim::key_row(
          "recompute.modules", "list", "", "[core_attention]",
          {"core_attention", "core_attn", "attention_core", "norms", "layernorm", "qkv", "attention_out", "mlp",
           "mlp_up", "mlp_down", "activation", "mla_up_proj", "moe", "moe_act", "router", "every_second_product"},
          "Parts of a layer that selective recomputation is of."),
      sim::key_row("attention", "choice", "", kBySoftware, {"flash", "unfused", "math"},
                   "Attention in one kernel, or as GEMMs and softmax, which PyTorch calls its math backend."),
      sim::key_row("overlap", "mapping", "", kBySoftware, {},
                   "Which communication runs beside compute; true or false sets all four."),
      sim::key_row("overlap.tensor", "boolean", "", kBySoftware, {},
                   "Tensor-parallel collectives, cut into the GEMMs beside them."),
      sim::key_row("overlap.pipeline", "boolean", "", kBySoftware, {}, "Pipeline sends and receives."),
      sim::key_row("overlap.gradients", "boolean", "", kBySoftware, {},
                   "The gradient reduction, beside the backward pass."),
      sim::key_row("overlap.experts", "boolean", "", "false", {},
                   "Exchanges of experts, beside the computation of another micro-batch: on one stage, or with "
                   "interleaved_1f1b."),
      sim::key_row("overlap.parameters", "boolean", "", kBySoftware, {},
                   "The parameter all-gather, beside the forward pass."),
      sim::key_row("software", "name", "", "megatron-core-0.16", {},
                   "Generation of training software: a file of calibration/software, a path, or a mapping that may "
                   "inherit one."),
      sim::key_row("software.recipe", "mapping", "", "-", {},
                   "Which kernels the parts of a layer run, a recipe for each part."),
  };
}

Rows situation_keys() {
  return {
      sim::key_row("placement", "mapping", "", "order: [tensor, context, data, pipeline]", {},
                   "Which GPU each rank runs on; one of its keys."),
      sim::key_row("placement.order", "list", "", "[tensor, context, data, pipeline]",
                   {"tensor", "context", "data", "pipeline"},
                   "Dimensions of the layout, fastest-varying first over the GPUs."),
      sim::key_row("placement.by", "choice", "", "node", {"node", "rail", "pod"},
                   "With order: fill node after node; or put blocks of the fastest dimension on the same rail of all "
                   "nodes first; or deal the nodes out over the pods in turn."),
      sim::key_row("placement.random_seed", "integer", "", "-", {}, "A random permutation, of this seed.", {"0", ""}),
      sim::key_row("placement.gpus", "list", "", "-", {}, "The GPU of every rank: a permutation of all GPUs.",
                   {"0", "1048575"}),
  };
}

Rows perturbation_keys() {
  return {
      sim::key_row("perturb", "mapping", "", "-", {}, "What is not as it should be in the machine."),
      sim::key_row("perturb.slow_gpus", "list", "", "-", {}, "GPUs that compute slowly."),
      sim::key_row("perturb.slow_gpus[].gpu", "integer", "", "", {}, "Number of the GPU, from 0.", {"0", "1048575"}),
      sim::key_row("perturb.slow_gpus[].slowdown", "number", "", "", {},
                   "Factor on its compute times: 1.1 is a tenth slower.", {"0.1", "1000"}),
      sim::key_row("perturb.gpu_spread", "mapping", "", "-", {},
                   "Draws the pace of every GPU from cluster.fabric.gpu_spread."),
      sim::key_row("perturb.gpu_spread.seed", "integer", "", "", {}, "Seed of the draw.", {"0", ""}),
      sim::key_row("perturb.slow_nics", "list", "", "-", {}, "NICs that have lost a part of their rate."),
      sim::key_row("perturb.slow_nics[].node", "integer", "", "", {}, "Number of the node, from 0.", {"0", "1048575"}),
      sim::key_row("perturb.slow_nics[].nic", "integer", "", "", {}, "Number of the NIC within its node, from 0.",
                   {"0", "1023"}),
      sim::key_row("perturb.slow_nics[].rate", "number", "", "", {}, "Share of its rate that is left.", {"0.001", "1"}),
      sim::key_row("perturb.slow_links", "list", "", "-", {},
                   "Links that have lost a part of their rate, in both directions."),
      sim::key_row("perturb.slow_links[].between", "list", "", "", {},
                   "The two ends, named as orrery topology draws them: leaf u0 r3, spine p1.7, n12 nic3, n0 gpu5."),
      sim::key_row("perturb.slow_links[].rate", "number", "", "", {}, "Share of its rate that is left.",
                   {"0.001", "1"}),
      sim::key_row("perturb.lost_links", "list", "", "-", {},
                   "Links that are gone; traffic takes the ways that are left."),
      sim::key_row("perturb.lost_links[].between", "list", "", "", {}, "The two ends, as in slow_links."),
      sim::key_row("perturb.lost_links[].lanes", "integer", "links", "all", {},
                   "How many of the parallel links are gone.", {"1", "100000"}),
      sim::key_row("perturb.lost_switches", "list", "", "-", {}, "Switches that are gone, with all their links."),
      sim::key_row("perturb.background", "mapping", "", "-", {},
                   "Share of every link of a tier that the traffic of others takes, which does not give way."),
      sim::key_row("perturb.background.leaf", "number", "", "0", {}, "Links between NICs and switches.", {"0", "0.99"}),
      sim::key_row("perturb.background.spine", "number", "", "0", {},
                   "Links from leaves up, or between switches of a group.", {"0", "0.99"}),
      sim::key_row("perturb.background.core", "number", "", "0", {}, "Links from spines up.", {"0", "0.99"}),
      sim::key_row("perturb.background.global", "number", "", "0", {}, "Links between the groups of a dragonfly.",
                   {"0", "0.99"}),
      sim::key_row("perturb.jitter", "mapping", "", "-", {},
                   "Lognormal noise on compute times, per operation and rank."),
      sim::key_row("perturb.jitter.sigma", "number", "", "", {}, "Standard deviation of the log of compute time.",
                   {"0", "1"}),
      sim::key_row("perturb.jitter.seed", "integer", "", "0", {},
                   "Seed of the noise; the same seed gives the same times.", {"0", ""}),
      sim::key_row("perturb.message_jitter", "mapping", "", "-", {},
                   "Lognormal noise on the latency of every transfer."),
      sim::key_row("perturb.message_jitter.sigma", "number", "", "", {}, "Standard deviation of the log of latency.",
                   {"0", "3"}),
      sim::key_row("perturb.message_jitter.seed", "integer", "", "0", {},
                   "Seed of the noise; the same seed gives the same times.", {"0", ""}),
  };
}

/// What the step belongs to.
Rows training_keys() {
  return {
      sim::key_row("evaluation", "mapping", "", "-", {},
                   "Forward-only passes between training steps, reported beside the step."),
      sim::key_row("evaluation.every_steps", "integer", "steps", "", {},
                   "Training steps from one evaluation to the next.", {"1", "1000000000"}),
      sim::key_row("evaluation.sequences", "integer", "sequences", "", {}, "Sequences of one evaluation.",
                   {"1", "1000000000"}),
      sim::key_row("training", "mapping", "", "-", {}, "The run of which one step is simulated."),
      sim::key_row("training.tokens", "number", "tokens", "-", {},
                   "Tokens to train on: gives the time that the run takes.", {"1", "1e18"}),
      sim::key_row("cost", "mapping", "", "-", {}, "What the machine costs."),
      sim::key_row(
          "cost.price_per_gpu_hour_usd", "number", "US dollars", "-", {},
          "Price of one GPU for one hour, with its share of the machine: gives the cost of a token and of the run.",
          {"0", "1000000"}),
  };
}

/// The rows of another room's document, below `prefix`.
Rows below(const std::string& prefix, const sim::KeyTable& keys) {
  Rows rows;
  for (const Key& key : keys) {
    // The scenario describes `inherits` itself.
    if (key.path == "inherits") continue;
    rows.push_back(key);
    rows.back().path = prefix + "." + key.path;
  }
  return rows;
}

/// Where the keys begin that lie below a section that few scenarios of a step have. Below a name (cluster.device) they
/// are left to who reads that document.
constexpr std::array<std::string_view, 6> kOthers{"serving", "models", "traffic", "workload", "rl", "campaign"};

/// `others`: what begins there too.
std::vector<Key> all_keys(bool others) {
  std::vector<Key> keys;
  keys.reserve(others ? 2048 : 1024);
  const auto add = [&](Rows rows) { std::move(rows.begin(), rows.end(), std::back_inserter(keys)); };
  add(document_keys());
  add(cluster_keys());
  add(model_keys());
  add(model_feature_keys());
  add(mixture_keys());
  add(latent_keys());
  add(pattern_keys());
  add(power_keys());
  add(recommender_keys());
  add(layout_keys());
  add(sharing_keys());
  add(batch_keys());
  add(offload_keys());
  add(option_keys());
  add(finetune_keys());
  add(expert_keys());
  add(table_keys());
  add(situation_keys());
  add(perturbation_keys());
  add(training_keys());
  add(measured_keys());
  if (!others) return keys;
  add(serving_keys());
  add(rl_keys());
  add(below("rl.framework", calibration::rl_framework_keys()));
  keys.push_back(
      sim::key_row("campaign", "mapping", "", "-", {}, "The whole run, for orrery campaign: failures, checkpoints."));
  add(below("campaign", campaign::campaign_keys()));
  keys.push_back(sim::key_row("campaign.failures.inherits", "name", "", "-", {},
                              "A table of failures; the other members change it."));
  add(below("campaign.failures", campaign::fleet_keys()));
  keys.push_back(sim::key_row("software.inherits", "name", "", "-", {},
                              "A generation; the other members of the mapping change it."));
  add(below("software", calibration::software_keys()));
  add(below("cluster.device", calibration::profile_keys()));
  add(below("cluster.device.node", topology::node_keys()));
  add(below("cluster.fabric", topology::fabric_keys()));
  return keys;
}

}  // namespace

const sim::KeyTable& schema() {
  // Not taken apart at the program's end, which frees it at once.
  static const sim::KeyTable& keys = *new sim::KeyTable(all_keys(true), kUnknown);
  return keys;
}

void check_keys(const sim::Settings& document, std::string_view path) {
  static const sim::KeyTable& own = *new sim::KeyTable(all_keys(false), kUnknown);
  const auto is_given = [&](std::string_view other) {
    const sim::Settings* node = path.empty() ? document.find_path(other) : nullptr;
    return node != nullptr && !node->is_scalar();
  };
  if (std::none_of(kOthers.begin(), kOthers.end(), is_given)) {
    try {
      return own.check(document, path);
    } catch (const sim::UserError&) {  // the whole table knows what else was meant
    }
  }
  schema().check(document, path);
}

const std::vector<std::string>& known_keys(const std::string& path) { return schema().names_below(path); }

}  // namespace orrery::scenarios
