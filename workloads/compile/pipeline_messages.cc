// Both ends of messages. See pipeline_messages.h.
#include "workloads/compile/pipeline_messages.h"

#include <algorithm>

namespace orrery::workloads {

bool MessageStyle::splits(bool gradient) const {
  const bool scatters = scatters_activations && (!gradient || scatters_gradients);
  return tensor > 1 && (sequence_parallel || scatters);
}

/// One end of a message with stage `other`; both ends must describe it alike. Every way and kind of message has
/// communicators and streams of its own: two stages need not see messages of different kinds in the same order.
const ProgramWriter::Transfer& PipelineMessages::message(const Pass& pass, std::int64_t other, bool sends) {
  const bool gradient = pass.kind != PassKind::forward, returns = stage_.map.returns(pass.chunk);
  const CommGroup groups[2][2] = {{CommGroup::activations, CommGroup::gradients},
                                  {CommGroup::return_activations, CommGroup::return_gradients}};
  // Links are numbered by the stage that activations leave, on the way down.
  const std::int64_t link = returns ? std::min(stage_.stage, other) : gradient == sends ? other : stage_.stage;
  std::optional<ProgramWriter::Transfer>& known = messages_[returns][gradient][sends];
  if (known && style_.carried_bytes.empty()) return *known;
  ProgramWriter::Transfer& t = known.emplace();
  t.group = groups[returns][gradient];
  t.end = sends ? End::sends : End::receives;
  const LayerRange& range = stage_.range(pass.chunk);
  const double bytes = style_.bytes_into(gradient, gradient != sends ? range.end : range.begin);
  t.issue = gradient ? style_.gradient_issue : style_.activation_issue;
  t.cost = prices_.message(bytes, prices_.shapes.pipeline_same_node[static_cast<std::size_t>(link)]);
  t.traffic = library_.traffic({t.group, CollectiveOp::send_receive,
                                gradient ? "activation gradients, backward" : "activations, forward", 2, bytes, bytes});
  return t;
}

std::optional<std::uint32_t> PipelineMessages::post(const Pass& pass, bool exposed) {
  if (pass.kind == PassKind::weight_gradient) return {};
  const Cell cell{stage_.stage, pass.chunk};
  const std::optional<Cell> source = pass.kind == PassKind::forward ? stage_.map.previous(cell) : stage_.map.next(cell);
  if (!source || source->stage == stage_.stage) return {};
  writer_.begin(pass);
  ProgramWriter::Transfer t = message(pass, source->stage, false);
  t.counts = false;  // the sender counts the message
  t.host_waits = style_.host_waits;
  return writer_.transfer(t, exposed ? writer_.after_compute() : std::span<const std::uint32_t>{});
}

void PipelineMessages::receive(const Pass& pass, std::optional<std::uint32_t> posted) {
  writer_.begin(pass);
  if (!posted) return;
  const bool gradient = pass.kind != PassKind::forward;
  if (!style_.gathers(gradient)) {
    writer_.next_waits_for(*posted);
    return;
  }
  // Scatter/gather (arXiv 2104.04473, section 4.1): each tensor rank carries a part across, NVLink puts it together.
  const double bytes = style_.bytes(gradient) * static_cast<double>(style_.tensor);
  ProgramWriter::Transfer gather{CommGroup::tensor};
  gather.cost = prices_.of(CollectiveOp::all_gather, bytes, CommGroup::tensor);
  gather.traffic = library_.traffic({CommGroup::tensor, CollectiveOp::all_gather, "pipeline message", style_.tensor,
                                     bytes, wire_bytes(CollectiveOp::all_gather, style_.tensor, bytes)});
  writer_.next_waits_for(writer_.transfer(gather, {&*posted, 1}));
}

void PipelineMessages::send(const Pass& pass, bool exposed) {
  writer_.begin(pass);
  if (pass.kind == PassKind::weight_gradient) return;
  const Cell cell{stage_.stage, pass.chunk};
  const std::optional<Cell> target = pass.kind == PassKind::forward ? stage_.map.next(cell) : stage_.map.previous(cell);
  if (!target || target->stage == stage_.stage) return;
  const std::span<const std::uint32_t> waits =
      style_.one_launch_queue ? writer_.ready_to_compute() : writer_.after_compute();
  const std::uint32_t op = writer_.transfer(message(pass, target->stage, true), waits);
  if (!style_.overlaps || exposed) writer_.next_waits_for(op);
}

}  // namespace orrery::workloads
