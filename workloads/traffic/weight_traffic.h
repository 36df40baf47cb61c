// What weights that are gathered one by one move (software.fetches: by_weight), from formulas of the model alone: a
// part of the closed form of the communication table.
#pragma once

#include "workloads/job/job.h"

namespace orrery::workloads {

/// Elements that the ranks of one data-parallel group gather together, of all stages on one rank of the tensor group.
struct GatheredElements {
  double forward = 0, backward = 0;  // in every micro-batch
  double after_step = 0;             // once, of what stays whole during the step
};

/// A matrix is gathered for the forward pass, for what of it runs again and for the backward pass, but not where it
/// still stands from the use before: when at most software.reuse_distance elements of the layer's others lie between.
/// `whole`: parameters, which are gathered once in both passes where nothing goes weight by weight.
struct WeightTraffic {
  const Model& model;
  const Parallelism& layout;
  const Method& method;
  const calibration::Software& software;
  GatheredElements of(double whole) const;

 private:
  bool goes_by_weight() const;
};

}  // namespace orrery::workloads
