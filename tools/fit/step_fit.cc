// Simulating rows at points, least squares over them, and what is left out of a fit predicted by it.
#include "tools/fit/step_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/parallel.h"
#include "workloads/step/step_cache.h"

namespace orrery::tools {

using calibration::LeastSquaresFit;
using calibration::Point;

struct RowSimulator::Memory {
  const StepFit& fit;
  unsigned jobs;
  /// By row and the values that it reads: what was simulated once is known.
  std::map<std::pair<std::size_t, std::vector<double>>, double> known;
  workloads::StepCache cache;

  std::vector<double> read_by(std::size_t row, const Point& at) const {
    std::vector<double> values;
    for (std::size_t p = 0; p < at.size(); ++p) {
      if (fit.rows[row].affected[p] != 0) values.push_back(at[p]);
    }
    return values;
  }

  double simulate(std::size_t index, const Point& at) {
    const FitRow& row = fit.rows[index];
    sim::Settings record = row.record;
    for (std::size_t p = 0; p < at.size(); ++p) {
      if (row.affected[p] == 0) continue;
      const FitParameter& parameter = fit.parameters[p];
      const std::string text = parameter.text_of(parameter.from_box(at[p]));
      scenarios::apply(record, {parameter.path, sim::Settings::scalar(text, {fit.file, 0, 0})});
    }
    workloads::Question options;
    if (!fit.memory) options.parts = workloads::Question::Parts::times;
    options.cache = &cache;
    const ValidationRow answer = validate_record({row.list, record}, {}, options);
    if (answer.internal) throw sim::InternalError(fmt::format("{}: {}", row.id, answer.message));
    if (answer.status == RowStatus::error)
      throw sim::UserError(fmt::format("{}: {}: {}", fit.file, row.id, answer.message));
    const auto measured = fit.memory ? answer.memory.measured_gb : answer.measured;
    const auto predicted = fit.memory ? answer.memory.predicted_gb : answer.predicted;
    if (!measured || !predicted || *measured <= 0 || *predicted <= 0) {
      throw sim::UserError(fmt::format("{}: {}: nothing was measured that a fit could use", fit.file, row.id));
    }
    // A rate is the reciprocal of a time: one sign for slower, whatever the source printed.
    const bool rate = !fit.memory && answer.metric != "iteration_s";
    return (rate ? -1 : 1) * std::log(*predicted / *measured);
  }
};

RowSimulator::RowSimulator(const StepFit& fit, unsigned jobs)
    : memory_(new Memory{fit, jobs, {}, workloads::StepCache{}}) {}
RowSimulator::~RowSimulator() { delete memory_; }
std::size_t RowSimulator::simulations() const { return memory_->known.size(); }

std::vector<std::vector<double>> RowSimulator::residuals(const std::vector<std::size_t>& which,
                                                         const std::vector<Point>& points) {
  using Key = std::pair<std::size_t, std::vector<double>>;
  std::map<Key, std::size_t> wanted;  // to the point that asked first
  for (std::size_t p = 0; p < points.size(); ++p) {
    for (const std::size_t row : which) {
      Key key{row, memory_->read_by(row, points[p])};
      if (memory_->known.count(key) == 0) wanted.emplace(std::move(key), p);
    }
  }
  std::vector<std::pair<const Key*, std::size_t>> tasks;
  for (const auto& [key, point] : wanted) tasks.emplace_back(&key, point);
  std::vector<double> answers(tasks.size());
  const std::vector<char> finished = for_each_parallel(tasks.size(), memory_->jobs, "rows", [&](std::size_t i) {
    answers[i] = memory_->simulate(tasks[i].first->first, points[tasks[i].second]);
  });
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (finished[i] == 0) throw Interrupted{};
    memory_->known.emplace(*tasks[i].first, answers[i]);
  }
  std::vector<std::vector<double>> out;
  for (const Point& point : points) {
    out.emplace_back();
    for (const std::size_t row : which) out.back().push_back(memory_->known.at({row, memory_->read_by(row, point)}));
  }
  return out;
}

namespace {

std::vector<double> weights_of(const StepFit& fit, const std::vector<std::size_t>& which) {
  if (!fit.by_list) return {};
  std::map<std::string, double> count;
  for (const std::size_t row : which) ++count[fit.rows[row].list];
  std::vector<double> weights;
  for (const std::size_t row : which) {
    weights.push_back(static_cast<double>(which.size()) / static_cast<double>(count.size()) /
                      count[fit.rows[row].list]);
  }
  return weights;
}

/// One residual more for each parameter that has a prior: Tikhonov's ridge. At its prior's distance from the start it
/// is as large as rows commonly miss by.
void add_ridge(const StepFit& fit, const Point& at, std::vector<double>& residuals) {
  if (fit.ridge == 0) return;
  for (std::size_t p = 0; p < fit.parameters.size(); ++p) {
    const FitParameter& parameter = fit.parameters[p];
    if (parameter.prior > 0)
      residuals.push_back(fit.ridge * kRowMiss * (parameter.from_box(at[p]) - parameter.start) / parameter.prior);
  }
}

/// What rows alone say: a fit without the ridge's residuals.
LeastSquaresFit of_rows(LeastSquaresFit fit, std::size_t rows) {
  fit.residuals.resize(std::min(rows, fit.residuals.size()));
  fit.weights.resize(std::min(rows, fit.weights.size()));
  for (std::vector<double>& column : fit.jacobian) column.resize(std::min(rows, column.size()));
  return fit;
}

LeastSquaresFit fit_rows(const StepFit& fit, RowSimulator& simulator, const std::vector<std::size_t>& which,
                         const Point& start, int iterations) {
  calibration::LeastSquaresOptions options;
  options.iterations = iterations;
  if (fit.loss == RowLoss::robust) options.knee = kRobustKnee;
  if (fit.loss == RowLoss::heavy_tailed) options.tail = kRowMiss;
  options.exact_from = which.size();  // the ridge
  options.weights = weights_of(fit, which);
  if (fit.ridge > 0 && !options.weights.empty()) options.weights.resize(which.size() + fit.parameters.size(), 1);
  return calibration::least_squares(
      [&](const std::vector<Point>& points) {
        std::vector<std::vector<double>> residuals = simulator.residuals(which, points);
        for (std::size_t p = 0; p < points.size(); ++p) add_ridge(fit, points[p], residuals[p]);
        return residuals;
      },
      start, options);
}

/// The part that each row is held out with, and the names of the parts.
std::vector<std::size_t> parts_of(const StepFit& fit, std::vector<std::string>& names) {
  std::vector<std::size_t> part(fit.rows.size(), 0);
  for (std::size_t i = 0; i < fit.rows.size(); ++i) {
    if (fit.hold_lists) {
      const auto known = std::find(names.begin(), names.end(), fit.rows[i].list);
      part[i] = static_cast<std::size_t>(known - names.begin());
      if (known == names.end()) names.push_back(fit.rows[i].list);
    } else {
      part[i] = i % static_cast<std::size_t>(std::max(fit.folds, 1));
    }
  }
  if (!fit.hold_lists) {
    for (int f = 0; f < fit.folds; ++f) names.push_back(fmt::format("fold {}", f + 1));
  }
  return part;
}

/// The n-th point of Halton's sequence, n from 1: the first is the middle of the box.
Point spread_point(int n, std::size_t coordinates) {
  constexpr int kBases[] = {2,  3,  5,  7,  11, 13, 17, 19, 23, 29, 31,  37,  41,  43,  47,
                            53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113};
  if (n == 1) return Point(coordinates, 0.5);
  Point point;
  for (std::size_t c = 0; c < coordinates; ++c) {
    double value = 0, digit = 1;
    for (int rest = n; rest > 0; rest /= kBases[c]) value += (digit /= kBases[c]) * (rest % kBases[c]);
    point.push_back(value);
  }
  return point;
}

}  // namespace

FitOutcome run_step_fit(const StepFit& fit, unsigned jobs) {
  RowSimulator simulator(fit, jobs);
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < fit.rows.size(); ++i) all.push_back(i);
  Point start;
  for (const FitParameter& p : fit.parameters) start.push_back((p.start - p.low) / (p.high - p.low));
  FitOutcome out;
  out.before = simulator.residuals(all, {start}).front();
  // A parameter may do nothing where the descent begins (the host waits for the device) and much elsewhere.
  for (int n = 0; n < fit.starts; ++n) {
    LeastSquaresFit found = fit_rows(fit, simulator, all, n == 0 ? start : spread_point(n, start.size()), 25);
    out.optima.push_back(found.cost);
    if (n == 0 || found.cost < out.fit.cost) out.fit = std::move(found);
  }
  out.fit = of_rows(std::move(out.fit), all.size());
  out.determination = calibration::determination(out.fit);
  out.after = out.fit.residuals;
  out.held.assign(all.size(), std::nullopt);
  std::vector<std::string> names;
  const std::vector<std::size_t> part = parts_of(fit, names);
  for (std::size_t f = 0; f < names.size() && names.size() > 1; ++f) {
    std::vector<std::size_t> kept, held;
    for (const std::size_t row : all) (part[row] == f ? held : kept).push_back(row);
    if (held.empty() || (fit.ridge == 0 && kept.size() < fit.parameters.size())) continue;
    const LeastSquaresFit without = fit_rows(fit, simulator, kept, out.fit.at, 8);
    const std::vector<double> errors = simulator.residuals(held, {without.at}).front();
    for (std::size_t i = 0; i < held.size(); ++i) out.held[held[i]] = errors[i];
    out.fold_optima.push_back(without.at);
  }
  out.simulations = simulator.simulations();
  return out;
}

std::vector<Verdict> verdicts(const StepFit& fit, const FitOutcome& outcome) {
  constexpr double kStrong = 0.9, kAtBound = 1e-6;
  std::vector<Verdict> out;
  for (std::size_t p = 0; p < fit.parameters.size(); ++p) {
    const FitParameter& parameter = fit.parameters[p];
    const double at = outcome.fit.at[p], error = outcome.determination.standard_error[p];
    Verdict v;
    v.value = parameter.from_box(at);
    v.standard_error = error * (parameter.high - parameter.low);
    v.fold_low = v.fold_high = v.value;
    for (const Point& optimum : outcome.fold_optima) {
      v.fold_low = std::min(v.fold_low, parameter.from_box(optimum[p]));
      v.fold_high = std::max(v.fold_high, parameter.from_box(optimum[p]));
    }
    v.at_bound = at <= kAtBound || at >= 1 - kAtBound;
    v.determined = error < calibration::kSpread / 2;
    double strongest = kStrong;
    for (std::size_t q = 0; q < fit.parameters.size(); ++q) {
      const double r = std::abs(outcome.determination.correlation[p][q]);
      if (q == p || r < strongest) continue;
      strongest = r;
      v.partner = fmt::format("{} of {} ({:+.2f})", fit.parameters[q].path, fit.parameters[q].document,
                              outcome.determination.correlation[p][q]);
    }
    out.push_back(std::move(v));
  }
  return out;
}

}  // namespace orrery::tools
