// The words of a generation's choices, as documents spell them.
#include <array>

#include "calibration/framework/software.h"

namespace orrery::calibration {

std::string_view name_of(Sharding sharding) {
  static constexpr std::array<std::string_view, 4> kNames{"none", "optimizer", "gradients", "parameters"};
  return kNames[static_cast<std::size_t>(sharding)];
}

std::string_view name_of(Recompute recompute) {
  static constexpr std::array<std::string_view, 3> kNames{"none", "selective", "full"};
  return kNames[static_cast<std::size_t>(recompute)];
}

namespace {
/// The word of a choice, which stand in the order of its enumeration.
template <class Enum, std::size_t N>
std::string_view word(Enum one, const std::array<std::string_view, N>& words) {
  return words[static_cast<std::size_t>(one)];
}
template <std::size_t N>
using Words = std::array<std::string_view, N>;
}  // namespace

std::string_view name_of(WeightGradients one) { return word(one, Words<3>{"apart", "fused", "fused_16bit"}); }
std::string_view name_of(QueryLayers one) { return word(one, Words<3>{"joint", "parted", "separate"}); }
std::string_view name_of(Casts one) {
  return word(one, Words<6>{"apart", "fused", "by_norms", "by_norms_and_activations", "scaled", "scaled_by_makers"});
}
std::string_view name_of(RotatedColumns one) { return word(one, Words<2>{"with_rows", "apart"}); }
std::string_view name_of(BucketCut one) {
  return word(one, Words<4>{"every_chunk", "by_weight", "first_chunk", "as_model"});
}
std::string_view name_of(ShardReduction one) { return word(one, Words<3>{"scatter", "all_reduce", "all_reduce_last"}); }
std::string_view name_of(GradientPasses one) { return word(one, Words<3>{"once", "every_pass", "to_owners"}); }
std::string_view name_of(AmaxReduction one) { return word(one, Words<2>{"none", "every_pass"}); }
std::string_view name_of(TrainingGradients one) { return word(one, Words<3>{"dropped", "held", "kept"}); }
std::string_view name_of(Fetches one) { return word(one, Words<3>{"by_unit", "by_weight", "by_weight_drained"}); }
std::string_view name_of(UnitReduction one) { return word(one, Words<3>{"every_pass", "groups_once", "last_pass"}); }
std::string_view name_of(ScatteredMessages one) { return word(one, Words<3>{"none", "activations", "both"}); }
std::string_view name_of(OptimizerStates one) { return word(one, Words<3>{"fp32", "moments_16bit", "as_weights"}); }
std::string_view name_of(OffloadedGradients one) {
  return word(one, Words<3>{"behind_passes", "in_passes", "added_by_host"});
}
std::string_view name_of(PipelineOverlap one) { return word(one, Words<3>{"never", "of_chunks", "always"}); }
std::string_view name_of(GradientBuffers one) { return word(one, Words<2>{"held", "on_demand"}); }
std::string_view name_of(ReceivedBuffers one) {
  return word(one, Words<3>{"as_needed", "last_held", "every_micro_batch"});
}
std::string_view name_of(MessagePhases one) { return word(one, Words<3>{"all", "steady", "slots"}); }
std::string_view name_of(KeptUnits one) { return word(one, Words<3>{"ends", "ends_and_last", "none"}); }
std::string_view name_of(KeyCopies one) { return word(one, Words<3>{"none", "apart", "repeated"}); }
std::string_view name_of(UnitGathers one) { return word(one, Words<3>{"in_place", "copied", "own_pool"}); }
std::string_view name_of(FetchedAs one) { return word(one, Words<2>{"own_type", "int8"}); }
std::string_view name_of(ReducedAs one) { return word(one, Words<2>{"own_type", "int4"}); }
std::string_view name_of(OutputCopy one) { return word(one, Words<3>{"none", "kept", "made_again"}); }

std::string_view name_of(AttentionKind attention) { return attention == AttentionKind::flash ? "flash" : "unfused"; }

std::string_view name_of(ChecksCalls jobs) {
  static constexpr std::array<std::string_view, 3> kNames{"between_nodes", "always", "never"};
  return kNames[static_cast<std::size_t>(jobs)];
}

std::string_view name_of(Graphs graphs) {
  static constexpr std::array<std::string_view, 4> kNames{"none", "router", "ahead_of_counts", "mixers"};
  return kNames[static_cast<std::size_t>(graphs)];
}

std::string_view name_of(LayerSharing sharing) {
  static constexpr std::array<std::string_view, 3> kNames{"even", "fill", "weigh"};
  return kNames[static_cast<std::size_t>(sharing)];
}

}  // namespace orrery::calibration
