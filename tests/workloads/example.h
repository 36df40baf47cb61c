// Small jobs for tests: a scenario in YAML with changes laid over it.
#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "workloads/step/step.h"

namespace orrery::tests {

/// 16 A100s of one speed, 8 layers, TP2 PP2 DP4, eight micro-batches a replica; `sets` as on the command line.
inline workloads::Job small_job(const std::vector<std::string>& sets = {}) {
  static const char* const text = R"(
name: small
cluster: {device: a100-sxm-80gb, gpus: 16, fabric: {inherits: tomahawk4-200g, gpu_spread: 0}}
model: {kind: gpt, layers: 8, hidden: 2048, heads: 16, ffn_hidden: 8192, vocab: 51200, seq: 1024}
parallelism: {tensor: 2, pipeline: 2, data: 4, sequence_parallel: false, sharding: none}
batch: {global: 32, micro: 1}
precision: bf16
recompute: none
attention: flash
software: megatron-2023
)";
  sim::Settings document = scenarios::parse_yaml(text, "small.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return scenarios::load_scenario(document).job;
}

/// Changes that lay a small job out by the schedule, with two chunks per stage where it takes any number.
inline std::vector<std::string> sets_for(const workloads::Schedule& schedule) {
  std::vector<std::string> sets{"parallelism.schedule=" + std::string(schedule.name)};
  if (schedule.chunks == workloads::kAnyChunks) sets.emplace_back("parallelism.virtual_pipeline=2");
  return sets;
}

}  // namespace orrery::tests
