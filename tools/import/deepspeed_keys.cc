// The catalogue: what DeepSpeed's page on its configuration documents in August 2026, and the models of its sections
// (deepspeed/runtime/zero/config.py, offload_config.py, precision_config.py, activation_checkpointing/config.py).
#include "tools/import/deepspeed_keys.h"

#include "tools/import/key_catalogue.h"

namespace orrery::tools {

namespace {

// clang-format off
constexpr NamedKeys kWeighForDeepSpeed[] = {
    {"weights, gradients and states have another type; here those of the software",
     "communication_data_type seq_parallel_communication_data_type bf16.bf16_master_weights_and_grads "
     "bf16.bf16_optimizer_states fp16.fp16_master_weights_and_grads torch_autocast.enabled torch_autocast.dtype "
     "amp.enabled bf16.immediate_grad_update zero_optimization.zero_quantized_nontrainable_weights fp16.auto_cast "
     "data_types.*"},
    {"weights and gradients are shared and gathered otherwise here",
     "zero_optimization.mics_hierarchical_params_gather zero_optimization.stage3_use_all_reduce_for_fetch_params "
     "zero_optimization.use_all_reduce_for_fetch_params zero_optimization.use_multi_rank_bucket_allreduce "
     "zero_optimization.zeropp_loco_param zero_optimization.zenflow zero_optimization.leaf_module zenflow"},
    {"activations are shared among ranks, or go to the host: they are held on each GPU here",
     "activation_checkpointing.partition_activations activation_checkpointing.cpu_checkpointing"},
    {"what runs is another step: the whole model's is simulated",
     "sparse_attention sparse_gradients compression_training progressive_layer_drop curriculum_learning "
     "data_efficiency hybrid_engine quantize_training weight_quantization autotuning eigenvalue compile"},
    {"stages, experts and ranks of a sequence are cut by the script: --set parallelism.KEY=N",
     "pipeline sequence_parallel_size mp_size expert_parallel tensor_parallel elasticity "
     "use_data_before_expert_parallelism"},
    {"the update by the host takes another part of it; here all that is said",
     "zero_optimization.super_offload zero_optimization.offload_optimizer.super_offload "
     "zero_optimization.offload_optimizer.cpuadam_cores_perc"},
    {"of stage 3: what stays whole between passes; here nothing does",
     "zero_optimization.stage3_param_persistence_threshold zero_optimization.stage3_model_persistence_threshold"},
};

constexpr NamedKeys kIdleForDeepSpeed[] = {
    {"changes values, not work",
     "optimizer.params optimizer.legacy_fusion scheduler gradient_clipping fp16.loss_scale "
     "fp16.initial_scale_power fp16.loss_scale_window fp16.hysteresis fp16.consecutive_hysteresis "
     "fp16.min_loss_scale bf16.check_grad_overflow prescale_gradients gradient_predivide_factor "
     "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer amp.opt_level seed "
     "torch_autocast.lower_precision_safe_modules zero_optimization.ignore_unused_parameters "
     "zero_optimization.memory_efficient_linear disable_allgather"},
    {"of logs, checkpoints and measurements",
     "steps_per_print wall_clock_breakdown dump_state memory_breakdown flops_profiler monitor tensorboard wandb "
     "comet csv_monitor comms_logger checkpoint nebula aio data_types.load_universal "
     "zero_optimization.stage3_gather_16bit_weights_on_model_save "
     "zero_optimization.gather_16bit_weights_on_model_save "
     "zero_optimization.stage3_gather_fp16_weights_on_model_save zero_optimization.load_from_fp32_weights "
     "zero_optimization.elastic_checkpoint zero_optimization.pipeline_loading_checkpoint "
     "zero_optimization.override_module_apply zero_optimization.log_trace_cache_warnings "
     "zero_optimization.enable_sanity_checks activation_checkpointing.profile "
     "activation_checkpointing.synchronize_checkpoint_boundary graph_harvesting timers dataloader_drop_last"},
    {"goes with the software: how it fetches, reduces and pins",
     "zero_optimization.contiguous_gradients zero_optimization.reduce_scatter "
     "zero_optimization.allgather_partitions zero_optimization.round_robin_gradients "
     "zero_optimization.legacy_stage1 zero_optimization.sub_group_size "
     "zero_optimization.stage3_max_live_parameters zero_optimization.max_live_parameters "
     "zero_optimization.stage3_max_reuse_distance zero_optimization.max_reuse_distance "
     "zero_optimization.stage3_prefetch_bucket_size zero_optimization.prefetch_bucket_size "
     "zero_optimization.param_persistence_threshold zero_optimization.model_persistence_threshold "
     "zero_optimization.stage3_module_granularity_threshold zero_optimization.module_granularity_threshold "
     "zero_optimization.allgather_sequential zero_optimization.cpu_offload_use_pin_memory "
     "zero_optimization.save_muon_momentum_buffer_in_memory "
     "activation_checkpointing.contiguous_memory_optimization activation_checkpointing.number_checkpoints "
     "gradient_allreduce_op zero_optimization.stage3_allgather_sequential "
     "zero_optimization.offload_optimizer.pin_memory zero_optimization.offload_optimizer.buffer_count "
     "zero_optimization.offload_optimizer.buffer_size zero_optimization.offload_optimizer.max_in_cpu "
     "zero_optimization.offload_optimizer.nvme_path zero_optimization.offload_optimizer.fast_init "
     "zero_optimization.offload_optimizer.pipeline_read zero_optimization.offload_optimizer.pipeline_write "
     "zero_optimization.offload_optimizer.pipeline zero_optimization.offload_param.pin_memory "
     "zero_optimization.offload_param.buffer_count zero_optimization.offload_param.buffer_size "
     "zero_optimization.offload_param.max_in_cpu zero_optimization.offload_param.nvme_path "
     "zero_optimization.offload_param.fast_init zero_optimization.offload_param.pipeline_read "
     "zero_optimization.offload_param.pipeline_write zero_optimization.offload_param.pipeline"},
};
// clang-format on

}  // namespace

void tell_deepspeed_keys(Sections& config, Draft& draft) {
  static const KeyCatalogue kCatalogue(kWeighForDeepSpeed, kIdleForDeepSpeed);
  kCatalogue.tell(config, draft);
  config.remark_on_the_rest(draft);
}

}  // namespace orrery::tools
