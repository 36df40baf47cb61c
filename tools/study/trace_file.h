// Traces of requests as others publish them. Formats by what the file holds:
//   Mooncake: a JSON object a line, {timestamp: ms, input_length, output_length, hash_ids: blocks of 512 tokens}
//   Azure: CSV with TIMESTAMP (date and time, or seconds), ContextTokens, GeneratedTokens
//   BurstGPT: CSV with Timestamp (s), Request tokens, Response tokens
//   CSV with arrival_s, input_tokens, output_tokens and, if prompts share content, prefix_blocks_of_512
//   `vllm bench serve`: JSON with input_lens, output_lens and, if saved in detail, start_times
#pragma once

#include <cstdint>
#include <string>

#include "workloads/runs/serving/trace.h"

namespace orrery::tools {

/// `time_scale`: gaps over what the file says. At most `most` requests; 0: all. Throws sim::UserError.
serving::Trace read_trace(const std::string& file, double time_scale, std::int64_t most);

}  // namespace orrery::tools
