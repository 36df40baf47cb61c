// The graph of a model's forward pass as torch.export has it, in plain JSON (tools/print_graph writes it):
//   {"parameters": {"model.layers.0.mlp.up_proj.weight": {"shape": [14336, 4096], "dtype": "bfloat16"}, ...},
//    "nodes": [{"name": "linear_5", "target": "aten.linear.default", "inputs": ["mul_9", "model.layers.0.mlp..."],
//               "shape": [1, 8192, 14336], "dtype": "bfloat16"}, ...]}
// Nodes stand in the order in which they run; inputs are names of nodes and parameters, and of what nobody makes: the
// program's inputs and buffers. A node of several results has the first one's shape. "same_as" of a parameter: another
// that it is one tensor with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/error.h"

namespace orrery::tools {

struct GraphTensor {
  std::vector<std::int64_t> shape;
  std::int32_t bytes = 2;  // of an element
  double elements() const;
  std::int64_t last() const { return shape.empty() ? 1 : shape.back(); }
};

struct ModelNode {
  std::string name, target;
  std::vector<std::int32_t> nodes;      // inputs that nodes make, by their numbers
  std::vector<std::string> parameters;  // inputs that are parameters
  std::vector<std::string> outside;     // inputs that nobody makes
  GraphTensor out;
  /// The target's name without its library and overload: "linear" of aten.linear.default.
  std::string op;
  bool is(std::initializer_list<std::string_view> ops) const;
};

struct ModelGraph {
  std::string file;
  std::map<std::string, GraphTensor> parameters;
  std::map<std::string, std::string> same;  // parameters that are one tensor with another
  std::vector<ModelNode> nodes;
  bool unnamed = false;  // parameters have no names of their own, as in a trace

  /// The parameter that a name stands for, tied ones by the first.
  const std::string& tensor_of(const std::string& parameter) const;
  /// Throws UserError at a node.
  [[noreturn]] void fail(const ModelNode& node, const std::string& message) const;
};

/// Or the execution trace of one (trace_graph.h). Throws UserError for what is no such graph.
ModelGraph read_model_graph(const std::string& file);

}  // namespace orrery::tools
