// How much of a sharded unit's compute its own collectives run beside (FSDP, ZeRO 3): they take SMs and memory
// bandwidth from kernels only while they last.
#pragma once

#include "workloads/collectives/collective.h"
#include "workloads/pass_template.h"

namespace orrery::workloads {

/// Whether collectives go unit by unit (a layer each) rather than chunk by chunk: where the weights are shared out too,
/// and in software that is made for this (its default) where only gradients and optimizer states are (FSDP's
/// SHARD_GRAD_OP: a unit is gathered in the first forward pass and reduced in the last backward pass of a step).
bool works_by_unit(const Job& job);

/// The units of one pass.
struct UnitCollectives {
  double parameters = 0;  // elements of all units
  std::int64_t units = 1;
  bool gathers = false, reduces = false;
};

/// Seconds of the kernels of a pass.
double compute_seconds(const std::vector<PassItem>& items);

/// Seconds that a collective among the ranks of `data` takes on an idle network, path latencies left out.
double seconds_alone(const CollectiveCost& cost, const GroupShape& data, const topology::Cluster& cluster);

/// Share, 0 to 1, of a pass of `compute` seconds that its collectives cover when they run beside it on an idle network
/// (path latencies left out).
double covered_share(const UnitCollectives& pass, double compute, const Job& job, const GroupShape& data,
                     const topology::Cluster& cluster);

}  // namespace orrery::workloads
