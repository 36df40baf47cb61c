// ROCm SMI, its functions declared as in AMD's ROCm SMI library reference (rocm_smi.h). Left out: Infinity Fabric
// links.
#include <cstdint>
#include <cstdio>

#include "calibration/kernels/library.h"
#include "calibration/kernels/monitor.h"

namespace orrery::calibration::gpu {
namespace {

struct Smi {
  Library library{{"librocm_smi64.so.5", "librocm_smi64.so.6", "librocm_smi64.so.1", "librocm_smi64.so"}};
  int (*init)(std::uint64_t) = nullptr;
  int (*count)(std::uint32_t*) = nullptr;
  int (*bus)(std::uint32_t, std::uint64_t*) = nullptr;
  int (*power)(std::uint32_t, std::uint32_t, std::uint64_t*) = nullptr;
  int (*power_limit)(std::uint32_t, std::uint32_t, std::uint64_t*) = nullptr;
  int (*energy)(std::uint32_t, std::uint64_t*, float*, std::uint64_t*) = nullptr;  // ROCm 4.5 and later
  bool ready = false;

  Smi() {
    ready = library.get(init, "rsmi_init") && library.get(count, "rsmi_num_monitor_devices") &&
            library.get(bus, "rsmi_dev_pci_id_get") && library.get(power, "rsmi_dev_power_ave_get") &&
            library.get(power_limit, "rsmi_dev_power_cap_get") && init(0) == 0;
    static_cast<void>(library.get(energy, "rsmi_dev_energy_count_get"));
  }
};

Smi& smi() {
  static Smi library;
  return library;
}

}  // namespace

Monitor::Monitor(const std::string& bus) {
  if (!smi().ready) {
    problem_ = smi().library.found() ? "ROCm SMI does not start" : smi().library.problem();
    return;
  }
  unsigned domain = 0, number = 0, slot = 0, function = 0;
  std::uint32_t devices = 0;
  if (std::sscanf(bus.c_str(), "%x:%x:%x.%x", &domain, &number, &slot, &function) < 3) return;
  const std::uint64_t wanted = (static_cast<std::uint64_t>(domain) << 32) | (number << 8) | (slot << 3) | function;
  if (smi().count(&devices) != 0) return;
  for (std::uint32_t i = 0; i < devices && !works_; ++i) {
    std::uint64_t at = 0;
    works_ = smi().bus(i, &at) == 0 && at == wanted;
    number_ = i;
  }
  if (!works_) problem_ = "ROCm SMI does not know the device";
}

Monitor::~Monitor() = default;

std::string Monitor::version() const { return works_ ? "ROCm SMI" : ""; }

// The layout of rsmi_frequencies_t changed between ROCm 5 and 6, so the clock is left unknown rather than wrong.
double Monitor::sm_mhz() const { return 0; }

double Monitor::power_w() const {
  std::uint64_t microwatts = 0;
  return works_ && smi().power(number_, 0, &microwatts) == 0 ? static_cast<double>(microwatts) * 1e-6 : 0;
}

double Monitor::power_limit_w() const {
  std::uint64_t microwatts = 0;
  return works_ && smi().power_limit(number_, 0, &microwatts) == 0 ? static_cast<double>(microwatts) * 1e-6 : 0;
}

double Monitor::energy_j() const {
  std::uint64_t count = 0, nanoseconds = 0;
  float microjoules = 0;  // of one count
  if (!works_ || smi().energy == nullptr || smi().energy(number_, &count, &microjoules, &nanoseconds) != 0) return 0;
  return static_cast<double>(count) * static_cast<double>(microjoules) * 1e-6;
}

double Monitor::nvlink_bandwidth() const { return 0; }

}  // namespace orrery::calibration::gpu
