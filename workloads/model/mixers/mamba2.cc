// Mamba-2 (arXiv 2405.21060): keys and queries (B and C) of groups, a step, a decay and a skip of each head. What is
// kept: its one function over convolution and scan keeps what its product made and what comes out ahead of the norm
// (state-spaces/mamba, ssd_combined.py, MambaSplitConv1dScanCombinedFn). Context ranks exchange positions for heads,
// and what its norm reads back (NVIDIA/Megatron-LM, megatron/core/ssm/mamba_context_parallel.py).
#include <array>

#include "sim/real.h"
#include "workloads/model/mixers/mixers.h"

namespace orrery::workloads {

namespace {

using sim::real;

constexpr std::array<MixerWidth, 2> kMamba2Widths{
    {{"state", "elements", "", "State of a channel, of mamba2.", "1", "65536",
      [](StateMixer& m) -> std::int64_t& { return m.key_dim; }, nullptr},
     {"groups", "groups", "1", "Groups of heads that share B and C, of mamba2.", "1", "1000000",
      [](StateMixer& m) -> std::int64_t& { return m.key_heads; },
      [](const StateMixer&) -> std::int64_t { return 1; }}}};

MixerParts mamba2_parts(const StateMixer& m) {
  MixerParts parts;
  parts.rates = m.heads;
  add_activation(m, parts);
  parts.weights = {{"decays", 3 * m.heads}};  // decays, biases of steps, factors of what heads pass on
  if (m.normed) parts.weights.push_back({"gated norm", m.values()});
  parts.convolution_biases = true;
  parts.normed_behind_exchange = m.normed;
  return parts;
}

double mamba2_parameters(const StateMixer& m, double h, double t) {
  const double values = real(m.values()), keys = real(m.keys()), heads = real(m.heads);
  return (h * (2 * values + 2 * keys + heads) + real(m.channels()) * (real(m.conv) + 1) + 3 * heads +
          (m.normed ? values : 0) + values * h) /
         t;
}

}  // namespace

extern const MixerKind kMamba2;
const MixerKind kMamba2{
    "mamba2",     &calibration::kMamba2Scan, kMamba2Widths, 4, true, false, "groups of the mixer", false,
    mamba2_parts, mamba2_parameters};

}  // namespace orrery::workloads
