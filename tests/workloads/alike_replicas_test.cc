// Replicas that nothing tells apart are made once: the classes of ranks, their sizes, the shapes of groups and the
// tiers that bytes cross have to be those that come of making every rank. "Every rank" is make_groups() as a full run
// asks it.
#include "workloads/groups/alike_replicas.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/groups/groups.h"
#include "workloads/job/job_values.h"
#include "workloads/step/step.h"
#include "workloads/traffic/traffic.h"

using namespace orrery;
using namespace orrery::workloads;
using orrery::tests::small_job;

namespace {

using Sets = std::vector<std::string>;

/// Layouts of 256 GPUs: neighbours in units of four nodes, in pods of two units.
std::vector<Sets> layouts_of_replicas() {
  return {
      {"parallelism={tensor: 8, pipeline: 2, data: 16}"},
      {"parallelism={tensor: 4, pipeline: 4, data: 16, sharding: optimizer}"},
      {"parallelism={tensor: 2, pipeline: 2, context: 2, data: 32, sharding: gradients}"},
      {"parallelism={tensor: 1, pipeline: 1, data: 256, sharding: parameters}"},
      {"parallelism={tensor: 4, pipeline: 2, data: 32, sharding: parameters, shard_group: 2}"},
      {"parallelism={tensor: 4, pipeline: 4, data: 16, schedule: dualpipe}"},
      {"parallelism={tensor: 4, pipeline: 4, data: 16}", "placement={order: [tensor, pipeline, context, data]}"},
  };
}

Job job_of_replicas(Sets sets, const char* fabric) {
  sets.insert(sets.end(), {"cluster.device=h100-sxm-80gb", "cluster.gpus=256", "batch={global: 512, micro: 1}",
                           std::string("cluster.fabric=") + fabric});
  return small_job(sets);
}

constexpr const char* kPods = "{inherits: ndr-rail, unit_nodes: 4, radix: 16, spine_radix: 16, pod_leaves: 8}";

}  // namespace

TEST_CASE("replicas that are alike are made once, with the classes, the shapes and the tiers of all") {
  std::size_t told = 0;
  for (const char* fabric : {"ndr-rail", kPods, "{inherits: ndr-rail, rail: false, unit_nodes: 4}"}) {
    for (const Sets& sets : layouts_of_replicas()) {
      INFO(fabric << ' ' << sets.front());
      const Job job = job_of_replicas(sets, fabric);
      const topology::Cluster cluster = cluster_of(site_of(job));
      const GroupInputs inputs = group_inputs_of(job);
      const auto all = make_groups(inputs, cluster), part = make_groups(inputs, cluster, true);
      CHECK(!all->replicas.any());
      if (!part->replicas.any()) continue;
      ++told;
      CHECK(part->folded.class_size == all->folded.class_size);
      CHECK(part->folded.representative == all->folded.representative);
      CHECK(part->folded.plan.communicators.size() == all->folded.plan.communicators.size());
      CHECK(part->folded.network.route_latency == all->folded.network.route_latency);
      for (const JobGroup& group : all->list) {
        INFO(group.group.name);
        const GroupShape &a = all->shapes[group.group], &b = part->shapes[group.group];
        CHECK(std::tie(a.ranks, a.nodes, a.per_node, a.rails, a.top, a.hop, a.nic) ==
              std::tie(b.ranks, b.nodes, b.per_node, b.rails, b.top, b.hop, b.nic));
      }
      CHECK(part->shapes.pipeline_same_node == all->shapes.pipeline_same_node);
      std::vector<TrafficRow> rows = closed_form_traffic(job);
      for (TrafficRow& row : rows) row.simulated_bytes = row.closed_form_bytes;
      const RankMap ranks(inputs.layout.dims, inputs.placement, job.machine.gpus_per_node);
      CHECK(bytes_by_tier(rows, all->list, ranks, cluster) ==
            bytes_by_tier(rows, part->list, ranks, cluster, part->alike, part->replicas));
    }
  }
  CHECK(told >= 15);
}

TEST_CASE("steps of replicas that are made once take as long as those of every rank") {
  for (const Sets& sets : layouts_of_replicas()) {
    INFO(sets.front());
    const Job job = job_of_replicas(sets, kPods);
    Question brief, full;
    brief.parts = full.parts = Question::Parts::times;
    full.ranks = Question::Ranks::every;
    CHECK(simulate_step(job, brief).iteration == simulate_step(job, full).iteration);
  }
}

TEST_CASE("of replicas that are told apart every one is made") {
  const auto any = [](const Sets& sets, const char* fabric) {
    const Job job = job_of_replicas(sets, fabric);
    return make_groups(group_inputs_of(job), cluster_of(site_of(job)), true)->replicas.any();
  };
  const Sets layout = layouts_of_replicas().front();
  const auto with = [&](const char* set) {
    Sets sets = layout;
    sets.emplace_back(set);
    return sets;
  };
  CHECK(any(layout, "ndr-rail"));
  CHECK(!any(with("perturb={slow_gpus: [{gpu: 3, slowdown: 1.1}]}"), "ndr-rail"));
  CHECK(!any(with("perturb={jitter: {sigma: 0.01, seed: 1}}"), "ndr-rail"));
  CHECK(!any(with("placement={random_seed: 1}"), "ndr-rail"));
  // Uplinks that can be full, and links that are.
  CHECK(!any(layout, "{inherits: ndr-rail, unit_nodes: 4, oversubscription: 4}"));
  CHECK(!any(layout, "{inherits: ndr-rail, routing: ecmp, ecmp_seed: 3}"));
}

TEST_CASE("a block of replicas fills nodes, and the first of each kind stands for the others") {
  // Two replicas to a node, 16 of them in a stage, which fill 8 nodes: units of four nodes are crossed by none.
  const Job job = job_of_replicas(layouts_of_replicas()[1], kPods);
  const auto groups = make_groups(group_inputs_of(job), cluster_of(site_of(job)), true);
  const AlikeReplicas& replicas = groups->replicas;
  REQUIRE(replicas.any());
  CHECK(replicas.in_block == 2);
  CHECK(std::accumulate(replicas.copies.begin(), replicas.copies.end(), 0u) == replicas.copies.size());
  CHECK(replicas.copies.size() == 8);
  CHECK(replicas.copies.front() > 0);
  CHECK(replicas.of_node.size() == 32);
  // One tensor rank of every stage, of the replicas that are made.
  const std::vector<std::int64_t> made = made_ranks(job.parallelism.dims(), groups->alike, replicas);
  const auto blocks = std::count_if(replicas.copies.begin(), replicas.copies.end(), [](auto n) { return n > 0; });
  CHECK(static_cast<std::int64_t>(made.size()) == 4 * 2 * blocks * 4 / groups->alike);
}
