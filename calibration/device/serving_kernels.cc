// Shapes of serving_kernels.h as their families count them, and the answers. What no table timed by itself is put
// together here: products between the tables of few rows and those of training, and what an engine without numbers of
// its own takes.
#include "calibration/device/serving_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "calibration/device/attention_model.h"
#include "calibration/device/profile_model.h"
#include "calibration/device/serving_families.h"
#include "calibration/device/serving_sections.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

constexpr std::array<std::string_view, kEngines> kEngineNames{"trtllm", "vllm", "sglang"};
constexpr std::array<std::string_view, kWeightTypes> kTypeNames{"bf16",  "fp8",       "fp8-block", "nvfp4",
                                                                "mxfp4", "mxfp4-fp8", "int8",      "int4"};
enum : std::size_t {
  kDecode,
  kLatentDecode,
  kPrefill,
  kLatentPrefill,
  kProduct,
  kMixture,
  kReduce,
  kBlockDecode,
  kBlockPrompt,
  kExchange
};

/// Rows from which products are those of training, and up to which they are an engine's alone.
constexpr double kTrainingRows = 1024, kFewRows = 512;

template <class... Sizes>
void check_sizes(const char* what, Sizes... sizes) {
  SIM_CHECK(((std::isfinite(sizes) && sizes >= 0) && ...), "a size of {} is negative or infinite", what);
}

double pairs_of(const PromptPiece& p, double window) {
  const AttentionModel::Shape one{1, p.fresh, p.fresh + p.cached, 1, 1, 1, window, true};
  return p.sequences * AttentionModel::pairs(one);
}

struct Prompt {
  double sequences = 0, fresh = 0, keys = 0, pairs = 0, full = 0, longest = 0;
};

Prompt prompt_of(std::span<const PromptPiece> pieces, double window) {
  Prompt out;
  for (const PromptPiece& p : pieces) {
    check_sizes("a piece of a prompt", p.sequences, p.fresh, p.cached);
    if (!(p.sequences * p.fresh > 0)) continue;
    out.sequences += p.sequences;
    out.fresh += p.sequences * p.fresh;
    out.keys += p.sequences * (p.fresh + p.cached);
    out.pairs += pairs_of(p, window);
    out.full += pairs_of(p, 0);
    const double reach = p.fresh + p.cached;
    out.longest = std::max(out.longest, window > 0 ? std::min(window, reach) : reach);
  }
  return out;
}

double type_of(DataType type) { return static_cast<double>(type); }
std::size_t cache_variant(double kv_bytes) { return kv_bytes < 2 ? 1 : 0; }

}  // namespace

std::string_view name_of(Engine engine) { return kEngineNames[static_cast<std::size_t>(engine)]; }
std::string_view name_of(WeightType type) { return kTypeNames[static_cast<std::size_t>(type)]; }

double weight_bytes(WeightType type) {
  switch (type) {
    case WeightType::bf16:
      return 2;
    case WeightType::fp8:
    case WeightType::int8:
      return 1;
    case WeightType::fp8_block:
      return 1 + 4.0 / (128 * 128);
    case WeightType::nvfp4:
      return 0.5 + 1.0 / 16;
    case WeightType::mxfp4:
    case WeightType::mxfp4_fp8:
      return 0.5 + 1.0 / 32;
    case WeightType::int4:
      return 0.5 + 2.0 / 128;  // a scale in 16 bits for each group of 128
  }
  return 2;
}

DataType multiplied_as(WeightType type) {
  switch (type) {
    case WeightType::fp8:
      return DataType::fp8;
    case WeightType::fp8_block:
      return DataType::fp8_blockwise;
    case WeightType::nvfp4:
      return DataType::nvfp4;
    case WeightType::mxfp4_fp8:
      return DataType::mxfp8;
    default:
      return DataType::bf16;
  }
}

/// The largest of so many draws from a normal distribution of variance 1, in the mean: Blom, Statistical estimates and
/// transformed beta-variables (1958), by the quantile of Winitzki's approximation of the error function (2008).
double largest_of(double draws) {
  if (draws <= 1) return 0;
  const double twice = 2 * (draws - 0.375) / (draws + 0.25) - 1;
  constexpr double kA = 0.147;
  const double tail = std::log(1 - twice * twice), part = 2 / (std::numbers::pi * kA) + tail / 2;
  return std::numbers::sqrt2 * std::sqrt(std::sqrt(part * part - tail / kA) - part);
}

/// Every token takes top_k of the experts, all as likely.
MixtureLoad load_by_chance(const ServedMixture& m) {
  const double share = std::min(1.0, m.top_k / m.experts), here = m.experts / m.ranks, beyond = largest_of(m.ranks);
  const double some = 1 - std::pow(1 - share, m.tokens), rows = m.tokens * m.top_k / m.ranks;
  MixtureLoad out;
  out.activated =
      std::min({here, rows + beyond * std::sqrt(rows), here * some + beyond * std::sqrt(here * some * (1 - some))});
  out.rows = std::min(m.tokens * std::min(m.top_k, here), rows + beyond * std::sqrt(rows * (1 - 1 / m.ranks)));
  return out;
}

/// Loads that follow a power law as aiconfigurator draws them (routing.h), in the mean over draws: an expert is
/// activated where its load rounds to a token and more; what rounding leaves over goes to one expert more each; and
/// ranks scatter as sums of so many draws do.
MixtureLoad load_by_power(const ServedMixture& m) {
  const double choices = m.tokens * m.top_k, here = m.experts / m.ranks, rows = choices / m.ranks;
  const bool few = choices <= m.experts;
  const double low = few ? 0.01 : 1, high = few ? 2 : std::max(1.001, 0.8 * m.tokens);
  const auto moment = [&](double order, double from) {
    const double power = order + 1 - m.alpha;
    return std::abs(power) < 1e-9 ? std::log(high / from) : (std::pow(high, power) - std::pow(from, power)) / power;
  };
  const double all = moment(0, low), mean = moment(1, low) / all, square = moment(2, low) / all;
  const double scale = choices / (m.experts * mean);
  const auto drawn = [&](double load) { return std::clamp(load / scale, low, high); };
  const auto beyond = [&](double load) { return moment(0, drawn(load)) / all; };
  constexpr int kMost = 16;  // tokens, beyond which rounding leaves nothing over in the mean
  double left = scale * (moment(1, low) - moment(1, drawn(kMost))) / all + kMost * beyond(kMost);
  for (int tokens = 1; tokens <= kMost; ++tokens) left -= beyond(tokens - 0.5);
  const double scatter = std::sqrt(std::max(0.0, square / (mean * mean) - 1) / here * (1 - 1 / m.ranks));
  MixtureLoad out;
  out.activated = std::min({here, std::max(rows, 1.0), here * (beyond(0.5) + std::max(0.0, left))});
  out.rows = std::min(m.tokens * std::min(m.top_k, here), rows * (1 + largest_of(m.ranks) * scatter));
  return out;
}

MixtureLoad load_of(const ServedMixture& m) {
  if (m.alpha > 0 && m.dealt == Dealt::by_power) return load_by_power(m);
  if (m.alpha <= 0 && m.dealt == Dealt::by_chance) return load_by_chance(m);
  const auto whole = [](double x) { return std::max<std::int64_t>(1, std::llround(x)); };
  const std::int64_t ranks = whole(m.ranks), experts = whole(m.experts);
  constexpr std::uint64_t kDraws = 8;
  const std::uint64_t draws = m.alpha > 0 ? kDraws : 1;
  const Routing routing{whole(m.tokens), whole(m.top_k),   experts, experts % ranks == 0 ? ranks : 1,
                        m.alpha,         Beyond::all_ranks};
  MixtureLoad out;
  for (std::uint64_t draw = 0; draw < draws; ++draw)
    for (const std::int64_t tokens : tokens_of_experts(routing, draw)) {
      out.rows += static_cast<double>(tokens) / static_cast<double>(draws);
      if (tokens > 0) out.activated += 1 / static_cast<double>(draws);
    }
  return out;
}

const std::vector<const ServingFamily*>& serving_families() {
  static const std::vector<const ServingFamily*> all{
      &decode::kFamily,    &decode::kLatent,    &prefill::kFamily,  &prefill::kLatent, &product::kFamily,
      &mixture::kFamily,   &reduce::kFamily,    &block::kDecode,    &block::kPrompt,   &exchange::kFamily,
      &scan::kConvolution, &scan::kPrompt,      &scan::kStep,       &sparse::kDecode,  &sparse::kPrompt,
      &sample::kFamily,    &sparse::kMsaDecode, &sparse::kMsaPrompt};
  return all;
}

Asked asked(const DecodeAttention& s) {
  check_sizes("attention", s.sequences, s.visible, s.longest, s.heads, s.kv_heads, s.head_dim, s.window, s.kv_bytes,
              s.cached);
  return {kDecode,
          cache_variant(s.kv_bytes),
          {s.sequences, s.visible, s.longest, s.heads, s.kv_heads, s.head_dim, s.head_dim, s.kv_bytes,
           std::max(s.cached, s.visible), 0, s.window > 0 ? 1.0 : 0.0}};
}

Asked asked(const LatentDecode& s) {
  check_sizes("attention", s.sequences, s.visible, s.longest, s.heads, s.kv_lora, s.rope, s.kv_bytes);
  return {kLatentDecode,
          cache_variant(s.kv_bytes),
          {s.sequences, s.visible, s.longest, s.heads, 1, s.kv_lora + s.rope, s.kv_lora, s.kv_bytes, s.visible, 1}};
}

Asked asked(const PrefillAttention& s) {
  check_sizes("attention", s.heads, s.kv_heads, s.head_dim, s.value_dim, s.window, s.kv_bytes);
  const Prompt p = prompt_of(s.pieces, s.window);
  const bool latent = s.value_dim > 0 && s.value_dim != s.head_dim;
  const double sequences = std::max(p.sequences, 1e-9);
  const DataType type = s.fp8 ? DataType::fp8 : DataType::bf16;
  return {latent ? kLatentPrefill : kPrefill,
          s.fp8 ? std::size_t{2} : cache_variant(s.kv_bytes),
          {p.sequences, p.fresh / sequences, p.keys / sequences, s.heads, s.kv_heads, s.head_dim,
           s.value_dim > 0 ? s.value_dim : s.head_dim, s.kv_bytes, p.pairs, p.longest, type_of(type), p.full,
           s.window > 0 ? 1.0 : 0.0}};
}

Asked asked(const ServedProduct& s) {
  check_sizes("a product", s.m, s.n, s.k);
  return {kProduct,
          static_cast<std::size_t>(s.type),
          {s.m, s.n, s.k, weight_bytes(s.type), type_of(multiplied_as(s.type))}};
}

/// Whether it asks for DeepGEMM's kernels, which are for gated experts in blocks of fp8.
bool behind_exchange(const ServedMixture& s) {
  return s.gated && s.type == WeightType::fp8_block &&
         (s.kernels == ExpertKernels::masked || s.kernels == ExpertKernels::contiguous);
}

Asked asked(const ServedMixture& s) {
  check_sizes("a mixture", s.tokens, s.hidden, s.ffn, s.top_k, s.experts, s.ranks, s.slots, s.alpha);
  const MixtureLoad load = load_of(s);
  // Variants: gated ones, those without a gate, gated ones of least latency; DeepGEMM's two of blocks of fp8.
  const int set = !s.gated ? 1 : s.kernels == ExpertKernels::least_latency ? 2 : 0;
  std::size_t variant = static_cast<std::size_t>(s.type) + kWeightTypes * static_cast<std::size_t>(set);
  if (behind_exchange(s)) variant = 3 * kWeightTypes + (s.kernels == ExpertKernels::masked ? 0 : 1);
  return {kMixture,
          variant,
          {s.tokens, load.activated, load.rows, s.hidden, s.ffn, s.gated ? 2 * s.ffn : s.ffn, s.top_k, s.experts,
           weight_bytes(s.type), type_of(multiplied_as(s.type))}};
}

Asked asked(const LatentBlock& s) {
  check_sizes("attention", s.heads, s.hidden, s.q_lora, s.kv_lora, s.nope, s.rope, s.value, s.kv_bytes);
  const Prompt p = prompt_of(s.pieces, 0);
  const double sequences = std::max(p.sequences, 1e-9);
  // Down to the latent rows, up to the queries, up to keys and values (absorbed: once into each), out again.
  const double projected = s.hidden * (s.q_lora + s.kv_lora + s.rope) + s.q_lora * s.heads * (s.nope + s.rope) +
                           s.kv_lora * s.heads * (s.nope + s.value) + s.heads * s.value * s.hidden;
  const double row = s.kv_lora + s.rope;
  const double expanded = s.decode ? 2 * (row + s.kv_lora) : 2 * (s.nope + s.rope + s.value);
  return {s.decode ? kBlockDecode : kBlockPrompt,
          cache_variant(s.kv_bytes) * kWeightTypes + static_cast<std::size_t>(s.type),
          {p.sequences, p.fresh / sequences, p.keys, s.heads, p.pairs, weight_bytes(s.type),
           type_of(multiplied_as(s.type)), s.kv_bytes, projected, row, expanded}};
}

Asked asked(const ServedAllReduce& s) {
  check_sizes("an all-reduce", s.gpus, s.bytes);
  return {kReduce, s.graph ? std::size_t{0} : std::size_t{1}, {s.gpus, s.bytes}};
}

Asked asked(const ServedSampling& s) {
  check_sizes("sampling", s.rows, s.logits);
  return {kSamplingFamily, 0, {s.rows, s.logits}};
}

Asked asked(const LowLatencyExchange& s) {
  check_sizes("an exchange", s.tokens, s.hidden, s.top_k, s.experts, s.gpus, s.nodes);
  const bool dispatch = s.pass == ExchangePass::dispatch;
  return {kExchange,
          dispatch ? std::size_t{0} : std::size_t{1},
          {s.tokens, s.hidden * (dispatch ? 1 + 4.0 / 128 : 2), s.top_k, s.experts, s.gpus, s.nodes}};
}

ServingKernel assumed_kernel(const ServingFamily& family) {
  ServingKernel out{&family, {}, {}};
  for (const ServingFamily::Parameter& p : family.parameters) out.parameters.push_back(p.start);
  return out;
}

double ServingKernels::Model::seconds(const Asked& shape) const {
  const auto& variants = fitted[shape.family];
  if (variants[shape.variant]) return variants[shape.variant]->seconds(facts, shape.work);
  for (const auto& other : variants)
    if (other) return ServingKernel{other->family, other->parameters, {}}.seconds(facts, shape.work);
  return assumed[shape.family].seconds(facts, shape.work);
}

ServingKernels::ServingKernels(const DeviceProfile& device, Engine engine, const sim::Settings* document)
    : device_(device), engine_(engine), model_(load_serving(device, engine, document)) {}

const sim::Settings* served_by_profile(const DeviceProfile& device) {
  const std::optional<sim::Settings>& own = device.model().serving;
  return own ? &*own : nullptr;
}

const std::string& ServingKernels::provenance() const { return model_->provenance; }

double ServingKernels::seconds(const DecodeAttention& s) const {
  return s.sequences > 0 && s.visible > 0 ? model_->seconds(asked(s)) : 0;
}

double ServingKernels::seconds_beside(const DecodeAttention& s, double prompts) const {
  return s.sequences > 0 && s.visible > 0 ? model_->seconds_beside(asked(s), prompts) : 0;
}

bool ServingKernels::packs_no_queries() const { return model_->tiles.rate > 0; }

double ServingKernels::seconds(const LatentDecode& s) const {
  return s.sequences > 0 && s.visible > 0 ? model_->seconds(asked(s)) : 0;
}

bool ServingKernels::has_products(WeightType type) const {
  return model_->fitted[kProduct][static_cast<std::size_t>(type)].has_value();
}

ServingKernels ServingKernels::with_products_of(const ServingKernels& other, WeightType type) const {
  const auto variant = static_cast<std::size_t>(type);
  auto model = std::make_shared<Model>(*model_);
  model->fitted[kProduct][variant] = other.model_->fitted[kProduct][variant];
  ServingKernels out = *this;
  out.model_ = std::move(model);
  return out;
}

ServingKernels ServingKernels::with_least_latency_of(const ServingKernels& other) const {
  auto model = std::make_shared<Model>(*model_);
  auto& mine = model->fitted[kMixture];
  const auto& theirs = other.model_->fitted[kMixture];
  const auto least = [](std::size_t type) { return 2 * kWeightTypes + type; };
  bool any = false;
  for (std::size_t type = 0; type < kWeightTypes; ++type) any = any || mine[least(type)].has_value();
  for (std::size_t type = 0; any && type < kWeightTypes; ++type)
    if (!mine[least(type)] && theirs[type]) mine[least(type)] = theirs[type];
  ServingKernels out = *this;
  out.model_ = std::move(model);
  return out;
}

ServingKernels ServingKernels::with_triton_of(const ServingKernels& other) const {
  constexpr auto kType = static_cast<std::size_t>(WeightType::mxfp4);
  auto model = std::make_shared<Model>(*model_);
  auto& mine = model->fitted[kMixture];
  bool any = false;
  for (std::size_t type = 0; type < kWeightTypes; ++type) any = any || mine[2 * kWeightTypes + type].has_value();
  if (!any) mine[2 * kWeightTypes + kType] = other.model_->fitted[kMixture][kType];
  ServingKernels out = *this;
  out.model_ = std::move(model);
  return out;
}

ServingKernels ServingKernels::with_experts_as(WeightType type, WeightType as) const {
  const auto variant = static_cast<std::size_t>(type);
  auto model = std::make_shared<Model>(*model_);
  if (const auto& other = model_->fitted[kMixture][static_cast<std::size_t>(as)]; other)
    model->fitted[kMixture][variant] = other;
  ServingKernels out = *this;
  out.model_ = std::move(model);
  return out;
}

double ServingKernels::seconds(const PrefillAttention& s) const {
  const Asked shape = asked(s);
  return shape.work[prefill::pairs] > 0 ? model_->seconds(shape) : 0;
}

double ServingKernels::seconds(const ServedProduct& s) const {
  const Asked shape = asked(s);
  if (!(s.m * s.n * s.k > 0)) return 0;
  const DataType type = multiplied_as(s.type);
  // Weights that are widened in the kernel have no table of many rows.
  const bool has_training = weight_bytes(s.type) >= bytes_of(type) || type == DataType::nvfp4;
  if (!s.casts && s.m < kTrainingRows && is_quantised(type)) {
    constexpr double kFewColumns = 128;
    ServedProduct whole = s;
    whole.casts = true;
    const ServedProduct narrow{s.type, s.m, kFewColumns, s.k}, plain{WeightType::bf16, s.m, kFewColumns, s.k};
    const double cast = std::max(0.0, seconds(narrow) - seconds(plain));
    return std::max(seconds(whole) - cast, product::kFamily.roofline(model_->facts, shape.work));
  }
  if (s.m <= kFewRows || !has_training) return model_->seconds(shape);
  Gemm many;
  many.dtype = type;
  const auto whole = [](double x) { return std::max<std::int64_t>(1, std::llround(x)); };
  many.m = whole(std::max(s.m, kTrainingRows));
  many.n = whole(s.n);
  many.k = whole(s.k);
  many.cast_input = is_quantised(type) && s.casts;
  const bool searched = s.kernels == ProductKernels::searched && s.type == WeightType::nvfp4;
  const double trained = sim::to_seconds(device_.gemm(many)) / (searched ? model_->searched : 1);
  if (s.m >= kTrainingRows) return trained;
  ServedProduct few = s;
  few.m = kFewRows;
  const double share = std::log(s.m / kFewRows) / std::log(kTrainingRows / kFewRows);
  return std::exp((1 - share) * std::log(model_->seconds(asked(few))) + share * std::log(trained));
}

double ServingKernels::seconds(const ServedMixture& s) const {
  Asked shape = asked(s);
  // A device or type that has no such kernels takes the others.
  if ((s.kernels == ExpertKernels::least_latency || behind_exchange(s)) && !model_->fitted[shape.family][shape.variant])
    shape.variant = static_cast<std::size_t>(s.type);
  constexpr auto kIntegers = static_cast<std::size_t>(WeightType::int4);
  if (s.kernels == ExpertKernels::marlin && s.gated && weight_bytes(s.type) < 1 &&
      model_->fitted[shape.family][kIntegers])
    shape.variant = kIntegers;
  return s.tokens * s.hidden * s.ffn * s.top_k > 0 ? model_->seconds(shape) : 0;
}

double ServingKernels::seconds(const LatentBlock& s) const {
  const Asked shape = asked(s);
  return shape.work[block::sequences] > 0 ? model_->seconds(shape) : 0;
}

double ServingKernels::seconds(const ServedAllReduce& s) const {
  return s.gpus > 1 && s.bytes > 0 ? model_->seconds(asked(s)) : 0;
}

double ServingKernels::seconds(const ServedSampling& s) const {
  return s.rows * s.logits > 0 ? model_->seconds(asked(s)) : 0;
}

bool ServingKernels::times_sampling() const { return model_->fitted[kSamplingFamily][0].has_value(); }

double ServingKernels::seconds(const LowLatencyExchange& s) const {
  return s.tokens * s.hidden * s.top_k > 0 ? model_->seconds(asked(s)) : 0;
}

}  // namespace orrery::calibration
