// Families of Hugging Face's with an encoder of text ahead of a decoder: T5, mT5, BART, Whisper; encoders alone: BERT.
#pragma once

#include "tools/import/hf_config.h"

namespace orrery::tools {

/// Values of model_type and what reads them.
const std::vector<std::pair<const char*, void (*)(Config&, Draft&)>>& hf_stacks();

}  // namespace orrery::tools
