// Gated DeltaNet (arXiv 2412.06464; Qwen3-Next): a rate and a decay of each head. What is kept: kernels of
// flash-linear-attention keep the convolution's input, queries, keys and values behind it, decays and rates in fp32,
// and the inverted triangles of chunks (fla/ops/gated_delta_rule/chunk.py, ChunkGatedDeltaRuleFunction). Context ranks
// exchange positions for heads (NVIDIA/Megatron-LM, megatron/core/ssm/gated_delta_net/common.py, a2a_cp_to_hp).
#include "sim/real.h"
#include "workloads/model/mixers/mixers.h"
#include "workloads/model/mixers/widths.h"

namespace orrery::workloads {

namespace {

using sim::real;

MixerParts gated_delta_parts(const StateMixer& m) {
  using calibration::Streaming;
  MixerParts parts;
  parts.rates = 2 * m.heads;
  parts.prepares = {
      {"decays", "decays backward", Streaming::copy, Streaming::copy, parts.rates, 1, 2, kMixerSingle, kMixerSingle}};
  add_activation(m, parts);
  parts.kept = {{"queries, keys and values of the scan", m.values() + 2 * m.keys()},
                {"decays and rates", 2 * m.heads, kMixerSingle},
                {"triangles of chunks", m.heads * m.chunk}};
  parts.weights = {{"decays", 2 * m.heads}};
  if (m.normed) parts.weights.push_back({"gated norm", m.value_dim, true});
  return parts;
}

double gated_delta_parameters(const StateMixer& m, double h, double t) {
  const double values = real(m.values()), keys = real(m.keys()), heads = real(m.heads);
  return (h * (2 * values + 2 * keys + 2 * heads) + real(m.channels()) * real(m.conv) + 2 * heads + values * h) / t +
         (m.normed ? real(m.value_dim) : 0);
}

}  // namespace

extern const MixerKind kGatedDelta;
const MixerKind kGatedDelta{
    "gated_delta",     &calibration::kGatedDeltaScan, kHeadsOfKeys, 4, true, false, "key heads of the mixer", true,
    gated_delta_parts, gated_delta_parameters};

}  // namespace orrery::workloads
