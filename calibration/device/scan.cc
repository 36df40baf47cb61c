// Work of the kernels of scan.h, counted from their sources. With C positions of a chunk, N = key_dim, P = value_dim,
// H heads and G heads of keys, a token of the forward pass costs
//  - Mamba-2: scores of keys and queries in a chunk, 2 C N for each of G; for each of H those times values, 2 C P, the
//    chunk's state, 2 N P, and what queries read of the state, 2 N P;
//  - the delta rule: products of keys among themselves, 2 C N, the inverse of a triangle of them, 2 C^2 / 3, that times
//    keys and values, 2 C (N + P), values less what the state says of them, 2 N P, the state, 2 N P, scores, 2 C N,
//    those times values and what queries read, 2 C P + 2 N P;
//  - lightning: scores, 2 C N, times values, 2 C P, the state and what queries read, 4 N P.
// Whole squares of chunks are counted, since the kernels compute them whole. A backward pass makes again what its
// forward pass did not keep. Left out: sums of decays (C additions a token) and exponentials.
#include "calibration/device/scan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/error.h"
#include "sim/real.h"

namespace orrery::calibration {

namespace {

using sim::real;

constexpr double kSingle = 4;  // bytes of fp32: decays, and Mamba-2's states

struct ScanSizes {
  explicit ScanSizes(const Scan& s)
      : tokens(real(s.batch) * real(s.positions)),
        h(real(s.heads)),
        g(real(s.key_heads)),
        n(real(s.key_dim)),
        p(real(s.value_dim)),
        c(real(std::min(s.chunk, std::max<std::int64_t>(16, s.positions)))),
        e(bytes_of(s.dtype)) {}
  double tokens, h, g, n, p, c, e;
};

/// state-spaces/mamba, ssd_combined.py, _mamba_chunk_scan_combined_fwd: cumulated decays, states of chunks, their
/// passing, scores of groups, and the scan itself; _bwd makes states and scores again.
MixerWork mamba2(const ScanSizes& z, bool backward) {
  const double inner = z.h * z.p, state = z.h * z.n * z.p / z.c, groups = z.g * z.n, scores = z.g * z.c;
  MixerWork work;
  if (!backward) {
    work.flops = 2 * z.c * groups + z.h * (2 * z.c * z.p + 4 * z.n * z.p);
    const double states = z.e * (inner + groups) + kSingle * state;
    const double passing = 2 * kSingle * state;
    const double products = z.e * 2 * groups + kSingle * scores;
    const double scan = z.e * (2 * inner + groups) + (kSingle * scores + kSingle * state);
    work.bytes = states + passing + products + scan + 6 * kSingle * z.h;
    work.launches = 5;
    return work;
  }
  // Scores and states again; gradients of states, queries, keys, values (two products each), of scores, and through
  // these of queries and keys.
  work.flops = 6 * z.c * groups + z.h * (4 * z.c * z.p + 10 * z.n * z.p);
  const double again = z.e * (inner + 3 * groups) + kSingle * (3 * state + scores);
  const double states = z.e * (inner + groups) + 3 * kSingle * state;
  const double values = z.e * (3 * inner + groups) + kSingle * (scores + state);
  const double keys = 2 * (z.e * (inner + 2 * groups) + kSingle * state);
  const double score_gradients = z.e * 2 * inner + 2 * kSingle * scores + z.e * 4 * groups;
  work.bytes = again + states + values + keys + score_gradients + 16 * kSingle * z.h;
  work.launches = 14;
  return work;
}

/// fla/ops/gated_delta_rule/chunk.py, chunk_gated_delta_rule_fwd and _bwd; fla/ops/kda/chunk.py, whose decays are
/// vectors over the channels of a key.
MixerWork delta_rule(const ScanSizes& z, bool channels, bool backward) {
  const double keys = z.g * z.n, own_keys = z.h * z.n, values = z.h * z.p, state = z.h * z.n * z.p / z.c;
  const double triangle = z.h * z.c, decay = kSingle * z.h * (channels ? z.n : 1);
  const double inverse = 2 * z.c * z.c / 3;
  MixerWork work;
  if (!backward) {
    work.flops = z.h * (6 * z.c * z.n + 4 * z.c * z.p + inverse + 6 * z.n * z.p);
    const double norms = z.e * 4 * keys, cumulated = 2 * decay;
    const double products = z.e * keys + decay + 2 * kSingle * triangle + z.e * triangle;
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

/// Dao-AILab/causal-conv1d: reads and writes every channel; backward reads the input and the output's gradient.
MixerWork convolution(const Scan& s) {
  const double elements = real(s.batch) * real(s.positions) * real(s.channels);
  return {2 * real(s.taps) * elements, (s.pass == ScanPass::backward ? 3 : 2) * bytes_of(s.dtype) * elements, 1};
}

constexpr std::array<std::string_view, kScanKinds> kScanNames{"mamba2", "gated_delta", "kda", "lightning"};
constexpr std::array<std::string_view, kMixerKernels> kMixerKernelNames{"convolution", "chunks", "index", "choice",
                                                                        "attention"};

}  // namespace

std::string_view name_of(MixerKernel kernel) { return kMixerKernelNames[static_cast<std::size_t>(kernel)]; }

std::string_view name_of(ScanKind kind) { return kScanNames[static_cast<std::size_t>(kind)]; }

MixerWork work_of(const Scan& scan) {
  SIM_CHECK(scan.batch > 0 && scan.positions > 0 && scan.heads > 0 && scan.key_heads > 0, "a scan of nothing");
  if (scan.kernel == MixerKernel::convolution) return convolution(scan);
  const ScanSizes z(scan);
  const bool backward = scan.pass == ScanPass::backward;
  MixerWork work = scan.kind == ScanKind::mamba2      ? mamba2(z, backward)
                   : scan.kind == ScanKind::lightning ? lightning(z, backward)
                                                      : delta_rule(z, scan.kind == ScanKind::kda, backward);
  work.flops *= z.tokens;
  work.bytes *= z.tokens;
  return work;
}

double seconds_of(const MixerWork& work, const MixerRates& rates, double bandwidth, double peak) {
  const double moved = work.bytes / (rates.bandwidth * bandwidth);
  const double computed = rates.rate > 0 ? work.flops / (rates.rate * peak) : 0;
  return real(work.launches) * rates.launch + std::max(moved, computed);
}

}  // namespace orrery::calibration
