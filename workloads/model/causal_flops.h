// Model FLOPs as a causal kernel does them, beside the contract's count of the whole square.
#pragma once

#include <cstdint>

#include "workloads/model/model.h"

namespace orrery::workloads {

/// FLOPs of one step of `global_batch` sequences as model_flops() counts them, but of attention only the pairs of
/// positions of which the later one sees the earlier one, within the window: half of the square of a whole sequence
/// (Dao, FlashAttention-2, arXiv 2307.08691, section 4.1: "we divide by 2").
double causal_model_flops(const Model& model, std::int64_t global_batch);

}  // namespace orrery::workloads
