// Rows of the schema for a step of reinforcement learning. See schema_rl.h.
#include "scenarios/schema_rl.h"

#include "calibration/framework/rl_framework.h"
#include "sim/key_rows.h"

namespace orrery::scenarios {

namespace {

using Rows = std::vector<Key>;

constexpr const char* kByFramework = "that of the framework";

void add_rl_length(Rows& rows, const std::string& path, const char* what) {
  rows.push_back(sim::key_row(path, "integer", "tokens", "", {}, what, {"0", "1000000"}));
  rows.push_back(
      sim::key_row(path + ".mean", "number", "tokens", "", {}, "Mean, of what is cut off at max.", {"0", "1000000"}));
  rows.push_back(sim::key_row(path + ".variation", "number", "", "1", {},
                              "Standard deviation over mean of a log-normal, ahead of the cut; 0: all alike.",
                              {"0", "10"}));
  rows.push_back(sim::key_row(path + ".max", "integer", "tokens", "-", {}, "Longest: what is longer is cut off.",
                              {"1", "1000000"}));
  rows.push_back(sim::key_row(path + ".percentiles", "mapping", "", "-", {},
                              "In place of a mean: tokens at per cents, as in {p50: 900, p90: 4000, p99: 8000}."));
  rows.push_back(
      sim::key_row(path + ".percentiles.*", "integer", "tokens", "", {}, "At that per cent.", {"1", "1000000"}));
}

Rows batch_rows() {
  Rows rows{
      sim::key_row("rl", "mapping", "", "-", {}, "A step of reinforcement learning after pre-training: for orrery rl."),
      sim::key_row("rl.algorithm", "choice", "", "grpo", {"grpo", "dapo", "ppo", "reinforce"},
                   "What is computed beside answers and updates: ppo has a critic, dapo no reference model."),
      sim::key_row("rl.framework", "name", "", "verl-0.7", {},
                   "The framework: a file of calibration/rl, a path, or a mapping that may inherit one."),
      sim::key_row("rl.framework.inherits", "name", "", "-", {},
                   "A framework; the other members of the mapping change it."),
      sim::key_row("rl.prompts", "integer", "prompts", "", {}, "That a step is trained on.", {"1", "1000000"}),
      sim::key_row("rl.samples_per_prompt", "integer", "answers", "1", {}, "To each prompt.", {"1", "65536"}),
      sim::key_row("rl.mini_batch", "integer", "answers", "all", {}, "Of an update of the weights.", {"1", "1000000"}),
      sim::key_row("rl.epochs", "integer", "", "1", {}, "Times that each answer is trained on.", {"1", "1000"}),
      sim::key_row("rl.micro_batch_tokens", "integer", "tokens", "the longest prompt with the longest answer", {},
                   "That a micro-batch of the trainer is packed to.", {"1", "10000000"}),
      sim::key_row("rl.score_tokens", "integer", "tokens", "rl.micro_batch_tokens", {},
                   "Likewise, of passes that compute log-probabilities.", {"1", "10000000"}),
      sim::key_row("rl.dynamic_sampling", "mapping", "", "-", {},
                   "Prompts whose answers are all right or all wrong do not count."),
      sim::key_row("rl.dynamic_sampling.acceptance", "number", "", "", {}, "Share of prompts that count.",
                   {"0.01", "1"}),
      sim::key_row("rl.dynamic_sampling.prompts", "integer", "prompts", "rl.prompts", {},
                   "Of a round of answers; rounds follow until enough prompts count.", {"1", "1000000"}),
      sim::key_row(
          "rl.oversampling", "number", "", "1", {},
          "So many times as many answers are begun as are trained on; the last ones are ended in the next step.",
          {"1", "16"}),
      sim::key_row("rl.steps", "integer", "", "1; asynchronous: 4", {}, "Steps that means are taken over.",
                   {"1", "50"}),
      sim::key_row("rl.seed", "integer", "", "1", {}, "Of all that is drawn.", {"0", "1000000000"}),
  };
  add_rl_length(rows, "rl.prompt", "Tokens of a prompt: a number or a spread of them.");
  add_rl_length(rows, "rl.answer", "Tokens of an answer: a number or a spread of them.");
  return rows;
}

Rows score_rows() {
  return {
      sim::key_row("rl.reward", "choice", "", "rule", {"rule", "model"},
                   "Who judges: a rule that costs nothing, or a model's pass."),
      sim::key_row("rl.reward.kind", "choice", "", "rule", {"rule", "model"}, "As rl.reward."),
      sim::key_row("rl.reward.seconds", "quantity", "time", "0 s", {}, "More, of judges elsewhere.", {"0 s", "1000 h"}),
      sim::key_row("rl.reference", "choice", "", "policy; dapo: none", {"policy", "none"},
                   "The model that the policy is held near: one of its size, or none."),
      sim::key_row("rl.critic", "choice", "", "none; ppo: policy", {"policy", "none"},
                   "A critic of the policy's size, or none."),
      sim::key_row(
          "rl.old_logprobs", "choice", "", kByFramework, calibration::old_logprobs_names(),
          "Who gives the log-probabilities that ratios are taken to: a pass of the trainer, the engine, or nobody."),
  };
}

Rows placement_rows() {
  const std::vector<std::string> kinds{"colocated", "separate", "asynchronous"};
  return {
      sim::key_row(
          "rl.placement", "choice", "", "colocated", kinds,
          "Whether engine and trainer share GPUs by turns, have their own and wait for each other, or overlap."),
      sim::key_row("rl.placement.kind", "choice", "", "colocated", kinds, "As rl.placement."),
      sim::key_row("rl.placement.rollout_gpus", "integer", "GPUs", "half of them", {},
                   "The engine's, where it has its own; the trainer has the others.", {"1", "1048576"}),
      sim::key_row("rl.placement.staleness", "integer", "steps", "1", {},
                   "Asynchronous: by so many steps weights may be older than those that an answer is trained into.",
                   {"1", "16"}),
      sim::key_row("rl.placement.at_update", "choice", "", kByFramework, calibration::at_update_names(),
                   "Asynchronous: answers under way as weights come are ended first, broken off, or gone on with."),
      sim::key_row("rl.placement.order", "choice", "", "batch", {"batch", "first"},
                   "Asynchronous: a step is trained on the answers begun for it, or on the first that are through."),
      sim::key_row("rl.weight_transfer", "choice", "", kByFramework, calibration::weight_route_names(),
                   "How weights get from the trainer to the engine."),
  };
}

/// A section that a scenario has elsewhere too, whose reader checks what is in it.
void add_section(Rows& rows, const std::string& path, const char* type, const char* fallback, const std::string& as) {
  rows.push_back({path, type, "", fallback, {}, "As " + as + "."});
  if (std::string_view(type) == "text")
    rows.push_back(sim::key_row(path + ".*", "text", "", "-", {}, "A member of " + as + "."));
}

Rows trainer_rows() {
  Rows rows{
      sim::key_row("rl.training", "mapping", "", "-", {}, "The trainer: sections of a training step, but its batch.")};
  for (const std::string& name : rl_training_sections()) {
    const bool mapping = name == "parallelism" || name == "overlap" || name == "offload";
    add_section(rows, "rl.training." + name, mapping ? "mapping" : "text",
                name == "software" ? kByFramework : "that of a training step", name + " of a training step");
  }
  return rows;
}

Rows engine_rows() {
  Rows rows{sim::key_row("rl.rollout", "mapping", "", "-", {},
                         "The engine: what a serving section says, software, precision.")};
  add_section(rows, "rl.rollout.software", "text", kByFramework, "software of a served model");
  add_section(rows, "rl.rollout.precision", "text", "bf16", "precision of a served model");
  rows.push_back(sim::key_row("rl.rollout.pools", "list", "", "-", {}, "As serving.pools: one of them."));
  rows.push_back(sim::key_row("rl.rollout.router", "text", "", "-", {}, "As serving.router."));
  return rows;
}

}  // namespace

const std::vector<std::string>& rl_training_sections() {
  static const std::vector<std::string> kNames{"software",  "parallelism", "precision", "recompute",
                                               "attention", "overlap",     "optimizer", "offload"};
  return kNames;
}

std::vector<Key> rl_keys() {
  Rows all = batch_rows();
  for (Rows rows : {score_rows(), placement_rows()}) std::move(rows.begin(), rows.end(), std::back_inserter(all));
  for (Rows rows : {trainer_rows(), engine_rows()}) std::move(rows.begin(), rows.end(), std::back_inserter(all));
  all.push_back(sim::key_row("rl.rollout.concurrency", "integer", "requests", "max_sequences", {},
                             "Of a replica at a time, below its engine's limit.", {"1", "1000000"}));
  return all;
}

}  // namespace orrery::scenarios
