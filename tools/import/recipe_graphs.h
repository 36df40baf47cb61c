// CUDA graphs of a recipe in Megatron-Core's names.
#pragma once

#include <set>
#include <string>

#include "tools/import/import.h"
#include "tools/import/sections.h"

namespace orrery::tools {

/// Scopes of a text with commas, blanks, plus signs or brackets, without the name of their type.
std::set<std::string> graph_scopes(const std::string& text);
/// Sets what the host replays. `named`: what asked for it, in the source's words. To be called when `software` is set.
void put_graphs(Draft& draft, const std::string& implementation, const std::set<std::string>& scopes, bool mixture,
                const std::string& named);
/// Sets what of a layer the host replays. `at`: the section of the model; `mixture`: whether it has experts. To be
/// called when `software` is set.
void take_recipe_graphs(Sections& config, Draft& draft, const std::string& at, bool mixture);

}  // namespace orrery::tools
