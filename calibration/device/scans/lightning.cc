// Lightning attention (arXiv 2501.08313) by the kernels of fla-org/flash-linear-attention. A token of the forward pass
// costs scores, 2 C N, times values, 2 C P, the state and what queries read, 4 N P (letters as in scan.cc). Model
// FLOPs: 5 for each element of a head's state, an outer product, its decayed sum and what queries read.
#include <array>

#include "calibration/device/scan.h"

namespace orrery::calibration {

namespace {

/// fla/ops/simple_gla: decays are constants of heads.
MixerWork lightning(const ScanSizes& z, bool backward) {
  const double keys = z.g * z.n, values = z.h * z.p, state = z.h * z.n * z.p / z.c;
  MixerWork work;
  if (!backward) {
    work.flops = z.h * (2 * z.c * z.n + 2 * z.c * z.p + 4 * z.n * z.p);
    work.bytes = z.e * (keys + values + state) + z.e * (2 * keys + 2 * values + state);
    work.launches = 2;
    return work;
  }
  work.flops = z.h * (6 * z.c * z.n + 4 * z.c * z.p + 10 * z.n * z.p);
  work.bytes = z.e * (3 * keys + 3 * values + 3 * state) + z.e * (4 * keys + 4 * values + 2 * state);
  work.launches = 4;
  return work;
}

constexpr std::array<std::size_t, 1> kLightningStepTaps{2}, kLightningTaps{0}, kLightningPrompt{5}, kLightningStep{7};

}  // namespace

const ScanKind kLightningScan{
    "lightning", 64,
    5,           false,
    lightning,   {kLightningTaps, kLightningStepTaps, kLightningPrompt, kLightningStep, kLightningStep, false}};

}  // namespace orrery::calibration
