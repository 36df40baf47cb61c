// What a launch line says beyond the catalogue of megatron_flags.cc, by Megatron-LM's argument list of August 2026
// (megatron/training/arguments.py and the dataclasses whose fields it makes into flags). A name that ends with * stands
// for all that begin with it.
#include <sstream>

#include "tools/import/megatron_flags.h"

namespace orrery::tools {

namespace {

using Groups = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// A reason, and flags with blanks between them.
struct Named {
  const char *why, *flags;
};

// clang-format off
constexpr Named kUnmodelled[] = {
    {"some of the layers, products, sums or messages have another type; here all have the same",
     "fp4-param-gather te-precision-config-file first-last-layers-bf16 num-layers-at-* no-fp8-wgrad "
     "disable-fp8-wgrad fp8-output-proj kitchen-* use-kitchen-attention moe-dispatch-fwd-dtype "
     "moe-combine-bwd-dtype fp32-residual-connection fp16-lm-cross-entropy output-logit-dtype "
     "mamba-training-ssm-states-dtype ddp-reduce-scatter-with-fp32-accumulation "
     "gtp-remat-reduce-scatter-with-fp32-accumulation ddp-param-name-patterns-for-fp32-local-accumulation"},
    {"the optimizer's copies and states are fp32 here, which memory counts",
     "main-grads-dtype main-params-dtype exp-avg-dtype exp-avg-sq-dtype megatron-fsdp-main-params-dtype "
     "megatron-fsdp-main-grads-dtype"},
    {"what the file holds is not read",
     "heterogeneous-layers-config-* yaml-cfg"},
    {"activations that go to the host are kept on the device here, which memory counts",
     "fine-grained-activation-offloading offload-modules activation-offload-fraction min-offloaded-tensor-size "
     "delay-offload-until-cuda-graph delta-offload-bytes-across-pp-ranks fine-grained-offloading-*"},
    {"weights and states are cut otherwise here",
     "tensor-parallel-num-weight-shards expert-tensor-parallel-num-weight-shards gtp-remat-opt-in-modules "
     "outer-dp-sharding-strategy enable-full-sharding-in-hsdp"},
    {"sequences of unlike lengths are shared among ranks; here all have the length of --seq-length",
     "hybrid-context-parallel hierarchical-context-parallel-sizes max-seqlen-per-dp-cp-rank"},
    {"attention sees whole sequences here; --set batch.document_tokens=N for documents",
     "dataloader-inter-document-masking"},
    {"not in the simulated step",
     "no-rope-freq embed-layernorm mtp-hsm mlp-chunks-for-training mhc-recompute-layer-num "
     "moe-router-padding-for-* moe-expert-rank-capacity-factor batch-invariant-* log-max-attention-logit"},
    {"micro-batches are filled up to a number of tokens; here all have --micro-batch-size sequences",
     "use-dynamic-batch-size max-tokens-per-gpu"},
    {"the further predictions share their weights; here each has its own",
     "mtp-use-repeated-layer"},
    {"the order of a step's passes and messages is the usual one here",
     "delay-wgrad-compute overlap-dispatch-backward-with-experts-wgrad overlap-p2p-communication-warmup-flush "
     "microbatch-group-size-per-virtual-pipeline-stage overlap-param-gather-with-optimizer-step"},
    {"sparse attention's indexer is not read from flags",
     "dsa-* no-dsa-* disable-dsa-*"},
    {"a step of language modelling is simulated, of all weights",
     "freeze-all-layers perform-rl-step skip-train fake-process-group biencoder-* ict-head-size dino-* "
     "vision-pretraining* vision-backbone-type swin-backbone-type retriever-* num-classes num-channels img-w "
     "mask-type mask-factor logits-load-* gdp-*"},
};

constexpr Named kWithoutEffect[] = {
    {"of inference and reinforcement learning, beside a step of training",
     "inference-* rl-* grpo-* langrl-env-config refit-method mamba-inference-* num-speculative-tokens "
     "decode-only-cuda-graphs flash-decode use-legacy-static-engine max-tokens-to-oom output-bert-embeddings "
     "bert-embedder-type cache-mla-latents mlp-chunks-for-prefill nccl-all-reduce-for-prefill symmetric-ar-type "
     "moe-pad-experts-for-cuda-graph-inference use-same-sampling-seed-across-dp-ranks enable-chunked-prefill "
     "indexer-* evidence-data-path block-data-path embedding-path"},
    {"faults, and how a run notices them, are a campaign's",
     "inprocess-* ft-* enable-ft-package calc-ft-timeouts fault-injector-* error-injection-* rerun-mode "
     "log-straggler straggler-* disable-straggler-on-startup check-for-spiky-loss check-for-large-grads "
     "check-weight-hash-* gpu-sniff-test-interval flight-recorder-* no-flight-recorder-* "
     "disable-flight-recorder-* adlr-autoresume* result-rejected-tracker-filename exit-* distributed-timeout-* "
     "run-workload-inspector-server"},
    {"checkpoints and logs are not modelled",
     "ckpt-* no-ckpt-* disable-ckpt-* async-strategy async-ckpt-* use-persistent-ckpt-worker dist-ckpt-* "
     "distrib-optim-* non-persistent-* persistent-save-interval save-* load-* no-save-* no-load-* "
     "disable-save-* pretrained-checkpoint replication* verify-integrity no-strict-fsdp-dtensor-load "
     "disable-strict-fsdp-dtensor-load use-mp-args-from-checkpoint-args override-ckpt-iteration "
     "use-checkpoint-* no-use-tokenizer-model-from-checkpoint-args "
     "disable-use-tokenizer-model-from-checkpoint-args bert-load ict-load enable-msc disable-msc "
     "dump-param-to-param-group-map moe-use-upcycling moe-upcycling-granularity log-* no-log-* disable-log-* "
     "logits-save-* wandb-* one-logger-* no-one-logger app-tag-run-* otel-* tensorboard-* pytorch-profiler-* "
     "use-pytorch-profiler record-* memory-snapshot-path nvtx-ranges moe-routing-trace-* moe-per-layer-logging "
     "config-logger-dir train-sync-interval no-barrier-with-level-1-timing"},
    {"data loading is not modelled",
     "tokenizer-* no-tokenizer-* disable-tokenizer-* tiktoken-* null-tokenizer-* use-gigatoken fim-* "
     "dataloader-* data-args-path per-split-data-args-path per-dataset-sequences-path sample-rate mask-prob "
     "short-seq-prob num-dataset-builder-threads object-storage-cache-path mid-level-dataset-surplus "
     "allow-ambiguous-pad-tokens sft-tokenizer-prompt-format titles-data-path multiple-validation-sets "
     "validation-set-names no-data-sharding classes-fraction data-per-class-fraction iterations-to-skip "
     "iter-per-epoch use-one-sent-docs query-in-block-prob train-weighted-split-paths-path "
     "valid-weighted-split-paths-path valid-num-workers no-seq-len-plus-one-tokens sft trust-remote-code "
     "chat-template"},
    {"changes values, not work",
     "moe-loss-weight do-layernorm-bias-weight-decay no-scaled-init use-z-loss muon-* lion-beta* sgd-momentum "
     "yarn-* no-yarn-* use-mup mup-* relative-attention-* softmax-type rope-scaling-factor rotary-interleaved "
     "qk-clip* qk-l2-norm embedding-init-method-std init-method-xavier-uniform no-initialization "
     "init-model-with-meta-device data-parallel-random-init moe-z-loss-coeff moe-input-jitter-eps "
     "moe-router-quantile-balancing-ema moe-router-force-biased moe-token-drop-policy moe-apply-probs-on-input "
     "glu-linear-offset apply-wd-to-qk-layernorm no-weight-decay-cond-type apply-query-key-layer-scaling "
     "apply-residual-connection-post-layernorm disable-bf16-reduced-precision-matmul lr-* warmup wd-incr-steps "
     "wsd-decay-steps mtp-loss-scaling-factor mtp-detach-heads te-rng-tracker head-lr-mult mhc-*"},
    {"the generation of software says what is fused and how its kernels are launched",
     "no-tp-comm-* disable-tp-comm-* tp-comm-overlap-rs-dgrad use-te-activation-func "
     "use-fused-weighted-squared-relu fused-residual-rmsnorm use-transformer-engine-op-fuser "
     "mla-down-proj-fusion flash-attention-version moe-use-grouped-tensor moe-single-grouped-* "
     "use-grouped-gemm-for-* moe-mlp-glu-interleave-size moe-shared-expert-glu-interleave-size "
     "moe-permute-fusion-into-hybridep moe-hybridep-* moe-ncclep-zero-copy moe-paged-stash-* "
     "moe-enable-routing-replay high-priority-* ddp-pad-buckets-for-high-nccl-busbw "
     "no-gradient-reduce-div-fusion fsdp-* megatron-fsdp-* suggested-communication-unit-size "
     "create-all-gather-group gtp-remat-nccl-ub gtp-expert-remat-nccl-ub disable-symmetric-registration "
     "sharp-enabled-group disable-gloo-process-groups pipeline-model-parallel-comm-backend disable-jit-fuser "
     "no-clone-scatter-output-in-embedding disable-clone-scatter-output-in-embedding optimizer-cuda-graph "
     "cuda-graph-* disable-mamba-mem-eff-path no-use-layer-wise-param-layout no-pin-cpu-* "
     "use-torch-optimizer-for-cpu-offload cpu-offloading-retain-pinned-cpu-buffers "
     "defer-embedding-wgrad-compute wgrad-deferral-limit ep-overlap-early-attn-memory-release "
     "disable-align-grad-reduce onnx-safe reuse-grad-buf-for-mxfp8-param-ag keep-fp8-transpose-cache "
     "fp8-quantizer-factory fp4-quantizer-factory fp4-recipe mtp-standalone disable-manual-gc-eval "
     "no-manual-gc-eval"},
    {"of the launcher and its processes",
     "use-mpi kill-switch-path abort-on-unmet-fused-kernel-constraints sync-tp-duplicated-parameters"},
    {"without layers of their own a split as even as it can be is taken",
     "pp-partition-method"},
    {"layers are those that the other flags describe",
     "spec is-hybrid-model mtp-hybrid-override-pattern bert-no-binary-head"},
    {"the runtime of zero bubbles, which the schedule stands for",
     "enable-zb-runtime zero-bubble-pipeline-timers-* enable-exactly-numeric-match"},
    {"the step of the whole batch is simulated",
     "step-batch-size-schedule decrease-batch-size-if-needed phase-transition-iterations"},
    {"evaluation has the training's batch",
     "start-eval-at-iter eval-* full-validation test-mode"},
    {"former names, which Megatron-LM refuses",
     "batch-size model-parallel-size"},
};
// clang-format on

template <std::size_t N>
Groups groups_of(const Named (&named)[N]) {
  Groups groups;
  for (const Named& each : named) {
    groups.emplace_back(each.why, std::vector<std::string>());
    std::istringstream words(each.flags);
    for (std::string word; words >> word;) groups.back().second.push_back(word);
  }
  return groups;
}

}  // namespace

const Groups& unmodelled_flags() {
  static const Groups kFlags = groups_of(kUnmodelled);
  return kFlags;
}

const Groups& further_skipped_flags() {
  static const Groups kFlags = groups_of(kWithoutEffect);
  return kFlags;
}

}  // namespace orrery::tools
