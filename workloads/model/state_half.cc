// See state_half.h. What sets mixers apart stands in their files (mixers/).
//
// Context ranks exchange positions for heads ahead of the convolution, and heads for positions behind the scan, so that
// each scans all positions of its heads; positions that attention's balance has dealt out from both ends are put in
// order (NVIDIA/Megatron-LM, megatron/core/ssm/mamba_context_parallel.py; gated_delta_net/common.py, a2a_cp_to_hp).
//
// Of lightning attention and Kimi Delta Attention each context rank scans its own positions, from the states that those
// ahead of it leave: all of them are gathered, in the backward pass their gradients (LASP+ of MiniMax-01, arXiv
// 2501.08313, section 3.1; fla-org/flash-linear-attention, fla/ops/cp, which gathers a delta rule's transitions too).
//
// Left out: views between kernels, what is computed of gathered states, the few positions that a convolution sees of
// the rank ahead, and that positions which attention has dealt out from both ends lie in two pieces.
#include "workloads/model/state_half.h"

#include "sim/real.h"
#include "workloads/model/scan_op.h"

namespace orrery::workloads {

namespace {

using calibration::Streaming;
using sim::real;

}  // namespace

StateHalf::StateHalf(LayerWriter& writer, const StateMixer& mixer)
    : w_(writer), mixer_(mixer), parts_(mixer.kind->parts(mixer)), z_(writer.sizes()), e_(writer.element()) {}

/// Thin products are made whole inside on every tensor rank. Mixtures of tokens are multiplied one by one.
std::vector<MatMul> StateHalf::products() const {
  std::vector<MatMul> all;
  if (parts_.mixtures > 1) {
    const std::int64_t keys = mixer_.keys() / z_.tensor;
    all = {w_.product("mixer in, queries", keys, z_.width), w_.product("mixer in, keys", keys, z_.width),
           w_.product("mixer in, values", made() / z_.tensor - 2 * keys, z_.width)};
    for (const ThinProduct& thin : parts_.thin) all.push_back(w_.product("thin gates down", thin.inside, z_.width));
    return all;
  }
  all = {w_.product("mixer in", made() / z_.tensor, z_.width)};
  if (const std::int64_t inside = thin_inside(parts_); inside > 0)
    all.push_back(w_.product("thin gates down", inside, z_.width));
  return all;
}

/// What comes out of thin products; gradients of their insides are of a rank's heads alone.
void StateHalf::open_gates() {
  const std::int64_t inside = thin_inside(parts_);
  if (inside == 0) return;
  LinearOp op;
  for (const ThinProduct& thin : parts_.thin)
    op.products.push_back(w_.product(thin.name, thin.out / z_.tensor, thin.inside));
  if (z_.tensor > 1) {
    op.input = InputExchange{Exchange::copy,
                             z_.of_token(inside),
                             e_,
                             CommOverlap::none,
                             w_.style().linear.async_tensor_backward,
                             "",
                             "",
                             "thin gate gradients, backward",
                             w_.out_group()};
  }
  w_.add(std::move(op));
}

/// `each`: elements of all tokens for one of a line's width.
void StateHalf::write_lines(const std::vector<MixerLine>& lines, double each) {
  for (const MixerLine& line : lines) {
    const double elements = each * real(line.width) / (&lines == &parts_.mixes ? 1 : z_.parts());
    w_.backward(line.backward, line.backward_kernel, elements, line.backward_single + line.backward_moves * e_);
    w_.forward(line.forward, line.forward_kernel, elements, line.forward_single + line.forward_moves * e_);
  }
}

/// Taken as one message; Megatron-Core's Mamba-2 sends gate, input, B, C and steps one after the other.
void StateHalf::exchange_heads(const char* what, const char* what_backward, std::int64_t whole_width, bool ahead) {
  if (w_.split().context == 1 || passes_states(parts_)) return;
  const double elements = of(whole_width);
  const auto order = [&] {
    w_.backward("put gradients of positions in order", Streaming::copy, elements, 2 * e_);
    w_.forward("put positions in order", Streaming::copy, elements, 2 * e_);
  };
  if (!ahead) order();
  w_.add(CommOp{CommGroup::context, Exchange::all_to_all, elements, e_, what, what_backward, CommOverlap::none,
                CommOverlap::none});
  if (ahead) order();
}

void StateHalf::hand_states_on() {
  const std::int64_t ranks = w_.split().context;
  if (ranks == 1 || !passes_states(parts_)) return;
  const double states = real(ranks * w_.split().micro_batch * (mixer_.heads / z_.tensor) * parts_.handed_on);
  CommOp gather{CommGroup::context, Exchange::all_gather,    states,
                kMixerSingle,       "mixer states, forward", "mixer state gradients, backward",
                CommOverlap::none,  CommOverlap::none};
  gather.in = CommOp::In::forward;
  CommOp back = gather;
  back.exchange = Exchange::reduce_scatter;  // whose adjoint gathers
  back.in = CommOp::In::backward;
  w_.add(back);
  w_.add(gather);
}

/// One kernel reads what the scan made and the gate (mamba_ssm's RMSNormGated, fla's FusedRMSNormGated). It writes 16
/// bit, as scans and convolutions do backward: products of a type with scales have their operands cast apart.
void StateHalf::gate_output() {
  const double values = of(mixer_.values());
  const bool normed = mixer_.normed;
  w_.backward(normed ? "gated norm backward" : "gate backward",
              normed ? Streaming::layer_norm_backward : Streaming::gelu_backward, values, 5 * e_);
  w_.forward(normed ? "gated norm" : "gate", normed ? Streaming::layer_norm : Streaming::gelu, values, 3 * e_);
}

void StateHalf::mix() {
  write_lines(parts_.mixes, z_.hidden);
  w_.column(products(), w_.enter());
  w_.views(0.5, Direction::forward);
  w_.views(0.5, Direction::backward);
  w_.cast_apart(of(made()), "cast gradient", Direction::backward);
  open_gates();
  exchange_heads("mixer inputs, forward", "mixer input gradients, backward", made(), true);
  write_lines(parts_.prepares, real(z_.tokens));
  hand_states_on();
  calibration::Scan scan;
  scan.kind = mixer_.kind->scan;
  scan.dtype = w_.computation().precision.activations;
  scan.batch = w_.split().micro_batch;
  const std::int64_t pieces = passes_states(parts_) ? w_.split().context : 1;
  scan.positions = w_.model().seq / pieces;
  const std::int64_t ranks = z_.tensor * w_.split().context / pieces;
  scan.heads = mixer_.heads / ranks;
  scan.key_heads = mixer_.key_heads / ranks;
  scan.key_dim = mixer_.key_dim;
  scan.value_dim = mixer_.value_dim;
  scan.chunk = mixer_.chunk;
  w_.add(scan_op(scan, mixer_.channels() / ranks, mixer_.conv));
  const auto hand_back = [&] {
    exchange_heads("mixer outputs, forward", "mixer output gradients, backward", handed_back(), false);
  };
  write_lines(parts_.gates, real(z_.tokens));
  if (handed_back() > mixer_.values()) hand_back();
  gate_output();
  if (handed_back() == mixer_.values()) hand_back();
  w_.cast_apart(of(mixer_.values()), "cast mixer output", Direction::forward);
  w_.row("mixer out", mixer_.values() / z_.tensor);
  w_.leave();
}

void StateHalf::write() {
  w_.half_norm(parts_.mixtures > 1 ? 1 : products().size());
  w_.cast_input();
  mix();
  w_.bias_dropout_residual();
}

void StateHalf::keep(Layer& layer, Reads reads) const {
  const double values = of(mixer_.values()), outside = z_.outside;
  if (reads == Reads::own_norm) {
    const bool again = w_.computation().again(&RecomputedParts::norms);
    const double linear = w_.style().linear.keeps_gathered_inputs ? z_.hidden : outside;
    layer.kept.push_back({"norm input", outside, e_, kAttention, KeptAs::input});
    layer.kept.push_back({"linear input", linear * real(parts_.mixtures), kept_input(w_), kAttention,
                          again ? KeptAs::recomputed : KeptAs::tensor, true});
    layer.kept.push_back({"dropout mask", outside, w_.style().dropout ? 1.0 : 0.0, kAttention});
    if (w_.model().post_norm) layer.kept.push_back({"post norm input", outside, e_, kAttention});
    layer.working.push_back({"residual gradients", 2 * outside, e_, kAttention});
  }
  layer.kept.push_back({"what the mixer's product made", of(made()), e_, kAttention});
  for (const MixerKept& kept : parts_.kept) {
    if (kept.width > 0)
      layer.kept.push_back({kept.name, kept.whole ? z_.of_token(kept.width) : of(kept.width),
                            kept.bytes > 0 ? kept.bytes : e_, kAttention});
  }
  layer.kept.push_back({"scan output", values, e_, kAttention});
  layer.kept.push_back({"mixer output", values, kept_input(w_), kAttention, KeptAs::tensor, true});
  layer.working.push_back({"gradients of what the product made", of(made()), e_, kAttention});
  layer.working.push_back({"gradients of the scan's output and gate", 2 * values, e_, kAttention});
  const double states = values * real(mixer_.key_dim) / real(mixer_.chunk);
  const bool single = mixer_.kind->scan->with_convolution;
  layer.working.push_back({"states of chunks and their gradients", 2 * states, single ? kMixerSingle : e_, kAttention});
  layer.between.push_back({"mixer's linear inputs", outside + values, kept_input(w_)});
  layer.between.push_back({"mixer's linear output gradients", outside + of(made()), kept_input(w_)});
}

void StateHalf::weigh(Layer& layer, Reads reads) const {
  const double t = z_.parts(), h = real(z_.width);
  const double values = real(mixer_.values()) / t;
  layer.weights.push_back({"mixer in", real(made()) / t * h, h});
  const double inside = real(thin_inside(parts_));
  if (inside > 0) layer.weights.push_back({"thin gates down", inside * h, h});
  for (const ThinProduct& thin : parts_.thin)
    layer.weights.push_back({thin.name, real(thin.out) / t * real(thin.inside), real(thin.inside)});
  const double taps = real(mixer_.conv) + (parts_.convolution_biases ? 1 : 0);
  if (mixer_.conv > 0) layer.weights.push_back({"convolution", real(mixer_.channels()) / t * taps});
  for (const MixerWeight& weight : parts_.weights) {
    if (weight.elements > 0) layer.weights.push_back({weight.name, real(weight.elements) / (weight.whole ? 1 : t)});
  }
  layer.weights.push_back({"mixer out", values * h, values});
  if (reads == Reads::own_norm) {
    const double norms = real(w_.model().norm_parameters()) * (w_.model().post_norm ? 2 : 1);
    layer.weights.push_back({"mixer norms", norms / real(z_.tensor_in)});
    layer.weights.back().tensors = static_cast<std::int32_t>(norms / real(w_.model().hidden));
  }
}

}  // namespace orrery::workloads
