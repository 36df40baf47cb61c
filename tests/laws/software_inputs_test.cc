// Every key of a software generation moves the answer, in the direction that it must.
#include "tests/catch.h"
#include "tests/laws/inputs.h"

namespace orrery::tests {

namespace {

const Sets kBuckets{"overlap.gradients=true", "software.gradient_bucket='40 MB'"};

std::vector<Case> hosts_and_defaults() {
  using enum Effect;
  const Sets nothing_given{"attention=null", "recompute=null", "overlap=null", "parallelism.sharding=null",
                           "parallelism.sequence_parallel=null"};
  const Sets interleaved = plus(kOverlapped, {"parallelism.virtual_pipeline=4", "software.parameter_bucket='10 MB'"});
  const Sets one_group =
      plus(kOverlapped, {"parallelism.tensor=1", "parallelism.pipeline=4", "parallelism.data=4", "batch.global=16",
                         "parallelism.virtual_pipeline=2", "model.vocab=300000", "model.tied_embeddings=false"});
  const Sets small{"model.hidden=512", "model.ffn_hidden=2048", "model.heads=8", "model.vocab=1024", "model.seq=256"};
  return {
      {"software.inherits", differs, "megatron-2021", {}, "megatron-2023"},
      {"software.adapters", differs, "nemo-25.09-lora", {"finetune={kind: lora, rank: 16}"}, "none"},
      {"software.features", faster, "[cuda-graphs]", small, ""},
      {"software.without", slower, "[flash-attention]", {"attention=null"}, ""},
      {"software.collectives", slower, "{collective_base: 5 ms}", {}, "nccl-2.18"},
      {"software.fitted.*", slower, "software.fitted.pipeline_slowdown=1.1", {}, ""},
      {"software.slowdowns.kernel_slowdown", slower, "1.1", {}, "1"},
      {"software.host.kernel_issue", slower, "30 us", small, ""},
      {"software.host.operation_host", slower, "30 us", small, "0 us"},
      {"software.host.backward_issue_share", slower, "3", plus(small, {"software.kernel_issue='30 us'"}), "1"},
      {"software.host.microbatch_host", slower, "50 ms", {}, "0 us"},
      {"software.host.host_waits_for_batch", slower, "true", plus(small, {"software.kernel_issue='30 us'"}), "false"},
      {"software.host.transfer_issue", slower, "90 us", small, ""},
      {"software.host.tensor_call", slower, "10 ms", small, "0 us"},
      {"software.host.checked_call_per_rank", slower, "10 ms", {"cluster.gpus_per_node=2"}, "0 us"},
      {"software.host.checked_call_per_node",
       slower,
       "10 ms",
       {"cluster.gpus_per_node=2", "parallelism.tensor=4", "parallelism.data=2"},
       "0 us"},
      {"software.host.checked_calls",
       slower,
       "always",
       {"cluster.gpus=4", "parallelism.pipeline=1", "parallelism.data=2", "software.checked_call_per_rank='10 ms'"},
       "between_nodes"},
      {"software.host.step_begin_host", slower, "50 ms", {}, "0 us"},
      {"software.host.step_host", longer_evaluation, "1 s", {"evaluation={every_steps: 10, sequences: 100}"}, ""},
      {"software.host.evaluation_host",
       longer_evaluation,
       "1 s",
       {"evaluation={every_steps: 10, sequences: 100}"},
       "0 s"},
      {"software.host.host_waits_for_pipeline", slower, "true", small, "false"},
      {"software.host.activation_shapes_host", slower, "50 ms", small, "0 us"},
      {"software.host.gradient_shapes_host", slower, "50 ms", small, "0 us"},
      {"software.host.blocking_launches", slower, "true", {}, "false"},
      {"software.defaults.attention", slower, "unfused", nothing_given, "flash"},
      {"software.defaults.recompute", slower, "full", nothing_given, "none"},
      {"software.defaults.parallelism.sharding", differs, "optimizer", nothing_given, "none"},
      {"software.defaults.parallelism.schedule", more_memory, "gpipe", nothing_given, "1f1b"},
      {"software.layer_split", differs, "fill", {"model.layers=9"}, "even"},  // 5 and 4 layers, not 4 and 5
      {"software.defaults.parallelism.sequence_parallel", differs, "true", nothing_given, "false"},
      {"software.defaults.overlap.tensor", faster, "true", plus(nothing_given, {"software.tensor_overlap_slowdown=1"}),
       "false"},
      {"software.defaults.overlap.pipeline", faster, "always", nothing_given, "never"},
      {"software.message_phases", slower, "steady", interleaved, "all"},
      {"software.runs_one_group_forward", more_memory, "true", one_group, "false"},
      {"software.message_phases", slower, "slots", plus(interleaved, {"overlap.pipeline=false"}), "all"},
      {"software.defaults.overlap.gradients", faster, "true", plus(nothing_given, {"software.gradient_bucket='40 MB'"}),
       "false"},
      {"software.defaults.overlap.parameters", faster, "true",
       plus(nothing_given, {"software.sharding=optimizer", "software.parameter_bucket='40 MB'"}), "false"},
  };
}

std::vector<Case> sharded_parameters() {
  using enum Effect;
  const Sets by_weight{
      "parallelism.sharding=parameters", "parallelism.pipeline=1",    "parallelism.data=8", "recompute=full",
      "overlap.parameters=true",         "software.fetches=by_weight"};
  return {
      {"software.fetches", slower, "by_weight_drained", by_weight, "by_weight"},
      {"software.collectives_by_list", slower, "true", by_weight, "false"},
      {"software.host.fetch_call_per_rank", slower, "10 ms", by_weight, "0 us"},
      {"software.live_parameters", slower, "1", plus(by_weight, {"software.fetches=by_weight_drained"}), "0"},
      {"software.reuse_distance", faster, "1e12", plus(by_weight, {"software.fetches=by_weight_drained"}), "0"},
      {"software.gradient_buffers",
       more_memory,
       "held",
       {"parallelism.virtual_pipeline=4", "parallelism.sharding=gradients", "software.gradient_reduction=once",
        "batch.global=8"},
       "on_demand"},
      {"software.fetched_as", differs, "int8", {"parallelism.sharding=parameters"}, "own_type"},
      {"software.reduced_as", differs, "int4", {"parallelism.sharding=parameters"}, "own_type"},
      {"software.unit_reduction", more_memory, "last_pass", {"parallelism.sharding=parameters"}, "every_pass"},
      {"software.units_kept",
       more_memory,
       "ends",
       {"parallelism.sharding=parameters", "recompute=full", "model.vocab=300000", "software.recipe.loss=log_softmax"},
       "none"},
      {"software.unit_gathers", differs, "own_pool", {"parallelism.sharding=parameters"}, "copied"},
      {"software.units_kept",
       more_memory,
       "ends_and_last",
       {"parallelism.sharding=parameters", "recompute=full", "model.vocab=300000", "software.recipe.loss=log_softmax"},
       "ends"},
      {"software.unit_gathers",
       slower,
       "copied",
       {"parallelism.sharding=parameters", "software.weight_gradients=fused"},
       "in_place"},
  };
}

std::vector<Case> casts_and_blocks() {
  using enum Effect;
  return {
      {"software.gathered_in_blocks",
       slower,
       "true",
       {"parallelism.context=2", "parallelism.data=2", "parallelism.context_method=all_gather"},
       "false"},
      {"software.attention_score_operations", slower, "30", {"attention=flash"}, "0"},
      {"software.compiled_blocks", faster, "true", {"recompute=full", "software.recomputes_needed_only=true"}, "false"},
      {"software.gradient_buffers", slower, "held", {}, "on_demand"},
      {"software.gemm.column_cast_traffic",
       slower,
       "3",
       {"precision=fp8-rowwise", "cluster.device=h100-sxm-80gb", "software.casts=apart"},
       "1"},
      {"software.gemm.rows_scaled_rate",
       slower,
       "0.5",
       {"precision=fp8-rowwise", "cluster.device=h100-sxm-80gb", "model.hidden=8192"},
       "1"},
      {"software.gemm.gemm_rate", slower, "0.8", {}, "1"},
      {"software.keeps_gathered_inputs", faster, "true", {"parallelism.sequence_parallel=true"}, "false"},
      {"software.gathers_quantised", faster, "true", plus(kFp8, {"parallelism.sequence_parallel=true"}), "false"},
      {"software.sequence_behind_batch", slower, "true", {"parallelism.sequence_parallel=true"}, "false"},
      {"software.exchanges_fused",
       slower,
       "true",
       {"parallelism.sequence_parallel=true", "overlap.tensor=true", "software.tensor_overlap_slowdown=1"},
       "false"},
      {"software.z_loss", slower, "true", {}, "false"},
      {"software.received_buffers", more_memory, "every_micro_batch", {}, "as_needed"},
      {"software.received_buffers",
       more_memory,
       "last_held",
       {"optimizer=lamb", "recompute=full", "model.seq=64", "model.vocab=1024", "parallelism.virtual_pipeline=2"},
       "as_needed"},
      {"software.optimizer_states", more_memory, "fp32", {}, "moments_16bit"},
      {"software.gathers_logits", slower, "true", {}, "false"},
      {"software.whole_embedding", more_memory, "true", {"model.vocab=300000", "model.tied_embeddings=false"}, "false"},
      {"software.recomputes_needed_only",
       faster,
       "true",
       {"recompute={kind: selective, modules: [mlp_down]}"},
       "false"},
  };
}

std::vector<Case> launches_ahead() {
  using enum Effect;
  const Sets ahead{"parallelism.pipeline=1", "parallelism.data=8", "parallelism.sequence_parallel=true",
                   "software.launches_ahead=300"};
  const Sets held{"parallelism.sequence_parallel=true", "overlap.pipeline=false", "software.launches_ahead=300",
                  "software.host_waits_for_pipeline=true"};
  return {
      {"software.allocator.ahead_past_messages", differs, "true", held, "false"},
      {"software.allocator.launches_ahead", differs, "1024", ahead, "0"},
      {"software.allocator.forward_block_launches", differs, "200", ahead, "0"},
      {"software.allocator.backward_block_launches", differs, "400", ahead, "0"},
      {"software.allocator.walks_allocator", differs, "true", plus(ahead, {"model.gated_mlp=true"}), "false"},
  };
}

std::vector<Case> buckets() {
  using enum Effect;
  const Sets interleaved = plus(kOverlapped, {"parallelism.virtual_pipeline=4", "software.parameter_bucket='10 MB'"});
  return {
      {"software.buckets.gradient_bucket", differs, "40 MB", {"overlap.gradients=true"}, "0 B"},
      {"software.buckets.first_gradient_bucket", differs, "4 MB", plus(kBuckets, {"software.bucket_cut=by_weight"}),
       "0 B"},
      {"software.buckets.bucket_cut", differs, "by_weight", kBuckets, "every_chunk"},
      {"software.one_launch_queue", slower, "true", kBuckets, "false"},
      {"software.buckets.parameter_bucket", differs, "40 MB", plus(kSharded, {"overlap.parameters=true"}), "0 B"},
      {"software.buckets.bucket_elements_per_rank", differs, "5e6", interleaved, "0"},
      {"software.buckets.bucket_cut", differs, "as_model", interleaved, "every_chunk"},
      {"software.data_collectives_in_step", differs, "true", interleaved, "false"},
  };
}

std::vector<Case> kernels_and_messages() {
  using enum Effect;
  const Sets unpads{"software.recipe.attention-in=unpadded"};
  const Sets in_blocks{"attention=unfused", "software.fused_softmax_matrices=4"};
  return {
      {"software.defaults.precision.gradients", slower, "fp32", {}, "bf16"},
      {"software.defaults.precision.parameters", slower, "fp32", kSharded, "bf16"},
      {"software.recipe.activation", slower, "in_steps", {"model.gated_mlp=true"}, "fused"},
      {"software.recipe.residual", slower, "in_steps", {}, "fused"},
      {"software.recipe.norm", slower, "in_steps", {}, "fused"},
      {"software.weight_gradients", slower, "apart", {}, "fused"},
      {"software.casts", slower, "apart", kFp8, "fused"},
      {"software.rotated_columns", slower, "apart", {"precision=nvfp4", "cluster.device=b200-sxm-180gb"}, "with_rows"},
      {"software.amax_reduction", slower, "every_pass", kFp8, "none"},
      {"software.recipe.attention-in", slower, "copied", {}, "direct"},
      {"software.recipe.loss", slower, "in_steps", {}, "fused"},
      {"software.recipe.rotary", slower, "in_steps", {"model.positions=rotary"}, "fused"},
      {"software.recipe.head-exchange",
       slower,
       "by_document",
       {"parallelism.context=2", "parallelism.data=2", "parallelism.context_method=all_to_all",
        "batch.document_tokens=256"},
       "at_once"},
      {"software.key_copies", slower, "repeated", {"model.kv_heads=4"}, "none"},
      {"software.shares_key_heads", refused, "false", {"model.kv_heads=1", "software.shares_key_heads=true"}, "true"},
      {"software.output_copy", slower, "made_again", {"batch.micro=2"}, "kept"},
      {"software.key_copies", more_memory, "apart", {}, "none"},
      {"software.fp8_activation_input", more_memory, "false", {}, "true"},
      {"software.separate_gate", slower, "true", {"model.gated_mlp=true"}, "false"},
      {"software.qkv_copies", slower, "4", {}, "0"},
      {"software.qkv_gradient_copies", slower, "4", {}, "0"},
      {"software.attention_kernel", slower, "flash_1", {}, "fused"},
      {"software.host.attention_reads_host", slower, "600 us", unpads, "0 us"},
      {"software.dropout", slower, "true", {}, "false"},
      {"software.bias_in_gemm", faster, "true", {"software.recipe.activation=bias_apart"}, "false"},
      {"software.query_layers", slower, "separate", {}, "joint"},
      {"software.gradient_reduction", slower, "every_pass", {"parallelism.sharding=gradients"}, "once"},
      {"software.pads_vocabulary", faster, "false", {"model.vocab=51208"}, "true"},
      {"software.gemm.misaligned_gemm_rate",
       slower,
       "0.4",
       {"model.vocab=50260", "software.pads_vocabulary=false"},
       "1"},
      {"software.training_metrics", slower, "2", {}, "0"},
      {"software.recipe.optimizer", slower, "in_steps", {}, "fused"},
      {"software.async_tensor_backward", faster, "true", {"software.tensor_overlap_slowdown=1"}, "false"},
      {"software.collective_processors", slower, "54", {"software.async_tensor_backward=true"}, "0"},
      {"software.scattered_messages", differs, "both", {}, "none"},
      {"software.shard_reduction", differs, "all_reduce", kSharded, "scatter"},
      {"software.fused_softmax_matrices", slower, "1024", {"attention=unfused"}, "1"},
      {"software.fused_softmax_by_heads", slower, "true", in_blocks, "false"},
      {"software.extra_kernels_per_layer", slower, "40", {}, "0"},
      {"software.slowdowns.compute_slowdown_under_collective", slower, "1.5",
       plus(kOverlapped, {"software.gradient_bucket='40 MB'"}), "1"},
      {"software.slowdowns.tensor_overlap_slowdown", slower, "1.3", kOverlapped, "1"},
      {"software.slowdowns.pipeline_slowdown", slower, "1.1", {}, "1"},
      {"software.fp16_accumulation", more_memory, "fp32", {"precision=fp16"}, "fp16"},
      {"software.training_gradients", more_memory, "kept", {}, "dropped"},
      {"software.gathers_into_gradients",
       more_memory,
       "false",
       {"cluster.device=b200-sxm-180gb", "precision=mxfp8", "parallelism.sharding=optimizer"},
       "true"},
      {"software.keeps_pipeline_outputs", more_memory, "true", {}, "false"},
      {"software.allocator.allocator_overhead", more_memory, "0.2", {}, "0.1"},
      {"software.context_memory", more_memory, "2 GB", {}, "1 GB"},
      {"software.communicator_memory", more_memory, "2 GB", {}, "1 GB"},
      {"software.collective_base", slower, "5 ms", {}, "8 us"},
      {"software.collective_step_ring", slower, "10 us", kSharded, "0 us"},
      {"software.collective_step_node",
       slower,
       "3 us",
       {"parallelism.sharding=optimizer", "parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=16"},
       "0 us"},
      {"software.collective_step_tree", slower, "500 us",
       plus(kManyNodes, {"software.collective_algorithms=[hierarchical_tree]"}), "0 us"},
      {"software.collective_algorithms", differs, "[hierarchical_ring]", kManyNodes, "[ring]"},
  };
}

}  // namespace

namespace {
std::vector<Case> states_with_the_host() {
  using enum Effect;
  return {
      {"software.offloaded_gradients", slower, "added_by_host", {"offload={optimizer: true}"}, "in_passes"},
      {"software.host_update_share", slower, "0.1", {"offload={optimizer: true}"}, "0.5"},
  };
}
}  // namespace

std::vector<Case> software_cases() {
  std::vector<Case> all = hosts_and_defaults();
  for (const std::vector<Case>& more : {sharded_parameters(), launches_ahead(), buckets(), kernels_and_messages(),
                                        casts_and_blocks(), states_with_the_host()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace orrery::tests

TEST_CASE("every key of a software generation moves the answer as it must") {
  for (const orrery::tests::Case& c : orrery::tests::software_cases()) check(c);
}
