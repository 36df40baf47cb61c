// Parameters that a rank holds, from formulas of model and split alone: what the closed form of the communication table
// starts from. Independent of the layers' own lists (model/layer.h), whose sums a test holds against these.
#pragma once

#include "workloads/model/computation.h"

namespace orrery::workloads {

/// Parameters (elements) that one rank holds of a layer, of the embedding, and of the head, after the tensor split.
struct ShardParameters {
  double layer = 0, embedding = 0, head = 0;
};
/// `pads_vocabulary`: as the software does. `ends_meet`: embedding and head lie on one stage. `inputs`:
/// Split::tensor_in. `whole_embedding`: no rank of the tensor group holds less.
ShardParameters shard_parameters(const Model& model, std::int64_t tensor, bool pads_vocabulary, bool ends_meet,
                                 std::int64_t inputs = 1, bool whole_embedding = false);

}  // namespace orrery::workloads
