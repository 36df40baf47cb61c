// Do jobs that share a cluster cost each other what the links that they share say, and nothing where they share none?
#include "workloads/step/shared_cluster.h"

#include <cstdlib>

#include "sim/engine.h"
#include "tests/catch.h"
#include "tests/reference/reference.h"
#include "tests/workloads/example.h"
#include "workloads/job/step_plan.h"

using namespace orrery;
using workloads::Job;
using workloads::PlacedJob;

namespace {

/// Two nodes, below leaves that two nodes share and whose uplinks carry an eighth of what comes from below.
Job job_of(const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets{"cluster.fabric={inherits: ndr-rail, unit_nodes: 2, oversubscription: 8}",
                                "batch.global=16", "model.layers=2"};
  sets.insert(sets.end(), more.begin(), more.end());
  return tests::small_job(sets);
}

topology::Cluster cluster_for(const Job& job, std::int64_t gpus) {
  workloads::Site site = workloads::site_of(job);
  site.gpus = gpus;
  return workloads::cluster_of(site);
}

}  // namespace

TEST_CASE("a job alone on a larger cluster takes its own step") {
  for (const char* layout : {"parallelism={tensor: 2, pipeline: 2, data: 4}", "parallelism={tensor: 8, data: 2}",
                             "parallelism={data: 16, sharding: optimizer}"}) {
    INFO(layout);
    const Job job = job_of({layout});
    const sim::Duration own = workloads::simulate_step(job).iteration;
    const topology::Cluster cluster = cluster_for(job, 64);
    for (const std::vector<std::int64_t>& nodes : {std::vector<std::int64_t>{0, 1}, {4, 5}}) {
      const std::vector<PlacedJob> alone{{&job, nodes}};
      CHECK(workloads::steps_together(alone, cluster).front() == own);
    }
  }
}

TEST_CASE("a tensor group whose ranks' messages take paths of their own runs as it does operation by operation") {
  // Simulated by itself such a job meets at every collective; here its passes are one operation behind one meeting.
  const std::string hashed = "cluster.fabric={inherits: ndr-rail, rail: false, unit_nodes: 1, routing: ecmp}";
  for (const char* layout : {"parallelism={tensor: 8, pipeline: 2, sequence_parallel: true}",
                             "parallelism={tensor: 8, pipeline: 2, virtual_pipeline: 4, sequence_parallel: true}",
                             "parallelism={tensor: 8, data: 2, sharding: optimizer}"}) {
    INFO(layout);
    const Job job = job_of({layout, hashed, "model.layers=16", "batch.global=32"});
    const topology::Cluster cluster = cluster_for(job, 16);
    const std::vector<PlacedJob> alone{{&job, {0, 1}}};
    const sim::Duration own = workloads::simulate_step(job).iteration;
    constexpr std::int64_t kClose = 10;
    CHECK(std::abs(workloads::steps_together(alone, cluster).front().value() - own.value()) <= kClose);
    // So it runs far fewer of them.
    const auto groups = workloads::make_groups(workloads::group_inputs_of(job), cluster);
    const auto apart = workloads::make_plan(job, cluster, groups).stages.programs.front().size();
    CHECK(2 * workloads::share(alone, cluster).plan.programs[sim::ProgramId{0}].size() < apart);
  }
}

TEST_CASE("identical jobs below leaves of their own cost each other nothing, to the picosecond") {
  const Job job = job_of();
  const topology::Cluster cluster = cluster_for(job, 32);
  const sim::Duration own = workloads::simulate_step(job).iteration;
  const std::vector<PlacedJob> apart{{&job, {0, 1}}, {&job, {2, 3}}};
  for (const sim::Duration step : workloads::steps_together(apart, cluster)) CHECK(step == own);
}

TEST_CASE("interleaved jobs share the uplinks max-min fairly, as the reference engine says") {
  const Job job = job_of({"parallelism={data: 16}"});
  const topology::Cluster cluster = cluster_for(job, 32);
  const std::vector<PlacedJob> first{{&job, {0, 2}}}, both{{&job, {0, 2}}, {&job, {1, 3}}};
  const sim::Duration alone = workloads::steps_together(first, cluster).front();
  const std::vector<sim::Duration> together = workloads::steps_together(both, cluster);
  CHECK(together[0] == together[1]);  // nothing tells them apart
  CHECK(together[0] > alone);
  // Each gets half of every uplink while both reduce gradients: no transfer takes more than twice as long.
  CHECK(together[0] < alone * 2);
  const workloads::SharedPlan shared = workloads::share(both, cluster);
  const sim::Result slow = reference::run(shared.plan, shared.network);
  REQUIRE(slow.outcome == sim::Outcome::finished);
  // Each engine rounds every change of a rate to a picosecond in its own order.
  constexpr std::int64_t kClose = 10;
  CHECK(std::abs(slow.makespan.value() - together[0].value()) <= kClose);
  const workloads::SharedPlan one = workloads::share(first, cluster);
  CHECK(std::abs(reference::run(one.plan, one.network).makespan.value() - alone.value()) <= kClose);
}

TEST_CASE("jobs of different sizes run together, and the shorter one is done first") {
  const Job small = job_of(), large = job_of({"model.layers=8"});
  const topology::Cluster cluster = cluster_for(small, 32);
  const std::vector<PlacedJob> both{{&small, {0, 2}}, {&large, {1, 3}}};
  const std::vector<sim::Duration> steps = workloads::steps_together(both, cluster);
  CHECK(steps[0] < steps[1]);
  for (std::size_t j = 0; j < 2; ++j) {
    const std::vector<PlacedJob> alone{both[j]};
    CHECK(steps[j] >= workloads::steps_together(alone, cluster).front());
  }
}
