// The shapes of a layer's products and of its fused attention: what a profile is asked about, and a calibration times.
#pragma once

#include <optional>
#include <vector>

#include "calibration/kernel.h"
#include "calibration/measure/measurement_plan.h"
#include "workloads/model/layer.h"

namespace orrery::workloads {

/// The forward products of a layer's linear layers.
std::vector<calibration::Gemm> products(const Layer& layer);
/// Its attention over the rank's own positions, where it is fused.
std::optional<calibration::Attention> fused_attention(const Layer& layer);

/// What a calibration times of a model on one of `tensor` ranks.
calibration::ModelKernels measured_kernels(const Model& model, std::int64_t tensor);

}  // namespace orrery::workloads
