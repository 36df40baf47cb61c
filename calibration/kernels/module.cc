// The entry points of a module: exceptions become statuses here, and a device that no longer answers is told apart from
// a case that failed.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>

#include "calibration/kernels/timing.h"

namespace orrery::calibration::gpu {
namespace {

struct State {
  std::unique_ptr<Device> device;
  std::string message;
};
/// Never destroyed: the program may close the device while statics are being destroyed.
State& state() {
  static State& one = *new State;
  return one;
}

template <class Work>
GpuStatus guarded(const Work& work) {
  State& s = state();
  GpuStatus status = GpuStatus::failed;
  try {
    work();
    return GpuStatus::done;
  } catch (const Failure& failure) {
    status = failure.status;
    s.message = failure.message;
  } catch (const std::bad_alloc&) {
    status = GpuStatus::out_of_memory;
    s.message = "the host is out of memory";
  } catch (const std::exception& error) {
    s.message = error.what();
  }
  if (s.device != nullptr && !s.device->answers()) status = GpuStatus::lost;
  return status;
}

/// Sizes that a class needs and does not have would divide by zero below.
bool has_sizes(const Case& c) {
  if (c.kind == CaseClass::streaming || c.kind == CaseClass::sampling) return c.m > 0 && c.n > 0;
  if (c.kind == CaseClass::experts)
    return c.m > 0 && c.n > 0 && c.k > 0 && c.elements > 0 && c.batch >= c.elements && c.n % 8 == 0 && c.k % 8 == 0;
  if (c.kind == CaseClass::paged_attention && (c.m < 1 || c.m > c.attention.seq)) return false;
  if (c.kind == CaseClass::attention || c.kind == CaseClass::paged_attention)
    return c.batch > 0 && c.attention.seq > 0 && c.attention.heads > 0 && c.attention.kv_heads > 0 &&
           c.attention.heads % c.attention.kv_heads == 0 && c.attention.head_dim > 0;
  return c.batch > 0 && c.m > 0 && c.n > 0 && c.k > 0;
}

std::unique_ptr<Workload> workload_of(Device& device, const Case& what) {
  switch (what.kind) {
    case CaseClass::streaming:
      return make_streaming(device, what);
    case CaseClass::attention:
      return make_attention(device, what);
    case CaseClass::grouped_gemm:
      return make_grouped_gemm(device, what);
    case CaseClass::paged_attention:
      return make_paged_attention(device, what);
    case CaseClass::experts:
      return make_experts(device, what);
    case CaseClass::sampling:
      return make_sampling(device, what);
    default:
      return make_gemm(device, what);
  }
}

/// Its memory is given back before this returns, also where it throws.
GpuTiming measure(Device& device, const Case& what, double budget, bool timed) {
  switch (what.kind) {
    case CaseClass::host:
      return measure_host(device, what, timed ? budget : 0);
    case CaseClass::sustained:
      return measure_sustained(device, what, timed ? budget : 0.1);
    case CaseClass::power:
      return measure_power(device, what, timed ? budget : 0.1);
    case CaseClass::interference:
      return measure_interference(device, what, timed ? budget : 0);
    case CaseClass::collective:
      return measure_collective(device, what, budget, timed);
    default:
      break;
  }
  if (!has_sizes(what)) throw Failure{GpuStatus::failed, "the case lacks a size"};
  const std::unique_ptr<Workload> workload = workload_of(device, what);
  // First, because some kernels change their inputs.
  const double error = workload->error(device);
  if (!(error <= workload->tolerance())) {
    char text[96];
    std::snprintf(text, sizeof text, "relative error %.3g, at most %.3g is rounding", error, workload->tolerance());
    throw Failure{GpuStatus::wrong, text};
  }
  GpuTiming timing;
  if (timed) timing = time_workload(device, *workload, budget);
  timing.error = error;
  return timing;
}

}  // namespace

void Inventory::add(const std::string& name, const std::string& version, const std::string& problem,
                    const char* purpose) {
  std::string& list = version.empty() ? missing : found;
  if (!list.empty()) list += "; ";
  list += version.empty() ? name + " (" + purpose + "): " + problem : name + " " + version;
}

}  // namespace orrery::calibration::gpu

using orrery::calibration::Case;
using orrery::calibration::GpuFacts;
using orrery::calibration::GpuStatus;
using orrery::calibration::GpuTiming;
namespace gpu = orrery::calibration::gpu;

extern "C" {

std::int32_t orrery_gpu_abi() { return orrery::calibration::kGpuAbi; }

const char* orrery_gpu_message() { return gpu::state().message.c_str(); }

GpuStatus orrery_gpu_count(std::int32_t* count) {
  *count = 0;
  return gpu::guarded([&] {
    gpu::check(gpuGetDeviceCount(count), "looking for GPUs");
    if (*count == 0) throw gpu::Failure{GpuStatus::no_device, "looking for GPUs: there is none"};
  });
}

GpuStatus orrery_gpu_open(std::int32_t number, GpuFacts* facts) {
  return gpu::guarded([&] {
    gpu::state().device.reset();
    gpu::state().device = std::make_unique<gpu::Device>(number);
    gpu::Device& device = *gpu::state().device;
    *facts = device.facts();
    gpu::Inventory inventory;
    gpu::list_gemm_library(inventory);
    gpu::list_attention_library(inventory);
    gpu::list_torch(inventory);
    gpu::list_collective_library(inventory);
    inventory.add("clocks and power", device.monitor().version(), device.monitor().problem(), "steady rates");
    std::snprintf(facts->libraries, sizeof facts->libraries, "%s", inventory.found.c_str());
    std::snprintf(facts->missing, sizeof facts->missing, "%s", inventory.missing.c_str());
  });
}

GpuStatus orrery_gpu_measure(const Case* what, double budget, std::int32_t timed, GpuTiming* timing) {
  *timing = GpuTiming{};
  return gpu::guarded([&] {
    if (gpu::state().device == nullptr) throw gpu::Failure{GpuStatus::no_device, "no device was opened"};
    *timing = gpu::measure(*gpu::state().device, *what, budget, timed != 0);
  });
}

void orrery_gpu_close() {
  gpu::end_collectives();
  gpu::state().device.reset();
}
}
