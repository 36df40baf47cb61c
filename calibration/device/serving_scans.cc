// Structures of mixers with a state as engines run them (serving_families.h): the short convolution ahead of a scan,
// the scan of a prompt in chunks, and the state's step where few tokens are decoded. Work of a scan is counted as
// calibration/device/scan.cc counts flash-linear-attention's kernels; what fused ones spare stands in their shares.
// States hang on the chunks before them, so that a long prompt of few heads waits for one chunk after the other.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "calibration/device/scan.h"
#include "calibration/device/serving_families.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

using Unit = ServingFamily::Parameter::Unit;

constexpr double kChunk = 64, kScanElement = 2;

/// The first of their families among all, in the order of the parts.
std::size_t scan_family_of(ServedScan::Part part) {
  return part == ServedScan::Part::convolution ? kFirstScan
         : part == ServedScan::Part::prompt    ? kFirstScan + 1
                                               : kFirstScan + 2;
}

double scan_structure(const ServingFacts& f, std::span<const double> p, const Work& w) {
  enum { launch, chain, each, stream, efficiency, rate };
  const double tasks = w[scan::sequences] * w[scan::heads] / f.processors;
  const double share = std::min(p[efficiency], p[stream] * tasks);
  const double moved = w[scan::bytes] / (share * f.bandwidth);
  const double computed = w[scan::flops] / (p[rate] * f.peak[static_cast<std::size_t>(DataType::bf16)]);
  return p[launch] + p[chain] * w[scan::links] + p[each] * w[scan::sequences] + together(moved, computed);
}

/// Fused kernels need not write what they count as moved, and small inputs stay in caches.
double scan_roofline(const ServingFacts&, const Work&) { return 0; }

Correction::Sizes scan_sizes(const Work& w) { return {w[scan::positions], w[scan::sequences], w[scan::width]}; }

std::vector<ServingFamily::Parameter> scan_parameters(double launch) {
  return {
      {"launch", Unit::seconds, 5e-7, 2e-3, launch, "what all its kernels take at least"},
      {"chain", Unit::seconds, 1e-9, 1e-4, 3e-7, "of a chunk, or of a step's token, that waits for the one before it"},
      {"each", Unit::seconds, 1e-10, 1e-4, 1e-8, "of each sequence, where kernels take one after the other"},
      {"stream", Unit::plain, 0.1, 64, 2, "what one processor pulls, over its share of the memory's bandwidth"},
      {"efficiency", Unit::plain, 0.02, 4, 0.5, "share of the memory's bandwidth"},
      {"rate", Unit::plain, 0.005, 4, 0.3, "share of the 16-bit peak"}};
}

std::vector<std::vector<Correction::Axis>> scan_grids() {
  return {{{0, {1, 4, 16, 64, 256, 1024, 2048, 4096, 8192, 32768}},
           {1, {1, 2, 4, 8, 16, 64, 256}},
           {2, {128, 512, 2048, 4096, 6144, 8192, 12288, 20480}}}};
}

}  // namespace

const ServingFamily scan::kConvolution{"convolution",
                                       "the short causal convolution ahead of a mixer with a state",
                                       {"prompt", "prompt-qkv", "step", "mamba-prompt", "mamba-step"},
                                       scan_parameters(2e-6),
                                       {"positions", "sequences", "width"},
                                       scan_grids(),
                                       scan_structure,
                                       scan_roofline,
                                       scan_sizes};

const ServingFamily scan::kPrompt{"state-scan",
                                  "a mixer with a state over prompts, in chunks",
                                  {"gated-delta", "gated-delta-fused", "kda", "kda-fused", "mamba2", "lightning"},
                                  scan_parameters(2e-5),
                                  {"positions", "sequences", "width"},
                                  scan_grids(),
                                  scan_structure,
                                  scan_roofline,
                                  scan_sizes};

const ServingFamily scan::kStep{
    "state-step",
    "a step of a mixer's state by one token or few",
    {"gated-delta", "gated-delta-packed", "kda", "kda-packed", "kda-fused", "kda-gated", "mamba2", "lightning"},
    scan_parameters(4e-6),
    {"positions", "sequences", "width"},
    scan_grids(),
    scan_structure,
    scan_roofline,
    scan_sizes};

Asked asked(const ServedScan& s) {
  SIM_CHECK(s.sequences > 0 && s.positions > 0 && s.heads > 0, "a scan of nothing");
  const double tokens = s.sequences * s.positions, values = s.heads * s.value_dim, keys = s.key_heads * s.key_dim;
  const auto as_count = [](double size) { return std::max<std::int64_t>(1, std::llround(size)); };
  double flops = 0, bytes = 0;
  if (s.part == ServedScan::Part::convolution) {
    bytes = 2 * kScanElement * tokens * (values + 2 * keys);
  } else if (s.part == ServedScan::Part::step) {
    // The state is read once, and written behind every token, where some of them may be taken back.
    bytes = s.state_bytes * s.sequences * (1 + s.positions) * s.heads * s.key_dim * s.value_dim +
            kScanElement * tokens * (2 * values + 2 * keys);
  } else {
    Scan scan;
    scan.kind = s.kind;
    scan.batch = as_count(s.sequences);
    scan.positions = as_count(s.positions);
    scan.heads = as_count(s.heads);
    scan.key_heads = as_count(s.key_heads);
    scan.key_dim = as_count(s.key_dim);
    scan.value_dim = as_count(s.value_dim);
    const MixerWork work = work_of(scan);
    flops = work.flops;
    bytes = work.bytes;
  }
  const double links = s.part == ServedScan::Part::step ? s.positions : std::ceil(s.positions / kChunk);
  return {
      scan_family_of(s.part), s.variant, {s.sequences, s.positions, s.heads, values + 2 * keys, flops, bytes, links}};
}

namespace {

std::span<const std::size_t> kernels_for(const ServedScan& s, ServedPhase phase) {
  const ScanKind::Served& served = s.kind->served;
  const bool decode = phase == ServedPhase::decode;
  if (s.part == ServedScan::Part::convolution) return decode ? served.step_taps : served.taps;
  if (s.part == ServedScan::Part::prompt) return served.prompt;
  return s.positions > 1 ? served.check : served.step;
}

}  // namespace

ServedScan ServingKernels::as_run(ServedScan shape, ServedPhase phase) const {
  const auto& fitted = model_->fitted[scan_family_of(shape.part)];
  const std::span<const std::size_t> kernels = kernels_for(shape, phase);
  const auto measured =
      std::find_if(kernels.begin(), kernels.end(), [&](std::size_t variant) { return fitted[variant].has_value(); });
  shape.variant = measured != kernels.end() ? *measured : kernels.front();
  return shape;
}

double ServingKernels::seconds(const ServedScan& s) const {
  return s.sequences * s.positions * s.heads > 0 ? model_->seconds(asked(s)) : 0;
}

}  // namespace orrery::calibration
