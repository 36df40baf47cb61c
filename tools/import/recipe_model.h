// The model of a recipe in Megatron's names.
#pragma once

#include <string>

#include "tools/import/import.h"
#include "tools/import/sections.h"

namespace orrery::tools {

/// Sets the keys of `model`: those of the model that ships as `known`, with what the recipe says otherwise laid over
/// it, or, where `known` is empty, all that the recipe says of one. `at`: the section that holds the sizes
/// ("model.config" in NeMo 2, "model" in Megatron-Bridge). Returns whether it is a mixture of experts. Throws
/// sim::UserError.
bool take_recipe_model(Sections& config, Draft& draft, const std::string& at, const std::string& known,
                       const std::string& file);

/// How tokens reach the experts: dispatcher, fusions and capacity, where the recipe says.
void take_recipe_experts(Sections& config, Draft& draft, const std::string& at);

}  // namespace orrery::tools
