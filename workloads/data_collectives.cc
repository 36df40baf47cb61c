// Where gradients are reduced and parameters gathered. See data_collectives.h.
#include "workloads/data_collectives.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "workloads/unit_overlap.h"

namespace orrery::workloads {

namespace {
std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
}  // namespace

DataCollectives::DataCollectives(const Job& job, const LayerSplit& split, const GroupShapes& shapes,
                                 const topology::Cluster& cluster, TemplateLibrary& library, ProgramWriter& writer,
                                 std::int64_t stage, bool evaluation)
    : job_(job),
      split_(split),
      shapes_(shapes),
      cluster_(cluster),
      library_(library),
      writer_(writer),
      map_(job.parallelism.chunk_map()),
      stage_(stage),
      chunks_(job.parallelism.virtual_pipeline),
      evaluation_(evaluation),
      data_ranks_(job.replicas()),
      shard_ranks_(job.shard_ranks()),
      sharded_(job.parallelism.sharding != Sharding::none),
      full_shard_(job.parallelism.sharding == Sharding::parameters && data_ranks_ > 1),
      by_unit_(works_by_unit(job)),
      to_owners_(reduces_every_pass(job) && job.software.gradients.reduces_to_owners),
      gradient_bytes_(calibration::bytes_of(job.precision.gradients)),
      parameter_bytes_(calibration::bytes_of(job.precision.parameters)) {}

void DataCollectives::plan(const std::vector<Pass>& passes) {
  gathers_.assign(static_cast<std::size_t>(chunks_), {});
  gradients_left_.assign(static_cast<std::size_t>(chunks_), 0);
  for (const Pass& pass : passes) {
    gradients_left_[index(pass.chunk)] += ends_microbatch(pass.kind);
    if (pass.kind == PassKind::forward) forward_order_.push_back(pass.chunk);
  }
}

std::vector<std::int32_t> DataCollectives::chunks_by_block() const {
  std::vector<std::int32_t> chunks(static_cast<std::size_t>(chunks_));
  std::iota(chunks.begin(), chunks.end(), 0);
  std::sort(chunks.begin(), chunks.end(), [&](std::int32_t a, std::int32_t b) {
    return map_.block_of({stage_, a}) < map_.block_of({stage_, b});
  });
  return chunks;
}

bool DataCollectives::completes_gradients(const Pass& pass) {
  return ends_microbatch(pass.kind) && --gradients_left_[index(pass.chunk)] == 0;
}

bool DataCollectives::overlaps_gathers() const {
  return data_ranks_ > 1 && sharded_ && !by_unit_ && job_.overlap.parameters;
}

/// Parameters that fill a bucket; 0: all those of the chunk.
double DataCollectives::bucket_parameters(sim::Bytes bucket, double bytes_each, std::int32_t chunk) const {
  const calibration::Software& software = job_.software;
  if (software.buckets.buckets_follow_model) return chunks_ > 1 ? 0 : parameters(split_.block());
  // The first block of the model, whichever stages hold it: all that do must cut it alike.
  const bool cut = !software.buckets.buckets_first_chunk_only || map_.block_of({stage_, chunk}) == 0;
  if (bucket.value() == 0 || !cut) return 0;
  return std::max(static_cast<double>(bucket.value()) / bytes_each,
                  software.buckets.bucket_elements_per_rank * static_cast<double>(data_ranks_));
}

/// A bucket is closed after the layer that fills it; the last one takes the rest of the chunk.
std::vector<DataCollectives::Bucket> DataCollectives::buckets(const LayerRange& range, const PassTemplate& passes,
                                                              PassKind kind) const {
  if (data_ranks_ == 1 || !job_.overlap.gradients || by_unit_ || evaluation_) return {};
  const double target = bucket_parameters(job_.software.buckets.gradient_bucket, gradient_bytes_, writer_.pass().chunk);
  std::vector<Bucket> buckets;
  const auto is_block = [&](std::int64_t layer) { return split_.network.layer(layer).kind == LayerKind::block; };
  std::int64_t first_block = range.begin;
  while (first_block < range.end && !is_block(first_block)) ++first_block;
  double filled = 0;
  for (std::int64_t layer = range.end; layer-- > range.begin;) {
    filled += split_.parameters_of(layer);
    if (target > 0 && filled >= target && layer > first_block && is_block(layer)) {
      buckets.push_back({passes.layer_done(kind)[static_cast<std::size_t>(layer - range.begin)], filled});
      filled = 0;
    }
  }
  if (filled > 0) buckets.push_back({passes.of(kind).size(), filled});
  return buckets;
}

ProgramWriter::Transfer DataCollectives::transfer(CollectiveOp op, double bytes, const char* what) {
  ProgramWriter::Transfer t{CommGroup::data};
  t.cost = collective_cost(op, bytes, shapes_[CommGroup::data], job_.device, job_.software, cluster_);
  t.traffic = library_.traffic({CommGroup::data, op, what, shard_ranks_, bytes, wire_bytes(op, shard_ranks_, bytes)});
  beside_ += seconds_alone(t.cost, shapes_[CommGroup::data], cluster_);
  return t;
}

/// Gradients are reduced among those that share them out, then each part across the groups that repeat it.
void DataCollectives::reduce_bytes(double bytes) {
  const CollectiveOp op = all_reduces_gradients(job_) ? CollectiveOp::all_reduce : CollectiveOp::reduce_scatter;
  ProgramWriter::Transfer reduction = transfer(op, bytes, "gradients, backward");
  if (to_owners_)
    reduction.cost =
        owner_reductions(bytes / gradient_bytes_, split_.block(), job_, shapes_[CommGroup::data], cluster_);
  last_reduction_ = writer_.transfer(reduction, writer_.after_compute());
  if (shard_ranks_ == data_ranks_ || (to_owners_ && gradients_left_[index(writer_.pass().chunk)] > 0)) return;
  const double part = bytes / static_cast<double>(shard_ranks_);
  const std::int64_t groups = data_ranks_ / shard_ranks_;
  ProgramWriter::Transfer t{CommGroup::replicate};
  t.cost = collective_cost(CollectiveOp::all_reduce, part, shapes_[CommGroup::replicate], job_.device, job_.software,
                           cluster_);
  t.traffic = library_.traffic({CommGroup::replicate, CollectiveOp::all_reduce, "gradients, between shard groups",
                                groups, part, wire_bytes(CollectiveOp::all_reduce, groups, part)});
  const std::uint32_t shared_out = last_reduction_;
  last_reduction_ = writer_.transfer(t, {&shared_out, 1});
}

/// In step, a reduction on stage s is put off by the s backward passes that stage 0 lags behind.
void DataCollectives::reduce(double parameters) {
  if (in_step())
    put_off_.push_back({writer_.pass(), backward_passes_ + stage_, parameters});
  else
    reduce_bytes(parameters * reduced_gradient_bytes(job_));
}

void DataCollectives::after_backward() {
  while (!put_off_.empty() && put_off_.front().due <= backward_passes_) reduce_put_off();
  ++backward_passes_;
}

void DataCollectives::reduce_put_off() {
  const Pass at = writer_.pass();
  writer_.begin(put_off_.front().pass);
  reduce_bytes(put_off_.front().parameters * reduced_gradient_bytes(job_));
  put_off_.erase(put_off_.begin());
  writer_.begin(at);
}

void DataCollectives::reduce_rest() {
  while (!put_off_.empty()) reduce_put_off();
  if (data_ranks_ == 1 || by_unit_ || job_.overlap.gradients) return;
  const std::vector<std::int32_t> chunks = chunks_by_block();
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    writer_.begin({PassKind::forward, *chunk, -1});
    const LayerRange& range = split_.of(*chunk, stage_, job_.parallelism.pipeline);
    reduce_bytes(chunk_parameters(range) * reduced_gradient_bytes(job_));
  }
  writer_.end_passes();
}

void DataCollectives::gather_ahead() {
  if (!overlaps_gathers() || evaluation_) return;
  std::vector<std::int32_t> chunks = chunks_by_block();
  if (in_step()) chunks.resize(2);  // megatron/core/pipeline_parallel/schedules.py: the first two at once
  for (const std::int32_t chunk : chunks) gathers_[index(chunk)] = gather_chunk(chunk, {});
}

/// When stage 0 enters a chunk, which is s forward passes before stage s does, the next chunk's parameters are
/// gathered.
void DataCollectives::before_forward() {
  const std::size_t ahead = forward_passes_++ + static_cast<std::size_t>(stage_);
  if (!in_step() || !overlaps_gathers() || evaluation_ || ahead >= forward_order_.size()) return;
  const auto now = forward_order_.begin() + static_cast<std::ptrdiff_t>(ahead);
  if (std::find(forward_order_.begin(), now, *now) != now) return;  // entered before
  const std::vector<std::int32_t> chunks = chunks_by_block();
  const auto entered = std::find(chunks.begin(), chunks.end(), *now);
  if (entered + 1 == chunks.end() || gathered_ahead(entered[1])) return;
  const Pass at = writer_.pass();
  gathers_[index(entered[1])] = gather_chunk(entered[1], writer_.after_compute());
  writer_.begin(at);
}

/// All-gathers the parameters of one chunk, bucket by bucket, in the order in which the forward pass uses them.
std::vector<std::uint32_t> DataCollectives::gather_chunk(std::int32_t chunk, std::span<const std::uint32_t> waits) {
  writer_.begin({PassKind::forward, chunk, -1});
  const double bytes = chunk_parameters(split_.of(chunk, stage_, job_.parallelism.pipeline)) * parameter_bytes_;
  const double bucket =
      bucket_parameters(job_.software.buckets.parameter_bucket, parameter_bytes_, chunk) * parameter_bytes_;
  const auto parts = bucket > 0 ? std::max<std::int64_t>(1, std::llround(bytes / bucket)) : 1;
  std::vector<std::uint32_t> gathers;
  for (std::int64_t i = 0; i < parts; ++i) {
    gathers.push_back(writer_.transfer(
        transfer(CollectiveOp::all_gather, bytes / static_cast<double>(parts), "parameters, forward"), waits));
  }
  return gathers;
}

void DataCollectives::await_parameters(const LayerRange& range, std::int32_t layer, std::size_t& awaited) {
  const std::vector<std::uint32_t>& gathers = gathers_[index(writer_.pass().chunk)];
  if (awaited >= gathers.size()) return;
  const double all = chunk_parameters(range), needed = chunk_parameters({range.begin, range.begin + layer + 1});
  const auto buckets = static_cast<double>(gathers.size());
  const auto through = std::min(gathers.size(), static_cast<std::size_t>(std::ceil(needed / all * buckets - 1e-9)));
  if (through <= awaited) return;
  writer_.next_waits_for(gathers[through - 1]);  // buckets arrive in order
  awaited = through;
}

void DataCollectives::gather_rest() {
  if (data_ranks_ == 1 || !sharded_ || by_unit_ || job_.overlap.parameters) return;
  for (const std::int32_t chunk : chunks_by_block()) gather_chunk(chunk, writer_.after_compute());
}

std::uint32_t DataCollectives::gather_unit(double parameters) {
  const char* what = writer_.is_backward() ? "parameters, backward" : "parameters, forward";
  return writer_.transfer(transfer(CollectiveOp::all_gather, parameters * parameter_bytes_, what),
                          writer_.after_compute());
}

void DataCollectives::reduce_unit(double parameters) { reduce_bytes(parameters * gradient_bytes_); }

double DataCollectives::share_beside(double seconds) {
  if (beside_ <= 0 || seconds <= 0) return 0;
  constexpr double kSteps = 8;  // few kinds of passes, which are timed once each
  const double share = std::round(kSteps * std::min(1.0, beside_ / seconds)) / kSteps;
  beside_ = std::max(0.0, beside_ - seconds);
  return share;
}

}  // namespace orrery::workloads
