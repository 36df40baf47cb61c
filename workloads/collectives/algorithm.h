// One algorithm of a collective between nodes: which calls it can do, what a call costs, and what NCCL believes that it
// costs, by which it chooses. One file each; the list of all is in catalogue.h.
//
// All are chunked pipelines. A buffer is cut into chunks, which follow each other through the stages of the algorithm:
//   time = base + sum over stages (stage latency) + (stages + chunks - 1) * chunk / rate
// so latency grows with the depth, and the depth also costs bandwidth: a stage forwards a chunk only when all of it is
// there. A ring's chunks are the ranks' parts of the buffer and its stages the steps: there the sum is the well-known
// steps * latency + (n-1)/n * bytes / rate.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "workloads/collectives/collective.h"

namespace orrery::workloads {

using calibration::CollectiveAlgorithm;

/// NCCL's protocols: what a stage costs besides the network's path, and the share of a link's rate that is data. LL
/// sends 4 bytes of flag with 4 of data, LL128 8 of 128; Simple sends data alone and pays for synchronising. Base and
/// stage latencies: NVIDIA/nccl, src/graph/tuning.cc, baseLatencies and hwLatencies (version 2.30). Those of Simple are
/// the training software's (collective_* of Software); the table has NCCL's.
struct Protocol {
  enum class Kind : std::uint8_t { ll, ll128, simple };
  Kind kind;
  double ring_base, tree_base;  // seconds
  double ring_node, tree_node;  // a stage over NVLink
  double ring_net, tree_net;    // a stage over the network
  double share;                 // of a link's rate that is data
};
const std::array<Protocol, 3>& protocols();

/// Channels, each a ring or tree of its own, that NCCL runs over a NIC, and over all of a node or NVLink domain
/// (NVIDIA/nccl, src/include/device.h, MAXCHANNELS).
inline constexpr double kChannelsPerRail = 2, kMostChannels = 64;

/// One call on one group.
struct Call {
  CollectiveOp op;
  double bytes;  // the whole buffer
  const GroupShape& shape;
  double rate;       // bytes/s that the NICs of a node carry, those that the group leaves through
  double line_rate;  // their line rate, which the library goes by
  const calibration::DeviceProfile& device;
  const calibration::Software& software;

  bool all_reduces() const { return op == CollectiveOp::all_reduce; }
  /// All ranks' parts are passed on in a ring.
  bool rings() const {
    return all_reduces() || op == CollectiveOp::all_gather || op == CollectiveOp::reduce_scatter ||
           op == CollectiveOp::broadcast;
  }
  double ranks() const { return static_cast<double>(shape.ranks); }
  double nodes() const { return static_cast<double>(shape.nodes); }
  double per_node() const { return static_cast<double>(shape.per_node); }
  double rails() const { return static_cast<double>(shape.rails); }
  double channels() const { return std::min(kMostChannels, kChannelsPerRail * rails()); }
  double hop() const { return sim::to_seconds(shape.hop); }
  /// Levels of a binary tree over the nodes.
  double levels() const;
  /// bytes/s at which a GPU passes a long buffer on inside its node, as measured.
  double node_rate() const;
  /// Seconds of a collective inside the node, over the group's ranks there.
  double inside(CollectiveOp what, double size) const;
};

struct Estimate {
  double latency = 0;   // seconds, without that of the pattern's route
  double work = 0;      // bytes that a node sends, over all its rails
  double rate_cap = 0;  // bytes/s; 0: the links alone limit
  Pattern pattern = Pattern::around;
  double own_paths = 0;  // Pattern::own: paths between nodes that follow each other
};
/// Seconds on an idle network.
double seconds_of(const Estimate& estimate, const Call& call);

/// What a group loads for each byte of Estimate::work, and the latencies of the paths that follow each other.
struct OwnRoute {
  std::vector<sim::WeightedLink> links;
  sim::Duration latency{};
};

/// An algorithm with the protocol that it runs.
struct Algorithm {
  CollectiveAlgorithm family;
  std::string_view name;
  std::string_view meaning;  // one line for lists
  const Protocol& protocol;
  bool (*fits)(const Call& call);
  Estimate (*estimate)(const Call& call, const Protocol& protocol);
  /// Seconds by NCCL's tuning model; null: the library that has this algorithm knows its time.
  double (*believed)(const Call& call, const Protocol& protocol);
  /// The links of the group of these GPUs, where they are not those of its rings; null: those. The estimate's pattern
  /// is Pattern::own then.
  OwnRoute (*route)(std::span<const std::int64_t> gpus, const topology::Cluster& cluster) = nullptr;
};
/// Those of the catalogue with a route, in its order.
std::vector<const Algorithm*> algorithms_with_routes();
/// The pattern of an estimate of this algorithm.
Pattern pattern_of(const Algorithm& algorithm, const Estimate& estimate);

/// The algorithm for a call. `wanted`: kAuto, a family (ring) or a name of the list (ring LL128). Of those that fit and
/// that the software may use, or of the wanted, the one that NCCL believes to be fastest.
const Algorithm& choose(const Call& call, std::string_view wanted);

// Which calls an algorithm may fit.
inline bool is_all_reduce(const Call& call) { return call.all_reduces(); }
inline bool is_broadcast(const Call& call) { return call.op == CollectiveOp::broadcast; }
inline bool is_exchange(const Call& call) { return call.op == CollectiveOp::all_to_all; }
inline bool is_gather(const Call& call) { return call.op == CollectiveOp::all_gather; }
inline bool is_ring(const Call& call) { return call.rings() && !is_broadcast(call); }
/// As many ranks in every node: NVLS pairs the GPUs at the same place.
inline bool is_in_switch(const Call& call) {
  return call.all_reduces() && call.shape.ranks == call.shape.nodes * call.shape.per_node &&
         call.device.reduces_in_switch(call.shape.per_node);
}

/// Bytes that a node sends in a double binary tree over the nodes: down to two children in one tree and up in both; of
/// two nodes each is root of one tree.
double tree_bytes(double bytes, std::int64_t nodes);
/// Which way the messages of a round go: to ranks of higher numbers or of lower ones, in a circle.
enum class Towards : std::uint8_t { above, below };
/// The route of a collective in rounds at distances 1, 2, 4, ... below n over its n ranks, node by node: in that of
/// `distance` each rank sends parts(n, distance) of the n - 1 parts that it sends in all, and the next round waits for
/// the longest path.
OwnRoute route_of_rounds(std::span<const std::int64_t> gpus, const topology::Cluster& cluster, Towards towards,
                         std::size_t (*parts)(std::size_t n, std::size_t distance));
/// bytes/s of a node's sends above which reducing in its switch holds an all-reduce back that sends `work` bytes.
double in_switch_cap(const Call& call, double work);

}  // namespace orrery::workloads
