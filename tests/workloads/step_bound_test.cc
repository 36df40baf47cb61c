// Is the bound of a step below every simulated step, whatever the layout, and near it where nothing but compute counts?
#include "workloads/step/step_bound.h"

#include <fmt/format.h>

#include <random>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/thinned.h"
#include "tests/workloads/example.h"
#include "workloads/schedules/catalogue.h"
#include "workloads/step/step_cache.h"

using namespace orrery;
using workloads::Job;

namespace {

template <class Value>
Value one_of(std::mt19937& random, std::initializer_list<Value> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
}

/// A layout that may or may not be feasible.
std::vector<std::string> random_sets(std::mt19937& random) {
  const auto flag = [&] { return random() % 2 == 0 ? "true" : "false"; };
  const auto set = [](const char* key, const auto& value) { return fmt::format("{}={}", key, value); };
  std::vector<std::string> sets{
      set("cluster.gpus", one_of(random, {8, 16, 32})),
      set("parallelism.data", "null"),
      set("parallelism.tensor", one_of(random, {1, 2, 4, 8, 16})),
      set("parallelism.pipeline", one_of(random, {1, 2, 4, 8})),
      set("parallelism.virtual_pipeline", one_of(random, {1, 1, 2, 4})),
      set("parallelism.sequence_parallel", flag()),
      set("parallelism.sharding", one_of(random, {"none", "optimizer", "gradients", "parameters"})),
      set("batch.micro", one_of(random, {1, 2, 4})),
      set("batch.global", one_of(random, {32, 64})),
      set("recompute", one_of(random, {"none", "selective", "full", "{kind: full, layers: 2}"})),
      set("attention", one_of(random, {"flash", "unfused"})),
      set("model.layers", one_of(random, {6, 8, 14})),
      set("parallelism.context", one_of(random, {1, 1, 1, 2})),
      set("software", one_of(random, {"megatron-2021", "megatron-2022", "megatron-2023", "megatron-deepspeed-2022",
                                      "zero-bubble-2023", "megatron-core-0.8", "megascale", "nemo-23.04", "nemo-23.09",
                                      "nemo-25.04", "llm-foundry", "llama3", "paddle-2023"})),
      set("cluster.device", one_of(random, {"a100-sxm-80gb", "h100-sxm-80gb"})),
      fmt::format("overlap={{tensor: {}, pipeline: {}, gradients: {}, parameters: {}}}", flag(), flag(), flag(),
                  flag())};
  if (random() % 3 == 0) sets.push_back("placement={order: [data, pipeline, context, tensor]}");
  if (random() % 2 == 0) sets.push_back("model.hidden=512");
  if (random() % 4 == 0) sets.push_back("precision=fp16");
  if (random() % 2 == 0)
    sets.push_back(set("parallelism.context_method", one_of(random, {"ring", "all_gather", "all_to_all"})));
  // Nothing but a collective at the start of a layer's backward pass, and no kernel beside that of attention.
  if (random() % 2 == 0) sets.push_back("model.biases=none");
  if (random() % 2 == 0) sets.push_back("software.dropout=false");
  if (random() % 4 == 0) sets.push_back("software.extra_kernels_per_layer=0");
  if (random() % 4 == 0) sets.push_back("software.sharding=parameters");
  // Hosts: slow launches, and what begins a micro-batch.
  if (random() % 4 == 0) sets.push_back(set("software.kernel_issue", one_of(random, {"0 us", "40 us"})));
  if (random() % 4 == 0) sets.push_back("software.backward_issue_share=0.3");
  if (random() % 4 == 0) sets.push_back("software.microbatch_host=3 ms");
  if (random() % 4 == 0) sets.push_back(fmt::format("software.host_waits_for_batch={}", flag()));
  // The loader refuses what does not go together; without a schedule it takes the one for the number of chunks.
  if (random() % 2 == 0) {
    const std::vector<std::string> names = workloads::schedule_names();
    sets.push_back(set("parallelism.schedule", names[random() % names.size()]));
    if (random() % 3 == 0) sets.push_back(set("parallelism.optimizer_post_validation", flag()));
  }
  return sets;
}

}  // namespace

TEST_CASE("no simulated step undercuts its bounds, of which that of its programs is the closer one") {
  std::mt19937 random(7);
  workloads::StepBound bound;  // remembers one model, device and software: a fresh one for each job
  int tried = 0, pipelined = 0, sharded = 0, split = 0, both = 0, beyond_half = 0, near = 0, known = 0;
  while (tried < tests::thinned(800)) {
    const std::vector<std::string> sets = random_sets(random);
    Job job;
    try {
      job = tests::small_job(sets);
    } catch (const sim::UserError&) {
      continue;
    }
    bound = {};
    const double least = sim::to_seconds(bound.of(job)),
                 step = sim::to_seconds(workloads::simulate_step(job).iteration);
    INFO(fmt::format("{}", fmt::join(sets, " ")));
    CHECK(least > 0);
    CHECK(least <= step);
    workloads::StepCache cache(1);
    const double close = sim::to_seconds(workloads::least_step(job, cache));
    CHECK(close <= step);
    CHECK((close > 0) == !job.parallelism.optimizer_post_validation);
    ++tried;
    known += close > 0;
    near += close > 0.9 * step;
    pipelined += job.parallelism.pipeline > 1;
    sharded += job.parallelism.sharding == workloads::Sharding::parameters && job.parallelism.data > 1;
    split += job.parallelism.schedule->splits_backward();
    both += job.parallelism.schedule == &workloads::schedules::dualpipe;
    beyond_half += least > 0.5 * step;
  }
  // The layouts were worth trying, and a bound near zero would hold and tell nothing.
  CHECK(pipelined > tests::thinned(200));
  CHECK(sharded > tests::thinned(60));
  CHECK(split > tests::thinned(80));
  CHECK(both > tests::thinned(20) / 3);  // rare, so that a thinned draw may meet few
  CHECK(beyond_half > tests::thinned(400));
  CHECK(known > tests::thinned(600));
  CHECK(near > known / 2);
}

TEST_CASE("DualPipe's whole backward passes hide reductions that its cut ones do not") {
  // Of a small model's passes the all-reduces among four ranks are the most. Beside the weight gradients of a whole
  // backward pass they cost nothing; counted as if all were cut in two they would be longer than the step.
  const Job job = tests::small_job({"cluster.gpus=8", "parallelism.data=null", "parallelism.tensor=4",
                                    "parallelism.pipeline=2", "parallelism.virtual_pipeline=2",
                                    "parallelism.schedule=dualpipe", "parallelism.sharding=optimizer",
                                    "model.hidden=512", "recompute=full", "attention=unfused", "software=nemo-23.09",
                                    "overlap={tensor: false, pipeline: true, gradients: false, parameters: false}",
                                    "placement={order: [data, pipeline, context, tensor]}"});
  const double least = sim::to_seconds(workloads::StepBound().of(job));
  const double step = sim::to_seconds(workloads::simulate_step(job).iteration);
  CHECK(least <= step);
  CHECK(least > 0.8 * step);
}

TEST_CASE("what runs side by side does not add up") {
  const std::vector<std::string> small{
      "cluster.gpus=16",        "parallelism.data=null",  "parallelism.pipeline=1",
      "model.hidden=512",       "batch.global=64",        "model.biases=none",
      "software.dropout=false", "model.positions=rotary", "software.sharding=parameters"};
  const std::vector<std::vector<std::string>> layouts{
      // A slow host launches ahead while the device waits for the gathers before the first pass and for the reductions
      // behind the last one's layers.
      {"parallelism.tensor=1", "parallelism.sharding=gradients", "software.kernel_issue=40 us", "batch.global=16",
       "recompute=full", "overlap={gradients: false, parameters: false}"},
      // The backward pass of a layer begins with a gather among the tensor ranks and one among the data ranks.
      {"parallelism.tensor=8", "model.vocab=1024", "batch.micro=4", "software.transfer_issue=0 us",
       "parallelism.sharding=parameters", "parallelism.sequence_parallel=true", "software.kernel_issue=0 us",
       "overlap={gradients: false, parameters: false}"},
      // The gradients of keys and values are still being reduced when the saved input is gathered.
      {"parallelism.tensor=2", "parallelism.context=4", "batch.global=256", "parallelism.context_method=all_gather",
       "model.positions=none", "parallelism.sequence_parallel=true", "software.async_tensor_backward=false",
       "software.kernel_issue=0 us", "software.recipe.attention-in=direct", "software.extra_kernels_per_layer=0",
       "parallelism.sharding=none"},
      // Stages that step apart are at work from their first kernel; their hosts before.
      {"parallelism.pipeline=8", "parallelism.tensor=2", "parallelism.schedule=zb_h2", "batch.global=8",
       "software.kernel_issue=100 us", "parallelism.sharding=none"}};
  for (const std::vector<std::string>& layout : layouts) {
    std::vector<std::string> sets = small;
    sets.insert(sets.end(), layout.begin(), layout.end());
    const Job job = tests::small_job(sets);
    INFO(fmt::format("{}", fmt::join(layout, " ")));
    const double step = sim::to_seconds(workloads::simulate_step(job).iteration);
    CHECK(sim::to_seconds(workloads::StepBound().of(job)) <= step);
    CHECK(sim::to_seconds(workloads::StepBound().of(job)) > 0.3 * step);
  }
}

TEST_CASE("a collective that outlasts the kernels that hide it counts") {
  // Among 16 ranks of two nodes every linear layer's rows cross the NICs, which takes far longer than its products.
  const Job job = tests::small_job({"cluster.gpus=16", "parallelism.data=null", "parallelism.tensor=16",
                                    "parallelism.pipeline=1", "parallelism.sequence_parallel=true",
                                    "software=megascale", "overlap={tensor: true}", "software.kernel_issue=0 us"});
  const double least = sim::to_seconds(workloads::StepBound().of(job));
  const double step = sim::to_seconds(workloads::simulate_step(job).iteration);
  CHECK(least <= step);
  CHECK(least > 0.9 * step);
}

TEST_CASE("what the host does before every micro-batch counts") {
  const Job job =
      tests::small_job({"cluster.gpus=1", "parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=1",
                        "model.hidden=512", "batch.global=8", "software.microbatch_host=500 ms"});
  const double least = sim::to_seconds(workloads::StepBound().of(job));
  CHECK(least > 8 * 0.5);
  CHECK(least <= sim::to_seconds(workloads::simulate_step(job).iteration));
}

TEST_CASE("a bound that remembers other layouts is the bound of a fresh one") {
  workloads::StepBound remembers;
  const std::vector<std::vector<std::string>> layouts{
      {},
      {"batch.micro=2"},
      {"parallelism.tensor=4", "parallelism.data=2"},
      {"parallelism.pipeline=4", "parallelism.data=2"},
      {"recompute=full"},
      {"recompute={kind: full, layers: 1}"},
      {"recompute={kind: full, layers: 2}"},
      {"parallelism.sharding=parameters"},
      {"parallelism.sequence_parallel=true"},
      {"parallelism.tensor=16", "parallelism.pipeline=1", "parallelism.data=1"},
      {"cluster.gpus=32", "parallelism.data=8"},
      {"overlap.tensor=true", "parallelism.sequence_parallel=true"},
      {"precision=fp16"},
      {"parallelism.schedule=zb_h1"},
      {"parallelism.schedule=dualpipe", "parallelism.virtual_pipeline=2"}};
  for (int round = 0; round < 2; ++round) {
    for (const std::vector<std::string>& sets : layouts) {
      const Job job = tests::small_job(sets);
      INFO(fmt::format("{}", fmt::join(sets, " ")));
      CHECK(remembers.of(job) == workloads::StepBound().of(job));
    }
  }
}

TEST_CASE("one GPU does nothing but compute: the bound is the step but for the host's last launches") {
  const Job job =
      tests::small_job({"cluster.gpus=1", "parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=1",
                        "model.hidden=8192", "model.ffn_hidden=32768", "software.kernel_issue=0 us", "batch.micro=4"});
  const double least = sim::to_seconds(workloads::StepBound().of(job));
  const double step = sim::to_seconds(workloads::simulate_step(job).iteration);
  CHECK(least <= step);
  // Left out: the gradient norm's one kernel, which reads 4 bytes of each of 6.9e9 parameters, about 16 ms of 6 s.
  CHECK(least > 0.99 * step);
}

TEST_CASE("the pipeline's fill counts: of one micro-batch a stage does a part, and waits for all others") {
  const Job job = tests::small_job({"cluster.gpus=4", "parallelism.pipeline=4", "parallelism.tensor=1",
                                    "parallelism.data=1", "batch.global=4", "batch.micro=4", "model.hidden=8192",
                                    "model.ffn_hidden=32768", "software.kernel_issue=0 us"});
  const double least = sim::to_seconds(workloads::StepBound().of(job));
  const double step = sim::to_seconds(workloads::simulate_step(job).iteration);
  // Without the fill it would be the passes of the last stage, with the head about a third of all.
  CHECK(least > 0.9 * step);
}

TEST_CASE("experts' states are shared out over ranks of their own: one replica of the rest, eight of the experts") {
  const Job job = tests::small_job({"cluster.gpus=8",
                                    "model={kind: moe, layers: 4, hidden: 1024, heads: 8, ffn_hidden: 4096, vocab: "
                                    "32000, seq: 1024, experts: 8, top_k: 2, expert_ffn_hidden: 4096}",
                                    "parallelism={tensor: 8, data: 1, pipeline: 1, expert: 1, sequence_parallel: true, "
                                    "sharding: optimizer}",
                                    "batch={global: 1, micro: 1}", "software.kernel_issue=0 us"});
  // The optimizer is a large part of so short a step, and a bound that gave every rank all experts' states exceeds it.
  CHECK(workloads::StepBound().of(job) <= workloads::simulate_step(job).iteration);
}

TEST_CASE("no step of a mixture undercuts its bound, of which exchanges that nothing runs beside are part") {
  std::mt19937 random(11);
  const auto flag = [&] { return random() % 2 == 0 ? "true" : "false"; };
  int tried = 0, across = 0, beside = 0, near = 0;
  while (tried < tests::thinned(300)) {
    const std::int64_t expert = one_of(random, {1, 2, 4, 8, 16, 32});
    const bool overlaps = random() % 3 == 0;
    std::vector<std::string> sets{
        fmt::format("cluster.gpus={}", one_of(random, {16, 32})),
        fmt::format("cluster.gpus_per_node={}", one_of(random, {2, 4, 8})),
        "parallelism.data=null",
        fmt::format("model={{kind: moe, layers: 4, hidden: {}, heads: 16, ffn_hidden: 4096, vocab: 32000, seq: 1024, "
                    "experts: 32, top_k: {}, expert_ffn_hidden: 512, shared_expert_ffn_hidden: {}}}",
                    one_of(random, {512, 2048}), one_of(random, {1, 2, 8}), one_of(random, {0, 512})),
        fmt::format("parallelism.tensor={}", one_of(random, {1, 2})),
        fmt::format("parallelism.pipeline={}", one_of(random, {1, 2, 4})),
        fmt::format("parallelism.context={}", one_of(random, {1, 1, 2})),
        fmt::format("parallelism.expert={}", expert),
        fmt::format("parallelism.sharding={}", one_of(random, {"none", "optimizer", "parameters"})),
        fmt::format("experts.dispatcher={}", one_of(random, {"alltoall", "allgather", "deepep", "hybridep"})),
        fmt::format("software={}", one_of(random, {"megatron-core-0.8", "megatron-core-0.16", "nemo-25.09"})),
        fmt::format("cluster.device={}", one_of(random, {"a100-sxm-80gb", "h100-sxm-80gb"})),
        fmt::format("overlap={{gradients: {}, parameters: {}, experts: {}}}", flag(), flag(), overlaps)};
    if (random() % 2 == 0) sets.emplace_back("parallelism.sequence_parallel=true");
    if (random() % 3 == 0) sets.emplace_back("experts.imbalance=1.3");
    if (random() % 3 == 0) sets.emplace_back("parallelism.virtual_pipeline=2");
    if (random() % 3 == 0) sets.emplace_back(fmt::format("experts.overlap_shared={}", flag()));
    Job job;
    try {
      job = tests::small_job(sets);
    } catch (const sim::UserError&) {
      continue;
    }
    const double least = sim::to_seconds(workloads::StepBound().of(job)),
                 step = sim::to_seconds(workloads::simulate_step(job).iteration);
    INFO(fmt::format("{}", fmt::join(sets, " ")));
    CHECK(least > 0);
    CHECK(least <= step);
    ++tried;
    across += expert > job.machine.gpus_per_node;
    beside += overlaps;
    near += least > 0.6 * step;
  }
  CHECK(across > tests::thinned(40));
  CHECK(beside > tests::thinned(10));
  CHECK(near > tests::thinned(100));
}

TEST_CASE("an exchange that every layer waits for is most of a step, and of its bound") {
  // Eight copies of each of 4,096 tokens of 2 x 2,048 bytes, half of them over a NIC of 25 GB/s, four times a layer.
  const Job job = tests::small_job({"parallelism={tensor: 1, pipeline: 1, expert: 16}",
                                    "model={kind: moe, layers: 4, hidden: 2048, heads: 16, ffn_hidden: 4096, vocab: "
                                    "32000, seq: 4096, experts: 16, top_k: 8, expert_ffn_hidden: 512}",
                                    "experts.dispatcher=alltoall", "software.kernel_issue=0 us"});
  const double least = sim::to_seconds(workloads::StepBound().of(job));
  const double sent = 4096.0 * 8 * 2 * 2048 * 8 / 16, exchanges = 4 * 4 * 2;  // two micro-batches
  CHECK(least > exchanges * sent / 25e9);
  CHECK(least > 0.8 * sim::to_seconds(workloads::simulate_step(job).iteration));
}

TEST_CASE("perturbations have no bound") {
  CHECK(workloads::StepBound().of(tests::small_job({"perturb.jitter={sigma: 0.1, seed: 1}"})) == sim::Duration{});
}
