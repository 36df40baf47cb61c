// Which importer a file is for, by what stands in it: marks that the form always has and no other has.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "sim/error.h"
#include "tools/import/import.h"

namespace orrery::tools {

namespace {

struct Mark {
  const char* kind;
  std::vector<const char*> all;   // that a file of this kind holds
  const char* instead = nullptr;  // what to do with a file that is not imported
  bool script = false;            // of a kind whose other files are none
};

const std::vector<Mark>& marks() {
  static const std::vector<Mark> kMarks = {
      {"mllog", {":::MLLOG"}},
      {"megatron", {"end of arguments ---"}},
      {"kubernetes", {"apiVersion:", "\nkind:"}},
      {"kubernetes", {"\"apiVersion\"", "\"kind\"", "\"spec\""}},
      {"", {"traceEvents"}, "a profiler's trace: orrery diff TRACE SCENARIO, orrery learn TRACE --scenario SCENARIO"},
      {"",
       {"algbw", "busbw"},
       "the output of nccl-tests: orrery collective CLUSTER --op NAME --gpus N --measured FILE"},
      {"",
       {"verl.trainer"},
       "a launch of verl's: what it trains and generates is a section `rl:` of a scenario; orrery list trained names "
       "some that ship, and docs/rl.md says every key"},
      {"",
       {"openrlhf.cli"},
       "a launch of OpenRLHF's: what it trains and generates is a section `rl:` of a scenario; orrery list trained "
       "names some that ship, and docs/rl.md says every key"},
      {"",
       {"swift rlhf"},
       "a launch of SWIFT's that generates answers: what it trains and generates is a section `rl:` of a scenario; "
       "docs/rl.md says every key"},
      {"",
       {"tps:", "mfu:"},
       "a log of TorchTitan's steps, which says no layout: orrery import torchtitan CONFIG, and its tokens a second a "
       "GPU beside it"},
      {"",
       {"train_step_timing in s"},
       "a log of NeMo's steps, which says no layout: orrery import nemo RECIPE, and its times beside it"},
      {"",
       {"policy:", "model_name:", "cluster:", "gpus_per_node:"},
       "a configuration of NeMo RL's: what it trains and generates is a section `rl:` of a scenario; orrery list "
       "trained names some that ship, and docs/rl.md says every key"},
      {"",
       {"model_name_or_path:", "infer_backend:"},
       "a configuration for answers alone: orrery serving --model NAME --device NAME --gpus N"},
      {"", {"export_dir:"}, "a configuration that merges or exports weights, which trains nothing"},
      {"nemo", {"nemo llm "}, nullptr, true},
      {"megatron", {"megatron sft"}},
      {"megatron", {"megatron pt "}},
      {"",
       {"-m torchtitan.train"},
       "a launch of TorchTitan's: orrery import torchtitan CONFIG [--SECTION.KEY VALUE]... with the file that it names "
       "and its options"},
      {"", {"primus-cli"}, "a launch of Primus's: orrery import primus EXPERIMENT.yaml with the file that it names"},
      {"",
       {"accelerate launch"},
       "a launch by Accelerate: orrery import accelerate CONFIG.yaml --set model=NAME with the file that it names"},
      {"",
       {"run_train.py", "--config-file"},
       "a launch of nanotron's: orrery import nanotron CONFIG.yaml with its file"},
      {"",
       {"swift sft"},
       "a launch of SWIFT's around Transformers: orrery run --model NAME --device NAME --gpus N, or orrery import "
       "deepspeed FILE --set model=NAME for the configuration that it names"},
      {"", {"tune run"}, "a launch of torchtune's: orrery run --model NAME --device NAME --gpus N"},
      {"",
       {"deepspeed ", "--model_name_or_path"},
       "a launch by DeepSpeed of a trainer of Transformers: orrery import deepspeed FILE --set model=NAME with the "
       "configuration that it names"},
      {"topology", {"<system", "<gpu"}},
      {"topology", {"LinkUp", "==>"}},
      {"topology", {"GPU0", "GPU1"}},
      {"topology", {"Switch\t", "\"S-"}},
      {"topology", {"SwitchName="}},
      {"topology", {"switchname="}},
      {"topology", {"a,b,rate"}},
      {"topology", {"BlockName="}},
      {"topology", {"topology:", "switch:"}},
      {"topology", {"topology:", "block:"}},
      {"", {"topology:", "flat:"}, "Slurm's flat topology, which names no switch and has nothing to be imported"},
      {"graph", {"\"parameters\"", "\"nodes\"", "\"target\""}},
      {"graph", {"\"schema\"", "-chakra.", "\"nodes\""}},
      {"graph", {"\"schema\"", "\"rf_id\"", "\"nodes\""}},
      {"hf", {"\"model_type\"", "{"}},
      {"hf", {"\"_class_name\"", "{"}},
      {"deepspeed", {"\"zero_optimization\""}},
      {"deepspeed", {"\"train_micro_batch_size_per_gpu\""}},
      {"bridge", {"megatron.bridge"}},
      {"bridge", {"ConfigContainer"}},
      {"torchtitan", {"torchtitan"}},
      {"torchtitan", {"[training]"}},
      {"torchtitan", {"[parallelism]"}},
      {"primus", {"modules:", "pre_trainer:"}},
      {"axolotl", {"base_model:"}},
      {"nanotron", {"model_config:", "tokens:"}},
      {"llamafactory", {"llamafactory-cli train"}},
      {"llamafactory", {"model_name_or_path:", "finetuning_type:"}},
      {"llamafactory", {"model_name_or_path:", "cutoff_len:"}},
      {"llamafactory", {"model:", "train_dataset:", "output_dir:"}},
      {"accelerate", {"distributed_type:"}},
      {"nemo", {"nemo_run"}},
      {"nemo", {"nemo.collections"}},
      {"nemo", {"trainer:", "model:"}},
      {"nemo", {"run.Partial("}},
      {"nemo", {"pretrain_recipe("}},
      {"bridge", {"model:", "train:", "micro_batch_size:"}},
      {"bridge", {"pretrain_config()"}},
      {"vllm", {"vllm serve"}},
      {"vllm", {"vllm.entrypoints."}},
      {"vllm", {"vllm/vllm-openai"}},
      {"sglang", {"sglang.launch_server"}},
      {"sglang", {"sglang serve"}},
      {"trtllm", {"trtllm-serve"}},
      {"megatron", {"--num-layers"}},
      {"megatron", {"--tensor-model-parallel-size"}},
      {"megatron", {"--micro-batch-size"}},
      {"megatron", {"--zero-stage"}},
      {"megatron", {"--num_layers"}},
      {"megatron", {"--tensor_model_parallel_size"}},
      {"megatron", {"--micro_batch_size"}},
      {"", {"cluster:", "model:"}, "a scenario: orrery run FILE"},
      {"megatron", {"#!/"}},
  };
  return kMarks;
}

/// Whether it is a script, which may hold documents of other kinds (a DeepSpeed configuration that it writes).
bool is_shell(const std::string& text) {
  if (!text.starts_with("#!")) return false;
  const std::string first = text.substr(0, text.find('\n'));
  return first.find("sh") != std::string::npos && first.find("python") == std::string::npos;
}

/// Whether files of this kind are scripts.
bool of_scripts(const Mark& mark) {
  static constexpr std::array<std::string_view, 6> kKinds{"megatron", "vllm", "sglang", "trtllm", "llamafactory", ""};
  return std::find(kKinds.begin(), kKinds.end(), mark.kind) != kKinds.end();
}

}  // namespace

std::string import_kind(const std::string& file) {
  const std::string text = read_text(file);
  const bool shell = is_shell(text);
  for (const Mark& mark : marks()) {
    if (shell && !of_scripts(mark) && !mark.script) continue;
    const bool here = std::all_of(mark.all.begin(), mark.all.end(),
                                  [&](const char* word) { return text.find(word) != std::string::npos; });
    if (!here) continue;
    if (mark.instead == nullptr) return mark.kind;
    throw sim::UserError({file, 1, 1}, "import", fmt::format("got {}, expected a file to be imported", mark.instead));
  }
  throw sim::UserError(
      {file, 1, 1}, "import",
      "got no form that is known by its words, expected orrery import KIND FILE with one of hf, graph, "
      "megatron, nemo, bridge, torchtitan, "
      "deepspeed, accelerate, nanotron, primus, axolotl, llamafactory, mllog, kubernetes, vllm, sglang, trtllm, "
      "topology");
}

}  // namespace orrery::tools
