// Random numbers without state to share: the n-th draw of a stream is a hash of (seed, stream, n), so that a campaign
// gives the same bytes whichever thread runs it, and so that two campaigns that differ in one cost meet the same
// failures (common random numbers).
#pragma once

#include <cmath>
#include <cstdint>

#include "sim/hash.h"

namespace orrery::campaign {

class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : key_(sim::hash_pair(seed, stream)) {}
  /// In (0, 1), of 53 bits.
  double uniform() { return (static_cast<double>(sim::mix64(key_ + kOdd * ++drawn_) >> 11) + 0.5) * 0x1p-53; }
  /// Of mean 1.
  double exponential() { return -std::log(uniform()); }

 private:
  static constexpr std::uint64_t kOdd = 0xd1342543de82ef95u;
  std::uint64_t key_;
  std::uint64_t drawn_ = 0;
};

}  // namespace orrery::campaign
