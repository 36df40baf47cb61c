// What people have beside recipes and logs: nanotron, Primus, Axolotl, LLaMA-Factory, config.json of 2026; and the law
// of all importers, that no field is dropped without a word.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"
#include "tools/import/import.h"
#include "workloads/step/step.h"

using namespace orrery;
using tests::check_refused;
using tests::Folder;

namespace {

constexpr const char* kNanotron = R"(model:
  dtype: bfloat16
  model_config:
    hidden_act: silu
    hidden_size: 4096
    intermediate_size: 14336
    num_attention_heads: 32
    num_hidden_layers: 32
    num_key_value_heads: 8
    tie_word_embeddings: false
    vocab_size: 128_256
optimizer:
  accumulate_grad_in_fp32: true
  zero_stage: 1
parallelism:
  dp: 4
  pp: 2
  tp: 2
  pp_engine: 1f1b
  tp_mode: REDUCE_SCATTER
  tp_linear_async_communication: true
tokens:
  batch_accumulation_per_replica: 4
  micro_batch_size: 2
  sequence_length: 4096
)";
constexpr const char* kPrimus = R"(modules:
  pre_trainer:
    framework: megatron
    model: llama3.1_70B.yaml
    overrides:
      micro_batch_size: 3
      global_batch_size: 24
      seq_length: 8192
      tensor_model_parallel_size: ${PRIMUS_TP:1}
      use_torch_fsdp2: true
      lr: 1.0e-5
)";
constexpr const char* kPrimusTrainer = R"(micro_batch_size: 2
global_batch_size: 128
bf16: true
tensor_model_parallel_size: 1
overlap_grad_reduce: true
recompute_granularity: full
cuda_graph_impl: local
lr: 1.0e-5
)";
constexpr const char* kPrimusModel = R"(num_layers: 8
hidden_size: 1024
ffn_hidden_size: 4096
num_attention_heads: 16
seq_length: 2048
padded_vocab_size: 32000
normalization: RMSNorm
swiglu: true
)";
constexpr const char* kAxolotl = R"(base_model: NousResearch/Llama-2-13b-chat-hf
load_in_4bit: true
adapter: qlora
sequence_len: 512
lora_r: 32
lora_target_linear: true
gradient_accumulation_steps: 4
micro_batch_size: 1
optimizer: paged_adamw_8bit
bf16: auto
gradient_checkpointing: true
flash_attention: true
learning_rate: 0.0002
)";
constexpr const char* kFactory = R"(model_name_or_path: Qwen/Qwen2.5-7B-Instruct
stage: sft
finetuning_type: lora
lora_rank: 16
lora_target: all
cutoff_len: 4096
per_device_train_batch_size: 2
gradient_accumulation_steps: 8
bf16: true
)";
constexpr const char* kDeepSpeed = R"({
"bf16": {"enabled": true},
"train_micro_batch_size_per_gpu": 2,
"gradient_accumulation_steps": 4,
"gradient_clipping": 1,
"zero_optimization": {"stage": 3, "overlap_comm": true}
}
)";
constexpr const char* kHf = R"({
"model_type": "qwen3",
"hidden_size": 2560,
"intermediate_size": 9728,
"num_hidden_layers": 36,
"num_attention_heads": 32,
"num_key_value_heads": 8,
"head_dim": 128,
"rope_theta": 1000000,
"vocab_size": 151936,
"tie_word_embeddings": true,
"max_position_embeddings": 32768
}
)";
constexpr const char* kTomlTitan = R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 2
seq_len = 8192
steps = 1000
[parallelism]
tensor_parallel_degree = 2
[compile]
enable = true
)";

constexpr const char* kNemo1 = R"(trainer:
  devices: 8
  num_nodes: 4
  precision: bf16
model:
  micro_batch_size: 1
  global_batch_size: 256
  tensor_model_parallel_size: 4
  encoder_seq_length: 2048
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 16384
  num_attention_heads: 32
  sequence_parallel: true
exp_manager:
  create_wandb_logger: false
)";
constexpr const char* kContainer = R"(model:
  num_layers: 32
  hidden_size: 4096
  num_attention_heads: 32
  num_query_groups: 8
  ffn_hidden_size: 14336
  seq_length: 4096
  tensor_model_parallel_size: 2
  sequence_parallel: true
  vocab_size: 128256
train:
  micro_batch_size: 1
  global_batch_size: 64
mixed_precision: bf16_mixed
)";
constexpr const char* kAccelerateFsdp = R"(distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
  fsdp_activation_checkpointing: true
mixed_precision: bf16
num_machines: 1
num_processes: 8
)";

constexpr const char* kAxolotlShards = R"(base_model: NousResearch/Llama-2-13b-chat-hf
sequence_len: 4096
sample_packing: true
gradient_accumulation_steps: 4
micro_batch_size: 1
optimizer: adamw_torch_fused
bf16: true
fsdp_version: 2
fsdp_config:
  reshard_after_forward: true
  offload_params: false
  activation_checkpointing: true
  state_dict_type: FULL_STATE_DICT
)";
constexpr const char* kAccelerateDeepSpeed = R"(distributed_type: DEEPSPEED
deepspeed_config:
  gradient_accumulation_steps: 4
  offload_optimizer_device: none
  offload_param_device: none
  zero3_init_flag: true
  zero_stage: 3
mixed_precision: bf16
num_machines: 1
num_processes: 8
)";
constexpr const char* kAccelerateMegatron = R"(distributed_type: MEGATRON_LM
megatron_lm_config:
  megatron_lm_tp_degree: 2
  megatron_lm_pp_degree: 2
  megatron_lm_num_micro_batches: 4
  megatron_lm_sequence_parallelism: true
  megatron_lm_recompute_activations: true
  megatron_lm_use_distributed_optimizer: true
  megatron_lm_gradient_clipping: 1
mixed_precision: bf16
num_machines: 1
num_processes: 8
)";

/// An experiment in a tree of Primus's, of which the file is the trainer's defaults ("modules") or the model
/// ("models").
tools::Draft import_primus_tree(const std::string& file, const std::string& kind) {
  const std::filesystem::path tree = std::filesystem::path(file).parent_path() / "tree";
  for (const auto& [folder, text] : {std::pair{"modules", kPrimusTrainer}, {"models", kPrimusModel}}) {
    const std::filesystem::path there = tree / "primus/configs" / folder / "megatron";
    std::filesystem::create_directories(there);
    std::ofstream(there / "law.yaml") << text;
    if (kind == folder)
      std::filesystem::copy_file(file, there / "law.yaml", std::filesystem::copy_options::overwrite_existing);
  }
  std::ofstream(tree / "law.yaml") << "modules:\n  pre_trainer:\n    framework: megatron\n    config: law.yaml\n"
                                      "    model: law.yaml\n    overrides:\n      train_iters: 10\n";
  return tools::import_primus((tree / "law.yaml").string(), 8, {});
}

struct Form {
  const char *file, *text, *more;  // more: a line of a field that nobody knows, laid behind line `behind`
  std::function<tools::Draft(const std::string&)> read;
};
const std::vector<Form>& forms() {
  static const std::vector<Form> kForms{
      {"nanotron.yaml", kNanotron, "zzz_unheard_of: 7\n",
       [](const std::string& f) { return tools::import_nanotron(f); }},
      // A trainer's defaults, and a model's file, in the tree around an experiment.
      {"trainer.yaml", kPrimusTrainer, "zzz_unheard_of: 7\n",
       [](const std::string& f) { return import_primus_tree(f, "modules"); }},
      {"model.yaml", kPrimusModel, "zzz_unheard_of: 7\n",
       [](const std::string& f) { return import_primus_tree(f, "models"); }},
      {"primus.yaml", kPrimus, "      zzz_unheard_of: 7\n",
       [](const std::string& f) { return tools::import_primus(f, 8, {}); }},
      {"axolotl.yml", kAxolotl, "zzz_unheard_of: 7\n",
       [](const std::string& f) { return tools::import_axolotl(f, 8, {}); }},
      {"factory.yaml", kFactory, "zzz_unheard_of: 7\n",
       [](const std::string& f) { return tools::import_llamafactory(f, 8, {}); }},
      {"titan.toml", kTomlTitan, "zzz_unheard_of = 7\n",
       [](const std::string& f) { return tools::import_torchtitan(f, 8); }},
      {"zero.json", kDeepSpeed, nullptr,
       [](const std::string& f) { return tools::import_deepspeed(f, 8, {"model=llama2-7b"}); }},
      {"config.json", kHf, nullptr, [](const std::string& f) { return tools::import_hf(f); }},
      {"nemo.yaml", kNemo1, "zzz_unheard_of: 7\n", [](const std::string& f) { return tools::import_nemo(f); }},
      {"container.yaml", kContainer, "zzz_unheard_of: 7\n",
       [](const std::string& f) { return tools::import_bridge(f, 8, "", {}); }},
      {"accelerate.yaml", kAccelerateFsdp, "zzz_unheard_of: 7\n",
       [](const std::string& f) {
         return tools::import_accelerate(f, {"model=llama3.1-8b", "batch.micro=2"});
       }},
      {"shards.yml", kAxolotlShards, "zzz_unheard_of: 7\n",
       [](const std::string& f) { return tools::import_axolotl(f, 8, {}); }},
      {"deepspeed.yaml", kAccelerateDeepSpeed, "zzz_unheard_of: 7\n",
       [](const std::string& f) { return tools::import_accelerate(f, {"model=llama3.1-8b"}); }},
      {"megatron.yaml", kAccelerateMegatron, "zzz_unheard_of: 7\n",
       [](const std::string& f) { return tools::import_accelerate(f, {"model=llama3.1-8b"}); }},
  };
  return kForms;
}

std::string remarks_of(const tools::Draft& draft) {
  return fmt::format("{}\n{}", fmt::join(draft.ignored(), "\n"), fmt::join(draft.assumed(), "\n"));
}

/// Another value of the same kind.
std::string another(const std::string& value) {
  if (value == "true") return "false";
  if (value == "false") return "true";
  const bool number = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::to_string(2 * std::stoll(value)) : "zzz-other";
}

}  // namespace

namespace {

/// A field that nobody knows, ahead of each field of the file and beside it, is named or refused.
void check_added_fields(const Form& form, const std::vector<std::string>& lines, const Folder& folder) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t name = lines[i].find_first_not_of(' '), sign = lines[i].find_first_of(":=");
    if (name == std::string::npos || sign == std::string::npos || lines[i][name] == '-' || lines[i][name] == '{')
      continue;
    const bool json = lines[i][name] == '"', toml = lines[i][sign] == '=';
    const std::string field = json ? "\"unheard\": 1," : toml ? "unheard = 1" : "unheard: 1";
    std::string text;
    for (std::size_t j = 0; j < lines.size(); ++j)
      text += (j == i ? lines[j].substr(0, name) + field + "\n" : "") + lines[j] + "\n";
    INFO(form.file << ": ahead of " << lines[i]);
    std::string said;
    try {
      said = remarks_of(form.read(folder.write(form.file, text)));
    } catch (const sim::UserError& error) {
      said = "unheard, and refused";
    }
    CHECK(said.find("unheard") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("no field of a file is dropped without a word: another value changes the scenario, is refused or named") {
  const Folder folder;
  for (const Form& form : forms()) {
    const tools::Draft before = form.read(folder.write(form.file, form.text));
    std::vector<std::string> lines;
    std::istringstream in{std::string(form.text)};
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::size_t sign = lines[i].find_first_of(":=");
      if (sign == std::string::npos || lines[i].find('{') != std::string::npos) continue;
      const std::size_t begin = lines[i].find_first_not_of(" \"'=:", sign), end = lines[i].find_last_not_of(" ,\"'");
      if (begin == std::string::npos) continue;
      const std::size_t name = lines[i].find_first_not_of(" \"");
      const std::string key = lines[i].substr(name, lines[i].find_first_of("\": =", name) - name);
      INFO(form.file << ": " << lines[i]);
      std::string changed, without;
      for (std::size_t j = 0; j < lines.size(); ++j) {
        changed += (j == i ? lines[j].substr(0, begin) + another(lines[j].substr(begin, end - begin + 1)) +
                                 lines[j].substr(end + 1)
                           : lines[j]) +
                   "\n";
        if (j != i) without += lines[j] + "\n";
      }
      bool told = false;
      try {
        const tools::Draft after = form.read(folder.write(form.file, changed));
        told = after.values() != before.values() || remarks_of(after).find(key) != std::string::npos ||
               remarks_of(after) != remarks_of(before);
      } catch (const sim::UserError&) {
        told = true;
      }
      CHECK(told);
      try {
        form.read(folder.write(form.file, without));  // a default that is said, or a complaint; nothing worse
      } catch (const sim::UserError&) {
      }
    }
    check_added_fields(form, lines, folder);
    if (form.more == nullptr) continue;
    INFO(form.file);
    CHECK(remarks_of(form.read(folder.write(form.file, std::string(form.text) + form.more))).find("unheard") !=
          std::string::npos);
  }
}

TEST_CASE("a configuration of nanotron, and a flag of a launch that nobody knows") {
  const Folder folder;
  const scenarios::Scenario nanotron =
      scenarios::load_scenario(tools::import_nanotron(folder.write("n.yaml", kNanotron)).document());
  CHECK(nanotron.job.machine.gpus == 16);  // 4 x 2 x 2
  CHECK(nanotron.job.batch.global == 32);  // 4 steps of 2 on 4 replicas
  CHECK(nanotron.job.parallelism.sharding == workloads::Sharding::optimizer);
  CHECK(nanotron.job.parallelism.sequence_parallel);
  // Llama 3.1 8B's sizes (arXiv 2407.21783).
  CHECK(workloads::parameter_count(nanotron.job.model) == Approx(8.03e9).epsilon(0.005));
}

namespace {
std::string text_at(const tools::Draft& draft, const char* key) {
  const sim::Settings* found = draft.document().find_path(key);
  return found == nullptr ? "none" : found->text();
}
}  // namespace

TEST_CASE("an experiment of Primus: a model that ships, Megatron's arguments, defaults of the environment") {
  const Folder folder;
  const tools::Draft draft = tools::import_primus(folder.write("p.yaml", kPrimus), 8, {});
  const workloads::Job job = scenarios::load_scenario(draft.document()).job;
  CHECK(job.model.layers == 80);
  CHECK(job.batch.micro == 3);
  CHECK(job.parallelism.sharding == workloads::Sharding::parameters);
  CHECK(remarks_of(draft).find("${PRIMUS_TP:1}") != std::string::npos);
  // All of Primus's trainers train in bf16; what else they have by default stands in a file of its tree.
  CHECK(text_at(draft, "precision.matmul") == "bf16");
  CHECK(text_at(draft, "overlap.gradients") == "false");
  std::filesystem::create_directories(folder.path() / "primus/configs/modules/megatron");
  folder.write("primus/configs/modules/megatron/pre_trainer.yaml",
               "bf16: true\nglobal_batch_size: 48\noverlap_grad_reduce: true\nencoder_seq_length: null\n");
  std::string named = kPrimus;
  named.insert(named.find("    framework"), "    config: pre_trainer.yaml\n");
  const tools::Draft based = tools::import_primus(folder.write("based.yaml", named), 8, {});
  CHECK(text_at(based, "overlap.gradients") == "true");
  CHECK(text_at(based, "batch.global") == "24");  // the experiment's
  CHECK(remarks_of(draft).find("--lr") != std::string::npos);
}

TEST_CASE("fine-tuning by Axolotl and LLaMA-Factory: adapters by rank, what is simulated otherwise is said first") {
  const Folder folder;
  const tools::Draft axolotl = tools::import_axolotl(folder.write("a.yml", kAxolotl), 2, {});
  CHECK(axolotl.document().find_path("finetune.rank")->text() == "32");
  CHECK(axolotl.document().find_path("model.inherits")->text() == "llama2-13b");
  CHECK(axolotl.document().find_path("recompute")->text() == "full");
  CHECK(axolotl.document().find_path("batch.global")->text() == "8");  // 1 x 4 x 2
  CHECK(remarks_of(axolotl).find("load_in_4bit") != std::string::npos);
  CHECK(axolotl.document().find_path("finetune.kind")->text() == "qlora");
  CHECK(axolotl.document().find_path("optimizer")->text() == "adamw_8bit");
  const tools::Draft factory = tools::import_llamafactory(folder.write("f.yaml", kFactory), 8, {});
  CHECK(factory.document().find_path("finetune.rank")->text() == "16");
  CHECK(factory.document().find_path("batch.global")->text() == "128");  // 2 x 8 x 8
  CHECK(factory.document().find_path("model.seq")->text() == "4096");
}

TEST_CASE("what is tuned, a date and the type of weights in a name change no size of the model that it is") {
  const Folder folder;
  const auto named = [&](const std::string& name, const std::string& more = "") {
    return tools::import_axolotl(folder.write("a.yml", "base_model: " + name + "\nsequence_len: 2048\n" + more), 1, {});
  };
  const auto ships = [&](const std::string& name) {
    return named(name).document().find_path("model.inherits")->text();
  };
  CHECK(ships("Qwen/Qwen3-4B-Instruct-2507") == "qwen3-4b");
  CHECK(ships("hugging-quants/Meta-Llama-3.1-405B-BNB-NF4-BF16") == "llama3.1-405b");
  CHECK(ships("meta-llama/Llama-3.3-70B-Instruct") == "llama3.1-70b");
  CHECK(ships("google/gemma-3-12b-it") == "gemma3-12b");
  CHECK(ships("TinyLlama/TinyLlama-1.1B-Chat-v1.0") == "tinyllama-1.1b");
  CHECK(ships("ai21labs/Jamba-v0.1") == "jamba-v0.1");  // a version that tells a model apart
  // Others' tunings have their sizes by a catalogue: a distillate of DeepSeek-R1 is no DeepSeek-V3.
  CHECK(ships("deepseek-ai/DeepSeek-R1-0528") == "deepseek-v3");
  CHECK(ships("deepseek-ai/DeepSeek-R1-Distill-Llama-8B") == "llama3.1-8b");
  CHECK(ships("mistralai/Devstral-Small-2507") == "mistral-small-24b");
  CHECK(remarks_of(named("mistralai/Voxtral-Mini-3B-2507")).find("sound encoder: left out") != std::string::npos);
  // A base, its version and its size inside a name, or in the path of somebody's run, are taken and said first.
  const auto inferred = [&](const std::string& name) { return named(name).ignored().at(0); };
  CHECK(ships("Skywork/Skywork-Reward-V2-Qwen3-8B") == "qwen3-8b");
  CHECK(inferred("Skywork/Skywork-Reward-V2-Qwen3-8B").find("by the part qwen3-8b of the name") != std::string::npos);
  CHECK(ships("saves/qwen3-4b/full/sft") == "qwen3-4b");
  CHECK(inferred("saves/qwen3-4b/full/sft").find("by the part qwen3-4b of the name") != std::string::npos);
  CHECK_THROWS_WITH(ships("somebody/Distill-Qwen-7B"), ContainsSubstring("which does not ship"));  // of no version
  CHECK(remarks_of(named("Qwen/Qwen3-VL-4B-Instruct")).find("vision encoder: left out") != std::string::npos);
  // Adapters beside weights that are quantised already, and modules that nobody names, are said.
  const std::string narrow = remarks_of(named("Qwen/Qwen3-4B-AWQ", "adapter: lora\n"));
  CHECK(narrow.find("Qwen/Qwen3-4B-AWQ: weights in awq by its name") != std::string::npos);
  CHECK(narrow.find("finetune.modules: all products of attention and the MLP: no module is named") !=
        std::string::npos);
  CHECK_THROWS_WITH(ships("Qwen/Qwen3-5B"), ContainsSubstring("got Qwen/Qwen3-5B, which does not ship"));
  // Adapters stand beside a mixture's products; transformers has none of its further predictions. Windows of 4096 keys
  // reach no further than 2048 tokens, which YAML 1.1 may write as 2_048.
  const tools::Draft latent = tools::import_axolotl(
      folder.write("m.yml", "base_model: deepseek-ai/DeepSeek-V3\nadapter: lora\nlora_target_linear: true\n"), 8,
      {"model={inherits: deepseek-v3, mtp_layers: 1}"});
  REQUIRE(latent.document().find_path("model.mtp_layers") != nullptr);
  CHECK(latent.document().find_path("model.mtp_layers")->text() == "0");
  CHECK(latent.document().find_path("finetune.modules")->text() == "all");
  const tools::Draft windowed =
      tools::import_axolotl(folder.write("w.yml", "base_model: google/gemma-2-2b\nsequence_len: 2_048\n"), 1, {});
  CHECK(scenarios::load_scenario(scenarios::read_yaml(folder.write("w.yaml", windowed.yaml()))).job.model.seq == 2048);
}

TEST_CASE("a section of FSDP is taken, and the length of a file stays beside a model that is named") {
  const Folder folder;
  const std::string file = folder.write("shards.yml", kAxolotlShards);
  const tools::Draft draft = tools::import_axolotl(file, 8, {});
  CHECK(draft.document().find_path("recompute")->text() == "full");
  CHECK(draft.document().find_path("parallelism.sharding")->text() == "parameters");
  const std::string out = tests::orrery({"import", file, "--set", "model=llama3.1-8b", "--quiet"}).out;
  CHECK(out.find("inherits: llama3.1-8b") != std::string::npos);
  CHECK(out.find("seq: 4096") != std::string::npos);
}

TEST_CASE("a file alone says what it is, and a wrong kind is told the right one") {
  const Folder folder;
  for (const auto& [kind, file, text] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"nanotron", "a.yaml", kNanotron},
           {"primus", "b.yaml", kPrimus},
           {"axolotl", "c.yml", kAxolotl},
           {"llamafactory", "d.yaml", kFactory},
           {"hf", "e.json", kHf},
           {"torchtitan", "f.toml", kTomlTitan},
           {"deepspeed", "g.json", kDeepSpeed},
           {"topology", "t.conf", "SwitchName=a Nodes=n[0-3]\n"},
           // A script is one whatever documents it writes and however it spells its flags.
           {"megatron", "s.slurm", "#!/bin/bash\ncat <<E > ds.json\n{\"zero_optimization\": {\"stage\": 0}}\nE\nrun\n"},
           {"megatron", "u.sh", "#! /bin/bash\ntorchrun pretrain_gpt.py --num_layers 4\n"},
           {"vllm", "v.sh", "python -m vllm.entrypoints.openai.api_server --model x\n"},
           {"sglang", "w.sh", "#!/bin/bash\nsglang serve --model-path x\n"},
           {"megatron", "u.txt", "torchrun pretrain_gpt.py --num_layers 4\n"}}) {
    INFO(kind);
    CHECK(tools::import_kind(folder.write(file, text)) == kind);
  }
  CHECK(tests::orrery({"import", folder.write("a.yaml", kNanotron)}).out.find("layers: 32") != std::string::npos);
  const std::string script =
      folder.write("p.sh",
                   "#!/bin/bash\ntorchrun --nproc_per_node $G pretrain_gpt.py --num-layers $1 --hidden-size 1024 "
                   "--num-attention-heads 16 --seq-length 1024 --vocab-size 32000 --micro-batch-size 1 --bf16\n");
  const std::string given = tests::orrery({"import", script, "--env", "G=4", "--", "12"}).out;
  CHECK(given.find("layers: 12") != std::string::npos);
  CHECK(given.find("gpus: 4") != std::string::npos);
  check_refused(tests::orrery({"import", folder.write("x.txt", "nothing\n")}),
                {"x.txt", "expected orrery import KIND FILE"});
  check_refused(tests::orrery({"import", folder.write("y.yaml", "cluster: {}\nmodel: x\n")}), {"orrery run FILE"});
  check_refused(tests::orrery({"import", "accelerate", folder.write("c.yml", kAxolotl), "--set", "model=llama2-7b"}),
                {"orrery import axolotl"});
  check_refused(tests::orrery({"import", "megatron", folder.write("b.yaml", kPrimus)}), {"orrery import primus"});
}

TEST_CASE("config.json of 2026: counts as their cards state them") {
  const Folder folder;
  const auto parameters = [&](const std::string& text) {
    return workloads::parameter_count(
        scenarios::load_scenario(tools::import_hf(folder.write("config.json", text)).document()).job.model);
  };
  // Qwen3-VL's text models are Qwen 3's (their cards: 8.2 and 30.5 billion); tie_word_embeddings stands outside.
  CHECK(parameters(R"({"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text", "hidden_size": 4096,
    "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "max_position_embeddings": 4096}, "tie_word_embeddings": false})") ==
        Approx(8.19e9).epsilon(0.005));
  CHECK(parameters(
            R"({"model_type": "qwen3_vl_moe", "text_config": {"model_type": "qwen3_vl_moe_text", "hidden_size": 2048,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
    "max_position_embeddings": 4096},
    "tie_word_embeddings": false})") == Approx(30.5e9).epsilon(0.005));
  // MiMo-7B: 36 layers of Qwen 2's kind with biases of q, k and v, and one that predicts a further token: 7.62 billion
  // of the layers and both ends (36 x (41.9 + 135.3) M + 2 x 621 M), one block and a projection of 2 x 4096^2 more.
  CHECK(parameters(R"({"model_type": "mimo", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 36,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151680, "attention_bias": true,
    "num_nextn_predict_layers": 1, "max_position_embeddings": 4096, "tie_word_embeddings": false})") ==
        Approx(7.83e9).epsilon(0.005));
  // Infinity, -Infinity and NaN are what Python's json writes. Qwen3-4B: 4.02 billion by its checkpoint.
  std::string infinite = kHf;
  infinite.insert(1, "\"a\": [Infinity, -Infinity], \"b\": NaN, \"c\": \"NaN in a text\",");
  CHECK(parameters(infinite) == Approx(4.02e9).epsilon(0.005));
  // GLM-4.5-Air: 106 billion without the layer that predicts (its card), MiniMax-M2: 230 billion (its card).
  CHECK(
      parameters(
          R"({"model_type": "glm4_moe", "hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408,
    "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1,
    "num_hidden_layers": 46,
    "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151552, "attention_bias": true,
    "max_position_embeddings": 4096, "tie_word_embeddings": false})") == Approx(106e9).epsilon(0.02));
  CHECK(parameters(
            R"({"model_type": "minimax_m2", "hidden_size": 3072, "intermediate_size": 1536, "num_local_experts": 256,
    "num_experts_per_tok": 8, "num_hidden_layers": 62, "num_attention_heads": 48, "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 200064, "max_position_embeddings": 4096, "tie_word_embeddings": false, "use_mtp": false})") ==
        Approx(230e9).epsilon(0.02));
}

TEST_CASE("statistics of an MLPerf log by themselves: rate, time and tokens") {
  const Folder folder;
  const std::string log =
      ":::MLLOG {\"key\": \"tracked_stats\", \"value\": {\"throughput\": 5154997.27}}\n"
      ":::MLLOG {\"key\": \"tracked_stats\", \"value\": {\"train_epoch_timing\": 234.938}}\n";
  const tools::Draft draft = tools::import_mllog(folder.write("two.log", log), {});
  CHECK(draft.document().find_path("measured.tokens_per_s")->as_number() == Approx(5154997.27));
  CHECK(draft.document().find_path("model")->text() == "gpt3-175b");
  // 5154997.27 tokens/s for 234.938 s, which are 3.9156 minutes.
  const std::string remarks = remarks_of(draft);
  CHECK(remarks.find("234.938 s (3.916 minutes), at that rate 1.2111e+09 tokens") != std::string::npos);
  CHECK(remarks.find("names no benchmark") != std::string::npos);
}

TEST_CASE("logs of MLPerf say their machine by counted boards or by the line of the system; recommenders are read") {
  const Folder folder;
  const auto told = [&](const std::string& platform, const std::string& more = "") {
    const auto line = [](const char* key, const std::string& value) {
      return fmt::format(":::MLLOG {{\"key\": \"{}\", \"value\": {}, \"metadata\": {{}}}}\n", key, value);
    };
    return tools::import_mllog(folder.write("r.txt", more + line("submission_benchmark", "\"dlrm_dcnv2\"") +
                                                         line("submission_platform", "\"" + platform + "\"") +
                                                         line("global_batch_size", "160000") +
                                                         line("tracked_stats", "{\"throughput\": 40000000}")),
                               {});
  };
  // 160,000 samples at 40 million a second.
  const tools::Draft draft = told("8xMI300X");
  CHECK(text_at(draft, "cluster.device") == "mi300x");
  CHECK(text_at(draft, "cluster.gpus") == "64");
  CHECK(text_at(draft, "model") == "dlrm-dcnv2");
  CHECK(draft.document().find_path("measured.iteration_s")->as_number() == Approx(0.004));
  CHECK_NOTHROW(scenarios::load_scenario(draft.document()));
  CHECK(text_at(told("1xSR780aV3-8xB200_SXM_180GB"), "cluster.device") == "b200-sxm-180gb");
  const std::string system =
      ":::SYSJSON {\"number_of_nodes\": \"2\", \"accelerators_per_node\": \"8\", \"accelerator_model_name\": "
      "\"NVIDIA H200-SXM\", \"host_memory\": \"2 TB\"}\n";
  const tools::Draft placeholder = told("2xSUBMISSION_PLATFORM_PLACEHOLDER", "+ echo '" + system + system);
  CHECK(text_at(placeholder, "cluster.device") == "h200-sxm-141gb");
  CHECK(text_at(placeholder, "cluster.gpus") == "16");
  CHECK(remarks_of(placeholder).find(":::SYSJSON: host_memory: not read") != std::string::npos);
  CHECK(text_at(told("1xMYSTERY"), "cluster.device") == "h100-sxm-80gb");  // which is said to stand in
}

TEST_CASE("logs of MLPerf: tokens in epoch_count, adapters by rank, a layout that is asked for") {
  const Folder folder;
  const auto event = [](std::int64_t ms, const std::string& key, const std::string& value,
                        const std::string& metadata = "{}") {
    return fmt::format(":::MLLOG {{\"time_ms\": {}, \"key\": \"{}\", \"value\": {}, \"metadata\": {}}}\n", ms, key,
                       value, metadata);
  };
  // 12 steps of 2048 sequences of 2048 tokens in 120 s: the block counts tokens.
  const std::string gpt3 = event(1, "submission_benchmark", "\"gpt3\"") +
                           event(1, "submission_platform", "\"32xBOX\"") + event(1, "global_batch_size", "2048") +
                           event(1, "max_sequence_length", "2048") +
                           event(1000, "block_start", "null", "{\"epoch_count\": 50331648}") +
                           event(121'000, "block_stop", "null", "{\"epoch_count\": 50331648}");
  const std::vector<std::string> layout{"parallelism.tensor=4", "parallelism.pipeline=8"};
  const auto step = [&](const std::string& log) {
    return tools::import_mllog(folder.write("run.log", log), layout)
        .document()
        .find_path("measured.iteration_s")
        ->text();
  };
  CHECK(step(gpt3) == "10");
  CHECK(step(gpt3 + event(2000, "tracked_stats", "{\"train_step_timing in s\": 9.5}")) == "9.5");
  // A rate counts GPT-3's tokens; steps that are logged say more.
  const std::string rate = event(3000, "tracked_stats", "{\"throughput\": 1048576}");
  const std::string head = gpt3.substr(0, gpt3.find(":::MLLOG {\"time_ms\": 1000"));
  CHECK(step(head + rate) == "4");
  CHECK(step(gpt3 + rate) == "10");
  const std::string few = event(1, "submission_benchmark", "\"llama31_8b\"") +
                          event(1, "submission_platform", "\"4xNVIDIA DGX B200\"") +
                          event(1, "global_batch_size", "16") + event(1, "zzz_unheard_of", "3") +
                          event(1000, "tracked_stats", "{\"throughput\": 8}");
  CHECK_THROWS_AS(tools::import_mllog(folder.write("few.log", few), {}), sim::UserError);
  const tools::Draft draft = tools::import_mllog(folder.write("few.log", few), {"parallelism.tensor=2"});
  CHECK(draft.document().find_path("measured.iteration_s")->text() == "2");  // 16 sequences at 8 a second
  CHECK(draft.document().find_path("cluster.device")->text() == "b200-sxm-180gb");
  CHECK(remarks_of(draft).find("zzz_unheard_of") != std::string::npos);
  const tools::Draft lora = tools::import_mllog(
      folder.write("lora.log", event(1, "submission_benchmark", "\"llama2_70b_lora\"") +
                                   event(1, "global_batch_size", "8") + event(1, "lora_rank", "24") +
                                   event(2, "tracked_stats", "{\"train_step_time\": 2}")),
      {});
  CHECK(lora.document().find_path("finetune.rank")->text() == "24");
  CHECK(lora.document().find_path("finetune.kind")->text() == "lora");
}

TEST_CASE("a recipe's precision: by its helper's file, by an argument, by its name; never bf16 without a word") {
  const Folder folder;
  folder.write("helpers.py",
               "from megatron.bridge.training.mixed_precision import bf16_with_fp8_current_scaling_mixed\n\n"
               "def precision(kind):\n    if kind == \"fp8_cs\":\n        p = bf16_with_fp8_current_scaling_mixed()\n"
               "    p.grad_reduce_in_fp32 = False\n    return p\n");
  const auto recipe = [&](const std::string& line, const std::string& from) {
    return tools::import_bridge(
        folder.write("recipe.py", "from megatron.bridge.recipes.llama import llama3_8b_pretrain_config\n" + from +
                                      "\ncfg = llama3_8b_pretrain_config()\n" + line +
                                      "\ncfg.train.global_batch_size = 128\n"),
        8, "", {});
  };
  const tools::Draft beside = recipe("cfg.mixed_precision = precision(\"fp8_cs\")", "from helpers import precision");
  CHECK(beside.document().find_path("precision.matmul")->text() == "fp8");
  CHECK(beside.document().find_path("precision.gradients")->text() == "bf16");
  const tools::Draft elsewhere =
      recipe("cfg.mixed_precision = perf_precision(\"fp8_mx\")", "from elsewhere import perf_precision");
  CHECK(elsewhere.document().find_path("precision.matmul")->text() == "mxfp8");
  CHECK(elsewhere.ignored().at(0).find("mixed_precision") != std::string::npos);
  const tools::Draft unknown =
      recipe("cfg.mixed_precision = perf_precision(args.kind)", "from elsewhere import perf_precision");
  CHECK(unknown.ignored().at(0).find("mixed_precision") != std::string::npos);
  const tools::Draft idle = recipe("cfg.model.moe_token_dispatcher_type = \"alltoall\"", "");
  CHECK(remarks_of(idle).find("moe_token_dispatcher_type: without effect") != std::string::npos);
  CHECK_NOTHROW(scenarios::load_scenario(idle.document()));
}

TEST_CASE("a recipe's name states its device, its GPUs and their fabric") {
  const Folder folder;
  const tools::Draft draft = tools::import_bridge(
      folder.write(
          "r.py",
          "from megatron.bridge.recipes.qwen import qwen3_235b_a22b_pretrain_config\n\n"
          "def qwen3_235b_a22b_pretrain_256gpu_gb200_fp8mx_config():\n    cfg = qwen3_235b_a22b_pretrain_config()\n"
          "    cfg.model.pipeline_model_parallel_size = 8\n    cfg.model.expert_model_parallel_size = 8\n    return "
          "cfg\n"),
      0, "", {});
  CHECK(draft.document().find_path("cluster.device")->text() == "gb200");
  CHECK(draft.document().find_path("cluster.fabric")->text() == "nvl72-ndr");
  CHECK(draft.document().find_path("cluster.gpus")->text() == "256");
  CHECK(draft.document().find_path("precision.matmul")->text() == "mxfp8");
}
