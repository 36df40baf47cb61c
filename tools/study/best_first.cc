// Best-first search (branch and bound of depth one; Land and Doig, 1960). A layout has one of two bounds: from sums
// over its layers (step_bound.h), which costs microseconds, or from its programs (least_step), which is close to the
// step. Layouts come in rounds: the next ones in the order of their bounds are given the close one where they have not
// got it yet, or simulated; then the threshold is what the best ones so far ask for. Left out: bounds on sets of
// layouts.
#include "tools/study/best_first.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <queue>
#include <tuple>

#include "sim/error.h"
#include "tools/parallel.h"
#include "tools/report/csv.h"
#include "workloads/memory/memory.h"
#include "workloads/step/step.h"
#include "workloads/step/step_bound.h"
#include "workloads/step/step_energy.h"

namespace orrery::tools {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Layouts of a round: short rounds while the threshold moves, then long enough to keep a large crew busy. The same
// whatever the crew, so that the same layouts are simulated.
constexpr std::size_t kFirstRounds = 8, kShortRound = 64, kLongRound = 256;

struct Candidate {
  std::size_t layout;
  double bound_s;
  double memory_gb;  // 0: not worked out
  double energy_j;   // at least
  Score bound;
  bool close = false;  // bound_s is workloads::least_step's
};

struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.bound != b.bound ? a.bound > b.bound : a.layout > b.layout;
  }
};

/// What a line begins with that says a bound, in seconds.
constexpr std::string_view kBound = "bound ";

bool needs_memory(const SearchOptions& options) {
  return options.pareto || options.goal.objective == Objective::memory;
}

/// A refusal without its numbers, so that layouts refused alike are counted together.
std::string kind_of(const std::string& refusal) {
  std::string kind;
  for (const char c : refusal) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) kind += c;
    if (digit && !kind.ends_with('#')) kind += '#';
  }
  return kind;
}

/// Layouts by the half-open ranges that a thread goes through at a time, the longest first: what follows from the ranks
/// of a stage is worked out once for all of a range.
std::vector<std::pair<std::size_t, std::size_t>> ranges_of(const std::vector<Layout>& layouts, unsigned jobs) {
  constexpr std::size_t kLeast = 64, kRangesOfThread = 8;
  const std::size_t most = std::max(kLeast, layouts.size() / (kRangesOfThread * jobs));
  const auto stage = [](const Layout& l) {
    return std::tuple(l.gpus, l.tensor, l.pipeline, l.expert, l.expert_tensor);
  };
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (std::size_t begin = 0, end = 0; begin < layouts.size(); begin = end) {
    for (end = begin + 1; end < layouts.size() && end - begin < most; ++end) {
      if (stage(layouts[end]) != stage(layouts[begin])) break;
    }
    ranges.emplace_back(begin, end);
  }
  std::stable_sort(ranges.begin(), ranges.end(),
                   [](const auto& a, const auto& b) { return a.second - a.first > b.second - b.first; });
  return ranges;
}

/// Feasible layouts with their bounds.
std::vector<Candidate> candidates_of(LayoutSpace& space, const SearchOptions& options, unsigned jobs,
                                     SearchResult& out) {
  const std::vector<Layout>& layouts = space.layouts();
  std::vector<double> bounds(layouts.size(), -1), memory(layouts.size(), 0), energy(layouts.size(), 0);
  const std::vector<std::pair<std::size_t, std::size_t>> ranges = ranges_of(layouts, jobs);
  std::vector<workloads::StepBound> free_bounds(jobs);
  std::mutex mutex;
  std::size_t first_refused = layouts.size();
  const auto range = [&](std::size_t r) {
    workloads::StepBound bound;
    {
      const std::lock_guard lock(mutex);
      bound = std::move(free_bounds.back());
      free_bounds.pop_back();
    }
    for (std::size_t i = ranges[r].first; i < ranges[r].second; ++i) {
      try {
        const workloads::Job job = space.load(layouts[i]).job;
        bounds[i] = sim::to_seconds(bound.of(job));
        // Without what travels: operations take the same whenever they run, and the rest grows with time.
        if (options.goal.objective == Objective::energy && bounds[i] > 0) {
          const auto inputs =
              workloads::energy_inputs(job.machine, job.power, job.parallelism, job.microbatches(),
                                       workloads::program_inputs_of(job, workloads::Workload::training_step));
          energy[i] = workloads::step_energy(inputs, workloads::split_layers(job), bounds[i], {}, {}).site_j();
        }
        if (needs_memory(options))
          memory[i] = workloads::peak_memory(workloads::stage_memory(job, workloads::split_layers(job))) / 1e9;
      } catch (const sim::UserError& error) {
        const std::lock_guard lock(mutex);
        ++out.refusals[kind_of(error.what())];
        if (i < first_refused) {
          first_refused = i;
          out.refusal = error.what();
        }
      }
    }
    const std::lock_guard lock(mutex);
    free_bounds.push_back(std::move(bound));
  };
  const std::vector<char> done = for_each_parallel(ranges.size(), jobs, "ranges of bounds", range);
  out.layouts = layouts.size();
  if (std::find(done.begin(), done.end(), 0) != done.end()) {  // a layout without a bound is not infeasible
    out.complete = false;
    return {};
  }
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (bounds[i] >= 0) {
      candidates.push_back(
          {i, bounds[i], memory[i], energy[i], options.goal.score(layouts[i].gpus, bounds[i], memory[i], energy[i])});
    }
  }
  out.infeasible = layouts.size() - candidates.size();
  return candidates;
}

bool better(const Visit& a, const Visit& b) { return a.score != b.score ? a.score < b.score : a.layout < b.layout; }

/// What a front compares.
struct Pair {
  double step_s = 0, price = 0;
};

Pair pair_of(const Goal& goal, const PointResult& result) {
  return {result.iteration_s, goal.price(result.peak_memory_gb, goal.energy_j(result))};
}

/// Whether `a` is at least as fast at no higher a price, and better in one.
bool dominates(const Pair& a, const Pair& b) {
  return a.step_s <= b.step_s && a.price <= b.price && (a.step_s < b.step_s || a.price < b.price);
}

/// Every second task first, then those between: neighbours often take the same step, which is simulated once where they
/// are not begun at the same time.
void spread_out(std::vector<std::size_t>& tasks) {
  std::vector<std::size_t> order;
  for (const std::size_t first : {0u, 1u}) {
    for (std::size_t i = first; i < tasks.size(); i += 2) order.push_back(tasks[i]);
  }
  tasks = std::move(order);
}

class Search {
 public:
  Search(LayoutSpace& space, const SearchOptions& options, Crew& crew, const Memory& memory, SearchResult& out)
      : space_(space), options_(options), crew_(crew), memory_(memory), out_(out) {}

  void run(const std::vector<Candidate>& candidates) {
    for (const Candidate& candidate : candidates) waiting_.push(candidate);
    Progress progress("layouts");
    while (!waiting_.empty() && out_.complete) {
      const Round round = next_round();
      // Like those that are simulated, what is noted moves the threshold of the next round, not of this one.
      for (const auto& [layout, line] : round.noted) keep(layout, point_of(csv_cells(line), 0));
      out_.complete = crew_.run(
          round.tasks, [&](std::size_t task) { return work_on_layout(space_, task); },
          [&](std::size_t task, const std::string& line) { take(task / 2, line); },
          [] { return InterruptGuard::interrupted(); });
      progress.show(candidates.size() - waiting_.size(), candidates.size());
      if (out_.complete) std::sort(out_.best.begin(), out_.best.end(), better);
    }
    std::sort(out_.best.begin(), out_.best.end(), better);
    for (std::vector<Visit>* visits : {&out_.too_large, &out_.failures}) {
      std::sort(visits->begin(), visits->end(), [](const Visit& a, const Visit& b) { return a.layout < b.layout; });
    }
  }

 private:
  /// What is worked on together: tasks of the crew, and layouts that an earlier search has simulated.
  struct Round {
    std::vector<std::size_t> tasks;
    std::vector<std::pair<std::size_t, std::string>> noted;
  };

  /// The next ones in the order of their bounds: those with a close bound are simulated, the others get one. A round
  /// is as long as it may be while nothing in it is to be simulated.
  Round next_round() {
    Round round;
    bool simulates = false;
    for (std::size_t chosen = 0; !waiting_.empty(); waiting_.pop()) {
      const Candidate& candidate = waiting_.top();
      if (cannot_win(candidate)) {
        ++out_.pruned;
        continue;
      }
      const bool close = candidate.close || options_.exhaustive;
      const std::size_t most = (simulates || close) && rounds_ < kFirstRounds ? kShortRound : kLongRound;
      if (chosen >= most) break;
      ++chosen;
      simulates = simulates || close;
      add(candidate, close, round);
    }
    rounds_ += simulates;
    spread_out(round.tasks);
    return round;
  }

  void add(const Candidate& candidate, bool close, Round& round) {
    chosen_.insert_or_assign(candidate.layout, candidate);
    auto known = memory_.known ? memory_.known(candidate.layout) : std::nullopt;
    // What ran out of memory did so when its close bound was asked for.
    if (known && (close || point_of(csv_cells(*known), 0).status != PointStatus::ok))
      round.noted.emplace_back(candidate.layout, *std::move(known));
    else
      round.tasks.push_back(2 * candidate.layout + (close ? 0 : 1));
  }

  /// A close bound, or what came of the layout.
  void take(std::size_t layout, const std::string& line) {
    if (!line.starts_with(kBound)) {
      if (memory_.keep) memory_.keep(layout, line);
      return keep(layout, point_of(csv_cells(line), 0));
    }
    Candidate candidate = chosen_.at(layout);
    candidate.bound_s = std::max(candidate.bound_s, std::stod(line.substr(kBound.size())));
    candidate.bound =
        options_.goal.score(space_.layouts()[layout].gpus, candidate.bound_s, candidate.memory_gb, candidate.energy_j);
    candidate.close = true;
    waiting_.push(candidate);
    ++out_.bounded;
  }

  bool cannot_win(const Candidate& candidate) const {
    if (options_.exhaustive) return false;
    if (candidate.bound[0] == kNever) return true;
    if (out_.best.size() < options_.top || candidate.bound <= out_.best[options_.top - 1].score) return false;
    if (!options_.pareto) return true;
    // The layout at its best.
    const Pair ideal{candidate.bound_s, options_.goal.price(candidate.memory_gb, candidate.energy_j)};
    return std::any_of(out_.best.begin(), out_.best.end(),
                       [&](const Visit& found) { return dominates(pair_of(options_.goal, found.result), ideal); });
  }

  void keep(std::size_t layout, PointResult result) {
    const double bound_s = chosen_.at(layout).bound_s, energy_j = chosen_.at(layout).energy_j;
    const Layout& where = space_.layouts()[layout];
    Visit visit{layout, bound_s, std::move(result), {}};
    switch (visit.result.status) {
      case PointStatus::ok:
        ++out_.simulated;
        SIM_CHECK(bound_s <= visit.result.iteration_s, "layout {} takes {} s, less than its bound of {} s", layout,
                  visit.result.iteration_s, bound_s);
        SIM_CHECK(energy_j <= options_.goal.energy_j(visit.result) * (1 + 1e-9),
                  "layout {} takes {} J, less than its bound", layout, options_.goal.energy_j(visit.result));
        visit.score = options_.goal.score(where.gpus, visit.result.iteration_s, visit.result.peak_memory_gb,
                                          options_.goal.energy_j(visit.result));
        if (visit.score[0] < kNever) out_.best.push_back(std::move(visit));
        break;
      case PointStatus::oom:
        ++out_.out_of_memory;
        out_.too_large.push_back(std::move(visit));
        break;
      default:
        out_.failures.push_back(std::move(visit));
        break;
    }
  }

  LayoutSpace& space_;
  const SearchOptions& options_;
  Crew& crew_;
  const Memory& memory_;
  SearchResult& out_;
  std::priority_queue<Candidate, std::vector<Candidate>, Later> waiting_;
  std::map<std::size_t, Candidate> chosen_;  // by layout
  std::size_t rounds_ = 0;                   // in which something was simulated
};

void mark_front(const Goal& goal, SearchResult& out) {
  // In the order of step time, a layout is on the front when its price is lower than that of all before it.
  std::vector<Pair> pairs;
  for (const Visit& visit : out.best) pairs.push_back(pair_of(goal, visit.result));
  std::vector<std::size_t> order(out.best.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Pair &x = pairs[a], &y = pairs[b];
    return x.step_s != y.step_s ? x.step_s < y.step_s : x.price != y.price ? x.price < y.price : a < b;
  });
  out.pareto.assign(out.best.size(), 0);
  const Pair* last = nullptr;
  for (const std::size_t i : order) {
    const Pair& pair = pairs[i];
    const bool beaten = last != nullptr && (dominates(*last, pair) || last->price <= pair.price);
    const bool equal = last != nullptr && last->step_s == pair.step_s && last->price == pair.price;
    if (beaten && !equal) continue;
    out.pareto[i] = 1;
    last = &pair;
  }
}

}  // namespace

const std::vector<std::string>& objective_names() {
  static const std::vector<std::string> names{"tokens_per_s", "mfu", "time", "cost", "gpus", "memory", "energy"};
  return names;
}

Score Goal::score(std::int64_t gpus, double step_s, double memory_gb, double energy_j) const {
  if (training_tokens / tokens_per_step * step_s > deadline_s) return {kNever, kNever, kNever};
  const double count = static_cast<double>(gpus);
  switch (objective) {
    case Objective::tokens_per_s:
    case Objective::time:
      return {step_s, count, memory_gb};
    case Objective::mfu:  // model FLOPs over GPU seconds
    case Objective::cost:
      return {step_s * count, step_s, memory_gb};
    case Objective::gpus:
      return {count, step_s, memory_gb};
    case Objective::memory:
      return {memory_gb, step_s, count};
    case Objective::energy:
      return {energy_j, step_s, count};
  }
  SIM_CHECK(false, "objective {}", static_cast<int>(objective));
  return {};
}

std::string work_on_layout(LayoutSpace& space, std::size_t task) {
  const Layout& layout = space.layouts()[task / 2];
  if (task % 2 == 0) {
    workloads::StepReport report;
    const bool detailed = space.wants_detail();
    const PointResult result =
        evaluate_made([&] { return space.load(layout); }, space.cache(), detailed ? &report : nullptr);
    if (detailed && result.status == PointStatus::ok) space.keep(task / 2, report);
    return csv_line(cells_of(result));
  }
  try {
    const scenarios::Scenario scenario = space.load(layout);
    if (const auto oom = out_of_memory(scenario)) return csv_line(cells_of(*oom));
    return fmt::format("{}{}", kBound, sim::to_seconds(workloads::least_step(scenario.job, space.cache())));
  } catch (...) {
    return csv_line(cells_of(failed_point()));
  }
}

SearchResult search_layouts(LayoutSpace& space, const SearchOptions& options, Crew& crew, unsigned jobs,
                            const Memory& memory) {
  const auto begin = std::chrono::steady_clock::now();
  SearchResult out;
  const std::vector<Candidate> candidates = candidates_of(space, options, jobs, out);
  Search(space, options, crew, memory, out).run(candidates);
  mark_front(options.goal, out);
  out.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace orrery::tools
