// A GPT decoder as the kernels and collectives that one pass over one micro-batch runs on one rank, in order.
//
// Sources: Vaswani et al.; Megatron-LM (arXiv 1909.08053) for the tensor-parallel split; Korthikanti et al. (arXiv
// 2205.05198) for sequence parallelism and selective recompute; the parallel block of GPT-J and PaLM as MegaScale uses
// it (arXiv 2402.15627, section 3.1); Qi et al. (arXiv 2401.10241) for the split backward pass. Left out: the position
// of every view and reshape (Software::extra_kernels_per_layer stands for them), weight initialisation, dropout's
// random numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibration/profile.h"
#include "workloads/job.h"

namespace orrery::workloads {

/// One kernel with its device time, and the work that it does in it: for rooflines, no time follows from it.
struct Kernel {
  std::string name;
  sim::Duration time{};
  bool matmul = false;  // a GEMM that can be cut to overlap with the collective that feeds or drains it
  double flops = 0;     // of matrix products; 0: bound by memory
  double bytes = 0;     // of memory, each operand and result read or written once
  calibration::DataType type = calibration::DataType::bf16;  // of the operands of a matrix product
  bool backward = false;  // issued by autograd, at another cost to the host; recomputed kernels are not
};

/// How a tensor-parallel collective lies beside compute.
enum class CommOverlap : std::uint8_t {
  none,           // compute waits for it
  with_next,      // feeds the next run's first GEMM, which may be cut to overlap with it
  with_previous,  // drains the previous run's last GEMM, likewise
  behind,         // runs beside the next run in full; the run after that waits for it
};

/// Compute (kernels) or a tensor-parallel collective (op and bytes), in issue order.
struct Piece {
  std::vector<Kernel> kernels;  // compute when not empty
  calibration::CollectiveOp op{};
  double bytes = 0;  // whole buffer, as in nccl-tests
  std::string what;  // for the communication table
  CommOverlap overlap = CommOverlap::none;
  std::int32_t layer = -1;  // layer within the chunk; -1: embedding or head
  bool context = false;     // a collective of the context group, not of the tensor group
  bool is_comm() const { return kernels.empty(); }
};
using Pieces = std::vector<Piece>;

/// The passes over one chunk of layers.
struct ChunkPasses {
  Pieces forward, backward;
  /// Backward pieces end the gradients of layer i after piece `layer_done[i]` (index into `backward`), i = 0 first
  /// layer; the embedding's gradients are ready with the whole pass, the head's with the last layer's.
  std::vector<std::size_t> layer_done;
  /// The backward pass in two halves, for schedules that split it (empty for others): all that the gradient of the
  /// inputs needs, and the GEMMs of the linear layers' weight gradients, in the same order of layers. Gradients of
  /// norms, biases and the embedding stay in the first half, as in the authors' code.
  Pieces input_gradient, weight_gradient;
  std::vector<std::size_t> weight_done;  // as layer_done, index into `weight_gradient`
};

/// Which layers, and whether the chunk begins with the embedding and ends with the head.
struct ChunkShape {
  std::int64_t layers = 0;
  bool embedding = false;
  bool head = false;
};

/// All passes of one chunk, kernel by kernel. `forward_only`: an evaluation, without dropout's masks kept or recompute.
ChunkPasses gpt_chunk(const Job& job, const ChunkShape& shape);

/// Kernels of the optimizer step (after the gradient norm) on one rank that holds `parameters` parameters (elements),
/// of which it updates `updated`.
std::vector<Kernel> optimizer_kernels(const Job& job, double parameters, double updated);

/// Parameters (elements) that one rank holds of a layer, of the embedding, and of the head, after the tensor split.
struct ShardParameters {
  double layer = 0, embedding = 0, head = 0;
};
ShardParameters shard_parameters(const Job& job);

/// Elements of every weight matrix of a layer on one rank, norms and biases left out.
std::vector<double> layer_matrices(const Job& job);

/// Vocabulary padded as Megatron-LM does: up to a multiple of 128 x tensor. Software that does not pad gives each
/// tensor rank an equal part and drops the rest.
std::int64_t padded_vocab(const Job& job);

}  // namespace orrery::workloads
