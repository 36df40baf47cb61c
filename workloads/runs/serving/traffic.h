// Traffic that is not a trace but a description: rates, lengths, prefixes that prompts share. Draws are hashes of
// (seed, what is drawn, request), so that the same description is the same trace, and a longer one begins with it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "workloads/runs/serving/trace.h"

namespace orrery::serving {

enum class Arrivals : std::uint8_t { poisson, gamma, constant };
/// Lengths: all alike, uniform between two, or log-normal.
enum class Spread : std::uint8_t { constant, uniform, lognormal };

struct Length {
  Spread spread = Spread::constant;
  double mean = 1;
  double low = 1, high = 1;  // uniform
  double variation = 0;      // lognormal: standard deviation over mean
  double most = 1e9;
};

/// Prompts begin with one of `groups` texts of `tokens` tokens, at equal shares.
struct Prefix {
  std::int64_t tokens = 0, groups = 1;
};

/// Users of an open loop come back: each asks so many times, `gap` seconds apart in the mean (exponential), and sends
/// what was said before along. Blocks of that are found in a cache, but for those of the answer before, which a replica
/// here does not keep.
struct Session {
  Length turns;
  double gap = 0;
  bool any() const { return gap > 0; }
};

struct Traffic {
  // Open loop.
  double rate = 0;  // requests a second
  Arrivals arrivals = Arrivals::poisson;
  double burstiness = 1;  // gamma: its shape; 1 is Poisson, less comes in bursts
  double duration = 0;    // seconds
  /// Of the rate, each for an equal part of the duration: loads that rise and fall.
  std::vector<double> levels;
  // Closed loop.
  std::int64_t concurrency = 0;
  std::int64_t requests = 0;  // of either
  std::int64_t warm_up = 0;
  Length input, output;
  Prefix prefix;
  Session session;
  std::vector<double> priorities;  // shares of requests, of the most urgent first; empty: all alike
  std::uint64_t seed = 1;
};

inline constexpr std::int64_t kMostRequests = 20'000'000;
/// Blocks of all that is said in sessions.
inline constexpr std::int64_t kMostContents = 200'000'000;

/// `block_tokens`: of the cache, in which prefixes are shared.
Trace trace_of(const Traffic& traffic, std::int64_t block_tokens);

}  // namespace orrery::serving
