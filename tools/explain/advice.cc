// The study behind the advice. What a bound proves to be far slower is not simulated; what does not fit the memory is
// not either, but its bound says what it might be worth in a pair with a change that makes it fit. Left out: three
// changes at once; who wants them takes the first suggestion and asks again.
#include "tools/explain/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "scenarios/would_fit.h"
#include "sim/error.h"
#include "tools/parallel.h"
#include "tools/study/point.h"
#include "workloads/memory/memory.h"
#include "workloads/step/step_bound.h"

namespace orrery::tools {

namespace {

using Exposed = std::array<double, workloads::kCategories>;
using scenarios::Scenario;

// What takes longer than the best found by more than this is worth no simulation: a second change seldom makes up for
// it.
constexpr double kFarSlower = 1.2;
constexpr const char* kToFit = "to fit the memory";
constexpr double kLeastGain = 1e-3;          // of the step: less is nothing to suggest
constexpr std::size_t kExamined = 768;       // pairs whose memory is worked out
constexpr std::size_t kOfTwoKinds = 4;       // pairs of the same two kinds that are simulated
constexpr std::size_t kExaminedRound = 128;  // pairs at a time
// Simulations at a time, the same whatever the threads; few at first, while nothing is known of what fits.
constexpr std::size_t kFirstRound = 4, kRound = 16;
// A step of more events than this takes hundreds of megabytes to simulate, and so do those around it: one at a time.
constexpr std::uint64_t kLong = 2'000'000;

enum class State : std::uint8_t { untried, infeasible, too_large, slower, simulated, error };

/// A what-if and what became of it.
struct Trial {
  WhatIf what_if;
  std::vector<std::string> set;
  State state = State::untried;
  double step_s = 0;    // simulated, or what it takes at least
  double estimate = 0;  // of a pair: what its halves promise together
  double peak_bytes = 0;
  bool pair = false;
};

/// Bounds for several threads: each takes one that remembers, and puts it back.
class Bounds {
 public:
  double of(const Scenario& scenario) {
    std::unique_ptr<workloads::StepBound> bound = take();
    const double seconds = sim::to_seconds(bound->of(scenario.job));
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(bound));
    return seconds;
  }

 private:
  std::unique_ptr<workloads::StepBound> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<workloads::StepBound>();
    std::unique_ptr<workloads::StepBound> bound = std::move(free_.back());
    free_.pop_back();
    return bound;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<workloads::StepBound>> free_;
};

/// What `orrery run` proposes: it goes further than single changes where none is enough.
void add_remedies(const sim::Settings& document, std::vector<Trial>& trials) {
  for (const workloads::Remedy& remedy : scenarios::would_fit(document)) {
    WhatIf what_if{kToFit, {}, false, {}};
    for (const std::string& change : remedy.changes) {
      const std::size_t equals = change.find('=');
      what_if.set[change.substr(0, equals)] = change.substr(equals + 1);
    }
    std::vector<std::string> set = remedy.changes;
    std::sort(set.begin(), set.end());
    trials.push_back({std::move(what_if), std::move(set)});
  }
}

/// `step_s`: of the job as it is. Pairs of changes that can run, those first whose halves promise most together.
std::vector<Trial> promising(const std::vector<Trial>& singles, double step_s) {
  std::vector<Trial> pairs;
  const auto useful = [](const Trial& t) {
    return (t.state == State::simulated || t.state == State::too_large) && !t.what_if.numerics &&
           t.what_if.kind != kToFit;
  };
  for (std::size_t i = 0; i < singles.size(); ++i) {
    for (std::size_t j = 0; j < i && useful(singles[i]); ++j) {
      if (!useful(singles[j])) continue;
      std::optional<WhatIf> both = joined(singles[j].what_if, singles[i].what_if);
      if (!both) continue;
      Trial pair{std::move(*both), {}};
      pair.estimate = singles[i].step_s * singles[j].step_s / step_s;
      pair.pair = true;
      pairs.push_back(std::move(pair));
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const Trial& a, const Trial& b) { return a.estimate < b.estimate; });
  if (pairs.size() > kExamined) pairs.resize(kExamined);
  return pairs;
}

Advice::Counts counts_of(const std::vector<Trial>& trials) {
  Advice::Counts counts;
  for (const Trial& trial : trials) {
    counts.tried += trial.state != State::untried ? 1 : 0;
    counts.simulated += trial.state == State::simulated ? 1 : 0;
    counts.too_large += trial.state == State::too_large ? 1 : 0;
    counts.infeasible += trial.state == State::infeasible ? 1 : 0;
    counts.slower += trial.state == State::slower ? 1 : 0;
    counts.errors += trial.state == State::error ? 1 : 0;
  }
  return counts;
}

Suggestion suggestion_of(const Trial& trial, double step_s) {
  Suggestion suggestion;
  suggestion.what_if = trial.what_if;
  suggestion.set = trial.set;
  suggestion.step_s = trial.step_s;
  suggestion.saved = 1 - trial.step_s / step_s;
  suggestion.peak_bytes = trial.peak_bytes;
  return suggestion;
}

/// Whether no single change, part of the pair, is as good.
bool beats_its_halves(const Trial& pair, const std::vector<const Trial*>& order, double step_s) {
  return std::none_of(order.begin(), order.end(), [&](const Trial* single) {
    if (single->pair || single->step_s > pair.step_s + kLeastGain * step_s) return false;
    return std::all_of(single->what_if.set.begin(), single->what_if.set.end(), [&](const auto& change) {
      const auto found = pair.what_if.set.find(change.first);
      return found != pair.what_if.set.end() && found->second == change.second;
    });
  });
}

/// The best of every kind, half of them pairs at most; a pair only where it is better than each of its halves and
/// shows none again.
void choose(const std::vector<Trial>& trials, std::size_t top, Advice& advice) {
  std::vector<const Trial*> order;
  for (const Trial& trial : trials) {
    if (trial.state == State::simulated) order.push_back(&trial);
  }
  std::stable_sort(order.begin(), order.end(), [](const Trial* a, const Trial* b) {
    return a->step_s != b->step_s ? a->step_s < b->step_s : a->peak_bytes < b->peak_bytes;
  });
  std::set<std::string> kinds;
  std::set<std::vector<std::string>> known;
  const std::size_t most_pairs = (top + 1) / 2;  // beside single changes, which are the easier ones to take
  std::size_t pairs = 0;
  for (const Trial* trial : order) {
    std::vector<Suggestion>& list = trial->what_if.numerics ? advice.numerics : advice.suggestions;
    const bool worth = !advice.now.fits || trial->step_s < (1 - kLeastGain) * advice.now.step_s;
    if (!worth || list.size() >= top) continue;
    if (trial->pair && (pairs == most_pairs || !beats_its_halves(*trial, order, advice.now.step_s))) continue;
    if (!known.insert(trial->set).second || !kinds.insert(trial->what_if.kind).second) continue;
    pairs += trial->pair ? 1 : 0;
    list.push_back(suggestion_of(*trial, advice.now.step_s));
  }
}

class Study {
 public:
  Study(const sim::Settings& document, const AdviceOptions& options)
      : document_(document),
        options_(options),
        jobs_(options.jobs),
        here_(scenarios::load_scenario(document)),
        around_(arrangement_of(here_)) {
    here_.job.evaluation = {};
    around_.names_features = document.find_path("software.features") != nullptr;
  }

  Advice run() {
    const auto begin = std::chrono::steady_clock::now();
    look_here();
    std::vector<Trial> trials;
    for (WhatIf& what_if : what_ifs(around_)) trials.push_back({std::move(what_if), {}});
    if (!advice_.now.fits) add_remedies(document_, trials);
    evaluate(trials);
    if (options_.pairs > 0 && !advice_.interrupted) evaluate_pairs(trials);
    advice_.counts = counts_of(trials);
    choose(trials, options_.top, advice_);
    explain();
    advice_.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return std::move(advice_);
  }

 private:
  void look_here() {
    const workloads::StepReport report = workloads::simulate_step(here_.job, {});
    advice_.now.step_s = sim::to_seconds(report.iteration);
    advice_.now.peak_bytes = report.memory.peak_bytes;
    advice_.now.capacity_bytes = report.memory.capacity_bytes;
    advice_.now.fits = report.memory.fits;
    advice_.now.exposed_s = report.breakdown_s;
    if (report.memory.fits) best_s_ = advice_.now.step_s;
    if (report.effort.events > kLong) jobs_ = 1;
    advice_.error = shipped_pair_errors();
  }

  Scenario load(const std::vector<std::string>& set) const {
    sim::Settings changed = document_;
    bool variant = true;
    for (const std::string& change : set) {
      const scenarios::Assignment assignment = scenarios::parse_assignment(change);
      scenarios::apply(changed, assignment);
      const std::string section = assignment.key.substr(0, assignment.key.find('.'));
      const std::vector<std::string>& sections = scenarios::variant_sections();
      variant = variant && std::find(sections.begin(), sections.end(), section) != sections.end();
    }
    Scenario scenario = variant ? scenarios::load_variant(here_, changed) : scenarios::load_scenario(changed);
    scenario.job.evaluation = {};
    return scenario;
  }

  /// Loads a trial and works out its memory and its bound. One that fits is slower until it is simulated.
  void weigh(Trial& trial) {
    trial.state = State::infeasible;
    if (trial.set.empty()) {
      const auto set = assignments(around_, trial.what_if);
      if (!set || set->empty()) return;
      trial.set = *set;
    }
    try {
      const Scenario scenario = load(trial.set);
      const workloads::MemoryNeed need = workloads::memory_need(
          workloads::stage_memory(scenario.job, workloads::split_layers(scenario.job)), scenario.job.machine);
      trial.peak_bytes = need.peak;
      const double bound = bounds_.of(scenario);
      trial.step_s = bound > 0 ? bound : advice_.now.step_s;
      trial.state = need.fits() ? State::slower : State::too_large;
    } catch (const sim::UserError&) {
      // Not a layout of this model on these GPUs.
    }
  }

  /// What would save time is never left out.
  bool far_slower(const Trial& trial) const {
    return trial.step_s > std::max(kFarSlower * best_s_, advice_.now.fits ? advice_.now.step_s : 0);
  }

  void simulate(Trial& trial) {
    const PointResult result = evaluate_made([&] { return load(trial.set); }, cache_);
    trial.state = result.status == PointStatus::ok           ? State::simulated
                  : result.status == PointStatus::oom        ? State::too_large
                  : result.status == PointStatus::infeasible ? State::infeasible
                                                             : State::error;
    if (trial.state == State::simulated) trial.step_s = result.iteration_s;
  }

  void simulate_all(std::vector<Trial*> trials, const char* what) {
    note(for_each_parallel(trials.size(), jobs_, what, [&](std::size_t i) { simulate(*trials[i]); }));
    for (const Trial* trial : trials) {
      if (trial->state == State::simulated && !trial->what_if.numerics) best_s_ = std::min(best_s_, trial->step_s);
    }
  }

  /// The lowest bounds first, so that what is far slower than the best is known before it is simulated: layouts that
  /// take long to simulate are as a rule those that take long.
  void evaluate(std::vector<Trial>& trials) {
    note(for_each_parallel(trials.size(), jobs_, "bounds", [&](std::size_t i) { weigh(trials[i]); }));
    std::vector<Trial*> order;
    for (Trial& trial : trials) {
      if (trial.state == State::slower) order.push_back(&trial);
    }
    std::stable_sort(order.begin(), order.end(), [](const Trial* a, const Trial* b) { return a->step_s < b->step_s; });
    std::size_t next = 0;
    for (std::size_t size = kFirstRound; next < order.size() && !advice_.interrupted; size = kRound) {
      std::vector<Trial*> round;
      for (; next < order.size() && round.size() < size; ++next) {
        if (!far_slower(*order[next])) round.push_back(order[next]);
      }
      simulate_all(std::move(round), "what-ifs");
    }
  }

  void note(const std::vector<char>& finished) {
    if (std::find(finished.begin(), finished.end(), 0) != finished.end()) advice_.interrupted = true;
  }

  /// Goes through promising pairs until as many as were asked for are simulated.
  void evaluate_pairs(std::vector<Trial>& trials) {
    std::vector<Trial> pairs = promising(trials, advice_.now.step_s);
    std::map<std::string, std::size_t> of_kind;
    std::size_t simulated = 0;
    for (std::size_t begin = 0; begin < pairs.size() && simulated < options_.pairs; begin += kExaminedRound) {
      const std::size_t count = std::min(kExaminedRound, pairs.size() - begin);
      note(for_each_parallel(count, jobs_, "pairs", [&](std::size_t i) { weigh(pairs[begin + i]); }));
      std::vector<Trial*> chosen;
      for (std::size_t i = begin; i < begin + count && simulated < options_.pairs; ++i) {
        if (pairs[i].state != State::slower || far_slower(pairs[i])) continue;
        if (of_kind[pairs[i].what_if.kind]++ >= kOfTwoKinds) continue;
        ++simulated;
        chosen.push_back(&pairs[i]);
      }
      simulate_all(std::move(chosen), "pairs");
      if (advice_.interrupted) break;
    }
    for (Trial& pair : pairs) {
      if (pair.state != State::untried) trials.push_back(std::move(pair));
    }
  }

  /// Breakdowns, reasons and confidence of what is suggested.
  void explain() {
    std::vector<Suggestion*> all;
    for (std::vector<Suggestion>* list : {&advice_.suggestions, &advice_.numerics}) {
      for (Suggestion& suggestion : *list) all.push_back(&suggestion);
    }
    note(for_each_parallel(all.size(), jobs_, "", [&](std::size_t i) {
      Suggestion& suggestion = *all[i];
      const workloads::StepReport report = workloads::simulate_step(load(suggestion.set).job, {});
      suggestion.exposed_s = report.breakdown_s;
      suggestion.reason = reason_text(advice_.now.exposed_s, report.breakdown_s, advice_.now.step_s);
      const double ratio = std::abs(std::log(advice_.now.step_s / suggestion.step_s));
      const Shares now = shares_of(advice_.now.exposed_s), then = shares_of(report.breakdown_s);
      suggestion.confidence = confidence_of(ratio, advice_.error, now, then);
      if (advice_.error) suggestion.error68 = advice_.error->at68(now, then);
    }));
  }

  const sim::Settings& document_;
  const AdviceOptions& options_;
  unsigned jobs_;  // threads
  Scenario here_;
  Arrangement around_;
  Bounds bounds_;
  workloads::StepCache cache_;
  Advice advice_;
  double best_s_ = std::numeric_limits<double>::infinity();  // of steps that fit, with these numerics
};

}  // namespace

std::string reason_text(const Exposed& now, const Exposed& then, double step_s) {
  std::size_t falls = 0, rises = 0;
  for (std::size_t c = 1; c < workloads::kCategories; ++c) {
    if (now[c] - then[c] > now[falls] - then[falls]) falls = c;
    if (then[c] - now[c] > then[rises] - now[rises]) rises = c;
  }
  const auto part = [&](const char* verb, std::size_t c) {
    return fmt::format("{} {} from {:.1f} to {:.1f} % of the step as it is",
                       workloads::name_of(static_cast<workloads::Category>(c)), verb, 100 * now[c] / step_s,
                       100 * then[c] / step_s);
  };
  constexpr double kSeen = 1e-3;  // of the step: what a tenth of a per cent shows
  const bool fewer = now[falls] - then[falls] > kSeen * step_s, more = then[rises] - now[rises] > kSeen * step_s;
  if (!fewer && !more) return "every part of the step stays as it is";
  if (!fewer) return part("rises", rises);
  if (!more) return part("falls", falls);
  return fmt::format("{}, {} rises from {:.1f} to {:.1f} %", part("falls", falls),
                     workloads::name_of(static_cast<workloads::Category>(rises)), 100 * now[rises] / step_s,
                     100 * then[rises] / step_s);
}

Advice advise(const sim::Settings& document, const AdviceOptions& options) { return Study(document, options).run(); }

}  // namespace orrery::tools
