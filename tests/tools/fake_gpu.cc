// A GPU module without a GPU, for the tests of `orrery calibrate`: it answers the module's interface with times of a
// simple device (10 us and what work there is at 500 TFLOP/s and 4 TB/s, with 1 % of noise from the case itself).
// The environment says how it misbehaves: ORRERY_FAKE_LOST=N loses the device at the N-th measurement, ORRERY_FAKE_NONE
// finds no device, ORRERY_FAKE_SLOW_MS=T takes T milliseconds for each. ORRERY_FAKE_RECORDING=FILE plays back a machine
// of tests/fake_machine.h instead: its facts, then cases with their answers; what is not among them is not available.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "calibration/kernels/abi.h"

using namespace orrery::calibration;

namespace {

std::string message;
int measured = 0;

double number(const char* name, double fallback) {
  const char* const text = std::getenv(name);
  return text == nullptr ? fallback : std::strtod(text, nullptr);
}

struct Recording {
  GpuFacts facts;
  struct Answer {
    Case what;
    GpuTiming timing;
  };
  std::vector<Answer> answers;
  bool there = false;

  Recording() {
    const char* const name = std::getenv("ORRERY_FAKE_RECORDING");
    if (name == nullptr) return;
    std::ifstream in(name, std::ios::binary);
    there = static_cast<bool>(in.read(reinterpret_cast<char*>(&facts), sizeof facts));
    for (Answer a; in.read(reinterpret_cast<char*>(&a.what), sizeof a.what) &&
                   in.read(reinterpret_cast<char*>(&a.timing), sizeof a.timing);)
      answers.push_back(a);
  }
  /// Cases are asked for in the order in which they were planned.
  const GpuTiming* of(const Case& what) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const Answer& a = answers[(next + i) % answers.size()];
      if (std::memcmp(&a.what, &what, sizeof what) != 0) continue;
      next = (next + i + 1) % answers.size();
      return &a.timing;
    }
    return nullptr;
  }
  std::size_t next = 0;
};

Recording& recording() {
  static Recording one;
  return one;
}

double d(std::int64_t v) { return static_cast<double>(v); }

struct Work {
  double flops = 0, bytes = 0;
};
Work work_of(const Case& c) {
  const Case::Attention& a = c.attention;
  const double square = d(c.batch * a.heads) * d(a.seq) * d(a.seq) * d(a.head_dim);
  if (c.kind == CaseClass::attention) return {2 * square * (c.name[0] == 'b' ? 2.5 : 1), d(c.bytes)};
  if (c.kind == CaseClass::paged_attention)
    return {4 * d(c.batch * c.m) * d(a.seq) * d(a.heads * a.head_dim),
            4 * d(c.batch) * d(a.seq * a.kv_heads * a.head_dim)};
  if (c.kind == CaseClass::experts) {
    const double rows = d(c.m * c.elements);
    return {6 * rows * d(c.n * c.k), 6 * std::min(rows, d(c.batch)) * d(c.n * c.k)};
  }
  if (c.kind == CaseClass::sampling) return {0, 2 * d(c.m * c.n)};
  return {2 * std::max(d(c.batch), 1.0) * d(c.m) * d(c.n) * d(c.k), d(c.bytes)};
}

double seconds_of(const Case& c) {
  if (c.kind == CaseClass::sustained) return 0.85;
  if (c.kind == CaseClass::interference) return c.bytes > 0 ? d(c.bytes) / 4e12 : 1.2;
  if (c.kind == CaseClass::host) return 10e-6 + d(c.bytes) / 50e9;
  const Work work = work_of(c);
  const bool apart = c.kind == CaseClass::grouped_gemm && std::strcmp(c.name, "loop") == 0;
  return (apart ? d(c.batch) : 1) * 10e-6 + std::max(work.flops / 500e12, work.bytes / 4e12);
}

/// 100 W at rest; while a kernel runs 80 W more, 1 pJ an operation and 50 pJ a byte.
double watts_of(const Case& c) {
  const char* const mark = std::strrchr(c.name, '_');
  if (mark == nullptr) return 100;
  double flops = 2 * d(c.m) * d(c.n) * d(c.k), bytes = 2 * (d(c.m) * d(c.k) + d(c.k) * d(c.n) + d(c.m) * d(c.n));
  if (c.k == 0) bytes = d(c.bytes);
  return 100 + std::strtod(mark + 1, nullptr) / 100 * (80 + (flops * 1e-12 + bytes * 50e-12) / seconds_of(c));
}

}  // namespace

extern "C" {

std::int32_t orrery_gpu_abi() { return kGpuAbi; }
const char* orrery_gpu_message() { return message.c_str(); }

GpuStatus orrery_gpu_count(std::int32_t* count) {
  *count = std::getenv("ORRERY_FAKE_NONE") != nullptr ? 0 : recording().there ? recording().facts.gpus : 2;
  if (*count == 0) message = "looking for GPUs: there is none";
  return *count == 0 ? GpuStatus::no_device : GpuStatus::done;
}

GpuStatus orrery_gpu_open(std::int32_t device, GpuFacts* facts) {
  if (recording().there) {
    *facts = recording().facts;
    return GpuStatus::done;
  }
  GpuFacts f;
  std::snprintf(f.name, sizeof f.name, "NVIDIA H200");
  std::snprintf(f.architecture, sizeof f.architecture, "sm_90");
  std::snprintf(f.driver, sizeof f.driver, "13.%d", device);
  std::snprintf(f.runtime, sizeof f.runtime, "13.0");
  std::snprintf(f.libraries, sizeof f.libraries, "none");
  std::snprintf(f.missing, sizeof f.missing, "NCCL (collectives): libnccl.so.2 not found");
  f.gpus = 2;
  f.processors = 132;
  f.memory.bytes = f.memory.free_bytes = 150e9;
  f.memory.l2_bytes = 60e6;
  f.memory.bandwidth = 4.8e12;
  f.clock_hz = 1.98e9;
  for (const CaseType t : {CaseType::bfloat16, CaseType::float16}) f.peak[static_cast<int>(t)] = 989e12;
  for (const CaseType t : {CaseType::fp8_e4m3, CaseType::fp8_e5m2}) f.peak[static_cast<int>(t)] = 1979e12;
  f.peak[static_cast<int>(CaseType::float32)] = 494e12;
  f.power_limit_w = 700;
  *facts = f;
  return GpuStatus::done;
}

GpuStatus orrery_gpu_measure(const Case* what, double, std::int32_t timed, GpuTiming* timing) {
  *timing = GpuTiming{};
  if (++measured >= number("ORRERY_FAKE_LOST", 1e9)) {
    message = "an illegal memory access was encountered";
    return GpuStatus::lost;
  }
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(number("ORRERY_FAKE_SLOW_MS", 0)));
  if (recording().there) {
    const GpuTiming* const answer = recording().of(*what);
    if (answer != nullptr) *timing = *answer;
    if (answer == nullptr) message = "not on this machine";
    return answer != nullptr ? GpuStatus::done : GpuStatus::unavailable;
  }
  if (what->kind == CaseClass::collective) {
    message = "NCCL: libnccl.so.2 not found";
    return GpuStatus::unavailable;
  }
  if (std::strcmp(what->name, "lamb") == 0) {
    message = "needs more";
    return GpuStatus::out_of_memory;
  }
  timing->error = 1e-3;
  if (timed == 0) return GpuStatus::done;
  timing->repeats = 5;
  const double noise =
      0.01 * std::sin(static_cast<double>(what->m + 3 * what->n + 7 * what->k + 11 * what->attention.seq));
  // The median is the third; one repeat is far off.
  const double factors[] = {0.99, 1.0, 1.0, 1.01, 3.0};
  for (int i = 0; i < 5; ++i) timing->seconds[i] = seconds_of(*what) * (1 + noise) * factors[i];
  const bool power = what->kind == CaseClass::power;
  timing->sm_mhz = power ? 1980 : 1755;
  timing->power_w = power ? watts_of(*what) : 640;
  return GpuStatus::done;
}

void orrery_gpu_close() {}
}
