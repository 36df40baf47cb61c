// The catalogue: the fields of ConfigContainer in Megatron-Bridge 0.6 (src/megatron/bridge/training/config.py, with the
// classes of Megatron-Core that it derives from: core/transformer/transformer_config.py, core/model_parallel_config.py,
// core/distributed/distributed_data_parallel_config.py, core/optimizer/optimizer_config.py, training/config; August
// 2026). A container that is written as YAML holds every field, so that a field of weight whose default is neither
// false nor nothing stands here with it.
#include "tools/import/recipe_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/import/key_catalogue.h"

namespace orrery::tools {

namespace {

// clang-format off
constexpr NamedKeys kWeighForRecipes[] = {
    {"layers of another kind than a block of attention and an MLP or experts: a model that ships has its own",
     "model.attention_output_gate model.experimental_attention_variant model.linear_attention_freq "
     "model.enable_mhc_connections model.softmax_type=vanilla model.qk_l2_norm model.is_hybrid_model "
     "model.apply_residual_connection_post_layernorm model.heterogeneous_block_specs model.hybrid_attention_ratio=0.0 "
     "model.hybrid_mlp_ratio=0.0 model.quant_recipe model.moe_router_topk_limited_devices model.use_mup "
     "model.mtp_standalone model.activation_func_clamp_value model.window_size model.window_attn_skip_freq "
     "model.moe_shared_expert_gate model.moe_latent_size"},
    {"stages of other layers than an even cut",
     "model.pipeline_model_parallel_layout model.account_for_embedding_in_pipeline_split "
     "model.account_for_loss_in_pipeline_split model.microbatch_group_size_per_vp_stage"},
    {"ranks share weights and tokens otherwise there",
     "model.tensor_parallel_num_weight_shards=1 model.gtp_weight_remat_size=1 "
     "model.expert_tensor_parallel_num_weight_shards=1 model.expert_gtp_weight_remat_size=1 "
     "model.hierarchical_context_parallel_sizes model.hybrid_context_parallel model.max_seqlen_per_dp_cp_rank "
     "dist.use_torch_fsdp2 dist.use_tp_pp_dp_mapping dist.external_gpu_device_mapping "
     "ddp.outer_dp_sharding_strategy=no_shard dataset.hybrid_context_parallel "
     "optimizer.use_layer_wise_distributed_optimizer dist.eval_context_parallel_size"},
    {"a part has a type of its own there; here those of precision and of the software",
     "model.fp8_dot_product_attention model.fp8_multi_head_attention model.fp8_output_proj "
     "model.first_last_layers_bf16 model.moe_dispatch_fwd_dtype model.moe_combine_bwd_dtype model.logit_dtype "
     "model.fp16_lm_cross_entropy model.fp32_residual_connection model.activation_func_fp8_input_store "
     "mixed_precision.fp8_dot_product_attention mixed_precision.fp8_multi_head_attention "
     "mixed_precision.first_last_layers_bf16 mixed_precision.fp4_param mixed_precision.fp4_param_gather "
     "model.fp4_param "
     "ddp.fp4_param_gather mixed_precision.fp32 optimizer.use_precision_aware_optimizer "
     "optimizer.main_grads_dtype=torch.float32 "
     "optimizer.main_params_dtype=torch.float32 optimizer.exp_avg_dtype=torch.float32 "
     "optimizer.exp_avg_sq_dtype=torch.float32 ddp.reduce_scatter_with_fp32_accumulation "
     "ddp.param_name_patterns_for_fp32_local_accumulation=[] ddp.megatron_fsdp_main_params_dtype=torch.float32 "
     "ddp.megatron_fsdp_main_grads_dtype ddp.megatron_fsdp_grad_comm_dtype ddp.megatron_fsdp_use_decoupled_grad "
     "mixed_precision.keep_mtp_spec_in_bf16 model.keep_mtp_spec_in_bf16"},
    {"exchanges and kernels that run otherwise there",
     "model.delay_wgrad_compute comm_overlap.delay_wgrad_compute ddp.delay_wgrad_compute "
     "model.overlap_dispatch_backward_with_experts_wgrad model.ep_overlap_early_attn_memory_release "
     "model.tp_comm_overlap_disable_qkv model.tp_comm_overlap_disable_fc1 model.use_ring_exchange_p2p "
     "model.defer_embedding_wgrad_compute comm_overlap.defer_embedding_wgrad_compute "
     "model.overlap_p2p_comm_warmup_flush model.symmetric_ar_type model.high_priority_a2a_comm_stream "
     "comm_overlap.overlap_param_gather_with_optimizer_step optimizer.overlap_param_gather_with_optimizer_step "
     "comm_overlap.bucket_size ddp.bucket_size ddp.num_buckets ddp.nccl_ub ddp.fsdp_double_buffer "
     "ddp.fsdp_all_gather_in_start_param_sync=true ddp.suggested_communication_unit_size "
     "ddp.megatron_fsdp_enable_fine_grained_param_gather ddp.megatron_fsdp_cuda_graph_mode "
     "ddp.megatron_fsdp_max_pool_double_buffer dist.use_sharp dist.nccl_communicator_config_path "
     "model.use_transformer_engine_op_fuser model.dense_grouped_gemm model.use_grouped_gemm_for_dense_mlp "
     "model.use_grouped_gemm_for_shared_expert model.fused_residual_rmsnorm model.use_kitchen "
     "model.use_kitchen_attention "
     "model.moe_permute_fusion_into_hybridep optimizer.optimizer_cuda_graph "
     "model.scatter_embedding_sequence_parallel=true "
     "model.disable_parameter_transpose_cache model.memory_efficient_layer_norm model.batch_p2p_comm=true "
     "comm_overlap.batch_p2p_comm ddp.keep_fp8_transpose_cache mixed_precision.reuse_grad_buf_for_mxfp8_param_ag "
     "ddp.reuse_grad_buf_for_mxfp8_param_ag optimizer.reuse_grad_buf_for_mxfp8_param_ag"},
    {"what is held lies elsewhere there, or is computed again by parts: --set offload.KEY=VALUE, recompute.KEY=VALUE",
     "model.cpu_offloading_weights model.cpu_offloading_activations=true model.offload_modules=[] "
     "model.fine_grained_activation_offloading model.activation_offload_fraction=1.0 model.moe_paged_stash "
     "model.distribute_saved_activations model.num_microbatches_with_partial_activation_checkpoints "
     "model.moe_layer_recompute model.mhc_recompute_layer_num"},
    {"tokens that experts drop or that are filled up: --set experts.capacity_factor=N",
     "model.moe_token_dropping model.moe_expert_rank_capacity_factor"},
    {"what runs is another step: the whole model's is simulated",
     "train.skip_train train.rampup_batch_size train.step_batch_size_schedule train.decrease_batch_size_if_needed "
     "model.deterministic_mode model.batch_invariant_mode train.empty_unused_memory_level=0 "
     "rerun_state_machine.error_injection_rate=0 model.restore_modelopt_state model.test_mode"},
    {"documents are packed there, and attend apart: here a sequence is one; --set model.documents=N says their mean",
     "dataset.enable_offline_packing dataset.packed_sequence_specs dataset.offline_packing_specs "
     "dataset.inter_document_masking dataset.reset_attention_mask"},
    {"adapters of another form there",
     "peft.exclude_modules=[] peft.lora_dtype peft.share_expert_adapters=true peft.a2a_experimental "
     "peft.canonical_mapping "
     "peft.params_to_save peft.experts_shared_outer_loras peft.normalize_moe_lora"},
    {"an evaluation of another batch: --set evaluation.sequences=N",
     "validation.eval_global_batch_size validation.eval_micro_batch_size validation.skip_train "
     "validation.full_validation validation.multiple_validation_sets"},
    {"a way of Muon's, SOAP's or Lion's own; here the optimizer's usual one",
     "optimizer.use_torch_optimizer_for_cpu_offload"},
};

constexpr NamedKeys kIdleForRecipes[] = {
    {"changes values, not work",
     "model.init_method* model.output_layer_init_method model.embedding_init_method* model.layernorm_epsilon "
     "model.layernorm_zero_centered_gamma model.rotary_* model.rope_* model.yarn_* model.hidden_dropout "
     "model.attention_dropout model.moe_aux_loss_coeff model.moe_z_loss_coeff model.moe_input_jitter_eps "
     "model.softmax_scale model.qk_clip* model.log_max_attention_logit model.glu_linear_offset model.mup_* "
     "model.seq_len_interpolation_factor model.moe_router_load_balancing_type model.moe_router_force_* "
     "model.moe_router_score_function model.moe_router_pre_softmax model.moe_router_topk_scaling_factor "
     "model.moe_router_enable_expert_bias model.moe_router_bias_update_rate model.moe_router_quantile_balancing_ema "
     "model.moe_apply_probs_on_input model.mtp_loss_scaling_factor model.mtp_detach_heads model.mtp_hsm "
     "model.calculate_per_token_loss model.no_rope_freq model.mrope_section model.original_max_position_embeddings "
     "model.beta_fast model.beta_slow model.mscale* model.dsa_* model.linear_* model.mhc_* model.gdp_* "
     "model.fp8_margin model.fp8_interval model.fp8_amax_* model.fp8_wgrad model.fp8_quantizer_factory "
     "model.fp4_quantizer_factory model.apply_query_key_layer_scaling model.attention_softmax_in_fp32 "
     "model.num_layers_at_start_in_bf16 model.num_layers_at_end_in_bf16 model.bf16 model.fp16 model.params_dtype "
     "model.autocast_dtype model.enable_autocast model.moe_token_drop_policy model.rotary_interleaved "
     "mixed_precision optimizer.lr optimizer.min_lr optimizer.decoupled_* optimizer.weight_decay "
     "optimizer.apply_wd_to_qk_layernorm optimizer.adam_* optimizer.sgd_momentum optimizer.muon_* optimizer.lion_* "
     "optimizer.soap_* optimizer.adaptive_muon_* optimizer.clip_grad optimizer.grad_norm_skip_threshold "
     "optimizer.loss_scale* optimizer.initial_loss_scale optimizer.min_loss_scale optimizer.hysteresis "
     "optimizer.bf16 optimizer.fp16 optimizer.params_dtype optimizer.fp8_recipe optimizer.store_param_remainders "
     "optimizer_config_override_provider scheduler rng peft.alpha peft.dropout* peft.lora_A_init_method "
     "peft.lora_B_init_method peft.network_alpha ddp.average_in_collective ddp.gradient_reduce_div_fusion"},
    {"what is written, watched and guarded beside the step",
     "checkpoint logger profiling ft straggler nvrx_straggler tensor_inspect inprocess_restart rerun_state_machine "
     "model.moe_per_layer_logging model.config_logger_dir optimizer.config_logger_dir optimizer.log_num_zeros_in_grad "
     "model.barrier_with_L1_time optimizer.barrier_with_L1_time model.timers optimizer.timers "
     "ddp.check_for_nan_in_grad "
     "ddp.check_for_large_grads train.check_* train.exit_* train.manual_gc* train.iterations_to_skip "
     "train.gpu_sniff_test_interval train.train_sync_interval train.train_samples train.num_epochs "
     "train.skip_sync_grad_norm_across_mp log resume dir name env env_vars"},
    {"data and words, which are read beside the step", "dataset data tokenizer validation"},
    {"how ranks find each other", "dist"},
    {"of inference alone",
     "model.flash_decode model.inference_* model.nccl_all_reduce_for_prefill model.use_inference_optimized_layers "
     "model.mlp_chunks_for_prefill model.moe_pad_experts_for_cuda_graph_inference model.cache_mla_latents"},
    {"the software says how these run",
     "model.transformer_impl model.transformer_layer_spec model.mamba_stack_spec model.hybrid_stack_spec "
     "model.use_transformer_engine_full_layer_spec model.cuda_graph_warmup_steps model.cuda_graph_use_single_mempool "
     "model.cuda_graph_retain_backward_graph model.enable_cuda_graph model.external_cuda_graph "
     "model.cross_entropy_loss_fusion model.cross_entropy_fusion_impl model.apply_rope_fusion "
     "model.bias_activation_fusion model.bias_dropout_fusion model.masked_softmax_fusion "
     "model.gradient_accumulation_fusion model.persist_layer_norm model.fused_single_qkv_rope "
     "model.use_fused_weighted_squared_relu model.use_te_activation_func model.use_te_rng_tracker "
     "model.clone_scatter_output_in_embedding model.deallocate_pipeline_outputs model.batch_p2p_sync "
     "model.variable_seq_lengths model.pipeline_dtype model.wgrad_deferral_limit comm_overlap.wgrad_deferral_limit "
     "model.tp_comm_* comm_overlap.tp_comm_* comm_overlap.data_parallel_size comm_overlap.align_param_gather "
     "ddp.align_param_gather ddp.pad_buckets_for_high_nccl_busbw ddp.megatron_fsdp_version ddp.fsdp_db_* "
     "ddp.fsdp_manual_registration ddp.disable_symmetric_registration model.tp_only_amax_red "
     "model.moe_flex_dispatcher_num_sms model.moe_deepep_num_sms model.moe_hybridep_* model.moe_ncclep_zero_copy "
     "model.moe_router_padding_for_* model.moe_enable_deepep model.moe_use_grouped_tensor "
     "model.moe_single_grouped_* model.moe_mlp_glu_interleave_size model.moe_shared_expert_glu_interleave_size "
     "model.moe_enable_routing_replay model.mla_down_proj_fusion model.flash_attention_version "
     "model.attention_backend=auto model.kitchen_attention_backend model.batch_invariant_backend "
     "model.disable_bf16_reduced_precision_matmul model.cpu_offloading_* model.min_offloaded_tensor_size "
     "model.delay_offload_until_cuda_graph model.delta_offload_bytes_across_pp_ranks model.moe_paged_stash_* "
     "model.fine_grained_offloading_max_inflight_offloads model.gtp_remat_opt_in_modules "
     "model.use_arbitrary_attention_mask "
     "model.mamba_* model.use_mamba_mem_eff_path model.parallel_output model.pipeline_model_parallel_comm_backend "
     "optimizer.pin_cpu_* optimizer.use_distributed_optimizer peft.sequence_parallel_input_regather"},
    {"without effect: the part that it is of is not on here",
     "model.mtp_* model.recompute_modules model.recompute_method model.recompute_num_layers "
     "model.moe_flex_dispatcher_backend model.moe_pad_expert_input_to_capacity model.q_lora_rank model.kv_lora_rank "
     "model.qk_head_dim model.qk_pos_emb_head_dim model.v_head_dim model.mlp_chunks_for_training "
     "optimizer.overlap_param_gather"},
    {"how weights begin, and what a class is called",
     "model.perform_initialization model.use_cpu_initialization model.init_model_with_meta_device "
     "model.hf_model_id model.hf_model_revision model.finalize_model_grads_func model.grad_scale_func "
     "model.moe_grad_scale_func model.mtp_grad_scale_func model.no_sync_func model.grad_sync_func "
     "model.param_sync_func "
     "model.experimental_attention_variant_loss_scale_func model.hetereogenous_dist_checkpoint model.mtp_enabled "
     "model.version model.generation_config"},
};
// clang-format on

/// The same keys as NeMo 2's recipes nest them.
std::vector<std::string> for_nemo(std::span<const NamedKeys> groups) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kMoved{
      {{"model.", "model.config."},
       {"ddp.", "trainer.strategy.ddp."},
       {"optimizer.", "optim.config."},
       {"train.", "trainer."}}};
  std::vector<std::string> texts;
  for (const NamedKeys& group : groups) {
    std::string text;
    std::string_view rest = group.keys;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      std::string_view key = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (key.empty()) continue;
      for (const auto& [theirs, nemo] : kMoved) {
        if (!key.starts_with(theirs)) continue;
        text += nemo;
        key.remove_prefix(theirs.size());
        break;
      }
      text += key;
      text += ' ';
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<NamedKeys> with_texts(std::span<const NamedKeys> groups, const std::vector<std::string>& texts) {
  std::vector<NamedKeys> named;
  for (std::size_t i = 0; i < groups.size(); ++i) named.push_back({groups[i].why, texts[i].c_str()});
  return named;
}

/// Of NeMo 2's trainer, which are Lightning's.
constexpr NamedKeys kIdleForNemo[] = {
    {"what is written and watched beside the step",
     "trainer.accelerator trainer.accumulate_grad_batches trainer.callbacks trainer.limit_test_batches "
     "trainer.log_every_n_steps trainer.logger trainer.plugins trainer.precision trainer.use_distributed_sampler "
     "trainer.strategy.gradient_as_bucket_view trainer.strategy.ckpt_* trainer.strategy.pipeline_dtype optim "
     "trainer.enable_checkpointing trainer.num_sanity_val_steps fn tokenizer"}};

KeyCatalogue catalogue_for_nemo() {
  const std::vector<std::string> weigh = for_nemo(kWeighForRecipes);
  std::vector<std::string> idle = for_nemo(kIdleForRecipes);
  const std::vector<NamedKeys> first = with_texts(kWeighForRecipes, weigh);
  std::vector<NamedKeys> rest = with_texts(kIdleForRecipes, idle);
  rest.insert(rest.end(), std::begin(kIdleForNemo), std::end(kIdleForNemo));
  return {first, rest};
}

}  // namespace

void tell_recipe_keys(Sections& config, Draft& draft, bool bridge) {
  static const KeyCatalogue kBridge(kWeighForRecipes, kIdleForRecipes), kNemo = catalogue_for_nemo();
  (bridge ? kBridge : kNemo).tell(config, draft);
  config.remark_on_the_rest(draft, {}, "");
}

void tell_not_followed(Draft& draft, const std::string& file, const std::vector<std::string>& not_followed) {
  static const std::string kLine = "line ";
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> lines;  // by file and cause
  for (const std::string& what : not_followed) {
    const std::size_t at = what.find(kLine), colon = what.find(": ", at == std::string::npos ? 0 : at);
    const bool of_line = at != std::string::npos && colon != std::string::npos && (at == 0 || what[at - 1] == ' ');
    const std::string cause = of_line ? what.substr(0, at) + "\n" + what.substr(colon + 2) : "\n" + what;
    if (!lines.contains(cause)) order.push_back(cause);
    std::vector<std::string>& here = lines[cause];
    const std::string line = of_line ? what.substr(at + kLine.size(), colon - at - kLine.size()) : "";
    if (std::find(here.begin(), here.end(), line) == here.end()) here.push_back(line);
  }
  for (const std::string& cause : order) {
    const std::size_t cut = cause.find('\n');
    const std::vector<std::string>& here = lines[cause];
    const std::string where = here.front().empty() ? ""
                                                   : fmt::format("{}line{} {}: ", cause.substr(0, cut),
                                                                 here.size() > 1 ? "s" : "", fmt::join(here, ", "));
    draft.ignored(file, where + cause.substr(cut + 1));
  }
}

}  // namespace orrery::tools
