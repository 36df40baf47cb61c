// Time of a collective inside one node, alone: a choice of two protocols, each with a start-up and a rate, as in NCCL.
//
// With n GPUs and a buffer of S bytes each GPU sends w bytes in s steps:
//   all-reduce 2(n-1)/n S in 2(n-1), all-gather and reduce-scatter (n-1)/n S in n-1, all-to-all (n-1)/n S in 1 (all
//   peers at once), broadcast S in n-1, send/receive S in 1; an all-reduce by in-switch reduction (NVLS) (n+1)/n S
//   in 2.
// A protocol p takes
//   L = base_p + s * hop_p,   T = w / rate_p(n)
//   time_p = L + T + 2 g_p sqrt(L T)        for g_p in [0, 1]
//   time_p = (L^q + T^q)^(1/q), q = 1/(1 + g_p)   for g_p in [-0.75, 0]
// For g = 1 that is a transfer pipelined at its best chunk size, (sqrt L + sqrt T)^2; for g = 0 start-up and transfer
// follow each other; below 0 steps of the start-up run beside the transfer. The low-latency protocol is used
// up to switch(n) bytes of buffer and bulk beyond, where NCCL's tuning switches, which need not be where they cross;
// times never fall as S grows. Between the measured group sizes, rates and switches are interpolated in ln n; beyond
// them rates are held and the faster protocol runs: a switch that was measured on few GPUs says nothing of many, whose
// start-ups are other multiples of each other; where switches join more GPUs than the tables do (a rack), an all-reduce
// over more of them may be reduced in the switches, a third protocol. Source of the protocols: NVIDIA/nccl
// src/graph/tuning.cc. Left out: channels per GPU, registered buffers, the third protocol (LL below LL128).
#pragma once

#include <vector>

#include "calibration/device/profile.h"

namespace orrery::calibration {

struct Protocol {
  double base = 5e-6, hop = 1e-6;  // seconds
  double overlap = 0;              // g
  static constexpr double kLeastOverlap = -0.75;
  std::vector<double> rate;  // bytes/s that one GPU sends, per group size
};

struct CollectiveModel {
  std::vector<double> gpus;          // group sizes, rising
  std::vector<double> switch_bytes;  // per group size
  Protocol low_latency, bulk;
  double in_switch_from = 0;  // group size from which bulk is in-switch reduction; 0: never
  /// In-switch reduction over more GPUs than were measured, as one that runs where it is fastest; no rate: there is
  /// none.
  Protocol in_switch{};

  CollectiveTiming timing(CollectiveOp op, double group, double bytes) const;

  /// One protocol, whatever the switch says. `seconds` is the total.
  struct Part {
    double seconds = 0, wire_bytes = 0, rate = 1;
  };
  Part low_latency_part(CollectiveOp op, double group, double bytes) const;
  Part bulk_part(CollectiveOp op, double group, double bytes) const;
  /// The fastest of all protocols, for groups beyond those measured.
  Part fastest_part(CollectiveOp op, double group, double bytes) const;
  double switch_at(double group) const;
};

/// Bytes that each GPU sends, and steps that it takes, in a ring (all-to-all: directly).
double wire_bytes(CollectiveOp op, double gpus, double bytes);
double steps(CollectiveOp op, double gpus);

}  // namespace orrery::calibration
