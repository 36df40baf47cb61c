// The optimizer step, fused or one operation at a time. See optimizer_step.h.
#include "workloads/model/optimizer_step.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery::workloads {

using calibration::Streaming;

namespace {

/// The update one operation at a time on fp32 tensors, each reading and writing memory (Composer's DecoupledAdamW,
/// composer/optim/decoupled_weight_decay.py), after one that scales the gradients (clip_grad_norm_); the 16-bit copy is
/// made where the parameters are gathered. Bytes per parameter of every operation.
std::vector<Kernel> unfused_optimizer(OptimizerKind optimizer, const Precision& precision,
                                      const calibration::DeviceProfile& device, double updated) {
  struct Operation {
    const char* name;
    double bytes;
  };
  const bool copies = precision.activations != calibration::DataType::fp32;
  const double weight = calibration::bytes_of(precision.activations);
  std::vector<Operation> operations{{"scale gradients", 8}};
  const auto add = [&](std::initializer_list<Operation> more) {
    operations.insert(operations.end(), more.begin(), more.end());
  };
  if (optimizer == OptimizerKind::sgd) {
    add({{"decay momentum", 8}, {"add gradient", 12}, {"update", 12}});
  } else if (optimizer == OptimizerKind::adagrad) {
    add({{"add squared gradient", 12}, {"square root", 8}, {"update", 16}});
  } else {
    add({{"decay first moment", 8},
         {"add gradient", 12},
         {"decay second moment", 8},
         {"add squared gradient", 12},
         {"square root", 8},
         {"correct bias", 8},
         {"add epsilon", 8}});
    if (optimizer == OptimizerKind::adam) add({{"update", 16}});
    if (optimizer == OptimizerKind::lamb) add({{"direction", 12}, {"norms", 8}, {"update", 12}});
  }
  if (copies) add({{"weights to 16 bit", 4 + weight}});
  std::vector<Kernel> kernels;
  for (const Operation& operation : operations) {
    const double bytes = updated * operation.bytes;
    kernels.push_back({operation.name, device.streaming(Streaming::accumulate, bytes), false, 0, bytes, {}});
  }
  return kernels;
}

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

}  // namespace

bool takes_matrices(OptimizerKind optimizer) { return optimizer == OptimizerKind::muon; }

StateBytes state_bytes(OptimizerKind optimizer, const Precision& precision, const calibration::OptimizerStyle& style) {
  const bool follow = style.states_follow_weights;
  const double moment = follow ? calibration::bytes_of(precision.activations) : style.moments_16bit ? 2 : 4;
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

std::vector<Kernel> optimizer_kernels(OptimizerKind optimizer, const Precision& precision,
                                      const calibration::OptimizerStyle& style,
                                      const calibration::DeviceProfile& device, const UpdatedWeights& weights) {
  const double updated = weights.updated;
  const double gradient = calibration::bytes_of(precision.gradients);
  // Weights that are trained in fp32 are updated where they lie: there is no copy to write.
  const bool follow = style.states_follow_weights;
  const bool copies = precision.activations != calibration::DataType::fp32 && !follow;
  const double weight = copies ? calibration::bytes_of(precision.activations) : 0;
  // Of a weight and of a moment, read and written.
  const double state = 2 * (follow ? calibration::bytes_of(precision.activations) : 4);
  const double moment = style.moments_16bit && !follow ? 4 : state;
  std::vector<Kernel> kernels;
  const auto add = [&](const char* name, Streaming kernel, double bytes) {
    kernels.push_back({name, device.streaming(kernel, bytes), false, 0, bytes, {}});
  };
  if (style.clears_gradients) add("clear gradients", Streaming::copy, weights.held * gradient);
  const bool one_kernel = optimizer >= OptimizerKind::muon;  // their libraries' own, whatever the framework fuses
  if (!style.fused_optimizer && !one_kernel) {
    for (Kernel& kernel : unfused_optimizer(optimizer, precision, device, updated))
      kernels.push_back(std::move(kernel));
    return kernels;
  }
  // Megatron-LM's Float16OptimizerWithFloat16Params (megatron/optimizer/optimizer.py) and clip_grads.py: fp32 gradients
  // serve as they are, and a norm below the limit scales nothing.
  const bool passes = style.separate_gradient_passes;
  if (passes) {
    if (gradient < 4) add("gradients to fp32", Streaming::copy, updated * (gradient + 4));
    if (precision.activations == calibration::DataType::fp16)
      add("unscale gradients", Streaming::accumulate, updated * 8);
  }
  const double own = follow ? state / 2 : gradient;
  const double read = passes ? 4 : own, written = passes ? 0 : weight;
  // Read and write the fp32 master weight and each moment, read the gradient, write the 16-bit weight.
  switch (optimizer) {
    case OptimizerKind::adam:
      add("adam", Streaming::optimizer, updated * (state + 2 * moment + read + written));
      break;
    case OptimizerKind::lamb:  // stage 1 forms the update and both norms, stage 2 applies it (arXiv 1904.00962,
                               // algorithm 2)
      add("lamb stage 1", Streaming::optimizer, updated * (2 * moment + state / 2 + read + 4));
      add("lamb stage 2", Streaming::optimizer, updated * (4 + state + written));
      break;
    case OptimizerKind::sgd:
      if (follow)  // PyTorch's own, without momentum
        add("sgd", Streaming::optimizer, updated * (state + read + written));
      else
        add("sgd with momentum", Streaming::optimizer, updated * (state + moment + read + written));
      break;
    case OptimizerKind::adagrad:  // a sum of squares where the other has momentum (Duchi et al., JMLR 12, 2011)
      add("adagrad", Streaming::optimizer, updated * (state + moment + read + written));
      break;
    case OptimizerKind::lion:
      add("lion", Streaming::optimizer, updated * (state + moment + read + written));
      break;
    case OptimizerKind::adamw_8bit:
      add("adamw in 8 bits", Streaming::optimizer,
          updated * (state + 2 * state_bytes(optimizer, precision, style).of_others + read + written));
      break;
    case OptimizerKind::adafactor:
      add("adafactor", Streaming::accumulate, updated * (adafactor_bytes(read, state) + written));
      break;
    case OptimizerKind::muon: {
      const double others = updated - weights.matrices;
      add("momentum", Streaming::optimizer, weights.matrices * (moment + read + 2));  // and what is made orthogonal
      add_newton_schulz(device, weights.sizes, kernels);
      add("update", Streaming::optimizer, weights.matrices * (2 + state + written));
      if (others > 0) add("adam", Streaming::optimizer, others * (state + 2 * moment + read + written));
      break;
    }
  }
  if (passes && copies) add("weights to 16 bit", Streaming::copy, updated * (4 + weight));
  return kernels;
}

namespace {
constexpr std::array<std::string_view, 8> kNames{"adam", "lamb",       "sgd",       "adagrad",
                                                 "muon", "adamw_8bit", "adafactor", "lion"};
}  // namespace

std::string_view name_of(OptimizerKind optimizer) { return kNames[static_cast<std::size_t>(optimizer)]; }

std::vector<std::string> optimizer_names() { return {kNames.begin(), kNames.end()}; }

}  // namespace orrery::workloads
