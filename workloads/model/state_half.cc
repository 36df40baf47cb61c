// See state_half.h. What is kept: Mamba-2's one function over convolution and scan keeps what its product made and what
// comes out ahead of the norm (state-spaces/mamba, ssd_combined.py, MambaSplitConv1dScanCombinedFn); kernels of
// flash-linear-attention keep the convolution's input, queries, keys and values behind it, decays and rates in fp32,
// and the inverted triangles of chunks (fla/ops/gated_delta_rule/chunk.py, ChunkGatedDeltaRuleFunction; fla/ops/kda).
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

constexpr double kStateSingle = 4;  // bytes of fp32

}  // namespace

StateHalf::StateHalf(LayerWriter& writer, const StateMixer& mixer)
    : w_(writer), mixer_(mixer), z_(writer.sizes()), e_(writer.element()) {}

/// Gates through thin products have a head's width inside, which every tensor rank makes whole.
std::vector<MatMul> StateHalf::products() const {
  std::vector<MatMul> all{w_.product("mixer in", mixer_.made() / z_.tensor, z_.width)};
  if (mixer_.thin_gates()) all.push_back(w_.product("thin gates down", 2 * mixer_.value_dim, z_.width));
  return all;
}

/// Decays and output gates out of their thin products; gradients of these are of a rank's heads alone.
void StateHalf::open_gates() {
  if (!mixer_.thin_gates()) return;
  LinearOp op;
  const std::int64_t decays = mixer_.heads * mixer_.key_dim / z_.tensor, gates = mixer_.values() / z_.tensor;
  op.products = {w_.product("decays up", decays, mixer_.value_dim), w_.product("gates up", gates, mixer_.value_dim)};
  if (z_.tensor > 1) {
    op.input = InputExchange{Exchange::copy,
                             z_.of_token(2 * mixer_.value_dim),
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

/// Taken as one message; Megatron-Core's Mamba-2 sends gate, input, B, C and steps one after the other.
void StateHalf::exchange_heads(const char* what, const char* what_backward, std::int64_t whole_width, bool ahead) {
  if (w_.split().context == 1 || mixer_.passes_states()) return;
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
  if (ranks == 1 || !mixer_.passes_states()) return;
  const double states = real(ranks * w_.split().micro_batch * (mixer_.heads / z_.tensor) * mixer_.handed_on());
  CommOp gather{CommGroup::context, Exchange::all_gather,    states,
                kStateSingle,       "mixer states, forward", "mixer state gradients, backward",
                CommOverlap::none,  CommOverlap::none};
  gather.in = CommOp::In::forward;
  CommOp back = gather;
  back.exchange = Exchange::reduce_scatter;  // whose adjoint gathers
  back.in = CommOp::In::backward;
  w_.add(back);
  w_.add(gather);
}

/// Rates and decays in fp32, and where there is no convolution the activation of queries, keys and values.
void StateHalf::prepare() {
  if (mixer_.kind == ScanKind::gated_delta || mixer_.kind == ScanKind::kda) {
    const double decays = of(mixer_.thin_gates() ? mixer_.heads * mixer_.key_dim : mixer_.rates());
    w_.backward("decays backward", Streaming::copy, decays, kStateSingle + 2 * e_);
    w_.forward("decays", Streaming::copy, decays, kStateSingle + e_);
  }
  if (mixer_.conv > 0) return;
  const double made = of(mixer_.values() + 2 * mixer_.keys());
  w_.backward("silu backward", Streaming::gelu_backward, made, 3 * e_);
  w_.forward("silu", Streaming::gelu, made, 2 * e_);
}

/// One kernel reads what the scan made and the gate (mamba_ssm's RMSNormGated, fla's FusedRMSNormGated).
void StateHalf::gate_output() {
  const double values = of(mixer_.values());
  const bool normed = mixer_.normed;
  w_.backward(normed ? "gated norm backward" : "gate backward",
              normed ? Streaming::layer_norm_backward : Streaming::gelu_backward, values, 5 * e_);
  w_.forward(normed ? "gated norm" : "gate", normed ? Streaming::layer_norm : Streaming::gelu, values,
             3 * e_ + w_.fused_cast());
}

void StateHalf::mix() {
  w_.column(products(), w_.enter());
  w_.views(0.5, Direction::forward);
  w_.views(0.5, Direction::backward);
  w_.cast_gradient(of(mixer_.made()));
  open_gates();
  exchange_heads("mixer inputs, forward", "mixer input gradients, backward", mixer_.made(), true);
  prepare();
  hand_states_on();
  calibration::Scan scan;
  scan.kind = mixer_.kind;
  scan.dtype = w_.computation().precision.activations;
  scan.batch = w_.split().micro_batch;
  const std::int64_t pieces = mixer_.passes_states() ? w_.split().context : 1;
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
  if (handed_back() > mixer_.values()) hand_back();
  gate_output();
  if (handed_back() == mixer_.values()) hand_back();
  w_.cast(of(mixer_.values()), "cast mixer output", Direction::forward);
  w_.row("mixer out", mixer_.values() / z_.tensor);
  w_.leave();
}

void StateHalf::write() {
  w_.half_norm(products().size());
  w_.cast_input();
  mix();
  w_.bias_dropout_residual();
}

void StateHalf::keep(Layer& layer, Reads reads) const {
  const double values = of(mixer_.values()), keys = of(mixer_.keys()), outside = z_.outside;
  if (reads == Reads::own_norm) {
    const bool again = w_.computation().again(&RecomputedParts::norms);
    const double linear = w_.style().linear.keeps_gathered_inputs ? z_.hidden : outside;
    layer.kept.push_back({"norm input", outside, e_, kAttention, KeptAs::input});
    layer.kept.push_back(
        {"linear input", linear, kept_input(w_), kAttention, again ? KeptAs::recomputed : KeptAs::tensor, true});
    layer.kept.push_back({"dropout mask", outside, w_.style().dropout ? 1.0 : 0.0, kAttention});
    if (w_.model().post_norm) layer.kept.push_back({"post norm input", outside, e_, kAttention});
    layer.working.push_back({"residual gradients", 2 * outside, e_, kAttention});
  }
  layer.kept.push_back({"what the mixer's product made", of(mixer_.made()), e_, kAttention});
  if (mixer_.kind != ScanKind::mamba2)
    layer.kept.push_back({"queries, keys and values of the scan", values + 2 * keys, e_, kAttention});
  if (mixer_.kind == ScanKind::gated_delta || mixer_.kind == ScanKind::kda) {
    const double decays = of(mixer_.thin_gates() ? mixer_.heads * mixer_.key_dim : mixer_.heads);
    layer.kept.push_back({"decays and rates", decays + of(mixer_.heads), kStateSingle, kAttention});
    layer.kept.push_back({"triangles of chunks", of(mixer_.heads * mixer_.chunk), e_, kAttention});
  }
  if (mixer_.thin_gates()) {
    layer.kept.push_back({"thin gates", z_.of_token(2 * mixer_.value_dim), e_, kAttention});
    layer.kept.push_back({"decays and gates as made", of(mixer_.heads * mixer_.key_dim) + values, e_, kAttention});
  }
  layer.kept.push_back({"scan output", values, e_, kAttention});
  layer.kept.push_back({"mixer output", values, kept_input(w_), kAttention, KeptAs::tensor, true});
  layer.working.push_back({"gradients of what the product made", of(mixer_.made()), e_, kAttention});
  layer.working.push_back({"gradients of the scan's output and gate", 2 * values, e_, kAttention});
  const double states = values * real(mixer_.key_dim) / real(mixer_.chunk);
  const bool single = mixer_.kind == ScanKind::mamba2;
  layer.working.push_back({"states of chunks and their gradients", 2 * states, single ? kStateSingle : e_, kAttention});
  layer.between.push_back({"mixer's linear inputs", outside + values, kept_input(w_)});
  layer.between.push_back({"mixer's linear output gradients", outside + of(mixer_.made()), kept_input(w_)});
}

void StateHalf::weigh(Layer& layer, Reads reads) const {
  const double t = z_.parts(), h = real(z_.width), heads = real(mixer_.heads) / t;
  const double values = real(mixer_.values()) / t, decays = heads * real(mixer_.key_dim);
  const double inside = real(mixer_.value_dim);
  layer.weights.push_back({"mixer in", real(mixer_.made()) / t * h, h});
  if (mixer_.thin_gates()) {
    layer.weights.push_back({"thin gates down", 2 * inside * h, h});
    layer.weights.push_back({"decays up", decays * inside, inside});
    layer.weights.push_back({"gates up", values * inside, inside});
  }
  const bool mamba = mixer_.kind == ScanKind::mamba2;
  if (mixer_.conv > 0)
    layer.weights.push_back({"convolution", real(mixer_.channels()) / t * (real(mixer_.conv) + (mamba ? 1 : 0))});
  if (mixer_.kind != ScanKind::lightning) {
    // Decays of heads and biases of their steps; Mamba-2 also passes each head's input on by a factor.
    const double steps = mixer_.thin_gates() ? decays : heads;
    layer.weights.push_back({"decays", heads + steps + (mamba ? heads : 0)});
  }
  const bool of_a_head = mixer_.kind == ScanKind::gated_delta || mixer_.kind == ScanKind::kda;
  if (mixer_.normed) layer.weights.push_back({"gated norm", of_a_head ? inside : values});
  layer.weights.push_back({"mixer out", values * h, values});
  if (reads == Reads::own_norm) {
    const double norms = real(w_.model().norm_parameters()) * (w_.model().post_norm ? 2 : 1);
    layer.weights.push_back({"mixer norms", norms / real(z_.tensor_in)});
    layer.weights.back().tensors = static_cast<std::int32_t>(norms / real(w_.model().hidden));
  }
}

}  // namespace orrery::workloads
