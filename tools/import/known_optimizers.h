// Optimizers by the names that training files give them: PyTorch's classes, Hugging Face's `optim`, DeepSpeed's types,
// Megatron's and NeMo's words.
#pragma once

#include <string>

#include "tools/import/import.h"

namespace orrery::tools {

/// Sets `optimizer` as the language calls what a file calls `name`; adam, said ahead of all else, where it knows none.
void take_optimizer(const std::string& name, Draft& draft);

}  // namespace orrery::tools
