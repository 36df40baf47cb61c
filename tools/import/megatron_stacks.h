// Models of a launch line that are no stack of one kind of layer: T5 (an encoder and a decoder), BERT (an encoder
// alone), and Pai-Megatron-Patch's Qwen3-Next, whose letters stand for other layers than Megatron-LM's own.
#pragma once

#include <cstdint>

#include "tools/import/megatron_launch.h"

namespace orrery::tools {

bool is_t5(Launch& launch);
bool is_bert(Launch& launch);
bool is_qwen3_next(const Launch& launch);
/// Layers of both stacks of T5, which stand for --num-layers behind that.
void take_stack_layers(Launch& launch);
/// Tokens of a source, and of a target.
void take_stack_lengths(Launch& launch, Draft& draft);
/// Its blocks in place of the sizes that `draft` has of a stack of one kind. For T5 or BERT.
void put_stacks(Launch& launch, Draft& draft);
/// Blocks by Pai's letters: M a gated delta net, * attention with a gate on its output, - experts.
void put_qwen3_next(const sim::Settings& pattern, Draft& draft);

}  // namespace orrery::tools
