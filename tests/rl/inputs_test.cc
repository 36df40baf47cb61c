// Every key of rl and of its frameworks counts: each moves what comes out, or is refused with a reason. A key that is
// missing here fails the test. And what a step is made of is what the commands for its parts say.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "scenarios/rl.h"
#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "tests/catch.h"
#include "tools/commands/commands.h"
#include "tools/study/rl.h"
#include "workloads/step/step.h"

using namespace orrery;

namespace {

constexpr const char* kStep = R"(
name: t
cluster: {device: h100-sxm-80gb, gpus: 32, fabric: ndr-rail}
model: qwen2.5-1.5b
rl:
  framework: slime-0.1
  prompts: 16
  samples_per_prompt: 4
  prompt: {mean: 100, variation: 0.5, max: 500}
  answer: {mean: 200, variation: 1, max: 2000}
  mini_batch: 32
  rollout: {pools: [{parallelism: {tensor: 2}, max_sequences: 16}]}
  training: {parallelism: {tensor: 2, sharding: optimizer}}
)";
const std::vector<std::string> kColocated{}, kSeparate{"rl.placement={kind: separate, rollout_gpus: 16}"},
    kAsync{"rl.placement={kind: asynchronous, staleness: 1, rollout_gpus: 16}", "rl.steps=2"},
    kAreal{"rl.framework=areal-0.3", "rl.placement={kind: asynchronous, staleness: 1, rollout_gpus: 16}", "rl.steps=2"};

sim::Settings step_with(const std::vector<std::string>& base, const std::vector<std::string>& sets) {
  sim::Settings document = scenarios::parse_yaml(kStep, "t.yaml");
  for (const auto* list : {&base, &sets})
    for (const std::string& set : *list) scenarios::apply_set(document, set);
  return document;
}

std::string outcome_of(const std::vector<std::string>& base, const std::vector<std::string>& sets) {
  nlohmann::ordered_json json = tools::rl_json(tools::study_rl(scenarios::load_rl(step_with(base, sets))));
  json.erase("assumptions");
  return json.dump();
}

struct Moved {
  std::string set;
  const std::vector<std::string>* base = &kColocated;
  std::vector<std::string> also = {};  // in both
};

/// Of each key another value.
std::vector<Moved> moved_keys() {
  return {
      {"rl.algorithm=ppo"},
      {"rl.framework=areal-0.3"},
      {"rl.prompts=24"},
      {"rl.samples_per_prompt=8"},
      {"rl.mini_batch=64"},
      {"rl.epochs=2"},
      {"rl.micro_batch_tokens=600"},
      {"rl.score_tokens=600"},
      {"rl.dynamic_sampling={acceptance: 0.4}"},
      {"rl.dynamic_sampling.acceptance=0.3", &kColocated, {"rl.dynamic_sampling={acceptance: 0.7, prompts: 8}"}},
      {"rl.dynamic_sampling.prompts=64", &kColocated, {"rl.dynamic_sampling={acceptance: 0.7, prompts: 8}"}},
      {"rl.oversampling=1.5"},
      {"rl.steps=3"},
      {"rl.seed=2"},
      {"rl.prompt=60"},
      {"rl.prompt.mean=60"},
      {"rl.prompt.variation=0"},
      {"rl.prompt.max=120"},
      {"rl.prompt.percentiles={p50: 60, p99: 300}", &kColocated, {"rl.prompt={percentiles: {p50: 50, p99: 300}}"}},
      {"rl.answer=60"},
      {"rl.answer.mean=60"},
      {"rl.answer.variation=0"},
      {"rl.answer.max=400"},
      {"rl.answer.percentiles={p50: 60, p99: 300}", &kColocated, {"rl.answer={percentiles: {p50: 50, p99: 300}}"}},
      {"rl.answer.percentiles.p99=400", &kColocated, {"rl.answer={percentiles: {p50: 50, p99: 300}}"}},
      {"rl.reward=model"},
      {"rl.reward.kind=model", &kColocated, {"rl.reward={seconds: 1 s}"}},
      {"rl.reward.seconds=2 s", &kColocated, {"rl.reward={seconds: 1 s}"}},
      {"rl.reference=none"},
      {"rl.critic=policy"},
      {"rl.old_logprobs=none"},
      {"rl.placement=separate"},
      {"rl.placement.kind=separate", &kAsync, {"rl.placement={kind: asynchronous, rollout_gpus: 16}"}},
      {"rl.placement.rollout_gpus=24", &kSeparate},
      {"rl.placement.staleness=3", &kAsync},
      {"rl.placement.at_update=resume", &kAsync},
      {"rl.placement.order=first", &kAsync, {"rl.answer={mean: 400, variation: 2, max: 8000}"}},
      {"rl.weight_transfer=point_to_point", &kSeparate},
      {"rl.training={parallelism: {tensor: 1, sharding: optimizer}}"},
      {"rl.training.software=nemo-25.02"},
      {"rl.training.parallelism.tensor=1"},
      {"rl.training.precision=fp8"},
      {"rl.training.recompute=full"},
      {"rl.training.attention=unfused"},
      {"rl.training.overlap={gradients: false, parameters: false}"},
      {"rl.training.optimizer=sgd"},
      {"rl.training.offload={optimizer: true}"},
      {"rl.rollout={pools: [{parallelism: {tensor: 4}}]}"},
      {"rl.rollout.software=vllm-0.15"},
      {"rl.rollout.precision={kv_cache: fp8}"},
      {"rl.rollout.pools=[{parallelism: {tensor: 1}}]"},
      {"rl.rollout.concurrency=2"},
      {"rl.framework.trainer=nemo-25.02"},
      {"rl.framework.engine=vllm-0.15"},
      {"rl.framework.packing=none"},
      {"rl.framework.padding=always"},
      {"rl.framework.old_logprobs=none"},
      {"rl.framework.at_update=resume", &kAreal},
      {"rl.framework.dealing=prompts"},
      {"rl.framework.reference=resident"},
      {"rl.framework.weights.colocated=point_to_point"},
      {"rl.framework.weights.separate=point_to_point", &kSeparate},
      {"rl.framework.weights.bucket=1 MB"},
      {"rl.framework.weights.tensor=3 ms"},
      {"rl.framework.weights.buffers=two"},
      {"rl.framework.swap.offloads=optimizer"},
      {"rl.framework.swap.efficiency=0.5"},
      {"rl.framework.swap.seconds=7 s"},
      {"rl.framework.host.step=9 s"},
      {"rl.framework.host.sample=20 ms"},
  };
}

TEST_CASE("every key of reinforcement learning moves what comes out", "[rl]") {
  std::set<std::string> walked;
  for (const Moved& one : moved_keys()) {
    INFO(one.set);
    std::string key = one.set.substr(0, one.set.find('='));
    if (key.ends_with(".p99")) key.replace(key.size() - 3, 3, "*");
    walked.insert(key);
    std::vector<std::string> sets = one.also;
    const std::string before = outcome_of(*one.base, sets);
    sets.push_back(one.set);
    CHECK(outcome_of(*one.base, sets) != before);
  }
  // Mappings whose members are here; names for people; memory_utilization and the router of a lone replica's requests,
  // which this much room and one at a time leave as they are; the other half of percentiles.
  for (const char* key :
       {"rl", "rl.prompt.percentiles.*", "rl.rollout.router", "rl.dynamic_sampling", "rl.framework.inherits",
        "rl.training.parallelism", "rl.framework.name", "rl.framework.provenance", "rl.framework.memory_utilization",
        "rl.framework.memory_utilization_apart", "rl.framework.weights", "rl.framework.swap", "rl.framework.host"})
    walked.insert(key);
  for (const scenarios::Key& key : scenarios::schema()) {
    INFO(key.path);
    const bool member =
        key.path.ends_with(".*") && !key.path.ends_with("percentiles.*");  // of a section read elsewhere
    if ((key.path == "rl" || key.path.starts_with("rl.")) && !member) CHECK(walked.contains(key.path));
  }
}

TEST_CASE("every framework that ships drives software and an engine that ship", "[rl]") {
  CHECK(std::any_of(tools::commands().begin(), tools::commands().end(),
                    [](const tools::Command& command) { return command.name == "rl"; }));
  for (const std::string& name : scenarios::shipped("rl")) {
    INFO(name);
    const std::string set = "rl.framework=" + name;
    CHECK(tools::study_rl(scenarios::load_rl(step_with(kColocated, {set}))).step_s() > 0);
    CHECK(tools::study_rl(scenarios::load_rl(step_with(kAsync, {set}))).step_s() > 0);
  }
}

TEST_CASE("without answers a step is the training step that run simulates, and its transfer", "[rl]") {
  const scenarios::RlScenario s = scenarios::load_rl(step_with(kColocated, {"rl.answer=0", "rl.mini_batch=64"}));
  const tools::RlStudy study = tools::study_rl(s);
  const workloads::Job alone = scenarios::load_scenario(scenarios::parse_yaml(s.update_yaml, "update.yaml")).job;
  const sim::Duration step = workloads::simulate_step(alone).iteration;
  CHECK(study.steps.step == step.value() + study.prices.times.weight_transfer);
  CHECK(study.steps.step > 0);
}

TEST_CASE("what cannot be learned from is refused with its place and a reason", "[rl]") {
  const auto refusal = [](const std::vector<std::string>& base, const std::vector<std::string>& sets) {
    try {
      tools::study_rl(scenarios::load_rl(step_with(base, sets)));
    } catch (const sim::UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(refusal(kColocated, {"rl.promts=3"}), "prompts");
  has(refusal(kColocated, {"rl.mini_batch=7"}), "expected a divisor of the 64 answers");
  has(refusal(kColocated, {"rl.prompts=100000", "rl.samples_per_prompt=64"}), "expected at most 1000000");
  has(refusal(kColocated, {"rl.answer={mean: 3000, max: 2000}"}), "expected less than max");
  has(refusal(kColocated, {"rl.answer={max: 2000}"}), "exactly one of mean and percentiles");
  has(refusal(kColocated, {"rl.answer={percentiles: {p90: 100, p50: 200}}"}), "does not rise");
  has(refusal(kColocated, {"rl.framework=verl"}), "framework");
  has(refusal(kColocated, {"rl.placement={kind: colocated, staleness: 2}"}), "is of an asynchronous placement");
  has(refusal(kColocated, {"rl.placement={kind: separate, rollout_gpus: 32}"}), "expected some for the trainer");
  has(refusal(kSeparate, {"rl.weight_transfer=gather"}), "expected broadcast or point_to_point");
  has(refusal(kAsync, {"rl.oversampling=2"}), "steps that do not overlap");
  has(refusal(kColocated, {"parallelism={tensor: 2}"}), "below rl.training");
  has(refusal(kColocated, {"rl.training.parallelism.tensor=64"}), "tensor");
  has(refusal(kColocated, {"rl.rollout.pools=[{parallelism: {tensor: 5}}]"}), "heads");
  has(refusal(kColocated, {"rl.training.bach=3"}), "expected one of software, parallelism");
  has(refusal(kColocated, {"model=llama3.1-405b", "rl.training.parallelism.tensor=8"}), "no room for a cache");
  has(refusal(kColocated, {"rl.answer={mean: 900000, variation: 0, max: 1000000}",
                           "rl.rollout.pools=[{memory_utilization: 0.15}]"}),
      "answers need more than");
}

}  // namespace
