// The model of grouped_model.h.
#include "calibration/grouped_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace orrery::calibration {
namespace {

bool idle(const GroupMember& e) { return !(e.m > 0 && e.n > 0 && e.k > 0 && e.count > 0); }

}  // namespace

double GroupedModel::compute(const Tile& tile, std::span<const GroupMember> group) const {
  const double rate = peak / processors;
  double units = 0, work = 0, longest = 0;
  for (const GroupMember& e : group) {
    if (idle(e)) continue;
    const double tiles_here = e.count * std::ceil(e.m / tile.m) * std::ceil(e.n / tile.n);
    const double depth = std::ceil(e.k / kInnerStep) * kInnerStep;
    const double loop = 2 * tile.m * tile.n * depth / (tile.rate * rate) + tile.setup;
    units += tiles_here;
    work += tiles_here * loop;
    longest = std::max(longest, loop);
  }
  if (!(units > 0)) return 0;
  const double share = units / processors;
  const double waves = quantisation * std::ceil(share) + (1 - quantisation) * std::max(share, 1.0);
  return std::max(waves * work / units, longest);
}

double GroupedModel::traffic(std::span<const GroupMember> group, double result_bytes) const {
  double bytes = 0;
  for (const GroupMember& e : group)
    if (!idle(e)) bytes += e.count * (element_bytes * (e.m * e.k + e.k * e.n) + result_bytes * e.m * e.n);
  return bytes;
}

double GroupedModel::structure(std::span<const GroupMember> group, double result_bytes) const {
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& t : tiles) best = std::min(best, compute(t, group));
  const double memory = traffic(group, result_bytes) / (memory_efficiency * memory_bandwidth);
  const double high = std::max(best, memory);
  if (!(high > 0)) return launch;
  const double ratio = std::min(best, memory) / high, square = ratio * ratio;
  return launch + high * std::sqrt(std::sqrt(1 + square * square));
}

double GroupedModel::roofline(std::span<const GroupMember> group, double result_bytes) const {
  double flops = 0;
  for (const GroupMember& e : group) flops += 2 * e.count * e.m * e.n * e.k;
  return std::max(flops / (best_rate * peak), traffic(group, result_bytes) / memory_bandwidth);
}

double GroupedModel::seconds(std::span<const GroupMember> group, double rows, double columns, double depth,
                             double result_bytes) const {
  const double time = structure(group, result_bytes);
  const double correction = surface.at(std::max(rows, 1.0), columns, depth);
  return std::max(time * std::exp((1 - launch / time) * correction), roofline(group, result_bytes));
}

GroupedModel grouped_from(const GemmModel& dense) {
  GroupedModel out;
  out.peak = dense.peak;
  out.processors = dense.processors;
  out.memory_bandwidth = dense.memory_bandwidth;
  out.element_bytes = dense.element_bytes;
  out.launch = dense.launch;
  out.quantisation = dense.quantisation;
  out.memory_efficiency = dense.memory_efficiency;
  out.tiles = dense.tiles;
  return out;
}

}  // namespace orrery::calibration
