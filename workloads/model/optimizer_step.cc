// The optimizer step, as its recipe says. See optimizer_step.h.
#include "workloads/model/optimizer_step.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery::workloads {

using calibration::Streaming;

namespace {

/// Adafactor's update, a tensor and an operation at a time (huggingface/transformers, src/transformers/optimization.py,
/// Adafactor.step): bytes of a parameter. `weight`: read and written.
constexpr double adafactor_bytes(double gradient, double weight) {
  const double to_fp32 = gradient < 4 ? gradient + 4 : 0, squares = 8 + 8, sums = 4 + 4, factors = 4;
  const double divides = 12, mean_square = 4, clips = 8, scales = 8, adds = 8 + weight;
  return to_fp32 + squares + sums + factors + divides + mean_square + clips + scales + adds;
}

/// Muon's updates made orthogonal: five times X <- a X + (b A + c A^2) X with A = X X^T, over the shorter side
/// (KellerJordan/Muon, muon.py, zeropower_via_newtonschulz5), in bf16; ahead of them X is scaled by its norm.
void add_newton_schulz(const calibration::DeviceProfile& device, const std::vector<SizedMatrices>& sizes,
                       std::vector<Kernel>& kernels) {
  constexpr double kIterations = 5;
  for (const SizedMatrices& of : sizes) {
    const auto shorter = static_cast<std::int64_t>(std::llround(std::min(of.rows, of.columns)));
    const auto longer = static_cast<std::int64_t>(std::llround(std::max(of.rows, of.columns)));
    if (shorter == 0 || of.number == 0) continue;
    const double m = static_cast<double>(shorter), n = static_cast<double>(longer);
    const double scaling = of.number * m * n * (2 + 4);
    kernels.push_back({"scale by norm", device.streaming(Streaming::accumulate, scaling), false, 0, scaling, {}});
    const auto product = [&](const char* name, std::int64_t columns, std::int64_t inner) {
      calibration::Gemm shape;
      shape.dtype = calibration::DataType::bf16;
      shape.m = shorter;
      shape.n = columns;
      shape.k = inner;
      const double k = static_cast<double>(inner), wide = static_cast<double>(columns), times = kIterations * of.number;
      const double bytes = 2 * (m * k + k * wide + m * wide);
      Kernel kernel{name,          sim::scaled(device.gemm(shape), times),
                    false,         times * 2 * m * wide * k,
                    times * bytes, calibration::DataType::bf16};
      kernel.launches = std::max<std::int64_t>(1, std::llround(times));
      kernel.shape = {shape.m, shape.n, shape.k, 1};
      kernels.push_back(std::move(kernel));
    };
    product("newton-schulz, X X^T", shorter, longer);
    product("newton-schulz, A A", shorter, shorter);
    product("newton-schulz, B X", longer, shorter);
  }
}

/// Bytes of a parameter that a step reads or writes.
struct StepWidths {
  double state = 0, moment = 0;  // of a weight and of a moment, read and written
  double read = 0, written = 0;  // the gradient, the 16-bit weight
};

/// Optimizers whose libraries bring kernels of their own, whatever the framework fuses.
void add_own_kernels(OptimizerKind optimizer, const StepWidths& w, double moments,
                     const calibration::DeviceProfile& device, const UpdatedWeights& weights,
                     std::vector<Kernel>& kernels) {
  const auto add = [&](const char* name, Streaming kernel, double bytes) {
    kernels.push_back({name, device.streaming(kernel, bytes), false, 0, bytes, {}});
  };
  if (optimizer == OptimizerKind::lion)
    return add("lion", Streaming::optimizer, weights.updated * (w.state + w.moment + w.read + w.written));
  if (optimizer == OptimizerKind::adamw_8bit)
    return add("adamw in 8 bits", Streaming::optimizer, weights.updated * (w.state + 2 * moments + w.read + w.written));
  if (optimizer == OptimizerKind::adafactor)
    return add("adafactor", Streaming::accumulate, weights.updated * (adafactor_bytes(w.read, w.state) + w.written));
  const double others = weights.updated - weights.matrices;
  add("momentum", Streaming::optimizer, weights.matrices * (w.moment + w.read + 2));  // and what is made orthogonal
  add_newton_schulz(device, weights.sizes, kernels);
  add("update", Streaming::optimizer, weights.matrices * (2 + w.state + w.written));
  if (others > 0) add("adam", Streaming::optimizer, others * (w.state + 2 * w.moment + w.read + w.written));
}

}  // namespace

bool takes_matrices(OptimizerKind optimizer) { return optimizer == OptimizerKind::muon; }

StateBytes state_bytes(OptimizerKind optimizer, const Precision& precision, const calibration::OptimizerStyle& style) {
  const bool follow = style.follows_weights(), narrow = style.states == calibration::OptimizerStates::moments_16bit;
  const double moment = follow ? calibration::bytes_of(precision.activations) : narrow ? 2 : 4;
  switch (optimizer) {
    case OptimizerKind::adam:
    case OptimizerKind::lamb:
      return {2 * moment, 2 * moment};
    case OptimizerKind::sgd:  // PyTorch's has no momentum unless it is asked to; frameworks with fp32 copies ask it to
      return follow ? StateBytes{} : StateBytes{moment, moment};
    case OptimizerKind::adagrad:
    case OptimizerKind::lion:
      return {moment, moment};
    case OptimizerKind::muon:
      return {moment, 2 * moment};
    case OptimizerKind::adamw_8bit: {  // a scale of fp32 for each block of 256 (bitsandbytes/optim/optimizer.py)
      constexpr double kEach = 1 + 4.0 / 256;
      return {2 * kEach, 2 * kEach};
    }
    case OptimizerKind::adafactor:
      return {0, 0, 4};
  }
  return {};
}

namespace {
/// Bytes of an element of the 16-bit weights; 0: training is in fp32.
double half_bytes(const Precision& precision) {
  const bool half = precision.activations != calibration::DataType::fp32;
  return half ? calibration::bytes_of(precision.activations) : 0;
}

/// Of a weight and of a moment, read and written.
StepWidths state_widths(const Precision& precision, const calibration::OptimizerStyle& style) {
  const double state = 2 * (style.follows_weights() ? calibration::bytes_of(precision.activations) : 4);
  return {state, style.states == calibration::OptimizerStates::moments_16bit ? 4 : state, 0, 0};
}

calibration::RecipeSizes step_sizes(OptimizerKind optimizer, const Precision& precision,
                                    const calibration::OptimizerStyle& style, double updated) {
  const double gradient = calibration::bytes_of(precision.gradients), element = half_bytes(precision);
  const StepWidths widths = state_widths(precision, style);
  // Weights that are trained in fp32 are updated where they lie: there is no copy to write.
  const bool follow = style.follows_weights();
  const bool adam = optimizer == OptimizerKind::adam, lamb = optimizer == OptimizerKind::lamb;
  return {calibration::RecipePart::optimizer,
          {{"n", updated},
           {"weight", widths.state},
           {"moment", widths.moment},
           {"gradient", follow ? widths.state / 2 : gradient},
           {"copy", follow ? 0 : element},
           {"element", element},
           {"narrow", gradient < 4},
           {"fp16", precision.activations == calibration::DataType::fp16},
           {"adam", adam},
           {"lamb", lamb},
           {"moments", adam || lamb},
           {"sgd", optimizer == OptimizerKind::sgd},
           {"momentum", !follow},  // PyTorch's own SGD has none
           {"adagrad", optimizer == OptimizerKind::adagrad}}};
}
}  // namespace

std::vector<Kernel> optimizer_kernels(OptimizerKind optimizer, const Precision& precision,
                                      const calibration::OptimizerStyle& style,
                                      const calibration::DeviceProfile& device, const UpdatedWeights& weights) {
  const double gradient = calibration::bytes_of(precision.gradients);
  const StepWidths widths = state_widths(precision, style);
  const bool follow = style.follows_weights();
  std::vector<Kernel> kernels;
  const auto add = [&](const std::string& name, Streaming kernel, double bytes) {
    kernels.push_back({name, device.streaming(kernel, bytes), false, 0, bytes, {}});
  };
  if (style.clears_gradients()) add("clear gradients", Streaming::copy, weights.held * gradient);
  if (optimizer >= OptimizerKind::muon) {
    const double own = follow ? widths.state / 2 : gradient;
    add_own_kernels(optimizer, {widths.state, widths.moment, own, follow ? 0 : half_bytes(precision)},
                    state_bytes(optimizer, precision, style).of_others, device, weights, kernels);
    return kernels;
  }
  if (style.recipe == nullptr) return kernels;
  const calibration::RecipeSizes sizes = step_sizes(optimizer, precision, style, weights.updated);
  for (const calibration::Line& line : style.recipe->forward) {
    const auto* kernel = std::get_if<Streaming>(&line.runs);
    if (kernel != nullptr && line.holds(sizes))
      add(line.name, *kernel, line.elements.at(sizes) * line.bytes_each.at(sizes));
  }
  return kernels;
}

double optimizer_temporaries(OptimizerKind optimizer, const Precision& precision,
                             const calibration::OptimizerStyle& style, double updated) {
  if (style.recipe == nullptr || optimizer >= OptimizerKind::muon) return 0;
  const calibration::RecipeSizes sizes = step_sizes(optimizer, precision, style, updated);
  double bytes = 0;
  for (const calibration::KeptLine& line : style.recipe->works) {
    if (line.holds(sizes)) bytes += line.elements.at(sizes) * line.bytes_each.at(sizes);
  }
  return bytes;
}

namespace {
constexpr std::array<std::string_view, 8> kNames{"adam", "lamb",       "sgd",       "adagrad",
                                                 "muon", "adamw_8bit", "adafactor", "lion"};
}  // namespace

std::string_view name_of(OptimizerKind optimizer) { return kNames[static_cast<std::size_t>(optimizer)]; }

std::vector<std::string> optimizer_names() { return {kNames.begin(), kNames.end()}; }

}  // namespace orrery::workloads
