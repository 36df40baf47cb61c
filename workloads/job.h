// A job: everything that decides what one training step does, validated, by value. load_scenario makes it; make_plan
// compiles it into tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibration/profile.h"
#include "calibration/software.h"
#include "topology/cluster.h"
#include "workloads/dims.h"

namespace orrery::workloads {

using calibration::DataType;

enum class ScheduleKind : std::uint8_t {
  gpipe,
  one_f_one_b,
  interleaved_1f1b,
  zb_h1,
  zb_h2,
  zb_v,
  v_half,
  v_min,
  dualpipe
};
inline constexpr int kScheduleKinds = 9;
/// How the ranks of a context group see each other's keys and values: blocks sent round a ring beside the attention of
/// the block at hand (Liu et al., arXiv 2310.01889), or gathered before it (Llama 3, arXiv 2407.21783, section 3.3.2).
enum class ContextMethod : std::uint8_t { ring, all_gather };
enum class Sharding : std::uint8_t { none, optimizer, gradients, parameters };  // ZeRO 0 to 3
enum class Recompute : std::uint8_t { none, selective, full };
enum class AttentionKind : std::uint8_t { flash, unfused };
enum class OptimizerKind : std::uint8_t { adam, lamb, sgd };
/// How a model tells positions apart: a learned table of one row per position, queries and keys rotated in every layer
/// (Su et al., arXiv 2104.09864), a bias on the scores, free inside fused attention (ALiBi, arXiv 2108.12409), or
/// nothing that costs parameters or a kernel of its own.
enum class Positions : std::uint8_t { learned, rotary, none, alibi };
enum class Norm : std::uint8_t { layer_norm, rms_norm };  // scale and shift, or scale alone (arXiv 1910.07467)
enum class Biases : std::uint8_t { all, qkv, none };      // which linear layers have one

/// A decoder-only transformer. Sizes are counts of elements.
struct Model {
  std::string name;   // of the file, or the label
  std::string label;  // free text
  std::int64_t layers = 1, hidden = 1, heads = 1, kv_heads = 1, ffn_hidden = 4, vocab = 1, seq = 1;
  bool gated_mlp = false;             // SwiGLU: two up projections
  bool parallel_block = false;        // attention and MLP side by side: one layer norm, one reduction
  std::int64_t attention_window = 0;  // 0: full causal attention
  bool tied_embeddings = true;
  std::int64_t head_width = 0;  // of one head, where heads need not add up to hidden; 0: hidden / heads
  Positions positions = Positions::learned;
  Norm norm = Norm::layer_norm;
  Biases biases = Biases::all;
  std::int64_t head_dim() const { return head_width > 0 ? head_width : hidden / heads; }
  /// Elements of a token's queries, and of the attention output.
  std::int64_t attention_width() const { return heads * head_dim(); }
  /// Parameters of one norm.
  std::int64_t norm_parameters() const { return norm == Norm::layer_norm ? 2 * hidden : hidden; }
};

struct Parallelism {
  std::int64_t tensor = 1, pipeline = 1, virtual_pipeline = 1, data = 1, context = 1, expert = 1;
  bool sequence_parallel = false;
  ContextMethod context_method = ContextMethod::ring;
  /// Layers of every block, first to last (a block is a chunk of a stage); empty: as even as can be.
  std::vector<std::int64_t> stage_layers;
  /// The optimizer steps without waiting for the global gradient norm and is checked afterwards (Qi et al., arXiv
  /// 2401.10241, section 4), so that stages step one after the other, as they finish.
  bool optimizer_post_validation = false;
  Sharding sharding = Sharding::none;
  /// Ranks that share out what `sharding` names; groups of so many repeat it and add up their gradients. 0: all.
  std::int64_t shard_group = 0;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  Dims dims() const { return Dims({tensor, context, data, pipeline}); }
  bool operator==(const Parallelism&) const = default;
};

struct Batch {
  std::int64_t global = 1;  // sequences per step
  std::int64_t micro = 1;   // sequences per micro-batch and data-parallel rank
};

struct Precision {
  DataType matmul = DataType::bf16;        // operands of the linear layers' GEMMs
  DataType activations = DataType::bf16;   // what flows between kernels and over the network
  DataType gradients = DataType::fp32;     // of the data-parallel reduction
  DataType accumulation = DataType::fp32;  // of the buffers that gradients are added up in
  DataType parameters = DataType::bf16;    // of the parameter all-gather
};

struct Overlap {
  bool tensor = false, pipeline = false, gradients = false, parameters = false;
};

struct Placement {
  enum class Kind : std::uint8_t { order, random, list };
  Kind kind = Kind::order;
  std::vector<Dim> order{kDims.begin(), kDims.end()};  // fastest-varying dimension first
  /// order: which GPUs are neighbours. node: those of a node, then those of the next. rail: blocks of the fastest
  /// dimension go to the same place of node after node, then to the next place. pod: as node, the nodes dealt out over
  /// the pods in turn.
  enum class By : std::uint8_t { node, rail, pod };
  By by = By::node;
  std::vector<std::int64_t> node_order;  // pod: the nodes in the order in which they are filled
  std::uint64_t seed = 0;                // random
  std::vector<std::int64_t> gpus;        // list: rank -> GPU
  bool operator==(const Placement&) const = default;
};

struct Perturbation {
  struct SlowGpu {
    std::int64_t gpu;
    double slowdown;
    bool operator==(const SlowGpu&) const = default;
  };  // compute takes `slowdown` times as long
  struct SlowNic {
    std::int64_t node, nic;
    double rate;
    bool operator==(const SlowNic&) const = default;
  };  // share of its rate that is left, in (0, 1]
  std::vector<SlowGpu> slow_gpus;
  std::vector<SlowNic> slow_nics;
  double jitter_sigma = 0;  // of log compute time, per operation and rank
  std::uint64_t jitter_seed = 0;
  double message_sigma = 0;  // of the log of a transfer's latency, per communicator and transfer
  std::uint64_t message_seed = 0;
  topology::Faults faults;  // links and switches, and others' traffic
  bool operator==(const Perturbation&) const = default;
};

struct Evaluation {
  std::int64_t every_steps = 0;  // 0: none
  std::int64_t sequences = 0;    // per evaluation
};

/// The run that the step belongs to; 0: not given.
struct Training {
  double tokens = 0;
  double price_per_gpu_hour_usd = 0;
};

struct Job {
  std::string name, description;
  // Cluster
  calibration::DeviceProfile device;
  topology::NodeSpec node;
  topology::FabricSpec fabric;
  std::int64_t gpus = 1, gpus_per_node = 8;
  // Work
  Model model;
  Parallelism parallelism;
  Batch batch;
  Precision precision;
  Recompute recompute = Recompute::none;
  AttentionKind attention = AttentionKind::flash;
  Overlap overlap;
  OptimizerKind optimizer = OptimizerKind::adam;
  calibration::Software software;
  Placement placement;
  Perturbation perturbation;
  Evaluation evaluation;
  Training training;
  /// Which defaults were taken for what the scenario left open, one sentence each.
  std::vector<std::string> assumptions;

  std::int64_t microbatches() const { return batch.global / (parallelism.data * batch.micro); }
  /// Positions of a sequence that one rank of a context group holds.
  std::int64_t rank_seq() const { return model.seq / parallelism.context; }
  /// Ranks that hold the same weights: data and context ranks, and both stages that DualPipe gives a block to.
  std::int64_t replicas() const {
    const std::int64_t copies = parallelism.schedule == ScheduleKind::dualpipe ? 2 : 1;
    return parallelism.data * parallelism.context * copies;
  }
  /// Ranks of a data-parallel collective: those that share out a state, or all that hold the same weights.
  std::int64_t shard_ranks() const {
    const bool part = parallelism.sharding != Sharding::none && parallelism.shard_group > 0;
    return part ? parallelism.shard_group : replicas();
  }
};

/// What the cluster of a job depends on.
struct Site {
  topology::NodeSpec node;
  topology::FabricSpec fabric;
  std::int64_t gpus = 1, gpus_per_node = 8;
  topology::Faults faults;
  bool operator==(const Site&) const = default;
};
Site site_of(const Job& job);

/// The cluster of a job as it is, faults included: every part of the program takes it from here. Throws UserError
/// through `where`, as topology::Cluster does.
topology::Cluster cluster_of(const Site& site, const sim::Settings& where = {});
topology::Cluster cluster_of(const Job& job, const sim::Settings& where = {});

/// Whether weight gradient GEMMs add into the accumulated gradients, which makes no gradient of one micro-batch.
bool fuses_wgrad_accumulation(const Job& job);

std::string_view name_of(ScheduleKind schedule);
std::string_view name_of(ContextMethod method);
std::string_view name_of(Sharding sharding);
std::string_view name_of(Recompute recompute);
std::string_view name_of(AttentionKind attention);
std::string_view name_of(OptimizerKind optimizer);
std::string_view name_of(Positions positions);
std::string_view name_of(Norm norm);
std::string_view name_of(Biases biases);

/// Names for the schema, in the order of the enumeration.
const std::vector<std::string>& schedule_names();

}  // namespace orrery::workloads
