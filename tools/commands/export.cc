// `orrery export megatron`: the launch line of a layout, to run what search found; `orrery export chakra`: a step as
// execution traces. Every value is written out, also
// where Megatron-LM has the same default. What only orrery knows (devices, fabrics, perturbations) goes into comments;
// what Megatron-LM cannot do is refused.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <memory>
#include <numeric>
#include <set>

#include "scenarios/scenario.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/import/hybrid_letters.h"
#include "tools/import/import.h"
#include "tools/import/serving_flags.h"
#include "tools/parallel.h"
#include "tools/replay/chakra.h"
#include "tools/replay/step_graph.h"
#include "tools/report/output.h"
#include "workloads/schedules/catalogue.h"

namespace orrery::tools {

using workloads::DataType;
using workloads::Job;

namespace {

/// Ranks beyond which --ranks is asked for: a file takes a megabyte or more.
constexpr std::int64_t kMostExported = 1024;

/// Flags as they are found, and remarks on what has none.
struct LaunchArguments {
  std::vector<std::string> lines, remarks;
  void add(const std::string& flag) { lines.push_back("--" + flag); }
  template <class Value>
  void add(const std::string& flag, const Value& value) {
    lines.push_back(fmt::format("--{} {}", flag, value));
  }
  void add_if(bool holds, const std::string& flag) {
    if (holds) add(flag);
  }
};

[[noreturn]] void no_flag(const std::string& id, const std::string& key, std::string_view value,
                          const std::string& right) {
  throw sim::UserError(sim::Place{id, 0, 0}, key,
                       fmt::format("got {}, for which Megatron-LM has no flag, expected {}", value, right));
}

void model_arguments(const workloads::Model& model, const std::string& id, LaunchArguments& out) {
  if (model.parallel_block) no_flag(id, "model.parallel_block", "true", "false");
  if (model.attention.chunked && model.attention.window < model.seq)
    no_flag(id, "model.attention_window_kind", "chunked", "sliding, or model.seq up to attention_window");
  if (model.attention.document > 0 && model.attention.document < model.seq)
    no_flag(id, "batch.document_tokens", std::to_string(model.attention.document), "none: one document a sequence");
  if (model.post_norm) no_flag(id, "model.post_norm", "true", "false");
  if (model.mlp.activation == workloads::Activation::relu)
    no_flag(id, "model.activation", "relu", "gelu, swiglu or squared_relu");
  out.add("num-layers", model.layers);
  out.add("hidden-size", model.hidden);
  out.add("ffn-hidden-size", model.mlp.hidden);
  out.add("num-attention-heads", model.attention.heads);
  if (model.attention.kv_heads != model.attention.heads) {
    out.add("group-query-attention");
    out.add("num-query-groups", model.attention.kv_heads);
  }
  if (model.attention.head_width > 0) out.add("kv-channels", model.attention.head_width);
  out.add("seq-length", model.seq);
  out.add("max-position-embeddings", model.seq);
  out.add("vocab-size", model.vocab);
  out.add("make-vocab-size-divisible-by", 128);
  out.add_if(model.mlp.gated, "swiglu");
  out.add_if(model.mlp.activation == workloads::Activation::squared_relu, "squared-relu");
  out.add_if(model.attention.qk_norm, "qk-layernorm");
  out.add_if(!model.tied_embeddings, "untie-embeddings-and-output-weights");
  out.add("position-embedding-type", model.positions == workloads::Positions::learned  ? "learned_absolute"
                                     : model.positions == workloads::Positions::rotary ? "rope"
                                     : model.positions == workloads::Positions::alibi  ? "alibi"
                                                                                       : "none");
  out.add("normalization", model.norm == workloads::Norm::rms_norm ? "RMSNorm" : "LayerNorm");
  out.add_if(model.biases != workloads::Biases::all, "disable-bias-linear");
  out.add_if(model.biases == workloads::Biases::qkv, "add-qkv-bias");
  const bool chunked = model.attention.chunked;  // Megatron-Core knows none: all of a sequence no longer than a chunk
  if (model.attention.window > 0 && !chunked) out.add("window-size", fmt::format("{},0", model.attention.window - 1));
  if (model.attention.window_every > 0 && !chunked) out.add("window-attn-skip-freq", model.attention.window_every);
}

/// Every letter is a layer of Megatron-LM's.
void pattern_arguments(const workloads::Model& model, const std::string& id, LaunchArguments& out) {
  const Letters letters = letters_of(model);
  if (letters.letters.empty())
    no_flag(id, "model.blocks", letters.why, "Mamba-2, attention, MLPs and experts, each of one size");
  workloads::Model each = model;
  each.layers = layers_of_letters(letters.letters);
  if (each.mlp.hidden == 0) each.mlp.hidden = 4 * each.hidden;  // which no layer has
  model_arguments(each, id, out);
  out.add("hybrid-layer-pattern", fmt::format("\"{}\"", letters.letters));
  out.add("mamba-num-heads", letters.mamba.heads);
  out.add("mamba-head-dim", letters.mamba.head_dim);
  out.add("mamba-state-dim", letters.mamba.state);
  out.add("mamba-num-groups", letters.mamba.groups);
  out.remarks.emplace_back(
      "model.blocks: for pretrain_hybrid.py, with --spec megatron.core.models.hybrid.hybrid_layer_specs "
      "hybrid_stack_spec; each letter is a layer of its own");
}

void mixture_arguments(const workloads::Model& model, const workloads::Parallelism& p,
                       const workloads::ExpertStyle& style, LaunchArguments& out) {
  const workloads::Experts& experts = model.experts;
  if (!experts.any()) return;
  out.add("num-experts", experts.count);
  out.add("moe-router-topk", experts.top_k);
  if (experts.groups > 1) {
    out.add("moe-router-num-groups", experts.groups);
    out.add("moe-router-group-topk", experts.top_groups);
  }
  out.add("moe-ffn-hidden-size", experts.ffn_hidden);
  if (experts.shared > 0) out.add("moe-shared-expert-intermediate-size", experts.shared_width());
  if (experts.latent > 0) out.add("moe-latent-size", experts.latent);
  out.add_if(experts.shared > 0 && experts.shared_gate, "moe-shared-expert-gate");
  if (experts.mtp_layers > 0 && !model.pattern.any()) out.add("mtp-num-layers", experts.mtp_layers);
  if (experts.dense_layers > 0)
    out.add("moe-layer-freq",
            fmt::format("\"([0]*{}+[1]*{})\"", experts.dense_layers, model.layers - experts.dense_layers));
  else if (experts.every > 1)
    out.add("moe-layer-freq", experts.every);
  if (const workloads::LatentAttention& latent = model.attention.latent; latent.any()) {
    out.add("multi-latent-attention");
    if (latent.q_rank > 0) out.add("q-lora-rank", latent.q_rank);
    out.add("kv-lora-rank", latent.kv_rank);
    out.add("qk-head-dim", latent.nope_dim);
    out.add("qk-pos-emb-head-dim", latent.rope_dim);
    out.add("v-head-dim", latent.v_dim);
  }
  out.add("expert-model-parallel-size", p.expert);
  out.add("expert-tensor-parallel-size", p.expert_tensor);
  const bool flex = workloads::sends_once(style.dispatcher);
  out.add("moe-token-dispatcher-type", flex ? "flex" : workloads::name_of(style.dispatcher));
  if (flex) out.add("moe-flex-dispatcher-backend", workloads::name_of(style.dispatcher));
  out.add_if(style.grouped, "moe-grouped-gemm");
  out.add_if(style.fused_permutation, "moe-permute-fusion");
  out.add_if(style.fused_router, "moe-router-fusion");
  if (style.router_fp32) out.add("moe-router-dtype", "fp32");
  out.add_if(style.overlaps_shared, "moe-shared-expert-overlap");
  if (style.capacity_factor > 0) out.add("moe-expert-capacity-factor", fmt::format("{:g}", style.capacity_factor));
  out.add_if(style.pads_to_capacity, "moe-pad-expert-input-to-capacity");
}

/// Only the first and the last stage may hold another number of layers than the rest.
void stage_arguments(const workloads::Parallelism& p, const std::string& id, LaunchArguments& out) {
  const std::vector<std::int64_t>& layers = p.stage_layers;
  if (layers.empty()) return;
  bool even = p.virtual_pipeline == 1 && layers.size() > 2;
  for (std::size_t i = 2; i + 1 < layers.size(); ++i) even = even && layers[i] == layers[1];
  if (!even)
    no_flag(id, "parallelism.stage_layers", fmt::format("[{}]", fmt::join(layers, ", ")),
            "one number for all but the first and the last stage");
  out.add("decoder-first-pipeline-num-layers", layers.front());
  out.add("decoder-last-pipeline-num-layers", layers.back());
}

/// `layers`: of the model. `overlaps`: messages between stages, with compute.
void pipeline_arguments(const workloads::Parallelism& p, std::int64_t layers, bool overlaps, const std::string& id,
                        LaunchArguments& out) {
  if (!p.schedule->runtimes.with_megatron) {
    const auto known = workloads::schedule_names([](const workloads::Schedule& s) { return s.runtimes.with_megatron; });
    no_flag(id, "parallelism.schedule", p.schedule->name, fmt::format("{}", fmt::join(known, " or ")));
  }
  if (p.inside.tensor_in > 1) no_flag(id, "parallelism.tensor_in", fmt::to_string(p.inside.tensor_in), "1");
  out.add("tensor-model-parallel-size", p.tensor);
  out.add("pipeline-model-parallel-size", p.pipeline);
  if (p.virtual_pipeline > 1) {
    const bool whole = layers % (p.pipeline * p.virtual_pipeline) == 0;
    if (whole) out.add("num-layers-per-virtual-pipeline-stage", layers / (p.pipeline * p.virtual_pipeline));
    if (!whole) out.add("num-virtual-stages-per-pipeline-rank", p.virtual_pipeline);
    if (!whole) out.add("account-for-embedding-in-pipeline-split");
    if (!whole) out.add("account-for-loss-in-pipeline-split");
    out.add_if(!overlaps, "no-overlap-p2p-communication");
  } else if (p.pipeline > 1 && overlaps) {
    out.remarks.emplace_back(
        "overlap.pipeline: Megatron-LM overlaps sends with compute only where stages are interleaved");
  }
  stage_arguments(p, id, out);
}

/// `replicas`: ranks that hold the same weights.
void sharing_arguments(const workloads::Parallelism& p, std::int64_t replicas, LaunchArguments& out) {
  if (p.context > 1) {
    out.add("context-parallel-size", p.context);
    using enum workloads::ContextMethod;
    out.add("cp-comm-type", p.context_method == ring ? "p2p" : p.context_method == all_to_all ? "a2a" : "all_gather");
  }
  out.add_if(p.sequence_parallel && p.tensor > 1, "sequence-parallel");
  using workloads::Sharding;
  if (p.sharding == Sharding::optimizer) out.add("use-distributed-optimizer");
  if (p.sharding == Sharding::gradients || p.sharding == Sharding::parameters) {
    out.add("use-megatron-fsdp");
    out.add("data-parallel-sharding-strategy",
            p.sharding == Sharding::gradients ? "optim_grads" : "optim_grads_params");
  }
  if (p.shard_group > 0 && p.sharding != Sharding::none)
    out.add("num-distributed-optimizer-instances", replicas / p.shard_group);
  if (p.optimizer_post_validation) out.remarks.emplace_back("parallelism.optimizer_post_validation: no flag");
}

void batch_arguments(const workloads::Batch& batch, const workloads::Overlap& overlap, LaunchArguments& out) {
  out.add("micro-batch-size", batch.micro);
  out.add("global-batch-size", batch.global);
  out.add_if(overlap.tensor, "tp-comm-overlap");
  out.add_if(overlap.gradients, "overlap-grad-reduce");
  out.add_if(overlap.parameters, "overlap-param-gather");
  out.add_if(overlap.experts, "overlap-moe-expert-parallel-comm");
}

void placement_arguments(const workloads::Placement& placement, const std::string& id, LaunchArguments& out) {
  const workloads::Placement standard;
  if (placement == standard) return;
  using workloads::Dim;
  const std::vector<Dim> swapped{Dim::tensor, Dim::context, Dim::pipeline, Dim::data};
  if (placement.kind != workloads::Placement::Kind::order || placement.order != swapped)
    no_flag(id, "placement", "another order of ranks",
            "[tensor, context, data, pipeline] or [tensor, context, pipeline, data]");
  out.add("use-tp-pp-dp-mapping");
}

void precision_arguments(const workloads::Precision& types, const std::string& id, LaunchArguments& out) {
  const bool half = types.activations == DataType::fp16;
  if (types.activations != DataType::fp32) out.add(half ? "fp16" : "bf16");
  switch (types.matmul) {  // megatron/training/arguments.py, --fp8-recipe and --fp4-format
    case DataType::fp8:
      out.add("fp8-format", "hybrid");
      break;
    case DataType::mxfp8:
    case DataType::fp8_blockwise:
      out.add("fp8-format", "e4m3");
      out.add("fp8-recipe", types.matmul == DataType::mxfp8 ? "mxfp8" : "blockwise");
      break;
    case DataType::nvfp4:
      out.add("fp4-format", "e2m1");
      break;
    case DataType::fp8_rowwise:
      no_flag(id, "precision", calibration::name_of(types.matmul), "fp8, mxfp8 or fp8-blockwise");
      break;
    case DataType::fp32:
    case DataType::bf16:
    case DataType::fp16:
      break;
  }
  if (types.gradients == DataType::fp32) out.add("accumulate-allreduce-grads-in-fp32");
  if (types.gradients == DataType::bf16) out.add("grad-reduce-in-bf16");
  const bool fits = types.gradients == DataType::fp32 || types.gradients == types.activations;
  if (!fits) no_flag(id, "precision.gradients", calibration::name_of(types.gradients), "fp32, or the training type");
  if (types.parameters == DataType::fp8) out.add("fp8-param-gather");
  if (types.parameters != DataType::fp8 && types.parameters != types.activations)
    no_flag(id, "precision.parameters", calibration::name_of(types.parameters), "the training type");
}

/// Of selective recomputation; Megatron-LM's own choice is the core of attention.
void module_arguments(const workloads::RecomputedParts& parts, const std::string& id, LaunchArguments& out) {
  using Parts = workloads::RecomputedParts;
  static constexpr std::pair<bool Parts::*, const char*> kWithFlag[] = {
      {&Parts::core_attention, "core_attn"}, {&Parts::norms, "layernorm"}, {&Parts::mlp, "mlp"},
      {&Parts::latent_up, "mla_up_proj"},    {&Parts::experts, "moe"},     {&Parts::expert_activation, "moe_act"}};
  static constexpr std::pair<bool Parts::*, const char*> kWithout[] = {
      {&Parts::qkv, "qkv"},           {&Parts::attention_out, "attention_out"},
      {&Parts::mlp_down, "mlp_down"}, {&Parts::activation, "activation"},
      {&Parts::router, "router"},     {&Parts::every_second_product, "every_second_product"}};
  for (const auto& [part, name] : kWithout) {
    if (parts.*part)
      no_flag(id, "recompute.modules", name, "some of core_attention, norms, mlp, mla_up_proj, moe and moe_act");
  }
  if (parts == Parts{}) return;
  std::vector<std::string> modules;
  for (const auto& [part, name] : kWithFlag) {
    if (parts.*part) modules.emplace_back(name);
  }
  out.add("recompute-modules", fmt::format("{}", fmt::join(modules, " ")));
}

/// The precision-aware optimizer's code path carries them (megatron/training/arguments.py).
void host_arguments(const workloads::HostStates& states, const std::string& id, LaunchArguments& out) {
  if (!states.any()) return;
  if (states.parameters) no_flag(id, "offload.parameters", "true", "false");
  out.add("optimizer-cpu-offload");
  out.add("use-precision-aware-optimizer");
  out.add("optimizer-offload-fraction", fmt::format("{:g}", states.optimizer));
  out.add_if(states.overlaps, "overlap-cpu-optimizer-d2h-h2d");
}

void kernel_arguments(const workloads::Method& method, const std::string& id, LaunchArguments& out) {
  workloads::RecomputedParts nothing;
  nothing.core_attention = false;
  const bool empty = method.recompute == workloads::Recompute::selective && method.recomputed == nothing;
  const workloads::Recompute recompute = empty ? workloads::Recompute::none : method.recompute;
  if (recompute != workloads::Recompute::none) out.add("recompute-granularity", workloads::name_of(recompute));
  if (recompute == workloads::Recompute::selective) {
    module_arguments(method.recomputed, id, out);
    if (method.recomputed_layers > 0)
      no_flag(id, "recompute.layers", fmt::to_string(method.recomputed_layers), "none beside kind: selective");
  }
  if (recompute == workloads::Recompute::full) {
    const bool in_part = method.recomputed_layers > 0;
    out.add("recompute-method", in_part ? "block" : "uniform");
    out.add("recompute-num-layers", in_part ? method.recomputed_layers : 1);
  }
  out.add("attention-backend", workloads::name_of(method.attention));
  if (method.optimizer == workloads::OptimizerKind::lamb) no_flag(id, "optimizer", "lamb", "adam or sgd");
  out.add("optimizer", workloads::name_of(method.optimizer));
  if (method.adapters.any()) no_flag(id, "finetune.kind", "lora", "none: pretrain_gpt.py trains all weights");
  if (method.offloaded_layers > 0)
    no_flag(id, "offload.activation_layers", fmt::to_string(method.offloaded_layers), "0");
  host_arguments(method.host_states, id, out);
}

/// `global`: sequences of a step, of `seq` tokens.
void length_arguments(const workloads::Evaluation& evaluation, double tokens, std::int64_t global, std::int64_t seq,
                      LaunchArguments& out) {
  if (evaluation.every_steps > 0) {
    out.add("eval-interval", evaluation.every_steps);
    out.add("eval-iters", (evaluation.sequences + global - 1) / global);
    if (evaluation.sequences % global != 0)
      out.remarks.emplace_back("evaluation.sequences: rounded up to whole batches, as --eval-iters counts them");
  }
  if (tokens > 0) out.add("train-samples", fmt::format("{:.0f}", std::ceil(tokens / static_cast<double>(seq))));
}

}  // namespace

std::string megatron_arguments(const scenarios::Scenario& scenario) {
  const Job& job = scenario.job;
  if (job.model.recommender.any()) no_flag(scenario.id, "model.kind", "dlrm", "gpt or moe");
  LaunchArguments out;
  if (job.model.pattern.any())
    pattern_arguments(job.model, scenario.id, out);
  else
    model_arguments(job.model, scenario.id, out);
  mixture_arguments(job.model, job.parallelism, job.method.experts, out);
  pipeline_arguments(job.parallelism, job.model.layers, job.overlap.pipeline, scenario.id, out);
  sharing_arguments(job.parallelism, job.replicas(), out);
  batch_arguments(job.batch, job.overlap, out);
  placement_arguments(job.placement, scenario.id, out);
  precision_arguments(job.method.precision, scenario.id, out);
  kernel_arguments(job.method, scenario.id, out);
  length_arguments(job.evaluation, job.training.tokens, job.batch.global, job.model.seq, out);
  const workloads::Perturbation as_built;
  if (!(job.perturbation == as_built)) out.remarks.emplace_back("perturb: slow parts of the machine have no flag");
  std::string text =
      fmt::format("# {}: {} x {}, fabric {}, software {}; by orrery export megatron.\n", scenario.id, job.machine.gpus,
                  job.machine.device.name(), job.machine.fabric.name, job.software.name);
  text += "# Add data, tokenizer, learning rate and checkpoints.\n";
  for (const std::string& remark : out.remarks) text += "# " + remark + "\n";
  const std::int64_t per_node = std::min(job.machine.gpus_per_node, job.machine.gpus) / job.machine.hosts_per_node;
  text +=
      fmt::format("torchrun --nproc_per_node {} --nnodes {} pretrain_gpt.py", per_node, job.machine.gpus / per_node);
  for (const std::string& line : out.lines) text += " \\\n  " + line;
  return text + "\n";
}

namespace {

struct ExportOptions {
  std::string scenario, out;
  std::vector<std::string> sets;
  std::vector<std::int64_t> ranks;
};

void declare_scenario(CommandOptions app, ExportOptions& options) {
  app.add_option("scenario", options.scenario, "scenario file (YAML)").required();
  app.add_option("--set", options.sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
}

int write_lines(const ExportOptions& options, const std::string& text) {
  if (options.out.empty() || options.out == "-") {
    std::cout << text;
  } else {
    write_output(options.out, [&](std::ostream& out) { out << text; });
  }
  return kDone;
}

int export_megatron(const ExportOptions& options) {
  if (!options.out.empty()) check_writable(options.out);
  return write_lines(
      options, megatron_arguments(scenarios::load_scenario(scenarios::read_scenario(options.scenario, options.sets))));
}

int export_server(const ExportOptions& options, const std::string& engine) {
  if (!options.out.empty()) check_writable(options.out);
  return write_lines(options, server_arguments(engine, scenarios::read_scenario(options.scenario, options.sets)));
}

/// A few ranks at a time: the graph of one takes megabytes.
int export_chakra(const ExportOptions& options) {
  const scenarios::Scenario scenario =
      scenarios::load_scenario(scenarios::read_scenario(options.scenario, options.sets));
  const std::int64_t gpus = scenario.job.machine.gpus;
  std::vector<std::int64_t> ranks = options.ranks;
  if (ranks.empty()) {
    if (gpus > kMostExported)
      throw sim::UserError(
          fmt::format("--ranks: got none for {} ranks, expected a list for more than {}", gpus, kMostExported));
    ranks.resize(static_cast<std::size_t>(gpus));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  std::set<std::int64_t> seen;
  for (const std::int64_t rank : ranks) {
    if (rank < 0 || rank >= gpus || !seen.insert(rank).second)
      throw sim::UserError(fmt::format("--ranks: got {}, expected 0 to {}, each once", rank, gpus - 1));
  }
  ChakraWriter writer(options.out, "step");
  const InterruptGuard guard;
  for (std::size_t at = 0; at < ranks.size(); at += kRanksAtOnce) {
    if (InterruptGuard::interrupted()) return kInterrupted;
    const std::size_t end = std::min(ranks.size(), at + kRanksAtOnce);
    const auto begin = ranks.begin();
    const std::vector<std::int64_t> some(begin + static_cast<std::ptrdiff_t>(at),
                                         begin + static_cast<std::ptrdiff_t>(end));
    for (const RankGraph& graph : graphs_of_step(scenario, some)) writer.write(graph);
  }
  writer.write_groups();
  return kDone;
}

}  // namespace

Action declare_export(CommandOptions app) {
  const auto options = std::make_shared<ExportOptions>();
  app.require_subcommand();
  CommandOptions megatron = app.add_subcommand("megatron", "launch line of Megatron-LM");
  declare_scenario(megatron, *options);
  megatron.add_option("--out", options->out, "write the launch line to FILE; without it, to standard output")
      .type_name("FILE");
  CommandOptions chakra =
      app.add_subcommand("chakra", "the step as execution traces of MLCommons Chakra, a file a rank");
  declare_scenario(chakra, *options);
  chakra.add_option("--out", options->out, "folder for step.RANK.et and comm_groups.json")
      .required()
      .type_name("FOLDER");
  chakra.add_option("--ranks", options->ranks, "these alone, as in 0,8,16 (default: all)")
      .delimiter(',')
      .type_name("RANKS");
  std::vector<std::pair<std::string, CommandOptions>> servers;
  for (const auto& [engine, what] : {std::pair("vllm", "launch line of vLLM for a served scenario"),
                                     {"sglang", "launch line of SGLang for a served scenario"},
                                     {"trtllm", "launch line of TensorRT-LLM for a served scenario"}}) {
    CommandOptions server = app.add_subcommand(engine, what);
    declare_scenario(server, *options);
    server.add_option("--out", options->out, "write the launch line to FILE; without it, to standard output")
        .type_name("FILE");
    servers.emplace_back(engine, server);
  }
  return [options, chakra, servers] {
    for (const auto& [engine, server] : servers)
      if (server.parsed()) return export_server(*options, engine);
    return chakra.parsed() ? export_chakra(*options) : export_megatron(*options);
  };
}

}  // namespace orrery::tools
