// What the host and its link cost: launching a kernel, from code and from a graph; the gap that the device leaves
// between two kernels of a stream; copies between host (pinned) and device memory.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "calibration/kernels/timing.h"

namespace orrery::calibration::gpu {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Calls `once` until the budget or the room for results is used up.
template <class Once>
GpuTiming repeat(double budget, const Once& once) {
  GpuTiming timing;
  once();  // warm-up
  const auto begin = Clock::now();
  while (timing.repeats < kMostRepeats && (timing.repeats < 5 || seconds_since(begin) < budget))
    timing.seconds[timing.repeats++] = once();
  return timing;
}

/// Fewer than the queue of a stream holds, so that the host never waits for the device.
constexpr int kBurst = 256;

GpuTiming launch_eager(Device& device, double budget) {
  return repeat(budget, [&] {
    check(gpuStreamSynchronize(device.stream()), "waiting for the device");
    const auto begin = Clock::now();
    for (int i = 0; i < kBurst; ++i) empty_kernel(device.stream());
    const double spent = seconds_since(begin);
    check_launch("launching an empty kernel");
    return spent / kBurst;
  });
}

GpuTiming launch_graph(Device& device, double budget) {
  const Replay replay(device, [](Stream stream) {
    for (int i = 0; i < kBurst; ++i) empty_kernel(stream);
  });
  if (!replay.works()) throw Failure{GpuStatus::unavailable, "kernels cannot be recorded into a graph"};
  Mark begin, end;
  return repeat(budget, [&] {
    begin.record(device.stream());
    replay.launch(device.stream());
    end.record(device.stream());
    end.wait();
    return end.since(begin) / kBurst;
  });
}

/// Many short spins against one of the same length in all: what is left are the gaps.
GpuTiming kernel_gap(Device& device, double budget) {
  constexpr int kKernels = 100;
  constexpr long long kCycles = 40000;  // about 20 us: longer than a launch takes the host
  Mark begin, end;
  const auto spun = [&](int kernels, long long cycles) {
    begin.record(device.stream());
    for (int i = 0; i < kernels; ++i) spin(cycles, device.stream());
    end.record(device.stream());
    end.wait();
    return end.since(begin);
  };
  return repeat(budget, [&] {
    const double apart = spun(kKernels, kCycles), together = spun(1, kKernels * kCycles);
    return std::max((apart - together) / (kKernels - 1), 1e-9);
  });
}

/// Pinned host memory.
class HostMemory {
 public:
  explicit HostMemory(std::size_t bytes) { check(gpuHostAlloc(&data_, bytes), "allocating pinned memory"); }
  ~HostMemory() { static_cast<void>(gpuHostFree(data_)); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

GpuTiming copies(Device& device, const Case& what, double budget) {
  const auto bytes = static_cast<std::size_t>(what.bytes);
  const bool to_device = std::strcmp(what.name, "copy_h2d") == 0, to_host = std::strcmp(what.name, "copy_d2h") == 0;
  const Memory there(bytes), other(to_device || to_host ? 256 : bytes);
  const HostMemory here(to_device || to_host ? bytes : 256);
  std::memset(here.data(), 0x5a, to_device || to_host ? bytes : 256);
  void* const to = to_device ? there.data() : to_host ? here.data() : other.data();
  const void* const from = to_device ? here.data() : there.data();
  Mark begin, end;
  return repeat(budget, [&] {
    begin.record(device.stream());
    check(gpuMemcpyAsync(to, from, bytes, gpuMemcpyDefault, device.stream()), "copying");
    end.record(device.stream());
    end.wait();
    return end.since(begin);
  });
}

}  // namespace

GpuTiming measure_host(Device& device, const Case& what, double budget) {
  const std::string name = what.name;
  if (name == "launch_eager") return launch_eager(device, budget);
  if (name == "launch_graph") return launch_graph(device, budget);
  if (name == "kernel_gap") return kernel_gap(device, budget);
  if (name == "copy_h2d" || name == "copy_d2h" || name == "copy_d2d") return copies(device, what, budget);
  throw Failure{GpuStatus::unavailable, "no host measurement of this name"};
}

}  // namespace orrery::calibration::gpu
