// What a device really does: a device profile, read from calibration/profiles/<device>.yaml, and the kernel-time model
// that answers from it. Every number in a profile has a unit and a provenance.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "calibration/device/kernel.h"
#include "calibration/device/keys.h"
#include "calibration/device/power.h"
#include "calibration/device/scan.h"
#include "sim/settings.h"
#include "sim/units.h"

namespace orrery::calibration {

using sim::Bandwidth;
using sim::Bytes;
using sim::Duration;
using sim::FlopRate;

enum class CollectiveOp : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_receive };
inline constexpr std::size_t kCollectiveOps = 6;
std::string_view name_of(CollectiveOp op);

/// How a collective inside one node behaves when nothing else runs: it takes latency + wire_bytes / rate, where
/// wire_bytes is what each GPU sends (ring all-reduce: 2(n-1)/n of the buffer) and rate what one GPU then sustains.
struct CollectiveTiming {
  Duration latency{};
  double wire_bytes = 0;
  Bandwidth rate{};
  Duration total() const { return latency + sim::seconds(wire_bytes / rate.value()); }
};

struct ExpertLayer;

/// A device and its fitted kernel-time model. Immutable; cheap to copy.
class DeviceProfile {
 public:
  /// Throws sim::UserError naming the place of a missing, negative, non-finite or non-monotone number.
  static DeviceProfile load(const sim::Settings& document);

  const std::string& name() const;
  std::int64_t processors() const;  // SMs or CUs
  FlopRate peak(DataType t) const;  // dense, from the data sheet; that of 16 bits, where the sheet has no such type
  bool has(DataType t) const;       // whether the device multiplies the type
  Bytes memory() const;
  Bandwidth memory_bandwidth() const;     // data sheet
  const std::string& provenance() const;  // one line: what was measured, fitted or transferred, and how well it fits

  /// Device time of one kernel inside a long training step (steady clocks), without host launch cost.
  /// Monotone: a larger shape is never faster by more than the tile quantisation. Errors: SIM_CHECK on sizes < 1.
  Duration gemm(const Gemm& shape) const;
  /// All products of one linear layer of a rank's experts, in one of its three directions. A group of nothing takes
  /// the launch. Errors: SIM_CHECK on widths < 1 and negative counts.
  Duration grouped_gemm(const GroupedGemm& shape) const;
  /// The forward pass of a rank's experts as serving libraries' tables time it: choice, gathering, both products and
  /// the sum of rows (expert_layer.h), not what a training step runs.
  Duration served_experts(const ExpertLayer& layer) const;
  Duration attention(const Attention& shape) const;
  /// The kernels of a mixer with a state, in one direction. Errors: SIM_CHECK on sizes < 1.
  Duration scan(const Scan& shape) const;
  /// A kernel of a mixer, by what it does. `type`: that it multiplies. `kind`: of a scan, whose rates are its own where
  /// the profile has them.
  Duration mixer(MixerKernel kernel, const MixerWork& work, DataType type, const ScanKind* kind = nullptr) const;
  bool has(const ScanKind& kind) const;
  /// Whether the profile has numbers of its own for kernels of that generation.
  bool has(AttentionKernel kernel) const;
  /// `bytes`: read + written.
  /// `elements`: that a kernel does which goes by these (elements_per_processor).
  Duration streaming(Streaming kernel, double bytes, double elements = 0) const;
  /// Whether elements take it longer than bytes at full clock: its time goes with the clock.
  bool goes_by_elements(Streaming kernel, double bytes, double elements) const;

  /// `size` as in nccl-tests: the whole buffer (all-gather: output, reduce-scatter: input). gpus >= 1; one GPU takes 0.
  CollectiveTiming node_collective(CollectiveOp op, std::int64_t gpus, Bytes size) const;

  /// Whether the node's switch reduces and multicasts for a group of so many GPUs (NVLink SHARP).
  bool reduces_in_switch(std::int64_t gpus) const;

  /// How far off the time of a kernel may be, relative to it: nine in ten kernels of its class are closer, as far as
  /// cross-validation can tell; more outside the sizes that were fitted, kUnmeasured where nothing was. The steady
  /// clocks of a long step come on top.
  double uncertainty(const Gemm& shape) const;
  double uncertainty(const GroupedGemm& shape) const;
  double uncertainty(const Attention& shape) const;
  double uncertainty(Streaming kernel, double bytes) const;
  double uncertainty(CollectiveOp op, std::int64_t gpus, Bytes size) const;

  /// The same device at the clocks of a short benchmark on a cool board, which is what sample tables hold: without the
  /// sustained-clock factor.
  DeviceProfile isolated() const;

  /// What the device draws; nothing known where its document does not say.
  const PowerModel& power() const;
  /// The same device at this share of its highest clock, 0 < clock <= 1: fused attention takes longer, and products do
  /// below the share that they make use of.
  DeviceProfile at_clock(double clock) const;
  double clock() const { return clock_; }

  struct Model;  // the fit; only this room knows it
  const Model& model() const { return *model_; }
  /// Whether both are copies of one profile, as all jobs of a study have it.
  bool operator==(const DeviceProfile&) const = default;

 private:
  /// Of products in operands of the type, over that in sample tables.
  double product_speed(DataType type) const;
  /// Of a simple kernel beyond its floor, at any clock.
  double seconds_of_bytes(Streaming kernel, double bytes) const;
  /// At full clock; 0 of a kernel that goes by bytes alone.
  double seconds_of_elements(Streaming kernel, double elements) const;

  std::shared_ptr<const Model> model_;
  double clock_ = 1;
};

}  // namespace orrery::calibration
