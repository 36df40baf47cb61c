// A mixer with a state as kernels: a convolution and a scan in chunks, whose work calibration/device/scan.cc counts.
// Model FLOPs are those of one position after the other, so that they do not hang on a kernel's chunks.
#include "workloads/model/scan_op.h"

#include <fmt/format.h>

#include "sim/real.h"

namespace orrery::workloads {

namespace {

using calibration::MixerKernel;
using calibration::Scan;
using calibration::ScanPass;
using sim::real;

MixerOp::Kernel kernel(const Scan& scan, const char* name) {
  return {name, scan.kernel, calibration::work_of(scan), scan.dtype, scan.kind};
}

double flops_step_by_step(const Scan& s) {
  return s.kind->flops_by_step * real(s.batch) * real(s.positions) * real(s.heads) * real(s.key_dim) *
         real(s.value_dim);
}

}  // namespace

MixerOp scan_op(const Scan& s, std::int64_t channels, std::int64_t taps) {
  Scan convolution = s, backward = s;
  convolution.kernel = MixerKernel::convolution;
  convolution.channels = channels;
  convolution.taps = taps;
  backward.pass = ScanPass::backward;
  MixerOp op;
  if (channels > 0) op.forward.push_back(kernel(convolution, "convolution"));
  op.forward.push_back(kernel(s, "scan"));
  if (channels > 0 && s.kind->with_convolution) op.backward.push_back(kernel(convolution, "convolution again"));
  op.backward.push_back(kernel(backward, "scan backward"));
  convolution.pass = ScanPass::backward;
  if (channels > 0) op.backward.push_back(kernel(convolution, "convolution backward"));
  op.flops = flops_step_by_step(s);
  op.text = fmt::format("{} scan: {} x {} positions in chunks of {}, {} heads of {} over {} of keys of {}{}",
                        s.kind->name, s.batch, s.positions, s.chunk, s.heads, s.value_dim, s.key_heads, s.key_dim,
                        channels > 0 ? fmt::format(", behind a convolution of {} channels", channels) : "");
  return op;
}

}  // namespace orrery::workloads
