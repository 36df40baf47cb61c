// Do configurations of encoders and decoders, and of models with inputs of every layer's own, become the models that
// were published? Parameters are what cards, papers and checkpoints state; FLOPs of T5's training what Brown et al.
// (arXiv 2005.14165, table D.1) state of it.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/tools/imported_models.h"
#include "tools/import/import.h"
#include "workloads/model/model.h"
#include "workloads/model/token_flops.h"
#include "workloads/step/step.h"

using namespace orrery;
using tests::check_config_refused;
using tests::Folder;
using tests::job_of_config;
using workloads::Model;

namespace {

std::string t5(const char* sizes) {
  return fmt::format(R"({{"model_type": "t5", "vocab_size": 32128, "n_positions": 512,
      "relative_attention_num_buckets": 32, "is_encoder_decoder": true, {}}})",
                     sizes);
}
const std::string kT5[]{
    t5(R"("d_model": 768, "d_ff": 3072, "d_kv": 64, "num_heads": 12, "num_layers": 12)"),
    t5(R"("d_model": 1024, "d_ff": 16384, "d_kv": 128, "num_heads": 32, "num_layers": 24)"),
    t5(R"("d_model": 1024, "d_ff": 65536, "d_kv": 128, "num_heads": 128, "num_layers": 24)"),
};
const std::string kFlanXxl = t5(
    R"("d_model": 4096, "d_ff": 10240, "d_kv": 64, "num_heads": 64, "num_layers": 24, "num_decoder_layers": 24,
       "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false)");
const std::string kBertLarge = R"({"model_type": "bert", "hidden_size": 1024, "intermediate_size": 4096,
    "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 30522, "max_position_embeddings": 512,
    "type_vocab_size": 2, "hidden_act": "gelu"})";

/// Five, or four, layers of windows ahead of one that sees all.
std::string types_of(int windows, int turns) {
  std::string text;
  for (int i = 0; i < turns; ++i) {
    for (int k = 0; k < windows; ++k) text += "\"sliding_attention\", ";
    text += fmt::format("\"full_attention\"{}", i + 1 < turns ? ", " : "");
  }
  return text;
}
const std::string kGemma4E2b =
    R"({"model_type": "gemma4_text", "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 35,
        "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512,
        "attention_k_eq_v": false, "enable_moe_block": false, "sliding_window": 512, "vocab_size": 262144,
        "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256, "num_kv_shared_layers": 20,
        "use_double_wide_mlp": true, "max_position_embeddings": 131072, "tie_word_embeddings": true,
        "layer_types": [)" +
    types_of(4, 7) + "]}";
const std::string kGemma4E4b =
    R"({"model_type": "gemma4_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 42,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "global_head_dim": 512,
        "attention_k_eq_v": false, "enable_moe_block": false, "sliding_window": 512, "vocab_size": 262144,
        "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256, "num_kv_shared_layers": 18,
        "use_double_wide_mlp": false, "max_position_embeddings": 131072, "tie_word_embeddings": true,
        "layer_types": [)" +
    types_of(5, 7) + "]}";
std::string gemma3n(int hidden, int inside, int layers, int shared) {
  return fmt::format(R"({{"model_type": "gemma3n_text", "hidden_size": {0}, "intermediate_size": {1},
      "num_hidden_layers": {2}, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
      "sliding_window": 512, "vocab_size": 262400, "vocab_size_per_layer_input": 262144,
      "hidden_size_per_layer_input": 256, "num_kv_shared_layers": {3}, "laurel_rank": 64, "altup_num_inputs": 4,
      "max_position_embeddings": 32768, "layer_types": [{4}]}})",
                     hidden, inside, layers, shared, types_of(4, layers / 5));
}

}  // namespace

TEST_CASE("configurations of encoders and decoders become the models that were published") {
  const Folder folder;
  struct Stated {
    std::string config;
    double parameters;
  };
  // Of the checkpoints of t5-base, t5-3b and t5-11b, of google/flan-t5-xxl; of bert-large-uncased with its pooler.
  const Stated stated[]{{kT5[0], 222'903'552},
                        {kT5[1], 2'851'598'336},
                        {kT5[2], 11'307'321'344},
                        {kFlanXxl, 11'135'332'352},
                        {kBertLarge, 335'141'888}};
  for (const Stated& one : stated) {
    INFO(one.config);
    const workloads::Job job = job_of_config(folder, one.config, {"batch.micro=1", "batch.global=64"});
    CHECK(workloads::parameter_count(job.model) == Approx(one.parameters).epsilon(0.005));
    const workloads::Job cut = job_of_config(folder, one.config, {"parallelism={tensor: 4, sequence_parallel: true}"});
    CHECK(tests::contradiction(workloads::simulate_step(cut)) == "");
  }
}

TEST_CASE("T5's training computes what was published of it") {
  const Folder folder;
  // 1e12 tokens each, sources and targets together, of which each meets one of the two stacks.
  struct Stated {
    std::string config;
    double flops;
  };
  const Stated stated[]{{kT5[0], 6.60e20}, {kT5[1], 9.00e21}, {kT5[2], 3.30e22}};
  for (const Stated& one : stated) {
    INFO(one.config);
    const Model model = job_of_config(folder, one.config).model;
    // Without scores, which that count leaves out; T5-base is counted with its embedding of 11 %, which stands in for
    // the head's product: that one multiplies the targets' fifth of the tokens, not half of all.
    const double head =
        2 * static_cast<double>(model.vocab * model.hidden * model.target()) / static_cast<double>(model.seq);
    const double of_stacks = workloads::token_flops(model).linear - head;
    const double table = static_cast<double>(model.vocab * model.hidden);
    CHECK(3 * (of_stacks + table) * 1e12 == Approx(one.flops).epsilon(0.06));
  }
}

TEST_CASE("configurations with inputs of every layer's own become the models that were published") {
  const Folder folder;
  const auto table = [](const Model& model) {
    return static_cast<double>(model.layer_inputs.vocab * model.layer_inputs.width * model.layers);
  };
  // google/gemma-4-E2B: 5.1e9, of which 0.15e9 see and 0.3e9 hear, and 2.3e9 without that table; E4B: 8e9 and 4.5e9.
  const Model e2b = job_of_config(folder, kGemma4E2b).model, e4b = job_of_config(folder, kGemma4E4b).model;
  CHECK(workloads::parameter_count(e2b) == Approx(5.1e9 - 0.45e9).epsilon(0.01));
  CHECK(workloads::parameter_count(e2b) - table(e2b) == Approx(2.3e9).epsilon(0.02));
  CHECK(workloads::parameter_count(e4b) == Approx(8.0e9 - 0.45e9).epsilon(0.015));
  CHECK(workloads::parameter_count(e4b) - table(e4b) == Approx(4.5e9).epsilon(0.04));
  // The text of google/gemma-3n-E2B and E4B: 4.46e9 and 6.87e9 in their checkpoints, of which the weights of shared
  // layers' keys are never read: they are left out, and said.
  const Model n2b = job_of_config(folder, gemma3n(2048, 8192, 30, 10)).model,
              n4b = job_of_config(folder, gemma3n(2048, 16384, 35, 15)).model;
  const double unread = 2.0 * 2048 * 512;
  CHECK(workloads::parameter_count(n2b) == Approx(4.46e9 - 10 * unread).epsilon(0.003));
  CHECK(workloads::parameter_count(n4b) == Approx(6.87e9 - 15 * unread).epsilon(0.003));

  for (const std::string& config : {kGemma4E2b, kGemma4E4b, gemma3n(2048, 8192, 30, 10)}) {
    INFO(config);
    const workloads::Job job =
        job_of_config(folder, config, {"model.seq=4096", "parallelism={tensor: 1, sharding: parameters}"});
    CHECK(tests::contradiction(workloads::simulate_step(job)) == "");
  }
}

TEST_CASE("layers that make no keys are the last ones, by their kind of attention") {
  const Folder folder;
  const Model model = job_of_config(folder, kGemma4E2b).model;
  for (std::int64_t layer = 0; layer < 35; ++layer) {
    const Model::Block& block = model.pattern.at(layer);
    CHECK(block.attention.shares_keys == (layer >= 15));
    CHECK(block.attention.window == (layer % 5 == 4 ? 0 : 512));
    CHECK(block.mlp.hidden == (layer >= 15 ? 12288 : 6144));
    CHECK(block.behind.any());
  }
}

TEST_CASE("encoders, decoders and layers' inputs that contradict themselves are refused in one line") {
  check_config_refused(kT5[0], "_num_buckets\": 32", "_num_buckets\": 64", "expected 32");
  check_config_refused(kT5[0], "\"num_heads\": 12", "\"num_heads\": 0", "num_heads");
  check_config_refused(kT5[0], "\"d_ff\": 3072, ", "", "d_ff");
  check_config_refused(kGemma4E2b, "\"hidden_size_per_layer_input\": 256", "\"hidden_size_per_layer_input\": -1",
                       "hidden_size_per_layer_input");
  check_config_refused(gemma3n(2048, 8192, 30, 10), "\"intermediate_size\": 8192",
                       "\"intermediate_size\": [8192, 4096]", "expected one width");
}

namespace {
tools::Draft launched(const std::string& line) {
  return tools::import_megatron(tools::read_launch_line(line, "train.sh"));
}
workloads::Job job_of_launch(const std::string& line) {
  return scenarios::load_scenario(scenarios::parse_yaml(launched(line).yaml(), "imported.yaml")).job;
}
/// Matrices of a block: four products of attention, over heads of `wide` elements in all, and the MLP's two.
double block_matrices(double hidden, double wide, double ffn) { return 4 * hidden * wide + 2 * hidden * ffn; }
}  // namespace

TEST_CASE("launch lines of T5 and BERT become stacks of an encoder, and of a decoder that attends to it") {
  const std::string sizes =
      "--hidden-size 768 --num-attention-heads 12 --kv-channels 64 --ffn-hidden-size 3072 --vocab-size 29056 "
      "--micro-batch-size 64 --global-batch-size 512 --bf16 ";
  const std::string t5 = "torchrun --nproc_per_node 8 pretrain_t5.py " + sizes +
                         "--encoder-seq-length 512 --decoder-seq-length 128 --max-position-embeddings 512 ";
  const workloads::Job job = job_of_launch(t5 + "--encoder-num-layers 12 --decoder-num-layers 6");
  CHECK(job.model.seq == 512 + 128);
  CHECK(job.model.source == 512);
  CHECK(job.model.layers == 12 + 6);
  CHECK(job.model.positions == workloads::Positions::learned);
  // A decoder's block has attention twice. Norms and biases are under a thousandth of the matrices.
  const double of_encoder = 12 * block_matrices(768, 768, 3072),
               of_decoder = 6 * (block_matrices(768, 768, 3072) + 4 * 768.0 * 768),
               tables = 29056 * 768.0 + 640 * 768.0;  // tied
  CHECK(workloads::parameter_count(job.model) == Approx(of_encoder + of_decoder + tables).epsilon(0.002));
  // One number of layers is that of each stack (arguments.py).
  CHECK(job_of_launch(t5 + "--num-layers 12").model.layers == 24);

  const workloads::Job bert = job_of_launch("torchrun --nproc_per_node 8 pretrain_bert.py " + sizes +
                                            "--num-layers 24 --seq-length 512 --max-position-embeddings 512");
  CHECK(bert.model.source == 0);
  CHECK(bert.model.layers == 24);
  CHECK(workloads::parameter_count(bert.model) ==
        Approx(24 * block_matrices(768, 768, 3072) + 29056 * 768.0 + 512 * 768.0).epsilon(0.002));
  // Each token attends to all 512, and not to those ahead of it alone.
  CHECK(launched("torchrun pretrain_bert.py " + sizes + "--num-layers 24 --seq-length 512")
            .document()
            .find_path("model.mixers.B.kind")
            ->text() == "bidirectional");
}

TEST_CASE("letters of Pai-Megatron-Patch's Qwen3-Next are gated delta nets, gated attention and experts") {
  const std::string pattern =
      "M-M-M-*-M-M-M-*-M-M-M-*-M-M-M-*-M-M-M-*-M-M-M-*-M-M-M-*-M-M-M-*-M-M-M-*-M-M-M-*-M-M-M-*-M-M-M-*-";
  const workloads::Job job = job_of_launch(
      "torchrun --nproc_per_node 8 pretrain_qwen3_next.py --num-layers 96 --hidden-size 2048 --num-attention-heads 16 "
      "--group-query-attention --num-query-groups 2 --kv-channels 256 --ffn-hidden-size 5120 --num-experts 512 "
      "--moe-router-topk 10 --moe-ffn-hidden-size 512 --moe-shared-expert-intermediate-size 512 "
      "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1 --padded-vocab-size 151936 --seq-length 4096 "
      "--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope --qk-layernorm "
      "--untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 8 --bf16 "
      "--hybrid-override-pattern " +
      pattern);
  // The card of Qwen3-Next-80B-A3B: 80B parameters, of which 3B are active; the config's own count is 79.67e9.
  CHECK(workloads::parameter_count(job.model) == Approx(79.67e9).epsilon(0.002));
}
