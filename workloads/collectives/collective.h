// Collectives as transfers: what a group loads on the network (a route) and what one call costs beyond bandwidth.
//
// A group whose members share a node follows the device profile's in-node fit. A group that spans nodes runs NCCL's
// ring or tree: time = base + steps x step latency + wire bytes / rate, the rate found by the engine on the group's
// route. The choice of algorithm and protocol minimises the estimate on an idle network, as NCCL does (its tuning
// model: base and step latencies by algorithm and protocol, github.com/NVIDIA/nccl src/graph/tuning.cc).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "calibration/profile.h"
#include "calibration/software.h"
#include "sim/network.h"
#include "topology/cluster.h"

namespace orrery::workloads {

using calibration::CollectiveOp;

/// The routes of a communicator, in this order from its first route (Op::pattern): same links, other latencies.
enum class Pattern : std::uint32_t {
  around,  // once around the ring: all-gather, reduce-scatter; everything inside a node; a send's path
  twice,   // twice around: ring all-reduce across nodes
  tree,    // up and down a double binary tree: all-reduce across nodes
};

/// How a group lies on the cluster.
struct GroupShape {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;
  std::int64_t per_node = 1;  // ranks of the group in a node, at most
  std::int64_t rails = 1;     // NICs of a node that the group's rings leave through
  topology::Tier top = topology::Tier::node;
  sim::Duration hop{};  // longest path latency between ring neighbours in different nodes
};

/// One call: op.duration (latency), op.work, op.rate_cap and op.pattern of the engine.
struct CollectiveCost {
  Pattern pattern = Pattern::around;
  sim::Duration latency{};
  double work = 0;      // bytes that each rank sends
  double rate_cap = 0;  // bytes/s; 0: the links alone limit
  std::string_view algorithm;
};

/// Bytes that each rank sends: (n-1)/n of the buffer for all-gather and reduce-scatter, twice that for all-reduce.
double wire_bytes(CollectiveOp op, std::int64_t ranks, double bytes);

/// Describes the group of these GPUs, in ring order.
GroupShape shape_of(std::span<const std::int64_t> gpus, const topology::Cluster& cluster);

/// Routes that a group of this shape needs: one, or all three patterns when it all-reduces across nodes.
std::uint32_t patterns_of(const GroupShape& shape, bool all_reduces);

/// Adds the group's routes, patterns_of() many; returns the first. Links that can never be the bottleneck are left out.
sim::RouteId add_group_routes(sim::Network& network, std::span<const std::int64_t> gpus, const GroupShape& shape,
                              bool all_reduces, const topology::Cluster& cluster);

/// Adds the path of a send from one GPU to another; returns its route.
sim::RouteId add_pair_route(sim::Network& network, std::int64_t from, std::int64_t to,
                            const topology::Cluster& cluster);

/// Leaves the choice of algorithm to the estimate on an idle network.
inline constexpr std::string_view kAuto = "auto";

/// The algorithms that collective_cost can choose for a group of this shape, besides kAuto.
std::vector<std::string_view> algorithms_of(CollectiveOp op, const GroupShape& shape);

/// Cost of one collective on a group of this shape; `algorithm`: kAuto or one of algorithms_of().
CollectiveCost collective_cost(CollectiveOp op, double bytes, const GroupShape& shape,
                               const calibration::DeviceProfile& device, const calibration::Software& software,
                               const topology::Cluster& cluster, std::string_view algorithm = kAuto);

/// Cost of one message between two GPUs.
CollectiveCost send_cost(double bytes, bool same_node, const calibration::DeviceProfile& device,
                         const calibration::Software& software);

/// One size of a collective, alone on an idle cluster.
struct TimedCollective {
  double bytes = 0;  // the whole buffer, as in nccl-tests
  sim::Duration time{};
  std::string_view algorithm;
};

/// Runs one call per size over these GPUs, one after the other, on the engine. A send_receive is that of nccl-tests:
/// every GPU sends `bytes` to the next and receives from the one before. At least two GPUs.
std::vector<TimedCollective> time_collective(CollectiveOp op, std::span<const double> sizes,
                                             std::span<const std::int64_t> gpus, const topology::Cluster& cluster,
                                             const calibration::DeviceProfile& device,
                                             const calibration::Software& software, std::string_view algorithm = kAuto);

/// The group's GPUs node by node, in ring order.
std::vector<std::vector<std::int64_t>> members_by_node(std::span<const std::int64_t> gpus,
                                                       const topology::Cluster& cluster);
/// Adds the links of a path, but for those that can never be the bottleneck; links of NICs stay in, since a
/// perturbation may slow them down.
void append_path(std::vector<sim::WeightedLink>& links, const topology::Path& path, double weight,
                 const topology::Cluster& cluster);

// One algorithm each, in files of their own.
struct Estimate {
  sim::Duration latency{};  // without path latencies, which the route carries
  double work = 0;
  double rate_share = 1.0;  // of the link rate that the protocol reaches
  std::string_view algorithm;
};
/// Ring: base + steps x step + wire bytes / rate; `passes` 1 (all-gather, reduce-scatter) or 2 (all-reduce). Of the
/// protocols the fastest, or the one of that name.
Estimate ring(double bytes, std::int64_t passes, const GroupShape& shape, double rate,
              const calibration::Software& software, std::string_view protocol = kAuto);
/// Double binary tree all-reduce: base + 2 log2(nodes) steps + 2 bytes / rate.
Estimate double_binary_tree(double bytes, const GroupShape& shape, double rate, const calibration::Software& software);

/// Pairwise exchange (all-to-all across nodes): base + bytes to others / what the route leaves each rank.
Estimate pairwise_exchange(double bytes, const GroupShape& shape, const calibration::Software& software);
/// Adds the route of a pairwise exchange; returns it.
sim::RouteId add_exchange_route(sim::Network& network, std::span<const std::int64_t> gpus,
                                const topology::Cluster& cluster);

/// NCCL's three protocols: latency scale and share of bandwidth. LL sends 4 bytes of flag with 4 of data; LL128 8 of
/// 128.
struct Protocol {
  std::string_view name;
  double base_us, node_us, net_us, tree_net_us;  // tuning.cc: baseLat, hwLat[NVLINK], hwLat[NET] of ring and of tree
  double bandwidth_share;
};
const std::array<Protocol, 3>& protocols();

}  // namespace orrery::workloads
