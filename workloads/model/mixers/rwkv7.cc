// RWKV-7's time mixing (arXiv 2503.14456): a delta rule with a decay and a rate for every channel of a key. Receptance,
// keys and values are products of three mixtures of a token with the one ahead of it; decays, rates, how much of the
// first layer's values is taken, and the output's gate are thin products of mixtures of their own. Ranks of these are
// widths of the kind; a first layer has none of values (value_rank: 0). The channel mixing behind it is an MLP of
// squared ReLU, whose input is a mixture too: that stands here.
//
// Kernels as fla-org/flash-linear-attention has them: fla/layers/rwkv7.py, fla/ops/rwkv7 (fused_addcmul,
// fused_k_update, gate_output_correction); the scan stands in calibration/device/scans/rwkv7.cc. It keeps its inputs
// alone and makes the rest again; context ranks hand states and transitions on (fla/ops/cp). Cut by heads over tensor
// ranks as delta rules are, which no public trainer does yet.
#include <array>

#include "sim/real.h"
#include "workloads/model/mixers/mixers.h"

namespace orrery::workloads {

namespace {

using sim::real;

enum Own : std::size_t { decay_rank, rate_rank, value_rank, gate_rank };
template <Own width>
std::int64_t& rwkv7_own(StateMixer& m) {
  return m.own[width];
}
constexpr std::array<MixerWidth, 4> kRwkv7Widths{
    {{"decay_rank", "elements", "", "Inside of the thin product that makes decays, of rwkv7.", "1", "65536",
      rwkv7_own<decay_rank>, nullptr},
     {"rate_rank", "elements", "", "Likewise of rates.", "1", "65536", rwkv7_own<rate_rank>, nullptr},
     {"value_rank", "elements", "", "Of the share of the first layer's values; 0: it is the first layer.", "0", "65536",
      rwkv7_own<value_rank>, nullptr},
     {"gate_rank", "elements", "", "Of the output's gate.", "1", "65536", rwkv7_own<gate_rank>, nullptr}}};

MixerParts rwkv7_parts(const StateMixer& m) {
  using enum calibration::Streaming;
  const std::int64_t keys = m.keys(), values = m.values();
  const bool first = m.own[value_rank] == 0;
  MixerParts parts;
  parts.makes_gate = false;
  parts.mixtures = 6;
  parts.thin = {{"decays up", m.own[decay_rank], keys},
                {"rates up", m.own[rate_rank], keys},
                {"gates up", m.own[gate_rank], values}};
  if (!first) parts.thin.push_back({"values' shares up", m.own[value_rank], values});
  // The token ahead less the token, and six sums of the token and a share of that; and one for the channel mixing.
  parts.mixes = {{"token shift", "token shift backward", copy, copy, 1, 2, 3},
                 {"mixtures of tokens", "mixtures of tokens backward", gelu, gelu_backward, 1, 8, 16},
                 {"token shift of channels", "token shift of channels backward", copy, copy, 1, 2, 3},
                 {"mixture of channels", "mixture of channels backward", gelu, gelu_backward, 1, 3, 6}};
  parts.prepares = {{"decays", "decays backward", gelu, gelu_backward, keys, 2, 3},
                    {"rates", "rates backward", gelu, gelu_backward, keys, 2, 3},
                    {"key norm", "key norm backward", layer_norm, layer_norm_backward, keys, 4, 6},
                    {"keys by rates", "keys by rates backward", gelu, gelu_backward, keys, 3, 5},
                    {"removed keys", "removed keys backward", gelu, gelu_backward, keys, 5, 8}};
  if (!first)
    parts.prepares.push_back({"values by shares", "values by shares backward", gelu, gelu_backward, values, 6, 9});
  // With the gate this reads and writes what the norm has made, keys and values once more.
  parts.gates = {{"bonus of the token", "bonus of the token backward", gelu, gelu_backward, values, 5, 9}};
  parts.kept = {{"keys, decays and rates of the scan", 4 * keys},
                {"values of the scan", first ? 0 : values},
                {"inside of thin products", thin_inside(parts), 0, true},
                {"decays, rates and gates as made", 2 * keys + (first ? values : 2 * values)},
                {"normalised scan output", values}};
  parts.weights = {{"shares of the token ahead", 7 * keys, true},
                   {"decays and rates of channels", 2 * keys},
                   {"scales of keys, bonus", 3 * keys},
                   {"biases of values' shares", first ? 0 : values},
                   {"norm of heads", 2 * values}};
  parts.handed_on = m.key_dim * (m.value_dim + m.key_dim);
  return parts;
}

/// With as many channels D as a token has elements, of the D (12 D + 2 (dw + da + dv + dg) + 19) of a layer (arXiv
/// 2503.14456, appendix on parameters) those that are neither of the channel mixing's products (8 D) nor of two norms
/// (4).
double rwkv7_parameters(const StateMixer& m, double h, double t) {
  const double keys = real(m.keys()), values = real(m.values());
  const double of_keys = real(m.own[decay_rank] + m.own[rate_rank]), share = m.own[value_rank] > 0 ? 1 : 0;
  const double of_values = real(m.own[value_rank] + m.own[gate_rank]);
  return (keys * (2 * h + of_keys + 5) + values * (2 * h + of_values + 2 + share)) / t + h * (of_keys + of_values) +
         7 * keys;
}

}  // namespace

extern const MixerKind kRwkv7;
const MixerKind kRwkv7{"rwkv7", &calibration::kRwkv7Scan, kRwkv7Widths, -1,          false,
                       true,    "key heads of the mixer", true,         rwkv7_parts, rwkv7_parameters};

}  // namespace orrery::workloads
