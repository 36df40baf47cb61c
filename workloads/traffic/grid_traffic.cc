// See grid_traffic.h.
#include "workloads/traffic/grid_traffic.h"

#include "sim/real.h"

namespace orrery::workloads {

namespace {
using sim::real;
}  // namespace

void GridTraffic::add_rows(TrafficRows& rows) const {
  const std::int64_t in = layout.inside.tensor_in, out = layout.tensor / in;
  const double layers = real(model.layers), hidden = tokens * real(model.hidden) / real(in) * element;
  // A tensor group has as many groups over one dimension as ranks in the other.
  const auto over_in = [&](const char* what, double bytes, double calls, double per_layer) {
    rows.add(CommGroup::tensor_in, CollectiveOp::all_reduce, what, in, bytes, calls * runs * real(out), per_layer);
  };
  const auto over_out = [&](const char* what, double bytes, double calls, double per_layer) {
    rows.add(CommGroup::tensor_out, CollectiveOp::all_reduce, what, out, bytes, calls * runs * real(in), per_layer);
  };
  const double gates = model.mlp.gated ? 2 : 1, attention = real(model.attention_width());
  const double qkv = attention + 2 * real(model.attention.kv_heads * model.head_dim());
  const auto share = [&](double width) { return tokens * width / real(out) * element; };
  for (const bool again : {false, true}) {
    const double sums = again ? sums_again : 2;
    if (sums == 0) continue;
    const std::string suffix = again ? " (recomputed)" : "";
    over_in(("queries, keys and values, forward" + suffix).c_str(), share(qkv), layers, 1);
    over_in(("up projection, forward" + suffix).c_str(), share(gates * real(model.mlp.hidden)), layers, 1);
    over_out(("activations, forward" + suffix).c_str(), hidden, sums * layers, sums);
  }
  over_out("activation gradients, backward", hidden, 2 * layers, 2);
  over_in("attention output gradients, backward", share(attention), layers, 1);
  over_in("activation gradients of the MLP, backward", share(real(model.mlp.hidden)), layers, 1);
  over_out("embedding, forward", hidden, 1, 0);
  over_in("logits, forward", share(real(vocab)), 1, 0);
  over_out("head input gradient, backward", hidden, 1, 0);
  over_out("loss", 4 * tokens, losses, 0);
}

}  // namespace orrery::workloads
