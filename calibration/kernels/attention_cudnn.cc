// Attention as cuDNN fuses it: the library recognises a pattern of elementary operations. Forward: scores = scale * Q
// K', masked; softmax as max, subtract, exp, sum, divide, its statistics max + log(sum); times V. Backward: the softmax
// again from the statistics; D = rowsum(dO * O); dV = P' dO, dS = P * (dO V' - D) * scale, dQ = dS K, dK = dS' Q. The
// pattern is the one that NVIDIA's cudnn-frontend (MIT licence) emits for cuDNN 9:
// nodes/scaled_dot_product_flash_attention.h.
#include <functional>
#include <limits>

#include "calibration/kernels/attention.h"
#include "calibration/kernels/attention_graph.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {
namespace {

using Node = CudnnGraph::Node;

Sizes dense(const Sizes& s) { return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1}; }

/// Sizes and building blocks of a case, in cuDNN's order [batch, heads, sequence, head_dim].
struct Builder {
  CudnnGraph& graph;
  Case c;
  cudnnDataType_t type = c.dtype == CaseType::float16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;

  Sizes scores() const { return {c.batch, c.attention.heads, c.attention.seq, c.attention.seq}; }
  Sizes rows() const { return {c.batch, c.attention.heads, c.attention.seq, 1}; }
  Sizes heads_of(std::int64_t heads) const { return {c.batch, heads, c.attention.seq, c.attention.head_dim}; }
  /// [batch, sequence, heads, head_dim] in memory.
  Sizes in_memory(std::int64_t heads) const {
    return {c.attention.seq * heads * c.attention.head_dim, c.attention.head_dim, heads * c.attention.head_dim, 1};
  }
  static Sizes swapped(Sizes s) {
    std::swap(s[2], s[3]);
    return s;
  }

  Node tensor(std::int64_t heads) { return graph.tensor(heads_of(heads), in_memory(heads), type); }
  Node transposed(std::int64_t heads) {
    return graph.tensor(swapped(heads_of(heads)), swapped(in_memory(heads)), type);
  }
  Node row_tensor() {
    return graph.tensor(rows(), {c.attention.heads * c.attention.seq, c.attention.seq, 1, 1}, CUDNN_DATA_FLOAT);
  }
  Node between_rows() { return graph.between(rows(), {c.attention.heads * c.attention.seq, c.attention.seq, 1, 1}); }
  Node between_scores(cudnnDataType_t t = CUDNN_DATA_FLOAT) { return graph.between(scores(), dense(scores()), t); }

  Node apply(cudnnPointwiseMode_t mode, Node x, Node b, cudnnDataType_t out = CUDNN_DATA_FLOAT) {
    const Node y = graph.between(graph.sizes(x), graph.strides(x), out);
    graph.pointwise({mode}, x, b, -1, y);
    return y;
  }

  Node index(Node like, std::int64_t axis) {
    const Node y = between_scores(CUDNN_DATA_INT32);
    graph.pointwise({CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis}, like, -1, -1, y);
    return y;
  }
  Node keep(Node x, Node left, Node right, cudnnPointwiseMode_t comparison) {
    // Older cuDNN wants the lowest number in place of minus infinity.
    const Node nothing = graph.constant(cudnn_version() < 91000 ? std::numeric_limits<float>::lowest()
                                                                : -std::numeric_limits<float>::infinity());
    const Node mask = between_scores(CUDNN_DATA_BOOLEAN), y = between_scores();
    graph.pointwise({comparison, CUDNN_DATA_BOOLEAN}, left, right, -1, mask);
    graph.pointwise({CUDNN_POINTWISE_BINARY_SELECT}, x, nothing, mask, y);
    return y;
  }
  /// Key up to the query; and, with a window, key + window beyond the query.
  Node masked(Node x) {
    const Node query = index(x, 2), key = index(x, 3);
    Node y = keep(x, query, key, CUDNN_POINTWISE_CMP_GE);
    if (c.attention.window == 0) return y;
    const Node row = index(y, 2), column = index(y, 3);
    const Node shifted = between_scores();
    graph.pointwise({CUDNN_POINTWISE_ADD}, column, graph.constant(static_cast<float>(c.attention.window)), -1, shifted);
    return keep(y, shifted, row, CUDNN_POINTWISE_CMP_GT);
  }
};

AttentionNodes forward_graph(CudnnGraph& graph, const Case& what) {
  Builder b{graph, what};
  AttentionNodes n;
  n.q = b.tensor(what.attention.heads);
  n.k = b.transposed(what.attention.kv_heads);
  n.v = b.tensor(what.attention.kv_heads);
  n.out = b.tensor(what.attention.heads);
  n.statistics = b.row_tensor();
  const Node products = b.between_scores();
  graph.matmul(n.q, n.k, products);
  const Node scale = graph.constant(static_cast<float>(attention_scale(what)));
  const Node scores = b.masked(b.apply(CUDNN_POINTWISE_MUL, products, scale));
  const Node largest = b.between_rows();
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  const Node exponentials = b.apply(CUDNN_POINTWISE_EXP, b.apply(CUDNN_POINTWISE_SUB, scores, largest), -1);
  const Node sum = b.between_rows();
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
  const Node logarithm = b.apply(CUDNN_POINTWISE_LOG, sum, -1);
  graph.pointwise({CUDNN_POINTWISE_ADD}, largest, logarithm, -1, n.statistics);
  const Node weights = b.apply(CUDNN_POINTWISE_DIV, exponentials, sum, b.type);
  graph.matmul(weights, n.v, n.out);
  return n;
}

AttentionNodes backward_graph(CudnnGraph& graph, const Case& what) {
  Builder b{graph, what};
  AttentionNodes n;
  n.q = b.tensor(what.attention.heads);
  n.k = b.transposed(what.attention.kv_heads);
  n.v = b.transposed(what.attention.kv_heads);
  n.out = b.tensor(what.attention.heads);
  n.dout = b.tensor(what.attention.heads);
  n.statistics = b.row_tensor();
  n.dq = b.tensor(what.attention.heads);
  n.dk = b.tensor(what.attention.kv_heads);
  n.dv = b.tensor(what.attention.kv_heads);
  const Sizes wide = b.heads_of(what.attention.heads);

  // D, which the library keeps in memory between its kernels.
  const Node product = graph.between(wide, b.in_memory(what.attention.heads));
  graph.pointwise({CUDNN_POINTWISE_MUL}, n.dout, n.out, -1, product);
  const Node row_sum = b.between_rows();
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, product, row_sum);
  n.row_sum = b.row_tensor();
  graph.pointwise({CUDNN_POINTWISE_MUL}, row_sum, graph.constant(1), -1, n.row_sum);

  const Node scale = graph.constant(static_cast<float>(attention_scale(what)));
  const Node products = b.between_scores();
  graph.matmul(n.q, n.k, products);
  const Node scores = b.apply(CUDNN_POINTWISE_MUL, products, scale);
  const Node weights = b.apply(CUDNN_POINTWISE_EXP, b.masked(b.apply(CUDNN_POINTWISE_SUB, scores, n.statistics)), -1);

  /// out = x' y, summed over the query heads that share a key head.
  const auto transposed_product = [&](Node x, Node y, Node out) {
    const Node turned = graph.between(b.scores(), b.swapped(dense(b.scores())), b.type);
    graph.reshape(x, turned);
    if (what.attention.heads == what.attention.kv_heads) {
      graph.matmul(turned, y, out);
      return;
    }
    const Node every_head = graph.between(wide, dense(wide), b.type);
    graph.matmul(turned, y, every_head);
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, every_head, out);
  };
  transposed_product(weights, n.dout, n.dv);

  const Node dweights = b.between_scores();
  graph.matmul(n.dout, n.v, dweights);
  const Node centred = b.apply(CUDNN_POINTWISE_SUB, dweights, n.row_sum);
  const Node dscores = b.apply(CUDNN_POINTWISE_MUL, b.apply(CUDNN_POINTWISE_MUL, centred, weights), scale);
  transposed_product(dscores, n.q, n.dk);

  const Node keys = graph.between(b.heads_of(what.attention.kv_heads), b.in_memory(what.attention.kv_heads), b.type);
  graph.reshape(n.k, keys);
  n.dq_sum = graph.tensor(wide, dense(wide), CUDNN_DATA_FLOAT);
  graph.matmul(dscores, keys, n.dq_sum);
  graph.pointwise({CUDNN_POINTWISE_IDENTITY}, n.dq_sum, -1, -1, n.dq);
  return n;
}

class CudnnPass : public AttentionPass {
 public:
  CudnnPass(const Case& what, bool backward) : nodes_(attention_graph(graph_, what, backward)) {
    graph_.build();
    workspace_ = Memory(static_cast<std::size_t>(graph_.workspace_bytes()) + 16);
    if (!backward) return;
    const auto rows = static_cast<std::size_t>(what.batch * what.attention.heads * what.attention.seq);
    row_sum_ = Memory(rows * sizeof(float));
    dq_sum_bytes_ = rows * static_cast<std::size_t>(what.attention.head_dim) * sizeof(float);
    dq_sum_ = Memory(dq_sum_bytes_);
  }

  void launch(const AttentionTensors& t, Stream stream) override {
    std::map<Node, void*> pointers;
    const auto pass = [&](Node node, void* pointer) {
      if (node >= 0) pointers[node] = pointer;
    };
    pass(nodes_.q, t.q);
    pass(nodes_.k, t.k);
    pass(nodes_.v, t.v);
    pass(nodes_.out, t.out);
    pass(nodes_.statistics, t.statistics);
    pass(nodes_.dout, t.dout);
    pass(nodes_.dq, t.dq);
    pass(nodes_.dk, t.dk);
    pass(nodes_.dv, t.dv);
    pass(nodes_.row_sum, row_sum_.data());
    pass(nodes_.dq_sum, dq_sum_.data());
    // cuDNN before 9.6 adds into the sum without clearing it.
    if (nodes_.dq_sum >= 0 && cudnn_version() < 90600)
      check(gpuMemsetAsync(dq_sum_.data(), 0, dq_sum_bytes_, stream), "clearing a sum");
    graph_.run(pointers, workspace_.data(), stream);
  }

 private:
  CudnnGraph graph_;
  AttentionNodes nodes_;
  Memory workspace_, row_sum_, dq_sum_;
  std::size_t dq_sum_bytes_ = 0;
};

}  // namespace

AttentionNodes attention_graph(CudnnGraph& graph, const Case& what, bool backward) {
  return backward ? backward_graph(graph, what) : forward_graph(graph, what);
}

std::unique_ptr<AttentionPass> make_attention_pass(Device& device, const Case& what, bool backward) {
  if (device.capability() < 80) throw Failure{GpuStatus::unavailable, "cuDNN fuses attention from sm_80 on"};
  return std::make_unique<CudnnPass>(what, backward);
}

void list_attention_library(Inventory& inventory) {
  std::string version;
  if (cudnn_found()) {
    const std::size_t v = cudnn_version();  // 9.19.0 is 91900
    version = std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
  }
  inventory.add("cuDNN", version, cudnn_problem(), "fused attention");
}

}  // namespace orrery::calibration::gpu
