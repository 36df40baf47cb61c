// Means and percentiles.
#include "workloads/runs/campaign/distribution.h"

#include <algorithm>
#include <cmath>

namespace orrery::campaign {

namespace {

std::size_t rank_of(double share, std::size_t count) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(count)));
  return rank > 0 ? rank - 1 : 0;
}

template <class Value>
Distribution over(const std::vector<Outcome>& outcomes, const Value& value) {
  std::vector<double> values;
  values.reserve(outcomes.size());
  for (const Outcome& outcome : outcomes) values.push_back(value(outcome));
  return distribution(std::move(values));
}

std::size_t median_of(const Plan& plan, const std::vector<Outcome>& outcomes) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    order.emplace_back(plan.window ? goodput(outcomes[i]) : wall_s(outcomes[i]), i);
  std::sort(order.begin(), order.end());
  return order.empty() ? 0 : order[rank_of(0.5, order.size())].second;
}

}  // namespace

Distribution distribution(std::vector<double> values) {
  Distribution result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  for (const double value : values) result.mean += value / count;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  constexpr double k95 = 1.959964;
  if (values.size() > 1) result.error = k95 * std::sqrt(squares / (count - 1) / count);
  constexpr double kRounding = 1e-12;  // of sums and quotients of doubles: values that are alike but for it do not vary
  if (result.error < kRounding * std::abs(result.mean)) result.error = 0;
  result.p5 = values[rank_of(0.05, values.size())];
  result.p50 = values[rank_of(0.5, values.size())];
  result.p95 = values[rank_of(0.95, values.size())];
  return result;
}

double wall_s(const Outcome& outcome) { return to_seconds(outcome.wall); }

double goodput(const Outcome& outcome) {
  return outcome.wall > Elapsed{} ? to_seconds(at(outcome.shares, Share::work)) / wall_s(outcome) : 0;
}

double ettr(const Outcome& outcome) {
  double productive = 0;
  for (const Share share :
       {Share::work, Share::excess, Share::data, Share::fewer_replicas, Share::slow, Share::evaluation})
    productive += to_seconds(at(outcome.shares, share));
  return outcome.wall > Elapsed{} ? productive / wall_s(outcome) : 0;
}

double mttr_s(const Outcome& outcome) {
  double down = 0;
  for (const Tally& tally : outcome.causes) down += to_seconds(tally.down);
  return outcome.failures > 0 ? down / static_cast<double>(outcome.failures) : 0;
}

double mtbf_s(const Outcome& outcome) {
  return wall_s(outcome) / static_cast<double>(std::max<std::int64_t>(1, outcome.failures));
}

Summary summarise(const Plan& plan, const std::vector<Outcome>& outcomes) {
  Summary summary;
  summary.seeds = outcomes.size();
  for (const Outcome& outcome : outcomes) summary.finished += outcome.finished ? 1 : 0;
  summary.wall_s = over(outcomes, wall_s);
  summary.goodput = over(outcomes, goodput);
  summary.ettr = over(outcomes, ettr);
  summary.mttr_s = over(outcomes, mttr_s);
  summary.mtbf_s = over(outcomes, mtbf_s);
  const auto count = [&](auto member) {
    return over(outcomes, [member](const Outcome& outcome) { return static_cast<double>(outcome.*member); });
  };
  summary.failures = count(&Outcome::failures);
  summary.planned_stops = count(&Outcome::planned_stops);
  summary.degradations = count(&Outcome::degradations);
  summary.steps = count(&Outcome::steps);
  for (std::size_t s = 0; s < kShares; ++s)
    summary.shares_s.push_back(over(outcomes, [s](const Outcome& outcome) { return to_seconds(outcome.shares[s]); }));
  for (std::size_t i = 0; i < plan.hazards.size(); ++i) {
    const auto tally = [&](const auto& value) {
      return over(outcomes, [&](const Outcome& outcome) { return value(outcome.causes[i]); });
    };
    summary.causes.push_back({plan.hazards[i].name, plan.hazards[i].effect,
                              tally([](const Tally& t) { return static_cast<double>(t.count); }),
                              tally([](const Tally& t) { return to_seconds(t.lost); }),
                              tally([](const Tally& t) { return to_seconds(t.down); })});
  }
  summary.median = median_of(plan, outcomes);
  return summary;
}

}  // namespace orrery::campaign
