// Rows of what `orrery calibrate` measured that inference engines run, as shapes of their kernels: attention over a
// cache, products of few rows, experts of few tokens, all-reduces in a graph, sampling. Internal to the readers of
// samples.
#pragma once

#include "calibration/measure/samples.h"
#include "calibration/measure/table.h"

namespace orrery::calibration {

/// Below it a product is no layer's of a training step, and counts among what engines run alone.
inline constexpr std::int64_t kFewestTrainedRows = 256;
/// The most rows of a product that engines' tables hold.
inline constexpr std::int64_t kMostServedRows = 512;

/// Classes paged_attention, experts and sampling, and collectives of the name all_reduce_graph.
void read_served(const TableLine& line, Samples& out);
/// A forward product of up to kMostServedRows rows, where engines have the type.
void add_served_product(const GemmSample& sample, Samples& out);

}  // namespace orrery::calibration
