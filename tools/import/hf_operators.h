// Families of Hugging Face's whose mixers are given as operators of a graph (workloads/model/operators.h): short
// convolutions (LFM2), Mamba-1 (Jamba), transformers of shared weights (Zamba 2), gated memory units (SambaY).
#pragma once

#include "tools/import/hf_config.h"

namespace orrery::tools {

/// Values of model_type and what reads them.
const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_of_operators();

}  // namespace orrery::tools
