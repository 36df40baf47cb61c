// Tiers of a cache below a replica's GPUs: host memory, disks. Content that leaves the GPUs' blocks, or all that comes
// to be in them, is written to the first tier; what a tier has no room for goes to the next, the least recently used
// first; what the last has no room for is forgotten. A request whose prompt begins with content that lies in tiers
// has it read while it waits, one request after the other at a tier's rate, and is seen by the scheduler once it is
// there (SGLang's HiCache, managers/cache_controller.py; vLLM's offloading connector and LMCache read likewise before a
// prompt is scheduled). Left out: writes that hold up reads (buses carry both ways; what was written is reported),
// tiers that several replicas share, and the choice to compute what would be read more slowly.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "workloads/runs/serving/trace.h"

namespace orrery::serving {

/// When content is written below: as it leaves the GPUs, or as soon as it is computed.
enum class TierWrite : std::uint8_t { on_eviction, through };

struct Tier {
  std::string name;
  std::int64_t contents = 0;   // that it holds
  Time read = 0, latency = 0;  // of one content; of the first byte of a request's
};

/// What came and went, in contents. What was written is what was evicted and what is left.
struct TierUse {
  std::int64_t written = 0, read = 0, evicted = 0, left = 0;
  Time reading = 0;
};

class CacheTiers {
 public:
  explicit CacheTiers(std::span<const Tier> tiers) : tiers_(tiers.begin(), tiers.end()) {}

  /// Content comes from above.
  void put(std::int32_t content) { put(0, content); }
  /// How many of these, from the first on, lie in any tier.
  std::int64_t found(std::span<const std::int32_t> contents) const;
  /// Reads those from `at` on, and when they are there.
  struct Read {
    std::int64_t contents = 0;
    Time there = 0;
  };
  Read read(std::span<const std::int32_t> contents, Time at);
  std::vector<TierUse> use() const;

 private:
  struct Level : Tier {
    explicit Level(const Tier& tier) : Tier(tier) {}
    std::list<std::int32_t> by_age;  // the oldest first
    std::unordered_map<std::int32_t, std::list<std::int32_t>::iterator> places;
    Time free = 0;  // to read
    TierUse use;
  };
  void put(std::size_t tier, std::int32_t content);
  /// The first tier that has it; their number where none does.
  std::size_t tier_of(std::int32_t content) const;

  std::vector<Level> tiers_;
};

}  // namespace orrery::serving
