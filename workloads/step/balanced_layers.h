// Layers dealt out over the stages of a pipeline by what they take there: where stages are on devices of different
// speed, equal shares make the fast ones wait.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/job/job.h"

namespace orrery::workloads {

/// Layers of every block of the pipeline, first to last, as Parallelism::stage_layers takes them: those with which the
/// block that takes longest for a micro-batch takes least, its kernels and tensor collectives counted, embedding and
/// head on the first and the last one. Memory is left out. `job`: with its machine's kinds and its method; stage_layers
/// is not read.
std::vector<std::int64_t> balanced_layers(const Job& job);

/// The dealing alone: `seconds` of one layer by block, and what the first and the last block take beside their layers.
/// Every block may hold none. The longest block is the shortest that whole layers allow.
std::vector<std::int64_t> deal_layers(std::int64_t layers, const std::vector<double>& seconds, double first,
                                      double last);

}  // namespace orrery::workloads
