// One case, ready to run: kernels on prepared buffers, and a reference to check them against.
#pragma once

#include <memory>

#include "calibration/kernels/buffers.h"

namespace orrery::calibration::gpu {

class Workload {
 public:
  virtual ~Workload() = default;
  virtual int sets() const = 0;
  /// Enqueues one run on the buffers of `set`. Must not allocate or synchronise: it may be recorded into a graph.
  virtual void launch(int set, Stream stream) = 0;
  /// Runs set 0 once on poisoned outputs; ||out - reference|| / ||reference||, sampled where the whole is too long.
  /// Throws Failure with `wrong` where an output was not written.
  virtual double error(Device& device) = 0;
  /// The largest error that rounding explains, with a margin.
  virtual double tolerance() const = 0;
};

/// All throw Failure: unavailable where device or libraries lack what the case needs.
std::unique_ptr<Workload> make_gemm(Device& device, const Case& what);
std::unique_ptr<Workload> make_grouped_gemm(Device& device, const Case& what);
std::unique_ptr<Workload> make_attention(Device& device, const Case& what);
std::unique_ptr<Workload> make_streaming(Device& device, const Case& what);
std::unique_ptr<Workload> make_paged_attention(Device& device, const Case& what);
std::unique_ptr<Workload> make_experts(Device& device, const Case& what);
std::unique_ptr<Workload> make_sampling(Device& device, const Case& what);

/// Poisons, launches set 0 and throws Failure where an output was not written.
void run_once(Device& device, Workload& workload, const Buffers& buffers);

/// Host costs, sustained rates, power, interference and collectives time themselves.
GpuTiming measure_host(Device& device, const Case& what, double budget);
GpuTiming measure_sustained(Device& device, const Case& what, double budget);
GpuTiming measure_power(Device& device, const Case& what, double budget);
GpuTiming measure_interference(Device& device, const Case& what, double budget);
GpuTiming measure_collective(Device& device, const Case& what, double budget, bool timed);
/// Gives up what collectives keep between cases.
void end_collectives();

/// What the build and this machine have: libraries found, and missing, each with what it is for.
struct Inventory {
  std::string found, missing;
  void add(const std::string& name, const std::string& version, const std::string& problem, const char* purpose);
};
void list_gemm_library(Inventory& inventory);
void list_attention_library(Inventory& inventory);
void list_torch(Inventory& inventory);
void list_collective_library(Inventory& inventory);

}  // namespace orrery::calibration::gpu
