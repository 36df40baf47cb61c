// Which GPU runs which rank, and what that does to the network: every placement uses every GPU once, and where a
// group's bytes go follows from where its members are.
#include "workloads/groups/placement.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/traffic/traffic.h"

using namespace orrery;
using namespace orrery::workloads;
using topology::Tier;

namespace {

using Sets = std::vector<std::string>;

/// 256 H100 in 32 nodes, four to a unit: eight units below one set of spines, or pods of two units.
Sets machine(bool pods) {
  Sets sets{"cluster.device=h100-sxm-80gb", "cluster.gpus=256", "batch={global: 64, micro: 1}",
            "parallelism={tensor: 4, pipeline: 4, data: 16}"};
  sets.push_back(pods ? "cluster.fabric={inherits: ndr-rail, rail: false, unit_nodes: 4, pod_leaves: 2}"
                      : "cluster.fabric={inherits: ndr-rail, unit_nodes: 4}");
  return sets;
}

Job placed(Sets sets, const std::string& placement) {
  if (!placement.empty()) sets.push_back("placement=" + placement);
  return tests::small_job(sets);
}

RankMap ranks_of(const Job& job) { return {job.parallelism.dims(), job.placement, job.machine.gpus_per_node}; }

std::map<Tier, double> tiers(const Job& job) {
  std::map<Tier, double> bytes;
  for (const auto& row : simulate_step(job).tier_bytes) bytes[row.tier] = row.bytes;
  return bytes;
}

double total(const std::map<Tier, double>& bytes) {
  double sum = 0;
  for (const auto& [tier, b] : bytes) sum += b;
  return sum;
}

}  // namespace

TEST_CASE("every placement gives every rank a GPU of its own") {
  for (const bool pods : {false, true}) {
    for (const char* placement : {"", "{by: rail}", "{by: pod}", "{order: [data, pipeline, tensor, context]}",
                                  "{random_seed: 5}", "{by: rail, order: [pipeline, tensor, data, context]}",
                                  "{by: pod, order: [data, tensor, context, pipeline]}"}) {
      const RankMap map = ranks_of(placed(machine(pods), placement));
      std::set<std::int64_t> gpus;
      for (std::int64_t rank = 0; rank < map.ranks(); ++rank) gpus.insert(map.gpu_of(rank));
      INFO(placement);
      CHECK(gpus.size() == 256);
      CHECK(*gpus.begin() == 0);
      CHECK(*gpus.rbegin() == 255);
    }
  }
}

TEST_CASE("by rail: tensor groups stay in their nodes, data neighbours share a rail") {
  const RankMap map = ranks_of(placed(machine(false), "{by: rail}"));
  for (std::int64_t rank = 0; rank < map.ranks(); rank += 4) {
    const std::int64_t first = map.gpu_of(rank), data = map.dims().place(rank, Dim::data);
    for (std::int64_t t = 1; t < 4; ++t) CHECK(map.gpu_of(rank + t) == first + t);
    if (data + 1 == 16) continue;
    CHECK(map.gpu_of(map.dims().moved(rank, Dim::data, data + 1)) == first + 8);  // the same place of the next node
  }
}

TEST_CASE("by pod: node after node goes to the next pod in turn") {
  const RankMap map = ranks_of(placed(machine(true), "{by: pod}"));
  // Pods of two units of four nodes: nodes 0-7, 8-15, 16-23, 24-31. Ranks 0-7 fill node 0, 8-15 node 8, ...
  for (std::int64_t node = 0; node < 32; ++node) {
    const std::int64_t expected = node % 4 * 8 + node / 4;
    CHECK(map.gpu_of(node * 8) == expected * 8);
    CHECK(map.gpu_of(node * 8 + 7) == expected * 8 + 7);
  }
}

TEST_CASE("bytes by tier add up to the table, whatever the placement, and follow it") {
  std::map<std::string, std::map<Tier, double>> seen;
  std::map<std::string, double> by_dimension;  // the same under every placement
  for (const char* placement : {"", "{by: rail}", "{by: pod}", "{random_seed: 3}"}) {
    const Job job = placed(machine(true), placement);
    const StepReport report = simulate_step(job);
    double rows = 0;
    by_dimension.clear();
    for (const TrafficRow& row : report.traffic) {
      rows += row.simulated_bytes;
      by_dimension[row.dimension] += row.simulated_bytes;
    }
    seen[placement] = tiers(job);
    INFO(placement);
    CHECK(total(seen[placement]) == Approx(rows).epsilon(1e-12));
  }
  // Placement moves no byte more or less, only to other tiers.
  for (const auto& [placement, bytes] : seen) CHECK(total(bytes) == Approx(total(seen[""])).epsilon(1e-12));
  // The tensor group is the node's in all but the random placement.
  CHECK(seen["{random_seed: 3}"][Tier::node] < 0.5 * seen[""][Tier::node]);
  CHECK(seen["{random_seed: 3}"][Tier::core] > seen[""][Tier::core]);
  // A stage is 64 GPUs, one of the four pods: data groups stay in it, and only what goes from stage to stage climbs to
  // the core. (The gradient norm is a few bytes.)
  const double norm = by_dimension["norm"];
  CHECK(seen[""][Tier::core] == Approx(by_dimension["pipeline"] + by_dimension["embedding"] + norm).epsilon(1e-12));
  // Dealt over the pods in turn, stages meet in a pod. A ring of 16 data ranks on eight nodes, two in each pod, crosses
  // from pod to pod four times.
  CHECK(seen["{by: pod}"][Tier::core] == Approx(by_dimension["data"] * 4 / 16 + norm).epsilon(1e-12));
}

TEST_CASE("bytes by tier of one group, by hand") {
  // Data parallel alone, 16 ranks in two nodes of eight under one leaf per rail: a ring of 16, two of whose messages
  // leave their node.
  const Job job = tests::small_job({"parallelism={tensor: 1, pipeline: 1, data: 16}", "cluster.fabric=ndr-rail"});
  const StepReport report = simulate_step(job);
  double data = 0, rest = 0;
  for (const TrafficRow& row : report.traffic) (row.dimension == "data" ? data : rest) += row.simulated_bytes;
  auto bytes = tiers(job);
  CHECK(bytes[Tier::node] == Approx(data * 14 / 16));
  CHECK(bytes[Tier::node] + bytes[Tier::leaf] + bytes[Tier::spine] == Approx(data + rest));
  CHECK(bytes[Tier::leaf] + bytes[Tier::spine] == Approx(data * 2 / 16 + rest));
}

TEST_CASE("a placement that scatters tensor groups costs time; the same layout on rails does not care for spines") {
  const auto seconds = [](const Job& job) { return sim::to_seconds(simulate_step(job).iteration); };
  const double good = seconds(placed(machine(false), ""));
  CHECK(seconds(placed(machine(false), "{random_seed: 3}")) > 1.5 * good);
}
