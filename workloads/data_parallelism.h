// What the ranks that hold the same weights share out, and how gradients and parameters travel among them. Made once
// from a job; programs, memory and bounds ask it. The closed form of traffic works the same out by itself.
#pragma once

#include <cstdint>

#include "calibration/software.h"
#include "workloads/collectives/collective.h"

namespace orrery::workloads {

struct Job;

struct DataParallelism {
  std::int64_t replicas = 1;  // ranks that hold the same weights
  std::int64_t owners = 1;    // of these, ranks of one collective: those that share out a state, or all
  calibration::Sharding sharding = calibration::Sharding::none;
  /// Collectives go unit by unit (a layer each) rather than chunk by chunk: where the weights are shared out too, and
  /// in software that is made for this (its default) where only gradients and optimizer states are (FSDP's
  /// SHARD_GRAD_OP: a unit is gathered in the first forward pass and reduced in the last backward pass of a step).
  bool by_unit = false;
  /// The gradients of every micro-batch go to their owners, weight by weight, as Paddle's GroupShardedStage2 sends them
  /// (python/paddle/distributed/fleet/meta_parallel/sharding/group_sharded_stage2.py).
  bool to_owners = false;
  bool all_reduces_shards = false;  // though each rank updates only its shard
  bool overlaps_gradients = false, overlaps_parameters = false;
  double gradient_bytes = 4;  // of an element, as it is added up
  double reduced_bytes = 4;   // of a gradient's element on its way to the replicas: as added up, or as activations
  double parameter_bytes = 2;
  calibration::BucketPolicy buckets;

  bool shards() const { return sharding != calibration::Sharding::none; }
  bool shards_gradients() const { return sharding >= calibration::Sharding::gradients; }
  bool shards_parameters() const { return sharding == calibration::Sharding::parameters && replicas > 1; }
  /// Gradients are reduced in every backward pass, not in the last one of a step alone.
  bool reduces_every_pass() const { return shards_parameters() || to_owners; }
  /// Groups of owners, which repeat what each of them shares out.
  std::int64_t repeats() const { return replicas / owners; }
  /// Ranks that a sharded state is divided by.
  double shares() const { return shards() ? static_cast<double>(owners) : 1.0; }
  calibration::CollectiveOp reduction() const {
    const bool scatters = shards() && (shards_parameters() || !all_reduces_shards);
    return scatters ? calibration::CollectiveOp::reduce_scatter : calibration::CollectiveOp::all_reduce;
  }
};

DataParallelism data_parallelism_of(const Job& job);

}  // namespace orrery::workloads
