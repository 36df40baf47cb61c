// Lists by age.
#include "workloads/runs/serving/cache_tiers.h"

#include <algorithm>

namespace orrery::serving {

void CacheTiers::put(std::size_t tier, std::int32_t content) {
  if (tier == tiers_.size()) return;
  Level& level = tiers_[tier];
  if (const auto place = level.places.find(content); place != level.places.end()) {
    level.by_age.splice(level.by_age.end(), level.by_age, place->second);
    return;
  }
  ++level.use.written;
  level.by_age.push_back(content);
  level.places.emplace(content, std::prev(level.by_age.end()));
  if (std::ssize(level.places) <= level.contents) return;
  const std::int32_t oldest = level.by_age.front();
  level.by_age.pop_front();
  level.places.erase(oldest);
  ++level.use.evicted;
  put(tier + 1, oldest);
}

std::size_t CacheTiers::tier_of(std::int32_t content) const {
  const auto has = [&](const Level& level) { return level.places.count(content) > 0; };
  return static_cast<std::size_t>(std::find_if(tiers_.begin(), tiers_.end(), has) - tiers_.begin());
}

std::int64_t CacheTiers::found(std::span<const std::int32_t> contents) const {
  const auto missing = [&](std::int32_t content) { return tier_of(content) == tiers_.size(); };
  return std::find_if(contents.begin(), contents.end(), missing) - contents.begin();
}

CacheTiers::Read CacheTiers::read(std::span<const std::int32_t> contents, Time at) {
  Read read{found(contents), at};
  std::vector<std::int64_t> counts(tiers_.size(), 0);
  // The last of a prompt first, so that it is the first to go: what stays must be a beginning.
  for (std::int64_t i = read.contents; i-- > 0;) {
    const std::int32_t content = contents[static_cast<std::size_t>(i)];
    const std::size_t tier = tier_of(content);
    ++counts[tier];
    Level& level = tiers_[tier];
    level.by_age.splice(level.by_age.end(), level.by_age, level.places.at(content));
  }
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    if (counts[i] == 0) continue;
    Level& level = tiers_[i];
    const Time takes = counts[i] * level.read;
    level.free = std::max(level.free, at) + takes;
    level.use.read += counts[i];
    level.use.reading += takes;
    read.there = std::max(read.there, level.free + level.latency);
  }
  return read;
}

std::vector<TierUse> CacheTiers::use() const {
  std::vector<TierUse> all;
  for (const Level& level : tiers_) {
    all.push_back(level.use);
    all.back().left = std::ssize(level.places);
  }
  return all;
}

}  // namespace orrery::serving
