// The end of a step. See step_end.h.
#include "workloads/compile/step_end.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace orrery::workloads {

void add_weights(const StageLayout& stage, const DataParallelism& data, OptimizerKind optimizer,
                 UpdatedWeights& weights) {
  const double held = stage.parameters(data.held), shares = data.shares();
  weights.held += held;
  weights.updated += held / shares;
  if (!takes_matrices(optimizer)) return;
  const auto add = [&](const Weights& of) {
    weights.matrices += of.elements / shares;
    const auto same = [&](const SizedMatrices& m) { return m.rows == of.rows() && m.columns == of.columns; };
    auto found = std::find_if(weights.sizes.begin(), weights.sizes.end(), same);
    if (found == weights.sizes.end()) found = weights.sizes.insert(found, {of.rows(), of.columns, 0});
    found->number += of.copies / shares;
  };
  for (std::int64_t chunk = 0; chunk < stage.chunks(); ++chunk) {
    const LayerRange& range = stage.range(chunk);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      for (const Weights& of : stage.split.network.layer(i).weights) {
        const bool here = data.held == HeldPart::all || of.expert == (data.held == HeldPart::experts);
        if (here && of.is_matrix() && !of.frozen) add(of);
      }
    }
  }
}

void StepEnd::write(DataStreams& data) {
  writer_.end_passes();
  writer_.settle();
  for (DataStream& stream : data) stream.chunks.reduce_rest();
  UpdatedWeights weights;
  for (DataStream& stream : data) {
    stream.transfers.await_reductions();
    if (!stream.data.is_frozen()) add_weights(stage_, stream.data, style_.optimizer, weights);
  }
  const DataParallelism& whole = data.front().data;
  reduce_tied_embedding(whole);
  if (!style_.host.adds_up) norm_kernel(weights.updated * whole.bytes.gradient);
  reduce_norm();
  update(data, std::move(weights));
  for (DataStream& stream : data) {
    stream.chunks.gather_rest();
    if (stream.data.by_weight.on) stream.weights.gather_rest();
    if (!stream.data.is_frozen()) stream.transfers.gather_new(stage_.parameters(stream.data.held));
  }
}

/// What the device updates, and beside it the host: piece by piece a layer is one.
void StepEnd::update(DataStreams& data, UpdatedWeights weights) {
  const double updated = weights.updated;
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
  if (host.any() && host.in_backward) weights.held = 0;  // no gradients to clear
  writer_.compute(library_.compute(device_update(style_.optimizer, style_.precision, style_.kernels, host,
                                                 prices_.device, std::move(weights)),
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
