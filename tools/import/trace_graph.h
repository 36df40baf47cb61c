// An execution trace of Chakra's (arXiv 2305.14516) as the graph of a forward pass: what PyTorch's observer writes
// (torch.profiler.ExecutionTraceObserver, JSON whose "schema" names chakra), or what Chakra's converter makes of it (a
// protobuf file, .et). A node has to say
//   name                            the operator with its library, aten::linear
//   ctrl_deps                       the node inside of which it ran
//   inputs, outputs: values         of a tensor [tensor, storage, offset, elements, bytes of one, device]
//   inputs, outputs: shapes, types  [1, 8192, 4096], Tensor(c10::BFloat16)
// Weights are tensors of floating point that nothing in the trace makes; they have no names there, so that blocks are
// told apart by what stands between sums onto the stream, and weights are named by number and shape (w3-1280x3840).
// Left out: the backward pass and the optimizer, by the nodes of autograd and of Optimizer that they lie in.
#pragma once

#include <string>
#include <vector>

#include "tools/import/model_graph.h"

namespace orrery::tools {

/// A node of such a trace, as texts.
struct TracedOperation {
  std::uint64_t id = 0, inside = 0;  // the node that it ran in
  std::string name;
  /// Lists, as JSON or as Python writes them.
  struct Tensors {
    std::string values, shapes, types;
  } in, out;
};

/// Whether the text begins as PyTorch's execution traces do.
bool is_execution_trace(const std::string& text);
/// Throws UserError for what holds no forward pass.
ModelGraph graph_of_trace(const std::string& file, std::vector<TracedOperation> operations);
ModelGraph read_execution_trace(const std::string& file, const std::string& text);

}  // namespace orrery::tools
