// What follows the passes of a training step on one stage: remaining reductions, the tied embedding, the gradient norm,
// the optimizer, gathers that do not overlap.
#pragma once

#include "workloads/compile/data_stream.h"
#include "workloads/compile/host_copies.h"
#include "workloads/model/optimizer_step.h"

namespace orrery::workloads {

/// How a job updates its weights.
struct UpdateStyle {
  OptimizerKind optimizer = OptimizerKind::adam;
  Precision precision;
  calibration::OptimizerStyle kernels;
  /// The optimizer waits for the norm of all gradients, which the host reads to decide on clipping or skipping. Else
  /// partial norms travel along the pipeline's messages, and nobody waits (Parallelism::optimizer_post_validation).
  bool waits_for_norm = true;
  bool ties_ends = false;  // first and last stage hold the same word embedding
  HostCopies host;         // of what lies in the host's memory
};

/// Adds the parameters of a stage that `data` holds, and this rank's share of them.
void add_weights(const StageLayout& stage, const DataParallelism& data, OptimizerKind optimizer,
                 UpdatedWeights& weights);

/// Writes the end of a step behind the passes of its stage. Refers to its arguments.
class StepEnd {
 public:
  StepEnd(const UpdateStyle& style, const StageLayout& stage, const CollectivePrices& prices, TemplateLibrary& library,
          ProgramWriter& writer)
      : style_(style), stage_(stage), prices_(prices), library_(library), writer_(writer) {}

  void write(DataStreams& data);

 private:
  void reduce_tied_embedding(const DataParallelism& data);
  void reduce_norm();
  void norm_kernel(double gradient_bytes);
  void update(DataStreams& data, UpdatedWeights weights);

  const UpdateStyle& style_;
  const StageLayout& stage_;
  const CollectivePrices& prices_;
  TemplateLibrary& library_;
  ProgramWriter& writer_;
};

}  // namespace orrery::workloads
