// See graph_forms.h. Left out: attention of three dimensions throughout, whose heads are in its batch.
#include "tools/import/graph_forms.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace orrery::tools {

namespace {

using NodeIndex = std::int32_t;

const ModelNode& node_at(const ModelGraph& graph, NodeIndex node) {
  return graph.nodes[static_cast<std::size_t>(node)];
}

bool is_product(const ModelNode& node) { return node.is({"matmul", "bmm"}) && node.nodes.size() >= 2; }

/// What lays a tensor out otherwise and changes no element of it, as decomposed graphs have it around products.
bool is_layout(const ModelNode& node) {
  return node.is({"view", "_unsafe_view", "reshape", "expand", "clone", "contiguous", "alias"});
}

/// Nodes from the softmax's input back to the product that makes the scores, that one last: scales, masks and casts of
/// the same shape, and what lays them out.
std::vector<NodeIndex> back_to_scores(const ModelGraph& graph, NodeIndex softmax) {
  std::vector<NodeIndex> chain;
  NodeIndex one = node_at(graph, softmax).nodes.empty() ? -1 : node_at(graph, softmax).nodes[0];
  while (one >= 0) {
    const ModelNode& node = node_at(graph, one);
    chain.push_back(one);
    if (is_product(node)) return chain;
    if (is_layout(node) && !node.nodes.empty()) {
      one = node.nodes[0];
      continue;
    }
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
    if (!is_layout(node) && !node.is({"to", "_to_copy", "dropout", "type_as", "native_dropout"})) return {};
    one = i;
  }
  return {};
}

/// The tensor by heads (of four dimensions) that a product reads as a batch of matrices, itself where it has these.
NodeIndex by_heads(const ModelGraph& graph, NodeIndex node) {
  NodeIndex one = node;
  while (node_at(graph, one).out.shape.size() != 4) {
    if (!is_layout(node_at(graph, one)) || node_at(graph, one).nodes.empty()) return node;
    one = node_at(graph, one).nodes[0];
  }
  return one;
}

/// What a transposition reads, behind scales and layouts, or the node itself.
NodeIndex ahead_of_turn(const ModelGraph& graph, NodeIndex node) {
  for (NodeIndex one = node; !node_at(graph, one).nodes.empty(); one = node_at(graph, one).nodes[0]) {
    const ModelNode& turned = node_at(graph, one);
    if (turned.is({"transpose", "permute", "t", "mT"})) return turned.nodes[0];
    if (!is_layout(turned) && !turned.is({"mul", "div"})) break;
  }
  return node;
}

/// Behind the product with values its rows by heads again, where it was one of a batch of matrices.
NodeIndex rows_by_heads(const ModelGraph& graph, NodeIndex product) {
  if (node_at(graph, product).out.shape.size() == 4) return product;
  for (NodeIndex i = product + 1; i < static_cast<NodeIndex>(graph.nodes.size()); ++i) {
    const ModelNode& node = node_at(graph, i);
    if (node.nodes.empty() || node.nodes[0] != product) continue;
    return is_layout(node) && node.out.shape.size() == 4 ? i : -1;
  }
  return -1;
}

void become_view(ModelNode& node) { node.op = "alias"; }

/// A table of positions beside hidden states: as wide and as long, of one sequence or of all.
bool is_of_positions(const GraphTensor& table, const GraphTensor& stream) {
  std::vector<std::int64_t> one = stream.shape;
  one.front() = 1;
  return table.shape == stream.shape || table.shape == one;
}

}  // namespace

void fold_written_attention(ModelGraph& graph) {
  for (NodeIndex i = 0; i < static_cast<NodeIndex>(graph.nodes.size()); ++i) {
    if (!node_at(graph, i).is({"softmax", "_softmax"}) || node_at(graph, i).out.shape.size() != 4) continue;
    const std::vector<NodeIndex> back = back_to_scores(graph, i), on = on_to_values(graph, i);
    if (back.empty() || on.empty()) continue;
    const NodeIndex rows = rows_by_heads(graph, on.back());
    if (rows < 0) continue;
    const ModelNode& scores = node_at(graph, back.back());
    const std::vector<NodeIndex> reads{by_heads(graph, scores.nodes[0]),
                                       by_heads(graph, ahead_of_turn(graph, scores.nodes[1])),
                                       by_heads(graph, node_at(graph, on.back()).nodes[1])};
    for (const NodeIndex node : back) become_view(graph.nodes[static_cast<std::size_t>(node)]);
    for (const NodeIndex node : on) become_view(graph.nodes[static_cast<std::size_t>(node)]);
    become_view(graph.nodes[static_cast<std::size_t>(i)]);
    ModelNode& core = graph.nodes[static_cast<std::size_t>(rows)];
    core.op = "scaled_dot_product_attention";
    core.nodes = reads;
  }
}

namespace {

/// The weights of all experts under the name of one without its number, by that number.
using ExpertWeights = std::map<std::string, std::map<std::int64_t, std::string>>;

ExpertWeights weights_by_expert(const ModelGraph& graph) {
  ExpertWeights all;
  constexpr std::string_view kMark = "experts.";
  for (const auto& [name, tensor] : graph.parameters) {
    const std::size_t mark = name.find(kMark), digits = mark + kMark.size();
    if (mark == std::string::npos || tensor.shape.size() != 2) continue;
    const std::size_t end = name.find_first_not_of("0123456789", digits);
    if (end == std::string::npos || end == digits || end > digits + 6 || name[end] != '.') continue;
    all[name.substr(0, digits) + name.substr(end + 1)][std::stoll(name.substr(digits, end - digits))] = name;
  }
  return all;
}

/// Whether they are those of two experts and more, numbered from 0, and as large as each other.
bool are_alike(const ModelGraph& graph, const std::map<std::int64_t, std::string>& weights) {
  const GraphTensor& first = graph.parameters.at(weights.begin()->second);
  return weights.size() > 1 && weights.begin()->first == 0 &&
         weights.rbegin()->first + 1 == static_cast<std::int64_t>(weights.size()) &&
         std::all_of(weights.begin(), weights.end(),
                     [&](const auto& one) { return graph.parameters.at(one.second).shape == first.shape; });
}

}  // namespace

void fold_single_experts(ModelGraph& graph) {
  std::map<std::string, std::pair<std::string, bool>> becomes;  // of a weight: whose it is, and whether it stands first
  for (const auto& [name, weights] : weights_by_expert(graph)) {
    if (!are_alike(graph, weights)) continue;
    for (const auto& [number, weight] : weights) becomes[weight] = {name, number == 0};
    GraphTensor all = graph.parameters.at(weights.begin()->second);
    all.shape.insert(all.shape.begin(), static_cast<std::int64_t>(weights.size()));
    graph.parameters[name] = all;
  }
  const auto is_of_expert = [&](const std::string& weight) { return becomes.contains(weight); };
  const bool usual = std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const ModelNode& node) {
    return node.is({"linear"}) || std::none_of(node.parameters.begin(), node.parameters.end(), is_of_expert);
  });
  if (!usual)
    for (const auto& [weight, of] : becomes) graph.parameters.erase(of.first);
  if (!usual || becomes.empty()) return;
  for (ModelNode& node : graph.nodes) {
    const auto weight = std::find_if(node.parameters.begin(), node.parameters.end(), is_of_expert);
    if (weight == node.parameters.end()) continue;
    const auto& [name, first] = becomes.at(*weight);
    node.op = first ? "_grouped_mm" : "alias";
    node.parameters = first ? std::vector<std::string>{name} : std::vector<std::string>{};
  }
  for (const auto& [weight, of] : becomes) graph.parameters.erase(weight);
}

void begin_at_layer_input(ModelGraph& graph) {
  const auto embeds = [](const ModelNode& node) { return node.is({"embedding"}); };
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), embeds)) return;
  std::optional<std::pair<std::string, GraphTensor>> stream;
  for (const ModelNode& node : graph.nodes) {
    if (stream || !node.is({"add", "add_"}) || node.out.shape.size() < 2) continue;
    for (const std::string& name : node.outside) stream = {name, node.out};
    for (const std::string& name : node.parameters)
      if (node.out.shape.size() > 2 && is_of_positions(graph.parameters.at(name), node.out)) stream = {name, node.out};
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
