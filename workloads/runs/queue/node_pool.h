// The GPUs of a cluster as a scheduler hands them out. A job of fewer GPUs than a node has shares a node; a larger one
// takes whole nodes, as many as hold it, so that GPUs of its last node may lie unused. Units are the nodes below one
// set of leaves, pods those that reach each other without the highest tier of switches. Left out: nodes that fail, GPUs
// of several kinds, which GPUs of a node a job gets.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery::queue {

/// How far apart the nodes of a job lie: in one node, below one set of leaves, in one pod, or beyond.
enum class Span : std::uint8_t { node, unit, pod, cluster };
inline constexpr std::size_t kSpans = 4;

/// Which nodes a job gets of those that are free.
///  - best_fit: of a small job the fullest node that holds it; of a larger one the fullest unit that does, else the
///    fullest pod, unit after unit with the emptiest first, else the emptiest pods.
///  - first_fit: the first nodes by number, whatever lies between them.
///  - spread: nodes of all units in turn, the emptiest first; a small job the emptiest node.
///  - random: any.
enum class Placement : std::uint8_t { best_fit, first_fit, spread, random };

/// Where nodes lie. Units are numbered from 0 and belong to one pod each.
struct Layout {
  std::int32_t gpus_per_node = 1;
  std::vector<std::int32_t> unit_of;  // by node
  std::vector<std::int32_t> pod_of;   // by unit
  std::int64_t gpus() const { return static_cast<std::int64_t>(unit_of.size()) * gpus_per_node; }
};

struct Share {
  std::int32_t node = 0, gpus = 0;
};
using Shares = std::vector<Share>;

class NodePool {
 public:
  explicit NodePool(const Layout& layout);
  /// Whether a job fits now.
  bool holds(std::int64_t gpus) const { return holds(gpus, nodes_with_); }
  /// How many nodes have so many GPUs free, by number of GPUs. `reserved`, by node: those that are left out.
  using Counts = std::vector<std::int64_t>;
  Counts counts(const std::vector<char>& reserved) const;
  /// Whether it fits into nodes counted so.
  bool holds(std::int64_t gpus, const Counts& counts) const;
  /// What the job would get; it must fit. `draw`: decides where placement is random. `reserved`: as in counts; empty:
  /// none.
  Shares choose(std::int64_t gpus, Placement placement, std::uint64_t draw,
                const std::vector<char>& reserved = {}) const;
  void take(const Shares& shares);
  void give_back(const Shares& shares);
  Span span_of(const Shares& shares) const;
  /// Units that the job touches.
  std::int64_t units_of(const Shares& shares) const;
  /// Whether the job could lie no nearer on an empty cluster: over no wider a span, in no fewer units.
  bool at_best(const Shares& shares) const;
  std::int64_t free_gpus() const { return free_gpus_; }
  std::int64_t nodes_for(std::int64_t gpus) const;

 private:
  Shares choose_part(std::int32_t gpus, Placement placement, std::uint64_t draw,
                     const std::vector<char>& reserved) const;
  Shares choose_whole(std::int64_t nodes, Placement placement, std::uint64_t draw,
                      const std::vector<char>& reserved) const;
  bool may_use(std::size_t node, const std::vector<char>& reserved) const {
    return reserved.empty() || reserved[node] == 0;
  }
  void change(std::int32_t node, std::int32_t gpus);

  const Layout& layout_;
  std::vector<std::int32_t> free_;  // GPUs, by node
  Counts nodes_with_;               // all of them
  std::int64_t free_gpus_ = 0;
  std::int64_t largest_unit_ = 0, largest_pod_ = 0;  // nodes
};

}  // namespace orrery::queue
