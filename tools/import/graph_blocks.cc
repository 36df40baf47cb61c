// See graph_blocks.h. A model is walked along its stream of hidden states: it begins at the embedding and goes on where
// something is added to it. What stands between two sums is a part; parts whose weights have one number in their names
// are a block. Nothing is asked of names but that number and the user's rules: what a part is follows from its nodes.
//
// Left out: streams that do not begin at an embedding of tokens, models of two streams, sums that are scaled.
#include "tools/import/graph_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace orrery::tools {

namespace {

/// The prefix of a name up to its first number: "model.layers.0" of "model.layers.0.mlp.up_proj.weight".
std::string layer_of(const std::string& name) {
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    const bool number = end > at && std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at),
                                                name.begin() + static_cast<std::ptrdiff_t>(end),
                                                [](unsigned char c) { return std::isdigit(c) != 0; });
    if (number) return name.substr(0, end);
    at = end + 1;
  }
  return "";
}

bool same_shape(const GraphTensor& a, const GraphTensor& b) { return a.shape == b.shape; }

class StreamWalker {
 public:
  explicit StreamWalker(const ModelGraph& graph) : graph_(graph) {}

  GraphModel walk() {
    begin();
    for (auto i = stream_ + 1; i < static_cast<std::int32_t>(graph_.nodes.size()); ++i) {
      const ModelNode& node = graph_.nodes[static_cast<std::size_t>(i)];
      if (!adds_to_stream(node)) {
        between_.push_back(i);
        continue;
      }
      if (model_.parts.empty() && adds_positions(node))
        model_.positions = true;
      else
        end_part(i);
      stream_ = i;
      between_.clear();
    }
    if (model_.parts.empty())
      throw sim::UserError({graph_.file, 1, 1}, "nodes",
                           "got no sums onto a stream of hidden states behind an embedding, expected the graph of a "
                           "decoder's forward pass");
    end();
    return std::move(model_);
  }

 private:
  const ModelNode& at(std::int32_t node) const { return graph_.nodes[static_cast<std::size_t>(node)]; }

  void begin() {
    const auto embeds = [](const ModelNode& node) { return node.is({"embedding"}) && node.parameters.size() == 1; };
    const auto first = std::find_if(graph_.nodes.begin(), graph_.nodes.end(), embeds);
    if (first == graph_.nodes.end() && !graph_.nodes.empty() && graph_.nodes[0].is({"input"})) return begin_layer();
    if (first == graph_.nodes.end())
      throw sim::UserError({graph_.file, 1, 1}, "nodes",
                           "got no embedding of tokens (aten.embedding of a parameter), expected the graph of a whole "
                           "model, from tokens on");
    const GraphTensor& table = graph_.parameters.at(first->parameters[0]);
    if (first->out.shape.size() < 2 || table.shape.size() != 2 || table.last() != first->out.last())
      graph_.fail(*first, "got an embedding of another shape, expected [batch, sequence, hidden]");
    stream_ = static_cast<std::int32_t>(first - graph_.nodes.begin());
    model_.vocab = table.shape[0];
    table_ = graph_.tensor_of(first->parameters[0]);
    take_stream(*first);
  }

  /// What one layer reads.
  void begin_layer() {
    model_.layer_alone = true;
    take_stream(graph_.nodes[0]);
  }

  void take_stream(const ModelNode& first) {
    const std::vector<std::int64_t>& shape = first.out.shape;
    if (first.out.elements() < 1 || shape.size() < 2) graph_.fail(first, "got an embedding of no tokens");
    model_.hidden = first.out.last();
    model_.seq = shape[shape.size() - 2];
    model_.tokens = first.out.elements() / static_cast<double>(model_.hidden);
    model_.batch =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(model_.tokens) / std::max<std::int64_t>(1, model_.seq));
  }

  bool adds_to_stream(const ModelNode& node) const {
    if (!node.is({"add", "add_"}) || node.nodes.size() != 2 || !same_shape(node.out, at(stream_).out)) return false;
    const std::int32_t a = source_of(graph_, node.nodes[0]), b = source_of(graph_, node.nodes[1]);
    return (a == stream_) != (b == stream_);
  }
  bool adds_positions(const ModelNode& node) const {
    return std::any_of(node.nodes.begin(), node.nodes.end(), [&](std::int32_t input) {
      const ModelNode& made = at(source_of(graph_, input));
      return made.is({"embedding"}) && !made.parameters.empty() && graph_.tensor_of(made.parameters[0]) != table_;
    });
  }

  void end_part(std::int32_t sum) {
    GraphPart part;
    // Masks and tables of angles, which hang on neither the stream nor a weight, are made once and not by a part.
    std::set<std::int32_t> made{stream_};
    for (const std::int32_t node : between_) {
      const std::vector<std::int32_t>& inputs = at(node).nodes;
      const bool hangs = !at(node).parameters.empty() ||
                         std::any_of(inputs.begin(), inputs.end(), [&](std::int32_t in) { return made.contains(in); });
      if (!hangs) continue;
      made.insert(node);
      part.nodes.push_back(node);
    }
    part.begins = stream_;
    part.sum = sum;
    for (const std::int32_t node : between_) {
      for (const std::string& weight : at(node).parameters) {
        if (part.layer.empty()) part.layer = layer_of(weight);
      }
    }
    model_.parts.push_back(std::move(part));
  }

  /// Behind the last sum: a norm, the head and what stands around it.
  void end() {
    std::set<std::string> read, known{table_};
    for (const ModelNode& node : graph_.nodes) {
      for (const std::string& weight : node.parameters) read.insert(graph_.tensor_of(weight));
    }
    for (const std::string& weight : read) model_.parameters += graph_.parameters.at(weight).elements();
    for (const GraphProduct& product : products_of(graph_, between_)) {
      known.insert(product.weight);
      if (product.in != model_.hidden || product.out != model_.vocab) continue;
      model_.tied = product.weight == table_;
      head_ = true;
    }
    for (const std::int32_t node : between_) {
      for (const std::string& weight : at(node).parameters) {
        const GraphTensor& tensor = graph_.parameters.at(weight);
        if (tensor.shape.size() == 1 && tensor.last() == model_.hidden) continue;  // the last norm
        if (!known.contains(graph_.tensor_of(weight))) model_.left.push_back(weight);
      }
    }
    if (!head_ && !model_.layer_alone)
      model_.left.emplace_back("a head over the vocabulary, which the graph has not; counted");
    std::vector<std::int32_t> all(graph_.nodes.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
    for (const GraphProduct& product : products_of(graph_, all)) {
      const double rows = at(product.node).out.elements() / static_cast<double>(product.out);
      model_.products += 2 * rows * static_cast<double>(product.in) * static_cast<double>(product.out);
    }
  }

  const ModelGraph& graph_;
  GraphModel model_;
  std::string table_;  // the embedding's
  std::int32_t stream_ = 0;
  std::vector<std::int32_t> between_;
  bool head_ = false;
};

}  // namespace

std::int32_t source_of(const ModelGraph& graph, std::int32_t node) {
  while (true) {
    const ModelNode& one = graph.nodes[static_cast<std::size_t>(node)];
    const bool passes = one.is({"to", "_to_copy", "contiguous", "clone", "view", "reshape", "_unsafe_view", "alias",
                                "detach", "dropout", "type_as", "lift_fresh_copy", "native_dropout"});
    if (!passes || one.nodes.empty() || !one.parameters.empty()) return node;
    if (graph.nodes[static_cast<std::size_t>(one.nodes[0])].out.elements() != one.out.elements()) return node;
    node = one.nodes[0];
  }
}

GraphModel blocks_of_graph(const ModelGraph& graph) { return StreamWalker(graph).walk(); }

/// Through what only turns or casts a weight: t, transpose, permute, to.
std::vector<GraphProduct> products_of(const ModelGraph& graph, const std::vector<std::int32_t>& nodes) {
  std::vector<GraphProduct> products;
  for (const std::int32_t i : nodes) {
    const ModelNode& node = graph.nodes[static_cast<std::size_t>(i)];
    if (!node.is({"linear", "addmm", "mm", "matmul", "conv1d", "convolution", "einsum"})) continue;
    std::vector<std::string> weights = node.parameters;
    for (const std::int32_t input : node.nodes) {
      const ModelNode& turned = graph.nodes[static_cast<std::size_t>(input)];
      if (turned.is({"t", "transpose", "permute", "to", "_to_copy"}) && turned.nodes.empty() &&
          turned.parameters.size() == 1)
        weights.push_back(turned.parameters[0]);
    }
    GraphProduct product;
    product.node = i;
    for (const std::string& weight : weights) {
      const GraphTensor& tensor = graph.parameters.at(weight);
      if (tensor.shape.size() == 1) product.bias += tensor.elements();
      const bool thin = node.is({"conv1d", "convolution"}) && tensor.shape.size() == 3 && tensor.shape[1] == 1;
      if (tensor.shape.size() < 2 || thin || tensor.elements() < 1) continue;
      product.weight = graph.tensor_of(weight);
      // A convolution's channels stand ahead of positions.
      product.out = node.is({"conv1d", "convolution"}) ? tensor.shape[0] : std::max<std::int64_t>(1, node.out.last());
      product.in = static_cast<std::int64_t>(tensor.elements()) / product.out;
    }
    const bool known = product.in > 0 && product.out > 0;
    if (known) product.rows = node.out.elements() / static_cast<double>(product.out);
    if (known) products.push_back(std::move(product));
  }
  return products;
}

}  // namespace orrery::tools
