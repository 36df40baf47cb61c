// Fit of the protocol model, one operation of one device at a time. The switch of each group size is found exactly: for
// given protocols, the split of the samples by size with the least error. Between GPUs that switches join, rates and
// switches follow laws of the group size; where groups share links (PCIe, a mesh), each size has its own.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "calibration/measure/cross_validation.h"
#include "calibration/measure/fit.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

/// A rate by group size, R n / (n + a): what is lost beside the transfer weighs less in larger groups. Groups whose
/// switch reduces have a rate of their own.
struct Law {
  double most, lost, in_switch;
};

bool reduces(const CollectiveModel& m, std::size_t g) { return m.in_switch_from > 0 && m.gpus[g] >= m.in_switch_from; }

std::vector<double> pack_collective(const CollectiveModel& m, const Law& low, const Law& bulk, GroupRates rates) {
  std::vector<double> p;
  for (const auto& [q, law] : {std::pair{&m.low_latency, &low}, {&m.bulk, &bulk}}) {
    p.insert(p.end(), {std::log(q->base), std::log(q->hop), q->overlap});
    if (rates == GroupRates::own)
      for (const double rate : q->rate) p.push_back(std::log(rate));
    else
      p.insert(p.end(), {std::log(law->most), std::log(law->lost)});
  }
  if (m.in_switch_from > 0) p.push_back(std::log(bulk.in_switch));
  return p;
}

CollectiveModel unpack_collective(CollectiveModel m, const std::vector<double>& p, double line_rate, GroupRates rates) {
  std::size_t i = 0;
  const auto take = [&](double low, double high) { return std::clamp(std::exp(p[i++]), low, high); };
  for (Protocol* q : {&m.low_latency, &m.bulk}) {
    q->base = take(1e-6, 1e-4);
    q->hop = take(1e-8, 2e-5);
    q->overlap = std::clamp(p[i++], Protocol::kLeastOverlap, 1.0);
    if (rates == GroupRates::own) {
      for (double& rate : q->rate) rate = take(1e7, line_rate);
      continue;
    }
    const double most = take(1e9, 4 * line_rate), lost = take(1e-3, 20);
    for (std::size_t g = 0; g < m.gpus.size(); ++g)
      q->rate[g] = std::min(most * m.gpus[g] / (m.gpus[g] + lost), line_rate);
  }
  if (m.in_switch_from > 0) {
    const double own = take(1e9, line_rate);
    for (std::size_t g = 0; g < m.gpus.size(); ++g)
      if (reduces(m, g)) m.bulk.rate[g] = own;
  }
  return m;
}

/// Errors weigh more from a megabyte up, where training spends its time.
double weight(const CollectiveSample& s) { return s.bytes.value() >= 1 << 20 ? 2.0 : 1.0; }

/// Sets the switches of `m` to their best and returns the cost. A switch is first * (n / smallest group)^power, found
/// by trying all; where switches reduce, bulk is another algorithm and has a switch of its own, as groups with rates of
/// their own have.
double best_switches(CollectiveModel& m, std::span<const CollectiveSample> samples, GroupRates rates) {
  constexpr int kSteps = 40;  // from 4 KB on, two to a power of two
  const auto at = [](int step) { return 4096 * std::exp2(step / 2.0) * 1.19; };
  // saved[g][step]: cost of group g with its switch there.
  std::vector<std::array<double, kSteps>> cost(m.gpus.size());
  for (auto& row : cost) row.fill(0);
  for (const auto& s : samples) {
    const auto found = std::find(m.gpus.begin(), m.gpus.end(), static_cast<double>(s.gpus));
    if (found == m.gpus.end()) continue;
    const double bytes = static_cast<double>(s.bytes.value()), measured = std::log(s.seconds), w = weight(s);
    const double low = w * robust_error(std::log(m.low_latency_part(s.op, *found, bytes).seconds) - measured);
    const double high = w * robust_error(std::log(m.bulk_part(s.op, *found, bytes).seconds) - measured);
    auto& row = cost[static_cast<std::size_t>(found - m.gpus.begin())];
    for (int step = 0; step < kSteps; ++step) row[static_cast<std::size_t>(step)] += bytes <= at(step) ? low : high;
  }
  double total = 0, best = 1e300;
  const auto by_law = [&](std::size_t g, int first, int power) {
    const double step = first + power * std::log2(m.gpus[g] / m.gpus[0]);  // a power of 1/2 for each half octave
    return std::clamp(static_cast<int>(std::lround(step)), 0, kSteps - 1);
  };
  const auto has_own = [&](std::size_t g) { return rates == GroupRates::own || reduces(m, g); };
  int best_first = 0, best_power = 0;
  for (int first = 0; first < kSteps; ++first)
    for (int power = -2; power <= 6; ++power) {
      double sum = 0;
      for (std::size_t g = 0; g < m.gpus.size(); ++g)
        if (!has_own(g)) sum += cost[g][static_cast<std::size_t>(by_law(g, first, power))];
      if (sum < best) {
        best = sum;
        best_first = first;
        best_power = power;
      }
    }
  total = best < 1e300 ? best : 0;
  for (std::size_t g = 0; g < m.gpus.size(); ++g) {
    int step = by_law(g, best_first, best_power);
    if (has_own(g)) {
      step = static_cast<int>(std::min_element(cost[g].begin(), cost[g].end()) - cost[g].begin());
      total += cost[g][static_cast<std::size_t>(step)];
    }
    m.switch_bytes[g] = at(step);
  }
  return total / static_cast<double>(samples.size());
}

/// The fastest that a GPU of each group sends in any sample, up to `line_rate`.
std::vector<double> fastest(const CollectiveModel& m, std::span<const CollectiveSample> samples, double line_rate) {
  std::vector<double> out(m.gpus.size(), 1e7);
  for (const auto& s : samples) {
    const double gpus = static_cast<double>(s.gpus),
                 wire = wire_bytes(s.op, gpus, static_cast<double>(s.bytes.value()));
    const auto g = static_cast<std::size_t>(std::find(m.gpus.begin(), m.gpus.end(), gpus) - m.gpus.begin());
    out[g] = std::min(std::max(out[g], wire / s.seconds), line_rate);
  }
  return out;
}

}  // namespace

CollectiveModel fit_collective(std::span<const CollectiveSample> samples, double line_rate, double in_switch_from,
                               GroupRates rates) {
  SIM_CHECK(!samples.empty(), "no samples");
  CollectiveModel start;
  start.in_switch_from = in_switch_from;
  std::map<std::int64_t, int> groups;
  for (const auto& s : samples) ++groups[s.gpus];
  for (const auto& [g, n] : groups) start.gpus.push_back(static_cast<double>(g));
  start.switch_bytes.assign(start.gpus.size(), 1 << 20);
  CollectiveModel best;
  double least = 1e300;
  for (double slow : {0.15, 0.5}) {  // two starts: the low-latency protocol far or near in rate
    start.low_latency = {5e-6, 1e-6, 0.1, std::vector<double>(start.gpus.size(), slow * line_rate)};
    start.bulk = {12e-6, 2e-6, 0.2, std::vector<double>(start.gpus.size(), 0.85 * line_rate)};
    if (rates == GroupRates::own) {
      start.bulk.rate = fastest(start, samples, line_rate);
      start.low_latency.rate = start.bulk.rate;
      for (double& rate : start.low_latency.rate) rate *= slow;
    }
    const auto cost = [&](const std::vector<double>& p) {
      CollectiveModel m = unpack_collective(start, p, line_rate, rates);
      return best_switches(m, samples, rates);
    };
    const Law low{1.2 * slow * line_rate, 1, 0}, bulk{line_rate, 1, 0.85 * line_rate};
    const auto first = pack_collective(start, low, bulk, rates);
    const auto found = nelder_mead(cost, first, std::vector<double>(first.size(), 0.4), 12000);
    CollectiveModel m = unpack_collective(start, found, line_rate, rates);
    const double c = best_switches(m, samples, rates);
    if (c < least) {
      least = c;
      best = m;
    }
  }
  return best;
}

FitError collective_error(const CollectiveModel& model, std::span<const CollectiveSample> samples, double from_bytes,
                          double to_bytes) {
  std::vector<double> relative;
  for (const auto& s : samples) {
    const double bytes = static_cast<double>(s.bytes.value());
    if (bytes < from_bytes || bytes >= to_bytes) continue;
    relative.push_back(sim::to_seconds(model.timing(s.op, static_cast<double>(s.gpus), bytes).total()) / s.seconds - 1);
  }
  return summarise(std::move(relative));
}

FitQuality judge_collective(std::span<const CollectiveSample> samples, double line_rate, double in_switch_from,
                            int folds, GroupRates rates) {
  return cross_validate(
      samples, folds, [&](const auto& train) { return fit_collective(train, line_rate, in_switch_from, rates); },
      [](const CollectiveModel& model, const CollectiveSample& s) {
        const double gpus = static_cast<double>(s.gpus), bytes = static_cast<double>(s.bytes.value());
        return Judged{sim::to_seconds(model.timing(s.op, gpus, bytes).total()) / s.seconds - 1, kByBytes.of(bytes)};
      },
      [](const CollectiveSample& s) {
        return Sizes{static_cast<double>(s.gpus), static_cast<double>(s.bytes.value()), 1};
      });
}

}  // namespace orrery::calibration
