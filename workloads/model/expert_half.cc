// Experts with what they exchange, keep, need and weigh. See expert_half.h. Left out: sums of scores over the tensor
// group for auxiliary losses (a number of each expert), tokens that routing drops for other reasons than capacity.
#include "workloads/model/expert_half.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/real.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;

using sim::real;

std::string_view name_at(std::size_t i) {
  static constexpr std::array<std::string_view, kDispatchers> kNames{"alltoall", "allgather", "deepep", "hybridep"};
  return kNames[i];
}

}  // namespace

std::string_view name_of(Dispatcher dispatcher) { return name_at(static_cast<std::size_t>(dispatcher)); }

/// An expert with room for so many tokens takes as many from every rank; without padding, balanced routing fills it to
/// at most its mean.
ExpertSizes::ExpertSizes(const LayerWriter& writer) {
  const Split& split = writer.split();
  const Sizes& sizes = writer.sizes();
  const Experts& experts = writer.model().experts;
  const ExpertStyle& style = writer.computation().experts;
  tokens = sizes.sequence_parallel ? sizes.tokens / sizes.tensor : sizes.tokens;
  copies = experts.count / split.expert;
  ffn = experts.ffn_hidden / split.expert_tensor;
  sent = tokens * experts.top_k;
  if (style.capacity_factor > 0) {
    const double room = std::ceil(style.capacity_factor * real(sent) / real(experts.count)) * real(experts.count);
    const bool fills = style.pads_to_capacity || room < real(sent);
    if (fills) sent = std::llround(room);
  }
  routed = std::llround(real(sent * split.expert_tensor) * style.imbalance);
  const std::int64_t sources = split.expert * split.expert_tensor;
  const bool once = style.dispatcher == Dispatcher::allgather || sends_once(style.dispatcher);
  arriving = once
                 ? real(tokens * sources) * calibration::reaches(experts.choice(), real(split.expert)) * style.imbalance
                 : real(routed);
}

ExpertHalf::ExpertHalf(LayerWriter& writer)
    : w_(writer),
      m_(writer.model()),
      z_(writer.sizes()),
      style_(writer.computation().experts),
      x_(writer),
      e_(writer.element()),
      shared_width_(m_.experts.shared_width() / z_.tensor) {}

double ExpertHalf::of_hidden(double tokens) const { return tokens * real(moved()); }

// ---- router ----

/// Scores of every token for every expert, and of these the highest. Operation by operation these are: scores, top-k,
/// their weights spread over all experts, a map of them, tokens counted; for the auxiliary loss scores once more and
/// their sums. Where experts have a capacity, each chooses its tokens by their weights, others are dropped from the map
/// and from the weights, fused or not (core_v0.14.0, megatron/core/transformer/moe/moe_utils.py,
/// apply_router_token_dropping: top-k over tokens, scatter, product); its choice is taken to go as fast as that of a
/// token.
void ExpertHalf::route() {
  const double scores = real(x_.tokens) * real(m_.experts.count), s = style_.router_fp32 ? 4 : e_;
  LinearOp op;
  MatMul p = w_.product("router", m_.experts.count, m_.hidden);
  p.tokens = x_.tokens;
  p.type = w_.computation().precision.activations;
  op.products = {std::move(p)};
  w_.add(std::move(op));
  w_.add(HostOp{0});
  if (style_.fused_router) {
    w_.backward("top-k backward", Streaming::copy, scores, 3 * s + 1);
    w_.forward("top-k", Streaming::copy, scores, 3 * s + 1);
    w_.backward("auxiliary loss backward", Streaming::copy, scores, 2 * s);
    w_.forward("auxiliary loss", Streaming::copy, scores, 2 * s);
  } else {
    w_.backward("scores backward", Streaming::softmax, scores, 3 * s);
    w_.forward("scores", Streaming::softmax, scores, 2 * s);
    w_.forward("top-k", Streaming::top_k, scores, s);
    w_.backward("weights by expert backward", Streaming::copy, scores, s);
    w_.forward("weights by expert", Streaming::copy, scores, 2 * s);
    w_.forward("routing map", Streaming::copy, scores, 2);
    w_.backward("auxiliary loss backward", Streaming::softmax, scores, 4 * s);
    w_.forward("auxiliary loss", Streaming::softmax, scores, 3 * s);
    w_.forward("top-k of auxiliary loss", Streaming::top_k, scores, s);
  }
  if (style_.capacity_factor > 0) {
    w_.backward("kept weights backward", Streaming::copy, scores, 2 * s + 1);
    w_.forward("tokens that experts keep", Streaming::top_k, scores, s);
    w_.forward("map of kept tokens", Streaming::copy, scores, 2 * s + 1);
    w_.forward("kept weights", Streaming::copy, scores, 2 * s + 1);
  }
  w_.forward("tokens of every expert", Streaming::copy, scores, 1);
}

/// Both products are whole on every tensor rank, as the router is (NVIDIA/Megatron-LM, megatron/core/transformer/moe/
/// moe_layer.py: fc1_latent_proj and fc2_latent_proj, parallel_mode "duplicated").
void ExpertHalf::narrow() {
  if (m_.experts.latent == 0) return;
  LinearOp op;
  op.products = {w_.product("latent down", moved(), m_.hidden)};
  op.products.front().tokens = x_.tokens;
  w_.add(std::move(op));
  w_.cast_gradient(of_hidden(real(x_.tokens)));
}

void ExpertHalf::widen() {
  if (m_.experts.latent == 0) return;
  const double made = of_hidden(real(x_.tokens));
  w_.cast_apart(made, "cast latent outputs", Direction::forward);
  LinearOp op;
  op.products = {w_.product("latent up", m_.hidden, moved())};
  op.products.front().tokens = x_.tokens;
  w_.add(std::move(op));
}

// ---- dispatch and combine ----

/// Between a tensor of `few` tokens and one of `many` copies of them. Fused, one kernel reads each token once
/// (transformer_engine/common/permutation); PyTorch's index operations go by copies: one way rows are picked, the other
/// way they are added into zeros, element by element (Megatron-LM core_v0.16.0, megatron/core/transformer/moe/
/// moe_utils.py: index_select, whose gradient is index_add, and scatter_add_, whose gradient is a gather). Where every
/// expert has room for as many tokens, ranks and experts change places instead of being sorted, by PyTorch's copy of a
/// tensor with gaps, whatever permutes otherwise (core_v0.14.0, token_dispatcher.py, dispatch_postprocess). HybridEP
/// permutes itself (megatron/core/transformer/moe/fused_a2a.py, hybrid_ep_dispatch: dispatch_with_permute).
void ExpertHalf::permute(const char* name, const char* name_backward, Permutation how, double few, double many) {
  if (how == Permutation::sort && style_.pads_to_capacity) {
    w_.backward(name_backward, Streaming::strided, of_hidden(many), 2 * e_);
    w_.forward(name, Streaming::strided, of_hidden(many), 2 * e_);
    return;
  }
  if (style_.fused_permutation || style_.dispatcher == Dispatcher::hybridep || how == Permutation::sort) {
    w_.backward(name_backward, Streaming::copy, of_hidden(few + many), e_);
    w_.forward(name, Streaming::copy, of_hidden(few + many), e_);
    return;
  }
  const double rows = of_hidden(many);
  if (how == Permutation::pick) {
    w_.backward(name_backward, Streaming::index_add, rows, 3 * e_);
    w_.forward(name, Streaming::copy, rows, 2 * e_);
  } else {
    w_.backward(name_backward, Streaming::copy, rows, 2 * e_);
    w_.forward(name, Streaming::scatter_add, rows, 3 * e_);
  }
}

/// `beside`: what of the shared experts runs while tokens are on their way, where software overlaps them. Its exchange
/// stands on the other side of them in the backward pass, so that it is under way there too.
void ExpertHalf::exchange(const char* what, const char* what_backward, double bytes_each,
                          void (ExpertHalf::*beside)()) {
  const double elements = of_hidden(real(x_.sent)) * style_.busiest;
  CommOp op{CommGroup::expert, Exchange::all_to_all, elements,          bytes_each, what,
            what_backward,     CommOverlap::none,    CommOverlap::none, e_};
  if (!runs_beside()) return w_.add(op);
  op.overlap = op.overlap_backward = CommOverlap::behind;
  op.in = CommOp::In::forward;
  w_.add(op);
  w_.add(RunEnd{});
  w_.routed(false);  // shared experts see every token
  (this->*beside)();
  w_.routed(true);
  w_.add(RunEnd{});
  op.in = CommOp::In::backward;
  w_.add(op);
}

void ExpertHalf::pick_tokens() {
  const Split& split = w_.split();
  if (!gathers() && !sends_once(style_.dispatcher))
    permute("permute", "permute backward", Permutation::pick, real(x_.tokens), real(x_.sent));
  // The host has to know how many tokens come before it can ask for them, or for products of so many rows: DeepEP's
  // dispatch waits for counts itself (deepseek-ai/DeepEP, README, "Example use in model training"), after any other
  // experts.py turns tokens_per_expert into a list (Megatron-LM core_v0.16.0,
  // megatron/core/transformer/moe/experts.py).
  if (!style_.pads_to_capacity && !style_.paged_stash) w_.add(RunEnd{true});
  if (split.expert * split.expert_tensor == 1) return;
  if (gathers() || sends_once(style_.dispatcher) || style_.pads_to_capacity) return;
  // Where every rank has a part of every expert, the ranks that share experts out tell each other.
  const bool apart = split.expert > 1;
  const double counts = real(m_.experts.count * (apart ? split.expert : split.expert_tensor));
  w_.add(CommOp{apart ? CommGroup::expert : CommGroup::expert_tensor, Exchange::all_gather, counts, 8,
                "tokens of every expert", "", CommOverlap::none, CommOverlap::none, 0, CommOp::In::forward});
}

void ExpertHalf::dispatch() {
  const Split& split = w_.split();
  const double fp8 = 1 + 4.0 / 128;  // a scale for every 128 elements (arXiv 2412.19437, section 3.3.2)
  if (gathers()) {
    if (split.expert * split.expert_tensor > 1) {
      const double all = real(x_.tokens * split.expert * split.expert_tensor);
      w_.add(CommOp{CommGroup::expert, Exchange::all_gather, all * real(m_.experts.count),
                    style_.router_fp32 ? 5 : e_ + 1, "routing, forward", "routing gradients, backward",
                    CommOverlap::none, CommOverlap::none});
      w_.add(CommOp{CommGroup::expert, Exchange::all_gather, of_hidden(all), e_, "tokens, forward",
                    "token gradients, backward", CommOverlap::none, CommOverlap::none});
    }
  } else if (split.expert > 1) {
    exchange("dispatch, forward", "dispatch gradients, backward", style_.fp8_dispatch ? fp8 : e_,
             &ExpertHalf::shared_up);
    if (!sends_once(style_.dispatcher)) {
      w_.add(CommOp{CommGroup::expert, Exchange::all_to_all, real(x_.sent) * style_.busiest,
                    style_.router_fp32 ? 4 : e_, "routing weights, forward", "routing weight gradients, backward",
                    CommOverlap::none, CommOverlap::none});
    }
  }
  if (split.expert_tensor > 1 && !gathers()) {
    w_.add(CommOp{CommGroup::expert_tensor, Exchange::all_gather, of_hidden(real(x_.sent * split.expert_tensor)), e_,
                  "expert inputs, forward", "expert input gradients, backward", CommOverlap::none, CommOverlap::none});
  }
  if (gathers() || sends_once(style_.dispatcher))
    permute("permute", "permute backward", Permutation::pick, x_.arriving, real(x_.routed));
  else if (x_.copies > 1 && split.expert * split.expert_tensor > 1)
    permute("sort by expert", "sort by expert backward", Permutation::sort, real(x_.routed), real(x_.routed));
}

/// Over ranks outputs are added up in the type of the weights, to which they are cast and from which their sums are
/// cast back (Megatron-LM core_v0.16.0, megatron/core/transformer/moe/token_dispatcher.py, token_combine and
/// combine_preprocess).
void ExpertHalf::reduce_outputs(CommGroup group, double tokens, double share, const char* name,
                                const char* name_backward) {
  const double sum = style_.router_fp32 ? 4 : e_, outputs = of_hidden(tokens);
  const auto cast = [&](const char* to, const char* back, double elements) {
    if (sum <= e_) return;
    w_.backward(back, Streaming::copy, elements, e_ + sum);
    w_.forward(to, Streaming::copy, elements, e_ + sum);
  };
  cast("cast expert outputs to sum", "cast gradients of expert outputs", outputs);
  w_.add(
      CommOp{group, Exchange::reduce_scatter, outputs, sum, name, name_backward, CommOverlap::none, CommOverlap::none});
  cast("cast sums of expert outputs", "cast gradients of sums", outputs / share);
}

void ExpertHalf::combine() {
  const Split& split = w_.split();
  const double all = real(x_.tokens * split.expert * split.expert_tensor);
  if (gathers())
    permute("unpermute", "unpermute backward", Permutation::add,
            split.expert * split.expert_tensor > 1 ? all : real(x_.tokens), real(x_.routed));
  else if (sends_once(style_.dispatcher))
    permute("unpermute", "unpermute backward", Permutation::add, x_.arriving, real(x_.routed));
  else if (x_.copies > 1 && split.expert * split.expert_tensor > 1)
    permute("sort by rank", "sort by rank backward", Permutation::sort, real(x_.routed), real(x_.routed));
  const double parts = real(split.expert_tensor), ranks = real(split.expert * split.expert_tensor);
  if (split.expert_tensor > 1 && !gathers()) {
    reduce_outputs(CommGroup::expert_tensor, real(x_.sent) * parts, parts, "expert outputs, forward",
                   "expert output gradients, backward");
  }
  if (gathers()) {
    if (ranks > 1) reduce_outputs(CommGroup::expert, all, ranks, "outputs, forward", "output gradients, backward");
  } else if (split.expert > 1) {
    exchange("combine, forward", "combine gradients, backward", e_, &ExpertHalf::shared_down);
  }
}

void ExpertHalf::put_back_tokens() {
  if (gathers() || sends_once(style_.dispatcher)) return;
  permute("unpermute", "unpermute backward", Permutation::add, real(x_.tokens), real(x_.sent));
}

// ---- experts ----

MatMul ExpertHalf::of_experts(const char* name, std::int64_t out, std::int64_t in) const {
  MatMul p = w_.product(name, out, in);
  p.tokens = x_.routed;
  p.copies = x_.copies;
  p.grouped = style_.grouped;
  if (style_.fused_mlp && w_.quantised()) p.spares = style_.spare_processors;
  for (StreamingOp& after : p.after_gradient) after.elements *= real(x_.copies);
  return p;
}

/// The products of experts add their bias themselves where linear layers do. A clamp ahead of the activation is not
/// part of its kernel (Megatron-LM core_v0.15.0, megatron/core/fusions/fused_bias_geglu.py): PyTorch cuts each half,
/// joins them, and on the way back compares (one half on both sides), chooses, and joins the gradients. Halves of rows
/// and of their gradients have gaps, so that its kernels go by elements (pytorch/pytorch, aten: gpu_kernel_impl_nocast,
/// clamp_backward). `fused`: the kernel casts what it makes for the product behind it.
void ExpertHalf::activation(double elements, bool fused) {
  const auto [name, name_backward] = activation_names(m_);
  const double gates = real(this->gates()), inputs = gates * elements,
               cast = fused ? w_.fused_cast(LayerWriter::Maker::activation) : 0;
  const bool own_bias = w_.has_biases() && !style_.fused_mlp && !w_.style().linear.bias_in_gemm;
  const bool clamps = m_.experts.activation_clamp > 0 && !style_.fused_mlp;
  if (own_bias) w_.backward("bias gradient", Streaming::accumulate, elements, e_);
  if (clamps) {
    w_.backward("join gate gradients", Streaming::copy, inputs, 2 * e_);
    w_.backward("choose clamped gradients", Streaming::strided, inputs, 2 * e_ + 1);
    w_.backward("both limits of the clamp", Streaming::copy, elements, 3);
    w_.backward("compare with limits of the clamp", Streaming::strided, 3 * elements, e_ + 1);
  }
  const calibration::RecipeSizes sizes = activation_sizes(elements, cast);
  const calibration::Recipe& recipe = w_.style().recipes.of(sizes.part());
  w_.run_lines(recipe, sizes, Direction::backward, {{"activation backward", name_backward}});
  // Routed experts alone: a kernel that casts for the product behind it is that of a shared one.
  if (!fused) w_.run({calibration::RecipePart::expert_weights, {{"ffn", elements}, {"gates", gates}, {"e", e_}}});
  if (own_bias) w_.forward("add bias", Streaming::accumulate, inputs, 2 * e_);
  if (clamps) {
    // The offset of the linear half comes from the host by a copy that it waits for (torch.tensor(linear_offset)).
    w_.add(RunEnd{true});
    w_.forward("clamp", Streaming::strided, inputs, 2 * e_);
    w_.forward("join gates", Streaming::copy, inputs, 2 * e_);
  }
  w_.run_lines(recipe, sizes, Direction::forward, {{"activation", name}});
}

calibration::RecipeSizes ExpertHalf::row_sizes() const {
  return {calibration::RecipePart::expert_rows, {{"x", of_hidden(real(x_.sent))}, {"e", e_}}};
}

/// As dense MLPs run it; biases are the experts' own.
calibration::RecipeSizes ExpertHalf::activation_sizes(double elements, double cast) const {
  return {calibration::RecipePart::activation,
          {{"ffn", elements},
           {"gates", real(gates())},
           {"e", e_},
           {"cast", cast},
           {"made", 0},
           {"gated", gates() > 1},
           {"squared", m_.mlp.activation == Activation::squared_relu},
           {"bias", 0},
           {"bias_in_gemm", 0}}};
}

/// Where products, activation and casts are one module, the product ahead of the activation writes what comes out of it
/// twice, by rows and by columns, beside its own output; on the way back the product behind it reads that output and
/// writes its gradient twice in place of its own 16-bit result (NVIDIA/TransformerEngine of May 2026,
/// transformer_engine/pytorch/ops/fused/forward_grouped_mlp.py and backward_grouped_mlp.py).
void ExpertHalf::activation_in_products(double elements) {
  const auto [name, name_backward] = activation_names(m_);
  const double gates = real(this->gates()), twice = 2 * w_.operand();
  w_.backward(name_backward, Streaming::copy, elements, gates * (e_ + twice) - e_);
  w_.forward(name, Streaming::copy, elements, twice);
}

/// HybridEP puts tokens down in whole blocks of scales, and experts that are filled to a capacity are taken to be
/// whole.
void ExpertHalf::pad(const char* name, const char* name_backward) {
  if (!w_.quantised() || style_.pads_to_capacity || style_.dispatcher == Dispatcher::hybridep) return;
  w_.run({calibration::RecipePart::expert_blocks, {{"x", of_hidden(real(x_.routed))}, {"e", e_}}},
         {{"rows", name}, {"gradients of rows", name_backward}});
}

/// What experts keep is copied into pages of a buffer for all layers and micro-batches, and back ahead of its use:
/// their own buffers have room for more tokens than come (Megatron-LM of June 2026,
/// megatron/core/transformer/moe/paged_stash.py). That runs on a stream of its own, and is taken as if what runs beside
/// it left it no device memory. A program of its kernel moves row after row in blocks of 1024 elements, each of which
/// it waits for; a block of 8-bit elements takes as long as one of 16-bit ones, and so does one that a row only fills
/// in part. Where elements are of 16 bit, memory is taken to be the limit.
void ExpertHalf::stash() {
  if (!style_.paged_stash) return;
  constexpr double kBlock = 1024;
  const double rows = real(x_.routed), inside = rows * real(x_.ffn);
  double bytes = inside * real(gates()) * e_;
  if (w_.quantised()) {
    const auto in_blocks = [](std::int64_t width) { return kBlock * std::ceil(real(width) / kBlock); };
    const double elements = rows * (in_blocks(moved()) + in_blocks(x_.ffn));
    w_.backward("take operands from stash", Streaming::page_copy, elements, 2 * w_.operand());
    w_.forward("put operands into stash", Streaming::page_copy, elements, 2 * w_.operand());
  } else {
    bytes += (of_hidden(rows) + inside) * e_;
  }
  w_.backward("take from stash", Streaming::copy, bytes, 2);
  w_.forward("put into stash", Streaming::copy, bytes, 2);
}

/// An expert's second bias counts by the weight of each token, which its product cannot do (Megatron-LM core_v0.15.0,
/// megatron/core/transformer/moe/experts.py, _apply_bias): expert by expert, the bias of every token by its weight,
/// added to that expert's outputs; then all experts' outputs joined and, with weights in fp32, cast back. Each product
/// repeats one of its operands, by rows or by columns; of the gradients' products one is of a fp32 gradient and the
/// bias in 16 bit.
void ExpertHalf::scaled_bias() {
  if (!w_.has_biases() || style_.fused_mlp) return;
  const double outputs = of_hidden(real(x_.routed)), sum = weights_in_fp32(style_) ? 4 : e_;
  const double experts = real(x_.copies);
  const auto of_each = [&](Direction direction, const char* name, Streaming kernel, double bytes_each) {
    w_.add(StreamingOp{name, kernel, outputs / experts, bytes_each, direction, true, nullptr, experts});
  };
  const bool casts = sum > e_;
  w_.backward("join output gradients", Streaming::copy, outputs, 2 * e_);
  const Streaming with_bias = casts ? Streaming::strided_cast : Streaming::strided;
  of_each(Direction::backward, "scale bias, sum of weights' gradient", Streaming::accumulate, sum);
  of_each(Direction::backward, "scale bias, gradient of weights", with_bias, 2 * sum);
  of_each(Direction::backward, "scale bias, sum of bias' gradient", Streaming::accumulate, sum);
  of_each(Direction::backward, "scale bias, gradient of bias", Streaming::strided, 2 * sum);
  if (casts) {
    of_each(Direction::backward, "cast gradients of expert outputs", Streaming::copy, sum + e_);
    w_.backward("cast output gradients", Streaming::copy, outputs, e_ + sum);
  }
  of_each(Direction::forward, "scale bias", with_bias, sum);
  of_each(Direction::forward, "add scaled bias", Streaming::accumulate, e_ + 2 * sum);
  w_.forward("join expert outputs", Streaming::copy, outputs, 2 * sum);
  if (casts) w_.forward("cast expert outputs", Streaming::copy, outputs, sum + e_);
}

void ExpertHalf::experts() {
  const double inside = real(x_.routed) * real(x_.ffn);
  const auto linear = [&](MatMul product, LinearOp::Part part) {
    LinearOp op;
    op.part = part;
    op.products = {std::move(product)};
    w_.add(std::move(op));
  };
  const bool one_module = style_.fused_mlp && w_.quantised();
  // Its quantisers and views follow the counts.
  w_.add(HostOp{real(x_.copies), !style_.pads_to_capacity && !style_.paged_stash});
  pad("pad expert inputs", "unpad expert input gradients");
  w_.cast_apart(of_hidden(real(x_.routed)), "cast expert input", Direction::forward);
  linear(of_experts("expert up", x_.ffn * gates(), moved()), LinearOp::Part::expert_in);
  if (one_module) {
    activation_in_products(inside);
  } else {
    w_.cast_apart(inside * real(gates()), "cast gradient", Direction::backward);
    // By itself, where the half is not computed again as a whole.
    const bool again = w_.computation().again(&RecomputedParts::expert_activation) &&
                       !w_.computation().again(&RecomputedParts::experts);
    if (again) w_.add(Recomputed{true});
    activation(inside, false);
    w_.cast_apart(inside, "cast activation", Direction::forward);
    if (again) w_.add(Recomputed{false});
  }
  linear(of_experts("expert down", moved(), x_.ffn), LinearOp::Part::expert_out);
  scaled_bias();
  w_.cast_apart(of_hidden(real(x_.routed)), "cast gradient", Direction::backward);
  pad("unpad expert outputs", "pad expert output gradients");
  stash();
}

// ---- shared experts ----

void ExpertHalf::shared_up() {
  if (!shares()) return;
  const double inside = z_.of_token(shared_width_);
  w_.column({w_.product("shared up", shared_width_ * gates(), m_.hidden)}, w_.enter(), LinearOp::Part::shared_in);
  w_.cast_gradient(inside * real(gates()), LayerWriter::Maker::activation);
  const bool again = w_.computation().again(&RecomputedParts::every_second_product) &&
                     !w_.computation().again(&RecomputedParts::experts);
  if (again) w_.add(Recomputed{true});
  activation(inside, true);
  if (again) w_.add(Recomputed{false});
  w_.cast(inside, "cast activation", Direction::forward, LayerWriter::Maker::activation);
}

void ExpertHalf::shared_down() {
  if (!shares()) return;
  w_.row("shared down", shared_width_, LinearOp::Part::shared_out);
  w_.leave();
}

// ---- all of it ----

void ExpertHalf::write() {
  const double own = real(x_.tokens) * real(m_.hidden);
  w_.half_norm(1, LayerWriter::NormReader::others);
  // The router reads 16 bits, and what is dispatched is cast where it comes to.
  const int products = (shares() ? 1 : 0) + (m_.experts.latent > 0 ? 1 : 0);
  if (products > 0) w_.cast(z_.outside * products, "cast input", Direction::forward);
  for (int user = shares() ? 2 : 1; user-- > 0;) w_.backward("add input gradients", Streaming::accumulate, own, 3 * e_);
  const bool again = w_.computation().again(&RecomputedParts::experts);
  // Operation by operation: what is exchanged is kept, and grouped products are none of those that are
  // (pytorch/torchtitan, models/llama4 and gpt_oss, parallelize.py: the list of saved operations has aten.mm and
  // all_to_all_single).
  const bool by_operation = !again && w_.computation().again(&RecomputedParts::every_second_product);
  const auto made_again = [&](const auto& write) {
    if (by_operation) w_.add(Recomputed{true});
    write();
    if (by_operation) w_.add(Recomputed{false});
  };
  if (again) w_.add(Recomputed{true});
  if (!runs_beside()) {
    shared_up();
    shared_down();
  }
  const bool scores_again = !again && w_.computation().again(&RecomputedParts::router);
  if (scores_again) w_.add(Recomputed{true});
  route();
  if (scores_again) w_.add(Recomputed{false});
  w_.views(0.5, Direction::backward);
  narrow();
  made_again([&] {
    pick_tokens();
    w_.run(row_sizes());
  });
  w_.routed(true);
  dispatch();
  made_again([&] { experts(); });
  combine();
  w_.routed(false);
  put_back_tokens();
  widen();
  if (again) w_.add(Recomputed{false});
  w_.views(0.5, Direction::forward);
  if (shares()) w_.forward("add shared experts", Streaming::accumulate, own, 3 * e_);
  w_.bias_dropout_residual(products);
}

void ExpertHalf::keep(Layer& layer) const {
  const double outside = z_.outside, scores = real(x_.tokens) * real(m_.experts.count);
  const double inside = real(x_.routed) * real(x_.ffn), branches = real(gates()) + 1;
  const double shared = z_.of_token(shared_width_), input = of_hidden(real(x_.routed));
  const Computation& computation = w_.computation();
  const bool all_again = computation.again(&RecomputedParts::experts);
  const bool by_operation = !all_again && computation.again(&RecomputedParts::every_second_product);
  const KeptAs inner = all_again ? KeptAs::recomputed : KeptAs::tensor;
  const KeptAs grouped = by_operation ? KeptAs::recomputed : inner;
  const bool activation_again = all_again || by_operation || computation.again(&RecomputedParts::expert_activation);
  const KeptAs norm = computation.again(&RecomputedParts::norms) ? KeptAs::recomputed : KeptAs::tensor;
  const double activation_input = kept_activation_input(w_);
  layer.kept.push_back({"norm input", outside, e_, kFeedForward});
  layer.kept.push_back({"linear input", outside, e_, kFeedForward, norm});
  layer.kept.push_back({"dropout mask", outside, w_.style().dropout ? 1.0 : 0.0, kFeedForward});
  // Scores, weights by expert and the map of them.
  layer.kept.push_back({"routing", scores, (style_.router_fp32 ? 8 : 2 * e_) + 1, kFeedForward,
                        computation.again(&RecomputedParts::router) ? KeptAs::recomputed : inner});
  layer.kept.push_back({"expert inputs", input, kept_input(w_), kFeedForward, grouped, true});
  if (by_operation) layer.kept.push_back({"exchanged tokens", 2 * input, e_, kFeedForward});
  layer.kept.push_back({"expert up projection", real(gates()) * inside, activation_input, kFeedForward, grouped});
  layer.kept.push_back({"expert activation", inside, kept_input(w_), kFeedForward,
                        activation_again ? KeptAs::recomputed : KeptAs::tensor, true});
  if (grouped == KeptAs::tensor) w_.keep(row_sizes(), kFeedForward, layer);
  if (!activation_again) w_.keep(activation_sizes(inside, 0), kFeedForward, layer);
  if (m_.experts.activation_clamp > 0 && !style_.fused_mlp) {
    layer.kept.push_back({"clamped projection", real(gates()) * inside, e_, kFeedForward,
                          activation_again ? KeptAs::recomputed : KeptAs::tensor});
  }
  if (m_.experts.latent > 0)
    layer.kept.push_back({"latent outputs", of_hidden(real(x_.tokens)), kept_input(w_), kFeedForward, inner, true});
  if (shares()) {
    // The router's product, in 16 bits, keeps what norms make as it is.
    if (calibration::is_quantised(computation.precision.matmul))
      layer.kept.push_back(
          {"cast input of shared experts", outside, kept_input(w_), kFeedForward, all_again ? inner : norm, true});
    layer.kept.push_back({"shared up projection", real(gates()) * shared, activation_input, kFeedForward, inner});
    layer.kept.push_back({"shared activation", shared, kept_input(w_), kFeedForward, grouped, true});
    if (grouped == KeptAs::tensor) w_.keep(activation_sizes(shared, 0), kFeedForward, layer);
  }
  layer.working.push_back({"residual gradients", 2 * outside, e_, kFeedForward});
  layer.working.push_back({"gradients of expert inputs and outputs", 2 * input, e_, kFeedForward});
  layer.working.push_back({"gradients of up projection and activation", branches * inside, e_, kFeedForward});
  const double weights = real(x_.copies) * real(moved()) * real(x_.ffn);
  layer.working.push_back({"weight gradient", weights, w_.own_gradient(), kFeedForward});
  layer.between.push_back({"MLP's linear inputs", input + inside + outside + shared, kept_input(w_)});
  const double gradients = input + (inside + shared) * real(gates()) + outside;
  layer.between.push_back({"MLP's linear output gradients", gradients, kept_input(w_)});
}

void ExpertHalf::weigh(Layer& layer) const {
  const double h = real(m_.hidden), w = real(moved()), f = real(x_.ffn), copies = real(x_.copies), up = real(gates());
  const double met = real(m_.experts.top_k) / real(m_.experts.count);
  const auto routed = [&](const char* name, double elements, double columns) {
    Weights weights{name, copies * elements, columns};
    weights.copies = copies;
    weights.expert = true;
    weights.active = met;
    layer.weights.push_back(weights);
  };
  layer.weights.push_back({"router", real(m_.experts.count) * h, h});
  routed("expert up", up * f * w, w);
  routed("expert down", f * w, f);
  if (w_.has_biases()) {
    layer.weights.push_back({"router bias", real(m_.experts.count)});
    routed("expert up bias", up * f, 0);
    routed("expert down bias", w, 0);
  }
  if (m_.experts.latent > 0) {
    layer.weights.push_back({"latent down", w * h, h});
    layer.weights.push_back({"latent up", w * h, w});
  }
  if (shares()) {
    layer.weights.push_back({"shared up", up * real(shared_width_) * h, h});
    layer.weights.push_back({"shared down", real(shared_width_) * h, real(shared_width_)});
    if (m_.experts.shared_gate) layer.weights.push_back({"shared gate", h});
  }
  layer.weights.push_back({"mlp norms", real(m_.norm_parameters()) * (m_.post_norm ? 2 : 1)});
}

}  // namespace orrery::workloads
