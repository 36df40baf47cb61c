// Do imported models have the parameters that their authors state, and does every mistake in a file get one line? The
// configurations are written from published facts; each row names where its count stands.
#include "tools/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"
#include "workloads/step/step.h"

using namespace orrery;
using tests::check_refused;
using tests::Folder;
using tests::Outcome;

namespace {

std::string llama_json(const char* type, int layers, int hidden, int heads, int kv_heads, int ffn, int vocab, int seq,
                       const char* more = "") {
  return fmt::format(
      R"({{"model_type": "{}", "num_hidden_layers": {}, "hidden_size": {}, "num_attention_heads": {},
           "num_key_value_heads": {}, "intermediate_size": {}, "vocab_size": {}, "max_position_embeddings": {}{}}})",
      type, layers, hidden, heads, kv_heads, ffn, vocab, seq, more);
}

struct Row {
  std::string name;
  double parameters;
  std::string config;
};

/// Counts: Llama 2 (arXiv 2307.09288) and 3 (arXiv 2407.21783), Mistral 7B (arXiv 2310.06825), Qwen's and Falcon's
/// model cards and the sizes of their checkpoints, GPT-2's repository, GPT-NeoX-20B (arXiv 2204.06745, table of its
/// card), Pythia (arXiv 2304.01373, table of its cards). Sizes of checkpoints are total_size / 2 of their index files.
std::vector<Row> published_models() {
  const char* const untied = R"(, "tie_word_embeddings": false)";
  static constexpr char neox[] = R"({{"model_type": "gpt_neox", "num_hidden_layers": {}, "hidden_size": {},
      "num_attention_heads": {}, "intermediate_size": {}, "vocab_size": {}, "max_position_embeddings": 2048,
      "use_parallel_residual": true, "tie_word_embeddings": false}})";
  return {
      {"Llama-2-7B", 6'738'415'616, llama_json("llama", 32, 4096, 32, 32, 11008, 32000, 4096)},
      {"Llama-2-13B", 13'015'864'320, llama_json("llama", 40, 5120, 40, 40, 13824, 32000, 4096)},
      {"Llama-2-70B", 68'976'648'192, llama_json("llama", 80, 8192, 64, 8, 28672, 32000, 4096)},
      {"Llama-3-8B", 8'030'261'248, llama_json("llama", 32, 4096, 32, 8, 14336, 128256, 8192)},
      {"Llama-3-70B", 70'553'706'496, llama_json("llama", 80, 8192, 64, 8, 28672, 128256, 8192)},
      {"Llama-3.1-405B", 405e9, llama_json("llama", 126, 16384, 128, 8, 53248, 128256, 131072)},
      {"Mistral-7B", 7'241'732'096, llama_json("mistral", 32, 4096, 32, 8, 14336, 32000, 32768)},
      {"Qwen2.5-7B", 7.61e9, llama_json("qwen2", 28, 3584, 28, 4, 18944, 152064, 131072, untied)},
      {"Qwen2.5-72B", 72.7e9, llama_json("qwen2", 80, 8192, 64, 8, 29568, 152064, 131072, untied)},
      {"Qwen3-32B", 32.8e9,  // heads of 128: 64 of them are wider than hidden
       llama_json("qwen3", 64, 5120, 64, 8, 25600, 151936, 40960,
                  R"(, "head_dim": 128, "tie_word_embeddings": false)")},
      {"Mixtral-8x7B", 46'702'792'704,
       llama_json("mixtral", 32, 4096, 32, 8, 14336, 32000, 32768,
                  R"(, "num_local_experts": 8, "num_experts_per_tok": 2)")},
      {"Qwen3-30B-A3B", 30'532'122'624,
       llama_json("qwen3_moe", 48, 2048, 32, 4, 6144, 151936, 40960,
                  R"(, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768)")},
      {"DeepSeek-V2-Lite", 15'706'484'224,
       llama_json("deepseek_v2", 27, 2048, 16, 16, 10944, 102400, 163840,
                  R"(, "n_routed_experts": 64, "num_experts_per_tok": 6, "moe_intermediate_size": 1408,
                     "n_shared_experts": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1, "q_lora_rank": null,
                     "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128)")},
      {"gpt-oss-120b", 116'829'156'672,
       llama_json("gpt_oss", 36, 2880, 64, 8, 2880, 201088, 131072,
                  R"(, "head_dim": 64, "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128,
                     "swiglu_limit": 7.0, "rope_scaling": {"rope_type": "yarn", "factor": 32.0})")},
      {"Llama-4-Maverick", 400'711'848'960,
       llama_json("llama4_text", 48, 5120, 40, 8, 8192, 202048, 1048576,
                  R"(, "head_dim": 128, "num_local_experts": 128, "num_experts_per_tok": 1,
                     "interleave_moe_layer_step": 2, "intermediate_size_mlp": 16384)")},
      {"GPT-2 XL", 1'557'611'200,
       R"({"model_type": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25, "n_positions": 1024,
           "vocab_size": 50257})"},
      {"GPT-NeoX-20B", 20'554'567'680, fmt::format(neox, 44, 6144, 64, 24576, 50432)},
      {"Pythia-12B", 11'846'072'320, fmt::format(neox, 36, 5120, 40, 20480, 50688)},
      {"Pythia-1.4B", 1'414'647'808, fmt::format(neox, 24, 2048, 16, 8192, 50304)},
      {"Falcon-7B", 7'217'189'760,
       R"({"model_type": "RefinedWebModel", "n_layer": 32, "hidden_size": 4544, "n_head": 71, "multi_query": true,
           "parallel_attn": true, "bias": false, "alibi": false, "vocab_size": 65024, "seq_length": 2048})"},
      {"Falcon-40B", 41'835'954'176,
       R"({"model_type": "falcon", "num_hidden_layers": 60, "hidden_size": 8192, "num_attention_heads": 128,
           "num_kv_heads": 8, "new_decoder_architecture": true, "bias": false, "vocab_size": 65024,
           "seq_length": 2048})"},
      {"Falcon-40B, as its file is", 41'835'954'176,
       R"({"model_type": "falcon", "num_hidden_layers": 60, "hidden_size": 8192, "num_attention_heads": 128,
           "num_kv_heads": 8, "new_decoder_architecture": true, "bias": false, "vocab_size": 65024})"},
      {"OPT-66B", 66e9,  // arXiv 2205.01068, table 1
       R"({"model_type": "opt", "num_hidden_layers": 64, "hidden_size": 9216, "num_attention_heads": 72,
           "ffn_dim": 36864, "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 9216,
           "activation_function": "relu"})"},
      {"OPT-1.3B", 1'315'758'080,
       R"({"model_type": "opt", "num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 32,
           "ffn_dim": 8192, "vocab_size": 50272, "max_position_embeddings": 2048})"},
      {"Gemma-2-9B", 9'241'705'984,
       llama_json("gemma2", 42, 3584, 16, 8, 14336, 256000, 8192, R"(, "sliding_window": 4096)")},
      {"Gemma-3-4B", 3'880'099'328,  // of 4.3 B, the vision tower and its projection taken off
       R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
           "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}, "vision_config": {}})"},
      {"Phi-3-mini", 3'821'079'552, llama_json("phi3", 32, 3072, 32, 32, 8192, 32064, 4096)},
      {"OLMo-2-13B", 13'716'198'400, llama_json("olmo2", 40, 5120, 40, 40, 13824, 100352, 4096)},
      {"Nemotron-4-15B", 15.7e9,  // arXiv 2402.16819, table 2: 3.2 B of embeddings, 12.5 B of others
       llama_json("nemotron", 32, 6144, 48, 8, 24576, 256000, 4096, R"(, "hidden_act": "relu2")")},
  };
}

double parameters_of(const tools::Draft& draft) {
  return workloads::parameter_count(scenarios::load_scenario(draft.document()).job.model);
}

workloads::Job megatron(const std::string& arguments, const std::vector<std::string>& sets = {}) {
  tools::Draft draft = tools::import_megatron(tools::read_launch_line(arguments, "launch.sh"));
  for (const std::string& set : sets) draft.apply(set);
  return scenarios::load_scenario(draft.document()).job;
}

const std::string kGpt3 =
    "--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048 "
    "--micro-batch-size 1 --global-batch-size 1536 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 "
    "--vocab-size 50257 --bf16 ";

}  // namespace

TEST_CASE("imported configurations have the parameters that their authors state") {
  const Folder folder;
  for (const Row& row : published_models()) {
    INFO(row.name);
    const double count = parameters_of(tools::import_hf(folder.write("config.json", row.config)));
    INFO(fmt::format("{:.0f} of {:.0f}", count, row.parameters));
    CHECK(std::abs(count / row.parameters - 1) < 0.005);
  }
}

TEST_CASE("a clamp ahead of the activation and YaRN's factor come from a model's configuration") {
  const Folder folder;
  for (const Row& row : published_models()) {
    if (row.name != "gpt-oss-120b") continue;
    const workloads::Model model =
        scenarios::load_scenario(tools::import_hf(folder.write("config.json", row.config)).document()).job.model;
    CHECK(model.experts.activation_clamp == 7);
    CHECK(std::abs(model.attention.rotary_factor - (0.1 * std::log(32.0) + 1)) <
          1e-4);  // arXiv 2309.00071, section 3.4
    return;
  }
  FAIL("no gpt-oss among the models");
}

TEST_CASE("groups of experts come from a model's configuration and from flags, where the choice heeds them") {
  const Folder folder;
  const auto choice = [&](const char* more) {
    const std::string config =
        llama_json("deepseek_v3", 61, 7168, 128, 128, 18432, 129280, 163840,
                   R"(, "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
                      "n_shared_experts": 1, "first_k_dense_replace": 3, "moe_layer_freq": 1, "q_lora_rank": 1536,
                      "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128)");
    const tools::Draft draft =
        tools::import_hf(folder.write("config.json", config.substr(0, config.size() - 1) + more + "}"));
    return scenarios::load_scenario(draft.document()).job.model.experts.choice();
  };
  const calibration::TokenChoice limited = {8, 256, 8, 4}, free = {8, 256, 1, 1};
  CHECK(choice(R"(, "n_group": 8, "topk_group": 4, "topk_method": "noaux_tc")") == limited);
  CHECK(choice(R"(, "n_group": 8, "topk_group": 4)") == limited);
  CHECK(choice(R"(, "n_group": 8, "topk_group": 4, "topk_method": "greedy")") == free);
  CHECK(choice(R"(, "n_group": 1, "topk_group": 1)") == free);
  CHECK(choice("") == free);

  const std::string flags =
      kGpt3 + "--sequence-parallel --num-experts 16 --moe-router-topk 4 --moe-router-num-groups 4 ";
  CHECK(megatron(flags + "--moe-router-group-topk 2").model.experts.choice() == calibration::TokenChoice{4, 16, 4, 2});
}

TEST_CASE("NeMo's block method recomputes some layers of each stage, uniform all") {
  const Folder folder;
  const auto layers = [&](const std::string& method) {
    const std::string file = folder.write("part.yaml", R"(trainer: {devices: 8, num_nodes: 1, precision: bf16}
model: {micro_batch_size: 1, global_batch_size: 8, encoder_seq_length: 2048, num_layers: 24, hidden_size: 2048,
        num_attention_heads: 16, activations_checkpoint_granularity: full, )" +
                                                           method + "}\n");
    const workloads::Job job = scenarios::load_scenario(tools::import_nemo(file).document()).job;
    REQUIRE(job.method.recompute == workloads::Recompute::full);
    return job.method.recomputed_layers;
  };
  CHECK(layers("activations_checkpoint_method: block, activations_checkpoint_num_layers: 2") == 2);
  CHECK(layers("activations_checkpoint_method: uniform, activations_checkpoint_num_layers: 2") == 0);
  CHECK(layers("activations_checkpoint_method: block") == 0);
}

TEST_CASE("layers with chunks of attention, as the lists and numbers of Llama 4 say them") {
  const Folder folder;
  const auto attention = [&](const std::string& more) {
    const std::string experts =
        R"(, "num_local_experts": 16, "num_experts_per_tok": 1, "attention_chunk_size": 4096)" + more;
    const std::string config = llama_json("llama4_text", 8, 5120, 40, 8, 8192, 202048, 1048576, experts.c_str());
    return scenarios::load_scenario(tools::import_hf(folder.write("config.json", config)).document())
        .job.model.attention;
  };
  const auto check = [&](const std::string& more, std::int64_t every) {
    INFO(more);
    const workloads::Model::Attention read = attention(more);
    CHECK(read.window == 4096);
    CHECK(read.window_every == every);
    CHECK(read.chunked);
  };
  check("", 4);  // of the class
  check(R"(, "no_rope_layers": [])", 4);
  check(R"(, "no_rope_layers": [], "no_rope_layer_interval": 2)", 2);
  check(R"(, "no_rope_layers": [1, 1, 0, 1, 1, 0, 1, 1], "no_rope_layer_interval": 4)", 3);
  check(R"(, "no_rope_layers": [1, 1, 1, 1, 1, 1, 1, 1])", 0);
  const std::string chunk = R"("chunked_attention")", full = R"("full_attention")";
  check(R"(, "layer_types": [)" + fmt::format("{0}, {1}, {0}, {1}, {0}, {1}, {0}, {1}", chunk, full) + "]", 2);
  CHECK(attention(R"(, "no_rope_layers": [0, 0, 0, 0, 0, 0, 0, 0])").window == 0);
  try {
    attention(R"(, "no_rope_layers": [1, 1, 0, 1, 0, 1, 1, 1])");
    FAIL("takes layers that are in no turn");
  } catch (const sim::UserError& error) {
    const std::string what = error.what();
    CHECK(what.find("config.json:") != std::string::npos);
    CHECK(what.find("got a list of layers that leaves chunks out of turn, expected of every 3") != std::string::npos);
  }
}

TEST_CASE("layers with experts, by the lists that Megatron-LM takes") {
  const std::string flags =
      "--num-layers 6 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --bf16 --micro-batch-size 1 "
      "--global-batch-size 8 --vocab-size 50257 --num-experts 8 --moe-layer-freq ";
  const auto dense = [&](const std::string& pattern) {
    return megatron(flags + "'" + pattern + "'").model.experts.dense_layers;
  };
  for (const char* two : {"([0]*2+[1]*4)", "[0]*2+[1]*4", "[0, 0, 1, 1, 1, 1]", "[0]+[0]+[1]*4", "[0]*2 + [1,1]*2"}) {
    INFO(two);
    CHECK(dense(two) == 2);
  }
  CHECK(dense("[1]*6") == 0);
  CHECK(megatron(flags + "'[0,1]*3'").model.experts.every == 2);
  const auto refused = [&](const std::string& pattern, const std::string& part) {
    check_refused(tests::orrery({"import", "megatron", flags + "'" + pattern + "'"}), {"--moe-layer-freq", part});
  };
  for (const char* not_modelled : {"[1]*2+[0]*4", "[0]*6", "[2]*6", "[0]*2-[1]*4", "[0]*2+", "[]", "["})
    refused(not_modelled, "expected a number, or dense layers ahead");
  refused("[0]*99999999999999999999+[1]*5", "expected a number");
  refused("[0]*2+[1]*5", "of 7 layers, expected the 6");
}

TEST_CASE("modules that Megatron-Core recomputes are those of the scenario") {
  const std::string selective = kGpt3 + "--recompute-granularity selective ";
  const auto parts = [&](const std::string& more) {
    const workloads::Job job = megatron(selective + more);
    REQUIRE(job.method.recompute == workloads::Recompute::selective);
    return job.method.recomputed;
  };
  CHECK(parts("") == workloads::RecomputedParts{});  // the core of attention
  workloads::RecomputedParts wanted;
  wanted.core_attention = false;
  wanted.norms = wanted.mlp = wanted.latent_up = true;
  CHECK(parts("--recompute-modules mlp layernorm mla_up_proj") == wanted);
  // One variable may hold several.
  CHECK(megatron("MODULES=\"mlp layernorm mla_up_proj\"\npython pretrain_gpt.py " + selective +
                 "--recompute-modules $MODULES")
            .method.recomputed == wanted);
  // What is not known takes none of the known ones along, and is named.
  const tools::Draft draft = tools::import_megatron(
      tools::read_launch_line(selective + "--recompute-modules mlp shared_experts --moe-enable-deepep " +
                                  "--num-experts 8 --moe-token-dispatcher-type flex",
                              "launch.sh"));
  CHECK(draft.document().find_path("recompute.modules")->items().size() == 1);
  const auto named = [&](const std::string& what) {
    return std::count_if(draft.ignored().begin(), draft.ignored().end(),
                         [&](const std::string& line) { return line.find(what) != std::string::npos; });
  };
  CHECK(named("--recompute-modules: shared_experts") == 1);
  CHECK(draft.document().find_path("experts.dispatcher")->text() == "deepep");
}

TEST_CASE("rows of a vocabulary are filled up as the launch says it, once") {
  const auto rows = [](const std::string& more) {
    const workloads::Job job = megatron(kGpt3 + more);
    return workloads::padded_vocab(job.model.vocab, job.parallelism.tensor, job.software.layers.head.pads_vocabulary);
  };
  const std::int64_t tensor = megatron(kGpt3).parallelism.tensor;
  const auto filled = [&](std::int64_t words, std::int64_t multiple) {
    while (words % (multiple * tensor) != 0) ++words;
    return words;
  };
  CHECK(rows("--vocab-size 50257") == filled(50257, 128));
  for (const std::int64_t multiple : {1, 100, 128, 256, 1187})
    CHECK(rows(fmt::format("--vocab-size 50257 --make-vocab-size-divisible-by {}", multiple)) ==
          filled(50257, multiple));
  CHECK(rows("--vocab-size 50304 --no-pad-vocab-size") == 50304);
  CHECK(rows("--padded-vocab-size 50272 --make-vocab-size-divisible-by 256") == 50272);
}

TEST_CASE("launch lines have the parameters that their authors state") {
  // GPT-3 175B: arXiv 2005.14165, table 2.1. The others: Narayanan et al. (arXiv 2104.04473), table 1, V = 51200.
  CHECK(std::abs(workloads::parameter_count(megatron(kGpt3).model) / 175.0e9 - 1) < 0.005);
  struct Line {
    int layers, hidden, heads;
    double billions;
  };
  for (const Line& line : {Line{24, 2304, 24, 1.7}, Line{36, 4096, 32, 7.5}, Line{48, 8192, 64, 39.1},
                           Line{80, 12288, 96, 145.6}, Line{105, 20480, 128, 529.6}, Line{128, 25600, 160, 1008.0}}) {
    INFO(line.billions);
    const std::string text = fmt::format(
        "pretrain_gpt.py --num-layers {} --hidden-size {} --num-attention-heads {} --seq-length 2048 "
        "--vocab-size 51200 --fp16",
        line.layers, line.hidden, line.heads);
    // Printed to a tenth of a billion, which is coarser than 0.5 % for the smallest.
    const double error = std::abs(workloads::parameter_count(megatron(text).model) - line.billions * 1e9);
    CHECK(error < std::max(0.005 * line.billions * 1e9, 0.05e9));
  }
}

TEST_CASE("a launch line runs the oldest generation that knows its flags, and the default one where none tells") {
  const std::string line =
      "pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 8 --seq-length 1024 "
      "--max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 8 --vocab-size 32000 ";
  const auto software = [&](const std::string& flags) {
    tools::Draft draft = tools::import_megatron(tools::read_launch_line(line + flags, "launch.sh"));
    const sim::Settings* named = draft.document().find("software");
    return named == nullptr ? std::string("default") : named->text();
  };
  CHECK(software("") == "default");
  CHECK(software("--optimizer-cpu-offload") == "megatron-core-0.12");
  CHECK(software("--optimizer-cpu-offload --moe-deepep-num-sms 20") == "megatron-core-0.13");
  CHECK(software("--use-megatron-fsdp --optimizer-cpu-offload") == "megatron-core-0.14");
  CHECK(software("--moe-permute-fusion --fp4-format e2m1") == "megatron-core-0.16");
}

TEST_CASE("a launch script: variables, arrays, sums, quotes, continued lines and comments") {
  const workloads::Job job = megatron(R"sh(#!/bin/bash
# Runs "175B" parameter model, --num-layers 1 of a comment is not read
GPUS_PER_NODE=8
NUM_NODES=16
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
HIDDEN=${HIDDEN:-12288}
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr $MASTER_ADDR
)
GPT_ARGS="
    --num-layers 96 --hidden-size $HIDDEN \
    --num-attention-heads 96 --seq-length 2048
    --position-embedding-type rope
"
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size $((2 * 48 * 16))  # sequences
    --train-iters 500000
    --bf16
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py $GPT_ARGS ${TRAINING_ARGS[@]} \
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --sequence-parallel \
    --num-layers-per-virtual-pipeline-stage 2 --recompute-granularity=full --recompute-method uniform \
    --use-distributed-optimizer --swiglu --ffn-hidden-size 32768 --group-query-attention --num-query-groups 8 \
    --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights \
    --fp8-format hybrid --eval-interval 1000 --eval-iters 10 --vocab-size 50257
)sh");
  CHECK(job.machine.gpus == 128);
  CHECK(job.machine.gpus_per_node == 8);
  CHECK(job.model.hidden == 12288);
  CHECK(job.model.attention.kv_heads == 8);
  CHECK(job.model.mlp.gated);
  CHECK(job.model.positions == workloads::Positions::rotary);
  CHECK(job.model.norm == workloads::Norm::rms_norm);
  CHECK(job.model.biases == workloads::Biases::none);
  CHECK_FALSE(job.model.tied_embeddings);
  CHECK(job.parallelism.virtual_pipeline == 3);  // 96 layers / 16 stages / 2
  CHECK(job.parallelism.sharding == workloads::Sharding::optimizer);
  CHECK(job.parallelism.sequence_parallel);
  CHECK(job.batch.global == 1536);
  CHECK(job.method.precision.matmul == workloads::DataType::fp8);
  CHECK(job.method.recompute == workloads::Recompute::full);
  CHECK(job.evaluation.sequences == 15360);
  CHECK(job.training.tokens == 500000.0 * 1536 * 2048);
}

TEST_CASE("a NeMo configuration, with its interpolations") {
  const Folder folder;
  // The published configuration of the 5B model of NeMo's launcher scripts, shortened.
  const std::string file = folder.write("gpt.yaml", R"(name: megatron_gpt_5b
trainer: {devices: 8, num_nodes: 16, precision: bf16, max_steps: 1000, val_check_interval: 50, limit_val_batches: 4}
model:
  micro_batch_size: 4
  global_batch_size: 2048
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 1
  virtual_pipeline_model_parallel_size: null
  encoder_seq_length: 2048
  max_position_embeddings: 2048
  num_layers: 24
  hidden_size: 4096
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 32
  kv_channels: null
  sequence_parallel: true
  share_embeddings_and_output_weights: True
  activations_checkpoint_granularity: selective
  fp8: false
  megatron_amp_O2: True
  optim: {name: distributed_fused_adam, lr: 1e-4, overlap_grad_sync: true}
  surprise: 3
)");
  const tools::Draft draft = tools::import_nemo(file);
  const workloads::Job job = scenarios::load_scenario(draft.document()).job;
  CHECK(job.machine.gpus == 128);
  CHECK(job.model.mlp.hidden == 16384);
  CHECK(std::abs(workloads::parameter_count(job.model) / 5e9 - 1) < 0.1);  // "5B", a name and not a count
  CHECK(job.parallelism.sequence_parallel);
  CHECK(job.parallelism.sharding == workloads::Sharding::optimizer);
  CHECK(job.overlap.gradients);
  CHECK_FALSE(job.overlap.parameters);
  CHECK(job.method.recompute == workloads::Recompute::selective);
  CHECK(job.method.precision.gradients == workloads::DataType::fp32);
  CHECK(job.evaluation.sequences == 4 * 2048);
  CHECK(std::any_of(draft.ignored().begin(), draft.ignored().end(),
                    [](const std::string& note) { return note == "model.surprise: not known to orrery"; }));
}

TEST_CASE("a written import runs as it is, and says what it left out") {
  const Folder folder;
  const std::string config = folder.write(
      "config.json", llama_json("llama", 4, 1024, 8, 8, 2816, 32000, 2048, R"(, "rope_theta": 10000.0, "wings": 2)"));
  const std::string out = folder.file("scenario.yaml");
  const Outcome outcome =
      tests::orrery({"import", "hf", config, "--out", out, "--set", "cluster.gpus=4", "--set", "batch.global=4"});
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.find("rope_theta: changes values, not work") != std::string::npos);
  CHECK(outcome.err.find("wings: not known to orrery") != std::string::npos);
  const std::string text = tests::read_file(out);
  CHECK(text.find("#   wings: not known to orrery") != std::string::npos);
  const Outcome quiet = tests::orrery({"import", "hf", config, "--quiet", "--set", "cluster.gpus=4"});
  CHECK(quiet.err.empty());
  CHECK(tests::orrery({"run", out}).status == 0);
  // The file means what the draft meant.
  const workloads::Job job = scenarios::load_scenario(scenarios::read_scenario(out)).job;
  CHECK(job.machine.gpus == 4);
  CHECK(job.model.mlp.hidden == 2816);
}

TEST_CASE("broken, unknown and contradictory input is refused in one line, and nothing is written") {
  const Folder folder;
  const std::string out = folder.file("out.yaml");
  const auto hf = [&](const std::string& text) {
    const Outcome outcome = tests::orrery({"import", "hf", folder.write("config.json", text), "--out", out});
    CHECK_FALSE(std::filesystem::exists(out));
    return outcome;
  };
  check_refused(hf("{\"model_type\": \"llama\",\n  \"hidden_size\": }"), {"config.json:2:18:", "JSON"});
  check_refused(hf(""), {"config.json:", "JSON"});
  check_refused(hf("[1, 2]"), {"config.json:1:1:", "config.json"});
  check_refused(hf(std::string(100'000, '[')), {"config.json:", "64 levels"});
  check_refused(hf(R"({"model_type": "lama"})"), {"config.json:1:2: model_type", "did you mean \"llama\"?"});
  check_refused(hf(R"({"model_type": "arctic", "num_experts": 8})"), {"model_type", "mixture of experts"});
  check_refused(hf(R"({"hidden_size": 4})"), {"model_type"});
  check_refused(hf("{\"model_type\": \"llama\"}"), {"num_hidden_layers"});
  check_refused(hf(llama_json("llama", 4, 1024, 8, 8, 2816, -5, 2048)), {"vocab_size", "-5"});
  check_refused(hf(llama_json("llama", 4, 1024, 8, 3, 2816, 32000, 2048)), {"config.json:2:", "kv_heads", "3"});
  check_refused(tests::orrery({"import", "hf", folder.file("none.json")}), {"none.json"});
  check_refused(tests::orrery({"import", "hf", folder.path().string()}), {"folder"});
  check_refused(tests::orrery({"import"}), {"orrery: "});
  check_refused(tests::orrery({"import", "hf", folder.write("c.json", llama_json("llama", 4, 1024, 8, 8, 2816, 100, 8)),
                               "--out", folder.file("no/such.yaml")}),
                {"no/such.yaml"});

  const auto launch = [&](const std::string& more) { return tests::orrery({"import", "megatron", kGpt3 + more}); };
  CHECK(launch("").status == 0);
  const std::string in_part =
      launch("--recompute-granularity full --recompute-method block --recompute-num-layers 3").out;
  CHECK(in_part.find("kind: full") != std::string::npos);
  CHECK(in_part.find("layers: 3") != std::string::npos);
  check_refused(launch("--fp16"), {"--bf16", "contradicts"});
  CHECK(launch("--micro-batch-size 2").out.find("of the same flag the last holds") != std::string::npos);
  check_refused(launch("--num-layers-per-virtual-pipeline-stage 5"),
                {"--num-layers-per-virtual-pipeline-stage", "5", "6"});
  check_refused(launch("--num-query-groups 8"), {"--num-query-groups", "--group-query-attention"});
  check_refused(launch("--recompute-granularity selective --recompute-method uniform"), {"--recompute-method"});
  check_refused(launch("--num-experts 8 --moe-enable-deepep"), {"--moe-enable-deepep", "got allgather", "flex"});
  check_refused(launch("--swiglu true"), {"--swiglu", "true"});
  check_refused(launch("--num-experts 8 --moe-router-topk 9"), {"top_k", "at most model.experts"});
  check_refused(launch("--num-experts 8 --moe-router-num-groups 3"), {"expert_groups", "3"});
  check_refused(launch("--num-experts 8 --moe-router-topk 4 --moe-router-num-groups 4 --moe-router-group-topk 1"),
                {"top_groups", "got 1 of 4"});
  check_refused(launch("--num-experts 8 --moe-layer-freq [1]*2+[0]*2"), {"--moe-layer-freq", "expected a number"});
  check_refused(launch("--cp-comm-type p2p --context-parallel-size $CP"), {"--context-parallel-size", "$CP"});
  check_refused(launch("--name 'open"), {"does not close"});
  check_refused(tests::orrery({"import", "megatron"}), {"megatron"});
  check_refused(tests::orrery({"import", "megatron", folder.write("empty.sh", "#!/bin/bash\n")}), {"--num-layers"});

  const auto nemo = [&](const std::string& text) {
    return tests::orrery({"import", "nemo", folder.write("nemo.yaml", text)});
  };
  check_refused(nemo("trainer: {devices: 8}\n"), {"nemo.yaml", "model"});
  check_refused(nemo("model: {num_layers: 2, hidden_size: 8, num_attention_heads: '${.num_attention_heads}'}\n"),
                {"nemo.yaml:1:", "itself"});
  std::string growing = "model:\n  num_layers: 2\n  a0: 1\n", doubling = "A=xxxxxxxx\n";
  for (int i = 1; i < 16; ++i) {
    growing += fmt::format("  a{0}: ${{multiply:${{.a{1}}},${{.a{1}}},${{.a{1}}},${{.a{1}}}}}\n", i, i - 1);
  }
  for (int i = 0; i < 60; ++i) doubling += "A=$A$A\n";
  check_refused(nemo(growing + "  hidden_size: ${.a15}\n  num_attention_heads: 1\n"), {"nemo.yaml:", "too many"});
  check_refused(tests::orrery({"import", "megatron", folder.write("doubling.sh", doubling)}),
                {"doubling.sh:", "65536"});
  check_refused(nemo("model: {num_layers: 2, hidden_size: ${a.b}, num_attention_heads: 2}\n"), {"nemo.yaml:1:"});
}

TEST_CASE("arguments may stand on the command line as they are") {
  const Outcome outcome =
      tests::orrery({"import", "megatron", "--num-layers", "8", "--hidden-size=1024", "--num-attention-heads", "8",
                     "--seq-length", "1024", "--bf16", "--no-such-flag", "--quiet"});
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK(outcome.err.empty());
  CHECK(outcome.out.find("layers: 8") != std::string::npos);
  CHECK(outcome.out.find("--no-such-flag: not known to orrery") != std::string::npos);
}

TEST_CASE("a batch that no source says follows the GPUs, is said, and gives way to one that is laid over it") {
  const tests::Folder folder;
  const std::string config = folder.write(
      "config.json", R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4,
                         "num_attention_heads": 8, "vocab_size": 32000, "max_position_embeddings": 2048})");
  struct Case {
    std::vector<std::string> more;
    const char* batch;  // in the file
    const char* said;   // with the remarks
  };
  const std::string fabric = "cluster.fabric=ndr-rail";
  for (const Case& c :
       {Case{{}, "global: 8\n", "batch.global: 8, one sequence for each GPU"},
        {{"--set", "cluster.gpus=64", "--set", fabric}, "global: 64\n", "batch.global: 64, one sequence"},
        {{"--gpus", "64", "--set", fabric}, "global: 64\n", "batch.global: 64, one sequence"},
        {{"--set", "batch.micro=2"}, "global: 16\n", "batch.global: 16, a micro-batch of 2"},
        {{"--set", "batch.global=8", "--set", "tp=4", "--set", "batch.micro=2"}, "global: 8\n", ""},
        {{"--set", "batch={global: 32, micro: 1}"}, "global: 32\n", ""}}) {
    std::vector<std::string> arguments{"import", config};
    arguments.insert(arguments.end(), c.more.begin(), c.more.end());
    const tests::Outcome outcome = tests::orrery(arguments);
    INFO(c.batch << outcome.err);
    REQUIRE(outcome.status == 0);
    CHECK(outcome.out.find(c.batch) != std::string::npos);
    CHECK((outcome.err.find("batch.global: ") == std::string::npos) == (*c.said == '\0'));
    CHECK(outcome.err.find(c.said) != std::string::npos);
    CHECK(outcome.out.find("gpus: ") != std::string::npos);
  }
  CHECK(tests::orrery({"import", config, "--gpus", "64", "--set", fabric}).out.find("gpus: 64\n") != std::string::npos);
}
