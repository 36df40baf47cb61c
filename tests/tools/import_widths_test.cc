// Do configurations whose layers differ in heads, widths and windows become the models that were published? Files hold
// what their public config.json say, but for what changes no work; parameters, and those that a token meets, are what
// model cards state, of the main model: layers that predict further tokens are looked at apart.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"
#include "workloads/model/model.h"
#include "workloads/step/step.h"

using namespace orrery;
using tests::Folder;

namespace {

workloads::Model model_of_config(const Folder& folder, const std::string& config) {
  const tools::Draft draft = tools::import_hf(folder.write("config.json", config));
  return scenarios::load_scenario(scenarios::parse_yaml(draft.yaml(), "imported.yaml")).job.model;
}

/// So many times the list, joined as JSON has it.
std::string listed(const std::vector<std::string>& once, int times) {
  std::vector<std::string> all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), once.begin(), once.end());
  return fmt::format("{}", fmt::join(all, ", "));
}

/// XiaomiMiMo/MiMo-V2-Flash.
std::string mimo_v2_flash() {
  const std::string turns =
      "0, " + listed({"1", "1", "1", "1", "0"}, 1) + ", " + listed({"1", "1", "1", "1", "1", "0"}, 7);
  return R"({"model_type": "mimo_v2_flash", "num_hidden_layers": 48, "hidden_size": 4096, "num_attention_heads": 64,
      "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "intermediate_size": 16384, "vocab_size": 152576,
      "max_position_embeddings": 262144, "sliding_window": 128, "swa_num_attention_heads": 64,
      "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128, "moe_intermediate_size": 2048,
      "n_routed_experts": 256, "n_shared_experts": null, "num_experts_per_tok": 8, "tie_word_embeddings": false,
      "add_swa_attention_sink_bias": true, "moe_layer_freq": [0, )" +
         listed({"1"}, 47) + R"(], "hybrid_layer_pattern": [)" + turns + "]}";
}

std::string gemma4(const std::string& sizes, int turns) {
  std::vector<std::string> types(5, "\"sliding_attention\"");
  types.emplace_back("\"full_attention\"");
  return R"({"model_type": "gemma4_text", "attention_k_eq_v": true, "head_dim": 256, "global_head_dim": 512,
      "sliding_window": 1024, "vocab_size": 262144, "max_position_embeddings": 262144, "tie_word_embeddings": true,
      "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, )" +
         sizes + R"(, "layer_types": [)" + listed(types, turns) + "]}";
}

/// nvidia/NVIDIA-Nemotron-3-Super-120B-A12B.
const char* const kNemotronSuper =
    R"({"model_type": "nemotron_h", "hidden_size": 4096, "intermediate_size": 2688, "num_hidden_layers": 88,
        "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 131072,
        "max_position_embeddings": 262144, "tie_word_embeddings": false, "mamba_num_heads": 128, "mamba_head_dim": 64,
        "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "chunk_size": 128, "n_routed_experts": 512,
        "num_experts_per_tok": 22, "moe_intermediate_size": 2688, "moe_latent_size": 1024, "n_shared_experts": 1,
        "moe_shared_expert_intermediate_size": 5376, "time_step_limit": [0.0, Infinity],
        "mtp_hybrid_override_pattern": "*E", "num_nextn_predict_layers": 1, "hybrid_override_pattern":
        "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"})";

}  // namespace

TEST_CASE("configurations with heads and widths by layer become the models that were published") {
  const Folder folder;
  struct Stated {
    std::string config;
    double parameters, active;  // in 1e9
    std::int64_t predicts;
  };
  const Stated stated[]{
      {mimo_v2_flash(), 309, 15.5, 0},  // "309B total, 15B active"; 15.5 with both embeddings
      {kNemotronSuper, 120.6, 12.7, 1},
      // google/gemma-4-31B: "30.7B"; google/gemma-4-26B-A4B: "25.2B total, 3.8B active".
      {gemma4(R"("hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 60, "num_attention_heads": 32,
                 "num_key_value_heads": 16, "num_global_key_value_heads": 4, "enable_moe_block": false)",
              10),
       30.7, 30.7, 0},
      {gemma4(R"("hidden_size": 2816, "intermediate_size": 2112, "num_hidden_layers": 30, "num_attention_heads": 16,
                 "num_key_value_heads": 8, "num_global_key_value_heads": 2, "enable_moe_block": true,
                 "num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704)",
              5),
       25.2, 3.8, 0},
  };
  for (const Stated& one : stated) {
    INFO(one.config);
    workloads::Model model = model_of_config(folder, one.config);
    CHECK(model.experts.mtp_layers == one.predicts);
    model.experts.mtp_layers = 0;
    CHECK(workloads::parameter_count(model) == Approx(one.parameters * 1e9).epsilon(0.005));
    CHECK(workloads::active_parameter_count(model) == Approx(one.active * 1e9).epsilon(0.02));
  }
}

TEST_CASE("heads, windows and widths are those of each layer") {
  const Folder folder;
  const workloads::Model mimo = model_of_config(folder, mimo_v2_flash());
  using Channel = workloads::Model::Block::Channel;
  for (std::int64_t layer = 0; layer < 48; ++layer) {
    const workloads::Model::Block& block = mimo.pattern.at(layer);
    const bool all = layer == 0 || layer % 6 == 5;
    CHECK(block.attention.window == (all ? 0 : 128));
    CHECK(block.attention.kv_heads == (all ? 4 : 8));
    CHECK(block.attention.value_width == 128);
    CHECK((block.channel == Channel::mlp) == (layer == 0));
  }
  const workloads::Model super = model_of_config(folder, kNemotronSuper);
  CHECK(super.experts.latent == 1024);
  CHECK(super.pattern.at(88).attends);
  CHECK(super.pattern.at(88).channel == Channel::experts);

  // Layers found by a search: heads of keys and widths of their own, no attention, or nothing at all.
  const workloads::Model nas =
      model_of_config(folder, R"({"model_type": "nemotron-nas", "hidden_size": 1024, "num_attention_heads": 16,
      "num_hidden_layers": 4, "num_key_value_heads": null, "intermediate_size": null, "vocab_size": 32000,
      "max_position_embeddings": 8192, "tie_word_embeddings": false, "block_configs": [
      {"attention": {"n_heads_in_group": 8, "no_op": false, "replace_with_linear": false},
       "ffn": {"ffn_mult": 2.625, "no_op": false, "replace_with_linear": false}},
      {"attention": {"n_heads_in_group": null, "no_op": true}, "ffn": {"ffn_mult": 5.25, "no_op": false}},
      {"attention": {"n_heads_in_group": null, "no_op": true}, "ffn": {"ffn_mult": null, "no_op": true}},
      {"attention": {"n_heads_in_group": 4, "no_op": false}, "ffn": {"ffn_mult": null, "no_op": true}}]})");
  REQUIRE(nas.pattern.blocks.size() == 3);
  CHECK(nas.pattern.at(0).attention.kv_heads == 2);
  CHECK(nas.pattern.at(0).mlp.hidden == 1792);
  CHECK_FALSE(nas.pattern.at(1).attends);
  CHECK(nas.pattern.at(1).mlp.hidden == 3584);
  CHECK(nas.pattern.at(2).attention.kv_heads == 4);
  CHECK(nas.pattern.at(2).channel == Channel::none);
}

TEST_CASE("further families are read under their own names") {
  const Folder folder;
  struct Stated {
    const char* config;
    double parameters, active;  // in 1e9, as cards state them
  };
  const Stated stated[]{
      // databricks/dbrx-base: 132B, 36B.
      {R"({"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "max_seq_len": 32768,
           "vocab_size": 100352, "attn_config": {"kv_n_heads": 8, "clip_qkv": 8},
           "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}})",
       131.6, 36.5},
      // baidu/ERNIE-4.5-300B-A47B.
      {R"({"model_type": "ernie4_5_moe", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 54,
           "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 103424,
           "max_position_embeddings": 131072, "moe_num_experts": 64, "moe_k": 8, "moe_intermediate_size": 3584,
           "moe_num_shared_experts": 0, "moe_layer_start_index": 3, "moe_layer_interval": 1,
           "tie_word_embeddings": false})",
       300, 47},
      // rednote-hilab/dots.llm1: 142B, 14B.
      {R"({"model_type": "dots1", "hidden_size": 4096, "intermediate_size": 10944, "num_hidden_layers": 62,
           "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 152064,
           "max_position_embeddings": 32768, "n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6,
           "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "tie_word_embeddings": false})",
       142.8, 14},
      // Qwen/Qwen-72B: 72.3B.
      {R"({"model_type": "qwen", "hidden_size": 8192, "intermediate_size": 49152, "num_hidden_layers": 80,
           "num_attention_heads": 64, "kv_channels": 128, "vocab_size": 152064, "seq_length": 32768,
           "tie_word_embeddings": false})",
       72.3, 72.3},
      // THUDM/chatglm3-6b: 6.24B.
      {R"({"model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 28,
           "num_attention_heads": 32, "kv_channels": 128, "multi_query_attention": true, "multi_query_group_num": 2,
           "padded_vocab_size": 65024, "seq_length": 8192, "add_qkv_bias": true, "rmsnorm": true})",
       6.24, 6.24},
      // openbmb/MiniCPM3-4B: 4.07B.
      {R"({"model_type": "minicpm3", "hidden_size": 2560, "intermediate_size": 6400, "num_hidden_layers": 62,
           "num_attention_heads": 40, "num_key_value_heads": 40, "q_lora_rank": 768, "kv_lora_rank": 256,
           "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "vocab_size": 73448, "max_position_embeddings": 32768})",
       4.07, 4.07},
  };
  for (const Stated& one : stated) {
    INFO(one.config);
    const workloads::Model model = model_of_config(folder, one.config);
    CHECK(workloads::parameter_count(model) == Approx(one.parameters * 1e9).epsilon(0.005));
    CHECK(workloads::active_parameter_count(model) == Approx(one.active * 1e9).epsilon(0.03));
  }
}

TEST_CASE("the language model of a whole of several parts is read under any of its names") {
  const Folder folder;
  const std::string text = R"({"model_type": "qwen2", "hidden_size": 512, "intermediate_size": 1024,
      "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000,
      "max_position_embeddings": 2048, "tie_word_embeddings": false})";
  const workloads::Model alone = model_of_config(folder, text);
  for (const std::string& whole : {"{\"model_type\": \"a\", \"text_config\": " + text + "}",
                                   "{\"model_type\": \"a\", \"llm_config\": " + text + "}",
                                   "{\"model_type\": \"a\", \"thinker_config\": {\"text_config\": " + text + "}}"}) {
    INFO(whole);
    const workloads::Model part = model_of_config(folder, whole);
    CHECK(workloads::parameter_count(part) == workloads::parameter_count(alone));
    CHECK(part.seq == 2048);
  }
}
