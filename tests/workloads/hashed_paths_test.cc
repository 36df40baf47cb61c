// Does placement show in what hashing costs a job's groups?
#include "workloads/step/hashed_paths.h"

#include <map>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/job/job_values.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// 32 nodes of A100 below leaves of four nodes each, paths hashed onto as many uplinks as there are NICs.
Job job_with(const std::string& placement) {
  std::vector<std::string> sets{"cluster.gpus=256", "parallelism={tensor: 8, pipeline: 1, data: 32}",
                                "batch={global: 64, micro: 1}",
                                "cluster.fabric={inherits: tomahawk4-200g, unit_nodes: 4, uplink_rate: 200 Gb/s}"};
  if (!placement.empty()) sets.push_back("placement=" + placement);
  return tests::small_job(sets);
}

std::map<std::string, HashedPaths> by_name(const Job& job) {
  std::map<std::string, HashedPaths> rows;
  for (const HashedPaths& row : hashed_paths(site_of(job), group_inputs_of(job), 8)) rows.emplace(row.group, row);
  return rows;
}

}  // namespace

TEST_CASE("in order tensor groups stay inside nodes; data groups cross leaves once in four hops") {
  const auto rows = by_name(job_with(""));
  REQUIRE(rows.size() == 1);
  const HashedPaths& data = rows.at("data");
  CHECK(data.groups == 8);
  // One NIC per group and node, spread evenly.
  const Job job = job_with("");
  CHECK(data.even == Approx(job.machine.fabric.nic_rate.value() * job.machine.fabric.efficiency));
  // One flow leaves each leaf at a time, so none collides on the way up; the way down is as empty.
  CHECK(data.mean == Approx(data.even));
  CHECK(data.worst_twentieth == Approx(data.even));
}

TEST_CASE("at random groups collide: the mean falls, the twentieth slowest more, the slowest of all most") {
  const auto rows = by_name(job_with("{random_seed: 3}"));
  REQUIRE(rows.size() == 2);  // tensor groups lie across nodes as well
  for (const auto& [name, row] : rows) {
    INFO(name);
    CHECK(row.groups == (name == "tensor" ? 32 : 8));
    CHECK(row.mean < row.even);
    CHECK(row.worst_twentieth <= row.mean);
    CHECK(row.slowest <= row.mean);
    CHECK(row.slowest > 0);
  }
  CHECK(rows.at("data").mean < 0.8 * by_name(job_with("")).at("data").mean);
}
