// Checkpointing by operation, as TorchTitan's "op" policy has it (pytorch/torchtitan, torchtitan/parallelisms/
// parallelize_llama.py, _apply_ac_to_transformer_block): attention, reductions and every second product of a block are
// kept, the rest runs again ahead of the block's backward pass.
#pragma once

#include "workloads/model/layer_writer.h"

namespace orrery::workloads {

/// Marks the products of a block that run again, and what is kept of it then. Products count as the framework issues
/// them: query, key, value, projection, gate, up, down.
void recompute_by_operation(const LayerWriter& writer, Layer& layer);

}  // namespace orrery::workloads
