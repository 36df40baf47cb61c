// The wiring of a cluster, written once by the generators. Twin switches (those with the same neighbours: the
// NVSwitches of a node, the spines of a pod, the core) are one group; all links between two groups are one bundle. The
// link tables and the router use groups and bundles as they are; graph.cc expands them into single switches and cables.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "topology/cluster.h"

namespace orrery::topology {

inline constexpr std::uint32_t kNoGroup = std::numeric_limits<std::uint32_t>::max();

/// All links between two groups. Every member of `low` has lanes / members(low) of them. Where the groups are cut into
/// `planes` (equal blocks of members), block p joins only block p; inside a block the lanes of a member are dealt out
/// evenly over the members of `high`, the ones left over beginning at member `first_extra`.
struct Bundle {
  std::uint32_t low = 0, high = 0;
  std::int32_t lanes = 1;
  Bandwidth lane_rate{};  // line rate
  Tier tier = Tier::node;
  std::int32_t planes = 1;
  std::int32_t first_extra = 0;
  double detour = 1.0;  // average times that a byte crosses such a link; capacity is divided by it
  /// What faults did to the lanes between one member of `low` and one of `high`: `lost` of them are gone, the others
  /// run at `share` of their rate.
  struct Damage {
    std::int32_t low = 0, high = 0;
    std::int32_t lost = 0;
    double share = 1.0;
  };
  std::vector<Damage> damage{};
};

class MeshRings;

/// One node. All nodes are alike; links to the network are not in here.
struct NodeWiring {
  struct Group {
    VertexKind kind = VertexKind::gpu;
    std::int32_t members = 1;
  };
  std::int32_t gpus = 0, nics = 0;
  std::vector<Group> groups;  // groups 0 .. gpus-1 are the GPUs
  std::vector<Bundle> bundles;
  bool switched = false;  // bundle g joins GPU g to the NVSwitches
  /// Where NICs share links with the traffic between GPUs: for each GPU and NIC (gpu * nics + nic) the directed links
  /// from the GPU to the NIC; else empty, and the way leads over pcie_of_gpu and pcie_of_nic.
  std::vector<std::vector<std::uint32_t>> nic_routes;
  /// Else: for each pair (from * gpus + to), the directed links (2 * bundle, + 1 from high to low) on the way.
  std::vector<std::vector<std::uint32_t>> routes;
  std::shared_ptr<const MeshRings> rings;               // of GPUs joined by direct links (mesh_rings.h)
  std::uint32_t first_nic = 0;                          // group of NIC 0
  std::vector<std::int32_t> nic_of_gpu;                 // the NIC that a GPU uses
  std::vector<std::int32_t> gpu_of_nic;                 // the GPU that feeds a NIC when a collective names the NIC
  std::vector<std::uint32_t> pcie_of_gpu, pcie_of_nic;  // bundles to the PCIe switch
};

/// Everything above the NICs: a forest of groups, children before parents; or, not `tree`, any graph: every group one
/// switch without a parent, every bundle a cable between two of them.
struct FabricWiring {
  struct Group {
    VertexKind kind = VertexKind::leaf;
    std::int32_t members = 1;
    std::uint32_t parent = kNoGroup;
    std::uint32_t up = 0;               // bundle to the parent
    std::int32_t apex_switches = 1;     // switches that a path crosses here when it turns around,
    std::int32_t transit_switches = 1;  // and when it passes through, in each direction
    /// > 0: no switch but a complete graph between the switches below (every two groups below joined by this many
    /// links).
    std::int32_t mesh_links = 0;
    std::string name;
  };
  bool tree = true;
  std::vector<Group> groups;
  std::vector<Bundle> bundles;
  std::vector<std::uint32_t> leaf_of_nic;  // node * nics + nic
};

/// Lanes between one member of `low` and one of `high`, less those that are lost.
std::int32_t lanes_between(const Bundle& bundle, std::int32_t low_members, std::int32_t high_members, std::int32_t low,
                           std::int32_t high);

/// Adds PCIe switches and `nics` NICs: the switches serve equal shares of the GPUs and NICs, and a NIC sits under its
/// GPU's switch. With fewer NICs than switches those without a NIC are left out.
void attach_nics(NodeWiring& wiring, const NodeSpec& spec, std::int64_t nics);

NodeWiring nvswitch_node(const NodeSpec& spec, std::int64_t gpus, std::int64_t nics);
NodeWiring mesh_node(const NodeSpec& spec, std::int64_t gpus, std::int64_t nics);
NodeWiring pcie_node(const NodeSpec& spec, std::int64_t gpus, std::int64_t nics);

/// Fills in which NIC a GPU uses and which GPU feeds a NIC.
void share_out_nics(NodeWiring& wiring, std::int64_t nics);
/// For each pair of groups, the directed links (2 * bundle, + 1 from high to low) of the best way: fewest links, then
/// the widest bottleneck, then the lowest numbers; there and back take the same way. Empty where there is none.
std::vector<std::vector<std::uint32_t>> best_routes(const NodeWiring& wiring);

/// A fat tree; rails are made of it. Throws UserError through `where` when `nodes` do not fit.
FabricWiring make_fat_tree(const FabricSpec& spec, std::int64_t nodes, const Settings& where);
FabricWiring make_rail_only(const FabricSpec& spec, std::int64_t nodes, const Settings& where);

/// The catalogue of nodes: name in YAML, kind, generator; that of fabrics is fabrics.h.
struct NodeGenerator {
  std::string name;
  NodeSpec::Kind kind;
  NodeWiring (*make)(const NodeSpec&, std::int64_t gpus, std::int64_t nics);
};
const std::vector<NodeGenerator>& node_generators();

}  // namespace orrery::topology
