// How servers were launched that a table of closed loops was measured on: what the benchmark's scripts set and no
// column says. The rows of InferenceX (SemiAnalysisAI/InferenceX, benchmarks/, at the day of the measurement) are told
// by their day, those of NVIDIA's laboratory (ai-dynamo/aiconfigurator, whose generator wrote the launches) by having
// none. A launch that is not known leaves an engine's defaults.
#pragma once

#include <cstdint>
#include <string>

namespace orrery::tools {

/// A row of the table, as far as scripts ask for it.
struct LaunchedRow {
  std::string engine, version, device, model, precision, day;  // day: empty where the laboratory's
  std::int64_t tensor = 1, attention_data = 1, expert = 1, concurrency = 1, input = 1, output = 1;
};

struct ServedLaunch {
  std::string cache;     // the type of keys and values; empty: the checkpoint's
  std::string states;    // of mixers; empty: the engine's default
  std::string software;  // further keys of the engine's, as YAML; empty: none
  std::string router;    // what routers multiply in; empty: the model's
  std::string pool;      // further keys of the pool
  // Where the script set what the columns have lost; 0: as the columns say.
  std::int64_t attention_data = 0, expert = 0;
};

ServedLaunch launch_of(const LaunchedRow& row);

/// Workers of one role, as the columns have them.
struct WorkersOf {
  std::int64_t workers = 1, tensor = 1, pipeline = 1, attention_data = 1, expert = 1;
  std::int64_t max_sequences = 0, max_batched_tokens = 0;  // of each attention group; 0: the engine's default
  std::int64_t max_cache_tokens = 0, redundant_experts = 0;
  double memory_share = 0;  // 0: the engine's default
  std::int64_t gpus() const { return tensor * pipeline * attention_data; }
};
/// Prompts and answers apart.
struct LaunchedApart {
  WorkersOf prefill, decode;
  std::string cache;            // the type of keys and values; empty: the checkpoint's
  std::int64_t front_ends = 1;  // that deal requests out in turn
  std::string software;         // further keys of the engine's, as YAML; empty: none
};
/// What the launch set beside the columns or otherwise than they say: limits of TensorRT-LLM's workers are those that
/// SemiAnalysisAI/InferenceX's configs/nvidia-master.yaml names (scenarios/published/served_pools.csv, of all versions
/// between November 2025 and May 2026), launches of SGLang's workers those of the recipes that it names
/// (scenarios/published/served_recipes.csv: NVIDIA/srt-slurm, recipes/ and recipies/, each launch by the day of its
/// first version; limits of an attention group, as the engine divides them, srt/server_args.py; `rows` gathered where
/// no all-to-all is chosen, moe_a2a_backend, and attention is data-parallel, srt/layers/dp_attention.py). `apart`: by
/// the columns.
LaunchedApart launched_apart(const LaunchedRow& row, LaunchedApart apart);

}  // namespace orrery::tools
