// Clocks and power of a device while it works: NVML on CUDA, ROCm SMI on HIP. Both are optional.
#pragma once

#include <string>

#include "calibration/kernels/abi.h"

namespace orrery::calibration::gpu {

class Monitor {
 public:
  /// `bus`: PCI address of the device, as the runtime prints it.
  explicit Monitor(const std::string& bus);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  bool works() const { return works_; }
  const std::string& problem() const { return problem_; }
  std::string version() const;
  /// 0 where unknown.
  double sm_mhz() const;
  double power_w() const;
  double power_limit_w() const;
  /// Joules drawn since some moment in the past, by a counter that moves some tens of times a second.
  double energy_j() const;
  /// What holds the clock back now: bits of abi.h.
  std::int32_t limits() const;
  /// What bends measurements, in a few words; empty: nothing that is known.
  std::string state() const;
  /// But for the slot's.
  GpuFacts::Links links() const;

 private:
  bool works_ = false;
  std::string problem_;
  std::string bus_;         // as Linux names it: small letters, a domain of four digits
  void* device_ = nullptr;  // NVML handle
  unsigned number_ = 0;     // ROCm SMI number
};

}  // namespace orrery::calibration::gpu
