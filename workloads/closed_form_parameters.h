// Parameters that a rank holds, from formulas of model and split alone: what the closed form of the communication table
// starts from. Independent of the layers' own lists (model/layer.h), whose sums a test holds against these.
#pragma once

#include "workloads/job.h"

namespace orrery::workloads {

/// Parameters (elements) that one rank holds of a layer, of the embedding, and of the head, after the tensor split.
struct ShardParameters {
  double layer = 0, embedding = 0, head = 0;
};
ShardParameters shard_parameters(const Job& job);

/// The vocabulary as it is stored: padded where the software pads it.
std::int64_t padded_vocab(const Job& job);

}  // namespace orrery::workloads
