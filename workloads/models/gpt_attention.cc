// Attention of a GPT: fused or as GEMMs and softmax, on one rank or over a context group.
#include <bit>

#include "workloads/models/chunk_builder.h"

namespace orrery::workloads {

namespace {
/// Scattering rows into a tensor of zeros writes it twice and reads once, a copy writes once and reads once.
constexpr double kScatter = 1.5;
}  // namespace

Attention ChunkBuilder::fused_attention(bool backward) const {
  Attention shape;
  shape.dtype = job_.precision.activations;
  shape.batch = job_.batch.micro;
  shape.queries = shape.keys = job_.rank_seq();
  shape.heads = heads(), shape.kv_heads = kv_heads(), shape.head_dim = model_.head_dim();
  shape.window = model_.attention_window < model_.seq ? model_.attention_window : 0;
  shape.backward = backward;
  shape.kernel = software_.attention_style.attention_kernel;
  shape.dropout = software_.layers.dropout;
  return shape;
}

/// Elements of the score matrices on this rank; unfused attention writes them to memory, window or not.
double ChunkBuilder::score_elements() const {
  return static_cast<double>(job_.batch.micro * heads()) * static_cast<double>(model_.seq) *
         static_cast<double>(model_.seq);
}

/// Bytes read and written when a tensor of `width` per token and rank is copied into another layout.
double ChunkBuilder::layout_copy(std::int64_t width) const {
  return static_cast<double>(tokens_) * static_cast<double>(width) * 2 * element_;
}

// Every rank holds blocks r and 2c-1-r of 2c ("zigzag", as Megatron-LM and Transformer Engine cut sequences), so that
// the causal triangle falls into equal shares: its own positions among themselves, and half of the square of its
// queries and any other rank's keys.
void ChunkBuilder::context_comm(CollectiveOp op, double elements, const char* what, CommOverlap overlap) {
  Piece piece;
  piece.op = op;
  piece.bytes = elements * element_;
  piece.what = recomputing_ ? std::string(what) + " (recomputed)" : what;
  piece.overlap = overlap;
  piece.layer = layer_;
  piece.context = true;
  out_->push_back(std::move(piece));
}

/// Forward two matrix products over the pairs of positions that see each other, backward five (Dao, FlashAttention-2,
/// arXiv 2307.08691, section 4.1); queries, keys, values and output are read or written once, backward their gradients
/// too.
void ChunkBuilder::add_attention(const Attention& shape) {
  const auto d = [](std::int64_t count) { return static_cast<double>(count); };
  const double reach = d(shape.window > 0 ? std::min(shape.window, shape.keys) : shape.keys);
  const double pairs = shape.causal ? reach * (d(shape.queries) - reach / 2) : d(shape.queries) * reach;
  const double per_head = d(shape.batch) * d(shape.head_dim);
  Kernel kernel{shape.backward ? "attention backward" : "attention forward", job_.device.attention(shape)};
  kernel.flops = per_head * d(shape.heads) * pairs * (shape.backward ? 10 : 4);
  kernel.bytes = per_head * element_ * (shape.backward ? 2 : 1) *
                 (2 * d(shape.heads) * d(shape.queries) + 2 * d(shape.kv_heads) * d(shape.keys));
  kernel.type = shape.dtype;
  add(std::move(kernel));
}

void ChunkBuilder::flash_attention(bool backward) {
  Attention shape = fused_attention(backward);
  if (context_ == 1) return add_attention(shape);
  const double width = static_cast<double>(2 * kv_heads() * model_.head_dim());
  const double keys_and_values = static_cast<double>(tokens_) * width;
  if (job_.parallelism.context_method == ContextMethod::ring) return ring_attention(shape, keys_and_values);
  // Gathered in full (arXiv 2407.21783, section 3.3.2), before the kernel that needs them; queries see half of all
  // keys on average.
  const double whole = keys_and_values * static_cast<double>(context_);
  shape.keys = model_.seq / 2;
  shape.causal = false;
  context_comm(CollectiveOp::all_gather, whole, backward ? "keys and values, backward" : "keys and values, forward",
               CommOverlap::none);
  add_attention(shape);
  if (backward)
    context_comm(CollectiveOp::reduce_scatter, whole, "key and value gradients, backward", CommOverlap::none);
}

/// Blocks of keys and values go round the ring, each sent on beside the attention of the block at hand; backward
/// their gradients follow one step behind and end where they belong (Liu et al., arXiv 2310.01889).
void ChunkBuilder::ring_attention(Attention shape, double keys_and_values) {
  const bool backward = shape.backward;
  for (std::int64_t step = 0; step < context_; ++step) {
    if (step + 1 < context_) {
      context_comm(CollectiveOp::send_receive, keys_and_values,
                   backward ? "keys and values, backward" : "keys and values, forward", CommOverlap::behind);
    }
    if (backward && step > 0) {
      context_comm(CollectiveOp::send_receive, keys_and_values, "key and value gradients, backward",
                   CommOverlap::behind);
    }
    cut_ = true;
    add_attention(shape);
    // Partial results of the block are added up: the output, or the gradients of queries, keys and values.
    const double partial = layout_copy(heads() * model_.head_dim()) + (backward ? 2 * keys_and_values * element_ : 0);
    if (step > 0) stream(Streaming::accumulate, 1.5 * partial, "add attention block");
    if (step == 0) shape.causal = false, shape.keys /= 2;
  }
  if (backward) {
    context_comm(CollectiveOp::send_receive, keys_and_values, "key and value gradients, backward", CommOverlap::none);
  }
  cut_ = true;
}

/// One kernel that reads and writes queries and keys, as Megatron-Core's fused rotary embedding does; older generations
/// take several, which no list of measured runs tells apart.
void ChunkBuilder::rotate(const char* name) {
  if (model_.positions != Positions::rotary) return;
  stream(Streaming::copy, layout_copy((heads() + kv_heads()) * model_.head_dim()), name);
}

/// Megatron's kernel takes up to 2048 keys, and whole blocks of score matrices (megatron/model/fused_softmax.py,
/// is_kernel_available). A block is as many rows as 128 threads take: a warp has no more lanes than a row has elements,
/// and takes two rows of up to 128. One release hands heads over for the length of a row.
bool ChunkBuilder::fuses_softmax() const {
  constexpr std::int64_t kLongest = 2048, kThreads = 128, kLanes = 32, kShortRow = 128;
  const auto multiple = static_cast<std::int64_t>(software_.attention_style.fused_softmax_matrices);
  if (multiple == 1) return true;
  const std::int64_t matrices = job_.batch.micro * heads();
  if (model_.seq > kLongest || matrices % multiple != 0) return false;
  if (!software_.attention_style.fused_softmax_by_heads) return true;
  const auto row = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(heads())));
  return matrices % (kThreads / std::min(row, kLanes) * (row <= kShortRow ? 2 : 1)) == 0;
}

/// ALiBi's slopes times distances are spread over the result's memory, and the product adds onto them (torch.baddbmm).
void ChunkBuilder::add_position_bias() {
  if (model_.positions == Positions::alibi) stream(Streaming::copy, 2 * score_elements() * element_, "position bias");
}

void ChunkBuilder::softmax_forward() {
  const double scores = score_elements();
  if (fuses_softmax()) return stream(Streaming::softmax, 2 * scores * element_, "softmax");
  stream(Streaming::copy, scores * (element_ + 4), "scores to fp32");
  stream(Streaming::accumulate, scores * 8, "scale scores");
  stream(Streaming::accumulate, scores * 8, "mask scores");
  stream(Streaming::softmax, scores * 8, "softmax");
  stream(Streaming::copy, scores * (4 + element_), "probabilities to 16 bit");
}

void ChunkBuilder::softmax_backward() {
  const double scores = score_elements();
  if (fuses_softmax()) return stream(Streaming::softmax_backward, 3 * scores * element_, "softmax backward");
  stream(Streaming::copy, scores * (element_ + 4), "probability gradient to fp32");
  stream(Streaming::softmax_backward, scores * 12, "softmax backward");
  stream(Streaming::accumulate, scores * 8, "mask score gradient");
  stream(Streaming::accumulate, scores * 8, "scale score gradient");
  stream(Streaming::copy, scores * (4 + element_), "score gradient to 16 bit");
}

// Removing the padding, whether there is any or not, as flash_attn/bert_padding.py does: queries, keys and values are
// gathered by token index and the output is scattered into zeros; backward the other way round. The host reads how many
// tokens there are and how long the longest sequence is, so the device runs dry.
void ChunkBuilder::input_layout() {
  if (software_.attention_style.attention_unpads) {
    const auto reads = static_cast<std::int64_t>(std::lround(software_.attention_style.host_reads_per_attention));
    if (reads > 0 && software_.attention_style.host_read.value() > 0)
      add({"host reads lengths", software_.attention_style.host_read * reads, false, 0, 0, {}});
    stream(Streaming::embedding, layout_copy(qkv_width()), "gather tokens");
    stream(Streaming::embedding, kScatter * layout_copy(heads() * model_.head_dim()), "scatter attention output");
  } else if (software_.attention_style.attention_layout_copies) {
    if (job_.attention == AttentionKind::flash)
      stream(Streaming::copy, layout_copy(qkv_width()), "attention input layout");
    stream(Streaming::copy, layout_copy(heads() * model_.head_dim()), "attention output layout");
  }
}

void ChunkBuilder::gradient_layout() {
  if (software_.attention_style.attention_unpads) {
    stream(Streaming::embedding, layout_copy(heads() * model_.head_dim()), "gather attention gradient");
    stream(Streaming::embedding, kScatter * layout_copy(qkv_width()), "scatter q, k, v gradients");
  } else if (software_.attention_style.attention_layout_copies) {
    stream(Streaming::copy, layout_copy(heads() * model_.head_dim()), "attention gradient layout");
  }
  if (software_.attention_style.attention_unpads || software_.attention_style.attention_layout_copies)
    stream(Streaming::copy, layout_copy(qkv_width()), "concatenate q, k, v gradients");
}

void ChunkBuilder::attention_core_forward() {
  input_layout();
  if (job_.attention == AttentionKind::flash) return flash_attention(false);
  const std::int64_t s = model_.seq, head_dim = model_.head_dim(), batch = job_.batch.micro * heads();
  add_position_bias();
  gemm("attention scores", s, s, head_dim, Gemm::Form::forward, {}, batch, false);
  softmax_forward();
  dropout(score_elements(), "attention dropout");
  gemm("attention values", head_dim, s, s, Gemm::Form::data_gradient, {}, batch, false);
}

void ChunkBuilder::attention_core_backward() {
  recomputing_ = job_.recompute == Recompute::selective;
  if (recomputing_) attention_core_forward();
  recomputing_ = false;
  gradient_layout();
  if (job_.attention == AttentionKind::flash) return flash_attention(true);
  const std::int64_t s = model_.seq, head_dim = model_.head_dim(), batch = job_.batch.micro * heads();
  gemm("attention value gradient", head_dim, s, s, Gemm::Form::weight_gradient, {}, batch, false);
  gemm("attention probability gradient", s, s, head_dim, Gemm::Form::data_gradient, {}, batch, false);
  dropout(score_elements(), "attention dropout backward");
  softmax_backward();
  gemm("attention query gradient", head_dim, s, s, Gemm::Form::data_gradient, {}, batch, false);
  gemm("attention key gradient", head_dim, s, s, Gemm::Form::weight_gradient, {}, batch, false);
}

}  // namespace orrery::workloads
