// Formulas of the communication table for mixtures of experts: parameters of their layers on one rank, what their
// tensor groups exchange, and what dispatch and combine move. Independent of the layers' own lists, like the rest of
// the closed form (traffic.h).
#pragma once

#include <vector>

#include "workloads/job/job.h"
#include "workloads/traffic/traffic_rows.h"

namespace orrery::workloads {

/// Parameters (elements) that one rank holds of all layers between embedding and head: what every data-parallel rank
/// repeats, and its routed experts.
struct MixtureParameters {
  double shared = 0, experts = 0;
};
MixtureParameters mixture_parameters(const Model& model, const Split& split);

/// Layers, the further predictions' own among them.
struct MixtureLayers {
  double experts = 0, dense = 0;
  double predictions = 0;  // of these, those that predict a token further on
  /// Blocks of a pattern may have no channel, and another mixer in place of attention: those that attend, those with a
  /// state, and of these those whose gates come through thin products; and all blocks.
  double attention = 0, states = 0, thin_gates = 0, thin_inside = 0, blocks = 0;
  double indexers = 0;  // of those that attend, those that choose the keys that they see
  double sparse = 0;    // and those that see keys that were chosen, or that are compressed
  /// Of blocks that are the operators of a graph: elements of a token that cut products read and calls that bring them;
  /// shares of hidden states that others add up, and calls that do.
  double operators_read = 0, operators_enter = 0, operators_left = 0, operators_leave = 0;
  double operators_summed = 0, operators_sums = 0;  // elements of a token that ranks sum and all go on from; calls
  double sharers = 0;                               // of those that attend, those that make no keys of their own
  /// Of an encoder's and a decoder's blocks: those that attend to what the encoder made, and summed up over blocks the
  /// shares of a sequence's tokens that attention, attention across, what this reads, and MLPs run on.
  double crosses = 0, attention_share = 0, crosses_share = 0, crosses_read = 0, dense_share = 0;
  double all() const { return blocks; }
};
/// Of each layer, whether it is computed again `how`: as a whole, or in the parts that are named. `network`: the job's
/// layers, looked at where only some of each part of a pipeline are.
std::vector<bool> recomputed_layers(const Model& model, const Method& method, const Network& network, Recompute how);
/// Those of the layers that are marked.
MixtureLayers marked_layers(const Model& model, const std::vector<bool>& marked);

/// What the formulas ask of a job. Refers to it.
struct MixtureFacts {
  const Model& model;
  const Parallelism& layout;
  const Method& method;
  const Placement& placement;
  struct Sizes {
    std::int64_t micro_batch, rank_seq, microbatches, gpus_per_node;
  } sizes;
  bool keeps_gathered_inputs = false;
  double gathered_share = 1;   // bytes that a tensor group gathers of what products read, over those of activations
  bool queries_apart = false;  // queries, keys and values are layers of their own
  bool stops_early = false;    // a dense block that runs again does so up to its last product
  bool repeats_down = false;   // a dense block's last product is made again where it is named
  MixtureLayers again;         // recomputed as a whole
  MixtureLayers in_parts;      // of which parts are
};

class MixtureTraffic {
 public:
  explicit MixtureTraffic(const MixtureFacts& facts) : f_(facts) {}
  /// Rows of the tensor group but for embedding and head; `runs`: micro-batches of all tensor groups.
  void tensor_rows(double runs, TrafficRows& rows) const;
  /// What adapters' insides gather and add up over the tensor group, of mixtures as of dense models, whose layers are
  /// alike.
  void adapter_rows(double runs, TrafficRows& rows) const;
  /// Rows of the expert groups: tokens to experts and back, and gradients of what experts have adapters of.
  void exchange_rows(TrafficRows& rows) const;

 private:
  MixtureFacts f_;
};

}  // namespace orrery::workloads
