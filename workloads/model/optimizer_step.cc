// The optimizer step, fused or one operation at a time. See optimizer_step.h.
#include "workloads/model/optimizer_step.h"

#include <array>

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

}  // namespace

std::vector<Kernel> optimizer_kernels(OptimizerKind optimizer, const Precision& precision,
                                      const calibration::OptimizerStyle& style,
                                      const calibration::DeviceProfile& device, double parameters, double updated) {
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
  if (style.clears_gradients) add("clear gradients", Streaming::copy, parameters * gradient);
  if (!style.fused_optimizer) {
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
  }
  if (passes && copies) add("weights to 16 bit", Streaming::copy, updated * (4 + weight));
  return kernels;
}

std::string_view name_of(OptimizerKind optimizer) {
  static constexpr std::array<std::string_view, 4> kNames{"adam", "lamb", "sgd", "adagrad"};
  return kNames[static_cast<std::size_t>(optimizer)];
}

}  // namespace orrery::workloads
