// Models and recipes that NeMo 2 and Megatron-Bridge ship, by the names that their users write.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace orrery::tools {

/// The model that ships here for a name of theirs: a module of recipes (llama31_8b), a class of NeMo 2
/// (Llama31Config8B) or a repository of Hugging Face (meta-llama/Llama-3.1-8B). Empty where none does. Case and signs
/// do not count.
std::string model_of_recipe(const std::string& name);
/// Whether a model that ships by that name is a mixture of experts.
bool is_mixture(const std::string& model);
/// The names of recipes' modules, for messages.
std::vector<std::string> recipe_names();
/// Whether a model that ships has layers of several kinds, as blocks.
bool is_hybrid(const std::string& model);

/// What a recipe runs unless its user says otherwise.
struct RecipeLayout {
  std::int64_t tensor = 1, pipeline = 1, chunks = 1, context = 1, expert = 1;
  bool sequence_parallel = false;
  std::int64_t nodes = 1;  // of eight GPUs, for NeMo 2
  std::int64_t seq = 0, global_batch = 0, micro_batch = 0;
};
/// The layout of a recipe's module, or nullptr. Both libraries have the same but for lengths of Llama 3.1's.
const RecipeLayout* layout_of_recipe(const std::string& name);

/// The container of the Megatron-Bridge in whose tree a recipe lies (the summary of performance of its tags v0.1.0 to
/// v0.6.0), else the newest; and what says so.
std::pair<std::string, std::string> bridge_release(const std::string& file);

}  // namespace orrery::tools
