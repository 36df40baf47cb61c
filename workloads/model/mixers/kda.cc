// Kimi Delta Attention (arXiv 2510.26692): a delta rule whose decays are vectors over the channels of a key. Decays and
// output gates come through two thin products each, of a head's width inside. What is kept: as of gated delta nets
// (fla/ops/kda), and what the thin products made. Context ranks scan their own positions from the states that those
// ahead of them leave, and gather a delta rule's transitions too (fla-org/flash-linear-attention, fla/ops/cp).
#include "sim/real.h"
#include "workloads/model/mixers/mixers.h"
#include "workloads/model/mixers/widths.h"

namespace orrery::workloads {

namespace {

using sim::real;

MixerParts kda_parts(const StateMixer& m) {
  using calibration::Streaming;
  const std::int64_t decays = m.heads * m.key_dim;
  MixerParts parts;
  parts.rates = m.heads;
  parts.makes_gate = false;
  parts.thin = {{"decays up", m.value_dim, decays}, {"gates up", m.value_dim, m.values()}};
  parts.prepares = {
      {"decays", "decays backward", Streaming::copy, Streaming::copy, decays, 1, 2, kMixerSingle, kMixerSingle}};
  add_activation(m, parts);
  parts.kept = {{"queries, keys and values of the scan", m.values() + 2 * m.keys()},
                {"decays and rates", decays + m.heads, kMixerSingle},
                {"triangles of chunks", m.heads * m.chunk},
                {"thin gates", 2 * m.value_dim, 0, true},
                {"decays and gates as made", decays + m.values()}};
  parts.weights = {{"decays", m.heads + decays}};
  if (m.normed) parts.weights.push_back({"gated norm", m.value_dim, true});
  parts.handed_on = m.key_dim * (m.value_dim + m.key_dim);
  return parts;
}

double kda_parameters(const StateMixer& m, double h, double t) {
  const double values = real(m.values()), keys = real(m.keys()), heads = real(m.heads), width = real(m.value_dim);
  const double decays = heads * real(m.key_dim), between = width * (decays + values) / t;
  return (h * (values + 2 * keys + heads) + real(m.channels()) * real(m.conv) + heads + decays + values * h) / t +
         2 * width * h + between + (m.normed ? width : 0);
}

}  // namespace

extern const MixerKind kKda;
const MixerKind kKda{"kda", &calibration::kKdaScan,   kHeadsOfKeys, 4,         true,
                     true,  "key heads of the mixer", true,         kda_parts, kda_parameters};

}  // namespace orrery::workloads
