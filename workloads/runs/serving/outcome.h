// What became of the requests, and what the replicas did meanwhile: columns.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "workloads/runs/serving/cache_tiers.h"

namespace orrery::serving {

/// Of each request; kNever where it did not come so far.
struct Served {
  Time arrival = 0, begun = kNever, first = kNever, last = kNever;  // begun: left the queue for the first time
  std::int32_t replica = 0, preemptions = 0;
  bool refused = false;      // needs more than the whole cache, or
  bool turned_away = false;  // found too many that wait
  bool lost = false;         // with a replica that failed
};

/// Weights by size, in classes each half a per cent wider than the last: quantiles of what is too much to keep.
class LogHistogram {
 public:
  void add(double value, double weight) {
    counts_[of(value)] += weight;
    total_ += weight;
  }
  void add(const LogHistogram& other) {
    for (std::size_t i = 0; i < kClasses; ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
  }
  double total() const { return total_; }
  double quantile(double share) const {
    double left = share * total_;
    for (std::size_t i = 0; i < kClasses; ++i) {
      left -= counts_[i];
      if (left <= 0 && counts_[i] > 0) return kLeast * std::exp((static_cast<double>(i) + 0.5) * kStep);
    }
    return 0;
  }

 private:
  static constexpr std::size_t kClasses = 6000;
  static constexpr double kLeast = 1e6, kStep = 0.005;  // a microsecond, in picoseconds
  static std::size_t of(double value) {
    const double at = std::log(std::max(1.0, value / kLeast)) / kStep;
    return std::min(kClasses - 1, static_cast<std::size_t>(at));
  }
  std::vector<double> counts_ = std::vector<double>(kClasses, 0);
  double total_ = 0;
};

/// Iterations that are alike: sums over them.
struct Work {
  double iterations = 0, decodes = 0, keys = 0, pieces = 0, fresh = 0, pairs = 0, sampled = 0;
  Time time = 0;
  Work& operator+=(const Work& other) {
    iterations += other.iterations;
    decodes += other.decodes;
    keys += other.keys;
    pieces += other.pieces;
    fresh += other.fresh;
    pairs += other.pairs;
    sampled += other.sampled;
    time += other.time;
    return *this;
  }
};

/// A replica as it was for a stretch of time.
struct Sample {
  Time from = 0;
  std::int32_t running = 0, waiting = 0;
  std::int64_t blocks = 0;
};

/// What began within an hour.
struct Hour {
  std::vector<Work> decode, mixed;  // as those of the outcome
  double output_tokens = 0;
};

/// A replica's GPUs, from when they are asked for until they are given back.
struct Held {
  std::int32_t replica = 0;
  Time from = 0, until = kNever;
};

/// What happens to a fleet that changes.
struct FleetEvent {
  enum class What : std::uint8_t { asked_for, ready, drains, given_back, fails, noticed };
  Time at = 0;
  What what = What::ready;
  std::int32_t replica = 0;
};
std::string_view name_of(FleetEvent::What what);

struct Outcome {
  std::vector<Served> requests;
  LogHistogram between_tokens;  // picoseconds from one token of a request to its next
  std::vector<Work> decode;     // by sequences
  std::vector<Work> mixed;      // by tokens, in classes of kMixedClass
  static constexpr std::int64_t kMixedClass = 128;
  std::vector<std::vector<Sample>> samples;  // of each replica
  Time busy = 0, end = 0;                    // summed over replicas; of the last
  std::int64_t preemptions = 0, prompt_tokens = 0, found_tokens = 0, output_tokens = 0;
  double block_time = 0;  // blocks in use x picoseconds, over all replicas
  std::int64_t peak_blocks = 0;
  std::vector<Hour> hours;  // from the trace's beginning; what comes after a year is of the last
  static constexpr std::size_t kMostHours = 8784;
  std::vector<Held> held;                   // of a fleet that changes
  std::vector<FleetEvent> events;           // likewise, by time
  std::int64_t lost_tokens = 0, moved = 0;  // written and lost with a replica; requests that went on on another
  double first_time = 0, firsts = 0;        // from arrivals to first tokens, picoseconds; how many these are
  std::vector<TierUse> tiers;               // of all replicas
};

}  // namespace orrery::serving
