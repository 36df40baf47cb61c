// What is done to a graph ahead of its walk: attention that is written out becomes one node, and a layer without an
// embedding gets the stream that it reads.
#pragma once

#include "tools/import/model_graph.h"

namespace orrery::tools {

/// Experts that run one by one, each with weights of its own ("mlp.experts.3.w1.weight"), as products of all at once.
void fold_single_experts(ModelGraph& graph);

/// A softmax between two products of 4 dimensions, as eager code has attention, becomes the second of these, which then
/// reads queries, keys and values; what stands between them becomes views.
void fold_written_attention(ModelGraph& graph);

/// Where no node is an embedding: what a sum reads that nobody makes, of the sum's shape, becomes the graph's first
/// node, an "input".
void begin_at_layer_input(ModelGraph& graph);

}  // namespace orrery::tools
