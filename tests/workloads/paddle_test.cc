// What Paddle's fleet does otherwise than Megatron-LM: gradients that go to their owners in every backward pass, weight
// by weight, three layers for queries, keys and values, and a loss in one kernel.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "tests/workloads/layers.h"
#include "workloads/compile/data_transfers.h"
#include "workloads/traffic/closed_form_parameters.h"

using namespace orrery;
using namespace orrery::workloads;
using calibration::Streaming;

namespace {

/// One node of eight replicas, four micro-batches each.
Job sharded(const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets{
      "cluster.gpus=8",     "cluster.fabric=single-node",      "parallelism.tensor=1",
      "parallelism.data=8", "parallelism.pipeline=1",          "parallelism.sharding=gradients",
      "precision=fp16",     "software.fp16_accumulation=fp16", "software.query_layers=separate"};
  sets.insert(sets.end(), more.begin(), more.end());
  return tests::small_job(sets);
}

double step_s(const Job& job) { return sim::to_seconds(simulate_step(job).iteration); }

struct Kernels {
  std::map<std::string, int> count;
  std::map<std::string, double> seconds;
  int input_gradient_reductions = 0;
};

/// One layer, without the ends.
Kernels layer(const Job& job) {
  const LayerPasses passes = tests::passes_over(job, {1, false, false});
  Kernels out;
  for (const Pieces* pieces : {&passes.forward, &passes.backward}) {
    for (const Piece& piece : *pieces) {
      out.input_gradient_reductions += piece.is_comm() && piece.what == "activation gradients, backward";
      for (const Kernel& kernel : piece.kernels) {
        ++out.count[kernel.name];
        out.seconds[kernel.name] += sim::to_seconds(kernel.time);
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a broadcast inside a node fills a chain of all ranks before it runs at the links' rate") {
  const Job job = sharded();
  const topology::Cluster cluster(job.machine.node, job.machine.fabric, 8, 8, sim::Settings());
  for (const std::int64_t ranks : {2, 4, 8}) {
    std::vector<std::int64_t> gpus;
    for (std::int64_t gpu = 0; gpu < ranks; ++gpu) gpus.push_back(gpu);
    const GroupShape shape = shape_of(gpus, cluster);
    for (const std::int64_t bytes : {std::int64_t{1} << 20, std::int64_t{1} << 28}) {
      const auto timing = job.machine.device.node_collective(CollectiveOp::broadcast, ranks, sim::Bytes(bytes));
      // 12 links of an A100, two channels each, 512 KiB in flight in each; the last of n ranks is n - 1 steps away. A
      // chunk passes at the rate of long buffers, whichever protocol the call runs: else the fill would fall by half
      // where the protocol changes.
      const sim::Bandwidth rate =
          job.machine.device.node_collective(CollectiveOp::broadcast, ranks, sim::Bytes(1 << 30)).rate;
      const double chunk = std::min(24.0 * 512 * 1024, static_cast<double>(bytes));
      const double fill = static_cast<double>(ranks - 2) * chunk / rate.value();
      const CollectiveCost cost = collective_cost(CollectiveOp::broadcast, static_cast<double>(bytes), shape,
                                                  job.machine.device, job.software, cluster);
      CHECK(sim::to_seconds(cost.latency) == Approx(sim::to_seconds(timing.latency) + fill).epsilon(1e-6));
      CHECK(cost.work == timing.wire_bytes);
    }
  }
}

TEST_CASE("gradients that go to their owners cost a chain for each weight, in the backward pass of every micro-batch") {
  const Job once = sharded({"software.gradient_reduction=once"}),
            each = sharded({"software.gradient_reduction=to_owners"});
  REQUIRE(once.microbatches() == 4);
  const topology::Cluster cluster(each.machine.node, each.machine.fabric, 8, 8, sim::Settings());
  const std::vector<std::int64_t> gpus{0, 1, 2, 3, 4, 5, 6, 7};
  const GroupShape data = shape_of(gpus, cluster);
  const auto chain = [&](double elements) {
    const CollectiveCost cost =
        collective_cost(CollectiveOp::broadcast, 2 * elements, data, each.machine.device, each.software, cluster);
    return sim::to_seconds(cost.latency) + cost.work / cost.rate_cap;
  };
  // Four matrices of h x h, two of h x 4 h; biases (3 h + h + 4 h + h) and two norms (4 h) are one more.
  const double h = 2048;
  const double unit = 4 * chain(h * h) + 2 * chain(4 * h * h) + chain(13 * h);
  GroupShapes shapes;
  shapes.set(CommGroup::data, data);
  const Network network = network_of(each);
  const CollectiveCost cost = owner_reductions(12 * h * h + 13 * h, &network.layer(1), 2,
                                               {each.machine.device, each.software, cluster, shapes});
  CHECK(sim::to_seconds(cost.latency) + cost.work / cost.rate_cap == Approx(unit).epsilon(1e-9));
  // 8 layers of 4 micro-batches, and with them a tied embedding of 51,200 words, 1024 positions and the final norm:
  // compute waits for each. Without it the same gradients are reduced in one piece, once.
  const double head = chain(13 * h + (51200 + 1024 + 2) * h) - chain(13 * h);
  const double all = 4 * (8 * unit + head);
  const double more = step_s(each) - step_s(once);
  const double reduced_once = sim::to_seconds(
      each.machine.device.node_collective(CollectiveOp::reduce_scatter, 8, sim::Bytes(814'000'000)).total());
  CHECK(more > all - 1.5 * reduced_once);
  CHECK(more < all);
}

TEST_CASE("the traffic table counts the reductions of every micro-batch") {
  for (const bool every : {false, true}) {
    const Job job = sharded({std::string("software.gradient_reduction=") + (every ? "every_pass" : "once")});
    bool found = false;
    for (const TrafficRow& row : traffic_table(job)) {
      if (row.what != "gradients, backward") continue;
      found = true;
      const ShardParameters shard = tests::shard_parameters(job);
      const double bytes = 2 * (8 * shard.layer + shard.embedding + shard.head);
      CHECK(row.closed_form_bytes == Approx((every ? 4 : 1) * 7 * bytes));
      CHECK(row.simulated_bytes == Approx(row.closed_form_bytes).epsilon(1e-9));
    }
    CHECK(found);
  }
}

TEST_CASE("queries, keys and values that are layers of their own have their own products, biases and reductions") {
  const std::vector<std::string> sets{"software.query_layers=separate"};
  const Job one = tests::small_job(), three = tests::small_job(sets);
  const Kernels together = layer(one), apart = layer(three);
  CHECK(together.count.at("qkv") == 1);
  CHECK(apart.count.count("qkv") == 0);
  for (const char* name : {"query", "key", "value", "query data gradient", "key weight gradient"}) {
    INFO(name);
    CHECK(apart.count.at(name) == 1);
  }
  // Three sums are two additions, each of two tensors into a third: 1024 tokens of 2048 in 16 bit.
  const double tokens = 1024, h = 2048;
  const auto pass = [&](double bytes) {
    return sim::to_seconds(three.machine.device.streaming(Streaming::accumulate, bytes));
  };
  CHECK(apart.count.at("add input gradients") == 2);
  CHECK(apart.seconds.at("add input gradients") == Approx(2 * pass(3 * 2 * tokens * h)));
  CHECK(apart.seconds.at("add qkv bias") == Approx(pass(2 * 2 * tokens * 3 * h / 2)));
  CHECK(apart.seconds.at("qkv bias gradient") == Approx(pass(2 * tokens * 3 * h / 2)));
  // Over a tensor group of two: the MLP's and the attention's, or the MLP's and three.
  CHECK(together.input_gradient_reductions == 2);
  CHECK(apart.input_gradient_reductions == 4);
  // With sequence parallelism the sums of both are scattered, and their gradients gathered.
  CHECK(layer(tests::small_job({"software.query_layers=separate", "parallelism.sequence_parallel=true"}))
            .input_gradient_reductions == 4);
}

TEST_CASE("a loss in one kernel reads fp32 logits and writes their softmax, without a tensor group") {
  const auto forward = [](const Job& job) {
    double seconds = 0;
    for (const Piece& piece : tests::passes_over(job, {0, false, true}).forward) {
      for (const Kernel& kernel : piece.kernels) seconds += kernel.flops > 0 ? 0 : sim::to_seconds(kernel.time);
    }
    return seconds;
  };
  const Job steps = sharded(), kernel = sharded({"software.recipe.loss=kernel"});
  const double logits = 1024.0 * 51200;
  const auto pass = [&](double bytes) {
    return sim::to_seconds(steps.machine.device.streaming(Streaming::cross_entropy, bytes));
  };
  // Beside the copy to fp32: maximum, subtraction, exponentials, their sum and the division (4, 8, 8, 4 and 8 bytes a
  // logit), against 8.
  CHECK(forward(steps) - forward(kernel) ==
        Approx(2 * pass(4 * logits) + 3 * pass(8 * logits) - pass(8 * logits)).epsilon(1e-6));
  const std::vector<std::string> split{"parallelism.tensor=2", "parallelism.data=4"};
  std::vector<std::string> both = split;
  both.push_back("software.recipe.loss=kernel");
  CHECK(forward(sharded(split)) == forward(sharded(both)));
}
