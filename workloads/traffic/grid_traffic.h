// What a tensor group cut in two dimensions moves (Singh et al., arXiv 2305.13525, equations 1 to 5): a part of the
// closed form of the communication table.
#pragma once

#include "workloads/job/job.h"
#include "workloads/traffic/traffic_rows.h"

namespace orrery::workloads {

/// With i ranks that share out the inputs of column-parallel layers and o that share out their outputs, b s tokens of e
/// bytes and widths q (queries, keys and values), a (attention's output), f (MLP), h (hidden): a layer all-reduces
/// forward b s q e / o and b s f e / o over i and twice b s h e / i over o; backward twice b s h e / i over o, b s a e
/// / o and b s f e / o over i.
struct GridTraffic {
  const Model& model;
  const Parallelism& layout;
  double tokens = 0, element = 2;  // of a micro-batch; bytes
  std::int64_t vocab = 0;          // rows, padded
  double runs = 0;                 // micro-batches, over all columns of ranks
  double sums_again = 0;           // of hidden states in a layer that is recomputed as a whole, at most 2; 0: it is not
  double losses = 3;               // numbers of every token that its loss reduces

  void add_rows(TrafficRows& rows) const;
};

}  // namespace orrery::workloads
