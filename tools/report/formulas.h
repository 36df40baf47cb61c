// The formulas that papers reckon with, beside what is counted or simulated.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "workloads/step/step.h"

namespace orrery::tools {

/// A quantity by a formula and as it was counted or simulated, in `unit`.
struct Formula {
  std::string name;     // of the quantity
  std::string formula;  // as papers write it
  double by_formula = 0, counted = 0;
  std::string unit;       // "", "FLOP", "B" or "s"
  std::string note = {};  // what a difference comes from
};

/// Those that hold for the job: closed forms of a plain GPT's parameters and FLOPs (Narayanan et al., arXiv 2104.04473,
/// equations 2 and 3, with full recomputation or without), 6 N D (Kaplan et al., arXiv 2001.08361), bytes of model
/// states by what data ranks share out (Rajbhandari et al., arXiv 1910.02054, section 3: 16 P without, (2 + 14/d) P
/// with gradients and optimizer), and where the tokens of the training are given its steps, T / (B s), and the time
/// that these take, 8 T P / n X with full recomputation, else 6 T P / n X (arXiv 2104.04473, equation 4), X being what
/// a GPU achieves. None where adapters alone are trained.
std::vector<Formula> formulas_of(const scenarios::Scenario& scenario, const workloads::StepReport& report);

void write_formulas(std::ostream& out, const std::vector<Formula>& formulas);
nlohmann::ordered_json formulas_json(const std::vector<Formula>& formulas);

}  // namespace orrery::tools
