// Layers that predict tokens further on, behind the model's last block, whatever family it is of (DeepSeek-V3, arXiv
// 2412.19437, section 2.2).
#pragma once

#include "workloads/model/layer_writer.h"

namespace orrery::workloads {

/// A block that predicts a token further on: the last hidden state and the embedding of the token before it, each
/// normalised, projected to one, and `block` behind them (arXiv 2412.19437, equations 21 to 23). It shares embedding
/// and head with the model.
Layer prediction(LayerWriter& writer, Layer block);

/// The head and its loss once for the next token and once for each that is predicted beside it, with the same weights.
Layer heads(LayerWriter& writer);

/// The head alone behind the blocks of a network.
void end_with_head(Network& network, LayerWriter& writer);
/// Puts both behind the blocks of a network.
void predict_further(Network& network, LayerWriter& writer, Layer block);

}  // namespace orrery::workloads
