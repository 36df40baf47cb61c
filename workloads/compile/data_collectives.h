// Data-parallel collectives of one stage, chunk by chunk in buckets (ZeRO 0 to 2): gradients reduced and parameters
// gathered where the software puts them in the order of passes. Unit by unit: unit_collectives.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/compile/data_transfers.h"
#include "workloads/compile/layer_split.h"

namespace orrery::workloads {

/// Does nothing where collectives go unit by unit, but for waiting at the end of the step.
class DataCollectives {
 public:
  /// Writes to `writer`; all arguments must stay valid. `gathers`: parameters are gathered ahead of the passes that use
  /// them.
  DataCollectives(const DataParallelism& data, const StageLayout& stage, DataTransfers& transfers,
                  ProgramWriter& writer, bool gathers);

  /// The passes that the stage is going to run.
  void plan(const std::vector<Pass>& passes);

  /// A reduction that follows the first `after_items` items of a backward pass.
  struct Bucket {
    std::size_t after_items;
    double parameters;  // elements
  };
  /// The reductions beside a backward pass that completes gradients; none where they do not overlap. Where there are no
  /// replicas, what leaves for the host, in every pass.
  std::vector<Bucket> buckets(const LayerRange& range, const PassTemplate& passes, PassKind kind) const;
  /// Reduces a bucket, or puts it off.
  void reduce(double parameters);
  /// Before the first pass: gathers that run beside the forward pass.
  void gather_ahead();
  bool leaves_every_pass() const { return data_.replicas == 1 && transfers_.leaves(); }
  bool gathered_ahead(std::int32_t chunk) const { return !gathers_[static_cast<std::size_t>(chunk)].empty(); }
  /// Before a layer's first use the next compute operation waits for the buckets that hold its parameters. `awaited`:
  /// buckets waited for already in this pass.
  void await_parameters(const LayerRange& range, std::int32_t layer, std::size_t& awaited);
  /// Around passes, for software whose collectives begin on all stages at a time (data_collectives_in_step).
  void before_forward();
  void after_backward();
  /// After all passes: what is left to reduce, and, without overlap, all of it.
  void reduce_rest();
  /// Without overlap, after the optimizer.
  void gather_rest();

 private:
  struct PutOff {
    Pass pass;
    std::int64_t due;  // number of the backward pass after which it is issued
    double parameters;
  };
  bool in_step() const { return data_.buckets.data_collectives_in_step && stage_.chunks() > 1; }
  double bucket_parameters(sim::Bytes bucket, double bytes_each, std::int32_t chunk) const;
  std::vector<Bucket> buckets_by_layer(const LayerRange& range, const PassTemplate& passes, PassKind kind) const;
  std::vector<Bucket> buckets_by_weight(const LayerRange& range, const PassTemplate& passes, PassKind kind) const;
  void write_reduction(double parameters);
  void reduce_put_off();
  std::vector<std::uint32_t> gather_chunk(std::int32_t chunk, std::span<const std::uint32_t> waits);

  const DataParallelism& data_;
  const StageLayout& stage_;
  DataTransfers& transfers_;
  ProgramWriter& writer_;
  bool gathers_overlap_;  // with the passes

  std::vector<std::vector<std::uint32_t>> gathers_;  // by chunk
  std::vector<std::int32_t> forward_order_;          // chunks of the stage's forward passes
  std::size_t forward_passes_ = 0;                   // begun
  std::int64_t backward_passes_ = 0;                 // done
  std::vector<PutOff> put_off_;
};

}  // namespace orrery::workloads
