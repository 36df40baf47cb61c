// The kernels and exchanges that a layer's passes over one micro-batch run, in order, with their device times: a fold
// over the layer's operations.
//
// Kernels in the order in which Megatron-LM issues them; Qi et al. (arXiv 2401.10241) for the split backward pass.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "calibration/device/profile.h"
#include "calibration/framework/layer_style.h"
#include "workloads/model/layer.h"

namespace orrery::workloads {

/// What a library is asked for, for readers. Of a product m, n, k, batch; of attention batch, heads, kv_heads, queries,
/// keys, head_dim; all 0: neither.
using KernelShape = std::array<std::int64_t, 6>;

/// One kernel with its device time, and the work that it does in it: for rooflines, no time follows from it.
struct Kernel {
  std::string name;
  sim::Duration time{};
  bool matmul = false;  // a GEMM that can be cut to overlap with the collective that feeds or drains it
  double flops = 0;     // of matrix products; 0: bound by memory
  double bytes = 0;     // of memory, each operand and result read or written once
  calibration::DataType type = calibration::DataType::bf16;  // of the operands of a matrix product
  bool backward = false;      // issued by autograd, at another cost to the host; recomputed kernels are not
  std::int64_t launches = 1;  // by the host, for kernels that stand for several
  sim::Duration host{};       // what the host does ahead of it beyond launching
  double routed = 0;          // of its time, what a rank that is given twice the mean of routed tokens takes more
  double spared = 0;          // share of its time that makes up for SMs that it leaves free
  KernelShape shape{};
  bool attention = false;                       // fused
  const calibration::Recipe* recipe = nullptr;  // as in StreamingOp
  bool by_elements = false;                     // bound neither by products nor by memory: its time goes with the clock
};

/// The weights of the linear layer that kernels belong to, where each has pieces of its own.
struct WeightsUsed {
  std::int32_t linear = -1;   // its place among the linear layers of its layer; -1: of none
  std::int32_t matrices = 0;  // tensors
  double elements = 0;
};

/// Compute (kernels) or a collective (op and bytes), in issue order.
struct Piece {
  std::vector<Kernel> kernels;  // compute when not empty
  calibration::CollectiveOp op{};
  double bytes = 0;  // whole buffer, as in nccl-tests
  std::string what;  // for the communication table
  CommOverlap overlap = CommOverlap::none;
  CommGroup group = CommGroup::tensor;
  bool host_waits = false;  // the host launches nothing more before these kernels are done
  WeightsUsed weights;
  bool is_comm() const { return kernels.empty(); }
};
using Pieces = std::vector<Piece>;

/// The passes over one layer.
struct LayerPasses {
  Pieces forward, backward;
  /// The backward pass in two halves, for schedules that split it (empty for others): all that the gradient of the
  /// inputs needs, and the GEMMs of the linear layers' weight gradients, in the same order. Gradients of norms, biases
  /// and the embedding stay in the first half, as in the authors' code.
  Pieces input_gradient, weight_gradient;
};

/// Device times of kernels.
struct KernelTimes {
  const calibration::DeviceProfile& device;
  calibration::GemmRates gemm_rates{};
  /// Of a HostOp, in each direction: of one without experts, of one with experts, and for each of these.
  sim::Duration expert_layer_host{}, expert_dispatch_host{}, expert_host{};
  /// Of an operation in each direction, but where graphs replay it.
  sim::Duration operation_host{}, operation_host_backward{};
  calibration::Graphs graphs = calibration::Graphs::none;
  bool cuts_at_weights = false;  // every linear layer has pieces of its own: Piece::weights
  /// Where ranks draw what routing gives them: what the busiest one is given in the mean, over the mean of all. Between
  /// the two a kernel's time is taken to be a line, since weights are read and launches made whatever comes.
  double busiest_load = 1;
};

/// `splits_backward`: fill the two halves too.
LayerPasses passes_of(const Layer& layer, const KernelTimes& times, bool splits_backward);

}  // namespace orrery::workloads
