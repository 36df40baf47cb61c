// Command lines of trainers that are no Megatron-LM's own: NeMo's, and SWIFT's around Megatron-Core.
#pragma once

#include <string>
#include <vector>

#include "tools/import/import.h"

namespace orrery::tools {

/// `nemo llm pretrain --factory "llama3_8b(num_nodes=2)" trainer.max_steps=10` as the recipe in Python that it stands
/// for. Throws sim::UserError where the script starts none.
std::string nemo_command_as_recipe(const std::string& text, const std::string& file);

/// Whether a script starts `megatron sft`, `megatron pt` and the like, whose options are Megatron-LM's with a value
/// each.
bool starts_swift(const std::string& text);
/// Turns SWIFT's options into Megatron-LM's; returns the model that ships of what is trained, empty where none does.
std::string swift_as_megatron(LaunchLine& line);

}  // namespace orrery::tools
