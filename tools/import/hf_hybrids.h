// Families of Hugging Face's transformers whose blocks follow a pattern: mixers with a state beside attention.
#pragma once

#include <utility>
#include <vector>

#include "tools/import/hf_config.h"

namespace orrery::tools {

/// Values of model_type and what reads them.
const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_hybrids();

}  // namespace orrery::tools
