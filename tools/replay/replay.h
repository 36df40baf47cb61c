// Replays what ranks did over a network: their own times of computing, of the host and of idling are kept, as are all
// dependencies; collectives and messages take what the engine makes of them on the cluster, links shared and peers
// awaited. As Lumos (Liang et al., MLSys 2025) and ASTRA-sim replay traces. Left out: ranks without a trace. They are
// taken to arrive when those with one do, and put nothing on the network but their part of the collectives that they
// share; and the slow-down of kernels beside collectives, which stays as it was traced.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibration/device/profile.h"
#include "calibration/framework/software.h"
#include "tools/replay/graph.h"
#include "topology/cluster.h"

namespace orrery::tools {

/// What calls run on. Refers to what it is made of, which must stay valid.
struct ReplayNetwork {
  const topology::Cluster& cluster;
  const calibration::DeviceProfile& device;
  const calibration::Software& software;  // its collective library
  std::vector<std::int64_t> gpus;         // by rank, where it lies; empty: rank r on GPU r
};

/// Calls of one kind, of all ranks.
struct ReplayedCalls {
  std::string operation, group;  // "all_gather", "tensor"
  std::int64_t ranks = 0;        // of the group
  double bytes = 0;              // of a call
  std::size_t calls = 0;
  double traced_s = 0;    // of a call in the mean, waiting for peers included where the trace includes it
  double replayed_s = 0;  // likewise, from the last arrival on
};

struct ReplayedRank {
  std::int64_t rank = 0;
  double traced_s = 0, replayed_s = 0;  // to the end of its last node
  double compute_s = 0;                 // of its device's lanes, communication left out
};

struct Replayed {
  double traced_s = 0, replayed_s = 0;  // of the longest rank; traced 0 where the traces do not say when
  std::vector<ReplayedRank> ranks;
  std::vector<ReplayedCalls> calls;  // those that take longest first
  std::size_t nodes = 0;
  std::vector<std::string> assumptions;
};

/// `network`: null: every call takes the shortest time that a member traced. Throws sim::UserError: a rank twice, ranks
/// that the cluster does not have, members of a group that disagree about their calls, ranks that wait for each other.
Replayed replay(const std::vector<RankGraph>& graphs, const ReplayNetwork* network);

}  // namespace orrery::tools
