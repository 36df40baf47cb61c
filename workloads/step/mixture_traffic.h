// Formulas of the communication table for mixtures of experts: parameters of their layers on one rank, and what
// dispatch and combine move. Independent of the layers' own lists, like the rest of the closed form (traffic.h).
#pragma once

#include <vector>

#include "workloads/step/closed_form_parameters.h"
#include "workloads/step/traffic.h"

namespace orrery::workloads {

/// Parameters (elements) that one rank holds of all layers between embedding and head: what every data-parallel rank
/// repeats, and its routed experts.
struct MixtureParameters {
  double shared = 0, experts = 0;
};
MixtureParameters mixture_parameters(const Model& model, const Split& split);

/// Calls of a layer's tensor exchanges with buffers of `bytes`, over all layers, for one micro-batch.
struct TensorCalls {
  double bytes = 0, calls = 0;
};
/// Of a mixture's layers: what column-parallel products gather (row by row of sizes), and what row-parallel ones
/// reduce.
struct MixtureTensor {
  std::vector<TensorCalls> enters, leaves;
  std::vector<TensorCalls> enters_again, leaves_again;  // of these, those of what is recomputed
};
MixtureTensor mixture_tensor(const Job& job);

/// Rows of the expert groups: tokens to experts and back.
std::vector<TrafficRow> exchange_rows(const Job& job);

}  // namespace orrery::workloads
