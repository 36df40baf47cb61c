// An encoder of images as part of the layer in front of the blocks: where a pipeline is cut, it stays on the first
// stage.
#pragma once

#include "workloads/model/layer_writer.h"

namespace orrery::workloads {

/// Puts the encoder of the writer's model ahead of what `embedding` runs, with what it keeps and weighs.
void put_encoder_ahead(const LayerWriter& writer, Layer& embedding);

}  // namespace orrery::workloads
