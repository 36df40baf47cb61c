// Where gradients are reduced and parameters gathered. See data_collectives.h.
#include "workloads/compile/data_collectives.h"

#include <algorithm>
#include <cmath>

namespace orrery::workloads {

namespace {
std::size_t chunk_index(std::int32_t i) { return static_cast<std::size_t>(i); }
}  // namespace

DataCollectives::DataCollectives(const DataParallelism& data, const StageLayout& stage, DataTransfers& transfers,
                                 ProgramWriter& writer, bool gathers)
    : data_(data),
      stage_(stage),
      transfers_(transfers),
      writer_(writer),
      gathers_overlap_(gathers && data.replicas > 1 && data.shards() && !data.by_unit && data.overlaps_parameters) {}

void DataCollectives::plan(const std::vector<Pass>& passes) {
  gathers_.assign(static_cast<std::size_t>(stage_.chunks()), {});
  for (const Pass& pass : passes) {
    if (pass.kind == PassKind::forward) forward_order_.push_back(pass.chunk);
  }
}

/// Parameters that fill a bucket; 0: all those of the chunk.
double DataCollectives::bucket_parameters(sim::Bytes bucket, double bytes_each, std::int32_t chunk) const {
  const calibration::BucketPolicy& policy = data_.buckets;
  if (policy.cut == calibration::BucketCut::as_model) {
    const double blocks = static_cast<double>(stage_.blocks(stage_.range(chunk)));
    return stage_.chunks() > 1 || blocks == 0 ? 0
                                              : stage_.split.block_parameters(stage_.range(chunk), data_.held) / blocks;
  }
  // The first block of the model, whichever stages hold it: all that do must cut it alike.
  const bool cut = policy.cut != calibration::BucketCut::first_chunk || stage_.is_first_block(chunk);
  if (bucket.value() == 0 || !cut) return 0;
  return std::max(static_cast<double>(bucket.value()) / bytes_each,
                  policy.bucket_elements_per_rank * static_cast<double>(data_.replicas));
}

/// A bucket is closed after the layer that fills it; the last one takes the rest of the chunk. Where buckets follow the
/// model every layer closes one.
std::vector<DataCollectives::Bucket> DataCollectives::buckets(const LayerRange& range, const PassTemplate& passes,
                                                              PassKind kind) const {
  if (data_.by_unit) return {};
  if (data_.replicas == 1) return transfers_.leaves() ? buckets_by_layer(range, passes, kind) : std::vector<Bucket>{};
  if (!data_.overlaps_gradients) return {};
  if (data_.buckets.closes_by_weight()) return buckets_by_weight(range, passes, kind);
  const LayerSplit& split = stage_.split;
  const double target = bucket_parameters(data_.buckets.gradient_bucket, data_.bytes.gradient, writer_.pass().chunk);
  std::vector<Bucket> buckets;
  std::int64_t first_block = range.begin;
  while (first_block < range.end && !split.is_block(first_block)) ++first_block;
  double filled = 0;
  for (std::int64_t layer = range.end; layer-- > range.begin;) {
    filled += split.parameters_of(layer, data_.held);
    const bool full = target > 0 && (data_.buckets.cut == calibration::BucketCut::as_model || filled >= target);
    if (full && layer > first_block && split.is_block(layer)) {
      buckets.push_back({passes.layer_done(kind)[static_cast<std::size_t>(layer - range.begin)], filled});
      filled = 0;
    }
  }
  if (filled > 0) buckets.push_back({passes.of(kind).size(), filled});
  return buckets;
}

/// What leaves for the host of a layer's gradients, which nobody else has.
std::vector<DataCollectives::Bucket> DataCollectives::buckets_by_layer(const LayerRange& range,
                                                                       const PassTemplate& passes,
                                                                       PassKind kind) const {
  std::vector<Bucket> buckets;
  for (std::int64_t layer = range.end; layer-- > range.begin;) {
    const double held = stage_.split.parameters_of(layer, data_.held);
    if (held > 0) buckets.push_back({passes.layer_done(kind)[static_cast<std::size_t>(layer - range.begin)], held});
  }
  return buckets;
}

/// A bucket is closed behind the weight that fills it (pytorch/pytorch, torch/csrc/distributed/c10d/reducer.cpp,
/// compute_bucket_assignment_by_size, in the order in which gradients were ready in the first step); what of a layer no
/// linear layer has is ready with the layer. Left out: that products of one input are weights each by itself.
std::vector<DataCollectives::Bucket> DataCollectives::buckets_by_weight(const LayerRange& range,
                                                                        const PassTemplate& passes,
                                                                        PassKind kind) const {
  const std::vector<PassItem>& items = passes.of(kind);
  const std::int32_t chunk = writer_.pass().chunk;
  const double target = bucket_parameters(data_.buckets.gradient_bucket, data_.bytes.gradient, chunk);
  double full = target;
  if (target > 0 && data_.buckets.first_gradient_bucket.value() > 0)
    full = static_cast<double>(data_.buckets.first_gradient_bucket.value()) / data_.bytes.gradient;
  std::vector<Bucket> buckets;
  double filled = 0;
  const auto ready = [&](double parameters, std::size_t after_items) {
    filled += parameters;
    if (target <= 0 || filled < full) return;
    buckets.push_back({after_items, filled});
    filled = 0;
    full = target;
  };
  std::size_t begin = 0;
  for (std::int64_t place = range.size(); place-- > 0;) {
    const std::size_t end = passes.layer_done(kind)[static_cast<std::size_t>(place)];
    double left = stage_.split.parameters_of(range.begin + place, data_.held);
    for (std::size_t i = begin; i < end; ++i) {
      const WeightsUsed& weights = items[i].weights;
      const bool again = std::any_of(items.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                     items.begin() + static_cast<std::ptrdiff_t>(end),
                                     [&](const PassItem& item) { return item.weights.linear == weights.linear; });
      if (weights.linear < 0 || again || weights.elements > left) continue;
      left -= weights.elements;
      ready(weights.elements, i + 1);
    }
    ready(left, end);
    begin = end;
  }
  if (filled > 0) buckets.push_back({items.size(), filled});
  return buckets;
}

/// With one queue for all streams, what follows waits until this reduction begins, which the one before it keeps back.
void DataCollectives::write_reduction(double parameters) {
  if (data_.buckets.one_launch_queue) transfers_.await_reductions();
  transfers_.reduce(parameters * data_.bytes.reduced);
  transfers_.leave(parameters);
}

/// In step, a reduction on stage s is put off by the s backward passes that stage 0 lags behind.
void DataCollectives::reduce(double parameters) {
  if (data_.replicas == 1)
    transfers_.leave(parameters);
  else if (in_step())
    put_off_.push_back({writer_.pass(), backward_passes_ + stage_.stage, parameters});
  else
    write_reduction(parameters);
}

void DataCollectives::after_backward() {
  while (!put_off_.empty() && put_off_.front().due <= backward_passes_) reduce_put_off();
  ++backward_passes_;
}

void DataCollectives::reduce_put_off() {
  const Pass at = writer_.pass();
  writer_.begin(put_off_.front().pass);
  write_reduction(put_off_.front().parameters);
  put_off_.erase(put_off_.begin());
  writer_.begin(at);
}

void DataCollectives::reduce_rest() {
  while (!put_off_.empty()) reduce_put_off();
  if (data_.replicas == 1 || data_.by_unit || data_.overlaps_gradients) return;
  const std::vector<std::int32_t> chunks = stage_.chunks_by_block();
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    writer_.begin({PassKind::forward, *chunk, -1});
    const double parameters = stage_.split.parameters(stage_.range(*chunk), data_.held);
    if (parameters > 0 || !data_.of_experts()) {
      transfers_.reduce(parameters * data_.bytes.reduced);
      transfers_.leave(parameters);
    }
  }
  writer_.end_passes();
}

void DataCollectives::gather_ahead() {
  if (!gathers_overlap_) return;
  std::vector<std::int32_t> chunks = stage_.chunks_by_block();
  if (in_step()) chunks.resize(2);  // megatron/core/pipeline_parallel/schedules.py: the first two at once
  for (const std::int32_t chunk : chunks) gathers_[chunk_index(chunk)] = gather_chunk(chunk, {});
}

/// When stage 0 enters a chunk, which is s forward passes before stage s does, the next chunk's parameters are
/// gathered.
void DataCollectives::before_forward() {
  const std::size_t ahead = forward_passes_++ + static_cast<std::size_t>(stage_.stage);
  if (!in_step() || !gathers_overlap_ || ahead >= forward_order_.size()) return;
  const auto now = forward_order_.begin() + static_cast<std::ptrdiff_t>(ahead);
  if (std::find(forward_order_.begin(), now, *now) != now) return;  // entered before
  const std::vector<std::int32_t> chunks = stage_.chunks_by_block();
  const auto entered = std::find(chunks.begin(), chunks.end(), *now);
  if (entered + 1 == chunks.end() || gathered_ahead(entered[1])) return;
  const Pass at = writer_.pass();
  gathers_[chunk_index(entered[1])] = gather_chunk(entered[1], writer_.after_compute());
  writer_.begin(at);
}

/// All-gathers the parameters of one chunk, bucket by bucket, in the order in which the forward pass uses them.
std::vector<std::uint32_t> DataCollectives::gather_chunk(std::int32_t chunk, std::span<const std::uint32_t> waits) {
  writer_.begin({PassKind::forward, chunk, -1});
  const double bytes = stage_.split.parameters(stage_.range(chunk), data_.held) * data_.bytes.parameter;
  const double bucket =
      bucket_parameters(data_.buckets.parameter_bucket, data_.bytes.parameter, chunk) * data_.bytes.parameter;
  const auto parts = bucket > 0 ? std::max<std::int64_t>(1, std::llround(bytes / bucket)) : 1;
  std::vector<std::uint32_t> gathers;
  if (data_.of_experts() && bytes == 0) return gathers;
  for (std::int64_t i = 0; i < parts; ++i)
    gathers.push_back(transfers_.gather(bytes / static_cast<double>(parts), waits));
  return gathers;
}

void DataCollectives::await_parameters(const LayerRange& range, std::int32_t layer, std::size_t& awaited) {
  const std::vector<std::uint32_t>& gathers = gathers_[chunk_index(writer_.pass().chunk)];
  if (awaited >= gathers.size()) return;
  const double all = stage_.split.parameters(range, data_.held);
  const double needed = stage_.split.parameters({range.begin, range.begin + layer + 1}, data_.held);
  const auto buckets = static_cast<double>(gathers.size());
  const auto through = std::min(gathers.size(), static_cast<std::size_t>(std::ceil(needed / all * buckets - 1e-9)));
  if (through <= awaited) return;
  writer_.next_waits_for(gathers[through - 1]);  // buckets arrive in order
  awaited = through;
}

void DataCollectives::gather_rest() {
  if (data_.replicas == 1 || !data_.shards() || data_.by_unit || data_.overlaps_parameters) return;
  for (const std::int32_t chunk : stage_.chunks_by_block()) gather_chunk(chunk, writer_.ready_to_compute());
}

}  // namespace orrery::workloads
