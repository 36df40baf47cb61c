// Counts in formulas of reals.
#pragma once

#include <cstdint>

namespace orrery::sim {

/// A count as a real number, exact up to 2^53; warnings refuse to let integers turn into doubles unsaid.
constexpr double real(std::int64_t count) { return static_cast<double>(count); }

}  // namespace orrery::sim
