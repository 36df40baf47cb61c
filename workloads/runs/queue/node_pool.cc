// Nodes are searched one by one: a pass over ten thousand takes microseconds, and only jobs that fit make one.
#include "workloads/runs/queue/node_pool.h"

#include <algorithm>
#include <numeric>

#include "sim/error.h"
#include "sim/hash.h"

namespace orrery::queue {

namespace {

/// Free whole nodes by unit, those of a unit by number.
using Units = std::vector<std::vector<std::int32_t>>;

/// Numbers of `sizes` from the largest to the smallest, equal ones in order.
std::vector<std::size_t> largest_first(const std::vector<std::int64_t>& sizes) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  return order;
}

/// The smallest of `sizes` that is at least `least`; its number, or the number of sizes.
std::size_t tightest(const std::vector<std::int64_t>& sizes, std::int64_t least) {
  std::size_t best = sizes.size();
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] >= least && (best == sizes.size() || sizes[i] < sizes[best])) best = i;
  return best;
}

class Picker {
 public:
  Picker(const Layout& layout, Units units, std::int64_t nodes)
      : layout_(layout), units_(std::move(units)), left_(nodes) {
    for (const auto& unit : units_) in_unit_.push_back(static_cast<std::int64_t>(unit.size()));
    in_pod_.assign(static_cast<std::size_t>(*std::max_element(layout.pod_of.begin(), layout.pod_of.end())) + 1, 0);
    for (std::size_t u = 0; u < units_.size(); ++u) in_pod_[static_cast<std::size_t>(layout.pod_of[u])] += in_unit_[u];
  }

  Shares best_fit() {
    if (const std::size_t unit = tightest(in_unit_, left_); unit < units_.size()) {
      from_unit(unit);
    } else if (const std::size_t pod = tightest(in_pod_, left_); pod < in_pod_.size()) {
      from_pod(pod);
    } else {
      for (const std::size_t one : largest_first(in_pod_)) from_pod(one);
    }
    return std::move(shares_);
  }

  Shares spread() {
    const std::vector<std::size_t> order = largest_first(in_unit_);
    for (std::size_t turn = 0; left_ > 0; ++turn) {
      for (const std::size_t unit : order)
        if (turn < units_[unit].size()) add(units_[unit][turn]);
    }
    return std::move(shares_);
  }

 private:
  void add(std::int32_t node) {
    if (left_ == 0) return;
    shares_.push_back({node, layout_.gpus_per_node});
    --left_;
  }
  void from_unit(std::size_t unit) {
    for (const std::int32_t node : units_[unit]) add(node);
  }
  void from_pod(std::size_t pod) {
    for (const std::size_t unit : largest_first(in_unit_))
      if (static_cast<std::size_t>(layout_.pod_of[unit]) == pod) from_unit(unit);
  }

  const Layout& layout_;
  Units units_;
  std::int64_t left_;
  std::vector<std::int64_t> in_unit_, in_pod_;
  Shares shares_;
};

}  // namespace

NodePool::NodePool(const Layout& layout)
    : layout_(layout),
      free_(layout.unit_of.size(), layout.gpus_per_node),
      nodes_with_(static_cast<std::size_t>(layout.gpus_per_node) + 1, 0),
      free_gpus_(layout.gpus()) {
  nodes_with_.back() = static_cast<std::int64_t>(free_.size());
  std::vector<std::int64_t> in_unit(layout.pod_of.size(), 0), in_pod(layout.pod_of.size(), 0);
  for (const std::int32_t unit : layout.unit_of) {
    largest_unit_ = std::max(largest_unit_, ++in_unit[static_cast<std::size_t>(unit)]);
    largest_pod_ =
        std::max(largest_pod_, ++in_pod[static_cast<std::size_t>(layout.pod_of[static_cast<std::size_t>(unit)])]);
  }
}

std::int64_t NodePool::nodes_for(std::int64_t gpus) const {
  return (gpus + layout_.gpus_per_node - 1) / layout_.gpus_per_node;
}

NodePool::Counts NodePool::counts(const std::vector<char>& reserved) const {
  Counts counts(nodes_with_.size(), 0);
  for (std::size_t n = 0; n < free_.size(); ++n)
    if (may_use(n, reserved)) ++counts[static_cast<std::size_t>(free_[n])];
  return counts;
}

bool NodePool::holds(std::int64_t gpus, const Counts& counts) const {
  const std::int64_t each = layout_.gpus_per_node;
  std::int64_t nodes = 0;
  for (std::int64_t free = std::min(gpus, each); free <= each; ++free) nodes += counts[static_cast<std::size_t>(free)];
  return nodes >= (gpus < each ? 1 : nodes_for(gpus));
}

Shares NodePool::choose(std::int64_t gpus, Placement placement, std::uint64_t draw,
                        const std::vector<char>& reserved) const {
  if (gpus < layout_.gpus_per_node) return choose_part(static_cast<std::int32_t>(gpus), placement, draw, reserved);
  return choose_whole(nodes_for(gpus), placement, draw, reserved);
}

Shares NodePool::choose_part(std::int32_t gpus, Placement placement, std::uint64_t draw,
                             const std::vector<char>& reserved) const {
  std::vector<std::int32_t> nodes;
  for (std::size_t n = 0; n < free_.size(); ++n)
    if (free_[n] >= gpus && may_use(n, reserved)) nodes.push_back(static_cast<std::int32_t>(n));
  SIM_CHECK(!nodes.empty(), "no node has {} GPUs left", gpus);
  const auto fuller = [&](std::int32_t a, std::int32_t b) {
    return free_[static_cast<std::size_t>(a)] < free_[static_cast<std::size_t>(b)];
  };
  switch (placement) {
    case Placement::best_fit:
      return {{*std::min_element(nodes.begin(), nodes.end(), fuller), gpus}};
    case Placement::first_fit:
      return {{nodes.front(), gpus}};
    case Placement::spread:
      return {{*std::max_element(nodes.begin(), nodes.end(), fuller), gpus}};
    case Placement::random:
      return {{nodes[sim::mix64(draw) % nodes.size()], gpus}};
  }
  return {};
}

Shares NodePool::choose_whole(std::int64_t nodes, Placement placement, std::uint64_t draw,
                              const std::vector<char>& reserved) const {
  std::vector<std::int32_t> whole;
  for (std::size_t n = 0; n < free_.size(); ++n)
    if (free_[n] == layout_.gpus_per_node && may_use(n, reserved)) whole.push_back(static_cast<std::int32_t>(n));
  SIM_CHECK(static_cast<std::int64_t>(whole.size()) >= nodes, "{} nodes are free of {}", whole.size(), nodes);
  if (placement == Placement::best_fit || placement == Placement::spread) {
    Units units(layout_.pod_of.size());
    for (const std::int32_t node : whole)
      units[static_cast<std::size_t>(layout_.unit_of[static_cast<std::size_t>(node)])].push_back(node);
    Picker picker(layout_, std::move(units), nodes);
    return placement == Placement::best_fit ? picker.best_fit() : picker.spread();
  }
  if (placement == Placement::random) {
    for (std::size_t i = whole.size(); i > 1; --i) std::swap(whole[i - 1], whole[sim::hash_pair(draw, i) % i]);
  }
  Shares shares;
  for (std::int64_t i = 0; i < nodes; ++i)
    shares.push_back({whole[static_cast<std::size_t>(i)], layout_.gpus_per_node});
  return shares;
}

void NodePool::change(std::int32_t node, std::int32_t gpus) {
  std::int32_t& free = free_[static_cast<std::size_t>(node)];
  SIM_CHECK(free + gpus >= 0 && free + gpus <= layout_.gpus_per_node, "node {} would have {} free GPUs", node,
            free + gpus);
  --nodes_with_[static_cast<std::size_t>(free)];
  free += gpus;
  ++nodes_with_[static_cast<std::size_t>(free)];
  free_gpus_ += gpus;
}

void NodePool::take(const Shares& shares) {
  for (const Share& share : shares) change(share.node, -share.gpus);
}

void NodePool::give_back(const Shares& shares) {
  for (const Share& share : shares) change(share.node, share.gpus);
}

Span NodePool::span_of(const Shares& shares) const {
  if (shares.size() == 1) return Span::node;
  const auto unit_of = [&](const Share& share) { return layout_.unit_of[static_cast<std::size_t>(share.node)]; };
  const std::int32_t unit = unit_of(shares.front());
  bool one_unit = true, one_pod = true;
  for (const Share& share : shares) {
    one_unit = one_unit && unit_of(share) == unit;
    one_pod = one_pod && layout_.pod_of[static_cast<std::size_t>(unit_of(share))] ==
                             layout_.pod_of[static_cast<std::size_t>(unit)];
  }
  return one_unit ? Span::unit : one_pod ? Span::pod : Span::cluster;
}

std::int64_t NodePool::units_of(const Shares& shares) const {
  std::vector<std::int32_t> units;
  for (const Share& share : shares) units.push_back(layout_.unit_of[static_cast<std::size_t>(share.node)]);
  std::sort(units.begin(), units.end());
  return std::unique(units.begin(), units.end()) - units.begin();
}

bool NodePool::at_best(const Shares& shares) const {
  const auto nodes = static_cast<std::int64_t>(shares.size());
  const Span least = nodes == 1               ? Span::node
                     : nodes <= largest_unit_ ? Span::unit
                     : nodes <= largest_pod_  ? Span::pod
                                              : Span::cluster;
  return span_of(shares) == least && units_of(shares) == (nodes + largest_unit_ - 1) / largest_unit_;
}

}  // namespace orrery::queue
