// What Gemma 3n and the small models of Gemma 4 have beside other layers: inputs of every layer's own, layers that read
// keys of others, a low-rank residual and several streams, as operators of a graph (workloads/model/operators.h).
#pragma once

#include "tools/import/hf_config.h"

namespace orrery::tools {

/// The mixer P, which stands behind a block's channel, and the table of the inputs, of `own` elements a layer.
void put_layer_inputs(Config& config, Draft& draft, std::int64_t own);

/// Values of model_type and what reads them.
const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_layer_inputs();

}  // namespace orrery::tools
