// A software generation out of traces. See learn.h.
#include "tools/learn/learn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>

#include "calibration/device/keys.h"
#include "calibration/device/least_squares.h"
#include "calibration/framework/software.h"
#include "scenarios/origin.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/learn/kernel_names.h"
#include "tools/learn/learnt_keys.h"
#include "tools/learn/predicted.h"
#include "tools/parallel.h"

namespace orrery::tools {

using calibration::Point;
using sim::Settings;

namespace {

constexpr double kKnee = 0.1;      // observations that are off by more count linearly: other causes are at work there
constexpr double kTelling = 0.05;  // a feature is believed where the misfit falls by this share of it
constexpr int kMostFeatures = 6;   // tried one after the other
constexpr int kBucketSteps = 64;   // between the smallest and the largest bucket that messages could come from
constexpr int kRounds = 3;         // of each number by itself
constexpr double kMove = 0.02;     // of the box, for slopes
constexpr int kRestarts = 3;       // of the descent
constexpr double kDone = 1e-4;     // of squared residuals a row: none is needed
constexpr double kSmallestTime = 1e-7;

/// The scenario with other numbers in its software.
class Model {
 public:
  Model(const Settings& document, const std::vector<Trace>& measured, unsigned jobs)
      : document_(document), jobs_(jobs) {
    const scenarios::Scenario scenario = scenarios::load_scenario(document);
    ranks_ = ranks_of(measured, scenario.job.parallelism, scenario.job.machine.gpus);
  }

  void set(const std::string& key, const std::string& value) {
    scenarios::apply(document_, {"software." + key, Settings::scalar(value, {"learn", 0, 0})});
  }
  void replace(const Settings& document) { document_ = document; }
  const Settings& document() const { return document_; }

  std::vector<Trace> traces(const Settings& document) const {
    return predict(scenarios::load_scenario(document), ranks_);
  }
  /// Of each of `documents`; nothing for one that does not load.
  template <class Value>
  std::vector<std::optional<Value>> each(const std::vector<Settings>& documents,
                                         const std::function<Value(const std::vector<Trace>&)>& look) {
    std::vector<std::optional<Value>> out(documents.size());
    const std::vector<char> done = for_each_parallel(documents.size(), jobs_, "simulations", [&](std::size_t i) {
      try {
        out[i] = look(traces(documents[i]));
      } catch (const sim::UserError&) {  // a feature that contradicts another, a number that no step survives
      }
    });
    if (std::find(done.begin(), done.end(), 0) != done.end()) throw LearningInterrupted{};
    simulations_ += documents.size();
    return out;
  }
  Observations observed() const { return observe(traces(document_)); }
  std::size_t simulations() const { return simulations_; }

 private:
  Settings document_;
  unsigned jobs_;
  std::vector<std::int64_t> ranks_;
  std::size_t simulations_ = 0;
};

std::string text_of(double value, std::string_view unit) {
  return unit.empty() ? fmt::format("{:.6g}", value) : fmt::format("{:.6g} {}", value, unit);
}

/// A relative difference that counts what is nearly nothing as nothing.
double residual(const std::string& name, double predicted, double measured) {
  const bool time = name.starts_with("host.") || name.starts_with("time.") || name.starts_with("call.");
  return (predicted - measured) / std::max(std::abs(measured), time ? kSmallestTime : 1e-3);
}

double huber(double r) {
  const double a = std::abs(r);
  return a <= kKnee ? a * a : kKnee * (2 * a - kKnee);
}

/// Over the names of both; what one of them lacks counts as all of it.
double misfit(const Observations& measured, const Observations& predicted) {
  double sum = 0;
  for (const auto& [name, one] : measured) {
    const auto twin = predicted.find(name);
    sum += huber(twin == predicted.end() ? 1 : residual(name, twin->second.value, one.value));
  }
  for (const auto& [name, one] : predicted) sum += measured.contains(name) ? 0 : huber(1);
  return sum;
}

double mean_difference(const Observations& measured, const Observations& predicted) {
  double sum = 0;
  std::size_t n = 0;
  for (const auto& [name, one] : measured) {
    const auto twin = predicted.find(name);
    if (twin == predicted.end()) continue;
    sum += std::min(1.0, std::abs(residual(name, twin->second.value, one.value)));
    ++n;
  }
  return n > 0 ? sum / static_cast<double>(n) : 1;
}

/// Downhill from `at` in the numbers of `smooth`, the others as they are.
calibration::LeastSquaresFit descend(const calibration::Residuals& residuals, const Point& at,
                                     const std::vector<std::size_t>& smooth) {
  calibration::LeastSquaresOptions options;
  options.iterations = 20;
  options.knee = kKnee;
  Point start;
  for (const std::size_t k : smooth) start.push_back(at[k]);
  return calibration::least_squares(
      [&](const std::vector<Point>& points) {
        std::vector<Point> whole(points.size(), at);
        for (std::size_t p = 0; p < points.size(); ++p) {
          for (std::size_t k = 0; k < smooth.size(); ++k) whole[p][smooth[k]] = points[p][k];
        }
        return residuals(whole);
      },
      start, options);
}

/// `at` with the one number moved that, of those of `smooth` over their whole ranges, brings it lowest.
Point best_aside(const calibration::Residuals& residuals, const Point& at, const std::vector<std::size_t>& smooth) {
  static constexpr double kGrid[] = {0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1};
  std::vector<Point> points;
  for (const std::size_t k : smooth) {
    for (const double x : kGrid) {
      points.push_back(at);
      points.back()[k] = x;
    }
  }
  const auto seen = residuals(points);
  std::size_t best = 0;
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t p = 0; p < points.size(); ++p) {
    double cost = 0;
    for (const double r : seen[p]) cost += huber(r);
    if (cost >= lowest) continue;
    lowest = cost;
    best = p;
  }
  return points[best];
}

/// The least squares over the twins.
class Solver {
 public:
  Solver(Model& model, const Observations& measured) : model_(model), measured_(measured) {
    const Observations now = model_.observed();
    std::set<std::string> rows;
    for (const LearntKey& key : learnt_keys()) {
      bool any = false;
      for (const auto& [name, one] : measured_) {
        if (!rests_on(key, name) || !now.contains(name)) continue;
        rows.insert(name);
        any = true;
      }
      if (any) keys_.push_back(&key);
    }
    rows_.assign(rows.begin(), rows.end());
  }

  bool nothing() const { return keys_.empty(); }

  std::vector<LearntNumber> solve() {
    Point at;
    for (const LearntKey* key : keys_) at.push_back(to_box(*key, first_guess(*key)));
    for (int round = 0; round < kRounds; ++round) one_by_one(at);
    std::vector<std::size_t> smooth;
    for (std::size_t k = 0; k < keys_.size(); ++k) {
      if (keys_[k]->step == 0) smooth.push_back(k);
    }
    const calibration::Residuals by_point = [&](const std::vector<Point>& points) { return residuals(points); };
    calibration::LeastSquaresFit fit = descend(by_point, at, smooth);
    // What overlaps what changes with the numbers, so that the way down may end in a hollow: from elsewhere, then.
    const auto is_done = [&] { return fit.cost <= kDone * static_cast<double>(rows_.size()); };
    if (!is_done()) {
      Point guessed = at;
      for (const std::size_t k : smooth) guessed[k] = to_box(*keys_[k], first_guess(*keys_[k]));
      calibration::LeastSquaresFit other = descend(by_point, guessed, smooth);
      if (other.cost < fit.cost) fit = std::move(other);
    }
    for (int again = 0; again < kRestarts && !is_done(); ++again) {
      for (std::size_t k = 0; k < smooth.size(); ++k) at[smooth[k]] = fit.at[k];
      const Point aside = best_aside(by_point, at, smooth);
      calibration::LeastSquaresFit next = descend(by_point, aside, smooth);
      if (next.cost >= fit.cost) break;
      fit = std::move(next);
    }
    const calibration::Determination sure = calibration::determination(fit);
    for (std::size_t k = 0; k < smooth.size(); ++k) {
      at[smooth[k]] = fit.at[k];
      slopes_[smooth[k]] = fit.jacobian[k];
    }
    std::vector<LearntNumber> out;
    for (std::size_t k = 0; k < keys_.size(); ++k) {
      const auto smoothly = std::find(smooth.begin(), smooth.end(), k);
      const double error =
          smoothly == smooth.end() ? 0 : sure.standard_error[static_cast<std::size_t>(smoothly - smooth.begin())];
      LearntNumber number = number_of(k, at[k], error);
      if (number.determined) model_.set(number.key, text_of(number.value, number.unit));
      out.push_back(std::move(number));
    }
    return out;
  }

 private:
  static bool rests_on(const LearntKey& key, const std::string& name) {
    return std::any_of(key.rests_on.begin(), key.rests_on.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
  }

  double inherited(const LearntKey& key) const {
    const calibration::Generation generation = scenarios::referred_software(model_.document());
    const std::string place = calibration::present_key(std::string(key.key));
    const sim::Key* known = calibration::software_keys().find(place);
    SIM_CHECK(known != nullptr, "no generation has the key {}", key.key);
    const Settings fallback = Settings::scalar(known->fallback, {"default", 0, 0});
    const Settings* value = generation.document.find_path(place);
    if (value == nullptr) value = &fallback;
    return key.unit.empty() ? value->as_number() : sim::to_seconds(value->as_duration()) * 1e6;
  }

  /// Where the descent begins: what an observation says at once.
  double first_guess(const LearntKey& key) const {
    const auto seen = [&](const char* name) -> std::optional<double> {
      const auto at = measured_.find(name);
      return at == measured_.end() ? std::nullopt : std::optional(at->second.value);
    };
    const auto launch = seen("host.forward"), back = seen("host.backward"), call = seen("host.call.other"),
               tensor = seen("host.call.tensor"), begin = seen("host.forward_begin");
    if (key.key == "kernel_issue" && launch) return 1e6 * *launch;
    if (key.key == "backward_issue_share" && launch && back && *launch > 0) return *back / *launch;
    if (key.key == "transfer_issue" && call) return 1e6 * *call;
    if (key.key == "tensor_call" && tensor && call) return 1e6 * (*tensor - *call);
    if (key.key == "microbatch_host" && begin && launch) return 1e6 * (*begin - *launch);
    return inherited(key);
  }

  /// Each number by itself, by the observations that it rests on: steps over whole numbers, which slopes do not see,
  /// and a start for the others. Numbers that share their observations wait for all of them to be fitted together.
  void one_by_one(Point& at) {
    std::vector<Point> points{at};
    std::vector<double> moves(keys_.size());
    for (std::size_t k = 0; k < keys_.size(); ++k) {
      const LearntKey& key = *keys_[k];
      moves[k] = key.step > 0 ? key.step / (key.high - key.low) : kMove;
      if (at[k] + moves[k] > 1) moves[k] = -moves[k];
      points.push_back(at);
      points.back()[k] += moves[k];
    }
    const auto seen = residuals(points);
    slopes_.assign(keys_.size(), std::vector<double>(rows_.size()));
    for (std::size_t k = 0; k < keys_.size(); ++k) {
      const LearntKey& key = *keys_[k];
      double along = 0, square = 0;
      for (std::size_t row = 0; row < rows_.size(); ++row) {
        const double slope = slopes_[k][row] = (seen[k + 1][row] - seen[0][row]) / moves[k];
        if (!rests_on(key, rows_[row])) continue;
        along += slope * seen[0][row];
        square += slope * slope;
      }
      const bool shared = key.rests_on.front() == "call." || key.rests_on.front() == "host.experts.";
      if (shared || square == 0) continue;
      double value = from_box(key, std::clamp(at[k] - along / square, 0.0, 1.0));
      if (key.step > 0) value = key.low + key.step * std::round((value - key.low) / key.step);
      at[k] = to_box(key, value);
    }
  }

  static double to_box(const LearntKey& key, double value) {
    return std::clamp((value - key.low) / (key.high - key.low), 0.0, 1.0);
  }
  static double from_box(const LearntKey& key, double x) { return key.low + x * (key.high - key.low); }

  std::vector<std::vector<double>> residuals(const std::vector<Point>& points) {
    std::vector<Settings> documents;
    for (const Point& point : points) {
      Settings document = model_.document();
      for (std::size_t k = 0; k < keys_.size(); ++k) {
        const std::string value = text_of(from_box(*keys_[k], point[k]), keys_[k]->unit);
        scenarios::apply(document,
                         {"software." + std::string(keys_[k]->key), Settings::scalar(value, {"learn", 0, 0})});
      }
      documents.push_back(std::move(document));
    }
    const auto seen =
        model_.each<Observations>(documents, [](const std::vector<Trace>& traces) { return observe(traces); });
    std::vector<std::vector<double>> out;
    for (const auto& one : seen) {
      out.emplace_back();
      for (const std::string& name : rows_) {
        const bool there = one && one->contains(name);
        out.back().push_back(there ? residual(name, one->at(name).value, measured_.at(name).value) : 1);
      }
    }
    return out;
  }

  /// `x`: where it was found in its box, to the standard error `error`.
  LearntNumber number_of(std::size_t k, double x, double error) const {
    const LearntKey& key = *keys_[k];
    LearntNumber number{
        std::string(key.key), std::string(key.unit), from_box(key, x), inherited(key), 0, 0, {}, false, 0, 0};
    std::vector<std::size_t> order;
    for (std::size_t row = 0; row < rows_.size(); ++row) order.push_back(row);
    const std::vector<double>& slopes = slopes_[k];
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return std::abs(slopes[a]) > std::abs(slopes[b]); });
    const double steepest = rows_.empty() ? 0 : std::abs(slopes[order.front()]);
    // A change of the whole range that moves no observation by a thousandth is no evidence.
    number.determined = steepest > 1e-3 && error < calibration::kSpread / 2;
    for (std::size_t i = 0; i < order.size() && i < 3; ++i) {
      if (std::abs(slopes[order[i]]) < 0.2 * steepest || steepest == 0) break;
      number.rests_on += (i > 0 ? ", " : "") + rows_[order[i]];
    }
    if (steepest > 0) {
      const Observation& main = measured_.at(rows_[order.front()]);
      number.samples = main.samples;
      const double relative = main.spread / std::max(std::abs(main.value), kSmallestTime);
      number.spread = relative / steepest * (key.high - key.low);
    }
    return number;
  }

  Model& model_;
  const Observations& measured_;
  std::vector<const LearntKey*> keys_;
  std::vector<std::string> rows_;
  std::vector<std::vector<double>> slopes_;  // of each key over its box, by row
};

/// How unlike two lists of sizes are: sizes that one has more of than the other.
double unlike(const std::vector<double>& a, const std::vector<double>& b) {
  std::size_t i = 0, j = 0;
  double alone = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && std::abs(a[i] - b[j]) < 1e-3 * b[j]) {
      ++i;
      ++j;
    } else {
      ++alone;
      const bool first = j == b.size() || (i < a.size() && a[i] < b[j]);
      (first ? i : j) += 1;
    }
  }
  return alone;
}

/// A bucket is what makes messages of the sizes seen. Any size between a whole number of layers and one layer less
/// makes the same, so the middle of them stands.
std::optional<LearntNumber> learn_bucket(Model& model, const std::vector<Trace>& measured, const std::string& key,
                                         const std::vector<OpClass>& operations) {
  const auto sizes_of = [&](const std::vector<Trace>& traces) {
    std::vector<double> all;
    for (const OpClass operation : operations) {
      const std::vector<double> some = bucket_bytes(traces, operation);
      all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  // Several steps of the trace against one of the prediction.
  std::vector<double> seen = sizes_of(measured), once;
  const std::size_t steps = measured.front().steps.size();
  for (std::size_t i = steps / 2; i < seen.size(); i += steps) once.push_back(seen[i]);
  if (once.empty()) return std::nullopt;
  const std::vector<double> now = sizes_of(model.traces(model.document()));
  if (now.empty() || unlike(now, once) == 0) return std::nullopt;
  std::vector<double> sizes;
  std::vector<Settings> documents;
  for (int i = 0; i < kBucketSteps; ++i) {
    sizes.push_back(1.05 * once.back() * std::pow(0.01, static_cast<double>(i) / (kBucketSteps - 1)));
    documents.push_back(model.document());
    scenarios::apply(documents.back(),
                     {"software." + key, Settings::scalar(fmt::format("{:.0f} B", sizes.back()), {"learn", 0, 0})});
  }
  const auto tried = model.each<std::vector<double>>(documents, sizes_of);
  double best = unlike(now, once);
  std::size_t first = sizes.size(), last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double here = tried[i] ? unlike(*tried[i], once) : best + 1;
    if (here > best || (here == best && first == sizes.size())) continue;
    if (here < best) first = i;
    best = here;
    last = i;
  }
  if (first == sizes.size()) return std::nullopt;
  LearntNumber number{
      key, "MB", 0, 0, 0, once.size() * steps, "sizes of messages", true, sizes[last] / 1e6, sizes[first] / 1e6};
  number.value = (number.low + number.high) / 2;
  const calibration::Generation generation = scenarios::referred_software(model.document());
  if (const Settings* value = generation.document.find_path(calibration::present_key(key)))
    number.inherited = static_cast<double>(value->as_bytes().value()) / 1e6;
  model.set(key, text_of(number.value, "MB"));
  return number;
}

/// Features of the catalogue, each put on or off, the most telling first.
void learn_features(Model& model, const Observations& measured, Learnt& learnt) {
  double now = misfit(measured, model.observed());
  for (int round = 0; round < kMostFeatures; ++round) {
    std::set<std::string> used;
    for (const calibration::UsedFeature& feature : scenarios::referred_software(model.document()).features)
      used.insert(feature.name);
    std::vector<std::string> names = scenarios::shipped("features");
    std::vector<Settings> documents;
    for (const std::string& name : names) {
      Settings document = model.document();
      if (used.contains(name)) {
        document = scenarios::without_feature(document, name);
      } else {
        std::vector<std::string> all = learnt.features;
        all.push_back(name);
        scenarios::apply_set(document, fmt::format("software.features=[{}]", fmt::join(all, ", ")));
      }
      documents.push_back(std::move(document));
    }
    const auto tried = model.each<double>(
        documents, [&](const std::vector<Trace>& traces) { return misfit(measured, observe(traces)); });
    std::size_t best = names.size();
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (tried[i] && (best == names.size() || *tried[i] < *tried[best])) best = i;
    }
    if (best == names.size() || *tried[best] > now * (1 - kTelling) || now < 1e-3) return;
    now = *tried[best];
    (used.contains(names[best]) ? learnt.without : learnt.features).push_back(names[best]);
    model.replace(documents[best]);
  }
}

/// Those of `more` in place of those of the same key.
void merge(std::vector<LearntNumber>& numbers, std::vector<LearntNumber> more) {
  for (LearntNumber& number : more) {
    const auto at = std::find_if(numbers.begin(), numbers.end(),
                                 [&](const LearntNumber& other) { return other.key == number.key; });
    if (at == numbers.end()) {
      numbers.push_back(std::move(number));
    } else {
      number.inherited = at->inherited;
      *at = std::move(number);
    }
  }
}

}  // namespace

Learnt learn(const Settings& document, const std::vector<Trace>& measured, unsigned jobs) {
  Model model(document, measured, jobs);
  const Observations seen = observe(measured);
  Learnt learnt;
  learnt.observations = seen.size();
  learnt.misfit_before = mean_difference(seen, model.observed());
  for (const auto& [key, operations] : std::initializer_list<std::pair<const char*, std::vector<OpClass>>>{
           {"gradient_bucket", {OpClass::reduce_scatter, OpClass::all_reduce}},
           {"parameter_bucket", {OpClass::all_gather}}}) {
    if (auto bucket = learn_bucket(model, measured, key, operations)) learnt.numbers.push_back(std::move(*bucket));
  }
  const auto solve = [&] {
    Solver solver(model, seen);
    if (solver.nothing()) {
      throw sim::UserError({measured.front().file, 1, 1}, "traceEvents",
                           "shows nothing that the scenario's step would, expected a trace of this very job");
    }
    merge(learnt.numbers, solver.solve());
  };
  solve();
  learn_features(model, seen, learnt);
  if (!learnt.features.empty() || !learnt.without.empty()) solve();
  learnt.misfit_after = mean_difference(seen, model.observed());
  learnt.simulations = model.simulations();
  return learnt;
}

}  // namespace orrery::tools
