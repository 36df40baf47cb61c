// Times of hours to years, which a count of picoseconds in 64 bits does not hold: repairs, maintenance, whole runs.
#pragma once

#include "sim/settings.h"

namespace orrery::sim {

/// Seconds of a time with a unit from ps to years ("90 s", "3 h", "54 days", "5 years"; a year has 365 days). Throws
/// UserError for anything else, and for a time below zero or above 1e14 s.
double as_long_time(const Settings& value);

}  // namespace orrery::sim
