// Several jobs on one cluster, each on GPUs of its own, their steps in one engine: what they cost each other on the
// links that they share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/network.h"
#include "sim/plan.h"
#include "topology/cluster.h"
#include "workloads/job/job.h"

namespace orrery::workloads {

struct PlacedJob {
  const Job* job = nullptr;
  std::vector<std::int64_t> nodes;  // of the cluster, one for each of the job's own nodes, in its order
};

/// The plans of all jobs as one: programs, instances and communicators one job behind the other, on the cluster's
/// links.
struct SharedPlan {
  sim::Plan plan;
  sim::Network network;
  std::vector<std::uint32_t> first_instance;  // of each job, and the end
};

/// Nodes may serve one job only; all jobs have nodes like the cluster's. What is perturbed in a job is left out.
SharedPlan share(std::span<const PlacedJob> jobs, const topology::Cluster& cluster);

/// The step of each job, all begun at once and each run once. Ranks that nothing can tell apart are simulated once.
std::vector<sim::Duration> steps_together(std::span<const PlacedJob> jobs, const topology::Cluster& cluster);

}  // namespace orrery::workloads
