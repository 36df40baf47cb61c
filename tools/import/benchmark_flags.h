// What a benchmark's client asks of a server: `vllm bench serve` and the benchmark_serving.py that it was, and
// `sglang.bench_serving`, as the traffic of a scenario.
#pragma once

#include <string_view>

#include "tools/import/import.h"
#include "tools/import/shell_run.h"

namespace orrery::tools {

bool is_benchmark(const ShellRun& run);
/// Whether such a client runs on that way of a script; then its traffic is the draft's, the last one's of several.
/// Throws sim::UserError.
bool set_traffic(const ShellWay& way, Draft& draft);
/// temperature, top_p, ...: keys of traffic.sampling that clients and checkpoints give by the same names.
bool is_sampling_key(std::string_view name);

}  // namespace orrery::tools
