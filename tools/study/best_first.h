// The best layouts without simulating all: layouts are visited in the order of a bound that none can beat, and when the
// bound of the next is worse than what is wanted of the best found, the rest need not be simulated.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/study/crew.h"
#include "tools/study/layouts.h"
#include "tools/study/point.h"

namespace orrery::tools {

enum class Objective { tokens_per_s, mfu, time, cost, gpus, memory, energy };
/// As the command line spells them, in the order of the enumeration.
const std::vector<std::string>& objective_names();

/// How good a layout is: smaller is better, first number first; the others break ties.
using Score = std::array<double, 3>;

/// Everything that a score needs beside a simulated step.
struct Goal {
  Objective objective = Objective::tokens_per_s;
  double tokens_per_step = 1;
  double training_tokens = 0;                                   // 0: not given
  double deadline_s = std::numeric_limits<double>::infinity();  // of the whole training
  /// Never better for a longer step, so that the score of a bound on the step is a bound on the score. Infinite where
  /// the deadline is missed. `energy_j`: of the step and the site.
  Score score(std::int64_t gpus, double step_s, double memory_gb, double energy_j) const;
  double energy_j(const PointResult& result) const { return result.energy_per_token_j * tokens_per_step; }
  /// What a front sets against step time: memory, or energy where that is the objective.
  double price(double memory_gb, double energy) const { return objective == Objective::energy ? energy : memory_gb; }
};

struct Visit {
  std::size_t layout = 0;
  double bound_s = 0;
  PointResult result;
  Score score{};
};

struct SearchOptions {
  Goal goal;
  std::size_t top = 10;     // layouts that must be known
  bool exhaustive = false;  // simulate all that fit
  bool pareto = false;      // know the whole front of step time and memory, or energy
};

struct SearchResult {
  std::size_t layouts = 0, infeasible = 0, out_of_memory = 0, pruned = 0, simulated = 0;
  std::size_t bounded = 0;       // by their programs, whether they were simulated then or pruned
  std::vector<Visit> best;       // simulated and in time for the deadline, best first; at least `top` when there are
  std::vector<char> pareto;      // of `best`: nothing simulated is as fast at a lower Goal::price, or faster at it
  std::vector<Visit> failures;   // our own errors
  std::vector<Visit> too_large;  // those counted as out of memory
  std::map<std::string, std::size_t> refusals;  // of infeasible layouts: reasons with # for numbers, how many each
  std::string refusal;                          // of the first infeasible layout
  bool complete = true;                         // false: stopped
  double wall_s = 0;
};

/// Results of an earlier search of the same layouts, and where new ones are kept.
struct Memory {
  /// What is known of a layout, as work_on_layout says it; nothing where it has not been simulated.
  std::function<std::optional<std::string>(std::size_t layout)> known;
  std::function<void(std::size_t layout, const std::string& line)> keep;
};

/// `jobs`: threads of this process that work out bounds. Nothing depends on them or on the crew but the time that it
/// takes, and how far it comes before a Ctrl-C (`complete`). Checks that no simulated step undercuts its bound.
SearchResult search_layouts(LayoutSpace& space, const SearchOptions& options, Crew& crew, unsigned jobs,
                            const Memory& memory = {});

/// What the crew does, as a line: with task 2 n it simulates layout n, with task 2 n + 1 it finds a close bound of it,
/// or that it does not fit.
std::string work_on_layout(LayoutSpace& space, std::size_t task);

}  // namespace orrery::tools
