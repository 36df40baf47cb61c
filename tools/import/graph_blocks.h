// The blocks of a model that a graph shows: where sums return to the stream of hidden states, between which parts lie
// that attend, multiply as an MLP does, or do something else; and those parts as the scenario language has them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/import/model_graph.h"

namespace orrery::tools {

/// A rule of the user's: weights whose name ends so ("mlp.up_proj.weight", or "*.w1.weight") are cut so over tensor
/// ranks.
struct CutRule {
  std::string weights, cut;  // none, out, in
  mutable bool used = false;
};

/// A product of a node's with a weight.
struct GraphProduct {
  std::int32_t node = 0;
  std::string weight;
  std::int64_t in = 0, out = 0;
  double rows = 0;  // that it runs on
  double bias = 0;  // parameters
};

/// Nodes between two sums onto the residual stream.
struct GraphPart {
  std::vector<std::int32_t> nodes;
  std::int32_t begins = -1, sum = 0;  // the stream ahead of it, and the sum behind
  std::string layer;                  // the prefix of its weights' names up to a number: "model.layers.0"
};

enum class PartKind : std::uint8_t { attention, mlp, experts, other };

/// What a part is, as members of the model, a mixer or a channel.
struct PartForm {
  PartKind kind = PartKind::other;
  std::map<std::string, std::int64_t> sizes;  // by keys of the scenario language: heads, ffn_hidden, experts, ...
  bool qk_norm = false, rotary = false, gated = false, first_bias = false, last_bias = false;
  std::string activation;
  bool shared_gate = false;          // of experts
  double routed = 0;                 // FLOPs of a forward pass of experts, whose products are no GraphProduct
  double mixed = 0;                  // of products of two activations
  int norms = 0;                     // of the hidden state
  bool layer_norm = false;           // with shifts
  std::vector<std::string> lines;    // of other: operators, as YAML mappings
  std::vector<std::string> remarks;  // what its operators leave out
  auto operator<=>(const PartForm&) const = default;
};

/// The model's ends and its parts in order.
struct GraphModel {
  std::int64_t hidden = 0, vocab = 0, seq = 0, batch = 1;
  bool layer_alone = false;  // without an embedding and a head
  bool positions = false;    // a table of learned ones
  bool tied = false;
  double tokens = 1;
  std::vector<GraphPart> parts;
  double parameters = 0;           // of what nodes read, tied ones once
  double products = 0, pairs = 0;  // FLOPs of a forward pass: with weights; of queries, keys and values
  std::vector<std::string> left;   // weights that only nodes outside of the blocks read and nobody knows
};

/// Throws UserError where the graph has no embedding or no sums onto a stream.
GraphModel blocks_of_graph(const ModelGraph& graph);
/// What one part is. A rule that names one of its weights makes it operators.
PartForm form_of_part(const ModelGraph& graph, const GraphModel& model, const GraphPart& part,
                      const std::vector<CutRule>& rules);
/// Products with weights among nodes.
std::vector<GraphProduct> products_of(const ModelGraph& graph, const std::vector<std::int32_t>& nodes);
/// The node that a chain of views and casts begins with.
std::int32_t source_of(const ModelGraph& graph, std::int32_t node);

}  // namespace orrery::tools
