// Names of the groups of ranks that communicate: what layers, transfers and the rows of the communication table speak
// of. The list is open: a new group is a name here and its entry in comm_groups.cc, which says who is in it.
#pragma once

#include <cstdint>
#include <string_view>

namespace orrery::workloads {

struct CommGroup {
  std::uint8_t order = 0xff;   // every group's own
  std::string_view name;       // of its rows in the communication table
  bool across_stages = false;  // its members belong to several stages of the pipeline
  constexpr bool operator==(const CommGroup& other) const { return order == other.order; }

  static const CommGroup tensor;
  static const CommGroup data;       // the ranks that share out a state, or all replicas
  static const CommGroup replicate;  // those of other such groups that hold the same part
  static const CommGroup activations, gradients;
  /// Of chunks that run from the last stage to the first: activations to the stage before, gradients to the one after.
  static const CommGroup return_activations, return_gradients;
  static const CommGroup context;
  static const CommGroup embedding;
  static const CommGroup norm;  // of the gradients
  /// Ranks of the tensor and the data group together, whose largest magnitudes make the scales of fp8 tensors.
  static const CommGroup scales;
  static const CommGroup expert;         // the ranks that share out the experts of a layer
  static const CommGroup expert_tensor;  // those that an expert is cut over
  /// Ranks that hold the same experts: as `data` and `replicate` are those that hold the same of everything else.
  static const CommGroup expert_data, expert_replicate;
  /// Ranks that share out embedding tables, of each node the one at the same place where these share them out further;
  /// and the ranks of a node that do.
  static const CommGroup tables, tables_node;
  /// Of a tensor group cut in two dimensions (arXiv 2305.13525): ranks that hold parts of the same inputs of a
  /// column-parallel layer, and those that hold parts of its outputs.
  static const CommGroup tensor_in, tensor_out;
  /// Where passes go to fewer ranks than share out a state: those that share out the weights, and those of other such
  /// groups that hold the same part, which hand out new weights after a step; likewise of gradients, which are added up
  /// between groups at the end; and those of a second copy of the weights (ZeRO++ hpZ, arXiv 2306.10209).
  static const CommGroup weights, new_weights, partial_gradients, gradient_parts, secondary_weights;
  /// A rank by itself: its copies to the host's memory and from it, and the host's own work there.
  static const CommGroup to_host, from_host, host;
};

inline constexpr CommGroup CommGroup::tensor{0, "tensor"};
inline constexpr CommGroup CommGroup::data{1, "data"};
inline constexpr CommGroup CommGroup::replicate{2, "data"};
inline constexpr CommGroup CommGroup::activations{3, "pipeline", true};
inline constexpr CommGroup CommGroup::gradients{4, "pipeline", true};
inline constexpr CommGroup CommGroup::return_activations{5, "pipeline", true};
inline constexpr CommGroup CommGroup::return_gradients{6, "pipeline", true};
inline constexpr CommGroup CommGroup::context{7, "context"};
inline constexpr CommGroup CommGroup::embedding{8, "embedding", true};
inline constexpr CommGroup CommGroup::norm{9, "norm", true};
inline constexpr CommGroup CommGroup::scales{10, "norm"};
inline constexpr CommGroup CommGroup::expert{11, "expert"};
inline constexpr CommGroup CommGroup::expert_tensor{12, "expert_tensor"};
inline constexpr CommGroup CommGroup::expert_data{13, "expert_data"};
inline constexpr CommGroup CommGroup::expert_replicate{14, "expert_data"};
inline constexpr CommGroup CommGroup::tables{15, "tables"};
inline constexpr CommGroup CommGroup::tables_node{16, "tables"};
inline constexpr CommGroup CommGroup::tensor_in{17, "tensor"};
inline constexpr CommGroup CommGroup::tensor_out{18, "tensor"};
inline constexpr CommGroup CommGroup::weights{19, "data"};
inline constexpr CommGroup CommGroup::new_weights{20, "data"};
inline constexpr CommGroup CommGroup::partial_gradients{21, "data"};
inline constexpr CommGroup CommGroup::gradient_parts{22, "data"};
inline constexpr CommGroup CommGroup::secondary_weights{23, "data"};
inline constexpr CommGroup CommGroup::to_host{24, "host"};
inline constexpr CommGroup CommGroup::from_host{25, "host"};
inline constexpr CommGroup CommGroup::host{26, "host"};

}  // namespace orrery::workloads
