// The scenarios that ship, by direction: what was published of placements and tails comes out so.
#include <string>

#include "scenarios/rl.h"
#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tools/study/rl_study.h"

using namespace orrery;

namespace {

tools::RlStudy shipped_step(const std::string& placement, const std::vector<std::string>& sets = {}) {
  return tools::study_rl(scenarios::load_rl(scenarios::read_scenario("qwen3-32b-grpo-256h100-" + placement, sets)));
}

TEST_CASE("by turns is quicker than waiting for each other, and overlapping than waiting", "[rl]") {
  // HybridFlow (arXiv 2409.19256), section 8: GPUs of their own stand idle for most of a step. AReaL (arXiv 2505.24298)
  // and verl's asynchronous trainers: overlapping gains what waiting lost, the more the longer the tail.
  const double colocated = shipped_step("colocated").step_s(), separate = shipped_step("separate").step_s(),
               asynchronous = shipped_step("async").step_s();
  CHECK(colocated < separate);
  CHECK(asynchronous < separate);
  const std::vector<std::string> even{"rl.answer.variation=0"};
  CHECK(separate / asynchronous > shipped_step("separate", even).step_s() / shipped_step("async", even).step_s());
}

TEST_CASE("a hundred thousand answers on ten thousand GPUs", "[rl]") {
  const tools::RlStudy study =
      shipped_step("colocated", {"cluster.gpus=10240", "rl.prompts=6400", "rl.mini_batch=25600"});
  CHECK(study.steps.trained == 102'400);
  CHECK(study.scenario.rollout.replicas == 2560);
  // More GPUs for as many more answers: the tail alone is left of what they write.
  CHECK(study.step_s() < shipped_step("colocated").step_s());
}

TEST_CASE("a split of the GPUs is a scenario of its own, and the best one is no slower than half", "[rl]") {
  const sim::Settings document =
      scenarios::read_scenario("qwen3-32b-grpo-256h100-async", {"rl.prompts=64", "rl.mini_batch=1024", "rl.steps=2"});
  const std::vector<tools::RlSplit> splits = tools::split_rl(document, 2);
  REQUIRE(splits.size() == 15);  // of 32 nodes, as a copy of the trainer takes two
  const double half = tools::study_rl(scenarios::load_rl(document)).step_s();
  bool there = false;
  for (const tools::RlSplit& split : splits) {
    CHECK(split.rollout_gpus + split.training_gpus == 256);
    if (split.rollout_gpus != 128) continue;
    there = true;
    CHECK(split.step_s == half);
  }
  CHECK(there);
  REQUIRE(splits.front().reason.empty());
  CHECK(splits.front().step_s <= half);
}

}  // namespace
