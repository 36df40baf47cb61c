// Mixers that carry a state along the sequence in place of keys and values, as shapes: what a device profile can be
// asked to time. A state of [key_dim, value_dim] a head is updated by every token; kernels work on chunks of positions,
// inside which they multiply matrices as attention does, and hand a state on between them.
//
// Sources: Mamba-2 (Dao and Gu, arXiv 2405.21060) and its kernels (state-spaces/mamba, mamba_ssm/ops/triton/
// ssd_combined.py); Gated DeltaNet (arXiv 2412.06464), Kimi Delta Attention (arXiv 2510.26692) and lightning attention
// (arXiv 2501.08313) by the kernels of fla-org/flash-linear-attention (fla/ops/gated_delta_rule, kda, simple_gla).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

#include "calibration/device/kernel.h"

namespace orrery::calibration {

/// The kernels of mixers between their products, by what they reach of a device: a short causal convolution over
/// channels and a scan in chunks; of sparse attention the scores of an indexer, the choice of keys by them, and
/// attention to keys that were chosen, or to blocks of them.
enum class MixerKernel : std::uint8_t { convolution, chunks, index, choice, attention, block_attention };
inline constexpr std::size_t kMixerKernels = 6;
inline constexpr MixerKernel kSparseKernels[]{MixerKernel::index, MixerKernel::choice, MixerKernel::attention,
                                              MixerKernel::block_attention};
std::string_view name_of(MixerKernel kernel);
enum class ScanPass : std::uint8_t { forward, backward };

struct ScanKind;
struct Scan {
  const ScanKind* kind = nullptr;
  MixerKernel kernel = MixerKernel::chunks;
  DataType dtype = DataType::bf16;
  std::int64_t batch = 1, positions = 1;
  std::int64_t heads = 1;      // of values, each with a state
  std::int64_t key_heads = 1;  // of keys and queries; Mamba-2's groups
  std::int64_t key_dim = 1;    // Mamba-2's state
  std::int64_t value_dim = 1;
  std::int64_t channels = 0;  // of a convolution
  std::int64_t taps = 4;      // positions that it sees
  std::int64_t chunk = 64;    // positions of one
  ScanPass pass = ScanPass::forward;
};

/// What its kernels do, as they are written: products inside chunks and with states, and every tensor that one of them
/// hands to the next through memory.
struct MixerWork {
  double flops = 0, bytes = 0;
  std::int64_t launches = 1;
};
MixerWork work_of(const Scan& scan);

/// The sizes of a scan by the letters of its papers: heads and heads of keys, the widths of a key and of a value,
/// positions of a chunk, bytes of an element.
struct ScanSizes {
  explicit ScanSizes(const Scan& scan);
  double tokens, h, g, n, p, c, e;
};
inline constexpr double kScanSingle = 4;  // bytes of fp32: decays, and Mamba-2's states

/// The kernels of one mixer. One whose kernels are measured has a file in scans/; another is a value in the mixer's own
/// file (workloads/model/mixers/).
struct ScanKind {
  std::string_view name;
  std::int64_t chunk;  // positions of one of the public kernels' by default
  /// Model FLOPs of one position after the other, for each element of a head's state.
  double flops_by_step;
  /// One function with its convolution, which keeps its input alone and runs it again, with states in fp32 (Mamba-2).
  bool with_convolution;
  /// What a token costs in a pass.
  MixerWork (*work)(const ScanSizes& sizes, bool backward);
  /// The kernels of engines for its parts, by the order of their families' variants (serving_scans.cc): of what an
  /// engine prefers first the kernel that fuses more. Several tokens of a sequence, to be checked, take kernels that
  /// leave a state behind each.
  struct Served {
    std::span<const std::size_t> taps, step_taps, prompt, step, check;
    bool timed;  // its prompts, under some engine
  } served;
};
extern const ScanKind kMamba2Scan, kGatedDeltaScan, kKdaScan, kLightningScan, kRwkv7Scan;
/// Those that are measured, for which a profile may have rates of their own.
inline constexpr const ScanKind* kMeasuredScans[] = {&kMamba2Scan, &kGatedDeltaScan, &kKdaScan, &kLightningScan,
                                                     &kRwkv7Scan};
inline constexpr std::size_t kScanKinds = std::size(kMeasuredScans);

/// One kernel of attention to chosen keys, on whole sequences: what workloads/model/chosen_keys.cc counts of a block on
/// one rank. Of an indexer `heads` and `query_dim` are its own.
struct SparseKernel {
  MixerKernel kernel = MixerKernel::attention;  // one of kSparseKernels
  ScanPass pass = ScanPass::forward;            // of attention alone
  DataType dtype = DataType::bf16;
  std::int64_t positions = 1;
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;  // each with keys of its own, and a choice
  std::int64_t query_dim = 1;  // of a query and a key
  std::int64_t value_dim = 1;
  std::int64_t chosen = 1;  // keys that a query attends to
  std::int64_t block = 1;   // keys that are chosen together; 1: latent attention, where a key holds its value
};
MixerWork work_of(const SparseKernel& kernel);

/// How far kernels get: seconds that they take at least for each launch, shares of the data sheet's bandwidth and of
/// its matrix units in the type that it multiplies.
struct MixerRates {
  double launch = 0, bandwidth = 0, rate = 0;
};
double seconds_of(const MixerWork& work, const MixerRates& rates, double bandwidth, double peak);

}  // namespace orrery::calibration
