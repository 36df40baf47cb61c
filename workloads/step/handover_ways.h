// The way of a prompt's cache from the replicas that compute prompts to those that write answers, over the links of a
// cluster: every rank of the receiving attention group gets its share of keys and values from the ranks of the sending
// one, each by its own route. Pools lie on the cluster one behind the other, the one with the larger replicas first, so
// that replicas do not straddle nodes where sizes divide. Left out: other placements.
#pragma once

#include <map>
#include <vector>

#include "topology/cluster.h"
#include "workloads/model/served_pass.h"
#include "workloads/runs/serving/apart.h"

namespace orrery::workloads {

class HandoverWays : public serving::Ways {
 public:
  struct Pool {
    ServedLayout layout;
    std::int64_t replicas = 1;
    std::int64_t gpus() const { return replicas * layout.gpus(); }
  };
  /// `first`: the first GPU of the two.
  HandoverWays(topology::Cluster cluster, const Pool& from, const Pool& to, std::int64_t first = 0);

  const sim::Table<sim::LinkId, double>& capacity() const override { return network_.capacity; }
  Way way(std::int64_t from, std::int64_t to) override;
  /// Of links with one capacity that all ways cross alike only the first is kept: each would allow the same. For ways
  /// of which nobody else crosses any link, before the first is asked for.
  void keep_one_of_alike();
  /// Bytes/s of a transfer that has its links to itself, of each receiving rank.
  double rate_alone(std::int64_t from, std::int64_t to);

 private:
  struct Known {
    std::vector<sim::WeightedLink> links;
    serving::Time latency = 0;
  };
  /// GPUs of an attention group, over all stages.
  std::vector<std::int64_t> ranks_of(const Pool& pool, std::int64_t first, std::int64_t group) const;

  topology::Cluster cluster_;
  Pool from_, to_;
  std::int64_t from_first_ = 0, to_first_ = 0;  // their first GPUs
  sim::Network network_;
  std::map<std::pair<std::int64_t, std::int64_t>, Known> known_;
};

}  // namespace orrery::workloads
