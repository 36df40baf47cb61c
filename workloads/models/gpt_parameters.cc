// Parameters of a GPT on one rank and the kernels of its optimizer step; see gpt.h. Left out: the extra parameters of
// mixture-of-experts layers.
#include "workloads/models/gpt.h"
#include "workloads/schedules/chunk_map.h"

namespace orrery::workloads {

using calibration::Streaming;

std::int64_t padded_vocab(const Job& job) {
  if (!job.software.layers.pads_vocabulary) return job.model.vocab / job.parallelism.tensor * job.parallelism.tensor;
  const std::int64_t multiple = 128 * job.parallelism.tensor;
  return (job.model.vocab + multiple - 1) / multiple * multiple;
}

ShardParameters shard_parameters(const Job& job) {
  const Model& model = job.model;
  const auto t = static_cast<double>(job.parallelism.tensor);
  const auto h = static_cast<double>(model.hidden);
  const auto f = static_cast<double>(model.ffn_hidden);
  const auto a = static_cast<double>(model.attention_width()), norm = static_cast<double>(model.norm_parameters());
  const double qkv = a + 2 * static_cast<double>(model.kv_heads * model.head_dim());
  const double up = model.gated_mlp ? 2 : 1;
  const double qkv_bias = model.biases == Biases::none ? 0 : 1, bias = model.biases == Biases::all ? 1 : 0;
  const double norms = model.parallel_block ? norm : 2 * norm;
  ShardParameters shard;
  // Weights and the biases of column-parallel layers are split; norms and the biases after a reduction are copied.
  shard.layer = (qkv * (h + qkv_bias) + a * h + up * f * (h + bias) + f * h) / t + bias * 2 * h + norms;
  const double vocabulary = static_cast<double>(padded_vocab(job)) / t * h;
  shard.embedding = vocabulary + (model.positions == Positions::learned ? static_cast<double>(model.seq) * h : 0);
  // Tied weights: where one stage has both ends the head is the embedding; else the last stage holds a copy.
  shard.head = norm + (model.tied_embeddings && job.parallelism.chunk_map().ends_meet() ? 0 : vocabulary);
  return shard;
}

std::vector<double> layer_matrices(const Job& job) {
  const Model& model = job.model;
  const auto t = static_cast<double>(job.parallelism.tensor), h = static_cast<double>(model.hidden);
  const double q = static_cast<double>(model.attention_width()) * h / t;
  const double kv = static_cast<double>(model.kv_heads * model.head_dim()) * h / t;
  const double ffn = static_cast<double>(model.ffn_hidden) * h / t;
  std::vector<double> matrices{q, model.gated_mlp ? 2 * ffn : ffn, ffn};  // out of attention, up, down
  if (job.software.layers.separate_qkv)
    matrices.insert(matrices.end(), {q, kv, kv});
  else
    matrices.push_back(q + 2 * kv);
  return matrices;
}

namespace {

/// The update one operation at a time on fp32 tensors, each reading and writing memory (Composer's DecoupledAdamW,
/// composer/optim/decoupled_weight_decay.py), after one that scales the gradients (clip_grad_norm_); the 16-bit copy is
/// made where the parameters are gathered. Bytes per parameter of every operation.
std::vector<Kernel> unfused_optimizer(const Job& job, double updated) {
  struct Operation {
    const char* name;
    double bytes;
  };
  const double weight = calibration::bytes_of(job.precision.activations);
  std::vector<Operation> operations{{"scale gradients", 8}};
  const auto add = [&](std::initializer_list<Operation> more) {
    operations.insert(operations.end(), more.begin(), more.end());
  };
  if (job.optimizer == OptimizerKind::sgd) {
    add({{"decay momentum", 8}, {"add gradient", 12}, {"update", 12}});
  } else {
    add({{"decay first moment", 8},
         {"add gradient", 12},
         {"decay second moment", 8},
         {"add squared gradient", 12},
         {"square root", 8},
         {"correct bias", 8},
         {"add epsilon", 8}});
    if (job.optimizer == OptimizerKind::adam) add({{"update", 16}});
    if (job.optimizer == OptimizerKind::lamb) add({{"direction", 12}, {"norms", 8}, {"update", 12}});
  }
  add({{"weights to 16 bit", 4 + weight}});
  std::vector<Kernel> kernels;
  for (const Operation& operation : operations) {
    const double bytes = updated * operation.bytes;
    kernels.push_back({operation.name, job.device.streaming(Streaming::accumulate, bytes), false, 0, bytes, {}});
  }
  return kernels;
}

}  // namespace

std::vector<Kernel> optimizer_kernels(const Job& job, double parameters, double updated) {
  const double gradient = calibration::bytes_of(job.precision.gradients);
  const double weight = calibration::bytes_of(job.precision.activations);
  std::vector<Kernel> kernels;
  const auto add = [&](const char* name, Streaming kernel, double bytes) {
    kernels.push_back({name, job.device.streaming(kernel, bytes), false, 0, bytes, {}});
  };
  add("clear gradients", Streaming::copy, parameters * gradient);
  if (!job.software.optimizer.fused_optimizer) {
    for (Kernel& kernel : unfused_optimizer(job, updated)) kernels.push_back(std::move(kernel));
    return kernels;
  }
  // Megatron-LM's Float16OptimizerWithFloat16Params (megatron/optimizer/optimizer.py) and clip_grads.py: fp32 gradients
  // serve as they are, and a norm below the limit scales nothing.
  const bool passes = job.software.optimizer.separate_gradient_passes;
  if (passes) {
    if (gradient < 4) add("gradients to fp32", Streaming::copy, updated * (gradient + 4));
    if (job.precision.activations == calibration::DataType::fp16)
      add("unscale gradients", Streaming::accumulate, updated * 8);
  }
  const double read = passes ? 4 : gradient, written = passes ? 0 : weight;
  // Read and write the fp32 master weight and each moment, read the gradient, write the 16-bit weight.
  switch (job.optimizer) {
    case OptimizerKind::adam:
      add("adam", Streaming::optimizer, updated * (3 * 8 + read + written));
      break;
    case OptimizerKind::lamb:  // stage 1 forms the update and both norms, stage 2 applies it (arXiv 1904.00962,
                               // algorithm 2)
      add("lamb stage 1", Streaming::optimizer, updated * (2 * 8 + 4 + read + 4));
      add("lamb stage 2", Streaming::optimizer, updated * (4 + 8 + written));
      break;
    case OptimizerKind::sgd:
      add("sgd with momentum", Streaming::optimizer, updated * (2 * 8 + read + written));
      break;
  }
  if (passes) add("weights to 16 bit", Streaming::copy, updated * (4 + weight));
  return kernels;
}

}  // namespace orrery::workloads
