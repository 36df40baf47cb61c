// Mamba-2 (Dao and Gu, arXiv 2405.21060) by its public kernels. A token of the forward pass costs scores of keys and
// queries in a chunk, 2 C N for each of G; for each of H those times values, 2 C P, the chunk's state, 2 N P, and what
// queries read of the state, 2 N P (letters as in scan.cc). Model FLOPs as Megatron-LM counts them, 7 for each element
// of a head's state (NVIDIA/Megatron-LM, megatron/training/training.py, mamba_layer_flops).
#include <array>

#include "calibration/device/scan.h"

namespace orrery::calibration {

namespace {

/// state-spaces/mamba, ssd_combined.py, _mamba_chunk_scan_combined_fwd: cumulated decays, states of chunks, their
/// passing, scores of groups, and the scan itself; _bwd makes states and scores again.
MixerWork mamba2(const ScanSizes& z, bool backward) {
  const double inner = z.h * z.p, state = z.h * z.n * z.p / z.c, groups = z.g * z.n, scores = z.g * z.c;
  MixerWork work;
  if (!backward) {
    work.flops = 2 * z.c * groups + z.h * (2 * z.c * z.p + 4 * z.n * z.p);
    const double states = z.e * (inner + groups) + kScanSingle * state;
    const double passing = 2 * kScanSingle * state;
    const double products = z.e * 2 * groups + kScanSingle * scores;
    const double scan = z.e * (2 * inner + groups) + (kScanSingle * scores + kScanSingle * state);
    work.bytes = states + passing + products + scan + 6 * kScanSingle * z.h;
    work.launches = 5;
    return work;
  }
  // Scores and states again; gradients of states, queries, keys, values (two products each), of scores, and through
  // these of queries and keys.
  work.flops = 6 * z.c * groups + z.h * (4 * z.c * z.p + 10 * z.n * z.p);
  const double again = z.e * (inner + 3 * groups) + kScanSingle * (3 * state + scores);
  const double states = z.e * (inner + groups) + 3 * kScanSingle * state;
  const double values = z.e * (3 * inner + groups) + kScanSingle * (scores + state);
  const double keys = 2 * (z.e * (inner + 2 * groups) + kScanSingle * state);
  const double score_gradients = z.e * 2 * inner + 2 * kScanSingle * scores + z.e * 4 * groups;
  work.bytes = again + states + values + keys + score_gradients + 16 * kScanSingle * z.h;
  work.launches = 14;
  return work;
}

constexpr std::array<std::size_t, 2> kMambaTaps{3, 0}, kMambaStepTaps{4, 2};
constexpr std::array<std::size_t, 1> kMambaScan{4}, kMambaStep{6};

}  // namespace

const ScanKind kMamba2Scan{"mamba2", 256,    7,
                           true,     mamba2, {kMambaTaps, kMambaStepTaps, kMambaScan, kMambaStep, kMambaStep, false}};

}  // namespace orrery::calibration
