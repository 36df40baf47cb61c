// A mixer's scan as an operation of a layer.
#pragma once

#include "workloads/model/layer.h"

namespace orrery::workloads {

/// `scan`: the chunks, forward, of this rank's heads, behind a convolution of so many taps over `channels`; 0: none.
MixerOp scan_op(const calibration::Scan& scan, std::int64_t channels, std::int64_t taps);

}  // namespace orrery::workloads
