// What a DeviceProfile holds. Private to this room: the fit tool writes it, profile.cc answers from it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/device/attention_model.h"
#include "calibration/device/collective_model.h"
#include "calibration/device/expert_layer.h"
#include "calibration/device/gemm_model.h"
#include "calibration/device/grouped_model.h"
#include "calibration/device/measured_host.h"
#include "calibration/device/power.h"
#include "calibration/device/profile.h"
#include "calibration/device/uncertainty.h"

namespace orrery::calibration {

inline constexpr double kLongestKernel = 8e6;  // seconds; what a Duration holds

/// Streaming kernels: time = floor + bytes / (efficiency * memory bandwidth).
struct StreamingModel {
  double floor = 3e-6;  // seconds
  std::array<double, kStreamingKernels> efficiency{};
  std::array<double, kStreamingKernels> elements{};  // a second and processor; 0: bytes alone count
};

/// Of mixers: by MixerKernel, and of scans that have rates of their own, by their place in kMeasuredScans.
struct MixerModel {
  std::array<MixerRates, kMixerKernels> rates{};
  std::array<std::optional<MixerRates>, kScanKinds> scans{};
  const MixerRates* own(const ScanKind* kind) const;  // null: `rates` serve it
};

struct DeviceProfile::Model {
  std::string name, provenance;
  /// What the data sheet says.
  struct Sheet {
    std::int64_t processors = 1;
    std::array<double, kDataTypes> peak{};  // FLOP/s
    std::array<bool, kDataTypes> has{};     // whether the device multiplies the type
    double unaligned = 0;                   // FLOP/s of 16-bit products that cannot use the matrix units; 0: no matter
    double memory = 0, memory_bandwidth = 0;
  } sheet;
  /// Clocks of a long step over those of a short benchmark, 0 to 1.
  struct Sustained {
    double matmul = 1, fp8 = 1, attention = 1;
  } sustained;
  PowerModel power;
  MeasuredHost host;                     // of the machine that the profile was measured on
  std::optional<sim::Settings> serving;  // kernels of engines that it says itself (serving_kernels.h)
  std::array<GemmModel, kDataTypes> gemm;
  /// Products of a rank's experts, and what serving libraries' tables time around them.
  struct Experts {
    std::array<GroupedModel, kDataTypes> products;
    std::array<ServedExperts, kDataTypes> around;
  } experts;
  AttentionModel attention;
  std::array<std::optional<AttentionModel>, kAttentionKernels> kernels;  // of their own, for training
  const AttentionModel* other(AttentionKernel kernel) const;             // null: answered by `attention`
  StreamingModel streaming;
  MixerModel mixers;
  std::array<CollectiveModel, kCollectiveOps> collective;
  /// How far off the answers may be, from the `error` of each section.
  struct Errors {
    std::array<Uncertainty, kDataTypes> gemm, grouped;
    Uncertainty attention, streaming;
    std::array<Uncertainty, kCollectiveOps> collective;
  } error;
};

/// The numbers of a list that has at least one.
std::vector<double> numbers_at(const sim::Settings& section, std::string_view key);
// Readers of the model sections. `device` carries the data sheet; the models copy what they need of it.
/// The same numbers for products of another type, at its peak.
GemmModel with_type(GemmModel model, const DeviceProfile::Model& device, DataType type);
GemmModel load_gemm(const sim::Settings& section, const DeviceProfile::Model& device, DataType type);
/// Fills in `experts` and its error; `device` has its dense products by then, which stand in where
/// `section` is null or lacks a type.
void load_experts(const sim::Settings* section, DeviceProfile::Model& device);
AttentionModel load_attention(const sim::Settings& section, const DeviceProfile::Model& device);
/// Fills in the kernels of other generations (`attention_kernels`); `device` has its fused attention by then.
void load_attention_kernels(const sim::Settings& section, DeviceProfile::Model& device);
StreamingModel load_streaming(const sim::Settings& section);
std::array<CollectiveModel, kCollectiveOps> load_collectives(const sim::Settings& section);
/// Sections `scans` and `sparse`; null: a profile has none.
MixerModel load_mixers(const sim::Settings* scans, const sim::Settings* sparse);

// Writers: the same sections as YAML text, indented by `indent` spaces, without their own key.
std::string to_yaml(const GemmModel& model, int indent);
/// Of it, what is known of rows that fill no tiles.
std::string ragged_yaml(const GemmModel& model, int indent);
std::string to_yaml(const GroupedModel& products, const ServedExperts& around, int indent);
std::string to_yaml(const AttentionModel& model, int indent);
std::string to_yaml(const StreamingModel& model, int indent);
std::string to_yaml(const CollectiveModel& model, int indent);

}  // namespace orrery::calibration
