// The files of others that become scenarios, fabrics and nodes. What is imported is YAML that is read again.
#include "scenarios/scenario.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/target.h"
#include "tools/import/batch_lines.h"
#include "tools/import/import.h"
#include "tools/import/nccl_tests.h"
#include "tools/import/python_recipe.h"
#include "tools/import/wires.h"

namespace orrery::fuzz {

namespace {

void check_draft(const tools::Draft& draft) {
  sim::Settings again;
  try {
    again = scenarios::parse_yaml(draft.yaml(), "imported");
  } catch (const sim::UserError& error) {
    throw Finding(std::string("an import that is no YAML: ") + error.what());
  }
  scenarios::load_scenario(again);
}

void read_hf(const std::string& text) { check_draft(tools::import_hf(memory_file().with(text))); }
void read_nemo(const std::string& text) { check_draft(tools::import_nemo(memory_file().with(text))); }
void read_megatron(const std::string& text) {
  check_draft(tools::import_megatron(tools::read_launch_line(text, "in")));
}
void read_batch_lines(const std::string& text) {
  for (const auto& [name, value] : tools::batch_variables(text))
    expect(!name.empty() && value.find('\n') == std::string::npos, "a variable that is none");
}
void read_torchtitan(const std::string& text) { check_draft(tools::import_torchtitan(memory_file().with(text), 64)); }
void read_toml(const std::string& text) { tools::read_toml(memory_file().with(text)); }
void read_deepspeed(const std::string& text) {
  tools::Draft draft = tools::import_deepspeed(memory_file().with(text), 16, {"model=llama2-7b"});
  draft.apply("model=llama2-7b");
  check_draft(draft);
}
void read_nemo_recipe(const std::string& text) {
  check_draft(tools::import_nemo_recipe(memory_file().with(text), 0, ""));
}
void read_bridge_recipe(const std::string& text) {
  tools::PythonRecipe recipe = tools::read_python_recipe(text, "input");
  expect(recipe.recipe.is_mapping(), "a recipe that is no object");
  check_draft(tools::import_bridge(memory_file().with(text), 64, "", {}));
}
void read_accelerate(const std::string& text) {
  tools::Draft draft = tools::import_accelerate(memory_file().with(text), {"model=llama2-7b"});
  draft.apply("model=llama2-7b");
  check_draft(draft);
}
void read_mllog(const std::string& text) { check_draft(tools::import_mllog(memory_file().with(text))); }

void check_wires(const tools::Wires& wires) {
  for (const auto& [pair, cable] : wires.links) expect(cable.lanes >= 0, "a cable of less than no lanes");
}
void read_ibnetdiscover(const std::string& text) { check_wires(tools::read_ibnetdiscover(text, "input")); }
void read_slurm(const std::string& text) { check_wires(tools::read_slurm_topology(text, "input", {})); }
void read_edges(const std::string& text) { check_wires(tools::read_edge_table(text, "input")); }
void read_nccl(const std::string& text) {
  for (const tools::NcclTestsRow& row : tools::read_nccl_tests(text, "input").rows)
    expect(row.bytes >= 1 && row.seconds > 0, "a row without bytes or time");
}
void read_hosts(const std::string& text) {
  expect(tools::expand_hosts(text, {"input", 1, 1}).size() < 10'000'000, "hosts without end");
}
/// Whichever form it is, through to the fabric or the node that it says.
void read_topology(const std::string& text) { tools::import_topology(memory_file().with(text), {}); }

std::vector<std::string> hf_seeds() {
  return {
      R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
 "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
 "rope_theta": 500000.0, "torch_dtype": "bfloat16", "tie_word_embeddings": false})",
      R"({"model_type": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25, "n_positions": 1024,
 "vocab_size": 50257})",
      R"({"model_type": "gpt_neox", "num_hidden_layers": 44, "hidden_size": 6144, "num_attention_heads": 64,
 "intermediate_size": 24576, "vocab_size": 50432, "max_position_embeddings": 2048, "use_parallel_residual": true})",
      R"({"model_type": "falcon", "num_hidden_layers": 60, "hidden_size": 8192, "num_attention_heads": 128,
 "num_kv_heads": 8, "new_decoder_architecture": true, "vocab_size": 65024, "max_position_embeddings": 2048})",
      R"({"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
 "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
 "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1, "q_lora_rank": 1536,
 "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
 "max_position_embeddings": 4096, "num_nextn_predict_layers": 1})",
      R"({"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32,
 "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "intermediate_size": 6144,
 "moe_intermediate_size": 768, "vocab_size": 151936, "max_position_embeddings": 40960})",
      R"({"model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880, "num_attention_heads": 64,
 "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128,
 "intermediate_size": 2880, "vocab_size": 201088, "max_position_embeddings": 131072})",
      R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text", "num_hidden_layers": 48,
 "hidden_size": 5120,
 "num_attention_heads": 40, "num_key_value_heads": 8, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
 "vocab_size": 202048, "max_position_embeddings": 8192, "num_local_experts": 16, "num_experts_per_tok": 1}})"};
}
std::vector<std::string> nemo_seeds() {
  return {R"(name: megatron_gpt_5b
trainer: {devices: 8, num_nodes: 16, precision: bf16, max_steps: 105000}
model:
  mcore_gpt: true
  micro_batch_size: 4
  global_batch_size: 2048
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 1
  virtual_pipeline_model_parallel_size: null
  sequence_parallel: false
  encoder_seq_length: 2048
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 24
  hidden_size: 4096
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 32
  transformer_engine: true
  fp8: true
  activations_checkpoint_granularity: selective
  optim: {name: distributed_fused_adam, lr: 1.6e-4}
  tokenizer: {vocab_size: 51200}
)"};
}
std::vector<std::string> megatron_seeds() {
  return {R"(#!/bin/bash
#SBATCH --nodes=16 --gpus-per-node=8
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-16}
WORLD=$((GPUS_PER_NODE * NNODES))
MODEL_ARGS=(--num-layers 48 --hidden-size 8192 --num-attention-heads 64 --seq-length 2048 --vocab-size 51200)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py ${MODEL_ARGS[@]} \
  --tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 --sequence-parallel \
  --micro-batch-size 2 --global-batch-size 512 --bf16 --use-distributed-optimizer --lr 1.0e-4
)",
          "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --bf16 --num-experts 8 "
          "--moe-router-topk 2 --expert-model-parallel-size 4 --recompute-granularity full --fp8-format hybrid\n"};
}
std::vector<std::string> batch_seeds() {
  return {
      "#!/bin/bash\n#SBATCH -N 4 --gpus-per-node=h100:8 # comment\n#SBATCH --gres=gpu:a100:4\n"
      "#SBATCH --ntasks-per-node=8\n\n# words\n#SBATCH --nodes 3\nsrun x\n#SBATCH -N 2\n"};
}
std::vector<std::string> torchtitan_seeds() {
  return {R"([job]
dump_folder = "./outputs"
[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[optimizer]
name = "AdamW"
[training]
local_batch_size = 2
seq_len = 8192
compile = true
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = -1
tensor_parallel_degree = 4
pipeline_parallel_degree = 1
[activation_checkpoint]
mode = "full"
[float8]
recipe_name = "rowwise"
)"};
}
std::vector<std::string> toml_seeds() {
  std::vector<std::string> seeds = torchtitan_seeds();
  seeds.emplace_back(
      "a.b = 1\n'c d' = '''x\ny'''\ne = [1, 2.5, {f = true}]\n[[g]]\nh = 1979-05-27T07:32:00Z\n[[g]]\ni = +inf\n"
      "j = 0xff_ff\nk = \"\\u00e9\\t\"\nl = 07:32:00\n[m.n.\"o.p\"]\nq = nan\n");
  return seeds;
}
std::vector<std::string> deepspeed_seeds() {
  return {R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8, "bf16": {"enabled": true},
          "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 5e8,
                                "offload_optimizer": {"device": "cpu"}}, "steps_per_print": 10})",
          R"({"train_batch_size": 512, "train_micro_batch_size_per_gpu": "auto", "fp16": {"enabled": "auto"},
          "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto", "zero_hpz_partition_size": 8}})"};
}
std::vector<std::string> nemo_recipe_seeds() {
  return {R"(from nemo.collections import llm
def configure(nodes: int = 2, gpus_per_node=8):
    recipe = llm.llama3_8b.pretrain_recipe(dir="x", num_nodes=nodes, num_gpus_per_node=gpus_per_node)
    recipe.trainer.strategy.tensor_model_parallel_size = 2 * 4 // 2
    recipe.trainer.plugins = bf16_with_fp8_mixed()
    recipe.trainer.callbacks.append(run.Config(MegatronCommOverlapCallback, tp_comm_overlap=True))
    recipe.model.config.recompute_modules = ["mlp", 'core_attn']
    if recipe.trainer.max_steps is None or nodes > 1 and not False:
        recipe.trainer.max_steps = 50
    return recipe
if __name__ == "__main__":
    run.run(configure(), executor=run.LocalExecutor())
)",
          R"(
def model():
    return run.Config(GPTModel, config=run.Config(GPTConfig, num_layers=24, hidden_size=2048, num_attention_heads=16))
def pretrain_recipe(seq=2_048, fn=pretrain):
    """Text."""
    return run.Partial(fn, model=model(), data=run.Config(Mock, seq_length=seq, global_batch_size=64),
                       trainer=run.Config(nl.Trainer, num_nodes=2, devices=8, strategy=run.Config(
                           nl.MegatronStrategy, tensor_model_parallel_size=2, ddp=run.Config(D, a=[1, (2, 3.5e3)]))))
)",
          "nemo llm pretrain --factory 'llama3_8b(num_nodes=2)' trainer.max_steps=10\n"};
}
std::vector<std::string> bridge_recipe_seeds() {
  return {R"(SEQ = 4096
def qwen3_8b_pretrain_config() -> ConfigContainer:
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("Qwen/Qwen3-8B").to_megatron_provider(load_weights=False)
    cfg.model.tensor_model_parallel_size = 4 if SEQ >= 4096 else 2
    cfg.dataset.seq_length = SEQ
    cfg.mixed_precision = "bf16_with_mxfp8_mixed"
    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)
    return cfg
)",
          "cfg = replace(llama3_70b_pretrain_config(), peft=LoRA(dim=8))\ncfg.model.moe_layer_freq = [0, 1]\n"};
}
std::vector<std::string> accelerate_seeds() {
  return {
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\n"
      "fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true, fsdp_activation_checkpointing: 'yes'}\n"
      "parallelism_config: {parallelism_config_tp_size: 2, parallelism_config_cp_size: 2}\n",
      "distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: 'no'\n"
      "deepspeed_config: {zero_stage: 3, gradient_accumulation_steps: 4, offload_param_device: cpu}\n",
      "distributed_type: MEGATRON_LM\nnum_processes: 8\n"
      "megatron_lm_config: {megatron_lm_tp_degree: 2, megatron_lm_pp_degree: 2, megatron_lm_num_micro_batches: 8}\n"};
}
std::vector<std::string> mllog_seeds() {
  std::string log = "0: some other line\n";
  const auto add = [&](const char* time, const char* key, const char* value, const char* metadata) {
    log += std::string(":::MLLOG {\"namespace\": \"\", \"time_ms\": ") + time +
           ", \"event_type\": \"POINT_IN_TIME\", \"key\": \"" + key + "\", \"value\": " + value +
           ", \"metadata\": " + metadata + "}\n";
  };
  add("1000", "submission_benchmark", "\"llama31_8b\"", "{}");
  add("1000", "submission_org", "\"NVIDIA\"", "{}");
  add("1000", "submission_platform", "\"4xNVIDIA DGX H100\"", "{}");
  add("1000", "global_batch_size", "64", "{}");
  add("1000", "max_sequence_length", "8192", "{}");
  add("10000", "block_start", "null", "{\"samples_count\": 0}");
  add("30000", "block_stop", "null", "{\"samples_count\": 640}");
  add("30000", "block_start", "null", "{\"samples_count\": 640}");
  add("40000", "block_stop", "null", "{\"samples_count\": 1280}");
  add("41000", "run_stop", "null", "{\"status\": \"success\"}");
  return {log};
}
constexpr const char* kIb =
    "# Topology file: generated on ...\nvendid=0x2c9\n"
    "Switch\t40 \"S-leaf0\"\t\t# \"MF0;leaf0:MQM8700/U1\" enhanced port 0 lid 3 lmc 0\n"
    "[1]\t\"H-000\"[1](a0) \t\t# \"node0 mlx5_0\" lid 5 4xHDR\n[2]\t\"H-001\"[1](a0) \t\t# \"node0 mlx5_1\" lid 5 "
    "4xHDR\n"
    "[30]\t\"S-spine\"[1]\t\t# \"MF0;spine:MQM8700/U1\" lid 2 4xHDR\n\n"
    "Switch\t40 \"S-leaf1\"\t\t# \"MF0;leaf1:MQM8700/U1\" enhanced port 0 lid 4 lmc 0\n"
    "[1]\t\"H-100\"[1](a2) \t\t# \"node2 mlx5_0\" lid 5 4xHDR\n[2]\t\"H-101\"[1](a2) \t\t# \"node2 mlx5_1\" lid 5 "
    "4xHDR\n"
    "[30]\t\"S-spine\"[2]\t\t# \"MF0;spine:MQM8700/U1\" lid 2 4xHDR\n\n"
    "Switch\t40 \"S-spine\"\t\t# \"MF0;spine:MQM8700/U1\" enhanced port 0 lid 2 lmc 0\n"
    "[1]\t\"S-leaf0\"[30]\t\t# \"MF0;leaf0:MQM8700/U1\" lid 3 4xHDR\n"
    "[2]\t\"S-leaf1\"[30]\t\t# \"MF0;leaf1:MQM8700/U1\" lid 3 4xHDR\n\n"
    "Ca\t1 \"H-000\"\t\t# \"node0 mlx5_0\"\n[1](a0) \t\"S-leaf0\"[1]\t\t# lid 5 lmc 0 \"MF0\" lid 3 4xHDR\n";
constexpr const char* kSlurm =
    "# comment\nSwitchName=s0 Nodes=tux[00-03]\nSwitchName=s1 Nodes=tux[04-05,07]\nSwitchName=top Switches=s[0-1]\n";
constexpr const char* kBlocks = "BlockName=b1 Nodes=a[0-17]\nBlockName=b2 Nodes=a[18-35]\nBlockSizes=18,36\n";
constexpr const char* kEdges =
    "a,b,rate,lanes,kind\nn0,s0,400 Gb/s,8,nic\nn1,s1,400 Gb/s,8,nic\ns0,s1,800 Gb/s,4,link\n";

std::vector<std::string> ib_seeds() { return {kIb}; }
std::vector<std::string> slurm_seeds() { return {kSlurm, kBlocks}; }
std::vector<std::string> edge_seeds() { return {kEdges}; }
std::vector<std::string> nccl_seeds() {
  return {
      "# Collective test starting: all_reduce_perf\n#  Rank  0 Group  0 Pid 20 on n1 device  0 [0009:01:00] H100\n"
      "  8000000  2000000  float  sum  -1  100.0  80.00  80.00  0  101.0  79.21  79.21  N/A\n",
      "  8000000  2000000  half  100.0  80.00  80.00  101.0  79.21  79.21\n"};
}
std::vector<std::string> host_seeds() { return {"tux[0-3,07-09],login", "a[0-1]b[8-9],c", "n[000-127]"}; }
std::vector<std::string> topology_seeds() {
  return {kIb,
          kSlurm,
          kBlocks,
          kEdges,
          "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\x1b[0m\nGPU0\t X \tNV1\tNV2\tPXB\t0-31\n"
          "GPU1\tNV1\t X \tSYS\tPXB\t0-31\nGPU2\tNV2\tSYS\t X \tSYS\t32-63\nNIC0\tPXB\tPXB\tSYS\t X \n",
          "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n",
          "======= ROCm System Management Interface =======\n===== Link Type between two GPUs =====\n"
          "       GPU0         GPU1         \nGPU0   0            XGMI         \nGPU1   XGMI         0            \n"};
}

}  // namespace

std::vector<Target> import_targets() {
  return {{"hf", "config.json of Hugging Face", read_hf, hf_seeds},
          {"nemo", "a configuration of NeMo", read_nemo, nemo_seeds},
          {"megatron", "a launch script of Megatron-LM", read_megatron, megatron_seeds},
          {"batch-lines", "the #SBATCH lines of a script", read_batch_lines, batch_seeds},
          {"torchtitan", "a configuration of TorchTitan", read_torchtitan, torchtitan_seeds},
          {"toml", "any TOML", read_toml, toml_seeds},
          {"deepspeed", "a configuration of DeepSpeed", read_deepspeed, deepspeed_seeds},
          {"nemo-recipe", "a recipe of NeMo 2", read_nemo_recipe, nemo_recipe_seeds},
          {"bridge", "a recipe of Megatron-Bridge", read_bridge_recipe, bridge_recipe_seeds},
          {"accelerate", "a configuration of Accelerate", read_accelerate, accelerate_seeds},
          {"mllog", "a result log of MLPerf", read_mllog, mllog_seeds},
          {"ibnetdiscover", "what ibnetdiscover prints", read_ibnetdiscover, ib_seeds},
          {"slurm", "Slurm's topology.conf", read_slurm, slurm_seeds},
          {"edges", "a table of cables", read_edges, edge_seeds},
          {"nccl-tests", "what nccl-tests prints", read_nccl, nccl_seeds},
          {"hosts", "a list of hosts", read_hosts, host_seeds},
          {"topology", "any of these, or a node's matrix, to the document", read_topology, topology_seeds}};
}

}  // namespace orrery::fuzz
