// Parameters that are gathered weight by weight: which weights stay, what a step gathers, and what calls cost the host.
#include "workloads/compile/weight_collectives.h"

#include <map>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// 16 replicas of one stage, one micro-batch each, whole layers recomputed.
Job sharded(const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets{"parallelism.tensor=1",
                                "parallelism.data=16",
                                "parallelism.pipeline=1",
                                "parallelism.sharding=parameters",
                                "precision=fp16",
                                "recompute=full",
                                "batch.global=16",
                                "software.fp16_accumulation=fp16",
                                "software.fetches=by_weight",
                                "overlap={gradients: true, parameters: true}"};
  sets.insert(sets.end(), more.begin(), more.end());
  return tests::small_job(sets);
}

double step_s(const Job& job) { return sim::to_seconds(simulate_step(job).iteration); }

double row(const Job& job, const std::string& what) {
  for (const TrafficRow& row : traffic_table(job)) {
    if (row.what != what) continue;
    CHECK(row.simulated_bytes == Approx(row.closed_form_bytes).epsilon(1e-9));
    return row.simulated_bytes;
  }
  FAIL("no row of " << what);
  return 0;
}

/// Items that read one weight each: "ab|a" are two weights and a pause before the first is read again.
std::vector<PassItem> items(const std::string& reads, const std::map<char, double>& elements) {
  std::vector<PassItem> out;
  for (const char name : reads) {
    PassItem item;
    item.layer = 0;
    if (name != '|') item.weights = {name - 'a', 1, elements.at(name)};
    out.push_back(item);
  }
  return out;
}

}  // namespace

TEST_CASE("a weight stays gathered while at most the given elements of others are used in between") {
  const std::map<char, double> elements{{'a', 3}, {'b', 1}, {'c', 4}};
  const auto uses_for = [&](double distance) {
    std::vector<WeightUse> uses = weight_uses(items("ab|cc|cba", elements), std::vector<double>{0});
    keep_for_reuse(uses, distance);
    std::string here;
    for (const WeightUse& use : uses) here += use.here ? 'y' : 'n';
    return here;
  };
  // Six uses: a, b, c (two items side by side), c, b, a. Between the two of b lie c twice, of a b and c twice.
  CHECK(uses_for(0) == "nnnynn");
  CHECK(uses_for(7) == "nnnynn");
  CHECK(uses_for(8) == "nnnyyn");
  CHECK(uses_for(9) == "nnnyyn");
  CHECK(uses_for(10) == "nnnyyy");
}

TEST_CASE("matrices are gathered in every pass, norms and biases once a step, and all gradients reduced") {
  // Eight layers of 12 h^2 in matrices and 13 h beside them; 51,200 words and 1024 positions; a norm at the end.
  const double h = 2048, n = 16, words = 51200 * h, embedding = words + 1024 * h;
  const Job job = sharded();
  CHECK(row(job, "parameters, forward") == Approx((n - 1) * 2 * (8 * 12 * h * h + embedding + words)));
  // Recomputed and backward, but that down (4 h^2) is there still: it ends the one and begins the other.
  CHECK(row(job, "parameters, backward") == Approx((n - 1) * 2 * (8 * (24 - 4) * h * h + embedding + words)));
  CHECK(row(job, "parameters, after the step") == Approx((n - 1) * 2 * (8 * 13 * h + 2 * h)));
  CHECK(row(job, "gradients, backward") == Approx((n - 1) * 2 * (8 * (12 * h * h + 13 * h) + embedding + 2 * h)));
}

TEST_CASE("weights that are used again soon are not gathered again") {
  const double h = 2048, n = 16, ends = 2 * 51200 * h + 1024 * h;
  // Between the two uses of up lies down twice: 8 h^2.
  const Job up = sharded({"software.reuse_distance=33554432"});
  CHECK(row(up, "parameters, backward") == Approx((n - 1) * 2 * (8 * (24 - 8) * h * h + ends)));
  const Job all = sharded({"software.reuse_distance=1e12"});
  CHECK(row(all, "parameters, backward") == Approx((n - 1) * 2 * (8 * 12 * h * h + ends)));
  const Job none = sharded({"recompute=none"});
  CHECK(row(none, "parameters, backward") == Approx((n - 1) * 2 * (8 * 12 * h * h + ends)));
}

TEST_CASE("every call costs the host a time for each rank, which a drained device waits for") {
  // So long that the host alone sets the pace.
  const std::vector<std::string> slow{"software.fetch_call_per_rank=1 ms", "software.fetches=by_weight_drained"};
  std::vector<std::string> slower = slow;
  slower[0] = "software.fetch_call_per_rank=2 ms";
  // A layer: four gathers forward, four and three behind it, a reduction for each of four matrices and eight norms and
  // biases (three of the latter two tensors). Embedding and head: two gathers in each direction; three tensors reduced,
  // and the final norm's two. After the step one call, and every norm and bias apart: 8 a layer and the last two.
  const double layer = 4 + 4 + 3 + 4 + 8, ends = 4 + 2 + 2, after = 1 + 8 * 8 + 2;
  const double calls = 8 * layer + ends + after;
  const double more = step_s(sharded(slower)) - step_s(sharded(slow));
  CHECK(more == Approx(calls * 16 * 1e-3).epsilon(0.01));
}

TEST_CASE("nothing is fetched ahead of its use while too much is at hand") {
  const std::vector<std::string> drained{"software.fetches=by_weight_drained", "cluster.gpus_per_node=1"};
  std::vector<std::string> bounded = drained;
  bounded.emplace_back("software.live_parameters=1");
  std::vector<std::string> apart = drained;
  apart.emplace_back("overlap={gradients: true, parameters: false}");
  const double ahead = step_s(sharded(drained)), never = step_s(sharded(apart)), at_most = step_s(sharded(bounded));
  CHECK(ahead < at_most);
  CHECK(at_most < never);  // between layers nothing is at hand, so that some gathers hide behind attention and norms
}
