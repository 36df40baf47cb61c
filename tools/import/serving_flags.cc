// Rows of flags, an engine at a time. See import_serving.cc for their sources.
#include "tools/import/serving_flags.h"

#include <fmt/format.h>

#include <array>

#include "sim/error.h"

namespace orrery::tools {

namespace {

using Form = ServerFlag::Form;
constexpr Form kSwitch = Form::switches, kValue = Form::value;

constexpr std::string_view kServer = "is the server's, and without effect on times";
constexpr std::string_view kLengths = "bounds lengths, which traffic says";
constexpr std::string_view kLoading = "is of loading weights, and without effect on times once they are";
constexpr std::string_view kNotModelled = "is not modelled";
constexpr std::string_view kEngine = "is the engine's release's to say (software)";

constexpr std::array<ServerFlag, 50> kVllm{{{"model", ServerKey::model},
                                            {"generation-config", ServerKey::generation},
                                            {"override-generation-config", ServerKey::generation_over},
                                            {"tensor-parallel-size tp", ServerKey::tensor},
                                            {"pipeline-parallel-size pp", ServerKey::pipeline},
                                            {"data-parallel-size dp", ServerKey::data},
                                            {"enable-expert-parallel ep", ServerKey::experts_apart, kSwitch},
                                            {"max-num-seqs", ServerKey::sequences},
                                            {"max-num-batched-tokens", ServerKey::tokens},
                                            {"block-size", ServerKey::block},
                                            {"gpu-memory-utilization", ServerKey::memory},
                                            {"enable-chunked-prefill", ServerKey::chunks, kSwitch},
                                            {"no-enable-chunked-prefill", ServerKey::no_chunks, kSwitch},
                                            {"enable-prefix-caching", ServerKey::prefixes, kSwitch},
                                            {"no-enable-prefix-caching", ServerKey::no_prefixes, kSwitch},
                                            {"kv-cache-dtype", ServerKey::cache_type},
                                            {"mamba-ssm-cache-dtype", ServerKey::state_type},
                                            {"mamba-cache-dtype", ServerKey::none, kValue, kNotModelled},
                                            {"quantization q", ServerKey::quantization},
                                            {"dtype", ServerKey::type},
                                            {"host", ServerKey::none, kValue, kServer},
                                            {"port", ServerKey::none, kValue, kServer},
                                            {"api-key", ServerKey::none, kValue, kServer},
                                            {"served-model-name", ServerKey::none, kValue, kServer},
                                            {"trust-remote-code", ServerKey::none, kSwitch, kServer},
                                            {"disable-log-requests", ServerKey::none, kSwitch, kServer},
                                            {"disable-log-stats", ServerKey::none, kSwitch, kServer},
                                            {"no-enable-log-requests", ServerKey::none, kSwitch, kServer},
                                            {"seed", ServerKey::none, kValue, kServer},
                                            {"tokenizer", ServerKey::none, kValue, kServer},
                                            {"tokenizer-mode", ServerKey::none, kValue, kServer},
                                            {"chat-template", ServerKey::none, kValue, kServer},
                                            {"tool-call-parser", ServerKey::none, kValue, kServer},
                                            {"reasoning-parser", ServerKey::none, kValue, kServer},
                                            {"enable-auto-tool-choice", ServerKey::none, kSwitch, kServer},
                                            {"max-model-len", ServerKey::none, kValue, kLengths},
                                            {"load-format", ServerKey::none, kValue, kLoading},
                                            {"download-dir", ServerKey::none, kValue, kLoading},
                                            {"revision", ServerKey::none, kValue, kLoading},
                                            {"swap-space", ServerKey::none, kValue, kNotModelled},
                                            {"cpu-offload-gb", ServerKey::none, kValue, kNotModelled},
                                            {"enforce-eager", ServerKey::eager, kSwitch},
                                            {"compilation-config O", ServerKey::none, kValue, kEngine},
                                            {"async-scheduling", ServerKey::none, kSwitch, kEngine},
                                            {"distributed-executor-backend", ServerKey::none, kValue, kEngine},
                                            {"speculative-config", ServerKey::none, kValue,
                                             "says not how many drafts are accepted: serving.pools[].speculative"},
                                            {"kv-transfer-config", ServerKey::none, kValue,
                                             "is of one of two pools: serving.pools with roles prefill and decode"},
                                            {"enable-lora", ServerKey::none, kSwitch, kNotModelled},
                                            {"limit-mm-per-prompt", ServerKey::none, kValue, kNotModelled},
                                            {"enable-dbo", ServerKey::none, kSwitch,
                                             "is the engine's: software: {inherits: vllm-0.15, kernels: "
                                             "{micro_batches: overlapped}}"}}};

constexpr std::array<ServerFlag, 46> kSglang{{{"model-path model", ServerKey::model},
                                              {"sampling-defaults", ServerKey::generation},
                                              {"sampling-backend", ServerKey::none, kValue, kEngine},
                                              {"tp-size tp tensor-parallel-size", ServerKey::tensor},
                                              {"pp-size pp pipeline-parallel-size", ServerKey::pipeline},
                                              {"dp-size dp data-parallel-size", ServerKey::data},
                                              {"ep-size ep expert-parallel-size", ServerKey::expert},
                                              {"enable-dp-attention", ServerKey::attention_data, kSwitch},
                                              {"ep-num-redundant-experts", ServerKey::redundant},
                                              {"max-running-requests", ServerKey::sequences},
                                              {"chunked-prefill-size", ServerKey::tokens},
                                              {"page-size", ServerKey::block},
                                              {"mem-fraction-static", ServerKey::memory},
                                              {"disable-radix-cache", ServerKey::no_prefixes, kSwitch},
                                              {"kv-cache-dtype", ServerKey::cache_type},
                                              {"mamba-ssm-dtype", ServerKey::state_type},
                                              {"mamba-scheduler-strategy", ServerKey::none, kValue, kEngine},
                                              {"scheduler-recv-interval", ServerKey::polls},
                                              {"stream-interval", ServerKey::none, kValue, kServer},
                                              {"tokenizer-worker-num", ServerKey::none, kValue, kNotModelled},
                                              {"enable-symm-mem", ServerKey::none, kSwitch, kEngine},
                                              {"enable-flashinfer-allreduce-fusion", ServerKey::none, kSwitch, kEngine},
                                              {"quantization", ServerKey::quantization},
                                              {"dtype", ServerKey::type},
                                              {"host", ServerKey::none, kValue, kServer},
                                              {"port", ServerKey::none, kValue, kServer},
                                              {"api-key", ServerKey::none, kValue, kServer},
                                              {"served-model-name", ServerKey::none, kValue, kServer},
                                              {"trust-remote-code", ServerKey::none, kSwitch, kServer},
                                              {"log-level", ServerKey::none, kValue, kServer},
                                              {"enable-metrics", ServerKey::none, kSwitch, kServer},
                                              {"random-seed", ServerKey::none, kValue, kServer},
                                              {"tokenizer-path", ServerKey::none, kValue, kServer},
                                              {"dist-init-addr", ServerKey::none, kValue, kServer},
                                              {"nnodes", ServerKey::none, kValue, "follows from the layout"},
                                              {"node-rank", ServerKey::none, kValue, kServer},
                                              {"context-length", ServerKey::none, kValue, kLengths},
                                              {"max-prefill-tokens", ServerKey::none, kValue, kNotModelled},
                                              {"cuda-graph-max-bs", ServerKey::none, kValue, kEngine},
                                              {"disable-cuda-graph", ServerKey::eager, kSwitch},
                                              {"attention-backend", ServerKey::none, kValue, kEngine},
                                              {"moe-a2a-backend", ServerKey::exchange},
                                              {"moe-runner-backend", ServerKey::none, kValue, kEngine},
                                              {"enable-two-batch-overlap", ServerKey::none, kSwitch,
                                               "is the engine's: software: {inherits: sglang-0.5, kernels: "
                                               "{micro_batches: overlapped}}"},
                                              {"disaggregation-mode", ServerKey::none, kValue,
                                               "is of one of two pools: serving.pools with roles prefill and decode"},
                                              {"speculative-algorithm", ServerKey::none, kValue,
                                               "says not how many drafts are accepted: serving.pools[].speculative"}}};

constexpr std::array<ServerFlag, 14> kTrtllm{{{"model", ServerKey::model},
                                              {"tp-size", ServerKey::tensor},
                                              {"pp-size", ServerKey::pipeline},
                                              {"ep-size", ServerKey::expert},
                                              {"max-batch-size", ServerKey::sequences},
                                              {"max-num-tokens", ServerKey::tokens},
                                              {"kv-cache-free-gpu-memory-fraction", ServerKey::memory},
                                              {"host", ServerKey::none, kValue, kServer},
                                              {"port", ServerKey::none, kValue, kServer},
                                              {"tokenizer", ServerKey::none, kValue, kServer},
                                              {"trust-remote-code", ServerKey::none, kSwitch, kServer},
                                              {"max-seq-len", ServerKey::none, kValue, kLengths},
                                              {"backend", ServerKey::none, kValue, kEngine},
                                              {"extra-llm-api-options", ServerKey::none, kValue,
                                               "is a file, whose keys a scenario has: attention_data, chunked_prefill, "
                                               "prefix_caching, precision.kv_cache"}}};

constexpr std::array<ServerFlags, 3> kServers{
    {{"vllm", "vllm-0.15", "vllm", "serve", "vllm serve", '-', kVllm},
     {"sglang", "sglang-0.5", "sglang.launch_server", "", "python -m sglang.launch_server", '-', kSglang},
     {"trtllm", "trtllm-1.0", "trtllm-serve", "", "trtllm-serve", '_', kTrtllm}}};

}  // namespace

const ServerFlags& server_flags(const std::string& engine) {
  for (const ServerFlags& server : kServers) {
    if (server.engine == engine) return server;
  }
  throw sim::UserError(fmt::format("orrery: got the engine {}, expected vllm, sglang or trtllm", engine));
}

}  // namespace orrery::tools
