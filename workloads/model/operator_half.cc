// See operator_half.h. Kernels run one by one, as eager code runs them, whatever the software compiles: their bytes are
// what each reads and writes. Backward, a product becomes two, a product of two activations two of its size, and what
// is bound by memory moves what its line says. No such kernel casts what it makes: operands of products of a type with
// scales are cast apart, but where a norm or the residual stream stands next.
//
// Left out: how a compiler would fuse them, gradients of whole products that tensor ranks with positions of their own
// add up once a step, that every rank runs thin kernels on sums whole (they count as shared out), adapters, context
// ranks (refused).
#include "workloads/model/operator_half.h"

#include <algorithm>
#include <cmath>

#include "sim/real.h"

namespace orrery::workloads {

namespace {

using calibration::MixerKernel;
using calibration::Streaming;
using sim::real;
using Cut = Operator::Cut;
using Kind = Operator::Kind;

/// The first operator behind `first` that is no product of the same input.
std::size_t end_of_products(const std::vector<Operator>& run, std::size_t first) {
  std::size_t end = first + 1;
  while (end < run.size() && run[end].kind == Kind::product && run[end].beside) ++end;
  return end;
}

const char* name_of_product(Cut cut) {
  return cut == Cut::out ? "operator product, by outputs" : "operator product, whole";
}

}  // namespace

double OperatorHalf::own_tokens() const { return real(z_.tokens) / (z_.sequence_parallel ? z_.parts() : 1); }
double OperatorHalf::of(const Operator& op, double elements, bool inside) const {
  return (inside ? real(z_.tokens) * elements / z_.parts() : own_tokens() * elements) * op.share;
}
std::int64_t OperatorHalf::tokens_of(const Operator& op, double tokens) const {
  return std::max<std::int64_t>(1, std::llround(tokens * op.share));
}

void OperatorHalf::write_products(std::size_t first, std::size_t end) {
  const std::vector<Operator>& run = operators_.run;
  const Operator& op = run[first];
  if (op.cut == Cut::in) {
    w_.row("operator product, by inputs", op.in / z_.tensor, LinearOp::Part::other, tokens_of(op, real(z_.tokens)));
    return w_.leave(op.share);
  }
  if (op.cut == Cut::sum) {
    MatMul p = w_.product("operator product, by inputs", op.out, op.in / z_.tensor);
    p.tokens = tokens_of(op, real(z_.tokens));
    w_.column({std::move(p)}, {});
    return sum(real(z_.tokens) * real(op.out) * op.share);
  }
  std::vector<MatMul> products;
  for (std::size_t i = first; i < end; ++i) {
    const std::int64_t out = op.cut == Cut::out ? run[i].out / z_.tensor : run[i].out;
    products.push_back(w_.product(name_of_product(op.cut), out, op.in));
    products.back().tokens = tokens_of(op, op.cut == Cut::none ? own_tokens() : real(z_.tokens));
  }
  if (op.cut == Cut::none || summed_) return w_.column(std::move(products), {});
  std::optional<InputExchange> input = w_.enter();
  if (input) input->elements = real(z_.tokens) * real(op.in) * op.share;
  w_.column(std::move(products), input);
}

/// Of what products made, by the kernel that makes it backward, or apart. A residual stream casts its own gradient,
/// which is that of a product that closes a part; where its kernel fuses this, what stands between needs one.
void OperatorHalf::cast_gradients(std::size_t first, std::size_t end) {
  const std::vector<Operator>& run = operators_.run;
  const Operator& op = run[first];
  const bool closes = op.cut == Cut::in || op.cut == Cut::sum;
  const Kind next = end < run.size() ? run[end].kind : Kind::residual;
  const bool beside_stream = next == Kind::residual || next == Kind::norm;
  if (op.cut == Cut::in) closing_ += op.share;
  if (closes && (beside_stream || !w_.casts_in(LayerWriter::Maker::other))) return;
  double made = 0;
  for (std::size_t p = first; p < end; ++p) made += real(run[p].out);
  const double elements = of(op, made, op.cut == Cut::out);
  if (beside_stream) return w_.cast_gradient(elements);
  w_.cast_apart(elements, "cast gradient", Direction::backward);
}

/// Every rank goes on with all of it, for its own part of what follows: gradients are summed likewise.
void OperatorHalf::sum(double elements) {
  if (z_.tensor == 1) return;
  CommOp op{w_.out_group(),    Exchange::all_reduce, elements, e_, "operator sums, forward", "",
            CommOverlap::none, CommOverlap::none};
  op.in = CommOp::In::forward;
  CommOp back = op;
  back.exchange = Exchange::copy;  // whose adjoint sums
  back.what_backward = "operator sum gradients, backward";
  back.in = CommOp::In::backward;
  w_.add(back);
  w_.add(op);
}

void OperatorHalf::write_attention(const Operator& op) {
  AttentionOp attention = attention_op(w_, op.heads / z_.tensor, op.kv_heads / z_.tensor, op.head_dim, 0);
  attention.causal = op.causal;
  w_.add(attention);
}

/// At the share of the device's matrix units that products inside of mixers reach.
void OperatorHalf::write_matmul(const Operator& op, bool inside) {
  const DataType type = w_.computation().precision.activations;
  const double flops = of(op, op.flops, inside), bytes = of(op, op.reads + op.writes, inside) * e_;
  MixerOp mixer;
  mixer.forward = {{"operator matmul", MixerKernel::attention, {flops, bytes, 1}, type}};
  mixer.backward = {{"operator matmul backward", MixerKernel::attention, {2 * flops, 2 * bytes, 2}, type}};
  mixer.flops = flops;
  mixer.text = "product of two activations";
  w_.add(std::move(mixer));
}

void OperatorHalf::write_streaming(const Operator& op, bool inside) {
  const bool copies = op.kind == Kind::copy;
  const double moved = op.reads + op.writes, elements = of(op, std::max(op.reads, op.writes), inside);
  const auto each = [&](double all) { return e_ * all / std::max(op.reads, op.writes); };
  if (op.backward > 0)
    w_.backward(copies ? "operator copy backward" : "operator backward",
                copies ? Streaming::copy : Streaming::gelu_backward, elements, each(op.backward));
  if (moved > 0)
    w_.forward(copies ? "operator copy" : "operator", copies ? Streaming::copy : Streaming::gelu, elements,
               each(moved));
}

void OperatorHalf::write() {
  const std::vector<Operator>& run = operators_.run;
  bool inside = false;
  for (std::size_t i = 0; i < run.size(); ++i) {
    const Operator& op = run[i];
    switch (op.kind) {
      case Kind::norm: {
        const bool read = i + 1 < run.size() && run[i + 1].kind == Kind::product;
        w_.half_norm(read ? end_of_products(run, i + 1) - i - 1 : 1);
        w_.cast_input();
        break;
      }
      case Kind::product: {
        const std::size_t end = end_of_products(run, i);
        if (i > 0 && run[i - 1].kind != Kind::norm)
          w_.cast_apart(of(op, real(op.in), op.cut == Cut::in || op.cut == Cut::sum), "cast operator input",
                        Direction::forward);
        write_products(i, end);
        cast_gradients(i, end);
        inside = op.cut == Cut::out || op.cut == Cut::sum;
        summed_ = op.cut == Cut::sum;
        i = end - 1;
        break;
      }
      case Kind::attention:
        write_attention(op);
        break;
      case Kind::matmul:
        write_matmul(op, inside);
        break;
      case Kind::elementwise:
      case Kind::copy:
        write_streaming(op, inside);
        break;
      case Kind::residual:
        w_.bias_dropout_residual(std::max(1.0, std::exchange(closing_, 0)));
        break;
    }
  }
}

/// Inputs of products and norms, what lines say that they keep, and of attention queries, keys, values and its rows'
/// log-sum-exp; its output is the input of what follows. Working: gradients of the widest operator.
void OperatorHalf::keep(Layer& layer) const {
  bool inside = false;
  double widest = 0;
  KeptAs input = layer.kept.empty() ? KeptAs::input : KeptAs::tensor;
  for (const Operator& op : operators_.run) {
    const auto kept = [&](const char* name, double elements, double bytes, bool for_weights = false) {
      if (elements > 0)
        layer.kept.push_back({name, elements, bytes, half_, std::exchange(input, KeptAs::tensor), for_weights});
    };
    double wide = of(op, std::max(op.reads, op.writes), inside);
    switch (op.kind) {
      case Kind::norm:
        layer.kept.push_back({"norm input", z_.outside, e_, half_, std::exchange(input, KeptAs::tensor)});
        break;
      case Kind::product: {
        const bool cut = op.cut == Cut::in || op.cut == Cut::sum, opens = op.cut == Cut::out;
        const double read = of(op, real(op.in), cut), made = of(op, real(op.out), opens);
        if (!op.beside) kept("operator product input", read, kept_input(w_), true);
        layer.between.push_back(
            {"operator products' inputs and output gradients", (op.beside ? 0 : read) + made, kept_input(w_)});
        wide = read + made;
        inside = opens || op.cut == Cut::sum;
        break;
      }
      case Kind::attention: {
        const double one = real(op.head_dim), q = of(op, real(op.heads) * one, inside);
        kept("operator queries, keys and values", q + 2 * of(op, real(op.kv_heads) * one, inside), e_);
        const bool fused = w_.computation().attention == AttentionKind::flash;
        const double rows = of(op, real(op.heads), inside);
        kept(fused ? "log-sum-exp of scores" : "scores", fused ? rows : rows * real(w_.model().seq), fused ? 4 : e_);
        wide = 3 * q;
        break;
      }
      case Kind::matmul:
      case Kind::elementwise:
      case Kind::copy:
        kept("operator input", of(op, op.keeps, inside), e_);
        break;
      case Kind::residual:
        if (w_.model().post_norm) kept("post norm input", z_.outside, e_);
        if (w_.style().dropout) kept("dropout mask", z_.outside, 1);
        break;
    }
    widest = std::max(widest, wide);
  }
  layer.working.push_back({"residual gradients", 2 * z_.outside, e_, half_});
  layer.working.push_back({"gradients of the widest operator", widest, e_, half_});
}

void OperatorHalf::weigh(Layer& layer) const {
  const double t = z_.parts();
  for (const Operator& op : operators_.run) {
    if (op.shared) continue;
    const double parts = op.kind == Kind::product && op.cut != Cut::none ? t : 1;
    if (op.kind == Kind::norm || (op.kind == Kind::residual && w_.model().post_norm)) {
      const double norms = real(w_.model().norm_parameters());
      layer.weights.push_back({"operator norm", norms});
      layer.weights.back().tensors = static_cast<std::int32_t>(norms / real(w_.model().hidden));
    } else if (op.kind == Kind::product) {
      const double columns = real(op.in) / (op.cut == Cut::in || op.cut == Cut::sum ? t : 1);
      layer.weights.push_back({"operator product", real(op.in) * real(op.out) / parts, columns});
    }
    if (op.weights > 0) layer.weights.push_back({"operator weights", op.weights / (op.cut == Cut::out ? t : 1)});
  }
}

}  // namespace orrery::workloads
