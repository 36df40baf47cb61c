// Lightning attention (arXiv 2501.08313; MiniMax-01): linear attention whose decays are constants of heads. Context
// ranks scan their own positions from the states of those ahead, which all gather (LASP+, there, section 3.1).
#include "sim/real.h"
#include "workloads/model/mixers/mixers.h"
#include "workloads/model/mixers/widths.h"

namespace orrery::workloads {

namespace {

using sim::real;

MixerParts lightning_parts(const StateMixer& m) {
  MixerParts parts;
  add_activation(m, parts);
  parts.kept = {{"queries, keys and values of the scan", m.values() + 2 * m.keys()}};
  if (m.normed) parts.weights.push_back({"gated norm", m.values()});
  parts.handed_on = m.key_dim * m.value_dim;
  return parts;
}

double lightning_parameters(const StateMixer& m, double h, double t) {
  const double values = real(m.values()), keys = real(m.keys());
  return (h * (2 * values + 2 * keys) + real(m.channels()) * real(m.conv) + (m.normed ? values : 0) + values * h) / t;
}

}  // namespace

extern const MixerKind kLightning;
const MixerKind kLightning{
    "lightning",     &calibration::kLightningScan, kHeadsOfKeys, 0, true, false, "key heads of the mixer", true,
    lightning_parts, lightning_parameters};

}  // namespace orrery::workloads
