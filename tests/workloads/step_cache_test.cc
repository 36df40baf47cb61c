// Does a step that takes its cluster and groups from a cache come out as one that makes its own?
#include "workloads/step/step_cache.h"

#include <thread>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;
using orrery::tests::small_job;

namespace {
using Sets = std::vector<std::string>;

/// Jobs of which each differs from some other in one thing that decides who talks to whom, or in none.
std::vector<Job> jobs() {
  std::vector<Job> all;
  for (const Sets& sets : std::vector<Sets>{{},
                                            {"batch={global: 64, micro: 2}"},
                                            {"recompute=full"},
                                            {"recompute={kind: full, layers: 1}"},
                                            {"recompute={kind: full, layers: 2}"},
                                            {"parallelism.sharding=optimizer"},
                                            {"parallelism.sharding=optimizer", "software.shard_reduction=all_reduce"},
                                            {"parallelism.virtual_pipeline=2"},
                                            {"model.tied_embeddings=false"},
                                            {"parallelism.tensor=4", "parallelism.data=2"},
                                            {"parallelism.pipeline=1", "parallelism.data=8"},
                                            {"perturb.slow_gpus=[{gpu: 5, slowdown: 1.3}]"},
                                            {"perturb.slow_gpus=[{gpu: 6, slowdown: 1.3}]"},
                                            {"perturb.slow_nics=[{node: 1, nic: 2, rate: 0.25}]"},
                                            {"placement={random_seed: 3}"},
                                            {"cluster.fabric=roce-4x200g"},
                                            {"cluster.device=h100-sxm-80gb"}}) {
    all.push_back(small_job(sets));
  }
  return all;
}
}  // namespace

TEST_CASE("cached clusters and groups give the same times, in any order and however few are kept") {
  const std::vector<Job> all = jobs();
  std::vector<sim::Duration> alone;
  for (const Job& job : all) alone.push_back(simulate_step(job).iteration);
  for (const std::size_t entries : {std::size_t{1}, std::size_t{3}, std::size_t{64}}) {
    StepCache cache(entries);
    Question options;
    options.parts = Question::Parts::times;
    options.cache = &cache;
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        const std::size_t j = round == 0 ? i : all.size() - 1 - i;
        INFO("job " << j << ", " << entries << " entries");
        const StepReport brief = simulate_step(all[j], options);
        CHECK(brief.iteration == alone[j]);
        CHECK(brief.rates.tokens_per_s > 0);
      }
    }
  }
}

TEST_CASE("one cache serves several threads") {
  const std::vector<Job> all = jobs();
  StepCache cache(4);
  Question options;
  options.parts = Question::Parts::times;
  options.cache = &cache;
  std::vector<std::vector<sim::Duration>> seen(3);
  std::vector<std::thread> threads;
  for (auto& times : seen) {
    threads.emplace_back([&] {
      for (const Job& job : all) times.push_back(simulate_step(job, options).iteration);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(seen[0] == seen[1]);
  CHECK(seen[0] == seen[2]);
}

TEST_CASE("steps that do the same are simulated once") {
  // Gradients that are added up over the micro-batches of a step, and reduced once, travel as with a sharded optimizer;
  // only what is held differs. A wider micro-batch is another step.
  const Job optimizer = small_job({"parallelism.sharding=optimizer"});
  const Job gradients = small_job({"parallelism.sharding=gradients"});
  const Job wider = small_job({"parallelism.sharding=optimizer", "batch={global: 64, micro: 2}"});
  StepCache cache;
  const auto digest = [&](const Job& job) {
    const auto cluster = cache.cluster_of(site_of(job));
    return digest_of(make_plan(job, *cluster, cache.groups_of(cluster, group_inputs_of(job)), {}), nullptr, false);
  };
  CHECK(digest(optimizer) == digest(gradients));
  CHECK_FALSE(digest(optimizer) == digest(wider));
  // Every time that is kept is told again, and is that of a step of its own.
  Question options;
  options.parts = Question::Parts::times;
  const StepReport own = simulate_step(gradients, options);
  options.cache = &cache;
  const StepReport first = simulate_step(optimizer, options), second = simulate_step(gradients, options);
  CHECK(first.iteration == own.iteration);
  CHECK(second.iteration == own.iteration);
  CHECK(second.effort.events == own.effort.events);
  CHECK(second.effort.ranks == own.effort.ranks);
}

TEST_CASE("a digest hangs on every number of a step") {
  const Job job = small_job({"parallelism.sharding=optimizer"});
  StepCache cache;
  const auto cluster = cache.cluster_of(site_of(job));
  StepPlan step = make_plan(job, *cluster, cache.groups_of(cluster, group_inputs_of(job)), {});
  const StepDigest before = digest_of(step, nullptr, false);
  CHECK_FALSE(before == digest_of(step, nullptr, true));
  const Jump jump{8, 1, 2, 3, 4};
  CHECK_FALSE(before == digest_of(step, &jump, false));
  sim::Program& program = step.stages.programs.back();
  const auto moves = [&](auto& column) {
    const auto was = column.back();
    column.back() = static_cast<std::decay_t<decltype(was)>>(static_cast<int>(was) + 1);
    CHECK_FALSE(before == digest_of(step, nullptr, false));
    column.back() = was;
    CHECK(before == digest_of(step, nullptr, false));
  };
  moves(program.kind);
  moves(program.stream);
  moves(program.category);
  moves(program.host_waits);
  moves(program.issue);
  moves(program.duration);
  moves(program.issue_bound);
  moves(program.slot);
  moves(program.pattern);
  moves(program.work);
  moves(program.rate_cap);
  moves(program.loaded);
  moves(program.waits_begin);
  moves(program.waits);
  const auto differs = [&](const auto& change) {
    auto groups = std::make_shared<Groups>(*step.groups);
    change(groups->folded.plan);
    StepPlan changed = step;
    changed.groups = std::move(groups);
    CHECK_FALSE(before == digest_of(changed, nullptr, false));
  };
  differs([](sim::Plan& p) { p.loads.seed = 7; });
  differs([](sim::Plan& p) { p.loads.places = 2; });
  differs([](sim::Plan& p) { p.loads.factors = {0.5, 1.5}; });
  differs([](sim::Plan& p) { p.noise.seed = 7; });
  differs([](sim::Plan& p) { p.message_noise.sigma = 0.1; });
  differs([](sim::Plan& p) { p.instances[sim::InstanceId{0}].load_group = 7; });
  differs([](sim::Plan& p) { p.instances[sim::InstanceId{0}].load_place = 7; });
  differs([](sim::Plan& p) { p.instances[sim::InstanceId{0}].slowdown = 1.5; });
}

TEST_CASE("steps whose routing is drawn anew are not taken for one another") {
  const auto drawn = [](int seed) {
    return small_job(
        {"model={kind: moe, layers: 4, hidden: 1024, heads: 8, ffn_hidden: 4096, vocab: 32000, seq: 1024,"
         " experts: 8, top_k: 2, expert_ffn_hidden: 2048}",
         "parallelism={data: 16, expert: 8}", "batch={global: 16, micro: 1}",
         fmt::format("experts={{skew: 1.2, seed: {}}}", seed)});
  };
  Question options;
  options.parts = Question::Parts::times;
  std::vector<sim::Duration> own, shared;
  for (const int seed : {1, 2, 3}) own.push_back(simulate_step(drawn(seed), options).iteration);
  StepCache cache;
  options.cache = &cache;
  for (const int seed : {1, 2, 3}) shared.push_back(simulate_step(drawn(seed), options).iteration);
  CHECK(own == shared);
  CHECK(own[0] != own[1]);
}
