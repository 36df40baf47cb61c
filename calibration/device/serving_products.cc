// Structures of products: of few rows, and of experts (serving_families.h).
// Sources: NVIDIA, Matrix Multiplication Background User's Guide (tile and wave quantisation); CUTLASS (split-k).
#include <algorithm>
#include <cmath>
#include <limits>

#include "calibration/device/serving_families.h"

namespace orrery::calibration {
namespace {

using Unit = ServingFamily::Parameter::Unit;
constexpr double kActivationBytes = 2;

double served_waves(double share, double quantised) {
  return quantised * std::ceil(share - 1e-9) + (1 - quantised) * std::max(share, 1.0);
}

/// What tiles of a kernel reach.
struct Tiling {
  double setup = 0, stream = 0, best = 0, a = 0, b = 0, quantised = 0;
  /// Seconds of a tile of `rows` and `columns` along a depth.
  double tile(double rows, double columns, double depth, double weight, double peak, double bandwidth) const {
    const double rate = best / (1 + a / rows + b / columns);
    return setup + std::max(2 * rows * columns * depth / (rate * peak),
                            depth * (kActivationBytes * rows + weight * columns) / (stream * bandwidth));
  }
};

double product_bytes(const Work& w) {
  return w[product::weight] * w[product::n] * w[product::k] +
         kActivationBytes * w[product::m] * (w[product::n] + w[product::k]);
}

double product_structure(const ServingFacts& f, std::span<const double> p, const Work& w) {
  enum { launch, setup, stream, efficiency, best, a, b, join, quantised };
  const Tiling tiling{p[setup], p[stream], p[best], p[a], p[b], p[quantised]};
  const double peak = f.peak[static_cast<std::size_t>(w[product::type])] / f.processors;
  const double bandwidth = f.bandwidth / f.processors;
  double least = std::numeric_limits<double>::infinity();
  for (const double rows : {16., 64., 128., 256.}) {
    for (const double columns : {32., 64., 128., 256.}) {
      const double outputs = std::ceil(w[product::m] / rows) * std::ceil(w[product::n] / columns);
      for (double split = 1; split <= 32; split *= 2) {
        if (split > 1 && (outputs * split > 2 * f.processors || w[product::k] / split < 128)) break;
        const double waves = served_waves(outputs * split / f.processors, p[quantised]);
        double time = waves * tiling.tile(rows, columns, w[product::k] / split, w[product::weight], peak, bandwidth);
        if (split > 1) time += p[join] + split * w[product::m] * w[product::n] * 4 / f.bandwidth;
        least = std::min(least, time);
      }
    }
    if (rows >= w[product::m]) break;
  }
  return p[launch] + together(least, product_bytes(w) / (p[efficiency] * f.bandwidth));
}

double product_roofline(const ServingFacts& f, const Work& w) {
  return std::max(product_bytes(w) / f.bandwidth, 2 * w[product::m] * w[product::n] * w[product::k] /
                                                      f.peak[static_cast<std::size_t>(w[product::type])]);
}

Correction::Sizes product_sizes(const Work& w) { return {w[product::m], w[product::n], w[product::k]}; }

double mixture_weights(const Work& w) {
  return w[mixture::activated] * (w[mixture::first] + w[mixture::ffn]) * w[mixture::hidden] * w[mixture::weight];
}

double mixture_structure(const ServingFacts& f, std::span<const double> p, const Work& w) {
  enum { launch, setup, stream, efficiency, best, a, b, quantised, choice, score, moved };
  const Tiling tiling{p[setup], p[stream], p[best], p[a], p[b], p[quantised]};
  const double peak = f.peak[static_cast<std::size_t>(w[mixture::type])] / f.processors;
  const double bandwidth = f.bandwidth / f.processors;
  const double activated = std::max(w[mixture::activated], 1e-3);
  const double mean = std::max(1.0, w[mixture::rows] / activated);
  const double choices = w[mixture::tokens] * w[mixture::top_k];
  double sum = p[launch] + (p[choice] * choices + p[score] * w[mixture::experts]) / 1000;
  const auto grouped = [&](double columns_of, double depth) {
    double least = std::numeric_limits<double>::infinity();
    for (const double rows : {16., 32., 64., 128.})
      for (const double columns : {64., 128., 256.}) {
        // Rows of an expert scatter about their mean, so that their tiles are half a tile too many.
        const double high = std::max(1.0, mean / rows + (mean > rows ? 0.5 : 0.0));
        const double units = activated * high * std::ceil(columns_of / columns);
        const double waves = served_waves(units / f.processors, p[quantised]);
        least = std::min(least, waves * tiling.tile(rows, columns, depth, w[mixture::weight], peak, bandwidth));
      }
    const double bytes = activated * columns_of * depth * w[mixture::weight];
    return together(least, bytes / (p[efficiency] * f.bandwidth));
  };
  sum += grouped(w[mixture::first], w[mixture::hidden]) + grouped(w[mixture::hidden], w[mixture::ffn]);
  const double bytes =
      kActivationBytes * (w[mixture::rows] * (3 * w[mixture::hidden] + w[mixture::first] + 2 * w[mixture::ffn]) +
                          w[mixture::tokens] * w[mixture::hidden]);
  return sum + bytes / (p[moved] * f.bandwidth);
}

double mixture_roofline(const ServingFacts& f, const Work& w) {
  const double flops = 2 * w[mixture::rows] * w[mixture::hidden] * (w[mixture::first] + w[mixture::ffn]);
  return std::max(mixture_weights(w) / f.bandwidth, flops / f.peak[static_cast<std::size_t>(w[mixture::type])]);
}

Correction::Sizes mixture_sizes(const Work& w) {
  return {w[mixture::rows] / std::max(w[mixture::activated], 1.0),
          w[mixture::activated],
          w[mixture::ffn],
          w[mixture::hidden],
          w[mixture::tokens],
          w[mixture::top_k]};
}

}  // namespace

const ServingFamily product::kFamily{
    "product",
    "a product of few rows",
    {"bf16", "fp8", "fp8-block", "nvfp4", "mxfp4", "mxfp4-fp8", "int8", "int4"},
    {{"launch", Unit::seconds, 5e-7, 5e-5, 2e-6, "what it takes at least"},
     {"setup", Unit::seconds, 1e-8, 2e-5, 1e-6, "of a tile: its beginning and end"},
     {"stream", Unit::plain, 0.2, 8, 1.5, "what one processor pulls, over its share of the memory's bandwidth"},
     {"efficiency", Unit::plain, 0.05, 1, 0.85, "share of the memory's bandwidth that all reach"},
     {"best", Unit::plain, 0.02, 1, 0.8, "share of the peak that the largest tiles reach"},
     {"rows", Unit::plain, 0.01, 500, 30, "rows of a tile at which it reaches half of that"},
     {"columns", Unit::plain, 0.01, 500, 30, "columns likewise"},
     {"join", Unit::seconds, 1e-8, 3e-5, 2e-6, "of parts along the inner dimension"},
     {"quantised", Unit::plain, 0.01, 1, 0.5, "how strictly waves end together"}},
    {"m", "n", "k"},
    // Libraries change their tiles behind 16, 64, 128 and 256 rows.
    {{{0, {1, 16, 17, 32, 64, 65, 96, 128, 129, 192, 256, 257, 512}},
      {1, {64, 512, 2048, 4096, 8192, 65536}},
      {2, {64, 512, 2048, 4096, 8192, 65536}}},
     {{1, {32, 64, 128, 256, 768, 1536, 2048, 3072, 4096, 5120, 6144, 8192, 10240, 16384, 65536}},
      {2, {32, 64, 128, 256, 768, 1536, 2048, 3072, 4096, 5120, 6144, 8192, 10240, 16384, 65536}}}},
    product_structure,
    product_roofline,
    product_sizes};

const ServingFamily mixture::kFamily{
    "mixture",
    "experts of a rank",
    {"bf16",
     "fp8",
     "fp8-block",
     "nvfp4",
     "mxfp4",
     "mxfp4-fp8",
     "int8",
     "int4",
     "bf16-ungated",
     "fp8-ungated",
     "fp8-block-ungated",
     "nvfp4-ungated",
     "mxfp4-ungated",
     "mxfp4-fp8-ungated",
     "int8-ungated",
     "int4-ungated",
     "bf16-least-latency",
     "fp8-least-latency",
     "fp8-block-least-latency",
     "nvfp4-least-latency",
     "mxfp4-least-latency",
     "mxfp4-fp8-least-latency",
     "int8-least-latency",
     "int4-least-latency",
     "fp8-block-masked",
     "fp8-block-contiguous"},
    {{"launch", Unit::seconds, 1e-6, 5e-4, 2e-5, "what all its kernels take at least"},
     {"setup", Unit::seconds, 1e-8, 2e-5, 1e-6, "of a tile: its beginning and end"},
     {"stream", Unit::plain, 0.2, 8, 1.5, "what one processor pulls, over its share of the memory's bandwidth"},
     {"efficiency", Unit::plain, 0.05, 1, 0.8, "share of the memory's bandwidth that all reach"},
     {"best", Unit::plain, 0.02, 1, 0.7, "share of the peak that the largest tiles reach"},
     {"rows", Unit::plain, 0.01, 500, 30, "rows of a tile at which it reaches half of that"},
     {"columns", Unit::plain, 0.01, 500, 30, "columns likewise"},
     {"quantised", Unit::plain, 0.01, 1, 0.3, "how strictly waves end together"},
     {"choice", Unit::seconds, 1e-10, 1e-4, 1e-7, "of a thousand choices of tokens"},
     {"score", Unit::seconds, 1e-9, 1e-3, 1e-6, "of a thousand experts"},
     {"moved", Unit::plain, 0.05, 10, 0.7, "share of the memory's bandwidth that rows move at"}},
    {"rows", "activated", "ffn", "hidden", "tokens", "top_k"},
    {{{0, {1, 4, 16, 32, 64, 256}}, {1, {1, 8, 32, 128, 256}}, {2, {64, 256, 1024, 4096}}},
     {{3, {2048, 2816, 4096, 6144, 8192}}, {2, {64, 192, 384, 768, 1536, 4096}}, {0, {1, 16, 128}}},
     {{4, {1, 4, 16, 64, 128, 256, 512, 1024, 2048}}, {1, {1, 8, 32, 128, 256}}, {5, {1, 4, 8}}}},
    mixture_structure,
    mixture_roofline,
    mixture_sizes};

}  // namespace orrery::calibration
