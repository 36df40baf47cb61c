// What a Cluster holds: the specs, the wiring, and the link tables compiled from it. Links of node n come first (n
// times node_links, then its bundles, then its NIC-to-leaf links), then those between switch groups; an even link goes
// up (from `low` to `high`), the odd one after it comes down.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/cluster.h"
#include "topology/wiring.h"

namespace orrery::topology {

/// A gigabyte of rows; a million GPUs need fewer.
inline constexpr std::uint64_t kMostLinks = 40'000'000;
/// Tells the hash of a switch's choice downwards from that of its choice upwards.
inline constexpr std::uint32_t kDown = 0x80000000U;

/// The single lanes of a bundle, for seeded ECMP: lane i joins low[i] to high[i]; sorted by low, then high.
struct Lanes {
  std::vector<std::int32_t> low, high;
  std::vector<std::uint32_t> from_high;        // lanes sorted by high
  std::vector<std::uint32_t> from_high_begin;  // members(high) + 1 offsets into it
};

struct Cluster::State {
  NodeSpec node;
  FabricSpec fabric;
  std::int64_t gpus = 0, gpus_per_node = 0, nodes = 0;
  NodeWiring inside;
  FabricWiring outside;

  sim::Table<LinkId, LinkInfo> links;
  std::uint32_t node_links = 0;           // per node, both directions
  std::vector<std::uint32_t> first_link;  // of each bundle between switch groups
  std::vector<double> collisions;         // expected collision factor of each bundle; 1 unless ecmp
  std::vector<Lanes> lanes;               // of each bundle; seeded ecmp only

  bool seeded() const { return fabric.routing == FabricSpec::Routing::ecmp && fabric.ecmp_seed.has_value(); }
  std::uint32_t nic_link(std::int64_t node_index, std::int64_t nic) const {
    return static_cast<std::uint32_t>(node_index) * node_links +
           2 * (static_cast<std::uint32_t>(inside.bundles.size()) + static_cast<std::uint32_t>(nic));
  }
  std::uint32_t leaf_of(std::int64_t node_index, std::int64_t nic) const {
    return outside.leaf_of_nic[static_cast<std::size_t>(node_index * inside.nics + nic)];
  }
  double nic_payload() const { return fabric.nic_rate.value() * fabric.efficiency; }
  /// Payload of a bundle between switch groups, without collisions.
  double payload(const Bundle& b) const { return b.lane_rate.value() * b.lanes * fabric.efficiency / b.detour; }

  /// Makes the wiring; throws UserError.
  void wire(const Settings& where);
  /// Makes the tables from the wiring.
  void compile();

  /// Adds the links from the NIC of one node to that of another and the switches' latency to `path`.
  void cross_fabric(std::int64_t node_from, std::int64_t nic_from, std::int64_t node_to, std::int64_t nic_to,
                    std::uint64_t flow, Path& path) const;
  Path between_nodes(std::int64_t gpu_from, std::int64_t nic_from, std::int64_t gpu_to, std::int64_t nic_to,
                     std::uint64_t flow) const;
  /// Switches on the way between two leaves.
  std::int32_t switches_between(std::uint32_t leaf_a, std::uint32_t leaf_b) const;
};

}  // namespace orrery::topology
