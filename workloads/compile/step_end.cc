// The end of a step. See step_end.h.
#include "workloads/compile/step_end.h"

#include <algorithm>
#include <vector>

namespace orrery::workloads {

void StepEnd::write(DataStreams& data) {
  writer_.end_passes();
  writer_.settle();
  for (DataStream& stream : data) stream.chunks.reduce_rest();
  double parameters = 0, updated = 0;
  for (DataStream& stream : data) {
    stream.transfers.await_reductions();
    const double held = stage_.parameters(stream.data.held);
    parameters += held;
    updated += held / stream.data.shares();
  }
  const DataParallelism& whole = data.front().data;
  reduce_tied_embedding(whole);
  if (!style_.host.adds_up) norm_kernel(updated * whole.bytes.gradient);
  reduce_norm();
  update(data, parameters, updated);
  for (DataStream& stream : data) {
    stream.chunks.gather_rest();
    if (stream.data.by_weight.on) stream.weights.gather_rest();
    stream.transfers.gather_new(stage_.parameters(stream.data.held));
  }
}

/// What the device updates, and beside it the host: piece by piece a layer is one.
void StepEnd::update(DataStreams& data, double parameters, double updated) {
  const HostCopies& host = style_.host;
  HostLane lane(host, library_, writer_);
  const std::int64_t pieces = host.states.overlaps ? std::max<std::int64_t>(1, stage_.blocks()) : 1;
  std::vector<std::uint32_t> left;
  for (const DataStream& stream : data) {
    if (stream.transfers.last_copy() != DataTransfers::kNoTransfer) left.push_back(stream.transfers.last_copy());
  }
  if (host.any() && host.in_backward) {
    const std::span<const std::uint32_t> ready = writer_.ready_to_compute();  // the norm, by which the host clips
    left.insert(left.end(), ready.begin(), ready.end());
  }
  if (host.any() && !host.in_backward) lane.send_gradients(updated, pieces);
  const double cleared = host.any() && host.in_backward ? 0 : parameters;
  writer_.compute(library_.compute(device_update(style_.optimizer, style_.precision, style_.kernels, host,
                                                 prices_.device, cleared, updated),
                                   -1),
                  Category::optimizer);
  if (host.any()) writer_.next_waits_for(lane.update(updated, pieces, left));
}

void StepEnd::norm_kernel(double gradient_bytes) {
  Kernel norm{"gradient norm"};
  norm.bytes = gradient_bytes;
  norm.time = prices_.device.streaming(calibration::Streaming::gradient_norm, norm.bytes);
  writer_.compute(library_.compute({norm}, -1), Category::optimizer);
}

/// First and last stage hold the same word embedding and add up its gradients.
void StepEnd::reduce_tied_embedding(const DataParallelism& data) {
  if (!style_.ties_ends || (stage_.stage != 0 && stage_.stage != stage_.stages() - 1)) return;
  const double shares = data.shards_parameters() ? static_cast<double>(data.owners) : 1.0;
  const double bytes = stage_.split.network.tied_elements * data.bytes.gradient / shares;
  ProgramWriter::Transfer t{CommGroup::embedding};
  t.issue = library_.call_of(CommGroup::embedding);
  t.cost = prices_.of(CollectiveOp::all_reduce, bytes, CommGroup::embedding);
  t.traffic = library_.traffic({CommGroup::embedding, CollectiveOp::all_reduce, "tied embedding gradients", 2, bytes,
                                wire_bytes(CollectiveOp::all_reduce, 2, bytes)});
  writer_.next_waits_for(writer_.transfer(t, writer_.after_compute()));
}

/// The norm is summed over every rank that holds a part of the gradients.
void StepEnd::reduce_norm() {
  const std::int64_t ranks = prices_.shapes[CommGroup::norm].ranks;
  if (ranks == 1) return;
  ProgramWriter::Transfer t{CommGroup::norm};
  t.issue = library_.call_of(CommGroup::norm);
  t.host_waits = style_.waits_for_norm;
  if (!style_.waits_for_norm) t.stream = Stream::pipeline_send;
  t.cost = prices_.of_signal(CollectiveOp::all_reduce, 4, CommGroup::norm);
  t.traffic = library_.traffic({CommGroup::norm, CollectiveOp::all_reduce, "gradient norm", ranks, 4,
                                wire_bytes(CollectiveOp::all_reduce, ranks, 4)});
  const std::uint32_t op = writer_.transfer(t, writer_.after_compute());
  if (style_.waits_for_norm) writer_.next_waits_for(op);
}

}  // namespace orrery::workloads
