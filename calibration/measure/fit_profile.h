// The text of a device profile from measurements: what `orrery calibrate` writes for the GPU that it measured, and the
// fitted sections that orrery_fit writes for published tables. Pure: no files. What the samples lack is taken from
// another profile and says so; what neither has is assumed, and says that. Left out: the node (its links cannot be told
// from one GPU), which is written as an assumption to edit.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "calibration/measure/fit.h"
#include "calibration/measure/samples.h"
#include "calibration/profile_model.h"

namespace orrery::calibration {

/// What a driver or a data sheet says of a device. Rates per second; 0 or absent: unknown.
struct DeviceFacts {
  std::string name, description;  // description: one line, with driver, libraries, clocks, date
  std::int64_t processors = 0;    // SMs or CUs
  double memory_bytes = 0, memory_bandwidth = 0;
  double boost_hz = 0;
  double power_limit = 0;                 // W
  std::map<DataType, double> peak_flops;  // dense
  double nvlink_bandwidth = 0;            // bytes/s and direction, all links of a GPU
  std::vector<std::string> notes;         // written as comments
};

/// The text of a profile fitted to `samples`, with provenance "measured here"; what the samples lack is taken from
/// `base`, if there is one, with provenance "transferred from <name>". Throws sim::UserError when there are no matrix
/// products in samples or base, or facts that no profile can do without (processors, peak, memory) are missing.
std::string fit_profile(const DeviceFacts& facts, const Samples& samples, const DeviceProfile* base);

/// A fitted section as YAML text, and a line about how well it holds for whoever waits for the fit.
struct FittedSection {
  std::string yaml, summary;
};
/// gemm.<type>, indented by two, with its key; empty without samples of that type.
FittedSection fit_gemm_section(const std::vector<GemmSample>& samples, DataType type,
                               const DeviceProfile::Model& device, const std::string& provenance);
/// experts, with its key: a mapping of the types that samples have; launches are those of the device's dense products.
FittedSection fit_experts_section(const std::vector<ExpertSample>& samples, const DeviceProfile::Model& device,
                                  const std::string& provenance);
/// attention, with its key; `start` gives what the samples do not tell.
FittedSection fit_attention_section(const std::vector<AttentionSample>& samples, const DeviceProfile::Model& device,
                                    const std::string& provenance);
/// collectives, with its key. `line_rate`, `in_switch_from` and `rates`: as in fit_collective. Throws sim::UserError
/// naming `table` when an operation has no sample.
FittedSection fit_collective_section(const std::vector<CollectiveSample>& samples, double line_rate,
                                     double in_switch_from, const std::string& provenance, const std::string& table,
                                     GroupRates rates = GroupRates::by_law);

}  // namespace orrery::calibration
