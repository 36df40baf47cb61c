// Fit of the protocol model, one operation of one device at a time. The switch of each group size is found exactly: for
// given protocols, the split of the samples by size with the least error.
#include <algorithm>
#include <cmath>
#include <map>

#include "calibration/fit.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

std::vector<double> pack(const CollectiveModel& m) {
  std::vector<double> p;
  for (const Protocol* q : {&m.low_latency, &m.bulk}) {
    p.push_back(std::log(q->base)), p.push_back(std::log(q->hop)), p.push_back(std::log(q->overlap));
    for (double r : q->rate) p.push_back(std::log(r));
  }
  return p;
}

CollectiveModel unpack(CollectiveModel m, const std::vector<double>& p, double line_rate) {
  std::size_t i = 0;
  const auto take = [&](double low, double high) { return std::clamp(std::exp(p[i++]), low, high); };
  for (Protocol* q : {&m.low_latency, &m.bulk}) {
    q->base = take(1e-6, 1e-4), q->hop = take(1e-8, 2e-5), q->overlap = take(0, 1);
    for (double& r : q->rate) r = take(1e9, line_rate);
  }
  return m;
}

/// Errors weigh more from a megabyte up, where training spends its time.
double weight(const CollectiveSample& s) { return s.bytes.value() >= 1 << 20 ? 2.0 : 1.0; }

/// Sets the switches of `m` to their best and returns the cost.
double best_switches(CollectiveModel& m, std::span<const CollectiveSample> samples) {
  double cost = 0;
  for (std::size_t g = 0; g < m.gpus.size(); ++g) {
    std::vector<const CollectiveSample*> own;
    for (const auto& s : samples)
      if (static_cast<double>(s.gpus) == m.gpus[g]) own.push_back(&s);
    std::sort(own.begin(), own.end(), [](auto* a, auto* b) { return a->bytes < b->bytes; });
    std::vector<double> low, high;
    double all_high = 0;
    for (const auto* s : own) {
      const double bytes = static_cast<double>(s->bytes.value()), measured = std::log(s->seconds), w = weight(*s);
      low.push_back(w * robust_error(std::log(m.low_latency_part(s->op, m.gpus[g], bytes).seconds) - measured));
      high.push_back(w * robust_error(std::log(m.bulk_part(s->op, m.gpus[g], bytes).seconds) - measured));
      all_high += high.back();
    }
    double running = all_high, best = all_high;
    m.switch_bytes[g] = own.empty() ? 1 << 20 : static_cast<double>(own.front()->bytes.value()) / 2;
    for (std::size_t i = 0; i < own.size(); ++i) {
      running += low[i] - high[i];
      if (running < best) {
        best = running;
        const double here = static_cast<double>(own[i]->bytes.value());
        m.switch_bytes[g] =
            i + 1 < own.size() ? std::sqrt(here * static_cast<double>(own[i + 1]->bytes.value())) : here * 2;
      }
    }
    cost += best;
  }
  return cost / static_cast<double>(samples.size());
}

}  // namespace

CollectiveModel fit_collective(std::span<const CollectiveSample> samples, double line_rate, double in_switch_from) {
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
    const auto cost = [&](const std::vector<double>& p) {
      CollectiveModel m = unpack(start, p, line_rate);
      return best_switches(m, samples);
    };
    const auto first = pack(start);
    const auto found = nelder_mead(cost, first, std::vector<double>(first.size(), 0.4), 12000);
    CollectiveModel m = unpack(start, found, line_rate);
    const double c = best_switches(m, samples);
    if (c < least) least = c, best = m;
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
                            int folds) {
  std::vector<Judged> held_out;
  FitQuality out;
  out.from = {1e18, 1e18, 1};
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<CollectiveSample> train, test;
    for (std::size_t i = 0; i < samples.size(); ++i) (fold_of(i, folds) == fold ? test : train).push_back(samples[i]);
    if (train.empty()) continue;
    const CollectiveModel model = fit_collective(train, line_rate, in_switch_from);
    for (const auto& s : test) {
      const double gpus = static_cast<double>(s.gpus), bytes = static_cast<double>(s.bytes.value());
      const double predicted = sim::to_seconds(model.timing(s.op, gpus, bytes).total());
      held_out.push_back({predicted / s.seconds - 1, kByBytes.of(bytes)});
    }
  }
  const Sizes none = out.from;
  out = quality_of(held_out, folds);
  out.from = none;
  for (const auto& s : samples) {
    const Sizes sizes{static_cast<double>(s.gpus), static_cast<double>(s.bytes.value()), 1};
    for (std::size_t i = 0; i < 2; ++i)
      out.from[i] = std::min(out.from[i], sizes[i]), out.to[i] = std::max(out.to[i], sizes[i]);
  }
  return out;
}

}  // namespace orrery::calibration
