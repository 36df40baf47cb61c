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
constexpr std::string_view kAdapters = "is of adapters, which are not modelled where a model is served";
constexpr std::string_view kPictures = "is of pictures and sound, of which a scenario has none";
constexpr std::string_view kDrafts = "says not how many drafts are accepted: serving.pools[].speculative";
constexpr std::string_view kApart = "is of one of two pools: serving.pools with roles prefill and decode";
constexpr std::string_view kLayout = "cuts the work otherwise, which no key of a scenario says";
constexpr std::string_view kRoom = "changes the room for keys and values, which follows from the memory here";
constexpr std::string_view kEngine = "is the engine's release's to say (software)";

constexpr std::array<ServerFlag, 65> kVllm{
    {{"model", ServerKey::model},
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
     {"compilation-config compilation-config.* cc cc.* O", ServerKey::none, kValue, kEngine},
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
      "{micro_batches: overlapped}}"},
     {"config", ServerKey::options},
     {"decode-context-parallel-size dcp prefill-context-parallel-size pcp", ServerKey::unmodelled, kValue, kLayout},
     {"enable-eplb", ServerKey::unmodelled, kSwitch,
      "copies experts that are in demand: serving.pools[].redundant_experts"},
     {"num-gpu-blocks-override kv-cache-memory-bytes kv-offloading-size kv-offloading-backend", ServerKey::unmodelled,
      kValue, kRoom},
     {"hf-overrides rope-scaling rope-theta", ServerKey::unmodelled, kValue,
      "changes the model's configuration: --set model.KEY=VALUE"},
     {"eplb-config data-parallel-size-local data-parallel-start-rank data-parallel-address data-parallel-rpc-port "
      "data-parallel-backend data-parallel-rank nnodes node-rank master-addr master-port api-server-count",
      ServerKey::none, kValue, kServer},
     {"headless data-parallel-hybrid-lb data-parallel-external-lb disable-uvicorn-access-log enable-log-requests "
      "enable-log-outputs enable-request-id-headers enable-server-load-tracking enable-force-include-usage "
      "enable-prompt-tokens-details disable-fastapi-docs return-tokens-as-token-ids enable-sleep-mode "
      "enable-tokenizer-info-endpoint allow-credentials skip-tokenizer-init",
      ServerKey::none, kSwitch, kServer},
     {"root-path ssl-* uvicorn-log-level allowed-* response-role chat-template-content-format middleware max-log-len "
      "log-config-file tool-parser-plugin tool-server default-chat-template-kwargs media-io-kwargs "
      "reasoning-parser-plugin "
      "guided-decoding-backend structured-outputs-config reasoning-config logits-processors logits-processor-pattern "
      "max-logprobs otlp-traces-endpoint collect-detailed-traces show-hidden-metrics-for-version hf-token "
      "hf-config-path "
      "config-format code-revision tokenizer-revision pooler-config override-pooler-config kv-events-config task "
      "runner "
      "convert model-impl stream-interval profiler-config",
      ServerKey::none, kValue, kServer},
     {"model-loader-extra-config ignore-patterns use-tqdm-on-load safetensors-load-strategy pt-load-map-location "
      "max-parallel-loading-workers weight-transfer-config",
      ServerKey::none, kValue, kLoading},
     {"disable-custom-all-reduce no-async-scheduling disable-cascade-attn enable-flashinfer-autotune "
      "no-enable-flashinfer-autotune disable-chunked-mm-input disable-hybrid-kv-cache-manager "
      "no-disable-hybrid-kv-cache-manager disable-sliding-window calculate-kv-scales enable-cumem-allocator "
      "no-enforce-eager use-v2-block-manager disable-async-output-proc enable-return-routed-experts",
      ServerKey::none, kSwitch, kEngine},
     {"attention-backend attention-config moe-backend linear-backend all2all-backend kernel-config optimization-level "
      "max-cudagraph-capture-size cudagraph-capture-sizes cuda-graph-sizes max-seq-len-to-capture scheduling-policy "
      "long-prefill-token-threshold max-num-partial-prefills max-long-partial-prefills scheduler-cls "
      "scheduler-delay-factor num-scheduler-steps preemption-mode mamba-block-size mamba-cache-mode "
      "gdn-prefill-backend "
      "prefix-caching-hash-algo dbo-* additional-config worker-cls worker-extension-cls device",
      ServerKey::none, kValue, kEngine},
     {"max-loras max-lora-rank lora-* max-cpu-loras fully-sharded-loras enable-lora-bias default-mm-loras "
      "long-lora-scaling-factors enable-prompt-adapter max-prompt-adapters max-prompt-adapter-token",
      ServerKey::none, kValue, kAdapters},
     {"mm-* interleave-mm-strings skip-mm-profiling language-model-only video-pruning-rate enable-mm-embeds "
      "disable-mm-preprocessor-cache",
      ServerKey::none, kValue, kPictures},
     {"speculative-* num-speculative-tokens ngram-prompt-lookup-* spec-decoding-* typical-acceptance-*",
      ServerKey::none, kValue, kDrafts},
     {"ec-transfer-config", ServerKey::none, kValue, kApart}}};

constexpr std::array<ServerFlag, 64> kSglang{
    {{"model-path model", ServerKey::model},
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
     {"dist-init-addr nccl-init-addr", ServerKey::none, kValue, kServer},
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
      "says not how many drafts are accepted: serving.pools[].speculative"},
     {"config", ServerKey::options},
     {"attention-context-parallel-size attn-cp-size moe-data-parallel-size moe-dp-size moe-dense-tp-size",
      ServerKey::unmodelled, kValue, kLayout},
     {"max-total-tokens hicache-* swa-full-tokens-ratio cpu-offload-gb offload-*", ServerKey::unmodelled, kValue,
      kRoom},
     {"enable-hierarchical-cache enable-lmcache", ServerKey::unmodelled, kSwitch, kRoom},
     {"enable-dsa-prefill-context-parallel enable-nsa-prefill-context-parallel", ServerKey::unmodelled, kSwitch,
      kLayout},
     {"enable-deterministic-inference", ServerKey::unmodelled, kSwitch,
      "takes kernels that give the same whatever the batch is, which are slower; those of the engine are simulated"},
     {"kt-*", ServerKey::unmodelled, kValue, "leaves experts to the processor: all are on the GPUs here"},
     {"dllm-*", ServerKey::unmodelled, kValue, "makes tokens by diffusion; one after the other is simulated"},
     {"enable-eplb", ServerKey::unmodelled, kSwitch,
      "copies experts that are in demand: serving.pools[].redundant_experts"},
     {"json-model-override-args", ServerKey::unmodelled, kValue,
      "changes the model's configuration: --set model.KEY=VALUE"},
     {"skip-server-warmup grpc-mode skip-tokenizer-init enable-cache-report is-embedding enable-multimodal "
      "sleep-on-idle "
      "log-requests show-time-cost enable-request-time-stats-logging incremental-streaming-output enable-metrics-* "
      "enable-mfu-metrics enable-expert-distribution-metrics export-metrics-to-file enable-trace allow-auto-truncate "
      "enable-custom-logit-processor enable-priority-scheduling "
      "abort-on-priority-when-disabled schedule-low-priority-values-first prefill-round-robin-balance "
      "enable-tokenizer-batch-encode disable-tokenizer-batch-decode enable-dynamic-batch-tokenizer "
      "enable-nan-detection "
      "enable-memory-saver enable-weights-cpu-backup enable-draft-weights-cpu-backup enable-return-hidden-states "
      "enable-profile-cuda-graph enable-cudagraph-gc enable-layerwise-nvtx-marker enable-torch-compile-debug-mode",
      ServerKey::none, kSwitch, kServer},
     {"tokenizer-mode fastapi-root-path warmups nccl-port log-level-http log-requests-* uvicorn-* crash-dump-folder "
      "watchdog-timeout soft-watchdog-timeout dist-timeout base-gpu-id gpu-id-step constrained-* grammar-backend "
      "chat-template completion-template reasoning-parser tool-call-parser tool-server file-storage-path "
      "decode-log-interval bucket-* collect-tokens-histogram prompt-tokens-buckets generation-tokens-buckets "
      "admin-api-key hf-chat-template-name sampling-seed preferred-sampling-params max-queued-requests "
      "gc-warning-threshold-secs otlp-traces-endpoint kv-events-config load-balance-method load-watch-interval "
      "otlp-* debug-* delete-ckpt-after-loading priority-scheduling-preemption-threshold tokenizer-metrics-* "
      "export-metrics-to-file-dir custom-sigquit-handler mooncake-ib-device "
      "dynamic-batch-tokenizer-* multi-item-scoring-delimiter",
      ServerKey::none, kValue, kServer},
     {"load-format model-loader-extra-config revision model-impl download-dir model-checksum weight-loader-* "
      "custom-weight-loader remote-instance-* checkpoint-engine-wait-weights-before-ready modelopt-* rl-* "
      "quantization-param-path quantize-and-serve weight-version",
      ServerKey::none, kValue, kLoading},
     {"enable-mixed-chunk enable-dp-lm-head disable-overlap-schedule disable-custom-all-reduce enable-mscclpp "
      "enable-torch-compile enable-torch-symm-mem enable-nccl-nvls disable-outlines-disk-cache "
      "disable-cuda-graph-padding "
      "disable-piecewise-cuda-graph disable-flashinfer-autotune disable-shared-experts-fusion "
      "enable-aiter-allreduce-fusion "
      "enable-single-batch-overlap disable-chunked-prefix-cache disable-fast-image-processor enable-p2p-check "
      "triton-attention-reduce-in-fp32 flashinfer-mla-disable-ragged disable-hybrid-swa-memory enable-dynamic-chunking "
      "enable-prefill-delayer enable-fp32-lm-head enable-quant-communications "
      "enable-dp-attention-local-control-broadcast "
      "enable-return-routed-experts numa-node disable-mla enable-deepep-moe enable-ep-moe enable-flashinfer-* "
      "enable-fused-grouped-gemm-combine enable-deepep-waterfill enable-elastic-expert-backup elastic-ep-rejoin "
      "disable-flashinfer-* enforce-piecewise-cuda-graph keep-mm-feature-on-device enable-attn-tp-input-scattered "
      "enable-fused-qk-norm-rope enable-precise-embedding-interpolation",
      ServerKey::none, kSwitch, kEngine},
     {"num-continuous-decode-steps schedule-policy schedule-conservativeness prefill-max-requests prefill-delayer-* "
      "pp-max-micro-batch-size pp-async-batch-depth cuda-graph-bs cuda-graph-* piecewise-cuda-graph-* "
      "torch-compile-max-bs torchao-config mm-attention-backend prefill-attention-backend decode-attention-backend "
      "nsa-* "
      "dsa-* fp8-gemm-* fp4-gemm-* bf16-gemm-backend flashinfer-* triton-* deepep-* moe-* eplb-* "
      "init-expert-location expert-distribution-* ep-dispatch-algorithm tbo-token-distribution-threshold "
      "radix-eviction-policy mamba-* linear-attn-* max-mamba-cache-size device scheduler-* attention-config "
      "elastic-ep-backend hierarchical-sparse-attention-*",
      ServerKey::none, kValue, kEngine},
     {"lora-* enable-lora enable-lora-* max-lora-* max-loras-* max-loaded-loras", ServerKey::none, kValue, kAdapters},
     {"disaggregation-* pd-disaggregation encoder-* language-only num-reserved-decode-tokens", ServerKey::none, kValue,
      kApart},
     {"speculative-* enable-multi-layer-eagle", ServerKey::none, kValue, kDrafts}}};

constexpr std::array<ServerFlag, 32> kTrtllm{
    {{"model", ServerKey::model},
     {"tp-size", ServerKey::tensor},
     {"pp-size", ServerKey::pipeline},
     {"ep-size", ServerKey::expert},
     {"max-batch-size", ServerKey::sequences},
     {"max-num-tokens", ServerKey::tokens},
     {"kv-cache-free-gpu-memory-fraction free-gpu-memory-fraction", ServerKey::memory},
     {"host", ServerKey::none, kValue, kServer},
     {"port", ServerKey::none, kValue, kServer},
     {"tokenizer", ServerKey::none, kValue, kServer},
     {"trust-remote-code", ServerKey::none, kSwitch, kServer},
     {"max-seq-len", ServerKey::none, kValue, kLengths},
     {"backend", ServerKey::none, kValue, kEngine},
     {"extra-llm-api-options config", ServerKey::options},
     {"tensor-parallel-size", ServerKey::tensor},
     {"pipeline-parallel-size", ServerKey::pipeline},
     {"moe-expert-parallel-size", ServerKey::expert},
     {"kv-cache-config.free-gpu-memory-fraction", ServerKey::memory},
     {"kv-cache-config.dtype kv-cache-dtype", ServerKey::cache_type},
     {"kv-cache-config.tokens-per-block", ServerKey::block},
     {"kv-cache-config.enable-block-reuse", ServerKey::prefixes, kSwitch},
     {"no-kv-cache-config.enable-block-reuse", ServerKey::no_prefixes, kSwitch},
     {"enable-chunked-prefill", ServerKey::chunks, kSwitch},
     {"no-enable-chunked-prefill", ServerKey::no_chunks, kSwitch},
     {"enable-attention-dp", ServerKey::attention_data, kSwitch},
     {"context-parallel-size cp-size cp-config.* moe-tensor-parallel-size moe-cluster-parallel-size cluster-size",
      ServerKey::unmodelled, kValue, kLayout},
     {"kv-cache-config.host-cache-size kv-cache-config.max-tokens", ServerKey::unmodelled, kValue, kRoom},
     {"max-beam-width", ServerKey::unmodelled, kValue, "keeps several answers to a request; one is simulated"},
     {"grpc", ServerKey::none, kSwitch, kServer},
     {"speculative-config.* speculative-*", ServerKey::none, kValue, kDrafts},
     {"kv-cache-config.* cuda-graph-config.* moe-config.* attention-dp-config.* scheduler-config.* "
      "torch-compile-config.* "
      "sparse-attention-config.* autotuner-* attn-backend allreduce-strategy stream-interval num-postprocess-workers "
      "enable-iter-* print-iter-log nvfp4-gemm-config.* perf-metrics-max-requests enable-lm-head-tp-in-adp "
      "gpus-per-node "
      "moe-backend use-cuda-graph cuda-graph-padding-enabled cuda-graph-batch-sizes",
      ServerKey::none, kValue, kEngine},
     {"log-level reasoning-parser tool-parser tool-call-parser chat-template custom-tokenizer revision "
      "metadata-server-* "
      "server-role num-workers fail-fast-on-attention-window-too-large cache-transceiver-config.* "
      "postprocess-tokenizer-dir otlp-traces-endpoint disagg-cluster-uri media-io-kwargs custom-module-dirs "
      "served-model-name",
      ServerKey::none, kValue, kServer}}};

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
