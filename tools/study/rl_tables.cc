// Tables of measured steps of reinforcement learning. See rl_tables.h.
//
// What the rows leave open is the published recipe's (NVIDIA-NeMo/RL, examples/configs/recipes/llm/performance):
// answers to a prompt, tokens of micro-batches, recomputation, layers of the outer stages, nodes that write. How far
// lengths of answers scatter no source says: their standard deviation is taken to be their mean, ahead of the cut.
#include "tools/study/rl_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/parallel.h"
#include "tools/study/rl_study.h"
#include "tools/study/table_file.h"

namespace orrery::tools {

namespace {

/// Of a model in NeMo-RL's recipes. A scoring micro-batch holds the tokens of so many of the longest sequences: until
/// 0.5 of one, but for those named.
struct RlRecipe {
  std::string_view table, model;  // as the table and as this project call it
  std::int64_t samples;           // to a prompt
  std::int64_t scored_until_05, scored, scored_of_gb200;
  bool recomputes;
};
constexpr std::array<RlRecipe, 5> kRlRecipes{
    {{"LLAMA3.1_8B", "llama3.1-8b", 32, 1, 2, 2, true},
     {"DeepSeek V3", "{inherits: deepseek-v3, mtp_layers: 0}", 16, 1, 1, 1, true},
     {"Qwen3-235B", "qwen3-235b-a22b", 32, 1, 1, 1, true},
     {"Qwen3-30B3A", "qwen3-30b-a3b", 32, 1, 4, 2, false},
     {"Qwen3-32B", "qwen3-32b", 32, 1, 4, 4, false}}};

struct RlDevice {
  std::string_view table, here, fabric;
  std::int64_t gpus_per_node;
};
constexpr std::array<RlDevice, 3> kRlDevices{{{"h100-sxm", "h100-sxm-80gb", "ndr-rail", 8},
                                              {"gb200", "gb200", "nvl72-ndr", 4},
                                              {"h20", "h20-sxm-96gb", "ndr-rail", 8}}};

std::int64_t rl_whole_at(const TableFile& t, std::size_t row, const char* column, std::int64_t fallback) {
  return static_cast<std::int64_t>(t.number(row, column).value_or(static_cast<double>(fallback)));
}

const RlDevice& rl_device_at(const TableFile& t, std::size_t row) {
  const std::string name = t.text(row, "device");
  const auto* device =
      std::find_if(kRlDevices.begin(), kRlDevices.end(), [&](const RlDevice& one) { return one.table == name; });
  if (device == kRlDevices.end())
    throw sim::UserError(name.empty() ? "the source does not state its device"
                                      : fmt::format("the device '{}' is of no recipe that is known", name));
  return *device;
}

/// Layers of the outer stages where recipes say so, the others alike: "" for an even split.
std::string rl_stage_layers(std::string_view model, std::int64_t stages) {
  struct Outer {
    std::string_view model;
    std::int64_t stages, layers, first, last;
  };
  constexpr std::array<Outer, 4> kOuter{{{"DeepSeek V3", 16, 61, 3, 2},
                                         {"DeepSeek V3", 8, 61, 7, 6},
                                         {"Qwen3-235B", 4, 94, 23, 23},
                                         {"Qwen3-235B", 8, 94, 11, 11}}};
  for (const Outer& outer : kOuter) {
    if (outer.model != model || outer.stages != stages) continue;
    std::string text = fmt::format(", stage_layers: [{}", outer.first);
    const std::int64_t inner = (outer.layers - outer.first - outer.last) / (stages - 2);
    for (std::int64_t i = 0; i < stages - 2; ++i) text += fmt::format(", {}", inner);
    return text + fmt::format(", {}]", outer.last);
  }
  return "";
}

std::string nemo_rl_scenario(const TableFile& t, std::size_t row, const std::string& id) {
  const std::string name = t.text(row, "model");
  const auto* recipe =
      std::find_if(kRlRecipes.begin(), kRlRecipes.end(), [&](const RlRecipe& one) { return one.table == name; });
  if (recipe == kRlRecipes.end()) throw sim::UserError(fmt::format("the model '{}' does not ship", name));
  const RlDevice& device = rl_device_at(t, row);
  const std::int64_t gpus = rl_whole_at(t, row, "gpus", 0), samples = rl_whole_at(t, row, "rollout_samples", 0),
                     longest = rl_whole_at(t, row, "max_tokens", 0),
                     prompt = rl_whole_at(t, row, "implied_prompt_tokens", 0);
  const double mean = t.needed(row, "mean_tokens", 1);
  const std::string policy = t.text(row, "policy");
  const bool on_policy = policy == "On policy";
  std::string placement = "colocated";
  if (!on_policy) {
    // Its recipe's nodes that write: half, but for 8 of 24.
    const std::int64_t writing = gpus == 192 ? 64 : gpus / 2;
    placement = fmt::format("{{kind: asynchronous, staleness: {}, rollout_gpus: {}}}",
                            policy.substr(0, policy.find('-')), writing);
  }
  const bool old = t.text(row, "version") < "0.6";
  std::int64_t scored = old                       ? recipe->scored_until_05
                        : device.table == "gb200" ? recipe->scored_of_gb200
                                                  : recipe->scored;
  if (name == "DeepSeek V3" && !on_policy) scored = 2;
  const std::int64_t tensor = rl_whole_at(t, row, "train_tp", 1), pipeline = rl_whole_at(t, row, "train_pp", 1);
  const bool fp8 = t.text(row, "rollout_precision") == "fp8";
  return fmt::format(
      "name: {}\ncluster: {{device: {}, gpus: {}, fabric: {}}}\nmodel: {}\nrl:\n  framework: nemo-rl-{}\n  prompts: "
      "{}\n  samples_per_prompt: {}\n  prompt: {{mean: {}, variation: 0.5, max: 1024}}\n  answer: {{mean: {}, "
      "variation: 1, max: {}}}\n  mini_batch: {}\n  micro_batch_tokens: {}\n  score_tokens: {}\n  placement: {}\n  "
      "rollout: {{pools: [{{parallelism: {{tensor: {}, pipeline: {}}}{}}}]{}}}\n  training:\n    parallelism: "
      "{{tensor: {}, pipeline: {}, context: {}, expert: {}, sequence_parallel: {}, sharding: optimizer{}}}\n    "
      "recompute: {}\n{}",
      id, device.here, gpus, device.fabric, recipe->model, t.text(row, "version"), samples / recipe->samples,
      recipe->samples, std::max<std::int64_t>(1, prompt), mean, longest - std::max<std::int64_t>(1, prompt),
      rl_whole_at(t, row, "train_batch", samples), longest, longest * scored, placement,
      rl_whole_at(t, row, "gen_tp", 1), rl_whole_at(t, row, "gen_pp", 1), on_policy ? "" : ", memory_utilization: 0.8",
      fp8 ? ", precision: {weights: fp8-block}" : "", tensor, pipeline, rl_whole_at(t, row, "train_cp", 1),
      rl_whole_at(t, row, "train_ep", 1), tensor > 1, rl_stage_layers(name, pipeline),
      recipe->recomputes ? "full" : "none",
      t.text(row, "train_precision") == "fp8" ? "    precision: fp8-blockwise\n" : "");
}

/// A transfer of weights by itself: a step of next to no answers, in the layouts of verl's example of this model
/// (Megatron TP 4, PP 8, EP 8; engines of TP 8), as the page does not say them.
std::string transfer_scenario(const TableFile& t, std::size_t row, const std::string& id) {
  const RlDevice& device = rl_device_at(t, row);
  const std::string name = t.text(row, "model");
  if (name != "Qwen3-235B-A22B") throw sim::UserError(fmt::format("how '{}' is cut is not known", name));
  const std::int64_t gpus = rl_whole_at(t, row, "gpus", 0), writing = rl_whole_at(t, row, "rollout_gpus", gpus / 2);
  return fmt::format(
      "name: {}\ncluster: {{device: {}, gpus: {}, fabric: {}}}\nmodel: qwen3-235b-a22b\nrl:\n  framework: {}\n  "
      "prompts: 32\n  prompt: 64\n  answer: 16\n  micro_batch_tokens: 4096\n  placement: {{kind: separate, "
      "rollout_gpus: "
      "{}}}\n  rollout: {{pools: [{{parallelism: {{tensor: 8}}}}]}}\n  training: {{software: megatron-core-0.14, "
      "recompute: full, parallelism: {{tensor: 4, pipeline: 8, expert: 8, expert_tensor: 1, sequence_parallel: true, "
      "sharding: optimizer}}}}\n",
      id, device.here, gpus, device.fabric, t.text(row, "policy") == "plain" ? "verl-0.7-plain" : "verl-0.7", writing);
}

std::string rl_scenario_of(const TableFile& t, std::size_t row, const std::string& id) {
  const std::string framework = t.text(row, "framework");
  if (t.text(row, "algorithm") == "weight sync only") return transfer_scenario(t, row, id);
  if (framework == "DeepSpeed-Chat")
    throw sim::UserError("its engine, DeepSpeed's hybrid one, is not simulated, nor are lengths stated");
  if (!t.number(row, "mean_tokens")) throw sim::UserError("the source does not state how long answers are");
  if (framework != "NeMo-RL") throw sim::UserError(fmt::format("no recipe of {} is known", framework));
  return nemo_rl_scenario(t, row, id);
}

struct RlColumn {
  const char *table, *metric;
};
constexpr std::array<RlColumn, 8> kRlColumns{{{"step_s", "step_s"},
                                              {"generation_s", "generation_s"},
                                              {"old_logprob_s", "logprob_s"},
                                              {"ref_s", "reference_s"},
                                              {"update_s", "training_s"},
                                              {"wait_s", "wait_s"},
                                              {"weight_sync_s", "weight_transfer_s"},
                                              {"tokens_per_s_gpu", "tokens_per_s_per_gpu"}}};

void predict_rl_row(ServingRow& row, const std::string& text) {
  row.scenario = text;
  const RlStudy study = study_rl(scenarios::load_rl(scenarios::parse_yaml(text, row.id)));
  const std::map<std::string, double> all{{"step_s", study.step_s()},
                                          {"generation_s", static_cast<double>(study.steps.generation) / 1e12},
                                          {"logprob_s", study.part_s(rl::Part::logprob)},
                                          {"reference_s", study.part_s(rl::Part::reference)},
                                          {"training_s", study.part_s(rl::Part::training)},
                                          {"wait_s", study.part_s(rl::Part::wait)},
                                          {"weight_transfer_s", study.part_s(rl::Part::weight_transfer)},
                                          {"tokens_per_s_per_gpu", study.tokens_per_s_per_gpu()}};
  for (const auto& [metric, value] : row.measured)
    if (const auto at = all.find(metric); at != all.end()) row.predicted[metric] = at->second;
}

}  // namespace

bool is_rl_table(const std::string& file) {
  if (!file.ends_with(".csv") && !file.ends_with(".csv.gz")) return false;
  const TableFile table = TableFile::parse(file, read_packed_text(file, "a table of measurements"));
  return table.has("rollout_samples") && table.has("weight_sync_s");
}

std::vector<ServingRow> validate_rl(const std::string& file, unsigned jobs) {
  const TableFile table = TableFile::parse(file, read_packed_text(file, "a table of measurements"));
  return rows_of_table(table, jobs, [&](std::size_t i, ServingRow& row) {
    row.group = fmt::format("{} {} {}", table.text(i, "framework"), table.text(i, "model"), table.text(i, "policy"));
    for (const RlColumn& column : kRlColumns)
      if (const auto value = table.number(i, column.table); value && *value > 0) row.measured[column.metric] = *value;
    predict_rl_row(row, rl_scenario_of(table, i, row.id));
  });
}

}  // namespace orrery::tools
