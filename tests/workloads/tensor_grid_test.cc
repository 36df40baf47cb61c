// A tensor group cut in two dimensions: shapes of products, exchanges and parameters by hand.
#include <map>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/model/products.h"
#include "workloads/traffic/closed_form_parameters.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// Eight tensor ranks, two over inputs and four over outputs, and two replicas.
Job grid(const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets{"parallelism.tensor=8",   "parallelism.tensor_in=2", "parallelism.data=2",
                                "parallelism.pipeline=1", "batch.global=8",          "batch.micro=2"};
  sets.insert(sets.end(), more.begin(), more.end());
  return tests::small_job(sets);
}

}  // namespace

TEST_CASE(
    "inputs of column-parallel and outputs of row-parallel layers are cut over one dimension, the rest over the "
    "other") {
  const std::vector<calibration::Gemm> shapes = products(network_of(grid()).layer(1));
  REQUIRE(shapes.size() == 4);
  const std::int64_t h = 2048, tokens = 2 * 1024;
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected{
      {3 * h / 4, h / 2}, {h / 2, h / 4}, {4 * h / 4, h / 2}, {h / 2, 4 * h / 4}};  // out, in
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(shapes[i].m == expected[i].first);
    CHECK(shapes[i].k == expected[i].second);
    CHECK(shapes[i].n == tokens);
  }
}

TEST_CASE("a rank holds an eighth of every matrix, a quarter or a half of biases, half of norms") {
  const double h = 2048;
  const Job job = grid();
  const double layer = 12 * h * h / 8 + (3 * h + 4 * h) / 4 + (2 * h + 4 * h) / 2;
  CHECK(parameters(network_of(job).layer(1)) == layer);
  CHECK(shard_parameters(job.model, 8, true, true, 2).layer == layer);
}

TEST_CASE("a layer adds up what both dimensions hold parts of, in both directions") {
  // Of two sequences of 1024 in two bytes, per micro-batch; the groups of a replica's eight ranks, two micro-batches.
  const double b = 2 * 1024 * 2, h = 2048, runs = 2 * 2 * 8;  // micro-batches, replicas, layers
  const auto of_two = [&](double width) { return runs * 4 * 2 * 2 * (1.0 / 2) * b * width; };
  const auto of_four = [&](double width) { return runs * 2 * 4 * 2 * (3.0 / 4) * b * width; };
  const std::map<std::string, double> expected{
      {"queries, keys and values, forward", of_two(3 * h / 4)},
      {"up projection, forward", of_two(4 * h / 4)},
      {"activations, forward", 2 * of_four(h / 2)},
      {"activation gradients, backward", 2 * of_four(h / 2)},
      {"attention output gradients, backward", of_two(h / 4)},
      {"activation gradients of the MLP, backward", of_two(4 * h / 4)},
  };
  for (const char* recompute : {"none", "full"}) {
    std::map<std::string, double> found;
    for (const TrafficRow& row : traffic_table(grid({std::string("recompute=") + recompute}))) {
      INFO(row.what);
      CHECK(row.simulated_bytes == Approx(row.closed_form_bytes).epsilon(1e-9));
      found[row.what] = row.simulated_bytes;
    }
    for (const auto& [what, bytes] : expected) {
      INFO(what);
      CHECK(found[what] == Approx(bytes));
      const bool again = recompute == std::string("full") && what.ends_with("forward");
      CHECK(found.contains(what + " (recomputed)") == again);
    }
  }
}

TEST_CASE("one rank over inputs is the usual split") {
  const Job usual = grid({"parallelism.tensor_in=1", "parallelism.sequence_parallel=false"});
  CHECK(network_of(usual).layer(1).ops.size() + 2 == network_of(grid()).layer(1).ops.size());
}
