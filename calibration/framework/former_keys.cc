// Where keys stand: those of blocks, which may be written without them, and those of former releases, read as what they
// mean now, booleans that were lists of kernels or choices in disguise. What recipes and choices cannot say any more is
// refused with the key to set. See software.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "calibration/framework/software.h"

namespace orrery::calibration {

using sim::Settings;

namespace {

/// A key of former releases: what it is now where it was true, and where it was false; empty: what it was without it.
struct Former {
  std::string_view key, key_now, if_true, if_false;
};

/// Keys that stand elsewhere now, and mean what they did.
struct Moved {
  std::string_view key, key_now;
};

constexpr std::array kMoved{
    Moved{"sharding", "defaults.parallelism.sharding"},
    Moved{"schedule", "defaults.parallelism.schedule"},
    Moved{"sequence_parallel", "defaults.parallelism.sequence_parallel"},
    Moved{"gradient_dtype", "defaults.precision.gradients"},
    Moved{"parameter_gather_dtype", "defaults.precision.parameters"},
    Moved{"overlap_tensor", "defaults.overlap.tensor"},
    Moved{"overlap_pipeline", "defaults.overlap.pipeline"},
    Moved{"overlap_gradients", "defaults.overlap.gradients"},
    Moved{"overlap_parameters", "defaults.overlap.parameters"},
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
    Former{"buckets_first_chunk_only", "buckets.bucket_cut", "first_chunk", "every_chunk"},
    Former{"buckets_follow_model", "buckets.bucket_cut", "as_model", "every_chunk"},
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
    Former{"overlap_needs_chunks", "defaults.overlap.pipeline", "of_chunks", ""},
    Former{"copies_output", "output_copy", "kept", "none"},
    Former{"copies_output_again", "output_copy", "made_again", ""},
    Former{"fused_layer_norm", "recipe.norm", "fused", "in_steps"},
    Former{"persistent_layer_norm", "recipe.norm", "persistent", "fused"},
    Former{"attention_layout_copies", "recipe.attention-in", "copied", "direct"},
    Former{"attention_unpads", "recipe.attention-in", "unpadded", "direct"},
    Former{"fused_optimizer", "recipe.optimizer", "fused", "in_steps"},
    Former{"separate_gradient_passes", "recipe.optimizer", "with_passes", "fused"},
    Former{"gradient_buckets_by_weight", "buckets.bucket_cut", "by_weight", "every_chunk"},
    Former{"allocates_gradients_late", "gradient_buffers", "on_demand", "held"},
    Former{"clears_gradients", "gradient_buffers", "held", "on_demand"},
    Former{"holds_last_inputs", "received_buffers", "last_held", "as_needed"},
    Former{"receives_apart", "received_buffers", "every_micro_batch", "as_needed"},
    Former{"overlap_pipeline_warmup", "message_phases", "all", "steady"},
    Former{"ends_slots", "message_phases", "slots", "all"},
    Former{"frees_end_unit", "units_kept", "none", "ends"},
    Former{"keeps_last_unit", "units_kept", "ends_and_last", "ends"},
    Former{"unfused_permutation", "defaults.experts.fused_permutation", "false", "true"},
    Former{"repeats_keys", "key_copies", "repeated", "none"},
    Former{"keeps_first_keys", "key_copies", "apart", "none"},
    Former{"copies_units", "unit_gathers", "copied", "in_place"},
    Former{"gathers_in_own_pool", "unit_gathers", "own_pool", "copied"},
    Former{"quantised_fetches", "fetched_as", "int8", "own_type"},
    Former{"quantised_reductions", "reduced_as", "int4", "own_type"},
    Former{"weighs_activations", "recipe.expert-weights", "on_activations", "on_outputs"},
    Former{"pads_experts", "recipe.expert-blocks", "copied", "as_they_come"},
    Former{"reduces_amax", "amax_reduction", "every_pass", "none"},
    Former{"host_reads_per_attention", "host.attention_reads_host", "", ""},
    Former{"host_read", "host.attention_reads_host", "", ""},
    Former{"loss_copies", "recipe.loss", "", ""},
    Former{"loss_gap", "recipe.loss", "", ""},
};

/// The names that lie above others: "host", "defaults", "defaults.overlap", "recipe".
const std::vector<std::string_view>& blocks() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> names;
    for (const sim::Key& key : software_keys()) {
      const std::string_view path = key.path;
      if (path.ends_with('*')) continue;
      for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
        const std::string_view name = path.substr(0, dot);
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
    return names;
  }();
  return all;
}

/// Where a key that is written by itself stands: one of a block that is written without it, or that has moved. Empty:
/// there.
std::string_view stands_at(std::string_view key) {
  static const std::unordered_map<std::string_view, std::string_view> all = [] {
    std::unordered_map<std::string_view, std::string_view> places;
    for (const sim::Key& one : software_keys()) {
      const std::string_view path = one.path;
      const std::size_t dot = path.find('.');
      const bool alone = dot != std::string_view::npos && path.find('.', dot + 1) == std::string_view::npos;
      if (alone && one.type != "mapping" && !path.starts_with("recipe.") && !path.ends_with('*'))
        places.emplace(path.substr(dot + 1), path);
    }
    for (const Moved& moved : kMoved) places.emplace(moved.key, moved.key_now);
    return places;
  }();
  const auto at = all.find(key);
  return at != all.end() ? at->second : std::string_view{};
}

const Former* former(std::string_view key) {
  static const std::unordered_map<std::string_view, const Former*> all = [] {
    std::unordered_map<std::string_view, const Former*> keys;
    for (const Former& one : kFormer) keys.emplace(one.key, &one);
    return keys;
  }();
  const auto at = all.find(key);
  return at != all.end() ? at->second : nullptr;
}

/// Writes `value`, which stands under `key`, where it stands now; false where it stands there.
bool put_present(Settings& document, const std::string& key, const Settings& value) {
  if (const std::string_view place = stands_at(key); !place.empty()) {
    if (const Settings* other = document.find_path(place))
      value.fail(fmt::format("given twice, first in line {}", std::min(other->place().line, value.place().line)));
    document.set_path(place, value);
    return true;
  }
  const Former* one = former(key);
  if (one == nullptr) return false;
  const bool wanted = !one->if_true.empty() || !one->if_false.empty() ? value.as_bool() : true;
  const std::string_view now = wanted ? one->if_true : one->if_false;
  if (now.empty()) value.fail(fmt::format("is no key any more, expected {}", one->key_now));
  // What was false beside another key of the same choice says nothing.
  if (wanted || document.find_path(one->key_now) == nullptr)
    document.set_path(one->key_now, Settings::scalar(std::string(now), value.place()));
  return true;
}

/// The path of what means `now` in `node`, which lies at `above` of a generation's document, as it is written there.
std::string spelled_below(const Settings& node, const std::string& above, std::string_view now) {
  for (const auto& [name, member] : node.members()) {
    const std::string path = above + name;
    if (present_key(path) == now) return path;
    if (!member.is_mapping() || !(name == "fitted" || is_block(path))) continue;
    if (std::string below = spelled_below(member, path + ".", now); !below.empty()) return below;
  }
  return "";
}

constexpr std::string_view kFitted = "fitted.";

}  // namespace

bool is_block(std::string_view key) {
  const std::vector<std::string_view>& all = blocks();
  return std::find(all.begin(), all.end(), key) != all.end();
}

std::string present_key(const std::string& key) {
  if (key.starts_with(kFitted)) return present_key(key.substr(kFitted.size()));
  const std::string_view place = stands_at(key);
  return place.empty() ? key : std::string(place);
}

void refuse_other_keys(const Settings& document, const std::vector<std::string>& keys) {
  const auto is_known = [&](const auto& member) {
    return std::find(keys.begin(), keys.end(), member.first) != keys.end();
  };
  if (std::all_of(document.members().begin(), document.members().end(), is_known)) return;
  std::vector<std::string> all = keys;
  for (const std::string& key : keys) {
    const std::string name = key.substr(key.find('.') + 1);
    if (!stands_at(name).empty()) all.push_back(name);
  }
  document.refuse_unknown(all);
}

std::string spelled_in(const Settings& generation, const std::string& key) {
  return generation.is_mapping() ? spelled_below(generation, "", present_key(key)) : "";
}

Settings with_present_keys(const Settings& document) {
  Settings out = document;
  if (!document.is_mapping()) return out;
  for (const auto& [key, value] : document.members()) {
    if (key == "fitted" && value.is_mapping()) {
      out.set(key, with_present_keys(value));
    } else if (put_present(out, key, value)) {
      out.erase(key);
    }
  }
  return out;
}

}  // namespace orrery::calibration
