// Time of fused (flash) attention: tasks of one block of 128 queries and one head, dealt out to processors.
//
//   keys(i)  = keys that query block i visits: all; causal: those up to its last query; window: w ahead of each query
//   task(i)  = 4 * 128 * keys(i) * d / (rate_d * peak / P) + setup
//   waves    = q * ceil(tasks / P) + (1 - q) * max(tasks / P, 1)
//   compute  = max(waves * mean task, longest task),   memory = traffic / (efficiency * memory bandwidth)
//   time     = (launch + (compute^4 + memory^4)^(1/4)) * exp(surface(seq, batch * heads, d))
// rate_d is given at head dimensions 64 and 128 and interpolated in ln d. FLOPs are 4 b h s^2 d, half of that when
// causal (Dao, FlashAttention-2, arXiv 2307.08691, section 4.1). The backward pass has five matrix products for
// two, 2.5 times the FLOPs (same place), at a share of the forward pass's rate, and a first kernel that sums dO * O.
// Dropout adds the scores of all blocks over the rate at which their random numbers are made, in both passes; a kernel
// that takes more operations for a score than the one that was timed adds these likewise, at the rate of fp32.
// Left out: random numbers made beside matrix products; atomics of the backward pass; split-keys variants for decoding.
#pragma once

#include "calibration/device/gemm_model.h"

namespace orrery::calibration {

struct AttentionModel {
  double peak = 0;  // FLOP/s, 16 bit
  double processors = 1;
  double memory_bandwidth = 0;           // bytes/s, data sheet
  double launch = 5e-6;                  // seconds
  double rate_64 = 0.5, rate_128 = 0.6;  // share of peak in the inner loop
  double setup = 2e-6;                   // seconds per task
  /// Prologue and epilogue move tiles and no more: `setup`, given at head dimension 128, grows with it, and the
  /// backward pass (K, V, dK, dV for Q, O) has twice that. Else it is of one size and part of what the backward pass
  /// multiplies.
  bool setup_moves_tiles = false;
  double quantisation = 0.5;
  double memory_efficiency = 0.8;
  double backward_ratio = 0.85;  // rate of the backward pass over that of the forward pass
  struct Backward {
    double ratio_64 = 0;  // likewise at head dimension 64; 0: the same
    /// Likewise past 128, as of latent attention's queries of 192 channels and values of 128; 0: the same.
    double ratio_wide = 0;
    bool whole = false;  // goes through all keys ahead of a query, window or not
  } backward;
  /// Keys and values are copied into a cache (Attention::cache_write).
  struct Cache {
    double launch = 0;        // seconds
    double efficiency = 0.5;  // of memory bandwidth
  } cache;
  /// What is done to each score between the products; 0: at no cost.
  struct Scores {
    double drawn = 0;       // scores/s that random numbers are made for and compared
    double operations = 0;  // operations/s in fp32 outside of matrix units
  } scores;
  Surface surface;  // m: queries, n: batch * heads, k: head_dim

  struct Shape {
    double batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, head_dim = 64;
    double window = 0;  // 0: all keys
    bool causal = true, backward = false, cache_write = false, dropout = false;
    double score_operations = 0;  // beside the products, one after the other with them
  };
  double structure(const Shape& s) const;
  /// Seconds that peak and memory bandwidth allow at best.
  double roofline(const Shape& s) const;
  double seconds(const Shape& s) const;

  /// (query, key) pairs that count, per head and sequence.
  static double pairs(const Shape& s);

 private:
  /// Seconds of the tasks of a forward pass whose every task has this setup.
  double forward(const Shape& s, double task_setup) const;
  double traffic(const Shape& s) const;
  /// Keys that a query's block computes scores for, on average: whole blocks, so half a block past the diagonal, and as
  /// much ahead of a window's beginning, which is a position further on with every query of the block.
  static double visited_keys(const Shape& s);
  /// Likewise of the block that has most of them.
  static double longest_keys(const Shape& s);
};

}  // namespace orrery::calibration
