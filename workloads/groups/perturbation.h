// What sets GPUs, links and messages apart from each other.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/cluster.h"

namespace orrery::workloads {

struct Perturbation {
  struct SlowGpu {
    std::int64_t gpu;
    double slowdown;
    bool operator==(const SlowGpu&) const = default;
  };  // compute takes `slowdown` times as long
  struct SlowNic {
    std::int64_t node, nic;
    double rate;
    bool operator==(const SlowNic&) const = default;
  };  // share of its rate that is left, in (0, 1]
  std::vector<SlowGpu> slow_gpus;
  std::vector<SlowNic> slow_nics;
  double jitter_sigma = 0;  // of log compute time, per operation and rank
  std::uint64_t jitter_seed = 0;
  double message_sigma = 0;  // of the log of a transfer's latency, per communicator and transfer
  std::uint64_t message_seed = 0;
  /// Experts are met unevenly (calibration/device/routing.h): every layer's pass over a micro-batch draws, in every
  /// expert group, what its ranks are given.
  struct Routing {
    double skew = 0;  // exponent of the power law; 0: evenly
    std::uint64_t seed = 0;
    std::int64_t tokens = 1, top_k = 1, experts = 1;  // of a micro-batch, all ranks of a group together
    bool operator==(const Routing&) const = default;
  } routing;
  topology::Faults faults;  // links and switches, and others' traffic
  bool operator==(const Perturbation&) const = default;
};

}  // namespace orrery::workloads
