// The clock at which a job's GPUs run, from the power that its mix of kernels draws (calibration/device/power.h).
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "calibration/device/power.h"
#include "workloads/job/job.h"
#include "workloads/model/passes.h"

namespace orrery::workloads {

/// What one rank does for one micro-batch, forward and backward, were all layers on it; tensor collectives that nothing
/// hides are waited for, and all of them move bytes. `tensor_in_node`: ranks of a tensor group that lies in a node,
/// else 1.
calibration::Duty duty_of(const Network& network, const KernelTimes& times, std::int64_t tensor_in_node);

void add(calibration::Duty& duty, const Kernel& kernel);
/// The passes over one layer; `tensor_in_node` likewise.
calibration::Duty duty_of(const LayerPasses& passes, const calibration::DeviceProfile& device,
                          std::int64_t tensor_in_node = 1);

/// The job with its device at the clock that its power limit, or a lower cap of the job, leaves a micro-batch's passes,
/// and with the spread of its GPUs' pace that their temperatures make (power.pace_spread): a warmer board leaks more,
/// so that its limit leaves the clock less. What stands is taken to grow straight with temperature: leakage below the
/// threshold grows exponentially, of which this is the first order, over the few kelvin by which boards differ.
/// The optimizer's step, the pipeline's idle time and collectives between nodes are left out: they last longer than a
/// limiter looks back, or overlap.
Job at_steady_clock(Job job);

/// The same for many layouts of one job, on one machine at one site, of which those whose ranks compute alike share a
/// clock: neither stages nor replicas have a part in it. For any number of threads.
class SteadyClocks {
 public:
  Job of(Job job);

 private:
  struct Key {
    Split split;
    Computation computation;
    Model model;
    bool operator==(const Key&) const = default;
  };
  struct Steady {
    calibration::DeviceProfile device;
    PowerTerms power;
  };
  /// What tells most keys apart: tensor, context and expert ranks, micro-batch, sequence parallelism, recomputation.
  using Number = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool, calibration::Recompute>;

  std::mutex mutex_;
  std::map<Number, std::list<std::pair<Key, Steady>>> known_;  // lists: what is found stays where it is
};

}  // namespace orrery::workloads
