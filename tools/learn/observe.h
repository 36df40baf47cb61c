// What a trace says of the software that made it, as numbers that the same code reads from a measured trace and from a
// predicted one: host time of launches, kernels and their time by phase and class, calls of collectives by group and
// size, and how much slower products run beside them. Times of products and attention are left out on purpose: they
// are the device's, not the software's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/learn/trace.h"

namespace orrery::tools {

struct Observation {
  double value = 0;         // seconds, bytes, kernels or ratios, as the name says
  double spread = 0;        // half the distance between the quartiles of the samples
  std::size_t samples = 0;  // in the trace
};

/// By name: "host.forward", "count.backward", "time.forward.norms", "call.all-reduce.tensor.33554432", "slow.data".
using Observations = std::map<std::string, Observation>;

Observations observe(const Trace& trace);
/// The means over ranks, of what any of them has.
Observations observe(const std::vector<Trace>& ranks);

/// Whole buffers of the calls of data-parallel groups, in bytes, ascending: what buckets are told by.
std::vector<double> bucket_bytes(const std::vector<Trace>& ranks, OpClass operation);

/// "tensor", "data", "pipeline", "context", "expert" by how frameworks call the groups, else "of N ranks".
std::string role_of_group(const std::string& name, std::int64_t ranks);

}  // namespace orrery::tools
