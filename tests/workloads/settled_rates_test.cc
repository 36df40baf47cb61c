// Rates that stand for a whole step: are they max-min fair within a kind, and how far off is a step that runs at them?
#include "workloads/groups/settled_rates.h"

#include "sim/engine.h"
#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/job/step_plan.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// 16 nodes under ECMP, all ranks at random.
Job scattered(std::vector<std::string> sets) {
  const std::vector<std::string> base{"cluster.gpus=128", "parallelism={tensor: 8, pipeline: 4, data: 4}",
                                      "batch={global: 32, micro: 1}", "placement={random_seed: 5}"};
  sets.insert(sets.begin(), base.begin(), base.end());
  return tests::small_job(sets);
}

struct RanWith {
  double seconds = 0;
  std::size_t classes = 0;
  bool settled = false;
};

RanWith run(const Job& job, std::size_t most_sharing, bool full) {
  const topology::Cluster cluster = cluster_of(site_of(job));
  const auto groups = make_groups(group_inputs_of(job), cluster, false, most_sharing);
  StepPlan step = make_plan(job, cluster, groups, {});
  sim::Plan plan = full ? groups->plan : groups->folded.plan;
  for (std::uint32_t s = 0; s < step.stages.programs.size(); ++s)
    plan.programs[sim::ProgramId{s}] = std::move(step.stages.programs[s]);
  const sim::Result result = sim::run(plan, full ? groups->network : groups->folded.network);
  REQUIRE(result.outcome == sim::Outcome::finished);
  return {sim::to_seconds(result.makespan), groups->folded.representative.size(), groups->settled};
}

constexpr std::size_t kNever = 1'000'000;

}  // namespace

TEST_CASE("communicators of a kind share links, those of others do not; those in step take the slowest's pace") {
  sim::Network network;
  const sim::LinkId wide = network.add_link(sim::Bandwidth(10)), narrow = network.add_link(sim::Bandwidth(6));
  const std::vector<sim::WeightedLink> on_wide{{wide, 1.0}}, on_both{{wide, 1.0}, {narrow, 2.0}};
  sim::Plan plan;
  const auto add = [&](const std::vector<sim::WeightedLink>& links, sim::Duration latency) {
    plan.communicators.push_back({2, network.add_route(links, latency), 1, plan.communicators.size()});
  };
  add(on_wide, sim::microseconds(1));  // kind 0: 3 of the narrow link's 6 for the second, so 7 of 10 are left
  add(on_both, sim::microseconds(2));
  add(on_wide, sim::microseconds(3));  // kind 1, two in step: 5 each and 10 alone; 3 and 4 us
  add(on_wide, sim::microseconds(4));
  add({}, sim::microseconds(5));  // kind 2: nothing to share
  settle_rates(plan, std::vector<std::int64_t>{0, 0, 1, 1, 2}, std::vector<std::int64_t>{0, 1, 0, 0, 0}, network);
  REQUIRE(network.routes() == 5);
  const auto rate = [&](std::uint32_t c) { return network.capacity[network.links_of(sim::RouteId{c})[0].link]; };
  CHECK(rate(0) == Approx(7));
  CHECK(rate(1) == Approx(3));
  CHECK(rate(2) == Approx(5));
  CHECK(rate(3) == rate(2));
  CHECK(network.links_of(sim::RouteId{4}).empty());
  CHECK(network.route_latency[2] == sim::microseconds(4));
  CHECK(network.route_latency[3] == sim::microseconds(4));
}

TEST_CASE("a job at random runs alike with settled rates, tensor groups folded, and folded as in full") {
  const Job job = scattered({});
  const RanWith exact = run(job, kNever, false), settled = run(job, 0, false);
  CHECK_FALSE(exact.settled);
  REQUIRE(settled.settled);
  CHECK(exact.classes == 128);
  CHECK(settled.classes == 128 / 8);
  CHECK(settled.seconds == Approx(exact.seconds).epsilon(0.1));
  CHECK(run(job, 0, true).seconds == settled.seconds);
}

TEST_CASE("placements in order keep their exact rates, however small the limit") {
  const Job job = scattered({"placement=null"});
  CHECK_FALSE(run(job, 0, false).settled);
}
