// Data-parallel collectives of one stage: gradients reduced and parameters gathered, chunk by chunk in buckets (ZeRO 0
// to 2) or unit by unit (ZeRO 3), where the software puts them in the order of passes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/program_writer.h"
#include "workloads/schedules/chunk_map.h"

namespace orrery::workloads {

class DataCollectives {
 public:
  /// Writes to `writer`; all arguments must stay valid.
  DataCollectives(const Job& job, const LayerSplit& split, const GroupShapes& shapes, const topology::Cluster& cluster,
                  TemplateLibrary& library, ProgramWriter& writer, std::int64_t stage, bool evaluation);

  /// The passes that the stage is going to run.
  void plan(const std::vector<Pass>& passes);

  // ---- chunk by chunk ----
  /// A reduction that follows the first `after_items` items of a backward pass.
  struct Bucket {
    std::size_t after_items;
    double parameters;  // elements
  };
  double chunk_parameters(const LayerRange& range) const { return split_.parameters(range); }
  /// Chunks in the order of the model, on which all stages that hold a block agree.
  std::vector<std::int32_t> chunks_by_block() const;
  /// Counts a pass; whether it is the last one that makes gradients of its chunk's weights.
  bool completes_gradients(const Pass& pass);
  /// The reductions beside a backward pass that completes gradients; none where they do not overlap.
  std::vector<Bucket> buckets(const LayerRange& range, const PassTemplate& passes, PassKind kind) const;
  /// Reduces a bucket, or puts it off.
  void reduce(double parameters);
  /// Before the first pass: gathers that run beside the forward pass.
  void gather_ahead();
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

  // ---- unit by unit ----
  std::uint32_t gather_unit(double parameters);
  void reduce_unit(double parameters);

  /// The last reduction written; kNoReduction before the first. The data stream runs in order.
  static constexpr std::uint32_t kNoReduction = 0xffffffff;
  std::uint32_t last_reduction() const { return last_reduction_; }

  /// Share, in eighths, of the next `seconds` of computation that collectives of whole chunks run beside. They last as
  /// long as they take alone, and stand beside the computation that follows them in the program; time in which the
  /// device waits does not count against them.
  double share_beside(double seconds);
  bool anything_beside() const { return beside_ > 0; }

 private:
  struct PutOff {
    Pass pass;
    std::int64_t due;  // number of the backward pass after which it is issued
    double parameters;
  };
  bool overlaps_gathers() const;
  bool in_step() const { return job_.software.buckets.data_collectives_in_step && chunks_ > 1; }
  double bucket_parameters(sim::Bytes bucket, double bytes_each, std::int32_t chunk) const;
  ProgramWriter::Transfer transfer(CollectiveOp op, double bytes, const char* what);
  void reduce_bytes(double bytes);
  void reduce_put_off();
  std::vector<std::uint32_t> gather_chunk(std::int32_t chunk, std::span<const std::uint32_t> waits);

  const Job& job_;
  const LayerSplit& split_;
  const GroupShapes& shapes_;
  const topology::Cluster& cluster_;
  TemplateLibrary& library_;
  ProgramWriter& writer_;
  ChunkMap map_;
  std::int64_t stage_, chunks_;
  bool evaluation_;
  std::int64_t data_ranks_, shard_ranks_;
  bool sharded_, full_shard_, by_unit_, to_owners_;  // to_owners_: each weight's gradient goes to its owner every pass
  double gradient_bytes_, parameter_bytes_;          // of an element

  std::vector<std::vector<std::uint32_t>> gathers_;  // by chunk
  std::vector<std::int64_t> gradients_left_;         // by chunk: passes to come that make gradients of weights
  std::vector<std::int32_t> forward_order_;          // chunks of the stage's forward passes
  std::size_t forward_passes_ = 0;                   // begun
  std::int64_t backward_passes_ = 0;                 // done
  std::vector<PutOff> put_off_;
  std::uint32_t last_reduction_ = kNoReduction;
  double beside_ = 0;  // seconds of collectives that computation has yet to pass by
};

}  // namespace orrery::workloads
