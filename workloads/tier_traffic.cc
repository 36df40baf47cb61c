// Where on the network a step's bytes go: every group's traffic is laid out as rings do it (NCCL orders a ring node by
// node), so of n ranks on k nodes n - k send inside a node and k to the next node; a message counts for the highest
// tier that it crosses. This is what a placement decides. Left out: that trees and exchanges between all ranks reach
// further than to ring neighbours.
#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "workloads/collectives/collective.h"
#include "workloads/placement.h"
#include "workloads/schedules/chunk_map.h"
#include "workloads/traffic.h"

namespace orrery::workloads {

namespace {

/// Messages by the highest tier that they cross.
struct Shares {
  ByTier messages{};
  void add(topology::Tier tier, double count) { messages[static_cast<std::size_t>(tier)] += count; }
};

void add_ring(const std::vector<std::int64_t>& gpus, const topology::Cluster& cluster, Shares& shares) {
  const auto nodes = members_by_node(gpus, cluster);
  if (nodes.size() == 1) {
    shares.add(topology::Tier::node, static_cast<double>(gpus.size()));
    return;
  }
  shares.add(topology::Tier::node, static_cast<double>(gpus.size() - nodes.size()));
  for (std::size_t i = 0; i < nodes.size(); ++i)
    shares.add(cluster.way(nodes[i].front(), nodes[(i + 1) % nodes.size()].front()).top, 1);
}

/// The groups that rows of one dimension are spread over.
class Layout {
 public:
  Layout(const Job& job, const topology::Cluster& cluster) : job_(job), cluster_(cluster), ranks_(job) {}

  Shares of(const std::string& dimension, bool between_shards) const {
    Shares shares;
    for (std::int64_t rank = 0; rank < ranks_.ranks(); ++rank) {
      const Coordinates at = ranks_.coordinates_of(rank);
      if (dimension == "tensor" && at.tensor == 0) add_ring(ranks_.tensor_group(at), cluster_, shares);
      if (dimension == "context" && at.context == 0) add_ring(ranks_.context_group(at), cluster_, shares);
      if (dimension == "data" && at.data == 0 && at.context == 0) add_data(at, between_shards, shares);
      if (dimension == "pipeline") add_next_stage(at, shares);
      if (dimension == "embedding" && at.pipeline == 0) add_pair(at, job_.parallelism.pipeline - 1, shares);
    }
    return shares;
  }

 private:
  std::int64_t gpu_at(const Coordinates& at) const { return ranks_.gpu_of(ranks_.rank_of(at)); }

  void add_pair(const Coordinates& at, std::int64_t stage, Shares& shares) const {
    Coordinates other = at;
    other.pipeline = stage;
    shares.add(cluster_.way(gpu_at(at), gpu_at(other)).top, 1);
  }

  void add_next_stage(const Coordinates& at, Shares& shares) const {
    const Parallelism& p = job_.parallelism;
    const bool around = p.virtual_pipeline > 1 && p.schedule->order == ChunkOrder::loop;
    if (at.pipeline + 1 < p.pipeline || around) add_pair(at, (at.pipeline + 1) % p.pipeline, shares);
  }

  void add_data(const Coordinates& at, bool between_shards, Shares& shares) const {
    // Both stages of a pair of DualPipe's are in one group, which the first of them stands for.
    const bool mirrored = job_.parallelism.schedule->copies() > 1;
    if (mirrored && at.pipeline >= job_.parallelism.pipeline / 2) return;
    const std::vector<std::int64_t> members = ranks_.replicas(at);
    const auto share = static_cast<std::size_t>(job_.shard_ranks());
    std::vector<std::vector<std::int64_t>> groups(between_shards ? share : members.size() / share);
    for (std::size_t i = 0; i < members.size(); ++i)
      groups[between_shards ? i % share : i / share].push_back(ranks_.gpu_of(members[i]));
    for (const std::vector<std::int64_t>& group : groups) add_ring(group, cluster_, shares);
  }

  const Job& job_;
  const topology::Cluster& cluster_;
  RankMap ranks_;
};

}  // namespace

ByTier bytes_by_tier(const Job& job, const topology::Cluster& cluster, const std::vector<TrafficRow>& rows) {
  const Layout layout(job, cluster);
  std::map<std::pair<std::string, bool>, Shares> known;
  ByTier bytes{};
  for (const TrafficRow& row : rows) {
    const std::pair key{std::string(row.dimension), row.what == "gradients, between shard groups"};
    const auto it = known.find(key);
    const Shares& shares =
        it != known.end() ? it->second : known.emplace(key, layout.of(key.first, key.second)).first->second;
    double all = 0;
    for (const double messages : shares.messages) all += messages;
    for (std::size_t t = 0; t < bytes.size(); ++t) {
      // The norm's groups are of a few bytes and have no ring: all on the tier that joins them.
      if (all > 0)
        bytes[t] += row.simulated_bytes * shares.messages[t] / all;
      else if (row.level == topology::name_of(static_cast<topology::Tier>(t)))
        bytes[t] += row.simulated_bytes;
    }
  }
  return bytes;
}

}  // namespace orrery::workloads
