// A group of the first GPUs of every node, and what algorithms of a library's own are tried on.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "topology/cluster.h"
#include "workloads/collectives/catalogue.h"
#include "workloads/step/step.h"

namespace orrery::tests {

/// `members` GPUs of each of `nodes` nodes of 8 H100.
struct GroupOnNodes {
  workloads::Job job;
  topology::Cluster cluster;
  std::vector<std::int64_t> gpus;

  GroupOnNodes(const std::string& fabric, std::int64_t nodes, std::int64_t members)
      : job(small_job({"cluster.fabric=" + fabric, "cluster.device=h100-sxm-80gb",
                       fmt::format("cluster.gpus={}", 8 * nodes), fmt::format("parallelism.data={}", 2 * nodes),
                       fmt::format("batch.global={}", 16 * nodes)})),
        cluster(workloads::cluster_of(workloads::site_of(job))) {
    for (std::int64_t node = 0; node < nodes; ++node)
      for (std::int64_t g = 0; g < members; ++g) gpus.push_back(8 * node + g);
  }

  workloads::TimedCollective time(workloads::CollectiveOp op, double bytes,
                                  const std::string& algorithm = std::string(workloads::kAuto)) const {
    const std::vector<double> sizes{bytes};
    return workloads::time_collective(op, sizes, gpus, cluster, job.machine.device, job.software, algorithm)[0];
  }
};

/// A step of 32 GPUs whose library has the algorithm alone runs, folded as in full; seconds without it and with it.
inline std::pair<double, double> check_folded_with(calibration::CollectiveAlgorithm algorithm,
                                                   const std::vector<std::string>& sets) {
  std::vector<std::string> all{"cluster.fabric=ndr-rail", "cluster.gpus=32", "parallelism.sharding=optimizer"};
  all.insert(all.end(), sets.begin(), sets.end());
  workloads::Job job = small_job(all);
  const double before = sim::to_seconds(workloads::simulate_step(job).iteration);
  job.software.library.collective_algorithms = {};
  job.software.library.collective_algorithms.add(algorithm);
  const workloads::StepReport folded = workloads::simulate_step(job);
  workloads::Question full;
  full.ranks = workloads::Question::Ranks::every;
  CHECK(folded.iteration == workloads::simulate_step(job, full).iteration);
  return {before, sim::to_seconds(folded.iteration)};
}

}  // namespace orrery::tests
