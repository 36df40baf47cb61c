// A cluster as a graph: nodes of GPUs, their NICs, and the switches between them. A generator (one file each:
// nvswitch_node, mesh_node, pcie_node; fat_tree, rail_only, single_switch, dragonfly, torus, slim_fly, edge_list)
// writes the wiring once, with twin switches as groups (wiring.h); from it come both the flat link tables with the
// router that answers "which links does traffic from GPU a to GPU b load" (made at once, in milliseconds) and the graph
// of every single switch and link (graph.h, made on demand for descriptions and pictures).
//
// Where the groups form a tree (a fat tree is one, once its twins are contracted) a route climbs to the lowest common
// group and descends. A torus or a list of edges is no tree: its routes follow shortest paths (mesh_routes.h).
//
// Routing policies:
//  - adaptive: traffic spreads over all shortest paths as their capacity allows. Parallel links between two groups of
//    twin switches (same neighbours) act as one bundle of their summed capacity, so a route names bundles.
//  - spray: every switch deals packets evenly over its next links without looking further. In an intact tree the same
//    as adaptive; where links are lost or slow, the weakest of the ways bounds them all.
//  - ecmp with a seed: every flow is hashed onto one of the shortest paths, link by link; collisions are real. Of
//    several flows per NIC (NCCL's channels, a queue pair each) each carries an equal share, as a ring's channels do,
//    and the slowest sets the pace.
//  - ecmp without a seed: the expectation over seeds; bundles whose capacity is divided by the expected
//    collision factor of a full load (balls into bins), which keeps symmetric ranks symmetric.
//  - d_mod_k: every switch picks the link whose number is the destination's modulo the links there (Zahavi, Fat-tree
//    routing and node ordering providing contention free traffic for MPI global collectives, JPDC 2012).
//
// Two NICs that no switches join (the rails of a rail-only fabric, or after a failure) talk through the node: over
// NVLink to a GPU whose NIC has a way, as NCCL's PXN does. A NIC that has lost its link hands its GPUs to the next one.
//
// Nodes of several kinds in one cluster have the same shape of wiring, each with its own rates and latency. Pictures
// draw all as the first kind, faults inside a node count lanes by it, and hashed flows are as fast as its NICs.
//
// Not modelled: congestion control and its transients, credit loops, cable lengths (a constant per switch).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/id.h"
#include "sim/keys.h"
#include "sim/network.h"
#include "sim/settings.h"
#include "sim/units.h"
#include "topology/faults.h"
#include "topology/graph.h"
#include "topology/shape.h"

namespace orrery::topology {

using sim::Duration;
using sim::LinkId;
using sim::Settings;

/// Inside a node: how its GPUs reach each other. From the `node:` section of a device profile.
struct NodeSpec {
  enum class Kind : std::uint8_t { nvswitch, mesh, pcie };
  Kind kind = Kind::nvswitch;
  std::int64_t gpus = 8;  // GPUs (or dies) of a full node
  // nvswitch: `switches` chips; each GPU has `links` links spread over them; `rate`: one GPU, one direction, all links.
  std::int64_t switches = 6;
  std::int64_t links = 12;
  Bandwidth rate{300e9};
  Duration latency{};       // GPU to GPU, one way, wire and switch
  double efficiency = 1.0;  // payload share of the line rate that a saturating transfer reaches
  // mesh: direct links between pairs of GPUs (both directions at `rate` each).
  struct MeshLink {
    std::int64_t a, b;
    Bandwidth rate;
    bool operator==(const MeshLink&) const = default;
  };
  std::vector<MeshLink> mesh;
  // pcie: GPUs below `pcie_switches` switches below `host_bridges` root complexes, which `host_rate` joins. `rate`: one
  // GPU or one switch's uplink, one direction; payload is `rate` x `efficiency`.
  std::int64_t host_bridges = 2;
  Bandwidth host_rate{20e9};
  Bandwidth pcie{32e9};            // GPU to NIC, per direction; a payload rate, `efficiency` does not apply
  std::int64_t pcie_switches = 4;  // each serves gpus / pcie_switches GPUs and their NICs
  std::string provenance;          // where the facts come from, for reports
  /// The hosts' side: memory of all processors and the bytes/s that it moves, and `links` links to it that the GPUs
  /// share evenly, of `link` bytes/s each and per direction. A memory, or a rate, of 0: not known.
  struct Host {
    sim::Bytes memory{};
    Bandwidth memory_rate{}, link{32e9};
    std::int64_t links = 4;
    bool operator==(const Host&) const = default;
  } host;
  bool operator==(const NodeSpec&) const = default;
};

/// Nodes of another kind than a cluster's first: other GPUs and other NICs, wired alike. They stand behind those of the
/// first kind.
struct OtherNodes {
  NodeSpec node;
  Bandwidth nic_rate{};  // per NIC and direction
  std::int64_t nodes = 0;
  bool operator==(const OtherNodes&) const = default;
};

/// Whether nodes of these two kinds can stand in one cluster, so many GPUs and NICs of each in use: their links join
/// the same things, at rates of their own. Kinds without NVSwitches have to be alike.
bool wired_alike(const NodeSpec& a, const NodeSpec& b, std::int64_t gpus, std::int64_t nics);

struct FabricKind;  // fabrics.h
namespace fabrics {
extern const FabricKind none;
}  // namespace fabrics

/// Between nodes. From scenarios/fabrics/<fabric>.yaml or inline.
struct FabricSpec {
  enum class Routing : std::uint8_t { adaptive, ecmp, d_mod_k, spray };
  /// Which leaves share a set of spines below the core: those of neighbouring units, or (rail) those of one rail.
  enum class SpineGroups : std::uint8_t { unit, rail };
  std::string name;
  std::string provenance;                   // where the facts come from, for reports
  const FabricKind* kind = &fabrics::none;  // a row of the catalogue, never null
  std::int64_t nics = 8;                    // per node
  Bandwidth nic_rate{25e9};                 // per NIC and direction
  struct Message {
    Duration latency{};  // send + receive side, without switches
    Duration gap{};      // beyond its bytes, from one message of a ring to its next
    bool operator==(const Message&) const = default;
  } message;
  double efficiency = 1.0;  // payload share of the line rate that a saturating transfer reaches
  struct Gpus {
    std::int64_t nvlink_domain = 0;  // that NVLink joins across nodes (multi-node NVLink); 0: those of a node
    double spread = 0;               // of the fleet: relative standard deviation of what a kernel takes on each
    bool operator==(const Gpus&) const = default;
  } gpus;
  static constexpr std::int64_t kMostHashed = 32;  // flows of a NIC that a seed tells apart
  struct Routes {
    Routing policy = Routing::adaptive;
    std::optional<std::uint64_t> ecmp_seed;
    std::int64_t flows_per_nic = 1;  // ecmp: concurrent flows (queue pairs) that a NIC's traffic is hashed as
    bool operator==(const Routes&) const = default;
  } routes;
  struct Switches {
    Duration latency{};           // per switch on the way
    bool sharp = false;           // they can add up what passes through them (SHARP)
    std::int64_t radix = 64;      // ports at `uplink_rate`
    Bandwidth uplink_rate{50e9};  // between switches, per link
    bool operator==(const Switches&) const = default;
  } switches;
  /// Of a fat_tree, and of a rail_only one.
  struct Tree {
    bool rail = true;  // NIC i of every node of a unit goes to leaf i of the unit; false: a node's NICs share a leaf
    std::int64_t unit_nodes = 32;        // nodes under one set of leaves
    double oversubscription = 1.0;       // leaf downlink capacity / uplink capacity
    std::int64_t spine_radix = 0;        // ports of a spine or core switch; 0: as those of leaves
    double core_oversubscription = 1.0;  // spine downlink capacity / uplink capacity, where there is a core tier
    std::int64_t pod_leaves = 0;  // leaves that one set of spines joins below the core; 0: as many as its ports allow
    SpineGroups spine_groups = SpineGroups::unit;
    bool operator==(const Tree&) const = default;
  } tree;
  struct Dragonfly {
    std::int64_t groups = 0, switches_per_group = 0, nodes_per_switch = 0;
    Bandwidth local_rate{}, global_rate{};  // per link
    std::int64_t local_links = 1;           // between each two switches of a group
    std::int64_t global_links = 1;          // between each two groups
    bool operator==(const Dragonfly&) const = default;
  } dragonfly;
  struct Torus {
    std::vector<std::int64_t> dimensions;  // switches along each, the first counted fastest
    std::int64_t nodes_per_switch = 0;
    std::int64_t links = 1;  // between each two neighbours
    bool operator==(const Torus&) const = default;
  } torus;
  /// Of the kind graph: a list of links between switches.
  struct Edges {
    struct Edge {
      std::uint32_t a, b;  // of switch_names
      std::int32_t lanes;
      Bandwidth rate;
      bool operator==(const Edge&) const = default;
    };
    std::vector<std::string> switch_names;
    std::vector<Edge> edges;
    std::vector<std::vector<std::uint32_t>> attach;  // node, NIC -> switch
    bool operator==(const Edges&) const = default;
  } graph;
  FabricShape shape;  // of the kinds whose file defines one
  bool operator==(const FabricSpec&) const = default;
};

/// Makes `nodes` nodes that NVLink joins to one domain (GB200 NVL72: 18 trays of 4) one node of the cluster: its
/// NVSwitches reach every GPU as a tray's do, and every tray keeps its PCIe switches and NICs. That is how NCCL sees
/// them: it fuses the topologies of a domain's hosts into one (src/graph/topo.cc, MNNVL). `node` is of kind nvswitch.
void join_by_nvlink(NodeSpec& node, FabricSpec& fabric, std::int64_t nodes);
/// Nodes of a domain that a job of so many nodes fills: the most that divide them evenly, at least 1, at most `most`.
std::int64_t nodes_per_domain(std::int64_t nodes, std::int64_t most);

/// The keys of a `node:` section, and of a fabric file.
const sim::KeyTable& node_keys();
const sim::KeyTable& fabric_keys();

/// Reads the `node:` section of a device profile; the keys are those of node_keys(). Throws UserError for unknown keys,
/// keys that do not belong to the kind, and numbers out of range.
NodeSpec load_node_spec(const Settings& node);
/// Reads a fabric; the keys are those of fabric_keys(). A fabric that serves several generations of servers gives
/// nic_rate and uplink_rate as mappings from device family to rate (`{a100: 200 Gb/s, h100: 400 Gb/s}`); the family is
/// the longest key with which `device`, the device profile's name, begins. Throws UserError.
FabricSpec load_fabric_spec(const Settings& fabric, std::string_view device = {});

/// Expected slow-down by hash collisions when `flows` flows of rate `flow_rate` are hashed one by one onto `lanes`
/// equal lanes of rate `lane_rate`, over what the same flows would take if they were spread evenly: with X =
/// Binomial(flows - 1, 1 / lanes) others on a flow's lane, E[max(1, (1 + X) flow_rate / lane_rate)] / max(1, flows
/// flow_rate / (lanes lane_rate)).
double expected_collision_factor(std::int64_t flows, std::int64_t lanes, Bandwidth flow_rate, Bandwidth lane_rate);

/// A link or a bundle of parallel links, one direction.
struct LinkInfo {
  Bandwidth capacity{};  // payload bytes/s: line rate x lanes x efficiency / expected collisions
  Tier tier = Tier::node;
  std::int32_t lanes = 1;
  /// Provably cannot be the bottleneck: all that feeds it (or, on the way down, all that it feeds) carries no more than
  /// it does. Stays true when other links get slower; rates do not change when such links are left out of all routes at
  /// once.
  bool never_binding = false;
};

/// The links of a cluster by number, those of its nodes ahead of those between switches. Nodes of a kind are alike, so
/// that one of each stands for all: of a million GPUs there are eight million links. Iterators go through all.
class LinkTable {
 public:
  class Iterator;

  std::size_t size() const { return nodes_ * of_node_ + between_.size(); }
  const LinkInfo& operator[](LinkId link) const {
    const std::size_t at = sim::index(link);
    if (!apart_.empty()) return apart_[at];
    const std::size_t node = at / of_node_;
    return node < nodes_ ? kinds_[kind_of(node)][at - node * of_node_] : between_[at - nodes_ * of_node_];
  }
  Iterator begin() const;
  Iterator end() const;
  /// Those between switches, where no link is apart.
  const std::vector<LinkInfo>& between() const;

  /// `kinds`: the links of a node of each kind, as many; `first`: of each kind but the first, its first node.
  void set_nodes(std::vector<std::vector<LinkInfo>> kinds, std::vector<std::size_t> first, std::size_t nodes);
  /// So many more between switches.
  void add(std::size_t count, const LinkInfo& info) { between_.insert(between_.end(), count, info); }
  /// Sets a link apart from its like. Follows all add().
  LinkInfo& change(LinkId link);

 private:
  std::size_t kind_of(std::size_t node) const {
    std::size_t kind = 0;
    while (kind < first_.size() && node >= first_[kind]) ++kind;
    return kind;
  }

  std::vector<std::vector<LinkInfo>> kinds_;
  std::vector<std::size_t> first_;
  std::size_t nodes_ = 0, of_node_ = 1;
  std::vector<LinkInfo> between_;
  std::vector<LinkInfo> apart_;  // all links, where one is unlike the rest of its kind; else empty
};

/// Goes through the links of a node, then those of the next, at last those between switches.
class LinkTable::Iterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = LinkInfo;
  using difference_type = std::ptrdiff_t;
  using pointer = const LinkInfo*;
  using reference = const LinkInfo&;

  Iterator() = default;
  Iterator(const LinkTable& table, std::size_t part) : table_(&table), part_(part) { settle(); }
  const LinkInfo& operator*() const { return *at_; }
  const LinkInfo* operator->() const { return at_; }
  Iterator& operator++() {
    if (++at_ == end_) {
      ++part_;
      settle();
    }
    return *this;
  }
  Iterator operator++(int) {
    const Iterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Iterator& a, const Iterator& b) { return a.part_ == b.part_ && a.at_ == b.at_; }

 private:
  friend class LinkTable;
  void settle();

  const LinkTable* table_ = nullptr;
  std::size_t part_ = 0;  // a node, or all between switches
  const LinkInfo* at_ = nullptr;
  const LinkInfo* end_ = nullptr;
};

inline LinkTable::Iterator LinkTable::begin() const { return {*this, 0}; }
inline LinkTable::Iterator LinkTable::end() const { return {*this, nodes_ + 1}; }

/// For every link how many it runs through while GPUs change places; all of nodes' links as many.
class LinkOrbits {
 public:
  LinkOrbits() = default;
  /// `in_nodes`: links of nodes, which run through `of_node` each.
  LinkOrbits(std::size_t in_nodes, std::int32_t of_node, std::vector<std::int32_t> between)
      : in_nodes_(in_nodes), of_node_(of_node), between_(std::move(between)) {}
  bool empty() const { return size() == 0; }
  std::size_t size() const { return in_nodes_ + between_.size(); }
  std::int32_t operator[](LinkId link) const {
    const std::size_t at = sim::index(link);
    return at < in_nodes_ ? of_node_ : between_[at - in_nodes_];
  }

 private:
  std::size_t in_nodes_ = 0;
  std::int32_t of_node_ = 1;
  std::vector<std::int32_t> between_;  // by link between switches
};

struct Path {
  std::vector<sim::WeightedLink> links;  // in order of travel
  Duration latency{};
  Tier top = Tier::node;  // the highest tier crossed
  std::int32_t hops = 0;  // physical links on the way
};

/// Mean and worst of how much longer flows of an equal size take than alone.
struct Slowdown {
  double mean = 1.0, slowest = 1.0;
};

class Cluster {
 public:
  /// `gpus` GPUs in nodes of `gpus_per_node` (at most what the node holds; the last node may be part filled only when
  /// there is one node). `others`: nodes of other kinds among them, the last ones, wired alike and fewer than all.
  /// Throws UserError through `where` when the fabric cannot hold them, and at a fault that names nothing of this
  /// cluster or leaves two nodes without any way to each other.
  Cluster(const NodeSpec& node, const FabricSpec& fabric, std::int64_t gpus, std::int64_t gpus_per_node,
          const Settings& where, const Faults& faults = {}, std::vector<OtherNodes> others = {});
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  std::int64_t gpus() const;
  std::int64_t gpus_per_node() const;
  std::int64_t nodes() const;
  std::int64_t node_of(std::int64_t gpu) const;
  /// Of the first kind of nodes.
  const NodeSpec& node_spec() const;
  const FabricSpec& fabric_spec() const;
  /// What a node's NICs, and the PCIe links to them, carry each: line rates per direction.
  struct NicRate {
    Bandwidth line{}, pcie{};
    bool operator==(const NicRate&) const = default;
  };
  NicRate nic_rate(std::int64_t node) const;

  const LinkTable& links() const;
  std::string link_name(LinkId link) const;

  /// Whether the machine stays as it is when the GPUs of every block of `size` neighbours inside each node turn by one
  /// place, their NICs with them: then for every link how many links it runs through while the turn is repeated (a
  /// divisor of `size`); empty where it does not, or where nobody has looked (see link_orbits.cc).
  LinkOrbits link_orbits(std::int64_t size) const;

  /// Whether whole nodes can change places and nothing but latencies tells: every link outside of nodes is
  /// never_binding, all nodes are alike, and how far two NICs are apart only depends on which of the switches above
  /// them are the same (leaf_of, above).
  bool nodes_change_places() const;
  /// Switches, by a number of their group: those that the GPU's NIC is joined to, and those above some; the highest
  /// have none, and stay what they are.
  std::uint32_t leaf_of(std::int64_t gpu) const;
  std::uint32_t above(std::uint32_t switches) const;
  /// The node that a link belongs to, its NICs' links to their leaves among them; nodes() where it joins switches.
  std::int64_t node_of_link(LinkId link) const;
  /// Links of a node; they are numbered node by node, ahead of all others.
  std::uint32_t links_of_node() const;

  /// Links from one GPU to another (in the same node: NVLink or mesh; else through the NIC nearest to each). `flow`
  /// distinguishes flows of the same pair for ECMP hashing. Cheap: microseconds, cached by switch pair.
  Path path(std::int64_t from, std::int64_t to, std::uint64_t flow = 0) const;
  /// As path(), without its links: cheap enough to ask for every pair of neighbours of a large job.
  struct Way {
    Tier top = Tier::node;
    std::int32_t hops = 0;
    Duration latency{};
  };
  Way way(std::int64_t from, std::int64_t to) const;
  /// What GPUs of one node (rising) load while each sends every byte of its own on round the rings of a collective: on
  /// a mesh the rings of mesh_rings.h, elsewhere one ring in their order.
  std::vector<sim::WeightedLink> ring_links(std::span<const std::int64_t> gpus) const;
  /// The NIC (index within its node) that a GPU uses: of n NICs and G GPUs floor(g n / G) when n <= G, else the
  /// first of its own; where that one is cut off, the next that is not. Needs a fabric.
  std::int64_t nic_of(std::int64_t gpu) const;
  /// 0 without a fabric.
  std::int64_t nics_per_node() const;
  /// The links between a NIC and its leaf switch, both directions: what a slow NIC slows down. Empty without a fabric.
  std::vector<LinkId> nic_links(std::int64_t node, std::int64_t nic) const;
  /// As path() between nodes, but leaving through NIC `nic_from` and arriving by NIC `nic_to` (collectives that spread
  /// over all NICs of a node); from the NIC's own GPU.
  Path nic_path(std::int64_t node_from, std::int64_t nic_from, std::int64_t node_to, std::int64_t nic_to,
                std::uint64_t flow = 0) const;

  /// The nodes of every pod, in order: those that reach each other without the highest tier of switches (one pod where
  /// there is but one tier).
  std::vector<std::vector<std::int64_t>> pods() const;

  /// NICs that faults have cut off from the others, by name.
  std::vector<std::string> cut_off() const;

  /// What hashing costs, thrown instead of expected: every NIC sends one flow (fabric.flows_per_nic of them) to a NIC
  /// that lies one unit of leaves further on, and the flows share links max-min fairly; the mean over `seeds` seeds of
  /// the slow-down against the same flows spread evenly. Needs routing ecmp on a tree of switches.
  Slowdown throw_flows(std::int64_t seeds) const;

  /// The whole cluster, every switch and every link; made on demand from the wiring that the link tables come from.
  Graph graph() const;

  /// Counts by vertex kind and tier, bisection bandwidth, path lengths (hops) by tier, as a table of text.
  struct Description {
    struct Count {
      std::string what;
      std::int64_t count;
    };
    std::vector<Count> vertices;
    /// Cables and lanes of one tier; line rates.
    struct TierRow {
      Tier tier;
      std::int64_t links;
      Bandwidth rate_each;
      Bandwidth total;
    };
    std::vector<TierRow> tiers;  // one direction
    Bandwidth bisection{};       // between two halves of the nodes, payload, one direction
    /// `hops` counts physical links, `share` is that of the other GPUs.
    struct PathRow {
      Tier top;
      std::int64_t hops;
      Duration latency;
      double share;
    };
    std::vector<PathRow> paths;     // from GPU 0 to all others, by highest tier
    double collision_factor = 1.0;  // expected ECMP slow-down of a fully loaded leaf uplink
    /// Of a full leaf, where there are uplinks: what is hashed onto what.
    struct Uplinks {
      std::int64_t flows = 0, lanes = 0;
      Bandwidth flow_rate{}, lane_rate{};
    };
    Uplinks uplinks;
  };
  Description describe() const;
  /// Graphviz text. Large clusters are drawn in part: the first nodes, leaves, spines and what joins them, and say so.
  void write_dot(std::ostream& out) const;

  struct State;  // state.h; for the files of this room
 private:
  std::unique_ptr<State> state_;
};

}  // namespace orrery::topology
