// What a training framework of FSDP adds to or leaves out of a step: kernels by name, bytes by hand, collectives unit
// by unit.
#include <map>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "tests/workloads/layers.h"
#include "workloads/compile/unit_collectives.h"
#include "workloads/step/step_bound.h"
#include "workloads/traffic/traffic.h"

using namespace orrery;
using namespace orrery::workloads;
using calibration::Streaming;

namespace {

/// Two layers with embedding and head on one rank of 16: kernels by name, how often and how long.
struct Kernels {
  std::map<std::string, int> count;
  std::map<std::string, double> seconds;
};

Kernels kernels_of(std::vector<std::string> sets) {
  const std::vector<std::string> flat{"parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=16",
                                      "model.layers=2"};
  sets.insert(sets.begin(), flat.begin(), flat.end());
  const Job job = tests::small_job(sets);
  const LayerPasses passes = tests::passes_over(job, {2, true, true});
  Kernels out;
  for (const Pieces* pieces : {&passes.forward, &passes.backward}) {
    for (const Piece& piece : *pieces) {
      for (const Kernel& kernel : piece.kernels) {
        ++out.count[kernel.name];
        out.seconds[kernel.name] += sim::to_seconds(kernel.time);
      }
    }
  }
  return out;
}

const std::vector<std::string> kFsdp{"parallelism.tensor=1",           "parallelism.pipeline=1", "parallelism.data=16",
                                     "software=llm-foundry",           "batch.global=64",        "overlap=null",
                                     "parallelism.sharding=parameters"};

std::vector<std::string> fsdp(const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets = kFsdp;
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

double step(const std::vector<std::string>& sets) {
  return sim::to_seconds(simulate_step(tests::small_job(sets)).iteration);
}

}  // namespace

TEST_CASE("without dropout no dropout kernel runs, and biases added by GEMMs need no pass of their own") {
  const std::vector<std::string> unfused{"software.recipe.activation=bias_apart", "software.recipe.residual=in_steps"};
  const Kernels with = kernels_of(unfused);
  // Forward two a layer and one of the embedding, likewise backward.
  CHECK(with.count.at("dropout") == 4);
  CHECK(with.count.at("embedding dropout") == 1);
  CHECK(with.count.at("dropout backward") == 4);
  CHECK(with.count.at("add bias") == 6);
  std::vector<std::string> sets = unfused;
  sets.insert(sets.end(), {"software.dropout=false", "software.bias_in_gemm=true"});
  const Kernels without = kernels_of(sets);
  for (const auto& [name, count] : without.count) {
    INFO(name);
    CHECK(name.find("dropout") == std::string::npos);
    CHECK(name != "add bias");
  }
  CHECK(without.count.at("add residual") == 4);
}

TEST_CASE("removing padding gathers q, k, v and scatters the output, backward the other way, and the host reads") {
  const Kernels kernels =
      kernels_of({"software.recipe.attention-in=unpadded", "software.attention_reads_host='180 us'"});
  const Job job = tests::small_job();
  const double token_bytes = 2.0 * 1024 * 2048;  // one sequence of 1024, hidden 2048, 16 bit
  const auto moved = [&](double bytes) {
    return sim::to_seconds(job.machine.device.streaming(Streaming::embedding, bytes));
  };
  // A copy reads and writes; a scatter writes zeros before.
  CHECK(kernels.seconds.at("gather tokens") == Approx(2 * moved(3 * 2 * token_bytes)));
  CHECK(kernels.seconds.at("scatter attention output") == Approx(2 * moved(3 * token_bytes)));
  CHECK(kernels.seconds.at("gather attention gradient") == Approx(2 * moved(2 * token_bytes)));
  CHECK(kernels.seconds.at("scatter q, k, v gradients") == Approx(2 * moved(3 * 3 * token_bytes)));
  CHECK(kernels.seconds.at("host reads lengths") == Approx(2 * 6 * 30e-6));
  CHECK(kernels.count.count("attention input layout") == 0);
}

TEST_CASE("losses for the log pass over the logits again: to fp32, then a log-softmax") {
  const Kernels kernels = kernels_of({"software.training_metrics=2"});
  const Job job = tests::small_job();
  const double logits = 1024.0 * 51200;
  const double each = sim::to_seconds(job.machine.device.streaming(Streaming::copy, 6 * logits)) +
                      sim::to_seconds(job.machine.device.streaming(Streaming::softmax, 8 * logits));
  CHECK(kernels.seconds.at("metric: logits to fp32") + kernels.seconds.at("metric: log-softmax") == Approx(2 * each));
}

TEST_CASE("a z-loss takes the logits' log-sum-exp one operation at a time, and its numbers are in both counts") {
  const Job job = tests::small_job({"software.z_loss=true"});
  // Forward 2 + 4, 4, 8, 8, 4 and 8 bytes of each logit of a rank, which has half of 51200; backward 8, 4 + 2 and 6.
  const LayerPasses passes = tests::passes_over(job, {0, false, true});
  double bytes = 0;
  for (const Pieces* pieces : {&passes.forward, &passes.backward})
    for (const Piece& piece : *pieces)
      for (const Kernel& kernel : piece.kernels)
        bytes += kernel.name.find("z-loss") != std::string::npos ? kernel.bytes : 0;
  CHECK(bytes == Approx((38 + 20) * 1024.0 * 51200 / 2));
  for (const TrafficRow& row : simulate_step(job).traffic) {
    INFO(row.dimension << ' ' << row.what);
    CHECK(row.closed_form_bytes == Approx(row.simulated_bytes));
  }
}

TEST_CASE("an optimizer that is not fused passes over its states once per operation") {
  // In bytes per parameter: two decays and a square root, a division and an addition in place (8 each), two sums with
  // the gradient (12), the update from three tensors (16), scaling of the gradient (8), the 16-bit copy (6).
  constexpr double kBytes = 5 * 8 + 2 * 12 + 16 + 8 + 6;
  const Job job = tests::small_job({"software.recipe.optimizer=in_steps"});
  const double updated = 1e9;
  const auto kernels = optimizer_kernels(job.method.optimizer, job.method.precision, job.software.optimizer,
                                         job.machine.device, {updated, updated});
  double seconds = 0;
  for (std::size_t i = 1; i < kernels.size(); ++i) seconds += sim::to_seconds(kernels[i].time);
  const double floor = sim::to_seconds(job.machine.device.streaming(Streaming::accumulate, 0));
  const double per_byte = (sim::to_seconds(job.machine.device.streaming(Streaming::accumulate, 1e12)) - floor) / 1e12;
  CHECK(seconds == Approx(static_cast<double>(kernels.size() - 1) * floor + updated * kBytes * per_byte));
  for (const char* optimizer : {"adam", "lamb", "sgd"}) {
    INFO(optimizer);
    const std::string set = std::string("optimizer=") + optimizer;
    CHECK(step({set, "software.recipe.optimizer=in_steps"}) > step({set}));
  }
}

TEST_CASE("kernels beside collectives are slowed down for as long as these last, at most throughout") {
  const Job job = tests::small_job(fsdp());
  const topology::Cluster cluster(job.machine.node, job.machine.fabric, job.machine.gpus, job.machine.gpus_per_node,
                                  sim::Settings());
  std::vector<std::int64_t> gpus;
  for (std::int64_t gpu = 0; gpu < job.machine.gpus; ++gpu) gpus.push_back(gpu);
  GroupShapes shapes;
  shapes.set(CommGroup::data, shape_of(gpus, cluster));
  const CollectivePrices prices{job.machine.device, job.software, cluster, shapes};
  UnitLoad pass{4e8, 8, true, false};
  const auto covered = [&](double compute) { return covered_share(pass, compute, data_parallelism_of(job), prices); };
  const double gathers = covered(1.0);
  // 100 MB of 16-bit weights a unit; a ring of two nodes leaves by eight NICs of 25 GB/s, which bounds it from below.
  CHECK(gathers > 8 * 1e8 * 15 / 16 / (8 * 25e9));
  CHECK(gathers < 0.1);
  CHECK(covered(2.0) == Approx(gathers / 2));
  pass.reduces = true;
  CHECK(covered(1.0) > gathers);
  CHECK(covered(gathers / 2) == 1.0);
  // A step whose every kernel ran beside collectives would take up to twice as long; these take a part of that.
  const double alone = step(fsdp({"software.compute_slowdown_under_collective=1"}));
  const double twice = step(fsdp({"software.compute_slowdown_under_collective=2"}));
  CHECK(twice > alone);
  CHECK(twice < 1.5 * alone);
}

TEST_CASE("with gradients alone shared out, FSDP gathers and reduces a unit once in every micro-batch") {
  const Job job = tests::small_job(fsdp({"parallelism.sharding=gradients"}));
  REQUIRE(job.microbatches() == 4);
  const auto report = simulate_step(job);
  int rows = 0;
  for (const TrafficRow& row : report.traffic) {
    if (row.dimension != "data") continue;
    ++rows;
    INFO(row.operation << " " << row.what);
    CHECK(row.calls == 8 * 4);  // layers, micro-batches
    CHECK(row.simulated_bytes == Approx(row.closed_form_bytes));
  }
  CHECK(rows == 2);
  // Weights stay from the forward to the backward pass: a gather less for each.
  CHECK(step(fsdp({"parallelism.sharding=gradients"})) < step(fsdp()));
}

TEST_CASE("the bound of a step holds for blocks gathered and reduced one by one") {
  for (const char* sharding : {"optimizer", "gradients", "parameters"}) {
    for (const char* overlap : {"true", "false"}) {
      for (const char* micro : {"1", "4"}) {
        for (const char* recompute : {"none", "full"}) {
          const Job job = tests::small_job(
              fsdp({std::string("parallelism.sharding=") + sharding, std::string("overlap.gradients=") + overlap,
                    std::string("overlap.parameters=") + overlap, std::string("batch.micro=") + micro,
                    std::string("recompute=") + recompute}));
          INFO(sharding << " " << overlap << " " << micro << " " << recompute);
          StepBound bound;
          const double least = sim::to_seconds(bound.of(job));
          const double step = sim::to_seconds(simulate_step(job).iteration);
          CHECK(least > 0.3 * step);
          CHECK(least <= step);
        }
      }
    }
  }
}

TEST_CASE("units that a pipeline leaves gathered are fetched and reduced once a step, and no less without a pipeline") {
  // Bytes of gradients on their way, per parameter and micro-batch: 4 micro-batches reduce as many times, or once.
  const auto bytes = [](const char* every, const char* stages, const char* data) {
    const Job job = tests::small_job(
        fsdp({"parallelism.sharding=gradients", "batch.global=64", "batch.micro=1",
              std::string("software.gradient_reduction=") + (every == std::string("true") ? "every_pass" : "once"),
              std::string("parallelism.pipeline=") + stages, std::string("parallelism.data=") + data}));
    double sum = 0;
    for (const TrafficRow& row : simulate_step(job).traffic) {
      INFO(row.what);
      CHECK(row.closed_form_bytes == Approx(row.simulated_bytes));
      if (row.what == "gradients, backward") sum += row.simulated_bytes;
    }
    return sum;
  };
  const double micro_batches = 64 / 8;
  CHECK(bytes("true", "2", "8") == Approx(micro_batches * bytes("false", "2", "8")).epsilon(0.01));
  CHECK(bytes("true", "1", "16") == bytes("false", "1", "16"));
}

TEST_CASE("products of weight gradients add into 16-bit gradients, unless parameters are sharded") {
  const auto additions = [](const char* fused, const char* sharding, const char* gradients) {
    return kernels_of(
               {std::string("software.weight_gradients=") + (fused == std::string("true") ? "fused_16bit" : "fused"),
                std::string("parallelism.sharding=") + sharding,
                std::string("precision={gradients: ") + gradients + "}"})
        .count["add weight gradient"];
  };
  CHECK(additions("false", "optimizer", "bf16") > 0);
  CHECK(additions("true", "optimizer", "bf16") == 0);
  CHECK(additions("true", "parameters", "bf16") == additions("false", "parameters", "bf16"));
  CHECK(additions("true", "parameters", "bf16") > 0);
  CHECK(additions("false", "optimizer", "fp32") == 0);  // fp32 gradients take the product whatever the key
}
