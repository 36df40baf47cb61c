// Several residual streams in place of one, which the halves of a block read and write through small maps: manifold-
// constrained hyper-connections (mHC, arXiv 2512.24880; hyper-connections, arXiv 2409.19606). See residual_streams.cc.
#pragma once

#include "workloads/model/layer_writer.h"

namespace orrery::workloads {

/// Numbers that a token's maps are: what a half reads of each stream, what it adds to each, and streams to streams.
constexpr std::int64_t stream_maps(std::int64_t streams) { return streams * (streams + 2); }
/// Parameters of one half's maps, and of those by which streams become what the head reads.
double stream_map_parameters(const Model& model);
double stream_head_parameters(const Model& model);

/// What a half reads, ahead of its norm; and what it writes, in place of the residual sum.
void read_streams(LayerWriter& writer);
void write_streams(LayerWriter& writer);

/// Layers that are written, as they are between embedding and head with several streams: what is kept of these, what
/// maps weigh, how the first and the last layer make and join them, and what stages hand on.
void widen(Network& network, const LayerWriter& writer);

}  // namespace orrery::workloads
