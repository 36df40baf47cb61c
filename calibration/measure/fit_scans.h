// The section `scans` of a profile from measured scans.
#pragma once

#include <string>
#include <vector>

#include "calibration/measure/samples.h"

namespace orrery::calibration {

/// Of samples of one kernel. bandwidth: bytes/s; peak: FLOP/s of 16 bits.
MixerRates fit_mixer(const std::vector<ScanSample>& samples, double bandwidth, double peak);
/// Empty without samples. elsewhere: whence kernels without samples come.
std::string scans_section(const Samples& samples, double bandwidth, double peak, const std::string& elsewhere);

}  // namespace orrery::calibration
