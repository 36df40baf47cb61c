// Do configurations of models whose blocks follow a pattern become the models that were published? Files hold what
// their public config.json say; parameters, and those that a token meets, are what model cards and reports state.
#include <fmt/format.h>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"
#include "workloads/model/mixers/mixers.h"
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
    // deepseek-ai/DeepSeek-V3.2: DeepSeek-V3's 671e9 and 37e9 (37.5e9 with one embedding), indexers of 0.85e9 beside.
    {R"({"model_type": "deepseek_v32", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
         "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280,
         "max_position_embeddings": 163840, "tie_word_embeddings": false,
         "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1,
         "first_k_dense_replace": 3, "moe_layer_freq": 1, "n_group": 8, "topk_group": 4, "topk_method": "noaux_tc",
         "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
         "v_head_dim": 128, "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 64,
         "num_nextn_predict_layers": 1})",
     671.9, 38.4, 61, "deepseek-v3.2"},
    // zai-org/GLM-5: 744e9, 40e9 without embeddings.
    {R"({"model_type": "glm_moe_dsa", "hidden_size": 6144, "intermediate_size": 12288, "num_hidden_layers": 78,
         "num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 64, "vocab_size": 154880,
         "max_position_embeddings": 202752, "tie_word_embeddings": false, "n_routed_experts": 256,
         "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1, "first_k_dense_replace": 3,
         "moe_layer_freq": 1, "n_group": 1, "topk_group": 1, "topk_method": "noaux_tc", "kv_lora_rank": 512,
         "q_lora_rank": 2048, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "qk_head_dim": 256,
         "v_head_dim": 256, "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 32,
         "num_nextn_predict_layers": 1})",
     744, 41.8, 78, "glm-5"},
    // meituan-longcat/LongCat-Flash-Chat: 560e9, in the mean 27e9 (arXiv 2509.01322), here with both embeddings.
    {R"({"model_type": "longcat_flash", "architectures": ["LongcatFlashForCausalLM"], "hidden_size": 6144,
         "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048, "num_layers": 28, "num_attention_heads": 64,
         "vocab_size": 131072, "max_position_embeddings": 131072, "tie_word_embeddings": false,
         "attention_method": "MLA", "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
         "qk_rope_head_dim": 64, "v_head_dim": 128, "mla_scale_q_lora": true, "mla_scale_kv_lora": true,
         "n_routed_experts": 512, "zero_expert_num": 256, "zero_expert_type": "identity", "moe_topk": 12,
         "routed_scaling_factor": 6.0})",
     560.7, 27.9, 84, "longcat-flash-560b-a27b"},
    // fla-hub/rwkv7-2.9B-world: 2,947,735,040 by arXiv 2503.14456.
    {R"({"model_type": "rwkv7", "attn": null, "attn_mode": "chunk", "hidden_size": 2560, "hidden_ratio": 4.0,
         "intermediate_size": 10240, "num_hidden_layers": 32, "num_heads": 32, "head_dim": 64, "vocab_size": 65536,
         "max_position_embeddings": 4096, "decay_low_rank_dim": 96, "a_low_rank_dim": 96, "v_low_rank_dim": 64,
         "gate_low_rank_dim": 320, "hidden_act": "sqrelu", "norm_bias": true, "norm_first": true, "norm_eps": 1e-05,
         "fuse_norm": false, "fuse_cross_entropy": true, "tie_word_embeddings": false})",
     2.94773504, 0, 32, "rwkv7-2.9b"},
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
    workloads::Model model = job_of_config(folder, one.config).model;
    model.experts.mtp_layers = 0;  // which stated counts leave out
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

TEST_CASE("mixtures with windows in most layers weigh what their cards state") {
  const Folder folder;
  const auto model_of = [&](const std::string& config) { return job_of_config(folder, config).model; };
  // arcee-ai/Trinity-Large: 398e9, 13e9 of a token; LGAI-EXAONE/K-EXAONE-236B-A23B; upstage/Solar-Open-100B: 102.6e9.
  std::string windows;
  for (int i = 0; i < 60; ++i) windows += i % 4 == 3 ? ", \"full_attention\"" : ", \"sliding_attention\"";
  const workloads::Model trinity = model_of(
      R"({"model_type": "afmoe", "hidden_size": 3072, "intermediate_size": 12288, "moe_intermediate_size": 3072,
          "num_hidden_layers": 60, "num_dense_layers": 6, "num_attention_heads": 48, "num_key_value_heads": 8,
          "head_dim": 128, "vocab_size": 200192, "max_position_embeddings": 262144, "num_experts": 256,
          "num_experts_per_tok": 4, "num_shared_experts": 1, "sliding_window": 4096, "mup_enabled": true,
          "tie_word_embeddings": false, "layer_types": [)" +
      windows.substr(2) + "]}");
  CHECK(workloads::parameter_count(trinity) == Approx(398e9).epsilon(0.005));
  CHECK(workloads::active_parameter_count(trinity) == Approx(13e9).epsilon(0.05));
  workloads::Model exaone = model_of(
      R"({"model_type": "exaone_moe", "hidden_size": 6144, "intermediate_size": 18432, "moe_intermediate_size": 2048,
          "num_hidden_layers": 48, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
          "vocab_size": 153600, "max_position_embeddings": 262144, "num_experts": 128, "num_experts_per_tok": 8,
          "num_shared_experts": 1, "first_k_dense_replace": 1, "sliding_window": 128, "num_nextn_predict_layers": 1,
          "tie_word_embeddings": false, "layer_types": [)" +
      windows.substr(2, 48 / 4 * windows.size() / 15 - 2) + "]}");
  exaone.experts.mtp_layers = 0;  // which the stated count leaves out
  CHECK(workloads::parameter_count(exaone) == Approx(236e9).epsilon(0.005));
  CHECK(workloads::parameter_count(model_of(
            R"({"model_type": "solar_open", "hidden_size": 4096, "intermediate_size": 10240,
          "moe_intermediate_size": 1280, "num_hidden_layers": 48, "num_attention_heads": 64, "num_key_value_heads": 8,
          "head_dim": 128, "vocab_size": 196608, "max_position_embeddings": 131072, "n_routed_experts": 128,
          "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 0, "n_group": 1, "topk_group": 1,
          "tie_word_embeddings": false})")) == Approx(102.6e9).epsilon(0.005));
}

TEST_CASE("configurations of further families are read field by field") {
  const Folder folder;
  const auto model_of = [&](const std::string& config) { return job_of_config(folder, config).model; };
  using Channel = workloads::Model::Block::Channel;

  // mistralai/Mamba-Codestral-7B-v0.1: 7,285,403,648 by its weights.
  const workloads::Model codestral = model_of(
      R"({"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "num_heads": 128, "head_dim": 64,
          "state_size": 128, "n_groups": 8, "conv_kernel": 4, "expand": 2, "chunk_size": 256, "vocab_size": 32768,
          "tie_word_embeddings": false, "use_conv_bias": true, "use_bias": false, "rms_norm": true})");
  CHECK(workloads::parameter_count(codestral) == Approx(7'285'403'648.0).epsilon(1e-5));

  // inclusionAI/Ring-mini-linear-2.0: 16.4e9, 1.6e9 of a token; attention in each fifth layer.
  const workloads::Model ring = model_of(
      R"({"model_type": "bailing_moe_linear", "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 20,
          "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 157184,
          "max_position_embeddings": 131072, "moe_intermediate_size": 512, "num_experts": 256,
          "num_experts_per_tok": 8, "num_shared_experts": 1, "moe_shared_expert_intermediate_size": 512,
          "first_k_dense_replace": 1, "layer_group_size": 5, "group_norm_size": 4, "n_group": 8, "topk_group": 4,
          "use_qk_norm": true, "partial_rotary_factor": 0.5, "num_nextn_predict_layers": 0,
          "tie_word_embeddings": false})");
  CHECK(workloads::parameter_count(ring) == Approx(16.4e9).epsilon(0.005));
  CHECK(ring.pattern.at(3).state.kind->name == "lightning");
  CHECK(ring.pattern.at(4).attends);

  // ibm-ai-platform/Bamba-9B: Mamba-2 but for three layers, an MLP in each; 9.8e9 by its card.
  const workloads::Model bamba = model_of(
      R"({"model_type": "bamba", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 4096,
          "tie_word_embeddings": false, "mamba_n_heads": 128, "mamba_d_head": "auto", "mamba_expand": 2,
          "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_chunk_size": 256,
          "attn_layer_indices": [9, 18, 27]})");
  CHECK(workloads::parameter_count(bamba) == Approx(9.78e9).epsilon(0.005));
  for (std::int64_t layer = 0; layer < 32; ++layer) {
    const workloads::Model::Block& block = bamba.pattern.at(layer);
    CHECK(block.attends == (layer == 9 || layer == 18 || layer == 27));
    CHECK(block.state.any() != block.attends);
    CHECK(block.channel == Channel::mlp);
    CHECK(block.mlp.hidden == 14336);
  }
  const workloads::StateMixer& mamba = bamba.pattern.at(0).state;
  CHECK(mamba.heads == 128);
  CHECK(mamba.value_dim == 2 * 4096 / 128);
  CHECK(mamba.key_dim == 128);
  CHECK(mamba.key_heads == 1);
  CHECK(bamba.pattern.at(9).attention.kv_heads == 8);

  // MiniMaxAI/MiniMax-Text-01 in small: of eight layers the last attends.
  const workloads::Model minimax = model_of(
      R"({"model_type": "minimax", "hidden_size": 1024, "intermediate_size": 1536, "num_hidden_layers": 16,
          "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 32000,
          "max_position_embeddings": 8192, "num_local_experts": 32, "num_experts_per_tok": 2,
          "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]})");
  CHECK(minimax.experts.count == 32);
  CHECK(minimax.experts.top_k == 2);
  CHECK(minimax.experts.ffn_hidden == 1536);
  for (std::int64_t layer = 0; layer < 16; ++layer) {
    CHECK(minimax.pattern.at(layer).attends == (layer % 8 == 7));
    CHECK(minimax.pattern.at(layer).channel == Channel::experts);
  }
  CHECK(minimax.pattern.at(0).state.kind->name == "lightning");
  CHECK(minimax.pattern.at(0).state.heads == 8);
  CHECK(minimax.pattern.at(0).state.value_dim == 128);
  CHECK(minimax.pattern.at(7).attention.kv_heads == 2);

  // Qwen3.5's dense text models: gated delta nets three to one, an MLP in each.
  const workloads::Model qwen = model_of(
      R"({"model_type": "qwen3_5_text", "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 64,
          "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 248320,
          "max_position_embeddings": 262144, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
          "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 48,
          "tie_word_embeddings": false})");
  CHECK(workloads::parameter_count(qwen) == Approx(27e9).epsilon(0.005));  // Qwen/Qwen3.5-27B
  CHECK(qwen.pattern.at(0).state.heads == 48);
  CHECK(qwen.pattern.at(0).state.key_heads == 16);
  CHECK(qwen.pattern.at(0).state.key_dim == 128);
  CHECK(qwen.pattern.at(0).state.conv == 4);
  CHECK(qwen.pattern.at(0).mlp.hidden == 17408);
  CHECK(qwen.pattern.at(3).attends);
  CHECK(qwen.pattern.at(3).attention.output_gate);
  CHECK(qwen.pattern.at(3).attention.qk_norm);
  CHECK(qwen.pattern.at(3).attention.head_width == 256);
}

TEST_CASE("configurations with sparse attention are read field by field") {
  const Folder folder;
  // GLM-5.2's lists: three layers of four take the choice of the one ahead.
  const workloads::Model glm =
      job_of_config(folder,
                    R"({"model_type": "glm_moe_dsa", "hidden_size": 1024, "intermediate_size": 2048,
          "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32000,
          "max_position_embeddings": 8192, "n_routed_experts": 16, "num_experts_per_tok": 4,
          "moe_intermediate_size": 512, "n_shared_experts": 1, "kv_lora_rank": 128, "q_lora_rank": 256,
          "qk_nope_head_dim": 96, "qk_rope_head_dim": 32, "v_head_dim": 64, "index_topk": 512, "index_head_dim": 64,
          "index_n_heads": 4, "indexer_types": ["full", "shared", "shared", "full"],
          "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]})")
          .model;
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    const workloads::Model::Attention& a = glm.pattern.at(layer).attention;
    CHECK(a.sparse.chosen == 512);
    CHECK(a.sparse.index_heads == (layer == 0 || layer == 3 ? 4 : 0));
    CHECK(a.sparse.index_dim == 64);
    CHECK(a.latent.kv_rank == 128);
    CHECK(a.latent.q_rank == 256);
    CHECK(a.latent.nope_dim == 96);
    CHECK(a.latent.rope_dim == 32);
    CHECK(a.latent.v_dim == 64);
    CHECK((glm.pattern.at(layer).channel == workloads::Model::Block::Channel::mlp) == (layer == 0));
  }

  // deepseek-ai/DeepSeek-V4-Flash: 284e9, 13e9 (of which hyper-connections, and the layer ahead, are left out).
  std::string ratios = "0, 0, 4";
  for (int i = 0; i < 20; ++i) ratios += ", 128, 4";
  const std::string flash =
      R"({"model_type": "deepseek_v4", "hidden_size": 4096, "num_hidden_layers": 43, "num_attention_heads": 64,
          "num_key_value_heads": 1, "head_dim": 512, "vocab_size": 129280, "max_position_embeddings": 1048576,
          "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 6,
          "num_nextn_predict_layers": 1, "q_lora_rank": 1024, "o_lora_rank": 1024, "o_groups": 8,
          "qk_rope_head_dim": 64, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 512,
          "sliding_window": 128, "hc_mult": 4, "tie_word_embeddings": false, "compress_ratios": [)" +
      ratios + ", 0]}";
  workloads::Model v4 = job_of_config(folder, flash).model;
  CHECK(v4.residual_streams == 4);
  CHECK(v4.experts.mtp_layers == 1);
  CHECK(v4.pattern.at(43).attention.sparse.ratio == 0);  // the one that predicts has the list's last ratio
  v4.experts.mtp_layers = 0;
  CHECK(v4.layers == 43);
  CHECK(workloads::parameter_count(v4) == Approx(284e9).epsilon(0.005));
  CHECK(workloads::active_parameter_count(v4) == Approx(13.5e9).epsilon(0.05));  // "13B"
  CHECK(v4.pattern.at(0).attention.sparse.ratio == 0);
  CHECK(v4.pattern.at(2).attention.sparse.ratio == 4);
  CHECK(v4.pattern.at(3).attention.sparse.ratio == 128);
  CHECK(v4.pattern.at(2).attention.sparse.index_heads == 64);
  CHECK(v4.pattern.at(2).attention.sparse.chosen == 512);
  CHECK(v4.pattern.at(3).attention.sparse.index_heads == 0);
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    const workloads::SparseAttention& s = v4.pattern.at(layer).attention.sparse;
    CHECK(s.window == 128);
    CHECK(s.q_rank == 1024);
    CHECK(s.out_groups == 8);
    CHECK(s.out_rank == 1024);
  }

  // MiniMaxAI/MiniMax-M3 in small: one layer with all keys and an MLP ahead of blocks that are chosen, and experts.
  const workloads::Model m3 =
      job_of_config(folder,
                    R"({"model_type": "minimax_m3", "hidden_size": 1024, "intermediate_size": 512,
          "dense_intermediate_size": 2048, "num_hidden_layers": 3, "num_attention_heads": 16, "num_key_value_heads": 4,
          "head_dim": 128, "vocab_size": 32000, "max_position_embeddings": 8192, "num_local_experts": 16,
          "num_experts_per_tok": 4, "n_shared_experts": 1, "shared_intermediate_size": 512,
          "moe_layer_freq": [0, 1, 1], "use_qk_norm": true, "swiglu_limit": 7.0, "sparse_attention_config":
          {"sparse_attention_freq": [0, 1, 1], "sparse_block_size": 64, "sparse_index_dim": 96,
           "sparse_num_index_heads": 4, "sparse_topk_blocks": 16}})")
          .model;
  CHECK_FALSE(m3.pattern.at(0).attention.sparse.any());
  CHECK(m3.pattern.at(0).mlp.hidden == 2048);
  CHECK(m3.pattern.at(1).attention.sparse.block == 64);
  CHECK(m3.pattern.at(1).attention.sparse.chosen == 16);
  CHECK(m3.pattern.at(1).attention.sparse.index_dim == 96);
  CHECK(m3.pattern.at(1).attention.sparse.index_heads == 4);
  CHECK(m3.pattern.at(1).attention.qk_norm);
  CHECK(m3.experts.count == 16);
  CHECK(m3.experts.shared == 1);
}

TEST_CASE("a hybrid's letters and lists that are not known are refused where they stand") {
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
  CHECK(refused("MEMEM*E", "MEMEM").find("50 layers") != std::string::npos);
  CHECK(refused("\"hybrid_override_pattern\"", "\"layers_block_type\": [\"mamba\", \"conv\"], \"none\"").find("conv") !=
        std::string::npos);
}
