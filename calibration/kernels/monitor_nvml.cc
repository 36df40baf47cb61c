// NVML. Its functions are declared here as in NVIDIA's NVML API reference, because toolkits come without nvml.h.
#include <unistd.h>

#include <array>
#include <set>
#include <string>

#include "calibration/kernels/library.h"
#include "calibration/kernels/monitor.h"

namespace orrery::calibration::gpu {
namespace {

constexpr unsigned kClockSm = 1;         // nvmlClockType_t NVML_CLOCK_SM
constexpr unsigned kFeatureEnabled = 1;  // nvmlEnableState_t
constexpr unsigned kMostLinks = 36;      // links that a device may have; NVML says so for each number
constexpr unsigned kToGpu = 0;           // nvmlIntNvLinkDeviceType_t NVML_NVLINK_DEVICE_TYPE_GPU

struct ProcessInfo {  // nvmlProcessInfo_v2_t
  unsigned pid;
  unsigned long long memory;
  unsigned instance, compute_instance;
};

// nvmlClocksEventReasons.
constexpr unsigned long long kSetClocks = 0x2 | 0x10, kPowerCap = 0x4, kSlowdown = 0x8, kHot = 0x20 | 0x40,
                             kPowerBrake = 0x80;

struct PciInfo {  // nvmlPciInfo_t
  char legacy[16];
  unsigned domain, bus, device, pci_device, subsystem;
  char id[32];
};

struct Nvml {
  Library library{{"libnvidia-ml.so.1", "libnvidia-ml.so"}};
  int (*init)() = nullptr;
  int (*by_bus)(const char*, void**) = nullptr;
  int (*clock)(void*, unsigned, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*power_limit)(void*, unsigned*) = nullptr;
  int (*energy)(void*, unsigned long long*) = nullptr;
  int (*version)(char*, unsigned) = nullptr;
  int (*link_state)(void*, unsigned, unsigned*) = nullptr;
  int (*link_version)(void*, unsigned, unsigned*) = nullptr;
  int (*reasons)(void*, unsigned long long*) = nullptr;
  int (*processes)(void*, unsigned*, ProcessInfo*) = nullptr;
  int (*link_to)(void*, unsigned, unsigned*) = nullptr;
  int (*link_pci)(void*, unsigned, PciInfo*) = nullptr;
  bool ready = false;

  Nvml() {
    ready = library.get(init, "nvmlInit_v2") && library.get(by_bus, "nvmlDeviceGetHandleByPciBusId_v2") &&
            library.get(clock, "nvmlDeviceGetClockInfo") && library.get(power, "nvmlDeviceGetPowerUsage") &&
            library.get(power_limit, "nvmlDeviceGetEnforcedPowerLimit") &&
            library.get(version, "nvmlSystemGetNVMLVersion") && library.get(link_state, "nvmlDeviceGetNvLinkState") &&
            library.get(link_version, "nvmlDeviceGetNvLinkVersion") && init() == 0;
    // Volta and later; later drivers.
    static_cast<void>(library.get(energy, "nvmlDeviceGetTotalEnergyConsumption"));
    static_cast<void>(library.get(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons"));
    static_cast<void>(library.get(processes, "nvmlDeviceGetComputeRunningProcesses_v3"));
    static_cast<void>(library.get(link_to, "nvmlDeviceGetNvLinkRemoteDeviceType"));
    static_cast<void>(library.get(link_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2"));
  }
};

Nvml& nvml() {
  static Nvml library;
  return library;
}

/// Bytes/s and direction of one link by NVLink generation, from NVIDIA's white papers of V100, A100, H100 and B200.
double link_rate(unsigned generation) {
  constexpr std::array<double, 6> kRates{0, 20e9, 25e9, 25e9, 25e9, 50e9};
  return generation < kRates.size() ? kRates[generation] : 0;
}

}  // namespace

Monitor::Monitor(const std::string& bus) : bus_(bus) {
  if (!nvml().ready) {
    problem_ = nvml().library.found() ? "NVML does not start" : nvml().library.problem();
    return;
  }
  works_ = nvml().by_bus(bus.c_str(), &device_) == 0;
  if (!works_) problem_ = "NVML does not know the device";
}

Monitor::~Monitor() = default;

std::string Monitor::version() const {
  std::array<char, 80> text{};
  if (!works_ || nvml().version(text.data(), static_cast<unsigned>(text.size())) != 0) return {};
  return text.data();
}

double Monitor::sm_mhz() const {
  unsigned mhz = 0;
  return works_ && nvml().clock(device_, kClockSm, &mhz) == 0 ? mhz : 0;
}

double Monitor::power_w() const {
  unsigned milliwatts = 0;
  return works_ && nvml().power(device_, &milliwatts) == 0 ? milliwatts * 1e-3 : 0;
}

double Monitor::power_limit_w() const {
  unsigned milliwatts = 0;
  return works_ && nvml().power_limit(device_, &milliwatts) == 0 ? milliwatts * 1e-3 : 0;
}

double Monitor::energy_j() const {
  unsigned long long millijoules = 0;
  return works_ && nvml().energy != nullptr && nvml().energy(device_, &millijoules) == 0
             ? static_cast<double>(millijoules) * 1e-3
             : 0;
}

std::int32_t Monitor::limits() const {
  unsigned long long now = 0;
  if (!works_ || nvml().reasons == nullptr || nvml().reasons(device_, &now) != 0) return 0;
  return ((now & kPowerCap) != 0 ? kLimitedByPower : 0) | ((now & kHot) != 0 ? kLimitedByHeat : 0) |
         ((now & kSetClocks) != 0 ? kLimitedBySetting : 0) |
         ((now & (kSlowdown | kPowerBrake)) != 0 ? kLimitedByBoard : 0);
}

std::string Monitor::state() const {
  std::array<ProcessInfo, 64> found{};
  unsigned count = found.size();
  std::string out;
  if (works_ && nvml().processes != nullptr && nvml().processes(device_, &count, found.data()) == 0) {
    // In a container this process goes by another number than outside; its context is there, though.
    bool own = false;
    for (unsigned i = 0; i < count; ++i) own = own || found[i].pid == static_cast<unsigned>(::getpid());
    const unsigned others = own || count > 0 ? count - 1 : 0;
    if (others > 0) out = std::to_string(others) + " other processes use this GPU";
  }
  if ((limits() & kLimitedBySetting) != 0) out += std::string(out.empty() ? "" : "; ") + "its clocks are set";
  return out;
}

GpuFacts::Links Monitor::links() const {
  GpuFacts::Links links;
  std::set<std::string> peers;
  for (unsigned link = 0; works_ && link < kMostLinks; ++link) {
    unsigned active = 0, generation = 0, to = ~0u;
    if (nvml().link_state(device_, link, &active) != 0 || active != kFeatureEnabled) continue;
    if (nvml().link_version(device_, link, &generation) != 0) continue;
    links.bandwidth += link_rate(generation);
    ++links.count;
    PciInfo at{};
    if (nvml().link_to != nullptr && nvml().link_to(device_, link, &to) == 0 && to == kToGpu &&
        nvml().link_pci != nullptr && nvml().link_pci(device_, link, &at) == 0)
      peers.insert(at.id);
  }
  links.peers = static_cast<std::int32_t>(peers.size());
  return links;
}

}  // namespace orrery::calibration::gpu
