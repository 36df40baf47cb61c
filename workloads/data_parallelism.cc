// Data parallelism from a job. See data_parallelism.h.
#include "workloads/data_parallelism.h"

#include <algorithm>

#include "workloads/job.h"

namespace orrery::workloads {

DataParallelism data_parallelism_of(const Job& job) {
  const calibration::GradientReduction& style = job.software.gradients;
  const Sharding sharding = job.parallelism.sharding;
  DataParallelism data;
  data.replicas = job.replicas();
  data.owners = job.shard_ranks();
  data.sharding = sharding;
  const bool made_for_units = job.software.defaults.sharding == Sharding::parameters;
  const bool gradients = sharding == Sharding::gradients && (style.reduces_every_pass || made_for_units);
  data.by_unit = data.replicas > 1 && (sharding == Sharding::parameters || gradients);
  data.gathers_every_pass = data.by_unit && (sharding == Sharding::parameters || made_for_units);
  data.to_owners = data.by_unit && sharding == Sharding::gradients && style.reduces_to_owners;
  data.all_reduces_shards = style.all_reduces_shards;
  data.overlaps_gradients = job.overlap.gradients;
  data.overlaps_parameters = job.overlap.parameters;
  data.gradient_bytes = calibration::bytes_of(job.precision.gradients);
  const bool cast = data.shards() && !data.shares_gradients() && style.all_reduces_shards;
  const double activation = calibration::bytes_of(job.precision.activations);
  data.reduced_bytes = cast ? std::min(data.gradient_bytes, activation) : data.gradient_bytes;
  data.parameter_bytes = calibration::bytes_of(job.precision.parameters);
  data.buckets = job.software.buckets;
  return data;
}

}  // namespace orrery::workloads
