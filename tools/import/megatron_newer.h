// What flags of Megatron-Core's releases since 0.11 say beyond sizes and degrees: the layers of each piece of the
// pipeline by letters, CUDA graphs, layers of linear attention, streams of residuals.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/import/megatron_launch.h"

namespace orrery::tools {

/// Layers of each piece of a layout by letters ("Et*3|(tt|)*29L"); none where it is no layout.
std::vector<std::int64_t> layers_of_letters_by_piece(const std::string& text);
/// --pipeline-model-parallel-layout: sets the layers of every piece. Returns the pieces of a stage; nothing where the
/// flag is not there.
std::optional<std::int64_t> take_layout_letters(Launch& launch, Draft& draft, std::int64_t layers, std::int64_t stages);
/// CUDA graphs of layers or of a step. To be called when `software` is set.
void take_graphs(Launch& launch, Draft& draft, bool mixture);
/// Blocks in place of layers of one kind, where some have linear attention or attention a gate on its output. To be
/// called when the model's sizes and experts are set.
void take_attention_variants(Launch& launch, Draft& draft, std::int64_t layers, bool mixture);
/// Parts of a model and of its memory that one flag each turns on.
void take_further_parts(Launch& launch, Draft& draft, bool mixture);
/// Names the flags that nobody asked for, those of more weight first. `mixture`: whether the model has experts.
void remark_on_the_rest(const Launch& launch, Draft& draft, bool mixture);

}  // namespace orrery::tools
