// Do configurations of models whose blocks follow a pattern become the models that were published? Files hold what
// their public config.json say; parameters, and those that a token meets, are what model cards and reports state.
#include <fmt/format.h>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"
#include "workloads/model/model.h"

using namespace orrery;
using tests::Folder;

namespace {

struct Published {
  const char* config;
  double parameters, active;  // in 1e9; 0: a token meets all
  std::int64_t layers;
  const char* ships;  // the model of the project that it is, but for the length of its sequences
};

const Published kPublished[]{
    // nvidia/Nemotron-H-8B-Base-8K: 8.1e9.
    {R"({"model_type": "nemotron_h", "hidden_size": 4096, "intermediate_size": 21504, "num_hidden_layers": 52,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 131072,
         "max_position_embeddings": 8192, "tie_word_embeddings": false, "mamba_num_heads": 128, "mamba_head_dim": 64,
         "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "chunk_size": 128, "mlp_hidden_act": "relu2",
         "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"})",
     8.10, 0, 52, "nemotron-h-8b"},
    // NVIDIA Nemotron 3 Nano (arXiv 2512.20848): 31.6e9, 3.6e9 with embeddings.
    {R"({"model_type": "nemotron_h", "hidden_size": 2688, "intermediate_size": 1856, "num_hidden_layers": 52,
         "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 131072,
         "max_position_embeddings": 8192, "tie_word_embeddings": false, "mamba_num_heads": 64, "mamba_head_dim": 64,
         "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "chunk_size": 128, "n_routed_experts": 128,
         "num_experts_per_tok": 6, "moe_intermediate_size": 1856, "n_shared_experts": 1,
         "moe_shared_expert_intermediate_size": 3712,
         "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"})",
     31.6, 3.58, 52, "nemotron-3-nano-30b-a3b"},
    // Qwen/Qwen3-Next-80B-A3B-Instruct: 80e9, of which 79e9 are not embeddings; 3e9.
    {R"({"model_type": "qwen3_next", "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 48,
         "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 151936,
         "max_position_embeddings": 262144, "tie_word_embeddings": false, "full_attention_interval": 4,
         "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
         "linear_num_key_heads": 16, "linear_num_value_heads": 32, "num_experts": 512, "num_experts_per_tok": 10,
         "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "decoder_sparse_step": 1,
         "mlp_only_layers": [], "partial_rotary_factor": 0.25})",
     79.7, 3.87, 48, "qwen3-next-80b-a3b"},
    // moonshotai/Kimi-Linear-48B-A3B-Instruct: 48e9 (49.1e9 by the hub), 3e9 and both embeddings.
    {R"({"model_type": "kimi_linear", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 27,
         "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 72, "vocab_size": 163840,
         "model_max_length": 1048576, "tie_word_embeddings": false, "kv_lora_rank": 512, "q_lora_rank": null,
         "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "mla_use_nope": true,
         "num_experts": 256, "num_experts_per_token": 8, "moe_intermediate_size": 1024, "num_shared_experts": 1,
         "first_k_dense_replace": 1, "linear_attn_config": {"full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
         "kda_layers": [1, 2, 3, 5], "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4}})",
     49.1, 3.48, 27, "kimi-linear-48b-a3b"},
    // tiiuae/Falcon-H1-34B-Base: 33.6e9.
    {R"({"model_type": "falcon_h1", "hidden_size": 5120, "intermediate_size": 21504, "num_hidden_layers": 72,
         "num_attention_heads": 20, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 261120,
         "max_position_embeddings": 262144, "tie_word_embeddings": false, "mamba_d_ssm": 4096, "mamba_n_heads": 32,
         "mamba_d_head": 128, "mamba_d_state": 256, "mamba_n_groups": 2, "mamba_d_conv": 4, "mamba_chunk_size": 256,
         "mamba_rms_norm": false})",
     33.6, 0, 72, "falcon-h1-34b"},
    // ibm-granite/granite-4.0-h-small: 32e9, 9e9.
    {R"({"model_type": "granitemoehybrid", "hidden_size": 4096, "intermediate_size": 768, "num_hidden_layers": 40,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 100352, "max_position_embeddings": 131072,
         "tie_word_embeddings": true, "position_embedding_type": "nope", "mamba_n_heads": 128, "mamba_d_head": 64,
         "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_chunk_size": 256,
         "num_local_experts": 72, "num_experts_per_tok": 10, "shared_intermediate_size": 1536, "layer_types": [
         "mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba", "mamba", "mamba", "mamba",
         "mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba", "mamba", "mamba", "mamba",
         "mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba", "mamba", "mamba", "mamba",
         "mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba", "mamba", "mamba", "mamba"]})",
     32.2, 8.80, 40, "granite-4.0-h-small"},
    // Qwen/Qwen3.5-397B-A17B, its text: 397e9, 17e9.
    {R"({"model_type": "qwen3_5_moe_text", "hidden_size": 4096, "num_hidden_layers": 60, "num_attention_heads": 32,
         "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 248320, "max_position_embeddings": 262144,
         "tie_word_embeddings": false, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
         "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 64, "num_experts": 512,
         "num_experts_per_tok": 10, "moe_intermediate_size": 1024, "shared_expert_intermediate_size": 1024})",
     397, 17.3, 60, "qwen3.5-397b-a17b"},
};

workloads::Job job_of_config(const Folder& folder, const std::string& config) {
  const tools::Draft draft = tools::import_hf(folder.write("config.json", config));
  return scenarios::load_scenario(scenarios::parse_yaml(draft.yaml(), "imported.yaml")).job;
}

}  // namespace

TEST_CASE("configurations of hybrids become the models that were published") {
  const Folder folder;
  for (const Published& one : kPublished) {
    INFO(one.ships);
    const workloads::Model model = job_of_config(folder, one.config).model;
    CHECK(model.layers == one.layers);
    CHECK(workloads::parameter_count(model) == Approx(one.parameters * 1e9).epsilon(0.005));
    const double active = one.active > 0 ? one.active : one.parameters;
    CHECK(workloads::active_parameter_count(model) == Approx(active * 1e9).epsilon(0.005));
    const auto ships = scenarios::load_scenario(scenarios::parse_yaml(
        fmt::format("cluster: {{device: h100-sxm-80gb, gpus: 1}}\nmodel: {}\nbatch: {{global: 1}}\n", one.ships), "s"));
    CHECK(workloads::parameter_count(ships.job.model) == workloads::parameter_count(model));
    CHECK(workloads::active_parameter_count(ships.job.model) == workloads::active_parameter_count(model));
    CHECK(ships.job.model.pattern.blocks.size() == model.pattern.blocks.size());
  }
}

TEST_CASE("attention that an indexer thins out is taken whole, and said first") {
  const Folder folder;
  const std::string config =
      R"({"model_type": "deepseek_v32", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
          "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280,
          "max_position_embeddings": 163840,
          "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1,
          "first_k_dense_replace": 3, "moe_layer_freq": 1, "n_group": 8, "topk_group": 4, "kv_lora_rank": 512,
          "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
          "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 64, "num_nextn_predict_layers": 0})";
  const tools::Draft draft = tools::import_hf(folder.write("config.json", config));
  CHECK(draft.ignored().front().starts_with("sparse attention (index_topk: 2048): not modelled"));
  // 671e9 without the indexer, whose three products are a thousandth.
  CHECK(workloads::parameter_count(job_of_config(folder, config).model) == Approx(671e9).epsilon(0.005));
}

TEST_CASE("a hybrid's letters, lists and narrower experts that are not known are refused where they stand") {
  const Folder folder;
  const auto refused = [&](const std::string& from, const std::string& to) -> std::string {
    std::string config = kPublished[1].config;
    config.replace(config.find(from), from.size(), to);
    try {
      job_of_config(folder, config);
    } catch (const sim::UserError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refused("MEMEM*E", "MEMEXXE").find("got the letter X") != std::string::npos);
  CHECK(refused("MEMEM*E", "MEMEM").find("50 letters") != std::string::npos);
  CHECK(refused("\"n_groups\": 8", "\"n_groups\": 8, \"moe_latent_size\": 1024").find("latent experts") !=
        std::string::npos);
}
