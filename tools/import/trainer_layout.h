// What Axolotl's and LLaMA-Factory's files say of the layout and of how weights are held; import_finetuning.cc has the
// rest of them.
#pragma once

#include <cstdint>

#include "tools/import/import.h"
#include "tools/import/sections.h"

namespace orrery::tools {

/// Which of the trainers a file is for.
enum class Trainer { axolotl, llama_factory, llama_factory_v1 };

/// Sets the degrees, and GPUs as many as they need (more than `gpus` is said first); the groups that shards are spread
/// over. Returns the ranks that take data of their own. LLaMA-Factory's file for Megatron-Core runs that, and has its
/// sharding, overlap and recomputation set. Call it after the sharding of other software is known.
std::int64_t take_trainer_degrees(Sections& config, Draft& draft, Trainer trainer, std::int64_t gpus);

/// precision: bf16, fp16 or fp8, and weights without a copy in fp32.
void take_trainer_precision(Sections& config, Draft& draft, Trainer trainer);

/// Ways of training of which a step is not that of plain fine-tuning: preferences, rewards, answers of its own, updates
/// of low rank or of some layers. What is simulated instead is said first.
void take_trainer_method(Sections& config, Draft& draft);

}  // namespace orrery::tools
