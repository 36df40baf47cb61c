// Do configurations of models whose mixers are operators become the models that were published? Parameters, and those
// that a token meets, are what model cards state.
#include <fmt/format.h>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/tools/imported_models.h"
#include "tools/import/import.h"
#include "workloads/model/carried.h"
#include "workloads/model/model.h"
#include "workloads/step/step.h"

using namespace orrery;
using tests::check_config_refused;
using tests::Folder;
using tests::StatedModel;

namespace {

const StatedModel kStated[]{
    // LiquidAI/LFM2-1.2B: 1,170,340,608 by its card.
    {R"({"model_type": "lfm2", "hidden_size": 2048, "block_dim": 2048, "block_ff_dim": 12288, "block_multiple_of": 256,
         "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": true, "num_hidden_layers": 16,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536, "max_position_embeddings": 128000,
         "conv_L_cache": 3, "conv_bias": false, "full_attn_idxs": [2, 5, 8, 10, 12, 14], "tie_embedding": true})",
     1.170340608, 0, "parallelism={tensor: 2, sequence_parallel: true}"},
    // LiquidAI/LFM2-8B-A1B: 8.3e9, 1.5e9.
    {R"({"model_type": "lfm2_moe", "hidden_size": 2048, "intermediate_size": 7168, "moe_intermediate_size": 1792,
         "num_hidden_layers": 24, "num_dense_layers": 2, "num_experts": 32, "num_experts_per_tok": 4,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536, "max_position_embeddings": 128000,
         "conv_L_cache": 3, "layer_types": ["conv", "conv", "full_attention", "conv", "conv", "conv", "full_attention",
         "conv", "conv", "conv", "full_attention", "conv", "conv", "conv", "full_attention", "conv", "conv", "conv",
         "full_attention", "conv", "conv", "full_attention", "conv", "conv"]})",
     8.34, 1.55, "parallelism={tensor: 1, expert: 8}"},
    // ai21labs/Jamba-v0.1 (arXiv 2403.19887): 52e9, 12e9; 51.6e9 by the hub.
    {R"({"model_type": "jamba", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536, "max_position_embeddings": 262144,
         "attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1,
         "num_experts": 16, "num_experts_per_tok": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
         "mamba_dt_rank": 256, "mamba_conv_bias": true, "mamba_proj_bias": false, "tie_word_embeddings": false})",
     51.57, 12.1, "parallelism={tensor: 1, expert: 8, sharding: parameters}"},
    // xai-org/grok-2, whose mixers are usual: 270e9 by its card, 115e9 of a token.
    {R"({"model_type": "git", "hidden_size": 8192, "intermediate_size": 32768, "moe_intermediate_size": 16384,
         "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
         "vocab_size": 131072, "max_position_embeddings": 131072, "num_local_experts": 8, "num_experts_per_tok": 2,
         "residual_moe": true})",
     269.5, 115, "parallelism={tensor: 1, expert: 8, sharding: parameters}"},
    // tiiuae/falcon-mamba-7b (arXiv 2410.05355): 7.27e9 by its weights.
    {R"({"model_type": "falcon_mamba", "hidden_size": 4096, "intermediate_size": 8192, "num_hidden_layers": 64,
         "state_size": 16, "conv_kernel": 4, "expand": 16, "time_step_rank": 256, "vocab_size": 65024,
         "use_bias": false, "use_conv_bias": true, "tie_word_embeddings": false})",
     7.27, 0, "parallelism={tensor: 4, sequence_parallel: true}"},
    // state-spaces/mamba-2.8b-hf (arXiv 2312.00752): 2.77e9 by its weights.
    {R"({"model_type": "mamba", "hidden_size": 2560, "num_hidden_layers": 64, "state_size": 16, "conv_kernel": 4,
         "expand": 2, "time_step_rank": "auto", "vocab_size": 50280, "use_bias": false, "use_conv_bias": true})",
     2.77, 0, "parallelism={tensor: 2, sequence_parallel: false}"},
    // Zyphra/Zamba2-7B (arXiv 2411.15242): 7.36e9 by its weights.
    {R"({"model_type": "zamba2", "hidden_size": 3584, "num_hidden_layers": 81, "num_attention_heads": 32,
         "num_key_value_heads": 32, "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 4096,
         "state_size": 64, "mamba_headdim": 64, "mamba_ngroups": 2, "num_mem_blocks": 2, "lora_rank": 128,
         "use_mem_rope": true, "use_shared_attention_lora": false, "use_shared_block_lora": true,
         "hybrid_layer_ids": [6, 11, 17, 23, 29, 35, 41, 47, 53, 59, 65, 71, 77]})",
     7.36, 0, "parallelism={tensor: 2, sequence_parallel: true}"},
    // Zyphra/Zamba2-1.2B: 1.22e9, with adapters of queries, keys and values.
    {R"({"model_type": "zamba2", "hidden_size": 2048, "num_hidden_layers": 38, "num_attention_heads": 32,
         "num_key_value_heads": 32, "intermediate_size": 8192, "vocab_size": 32000, "max_position_embeddings": 4096,
         "mamba_d_state": 128, "n_mamba_heads": 64, "mamba_ngroups": 1, "num_mem_blocks": 1, "adapter_rank": 128,
         "use_mem_rope": true, "use_shared_attention_adapter": true, "layers_block_type": ["mamba", "mamba", "mamba",
         "mamba", "mamba", "hybrid", "mamba", "mamba", "mamba", "mamba", "mamba", "hybrid", "mamba", "mamba", "mamba",
         "mamba", "mamba", "hybrid", "mamba", "mamba", "mamba", "mamba", "mamba", "hybrid", "mamba", "mamba", "mamba",
         "mamba", "mamba", "hybrid", "mamba", "mamba", "mamba", "mamba", "mamba", "hybrid", "mamba", "mamba"]})",
     1.215, 0, "parallelism={tensor: 1, sharding: parameters}"},
    // microsoft/Phi-4-mini-flash-reasoning (arXiv 2507.06607): 3.85e9 by its weights.
    {R"({"model_type": "phi4flash", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32,
         "num_attention_heads": 40, "num_key_value_heads": 20, "vocab_size": 200064, "max_position_embeddings": 262144,
         "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 160, "mamba_conv_bias": true,
         "mamba_proj_bias": false, "mb_per_layer": 2, "sliding_window": 512, "tie_word_embeddings": true})",
     3.85, 0, "parallelism={tensor: 2, pipeline: 4, sequence_parallel: true}"},
};

}  // namespace

TEST_CASE("configurations with mixers of operators become the models that were published") {
  const Folder folder;
  for (const StatedModel& one : kStated) {
    tools::Draft draft = tools::import_hf(folder.write("config.json", one.config));
    INFO(draft.yaml());
    draft.apply(one.layout);
    draft.apply("model.seq=4096");
    const workloads::Job job = scenarios::load_scenario(scenarios::parse_yaml(draft.yaml(), "imported.yaml")).job;
    CHECK(workloads::parameter_count(job.model) == Approx(one.parameters * 1e9).epsilon(0.005));
    const double active = one.active > 0 ? one.active : one.parameters;
    CHECK(workloads::active_parameter_count(job.model) == Approx(active * 1e9).epsilon(0.01));
    CHECK(tests::contradiction(workloads::simulate_step(job)) == "");
  }
}

TEST_CASE("layers behind the middle of SambaY read one scan and one layer's keys, wherever stages are cut") {
  const Folder folder;
  tools::Draft draft = tools::import_hf(folder.write("config.json", kStated[8].config));
  const workloads::Model model =
      scenarios::load_scenario(scenarios::parse_yaml(draft.yaml(), "imported.yaml")).job.model;
  REQUIRE(model.layers == 32);
  // Mamba-1 makes 5120 elements in layer 16, attention keys and values of 20 heads of 64 in layer 17.
  const double scan = 5120, keys = 2 * 20 * 64;
  CHECK(workloads::carried_into(model, 16) == 0);
  CHECK(workloads::carried_into(model, 17) == scan);
  CHECK(workloads::carried_into(model, 18) == scan + keys);
  CHECK(workloads::carried_into(model, 31) == keys);
  int gates = 0, windows = 0, readers = 0;
  for (std::int64_t layer = 0; layer < 32; ++layer) {
    const workloads::Model::Block& block = model.pattern.at(layer);
    windows += block.attends && block.attention.window == 512;
    readers += block.attends && block.attention.shares_keys;
    gates += !block.attends && workloads::carried_reads(model, layer).size() == 1;
  }
  CHECK(windows == 8);
  CHECK(readers == 7);
  CHECK(gates == 7);
}

TEST_CASE("uses of Zamba 2's transformers share weights and have adapters of their own") {
  const Folder folder;
  const auto weighs = [&](const char* from, const char* to) {
    std::string config = kStated[6].config;
    config.replace(config.find(from), std::string(from).size(), to);
    tools::Draft draft = tools::import_hf(folder.write("config.json", config));
    return workloads::parameter_count(
        scenarios::load_scenario(scenarios::parse_yaml(draft.yaml(), "imported.yaml")).job.model);
  };
  const double h = 3584, wide = 2 * h, f = 14336, r = 128;
  const double own = h * h + h * r + r * 2 * f, shared = 3 * wide * wide + wide * h + 3 * h * f + wide + h;
  const double all = weighs("\"state_size\": 64", "\"state_size\": 64");
  CHECK(all - weighs("71, 77]", "71]") == Approx(own).epsilon(1e-9));
  CHECK(weighs("\"num_mem_blocks\": 2", "\"num_mem_blocks\": 13") - all == Approx(11 * shared).epsilon(1e-9));
}

TEST_CASE("channels of Mamba-1 are shared out over tensor ranks") {
  const Folder folder;
  for (const int ranks : {1, 2, 4, 8}) {
    INFO(ranks);
    tools::Draft draft = tools::import_hf(folder.write("config.json", kStated[2].config));
    draft.apply(fmt::format("parallelism={{tensor: {}, expert: 8, sequence_parallel: {}}}", ranks, ranks > 1));
    draft.apply("model.seq=4096");
    const workloads::Job job = scenarios::load_scenario(scenarios::parse_yaml(draft.yaml(), "imported.yaml")).job;
    const workloads::StepReport report = workloads::simulate_step(job);
    CHECK(tests::contradiction(report) == "");
    // Of a rank's weights all but norms and routers are cut: those of experts by expert parallelism.
    const workloads::Model& model = job.model;
    const double h = 4096, thin = 256 + 32, experts = 16 * 16 * 3 * h * 14336, routers = 16 * 16 * h;
    const double norms = (2 * 32 + 1) * h + 28 * thin, all = workloads::parameter_count(model) + h;
    const double cut = all - experts - routers - norms;
    const double held = cut / ranks + experts / 8 + routers + norms;
    CHECK(report.memory.stages[0].parameters == Approx(2 * held).epsilon(1e-3));
  }
}

TEST_CASE("configurations with mixers of operators that contradict themselves are refused in one line") {
  check_config_refused(kStated[0].config, "\"block_ff_dim\": 12288", "\"block_ff_dim\": 0", "block_ff_dim");
  check_config_refused(kStated[0].config, "\"block_ffn_dim_multiplier\": 1.0", "\"block_ffn_dim_multiplier\": -1",
                       "block_ffn_dim_multiplier");
  check_config_refused(kStated[0].config, "[2, 5, 8, 10, 12, 14]", "[\"x\"]", "full_attn_idxs");
  check_config_refused(kStated[2].config, "\"mamba_dt_rank\": 256", "\"mamba_dt_rank\": \"many\"", "mamba_dt_rank");
  check_config_refused(kStated[6].config, "\"num_attention_heads\": 32", "\"num_attention_heads\": 30",
                       "num_attention_heads");
  check_config_refused(kStated[6].config, "\"hybrid_layer_ids\"", "\"ids\"",
                       "holds no layers_block_type or hybrid_layer_ids");
  check_config_refused(kStated[7].config, "\"hybrid\", \"mamba\", \"mamba\"]", "\"hybrid\"]",
                       "expected num_hidden_layers");
  check_config_refused(kStated[8].config, "\"sliding_window\": 512", "\"sliding_window\": -1", "sliding_window");
  check_config_refused(kStated[1].config, "\"num_experts\": 32", "\"num_experts\": -3", "num_experts");
}
