// Structures of a layer's whole sparse attention as engines run it (serving_families.h): projections, an indexer that
// scores every key ahead of a query in fp8, the choice of the highest, and attention to these, or to compressed keys.
// Attention pads a rank's heads to what its kernel takes at once. Keys that are fewer than the choice are all seen, for
// which some engines skip the indexer or run dense kernels: that lies in the correction between keys.
//
// MiniMax's kernels (MSA) score blocks of keys one after the other: few queries of a long sequence wait for its keys,
// however many processors are idle (a prompt's one token behind a million takes as long as 64). So their structure has
// a chain over the keys of a sequence beside the scores of all.
#include <algorithm>
#include <cmath>

#include "calibration/device/serving_families.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

using Unit = ServingFamily::Parameter::Unit;

constexpr double kThousandRows = 1e3, kMillionPairs = 1e6;

double sparse_structure(const ServingFacts& f, std::span<const double> p, const Work& w) {
  enum { launch, efficiency, best, row, index, score, rate, pad, reach };
  const double rows = w[sparse::sequences] * w[sparse::fresh];
  const double projections =
      together(w[sparse::projected] * w[sparse::weight] / (p[efficiency] * f.bandwidth),
               2 * rows * w[sparse::projected] / (p[best] * f.peak[static_cast<std::size_t>(w[sparse::type])]));
  const double scores =
      2 * w[sparse::scored] * w[sparse::indexed] / (p[index] * f.peak[static_cast<std::size_t>(DataType::fp8)]) +
      p[score] * (w[sparse::indexed] > 0 ? w[sparse::scored] : 0) / kMillionPairs;
  const double heads = std::max(w[sparse::heads], p[pad]);
  const double attention = together(
      2 * w[sparse::slots] * heads * w[sparse::width] / (p[rate] * f.peak[static_cast<std::size_t>(DataType::bf16)]),
      w[sparse::read] / (p[reach] * f.bandwidth));
  return p[launch] + projections + p[row] * rows / kThousandRows + scores + attention;
}

double sparse_roofline(const ServingFacts& f, const Work& w) {
  return w[sparse::projected] * w[sparse::weight] / f.bandwidth;
}

/// Parameters as above, and the chain.
double msa_structure(const ServingFacts& f, std::span<const double> p, const Work& w) {
  enum { index = 4, score, chain = 9 };
  Work scored_apart = w;
  scored_apart[sparse::scored] = 0;
  const double rest = sparse_structure(f, p.first(9), scored_apart);
  const double scores =
      w[sparse::scored] * (2 * w[sparse::indexed] / (p[index] * f.peak[static_cast<std::size_t>(DataType::fp8)]) +
                           p[score] / kMillionPairs);
  return rest + together(scores, p[chain] * w[sparse::keys]);
}

Correction::Sizes sparse_sizes(const Work& w) {
  return {w[sparse::sequences], w[sparse::keys], w[sparse::heads], w[sparse::fresh], w[sparse::hidden]};
}

/// Kinds by what attention reads and multiplies and by the projections' weights.
std::vector<std::string_view> sparse_variants() {
  return {"dsa-bf16-bf16",
          "dsa-bf16-fp8-block",
          "dsa-bf16-nvfp4",
          "dsa-fp8-bf16",
          "dsa-fp8-fp8-block",
          "dsa-fp8-nvfp4",
          "dsa-fp8-fp8-bf16",
          "dsa-fp8-fp8-fp8-block",
          "dsa-fp8-fp8-nvfp4",
          "dsa-shared-bf16-bf16",
          "dsa-shared-bf16-fp8-block",
          "dsa-shared-bf16-nvfp4",
          "dsa-shared-fp8-bf16",
          "dsa-shared-fp8-fp8-block",
          "dsa-shared-fp8-nvfp4",
          "dsa-shared-fp8-fp8-bf16",
          "dsa-shared-fp8-fp8-fp8-block",
          "dsa-shared-fp8-fp8-nvfp4",
          "csa-bf16-bf16",
          "csa-bf16-fp8-block",
          "csa-bf16-nvfp4",
          "csa-fp8-bf16",
          "csa-fp8-fp8-block",
          "csa-fp8-nvfp4",
          "csa-fp8-fp8-bf16",
          "csa-fp8-fp8-fp8-block",
          "csa-fp8-fp8-nvfp4",
          "hca-bf16-bf16",
          "hca-bf16-fp8-block",
          "hca-bf16-nvfp4",
          "hca-fp8-bf16",
          "hca-fp8-fp8-block",
          "hca-fp8-nvfp4",
          "hca-fp8-fp8-bf16",
          "hca-fp8-fp8-fp8-block",
          "hca-fp8-fp8-nvfp4"};
}

std::vector<std::string_view> msa_variants() {
  return {"bf16-bf16", "bf16-fp8-block", "bf16-nvfp4",        "fp8-bf16",     "fp8-fp8-block",
          "fp8-nvfp4", "fp8-fp8-bf16",   "fp8-fp8-fp8-block", "fp8-fp8-nvfp4"};
}

std::vector<ServingFamily::Parameter> sparse_parameters(double launch) {
  return {
      {"launch", Unit::seconds, 5e-6, 2e-3, launch, "what all its kernels take at least"},
      {"efficiency", Unit::plain, 0.05, 1, 0.7, "share of the memory's bandwidth at which weights are read"},
      {"best", Unit::plain, 0.01, 1, 0.5, "share of the peak of the projections' type"},
      {"row", Unit::seconds, 1e-8, 1e-3, 1e-4, "of a thousand rows in norms, rotation, casts and the cache's write"},
      {"index", Unit::plain, 0.01, 1, 0.6, "share of the fp8 peak that the indexer's scores reach"},
      {"score", Unit::seconds, 1e-8, 1e-3, 6e-6, "of a million scores that are written and chosen from"},
      {"rate", Unit::plain, 0.005, 1, 0.5, "share of the 16-bit peak that the attention's products reach"},
      {"pad", Unit::plain, 1, 128, 32, "heads that its kernel computes at least"},
      {"reach", Unit::plain, 0.02, 4, 0.7, "share of the memory's bandwidth at which keys are read"}};
}

/// A rank with fewer than the 16 queries of a head of keys takes as long as with these: a knot where that ends.
std::vector<std::vector<Correction::Axis>> in_groups(std::vector<std::vector<Correction::Axis>> grids) {
  constexpr std::size_t kHeads = 2;
  for (std::vector<Correction::Axis>& axes : grids)
    for (Correction::Axis& axis : axes)
      if (axis.size == kHeads) axis.knots = {1, 8, 16, 32, 64, 128};
  return grids;
}

std::vector<ServingFamily::Parameter> msa_parameters(double launch) {
  std::vector<ServingFamily::Parameter> all = sparse_parameters(launch);
  all.push_back({"chain", Unit::seconds, 1e-12, 1e-6, 1e-8, "of a key of a sequence that waits for the one before it"});
  return all;
}

}  // namespace

const ServingFamily sparse::kDecode{"sparse-block-decode",
                                    "a layer's whole sparse attention, decoding",
                                    sparse_variants(),
                                    sparse_parameters(6e-5),
                                    {"sequences", "keys", "heads", "fresh", "hidden"},
                                    {{{0, {1, 4, 16, 64, 256, 1024}}, {1, {1, 128, 1024, 4096, 32768, 262144}}},
                                     {{0, {1, 16, 64, 256, 1024}}, {2, {1, 8, 32, 128}}, {4, {4096, 6144, 7168}}},
                                     {{1, {1, 1024, 4096, 65536}}, {2, {1, 8, 32, 128}}, {4, {4096, 6144, 7168}}}},
                                    sparse_structure,
                                    sparse_roofline,
                                    sparse_sizes};

const ServingFamily sparse::kPrompt{
    "sparse-block-prefill",
    "a layer's whole sparse attention, on prompts",
    sparse_variants(),
    sparse_parameters(1e-4),
    {"sequences", "keys", "heads", "fresh", "hidden"},
    {{{3, {1, 32, 256, 1024, 4096, 16384}}, {1, {1, 256, 1536, 2048, 2560, 8192, 65536, 524288}}},
     {{3, {1, 64, 512, 4096}}, {0, {1, 4, 16, 128}}, {2, {1, 8, 32, 64, 128}}},
     {{1, {1, 2048, 2560, 65536}}, {2, {1, 8, 32, 128}}, {4, {4096, 6144, 7168}}}},
    sparse_structure,
    sparse_roofline,
    sparse_sizes};

const ServingFamily sparse::kMsaDecode{"msa-block-decode",
                                       "a layer's whole attention to blocks of keys, decoding",
                                       msa_variants(),
                                       msa_parameters(6e-5),
                                       sparse::kDecode.sizes_of_correction,
                                       in_groups(sparse::kDecode.grids),
                                       msa_structure,
                                       sparse_roofline,
                                       sparse_sizes};

const ServingFamily sparse::kMsaPrompt{"msa-block-prefill",
                                       "a layer's whole attention to blocks of keys, on prompts",
                                       msa_variants(),
                                       msa_parameters(1e-4),
                                       sparse::kPrompt.sizes_of_correction,
                                       in_groups(sparse::kPrompt.grids),
                                       msa_structure,
                                       sparse_roofline,
                                       sparse_sizes};

Asked asked(const SparseBlock& s) {
  SIM_CHECK(s.sequences > 0 && s.fresh > 0 && s.heads > 0, "a sparse block of nothing");
  const double rows = s.sequences * s.fresh, ahead = s.cached + (s.fresh + 1) / 2;  // keys of a query, in the mean
  const double own = s.heads / s.all_heads, index = s.index_heads * s.index_dim;
  const double seen = s.ratio > 0 ? ahead / s.ratio : ahead;  // keys that its indexer scores, or that stand for tokens
  const double chosen = (s.chosen > 0 ? std::min(seen, s.chosen) : seen) + std::min(ahead, s.window);
  double projected = 0, width = 0, row = 0;
  if (s.kind == SparseBlock::Kind::dsa) {
    projected = s.hidden * (s.q_rank + s.kv_rank + s.rope) +
                s.heads * (s.q_rank * (s.nope + s.rope) + s.kv_rank * (s.nope + s.value) + s.value * s.hidden);
    width = 2 * s.kv_rank + s.rope;
    row = s.kv_rank + s.rope;
    if (s.index_heads > 0) projected += s.q_rank * index + s.hidden * (s.index_dim + s.index_heads);
  } else if (s.kind == SparseBlock::Kind::msa) {
    const double kv_heads = std::max(1.0, s.kv_heads * own);
    projected = s.hidden * (2 * s.heads + 2 * kv_heads) * s.value + s.hidden * (index * own + s.index_dim);
    width = 2 * s.value;
    row = 2 * kv_heads * s.value;
  } else {
    const double twice = s.ratio < 8 ? 2 : 1;
    projected = s.hidden * (s.q_rank + s.value + 2 * twice * s.value) + s.q_rank * s.heads * s.value +
                s.out_rank * s.heads * s.value + s.out_rank * s.out_groups * own * s.hidden;
    width = 2 * s.value;
    row = s.value;
    if (s.index_heads > 0) projected += s.q_rank * index + s.hidden * (s.index_heads + 2 * twice * s.index_dim);
  }
  const double weight = weight_bytes(s.type);
  const double index_read = s.index_heads > 0 ? s.sequences * (s.cached + s.fresh) / std::max(1.0, s.ratio) : 0;
  const double read = s.sequences * std::min(rows / s.sequences * chosen, s.cached + s.fresh) * row * s.kv_bytes +
                      index_read * (s.index_dim + 4);
  const std::size_t kind = s.kind == SparseBlock::Kind::dsa && s.index_heads == 0 ? 1
                           : s.kind == SparseBlock::Kind::dsa                     ? 0
                           : s.kind == SparseBlock::Kind::csa                     ? 2
                                                                                  : 3;
  const std::size_t weights = s.type == WeightType::bf16 ? 0 : s.type == WeightType::fp8_block ? 1 : 2;
  const std::size_t computed = s.kv_bytes >= 2 ? 0 : s.computed == DataType::fp8 ? 2 : 1;
  const bool in_blocks = s.kind == SparseBlock::Kind::msa;
  return {(in_blocks ? kFirstMsa : kFirstSparse) + (s.decode ? 0 : 1),
          (in_blocks ? 0 : 9 * kind) + 3 * computed + weights,
          {s.sequences, s.fresh, s.cached + s.fresh, s.heads, rows * seen, index, rows * chosen, width, read, projected,
           weight, static_cast<double>(multiplied_as(s.type)), s.hidden}};
}

SparseWork work_of(const SparseBlock& block) {
  const Work work = asked(block).work;
  const double rows = work[sparse::sequences] * work[sparse::fresh];
  return {2 * rows * work[sparse::projected] + 2 * work[sparse::scored] * work[sparse::indexed] +
              2 * work[sparse::slots] * work[sparse::heads] * work[sparse::width],
          work[sparse::projected] * work[sparse::weight] + work[sparse::read], work[sparse::projected]};
}

/// Where its types were not measured together, others of the same kind stand in: first with the same weights, then with
/// the same keys.
double ServingKernels::seconds(const SparseBlock& s) const {
  if (!(s.sequences * s.fresh > 0)) return 0;
  Asked shape = asked(s);
  const auto& fitted = model_->fitted[shape.family];
  constexpr std::size_t kTypes = 9, kOfWeights = 3;
  const std::size_t own = shape.variant, kind = own / kTypes * kTypes;
  const auto distance = [&](std::size_t variant) {
    const std::size_t a = variant - kind, b = own - kind;
    return (a % kOfWeights == b % kOfWeights ? 0 : 2) + (a / kOfWeights == b / kOfWeights ? 0 : 1);
  };
  const std::size_t kinds = s.kind == SparseBlock::Kind::dsa && s.index_heads == 0 ? 2 : 1;  // else with an indexer
  for (std::size_t other = 0; other < kinds && !fitted[shape.variant]; ++other) {
    const std::size_t from = kind - other * kTypes;
    for (std::size_t v = from; v < from + kTypes; ++v)
      if (fitted[v] &&
          (!fitted[shape.variant] || distance(v + other * kTypes) < distance(shape.variant + other * kTypes)))
        shape.variant = v;
  }
  return model_->seconds(shape);
}

}  // namespace orrery::calibration
