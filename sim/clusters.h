// Instances that belong together because they meet in communicators, for who divides a plan (sim/partition.h,
// sim/islands.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "sim/plan.h"

namespace orrery::sim {

/// Instances by communicator, as compressed rows.
struct Members {
  explicit Members(const Plan& plan) : begin(plan.communicators.size() + 1), member(plan.slots.size()) {
    for (const CommunicatorId c : plan.slots) ++begin[index(c) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
    for (std::uint32_t i = 0; i < plan.instances.size(); ++i) {
      for (const CommunicatorId c : plan.slots_of(InstanceId{i})) member[next[index(c)]++] = i;
    }
  }
  std::uint32_t count(std::uint32_t c) const { return begin[c + 1] - begin[c]; }
  std::span<const std::uint32_t> of(std::uint32_t c) const { return {member.data() + begin[c], count(c)}; }
  std::uint32_t communicators() const { return static_cast<std::uint32_t>(begin.size() - 1); }

  std::vector<std::uint32_t> begin, member;
};

/// Sets of instances that only grow together (Galler & Fischer, An improved equivalence algorithm, 1964).
class Clusters {
 public:
  explicit Clusters(std::uint32_t instances) : parent_(instances), size_(instances, 1), seen_(instances, 0) {
    std::iota(parent_.begin(), parent_.end(), 0u);
  }
  std::uint32_t root(std::uint32_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  std::uint32_t size(std::uint32_t i) { return size_[root(i)]; }
  /// Puts all together, unless they would be more than `most`.
  void join(std::span<const std::uint32_t> members, std::uint64_t most) {
    ++now_;
    std::uint64_t size = 0;
    for (const std::uint32_t i : members) {
      const std::uint32_t r = root(i);
      if (std::exchange(seen_[r], now_) != now_) size += size_[r];
      if (size > most) return;
    }
    for (const std::uint32_t i : members) unite(members.front(), i);
  }

  /// Puts the sets of two together.
  void unite(std::uint32_t a, std::uint32_t b) {
    a = root(a);
    b = root(b);
    if (a == b) return;
    if (size_[a] < size_[b]) std::swap(a, b);
    parent_[b] = a;
    size_[a] += size_[b];
  }

 private:
  std::vector<std::uint32_t> parent_, size_, seen_;
  std::uint32_t now_ = 0;
};

/// From the smallest up; of one size, in the order of their numbers.
inline std::vector<std::uint32_t> by_size(const Members& members) {
  std::vector<std::uint32_t> order(members.communicators());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return members.count(a) < members.count(b); });
  return order;
}

}  // namespace orrery::sim
