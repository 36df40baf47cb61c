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
  data.to_owners = data.replicas > 1 && sharding == Sharding::gradients && style.reduces_every_pass;
  const bool made_for_units = job.software.defaults.sharding == Sharding::parameters;
  data.by_unit = data.replicas > 1 && (sharding == Sharding::parameters || data.to_owners ||
                                       (sharding == Sharding::gradients && made_for_units));
  data.all_reduces_shards = style.all_reduces_shards;
  data.overlaps_gradients = job.overlap.gradients;
  data.overlaps_parameters = job.overlap.parameters;
  data.gradient_bytes = calibration::bytes_of(job.precision.gradients);
  const bool cast = style.all_reduces_shards && sharding != Sharding::none && sharding != Sharding::parameters;
  const double activation = calibration::bytes_of(job.precision.activations);
  data.reduced_bytes = cast ? std::min(data.gradient_bytes, activation) : data.gradient_bytes;
  data.parameter_bytes = calibration::bytes_of(job.precision.parameters);
  data.buckets = job.software.buckets;
  return data;
}

}  // namespace orrery::workloads
