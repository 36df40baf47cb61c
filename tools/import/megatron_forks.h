// What launch lines of Megatron-LM's forks say beyond Megatron-LM's own: experts of Megablocks (databricks/megablocks,
// megablocks/layers/arguments.py), schedules of zero bubbles (sail-sg/zero-bubble-pipeline-parallelism, README).
#pragma once

#include <cstdint>

#include "tools/import/megatron_launch.h"

namespace orrery::tools {

/// Whether slime starts the training, which trains in bf16 and with a distributed optimizer unless told otherwise
/// (THUDM/slime, slime/backends/megatron_utils/arguments.py, set_default_megatron_args).
bool is_slime(const Launch& launch);
/// Whether experts have Megablocks' names.
bool is_megablocks(const Launch& launch);
/// Of the model's mixture, which is there: choices of a token, and capacity, where tokens beyond it are dropped.
void take_megablocks(Launch& launch, Draft& draft);
/// Ranks that share out the experts, which are those of data parallelism. `replicas`: their number.
void take_megablocks_ranks(Launch& launch, Draft& draft, std::int64_t replicas);
/// The schedule, where it is one of zero bubbles. To be called when the layout is set.
void take_zero_bubble(Launch& launch, Draft& draft, std::int64_t stages);

}  // namespace orrery::tools
