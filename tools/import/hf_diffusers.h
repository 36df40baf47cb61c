// Transformers of diffusion models, whose config.json (huggingface/diffusers) says `_class_name` in place of
// model_type: blocks of operators (workloads/model/operators.h), as scenarios/models/flux.1-dev.yaml has them.
#pragma once

#include "tools/import/hf_config.h"

namespace orrery::tools {

/// Values of _class_name and what reads them.
const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_diffusers();

}  // namespace orrery::tools
