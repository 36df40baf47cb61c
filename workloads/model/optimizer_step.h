// The kernels of the optimizer step on one rank.
#pragma once

#include <vector>

#include "workloads/model/gpt.h"
#include "workloads/model/passes.h"

namespace orrery::workloads {

enum class OptimizerKind : std::uint8_t { adam, lamb, sgd, adagrad };
std::string_view name_of(OptimizerKind optimizer);

/// Kernels of the step (after the gradient norm) on one rank that holds `parameters` parameters (elements), of which it
/// updates `updated`.
std::vector<Kernel> optimizer_kernels(OptimizerKind optimizer, const Precision& precision,
                                      const calibration::OptimizerStyle& style,
                                      const calibration::DeviceProfile& device, double parameters, double updated);

}  // namespace orrery::workloads
