// RWKV-7 (arXiv 2503.14456): a delta rule with a decay and a rate for every channel of a key, by the kernels of
// fla-org/flash-linear-attention, fla/ops/generalized_delta_rule/dplr/chunk.py, in chunks of 64. A token of the forward
// pass costs, for each of H heads, scores of two kinds of queries and two of keys, 8 C N, the inverse of a triangle and
// what it multiplies, 8 C^2 / 3 + 2 C (N + P), the state, 6 N P, and the output, 2 N P + 4 C P (letters as in scan.cc).
// No table times it: engines are taken to reach what they reach with Kimi's delta rule.
#include <array>

#include "calibration/device/scan.h"

namespace orrery::calibration {

namespace {

MixerWork rwkv7_scan(const ScanSizes& z, bool backward) {
  constexpr double kSingle = kScanSingle;
  const double keys = z.h * z.n, values = z.h * z.p, scores = z.h * z.c, state = z.h * z.n * z.p / z.c;
  const double square = 8 * z.c * z.c / 3;
  // What a backward pass makes again: all but the output.
  const double decays = (z.e + 2 * kSingle) * keys;
  const double inside = 8 * z.e * keys + 2 * kSingle * keys + (2 * kSingle + 2 * z.e) * scores;
  const double rows = 4 * kSingle * scores + 2 * z.e * (keys + values);
  const double states = z.e * (3 * keys + 3 * values + state);
  MixerWork work;
  work.flops = z.h * (10 * z.c * z.n + 2 * z.c * z.p + 6 * z.n * z.p + square);
  work.bytes = decays + inside + rows + states;
  work.launches = 5;
  if (!backward) {
    work.flops += z.h * (2 * z.n * z.p + 4 * z.c * z.p);
    work.bytes += z.e * (keys + 3 * values + state + 2 * scores);
    work.launches += 1;
    return work;
  }
  work.flops += z.h * (6 * z.c * z.p +                     // gradients of scores, and of values inside chunks
                       6 * z.n * z.p +                     // of states
                       2 * z.c * z.p + 2 * z.n * z.p +     // of values
                       8 * z.n * z.p +                     // of queries, keys and rows by way of states
                       4 * z.c * (z.n + z.p) + 2 * square  // of the triangle and its rows
                       + 16 * z.c * z.n);                  // of both kinds of queries and keys
  const double of_scores = z.e * (4 * values + scores) + 2 * kSingle * scores;
  const double of_states = z.e * (3 * keys + 3 * values + state);
  const double of_values = z.e * (scores + keys + 2 * values + state);
  const double through = z.e * (7 * keys + 4 * values + 2 * state);
  const double of_rows = 4 * kSingle * scores + z.e * 3 * (keys + values);
  const double of_keys = z.e * 12 * keys + 5 * kSingle * keys + 4 * kSingle * scores;
  work.bytes += of_scores + of_states + of_values + through + of_rows + of_keys;
  work.launches += 7;
  return work;
}

constexpr std::array<std::size_t, 1> kRwkvTaps{0}, kRwkvPrompt{2};
constexpr std::array<std::size_t, 2> kRwkvStep{2, 5};

}  // namespace

const ScanKind kRwkv7Scan{"rwkv7", 64,         8,
                          false,   rwkv7_scan, {kRwkvTaps, kRwkvTaps, kRwkvPrompt, kRwkvStep, kRwkvStep, false}};

}  // namespace orrery::calibration
