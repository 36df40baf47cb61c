// What a run of `orrery calibrate` says of the machine beside its GPU: sections `host` and `interference` of a profile,
// the rate of the link to the host's memory, and facts for the reader. Pure: no files.
#pragma once

#include <string>

#include "calibration/measure/samples.h"

namespace orrery::calibration {

/// Empty where nothing of them was measured.
std::string host_sections(const Samples& samples);
/// The section `node` (empty: all inherited) with the rate of the link to the host, where large copies were measured.
std::string with_host_link(std::string node, const Samples& samples);
/// What no section holds, as comments.
std::string facts_text(const Samples& samples);

}  // namespace orrery::calibration
