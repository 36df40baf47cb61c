// A machine whose GPU is a device profile: what each case that `orrery calibrate` plans would take on it, to a percent,
// by the profile's own kernel times. What a run of `calibrate` makes of these times can then be laid beside the profile
// that they came from. The module of tests/tools/fake_gpu.cc plays them back from a file. A board that is rested
// between batches runs at full clock; under power cases it runs at the clock that the profile's limit leaves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "calibration/device/power.h"
#include "calibration/device/profile.h"
#include "calibration/device/serving_kernels.h"
#include "calibration/measure/measurement.h"
#include "calibration/measure/measurement_plan.h"

namespace orrery::tests {

struct FakeMachine {
  calibration::DeviceProfile truth;
  calibration::GpuFacts facts;
  bool tells_power = true, tells_clocks = true;
  /// Of an engine; none: what is assumed of any device's.
  std::optional<calibration::ServingKernels> served = {};
};

/// As a driver would describe the profile's device.
inline calibration::GpuFacts facts_of(const calibration::DeviceProfile& truth, const std::string& name,
                                      const std::string& architecture, std::int32_t gpus) {
  using calibration::CaseType;
  using calibration::DataType;
  calibration::GpuFacts f;
  std::snprintf(f.name, sizeof f.name, "%s", name.c_str());
  std::snprintf(f.architecture, sizeof f.architecture, "%s", architecture.c_str());
  std::snprintf(f.driver, sizeof f.driver, "1");
  std::snprintf(f.runtime, sizeof f.runtime, "1");
  std::snprintf(f.libraries, sizeof f.libraries, "none");
  f.gpus = gpus;
  f.processors = truth.processors();
  f.memory.bytes = f.memory.free_bytes = static_cast<double>(truth.memory().value());
  f.memory.l2_bytes = 50e6;
  f.memory.bandwidth = truth.memory_bandwidth().value();
  f.clock_hz = 2e9;
  const auto peak = [&](CaseType type) -> double& { return f.peak[static_cast<int>(type)]; };
  peak(CaseType::bfloat16) = peak(CaseType::float16) = truth.peak(DataType::bf16).value();
  peak(CaseType::float32) = truth.peak(DataType::fp32).value();
  if (truth.has(DataType::fp8)) peak(CaseType::fp8_e4m3) = peak(CaseType::fp8_e5m2) = truth.peak(DataType::fp8).value();
  for (const auto& [type, as] : {std::pair{DataType::fp8_blockwise, CaseType::fp8_block},
                                 {DataType::fp8_rowwise, CaseType::fp8_row},
                                 {DataType::mxfp8, CaseType::mxfp8},
                                 {DataType::nvfp4, CaseType::nvfp4}})
    if (truth.has(type)) peak(as) = truth.peak(type).value();
  f.power_limit_w = truth.power().limit;
  f.links.pcie = 32e9;
  return f;
}

namespace fake {

inline calibration::DataType type_of(calibration::CaseType t) {
  using calibration::CaseType;
  using calibration::DataType;
  if (t == CaseType::float32) return DataType::fp32;
  if (t == CaseType::float16) return DataType::fp16;
  if (t == CaseType::fp8_block) return DataType::fp8_blockwise;
  if (t == CaseType::fp8_row) return DataType::fp8_rowwise;
  if (t == CaseType::mxfp8) return DataType::mxfp8;
  if (t == CaseType::nvfp4) return DataType::nvfp4;
  return t == CaseType::fp8_e4m3 || t == CaseType::fp8_e5m2 ? DataType::fp8 : DataType::bf16;
}

inline calibration::Gemm::Form form_of(calibration::CaseForm f) {
  using calibration::CaseForm;
  using Form = calibration::Gemm::Form;
  return f == CaseForm::nn ? Form::data_gradient : f == CaseForm::nt ? Form::weight_gradient : Form::forward;
}

inline calibration::Gemm gemm_of(const calibration::Case& c) {
  calibration::Gemm g;
  g.dtype = type_of(c.dtype);
  g.form = form_of(c.form);
  g.m = c.m;
  g.n = c.n;
  g.k = c.k;
  g.batch = std::max<std::int64_t>(1, c.batch);
  g.accumulate = std::strcmp(c.name, "accumulate") == 0;
  return g;
}

inline calibration::Attention attention_of(const calibration::Case& c) {
  calibration::Attention a;
  a.batch = c.batch;
  a.queries = a.keys = c.attention.seq;
  a.heads = c.attention.heads;
  a.kv_heads = c.attention.kv_heads;
  a.head_dim = c.attention.head_dim;
  a.window = c.attention.window;
  a.kernel = calibration::AttentionKernel::fused;
  a.backward = c.name[0] == 'b';
  return a;
}

inline calibration::GroupedGemm grouped_of(const calibration::Case& c) {
  calibration::GroupedGemm g;
  g.dtype = type_of(c.dtype);
  g.form = form_of(c.form);
  g.out = c.n;
  g.in = c.k;
  g.tokens.assign(static_cast<std::size_t>(c.batch), c.m);
  g.kernel = std::strcmp(c.name, "loop") == 0      ? calibration::GroupedKernel::loop
             : std::strcmp(c.name, "streams") == 0 ? calibration::GroupedKernel::streams
                                                   : calibration::GroupedKernel::grouped;
  return g;
}

/// Kernels that a profile has no name for move bytes as a copy does.
inline calibration::Streaming streaming_of(const calibration::Case& c) {
  for (std::size_t i = 0; i < calibration::kStreamingKernels; ++i)
    if (name_of(static_cast<calibration::Streaming>(i)) == std::string_view(c.name))
      return static_cast<calibration::Streaming>(i);
  return calibration::Streaming::copy;
}

/// A second of a power case at full clock: the kernel runs for its share of the time.
inline calibration::Duty second_of(const calibration::DeviceProfile& truth, const calibration::Case& c, double share) {
  calibration::Duty second;
  if (share <= 0) return second;
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  const auto type = static_cast<std::size_t>(type_of(c.dtype));
  if (c.attention.heads > 0) {
    const double once = sim::to_seconds(truth.attention(attention_of(c)));
    second.attention = share;
    second.attention_flops[type] = share / once * 2 * d(c.batch) * d(c.attention.seq) * d(c.attention.seq) *
                                   d(c.attention.heads) * d(c.attention.head_dim);
    second.bytes = share / once * 2 * d(c.batch) * d(c.attention.seq) * d(c.attention.head_dim) *
                   d(2 * c.attention.heads + 2 * c.attention.kv_heads);
  } else if (c.k > 0) {
    const double once = sim::to_seconds(truth.gemm(gemm_of(c)));
    second.products = share;
    second.flops[type] = share / once * 2 * d(c.m) * d(c.n) * d(c.k);
    second.bytes =
        share / once * (bytes_of(type_of(c.dtype)) * (d(c.m) * d(c.k) + d(c.k) * d(c.n)) + 2 * d(c.m) * d(c.n));
  } else {
    const double once = sim::to_seconds(truth.streaming(calibration::Streaming::copy, d(c.bytes)));
    second.streaming = share;
    second.bytes = share / once * d(c.bytes);
  }
  return second;
}

/// The clock at which a kernel that runs for a share of the time keeps to the limit, pauses and all.
inline double clock_of(const calibration::PowerModel& power, const calibration::Duty& second) {
  for (double clock = 1; clock > calibration::kLowestClock; clock -= 1e-3) {
    // Its share stays: at a lower clock there are fewer runs.
    calibration::Duty there = at_clock(second, power, clock);
    const double longer = (there.products + there.attention + there.streaming) /
                          std::max(second.products + second.attention + second.streaming, 1e-12);
    if (power.standing + activity_of(power, there * (1 / longer), clock).sum() <= power.limit) return clock;
  }
  return calibration::kLowestClock;
}

/// A product that no layer of a training step has.
inline bool is_served(const calibration::Case& c) { return c.kind == calibration::CaseClass::gemm && c.m < 256; }

/// What an engine's kernels take on the machine.
inline double served_seconds(const FakeMachine& machine, const calibration::Case& c) {
  using calibration::CaseClass;
  const calibration::ServingKernels kernels =
      machine.served ? *machine.served : calibration::ServingKernels(machine.truth, calibration::Engine::trtllm);
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  const double seen = d(c.attention.window > 0 ? std::min(c.attention.window, c.attention.seq) : c.attention.seq);
  if (c.kind == CaseClass::gemm) {
    const calibration::WeightType weight =
        c.dtype == calibration::CaseType::nvfp4          ? calibration::WeightType::nvfp4
        : c.dtype == calibration::CaseType::fp8_block    ? calibration::WeightType::fp8_block
        : type_of(c.dtype) == calibration::DataType::fp8 ? calibration::WeightType::fp8
                                                         : calibration::WeightType::bf16;
    return kernels.seconds(calibration::ServedProduct{weight, d(c.m), d(c.n), d(c.k), false});
  }
  if (c.kind == CaseClass::experts) {
    calibration::ServedMixture m;
    m.tokens = d(c.m);
    m.ffn = d(c.n);
    m.hidden = d(c.k);
    m.experts = d(c.batch);
    m.top_k = d(c.elements);
    return kernels.seconds(m);
  }
  if (c.kind == CaseClass::sampling) return kernels.seconds(calibration::ServedSampling{d(c.m), d(c.n)});
  if (c.kind == CaseClass::collective) return kernels.seconds(calibration::ServedAllReduce{d(c.gpus), d(c.bytes)});
  if (c.m == 1) {
    calibration::DecodeAttention a;
    a.sequences = d(c.batch);
    a.visible = a.sequences * seen;
    a.cached = a.sequences * d(c.attention.seq);
    a.heads = d(c.attention.heads);
    a.kv_heads = d(c.attention.kv_heads);
    a.head_dim = d(c.attention.head_dim);
    a.window = d(c.attention.window);
    return kernels.seconds(a);
  }
  const calibration::PromptPiece piece{d(c.batch), d(c.m), d(c.attention.seq - c.m)};
  calibration::PrefillAttention a;
  a.pieces = {&piece, 1};
  a.heads = d(c.attention.heads);
  a.kv_heads = d(c.attention.kv_heads);
  a.head_dim = d(c.attention.head_dim);
  a.window = d(c.attention.window);
  return kernels.seconds(a);
}

/// A product beside traffic: as generations assume it up to half of what memory moves, and longer beyond.
inline double beside(const calibration::Case& c) {
  const char* const mark = std::strrchr(c.name, '_');
  const double percent = std::strtod(mark + 1, nullptr);
  return percent > 0 && percent <= 50 ? 1.0 : 1.3;
}

inline double seconds_of(const FakeMachine& machine, const calibration::Case& c) {
  using calibration::CaseClass;
  const calibration::DeviceProfile cool = machine.truth.isolated();
  const auto bytes = static_cast<double>(c.bytes);
  if (is_served(c)) return served_seconds(machine, c);
  switch (c.kind) {
    case CaseClass::paged_attention:
    case CaseClass::experts:
    case CaseClass::sampling:
      return served_seconds(machine, c);
    case CaseClass::gemm:
    case CaseClass::batched_gemm:
      return sim::to_seconds(cool.gemm(gemm_of(c)));
    case CaseClass::grouped_gemm:
      return sim::to_seconds(cool.grouped_gemm(grouped_of(c)));
    case CaseClass::attention:
      return sim::to_seconds(cool.attention(attention_of(c)));
    case CaseClass::streaming:
      return sim::to_seconds(cool.streaming(streaming_of(c), bytes));
    case CaseClass::host:
      return 2.88e-6 + bytes / 25e9;  // as the host on which generations were fitted
    case CaseClass::interference:
      return c.bytes > 0 ? bytes / (0.95 * cool.memory_bandwidth().value()) : beside(c);
    case CaseClass::collective:
      if (std::strcmp(c.name, "all_reduce_graph") == 0) return served_seconds(machine, c);
      for (std::size_t i = 0; i < calibration::kCollectiveOps; ++i)
        if (name_of(static_cast<calibration::CollectiveOp>(i)) == std::string_view(c.name))
          return sim::to_seconds(
              cool.node_collective(static_cast<calibration::CollectiveOp>(i), c.gpus, sim::Bytes(c.bytes)).total());
      return 1;
    default:
      return 1;
  }
}

}  // namespace fake

/// What the machine answers.
inline calibration::GpuTiming timing_of(const FakeMachine& machine, const calibration::Case& c) {
  using calibration::CaseClass;
  calibration::GpuTiming timing;
  timing.error = 1e-3;
  timing.repeats = 1;
  double hash = 0;  // a percent either way, from the case itself
  for (const char letter : key_of(c)) hash = std::fmod(31 * hash + letter, 1009);
  const double noise = 1 + 0.01 * (hash / 504.0 - 1);
  const calibration::PowerModel& power = machine.truth.power();
  double clock = 1;
  if (c.kind == CaseClass::power || c.kind == CaseClass::sustained) {
    const char* const mark = std::strrchr(c.name, '_');
    const bool whole = c.kind == CaseClass::sustained;
    const double share = whole ? 1 : mark == nullptr ? 0 : std::strtod(mark + 1, nullptr) / 100;
    const calibration::DeviceProfile cool = machine.truth.isolated();
    const calibration::Duty second = fake::second_of(cool, c, share);
    clock = share > 0 ? fake::clock_of(power, second) : 1;
    const calibration::Duty there = at_clock(second, power, clock);
    const double ran = second.products + second.attention + second.streaming,
                 longer = ran > 0 ? (there.products + there.attention + there.streaming) / ran : 1;
    timing.power_w = power.standing + activity_of(power, there * (1 / longer), clock).sum();
    timing.seconds[0] =
        whole     ? 1 / longer
        : c.k > 0 ? longer * sim::to_seconds(cool.gemm(fake::gemm_of(c)))
        : c.attention.heads > 0
            ? longer * sim::to_seconds(cool.attention(fake::attention_of(c)))
            : sim::to_seconds(cool.streaming(calibration::Streaming::copy, static_cast<double>(c.bytes)));
  } else {
    timing.seconds[0] = fake::seconds_of(machine, c) * noise;
    timing.power_w = 0.8 * power.limit;
  }
  timing.sm_mhz = machine.tells_clocks ? clock * machine.facts.clock_hz * 1e-6 : 0;
  if (!machine.tells_power) timing.power_w = 0;
  return timing;
}

/// Facts, and each case of a plan with its answer: what ORRERY_FAKE_RECORDING names.
inline void record(const std::string& file, const FakeMachine& machine,
                   const std::vector<calibration::PlannedCase>& plan) {
  std::ofstream out(file, std::ios::binary);
  const auto write = [&](const auto& value) { out.write(reinterpret_cast<const char*>(&value), sizeof value); };
  write(machine.facts);
  for (const calibration::PlannedCase& p : plan) {
    write(p.what);
    write(timing_of(machine, p.what));
  }
}

}  // namespace orrery::tests
