// A GPU module, loaded at run time: the program's side of calibration/kernels/abi.h.
#pragma once

#include <string>

#include "calibration/kernels/abi.h"
#include "calibration/measure/measurement.h"

namespace orrery::calibration {

class GpuModule {
 public:
  /// Loads the shared library `path`. Throws sim::UserError where it cannot be loaded (a runtime library that is
  /// missing, say) or speaks another version of the interface.
  explicit GpuModule(const std::string& path);
  ~GpuModule();
  GpuModule(const GpuModule&) = delete;
  GpuModule& operator=(const GpuModule&) = delete;

  /// GPUs that it can drive; 0, with the reason in message(), without a driver or a device.
  int devices();
  /// Throws sim::UserError where there is no such device or it does not start.
  GpuFacts open(int device);

  /// `timed`: repeats for about `budget` seconds; otherwise only checks the result. On done, `result` is filled in;
  /// otherwise message() says why not.
  GpuStatus measure(const Case& what, double budget, bool timed, Measurement& result);
  std::string message() const { return message_; }

 private:
  void* library_ = nullptr;
  decltype(&orrery_gpu_message) message_of_ = nullptr;
  decltype(&orrery_gpu_count) count_ = nullptr;
  decltype(&orrery_gpu_open) open_ = nullptr;
  decltype(&orrery_gpu_measure) measure_ = nullptr;
  decltype(&orrery_gpu_close) close_ = nullptr;
  std::string message_;
};

}  // namespace orrery::calibration
