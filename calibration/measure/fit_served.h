// The section `serving` of a profile from what a run of `orrery calibrate` measured: kernels of inference engines, in
// the form of calibration/serving/. Pure: no files.
#pragma once

#include <string>

#include "calibration/measure/fit_profile.h"

namespace orrery::calibration {

/// With its key; empty where nothing was measured that an engine runs. `device` carries the data sheet; `streaming`, at
/// what rate a cast moves its bytes. A kernel is written for an engine where the chip's document has none of that
/// engine, or where it is the one that the engine runs: the vendor's products of 16 bits, and PyTorch's
/// FlashAttention-2 where engines have that too (sm_80 to sm_89). The others stay as they are there, and the section
/// says which.
std::string served_section(const DeviceFacts& facts, const Samples& samples, const DeviceProfile::Model& device,
                           const StreamingModel& streaming, const BaseProfile* base);

/// Bytes a second of the fastest of them that moves more than so many bytes; 0 where there is none.
double fastest_served(const Samples& samples, double from_bytes);

}  // namespace orrery::calibration
