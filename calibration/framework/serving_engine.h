// A release of an inference engine, read from calibration/engines/<name>.yaml: its limits and defaults, the sizes that
// it captures graphs of, what its host spends on an iteration, what it holds back of memory. Which requests it batches
// is a policy of the loop (workloads/runs/serving), named here; how long its kernels take is serving_kernels.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibration/device/served_sampler.h"
#include "calibration/device/serving_kernels.h"
#include "sim/keys.h"
#include "sim/settings.h"
#include "sim/units.h"

namespace orrery::calibration {

/// Whether the host prepares the next iteration while the device runs this one.
enum class HostOverlap : std::uint8_t { none, schedule };
/// Whether an iteration is put together when the one before it ends, or when that begins.
enum class Plans : std::uint8_t { at_once, ahead };
/// How activations become a product's fp8 or nvfp4: by kernels that find scales first, as benchmarks of products time
/// them; in one pass, where a checkpoint has the scales; or in the kernels ahead of the product.
enum class InputCasts : std::uint8_t { found_scales, known_scales, fused };
/// The norm behind an all-reduce: a kernel of its own, or part of the exchange.
enum class Norms : std::uint8_t { own_kernels, fused };
/// All-reduces over tensor ranks: kernels of their own, or part of the product ahead (TensorRT-LLM's
/// gemm_allreduce_plugin).
enum class Sums : std::uint8_t { own_kernels, in_products };
/// Shared experts: one after the other with the routed ones, or beside them on a second stream where an iteration is
/// captured.
enum class SharedExperts : std::uint8_t { in_line, beside };
/// Latent attention where sequences decode: as the engine's table has it, or its core by FlashMLA's published rates.
enum class LatentCore : std::uint8_t { measured, flash_mla };
/// An iteration with experts on many ranks: all at once, or as two halves of its batch, of which one computes while
/// rows of the other are on their way.
enum class MicroBatches : std::uint8_t { one, overlapped };
/// Where experts lie on no more ranks than a token has experts, so that most ranks see every token: rows are sent to
/// experts all the same, or gathered by all ranks and their results summed back.
enum class FewRanks : std::uint8_t { exchange, gather };
/// Whose number max_sequences is, where a replica has several pipeline stages: all that are under way, or those of each
/// of the micro-batches that are, one a stage. max_batched_tokens is always of a micro-batch.
enum class SequencesOf : std::uint8_t { replica, stage };

/// Prompts and answers on replicas of their own: when the first token is shown. As soon as the prompt is computed; when
/// its cache has arrived where the answer is written; or when it is computed there, from the prompt's last token.
enum class FirstShown : std::uint8_t { prefill, transfer, decode };

/// Where what requests leave open about their tokens comes from: the model's generation_config, the engine's own
/// defaults (one that is drawn from all), or nowhere: the greatest logit is taken whatever is asked for.
enum class SamplingDefaults : std::uint8_t { model, own, greatest };

struct ServingEngine {
  std::string name, provenance;
  Engine kernels = Engine::vllm;
  std::string batching;  // by its name: policies belong to the room of workloads
  /// What a scenario that leaves a key out is taken to mean.
  struct Defaults {
    std::int64_t max_sequences = 256, max_batched_tokens = 2048;
    /// On devices with as much memory or more.
    double large_memory = 0;
    std::string large_except;  // of these, devices whose names begin so are not meant
    std::int64_t large_max_sequences = 256, large_max_batched_tokens = 2048;
    std::int64_t block_tokens = 16;
    double memory_utilization = 0.9;
    bool chunked_prefill = true, prefix_caching = true;
  } defaults;
  SequencesOf sequences_of = SequencesOf::replica;
  /// Sizes, in tokens, that whole iterations are captured at; batches are padded to the next.
  std::vector<std::int64_t> graph_sizes;
  struct Host {
    double iteration = 0;  // seconds around an iteration: scheduling, inputs, sampled tokens, outputs
    double sequence = 0;   // more for each sequence in it
    double gap = 0;        // that the device stands still between two iterations, however early the host is
    double layer = 0;      // to launch a layer whose attention stands between captured pieces
    double kernel = 0;     // to run one operation that is not captured: Python, dispatch, launch
    double request = 0;    // from a request's arrival to the scheduler, and its first token's way back
    double token = 0;      // of a prompt, to make it of text: one request after the other
    double exchange = 0;   // that an all-reduce of a tensor group takes beyond its kernel
    HostOverlap overlap = HostOverlap::none;
    Plans plans = Plans::at_once;
  } host;
  struct Kernels {
    InputCasts casts = InputCasts::found_scales;
    Norms norms = Norms::own_kernels;
    SharedExperts shared = SharedExperts::in_line;
    ExpertKernels experts = ExpertKernels::grouped;  // where attention is not data-parallel
    MicroBatches batches = MicroBatches::one;
    /// Sends tokens to experts of other ranks and back: a document of calibration/dispatchers, by its name.
    std::string exchanges = "deepep";
    /// Rows of a rank beyond which a library that has kernels for few and for many rows takes the latter.
    double few_rows = 256;
    LatentCore latent = LatentCore::measured;
    FewRanks few_ranks = FewRanks::exchange;
    Sums sums = Sums::own_kernels;
    ProductKernels products = ProductKernels::unasked;
  } habits;
  struct Sampler {
    SamplingDefaults defaults = SamplingDefaults::model;
    Truncation truncation = Truncation::sorted;
  } sampler;
  FirstShown first_token = FirstShown::transfer;
  /// Of memory, beside weights and what one iteration keeps.
  struct Reserve {
    double context = 0;         // bytes: the driver's context, libraries, workspaces
    double per_gpu = 0;         // bytes of buffers for each further GPU of a tensor group
    double per_logit = 0;       // bytes of the sampler for each token of the vocabulary and sequence
    double per_activation = 0;  // bytes held for each element of the hidden state of the largest batch
    double per_graph = 0;       // bytes of a captured size
    /// Whether the share that memory_utilization gives is of what is free once weights are loaded.
    bool of_free = false;
  } reserve;

  /// The captured size that so many tokens are padded to; 0: too many, they run uncaptured.
  std::int64_t padded(std::int64_t tokens) const;
  std::int64_t largest_graph() const { return graph_sizes.empty() ? 0 : graph_sizes.back(); }

  /// Throws sim::UserError.
  static ServingEngine load(const sim::Settings& document);
};

/// Every key of such a file.
const sim::KeyTable& serving_engine_keys();

}  // namespace orrery::calibration
