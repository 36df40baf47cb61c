// A decoder whose blocks follow a pattern: attention, mixers with a state, MLPs and experts in an order of their own.
//
// Sources: Nemotron-H (arXiv 2504.03624), whose blocks are each a mixer or a channel; Jamba (arXiv 2403.19887), Granite
// 4, Qwen3-Next and Kimi Linear (arXiv 2510.26692), whose blocks are a mixer and a channel; Falcon-H1 (arXiv
// 2507.22448), with two mixers side by side.
#pragma once

#include "workloads/model/gpt.h"

namespace orrery::workloads {

/// The layers of a model with a pattern on one rank of its tensor, expert and expert-tensor groups.
Network hybrid(const Model& model, const Split& split, const Computation& computation);

/// The model as a block of that kind sees it: with the block's attention and MLP in place of its own.
Model as_seen_by(const Model& model, const Model::Block& block);

}  // namespace orrery::workloads
