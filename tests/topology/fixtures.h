// Clusters that several tests build.
#pragma once

#include <string>

#include "sim/settings.h"
#include "topology/cluster.h"
#include "topology/fabrics.h"

namespace orrery::topology {

inline sim::Settings nowhere() { return sim::Settings::mapping({"test", 1, 1}); }

inline NodeSpec a100_node() {
  NodeSpec node;
  node.latency = sim::microseconds(1);
  return node;  // its defaults: 6 chips, 12 links, 300 GB/s, 32 GB/s PCIe, 4 PCIe switches
}

inline NodeSpec h100_node() {
  NodeSpec node = a100_node();
  node.switches = 4;
  node.links = 18;
  node.rate = Bandwidth(450e9);
  node.pcie = Bandwidth(64e9);
  return node;
}

inline FabricSpec fat_tree_spec() {
  FabricSpec fabric;
  fabric.name = "test";
  fabric.kind = &fabrics::fat_tree;
  fabric.efficiency = 0.95;
  fabric.message.latency = sim::microseconds(2);
  fabric.switches.latency = sim::microseconds(0.5);
  return fabric;
}

/// 64x 400G switches; 64 servers of 8x 200G under one set of 8 leaves.
inline FabricSpec tomahawk() {
  FabricSpec fabric = fat_tree_spec();
  fabric.routes.policy = FabricSpec::Routing::ecmp;
  fabric.tree.unit_nodes = 64;
  return fabric;
}

/// 64x 400G switches; 32 nodes of 8x 400G under one set of 8 leaves.
inline FabricSpec ndr() {
  FabricSpec fabric = fat_tree_spec();
  fabric.nic_rate = Bandwidth(50e9);
  return fabric;
}

/// Switches of 4 ports: two nodes of two NICs to a unit, one unit to a pod, at most four pods.
inline FabricSpec tiny() {
  FabricSpec fabric = fat_tree_spec();
  fabric.nics = 2;
  fabric.nic_rate = fabric.switches.uplink_rate = Bandwidth(10e9);
  fabric.switches.radix = 4;
  fabric.tree.unit_nodes = 2;
  return fabric;
}

inline Cluster make(const NodeSpec& node, const FabricSpec& fabric, std::int64_t nodes) {
  return Cluster(node, fabric, nodes * node.gpus, node.gpus, nowhere());
}

inline std::int64_t count(const Cluster::Description& d, const std::string& what) {
  for (const auto& row : d.vertices) {
    if (row.what == what) return row.count;
  }
  return 0;
}

inline std::int64_t links(const Cluster::Description& d, Tier tier) {
  for (const auto& row : d.tiers) {
    if (row.tier == tier) return row.links;
  }
  return 0;
}

}  // namespace orrery::topology
