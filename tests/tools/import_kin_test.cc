// Do configurations of 2025 and 2026 whose families are kin of others, encoders and decoders of other names, and
// transformers of diffusion models become the models that were published? Parameters, and those that a token meets, are
// what model cards and papers state; steps and both counts of traffic answer.
#include <fmt/format.h>

#include <string>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/tools/imported_models.h"
#include "tools/import/import.h"
#include "workloads/model/model.h"
#include "workloads/step/step.h"

using namespace orrery;
using tests::check_config_refused;
using tests::Folder;
using tests::job_of_config;
using tests::StatedModel;

namespace {

const StatedModel kStatedKin[]{
    // Qwen/Qwen3-Omni-30B-A3B-Instruct, the thinker's text: Qwen3-30B-A3B's 30.5e9 and 3.3e9.
    {R"({"model_type": "qwen3_omni_moe", "thinker_config": {"model_type": "qwen3_omni_moe_thinker", "text_config": {
         "model_type": "qwen3_omni_moe_text", "hidden_size": 2048, "intermediate_size": 768,
         "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
         "head_dim": 128, "vocab_size": 152064, "max_position_embeddings": 65536, "num_experts": 128,
         "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": false}}})",
     30.53, 3.35, "parallelism={tensor: 1, expert: 8, sharding: parameters}"},
    // google/vaultgemma-1b: 1.04e9.
    {R"({"model_type": "vaultgemma", "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26,
         "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 256000,
         "max_position_embeddings": 1024, "sliding_window": 512})",
     1.04, 0, "parallelism={tensor: 2, sequence_parallel: true}"},
    // SmallDoge/Doge-160M: 152e6.
    {R"({"model_type": "doge", "hidden_size": 768, "intermediate_size": 1536, "num_hidden_layers": 24,
         "num_attention_heads": 6, "num_key_value_heads": 3, "vocab_size": 32768, "max_position_embeddings": 2048,
         "is_moe": false, "tie_word_embeddings": true})",
     0.1526, 0, "parallelism={tensor: 1, pipeline: 2}"},
    // stepfun-ai/step3 (arXiv 2507.19427): 316e9 of the language model, 38e9 of a token.
    {R"({"model_type": "step3_vl", "text_config": {"model_type": "step3_text", "hidden_size": 7168,
         "intermediate_size": 18432, "num_attention_heads": 64, "num_attention_groups": 1, "num_hidden_layers": 61,
         "max_seq_len": 65536, "vocab_size": 128815, "moe_intermediate_size": 5120, "moe_num_experts": 48,
         "moe_top_k": 3, "share_expert_dim": 5120, "share_q_dim": 2048, "head_dim": 256,
         "moe_layers_enum": [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
         24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
         44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59]}})",
     316, 38.5, "parallelism={tensor: 1, expert: 8, sharding: parameters}"},
    // allenai/FlexOlmo-7x7B-1T: 33e9.
    {R"({"model_type": "flex_olmo", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 100352, "max_position_embeddings": 4096,
         "num_experts": 7, "num_experts_per_tok": 2, "tie_word_embeddings": false})",
     33.27, 11.63, "parallelism={tensor: 1, expert: 1, sharding: parameters}"},
    // GSAI-ML/LLaDA-8B-Base: 8.02e9.
    {R"({"model_type": "llada", "d_model": 4096, "n_heads": 32, "n_kv_heads": 32, "n_layers": 32,
         "mlp_hidden_size": 12288, "vocab_size": 126464, "embedding_size": 126464, "max_sequence_length": 4096,
         "weight_tying": false, "block_type": "llama"})",
     8.02, 0, "parallelism={tensor: 4, sequence_parallel: true}"},
    // Dream-org/Dream-v0-Base-7B: Qwen2.5-7B's 7.62e9.
    {R"({"model_type": "Dream", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
         "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 8192,
         "tie_word_embeddings": false})",
     7.62, 0, "parallelism={tensor: 2, sequence_parallel: true}"},
    // google/recurrentgemma-2b (arXiv 2404.07839): 2.7e9 (2.68e9 by its weights).
    {R"({"model_type": "recurrent_gemma", "hidden_size": 2560, "intermediate_size": 15360, "num_hidden_layers": 26,
         "num_attention_heads": 10, "num_key_value_heads": 1, "head_dim": 256, "lru_width": 2560,
         "attention_window_size": 2048, "conv1d_width": 4, "vocab_size": 256000,
         "_block_types": ["recurrent", "recurrent", "attention"]})",
     2.68, 0, "parallelism={tensor: 1, sharding: parameters}"},
    // FacebookAI/roberta-large: 355e6.
    {R"({"model_type": "roberta", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
         "num_attention_heads": 16, "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1})",
     0.355, 0, "parallelism={tensor: 1}"},
    // facebook/bart-large: 406e6.
    {R"({"model_type": "bart", "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12,
         "encoder_attention_heads": 16, "decoder_attention_heads": 16, "encoder_ffn_dim": 4096,
         "decoder_ffn_dim": 4096, "vocab_size": 50265, "max_position_embeddings": 1024})",
     0.406, 0, "parallelism={tensor: 2, sequence_parallel: true}"},
    // openai/whisper-large-v3: 1.5435e9.
    {R"({"model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32,
         "encoder_attention_heads": 20, "decoder_attention_heads": 20, "encoder_ffn_dim": 5120,
         "decoder_ffn_dim": 5120, "vocab_size": 51866, "max_source_positions": 1500, "max_target_positions": 448,
         "num_mel_bins": 128})",
     1.5435, 0, "parallelism={tensor: 4, sequence_parallel: false}"},
    // Wan-AI/Wan2.2-T2V-A14B, one of its two: 14.3e9 (arXiv 2503.20314 states 14e9).
    {R"({"_class_name": "WanTransformer3DModel", "num_layers": 40, "num_attention_heads": 40,
         "attention_head_dim": 128, "ffn_dim": 13824, "in_channels": 16, "out_channels": 16, "freq_dim": 256,
         "text_dim": 4096, "patch_size": [1, 2, 2], "qk_norm": "rms_norm_across_heads", "cross_attn_norm": true})",
     14.29, 0, "parallelism={tensor: 4, sequence_parallel: true}"},
    // Qwen/Qwen-Image (arXiv 2508.02324): 20e9 (20.43e9 by its weights).
    {R"({"_class_name": "QwenImageTransformer2DModel", "num_layers": 60, "num_attention_heads": 24,
         "attention_head_dim": 128, "in_channels": 64, "out_channels": 16, "joint_attention_dim": 3584,
         "patch_size": 2})",
     20.43, 0, "parallelism={tensor: 2, sequence_parallel: true, sharding: parameters}"},
    // black-forest-labs/FLUX.1-dev: 11,901,408,320.
    {R"({"_class_name": "FluxTransformer2DModel", "num_layers": 19, "num_single_layers": 38,
         "num_attention_heads": 24, "attention_head_dim": 128, "in_channels": 64, "joint_attention_dim": 4096,
         "pooled_projection_dim": 768, "guidance_embeds": true, "patch_size": 1})",
     11.90140832, 0, "parallelism={tensor: 1, sharding: parameters}"},
    // black-forest-labs/FLUX.2-dev: 32e9.
    {R"({"_class_name": "Flux2Transformer2DModel", "num_layers": 8, "num_single_layers": 48,
         "num_attention_heads": 48, "attention_head_dim": 128, "in_channels": 128, "joint_attention_dim": 15360,
         "mlp_ratio": 3.0, "patch_size": 1})",
     32.2, 0, "parallelism={tensor: 8, sequence_parallel: true}"},
    // tencent/HunyuanVideo (arXiv 2412.03603): 13e9 (12.82e9 by its weights).
    {R"({"_class_name": "HunyuanVideoTransformer3DModel", "num_layers": 20, "num_single_layers": 40,
         "num_attention_heads": 24, "attention_head_dim": 128, "in_channels": 16, "mlp_ratio": 4.0,
         "num_refiner_layers": 2, "patch_size": 2, "patch_size_t": 1, "text_embed_dim": 4096,
         "pooled_projection_dim": 768, "guidance_embeds": true})",
     12.82, 0, "parallelism={tensor: 8, sequence_parallel: true}"},
};

}  // namespace

TEST_CASE("families that are kin of others, and transformers of diffusion models, become what was published") {
  const Folder folder;
  for (const StatedModel& one : kStatedKin) {
    INFO(one.config);
    const workloads::Job job = job_of_config(folder, one.config, {one.layout});
    CHECK(workloads::parameter_count(job.model) == Approx(one.parameters * 1e9).epsilon(0.005));
    const double active = one.active > 0 ? one.active : one.parameters;
    CHECK(workloads::active_parameter_count(job.model) == Approx(active * 1e9).epsilon(0.01));
    CHECK(tests::contradiction(workloads::simulate_step(job)) == "");
  }
}

TEST_CASE("FLUX.1 by its configuration is the model that ships") {
  const Folder folder;
  const workloads::Model imported = job_of_config(folder, kStatedKin[13].config, {"parallelism={tensor: 1}"}).model;
  const workloads::Model ships =
      scenarios::load_scenario(scenarios::parse_yaml("{name: flux, cluster: {device: h100-sxm-80gb, gpus: 8}, model: "
                                                     "flux.1-dev, parallelism: {tensor: 1}, batch: "
                                                     "{global: 8, micro: 1}, precision: bf16}",
                                                     "flux.yaml"))
          .job.model;
  CHECK(workloads::parameter_count(imported) == workloads::parameter_count(ships));
  CHECK(workloads::model_flops(imported, 1) == Approx(workloads::model_flops(ships, 1)).epsilon(1e-9));
}

TEST_CASE("tokens of a diffusion model of text see all others, those of its kin what is ahead of them") {
  const Folder folder;
  for (const workloads::Model::Block& block :
       job_of_config(folder, kStatedKin[6].config, {"parallelism={}"}).model.pattern.kinds)
    CHECK(block.attention.bidirectional);
  std::string causal = kStatedKin[6].config;
  causal.replace(causal.find("Dream"), 5, "qwen2");
  CHECK_FALSE(job_of_config(folder, causal, {"parallelism={}"}).model.pattern.any());
}

TEST_CASE("layers of Laguna have heads of their own, and kinds by a list") {
  const Folder folder;
  std::string types, heads, channels;
  for (int i = 0; i < 48; ++i) {
    const char* comma = i > 0 ? ", " : "";
    types += fmt::format("{}\"{}\"", comma, i % 4 == 0 ? "full_attention" : "sliding_attention");
    heads += fmt::format("{}{}", comma, i % 4 == 0 ? 48 : 72);
    channels += fmt::format("{}\"{}\"", comma, i == 0 ? "dense" : "sparse");
  }
  // poolside/Laguna-S-2.1: 118e9, 8e9 of a token.
  const std::string config = fmt::format(
      R"({{"model_type": "laguna", "vocab_size": 100352, "hidden_size": 3072, "intermediate_size": 12288,
          "num_hidden_layers": 48, "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128,
          "max_position_embeddings": 8192, "num_experts": 256, "num_experts_per_tok": 10,
          "moe_intermediate_size": 1024, "shared_expert_intermediate_size": 1024, "sliding_window": 512,
          "layer_types": [{}], "num_attention_heads_per_layer": [{}], "mlp_layer_types": [{}]}})",
      types, heads, channels);
  const workloads::Job job =
      job_of_config(folder, config, {"parallelism={tensor: 1, expert: 8, sharding: parameters}"});
  CHECK(workloads::parameter_count(job.model) == Approx(118e9).epsilon(0.005));
  CHECK(workloads::active_parameter_count(job.model) == Approx(8.2e9).epsilon(0.05));
  CHECK(job.model.pattern.at(0).attention.heads == 48);
  CHECK(job.model.pattern.at(1).attention.heads == 72);
  CHECK(job.model.pattern.at(1).attention.window == 512);
  CHECK(tests::contradiction(workloads::simulate_step(job)) == "");
}

TEST_CASE("Ling 3.0 has Kimi's delta rule with whole gates, and latent attention at the end of turns and of all") {
  const Folder folder;
  // inclusionAI/Ling-3.0-tiny, of two layers more than its six turns, which attend too.
  const std::string config =
      R"({"architectures": ["BailingMoeV3ForCausalLM"], "model_type": "bailing_hybrid", "hidden_size": 1536,
          "intermediate_size": 4608, "num_hidden_layers": 26, "num_attention_heads": 16, "num_key_value_heads": 16,
          "head_dim": 128, "vocab_size": 157184, "max_position_embeddings": 8192, "tie_word_embeddings": false,
          "layer_group_size": 4, "short_conv_kernel_size": 4, "no_kda_lora": true, "kda_safe_gate": true,
          "kda_lower_bound": -5, "gated_attention_proj_granularity_type": "head_wise", "qk_head_dim": 192,
          "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "q_lora_rank": 256,
          "kv_lora_rank": 512, "first_k_dense_replace": 1, "num_experts": 128, "num_experts_per_tok": 8,
          "num_shared_experts": 1, "moe_intermediate_size": 512, "moe_shared_expert_intermediate_size": 512,
          "n_group": 8, "topk_group": 4})";
  const workloads::Job job =
      job_of_config(folder, config, {"parallelism={tensor: 1, expert: 8, sharding: parameters}"});
  const double h = 1536, wide = 16 * 128;
  const double delta = 6 * h * wide + 3 * 4 * wide + 16 * h + 16 + wide + 128 + h;
  const double latent = h * 256 + 256 + 256 * 16 * 192 + h * (512 + 64) + 512 + 512 * 16 * 256 + wide * h + h;
  const double experts = 128 * (h + 3 * h * 512) + 3 * h * 512 + h, dense = 3 * h * 4608 + h;
  const double all = 18 * delta + 8 * latent + 25 * experts + dense + 2 * 157184 * h;
  CHECK(workloads::parameter_count(job.model) == Approx(all).epsilon(1e-9));
  CHECK(tests::contradiction(workloads::simulate_step(job)) == "");
}

TEST_CASE("configurations of kin that contradict themselves, or hold what is not modelled, are refused in one line") {
  check_config_refused(kStatedKin[2].config, "\"is_moe\": false", "\"is_moe\": true",
                       "experts that are found by products of keys");
  check_config_refused(kStatedKin[3].config, "4, 5, 6,", "4, 5, 61,", "moe_layers_enum");
  check_config_refused(kStatedKin[7].config, "\"num_attention_heads\": 10", "\"num_attention_heads\": 12",
                       "num_attention_heads");
  check_config_refused(kStatedKin[7].config, "\"attention\"]", "\"convolution\"]", "_block_types");
  check_config_refused(kStatedKin[9].config, "\"encoder_attention_heads\": 16", "\"encoder_attention_heads\": 15",
                       "encoder_attention_heads");
  check_config_refused(kStatedKin[10].config, "\"decoder_layers\": 32", "\"decoder_layers\": 0", "decoder_layers");
  check_config_refused(kStatedKin[11].config, "[1, 2, 2]", "[1, 0, 2]", "patch_size");
  check_config_refused(kStatedKin[13].config, "\"num_single_layers\": 38", "\"num_single_layers\": -1",
                       "num_single_layers");
  check_config_refused(kStatedKin[13].config, "FluxTransformer2DModel", "FluxTransformer3DModel",
                       "did you mean \"FluxTransformer2DModel\"?");
  check_config_refused(kStatedKin[8].config, "\"roberta\"", "\"modernbert\"",
                       "windows to both sides in an encoder are not modelled");
  check_config_refused(kStatedKin[13].config, "\"_class_name\": \"FluxTransformer2DModel\", ", "", "_class_name");
}
