// What-if by `without`: the very key that a generation drops a feature with.
#include "tools/explain/feature_worth.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "scenarios/origin.h"
#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/parallel.h"
#include "workloads/step/step.h"
#include "workloads/step/step_cache.h"

namespace orrery::tools {

using sim::Settings;

FeatureStudy feature_worths(const Settings& document, unsigned jobs) {
  const std::vector<calibration::UsedFeature> used = scenarios::referred_software(document).features;
  workloads::StepCache cache;
  workloads::Question options;
  options.parts = workloads::Question::Parts::times;
  options.cache = &cache;
  const auto step = [&](const Settings& scenario) {
    return sim::to_seconds(workloads::simulate_step(scenarios::load_scenario(scenario).job, options).iteration);
  };
  const double here = step(document);
  std::vector<std::optional<double>> steps(used.size());
  const std::vector<char> finished = for_each_parallel(used.size(), jobs, "features taken away", [&](std::size_t i) {
    try {
      steps[i] = step(scenarios::without_feature(document, used[i].name));
    } catch (const sim::UserError&) {
      // Said below: a scenario may hang on a feature.
    }
  });
  FeatureStudy study;
  study.tried = used.size();
  study.interrupted = std::find(finished.begin(), finished.end(), 0) != finished.end();
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (finished[i] == 0) continue;
    if (!steps[i])
      study.refused.push_back(used[i].name);
    else if (*steps[i] != here)
      study.features.push_back({used[i].name, used[i].meaning, used[i].generation, *steps[i], *steps[i] / here - 1});
  }
  std::stable_sort(study.features.begin(), study.features.end(), [](const FeatureWorth& a, const FeatureWorth& b) {
    return std::abs(a.change) > std::abs(b.change);
  });
  return study;
}

}  // namespace orrery::tools
