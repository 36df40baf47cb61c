// The task model of attention_model.h.
#include "calibration/device/attention_model.h"

#include <algorithm>
#include <cmath>

namespace orrery::calibration {
namespace {

constexpr double kBlock = 128;  // queries of a task, and keys of a step of its loop

double rate_at(double rate_64, double rate_128, double head_dim) {
  // Past 128 the score block no longer shrinks relative to the products; below 64 softmax dominates as d falls.
  if (head_dim >= 128) return rate_128;
  const double t = std::log2(std::max(head_dim, 8.0) / 64);
  if (t >= 0) return rate_64 * std::pow(rate_128 / rate_64, t);
  return rate_64 * std::max(head_dim, 8.0) / 64;
}

double smooth_max(double a, double b) {
  const double high = std::max(a, b), ratio = std::min(a, b) / high, square = ratio * ratio;
  return high * std::sqrt(std::sqrt(1 + square * square));
}

}  // namespace

double AttentionModel::pairs(const Shape& s) {
  const double reach = s.window > 0 ? std::min(s.window, s.keys) : s.keys;
  if (!s.causal) return s.queries * reach;
  // Query i of the last `queries` positions sees min(reach, keys - queries + i + 1) keys.
  const double before = std::max(0.0, s.keys - s.queries);
  const double ramp = std::clamp(reach - before, 0.0, s.queries);  // queries that see less than `reach`
  return ramp * (before + std::min(reach, before + ramp)) / 2 + ramp / 2 + (s.queries - ramp) * reach;
}

double AttentionModel::traffic(const Shape& s) const {
  const double q = 2 * s.batch * s.heads * s.queries * s.head_dim;
  const double kv = 2 * s.batch * s.kv_heads * s.keys * s.head_dim;
  // Forward reads Q, K, V, writes O. Backward reads Q, O, dO, K, V and writes dQ, dK, dV.
  return s.backward ? 4 * q + 4 * kv : 2 * q + 2 * kv;
}

double AttentionModel::longest_keys(const Shape& s) {
  const bool cut = s.causal && s.window > 0 && s.window < s.keys;
  const double reach = cut ? s.window + kBlock - 1 : s.window > 0 ? std::min(s.window, s.keys) : s.keys;
  return std::ceil(std::min(reach, s.keys) / kBlock) * kBlock;
}

double AttentionModel::visited_keys(const Shape& s) {
  const double longest = longest_keys(s);
  if (!s.causal) return longest;
  const bool cut = s.window > 0 && s.window < s.keys;
  return std::min(pairs(s) / s.queries + (cut ? kBlock : kBlock / 2), longest);
}

double AttentionModel::forward(const Shape& s, double task_setup) const {
  const double rate = rate_at(rate_64, rate_128, s.head_dim) * peak / processors;
  const double blocks = std::ceil(s.queries / kBlock);
  const double tasks = s.batch * s.heads * blocks;
  const double longest = longest_keys(s), mean = visited_keys(s);
  const double unit = 4 * kBlock * s.head_dim / rate;
  const double share = tasks / processors;
  const double waves = quantisation * std::ceil(share) + (1 - quantisation) * std::max(share, 1.0);
  return std::max(waves * (unit * mean + task_setup), unit * longest + task_setup);
}

double AttentionModel::structure(const Shape& s) const {
  const double memory = traffic(s) / (memory_efficiency * memory_bandwidth);
  const double own_setup = setup_moves_tiles ? setup * s.head_dim / 128 : setup;
  double time;
  if (s.backward) {
    const double at_64 = backward.ratio_64 > 0 ? backward.ratio_64 : backward_ratio;
    const bool wide = s.head_dim > 128 && backward.ratio_wide > 0;
    const double slower = 2.5 / (wide ? backward.ratio_wide : rate_at(at_64, backward_ratio, s.head_dim));
    const double task_setup = setup_moves_tiles ? 2 * own_setup / slower : own_setup;
    const double sums = 2 * 2 * s.batch * s.heads * s.queries * s.head_dim / (memory_efficiency * memory_bandwidth);
    Shape visited = s;
    if (backward.whole) visited.window = 0;
    time = 2 * launch + sums + smooth_max(slower * forward(visited, task_setup), memory);
  } else {
    time = launch + smooth_max(forward(s, own_setup), memory);
  }
  const double all = s.batch * s.heads * s.queries * visited_keys(s);
  if (s.dropout && scores.drawn > 0) time += all / scores.drawn;
  if (scores.operations > 0) time += all * s.score_operations / scores.operations;
  if (s.cache_write) {
    const double copied = 2 * 2 * s.batch * (s.heads * s.queries + 2 * s.kv_heads * s.keys) * s.head_dim;
    time += cache.launch + copied / (cache.efficiency * memory_bandwidth);
  }
  return time;
}

double AttentionModel::roofline(const Shape& s) const {
  const double flops = 4 * s.batch * s.heads * s.head_dim * pairs(s) * (s.backward ? 2.5 : 1.0);
  // What runs beyond the peak of 16-bit operands has operands of 8 bits, whose peak is twice that.
  const double bound = rate_128 > 1 ? 2 * peak : peak;
  return std::max(flops / bound, traffic(s) / memory_bandwidth);
}

double AttentionModel::seconds(const Shape& s) const {
  return std::max(structure(s) * std::exp(surface.at(s.queries, s.batch * s.heads, s.head_dim)), roofline(s));
}

}  // namespace orrery::calibration
