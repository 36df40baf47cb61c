// A time that no step of a job can undercut, without planning it: for searches that need not simulate what cannot win.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "workloads/job.h"

namespace orrery::workloads {

/// Bounds for jobs that differ in parallelism, batch, recompute, precision, attention, overlap and optimizer alone;
/// remembers what they share. Not for several threads at a time.
class StepBound {
 public:
  /// At most the simulated iteration time; see step_bound.cc for the derivation. Zero for jobs with perturbations.
  sim::Duration of(const Job& job);

 private:
  /// One forward or backward pass over one layer, the embedding or the head, for one micro-batch on one rank.
  struct Pass {
    std::int64_t serial = 0;  // ps of the compute stream, with the collectives that it must wait for
    std::int64_t issue = 0;   // ps of the host
  };
  struct Parts {
    Pass forward, backward;
  };
  struct Costs {
    Parts layer, embedding, head;
  };
  Costs costs_of(const Job& job) const;
  const Costs& remembered(const Job& job);

  std::map<std::string, Costs> costs_;
};

}  // namespace orrery::workloads
