// A mixer with a state as kernels: a convolution and a scan in chunks, whose work calibration/device/scan.cc counts.
//
// Model FLOPs are those of one position after the other, so that they do not hang on a kernel's chunks: Mamba-2 as
// Megatron-LM counts it, 7 for each element of a head's state (NVIDIA/Megatron-LM, megatron/training/training.py,
// num_floating_point_operations, mamba_layer_flops); a delta rule 8 (there, of gated delta nets: keys times themselves,
// values times keys, the state's update, and queries times the state); lightning attention 5, an outer product, its
// decayed sum and what queries read.
#include "workloads/model/scan_op.h"

#include <fmt/format.h>

#include "sim/real.h"

namespace orrery::workloads {

namespace {

using calibration::MixerKernel;
using calibration::Scan;
using calibration::ScanKind;
using calibration::ScanPass;
using sim::real;

MixerOp::Kernel kernel(const Scan& scan, const char* name) {
  return {name, scan.kernel, calibration::work_of(scan), scan.dtype};
}

double flops_step_by_step(const Scan& s) {
  const double each = s.kind == ScanKind::mamba2 ? 7 : s.kind == ScanKind::lightning ? 5 : 8;
  return each * real(s.batch) * real(s.positions) * real(s.heads) * real(s.key_dim) * real(s.value_dim);
}

}  // namespace

/// Mamba-2's is one function with its convolution, which keeps its input alone and runs it again
/// (state-spaces/mamba, ssd_combined.py, MambaSplitConv1dScanCombinedFn).
MixerOp scan_op(const Scan& s, std::int64_t channels, std::int64_t taps) {
  Scan convolution = s, backward = s;
  convolution.kernel = MixerKernel::convolution;
  convolution.channels = channels;
  convolution.taps = taps;
  backward.pass = ScanPass::backward;
  MixerOp op;
  if (channels > 0) op.forward.push_back(kernel(convolution, "convolution"));
  op.forward.push_back(kernel(s, "scan"));
  if (channels > 0 && s.kind == ScanKind::mamba2) op.backward.push_back(kernel(convolution, "convolution again"));
  op.backward.push_back(kernel(backward, "scan backward"));
  convolution.pass = ScanPass::backward;
  if (channels > 0) op.backward.push_back(kernel(convolution, "convolution backward"));
  op.flops = flops_step_by_step(s);
  op.text = fmt::format("{} scan: {} x {} positions in chunks of {}, {} heads of {} over {} of keys of {}{}",
                        calibration::name_of(s.kind), s.batch, s.positions, s.chunk, s.heads, s.value_dim, s.key_heads,
                        s.key_dim, channels > 0 ? fmt::format(", behind a convolution of {} channels", channels) : "");
  return op;
}

}  // namespace orrery::workloads
