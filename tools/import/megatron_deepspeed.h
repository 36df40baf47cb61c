// What a launch line of Megatron-DeepSpeed says beyond Megatron-LM's (deepspeedai/Megatron-DeepSpeed,
// megatron/arguments.py): ZeRO's stage, ranks of experts and of sequences, experts in every second layer.
#pragma once

#include <cstdint>

#include "tools/import/import.h"
#include "tools/import/megatron_launch.h"

namespace orrery::tools {

/// Whether the line's options are those of Megatron-DeepSpeed.
bool is_megatron_deepspeed(const Launch& launch);
/// Ranks that share a sequence by exchanging heads (DeepSpeed-Ulysses); 1: none.
std::int64_t deepspeed_sequence_ranks(Launch& launch);
/// Of the model's mixture, which is there: choices of a token, layers with experts, capacity.
void take_deepspeed_mixture(Launch& launch, Draft& draft);
/// Stage, offload, software, and what is said first as it is not simulated.
void take_deepspeed(Launch& launch, Draft& draft);

}  // namespace orrery::tools
