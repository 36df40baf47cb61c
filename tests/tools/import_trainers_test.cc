// What Axolotl's and LLaMA-Factory's files say of the layout, of how weights are held and of the way of training; and
// LLaMA-Factory's command in a script. import_forms_test.cc has their plain files and the law that nothing is dropped.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"
#include "tools/import/import.h"

using namespace orrery;
using tests::check_refused;
using tests::Folder;

namespace {

constexpr const char* kArguments[] = {"model_name_or_path: Qwen/Qwen2.5-7B-Instruct",
                                      "stage: sft",
                                      "finetuning_type: full",
                                      "cutoff_len: 4096",
                                      "per_device_train_batch_size: 2",
                                      "gradient_accumulation_steps: 4",
                                      "bf16: true"};

std::string factory_file(const std::string& more = "") {
  return fmt::format("{}\n{}", fmt::join(kArguments, "\n"), more);
}
std::string axolotl_file(const std::string& more) {
  return "base_model: NousResearch/Llama-2-13b-hf\nsequence_len: 4096\nmicro_batch_size: 2\n"
         "gradient_accumulation_steps: 2\noptimizer: adamw_torch\nbf16: true\n" +
         more;
}
std::string value_of(const tools::Draft& draft, const char* key) {
  const sim::Settings* value = draft.document().find_path(key);
  return value != nullptr ? value->text() : "";
}
std::string said(const tools::Draft& draft) {
  return fmt::format("{}\n{}", fmt::join(draft.ignored(), "\n"), fmt::join(draft.assumed(), "\n"));
}

}  // namespace

TEST_CASE("LLaMA-Factory's command in a script says what its file says, and what stands behind the file goes over it") {
  const Folder folder;
  const std::string plain = tools::import_llamafactory(folder.write("f.yaml", factory_file()), 8, {}).yaml();
  std::string flags;
  for (const std::string argument : kArguments) {
    const std::size_t colon = argument.find(':');
    flags += fmt::format(" \\\n  --{}{}", argument.substr(0, colon), argument.substr(colon + 1));
  }
  const auto body = [](const std::string& yaml) { return yaml.substr(yaml.find("\ncluster:")); };
  const std::string script = folder.write("train.sh", "#!/bin/bash\nllamafactory-cli train" + flags + "\n");
  CHECK(tools::import_kind(script) == "llamafactory");
  CHECK(body(tools::import_llamafactory(script, 8, {}).yaml()) == body(plain));
  const auto batch = [&](const std::string& line) {
    return value_of(tools::import_llamafactory(folder.write("run.sh", line + "\n"), 8, {}), "batch.global");
  };
  CHECK(batch("llamafactory-cli train f.yaml") == "64");  // 2 x 4 x 8
  CHECK(batch("llamafactory-cli train f.yaml gradient_accumulation_steps=2") == "32");
  CHECK(batch("FORCE_TORCHRUN=1 llamafactory-cli train f.yaml --gradient_accumulation_steps 1") == "16");
  CHECK_THROWS_WITH(batch("llamafactory-cli train none.yaml"), ContainsSubstring("none.yaml, which is not there"));
  // A word that nobody knows is named.
  CHECK(said(tools::import_llamafactory(folder.write("odd.sh", "llamafactory-cli train f.yaml zzz_unheard\n"), 8, {}))
            .find("zzz_unheard") != std::string::npos);
}

TEST_CASE("degrees of a trainer's file are the layout, and GPUs as many as they multiply to") {
  const Folder folder;
  const auto axolotl = [&](const std::string& more, std::int64_t gpus) {
    return tools::import_axolotl(folder.write("a.yml", axolotl_file(more)), gpus, {});
  };
  const tools::Draft tensor = axolotl("fsdp_version: 2\nfsdp_config: {}\ntensor_parallel_size: 2\n", 8);
  CHECK(value_of(tensor, "parallelism.tensor") == "2");
  CHECK(value_of(tensor, "batch.global") == "16");  // 2 x 2 x 8 / 2
  const tools::Draft more = axolotl(
      "fsdp_version: 2\nfsdp_config: {}\ntensor_parallel_size: 4\n"
      "context_parallel_size: 2\ndp_shard_size: 2\n",
      8);
  CHECK(value_of(more, "cluster.gpus") == "16");  // 4 x 2 x 2
  REQUIRE_FALSE(more.ignored().empty());
  CHECK(more.ignored().front().find("cluster.gpus: 16") != std::string::npos);
  CHECK_NOTHROW(scenarios::load_scenario(tensor.document()));
  // Shards of a group of 4, replicated twice.
  const tools::Draft groups = axolotl("fsdp_version: 2\nfsdp_config: {}\ndp_shard_size: 4\ndp_replicate_size: 2\n", 8);
  CHECK(value_of(groups, "parallelism.shard_group") == "4");
  // LLaMA-Factory hands Megatron-Core its own arguments on, and then runs that.
  const tools::Draft core = tools::import_llamafactory(
      folder.write("m.yaml", factory_file("tensor_model_parallel_size: 2\npipeline_model_parallel_size: 2\n"
                                          "sequence_parallel: true\nuse_distributed_optimizer: true\n")),
      8, {});
  CHECK(value_of(core, "software").starts_with("megatron-core"));
  CHECK(value_of(core, "parallelism.pipeline") == "2");
  CHECK(value_of(core, "parallelism.sharding") == "optimizer");
  CHECK(value_of(core, "batch.global") == "16");  // 2 x 4 x 8 / 4
  CHECK_NOTHROW(scenarios::load_scenario(core.document()));
}

TEST_CASE("LLaMA-Factory's second version says model, adapters and layout under names of its own") {
  const Folder folder;
  const std::string file =
      folder.write("v1.yaml",
                   "model: Qwen/Qwen3-4B\ntrain_dataset: data/identity.yaml\noutput_dir: out\nmicro_batch_size: 2\n"
                   "global_batch_size: 32\ncutoff_len: 4096\nbf16: true\npeft_config:\n  name: lora\n  r: 16\n  "
                   "target_modules: all\n"
                   "dist_config:\n  name: fsdp2\ncp_size: 2\n");
  CHECK(tools::import_kind(file) == "llamafactory");
  const tools::Draft draft = tools::import_llamafactory(file, 8, {});
  CHECK(value_of(draft, "model.inherits") == "qwen3-4b");
  CHECK(value_of(draft, "finetune.rank") == "16");
  CHECK(value_of(draft, "parallelism.sharding") == "parameters");
  CHECK(value_of(draft, "parallelism.context") == "2");
  CHECK(value_of(draft, "parallelism.context_method") == "all_to_all");
  CHECK(value_of(draft, "batch.global") == "32");
  CHECK_NOTHROW(scenarios::load_scenario(draft.document()));
}

TEST_CASE("weights are held in 16 bits alone where a trainer loads them so and nothing makes fp32 of them") {
  const Folder folder;
  const auto held = [](const tools::Draft& draft) { return value_of(draft, "precision.parameters"); };
  const auto axolotl = [&](const std::string& more) {
    return tools::import_axolotl(folder.write("a.yml", axolotl_file(more)), 8, {});
  };
  const auto factory = [&](const std::string& more) {
    return tools::import_llamafactory(folder.write("f.yaml", factory_file(more)), 8, {});
  };
  CHECK(held(axolotl("")) == "bf16");
  CHECK(held(axolotl("fsdp_version: 2\nfsdp_config: {}\n")).empty());
  CHECK(held(factory("")).empty());
  CHECK(held(factory("pure_bf16: true\n")) == "bf16");
  CHECK(said(factory("pure_bf16: true\n")).find("by pure_bf16") != std::string::npos);
}

TEST_CASE("states that all lie with the host are those of adam, and leave a step to look at") {
  const Folder folder;
  const std::string head =
                        "base_model: Qwen/Qwen3-0.6B\nsequence_len: 512\nmicro_batch_size: 1\noptimizer: adamw_8bit\n",
                    file = folder.write("a.yml", head +
                                                     "fsdp: [full_shard, auto_wrap]\n"
                                                     "fsdp_config: {fsdp_offload_params: true}\n");
  const tools::Draft draft = tools::import_axolotl(file, 2, {});
  CHECK(value_of(draft, "offload.optimizer") == "true");
  CHECK(value_of(draft, "optimizer") == "adam");
  CHECK(draft.ignored().at(0).find("optimizer of 8 bits") == 0);
  // The device has no kernel of an update: the program says so, and a timeline has its place.
  const std::string scenario = folder.write("s.yaml", draft.yaml());
  const tests::Outcome plan = tests::orrery({"plan", scenario});
  CHECK(plan.status == 0);
  CHECK(plan.out.find("no states on the device") != std::string::npos);
  CHECK(tests::orrery({"run", scenario, "--trace", folder.file("t.json")}).status == 0);
}

TEST_CASE("what --set gives is not said to be assumed") {
  const Folder folder;
  const std::string file = folder.write("a.yml", axolotl_file("adapter: lora\nlora_r: 8\n"));
  const auto written = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"import", "axolotl", file, "--gpus", "16", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return tests::orrery(words).out;
  };
  CHECK(written({}).find("cluster: H100 on ndr-rail") != std::string::npos);
  const std::string device = written({"--set", "cluster.device=h200-sxm-141gb"});
  CHECK(device.find("H100") == std::string::npos);
  CHECK(device.find("cluster.fabric: ndr-rail; --set") != std::string::npos);  // which still is
  CHECK(
      written({"--set", "cluster.device=h200-sxm-141gb", "--set", "cluster.fabric=gt-roce-400"}).find("fabric: ndr") ==
      std::string::npos);
  CHECK(written({"--set", "software=deepspeed-2026"}).find("software: transformers") == std::string::npos);
}

TEST_CASE("the file of DeepSpeed's that a trainer names is read where it lies, else its name has to do") {
  const Folder folder;
  const auto drafted = [&](const std::string& name) {
    return tools::import_axolotl(folder.write("a.yml", axolotl_file("deepspeed: " + name + "\n")), 8, {});
  };
  // Axolotl's own files: its zero2.json offloads without a word of it in the name.
  CHECK(value_of(drafted("deepspeed_configs/zero2.json"), "parallelism.sharding") == "gradients");
  CHECK(value_of(drafted("deepspeed_configs/zero2.json"), "offload.optimizer") == "true");
  CHECK(value_of(drafted("zero2.json"), "offload.optimizer") == "");
  CHECK(value_of(drafted("deepspeed_configs/zero3_bf16.json"), "parallelism.sharding") == "parameters");
  CHECK(value_of(drafted("deepspeed_configs/zero3_bf16_cpuoffload_all.json"), "offload.parameters") == "true");
  CHECK(value_of(drafted("deepspeed_configs/zero3_bf16_cpuoffload_params.json"), "offload.optimizer") == "");
  CHECK(value_of(drafted("ds_v3_z1.json"), "parallelism.sharding") == "optimizer");  // of the third version, stage 1
  CHECK(said(drafted("mine.json")).find("by the name of mine.json, which is not there") != std::string::npos);
  folder.write("mine.json", R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}})");
  CHECK(value_of(drafted("mine.json"), "parallelism.sharding") == "parameters");
  CHECK(value_of(drafted("mine.json"), "offload.optimizer") == "true");
  folder.write("mine.json", R"({"zero_optimization": {"stage": 4}})");
  CHECK_THROWS_WITH(drafted("mine.json"),
                    ContainsSubstring("zero_optimization.stage: expected an integer from 0 to 3, got"));
}

TEST_CASE("a way of training whose step is another is said first, and a file that trains nothing is told so") {
  const Folder folder;
  const auto first = [](const tools::Draft& draft) { return fmt::format("{}", fmt::join(draft.ignored(), "\n")); };
  for (const auto& [more, word] : {std::pair("rl: dpo\n", "rl: dpo"),
                                   {"rl: grpo\n", "orrery rl"},
                                   {"relora: true\n", "relora"},
                                   {"activation_offloading: true\n", "offloading"}}) {
    INFO(more);
    CHECK(first(tools::import_axolotl(folder.write("a.yml", axolotl_file(more)), 8, {})).find(word) !=
          std::string::npos);
  }
  CHECK(first(tools::import_llamafactory(folder.write("f.yaml", factory_file("use_galore: true\n")), 8, {}))
            .find("use_galore") != std::string::npos);
  check_refused(tests::orrery({"import", folder.write("v.sh", "python3 -m verl.trainer.main_ppo algorithm=grpo\n")}),
                {"verl", "docs/rl.md"});
  check_refused(tests::orrery({"import", folder.write("i.yaml", "model_name_or_path: a/b\ninfer_backend: vllm\n")}),
                {"orrery serving"});
  check_refused(
      tests::orrery({"import", folder.write("x.yaml", "model_name_or_path: a/b\nexport_dir: out\ntemplate: a\n")}),
      {"trains nothing"});
}

TEST_CASE("keys that no scenario has are named by their reason, those of weight first, misprints with what they mean") {
  const Folder folder;
  const auto line_with = [](const tools::Draft& draft, const std::string& word) {
    const auto found = std::find_if(draft.ignored().begin(), draft.ignored().end(),
                                    [&](const std::string& line) { return line.find(word) != std::string::npos; });
    return found != draft.ignored().end() ? *found : std::string();
  };
  const tools::Draft tuned = tools::import_axolotl(
      folder.write("tune.yml",
                   "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\nbf16: true\n"
                   "liger_fused_linear_cross_entropy: true\nliger_rope: false\nwarmup_ratoi: 0.1\nsave_strategy: no\n"
                   "fsdp_version: 2\nfsdp_config:\n  state_dict_type: FULL_STATE_DICT\n  unheard: 1\n"),
      8, {});
  CHECK(tuned.ignored().front().find("liger_fused_linear_cross_entropy = true") != std::string::npos);
  CHECK(line_with(tuned, "liger_rope").find("turned off") != std::string::npos);
  CHECK(line_with(tuned, "warmup_ratoi").find("did you mean warmup_ratio?") != std::string::npos);
  CHECK(line_with(tuned, "save_strategy").find("checkpoints") != std::string::npos);
  CHECK(line_with(tuned, "fsdp_config.unheard").find("not known") != std::string::npos);
  CHECK(line_with(tuned, "state_dict_type").find("not known") == std::string::npos);
  const auto deepspeed = [&](const std::string& zero, const std::string& more) {
    return tools::import_deepspeed(folder.write("ds.json", "{\"train_micro_batch_size_per_gpu\": 1, " + more +
                                                               "\"zero_optimization\": {" + zero + "}}"),
                                   8, {"model=llama2-7b"});
  };
  const tools::Draft groups = deepspeed("\"stage\": 3, \"mics_shard_size\": 4, \"overlap_com\": true",
                                        "\"communication_data_type\": \"fp32\", \"steps_per_print\": 10, ");
  CHECK(groups.document().find_path("parallelism.shard_group")->as_int() == 4);
  CHECK(line_with(groups, "overlap_com").find("did you mean zero_optimization.overlap_comm?") != std::string::npos);
  CHECK(groups.ignored().front().find("communication_data_type = fp32") != std::string::npos);
  CHECK(line_with(groups, "steps_per_print").find("logs") != std::string::npos);
  const tools::Draft older = deepspeed("\"stage\": 2, \"cpu_offload\": true", "");
  CHECK(older.document().find_path("offload.optimizer")->as_bool());
}
