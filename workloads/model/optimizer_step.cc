// The optimizer step, as its recipe says. See optimizer_step.h.
#include "workloads/model/optimizer_step.h"

#include <array>

namespace orrery::workloads {

using calibration::Streaming;

std::vector<Kernel> optimizer_kernels(OptimizerKind optimizer, const Precision& precision,
                                      const calibration::OptimizerStyle& style,
                                      const calibration::DeviceProfile& device, double parameters, double updated) {
  const double gradient = calibration::bytes_of(precision.gradients);
  // Weights that are trained in fp32 are updated where they lie: there is no copy to write.
  const bool half = precision.activations != calibration::DataType::fp32, follow = style.follows_weights();
  const double element = half ? calibration::bytes_of(precision.activations) : 0;
  // Of a weight and of a moment, read and written.
  const double state = 2 * (follow ? calibration::bytes_of(precision.activations) : 4);
  const double moment = style.states == calibration::OptimizerStates::moments_16bit ? 4 : state;
  const bool adam = optimizer == OptimizerKind::adam, lamb = optimizer == OptimizerKind::lamb;
  const calibration::RecipeSizes sizes(calibration::RecipePart::optimizer,
                                       {{"n", updated},
                                        {"weight", state},
                                        {"moment", moment},
                                        {"gradient", follow ? state / 2 : gradient},
                                        {"copy", follow ? 0 : element},
                                        {"element", element},
                                        {"narrow", gradient < 4},
                                        {"fp16", precision.activations == calibration::DataType::fp16},
                                        {"adam", adam},
                                        {"lamb", lamb},
                                        {"moments", adam || lamb},
                                        {"sgd", optimizer == OptimizerKind::sgd},
                                        {"momentum", !follow},  // PyTorch's own SGD has none
                                        {"adagrad", optimizer == OptimizerKind::adagrad}});
  std::vector<Kernel> kernels;
  const auto add = [&](const std::string& name, Streaming kernel, double bytes) {
    kernels.push_back({name, device.streaming(kernel, bytes), false, 0, bytes, {}});
  };
  if (style.clears_gradients) add("clear gradients", Streaming::copy, parameters * gradient);
  if (style.recipe == nullptr) return kernels;
  for (const calibration::Line& line : style.recipe->forward) {
    const auto* kernel = std::get_if<Streaming>(&line.runs);
    if (kernel != nullptr && line.holds(sizes))
      add(line.name, *kernel, line.elements.at(sizes) * line.bytes_each.at(sizes));
  }
  return kernels;
}

std::string_view name_of(OptimizerKind optimizer) {
  static constexpr std::array<std::string_view, 4> kNames{"adam", "lamb", "sgd", "adagrad"};
  return kNames[static_cast<std::size_t>(optimizer)];
}

}  // namespace orrery::workloads
