// The shapes of a layer's products and of its fused attention: what a profile is asked about, and a calibration times.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "calibration/device/kernel.h"
#include "calibration/measure/measurement_plan.h"
#include "workloads/model/layer.h"
#include "workloads/model/model.h"

namespace orrery::workloads {

/// The forward products of a layer's linear layers.
std::vector<calibration::Gemm> products(const Layer& layer);
/// Its attention over the rank's own positions, where it is fused.
std::optional<calibration::Attention> fused_attention(const Layer& layer);

/// What tensor ranks share out in whole numbers.
struct TensorCut {
  std::int64_t size = 1;
  std::string_view what;  // in the plural
};
inline constexpr std::string_view kKeyHeadsCut = "heads of keys";  // of attention
std::vector<TensorCut> tensor_cuts(const Model::Block& block);
/// Whether `tensor` ranks can share out a model's layers.
bool can_be_cut(const Model& model, std::int64_t tensor);

/// What a calibration times of a model on one of `tensor` ranks, which can_be_cut().
calibration::ModelKernels measured_kernels(const Model& model, std::int64_t tensor);

}  // namespace orrery::workloads
