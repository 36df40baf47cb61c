// Internal to the folds of passes.h: writes kernels and exchanges into pieces, and says when a new piece begins.
#pragma once

#include <string>
#include <utility>

#include "workloads/model/passes.h"

namespace orrery::workloads {

class PieceWriter {
 public:
  PieceWriter(const KernelTimes& times, Pieces& out) : times_(times), out_(&out) {}

  bool backward = false;     // what follows belongs to the backward pass
  bool recomputing = false;  // but is a forward pass that runs again in it
  bool replayed = false;     // by a graph

  const calibration::DeviceProfile& device() const { return times_.device; }

  void add(Kernel kernel);
  void stream(const StreamingOp& op);
  void stream(calibration::Streaming kernel, double bytes, const char* name,
              const calibration::Recipe* recipe = nullptr);
  /// A product. FLOPs and bytes follow from its shape; batched ones belong to attention.
  void gemm(std::string name, const calibration::Gemm& shape);
  /// The products of `copies` weights, which share out the tokens of `shape` (its n, or of a weight's gradient its k).
  /// One of a linear layer's products with the copies, and the SMs that it leaves free, of `of`.
  void product(std::string name, const calibration::Gemm& shape, const MatMul& of);
  void grouped_gemm(std::string name, const calibration::Gemm& shape, std::int64_t copies, bool grouped);
  void comm(CommGroup group, calibration::CollectiveOp op, double bytes, const char* what, CommOverlap overlap);
  /// The next kernel starts a new piece although no exchange lies between: one must be awaited there.
  void cut() { cut_ = true; }
  /// Likewise; `host_waits`: the host launches nothing more until what it has launched is done.
  void end_run(bool host_waits) {
    if (host_waits && !out_->empty() && !out_->back().is_comm()) out_->back().host_waits = true;
    cut();
  }
  /// What follows reads these weights, and is a piece of its own.
  void use(const WeightsUsed& weights) {
    weights_ = weights;
    cut();
  }
  /// The host works on a layer of experts before it launches the next kernel.
  void host_works(const HostOp& op);
  /// Writes into `other`, if there is one, what `emit` adds.
  template <class Emit>
  void into(Pieces* other, Emit emit) {
    Pieces* const here = out_;
    if (other != nullptr) out_ = other;
    emit();
    out_ = here;
  }

 private:
  sim::Duration time_of(const calibration::Gemm& shape) const;
  /// `kernel` takes `of_busiest` on the rank that is given most.
  void grows(Kernel& kernel, sim::Duration of_busiest) const;

  const KernelTimes& times_;
  Pieces* out_;
  bool cut_ = false, in_graph_ = false;
  WeightsUsed weights_;
  sim::Duration host_{};  // ahead of the next kernel
};

void attention_forward(const AttentionOp& op, PieceWriter& writer);
void attention_backward(const AttentionOp& op, PieceWriter& writer);

}  // namespace orrery::workloads
