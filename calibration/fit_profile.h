// A device profile fitted to what was measured on the device: the text of a profile YAML.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "calibration/profile.h"
#include "calibration/samples.h"

namespace orrery::calibration {

struct DeviceFacts {
  std::string name, description;
  std::int64_t processors = 0;
  double memory_bytes = 0, memory_bandwidth = 0, boost_hz = 0;  // bytes, bytes/s, Hz
  std::map<DataType, double> peak_flops;                        // dense, FLOP/s
  double nvlink_bandwidth = 0;                                  // bytes/s and direction; 0: none
  std::vector<std::string> notes;
};

/// The text of a profile fitted to `samples`; what the samples lack is taken from `base` (provenance "transferred from
/// <name>") or left out where it is optional.
std::string fit_profile(const DeviceFacts& facts, const Samples& samples, const DeviceProfile* base);

}  // namespace orrery::calibration
