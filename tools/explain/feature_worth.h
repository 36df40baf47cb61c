// What each feature of the software in use is worth: the step simulated once more for each, with that feature alone
// taken away and all else as it is. Left out: pairs of features, whose worth together is not the sum.
#pragma once

#include <string>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

struct FeatureWorth {
  std::string name, meaning;
  std::string generation;  // that brought it; empty: the scenario itself
  double step_s = 0;       // without it
  double change = 0;       // of the step when it is taken away: 0.1 is a tenth longer
};

struct FeatureStudy {
  std::vector<FeatureWorth> features;  // those that move the step, the one that moves it most first
  std::vector<std::string> refused;    // without these the scenario does not load
  std::size_t tried = 0;
  bool interrupted = false;
};

/// One simulation for each feature of the software of `document`, on `jobs` threads. Throws sim::UserError where the
/// scenario does not load.
FeatureStudy feature_worths(const sim::Settings& document, unsigned jobs);

}  // namespace orrery::tools
