// Families of Hugging Face's transformers whose layers differ in heads, widths or windows of attention, or in the width
// of their MLPs.
#pragma once

#include <utility>
#include <vector>

#include "tools/import/hf_config.h"

namespace orrery::tools {

/// Values of model_type and what reads them.
const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_windowed();

}  // namespace orrery::tools
