// What holds between the sections of a scenario. Divisibility is that of Megatron-LM (Shoeybi et al., arXiv 1909.08053;
// Narayanan et al., arXiv 2104.04473): heads, key/value heads and the MLP are cut over the tensor group; interleaving
// needs whole groups of micro-batches. Layers need not divide: the split is as even as it can be, the embedding and the
// LM head each counting as one layer. Memory is not checked here: running out of it is an answer, not a mistake.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "scenarios/load.h"
#include "scenarios/load_encoder.h"
#include "scenarios/load_experts.h"
#include "scenarios/load_pattern.h"
#include "workloads/step/made_cluster.h"
#include "workloads/step/step.h"

namespace orrery::scenarios {

using sim::Settings;
using workloads::Job;
using workloads::Misfit;

namespace {

// A plan lists every layer of every micro-batch once per direction: beyond these it would not fit into memory.
constexpr std::int64_t kMostLayerPasses = 500'000;
constexpr std::int64_t kMostChunkPasses = 4'000'000;
constexpr double kMostParameters = 1e15;
// Of a step: a bucket of this software's gathers is a collective; real ones hold megabytes.
constexpr double kMostBuckets = 200'000;

/// Whether blocks of a pattern have attention of one shape, with keys of their own, or none.
bool attends_alike(const workloads::Model& model) {
  using Block = workloads::Model::Block;
  const std::vector<Block>& kinds = model.pattern.kinds;
  return std::all_of(kinds.begin(), kinds.end(), [&](const Block& block) {
    if (!block.attends) return !block.crosses;
    workloads::Model::Attention own = block.attention;
    own.window = model.attention.window;
    own.chunked = model.attention.chunked;
    return own == model.attention && !block.state.any() && !block.crosses && !own.sparse.any() && !own.shares_keys;
  });
}

/// Whether tensor ranks may be more than heads of keys: of blocks with one product for queries, keys and values.
bool shares_key_heads(const workloads::Model& model, const workloads::Parallelism& layout,
                      const workloads::Method& method, const calibration::LinearStyle::Queries& style) {
  const bool plain = !style.separate() && !model.parallel_block && !model.attention.latent.any() &&
                     attends_alike(model) && !method.adapters.any() && !method.recomputed.every_second_product &&
                     layout.inside.tensor_in == 1;
  return style.shares_heads && plain && model.kv_width() % layout.tensor == 0;
}

/// `style`: of the software; `shares`: as shares_key_heads().
void check_tensor(const Settings& document, const workloads::Model& model, const workloads::Parallelism& layout,
                  const calibration::LinearStyle::Queries& style, bool shares) {
  const bool grid = layout.tensor % layout.inside.tensor_in == 0;  // else check_tensor_grid says so
  const std::int64_t tensor = grid ? layout.tensor / layout.inside.tensor_in : layout.tensor;
  const auto divides = [&](std::int64_t size, const char* key, const char* more = "") {
    if (size % tensor == 0) return;
    fail_at(document, "parallelism.tensor",
            fmt::format("expected a divisor of model.{}, which is {}, got {}{}", key, size, tensor, more));
  };
  divides(model.attention.heads, "heads");
  const bool multiple = tensor % model.attention.kv_heads == 0;
  if (!multiple || !shares)
    divides(model.attention.kv_heads, "kv_heads",
            multiple && !style.shares_heads
                ? "; more ranks share heads of keys in software that shares_key_heads, as megatron-core-0.16"
                : "");
  divides(model.mlp.hidden, "ffn_hidden");
  if (layout.sequence_parallel && model.seq % tensor != 0) {
    fail_at(document, "parallelism.sequence_parallel",
            fmt::format("got true with model.seq {}, expected false, or a multiple of tensor {}", model.seq, tensor));
  }
}

/// A tensor group cut in two dimensions is modelled for plain GPTs. `plain`: of blocks with one qkv product.
void check_tensor_grid(const Settings& document, const workloads::Model& model, const workloads::Parallelism& layout,
                       bool plain, bool recomputes_parts, bool overlaps) {
  const std::int64_t inputs = layout.inside.tensor_in;
  if (inputs == 1) return;
  const auto expected = [&](bool holds, const std::string& what) {
    if (!holds) fail_at(document, "parallelism.tensor_in", fmt::format("got {}, expected {}", inputs, what));
  };
  expected(layout.tensor % inputs == 0, fmt::format("a divisor of parallelism.tensor {}", layout.tensor));
  expected(model.hidden % inputs == 0, fmt::format("a divisor of model.hidden {}", model.hidden));
  expected(plain && !model.experts.any() && !model.parallel_block && !model.attention.latent.any(),
           "1 but for a model of blocks with one qkv product, without experts or adapters");
  expected(!layout.sequence_parallel && layout.context == 1 && layout.pipeline == 1 && !overlaps,
           "1 beside sequence_parallel, context, pipeline or overlap.tensor");
  expected(!recomputes_parts, "1 beside recompute: selective or of some layers");
}

void check_context(const Settings& document, const workloads::Model& model, const workloads::Parallelism& layout,
                   workloads::AttentionKind attention) {
  if (layout.context == 1) return;
  const std::int64_t cut = 2 * layout.context * (layout.sequence_parallel ? layout.tensor : 1);
  if (model.seq % cut != 0) {
    fail_at(
        document, "parallelism.context",
        fmt::format("got {} with model.seq {}, expected one whose 2 x context{} = {} divides it (every rank holds two "
                    "blocks)",
                    layout.context, model.seq, layout.sequence_parallel ? " x tensor" : "", cut));
  }
  if (attention != workloads::AttentionKind::flash)
    fail_at(document, "parallelism.context", "got a split with unfused attention, expected 1, or attention: flash");
  if (layout.context_method == workloads::ContextMethod::all_to_all) {
    const std::int64_t keys = model.attention.latent.any() ? model.attention.heads : model.attention.kv_heads;
    const std::int64_t heads =
        std::gcd(model.attention.heads / layout.tensor, std::max<std::int64_t>(keys / layout.tensor, 1));
    if (heads % layout.context != 0)
      fail_at(document, "parallelism.context",
              fmt::format("got {} with {} heads and {} of keys and values over tensor {}, expected one that divides a "
                          "tensor rank's of both, for context_method: all_to_all",
                          layout.context, model.attention.heads, keys, layout.tensor));
    return;
  }
  const std::int64_t packed = model.attention.document;
  if (packed > 0 && packed < model.seq && (model.seq % packed != 0 || packed % (2 * layout.context) != 0)) {
    fail_at(
        document, "batch.document_tokens",
        fmt::format("got {} with parallelism.context {}, expected a multiple of {} that divides model.seq, which is "
                    "{}, or context_method: all_to_all: every rank holds two blocks of each document",
                    packed, layout.context, 2 * layout.context, model.seq));
  }
  if (model.attention.window > 0 && model.attention.window < model.seq) {
    fail_at(
        document, "parallelism.context",
        fmt::format("got {} with model.attention_window {}, expected 1 or context_method: all_to_all: blocks of keys "
                    "go round for full causal attention alone",
                    layout.context, model.attention.window));
  }
}

/// `replicas`: ranks that hold the same weights.
void check_shard_group(const Settings& document, const workloads::Parallelism& layout, std::int64_t replicas) {
  if (layout.shard_group == 0) return;
  if (layout.sharding == workloads::Sharding::none)
    fail_at(document, "parallelism.shard_group",
            "got a group with sharding: none, expected none, or sharding: optimizer, gradients or parameters");
  if (replicas % layout.shard_group != 0) {
    fail_at(document, "parallelism.shard_group",
            fmt::format("expected a divisor of the {} ranks that hold the same weights, got {}", replicas,
                        layout.shard_group));
  }
}

/// Either experts are cut into as many groups as the rest of the state, or each group has whole ones.
void check_expert_shards(const Settings& document, std::int64_t group, std::int64_t copies, std::int64_t experts) {
  if (group == 0) return;
  if (experts % copies == 0 || copies % experts == 0) return;
  fail_at(document, "parallelism.shard_group",
          fmt::format("got {}, which makes {} copies of the sharded state, beside {} ranks that hold the same experts "
                      "(tensor x context x data over expert x expert_tensor), expected one of the two to divide the "
                      "other",
                      group, copies, experts));
}

/// A parallel block makes queries, keys, values and the MLP's first results in one product, and adds the second's up in
/// place: no part of it is a region of its own.
void check_recomputed(const Settings& document, const workloads::Model& model, const workloads::Method& method) {
  if (!model.parallel_block || method.recompute != workloads::Recompute::selective) return;
  const workloads::RecomputedParts& parts = method.recomputed;
  const std::pair<const char*, bool> inside[]{{"qkv", parts.qkv},
                                              {"attention_out", parts.attention_out},
                                              {"mlp", parts.mlp},
                                              {"mlp_down", parts.mlp_down},
                                              {"activation", parts.activation}};
  for (const auto& [name, recomputed] : inside) {
    if (recomputed)
      fail_at(document, "recompute.modules",
              fmt::format("got {} beside model.parallel_block, expected core_attention or norms: attention and MLP "
                          "share their products",
                          name));
  }
}

/// Groups inside those of `owners` ranks that share out a state.
void check_groups_inside(const Settings& document, const workloads::Parallelism& layout, std::int64_t owners,
                         bool has_experts) {
  const std::pair<const char*, std::int64_t> groups[]{{"weight_group", layout.inside.weights},
                                                      {"gradient_group", layout.inside.gradients},
                                                      {"secondary_group", layout.inside.secondary}};
  for (const auto& [key, ranks] : groups) {
    if (ranks == 0) continue;
    const std::string path = fmt::format("parallelism.{}", key);
    if (layout.sharding != workloads::Sharding::parameters)
      fail_at(document, path, fmt::format("got {} without sharding: parameters, expected none", ranks));
    if (has_experts) fail_at(document, path, fmt::format("got {} beside experts, expected none", ranks));
    if (owners % ranks != 0)
      fail_at(document, path,
              fmt::format("expected a divisor of the {} ranks that share out a state, got {}", owners, ranks));
  }
  if (layout.inside.secondary > 0 && layout.inside.weights > 0)
    fail_at(document, "parallelism.secondary_group",
            fmt::format("got {} beside weight_group {}, expected one of them", layout.inside.secondary,
                        layout.inside.weights));
}

/// Weights that are gathered one by one come in the order of whole passes over all of a stage.
void check_fetches(const Settings& document, const workloads::Parallelism& layout,
                   const calibration::Software& software) {
  if (layout.sharding != workloads::Sharding::parameters || !software.fetches.by_weight()) return;
  if (layout.virtual_pipeline == 1 && !layout.schedule->splits_backward()) return;
  fail_at(document, "parallelism.schedule",
          fmt::format("got {} with sharding: parameters under {}, expected 1f1b or gpipe: it gathers weight by weight",
                      layout.schedule->name, software.name));
}

/// What the schedule asks of the pipeline, as its row says.
void check_schedule(const Settings& document, const workloads::Parallelism& layout, const workloads::Batch& batch,
                    const workloads::PipelineShape& shape) {
  const std::optional<Misfit> misfit = layout.schedule->misfit(shape);
  if (!misfit) return;
  switch (misfit->of) {
    case Misfit::Of::stages:
      fail_at(document, "parallelism.pipeline", fmt::format("got {} {}", layout.pipeline, misfit->why));
    case Misfit::Of::chunks:
      fail_at(document, "parallelism.virtual_pipeline", fmt::format("got {} {}", layout.virtual_pipeline, misfit->why));
    case Misfit::Of::microbatches:
      fail_at(
          document, "batch.global",
          fmt::format("gives {} micro-batches per rank (global {} / data {} / micro {}); {} needs {}",
                      shape.microbatches, batch.global, layout.data, batch.micro, layout.schedule->name, misfit->why));
  }
}

/// The embedding and the LM head count as layers; to nanotron, which weighs its blocks, the last norm and the cast of
/// the logits to fp32 are blocks of their own (src/nanotron/models/llama.py, LlamaModel). `layers`: of the model.
void check_pipeline(const Settings& document, const workloads::Parallelism& layout, std::int64_t layers,
                    calibration::LayerSharing sharing) {
  const bool weighs = sharing == calibration::LayerSharing::weigh;
  const std::int64_t chunks = layout.chunk_map().blocks(), cells = layers + (weighs ? 4 : 2);
  if (chunks <= cells) return;
  const char* key = layout.virtual_pipeline > 1 ? "parallelism.virtual_pipeline" : "parallelism.pipeline";
  fail_at(
      document, key,
      fmt::format("more chunks than layers: got {} stages x {} chunks = {}, but the model has {} layers (with {} {}), "
                  "expected at most {} chunks",
                  layout.pipeline, chunks / layout.pipeline, chunks, layers,
                  weighs ? "embedding, last norm, LM head and the cast of its logits" : "embedding and LM head", cells,
                  cells));
}

struct ModelSize {
  double parameters = 0;
  double flops = 0;  // of one sequence, forward and backward
};

/// Of the model asked for last it is known: whoever tries layouts asks for one model thousands of times.
ModelSize size_of_model(const workloads::Model& model) {
  thread_local std::optional<std::pair<workloads::Model, ModelSize>> last;
  if (!last || last->first != model)
    last.emplace(model, ModelSize{workloads::parameter_count(model), workloads::model_flops(model, 1)});
  return last->second;
}

/// Seconds that a step takes at least, with every GPU at its peak all the time: by arithmetic, or by moving
/// activations. `global`: sequences of a step. `flops`: of one sequence.
double ideal_seconds(const workloads::Model& model, double flops, std::int64_t global,
                     const calibration::DeviceProfile& device, std::int64_t devices) {
  const double gpus = static_cast<double>(devices);
  const double tokens = static_cast<double>(global) * static_cast<double>(model.seq);
  const double compute = static_cast<double>(global) * flops / device.peak(workloads::DataType::bf16).value();
  const double per_token = 40.0 * static_cast<double>(model.hidden) * static_cast<double>(model.layers) +
                           10.0 * static_cast<double>(model.vocab);
  return std::max(compute, tokens * per_token / device.memory_bandwidth().value()) / gpus;
}

/// `parameters`: of the model. `ideal`: seconds of a step at least.
void check_sizes(const Settings& document, const workloads::Model& model, const workloads::Parallelism& layout,
                 const workloads::PipelineShape& shape, double parameters, double ideal) {
  const double microbatches = static_cast<double>(shape.microbatches);
  const double layer_passes = microbatches * static_cast<double>(model.layers);
  const double chunk_passes = microbatches * static_cast<double>(layout.pipeline * layout.virtual_pipeline);
  if (layer_passes > static_cast<double>(kMostLayerPasses) || chunk_passes > static_cast<double>(kMostChunkPasses)) {
    fail_at(document, "batch.global",
            fmt::format("got {} micro-batches per rank over {} layers in {} chunks, too many operations to list, "
                        "expected at most {} "
                        "layer passes (a larger micro-batch, more data parallelism)",
                        shape.microbatches, model.layers, layout.pipeline * layout.virtual_pipeline, kMostLayerPasses));
  }
  if (parameters > kMostParameters) {
    fail_at(document, "model",
            fmt::format("got {:.3g} parameters, expected at most {:.0e}", parameters, kMostParameters));
  }
  if (!(ideal <= kLongestIdealStep)) {
    fail_at(document, "batch.global",
            fmt::format("got a step of at least {:.3g} s on these GPUs, expected at most {:.0e} s", ideal,
                        kLongestIdealStep));
  }
}

/// Collectives are listed one by one: buckets that are tiny against the model would be millions.
/// `gathered`: bytes that a rank gathers in a step.
void check_buckets(const Settings& document, const calibration::BucketPolicy& policy, std::int64_t replicas,
                   double bytes_each, double gathered) {
  const auto ranks = static_cast<double>(replicas);
  if (policy.parameter_bucket.value() == 0 || policy.cut == calibration::BucketCut::as_model || replicas == 1) return;
  const double bucket = std::max(static_cast<double>(policy.parameter_bucket.value()),
                                 policy.bucket_elements_per_rank * ranks * bytes_each);
  if (gathered / bucket <= kMostBuckets) return;
  fail_at(document, "software.buckets.parameter_bucket",
          fmt::format("got buckets of {:.3g} bytes, which cut the model into {:.3g}, expected at least {:.3g} bytes",
                      bucket, gathered / bucket, std::ceil(gathered / kMostBuckets)));
}

/// What products and what the kernels between them work in; what is only stored or sent needs no arithmetic of a
/// device.
void check_precision(const Settings& document, const workloads::Precision& precision,
                     const calibration::DeviceProfile& device) {
  const workloads::DataType lacking = device.has(precision.matmul) ? precision.activations : precision.matmul;
  if (device.has(lacking)) return;
  std::vector<std::string_view> has;
  for (std::size_t t = 0; t < calibration::kDataTypes; ++t) {
    const auto type = static_cast<workloads::DataType>(t);
    if (device.has(type)) has.push_back(calibration::name_of(type));
  }
  fail_at(document, "precision",
          fmt::format("got {}, which {} has no arithmetic for, expected one of {}", calibration::name_of(lacking),
                      device.name(), fmt::join(has, ", ")));
}

}  // namespace

void check_wiring(const Settings& document, const workloads::Site& site,
                  const calibration::CollectiveAlgorithms& algorithms) {
  const Settings& cluster = document.at("cluster");
  const Settings* fabric = cluster.find("fabric");
  workloads::made_cluster(site, fabric != nullptr ? *fabric : cluster);  // throws where it cannot be wired
  if (algorithms.has(calibration::CollectiveAlgorithm::sharp) && !site.fabric.switches.sharp) {
    fail_at(document, "software",
            "collective_algorithms: got sharp, but the switches of cluster.fabric cannot add, expected a fabric with "
            "sharp: "
            "true, or a list without it");
  }
}

void check_job(const Settings& document, Job& job) {
  const workloads::Parallelism& layout = job.parallelism;
  const calibration::LinearStyle::Queries& queries = job.software.layers.linear.queries;
  check_tensor(document, job.model, layout, queries, shares_key_heads(job.model, layout, job.method, queries));
  check_experts(document, job.model.experts, layout);
  check_pattern(document, job.model, layout, job.method);
  check_encoder(document, job.model.encoder, layout, job.method);
  check_context(document, job.model, layout, job.method.attention);
  check_pipeline(document, layout, job.model.layers, job.software.defaults.layer_split);
  check_schedule(document, layout, job.batch, job.pipeline_shape());
  check_shard_group(document, layout, job.replicas());
  if (job.model.experts.any())
    check_expert_shards(document, layout.shard_group, job.shard_copies(), job.expert_replicas());
  check_recomputed(document, job.model, job.method);
  check_groups_inside(document, layout, job.shard_ranks(), job.model.experts.any());
  check_fetches(document, layout, job.software);
  check_tensor_grid(document, job.model, layout, !job.method.adapters.any() && !queries.separate(),
                    job.method.recompute == workloads::Recompute::selective || job.method.recomputed_layers > 0,
                    job.overlap.tensor);
  const auto [parameters, flops] = size_of_model(job.model);
  check_sizes(document, job.model, layout, job.pipeline_shape(), parameters,
              ideal_seconds(job.model, flops, job.batch.global, job.machine.device, job.machine.gpus));
  const double element = calibration::bytes_of(job.method.precision.parameters);
  check_buckets(document, job.software.buckets, job.replicas(), element,
                parameters * element / static_cast<double>(layout.tensor));
  for (std::size_t kind = 0; kind < job.machine.mixture.kinds(); ++kind)
    check_precision(document, job.method.precision, job.machine.device_of_kind(kind));
  if (job.model.recommender.any()) return;
  // So that every rank of a tensor group holds as many rows.
  const std::int64_t rows =
      workloads::padded_vocab(job.model.vocab, layout.tensor, job.software.layers.head.pads_vocabulary);
  if (rows > job.model.vocab) {
    job.assumptions.push_back(
        fmt::format("model.vocab {} is padded to {}, a multiple of 128 x tensor {}, as Megatron-LM does.",
                    job.model.vocab, rows, job.parallelism.tensor));
  } else if (rows < job.model.vocab) {
    job.assumptions.push_back(
        fmt::format("model.vocab {} is cut to {}, a multiple of tensor {}, as {} does not pad it.", job.model.vocab,
                    rows, job.parallelism.tensor, job.software.name));
  }
}

}  // namespace orrery::scenarios
