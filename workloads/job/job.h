// A job: everything that decides what one training step does, validated, by value. load_scenario makes it; make_plan
// compiles it into tables.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibration/device/profile.h"
#include "calibration/framework/software.h"
#include "topology/cluster.h"
#include "workloads/groups/dims.h"
#include "workloads/groups/perturbation.h"
#include "workloads/groups/placement.h"
#include "workloads/job/cooling.h"
#include "workloads/model/computation.h"
#include "workloads/model/optimizer_step.h"
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

using calibration::name_of;
using calibration::Sharding;

struct Parallelism {
  std::int64_t tensor = 1, pipeline = 1, virtual_pipeline = 1, data = 1, context = 1, expert = 1, expert_tensor = 1;
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
  /// Groups inside others, of neighbours.
  struct GroupsInside {
    /// Of the tensor ranks those that share out the inputs of column-parallel layers: Split::tensor_in.
    std::int64_t tensor_in = 1;
    /// With sharding: parameters, ranks of a shard group that share out the weights between passes, those that
    /// gradients of a pass are reduced over, and those that share out a second copy of the weights, from which backward
    /// passes gather. 0: for the first two as shard_group, for the third none.
    std::int64_t weights = 0, gradients = 0, secondary = 0;
    bool operator==(const GroupsInside&) const = default;
  } inside;
  const Schedule* schedule = &usual_schedule(1);  // a row of the catalogue, never null
  /// How the blocks of the model lie on the cells of the pipeline.
  ChunkMap chunk_map() const { return schedule->map(pipeline, virtual_pipeline); }
  Dims dims() const { return Dims({tensor, context, data, pipeline}); }
  bool operator==(const Parallelism&) const = default;
};

/// Whether a stage has a forward pass at hand that waits for nobody while it runs a backward pass: on one stage, or
/// where several chunks keep twice as many micro-batches under way as there are stages.
inline bool pairs_passes(const Parallelism& layout) {
  return layout.pipeline == 1 || (layout.schedule->name == "interleaved_1f1b" && layout.virtual_pipeline > 1);
}

struct Batch {
  std::int64_t global = 1;  // sequences per step
  std::int64_t micro = 1;   // sequences per micro-batch and data-parallel rank
};

struct Overlap {
  bool tensor = false, pipeline = false, gradients = false, parameters = false;
  bool experts = false;  // exchanges of one micro-batch beside the computation of another
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

/// What the site says about power.
struct PowerTerms {
  double cap_w = 0;             // of a GPU, below its own limit; 0: none
  double pue = 1;               // power usage effectiveness: all that the site draws over what its nodes draw
  double carbon_g_per_kwh = 0;  // of the grid; 0: not given
  // Leakage grows with temperature, and what a limit leaves the clock shrinks (steady_clock.h). In kelvin, over the
  // temperature that the device's constants hold at, and its standard deviation over GPUs.
  double warmer_k = 0, temperature_spread_k = 0;
  double leakage_per_k = 0.01;  // how much more of what stands a device draws for each kelvin
  double pace_spread = 0;       // what that makes of kernels' times: standard deviation over GPUs, of the mean
  Cooling cooling;              // of the nodes
  std::vector<WarmRow> rows;    // what follows from it for the machine's device; empty: nothing
  double cooled_k = 0;          // and in the mean over them, as warmer_k
  /// What a device draws at the job's temperature and so many kelvin more.
  calibration::PowerModel at_temperature(calibration::PowerModel power, double more_k = 0) const {
    power.standing *= std::max(0.0, 1 + leakage_per_k * (warmer_k + cooled_k + more_k));
    return power;
  }
  /// What a device may draw, in W; 0: unknown.
  double limit_of(const calibration::PowerModel& power) const {
    return cap_w > 0 ? std::min(cap_w, power.limit) : power.limit;
  }
};

/// Nodes of another kind beside those of a machine's device.
struct OtherKind {
  calibration::DeviceProfile device;
  topology::OtherNodes nodes;
  std::vector<std::int64_t> stages;  // that the scenario asks for; empty: those that the placement puts there
};

/// What the job runs on, before anything breaks.
struct Machine {
  calibration::DeviceProfile device;
  topology::NodeSpec node;
  topology::FabricSpec fabric;
  std::int64_t gpus = 1, gpus_per_node = 8;
  std::int64_t hosts_per_node = 1;  // a domain that NVLink joins across hosts is one node (topology::join_by_nvlink)
  /// The last of its nodes may be of other kinds, in this order. A pipeline stage lies on nodes of one kind: 0, the
  /// device's, or 1 + a row of `others`; empty: all of the device's.
  struct Mixture {
    std::vector<OtherKind> others;
    std::vector<std::uint8_t> kind_of_stage;
    /// Parallelism::stage_layers follows from the times of layers on the stages' devices (balanced_layers).
    bool balances_layers = false;
    std::size_t kinds() const { return 1 + others.size(); }
  } mixture;

  bool mixed() const { return !mixture.others.empty(); }
  const calibration::DeviceProfile& device_of_kind(std::size_t kind) const {
    return kind == 0 ? device : mixture.others[kind - 1].device;
  }
  const calibration::DeviceProfile& device_of(std::int64_t stage) const {
    const auto at = static_cast<std::size_t>(stage);
    return device_of_kind(at < mixture.kind_of_stage.size() ? mixture.kind_of_stage[at] : 0);
  }
  std::int64_t gpus_of_kind(std::size_t kind) const;
  /// Whether the documents of all its devices say what they draw.
  bool knows_power() const;
  /// FLOP/s of a GPU in the mean.
  double mean_peak(calibration::DataType type) const;
};

/// With what every rank computes.
struct Method {
  Precision precision;
  Recompute recompute = Recompute::none;
  RecomputedParts recomputed;
  std::int64_t recomputed_layers = 0;  // of each part of a pipeline, as Computation::recomputed_layers
  AttentionKind attention = AttentionKind::flash;
  ExpertStyle experts;
  Adapters adapters;
  /// Layers whose activations wait in the host's memory for their backward pass.
  std::int64_t offloaded_layers = 0;
  HostStates host_states;  // what of the optimizer lies there
  OptimizerKind optimizer = OptimizerKind::adam;
};

struct Job {
  std::string name, description;
  Machine machine;
  Model model;
  Parallelism parallelism;
  Batch batch;
  Method method;
  Overlap overlap;
  calibration::Software software;
  Placement placement;
  Perturbation perturbation;
  Evaluation evaluation;
  Training training;
  PowerTerms power;
  /// Which defaults were taken for what the scenario left open, one sentence each.
  std::vector<std::string> assumptions;

  std::int64_t microbatches() const { return batch.global / (parallelism.data * batch.micro); }
  /// Positions of a sequence that one rank of a context group holds.
  std::int64_t rank_seq() const { return model.seq / parallelism.context; }
  /// The pipeline of one step, as schedules see it.
  PipelineShape pipeline_shape() const {
    return {static_cast<std::int32_t>(parallelism.pipeline), static_cast<std::int32_t>(parallelism.virtual_pipeline),
            static_cast<std::int32_t>(microbatches()), software.messages.runs_one_group_forward};
  }
  /// Ranks that hold the same weights: data and context ranks, and all stages that the schedule gives a block to.
  std::int64_t replicas() const { return parallelism.data * parallelism.context * parallelism.schedule->copies(); }
  /// Ranks that hold the same routed experts, and of these those that share out a state.
  std::int64_t expert_replicas() const {
    return replicas() * parallelism.tensor / (parallelism.expert * parallelism.expert_tensor);
  }
  /// Copies of a sharded state are as many of the experts' as of the others'; where those that hold the same experts
  /// are fewer, they hold whole ones.
  std::int64_t expert_shard_ranks() const { return std::max<std::int64_t>(1, expert_replicas() / shard_copies()); }
  /// Groups of ranks that share out the same state.
  std::int64_t shard_copies() const { return replicas() / shard_ranks(); }
  /// Ranks of a data-parallel collective: those that share out a state, or all that hold the same weights.
  std::int64_t shard_ranks() const {
    const bool part = parallelism.sharding != Sharding::none && parallelism.shard_group > 0;
    return part ? parallelism.shard_group : replicas();
  }
  /// Ranks of the groups inside it.
  std::int64_t weight_ranks() const { return inside_shard(parallelism.inside.weights); }
  std::int64_t gradient_ranks() const { return inside_shard(parallelism.inside.gradients); }
  std::int64_t inside_shard(std::int64_t group) const {
    return parallelism.sharding == Sharding::parameters && group > 0 ? group : shard_ranks();
  }
  /// Whether two stages hold copies of the word embedding, whose gradients are added up.
  bool ties_embeddings() const {
    return model.tied_embeddings && !parallelism.chunk_map().ends_meet() && !method.adapters.any();
  }
};

/// How a job cuts and computes its layers, and the layers that come of it on one rank.
Split split_of(const Job& job);
Computation computation_of(const Job& job);
Network network_of(const Job& job);

/// What the cluster of a job depends on.
struct Site {
  topology::NodeSpec node;
  topology::FabricSpec fabric;
  std::int64_t gpus = 1, gpus_per_node = 8;
  topology::Faults faults;
  std::vector<topology::OtherNodes> others = {};
  bool operator==(const Site&) const = default;
};
Site site_of(const Job& job);

/// The cluster of a job as it is, faults included: every part of the program takes it from here. Throws UserError
/// through `where`, as topology::Cluster does.
topology::Cluster cluster_of(const Site& site, const sim::Settings& where = {});

}  // namespace orrery::workloads
