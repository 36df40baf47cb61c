// Optimizer states in the host's memory: what of a rank lies there, what travels there and back over the link between
// device and host, and what the host's update moves in its memory.
//
// Three ways, each as the software has it (calibration::OptimizerStyle):
//  - Behind the passes (Megatron-Core, core/optimizer/cpu_offloading/hybrid_optimizer.py, HybridDeviceOptimizer):
//    gradients are cast to the type of the master weights on the device and copied, the host updates, and what it has
//    cast to the type of the weights is copied back; a share of the parameters may stay with the device, which updates
//    them meanwhile. All at once, or, with overlap_cpu_optimizer_d2h_h2d, piece by piece, so that the three overlap.
//  - Beside the backward pass (DeepSpeed, runtime/zero/stage_1_and_2.py, copy_grads_in_partition, and stage3.py,
//    partition_grads; ZeRO-Offload, arXiv 2101.06840): each reduced gradient goes at once. Over several micro-batches
//    the sum comes back to the device in 16 bits, which adds, and goes again; the last one goes in fp32.
//  - The same, where the host adds gradients up (PyTorch's FSDP2 with CPUOffloadPolicy,
//    torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_reduce) and its clipping reads them, too.
// Parameters may lie with the host as well: each gather then waits for this rank's share of them.
//
// The host's update is bound by its memory: every byte of a state read and written once, at the share of the memory's
// bandwidth that its kernel reaches, which the ranks of a node share; so do they share the links that several devices
// hang on. Left out: that copies share a PCIe switch with NICs, what a copy needs to begin, unpinned memory, hosts
// whose cores do not fill the memory's channels or whose launcher leaves each rank one thread, and the device's sum of
// gradients that come back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/compile/program_writer.h"
#include "workloads/model/optimizer_step.h"

namespace orrery::workloads {

struct HostCopies {
  HostStates states;
  bool in_backward = false;  // gradients leave with the backward pass
  bool adds_up = false;      // and the host adds up those of several
  /// Bytes/s of one rank, where all of a node are under way: over the link, each way, and of the host's memory.
  struct Rates {
    double link = 0, memory = 0;
  } rates;
  /// Bytes of a parameter: its gradient as the host has it, and as it comes back to be added to; itself, on its way to
  /// the device; the master weight and the moments; what the update reads and writes; what lies with the host.
  struct Widths {
    double gradient = 4, sum = 2, parameter = 2, states = 12, update = 0, held = 0;
  } bytes;
  bool any() const { return states.any(); }

  /// Seconds that copies and the host's update behind the passes take at least, of a rank that updates so many
  /// parameters.
  double least_seconds(double updated) const;
};

/// What a host keeps and moves for each parameter. `parameters`: the weights lie with it too.
HostCopies::Widths host_widths(OptimizerKind optimizer, const Precision& precision,
                               const calibration::OptimizerStyle& style, bool parameters);

/// Kernels of the update on a rank's device: of optimizer_kernels() those for what does not lie with the host.
std::vector<Kernel> device_update(OptimizerKind optimizer, const Precision& precision,
                                  const calibration::OptimizerStyle& style, const HostCopies& host,
                                  const calibration::DeviceProfile& device, UpdatedWeights weights);

/// Writes copies and updates into a program, where it stands. All arguments must stay valid.
class HostLane {
 public:
  HostLane(const HostCopies& copies, TemplateLibrary& library, ProgramWriter& writer)
      : copies_(copies), library_(library), writer_(writer) {}

  const HostCopies& copies() const { return copies_; }
  /// Reduced gradients of so many parameters of this rank leave; `first` and `last` of the step's passes.
  std::uint32_t gradients(double parameters, bool first, bool last, std::span<const std::uint32_t> waits);
  /// This rank's share of weights that are about to be gathered comes.
  std::uint32_t weights(double parameters, std::span<const std::uint32_t> waits);
  /// Frozen ones, of so many bytes as they are held.
  std::uint32_t frozen_weights(double bytes, std::span<const std::uint32_t> waits);
  /// Gradients that are still with the device leave, in so many pieces; call update() next.
  void send_gradients(double parameters, std::int64_t pieces);
  /// The host updates what it has, behind `left` where gradients left with the passes; returns the last operation.
  std::uint32_t update(double parameters, std::int64_t pieces, std::span<const std::uint32_t> left);

 private:
  std::uint32_t copy(const CommGroup& group, double bytes, const char* what, std::span<const std::uint32_t> waits,
                     bool host_waits = false);
  std::uint32_t run(double bytes, const char* what, std::span<const std::uint32_t> waits);

  const HostCopies& copies_;
  TemplateLibrary& library_;
  ProgramWriter& writer_;
  std::vector<std::uint32_t> sent_;  // by piece
};

}  // namespace orrery::workloads
