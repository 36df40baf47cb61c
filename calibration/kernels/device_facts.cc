// What the runtime knows of a device. Peaks are those of the architecture's matrix units (FLOP per clock and
// multiprocessor, from NVIDIA's white papers of V100, A100, H100, B200 and B300 and AMD's CDNA 2 to 4 white papers) at
// the highest clock, so a data sheet, which counts at the boost clock, may say some percent less.
#include <cstdio>
#include <string>

#include "calibration/kernels/device_state.h"
#include "calibration/kernels/sysfs.h"

namespace orrery::calibration::gpu {
namespace {

void set_text(char* to, std::size_t size, const std::string& text) { std::snprintf(to, size, "%s", text.c_str()); }

#if defined(ORRERY_HIP)
constexpr auto kProcessors = hipDeviceAttributeMultiprocessorCount;
constexpr auto kL2 = hipDeviceAttributeL2CacheSize;
constexpr auto kClock = hipDeviceAttributeClockRate;
constexpr auto kMemoryClock = hipDeviceAttributeMemoryClockRate;
constexpr auto kBusWidth = hipDeviceAttributeMemoryBusWidth;
using DeviceProperties = hipDeviceProp_t;
#else
constexpr auto kProcessors = cudaDevAttrMultiProcessorCount;
constexpr auto kL2 = cudaDevAttrL2CacheSize;
constexpr auto kClock = cudaDevAttrClockRate;
constexpr auto kMemoryClock = cudaDevAttrMemoryClockRate;
constexpr auto kBusWidth = cudaDevAttrGlobalMemoryBusWidth;
using DeviceProperties = cudaDeviceProp;
#endif

template <class Attribute>
int attribute(Attribute which, int device) {
  int value = 0;
  return gpuDeviceGetAttribute(&value, which, device) == gpuSuccess ? value : 0;
}

/// Dense FLOP per clock and multiprocessor with 16-bit operands, and factors of the other types.
struct MatrixUnits {
  double half = 0;
  double single = 0.5;  // TF32, or fp32 where there is no such thing
  bool bf16 = true;
  bool fp8 = false;
  double scaled = 0;  // mxfp8; 0: no units that apply scales of 32 elements
  double nvfp4 = 0;
};

#if defined(ORRERY_HIP)
MatrixUnits matrix_units(const std::string& architecture) {
  if (architecture.rfind("gfx90a", 0) == 0) return {1024, 0.25, true, false};
  if (architecture.rfind("gfx94", 0) == 0) return {2048, 0.125, true, true};
  if (architecture.rfind("gfx95", 0) == 0) return {4096, 0.0625, true, true, 2, 0};
  return {};
}
#else
MatrixUnits matrix_units(int capability) {
  if (capability >= 120) return {1024, 0.5, true, true, 2, 4};
  if (capability == 103) return {8192, 0.5, true, true, 2, 6};
  if (capability >= 100) return {8192, 0.5, true, true, 2, 4};
  if (capability >= 90) return {4096, 0.5, true, true};
  if (capability == 89) return {1024, 0.5, true, true};
  if (capability >= 86) return {1024, 0.5, true, false};
  if (capability >= 80) return {2048, 0.5, true, false};
  return {1024, 0.125, false, false};
}
#endif

std::string version_text(int version) {
#if defined(ORRERY_HIP)
  return std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100);
#else
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
#endif
}

}  // namespace

void Device::describe() {
  DeviceProperties properties;
  check(ORRERY_GPU(GetDeviceProperties)(&properties, number_), "reading the device's properties");
  char bus[32] = {};
  check(gpuDeviceGetPCIBusId(bus, sizeof bus, number_), "reading the device's bus address");
  monitor_ = std::make_unique<Monitor>(bus);
  GpuFacts& f = facts_;
  set_text(f.name, sizeof f.name, properties.name);
#if defined(ORRERY_HIP)
  const std::string architecture = properties.gcnArchName;
  set_text(f.architecture, sizeof f.architecture, architecture.substr(0, architecture.find(':')));
  const MatrixUnits units = matrix_units(architecture);
#else
  capability_ = properties.major * 10 + properties.minor;
  set_text(f.architecture, sizeof f.architecture, "sm_" + std::to_string(capability_));
  const MatrixUnits units = matrix_units(capability_);
#endif
  int driver = 0, runtime = 0;
  static_cast<void>(gpuDriverGetVersion(&driver));
  static_cast<void>(gpuRuntimeGetVersion(&runtime));
  set_text(f.driver, sizeof f.driver, version_text(driver));
  set_text(f.runtime, sizeof f.runtime, version_text(runtime));
  check(gpuGetDeviceCount(&f.gpus), "counting devices");
  f.processors = attribute(kProcessors, number_);
  f.memory.bytes = static_cast<double>(properties.totalGlobalMem);
  f.memory.free_bytes = free_bytes();
  f.memory.l2_bytes = attribute(kL2, number_);
  f.clock_hz = 1e3 * attribute(kClock, number_);
  // Two transfers a clock, in bytes.
  f.memory.bandwidth = 2e3 * attribute(kMemoryClock, number_) * attribute(kBusWidth, number_) / 8;
  const double half = units.half * f.clock_hz * static_cast<double>(f.processors);
  const auto peak = [&](CaseType type) -> double& { return f.peak[static_cast<int>(type)]; };
  peak(CaseType::float16) = half;
  peak(CaseType::bfloat16) = units.bf16 ? half : 0;
  peak(CaseType::float32) = half * units.single;
  for (const CaseType type : {CaseType::fp8_e4m3, CaseType::fp8_e5m2, CaseType::fp8_block, CaseType::fp8_row})
    peak(type) = units.fp8 ? 2 * half : 0;
  peak(CaseType::mxfp8) = units.scaled * half;
  peak(CaseType::nvfp4) = units.nvfp4 * half;
  set_text(f.state, sizeof f.state, monitor_->state());
  f.links = monitor_->links();
  f.links.pcie = sysfs_pcie_bandwidth(kSysfs, sysfs_bus(bus));
  f.power_limit_w = monitor_->power_limit_w();
}

}  // namespace orrery::calibration::gpu
