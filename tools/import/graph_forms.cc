// See graph_forms.h. Left out: attention of three dimensions, whose heads are in its batch.
#include "tools/import/graph_forms.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace orrery::tools {

namespace {

using NodeIndex = std::int32_t;

const ModelNode& node_at(const ModelGraph& graph, NodeIndex node) {
  return graph.nodes[static_cast<std::size_t>(node)];
}

bool is_product(const ModelNode& node) { return node.is({"matmul", "bmm"}) && node.nodes.size() >= 2; }

/// Nodes from the softmax's input back to the product that makes the scores, that one last: scales, masks and casts of
/// the same shape.
std::vector<NodeIndex> back_to_scores(const ModelGraph& graph, NodeIndex softmax) {
  std::vector<NodeIndex> chain;
  NodeIndex one = node_at(graph, softmax).nodes.empty() ? -1 : node_at(graph, softmax).nodes[0];
  while (one >= 0) {
    const ModelNode& node = node_at(graph, one);
    chain.push_back(one);
    if (is_product(node)) return chain;
    if (!node.is({"to", "_to_copy", "div", "div_", "mul", "mul_", "add", "add_", "where", "masked_fill", "masked_fill_",
                  "float", "type_as", "sub"}))
      return {};
    const auto same = std::find_if(node.nodes.begin(), node.nodes.end(), [&](NodeIndex input) {
      return node_at(graph, input).out.shape == node.out.shape && !node_at(graph, input).is({"full", "zeros", "ones"});
    });
    one = same == node.nodes.end() ? -1 : *same;
  }
  return {};
}

/// From the softmax on to the product with values, that one last.
std::vector<NodeIndex> on_to_values(const ModelGraph& graph, NodeIndex softmax) {
  std::vector<NodeIndex> chain;
  NodeIndex one = softmax;
  for (NodeIndex i = softmax + 1; i < static_cast<NodeIndex>(graph.nodes.size()); ++i) {
    const ModelNode& node = node_at(graph, i);
    if (node.nodes.empty() || node.nodes[0] != one) continue;
    chain.push_back(i);
    if (is_product(node)) return chain;
    if (!node.is({"to", "_to_copy", "dropout", "type_as", "native_dropout"})) return {};
    one = i;
  }
  return {};
}

/// What a transposition reads, or the node itself.
NodeIndex ahead_of_turn(const ModelGraph& graph, NodeIndex node) {
  const ModelNode& turned = node_at(graph, node);
  return turned.is({"transpose", "permute", "t", "mT"}) && !turned.nodes.empty() ? turned.nodes[0] : node;
}

void become_view(ModelNode& node) { node.op = "alias"; }

}  // namespace

void fold_written_attention(ModelGraph& graph) {
  for (NodeIndex i = 0; i < static_cast<NodeIndex>(graph.nodes.size()); ++i) {
    if (!node_at(graph, i).is({"softmax", "_softmax"}) || node_at(graph, i).out.shape.size() != 4) continue;
    const std::vector<NodeIndex> back = back_to_scores(graph, i), on = on_to_values(graph, i);
    if (back.empty() || on.empty()) continue;
    const ModelNode& scores = node_at(graph, back.back());
    const std::vector<NodeIndex> reads{scores.nodes[0], ahead_of_turn(graph, scores.nodes[1]),
                                       node_at(graph, on.back()).nodes[1]};
    for (const NodeIndex node : back) become_view(graph.nodes[static_cast<std::size_t>(node)]);
    for (const NodeIndex node : on) become_view(graph.nodes[static_cast<std::size_t>(node)]);
    become_view(graph.nodes[static_cast<std::size_t>(i)]);
    ModelNode& core = graph.nodes[static_cast<std::size_t>(on.back())];
    core.op = "scaled_dot_product_attention";
    core.nodes = reads;
  }
}

void begin_at_layer_input(ModelGraph& graph) {
  const auto embeds = [](const ModelNode& node) { return node.is({"embedding"}); };
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), embeds)) return;
  std::optional<std::pair<std::string, GraphTensor>> stream;
  for (const ModelNode& node : graph.nodes) {
    if (stream || !node.is({"add", "add_"}) || node.out.shape.size() < 2) continue;
    for (const std::string& name : node.outside) stream = {name, node.out};
    for (const std::string& name : node.parameters)
      if (node.out.shape.size() > 2 && graph.parameters.at(name).shape == node.out.shape) stream = {name, node.out};
  }
  if (!stream) return;
  graph.parameters.erase(stream->first);
  for (ModelNode& node : graph.nodes) {
    for (NodeIndex& input : node.nodes) ++input;
    const auto named = [&](const std::string& name) { return name == stream->first; };
    const bool reads = std::any_of(node.parameters.begin(), node.parameters.end(), named) ||
                       std::any_of(node.outside.begin(), node.outside.end(), named);
    std::erase_if(node.parameters, named);
    if (reads) node.nodes.insert(node.nodes.begin(), 0);
  }
  ModelNode input;
  input.name = input.target = "input";
  input.op = "input";
  input.out = stream->second;
  graph.nodes.insert(graph.nodes.begin(), std::move(input));
}

}  // namespace orrery::tools
