// The sections `scans` and `sparse` of a profile from measured kernels of Python's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "calibration/measure/samples.h"

namespace orrery::calibration {

/// One sample of a kernel: what it does, and FLOP/s of the type that it multiplies; 0: it multiplies nothing.
struct MixerSample {
  MixerWork work;
  double peak = 0, seconds = 0;
};
/// Of samples of one kernel. bandwidth: bytes/s.
MixerRates fit_mixer(const std::vector<MixerSample>& samples, double bandwidth);
/// FLOP/s of a type's products; 0: the device has none.
using PeakOf = std::function<double(DataType)>;
/// The sections `scans` and `sparse`; empty without samples. elsewhere: whence kernels without samples come.
std::string scans_section(const Samples& samples, double bandwidth, const PeakOf& peak, const std::string& elsewhere);
std::string sparse_section(const Samples& samples, double bandwidth, const PeakOf& peak, const std::string& elsewhere);

}  // namespace orrery::calibration
