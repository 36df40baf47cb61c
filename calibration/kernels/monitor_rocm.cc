// ROCm SMI, its functions declared as in AMD's ROCm SMI library reference (rocm_smi.h), and what Linux says where ROCm
// SMI is missing or does not say it: clocks, whose struct changed between ROCm 5 and 6, and links.
#include <cstdint>
#include <cstdio>

#include "calibration/kernels/library.h"
#include "calibration/kernels/monitor.h"
#include "calibration/kernels/sysfs.h"

namespace orrery::calibration::gpu {
namespace {

constexpr std::uint32_t kXgmi = 2;  // RSMI_IO_LINK_TYPE RSMI_IOLINK_TYPE_XGMI

struct Smi {
  Library library{{"librocm_smi64.so.5", "librocm_smi64.so.6", "librocm_smi64.so.1", "librocm_smi64.so"}};
  int (*init)(std::uint64_t) = nullptr;
  int (*count)(std::uint32_t*) = nullptr;
  int (*bus)(std::uint32_t, std::uint64_t*) = nullptr;
  int (*power)(std::uint32_t, std::uint32_t, std::uint64_t*) = nullptr;  // a mean; no answer since MI300
  int (*socket_power)(std::uint32_t, std::uint64_t*) = nullptr;          // at the moment; ROCm 6 and later
  int (*power_limit)(std::uint32_t, std::uint32_t, std::uint64_t*) = nullptr;
  int (*energy)(std::uint32_t, std::uint64_t*, float*, std::uint64_t*) = nullptr;  // ROCm 4.5 and later
  int (*link_type)(std::uint32_t, std::uint32_t, std::uint64_t*, std::uint32_t*) = nullptr;
  int (*link_rates)(std::uint32_t, std::uint32_t, std::uint64_t*, std::uint64_t*) = nullptr;  // MB/s; ROCm 5 and later
  bool ready = false;

  Smi() {
    ready = library.get(init, "rsmi_init") && library.get(count, "rsmi_num_monitor_devices") &&
            library.get(bus, "rsmi_dev_pci_id_get") && library.get(power_limit, "rsmi_dev_power_cap_get") &&
            init(0) == 0;
    static_cast<void>(library.get(power, "rsmi_dev_power_ave_get"));
    static_cast<void>(library.get(socket_power, "rsmi_dev_current_socket_power_get"));
    static_cast<void>(library.get(energy, "rsmi_dev_energy_count_get"));
    static_cast<void>(library.get(link_type, "rsmi_topo_get_link_type"));
    static_cast<void>(library.get(link_rates, "rsmi_minmax_bandwidth_get"));
  }
};

Smi& smi() {
  static Smi library;
  return library;
}

}  // namespace

Monitor::Monitor(const std::string& bus) : bus_(sysfs_bus(bus)) {
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

double Monitor::sm_mhz() const { return sysfs_clock_mhz(kSysfs, bus_); }

double Monitor::power_w() const {
  std::uint64_t microwatts = 0;
  const bool now = works_ && smi().socket_power != nullptr && smi().socket_power(number_, &microwatts) == 0;
  if (!now && !(works_ && smi().power != nullptr && smi().power(number_, 0, &microwatts) == 0)) return 0;
  return static_cast<double>(microwatts) * 1e-6;
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

// The driver names no reasons.
std::int32_t Monitor::limits() const { return 0; }

std::string Monitor::state() const {
  const std::string level = sysfs_clocks_set(kSysfs, bus_);
  return level.empty() ? "" : "its clocks are set: " + level;
}

GpuFacts::Links Monitor::links() const {
  GpuFacts::Links links;
  std::uint32_t devices = 0;
  const bool asked = works_ && smi().link_type != nullptr && smi().link_rates != nullptr && smi().count(&devices) == 0;
  for (std::uint32_t i = 0; asked && i < devices; ++i) {
    std::uint64_t hops = 0, one = 0, all = 0;
    std::uint32_t type = 0;
    if (i == number_ || smi().link_type(number_, i, &hops, &type) != 0 || type != kXgmi) continue;
    // Only neighbours have rates: of one link, and of all between the two.
    if (smi().link_rates(number_, i, &one, &all) != 0 || one == 0) continue;
    links.bandwidth += 1e6 * static_cast<double>(all);
    links.count += static_cast<std::int32_t>(all / one);
    ++links.peers;
  }
  if (links.peers > 0) return links;
  const SysfsLinks found = sysfs_links(kSysfs, bus_);
  links.bandwidth = found.bandwidth;
  links.count = found.count;
  links.peers = found.peers;
  return links;
}

}  // namespace orrery::calibration::gpu
