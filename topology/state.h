// What a Cluster holds: the specs, the wiring, and the link tables compiled from it. Links of node n come first (n
// times node_links, then its bundles, then its NIC-to-leaf links), then those between switch groups; an even link goes
// up (from `low` to `high`), the odd one after it comes down.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "topology/cluster.h"
#include "topology/mesh_routes.h"
#include "topology/wiring.h"

namespace orrery::topology {

/// A gigabyte of rows; a million GPUs need fewer.
inline constexpr std::uint64_t kMostLinks = 40'000'000;
/// Tells the hash of a switch's choice downwards from that of its choice upwards.
inline constexpr std::uint32_t kDown = 0x80000000U;

/// The single lanes of a bundle, where a flow takes one path: lane i joins low[i] to high[i]; sorted by low, then high.
struct Lanes {
  std::vector<std::int32_t> low, high;
  std::vector<std::uint32_t> from_low_begin;   // members(low) + 1 offsets
  std::vector<std::uint32_t> from_high;        // lanes sorted by high
  std::vector<std::uint32_t> from_high_begin;  // members(high) + 1 offsets into it
};

struct Cluster::State {
  NodeSpec node;
  FabricSpec fabric;
  std::int64_t gpus = 0, gpus_per_node = 0, nodes = 0;
  std::vector<OtherNodes> others;  // the last nodes, in this order
  NodeWiring inside;
  FabricWiring outside;

  LinkTable links;
  std::uint32_t node_links = 0;  // per node, both directions
  /// Of each bundle between switch groups.
  struct ByBundle {
    std::vector<std::uint32_t> first_link;
    std::vector<double> collisions;  // expected collision factor; 1 unless ecmp
    std::vector<Lanes> lanes;        // where a flow takes one path, trees only
  } by_bundle;
  std::unique_ptr<MeshRoutes> mesh;          // where the fabric is no tree
  std::vector<std::uint32_t> number_of_nic;  // d_mod_k: destinations counted leaf by leaf; node * nics + nic

  Faults faults;
  struct Connected {
    std::vector<bool> nic_lost;  // node * nics + nic; empty where none is
    /// Of each group the root of its tree, or its component: NICs reach each other where these agree.
    std::vector<std::uint32_t> root;
    bool one_piece = true;  // all NICs reach each other
  } connected;

  bool seeded() const {
    return fabric.routes.policy == FabricSpec::Routing::ecmp && fabric.routes.ecmp_seed.has_value();
  }
  /// Flows take one path each, so that links are single lanes.
  bool single_path() const { return seeded() || fabric.routes.policy == FabricSpec::Routing::d_mod_k; }
  std::uint32_t nic_link(std::int64_t node_index, std::int64_t nic) const {
    return static_cast<std::uint32_t>(node_index) * node_links +
           2 * (static_cast<std::uint32_t>(inside.bundles.size()) + static_cast<std::uint32_t>(nic));
  }
  std::uint32_t leaf_of(std::int64_t node_index, std::int64_t nic) const {
    return outside.leaf_of_nic[static_cast<std::size_t>(node_index * inside.nics + nic)];
  }
  /// Place of a node's kind: 0 for the first, else 1 + its row of `others`.
  std::size_t kind_of(std::int64_t node_index) const;
  const NodeSpec& spec_of(std::int64_t node_index) const {
    const std::size_t kind = kind_of(node_index);
    return kind == 0 ? node : others[kind - 1].node;
  }
  Bandwidth nic_rate_of(std::int64_t node_index) const {
    const std::size_t kind = kind_of(node_index);
    return kind == 0 ? fabric.nic_rate : others[kind - 1].nic_rate;
  }
  double nic_payload(Bandwidth line) const { return line.value() * fabric.efficiency; }
  /// Payload that comes out of a NIC of the node.
  double nic_feed(std::int64_t node_index) const {
    return std::min(nic_payload(nic_rate_of(node_index)), spec_of(node_index).pcie.value());
  }
  /// Payload of one undamaged lane between switch groups, less what others' traffic takes.
  double lane_payload(const Bundle& b) const {
    return b.lane_rate.value() * fabric.efficiency / b.detour *
           (1 - faults.background[static_cast<std::size_t>(b.tier)]);
  }
  /// Payload of a bundle between switch groups towards its high or its low end, without collisions.
  double payload(const Bundle& b, bool upwards) const;
  bool reach(std::uint32_t leaf_a, std::uint32_t leaf_b) const {
    return connected.one_piece || connected.root[leaf_a] == connected.root[leaf_b];
  }
  bool lost(std::int64_t node_index, std::int64_t nic) const {
    return !connected.nic_lost.empty() && connected.nic_lost[static_cast<std::size_t>(node_index * inside.nics + nic)];
  }
  /// The NIC of a GPU, passing over lost ones.
  std::int64_t nic_of(std::int64_t node_index, std::int64_t gpu_in_node) const;

  /// Makes the wiring; throws UserError.
  void wire(const Settings& where);
  /// The inside of a node of this spec.
  NodeWiring wired(const NodeSpec& spec) const;
  /// Takes from the wiring what faults took; throws UserError where one names nothing.
  void damage_wiring();
  /// Makes the tables from the wiring.
  void compile();
  void compile_tree();
  void compile_mesh();
  /// Slows down single links and links inside nodes, which all nodes' wiring shares.
  void damage_links();
  /// Finds out which NICs reach each other; throws UserError where two nodes have no way.
  void check_connected(const Settings& where);

  /// A way between two NICs, by node and NIC.
  struct Ends {
    std::int64_t node_from, nic_from, node_to, nic_to;
  };
  /// Adds the links from one NIC's switch to another's, and the switches' latency, to `path`.
  void cross_fabric(const Ends& ends, std::uint64_t flow, Path& path) const;
  void cross_tree(const Ends& ends, std::uint64_t flow, Path& path) const;
  void cross_mesh(const Ends& ends, std::uint64_t flow, Path& path) const;
  /// From a GPU to a GPU of another node by these NICs, which reach each other.
  void between_nics(std::int64_t gpu_from, std::int64_t gpu_to, const Ends& ends, std::uint64_t flow, Path& path) const;
  /// Which NICs two GPUs of different nodes talk by, and whether a GPU beside the sender or the receiver passes it on.
  struct Relay {
    Ends ends;
    std::int64_t gpu_from, gpu_to;
  };
  Relay relay(std::int64_t gpu_from, std::int64_t gpu_to) const;
  /// Adds the links between two GPUs of one node.
  void inside_node(std::int64_t gpu_from, std::int64_t gpu_to, Path& path) const;
  /// Links between a GPU and a NIC of its node.
  std::int32_t hops_to_nic(std::int64_t gpu, std::int64_t nic) const;
  /// From NIC to NIC.
  Cluster::Way way_of_switches(std::uint32_t leaf_a, std::uint32_t leaf_b) const;
  /// What separates the choices of the flow's path at one group of switches; below `choices`.
  std::size_t pick(std::uint64_t key, std::uint32_t group, std::size_t member, std::size_t choices) const;
  std::uint64_t key_of(const Ends& ends, std::uint64_t flow) const;
  /// Whether two leaves have a path of single lanes left.
  bool has_lanes(std::uint32_t leaf_a, std::uint32_t leaf_b) const;
};

/// The groups from two leaves up to the first common one.
struct Climb {
  std::uint32_t from[4], to[4];  // from[0], to[0]: the leaves; the common group is not in them
  std::uint32_t from_size = 0, to_size = 0;
  std::uint32_t apex = kNoGroup;
};
Climb climb(const FabricWiring& wiring, std::uint32_t leaf_a, std::uint32_t leaf_b);

/// Lanes of a bundle that are left.
std::int32_t lanes_left(const Bundle& bundle);

}  // namespace orrery::topology
