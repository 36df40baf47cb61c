// The text of a device profile from measurements: what `orrery calibrate` writes for the GPU that it measured, and the
// fitted sections that orrery_fit writes for published tables. Pure: no files. A chip that ships is inherited, so that
// what was not measured stays as it is there; what no profile has is assumed, and says that.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "calibration/device/profile_model.h"
#include "calibration/device/serving_kernels.h"
#include "calibration/kernels/abi.h"
#include "calibration/measure/fit.h"
#include "calibration/measure/samples.h"

namespace orrery::calibration {

/// What a driver or a data sheet says of a device. Rates per second; 0 or absent: unknown.
struct DeviceFacts {
  std::string name, description;  // description: one line, with driver, libraries, clocks, date
  std::string architecture;       // "sm_90", "gfx942"
  std::int64_t processors = 0;    // SMs or CUs
  double memory_bytes = 0, memory_bandwidth = 0;
  double boost_hz = 0;
  double power_limit = 0;                 // W
  std::map<DataType, double> peak_flops;  // dense
  std::int64_t gpus = 1;                  // of the machine
  GpuFacts::Links links;
  std::vector<std::string> notes;  // written as comments
};

/// The shipped profile of the same chip.
struct BaseProfile {
  std::string name;  // that documents inherit it by
  DeviceProfile device;
  struct Node {
    std::int64_t gpus = 8;
    double rate = 0;        // bytes/s and direction of a GPU, all its links
    double efficiency = 1;  // share of it that large transfers reach
    bool switched = true, mesh = false;
  } node;
  /// Kernels of engines that ship for it: engine, family, variant.
  std::set<std::tuple<Engine, std::size_t, std::size_t>> served;
};

/// The text of a profile fitted to `samples`, with provenance "measured here". With a `base` it inherits that, and says
/// only what was measured or is known to differ. Throws sim::UserError when there are no matrix products in samples or
/// base, or facts that no profile can do without (processors, peak, memory) are missing.
std::string fit_profile(const DeviceFacts& facts, const Samples& samples, const BaseProfile* base);

/// A fitted section as YAML text, and a line about how well it holds for whoever waits for the fit.
struct FittedSection {
  std::string yaml, summary;
};
/// gemm.<type>, indented by two, with its key; empty without samples of that type.
FittedSection fit_gemm_section(const std::vector<GemmSample>& samples, DataType type,
                               const DeviceProfile::Model& device, const std::string& provenance,
                               const std::vector<GroupedSample>& groups = {});
/// experts, with its key: a mapping of the types that samples have; launches are those of the device's dense products.
FittedSection fit_experts_section(const std::vector<ExpertSample>& samples, const DeviceProfile::Model& device,
                                  const std::string& provenance);
/// attention, with its key; `start` gives what the samples do not tell.
FittedSection fit_attention_section(const std::vector<AttentionSample>& samples, const DeviceProfile::Model& device,
                                    const std::string& provenance);
/// collectives, with its key. `line_rate`, `in_switch_from` and `rates`: as in fit_collective. `larger`: a profile
/// whose groups of more GPUs than the samples have are taken along, scaled by what the largest group measured is to the
/// same there. Throws sim::UserError naming `table` when an operation has no sample.
FittedSection fit_collective_section(const std::vector<CollectiveSample>& samples, double line_rate,
                                     double in_switch_from, const std::string& provenance, const std::string& table,
                                     GroupRates rates = GroupRates::by_law,
                                     const DeviceProfile::Model* larger = nullptr);

}  // namespace orrery::calibration
