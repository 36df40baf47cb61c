// Structures of attention: decoding and prompts (serving_families.h).
// Sources: Dao et al., Flash-Decoding for long-context inference (2023), of splits along keys; Ye et al., FlashInfer
// (arXiv 2501.01005); Dao, FlashAttention-2 (arXiv 2307.08691).
#include <algorithm>
#include <cmath>

#include "calibration/device/serving_families.h"

namespace orrery::calibration {
namespace {

constexpr double kQueryBlock = 128;  // queries of a task
constexpr double kSixteenBitsOf = 2, kThousand = 1000;
using Unit = ServingFamily::Parameter::Unit;

/// Waves of so many tasks on the processors: whole ones, or as many as there is work, by `quantised`.
double waves_of(double share, double quantised) {
  return quantised * std::ceil(share - 1e-9) + (1 - quantised) * std::max(share, 1.0);
}

double cache_bytes(const Work& w) {
  const double width = w[decode::shared] > 0 ? w[decode::head_dim] : w[decode::head_dim] + w[decode::value_dim];
  return w[decode::visible] * w[decode::kv_heads] * width * w[decode::kv_bytes];
}

double query_bytes(const Work& w) {
  return kSixteenBitsOf * w[decode::sequences] * w[decode::heads] * (w[decode::head_dim] + w[decode::value_dim]);
}

double decode_structure(const ServingFacts& f, std::span<const double> p, const Work& w) {
  enum { launch, setup, stream, efficiency, rate, join, part, quantised, ahead };
  const double group = w[decode::heads] / w[decode::kv_heads];
  const double rows = std::max(1.0, std::ceil(group / 64));  // blocks of up to 64 query heads
  const double tasks = w[decode::sequences] * w[decode::kv_heads] * rows;
  const double mean = w[decode::visible] / w[decode::sequences];
  // A split is worth its join while processors idle; parts are no shorter than `part` keys.
  const double splits = std::clamp(std::floor(f.processors / tasks), 1.0, std::max(1.0, std::ceil(mean / p[part])));
  const double keys = mean / splits, longest = std::max(mean, w[decode::longest]) / splits;
  const double per_key =
      std::max(cache_bytes(w) / (w[decode::visible] * w[decode::kv_heads]) / (p[stream] * f.bandwidth / f.processors),
               2 * std::min(64.0, std::max(16.0, group)) * (w[decode::head_dim] + w[decode::value_dim]) /
                   (p[rate] * f.peak[static_cast<std::size_t>(DataType::bf16)] / f.processors));
  const double waves = waves_of(tasks * splits / f.processors, p[quantised]);
  const double computed = std::max(waves * (p[setup] + keys * per_key), p[setup] + longest * per_key);
  const double moved = (cache_bytes(w) + query_bytes(w)) / (p[efficiency] * f.bandwidth);
  const double joined = splits > 1 ? p[join] : 0;
  // What is found out ahead for every sequence: its pages, or how it is split.
  const double hidden = w[decode::cached] - w[decode::visible];
  return p[launch] + joined + together(computed, moved) + p[ahead] / kThousand * std::max(0.0, hidden) / f.processors;
}

double decode_roofline(const ServingFacts& f, const Work& w) { return (cache_bytes(w) + query_bytes(w)) / f.bandwidth; }

Correction::Sizes decode_sizes(const Work& w) {
  return {w[decode::sequences] * w[decode::kv_heads],
          w[decode::visible] / w[decode::sequences],
          w[decode::heads] / w[decode::kv_heads],
          w[decode::head_dim],
          w[decode::windowed] + w[decode::cached] / w[decode::visible],
          w[decode::kv_heads]};
}

double prompt_bytes(const Work& w) {
  const double width = w[prefill::head_dim] + w[prefill::value_dim];
  return w[prefill::sequences] * width *
         (kSixteenBitsOf * w[prefill::heads] * w[prefill::fresh] +
          w[prefill::kv_bytes] * w[prefill::kv_heads] * w[prefill::keys]);
}

double prompt_flops(const Work& w) {
  return 2 * w[prefill::pairs] * w[prefill::heads] * (w[prefill::head_dim] + w[prefill::value_dim]);
}

double prompt_structure(const ServingFacts& f, std::span<const double> p, const Work& w) {
  enum { launch, setup, rate, narrow, wide, efficiency, quantised, copied, diagonal };
  const double width = (w[prefill::head_dim] + w[prefill::value_dim]) / 2;
  const double peak = f.peak[static_cast<std::size_t>(w[prefill::type])] / f.processors;
  const double along = std::log2(std::max(width, 16.0) / 128);
  const double own = p[rate] * (along < 0 ? std::pow(p[narrow], -along) : std::pow(p[wide], along));
  const double blocks = std::ceil(w[prefill::fresh] / kQueryBlock);
  const double tasks = w[prefill::sequences] * w[prefill::heads] * blocks;
  // Whole blocks are computed on the diagonal.
  const double queries = w[prefill::sequences] * w[prefill::fresh];
  const double mean = w[prefill::pairs] / queries + p[diagonal] * kQueryBlock / 2;
  const double filled = w[prefill::fresh] / (blocks * kQueryBlock);  // of a block's rows
  const double key = 4 * kQueryBlock * std::max(filled, 0.125) * width / (own * peak);
  const double waves = waves_of(tasks / f.processors, p[quantised]);
  const double longest = std::max(w[prefill::longest], mean);
  const double computed = std::max(waves * (p[setup] + key * mean), p[setup] + key * longest);
  // Wrappers rotate and write what is new into the cache in a kernel of their own.
  const double written = kSixteenBitsOf * queries * (w[prefill::heads] + 2 * w[prefill::kv_heads]) * width;
  return p[launch] + together(computed, prompt_bytes(w) / (p[efficiency] * f.bandwidth)) +
         written / (p[copied] * f.bandwidth);
}

double prompt_roofline(const ServingFacts& f, const Work& w) {
  return std::max(prompt_bytes(w) / f.bandwidth, prompt_flops(w) / f.peak[static_cast<std::size_t>(w[prefill::type])]);
}

Correction::Sizes prompt_sizes(const Work& w) {
  return {w[prefill::fresh],
          w[prefill::sequences] * w[prefill::heads],
          (w[prefill::head_dim] + w[prefill::value_dim]) / 2,
          w[prefill::heads] / w[prefill::kv_heads],
          w[prefill::windowed] + w[prefill::full] / w[prefill::pairs],
          w[prefill::sequences]};
}

/// The projections of a whole block: their weights, or what they multiply.
double block_projections(const ServingFacts& f, double efficiency, double best, const Work& w) {
  const double rows = w[block::sequences] * w[block::fresh];
  return together(w[block::projected] * w[block::weight] / (efficiency * f.bandwidth),
                  2 * rows * w[block::projected] / (best * f.peak[static_cast<std::size_t>(w[block::type])]));
}

double block_decode_structure(const ServingFacts& f, std::span<const double> p, const Work& w) {
  enum { launch, efficiency, best, row, setup, stream, reach, rate, part };
  const double tasks = w[block::sequences] * std::max(1.0, std::ceil(w[block::heads] / 64));
  const double mean = w[block::visible] / w[block::sequences];
  const double splits = std::clamp(std::floor(f.processors / tasks), 1.0, std::max(1.0, std::ceil(mean / p[part])));
  const double key = w[block::row] * w[block::kv_bytes];
  const double per_key = std::max(key / (p[stream] * f.bandwidth / f.processors),
                                  std::clamp(w[block::heads], 16.0, 64.0) * w[block::expanded] /
                                      (p[rate] * f.peak[static_cast<std::size_t>(DataType::bf16)] / f.processors));
  const double waves = std::max(tasks * splits / f.processors, 1.0);
  const double attention =
      together(waves * (p[setup] + mean / splits * per_key), w[block::visible] * key / (p[reach] * f.bandwidth));
  return p[launch] + block_projections(f, p[efficiency], p[best], w) + p[row] / kThousand * w[block::sequences] +
         attention;
}

double block_prompt_structure(const ServingFacts& f, std::span<const double> p, const Work& w) {
  enum { launch, efficiency, best, row, setup, rate, head_row };
  const double peak = f.peak[static_cast<std::size_t>(DataType::bf16)] / f.processors;
  const double blocks = std::ceil(w[block::fresh] / kQueryBlock);
  const double tasks = w[block::sequences] * w[block::heads] * blocks;
  const double rows = w[block::sequences] * w[block::fresh];
  const double mean = w[block::pairs] / rows + kQueryBlock / 2;
  const double waves = std::max(tasks / f.processors, 1.0);
  const double attention = waves * (p[setup] + kQueryBlock * mean * w[block::expanded] / (p[rate] * peak));
  return p[launch] + block_projections(f, p[efficiency], p[best], w) +
         (p[row] + p[head_row] * w[block::heads]) / kThousand * rows + attention;
}

double block_roofline(const ServingFacts& f, const Work& w) {
  return (w[block::projected] * w[block::weight] + w[block::visible] * w[block::row] * w[block::kv_bytes]) /
         f.bandwidth;
}

Correction::Sizes block_sizes(const Work& w) {
  return {w[block::sequences], w[block::visible] / w[block::sequences], w[block::heads]};
}

/// Rows of a tile of FlashAttention 2's kernel for paged caches (flash_fwd_launch_template.h, kBlockM).
constexpr double kTileRows = 64;

std::vector<std::string_view> caches() { return {"bf16", "fp8"}; }
std::vector<std::string_view> caches_and_weights() {
  return {"bf16-bf16", "bf16-fp8",      "bf16-fp8-block", "bf16-nvfp4", "bf16-mxfp4",    "bf16-mxfp4-fp8",
          "bf16-int8", "bf16-int4",     "fp8-bf16",       "fp8-fp8",    "fp8-fp8-block", "fp8-nvfp4",
          "fp8-mxfp4", "fp8-mxfp4-fp8", "fp8-int8",       "fp8-int4"};
}

std::vector<ServingFamily::Parameter> decode_parameters() {
  return {{"launch", Unit::seconds, 5e-7, 5e-5, 6e-6, "what it takes at least"},
          {"setup", Unit::seconds, 1e-8, 2e-5, 1e-6, "of a task: its beginning and end"},
          {"stream", Unit::plain, 0.2, 8, 1.5, "what one processor pulls, over its share of the memory's bandwidth"},
          {"efficiency", Unit::plain, 0.1, 1, 0.85, "share of the memory's bandwidth that all reach"},
          {"rate", Unit::plain, 0.005, 1, 0.3, "share of the 16-bit peak that products reach"},
          {"join", Unit::seconds, 1e-8, 3e-5, 3e-6, "of parts along the keys"},
          {"part", Unit::plain, 16, 4096, 256, "keys of the shortest part"},
          {"quantised", Unit::plain, 0.01, 1, 0.5, "how strictly waves end together"},
          {"ahead", Unit::seconds, 1e-10, 1e-4, 1e-8, "of a processor for a thousand cached tokens ahead of windows"}};
}

std::vector<ServingFamily::Parameter> prompt_parameters() {
  return {{"launch", Unit::seconds, 5e-7, 2e-4, 8e-6, "what it takes at least"},
          {"setup", Unit::seconds, 1e-8, 5e-5, 2e-6, "of a task: its beginning and end"},
          {"rate", Unit::plain, 0.01, 1, 0.6, "share of the peak that products reach at 128 channels"},
          {"narrow", Unit::plain, 0.3, 1.1, 0.8, "of that at half as many channels"},
          {"wide", Unit::plain, 0.3, 1.5, 1, "of that at twice as many"},
          {"efficiency", Unit::plain, 0.1, 1, 0.85, "share of the memory's bandwidth"},
          {"quantised", Unit::plain, 0.01, 1, 0.5, "how strictly waves end together"},
          {"copied", Unit::plain, 0.02, 5, 0.8, "share of the memory's bandwidth that rotation and writing reach"},
          {"diagonal", Unit::plain, 0.01, 2, 1, "half blocks beyond the diagonal that are computed"}};
}

}  // namespace

const ServingFamily decode::kFamily{
    "decode-attention",
    "one query of each sequence over a paged cache",
    caches(),
    decode_parameters(),
    {"tasks", "keys", "group", "head_dim", "hidden", "kv_heads"},
    {{{0, {1, 4, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384}},
      {1, {1, 32, 128, 256, 512, 1024, 2048, 4096, 16384, 65536}},
      {3, {64, 128, 256}}},
     {{0, {1, 8, 32, 64, 128, 256, 1024, 4096}},
      {1, {1, 32, 128, 512, 2048, 8192, 32768}},
      {2, {1, 2, 4, 8, 16, 32, 48, 64, 128}}},
     {{2, {1, 4, 8, 16, 32, 64}}, {3, {64, 128, 192, 256, 512}}, {5, {1, 2, 8, 64}}},
     {{0, {1, 16, 64, 128, 512, 4096}}, {4, {1, 2, 3, 9, 65, 512}}, {3, {64, 128, 256}}}},
    decode_structure,
    decode_roofline,
    decode_sizes};

const ServingFamily decode::kLatent{"latent-decode",
                                    "one query of each sequence over a paged cache of latent rows, absorbed",
                                    caches(),
                                    decode_parameters(),
                                    {"sequences", "keys", "heads"},
                                    {{{0, {1, 4, 16, 32, 64, 128, 256, 1024}},
                                      {1, {1, 16, 128, 512, 2048, 8192, 65536}},
                                      {2, {1, 8, 16, 32, 64, 128}}}},
                                    decode_structure,
                                    decode_roofline,
                                    decode_sizes};

const ServingFamily prefill::kFamily{
    "prefill-attention",
    "prompts, or chunks of them on what is cached",
    {"bf16", "fp8-cache", "fp8"},
    prompt_parameters(),
    {"fresh", "tasks", "head_dim", "group", "hidden", "sequences"},
    {{{0, {1, 32, 128, 256, 512, 1024, 2048, 4096, 8192}}, {1, {1, 8, 32, 128, 512, 4096}}, {2, {64, 128, 256}}},
     {{0, {1, 64, 256, 1024, 4096}}, {3, {1, 2, 4, 8, 16, 64}}, {5, {1, 4, 16, 64}}},
     {{2, {64, 128, 192, 256, 512}}, {3, {1, 4, 16}}, {1, {1, 32, 512}}},
     {{0, {1, 64, 512, 4096}}, {4, {1, 2, 3, 5, 33}}, {2, {64, 128, 256}}}},
    prompt_structure,
    prompt_roofline,
    prompt_sizes};

const ServingFamily prefill::kLatent{
    "latent-prefill",
    "prompts of latent attention, keys and values expanded",
    {"bf16", "fp8-cache", "fp8"},
    prompt_parameters(),
    {"fresh", "tasks", "head_dim", "group", "hidden", "sequences"},
    {{{0, {1, 32, 128, 256, 512, 1024, 2048, 4096, 8192}}, {1, {1, 4, 8, 16, 32, 64, 128, 512, 4096}}},
     {{0, {1, 64, 256, 1024, 4096}}, {5, {1, 2, 4, 16, 64}}}},
    prompt_structure,
    prompt_roofline,
    prompt_sizes};

const ServingFamily block::kDecode{
    "latent-block-decode",
    "a layer's whole latent attention, decoding",
    caches_and_weights(),
    {{"launch", Unit::seconds, 5e-6, 5e-4, 4e-5, "what all its kernels take at least"},
     {"efficiency", Unit::plain, 0.05, 1, 0.7, "share of the memory's bandwidth at which weights are read"},
     {"best", Unit::plain, 0.01, 1, 0.5, "share of the peak of the projections' type"},
     {"row", Unit::seconds, 1e-8, 1e-3, 1e-5, "of a thousand rows in norms, rotation and the cache's write"},
     {"setup", Unit::seconds, 1e-8, 5e-5, 2e-6, "of a task of the attention"},
     {"stream", Unit::plain, 0.2, 8, 1.5, "what one processor pulls, over its share of the memory's bandwidth"},
     {"reach", Unit::plain, 0.05, 1, 0.8, "share of the memory's bandwidth at which the cache is read"},
     {"rate", Unit::plain, 0.005, 2, 0.3, "share of the 16-bit peak that the attention's products reach"},
     {"part", Unit::plain, 16, 4096, 256, "keys of the shortest part"}},
    {"sequences", "keys", "heads"},
    {{{0, {1, 8, 32, 128, 512, 2048}}, {1, {1, 64, 512, 2048, 8192, 65536}}, {2, {1, 4, 16, 32, 64, 128}}}},
    block_decode_structure,
    block_roofline,
    block_sizes};

const ServingFamily block::kPrompt{
    "latent-block-prefill",
    "a layer's whole latent attention, on prompts",
    caches_and_weights(),
    {{"launch", Unit::seconds, 5e-6, 1e-3, 6e-5, "what all its kernels take at least"},
     {"efficiency", Unit::plain, 0.05, 1, 0.7, "share of the memory's bandwidth at which weights are read"},
     {"best", Unit::plain, 0.01, 1, 0.6, "share of the peak of the projections' type"},
     {"row", Unit::seconds, 1e-8, 1e-3, 1e-5, "of a thousand rows in norms, rotation and the cache's write"},
     {"setup", Unit::seconds, 1e-8, 5e-5, 2e-6, "of a task of the attention"},
     {"rate", Unit::plain, 0.01, 2, 0.5, "share of the 16-bit peak that the attention's products reach"},
     {"head_row", Unit::seconds, 1e-9, 1e-4, 1e-7, "of a thousand rows of a head in copies"}},
    {"sequences", "keys", "heads"},
    {{{0, {1, 4, 16, 64, 256}}, {1, {1, 32, 128, 512, 2048, 8192}}, {2, {1, 4, 16, 32, 64, 128}}}},
    block_prompt_structure,
    block_roofline,
    block_sizes};

/// Tiles are dealt out together with those of prompts, sequence after sequence and then the next head, so that heads of
/// one key/value head find its keys in the cache where as many sequences as are under way leave room for both.
double ServingKernels::Model::seconds_beside(const Asked& decodes, double prompts) const {
  if (!(tiles.rate > 0)) return seconds(decodes);
  const Work& w = decodes.work;
  const double mean = w[decode::visible] / w[decode::sequences], longest = std::max(mean, w[decode::longest]);
  const double width = w[decode::head_dim] + w[decode::value_dim], group = w[decode::heads] / w[decode::kv_heads];
  const double peak = facts.peak[static_cast<std::size_t>(DataType::bf16)] / facts.processors;
  const double key = 2 * kTileRows * width / (tiles.rate * peak);
  const double waves = w[decode::sequences] * w[decode::heads] / facts.processors;
  const double shared = std::clamp(facts.processors / w[decode::sequences], 1.0, std::max(1.0, group));
  const double bytes = w[decode::visible] * w[decode::heads] * width * w[decode::kv_bytes] / shared;
  const double all = std::max(waves * (tiles.setup + key * mean), bytes / (tiles.bandwidth * facts.bandwidth));
  const double last = tiles.setup + key * longest;
  if (prompts > 0) return std::max(all, last - prompts);
  const auto& kernel = fitted[decodes.family][decodes.variant];
  return (kernel ? *kernel : assumed[decodes.family]).parameters.front() + std::max(all, last);
}

}  // namespace orrery::calibration
