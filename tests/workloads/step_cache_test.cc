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
                                            {"parallelism.sharding=optimizer"},
                                            {"parallelism.sharding=optimizer", "software.all_reduces_shards=true"},
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
    StepOptions options;
    options.brief = true;
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
  StepOptions options;
  options.brief = true;
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
