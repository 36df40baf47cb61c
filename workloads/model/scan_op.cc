// A mixer with a state as kernels: a convolution and a scan in chunks, whose work calibration/scan.cc counts.
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

using calibration::Scan;
using calibration::ScanKernel;
using calibration::ScanKind;
using calibration::ScanPass;
using sim::real;

void write(const Scan& scan, const char* name, PieceWriter& writer) {
  const calibration::ScanWork work = calibration::work_of(scan);
  Kernel kernel{name, writer.device().scan(scan), false, work.flops, work.bytes, scan.dtype};
  kernel.launches = work.launches;
  writer.add(std::move(kernel));
}

void convolve(const ScanOp& op, ScanPass pass, const char* name, PieceWriter& writer) {
  if (op.channels == 0) return;
  Scan scan = op.scan;
  scan.kernel = ScanKernel::convolution;
  scan.channels = op.channels;
  scan.taps = op.taps;
  scan.pass = pass;
  write(scan, name, writer);
}

}  // namespace

void scan_forward(const ScanOp& op, PieceWriter& writer) {
  convolve(op, ScanPass::forward, "convolution", writer);
  write(op.scan, "scan", writer);
}

/// Mamba-2's is one function with its convolution, which keeps its input alone and runs it again
/// (state-spaces/mamba, ssd_combined.py, MambaSplitConv1dScanCombinedFn).
void scan_backward(const ScanOp& op, PieceWriter& writer) {
  if (op.scan.kind == ScanKind::mamba2) convolve(op, ScanPass::forward, "convolution again", writer);
  Scan scan = op.scan;
  scan.pass = ScanPass::backward;
  write(scan, "scan backward", writer);
  convolve(op, ScanPass::backward, "convolution backward", writer);
}

double model_flops(const ScanOp& op) {
  const Scan& s = op.scan;
  const double each = s.kind == ScanKind::mamba2 ? 7 : s.kind == ScanKind::lightning ? 5 : 8;
  return each * real(s.batch) * real(s.positions) * real(s.heads) * real(s.key_dim) * real(s.value_dim);
}

std::string text(const ScanOp& op) {
  const Scan& s = op.scan;
  return fmt::format("{} scan: {} x {} positions in chunks of {}, {} heads of {} over {} of keys of {}{}",
                     calibration::name_of(s.kind), s.batch, s.positions, s.chunk, s.heads, s.value_dim, s.key_heads,
                     s.key_dim,
                     op.channels > 0 ? fmt::format(", behind a convolution of {} channels", op.channels) : "");
}

}  // namespace orrery::workloads
