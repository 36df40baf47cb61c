// A choice among the layouts that a search found: which of them are as good as the first, as far as anybody can tell;
// how likely the first is the fastest; what its step is expected to take, the winner's curse taken out; and what is
// assumed of the first that is not of those beside it. Left out: layouts that were not simulated, which a bound proves
// to be predicted slower, though not to be slower.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/pair_errors.h"
#include "tools/study/best_first.h"

namespace orrery::tools {

struct Choice {
  std::vector<Chance> chances;         // of the best, in their order; empty: nothing is known of such errors
  std::vector<std::size_t> measure;    // numbers from 1 of what to measure before one decides
  double error68 = 0;                  // of the ratio of the first two, as a logarithm
  std::vector<std::string> flattered;  // assumptions of the first that those tied with it do not make
};
/// Simulates the best once more for where their time goes, where the search has not kept it: a dozen at most, on `jobs`
/// threads.
Choice weigh_best(LayoutSpace& space, const SearchResult& result, unsigned jobs);

void write_choice(std::ostream& out, const Choice& choice, double step_s);
/// What is known of the layout at `place` of the best, into its row.
void add_chance(nlohmann::ordered_json& row, const Choice& choice, std::size_t place);

}  // namespace orrery::tools
