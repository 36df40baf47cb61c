// The catalogue of Megatron-LM's flags (megatron/training/arguments.py); see megatron_flags.h.
#include "tools/import/megatron_flags.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>

#include "tools/import/import.h"

namespace orrery::tools {

namespace {
/// Of mixtures of experts, latent attention and Mamba; of an encoder and a decoder.
const std::set<std::string>& mixture_flags() {
  static const std::set<std::string> kTaken{"decoder-num-layers",
                                            "decoder-seq-length",
                                            "encoder-num-layers",
                                            "encoder-seq-length",
                                            "expert-model-parallel-size",
                                            "expert-tensor-parallel-size",
                                            "kv-lora-rank",
                                            "mamba-head-dim",
                                            "mamba-num-groups",
                                            "mamba-num-heads",
                                            "mamba-state-dim",
                                            "moe-enable-deepep",
                                            "moe-expert-capacity-factor",
                                            "moe-ffn-hidden-size",
                                            "moe-flex-dispatcher-backend",
                                            "moe-grouped-gemm",
                                            "moe-layer-freq",
                                            "moe-pad-expert-input-to-capacity",
                                            "moe-permute-fusion",
                                            "moe-router-dtype",
                                            "moe-router-fusion",
                                            "moe-router-group-topk",
                                            "moe-router-num-groups",
                                            "moe-router-topk",
                                            "moe-shared-expert-gate",
                                            "moe-shared-expert-intermediate-size",
                                            "moe-shared-expert-overlap",
                                            "moe-token-dispatcher-type",
                                            "mtp-num-layers",
                                            "multi-latent-attention",
                                            "num-experts",
                                            "overlap-moe-expert-parallel-comm",
                                            "q-lora-rank",
                                            "qk-head-dim",
                                            "qk-pos-emb-head-dim",
                                            "v-head-dim"};
  return kTaken;
}
/// What megatron_forks.cc reads.
const std::set<std::string>& flags_of_forks() {
  static const std::set<std::string> kTaken{"actor-num-gpus-per-node",
                                            "actor-num-nodes",
                                            "enable-optimizer-post-validation",
                                            "enable-zero-bubble",
                                            "moe-capacity-factor",
                                            "moe-expert-model-parallelism",
                                            "moe-num-experts",
                                            "moe-top-k",
                                            "zero-bubble-max-pending-backward",
                                            "zero-bubble-v-schedule",
                                            "zero-bubble-v-schedule-mem-setup"};
  return kTaken;
}
/// What megatron_newer.cc reads.
const std::set<std::string>& newer_flags() {
  static const std::set<std::string> kTaken{"attention-output-gate",
                                            "cpu-offloading-num-layers",
                                            "cuda-graph-impl",
                                            "cuda-graph-modules",
                                            "cuda-graph-scope",
                                            "enable-cuda-graph",
                                            "enable-mhc-connections",
                                            "experimental-attention-variant",
                                            "external-cuda-graph",
                                            "linear-attention-freq",
                                            "linear-conv-kernel-dim",
                                            "linear-key-head-dim",
                                            "linear-num-key-heads",
                                            "linear-num-value-heads",
                                            "linear-value-head-dim",
                                            "mhc-num-residual-streams",
                                            "moe-deepep-num-sms",
                                            "moe-flex-dispatcher-num-sms",
                                            "moe-hybridep-num-sms",
                                            "moe-layer-recompute",
                                            "moe-paged-stash",
                                            "pipeline-model-parallel-layout",
                                            "torch-fsdp2-no-reshard-after-forward",
                                            "make-vocab-size-divisible-by",
                                            "no-pad-vocab-size",
                                            "disable-pad-vocab-size",
                                            "vocab-extra-ids"};
  return kTaken;
}
/// Of Megatron-DeepSpeed and Pai-Megatron-Patch.
const std::set<std::string>& flags_of_others() {
  static const std::set<std::string> kTaken{"deepspeed",
                                            "deepspeed-config",
                                            "zero-stage",
                                            "ds-sequence-parallel-size",
                                            "moe-expert-parallel-size",
                                            "topk",
                                            "expert-interval",
                                            "moe-train-capacity-factor",
                                            "mlp-type",
                                            "disable-moe-token-dropping",
                                            "enable-expert-tensor-parallelism",
                                            "num-key-value-heads",
                                            "n-head-kv",
                                            "intermediate-size",
                                            "patch-tokenizer-type",
                                            "extra-vocab-size",
                                            "gradient-accumulation-steps",
                                            "train-tokens",
                                            "cpu-optimizer",
                                            "use-llama2-rotary-position-embeddings",
                                            "no-position-embedding"};
  return kTaken;
}
}  // namespace

const std::set<std::string>& taken_flags() {
  static const std::set<std::string> kTaken = [] {
    std::set<std::string> all{"accumulate-allreduce-grads-in-fp32",
                              "activations-checkpoint-method",
                              "activations-checkpoint-num-layers",
                              "add-qkv-bias",
                              "attention-backend",
                              "bf16",
                              "checkpoint-activations",
                              "context-parallel-size",
                              "cp-comm-type",
                              "data-parallel-sharding-strategy",
                              "decoder-first-pipeline-num-layers",
                              "decoder-last-pipeline-num-layers",
                              "disable-bias-linear",
                              "eval-interval",
                              "eval-iters",
                              "ffn-hidden-size",
                              "fp16",
                              "fp4-format",
                              "fp8-e4m3",
                              "fp8-format",
                              "fp8-hybrid",
                              "fp8-param-gather",
                              "fp8-recipe",
                              "global-batch-size",
                              "grad-reduce-in-bf16",
                              "group-query-attention",
                              "hidden-size",
                              "hybrid-layer-pattern",
                              "hybrid-override-pattern",
                              "kv-channels",
                              "micro-batch-size",
                              "moe-latent-size",
                              "nnodes",
                              "no-overlap-p2p-communication",
                              "normalization",
                              "nproc-per-node",
                              "num-attention-heads",
                              "num-distributed-optimizer-instances",
                              "num-layers",
                              "num-layers-per-virtual-pipeline-stage",
                              "num-query-groups",
                              "num-virtual-stages-per-pipeline-rank",
                              "optimizer",
                              "overlap-grad-reduce",
                              "overlap-param-gather",
                              "pad-vocab-size-to",
                              "padded-vocab-size",
                              "pipeline-model-parallel-size",
                              "position-embedding-type",
                              "qk-layernorm",
                              "recompute-activations",
                              "recompute-granularity",
                              "recompute-method",
                              "recompute-modules",
                              "optimizer-cpu-offload",
                              "optimizer-offload-fraction",
                              "overlap-cpu-optimizer-d2h-h2d",
                              "recompute-num-layers",
                              "seq-length",
                              "sequence-parallel",
                              "squared-relu",
                              "swiglu",
                              "quick-geglu",
                              "cross-entropy-loss-fusion",
                              "activation-func-clamp-value",
                              "tensor-model-parallel-size",
                              "tokenizer-type",
                              "tp-comm-overlap",
                              "train-iters",
                              "train-samples",
                              "untie-embeddings-and-output-weights",
                              "use-custom-fsdp",
                              "use-distributed-optimizer",
                              "use-flash-attn",
                              "use-megatron-fsdp",
                              "use-rotary-position-embeddings",
                              "use-torch-fsdp2",
                              "use-tp-pp-dp-mapping",
                              "vocab-size",
                              "window-attn-skip-freq",
                              "window-size",
                              "world-size"};
    for (const auto* more : {&flags_of_others(), &mixture_flags(), &newer_flags(), &flags_of_forks()})
      all.insert(more->begin(), more->end());
    return all;
  }();
  return kTaken;
}

const std::vector<std::pair<std::string, std::vector<std::string>>>& skipped_flags() {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> kOwn = {
      {"data loading is not modelled",
       {"dataset",
        "train-data",
        "valid-data",
        "epochs",
        "keep-last",
        "train-mode",
        "max-padding-length",
        "data-path",
        "data-cache-path",
        "data-impl",
        "train-data-path",
        "valid-data-path",
        "test-data-path",
        "split",
        "vocab-file",
        "merge-file",
        "tokenizer-model",
        "num-workers",
        "mock-data",
        "dataloader-type",
        "no-create-attention-mask-in-dataloader",
        "reset-position-ids",
        "reset-attention-mask",
        "eod-mask-loss",
        "no-mmap-bin-files"}},
      {"checkpoints and logs are not modelled",
       {"save",
        "load",
        "save-interval",
        "log-interval",
        "tensorboard-dir",
        "tensorboard-queue-size",
        "tensorboard-log-interval",
        "log-batch-size-to-tensorboard",
        "log-validation-ppl-to-tensorboard",
        "log-optimizer-states-to-tensorboard",
        "logging-dir",
        "logging-level",
        "dist-ckpt-strictness",
        "universal-checkpoint",
        "profile",
        "profile-step-start",
        "profile-step-end",
        "profile-ranks",
        "log-throughput",
        "log-timers-to-tensorboard",
        "log-memory-to-tensorboard",
        "log-params-norm",
        "log-num-zeros-in-grad",
        "log-progress",
        "timing-log-level",
        "timing-log-option",
        "wandb-project",
        "wandb-exp-name",
        "wandb-save-dir",
        "ckpt-format",
        "async-save",
        "use-dist-ckpt",
        "dist-ckpt-format",
        "ckpt-fully-parallel-load",
        "no-save-optim",
        "no-load-optim",
        "no-load-rng",
        "no-save-rng",
        "auto-detect-ckpt-format",
        "exit-duration-in-mins",
        "exit-interval",
        "exit-signal-handler",
        "finetune"}},
      {"changes values, not work",
       {"lr",
        "min-lr",
        "lr-decay-tokens",
        "lr-warmup-tokens",
        "decoupled-min-lr",
        "moe-aux-loss-coeff",
        "moe-loss-coeff",
        "moe-router-load-balancing-type",
        "moe-router-force-load-balancing",
        "moe-router-score-function",
        "moe-router-enable-expert-bias",
        "moe-router-bias-update-rate",
        "moe-router-pre-softmax",
        "moe-router-topk-scaling-factor",
        "moe-eval-capacity-factor",
        "moe-min-capacity",
        "rotary-scaling-factor",
        "rotary-scale-factor",
        "rotary-position-embeddings-theta",
        "rope-type",
        "mscale",
        "mscale-all-dim",
        "mrope-section",
        "lr-decay-style",
        "lr-decay-iters",
        "lr-decay-samples",
        "lr-warmup-fraction",
        "lr-warmup-iters",
        "lr-warmup-samples",
        "weight-decay",
        "start-weight-decay",
        "end-weight-decay",
        "weight-decay-incr-style",
        "clip-grad",
        "adam-beta1",
        "adam-beta2",
        "adam-eps",
        "init-method-std",
        "initial-loss-scale",
        "loss-scale",
        "loss-scale-window",
        "hysteresis",
        "min-loss-scale",
        "seed",
        "norm-epsilon",
        "layernorm-epsilon",
        "rotary-base",
        "rotary-percent",
        "use-rope-scaling",
        "rotary-seq-len-interpolation-factor",
        "apply-layernorm-1p",
        "no-query-key-layer-scaling",
        "attention-softmax-in-fp32",
        "fp8-margin",
        "fp8-interval",
        "fp8-amax-history-len",
        "fp8-amax-compute-algo",
        "override-opt-param-scheduler",
        "decoupled-lr",
        "use-checkpoint-args"}},
      {"dropout's kernels count whatever its probability", {"attention-dropout", "hidden-dropout"}},
      {"every activation function costs the same here", {"openai-gelu"}},
      {"of the launcher and its processes",
       {"node-rank",
        "master-addr",
        "master-port",
        "rdzv-id",
        "rdzv-backend",
        "rdzv-endpoint",
        "rdzv-conf",
        "max-restarts",
        "standalone",
        "distributed-backend",
        "distributed-timeout-minutes",
        "local-rank",
        "use-cpu-initialization",
        "tee",
        "redirects",
        "log-dir",
        "no-python",
        "module",
        "lazy-mpu-init",
        "nccl-communicator-config-path",
        "use-ring-exchange-p2p",
        "overlap-p2p-communication",
        "rank",
        "ntasks",
        "ntasks-per-node",
        "gpus-per-node",
        "nodes",
        "hostfile",
        "force-multi",
        "enable-experimental",
        "create-moe-param-group"}},
      {"the generation of software says what is fused and how its kernels are launched",
       {"transformer-impl",
        "use-mcore-models",
        "use-legacy-models",
        "use-te",
        "no-masked-softmax-fusion",
        "no-bias-gelu-fusion",
        "no-bias-swiglu-fusion",
        "no-bias-dropout-fusion",
        "no-rope-fusion",
        "no-gradient-accumulation-fusion",
        "cross-entropy-fusion-impl",
        "no-async-tensor-model-parallel-allreduce",
        "manual-gc",
        "manual-gc-interval",
        "manual-gc-eval",
        "use-cpu-offloading",
        "no-persist-layer-norm",
        "ddp-bucket-size",
        "ddp-average-in-collective",
        "ddp-num-buckets",
        "no-align-grad-reduce",
        "no-align-param-gather",
        "align-param-gather",
        "deterministic-mode",
        "tp-comm-bootstrap-backend",
        "tp-comm-overlap-cfg",
        "no-scatter-gather-tensors-in-pipeline",
        "no-contiguous-buffers-in-local-ddp",
        "DDP-impl",
        "use-nccl-ub",
        "use-sharp",
        "check-for-nan-in-loss-and-grad",
        "no-check-for-nan-in-loss-and-grad",
        "calculate-per-token-loss",
        "use-precision-aware-optimizer",
        "empty-unused-memory-level"}},
      {"positions up to the sequence's length count", {"max-position-embeddings"}},
      {"without layers of their own a split as even as it can be is taken",
       {"account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split"}},
      {"every layer is kept as it is", {"distribute-saved-activations", "distribute-checkpointed-activations"}},
      {"the step of the whole batch is simulated", {"rampup-batch-size"}},
  };
  static const std::vector<std::pair<std::string, std::vector<std::string>>> kSkipped = [] {
    std::vector<std::pair<std::string, std::vector<std::string>>> all = kOwn;
    for (const auto& [why, flags] : further_skipped_flags()) {
      const auto same =
          std::find_if(all.begin(), all.end(), [&why = why](const auto& each) { return each.first == why; });
      if (same == all.end())
        all.emplace_back(why, flags);
      else
        same->second.insert(same->second.end(), flags.begin(), flags.end());
    }
    return all;
  }();
  return kSkipped;
}

void take_recomputed_modules(const std::vector<std::string>& modules, const std::string& option, Draft& draft) {
  static const std::set<std::string> kKnown{"core_attn", "layernorm", "mlp", "mla_up_proj", "moe", "moe_act"};
  std::vector<std::string> taken;
  for (const std::string& module : modules) {
    if (kKnown.contains(module))
      taken.push_back(module);
    else
      draft.ignored(fmt::format("{}: {}", option, module), "not known to orrery");
  }
  draft.apply(fmt::format("recompute={{kind: selective, modules: [{}]}}", fmt::join(taken, ", ")));
}

std::optional<std::vector<bool>> layers_of(const std::string& pattern, std::size_t most) {
  std::string text;
  for (const char c : pattern) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) text += c;
  }
  if (text.starts_with("(") && text.ends_with(")")) text = text.substr(1, text.size() - 2);
  std::vector<bool> layers;
  for (std::size_t at = 0;; ++at) {  // a list, how often, and a plus sign unless it is the last
    if (at >= text.size() || text[at] != '[') return std::nullopt;
    std::vector<bool> list;
    do {
      if (at + 2 >= text.size() || (text[at + 1] != '0' && text[at + 1] != '1')) return std::nullopt;
      list.push_back(text[at + 1] == '1');
      at += 2;
    } while (text[at] == ',');
    if (text[at++] != ']') return std::nullopt;
    std::size_t times = 1;
    if (at < text.size() && text[at] == '*') {
      const char *begin = text.data() + at + 1, *end = text.data() + text.size();
      const auto [behind, error] = std::from_chars(begin, end, times);
      if (error != std::errc{} || times > most) return std::nullopt;
      at = static_cast<std::size_t>(behind - text.data());
    }
    if (layers.size() + times * list.size() > most) return std::nullopt;
    for (std::size_t i = 0; i < times; ++i) layers.insert(layers.end(), list.begin(), list.end());
    if (at == text.size()) return layers;
    if (text[at] != '+') return std::nullopt;
  }
}

const std::vector<std::pair<const char*, const char*>>& software_since() {
  static const std::vector<std::pair<const char*, const char*>> kSince{
      {"fine-grained-activation-offloading", "megatron-core-0.16"},
      {"fp4-format", "megatron-core-0.16"},  // 0.15, which does not ship
      {"overlap-moe-expert-parallel-comm", "megatron-core-0.14"},
      {"use-megatron-fsdp", "megatron-core-0.14"},
      {"moe-deepep-num-sms", "megatron-core-0.13"},
      {"pipeline-model-parallel-layout", "megatron-core-0.13"},
      {"recompute-modules", "megatron-core-0.12"},
      {"cross-entropy-fusion-impl", "megatron-core-0.12"},
      {"fp8-recipe", "megatron-core-0.12"},
      {"moe-enable-deepep", "megatron-core-0.12"},
      {"optimizer-cpu-offload", "megatron-core-0.12"},
      {"moe-permute-fusion", "megatron-core-0.11"}};
  return kSince;
}

std::optional<ExpertLayers> expert_layers(const std::vector<bool>& layers) {
  const auto first = std::find(layers.begin(), layers.end(), true);
  if (first == layers.end()) return std::nullopt;
  constexpr std::size_t kLongest = 64;
  const std::size_t ahead = static_cast<std::size_t>(first - layers.begin());
  for (std::size_t every = 1; every <= std::min(ahead + 1, kLongest); ++every) {
    const std::size_t dense = ahead + 1 - every;
    bool holds = true;
    for (std::size_t i = 0; i < layers.size() && holds; ++i)
      holds = layers[i] == (i >= dense && (i - dense) % every == every - 1);
    if (holds) return ExpertLayers{static_cast<std::int64_t>(dense), static_cast<std::int64_t>(every)};
  }
  return std::nullopt;
}

}  // namespace orrery::tools
