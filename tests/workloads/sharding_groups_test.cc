// Weights, gradients and optimizer shared out among groups of different sizes: what moves where, and what is held.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/memory/memory.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

using Sets = std::vector<std::string>;

/// 16 replicas on two nodes, two micro-batches each.
Job sharded(const Sets& more = {}) {
  Sets sets{"parallelism.tensor=1",
            "parallelism.data=16",
            "parallelism.pipeline=1",
            "parallelism.sharding=parameters",
            "precision={gradients: bf16}",
            "batch.global=32",
            "overlap={gradients: true, parameters: true}"};
  sets.insert(sets.end(), more.begin(), more.end());
  return tests::small_job(sets);
}

/// 8 layers of 12 h^2 + 13 h, 51,200 words, 1024 positions, a norm.
constexpr double kHidden = 2048;
constexpr double kParameters = 8 * (12 * kHidden * kHidden + 13 * kHidden) + (51200 + 1024 + 2) * kHidden;

struct Moved {
  std::int64_t group = 0;
  double bytes = 0;  // of all ranks
  std::string level;
};

Moved moved(const Job& job, const std::string& what) {
  for (const TrafficRow& row : traffic_table(job)) {
    if (row.what != what) continue;
    CHECK(row.simulated_bytes == Approx(row.closed_form_bytes).epsilon(1e-9));
    return {row.group, row.simulated_bytes, row.level};
  }
  return {};
}

StageMemory memory(const Job& job) { return stage_memory(job, split_layers(job)).front(); }

}  // namespace

TEST_CASE("backward passes gather from the second copy of the weights, which stays in the node") {
  const Job plain = sharded(), second = sharded({"parallelism.secondary_group=8"});
  CHECK(moved(plain, "parameters, backward").bytes == Approx(2 * 15 * 2 * kParameters));
  const Moved backward = moved(second, "parameters, backward");
  CHECK(backward.group == 8);
  CHECK(backward.level == "node");
  CHECK(backward.bytes == Approx(2 * 2 * 7 * 2 * kParameters));  // micro-batches, groups, n - 1, bytes
  CHECK(moved(second, "parameters, forward").bytes == moved(plain, "parameters, forward").bytes);
  CHECK(memory(second).parameters - memory(plain).parameters == Approx(2 * kParameters / 8));
}

TEST_CASE("weights in pairs, gradients in nodes and states everywhere, as in low-bandwidth partitioning") {
  const Job job = sharded({"parallelism.weight_group=2", "parallelism.gradient_group=8"});
  for (const char* pass : {"parameters, forward", "parameters, backward"}) {
    const Moved gathered = moved(job, pass);
    CHECK(gathered.group == 2);
    CHECK(gathered.bytes == Approx(2 * 8 * 1 * 2 * kParameters));
  }
  CHECK(moved(job, "gradients, backward").bytes == Approx(2 * 2 * 7 * 2 * kParameters));
  // Once a step: an eighth of the gradients between two nodes, and half of the weights among eight pairs.
  const Moved between = moved(job, "gradients, between their groups");
  CHECK(between.group == 2);
  CHECK(between.bytes == Approx(8 * 1 * 2 * kParameters / 8));
  const Moved handed_out = moved(job, "new parameters, after the step");
  CHECK(handed_out.group == 8);
  CHECK(handed_out.bytes == Approx(2 * 7 * 2 * kParameters / 2));
  const StageMemory held = memory(job), all = memory(sharded());
  CHECK(held.parameters == Approx(2 * kParameters / 2));
  CHECK(held.gradients == Approx(2 * kParameters / 8));
  CHECK(held.optimizer == all.optimizer);
}

TEST_CASE("quantised, a parameter travels in a byte and a gradient in half of one, each with its share of a scale") {
  const Job job = sharded({"software.quantised_fetches=true", "software.quantised_reductions=true"});
  const double scale = 4.0 / 2048;
  CHECK(moved(job, "parameters, forward").bytes == Approx(2 * 15 * (1 + scale) * kParameters));
  CHECK(moved(job, "gradients, backward").bytes == Approx(2 * 15 * (0.5 + scale) * kParameters));
}

TEST_CASE("MiCS adds gradients up between groups once a step, FSDP in every pass") {
  const Sets groups{"parallelism.shard_group=8"};
  Sets once = groups;
  once.emplace_back("software.unit_reduction=groups_once");
  const double every = moved(sharded(groups), "gradients, between shard groups").bytes;
  CHECK(every == Approx(2 * 8 * 2 * 2 * (1.0 / 2) * 2 * kParameters / 8));
  CHECK(moved(sharded(once), "gradients, between shard groups").bytes == Approx(every / 2));
}

TEST_CASE("where links between nodes are slow, groups inside them are faster") {
  const Sets slow{"cluster.fabric=jean-zay-4x100g"};
  const auto step = [&](Sets more) {
    more.insert(more.end(), slow.begin(), slow.end());
    return sim::to_seconds(simulate_step(sharded(more)).iteration);
  };
  const double all = step({}), second = step({"parallelism.secondary_group=8"});
  const double inside = step({"parallelism.weight_group=8", "parallelism.gradient_group=8"});
  CHECK(second < all);
  CHECK(inside < second);
}
