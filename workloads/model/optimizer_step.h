// The kernels of the optimizer step on one rank.
#pragma once

#include <vector>

#include "workloads/model/gpt.h"
#include "workloads/model/passes.h"

namespace orrery::workloads {

enum class OptimizerKind : std::uint8_t { adam, lamb, sgd, adagrad };
std::string_view name_of(OptimizerKind optimizer);

/// Which share of the parameters has its optimizer states with the host, and what else lies there.
struct HostStates {
  double optimizer = 0;     // share of the parameters, 0 to 1; 0: nothing lies there
  bool parameters = false;  // the shards of weights do
  bool overlaps = false;    // copies and updates go piece by piece, beside each other
  bool any() const { return optimizer > 0; }
  bool operator==(const HostStates&) const = default;
};

/// Kernels of the step (after the gradient norm) on one rank that holds `parameters` parameters (elements), of which it
/// updates `updated`.
std::vector<Kernel> optimizer_kernels(OptimizerKind optimizer, const Precision& precision,
                                      const calibration::OptimizerStyle& style,
                                      const calibration::DeviceProfile& device, double parameters, double updated);

}  // namespace orrery::workloads
