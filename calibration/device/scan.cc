// What the kernels of scan.h cost. Each mixer's own stand in files of scans/, counted from their sources: with C
// positions of a chunk, N = key_dim, P = value_dim, H heads and G heads of keys, per token. Whole squares of chunks are
// counted, since the kernels compute them whole; a backward pass makes again what its forward pass did not keep. Left
// out: sums of decays (C additions a token) and exponentials.
#include "calibration/device/scan.h"

#include <algorithm>
#include <array>

#include "sim/error.h"
#include "sim/real.h"

namespace orrery::calibration {

namespace {

using sim::real;

/// Dao-AILab/causal-conv1d: reads and writes every channel; backward reads the input and the output's gradient.
MixerWork convolution(const Scan& s) {
  const double elements = real(s.batch) * real(s.positions) * real(s.channels);
  return {2 * real(s.taps) * elements, (s.pass == ScanPass::backward ? 3 : 2) * bytes_of(s.dtype) * elements, 1};
}

constexpr std::array<std::string_view, kMixerKernels> kMixerKernelNames{"convolution", "chunks",    "index",
                                                                        "choice",      "attention", "block_attention"};

}  // namespace

std::string_view name_of(MixerKernel kernel) { return kMixerKernelNames[static_cast<std::size_t>(kernel)]; }

ScanSizes::ScanSizes(const Scan& s)
    : tokens(real(s.batch) * real(s.positions)),
      h(real(s.heads)),
      g(real(s.key_heads)),
      n(real(s.key_dim)),
      p(real(s.value_dim)),
      c(real(std::min(s.chunk, std::max<std::int64_t>(16, s.positions)))),
      e(bytes_of(s.dtype)) {}

MixerWork work_of(const Scan& scan) {
  SIM_CHECK(scan.batch > 0 && scan.positions > 0 && scan.heads > 0 && scan.key_heads > 0, "a scan of nothing");
  if (scan.kernel == MixerKernel::convolution) return convolution(scan);
  SIM_CHECK(scan.kind != nullptr, "a scan of no kind");
  const ScanSizes z(scan);
  const bool backward = scan.pass == ScanPass::backward;
  MixerWork work = scan.kind->work(z, backward);
  work.flops *= z.tokens;
  work.bytes *= z.tokens;
  return work;
}

MixerWork work_of(const SparseKernel& k) {
  SIM_CHECK(k.positions > 0 && k.heads > 0 && k.key_heads > 0 && k.chosen > 0 && k.block > 0,
            "sparse attention of nothing");
  constexpr double kNumber = 4;  // bytes of a key's place
  const double e = bytes_of(k.dtype), n = real(k.positions), heads = real(k.heads), query = real(k.query_dim);
  const double below = n * n / 2, slots = n * std::min(real(k.chosen), n);
  const double choices = real(k.key_heads) / real(k.block);
  if (k.kernel == MixerKernel::index)
    return {2 * below * heads * query, e * n * query * (heads + 1) + kScanSingle * below * choices, 1};
  if (k.kernel == MixerKernel::choice) return {0, kScanSingle * below * choices + kNumber * slots * choices, 1};
  const double value = real(k.value_dim), rows = e * n * heads * (query + value);
  const double keys = e * n * real(k.key_heads) * (k.block == 1 ? query : query + value);
  const double numbers = kNumber * slots * choices;
  if (k.pass == ScanPass::forward) return {2 * slots * heads * (query + value), rows + keys + numbers, 1};
  // Gradients of keys are summed up in fp32, by all queries that chose them.
  return {2 * slots * heads * (3 * query + 2 * value), 2 * rows + (1 + 2 * kScanSingle / e) * keys + numbers, 2};
}

double seconds_of(const MixerWork& work, const MixerRates& rates, double bandwidth, double peak) {
  const double moved = work.bytes / (rates.bandwidth * bandwidth);
  const double computed = rates.rate > 0 ? work.flops / (rates.rate * peak) : 0;
  return real(work.launches) * rates.launch + std::max(moved, computed);
}

}  // namespace orrery::calibration
