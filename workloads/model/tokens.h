// What a pass is asked to compute: groups of sequences with as many fresh tokens on as many that earlier passes left in
// a cache. A training micro-batch is {micro, seq, 0}, packed documents {n, document, 0}, decoding {n, 1, cached}, a
// chunk of a prompt {1, chunk, prefix}.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace orrery::workloads {

struct TokenGroup {
  std::int64_t sequences = 1, fresh = 1, cached = 0;
  bool operator==(const TokenGroup&) const = default;
};

/// Pairs of a query and a key that it sees, of one sequence: a query sees itself, what is fresh ahead of it and what is
/// cached, of these at most the last `window`; 0: all.
inline double pairs(const TokenGroup& group, std::int64_t window = 0) {
  const auto fresh = static_cast<double>(group.fresh), cached = static_cast<double>(group.cached);
  if (window <= 0 || group.cached + group.fresh <= window) return fresh * cached + fresh * (fresh + 1) / 2;
  // The first queries see fewer than the window: those at positions below it.
  const double growing = static_cast<double>(std::clamp<std::int64_t>(window - group.cached, 0, group.fresh));
  return growing * cached + growing * (growing + 1) / 2 + (fresh - growing) * static_cast<double>(window);
}

struct PassTokens {
  std::vector<TokenGroup> groups;
  std::int64_t sampled = 0;  // tokens whose next one is drawn: rows of the head

  std::int64_t tokens() const {
    std::int64_t sum = 0;
    for (const TokenGroup& group : groups) sum += group.sequences * group.fresh;
    return sum;
  }
  double pairs(std::int64_t window = 0) const {
    double sum = 0;
    for (const TokenGroup& group : groups)
      sum += static_cast<double>(group.sequences) * workloads::pairs(group, window);
    return sum;
  }
};

}  // namespace orrery::workloads
