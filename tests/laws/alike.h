// Are two reports of one step alike? What laws on folding ask.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "workloads/step/step.h"

namespace orrery::tests {

/// What is wrong with the communication table; empty where the two counts of every row agree.
inline std::string contradiction(const workloads::StepReport& report) {
  for (const workloads::TrafficRow& row : report.traffic) {
    const double most = std::max(std::abs(row.closed_form_bytes), std::abs(row.simulated_bytes));
    if (std::abs(row.closed_form_bytes - row.simulated_bytes) > 1e-9 * most) {
      return fmt::format("{} {} {}: {} by formula, {} counted", row.dimension, row.operation, row.what,
                         row.closed_form_bytes, row.simulated_bytes);
    }
  }
  return report.traffic.empty() ? "nothing is moved" : "";
}

/// All of a report that a folded run and a full one have in common, as text, in every digit. Left out: events and ranks
/// simulated, which are the point of folding, and the moment of the highest memory, which is counted only where asked
/// for.
inline std::string comparable(const workloads::StepReport& report) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {}", report.iteration.value(), report.rates.tokens_per_s,
                  report.rates.model_tflops_per_gpu, report.rates.hardware_tflops_per_gpu, report.rates.mfu_pct,
                  report.rates.hfu_pct, report.memory.peak_bytes, report.memory.allocated_bytes,
                  report.memory.reserved_bytes, report.memory.fits, report.energy.total_j());
  text += fmt::format("\n{} {}", report.busiest_stage, fmt::join(report.breakdown_s, " "));
  for (const auto& stage : report.rates.stages) text += fmt::format("\n{}", stage.computing_s);
  for (const workloads::StageMemory& stage : report.memory.stages) {
    text += fmt::format("\n{} {} {} {} {} {} {} {}", stage.parameters, stage.gradients, stage.optimizer,
                        stage.activations, stage.buffers, stage.total, stage.peak.chunk, stage.peak.microbatch);
  }
  for (const workloads::TrafficRow& row : report.traffic) {
    text += fmt::format("\n{} {} {} {} {} {} {} {}", row.dimension, row.operation, row.what, row.group, row.level,
                        row.calls, row.bytes_per_call, row.simulated_bytes);
  }
  for (const auto& tier : report.tier_bytes) text += fmt::format("\n{} {}", topology::name_of(tier.tier), tier.bytes);
  return text + fmt::format("\n{}", fmt::join(report.assumptions, "\n"));
}

}  // namespace orrery::tests
