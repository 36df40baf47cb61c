// Is a step that was cut short, because it repeats, the step that every rank and every micro-batch gives?
#include "workloads/step/steady_state.h"

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/schedules/catalogue.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;
using orrery::tests::small_job;

namespace {
using Sets = std::vector<std::string>;

std::string text_of(const Sets& sets) {
  std::string text;
  for (const std::string& set : sets) text += set + " ";
  return text;
}

std::optional<Jump> jump_of(const Job& job) {
  return choose_jump(*job.parallelism.schedule, job.pipeline_shape(), job.perturbation, 0);
}

/// Folded, with its times alone and with every rank.
void check_all_ways(const Job& job) {
  const sim::Duration full = simulate_step(job, {.ranks = Question::Ranks::every}).iteration;
  CHECK(simulate_step(job).iteration == full);
  CHECK(simulate_step(job, {.parts = Question::Parts::times}).iteration == full);
}
}  // namespace

TEST_CASE("a step that repeats is cut short without moving by a picosecond") {
  std::vector<Sets> layouts{
      {},
      {"parallelism.tensor=1", "parallelism.pipeline=8", "parallelism.data=2", "software=megatron-2021"},
      {"parallelism.virtual_pipeline=4", "parallelism.sequence_parallel=true", "parallelism.sharding=optimizer",
       "overlap={tensor: true, pipeline: true, gradients: true, parameters: true}"},
      {"parallelism.pipeline=4", "parallelism.data=2", "parallelism.virtual_pipeline=2", "recompute=full"},
      {"parallelism.tensor=4", "parallelism.pipeline=1", "parallelism.data=4", "parallelism.sharding=parameters"},
      {"model.layers=7", "parallelism.pipeline=2", "parallelism.virtual_pipeline=2"},
      {"perturb.slow_gpus=[{gpu: 5, slowdown: 1.3}]"},
      {"perturb.slow_nics=[{node: 1, nic: 2, rate: 0.25}]"},
  };
  for (const Schedule* schedule : kSchedules) {
    if (schedule->repeats == nullptr) continue;
    layouts.push_back(tests::sets_for(*schedule));
    layouts.push_back(tests::sets_for(*schedule));
    layouts.back().insert(layouts.back().end(), {"parallelism.pipeline=4", "parallelism.data=2"});
  }
  for (const std::int64_t batch : {384, 512, 640}) {
    for (const Sets& layout : layouts) {
      Sets sets = layout;
      sets.push_back("batch={global: " + std::to_string(batch) + ", micro: 1}");
      INFO(text_of(sets));
      const Job job = small_job(sets);
      const auto jump = jump_of(job);
      REQUIRE(jump);
      CHECK(jump->microbatches + jump->periods * jump->period == job.microbatches());
      const StepReport cut = simulate_step(job), full = simulate_step(job, {.ranks = Question::Ranks::every});
      CHECK(cut.iteration == full.iteration);
      for (std::size_t c = 0; c < kCategories; ++c)
        CHECK(cut.breakdown_s[c] == Approx(full.breakdown_s[c]).margin(1e-12));
      REQUIRE(cut.traffic.size() == full.traffic.size());
      for (std::size_t r = 0; r < cut.traffic.size(); ++r) {
        CHECK(cut.traffic[r].what == full.traffic[r].what);
        CHECK(cut.traffic[r].simulated_bytes == Approx(full.traffic[r].simulated_bytes));
        CHECK(cut.traffic[r].calls == full.traffic[r].calls);
        CHECK(cut.traffic[r].bytes_per_call == Approx(full.traffic[r].bytes_per_call));
      }
    }
  }
}

TEST_CASE("what does not repeat is not cut short") {
  const Sets long_run{"batch={global: 512, micro: 1}"};
  const auto with = [&](const std::string& set) {
    Sets sets = long_run;
    sets.push_back(set);
    return jump_of(small_job(sets)).has_value();
  };
  CHECK(jump_of(small_job(long_run)).has_value());
  CHECK_FALSE(with("perturb.jitter={sigma: 0.05, seed: 7}"));
  CHECK_FALSE(with("parallelism.schedule=gpipe"));
  CHECK_FALSE(jump_of(small_job({"batch={global: 16, micro: 1}"})).has_value());
}

TEST_CASE("a step of more operations than memory has room for is refused, unless it repeats") {
  const Sets endless{"batch={global: 480000, micro: 1}", "model.layers=4"};
  CHECK(simulate_step(small_job(endless)).iteration > sim::Duration(0));
  Sets noisy = endless;
  noisy.emplace_back("perturb.jitter={sigma: 0.05, seed: 7}");
  CHECK_THROWS_WITH(simulate_step(small_job(noisy)), ContainsSubstring("batch.global: got"));
}

TEST_CASE("a step whose operations do not all move by one shift is not taken to repeat") {
  // One operation per micro-batch, 12 micro-batches, 5 ps apart but for one.
  StagePrograms stages;
  sim::Plan plan;
  sim::Record record;
  stages.notes.emplace_back();
  for (std::int32_t m = 0; m < 12; ++m) {
    OpNote note;
    note.microbatch = m;
    note.chunk = 0;
    stages.notes[0].push_back(note);
    record.start.push_back(sim::SimTime(5 * m));
    record.finish.push_back(sim::SimTime(5 * m));
  }
  plan.programs.push_back({});
  sim::Program& program = plan.programs[sim::ProgramId{0}];
  program.kind.assign(12, sim::OpKind::compute);
  program.host_waits.assign(12, 0);
  program.issue.assign(12, 5);
  plan.instances.push_back({});
  const Jump jump{12, 1, 100, 4, 5};
  CHECK(shift_of(jump, 1, stages, plan, {record}) == sim::Duration(5));
  // A forward pass far ahead, of which no backward pass near the first ones knows yet, is looked at as well.
  record.finish[9] = sim::SimTime(44);
  CHECK_FALSE(shift_of(jump, 1, stages, plan, {record}).has_value());
  record.finish[9] = sim::SimTime(45);
  CHECK(shift_of(jump, 1, stages, plan, {record}).has_value());
  record.finish[6] = sim::SimTime(31);
  CHECK_FALSE(shift_of(jump, 1, stages, plan, {record}).has_value());
  record.finish[6] = sim::SimTime(30);
  // A host that takes longer than its GPU, and one that waits for it.
  program.issue[4] = 6;
  CHECK_FALSE(shift_of(jump, 1, stages, plan, {record}).has_value());
  program.host_waits[4] = 1;
  CHECK(shift_of(jump, 1, stages, plan, {record}).has_value());
  // A transfer ahead of all micro-batches that ends beside the last ones, and one that ends before; kernels that are
  // slower beside it, likewise.
  stages.notes[0].push_back({});
  stages.notes[0].back().microbatch = -1;
  program.kind.push_back(sim::OpKind::transfer);
  program.host_waits.push_back(0);
  program.issue.push_back(0);
  record.start.push_back(sim::SimTime(0));
  record.finish.push_back(sim::SimTime(46));
  CHECK_FALSE(shift_of(jump, 1, stages, plan, {record}).has_value());
  record.finish.back() = sim::SimTime(45);
  CHECK(shift_of(jump, 1, stages, plan, {record}).has_value());
  stages.slowed = {{0, 1, 2, 3, 10}};
  CHECK(shift_of(jump, 1, stages, plan, {record}).has_value());
  stages.slowed[0].insert(stages.slowed[0].begin() + 4, 4);
  CHECK_FALSE(shift_of(jump, 1, stages, plan, {record}).has_value());
}

TEST_CASE("micro-batches repeat only until what was under way before them ends") {
  // Parameters are gathered beside some ten micro-batches, whose kernels are faster once that has ended.
  const std::vector<std::string> sets{
      "cluster={device: mi300x, gpus: 24, fabric: tomahawk4-200g}",
      "model={layers: 2, hidden: 512, heads: 8, ffn_hidden: 512, vocab: 50257, seq: 512, gated_mlp: true, "
      "tied_embeddings: false}",
      "parallelism={tensor: 1, pipeline: 1, data: 6, context: 4, context_method: all_gather, shard_group: 6}",
      "software=nemo-26.04", "overlap={tensor: false, pipeline: false, gradients: true, parameters: true}"};
  for (const int global : {96, 120, 480}) {
    std::vector<std::string> all = sets;
    all.push_back("batch={global: " + std::to_string(global) + ", micro: 1}");
    const Job job = tests::small_job(all);
    INFO(global);
    check_all_ways(job);
  }
}

TEST_CASE("micro-batches repeat only as long as their host is ahead") {
  // The host takes longer over a micro-batch than its GPU, and begins while the GPU waits for parameters.
  const std::vector<std::string> sets{
      "cluster={device: h100-sxm-80gb, gpus: 128, fabric: tomahawk4-200g}",
      "model={layers: 2, hidden: 512, heads: 8, head_dim: 128, vocab: 32000, seq: 64}",
      "parallelism={tensor: 4, pipeline: 1, data: 8, context: 4, context_method: ring, sharding: optimizer, "
      "shard_group: 8, sequence_parallel: true, optimizer_post_validation: true}",
      "recompute={kind: full, layers: 3}",
      "precision=fp8-blockwise",
      "software=megascale",
      "overlap={tensor: false, pipeline: true, gradients: true, parameters: true}"};
  for (const int global : {64, 128, 512}) {
    std::vector<std::string> all = sets;
    all.push_back("batch={global: " + std::to_string(global) + ", micro: 1}");
    INFO(global);
    check_all_ways(tests::small_job(all));
  }
}
