// Single collectives of data parallelism: one gather of parameters, one reduction of gradients, written where the
// program stands.
#pragma once

#include <cstdint>
#include <span>

#include "workloads/compile/data_parallelism.h"
#include "workloads/compile/host_copies.h"
#include "workloads/compile/program_writer.h"

namespace orrery::workloads {

/// The gradients of one unit of `parameters` elements on their way to their owners: one weight matrix after the other
/// of `layer` along a chain of all ranks, a broadcast backwards, which has to fill for each; norms and biases, with the
/// embedding and the head of the unit that has them, are one more. `layer` null: a unit of embedding and head alone.
CollectiveCost owner_reductions(double parameters, const Layer* layer, double gradient_bytes,
                                const CollectivePrices& prices);

class DataTransfers {
 public:
  /// Writes to `writer`; all arguments must stay valid.
  DataTransfers(const DataParallelism& data, const CollectivePrices& prices, TemplateLibrary& library,
                ProgramWriter& writer, const HostCopies& host)
      : data_(data), prices_(prices), library_(library), writer_(writer), host_(host, library, writer) {}

  /// What follows belongs to a pass; first and last of those that make gradients of its chunk.
  void begin_pass(bool first, bool last) { turn_ = {first, last}; }
  /// Where gradients leave for the host with the backward pass, those of `parameters` do that were just reduced, or, on
  /// a rank that reduces none, made.
  void leave(double parameters);
  bool leaves() const { return host_.copies().any() && host_.copies().in_backward; }
  /// The last such copy; kNoTransfer before the first.
  std::uint32_t last_copy() const { return last_copy_; }

  /// Gathers parameters that fill `bytes`; returns the operation, kNoTransfer where the rank has all of them.
  std::uint32_t gather(double bytes, std::span<const std::uint32_t> waits);
  /// Gradients are reduced among those that share them out, then each part across the groups that repeat it.
  void reduce(double bytes);
  /// The gradients of a unit, as DataParallelism says. `complete`: those of the last micro-batch are among them.
  void reduce_unit(double parameters, const Layer* layer, bool complete);

  /// A weight, or several of `tensors` together: its parts are gathered by one call, or its gradients reduced by a call
  /// for each. Calls that take lists copy their buffers once more.
  std::uint32_t gather_weight(double bytes, const char* what, sim::Duration host, std::span<const std::uint32_t> waits);
  void reduce_tensors(double parameters, std::int64_t tensors, bool complete);
  /// After the optimizer, where weights are shared out among fewer ranks than states: new ones are handed out.
  void gather_new(double parameters);
  /// A pass over memory on the compute stream.
  void stream(const char* name, double bytes);

  /// The last reduction written; kNoReduction before the first. The data stream runs in order.
  static constexpr std::uint32_t kNoReduction = 0xffffffff, kNoTransfer = 0xffffffff;
  std::uint32_t last_reduction() const { return last_reduction_; }
  /// The next compute operation waits for the last reduction, if there was one.
  void await_reductions();

  /// Share, in eighths, of the next `seconds` of computation that these collectives run beside. They last as long as
  /// they take alone, and stand beside the computation that follows them in the program; time in which the device waits
  /// does not count against them.
  double share_beside(double seconds);
  bool anything_beside() const { return beside_ > 0; }

 private:
  bool is_alone(const CommGroup& group) const;
  sim::Duration list_copy(double bytes) const;
  ProgramWriter::Transfer transfer(CollectiveOp op, double bytes, const char* what, const CommGroup& group);
  void reduce_pass(double parameters);
  void reduce_between_parts(double parameters, bool complete);
  /// `reduced`: the last reduction is of the same gradients.
  void reduce_across_repeats(double bytes, bool reduced = true);
  std::vector<std::uint32_t> with_host(double parameters, const CommGroup& group, std::span<const std::uint32_t> waits);

  const DataParallelism& data_;
  const CollectivePrices& prices_;
  TemplateLibrary& library_;
  ProgramWriter& writer_;
  std::uint32_t last_reduction_ = kNoReduction;
  double beside_ = 0;  // seconds of collectives that computation has yet to pass by
  HostLane host_;
  struct Turn {
    bool first = true, last = true;
  } turn_;
  std::uint32_t last_copy_ = kNoTransfer;
};

}  // namespace orrery::workloads
