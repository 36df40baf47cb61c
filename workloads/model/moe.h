// A decoder whose MLPs are mixtures of experts in all layers or some, as layers of one rank.
//
// Sources: Mixtral (arXiv 2401.04088); DeepSeek-V2 and V3 (arXiv 2405.04434, 2412.19437) for shared experts, dense
// first layers, latent attention and the prediction of further tokens; Qwen 3 (arXiv 2505.09388); gpt-oss (arXiv
// 2508.10925) for windows in turn.
#pragma once

#include "workloads/model/gpt.h"

namespace orrery::workloads {

/// The layers of a mixture of experts on one rank of its tensor, context, expert and expert-tensor groups.
Network moe(const Model& model, const Split& split, const Computation& computation);

/// The layers of a model of any family.
Network network(const Model& model, const Split& split, const Computation& computation);

}  // namespace orrery::workloads
