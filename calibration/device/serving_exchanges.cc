// Structures of small collectives, and of sampling (serving_families.h).
// Sources: NVIDIA TensorRT-LLM, customAllReduceKernels.cu; vllm-project/vllm, csrc/custom_all_reduce.cuh (one shot, two
// shots); deepseek-ai/DeepEP, csrc/kernels/internode_ll.cu.
#include <algorithm>
#include <cmath>

#include "calibration/device/serving_families.h"

namespace orrery::calibration {
namespace {

using Unit = ServingFamily::Parameter::Unit;

double reduce_structure(const ServingFacts&, std::span<const double> p, const Work& w) {
  enum { launch, peer, one_rate, second, two_rate, library, large_rate };
  const double n = w[reduce::gpus], bytes = w[reduce::bytes];
  const double start = p[launch] + p[peer] * (n - 1);
  const double one = start + (n - 1) * bytes / p[one_rate];
  const double two = start + p[second] + 2 * (n - 1) / n * bytes / p[two_rate];
  const double many = start + p[library] + 2 * (n - 1) / n * bytes / p[large_rate];
  return std::min({one, two, many});
}

/// Every GPU has to receive what the others hold, summed up at best on the way.
double reduce_roofline(const ServingFacts&, const Work&) { return 0; }

Correction::Sizes reduce_sizes(const Work& w) { return {w[reduce::bytes], w[reduce::gpus]}; }

double exchange_structure(const ServingFacts&, std::span<const double> p, const Work& w) {
  enum { launch, peer, token, within, beyond, wait };
  const double bytes = w[exchange::tokens] * w[exchange::top_k] * w[exchange::row_bytes];
  const double away = w[exchange::nodes] > 1 ? 1 - 1 / w[exchange::nodes] : 0;
  const double start = p[launch] + p[peer] / 1000 * w[exchange::experts] + (away > 0 ? p[wait] : 0);
  return start + p[token] / 1000 * w[exchange::tokens] +
         together((1 - away) * bytes / p[within], away * bytes / p[beyond]);
}

double exchange_roofline(const ServingFacts&, const Work&) { return 0; }

Correction::Sizes exchange_sizes(const Work& w) {
  return {w[exchange::tokens], w[exchange::nodes], w[exchange::row_bytes]};
}

double sample_bytes(const Work& w) {
  constexpr double kLogit = 2;
  return kLogit * w[sample::rows] * w[sample::logits];
}

/// A row is a block's, which pulls no more than a processor does.
double sample_structure(const ServingFacts& f, std::span<const double> p, const Work& w) {
  enum { launch, stream, efficiency };
  const double row = sample_bytes(w) / w[sample::rows], waves = std::ceil(w[sample::rows] / f.processors);
  return p[launch] + std::max(waves * row / (p[stream] * f.bandwidth / f.processors),
                              sample_bytes(w) / (p[efficiency] * f.bandwidth));
}

double sample_roofline(const ServingFacts& f, const Work& w) { return sample_bytes(w) / f.bandwidth; }

Correction::Sizes sample_sizes(const Work& w) { return {w[sample::rows], w[sample::logits]}; }

}  // namespace

const ServingFamily sample::kFamily{
    "sampling",
    "softmax over rows of logits, and a token of each by its probability",
    {"bf16"},
    {{"launch", Unit::seconds, 5e-7, 5e-4, 5e-6, "what it takes at least"},
     {"stream", Unit::plain, 0.02, 8, 0.5, "what one processor pulls, over its share of the memory's bandwidth"},
     {"efficiency", Unit::plain, 0.01, 1, 0.3, "share of the memory's bandwidth that all reach"}},
    {"rows", "logits"},
    {{{0, {1, 4, 16, 64, 256, 1024}}, {1, {16384, 65536, 262144}}}},
    sample_structure,
    sample_roofline,
    sample_sizes};

const ServingFamily reduce::kFamily{
    "all-reduce",
    "a small all-reduce within a node or an NVLink domain",
    {"graph", "eager"},
    {{"launch", Unit::seconds, 5e-7, 5e-4, 3e-6, "what it takes at least"},
     {"peer", Unit::seconds, 1e-9, 1e-5, 2e-7, "of each other GPU"},
     {"one_rate", Unit::rate, 1e9, 4e12, 3e11, "at which a GPU reads from all others at once, in one shot"},
     {"second", Unit::seconds, 1e-8, 1e-4, 2e-6, "of the second of two shots"},
     {"two_rate", Unit::rate, 1e9, 4e12, 3e11, "at which a GPU sends in two shots"},
     {"library", Unit::seconds, 1e-8, 5e-4, 1e-5, "what the collective library's takes more at least"},
     {"large_rate", Unit::rate, 1e9, 4e12, 4e11, "at which a GPU then sends"}},
    {"bytes", "gpus"},
    {{{0, {1024, 16384, 131072, 524288, 1048576, 4194304, 16777216, 134217728}}, {1, {2, 4, 8}}}},
    reduce_structure,
    reduce_roofline,
    reduce_sizes};

const ServingFamily exchange::kFamily{
    "exchange",
    "low-latency dispatch or combine",
    {"dispatch", "combine"},
    {{"launch", Unit::seconds, 1e-6, 5e-4, 1.5e-5, "what it takes at least"},
     {"peer", Unit::seconds, 1e-8, 1e-3, 1e-5, "of a thousand experts that are told how much they get"},
     {"token", Unit::seconds, 1e-8, 1e-3, 1e-5, "of a thousand tokens"},
     {"within", Unit::rate, 1e9, 4e12, 2e11, "at which a GPU sends within a node"},
     {"beyond", Unit::rate, 1e9, 1e12, 4e10, "at which it sends between nodes"},
     {"wait", Unit::seconds, 1e-8, 5e-4, 2e-5, "of the first bytes between nodes"}},
    {"tokens", "nodes", "row"},
    {{{0, {1, 8, 64, 128, 256, 1024}}, {1, {1, 2, 4, 8}}, {2, {2048, 4096, 7168}}}},
    exchange_structure,
    exchange_roofline,
    exchange_sizes};

}  // namespace orrery::calibration
