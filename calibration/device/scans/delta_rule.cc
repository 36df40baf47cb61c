// Gated DeltaNet (arXiv 2412.06464) and Kimi Delta Attention (arXiv 2510.26692) by the kernels of
// fla-org/flash-linear-attention. A token of the forward pass costs, for each of H heads, products of keys among
// themselves, 2 C N, the inverse of a triangle of them, 2 C^2 / 3, that times keys and values, 2 C (N + P), values less
// what the state says of them, 2 N P, the state, 2 N P, scores, 2 C N, those times values and what queries read,
// 2 C P + 2 N P (letters as in scan.cc). Model FLOPs: 8 for each element of a head's state (NVIDIA/Megatron-LM,
// megatron/training/training.py, of gated delta nets: keys times themselves, values times keys, the state's update, and
// queries times the state).
#include <array>

#include "calibration/device/scan.h"

namespace orrery::calibration {

namespace {

/// fla/ops/gated_delta_rule/chunk.py, chunk_gated_delta_rule_fwd and _bwd; fla/ops/kda/chunk.py, whose decays are
/// vectors over the channels of a key.
MixerWork delta_rule(const ScanSizes& z, bool channels, bool backward) {
  const double keys = z.g * z.n, own_keys = z.h * z.n, values = z.h * z.p, state = z.h * z.n * z.p / z.c;
  const double triangle = z.h * z.c, decay = kScanSingle * z.h * (channels ? z.n : 1);
  const double inverse = 2 * z.c * z.c / 3;
  MixerWork work;
  if (!backward) {
    work.flops = z.h * (6 * z.c * z.n + 4 * z.c * z.p + inverse + 6 * z.n * z.p);
    const double norms = z.e * 4 * keys, cumulated = 2 * decay;
    const double products = z.e * keys + decay + 2 * kScanSingle * triangle + z.e * triangle;
    const double rows = z.e * (keys + values + triangle + own_keys + values) + decay;
    const double states = z.e * (keys + own_keys + 2 * values + state) + decay;
    const double out = z.e * (2 * keys + 2 * values + state) + decay;
    work.bytes = norms + cumulated + products + rows + states + out;
    work.launches = 8;
    return work;
  }
  work.flops = z.h * (4 * z.c * z.n + 2 * z.c * z.p + 4 * z.n * z.p) +  // rows and states again
               z.h * (2 * z.c * z.n + 2 * z.c * z.p) +                  // gradients of values inside chunks
               z.h * 6 * z.n * z.p +                                    // of states
               z.h * (6 * z.c * z.n + 2 * z.c * z.p + 6 * z.n * z.p) +  // of queries, keys and decays
               z.h * (8 * z.c * z.n + 4 * z.c * z.p);                   // of the triangle's parts
  const double again = z.e * (3 * keys + 4 * values + triangle + 2 * own_keys + state) + 2 * decay;
  const double inside = z.e * (2 * keys + 2 * values) + decay;
  const double states = z.e * (2 * keys + own_keys + 3 * values + state) + decay;
  const double others = z.e * (2 * keys + 3 * values + 2 * state + 3 * own_keys) + 3 * decay;
  const double parts = z.e * (2 * keys + 2 * values + 3 * own_keys + triangle) + 2 * decay;
  const double norms = z.e * 3 * 2 * keys;
  work.bytes = again + inside + states + others + parts + norms;
  work.launches = 14;
  return work;
}

MixerWork of_heads(const ScanSizes& z, bool backward) { return delta_rule(z, false, backward); }
MixerWork of_channels(const ScanSizes& z, bool backward) { return delta_rule(z, true, backward); }

constexpr std::array<std::size_t, 1> kDeltaStepTaps{2}, kDeltaTaps{0};
constexpr std::array<std::size_t, 2> kThreeTaps{1, 0}, kDeltaScan{1, 0}, kDeltaStep{1, 0}, kDeltaCheck{0, 1},
    kKdaPrompt{3, 2};
constexpr std::array<std::size_t, 4> kKdaStep{3, 4, 2, 5}, kKdaCheck{2, 5, 3, 4};

}  // namespace

const ScanKind kGatedDeltaScan{
    "gated_delta", 64, 8, false, of_heads, {kDeltaTaps, kDeltaStepTaps, kDeltaScan, kDeltaStep, kDeltaCheck, true}};
const ScanKind kKdaScan{"kda", 64,          8,
                        false, of_channels, {kThreeTaps, kDeltaStepTaps, kKdaPrompt, kKdaStep, kKdaCheck, true}};

}  // namespace orrery::calibration
