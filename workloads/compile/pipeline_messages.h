// Messages between pipeline stages: what each carries, what it costs, and whether a stage waits for it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/compile/layer_split.h"
#include "workloads/compile/program_writer.h"

namespace orrery::workloads {

/// What messages carry, and how software and schedule treat them.
struct MessageStyle {
  double whole_bytes = 0;  // activations of a micro-batch between two layers, all tensor ranks together
  /// Beside these what blocks from one on read of blocks ahead of it, by the block; empty: nothing (carried.h). Tensor
  /// ranks hold parts of it.
  std::vector<double> carried_bytes = {};
  std::int64_t tensor = 1;  // ranks
  bool sequence_parallel = false;
  bool scatters_activations = false, scatters_gradients = false;  // each tensor rank carries a part
  bool overlaps = false;                                          // the next pass need not wait for its delivery
  bool exposes_alike = false;     // but between two passes of one kind, that is in warm-up and cool-down, it does
  bool host_waits = false;        // for every message that it receives
  bool one_launch_queue = false;  // what is sent begins no earlier than a computation launched there would
  sim::Duration activation_issue{}, gradient_issue{};  // host time of either end of a message
  /// How many passes early receives are posted. A stage that waits for the delivery of what it sends, and whose host
  /// waits inside its passes, would else post what its neighbour waits for too late, and both would wait forever.
  std::size_t posts_ahead = 0;

  /// The schedule, where what is sent to a stage in a time slot is waited for at its end.
  const Schedule* ends_slots_of = nullptr;

  /// Whether each tensor rank carries a part, and the bytes that one of them carries.
  bool splits(bool gradient) const;
  double bytes(bool gradient) const {
    return splits(gradient) ? whole_bytes / static_cast<double>(tensor) : whole_bytes;
  }
  /// Of the message into the layer of the network, the embedding being the first.
  double bytes_into(bool gradient, std::int64_t layer) const {
    const double more = carried_bytes.empty() ? 0 : carried_bytes[static_cast<std::size_t>(layer - 1)];
    return bytes(gradient) + more / static_cast<double>(tensor);
  }
  /// Parts arrive that NVLink has to put together.
  bool gathers(bool gradient) const { return splits(gradient) && !sequence_parallel; }
};

class PipelineMessages {
 public:
  /// Writes to `writer`; all arguments must stay valid.
  PipelineMessages(const MessageStyle& style, const StageLayout& stage, const CollectivePrices& prices,
                   TemplateLibrary& library, ProgramWriter& writer)
      : style_(style), stage_(stage), prices_(prices), library_(library), writer_(writer) {}

  /// Whether messages between two passes of a stage are waited for though others are hidden: software that waits for
  /// the messages of a forward pass before its next forward pass hides them behind the backward pass between the two,
  /// and where there is none, in warm-up and cool-down, behind nothing.
  bool exposes(const Pass& pass, const Pass& next) const { return style_.exposes_alike && pass.kind == next.kind; }
  std::size_t posts_ahead() const { return style_.posts_ahead; }
  /// Posts the message that the pass waits for: its operation, or nothing where there is none. `exposed`: when the pass
  /// before is done, not ahead.
  std::optional<std::uint32_t> post(const Pass& pass, bool exposed);
  /// The pass waits for what was posted.
  void receive(const Pass& pass, std::optional<std::uint32_t> posted);
  /// What the pass hands on. `exposed`: the next pass starts when the message is delivered.
  void send(const Pass& pass, bool exposed);

 private:
  const ProgramWriter::Transfer& message(const Pass& pass, std::int64_t other, bool sends);

  const MessageStyle& style_;
  const StageLayout& stage_;
  const CollectivePrices& prices_;
  TemplateLibrary& library_;
  ProgramWriter& writer_;
  std::optional<ProgramWriter::Transfer> messages_[2][2][2];  // [returns][gradient][sends]
};

}  // namespace orrery::workloads
