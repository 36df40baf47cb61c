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

TEST_CASE("launches of MiniMax follow its scripts: experts over all ranks, then graphs of prompts, then TF32",
          "[serving]") {
  LaunchedRow row{"vllm", "0.17.0", "b200-sxm", "MiniMax-M2.5", "fp8", "2026-03-28", 4, 1, 1, 16, 1024, 8192};
  CHECK(launch_of(row).expert == 4);
  CHECK(has(launch_of(row).pool, "memory_utilization: 0.95"));
  row.day = "2026-04-03";
  CHECK(launch_of(row).expert == 0);
  CHECK(has(launch_of(row).software, "256:2048:16"));
  CHECK(launch_of(row).router.empty());
  row.day = "2026-04-22";
  CHECK(launch_of(row).router == "tf32");
}

TEST_CASE("the laboratory gave an iteration a prompt and 1500 tokens beside what decodes", "[serving]") {
  const LaunchedRow row{"trtllm", "1.0.0rc3", "h100-sxm", "Llama-3.1-8B", "", "", 1, 1, 1, 32, 1024, 256};
  CHECK(has(launch_of(row).pool, "max_batched_tokens: 2560"));  // 32 + 1024 + 1500, in blocks of 32
  CHECK(has(launch_of(row).pool, "max_sequences: 32"));
}

TEST_CASE("workers apart have the limits of the benchmark's configurations, and others their engine's", "[serving]") {
  // recipes/trtllm/gb200-fp8/1k8k/stp/ctx1_gen4_tep8_batch1_eplb0_mtp0_4: one answer a worker at a time.
  LaunchedRow row{"trtllm", "0.8.1.post2", "gb200", "DeepSeek-R1", "fp8", "2026-02-17", 1, 1, 1, 4, 1024, 8192};
  const tools::LaunchedApart columns{{1, 1, 1, 8, 8}, {4, 8, 1, 1, 8}, {}, 1, {}};
  CHECK(tools::launched_apart(row, columns).decode.max_sequences == 1);
  CHECK(tools::launched_apart(row, columns).prefill.max_sequences == 4);  // 16, of which no more come
  CHECK(tools::launched_apart(row, columns).prefill.max_batched_tokens == 16384);
  row.concurrency = 36;  // ..._batch8_..._36
  CHECK(tools::launched_apart(row, columns).decode.max_sequences == 8);
  row.concurrency = 5;
  CHECK(tools::launched_apart(row, columns).decode.max_sequences == 0);
  row = {"sglang", "0.5.5", "gb200", "DeepSeek-R1", "fp4", "2025-12-20", 1, 1, 1, 500, 8192, 1024};
  const tools::LaunchedApart apart = tools::launched_apart(row, {{10, 1, 1, 4, 1}, {1, 1, 1, 32, 1}, {}, 1, {}});
  CHECK(apart.prefill.expert == 4);
  CHECK(apart.decode.expert == 32);
  CHECK(apart.decode.max_sequences == 0);
}

TEST_CASE("SGLang's workers apart are launched as the recipe of the day has it", "[serving]") {
  // recipes/gb200-fp4/8k1k/max-tpt.yaml: prompts in groups of four ranks, answers on 32 with 16384 / 32 each at a time.
  LaunchedRow row{"sglang", "0.5.5.post2", "gb200", "DeepSeek-R1", "fp4", "2025-12-21", 1, 1, 1, 2048, 8192, 1024};
  const tools::LaunchedApart wide = tools::launched_apart(row, {{10, 1, 1, 4, 1}, {1, 1, 1, 32, 1}, {}, 1, {}});
  CHECK(wide.prefill.tensor == 4);
  CHECK(wide.prefill.attention_data == 1);
  CHECK(wide.prefill.max_cache_tokens == 131072);
  CHECK(wide.decode.max_sequences == 512);
  CHECK(wide.decode.redundant_experts == 32);
  CHECK(wide.decode.memory_share == 0.83);
  CHECK(wide.cache == "fp8");
  CHECK(wide.software.empty());  // moe-a2a-backend: deepep
  // recipes/b200-fp8/8k1k.yaml: in March one prompt a rank at a time (8 / 8), in pieces of at most 8192 tokens; what
  // ran in February has what came in at the beginning of March.
  row = {"sglang", "0.5.8.post1", "b200-sxm", "DeepSeek-R1", "fp8", "2026-03-18", 1, 1, 1, 288, 8192, 1024};
  const tools::LaunchedApart march = tools::launched_apart(row, {{1, 1, 1, 8, 1}, {2, 1, 1, 8, 8}, {}, 1, {}});
  CHECK(march.prefill.max_sequences == 1);
  CHECK(march.prefill.max_batched_tokens == 8192);
  CHECK(march.decode.max_sequences == 16);
  CHECK(has(march.software, "gather"));  // none
  row.day = "2026-02-07";
  row.concurrency = 64;
  const tools::LaunchedApart february = tools::launched_apart(row, {{1, 8, 1, 1, 8}, {1, 8, 1, 1, 8}, {}, 1, {}});
  CHECK(february.prefill.max_batched_tokens == 32768);
  CHECK(february.decode.max_sequences == 64);  // 512, of which no more come
}
