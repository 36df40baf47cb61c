// What a GPU does while an engine serves: seconds by what they wait for, and what draws power meanwhile, from which
// follows the clock that the board's limit leaves.
//
// Times of kernels are those of short benchmarks. An iteration takes about as long as a limiter averages over, so each
// has a clock of its own: products and attention of one that draws more than the limit take longer, what waits for
// memory or for other GPUs does not. Left out: what a stretch without work (waiting for requests) allows afterwards.
#pragma once

#include <cstdint>
#include <string_view>

#include "calibration/device/power.h"

namespace orrery::workloads {

/// A kernel of an iteration, or what the host takes beyond all of them: `times` launches, of each its seconds, FLOPs
/// and bytes (of an exchange those that a rank sends).
struct PartOfIteration {
  enum class Use : std::uint8_t { compute, attention, memory, communication, host };
  std::string_view name;
  Use use = Use::memory;
  double seconds = 0, flops = 0, bytes = 0;
  double roofline = 0;  // seconds that FLOPs or bytes take by the data sheet; 0 for exchanges
  calibration::DataType type = calibration::DataType::bf16;  // that it multiplies
  double times = 1;
  std::int64_t stack = -1;  // of the pass's layers; -1: its ends, and the host
};

/// Seconds of GPU time by what they wait for; `compute` has attention of prompts in it.
struct UseOfTime {
  double compute = 0, memory = 0, communication = 0, host = 0, padding = 0;
  void add(const PartOfIteration& part, double times);
  double sum() const { return compute + memory + communication + host + padding; }
  UseOfTime& operator+=(const UseOfTime& other);
  friend UseOfTime operator*(UseOfTime use, double times);
};

/// Of kernels at full clock.
struct GpuWork {
  UseOfTime use;
  calibration::Duty duty;
  void add(const PartOfIteration& part, double times);
  double seconds() const { return use.sum(); }
  GpuWork& operator+=(const GpuWork& other);
  friend GpuWork operator*(GpuWork work, double times);
};

/// A board that serves: what it draws, at a limit that may be lower than its own.
struct ServedPower {
  calibration::PowerModel board;
  double own_limit = 0;  // W
  /// That the limit leaves, as a share of the highest; where times were measured under the board's own limit, of that
  /// which it left then.
  double clock(const calibration::Duty& duty) const;
  /// Seconds more than at full clock.
  double stretch(const calibration::Duty& duty) const;
  /// Joules beyond what stands.
  double joules(const calibration::Duty& duty) const;
};

}  // namespace orrery::workloads
