// How long a kernel takes that an inference engine runs: attention over a paged cache, chunks of a prompt on a cached
// prefix, products of few rows, experts of few tokens, small all-reduces, low-latency exchanges. GPU time alone, warm,
// at the clocks of a short benchmark, as CUDA graphs launch it unless a shape says otherwise; what the host takes is
// the engine's. Engines differ in their kernels, so every answer is that of one engine on one device: its numbers are a
// document, calibration/serving/<device>.yaml (serving_keys()). Where that has none for a kernel, the answer is the
// data sheet's roofline at assumed shares and says so (`fitted`). Sizes are doubles: a batch may be a mean.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "calibration/device/dispatcher.h"
#include "calibration/device/profile.h"
#include "calibration/device/scan.h"
#include "sim/keys.h"
#include "sim/settings.h"

namespace orrery::calibration {

enum class Engine : std::uint8_t { trtllm, vllm, sglang };
inline constexpr std::size_t kEngines = 3;
std::string_view name_of(Engine engine);

/// How weights lie in memory, and what they are multiplied as. fp8: one scale a tensor; fp8_block: one for each 128 x
/// 128; nvfp4: 4-bit weights and activations; mxfp4: 4-bit weights, 16-bit activations; mxfp4_fp8: 8-bit activations;
/// int8, int4: weights alone, widened in the kernel.
enum class WeightType : std::uint8_t { bf16, fp8, fp8_block, nvfp4, mxfp4, mxfp4_fp8, int8, int4 };
inline constexpr std::size_t kWeightTypes = 8;
std::string_view name_of(WeightType type);
/// Bytes of an element in memory, with its share of the scales.
double weight_bytes(WeightType type);
/// What matrix units multiply: int4 weights, for one, as bf16.
DataType multiplied_as(WeightType type);

/// One query of each sequence over its cached keys and values: one layer.
struct DecodeAttention {
  double sequences = 1;
  /// Keys that the queries see, their own among them, summed over the sequences: at most `window` of each.
  double visible = 1;
  double longest = 0;  // the most that one sequence's query sees; 0: all the same
  double heads = 1, kv_heads = 1, head_dim = 128;
  double window = 0;    // 0: none
  double kv_bytes = 2;  // of an element of the cache
  double cached = 0;    // tokens of the sequences with those ahead of their windows; 0: `visible`
};

/// Latent attention in its absorbed form: every head sees one shared row of kv_lora + rope channels for each token.
struct LatentDecode {
  double sequences = 1, visible = 1, longest = 0;  // as above
  double heads = 128;                              // of this rank
  double kv_lora = 512, rope = 64;
  double kv_bytes = 2;
};

/// Sequences with as many fresh tokens on as long a cached prefix.
struct PromptPiece {
  double sequences = 1, fresh = 1, cached = 0;
};
/// Causal attention of fresh tokens to themselves and to what is cached ahead of them: one layer, one launch.
struct PrefillAttention {
  std::span<const PromptPiece> pieces;
  double heads = 1, kv_heads = 1, head_dim = 128;
  double value_dim = 0;  // 0: head_dim; latent attention expands its keys to 192 channels and its values to 128
  double window = 0;
  double kv_bytes = 2;
  bool fp8 = false;  // multiplied in fp8
};

/// C[m,n] = A[m,k] W[k,n] with activations in 16 bit at either end; their cast is part of it. Without it the product of
/// few rows takes less by what one of few columns takes more than in 16 bits: there nothing but the cast tells them
/// apart.
/// The kernels that a library takes unasked, which tables have, or the fastest of all that a builder has timed.
enum class ProductKernels : std::uint8_t { unasked, searched };
struct ServedProduct {
  WeightType type = WeightType::bf16;
  double m = 1, n = 1, k = 1;
  bool casts = true;                                 // whether it casts its activations itself
  ProductKernels kernels = ProductKernels::unasked;  // of many rows
};

/// How tokens come to experts where no power law says it: in turn, as benchmarks deal them out; or each choice by
/// chance, as a trained router's choices come out that keeps its experts busy in the mean; or by the power law, without
/// draws.
enum class Dealt : std::uint8_t { in_turn, by_chance, by_power };

/// TensorRT-LLM has two sets of kernels for experts: grouped products (CUTLASS), and those for the least latency
/// (trtllm-gen, `moe_config.backend: TRTLLM`), which other engines take from FlashInfer as their only ones.
/// Marlin's widen weights of 4 bits in registers, whatever their form: vLLM has numbers of them for integers. Behind
/// DeepEP, SGLang multiplies blocks of fp8 with DeepGEMM: as many rows for each expert as a buffer has, most of them
/// masked, behind the low-latency exchange; else the rows that came, one expert's after another's, with the host's
/// launches in its table. A simulated iteration asks for neither: with them runs of GB300 came out further off.
enum class ExpertKernels : std::uint8_t { grouped, least_latency, marlin, masked, contiguous };

/// Experts of one rank with their activation, after the choice and ahead of the sum over ranks.
struct ServedMixture {
  WeightType type = WeightType::bf16;
  double tokens = 1;           // of all ranks that share the experts
  double hidden = 1, ffn = 1;  // ffn: this rank's share
  double top_k = 1, experts = 1;
  double ranks = 1;  // that experts (and slots) are dealt out to
  double slots = 0;  // copies of experts on all ranks; 0: one of each
  double alpha = 0;  // exponent of the routing's power law (routing.h); 0: as `dealt`
  bool gated = true;
  Dealt dealt = Dealt::in_turn;
  ExpertKernels kernels = ExpertKernels::grouped;  // of gated experts
};
/// What decides the time: experts of the rank that have tokens, and their rows, in the mean over draws; by chance those
/// of the fullest rank.
struct MixtureLoad {
  double activated = 0, rows = 0;
};
MixtureLoad load_of(const ServedMixture& mixture);

/// Of a layer's whole attention: projections, rotation, cache write, attention, output; latent attention only.
struct LatentBlock {
  WeightType type = WeightType::bf16;   // of the projections
  std::span<const PromptPiece> pieces;  // decoding: fresh = 1
  bool decode = true;                   // absorbed form, one query each
  double heads = 128;                   // of this rank
  double hidden = 7168, q_lora = 1536, kv_lora = 512, nope = 128, rope = 64, value = 128;
  double kv_bytes = 2;
};

/// All-reduce between GPUs of one NVLink domain (or node), as engines run it.
struct ServedAllReduce {
  double gpus = 2, bytes = 0;
  bool graph = true;  // captured; eager launches take the host's time
};

/// DeepEP's low-latency kernels: dispatch in fp8, combine in 16 bit.
struct LowLatencyExchange {
  ExchangePass pass = ExchangePass::dispatch;
  double tokens = 1;  // of each rank
  double hidden = 7168, top_k = 8, experts = 256;
  double gpus = 8, nodes = 1;
};

/// A kernel of a mixer with a state, as an engine runs it: the short convolution ahead of a scan, the scan of a prompt,
/// the step of a state by the tokens of a sequence that decodes; which of the part's kernels is the variant of its
/// family (serving_scans.cc).
struct ServedScan {
  enum class Part : std::uint8_t { convolution, prompt, step } part = Part::prompt;
  std::size_t variant = 0;
  const ScanKind* kind = &kGatedDeltaScan;
  double sequences = 1, positions = 1;
  double heads = 1, key_heads = 1, key_dim = 1, value_dim = 1;  // of this rank
  double state_bytes = 4;                                       // of an element
};
/// Whether tokens are a prompt's, or one or few of each sequence that decodes.
enum class ServedPhase : std::uint8_t { prompt, decode };

/// Of a layer's whole sparse attention: dsa (DeepSeek-V3.2, GLM-5), csa and hca (DeepSeek-V4), msa (MiniMax-M3).
struct SparseBlock {
  enum class Kind : std::uint8_t { dsa, csa, hca, msa } kind = Kind::dsa;
  WeightType type = WeightType::bf16;  // of the projections
  bool decode = true;
  double sequences = 1, fresh = 1, cached = 0;
  double heads = 1, all_heads = 1, kv_heads = 1;  // of this rank; of the model
  double kv_bytes = 2;
  DataType computed = DataType::bf16;  // that attention multiplies
  double hidden = 1, q_rank = 0, kv_rank = 0, nope = 0, rope = 0, value = 128, out_groups = 1, out_rank = 0;
  double index_heads = 0, index_dim = 128;   // 0: what another layer chose
  double chosen = 0, ratio = 0, window = 0;  // keys; 0: all. Tokens to a key. Tokens beside
};
/// What it multiplies, the bytes of weights and keys that it reads, and the elements of its weights on this rank.
struct SparseWork {
  double flops = 0, bytes = 0, weights = 0;
};
SparseWork work_of(const SparseBlock& block);

/// Softmax over rows of logits, and a token of each by its probability.
struct ServedSampling {
  double rows = 1, logits = 1;
};

/// The kernels of an engine on a device. Immutable; cheap to copy.
class ServingKernels {
 public:
  /// `document`: the device's in calibration/serving, or null. Throws sim::UserError naming the place of what is wrong.
  ServingKernels(const DeviceProfile& device, Engine engine, const sim::Settings* document = nullptr);

  // Seconds of one launch. Sizes of 0 take nothing. Errors: SIM_CHECK on negative or infinite sizes.
  double seconds(const DecodeAttention& shape) const;
  double seconds(const LatentDecode& shape) const;
  double seconds(const PrefillAttention& shape) const;
  double seconds(const ServedProduct& shape) const;
  double seconds(const ServedMixture& shape) const;
  double seconds(const LatentBlock& shape) const;
  double seconds(const ServedAllReduce& shape) const;
  double seconds(const LowLatencyExchange& shape) const;
  double seconds(const ServedScan& shape) const;
  double seconds(const SparseBlock& shape) const;
  double seconds(const ServedSampling& shape) const;
  /// Beside prompts whose attention takes so many seconds; and whether that is another time than alone.
  double seconds_beside(const DecodeAttention& shape, double prompts) const;
  bool packs_no_queries() const;
  /// Whether a table times sampling; where none does, what an engine's sampler moves is all that is known.
  bool times_sampling() const;

  /// The shape with the kernel that the engine runs it by: of those that are written for it the first that was
  /// measured.
  ServedScan as_run(ServedScan shape, ServedPhase phase) const;

  /// Whether products of that type have numbers of their own.
  bool has_products(WeightType type) const;
  /// The same but for products of a type, which are another engine's on the same device.
  ServingKernels with_products_of(const ServingKernels& other, WeightType type) const;
  /// The same but for grouped, gated experts of a type, which run the kernels of another type of as many bytes.
  ServingKernels with_experts_as(WeightType type, WeightType as) const;
  /// The same, with another engine's grouped experts for types that have no kernels of least latency here, where others
  /// have: those are the other's only ones.
  ServingKernels with_least_latency_of(const ServingKernels& other) const;
  /// The same, with another engine's grouped experts in MXFP4 as those of least latency, where none are: Triton's, that
  /// both take then.
  ServingKernels with_triton_of(const ServingKernels& other) const;

  const DeviceProfile& device() const { return device_; }
  Engine engine() const { return engine_; }
  /// One line: what was fitted to what, or transferred, or assumed.
  const std::string& provenance() const;

  struct Model;  // the fit; only this room knows it
  const Model& model() const { return *model_; }

 private:
  DeviceProfile device_;
  Engine engine_;
  std::shared_ptr<const Model> model_;
};

/// Every key of calibration/serving/<device>.yaml, and of a profile's section `serving`.
const sim::KeyTable& serving_keys();
/// What a profile itself says of engines' kernels: of that form, and laid over the device's document. Null: nothing.
const sim::Settings* served_by_profile(const DeviceProfile& device);

}  // namespace orrery::calibration
