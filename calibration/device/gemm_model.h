// Time of a matrix product as a device works on it: output tiles dealt out to processors in waves.
//
// For a tile shape t of (m_t, n_t) and a split s of the inner dimension,
//   units = batch * ceil(m/m_t) * ceil(n/n_t) * s,     waves = q * ceil(units/P) + (1-q) * max(units/P, 1)
//   compute(t, s) = waves * (2 m_t n_t (k/s) / (rate_t * peak / P) + setup_t) + join(s)
// where q in [0, 1] is how strictly waves are quantised (1: a wave ends when its last tile ends; below 1: tails
// overlap, as in stream-K and persistent kernels), setup_t the prologue and epilogue of a tile, and join(s) what adding
// s partial results costs: a fixed time and s fp32 copies of C. The fastest (t, s) is taken, as libraries' heuristics
// mean to.
//   memory = (A + B + C traffic) / (efficiency * memory bandwidth)
//   structure = launch + (compute^4 + memory^4)^(1/4)
//   time = structure * exp((1 - launch / structure) * (surface(ln m, ln n, ln k) + detail(ln m, ln n, ln k)
//                                                      + ln form))
// so that a launch is not corrected. Both corrections are trilinear between knots and constant beyond them. The surface
// is smooth and holds what the structure leaves out (rasterisation and cache reuse, power limits on long kernels); the
// detail has denser knots in m and n and few in k: it holds what libraries' choice of tiles costs at the sizes that
// models use, a choice that depends on the output's sizes and holds over long stretches of k. `form` is the time of a
// form of operands in memory over that of the forward pass. Never below the roofline of data sheet peak and bandwidth.
// Where m is no multiple of kWholeRows, tiles are padded to `row_step` rows, which tells kernels without small tiles
// (DeepGEMM's on Hopper compute 128 rows at a time) from those that have them, and a third correction is added,
// `ragged`: libraries choose other kernels there. Structure: NVIDIA, "Matrix Multiplication Background User's Guide"
// (tile and wave quantisation); Osama et al., Stream-K (arXiv 2301.03598). Left out: sparsity, alignment below 16
// bytes; which tile a library's heuristic picks for one shape (it is not always the fastest) and what power draw the
// runs before left: these stay as scatter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibration/device/kernel.h"

namespace orrery::calibration {

/// ln(time / structure) at knots of ln m, ln n, ln k; row-major, k fastest.
struct Surface {
  std::vector<double> m, n, k;  // knots as sizes, rising
  std::vector<double> value;    // m.size() * n.size() * k.size(), or empty: zero everywhere

  std::size_t size() const { return m.size() * n.size() * k.size(); }
  /// One knot and its weight.
  struct Share {
    std::size_t knot = 0;
    double weight = 0;
  };
  /// The (at most eight) knots around a point; weights sum to 1.
  void shares(const std::array<double, 3>& log_sizes, Share (&out)[8]) const;
  double at(double size_m, double size_n, double size_k) const;
  /// The same from logarithms of the sizes.
  double at_log(const std::array<double, 3>& log_sizes) const;
  /// Fills the logarithms of the knots; call after the knots have been set.
  void prepare();

 private:
  std::vector<double> log_m_, log_n_, log_k_;
};

/// The inner loop of a product advances in steps of this many elements.
inline constexpr double kWholeRows = 128;
inline constexpr double kInnerStep = 32;

struct Tile {
  double m = 128, n = 128;
  double rate = 0.9;    // share of peak while the inner loop runs
  double setup = 1e-6;  // seconds per tile
};

struct GemmModel {
  double peak = 0;  // FLOP/s of the device
  double processors = 1;
  double memory_bandwidth = 0;  // bytes/s, data sheet
  double element_bytes = 2;     // of A and B
  double launch = 2e-6;         // seconds
  double quantisation = 0.9;    // q
  double memory_efficiency = 0.85;
  double join_time = 2e-6;       // seconds, when s > 1
  double join_efficiency = 1.0;  // of memory bandwidth, for the partial results; above 1 where caches hold them
  /// Adding into an fp32 result moves six bytes an element more than writing a 16-bit one, adding into a 16-bit one
  /// two. The tiles of a wave end together, so that other work hides only a part of it; this is the share that it does
  /// not, 0 to 1. 0 where a kernel's tiles take turns (Hopper's, warp specialised: one tile is written while the next
  /// is computed). No isolated kernel was measured for it: from steps (calibration/fitted.yaml).
  double accumulate_exposed = 0.0;
  std::vector<Tile> tiles;
  Surface surface;
  Surface detail;
  double row_step = 1;
  Surface ragged;
  std::array<double, kGemmForms> form_factor{1, 1, 1};  // time over that of the forward pass's form
  /// fp8: casting a 16 bit A ahead of the product (Gemm::cast_input).
  struct Cast {
    double launch = 0;       // seconds
    double per_element = 0;  // seconds
  } cast;

  /// Products of several experts on several streams (profile_experts.cc): how long their tiles take, dealt out
  /// together, over what the structure says; and of what one after another takes beyond that, the share that streams
  /// hide: a stream's kernel fills what others leave idle at their ends, but waits where they fill the device. Where a
  /// profile says nothing, from the grouped products of MooreThreads/SimuMax's operation tables (Apache-2.0; B200, A100
  /// PCIe), relative to the dense ones beside them.
  struct Streams {
    double together = 1, hidden = 0.4;
  } streams;

  struct Shape {
    double m = 1, n = 1, k = 1, batch = 1;
    bool accumulate = false;  // C is read and written
    bool cast_input = false;
    Gemm::Form form = Gemm::Form::forward;
    double sum_bytes = 4;  // of an element of the C that is added to
  };
  /// Seconds without the surface.
  double structure(const Shape& s) const;
  /// The share of a structure's seconds that corrections apply to.
  double correctable(const Shape& s, double structure_seconds) const;
  /// Seconds that peak and memory bandwidth allow at best.
  double roofline(const Shape& s) const;
  /// Seconds.
  double seconds(const Shape& s) const;

 private:
  /// Of an element of C that is not added to: fp32 of fp32 operands, else 16 bit.
  double written_bytes() const { return element_bytes > 2 ? element_bytes : 2; }
  double compute(const Shape& s) const;
  double traffic(const Shape& s) const;
};

}  // namespace orrery::calibration
