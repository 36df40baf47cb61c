// Further families of Hugging Face's transformers, of layers that are alike or begin with some dense ones.
#pragma once

#include <utility>
#include <vector>

#include "tools/import/hf_config.h"

namespace orrery::tools {

/// Values of model_type and what reads them.
const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_further();

}  // namespace orrery::tools
