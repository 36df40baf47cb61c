// The catalogue: options of TorchTitan's releases 0.1 to 0.2 (torchtitan/config_manager.py, torchtitan/config/
// job_config.py) and, since February 2026, the fields of its dataclasses (torchtitan/config/configs.py, trainer.py and
// the Config classes of torchtitan/components; pytorch/torchtitan at b5bcd76c, August 2026).
#include "tools/import/titan_keys.h"

#include "tools/import/key_catalogue.h"

namespace orrery::tools {

namespace {

// clang-format off
constexpr NamedKeys kWeighForTitan[] = {
    {"stages of other layers than an even cut: --set parallelism.virtual_pipeline=N where every stage has as many",
     "parallelism.module_fqns_per_model_part parallelism.pipeline_parallel_first_stage_less_layers "
     "parallelism.pipeline_parallel_last_stage_less_layers parallelism.pipeline_parallel_layers_per_stage "
     "parallelism.pipeline_parallel_split_points experimental.pipeline_parallel_split_points "
     "parallelism.pipeline_parallel_schedule_csv experimental.pipeline_parallel_schedule_csv "
     "parallelism.pipeline_parallel_microbatches experimental.pipeline_parallel_microbatches"},
    {"logits are cut by words over tensor ranks here",
     "parallelism.disable_loss_parallel training.disable_loss_parallel experimental.disable_loss_parallel"},
    {"the update runs otherwise there; here as one fused step behind the backward pass",
     "optimizer.implementation optimizer.early_step_in_backward optimizer.fused optimizer.foreach"},
    {"products that stay in 16 bits there, or are quantised by a rule of their own; here all are of one type",
     "float8.filter_fqns float8.module_filter_fqns float8.moe_fqns_prototype mx.filter_fqns mx.moe_fqns_prototype "
     "quantize.linear.float8.filter_fqns quantize.linear.mx.filter_fqns quantize.linear.mx.fqns "
     "quantize.linear.nvfp4.fqns "
     "quantize.grouped_mm.float8.fqns quantize.grouped_mm.mx.fqns float8.emulate quantize.linear.float8.emulate"},
    {"recomputed beyond every second product; not simulated",
     "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns "
     "activation_checkpoint.force_recompute_mm_shapes_by_fqns"},
    {"weights are gathered by other copies there", "parallelism.enable_fsdp_symm_mem"},
    {"logits of a part of the tokens are held at a time there, of all of them here", "loss.num_chunks"},
    {"the longest ranks of a context group would wait; here all have as much",
     "parallelism.context_parallel_load_balancer parallelism.context_parallel_ptrr_mask_key"},
    {"what runs is another step: the whole model's is simulated",
     "fault_tolerance.enable fault_tolerance.semi_sync_method fault_tolerance.sync_steps comm.mode "
     "memory_estimation.enable override experimental.custom_import experimental.custom_model_path "
     "experimental.custom_args_module job.custom_config_module debug.batch_invariant debug.detect_anomaly "
     "debug.deterministic experimental.enable_compiled_autograd "
     "parallelism.enable_compiled_autograd training.deterministic training.fp8 "
     "model.num_mtp_layers model.non_blocking_capacity_factor"},
};

constexpr NamedKeys kIdleForTitan[] = {
    {"changes values, not work",
     "optimizer.lr optimizer.beta1 optimizer.beta2 optimizer.eps optimizer.weight_decay "
     "optimizer.optimizer_factory_kwargs_by_name lr_scheduler training.warmup_steps training.max_norm lora.alpha "
     "training.seed training.mixed_precision_reduce debug.seed debug.deterministic_warn_only "
     "training.steps model.norm_type activation_checkpoint.preserve_rng_state activation_checkpoint.determinism_check "
     "loss.loss_fn.global_vocab_size loss.global_vocab_size"},
    {"what is written and watched beside the step",
     "job profiling metrics checkpoint dump_folder comm debug.print_config debug.save_config_file "
     "debug.enable_structured_logging debug.spmd_typechecking memory_estimation.disable_fake_mode "
     "activation_checkpoint.debug activation_checkpoint.visualize_memory_budget_pareto model.print_after_conversion "
     "training.gc_debug training.gc_freq"},
    {"data and words, which are read beside the step",
     "model.tokenizer_path model.hf_assets_path hf_assets_path tokenizer dataloader training.dataset "
     "training.dataset_path training.dataloader validation model.function"},
    {"the software says how these run",
     "compile.backend compile.model_backend_override parallelism.spmd_backend model.attn_backend model.use_flex_attn "
     "model.attn_mask_type activation_checkpoint.early_stop loss float8.precompute_float8_dynamic_scale_for_fsdp "
     "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp float8.force_recompute_fp8_weight_in_bwd "
     "mx.recipe_name quantize.linear.mx.recipe_name quantize.grouped_mm.mx.recipe_name "
     "mx.mxfp8_dim1_cast_kernel_choice mx.use_fp8_dim1_cast_triton_kernel "
     "quantize.linear.mx.mxfp8_dim1_cast_kernel_choice quantize.grouped_mm.mx.pad_multiple "
     "quantize.linear.float8.model_compile_enabled quantize.linear.mx.model_compile_enabled "
     "quantize.linear.nvfp4.model_compile_enabled quantize.grouped_mm.float8.model_compile_enabled "
     "quantize.grouped_mm.mx.model_compile_enabled parallelism.pipeline_parallel_expert_parallel_overlap"},
    {"experts get as many tokens each here too, unless experts.imbalance says otherwise",
     "debug.moe_force_load_balance training.debug_moe_force_load_balance"},
    {"without effect: fault_tolerance.enable is not on", "fault_tolerance"},
    {"without effect: the part that it is of is not on here",
     "parallelism.pipeline_parallel_microbatch_size parallelism.num_pp_microbatches "
     "parallelism.context_parallel_rotate_method experimental.context_parallel_rotate_method "
     "parallelism.expert_tensor_parallel_degree parallelism.expert_parallel_comm_backend model.moe_comm_backend "
     "activation_checkpoint.memory_budget training.disable_cuda_graphs"},
};
// clang-format on

}  // namespace

void tell_titan_keys(Sections& config, Draft& draft) {
  static const KeyCatalogue kCatalogue(kWeighForTitan, kIdleForTitan);
  kCatalogue.tell(config, draft);
}

}  // namespace orrery::tools
