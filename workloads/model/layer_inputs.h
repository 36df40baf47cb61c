// Inputs of every layer's own (Model::layer_inputs) as part of the layer in front of the blocks.
#pragma once

#include "workloads/model/layer_writer.h"

namespace orrery::workloads {

/// Puts them behind what `embedding` runs, with what it keeps and weighs.
void put_layer_inputs(const LayerWriter& writer, Layer& embedding);

}  // namespace orrery::workloads
