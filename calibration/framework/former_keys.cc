// Keys of former releases, read as what they mean now: booleans that were lists of kernels, or choices in disguise.
// What recipes and choices cannot say any more is refused with the key to set. See software.h.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "calibration/framework/software.h"

namespace orrery::calibration {

using sim::Settings;

namespace {

/// A key of former releases: what it is now where it was true, and where it was false; empty: what it was without it.
struct Former {
  std::string_view key, key_now, if_true, if_false;
};

constexpr std::array kFormer{
    Former{"rotation_in_steps", "recipe.rotary", "in_steps", "fused"},
    Former{"fused_bias_gelu", "recipe.activation", "fused", "bias_apart"},
    Former{"activation_in_steps", "recipe.activation", "in_steps", "fused"},
    Former{"squared_relu_in_steps", "recipe.activation", "squared_relu_in_steps", "fused"},
    Former{"fused_bias_dropout_residual", "recipe.residual", "fused", "in_steps"},
    Former{"fused_cross_entropy", "recipe.loss", "fused", "in_steps"},
    Former{"compiled_cross_entropy", "recipe.loss", "compiled", "in_steps"},
    Former{"cross_entropy_kernel", "recipe.loss", "kernel", "in_steps"},
    Former{"log_softmax_loss", "recipe.loss", "log_softmax", "kernel"},
    Former{"fused_wgrad_accumulation", "weight_gradients", "fused", "apart"},
    Former{"fused_wgrad_16bit", "weight_gradients", "fused_16bit", ""},
    Former{"separate_qkv", "query_layers", "separate", "joint"},
    Former{"parts_queries", "query_layers", "parted", "joint"},
    Former{"fused_cast", "casts", "fused", "apart"},
    Former{"current_scales", "casts", "scaled", ""},
    Former{"fused_amax", "casts", "scaled_by_makers", ""},
    Former{"buckets_first_chunk_only", "bucket_cut", "first_chunk", "every_chunk"},
    Former{"buckets_follow_model", "bucket_cut", "as_model", "every_chunk"},
    Former{"all_reduces_shards", "shard_reduction", "all_reduce", "scatter"},
    Former{"reduces_shards_last", "shard_reduction", "all_reduce_last", "scatter"},
    Former{"reduces_every_pass", "gradient_reduction", "every_pass", "once"},
    Former{"reduces_to_owners", "gradient_reduction", "to_owners", ""},
    Former{"keeps_training_gradients", "training_gradients", "kept", "dropped"},
    Former{"holds_training_gradients", "training_gradients", "held", "dropped"},
    Former{"fetches_by_weight", "fetches", "by_weight", "by_unit"},
    Former{"fetches_drained", "fetches", "by_weight_drained", ""},
    Former{"reduces_last_pass", "unit_reduction", "last_pass", "every_pass"},
    Former{"reduces_groups_once", "unit_reduction", "groups_once", "every_pass"},
    Former{"scatter_gather_pipeline", "scattered_messages", "both", "none"},
    Former{"scatter_gather_gradients", "scattered_messages", "", "activations"},
    Former{"states_follow_weights", "optimizer_states", "as_weights", "fp32"},
    Former{"moments_16bit", "optimizer_states", "moments_16bit", "fp32"},
    Former{"gradients_to_host_in_backward", "offloaded_gradients", "in_passes", "behind_passes"},
    Former{"host_adds_up_gradients", "offloaded_gradients", "added_by_host", ""},
    Former{"overlap_needs_chunks", "overlap_pipeline", "of_chunks", ""},
    Former{"copies_output", "output_copy", "kept", "none"},
    Former{"copies_output_again", "output_copy", "made_again", ""},
    Former{"fused_layer_norm", "recipe.norm", "fused", "in_steps"},
    Former{"persistent_layer_norm", "recipe.norm", "persistent", "fused"},
    Former{"attention_layout_copies", "recipe.attention-in", "copied", "direct"},
    Former{"attention_unpads", "recipe.attention-in", "unpadded", "direct"},
    Former{"fused_optimizer", "recipe.optimizer", "fused", "in_steps"},
    Former{"separate_gradient_passes", "recipe.optimizer", "with_passes", "fused"},
    Former{"loss_copies", "recipe.loss", "", ""},
    Former{"loss_gap", "recipe.loss", "", ""},
};

}  // namespace

sim::Settings with_present_keys(const sim::Settings& document) {
  Settings out = document;
  for (const Former& former : kFormer) {
    const Settings* value = document.find(former.key);
    if (value == nullptr) continue;
    const bool wanted = !former.if_true.empty() || !former.if_false.empty() ? value->as_bool() : true;
    const std::string_view now = wanted ? former.if_true : former.if_false;
    if (now.empty()) value->fail(fmt::format("is no key any more, expected {}", former.key_now));
    out.erase(former.key);
    out.set_path(former.key_now, Settings::scalar(std::string(now), value->place()));
  }
  return out;
}

}  // namespace orrery::calibration
