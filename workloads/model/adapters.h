// Fine-tuning by low-rank adapters: the weights of the model are frozen; beside a product y = W x of theirs stands
// y += s B A x, with A [rank, in] and B [out, rank], which alone are trained (LoRA, Hu et al., arXiv 2106.09685).
#pragma once

#include "workloads/model/layer_writer.h"

namespace orrery::workloads {

/// Freezes a network and puts adapters beside its products: those of attention, and where `adapters.on_mlp` those of
/// MLPs, of shared experts and of routed ones; all routed experts of a rank share one, as in Megatron-Bridge
/// (src/megatron/bridge/peft/lora.py, share_expert_adapters). Latent attention has them beside all its products where
/// blocks are alike, and none in a pattern of blocks. Frozen products have no weight
/// gradient and need no saved input; embedding and norms have no gradient of their own either, though a norm's backward
/// kernel makes one all the same.
///
/// Split over the tensor group as NeMo does (nemo/collections/llm/peft and
/// nemo/collections/nlp/modules/common/megatron/adapters/parallel_adapters.py): beside a column-parallel product A is
/// cut by its rows, whose results are gathered, and B like the product; beside a row-parallel one A is cut by its
/// columns, whose partial sums are reduced, and B is whole.
void adapt(Network& network, const LayerWriter& sizes);

/// Bytes of a frozen weight as it is held: of a linear layer in a block, and of embedding and head.
struct FrozenBytes {
  double blocks = 2, ends = 2;
};
FrozenBytes frozen_bytes(const Adapters& adapters, const Precision& precision);

/// Parameters (elements) of the adapters of all layers on one rank, by a formula of its own.
double adapter_parameters(const Model& model, const Adapters& adapters, std::int64_t tensor);

}  // namespace orrery::workloads
