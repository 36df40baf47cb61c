// What the ranks that hold the same weights share out, and how gradients and parameters travel among them. Made once
// from a job; programs, memory and bounds ask it. The closed form of traffic works the same out by itself.
#pragma once

#include <cstdint>

#include "calibration/device/kernel.h"
#include "calibration/device/profile.h"
#include "calibration/framework/software.h"
#include "workloads/compile/layer_split.h"
#include "workloads/model/comm_group.h"

namespace orrery::workloads {

struct DataParallelism {
  HeldPart held = HeldPart::but_experts;  // which parameters these are
  struct Among {
    CommGroup owners = CommGroup::data, repeats = CommGroup::replicate;
    /// Whose members gather parameters for a forward and for a backward pass, and reduce gradients in it: the owners,
    /// or fewer ranks, each group of which holds all (MiCS, arXiv 2205.00119; ZeRO++ hpZ, arXiv 2306.10209).
    CommGroup forward = CommGroup::data, backward = CommGroup::data, reduced = CommGroup::data;
    /// Ranks that share out weights, gradients of passes and a second copy of the weights (0: none); `owners` in all.
    struct Ranks {
      std::int64_t weights = 1, gradients = 1, secondary = 0;
    } ranks;
  } among;
  std::int64_t replicas = 1;  // ranks that hold the same weights
  std::int64_t owners = 1;    // of these, ranks of one collective: those that share out a state, or all
  calibration::Sharding sharding = calibration::Sharding::none;
  /// Collectives go unit by unit (a layer each) rather than chunk by chunk: where weights are shared out, and where
  /// gradients that are (ZeRO 2) are reduced in the backward pass of every micro-batch, so that they need no buffer of
  /// their own until the next: DeepSpeed's stage 2 (runtime/zero/stage2.py), Paddle's GroupShardedStage2
  /// (fleet/meta_parallel/sharding/group_sharded_stage2.py), FSDP's SHARD_GRAD_OP without no_sync. Other software, as
  /// Megatron-LM's, adds them up whole over the micro-batches of a step and reduces them once.
  bool by_unit = false;
  /// Nor by unit, but weight by weight, as `fetches` says; `by_unit` stands too.
  struct ByWeight {
    bool on = false;
    sim::Duration call{};  // host time of one
  } by_weight;
  /// Weights are gathered for the forward pass of every micro-batch, and not once a step.
  bool gathers_every_pass = false;
  /// The gradient of each weight goes to the one rank that owns it.
  bool to_owners = false;
  bool all_reduces_shards = false;  // though each rank updates only its shard
  bool overlaps_gradients = false, overlaps_parameters = false;
  /// Bytes of an element.
  struct Widths {
    double gradient = 4;  // as it is added up
    double reduced = 4;   // of a gradient on its way to the replicas: as added up, or as activations
    double parameter = 2;
    double fetched = 2;    // of a parameter on its way to a pass: as held, or a byte with its share of a scale
    double exchanged = 4;  // of a gradient on its way from a pass: as added up, or half a byte likewise
    double ends = 1;       // of a parameter of embedding or head, over one of a block
  } bytes;
  calibration::BucketPolicy buckets;  // by weight only where a pass tells weights apart
  calibration::FetchStyle fetches;

  /// Frozen weights have no gradients, and come out of a step as they were.
  bool is_frozen() const { return held >= HeldPart::frozen; }
  /// Of routed experts, which not every layer has.
  bool of_experts() const { return held == HeldPart::experts || held == HeldPart::frozen_experts; }
  bool shards() const { return sharding != calibration::Sharding::none; }
  bool shards_parameters() const { return sharding == calibration::Sharding::parameters && replicas > 1; }
  /// Passes go to fewer ranks than share out a state, or in other types than these are held in.
  bool goes_apart() const {
    return !(among.forward == among.owners && among.backward == among.owners && among.reduced == among.owners) ||
           fetches.quantised_fetches() || fetches.quantised_reductions();
  }
  /// A rank keeps a share of the gradients, and not all of them, from one micro-batch to the next.
  bool shares_gradients() const { return sharding == calibration::Sharding::parameters || by_unit; }
  /// Groups of owners, which repeat what each of them shares out.
  std::int64_t repeats() const { return replicas / owners; }
  /// Ranks that a sharded state is divided by.
  double shares() const { return shards() ? static_cast<double>(owners) : 1.0; }
  calibration::CollectiveOp reduction() const {
    return shards() && (by_unit || !all_reduces_shards) ? calibration::CollectiveOp::reduce_scatter
                                                        : calibration::CollectiveOp::all_reduce;
  }
};

}  // namespace orrery::workloads
