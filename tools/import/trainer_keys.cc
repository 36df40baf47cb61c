// The catalogue: Axolotl's schemas and integrations (src/axolotl/utils/schemas, src/axolotl/integrations),
// LLaMA-Factory's arguments (src/llamafactory/hparams), both of 2026, and the TrainingArguments of transformers that
// their files pass on.
#include "tools/import/trainer_keys.h"

#include "tools/import/key_catalogue.h"

namespace orrery::tools {

namespace {

// clang-format off
/// These change a step, and are not simulated.
constexpr NamedKeys kWeighForTrainers[] = {
    {"head and loss go by parts and logits never stand whole; here they do, which memory counts",
     "liger_fused_linear_cross_entropy cut_cross_entropy chunked_cross_entropy enable_liger_kernel use_unsloth"},
    {"kernels of its own: those of the software are simulated (software)",
     "liger_rope liger_rms_norm liger_rms_norm_gated liger_layer_norm liger_swiglu liger_glu_activation "
     "liger_cross_entropy unsloth_* flash_attn_cross_entropy flash_attn_rms_norm flash_attn_fuse_mlp "
     "flash_attn_fuse_qkv flash_optimum sage_attention fused_attn_kernel large_head_attention flash_attn_d512 "
     "sdpa_varlen lora_mlp_kernel lora_qkv_kernel lora_o_kernel lora_embedding_kernel use_kernels "
     "experts_implementation use_scattermoe use_sonicmoe expert_backend moe_grouped_backend use_v1_kernels "
     "use_onebitllms gemma4_hybrid_attn_impl kernel_config"},
    {"compiled: kernels as the software launches them are simulated (software)",
     "torch_compile torch_compile_backend torch_compile_mode torch_compile_options deepcompile"},
    {"weights or activations wait elsewhere: they are held on the GPU here",
     "layer_offloading use_unsloth_gc gpu_memory_limit max_memory relora_cpu_offload kt_*"},
    {"blocks are run by parts of a sequence: whole here, which memory counts", "tiled_mlp tiled_mlp_num_shards"},
    {"products of some kinds alone are kept: whole blocks are made again here, or none",
     "selective_checkpointing recompute_layer_types"},
    {"part of the model is frozen or trained whole beside adapters: all of it, or adapters alone, are trained here",
     "freeze_trainable_layers freeze_trainable_modules freeze_extra_modules additional_target lora_modules_to_save "
     "modules_to_save lora_target_parameters peft_layers_to_transform peft_layers_pattern "
     "peft_trainable_token_indices lora_rank_pattern peft_layer_replication lisa_step_interval "
     "lisa_layers_attribute spectrum_top_fraction"},
    {"adapters of another form: plain ones are simulated",
     "use_dora peft_use_dora use_mora mora_type oft_rank oft_block_size oft_target use_hyper_parallel"},
    {"attention sees part of what it would: all of it is simulated", "shift_attn s2_attention"},
    {"another model's passes stand beside each step: not simulated",
     "kd_trainer kd_ce_alpha kd_online_server kd_online_server_base_url dense_mixer ref_model reward_model_type"},
    {"experts hold so many tokens, or go by another library: those of the software are simulated",
     "expert_parallel_backend expert_parallel_token_capacity moe_dequant_chunk_size"},
    {"the model's configuration is changed: --set model.KEY=VALUE",
     "overrides_of_model_config model_config base_model_config"},
    {"weights are held in another type: as finetune.kind says here",
     "model_quantization_config model_quantization_config_kwargs quantization_method quantization_type "
     "nonexpert_quantization bnb_config_kwargs gptq dsv4_* fp32_norms"},
    {"documents are packed otherwise: sequences are full here", "batch_flattening pretrain_multipack_attn use_pose"},
};

constexpr NamedKeys kIdleForTrainers[] = {
    {"of data, files, schedules and logs",
     "datasets dataset template val_set_size output_dir overwrite_cache warmup_steps warmup_ratio num_epochs "
     "num_train_epochs max_steps max_samples logging_steps save_steps saves_per_epoch evals_per_epoch "
     "eval_steps eval_strategy plot_loss report_to special_tokens tokenizer_type model_type trust_remote_code "
     "lora_alpha lora_dropout train_on_inputs resume_from_checkpoint stage do_train preprocessing_num_workers "
     "save_only_model strict lora_model_dir tf32 gradient_checkpointing_kwargs early_stopping_patience debug "
     "chat_template max_grad_norm pad_to_sequence_len is_llama_derived_model xformers_attention run_name "
     "use_wandb use_tensorboard use_swanlab fsdp_transformer_layer_cls_to_wrap "
     "fsdp_config.fsdp_state_dict_type fsdp_config.fsdp_auto_wrap_policy "
     "fsdp_config.fsdp_transformer_layer_cls_to_wrap fsdp_config.fsdp_sync_module_states "
     "fsdp_config.fsdp_limit_all_gathers fsdp_config.limit_all_gathers dist_config.dcp_path "
     "fsdp_config.fsdp_cpu_ram_efficient_loading fsdp_config.fsdp_final_state_dict_type "
     "fsdp_config.fsdp_use_orig_params fsdp_config.fsdp_min_num_params fsdp_config.fsdp_mixed_precision_policy "
     "fsdp_config.fsdp_cpu_offload_pin_memory fsdp_config.fsdp_version fsdp_config.state_dict_type "
     "fsdp_config.auto_wrap_policy fsdp_config.transformer_layer_cls_to_wrap fsdp_config.sync_module_states "
     "fsdp_config.cpu_ram_efficient_loading fsdp_config.final_state_dict_type fsdp_config.use_orig_params "
     "fsdp_config.min_num_params fsdp_config.mixed_precision_policy fsdp_config.cpu_offload_pin_memory "
     "fsdp_config.version train_dataset eval_dataset sample_backend max_new_tokens model_class"},
    {"of data, tokenizers and chat templates",
     "test_datasets shuffle_merged_datasets shuffle_before_merging_datasets dataset_* skip_prepare_dataset "
     "num_dataset_shards_to_save pretraining_dataset dataloader_* accelerator_config remove_unused_columns "
     "media_dir train_on_prompt mask_history streaming streaming_multipack_buffer_size buffer_size mix_strategy "
     "interleave_probs preprocessing_batch_size eval_num_beams ignore_pad_token_for_loss val_size "
     "eval_on_each_dataset neat_packing tool_format default_system enable_thinking preserve_thinking "
     "tokenized_path data_shared_file_system sample_packing_group_size sample_packing_bin_size "
     "sample_packing_sequentially sample_packing_mp_start_method eval_sample_packing pad_to_multiple_of "
     "curriculum_sampling multipack_real_batches pretrain_multipack_buffer_size pretraining_sample_concatenation "
     "min_sample_len excess_length_strategy eval_sequence_len max_prompt_len pose_* group_by_length "
     "length_column_name tokenizer_config tokenizer_use_fast tokenizer_legacy tokenizer_use_mistral_common "
     "tokenizer_save_jinja_files processor_type processor_kwargs tokens added_tokens_overrides add_tokens "
     "add_special_tokens new_special_tokens_config init_special_tokens use_fast_tokenizer resize_vocab "
     "split_special_tokens resize_token_embeddings_to_32x mean_resizing_embeddings shrink_embeddings "
     "embeddings_skip_upcast chat_template_jinja chat_template_kwargs eot_tokens default_system_message "
     "fix_untrained_tokens total_num_tokens total_supervised_tokens sample_packing_eff_est image_* video_* "
     "use_audio_in_video audio_sampling_rate crop_to_patches disable_shuffling roles_to_train role_boundaries"},
    {"of checkpoints, logs and where files lie",
     "save_strategy save_total_limit save_first_step save_safetensors load_best_model_at_end "
     "auto_resume_from_checkpoints hub_strategy hub_revision hub_* push_to_hub push_dataset_to_hub "
     "hf_use_auth_token hf_hub_token ms_hub_token om_hub_token logging_strategy logging_dir logging_first_step "
     "log_level log_on_each_node disable_tqdm include_tokens_per_second include_tkps include_num_input_tokens_seen "
     "include_effective_tokens_per_second profiler_* enable_torch_profiler profile_modules use_mlflow mlflow_* "
     "hf_mlflow_log_artifacts wandb_* use_comet comet_* use_trackio trackio_* swanlab_* gradio_* use_otel_metrics "
     "otel_metrics_* print_param_status adapter_name_or_path adapter_folder cache_dir model_revision "
     "revision_of_model low_cpu_mem_usage offload_folder export_* infer_backend infer_dtype use_kv_cache vllm_* "
     "sglang_* create_new_adapter lora_on_cpu qlora_sharded_model_loading dynamic_checkpoint ddp_timeout "
     "axolotl_config_path merge_lora merge_method is_preprocess preprocess_iterable plugins use_ray ray_* "
     "resources_per_worker llmcompressor hatchery nemo_gym_* is_falcon_derived_model is_mistral_derived_model "
     "is_qwen_derived_model type_of_model cls_model_config trainer_cls device device_map world_size local_rank "
     "capabilities env_capabilities master_addr master_port overwrite_output_dir logging_nan_inf_filter"},
    {"of validation, stops and watches beside the steps",
     "evaluation_strategy eval_table_size eval_max_new_tokens eval_batch_size per_device_eval_batch_size "
     "eval_accumulation_steps eval_delay do_eval do_predict predict_with_generate do_causal_lm_eval "
     "eval_causal_lm_metrics do_bench_eval bench_dataset bench_split metric_for_best_model greater_is_better "
     "early_stopping_steps loss_watchdog_* lm_eval_* compute_accuracy generate_samples num_generation_samples "
     "generation_* do_sample temperature top_p top_k num_beams max_length repetition_penalty length_penalty "
     "skip_special_tokens"},
    {"changes values, not work",
     "rope_scaling neftune_noise_alpha noisy_embedding_alpha lr_* lr cosine_* adam_* optim_args embedding_lr "
     "embedding_lr_scale loraplus_* relora_prune_* jagged_* use_rslora peft_use_rslora pissa_* "
     "peft_init_lora_weights loftq_* lora_fan_in_fan_out lora_alpha_pattern module_dropout "
     "peft_ensure_weight_tying peft_autocast_adapter_dtype peft upcast_layernorm upcast_lmhead_output "
     "train_from_scratch reinit_weights moe_aux_loss_coef use_reentrant_gc flex_attn_compile_kwargs "
     "scaling_softmax* use_eaft eaft_* asft_* grokfast_* label_smoothing_factor full_determinism seed data_seed "
     "center_rewards_coefficient num_labels dion_* qgalore_* galore_* apollo_* badam_* llama4_linearized_experts "
     "liger_use_token_scaling chunked_cross_entropy_num_chunks tiled_mlp_use_original_mlp use_eaft_loss "
     "fsdp_version fsdp_final_state_dict_type qat_* optim_target_modules torchdistx_path learning_rate "
     "weight_decay quantization double_quantization freeze_mm_modules freeze_vision_tower "
     "freeze_multi_modal_projector freeze_language_model"},
    {"of preferences and rewards, whose step is said above where it is another",
     "trl vllm pref_* dpo_* kto_* orpo_alpha simpo_gamma cpo_alpha rl_beta rpo_alpha ppo_* ref_model_* "
     "reward_model_* ld_alpha precompute_ref_log_probs advantage_estimator"},
    {"of how gradients are sent, which goes with the software",
     "ddp ddp_bucket_cap_mb ddp_broadcast_buffers ddp_find_unused_parameters gc_steps torch_empty_cache_steps "
     "gc_collect_steps heads_k_stride ring_attn_func expert_parallel_num_nvl_bytes expert_parallel_num_rdma_bytes "
     "expert_parallel_fallback_on_unsupported megatron_bridge_args hyper_parallel_args auto_find_batch_size"},
};
// clang-format on

}  // namespace

void tell_trainer_keys(Sections& config, Draft& draft) {
  static const KeyCatalogue kCatalogue(kWeighForTrainers, kIdleForTrainers);
  kCatalogue.tell(config, draft);
  config.remark_on_the_rest(draft);
}

}  // namespace orrery::tools
