// Folds over the operations and weights of layers. See layer.h.
#include "workloads/model/layer.h"

#include <algorithm>
#include <array>

#include "sim/error.h"
#include "sim/real.h"

namespace orrery::workloads {

namespace {
using sim::real;
}  // namespace

Exchange adjoint(Exchange exchange) {
  switch (exchange) {
    case Exchange::copy:
      return Exchange::all_reduce;
    case Exchange::all_gather:
      return Exchange::reduce_scatter;
    case Exchange::reduce_scatter:
      return Exchange::all_gather;
    case Exchange::all_reduce:
      return Exchange::copy;
    case Exchange::all_to_all:
      return Exchange::all_to_all;
  }
  SIM_CHECK(false, "exchange {} has no adjoint", static_cast<int>(exchange));
  return exchange;
}

std::optional<calibration::CollectiveOp> collective_of(Exchange exchange) {
  using calibration::CollectiveOp;
  switch (exchange) {
    case Exchange::copy:
      return {};
    case Exchange::all_gather:
      return CollectiveOp::all_gather;
    case Exchange::reduce_scatter:
      return CollectiveOp::reduce_scatter;
    case Exchange::all_reduce:
      return CollectiveOp::all_reduce;
    case Exchange::all_to_all:
      return CollectiveOp::all_to_all;
  }
  return {};
}

Exchange exchange_of(calibration::CollectiveOp op) {
  for (const Exchange one :
       {Exchange::all_gather, Exchange::reduce_scatter, Exchange::all_reduce, Exchange::all_to_all})
    if (collective_of(one) == op) return one;
  SIM_CHECK(false, "no exchange is a {}", calibration::name_of(op));
  return Exchange::copy;
}

std::string_view name_of(LayerKind kind) {
  static constexpr std::array<std::string_view, 3> kNames{"embedding", "block", "head"};
  return kNames[static_cast<std::size_t>(kind)];
}

double parameters(const Layer& layer) {
  double sum = 0;
  for (const Weights& weights : layer.weights) sum += weights.elements;
  return sum;
}

double expert_parameters(const Layer& layer) {
  double sum = 0;
  for (const Weights& weights : layer.weights) sum += weights.expert ? weights.elements : 0;
  return sum;
}

double trained_parameters(const Layer& layer) {
  double sum = 0;
  for (const Weights& weights : layer.weights) sum += weights.frozen ? 0 : weights.elements;
  return sum;
}

double keys_reached(const AttentionOp& op) {
  if (op.other_keys > 0) return real(op.other_keys);
  const auto [keys, chunked] = op.window;
  if (keys == 0 || keys >= op.seq) return real(op.seq);
  if (!chunked) return real(keys);
  const double whole = real(op.seq / keys) * real(keys), rest = real(op.seq % keys);
  return (whole * real(keys) + rest * rest) / real(op.seq);
}

ForwardFlops forward_flops(const Layer& layer) {
  ForwardFlops flops;
  for (const LayerOp& op : layer.ops) {
    if (const auto* linear = std::get_if<LinearOp>(&op)) {
      for (const MatMul& p : linear->products) flops.linear += 2 * real(p.tokens) * real(p.in) * real(p.out);
    } else if (const auto* a = std::get_if<AttentionOp>(&op)) {
      flops.attention +=
          4 * real(a->batch) * real(a->seq / a->context) * keys_reached(*a) * real(a->heads * a->head_dim);
    } else if (const auto* mixer = std::get_if<MixerOp>(&op)) {
      flops.mixers += mixer->flops;
    }
  }
  return flops;
}

std::int64_t count(const Network& network, const LayerRange& range, LayerKind kind) {
  std::int64_t n = 0;
  for (std::int64_t i = range.begin; i < range.end; ++i) n += network.layer(i).kind == kind;
  return n;
}

double parameters(const Network& network, const LayerRange& range) {
  double sum = 0;
  for (std::int64_t i = range.begin; i < range.end; ++i) sum += parameters(network.layer(i));
  return sum;
}

}  // namespace orrery::workloads
