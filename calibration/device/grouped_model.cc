// The model of grouped_model.h.
#include "calibration/device/grouped_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace orrery::calibration {
namespace {

/// Relative, of a tuner's timings: assumed.
constexpr double kTimingScatter = 0.02;
constexpr double kHopeless = 8;  // scatters behind the fastest

constexpr double kSideStep = 16;  // of tiles' sides

bool idle(const GroupMember& e) { return !(e.m > 0 && e.n > 0 && e.k > 0 && e.count > 0); }

}  // namespace

void GroupRows::Share::add(double rows_of_one, double count) {
  rows += rows_of_one * count;
  experts += count;
  for (std::size_t i = 0; i < tiles.size(); ++i)
    tiles[i] += static_cast<float>(count * std::ceil(rows_of_one / (kSideStep * static_cast<double>(i + 1))));
}

double GroupRows::Share::tiles_of(double side) const {
  const double steps = side / kSideStep, most = static_cast<double>(tiles.size());
  if (steps <= 1) return std::max(static_cast<double>(tiles.front()), rows / side);
  if (steps >= most) return std::max(experts, static_cast<double>(tiles.back()) * most / steps);
  const auto below = static_cast<std::size_t>(steps);
  const double beyond = steps - static_cast<double>(below), lower = tiles[below - 1], upper = tiles[below];
  return lower + beyond * (upper - lower);
}

void GroupRows::add_draw(std::span<const double> rows, double count) {
  Share& draw = draws_.emplace_back();
  for (const double r : rows) {
    if (!(r > 0)) continue;
    const auto size = static_cast<std::size_t>(std::max(0.0, std::log2(r)));
    if (sizes_.size() <= size) sizes_.resize(size + 1);
    draw.add(r, count);
    sizes_[size].add(r, count);
  }
}

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

double GroupedModel::exposed(std::span<const GroupMember> group, double bytes) const {
  double results = 0;
  for (const GroupMember& e : group)
    if (!idle(e)) results += e.count * e.m * e.n;
  return accumulate_exposed * std::max(0.0, bytes - result_bytes(false, 0)) * results / memory_bandwidth;
}

double GroupedModel::joined(double compute, double bytes) const {
  const double memory = bytes / (memory_efficiency * memory_bandwidth);
  const double high = std::max(compute, memory);
  if (!(high > 0)) return launch;
  const double ratio = std::min(compute, memory) / high, square = ratio * ratio;
  return launch + high * std::sqrt(std::sqrt(1 + square * square));
}

double GroupedModel::structure(std::span<const GroupMember> group, double result_bytes) const {
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& t : tiles) best = std::min(best, compute(t, group));
  return joined(best + exposed(group, result_bytes), traffic(group, result_bytes));
}

double GroupedModel::served_by(const Tile& tile, const GroupRows& group, double columns, double depth) const {
  const double steps = std::ceil(depth / kInnerStep) * kInnerStep;
  const double loop = 2 * tile.m * tile.n * steps / (tile.rate * peak / processors) + tile.setup;
  const double across = std::ceil(columns / tile.n) / processors;  // waves of a row of tiles
  double waves = 0, filled = 0;
  for (const GroupRows::Share& draw : group.draws()) {
    const double share = draw.tiles_of(tile.m) * across;
    waves += quantisation * std::ceil(share) + (1 - quantisation) * std::max(share, 1.0);
    filled += share;
  }
  if (!(filled > 0)) return launch;
  const double draws = static_cast<double>(group.draws().size());
  double sum = 0;
  for (const GroupRows::Share& s : group.sizes()) {
    const double bytes =
        element_bytes * (s.rows * depth + s.experts * depth * columns) + result_bytes(false, 0) * s.rows * columns;
    sum += joined(waves / filled * s.tiles_of(tile.m) * across * loop, bytes) - launch;
  }
  return launch + sum / draws;
}

double GroupedModel::served(const GroupRows& group, const GroupRows& timed, double columns, double depth) const {
  std::vector<double> times;
  for (const Tile& t : tiles) times.push_back(served_by(t, timed, columns, depth));
  const double least = *std::min_element(times.begin(), times.end());
  double sum = 0, chances = 0;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const double behind = (times[i] / least - 1) / kTimingScatter;
    if (behind > kHopeless) continue;
    const double chance = std::exp(-behind);
    chances += chance;
    sum += chance * served_by(tiles[i], group, columns, depth);
  }
  return sum / chances;
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
  out.accumulate_exposed = dense.accumulate_exposed;
  out.tiles = dense.tiles;
  return out;
}

}  // namespace orrery::calibration
