// Attention as kernels: fused or as products and softmax, on one rank or over a context group.
//
// Every rank of a context group holds blocks r and 2c-1-r of 2c ("zigzag", as Megatron-LM and Transformer Engine cut
// sequences), so that the causal triangle falls into equal shares: its own positions among themselves, and half of the
// square of its queries and any other rank's keys.
#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/real.h"
#include "workloads/model/piece_writer.h"

namespace orrery::workloads {

namespace {

using calibration::Attention;
using calibration::CollectiveOp;
using calibration::Gemm;
using calibration::Streaming;

using sim::real;

/// Nothing to cast, and no scale, which goes with casts (--apply-query-key-layer-scaling).
bool in_fp32(const AttentionOp& op) { return op.type == calibration::DataType::fp32; }

/// Megatron's kernel takes up to 2048 keys, and whole blocks of score matrices (megatron/model/fused_softmax.py,
/// is_kernel_available), of 16 bit. A block is as many rows as 128 threads take: a warp has no more lanes than a row
/// has elements, and takes two rows of up to 128. One release hands heads over for the length of a row.
bool fuses_softmax(const AttentionOp& op) {
  constexpr std::int64_t kLongest = 2048, kThreads = 128, kLanes = 32, kShortRow = 128;
  const auto multiple = static_cast<std::int64_t>(op.style.fused_softmax_matrices);
  if (multiple == 1) return true;
  const std::int64_t matrices = op.batch * op.heads;
  if (in_fp32(op) || std::max(op.seq, op.keys()) > kLongest || matrices % multiple != 0) return false;
  if (!op.style.fused_softmax_by_heads) return true;
  const auto row = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(op.heads)));
  return matrices % (kThreads / std::min(row, kLanes) * (row <= kShortRow ? 2 : 1)) == 0;
}

bool in_fp8(const AttentionOp& op, const PieceWriter& writer) {
  constexpr auto kKernel = calibration::AttentionKernel::fused_fp8;
  return op.style.attention_kernel == kKernel && writer.device().has(kKernel);
}

/// Queries, keys and values are cast ahead of the kernel, backward the output's gradient; the gradients of queries,
/// keys and values come in fp8 and are made 16 bit (transformer_engine/pytorch/attention: NVTE_FP8_DPA_BWD). Left out:
/// what is kept for the backward pass is then in fp8.
void cast_operands(const AttentionOp& op, PieceWriter& writer, bool backward) {
  const std::int64_t heads = (backward ? 2 : 1) * op.heads + (op.other_keys > 0 ? 0 : 2 * op.kv_heads);
  const double elements = real(op.batch * (op.seq / op.context)) * real(heads * op.head_dim) +
                          real(op.batch * op.other_keys) * real(2 * op.kv_heads * op.head_dim);
  writer.stream(Streaming::cast_transpose, elements * (calibration::bytes_of(op.type) + 1),
                backward ? "cast attention gradients" : "cast q, k, v");
}

class AttentionWriter {
 public:
  AttentionWriter(const AttentionOp& op, PieceWriter& writer)
      : op_(op), style_(op.style), writer_(writer), element_(calibration::bytes_of(op.type)) {}

  void forward() {
    input_layout();
    if (op_.fused) return flash(false);
    if (op_.position_bias) {
      // ALiBi's slopes times distances are spread over the result's memory, and the product adds onto them
      // (torch.baddbmm).
      stream(Streaming::copy, 2 * scores() * element_, "position bias");
    }
    product("attention scores", op_.seq, op_.keys(), op_.head_dim, Gemm::Form::forward);
    softmax_forward();
    dropout("attention dropout");
    product("attention values", op_.head_dim, op_.seq, op_.keys(), Gemm::Form::data_gradient);
  }

  void backward() {
    if (op_.recomputed) {
      writer_.recomputing = true;
      forward();
      writer_.recomputing = false;
    }
    gradient_layout();
    if (op_.fused) return flash(true);
    product("attention value gradient", op_.head_dim, op_.keys(), op_.seq, Gemm::Form::weight_gradient);
    product("attention probability gradient", op_.seq, op_.keys(), op_.head_dim, Gemm::Form::data_gradient);
    dropout("attention dropout backward");
    softmax_backward();
    product("attention query gradient", op_.head_dim, op_.seq, op_.keys(), Gemm::Form::data_gradient);
    product("attention key gradient", op_.head_dim, op_.keys(), op_.seq, Gemm::Form::weight_gradient);
  }

 private:
  void stream(Streaming kernel, double bytes, const char* name) { writer_.stream(kernel, bytes, name); }

  // ---- sizes ----
  std::int64_t tokens() const { return op_.batch * (op_.seq / op_.context); }
  std::int64_t query_width() const { return op_.heads * op_.head_dim; }
  /// Elements of queries, keys and values; keys may be of another sequence.
  double qkv_elements() const {
    if (op_.other_keys == 0) return real(tokens()) * real((op_.heads + 2 * op_.kv_heads) * op_.head_dim);
    return real(tokens()) * real(query_width()) +
           real(op_.batch * op_.other_keys) * real(2 * op_.kv_heads * op_.head_dim);
  }
  /// Elements of the score matrices on this rank; unfused attention writes them to memory, window or not.
  double scores() const { return real(op_.batch * op_.heads) * real(op_.seq) * real(op_.keys()); }
  /// Bytes read and written when a tensor of `width` per token and rank is copied into another layout.
  double layout_copy(std::int64_t width) const { return real(tokens()) * real(width) * 2 * element_; }

  // ---- fused ----
  Attention fused(bool backward) const {
    Attention shape;
    shape.dtype = op_.type;
    shape.batch = op_.batch;
    const std::int64_t cut = op_.by_heads ? 1 : op_.context, heads = op_.by_heads ? op_.context : 1;
    shape.queries = shape.keys = op_.seq / cut;
    if (op_.other_keys > 0) shape.keys = op_.other_keys;
    shape.heads = op_.heads / heads;
    shape.kv_heads = op_.kv_heads / heads;
    shape.head_dim = op_.head_dim;
    shape.window = op_.window.keys;
    shape.backward = backward;
    shape.kernel = style_.attention_kernel;
    shape.score_operations = style_.score_operations;
    shape.dropout = op_.dropout;
    shape.causal = op_.causal;
    return shape;
  }

  /// Forward two matrix products over the pairs of positions that see each other, backward five (Dao,
  /// FlashAttention-2, arXiv 2307.08691, section 4.1); queries, keys, values and output are read or written once,
  /// backward their gradients too.
  void add(const Attention& shape) {
    const double reach = real(shape.window > 0 ? std::min(shape.window, shape.keys) : shape.keys);
    const double pairs = shape.causal ? reach * (real(shape.queries) - reach / 2) : real(shape.queries) * reach;
    const double per_head = real(shape.batch) * real(shape.head_dim);
    Kernel kernel{shape.backward ? "attention backward" : "attention forward", writer_.device().attention(shape)};
    kernel.attention = true;
    kernel.flops = per_head * real(shape.heads) * pairs * (shape.backward ? 10 : 4);
    kernel.bytes = per_head * element_ * (shape.backward ? 2 : 1) *
                   (2 * real(shape.heads) * real(shape.queries) + 2 * real(shape.kv_heads) * real(shape.keys));
    kernel.type = in_fp8(op_, writer_) ? calibration::DataType::fp8 : shape.dtype;
    kernel.shape = {shape.batch, shape.heads, shape.kv_heads, shape.queries, shape.keys, shape.head_dim};
    writer_.add(std::move(kernel));
  }

  void comm(CollectiveOp op, double elements, const char* what, CommOverlap overlap) {
    writer_.comm(CommGroup::context, op, elements * element_, what, overlap);
  }

  void flash(bool backward) {
    if (in_fp8(op_, writer_)) cast_operands(op_, writer_, backward);
    Attention shape = fused(backward);
    if (op_.context == 1) return attend(shape);
    const double keys_and_values = real(tokens()) * real(2 * op_.kv_heads * op_.head_dim);
    if (op_.ring) return ring(shape, keys_and_values);
    if (op_.by_heads) return heads(shape);
    // Gathered in full (arXiv 2407.21783, section 3.3.2), before the kernel that needs them; queries see half of all
    // keys on average.
    const double whole = keys_and_values * real(op_.context);
    if (style_.gathered_in_blocks) return blocks(shape, keys_and_values);
    shape.keys = op_.seq / 2;
    shape.causal = false;
    comm(CollectiveOp::all_gather, whole, backward ? "keys and values, backward" : "keys and values, forward",
         CommOverlap::none);
    add(shape);
    if (backward) comm(CollectiveOp::reduce_scatter, whole, "key and value gradients, backward", CommOverlap::none);
  }

  void attend(const Attention& shape);
  void blocks(Attention shape, double keys_and_values);
  void heads(const Attention& shape);
  enum class Gathers : std::uint8_t { positions, heads };
  void exchange_heads(std::int64_t width, const char* what, Gathers gathers, int tensors = 1);
  void order_documents(Gathers gathers);

  /// Blocks of keys and values go round the ring, each sent on beside the attention of the block at hand; backward
  /// their gradients follow one step behind and end where they belong (Liu et al., arXiv 2310.01889).
  void ring(Attention shape, double keys_and_values) {
    const bool backward = shape.backward;
    const char* const gradients = "key and value gradients, backward";
    for (std::int64_t step = 0; step < op_.context; ++step) {
      if (step + 1 < op_.context)
        comm(CollectiveOp::send_receive, keys_and_values,
             backward ? "keys and values, backward" : "keys and values, forward", CommOverlap::behind);
      if (backward && step > 0) comm(CollectiveOp::send_receive, keys_and_values, gradients, CommOverlap::behind);
      writer_.cut();
      add(shape);
      // Partial results of the block are added up: the output, or the gradients of queries, keys and values.
      const double partial = layout_copy(query_width()) + (backward ? 2 * keys_and_values * element_ : 0);
      if (step > 0) stream(Streaming::accumulate, 1.5 * partial, "add attention block");
      if (step == 0) {
        shape.causal = false;
        shape.keys /= 2;
      }
    }
    if (backward) comm(CollectiveOp::send_receive, keys_and_values, gradients, CommOverlap::none);
    writer_.cut();
  }

  // ---- products and softmax ----
  void product(const char* name, std::int64_t m, std::int64_t n, std::int64_t k, Gemm::Form form) {
    Gemm shape;
    shape.dtype = op_.type;
    shape.m = m;
    shape.n = n;
    shape.k = k;
    shape.batch = op_.batch * op_.heads;
    shape.form = form;
    shape.aligned = shape.batch == 1 || op_.head_dim % 8 == 0;  // operands are cut by heads
    writer_.gemm(name, shape);
  }

  void dropout(const char* name) {
    if (op_.dropout) stream(Streaming::dropout, scores() * (2 * element_ + 1), name);
  }

  void softmax_forward() {
    if (fuses_softmax(op_)) return stream(Streaming::softmax, 2 * scores() * element_, "softmax");
    if (!in_fp32(op_)) stream(Streaming::copy, scores() * (element_ + 4), "scores to fp32");
    if (!in_fp32(op_)) stream(Streaming::accumulate, scores() * 8, "scale scores");
    stream(Streaming::accumulate, scores() * 8, "mask scores");
    stream(Streaming::softmax, scores() * 8, "softmax");
    if (!in_fp32(op_)) stream(Streaming::copy, scores() * (4 + element_), "probabilities to 16 bit");
  }

  void softmax_backward();

  // ---- layouts ----
  // Where padding is removed, the host reads how many tokens there are and how long the longest sequence is, so the
  // device runs dry.
  void input_layout() {
    copy_all(style_.qkv_copies, "copy q, k, v");
    if (style_.host_reads.value() > 0) writer_.add({"host reads lengths", style_.host_reads, false, 0, 0, {}});
    if (op_.way != nullptr) move(op_.way->forward);
  }
  void gradient_layout() {
    copy_all(style_.qkv_gradient_copies, "copy q, k, v gradients");
    if (op_.way != nullptr) move(op_.way->backward);
  }
  void copy_all(double times, const char* name) {
    if (times > 0) stream(Streaming::copy, times * (qkv_elements() * 2 * element_), name);
  }
  void move(const std::vector<calibration::Line>& lines) {
    const calibration::RecipeSizes sizes(
        calibration::RecipePart::attention_in,
        {{"q", real(tokens()) * real(query_width())}, {"qkv", qkv_elements()}, {"e", element_}, {"fused", op_.fused}});
    for (const calibration::Line& line : lines) {
      const auto* kernel = std::get_if<Streaming>(&line.runs);
      if (kernel == nullptr || !line.holds(sizes)) continue;
      writer_.stream(*kernel, line.elements.at(sizes) * line.bytes_each.at(sizes), line.name.c_str(), op_.way);
    }
  }

  const AttentionOp& op_;
  const calibration::AttentionStyle& style_;
  PieceWriter& writer_;
  double element_;  // bytes of an activation
};

void AttentionWriter::softmax_backward() {
  if (fuses_softmax(op_)) return stream(Streaming::softmax_backward, 3 * scores() * element_, "softmax backward");
  if (!in_fp32(op_)) stream(Streaming::copy, scores() * (element_ + 4), "probability gradient to fp32");
  stream(Streaming::softmax_backward, scores() * 12, "softmax backward");
  stream(Streaming::accumulate, scores() * 8, "mask score gradient");
  if (in_fp32(op_)) return;
  stream(Streaming::accumulate, scores() * 8, "scale score gradient");
  stream(Streaming::copy, scores() * (4 + element_), "score gradient to 16 bit");
}

/// Chunks attend by themselves, as that many more sequences of a micro-batch, the last and shorter one of a sequence
/// apart (NVIDIA/NeMo, nemo/collections/llm/gpt/model/llama4_utils.py, chunkify). Left out: that NeMo fills it up.
void AttentionWriter::attend(const Attention& shape) {
  const auto [length, chunked] = op_.window;
  if (!chunked) return add(shape);
  const auto chunks = [&](std::int64_t count, std::int64_t positions) {
    if (count == 0 || positions == 0) return;
    Attention each = shape;
    each.window = 0;
    each.batch *= count;
    each.queries = each.keys = positions;
    add(each);
  };
  chunks(shape.keys / length, length);
  chunks(1, shape.keys % length);
}

/// Keys and values are put side by side and gathered, a kernel takes those of one rank at a time, and partial outputs
/// are put together in fp32: the sum read and written, the block's output read. Backward, gradients of queries are
/// added up likewise; those of keys and values come round from rank to rank in fp32, to which each adds its own, and
/// every exchange is awaited where it begins (pytorch/pytorch, torch/distributed/tensor/experimental/_attention.py,
/// _templated_ring_attention and its backward). Left out: copies of the halves that a block leaves as they were.
void AttentionWriter::blocks(Attention shape, double keys_and_values) {
  const bool backward = shape.backward;
  constexpr double kSum = 4;  // bytes of fp32
  const double queries = real(tokens()) * real(query_width());
  stream(Streaming::copy, 2 * keys_and_values * element_, "put keys and values side by side");
  comm(CollectiveOp::all_gather, keys_and_values * real(op_.context),
       backward ? "keys and values, backward" : "keys and values, forward", CommOverlap::none);
  for (std::int64_t block = 0; block < op_.context; ++block) {
    add(shape);
    if (backward) {
      stream(Streaming::accumulate, (2 * kSum + element_) * (queries + keys_and_values), "add attention gradients");
      stream(Streaming::copy, 2 * kSum * keys_and_values, "put key and value gradients side by side");
      writer_.comm(CommGroup::context, CollectiveOp::send_receive, kSum * keys_and_values,
                   "key and value gradients, backward", CommOverlap::none);
    } else if (block > 0) {
      stream(Streaming::accumulate, (2 * kSum + element_) * queries, "merge attention block");
    }
    if (block == 0) {
      shape.causal = false;
      shape.keys /= 2;
    }
  }
  const double sums = backward ? queries + keys_and_values : queries;
  stream(Streaming::copy, (kSum + element_) * sums, backward ? "attention gradients to 16 bit" : "output to 16 bit");
}

/// A tensor of `width` an element of each token is put in the order of ranks, exchanged and put in that of positions,
/// or of heads on the way back (NVIDIA/TransformerEngine, context_parallel.py, flash_attn_a2a_communicate).
void AttentionWriter::exchange_heads(std::int64_t width, const char* what, Gathers gathers, int tensors) {
  for (int i = 0; i < tensors; ++i) {
    if (gathers == Gathers::heads) order_documents(gathers);
    stream(Streaming::copy, layout_copy(width), "put in order of ranks");
    comm(CollectiveOp::all_to_all, real(tokens()) * real(width), what, CommOverlap::none);
    if (gathers == Gathers::positions) order_documents(gathers);
    stream(Streaming::copy, layout_copy(width), "put in order of positions");
  }
}

/// Chunks of every document, whose places the host may have to read from the device: then it launches nothing more
/// until they are there.
void AttentionWriter::order_documents(Gathers gathers) {
  if (op_.order == nullptr || op_.documents < 2) return;
  const calibration::RecipeSizes sizes(
      calibration::RecipePart::head_exchange,
      {{"documents", real(op_.documents)}, {"ranks", real(op_.context)}, {"gathered", gathers == Gathers::positions}});
  bool any = false;
  for (const calibration::Line& line : writer_.backward ? op_.order->backward : op_.order->forward) {
    const auto* kernel = std::get_if<Streaming>(&line.runs);
    if (kernel == nullptr || !line.holds(sizes)) continue;
    StreamingOp made{line.name.c_str(), *kernel, line.elements.at(sizes), line.bytes_each.at(sizes)};
    made.recipe = op_.order;
    made.launches = line.launches(sizes);
    writer_.stream(made);
    any = true;
  }
  if (any) writer_.end_run(true);
}

/// Every rank gives all positions of its queries, keys and values for a part of the heads, and attends to them all;
/// the output goes back, and so do gradients the other way (Jacobs et al., arXiv 2309.14509). What is kept for the
/// backward pass is kept by heads. Left out: a tensor's copies beside the exchange of the one before it.
void AttentionWriter::heads(const Attention& shape) {
  const bool backward = shape.backward;
  const std::int64_t keys = op_.kv_heads * op_.head_dim;
  if (backward) {
    exchange_heads(query_width(), "attention output gradients, backward", Gathers::positions);
  } else {
    exchange_heads(query_width(), "queries, forward", Gathers::positions);
    exchange_heads(keys, "keys and values, forward", Gathers::positions, 2);
  }
  attend(shape);
  if (!backward) return exchange_heads(query_width(), "attention output, forward", Gathers::heads);
  exchange_heads(query_width(), "query gradients, backward", Gathers::heads);
  exchange_heads(keys, "key and value gradients, backward", Gathers::heads, 2);
}

}  // namespace

void attention_forward(const AttentionOp& op, PieceWriter& writer) { AttentionWriter(op, writer).forward(); }
void attention_backward(const AttentionOp& op, PieceWriter& writer) { AttentionWriter(op, writer).backward(); }

}  // namespace orrery::workloads
