// Collectives as transfers: what a group loads on the network (a route) and what one call costs beyond bandwidth.
//
// A group whose members share a node follows the device profile's in-node fit. A group that spans nodes runs one of the
// algorithms of algorithm.h: time = latency of the pipeline's stages + bytes / rate, the rate found by the engine on
// the group's route. Algorithm and protocol are chosen as NCCL chooses them (choice.cc), or named.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "calibration/device/dispatcher.h"
#include "calibration/device/profile.h"
#include "calibration/device/routing.h"
#include "calibration/framework/software.h"
#include "sim/network.h"
#include "topology/cluster.h"

namespace orrery::workloads {

using calibration::CollectiveOp;

/// The routes of a communicator, in this order from its first route (Op::pattern): same links, other latencies, but for
/// those that an algorithm lays itself.
enum class Pattern : std::uint32_t {
  around,  // once around the ring: all-gather, reduce-scatter; everything inside a node; a send's path
  twice,   // twice around: ring all-reduce across nodes
  across,  // one path between nodes: trees and switches, whose cost counts all but one of their stages' paths
  own,     // and on: the algorithm's own links, in the order of the list of algorithms
};

/// An all-to-all whose buffers hold a copy of every token for each of the experts that it chooses, of those that the
/// group shares out. `once`: a token crosses to a node once, and goes on from there to each rank that has some of its
/// experts (DeepEP); else every copy goes by itself. choice.experts 0: equal parts to all ranks. `library`: whose
/// kernels carry out what goes once; `tokens`: rows of a rank in one exchange.
struct ExchangeStyle {
  bool once = false;
  calibration::TokenChoice choice = {1, 0, 1, 1};
  calibration::ExchangeLibrary library = {};
  double tokens = 0;
  bool operator==(const ExchangeStyle&) const = default;
};

/// Bytes that a rank sends in an all-to-all to others of its node, and to other nodes, over those of its buffer.
struct ExchangeLoad {
  double inside = 0, between = 0;
  double sum() const { return inside + between; }
};

/// What the routes of a group hang on, of the calls that its members make.
struct GroupCalls {
  bool all_reduces = false;
  calibration::CollectiveAlgorithms own{};  // those that it may use of the ones with own links: with_own_routes()
};
/// Of these algorithms those that load other links than a group's rings.
calibration::CollectiveAlgorithms with_own_routes(const calibration::CollectiveAlgorithms& algorithms);

/// How a group lies on the cluster.
struct GroupShape {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;
  std::int64_t per_node = 1;  // ranks of the group in a node, at most
  std::int64_t rails = 1;     // NICs of a node that the group's rings leave through
  topology::Tier top = topology::Tier::node;
  sim::Duration hop{};  // longest path latency between ring neighbours in different nodes
  sim::Duration gap{};  // between one message of a ring and its next, beyond its bytes
  /// Of the group's nodes the slowest; nothing in one node: those of the cluster's first kind.
  std::optional<topology::Cluster::NicRate> nic;
  ExchangeStyle exchange;  // of its all-to-alls
};

/// Balanced: every expert is as likely as any other, a token's different from each other.
ExchangeLoad exchange_load(const GroupShape& shape);

/// One call: op.duration (latency), op.work, op.rate_cap and op.pattern of the engine.
struct CollectiveCost {
  Pattern pattern = Pattern::around;
  sim::Duration latency{};
  double work = 0;      // bytes: of a rank inside a node, of a node over all its rails between nodes
  double rate_cap = 0;  // bytes/s; 0: the links alone limit
  std::string_view algorithm;
};

/// Bytes that each rank sends: (n-1)/n of the buffer for all-gather and reduce-scatter, twice that for all-reduce.
double wire_bytes(CollectiveOp op, std::int64_t ranks, double bytes);

/// The lower rates of two kinds of NICs.
topology::Cluster::NicRate slower(const topology::Cluster::NicRate& a, const topology::Cluster::NicRate& b);

/// Describes the group of these GPUs, in ring order.
GroupShape shape_of(std::span<const std::int64_t> gpus, const topology::Cluster& cluster);

/// Routes that a group of this shape needs: one, or the three patterns of rings and trees when it all-reduces across
/// nodes, and after these one for each algorithm with own links where it may use any.
std::uint32_t patterns_of(const GroupShape& shape, const GroupCalls& calls);

/// Adds the group's routes, patterns_of() many; returns the first. Links that can never be the bottleneck are left out.
/// `of_node`: by node, 0 where its links are left out too, since other nodes' stand for them; empty: nowhere.
sim::RouteId add_group_routes(sim::Network& network, std::span<const std::int64_t> gpus, const GroupShape& shape,
                              const GroupCalls& calls, const topology::Cluster& cluster,
                              std::span<const std::uint32_t> of_node = {});

/// Adds the path of a send from one GPU to another; returns its route.
sim::RouteId add_pair_route(sim::Network& network, std::int64_t from, std::int64_t to,
                            const topology::Cluster& cluster);

/// Leaves the choice of algorithm to the library.
inline constexpr std::string_view kAuto = "auto";

/// The algorithms that collective_cost can be asked for, besides kAuto: each with each of its protocols, and with the
/// choice of protocol left to the library.
std::vector<std::string_view> algorithms_of(CollectiveOp op, const GroupShape& shape,
                                            const calibration::DeviceProfile& device,
                                            const calibration::Software& software);

/// Bytes that a node's NICs send at least, over all its rails, whichever algorithm the software chooses.
double least_bytes_between_nodes(CollectiveOp op, double bytes, const GroupShape& shape,
                                 const calibration::Software& software);

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

/// A group's GPUs node by node, in ring order.
class MembersByNode {
 public:
  MembersByNode(std::span<const std::int64_t> gpus, const topology::Cluster& cluster);
  std::size_t size() const { return begin_.size() - 1; }
  /// Of the i-th node; rising.
  std::span<const std::int64_t> operator[](std::size_t i) const {
    return {gpus_.data() + begin_[i], begin_[i + 1] - begin_[i]};
  }
  const std::vector<std::int64_t>& all() const { return gpus_; }

 private:
  std::vector<std::int64_t> gpus_;
  std::vector<std::size_t> begin_;  // by node, and the end
};
/// Adds links with their weights times `weight`, but for those that can never be the bottleneck; links of NICs stay in,
/// since a perturbation may slow them down.
void append_links(std::vector<sim::WeightedLink>& links, std::span<const sim::WeightedLink> added, double weight,
                  const topology::Cluster& cluster);

/// Adds the route of an exchange, inside one node or between several; returns it. Every rank sends as one of its node
/// does, however many members of the group lie there: a byte is one of exchange_load().sum().
sim::RouteId add_exchange_route(sim::Network& network, std::span<const std::int64_t> gpus,
                                const topology::Cluster& cluster, const ExchangeStyle& style);

}  // namespace orrery::workloads
