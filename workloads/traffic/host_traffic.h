// What optimizer states in the host's memory move between devices and hosts: a part of the closed form of the
// communication table, with the bytes of elements as it works them out by itself.
#pragma once

#include "workloads/traffic/traffic_rows.h"
#include "workloads/traffic/weight_traffic.h"

namespace orrery::workloads {

/// What it follows from of a job.
struct HostPart {
  const Parallelism& layout;
  const Method& method;
  const calibration::Software& software;
};

/// Ranks that share out a state and those that hold the same parameters; micro-batches that each holder of a block
/// sees.
struct HostRanks {
  std::int64_t owners = 1, replicas = 1;
  double microbatches = 1;
};

/// `whole`: parameters in elements, on all ranks that hold different ones. `gathered`: of them, where weights lie with
/// the host. Nothing where the job leaves all to the device. Rows of several kinds of parameters are added up.
void add_host_rows(const HostPart& part, double whole, const GatheredElements& gathered, const HostRanks& ranks,
                   TrafficRows& rows);
/// Frozen weights of so many bytes, where they lie with the host and are gathered for every pass.
void add_frozen_host_rows(const HostPart& part, double bytes, const HostRanks& ranks, TrafficRows& rows);

}  // namespace orrery::workloads
