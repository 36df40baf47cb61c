// Mixers of a block as inference engines run them, beside attention of the usual kind: scans of states and attention to
// some of the keys. A sequence leaves a state of fixed size, or keys of each token, or both.
#pragma once

#include <vector>

#include "workloads/model/served_pass.h"

namespace orrery::workloads {

/// From the product that makes what is scanned to the one behind the scan, cut by heads over `tensor` ranks.
void add_served_state(std::vector<ServedOp>& ops, const Model& model, const StateMixer& mixer,
                      const ServedPrecision& precision, double tensor);

/// The operators of a graph, one by one, cut over `tensor` ranks as training cuts them.
void add_served_operators(std::vector<ServedOp>& ops, const Model& model, const Operators& operators,
                          const ServedPrecision& precision, double tensor);

/// Inputs of every layer's own, made of a token ahead of the first layer.
void add_served_inputs(std::vector<ServedOp>& ops, const Model& model, const ServedPrecision& precision, double tensor);

/// A layer's whole sparse attention. `seen`: the model with the block's attention.
void add_served_sparse(std::vector<ServedOp>& ops, const Model& seen, const ServedPrecision& precision, double tensor);

}  // namespace orrery::workloads
