// Letters of Megatron-LM's --hybrid-layer-pattern (older: --hybrid-override-pattern), which import reads and export
// writes: M Mamba-2, * attention, - an MLP, E experts, each a layer of its own; | ends a pipeline stage, / begins the
// blocks of a layer that predicts a further token (megatron/core/models/hybrid/hybrid_layer_allocation.py).
#pragma once

#include <cstdint>
#include <string>

#include "tools/import/import.h"
#include "workloads/model/model.h"

namespace orrery::tools {

/// Sizes of Mamba-2 as Megatron-LM has them by default; 0 heads: twice the hidden size over head_dim.
struct MambaSizes {
  std::int64_t heads = 0, head_dim = 64, state = 128, groups = 8;
};
/// Layers of a pattern, without those that predict further tokens.
std::int64_t layers_of_letters(const std::string& letters);
/// Blocks, mixers and channels by a pattern. What attention, MLP and experts are the model says itself.
void put_letters(Draft& draft, const sim::Settings& pattern, const MambaSizes& sizes, std::int64_t hidden);

/// A model's blocks as letters, and the sizes of its Mamba-2; empty letters and `why` where it has none.
struct Letters {
  std::string letters, why;
  MambaSizes mamba;
};
Letters letters_of(const workloads::Model& model);

}  // namespace orrery::tools
