// Time of a campaign: whole picoseconds, as in a step, in 128 bits, as 64 end after 106 days. Sums are exact, so that
// every picosecond of a campaign is in exactly one class.
#pragma once

#include <cmath>
#include <cstdint>

#include "sim/units.h"

namespace orrery::campaign {

using Picoseconds = __int128;
using Elapsed = sim::Quantity<struct ElapsedTag, Picoseconds>;

/// The nearest picosecond for times below a second, for longer ones as near as a double is; at most 3e18 years.
inline Elapsed elapsed(double seconds) { return Elapsed(static_cast<Picoseconds>(std::round(seconds * 1e12))); }
inline Elapsed elapsed(sim::Duration step) { return Elapsed(step.value()); }
inline double to_seconds(Elapsed time) { return static_cast<double>(time.value()) / sim::kPicosecondsPerSecond; }

/// Later than everything that a campaign holds: 1e14 s in picoseconds.
inline constexpr Elapsed kNoTime{static_cast<Picoseconds>(100'000'000'000'000'000) * 1'000'000'000};

}  // namespace orrery::campaign
