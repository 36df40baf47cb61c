// Do recipes of NeMo 2 and Megatron-Bridge and configurations of Accelerate become the scenarios that they mean?
#include <algorithm>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"
#include "tools/import/known_recipes.h"
#include "tools/import/python_recipe.h"

using namespace orrery;
using tests::Folder;

namespace {

/// As a user writes one: a recipe of the library, changed, started from the main part.
constexpr const char* kNemoScript = R"(import nemo_run as run
from nemo.collections import llm
from nemo.collections.llm.recipes.precision.mixed_precision import bf16_with_fp8_mixed
from nemo.lightning.pytorch.callbacks.megatron_comm_overlap import MegatronCommOverlapCallback


def configure(nodes: int = 1, gpus_per_node: int = 8):
    """A docstring with recipe.trainer.num_nodes = 99 in it."""
    recipe = llm.llama3_70b.pretrain_recipe(
        dir="/checkpoints",  # of the job
        name="mine",
        num_nodes=nodes,
        num_gpus_per_node=gpus_per_node,
    )
    recipe.trainer.strategy.tensor_model_parallel_size = 2 * 4
    recipe.trainer.strategy.virtual_pipeline_model_parallel_size = None
    recipe.trainer.plugins = bf16_with_fp8_mixed()
    recipe.trainer.callbacks.append(run.Config(MegatronCommOverlapCallback, tp_comm_overlap=True))
    recipe.data.global_batch_size = 256
    recipe.model.config.recompute_granularity = "selective"
    recipe.model.config.recompute_modules = ["mlp", "core_attn"]
    recipe.trainer.max_steps = 100
    return recipe


def launch():
    recipe = configure(nodes=16)
    if recipe.trainer.max_steps > 50:
        recipe.trainer.max_steps = 50
    else:
        recipe.data.micro_batch_size = 7
    recipe.made_up.key = 3
    run.run(recipe, executor=run.LocalExecutor(ntasks_per_node=8))


if __name__ == "__main__":
    launch()
)";

/// As a library writes one: everything said, in functions that call each other.
constexpr const char* kNemoLibrary = R"(
def model() -> run.Config[pl.LightningModule]:
    config = run.Config(
        GPTConfig, num_layers=24, hidden_size=2048, num_attention_heads=16, ffn_hidden_size=5504,
        gated_linear_unit=True, normalization="RMSNorm", position_embedding_type="rope", add_bias_linear=False,
        share_embeddings_and_output_weights=False, vocab_size=32000,
    )
    return run.Config(GPTModel, config=config)


def trainer(tensor_parallelism: int = 4, nodes=2, *, callbacks: Optional[list] = None):
    strategy = run.Config(
        nl.MegatronStrategy, tensor_model_parallel_size=tensor_parallelism, sequence_parallel=True,
        ddp=run.Config(DistributedDataParallelConfig, overlap_grad_reduce=True, grad_reduce_in_fp32=False),
    )
    return run.Config(nl.Trainer, strategy=strategy, num_nodes=nodes, devices=8, plugins=bf16_mixed(),
                      max_steps=10)


def pretrain_recipe(name="default", seq=2_048, fn=pretrain) -> run.Partial:
    return run.Partial(
        fn, model=model(), trainer=trainer(2, callbacks=[run.Config(TimingCallback)]),
        data=run.Config(MockDataModule, seq_length=seq, global_batch_size=64, micro_batch_size=2),
    )


def finetune_recipe():
    recipe = pretrain_recipe()
    recipe.peft = run.Config(LoRA, dim=8)
    return recipe
)";

constexpr const char* kBridge = R"(from megatron.bridge import AutoBridge

SEQUENCE = 4096 * 2


def qwen3_8b_pretrain_config() -> ConfigContainer:
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("Qwen/Qwen3-8B").to_megatron_provider(load_weights=False)
    cfg.model.tensor_model_parallel_size = 4
    cfg.model.sequence_parallel = True
    cfg.model.pipeline_dtype = torch.bfloat16
    cfg.dataset.seq_length = SEQUENCE
    cfg.train.global_batch_size = 128
    cfg.train.micro_batch_size = 1
    cfg.mixed_precision = "bf16_with_fp8_current_scaling_mixed"
    cfg.ddp.overlap_grad_reduce = True
    cfg.ddp.use_megatron_fsdp = False
    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)
    return cfg


def qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config() -> ConfigContainer:
    cfg = qwen3_8b_pretrain_config()
    cfg.model = AutoBridge.from_hf_pretrained("Qwen/Qwen3-30B-A3B").to_megatron_provider()
    cfg.model.expert_model_parallel_size = 8
    cfg.model.moe_token_dispatcher_type = "alltoall"
    cfg.model.moe_grouped_gemm = True
    return cfg
)";

constexpr const char* kContainer = R"(_target_: megatron.bridge.training.config.ConfigContainer
ddp: {use_distributed_optimizer: true, overlap_grad_reduce: true, overlap_param_gather: true}
mixed_precision: {bf16: true, fp8: hybrid, fp8_recipe: blockwise, grad_reduce_in_fp32: true}
model:
  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
  activation_func: {_call_: false, _target_: torch.nn.functional.silu}
  add_bias_linear: false
  context_parallel_size: 2
  ffn_hidden_size: 28672
  gated_linear_unit: true
  hidden_size: 8192
  new_in_this_release: 5
  normalization: RMSNorm
  num_attention_heads: 64
  num_layers: 80
  num_query_groups: 8
  pipeline_model_parallel_size: 8
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  tensor_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: 5
  vocab_size: 128256
train: {global_batch_size: 64, micro_batch_size: 1, train_iters: 50}
dataset: {seq_length: 4096}
)";

constexpr const char* kAccelerate = R"(compute_environment: LOCAL_MACHINE
distributed_type: FSDP
downcast_bf16: 'no'
fsdp_config:
  fsdp_activation_checkpointing: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_version: 2
machine_rank: 0
mixed_precision: bf16
num_machines: 2
num_processes: 16
some_future_key: 1
use_cpu: false
)";

std::string with_changed(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

workloads::Job recipe_job(const tools::Draft& draft) { return scenarios::load_scenario(draft.document()).job; }

bool remarks_on(const std::vector<std::string>& remarks, const std::string& word) {
  return std::any_of(remarks.begin(), remarks.end(),
                     [&](const std::string& remark) { return remark.find(word) != std::string::npos; });
}

std::string refusal_of(const auto& act) {
  try {
    act();
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a script of NeMo 2: a library's recipe with overrides") {
  const Folder folder;
  const tools::Draft draft = tools::import_nemo_recipe(folder.write("run.py", kNemoScript), 0, "");
  const workloads::Job job = recipe_job(draft);
  CHECK(job.model.layers == 80);  // of Llama 3 70B
  CHECK(job.model.seq == 8192);   // of its recipe
  CHECK(job.machine.gpus == 16 * 8);
  CHECK(job.parallelism.tensor == 8);
  CHECK(job.parallelism.pipeline == 4);          // the recipe's
  CHECK(job.parallelism.virtual_pipeline == 1);  // None in place of the recipe's 5
  CHECK(job.parallelism.context == 2);
  CHECK(job.parallelism.sequence_parallel);
  CHECK(job.batch.global == 256);
  CHECK(job.batch.micro == 1);
  CHECK(draft.document().find_path("precision.matmul")->text() == "fp8");
  CHECK(draft.document().find_path("overlap.tensor")->as_bool());
  CHECK(draft.document().find_path("overlap.gradients")->as_bool());
  CHECK(draft.document().find_path("recompute.modules")->items().size() == 2);
  // 50 steps, by the condition, of 256 sequences of 8192 tokens.
  CHECK(draft.document().find_path("training.tokens")->as_number() == 50.0 * 256 * 8192);
  CHECK(remarks_on(draft.ignored(), "made_up.key"));
}

TEST_CASE("a recipe of NeMo 2 that says everything, in functions that call each other") {
  const Folder folder;
  const std::string file = folder.write("gpt.py", kNemoLibrary);
  const tools::Draft draft = tools::import_nemo_recipe(file, 0, "");
  const workloads::Job job = recipe_job(draft);
  CHECK(job.model.layers == 24);
  CHECK(draft.document().find_path("model.ffn_hidden")->as_int() == 5504);
  CHECK(draft.document().find_path("model.gated_mlp")->as_bool());
  CHECK(job.model.vocab == 32000);
  CHECK(job.parallelism.tensor == 2);  // the argument in order, not the default
  CHECK(job.machine.gpus == 16);
  CHECK(job.model.seq == 2048);
  CHECK(job.batch.micro == 2);
  CHECK(draft.document().find_path("precision.gradients")->text() == "bf16");
  CHECK(draft.document().find_path("finetune") == nullptr);
  const tools::Draft tuned = tools::import_nemo_recipe(file, 8, "finetune_recipe");
  CHECK(tuned.document().find_path("finetune.rank")->as_int() == 8);
  CHECK(recipe_job(tuned).machine.gpus == 8);
  CHECK(refusal_of([&] { tools::import_nemo_recipe(file, 0, "train"); }).find("pretrain_recipe") != std::string::npos);
}

TEST_CASE("adapters beside other products than those of a whole part are said to be taken as the whole") {
  const Folder folder;
  const auto tuned = [&](const std::string& modules) {
    std::string text = kNemoLibrary;
    text.replace(text.find("dim=8"), 5, "dim=8, target_modules=[" + modules + "]");
    return tools::import_nemo_recipe(folder.write("tuned.py", text), 8, "finetune_recipe");
  };
  const auto is = [](const tools::Draft& draft, const std::string& modules, bool said) {
    CHECK(draft.document().find_path("finetune.modules")->text() == modules);
    CHECK(remarks_on(draft.ignored(), "peft.target_modules: adapters") == said);
  };
  is(tuned("'linear_qkv', 'linear_proj'"), "attention", false);
  is(tuned("'linear_qkv', 'linear_proj', 'linear_fc1', 'linear_fc2'"), "all", false);
  is(tuned("'linear_qkv'"), "attention", true);
  is(tuned("'linear_qkv', 'linear_fc1'"), "all", true);
  is(tuned("'*.layers.0.*.linear_qkv', 'linear_proj'"), "attention", true);
}

TEST_CASE("what a recipe does not say stays open, and what is not followed is named") {
  const Folder folder;
  const std::string script = R"(
recipe = llm.llama3_8b.pretrain_recipe(num_nodes=args.nodes, name=f"run-{args.name}")
recipe.trainer.strategy.context_parallel_size = args.cp
for key in keys:
    recipe.data.micro_batch_size = 3
if args.fast:
    recipe.data.micro_batch_size = 4
recipe = tune(recipe, "harder")
recipe["data"].micro_batch_size = 5
)";
  const tools::Draft draft = tools::import_nemo_recipe(folder.write("open.py", script), 16, "");
  CHECK(recipe_job(draft).parallelism.context == 2);  // what Llama 3 8B's recipe has
  CHECK(recipe_job(draft).batch.micro == 1);
  for (const char* what : {"line 4: a loop", "line 6: a condition", "line 8: what tune(...)", "line 9:", "args.cp"})
    CHECK(remarks_on(draft.ignored(), what));
}

TEST_CASE("a recipe that is imported by name brings the layout of its module along") {
  const Folder folder;
  const std::string script = R"(from nemo.collections.llm.recipes.llama31_405b import (
    model,
    pretrain_recipe as base,
)
recipe = base(num_nodes=128)
)";
  const workloads::Job job = recipe_job(tools::import_nemo_recipe(folder.write("run.py", script), 0, ""));
  CHECK(job.model.layers == 126);
  CHECK(job.parallelism.context == 4);
  CHECK(job.machine.gpus == 1024);
}

TEST_CASE("a recipe of Megatron-Bridge that is called by its name brings its layout along") {
  const Folder folder;
  const std::string script = R"(from megatron.bridge.recipes.deepseek import deepseek_v4_flash_pretrain_config
def main():
    cfg = deepseek_v4_flash_pretrain_config()
    cfg.train.global_batch_size = 256
    pretrain(config=cfg)
if __name__ == "__main__":
    main()
)";
  const workloads::Job job = recipe_job(tools::import_bridge(folder.write("mine.py", script), 0, "", {}));
  CHECK(job.model.layers == 43);
  CHECK(job.parallelism.pipeline == 4);
  CHECK(job.parallelism.expert == 8);
  CHECK(job.machine.gpus == 32);  // no fewer hold stages and experts
  CHECK(job.batch.global == 256);
}

TEST_CASE("the release of a recipe of Megatron-Bridge is that of the tree in which it lies, else the newest") {
  const Folder folder;
  const auto release = [&](const std::string& file) {
    const tools::Draft draft =
        tools::import_bridge(folder.write(file, kBridge), 0, "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config", {});
    return draft.document().at("software").text();
  };
  CHECK(release("qwen.py") == "nemo-26.08");
  std::filesystem::create_directories(std::filesystem::path(folder.write("x", "")).parent_path() /
                                      "src/megatron/bridge/recipes");
  for (const auto& [minor, container] :
       {std::pair(3, "nemo-26.02"), {5, "nemo-26.06"}, {6, "nemo-26.08"}, {12, "nemo-26.08"}}) {
    folder.write("src/megatron/bridge/package_info.py", fmt::format("MAJOR = 0\nMINOR = {}\nPATCH = 1\n", minor));
    CHECK(release("src/megatron/bridge/recipes/qwen.py") == container);
  }
}

TEST_CASE("a recipe of Megatron-Bridge in Python: models by name, GPUs by the function's, overrides") {
  const Folder folder;
  const std::string file = folder.write("qwen.py", kBridge);
  const auto recipe = [&](const char* function, std::int64_t gpus, const std::vector<std::string>& overrides = {}) {
    return tools::import_bridge(file, gpus, function, overrides);
  };
  const workloads::Job dense = recipe_job(recipe("qwen3_8b_pretrain_config", 32));
  CHECK(dense.model.layers == 36);
  CHECK(dense.model.seq == 8192);
  CHECK(dense.parallelism.tensor == 4);
  CHECK(dense.parallelism.data == 8);
  CHECK(dense.parallelism.sharding == workloads::Sharding::optimizer);
  const tools::Draft draft = recipe("qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config", 0, {"train.micro_batch_size=2"});
  const workloads::Job mixture = recipe_job(draft);
  CHECK(mixture.machine.gpus == 16);  // by its name
  CHECK(mixture.parallelism.expert == 8);
  CHECK(mixture.batch.micro == 2);
  CHECK(draft.document().find_path("experts.grouped_gemm")->as_bool());
  CHECK(draft.document().find_path("overlap.tensor")->as_bool());
  CHECK(refusal_of([&] { recipe("", 8); }).find("--recipe with one of qwen3_30b") != std::string::npos);
  CHECK(refusal_of([&] { recipe("qwen3_8b_pretrain_config", 6); }).find("multiple of tensor 4") != std::string::npos);
  CHECK(refusal_of([&] {
          recipe("qwen3_8b_pretrain_config", 8, {"model.context_parallel_size=two"});
        }).find("arguments:1:1") != std::string::npos);
}

TEST_CASE("recipes of Megatron-Bridge for hybrids, racks of Vera Rubin, and stages of uneven ends") {
  const Folder folder;
  const auto recipe = [&](const std::string& name, const std::string& body) {
    const std::string file =
        folder.write("perf.py", "def " + name + "():\n    cfg = _pretrain_common()\n" + body + "    return cfg\n");
    return tools::import_bridge(file, 0, name, {});
  };
  const std::string super = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16";
  const std::string provider =
      "    cfg.model = AutoBridge.from_hf_pretrained(\"" + super + "\").to_megatron_provider()\n";
  const tools::Draft hybrid =
      recipe("nemotron_3_super_pretrain_64gpu_vr200_fp8mx_config",
             provider +
                 "    cfg.model.expert_model_parallel_size = 64\n    cfg.model.mtp_num_layers = 2\n"
                 "    cfg.model.mtp_hybrid_override_pattern = \"*E\"\n    cfg.model.mtp_use_repeated_layer = True\n"
                 "    cfg.train.global_batch_size = 512\n    cfg.train.micro_batch_size = 1\n");
  const workloads::Job job = recipe_job(hybrid);
  CHECK(job.model.layers == 88);
  CHECK(job.model.experts.latent == 1024);
  CHECK(job.model.experts.mtp_layers == 2);  // and each of attention and experts, as the letters say
  CHECK(job.model.pattern.at(89).attends);
  CHECK(job.model.pattern.at(89).channel == workloads::Model::Block::Channel::experts);
  CHECK(hybrid.document().find_path("cluster.device")->text() == "vr200");
  CHECK(hybrid.document().find_path("precision.matmul")->text() == "mxfp8");
  CHECK(hybrid.ignored().front().find("mtp_use_repeated_layer") == 0);
  const auto graphs_of = [&](const std::string& said) {
    const tools::Draft draft =
        recipe("nemotron_3_super_pretrain_64gpu_b300_bf16_config", provider +
                                                                       "    cfg.model.expert_model_parallel_size = 8\n"
                                                                       "    cfg.train.global_batch_size = 512\n" +
                                                                       said);
    return recipe_job(draft).software.host.graphs;
  };
  using calibration::Graphs;
  const std::string engine = "    cfg.model.cuda_graph_impl = \"transformer_engine\"\n";
  CHECK(graphs_of(engine + "    cfg.model.cuda_graph_scope = [\"attn\", \"mamba\", \"moe_router\"]\n") ==
        Graphs::mixers);
  CHECK(graphs_of(engine + "    cfg.model.cuda_graph_modules = [\"attn\", \"moe_router\", \"moe_preprocess\"]\n") ==
        Graphs::ahead_of_counts);
  CHECK(graphs_of(engine + "    cfg.model.cuda_graph_scope = [\"moe_router\"]\n") == Graphs::router);
  // A helper of theirs writes one name or another; what stood there before is gone.
  CHECK(graphs_of(engine + "    cfg.model.cuda_graph_scope = [\"moe_router\"]\n"
                           "    set_cuda_graph_modules(cfg.model, [\"attn\", \"mamba\", \"moe_router\"])\n") ==
        Graphs::mixers);
  CHECK(graphs_of("    cfg.model.cuda_graph_impl = \"none\"\n    cfg.model.cuda_graph_scope = [\"attn\"]\n") ==
        Graphs::none);
  const std::string stages =
      "    cfg.model.pipeline_model_parallel_size = 4\n    cfg.train.global_batch_size = 64\n"
      "    cfg.model.num_layers_in_first_pipeline_stage = 6\n";
  const auto layers_of = [&](const std::string& last) {
    return recipe_job(recipe("llama3_8b_pretrain_8gpu_h100_bf16_config",
                             stages + "    cfg.model.num_layers_in_last_pipeline_stage = " + last + "\n"))
        .parallelism.stage_layers;
  };
  CHECK(layers_of("8") == std::vector<std::int64_t>{6, 9, 9, 8});  // 32 layers less 14, over two
  CHECK(layers_of("7").empty());                                   // 19 over two: said, and shared out evenly
  CHECK(refusal_of([&] {
          recipe("wan_14b_pretrain_16gpu_gb200_bf16_config",
                 "    cfg.model = WanModelProvider(num_layers=40, hidden_size=5120, num_attention_heads=40,\n"
                 "                                 crossattn_emb_size=5120)\n");
        }).find("crossattn_emb_size: got a model whose tokens attend to another") != std::string::npos);
}

TEST_CASE("a ConfigContainer of Megatron-Bridge as it writes it") {
  const Folder folder;
  const tools::Draft draft = tools::import_bridge(folder.write("run.yaml", kContainer), 64, "", {});
  const workloads::Job job = recipe_job(draft);
  CHECK(job.model.layers == 80);
  CHECK(draft.document().find_path("model.kv_heads")->as_int() == 8);
  CHECK(job.parallelism.pipeline == 8);
  CHECK(job.parallelism.virtual_pipeline == 5);
  CHECK(job.parallelism.data == 2);
  CHECK(draft.document().find_path("precision.matmul")->text() == "fp8-blockwise");
  CHECK(remarks_on(draft.ignored(), "model.new_in_this_release"));
  CHECK(refusal_of([&] {
          tools::import_bridge(folder.write("none.yaml", "a: 1\n"), 8, "", {});
        }).find("none.yaml:1:1") != std::string::npos);
  const std::string out = folder.file("out.yaml");
  CHECK(tests::orrery({"import", "bridge", folder.file("run.yaml"), "model.tensor_model_parallel_size=4", "--gpus",
                       "128", "--out", out})
            .status == 0);
  CHECK(tests::orrery({"run", out}).status == 0);
}

TEST_CASE(
    "values that a recipe hands on: several at a time, of dictionaries and lists, layouts of a pipeline by hand") {
  const Folder folder;
  const std::string script = R"(
LAYOUTS = {
    (2, 1): [["embedding"] + ["decoder"] * 20, ["decoder"] * 12 + ["loss"]],
    (4, 1): [["embedding"] + ["decoder"] * 6] + [["decoder"] * 10] * 2 + [["decoder"] * 6, "loss"],
}


def layout(stages, chunks):
    chosen = LAYOUTS[(stages, chunks)]
    chosen = list([list(x) for x in chosen])
    return chosen


def muon(lr):
    return OptimizerConfig(optimizer="dist_muon", lr=lr), SchedulerConfig(warmup=3)


def llama3_8b_pretrain_config() -> ConfigContainer:
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Meta-Llama-3-8B").to_megatron_provider()
    sizes = {"micro": 1, "global": 64}
    cfg.train.micro_batch_size = sizes["micro"]
    cfg.train.global_batch_size = sizes["global"] * 2
    cfg.model.pipeline_model_parallel_size = 2
    if (2, 1) in LAYOUTS:
        cfg.model.pipeline_model_parallel_layout = layout(2, 1)
    opt, schedule = muon(lr=3e-4)
    cfg.optimizer = opt
    cfg.scheduler = schedule
    cfg.ddp.use_distributed_optimizer = False
    return cfg
)";
  const tools::Draft draft = tools::import_bridge(folder.write("hand.py", script), 8, "", {});
  const workloads::Job job = recipe_job(draft);
  CHECK(job.batch.global == 128);
  CHECK(job.batch.micro == 1);
  CHECK(draft.document().find_path("optimizer")->text() == "muon");
  CHECK(job.parallelism.sharding == workloads::Sharding::optimizer);  // of Muon's states, by layers
  const sim::Settings& pieces = *draft.document().find_path("parallelism.stage_layers");
  REQUIRE(pieces.items().size() == 2);
  CHECK(pieces.items()[0].text() == "20");
  CHECK(pieces.items()[1].text() == "12");
  // A layout of another number of layers than the model's 32 is said, first, and not taken.
  std::string fewer = script;
  fewer.replace(fewer.find("* 12"), 4, "* 11");
  const tools::Draft other = tools::import_bridge(folder.write("fewer.py", fewer), 8, "", {});
  CHECK(other.document().find_path("parallelism.stage_layers") == nullptr);
  CHECK(other.ignored().front().starts_with("pipeline_model_parallel_layout"));
  // By letters, which have two pieces a stage.
  std::string letters = script;
  letters.replace(letters.find("layout(2, 1)\n    opt"), 12, "\"Ett*7|(tttttttt|)*2tttttttt,L\"");
  const workloads::Job staged = recipe_job(tools::import_bridge(folder.write("letters.py", letters), 8, "", {}));
  CHECK(staged.parallelism.virtual_pipeline == 2);
}

TEST_CASE("what a recipe leaves to a run and a scenario is made of is said first, and a model may be named beside it") {
  const Folder folder;
  const std::string script = R"(
def mine_pretrain_config() -> ConfigContainer:
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("someone/unheard-7B").to_megatron_provider()
    cfg.model.tensor_model_parallel_size = args.tensor
    cfg.model.pipeline_dtype = torch.bfloat16
    cfg.logger.tensorboard_dir = os.path.join("a", "b")
    cfg.optimizer = tuned_muon(3)
    return cfg
)";
  const std::string file = folder.write("mine.py", script);
  CHECK(refusal_of([&] { tools::import_bridge(file, 8, "", {}); }).find("--set model=NAME") != std::string::npos);
  const tools::Draft draft = tools::import_bridge(file, 8, "", {}, {"model=llama2-7b"});
  CHECK(draft.document().find_path("model.inherits")->text() == "llama2-7b");
  CHECK(draft.ignored().front().starts_with("model.tensor_model_parallel_size = args.tensor: only a run can say"));
  CHECK(remarks_on(draft.ignored(), "optimizer = tuned_muon: what it makes is not in this file; muon is taken"));
  CHECK(draft.document().find_path("optimizer")->text() == "muon");
  CHECK_FALSE(remarks_on(draft.ignored(), "pipeline_dtype = torch.bfloat16: only"));
  CHECK_THROWS_AS(tools::import_bridge(file, 8, "", {}, {"model=zzz"}), sim::UserError);
  // A model of images and text is its language model, which is called as without, and that is said.
  std::string sees = script;
  sees.replace(sees.find("someone/unheard-7B"), 18, "Qwen/Qwen2.5-VL-7B-Instruct");
  const tools::Draft language = tools::import_bridge(folder.write("sees.py", sees), 8, "", {});
  CHECK(language.document().find_path("model.inherits")->text() == "qwen2.5-7b");
  CHECK(remarks_on(language.ignored(), "vision encoder: left out"));
}

TEST_CASE(
    "a container's fields: what an MLP applies, windows, types of scores, each field of weight but at its default") {
  const Folder folder;
  const auto draft = [&](const std::string& model, const std::string& more = "") {
    return tools::import_bridge(
        folder.write("c.yaml",
                     "model: {num_layers: 24, hidden_size: 2048, num_attention_heads: 16, vocab_size: 32000, " + model +
                         "}\ntrain: {global_batch_size: 64, micro_batch_size: 1}\n" + more),
        8, "", {});
  };
  const auto value = [&](const std::string& model, const char* key) {
    const tools::Draft made = draft(model);
    const sim::Settings* found = made.document().find_path(key);
    return found == nullptr ? std::string("none") : found->text();
  };
  CHECK(value("activation_func: {_target_: megatron.core.squared_relu, _call_: false}", "model.activation") ==
        "squared_relu");
  CHECK(value("gated_linear_unit: true, activation_func: {_target_: torch.nn.functional.silu}", "model.activation") ==
        "none");
  CHECK(value("gated_linear_unit: true, activation_func: {_target_: torch.nn.functional.gelu}", "model.activation") ==
        "gelu");
  CHECK(value("window_size: [127, 0], window_attn_skip_freq: 2", "model.attention_window") == "128");
  CHECK(value("window_size: [-1, 0]", "model.attention_window") == "none");
  CHECK(value("num_moe_experts: 8, moe_router_dtype: fp32", "experts.router_fp32") == "true");
  CHECK(value("num_moe_experts: 8, moe_router_dtype: bf16", "experts.router_fp32") == "false");
  CHECK(value("num_moe_experts: 8", "model.top_k") == "2");
  CHECK(value("num_moe_experts: 8, ffn_hidden_size: 5504", "model.expert_ffn_hidden") == "5504");
  CHECK(value("fp8: e4m3, fp8_recipe: mxfp8", "precision.matmul") == "mxfp8");
  const tools::Draft overruled = draft("fp8: e4m3", "mixed_precision: {bf16: true}\n");
  CHECK(overruled.document().find_path("precision.matmul")->text() == "bf16");
  CHECK(remarks_on(overruled.ignored(), "model.fp8 = e4m3: mixed_precision stands instead"));
  // A field of weight is said first; at its default it is only named.
  const tools::Draft weighs = draft("softmax_type: learnable", "ddp: {bucket_size: 40000000}\n");
  CHECK(remarks_on(weighs.ignored(), "model.softmax_type = learnable"));
  CHECK(remarks_on(weighs.ignored(), "ddp.bucket_size = 40000000"));
  const tools::Draft usual = draft("softmax_type: vanilla", "optimizer: {exp_avg_dtype: torch.float32}\n");
  CHECK(remarks_on(usual.ignored(), "model.softmax_type"));
  CHECK_FALSE(remarks_on(usual.ignored(), "model.softmax_type = vanilla"));
  CHECK_FALSE(remarks_on(usual.ignored(), "exp_avg_dtype = "));
}

TEST_CASE("a recipe in the main part of a file is changed by what follows, whatever its variable is called") {
  const Folder folder;
  const auto read = [&](const std::string& text) {
    return recipe_job(tools::import_bridge(folder.write("main.py", text), 64, "", {}));
  };
  const std::string imported = "from megatron.bridge.recipes.llama import llama3_70b_pretrain_config\n";
  // Ahead of the imported function's name in the alphabet, and behind it.
  for (const std::string name : {"cfg", "recipe"}) {
    INFO(name);
    const workloads::Job job =
        read(imported + name + " = llama3_70b_pretrain_config()\n" + name + ".model.tensor_model_parallel_size = 8\n" +
             name + ".train.global_batch_size = 768\n");
    CHECK(job.parallelism.tensor == 8);
    CHECK(job.batch.global == 768);
  }
  // Of two the one that was written last.
  const std::string two =
      "z = llama3_70b_pretrain_config()\nz.train.global_batch_size = 256\n"
      "a = llama3_70b_pretrain_config()\na.train.global_batch_size = 768\n";
  CHECK(read(imported + two).batch.global == 768);
  CHECK(read(imported + two + "z.model.tensor_model_parallel_size = 8\n").batch.global == 256);
}

TEST_CASE("a configuration of Accelerate: FSDP, DeepSpeed, Megatron-LM") {
  const Folder folder;
  const auto read = [&](const std::string& text) {
    tools::Draft draft = tools::import_accelerate(folder.write("default.yaml", text), {"model=llama3.1-8b"});
    draft.apply("model=llama3.1-8b");
    return draft;
  };
  const tools::Draft draft = read(kAccelerate);
  const workloads::Job job = recipe_job(draft);
  CHECK(job.machine.gpus == 16);
  CHECK(job.parallelism.data == 16);
  CHECK(job.parallelism.sharding == workloads::Sharding::parameters);
  CHECK(job.method.recompute == workloads::Recompute::full);
  CHECK(job.software.name == "accelerate-2026");
  CHECK(job.batch.global == 16);
  CHECK(remarks_on(draft.ignored(), "some_future_key: not known"));
  CHECK(recipe_job(read(with_changed(kAccelerate, "reshard_after_forward: true", "reshard_after_forward: false")))
            .parallelism.sharding == workloads::Sharding::gradients);
  const std::string zero = R"(distributed_type: DEEPSPEED
deepspeed_config: {zero_stage: 2, gradient_accumulation_steps: 4, offload_optimizer_device: cpu}
mixed_precision: fp16
num_processes: 8
)";
  CHECK(recipe_job(read(zero)).parallelism.sharding == workloads::Sharding::gradients);
  CHECK(recipe_job(read(zero)).batch.global == 4 * 8);
  CHECK(recipe_job(read(zero)).method.host_states == workloads::HostStates{1, false, false});
  const std::string both = with_changed(with_changed(zero, "zero_stage: 2", "zero_stage: 3"), "device: cpu}",
                                        "device: cpu, offload_param_device: cpu}");
  CHECK(recipe_job(read(both)).method.host_states == workloads::HostStates{1, true, false});
  try {
    read(with_changed(zero, "device: cpu}", "device: nvme}"));
    FAIL("takes NVMe");
  } catch (const sim::UserError& error) {
    CHECK(std::string(error.what()).find("got nvme, expected cpu or none") != std::string::npos);
  }
  // Accelerate recomputes nothing of FSDP's units unasked; of DeepSpeed's the training script decides.
  const tools::Draft unasked = read(with_changed(kAccelerate, "  fsdp_activation_checkpointing: true\n", ""));
  CHECK(recipe_job(unasked).method.recompute == workloads::Recompute::none);
  CHECK(remarks_on(unasked.assumed(), "recompute: none"));
  CHECK(remarks_on(read(zero).assumed(), "recompute: the default of the software"));
  const std::string megatron = R"(distributed_type: MEGATRON_LM
megatron_lm_config: {megatron_lm_tp_degree: 2, megatron_lm_pp_degree: 2, megatron_lm_num_micro_batches: 8}
mixed_precision: bf16
num_processes: 8
)";
  CHECK(recipe_job(read(megatron)).parallelism.pipeline == 2);
  CHECK(recipe_job(read(megatron)).parallelism.sequence_parallel);
  CHECK(recipe_job(read(megatron)).batch.global == 8 * 2);
  folder.write("zero3.json", R"({"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 2})");
  const std::string beside =
      "distributed_type: DEEPSPEED\nnum_processes: 8\n"
      "deepspeed_config: {deepspeed_config_file: zero3.json}\n";
  CHECK(recipe_job(read(beside)).parallelism.sharding == workloads::Sharding::parameters);
  for (const auto& wrong : std::vector<std::pair<std::string, std::string>>{
           {"a: 1\n", "distributed_type"},
           {with_changed(kAccelerate, "FSDP", "FSDDP"), "FSDP"},
           {with_changed(kAccelerate, "bf16\nnum", "int8\nnum"), "mixed_precision"},
           {with_changed(megatron, "num_processes: 8", "num_processes: 6"), "multiple of the 4 ranks"},
           {with_changed(kAccelerate, "version: 2", "version: two"), "fsdp_version"}})
    CHECK(refusal_of([&] { read(wrong.first); }).find(wrong.second) != std::string::npos);
  CHECK(tests::orrery({"import", "accelerate", folder.write("x.yaml", kAccelerate)}).err.find("--set model=NAME") !=
        std::string::npos);
}

TEST_CASE("what is no recipe is refused in a line, where it stands") {
  const auto message = [](const std::string& text) {
    return refusal_of([&] { tools::read_python_recipe(text, "recipe.py"); });
  };
  CHECK(message("x = 1\n").starts_with("recipe.py:1:1: recipe: is not there"));
  CHECK(message("x = (1,\n").starts_with("recipe.py:1:5:"));
  CHECK(message("x = 'abc\n").starts_with("recipe.py:1:5:"));
  CHECK(message("a = 1\n   b = 2\n c = 3\n").starts_with("recipe.py:3:2:"));
  CHECK(message("x = \"\"\"abc\n").starts_with("recipe.py:1:5:"));
  CHECK(message("x = )\n").starts_with("recipe.py:1:5:"));
  CHECK(message("x = 1 +\n").starts_with("recipe.py:1:8:"));
  CHECK(message("def f():\n    return f()\nf()\n").find("calls itself") != std::string::npos);
  CHECK(message(std::string(500, '(') + "\n").find("100") != std::string::npos);
  CHECK(message("x = " + std::string(500, '-') + "1\n").find("is not there") != std::string::npos);
  CHECK(message("x = 1 if $ else 2\n").find("expected Python") != std::string::npos);
  // Objects that hold themselves grow no further than a recipe does.
  std::string growing = "cfg = pretrain_config()\n";
  for (int i = 0; i < 40; ++i) growing += "cfg.a.x" + std::to_string(i) + " = cfg.a\ncfg.y = cfg\n";
  CHECK(message(growing).size() < 400);
}

TEST_CASE("names of theirs lead to models that ship") {
  CHECK(tools::model_of_recipe("llama31_405b") == "llama3.1-405b");
  CHECK(tools::model_of_recipe("meta-llama/Meta-Llama-3.1-405B") == "llama3.1-405b");
  CHECK(tools::model_of_recipe("Llama31Config405B") == "llama3.1-405b");
  CHECK(tools::model_of_recipe("llama3_8b_64k") == "llama3-8b");
  CHECK(tools::model_of_recipe("deepseek_v4_flash") == "deepseek-v4-flash");
  CHECK(tools::model_of_recipe("deepseek-ai/DeepSeek-V4-Pro-Base") == "deepseek-v4-pro");
  CHECK(tools::model_of_recipe("Qwen/Qwen3-30B-A3B") == "qwen3-30b-a3b");
  CHECK(tools::model_of_recipe("Mistral-9B").empty());
  CHECK(tools::model_of_recipe("").empty());
  for (const std::string& name : tools::recipe_names()) {
    const std::string model = tools::model_of_recipe(name);
    REQUIRE_FALSE(model.empty());
    // Each fits together: heads, layers and experts go by the ranks that the recipe has.
    const tools::RecipeLayout& layout = *tools::layout_of_recipe(name);
    const tests::Folder folder;
    const std::string file =
        folder.write("user.py", "recipe = llm." + name + ".pretrain_recipe(num_gpus_per_node=8)\n");
    const std::int64_t replica = layout.tensor * layout.pipeline * layout.context;
    const std::int64_t gpus = std::max<std::int64_t>({8, replica, layout.expert * layout.tensor * layout.pipeline});
    CHECK(refusal_of([&] { recipe_job(tools::import_nemo_recipe(file, gpus, "")); }) == "");
  }
}
