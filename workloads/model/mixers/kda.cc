// Kimi Delta Attention (arXiv 2510.26692): a delta rule whose decays are vectors over the channels of a key. Decays and
// output gates come through two thin products each, of a head's width inside, or of whole products (Kimi K3's gates,
// use_full_rank_gate; Ling 3.0's decays too, no_kda_lora). What is kept: as of gated delta nets
// (fla/ops/kda), and what the thin products made. Context ranks scan their own positions from the states that those
// ahead of them leave, and gather a delta rule's transitions too (fla-org/flash-linear-attention, fla/ops/cp).
#include <array>

#include "sim/real.h"
#include "workloads/model/mixers/mixers.h"
#include "workloads/model/mixers/widths.h"

namespace orrery::workloads {

namespace {

using sim::real;

enum KdaOwn : std::size_t { kDecayRank, kGateRank };
template <KdaOwn width>
std::int64_t& kda_own(StateMixer& m) {
  return m.own[width];
}
std::int64_t width_of_head(const StateMixer& m) { return m.value_dim; }
constexpr std::array<MixerWidth, 4> kKdaWidths{
    {kHeadsOfKeys[0],
     kHeadsOfKeys[1],
     {"decay_rank", "elements", "head_dim of kda",
      "Inside of the thin product that makes decays, of kda and rwkv7; 0: one whole product, of kda.", "0", "65536",
      kda_own<kDecayRank>, width_of_head},
     {"gate_rank", "elements", "head_dim of kda", "Likewise of the output's gate.", "0", "65536", kda_own<kGateRank>,
      width_of_head}}};

MixerParts kda_parts(const StateMixer& m) {
  using calibration::Streaming;
  const std::int64_t decays = m.heads * m.key_dim, inside = m.own[kDecayRank] + m.own[kGateRank];
  MixerParts parts;
  parts.makes_gate = m.own[kGateRank] == 0;
  parts.rates = m.heads + (m.own[kDecayRank] == 0 ? decays : 0);
  if (m.own[kDecayRank] > 0) parts.thin.push_back({"decays up", m.own[kDecayRank], decays});
  if (m.own[kGateRank] > 0) parts.thin.push_back({"gates up", m.own[kGateRank], m.values()});
  parts.prepares = {
      {"decays", "decays backward", Streaming::copy, Streaming::copy, decays, 1, 2, kMixerSingle, kMixerSingle}};
  add_activation(m, parts);
  parts.kept = {{"queries, keys and values of the scan", m.values() + 2 * m.keys()},
                {"decays and rates", decays + m.heads, kMixerSingle},
                {"triangles of chunks", m.heads * m.chunk},
                {"thin gates", inside, 0, true},
                {"decays and gates as made", decays + m.values()}};
  parts.weights = {{"decays", m.heads + decays}};
  if (m.normed) parts.weights.push_back({"gated norm", m.value_dim, true});
  parts.handed_on = m.key_dim * (m.value_dim + m.key_dim);
  return parts;
}

double kda_parameters(const StateMixer& m, double h, double t) {
  const double values = real(m.values()), keys = real(m.keys()), heads = real(m.heads);
  const double decays = heads * real(m.key_dim), of_decays = real(m.own[kDecayRank]), of_gates = real(m.own[kGateRank]);
  // A rank's heads of whole products; of thin ones the inside is on every rank.
  const auto made = [&](double rank, double out) { return rank > 0 ? rank * h + rank * out / t : h * out / t; };
  return (h * (values + 2 * keys + heads) + real(m.channels()) * real(m.conv) + heads + decays + values * h) / t +
         made(of_decays, decays) + made(of_gates, values) + (m.normed ? real(m.value_dim) : 0);
}

}  // namespace

extern const MixerKind kKda;
const MixerKind kKda{"kda", &calibration::kKdaScan,   kKdaWidths, 4,         true,
                     true,  "key heads of the mixer", true,       kda_parts, kda_parameters};

}  // namespace orrery::workloads
