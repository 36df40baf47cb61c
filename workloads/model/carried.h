// What blocks read of blocks ahead of them beside the stream of hidden states: keys and values that several layers
// share (Gemma 3n and 4, SambaY), and what operators say that a layer ahead made. A stage of a pipeline sends it along.
#pragma once

#include <cstdint>

#include "workloads/model/model.h"

namespace orrery::workloads {

/// A block that reads, and the one ahead that made it; elements of a token.
struct CarriedRead {
  std::int64_t maker = -1, reader = 0;  // maker -1: no block ahead makes it
  double elements = 0;
};

/// What block `reader` reads of those ahead, in the order of its operations.
std::vector<CarriedRead> carried_reads(const Model& model, std::int64_t reader);

/// Whether any block of the model does.
bool carries(const Model& model);

/// Elements of a token of all that blocks from `block` on read of those ahead of it, each once.
double carried_into(const Model& model, std::int64_t block);

}  // namespace orrery::workloads
