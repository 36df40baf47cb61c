// The device in use: its properties, its stream, its errors. One at a time.
#pragma once

#include <memory>
#include <string>

#include "calibration/kernels/abi.h"
#include "calibration/kernels/gpu.h"
#include "calibration/kernels/monitor.h"

namespace orrery::calibration::gpu {

/// Ends a case or the whole run; never leaves the module.
struct Failure {
  GpuStatus status = GpuStatus::failed;
  std::string message;
};

/// Throws Failure unless `code` is success; `what` says what was tried.
void check(ErrorCode code, const char* what);
/// The error that the last kernel launch left, if any.
void check_launch(const char* what);

class Device {
 public:
  explicit Device(int number);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int number() const { return number_; }
  Stream stream() const { return stream_; }
  const GpuFacts& facts() const { return facts_; }
  /// Compute capability times ten on CUDA (90), 0 on HIP.
  int capability() const { return capability_; }
  double free_bytes() const;
  Monitor& monitor() { return *monitor_; }
  /// Whether the device still answers; a failed kernel can take the whole context with it.
  bool answers() const;

 private:
  void describe();

  int number_ = 0, capability_ = 0;
  Stream stream_ = nullptr;
  GpuFacts facts_;
  std::unique_ptr<Monitor> monitor_;
};

/// Device memory that goes away with its owner. Throws Failure with out_of_memory.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace orrery::calibration::gpu
