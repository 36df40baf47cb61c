// Closed form of what stages of a pipeline hand on beside hidden states (workloads/model/carried.h).
#pragma once

#include "workloads/compile/layer_split.h"
#include "workloads/model/model.h"
#include "workloads/schedules/chunk_map.h"

namespace orrery::workloads {

/// Elements of a token over all boundaries between stages together: what a block makes for later ones crosses those
/// between it and the last that reads it.
double carried_elements(const Model& model, const LayerSplit& split, const ChunkMap& map);

}  // namespace orrery::workloads
