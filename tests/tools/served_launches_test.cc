// Servers are launched as the scripts of the day had it.
#include "tools/study/served_launches.h"

#include "tests/catch.h"

using namespace orrery;
using tools::launch_of;
using tools::LaunchedRow;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("launches of a benchmark follow its scripts at the day of the measurement", "[serving]") {
  const LaunchedRow sglang{"sglang", "0.5.9", "b200-sxm", "DeepSeek-R1", "fp4", "2026-03-25", 8, 1, 1, 64, 1024, 1024};
  CHECK(launch_of(sglang).cache == "fp8");
  CHECK(has(launch_of(sglang).pool, "polls_every: 30"));
  LaunchedRow few = sglang;
  few.concurrency = 8;
  CHECK(has(launch_of(few).pool, "polls_every: 10"));
  // A prompt an iteration in 2025, 8192 tokens from the end of January on.
  LaunchedRow trt{"trtllm", "", "b200-sxm", "DeepSeek-R1", "fp4", "2025-11-02", 8, 1, 1, 64, 1024, 8192};
  CHECK(has(launch_of(trt).pool, "max_batched_tokens: 1152"));
  trt.day = "2026-02-03";
  CHECK(has(launch_of(trt).pool, "max_batched_tokens: 8192"));
  CHECK(!has(launch_of(trt).pool, "speculative"));
  trt.version = "1.2.0rc6.post3";
  CHECK(has(launch_of(trt).pool, "speculative: {tokens: 3"));
  const LaunchedRow oss{"vllm", "0.18.0", "h100-sxm", "gpt-oss-120b", "fp4", "2026-03-27", 2, 1, 1, 16, 8192, 1024};
  CHECK(has(launch_of(oss).software, "marlin"));
  CHECK(has(launch_of(oss).pool, "max_sequences: 16"));
}

TEST_CASE("the laboratory gave an iteration a prompt and 1500 tokens beside what decodes", "[serving]") {
  const LaunchedRow row{"trtllm", "1.0.0rc3", "h100-sxm", "Llama-3.1-8B", "", "", 1, 1, 1, 32, 1024, 256};
  CHECK(has(launch_of(row).pool, "max_batched_tokens: 2560"));  // 32 + 1024 + 1500, in blocks of 32
  CHECK(has(launch_of(row).pool, "max_sequences: 32"));
}
