// What an operation belongs to: a stream of its GPU (Op::stream), and a category of time (Op::category).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace orrery::workloads {

/// What exposed time is attributed to, and what operations belong to (Op::category).
enum class Category : std::uint8_t {
  compute,
  tensor_comm,
  pipeline_comm,
  data_comm,
  context_comm,
  expert_comm,
  table_comm,    // vectors of embedding tables
  bubble,        // waiting for other stages of the pipeline
  partner_wait,  // waiting for ranks of the same stage
  optimizer,
  slow_gpu,  // what a slow GPU's kernels take beyond those of a healthy one
  host,      // waiting for the host: launches, counts of tokens, what it does ahead of a step or a micro-batch
  other,     // what is left: the exchange of the gradients' norm
  host_copy  // copies of gradients and parameters to the host's memory and from it
};
inline constexpr std::size_t kCategories = 14;
std::string_view name_of(Category category);

/// A stream of a GPU. The list is open: a new one is a name here and in all_streams(). Activations travel forward and
/// gradients backward on pipeline streams of their own, so that neither queues behind the other.
struct Stream {
  std::uint8_t order = 0;  // among all streams: its number in Op::stream, and where readers show it
  std::string_view name;
  bool sends = false;  // messages to another stage
  constexpr bool operator==(const Stream& other) const { return order == other.order; }

  static const Stream compute, tensor, data;
  static const Stream pipeline_send, pipeline_receive, pipeline_send_gradient, pipeline_receive_gradient;
  /// Of chunks that run from the last stage to the first.
  static const Stream return_send, return_receive, return_send_gradient, return_receive_gradient;
  static const Stream context, expert;
  static const Stream expert_data;  // as `data`, of routed experts
  static const Stream tables;
  static const Stream to_host, from_host, host_update;  // copies to the host's memory and from it, and its update
};

inline constexpr Stream Stream::compute{0, "compute"};
inline constexpr Stream Stream::tensor{1, "tensor collective"};
inline constexpr Stream Stream::data{2, "data collective"};
inline constexpr Stream Stream::pipeline_send{3, "pipeline send", true};
inline constexpr Stream Stream::pipeline_receive{4, "pipeline receive"};
inline constexpr Stream Stream::pipeline_send_gradient{5, "pipeline send (gradient)", true};
inline constexpr Stream Stream::pipeline_receive_gradient{6, "pipeline receive (gradient)"};
inline constexpr Stream Stream::return_send{7, "pipeline send (returning)", true};
inline constexpr Stream Stream::return_receive{8, "pipeline receive (returning)"};
inline constexpr Stream Stream::return_send_gradient{9, "pipeline send (returning gradient)", true};
inline constexpr Stream Stream::return_receive_gradient{10, "pipeline receive (returning gradient)"};
inline constexpr Stream Stream::context{11, "context collective"};
inline constexpr Stream Stream::expert{12, "expert collective"};
inline constexpr Stream Stream::expert_data{13, "expert data collective"};
inline constexpr Stream Stream::tables{14, "table exchange"};
inline constexpr Stream Stream::to_host{15, "copy to host"};
inline constexpr Stream Stream::from_host{16, "copy from host"};
inline constexpr Stream Stream::host_update{17, "update by host"};

/// In order: the stream of number i is all_streams()[i].
std::span<const Stream> all_streams();

}  // namespace orrery::workloads
