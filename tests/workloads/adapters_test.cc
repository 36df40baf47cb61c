// Does fine-tuning by low-rank adapters compute, hold and send what frozen weights leave of a training step?
#include "workloads/model/adapters.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/workloads/example.h"
#include "workloads/model/kept.h"
#include "workloads/step/job_values.h"
#include "workloads/step/memory.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;
using tests::small_job;

namespace {

std::vector<std::string> lora(std::vector<std::string> more = {}) {
  more.insert(more.begin(), "finetune={kind: lora, rank: 16}");
  return more;
}

}  // namespace

TEST_CASE("adapters have the parameters of their two factors, by the layers and by the formula") {
  for (const std::string tensor : {"1", "2", "4"}) {
    for (const char* modules : {"attention", "all"}) {
      const Job job = small_job({"parallelism={tensor: " + tensor + ", pipeline: 2}",
                                 std::string("finetune={kind: lora, rank: 16, modules: ") + modules + "}"});
      const Network network = network_of(job);
      INFO("tensor " << tensor << ", " << modules);
      CHECK(trained_parameters(network.layer(1)) ==
            adapter_parameters(job.model, job.method.adapters, job.parallelism.tensor));
      CHECK(trained_parameters(network.layer(0)) == 0);
      CHECK(trained_parameters(network.layer(network.size() - 1)) == 0);
    }
  }
  // On one rank: r (h + 3h) beside queries, keys and values, r (h + h) beside the projection.
  const Job whole = small_job({"parallelism={tensor: 1, pipeline: 1}", "finetune={kind: lora, rank: 16}"});
  CHECK(trained_parameters(network_of(whole).layer(1)) == 16 * (4 + 2) * 2048.0);
}

TEST_CASE("frozen products have gradients of their inputs alone: 4 FLOPs a parameter and token, not 6") {
  const Job trains = small_job(), adapts = small_job(lora());
  const double all = model_flops(trains.model, 32), frozen = model_flops(adapts.model, 32, Trained::adapters);
  // Attention has no weights: twice forward's work backward, as before.
  const double attention = 3 * 32 * 8 * 4.0 * 1024 * 1024 * 2048;
  CHECK(frozen - attention == Approx((all - attention) * 2 / 3));
  CHECK(simulate_step(adapts).rates.model_tflops_per_gpu > 0);
  const Network network = network_of(adapts);
  const LayerPasses passes = passes_of(network.layer(1), {adapts.machine.device, 1}, false);
  int of_weights = 0;
  for (const auto& piece : passes.backward) {
    for (const Kernel& kernel : piece.kernels) of_weights += kernel.name.find("weight gradient") != std::string::npos;
  }
  CHECK(of_weights == 4);  // up and down of two adapters
}

TEST_CASE("frozen weights take their operands' bytes, adapters the 16 of mixed-precision Adam") {
  const Job job = small_job(lora({"parallelism={tensor: 1, pipeline: 1, sharding: none}"}));
  const LayerSplit split = split_layers(job);
  const StageMemory stage = stage_memory(job, split).front();
  const double adapters = 8 * 16 * 6 * 2048.0, frozen = parameter_count(job.model) + 2 * 2048;  // and the final norm
  CHECK(stage.parameters == Approx(2 * (adapters + frozen)));
  CHECK(stage.gradients == Approx(2 * adapters));
  CHECK(stage.optimizer == Approx(12 * adapters));
  const Job quantised = small_job(lora({"parallelism={tensor: 1, pipeline: 1}", "precision=fp8",
                                        "cluster.device=h100-sxm-80gb", "model.tied_embeddings=false"}));
  const StageMemory held = stage_memory(quantised, split_layers(quantised)).front();
  CHECK(held.parts.weight_copies == 0);
  CHECK(held.parameters == Approx(2 * adapters + parameter_count(quantised.model) + 2 * 2048));
}

TEST_CASE("tensors that only gradients of frozen weights would need are not kept") {
  const PassBytes trains = bytes_of(network_of(small_job()).layer(1));
  const PassBytes adapts = bytes_of(network_of(small_job(lora())).layer(1));
  // Of each half the input of its products, of the MLP its activation; beside them stand the adapters' input and inside
  // (the projection's adapter reads what attention keeps).
  const double tokens = 1024, h = 2048, t = 2, e = 2;
  const double gone = tokens * (2 * h + 4 * h / t) * e, come = tokens * (h + 2 * 16) * e;
  CHECK(adapts.kept == Approx(trains.kept - gone + come));
}

TEST_CASE("the two counts of traffic agree, and a folded run equals one of every rank, with adapters") {
  for (const std::vector<std::string>& sets :
       {lora(), lora({"parallelism.sequence_parallel=true", "parallelism.sharding=optimizer"}),
        lora({"recompute=full", "model.tied_embeddings=false"}), lora({"recompute={kind: full, layers: 1}"}),
        lora({"parallelism={tensor: 4, pipeline: 2, context: 2, sequence_parallel: true, sharding: optimizer}"}),
        std::vector<std::string>{"finetune={kind: lora, rank: 2, modules: all, dropout: 0.1}",
                                 "parallelism={tensor: 4, pipeline: 1, sharding: gradients}"},
        lora({"parallelism.schedule=zb_h1"})}) {
    const Job job = small_job(sets);
    StepOptions options;
    options.full = true;
    const StepReport folded = simulate_step(job), full = simulate_step(job, options);
    CHECK(tests::contradiction(folded) == "");
    CHECK(tests::comparable(folded) == tests::comparable(full));
  }
}

TEST_CASE("an adapted step is faster than a whole one and no faster than its forward and input gradients") {
  const Job trains = small_job({"model.hidden=8192", "model.ffn_hidden=32768", "batch.global=128"});
  const Job adapts = small_job(lora({"model.hidden=8192", "model.ffn_hidden=32768", "batch.global=128"}));
  const double whole = sim::to_seconds(simulate_step(trains).iteration);
  const double adapted = sim::to_seconds(simulate_step(adapts).iteration);
  CHECK(adapted < 0.8 * whole);
  CHECK(adapted > 0.5 * whole);
}

TEST_CASE("adapters are refused where nothing says how they lie") {
  CHECK_THROWS_WITH(small_job(lora({"parallelism.sharding=parameters"})), ContainsSubstring("parallelism.sharding"));
  CHECK_THROWS_WITH(small_job(lora({"model.parallel_block=true"})), ContainsSubstring("finetune"));
  CHECK_THROWS_WITH(small_job({"finetune={kind: lora}"}), ContainsSubstring("finetune"));
  CHECK_THROWS_WITH(small_job({"finetune={kind: lora, rank: 0}"}), ContainsSubstring("rank"));
}
