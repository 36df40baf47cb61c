// `orrery run --explain`: which inputs an answer hangs on, what the software's features are worth, and how sure it is.
// Two views of the uncertainty stand beside each other: from below, the errors that the kernel-time model states for
// the kernels of this step and the spread of every input, each through its elasticity, added as independent; from
// above, how far published rows like this one were from their predictions. The interval is the wider of the two on
// either side, as each sees causes that the other does not.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "tools/explain/feature_worth.h"
#include "tools/explain/newness.h"
#include "tools/explain/sensitivity.h"
#include "workloads/step/step.h"

namespace orrery::tools {

/// Relative standard deviation of the step that a kind of kernel brings in.
struct KernelPart {
  std::string what;
  double spread = 0;      // of the kernels' own time, from the profile's stated errors
  double elasticity = 0;  // of the step, for their time
};

struct Explanation {
  double share = 0.05, step_s = 0;
  SensitivityStudy study;
  FeatureStudy features;
  std::vector<KernelPart> kernels;
  double kernel_spread = 0, input_spread = 0;  // relative standard deviations of the step
  std::optional<StepInterval> known;           // what published rows say
  std::vector<Held> held;                      // of such intervals over the known rows
  double low68_s = 0, high68_s = 0, low90_s = 0, high90_s = 0;
  double spread() const;  // of kernels and inputs together
};

/// The kernels of one layer and the output layer by their errors; elasticities from `study`.
std::vector<KernelPart> kernel_parts(const workloads::Job& job, const workloads::StepReport& report,
                                     const SensitivityStudy& study);

/// Simulates `document` many times, each input moved by `share` and each feature taken away; takes seconds. Throws
/// sim::UserError.
Explanation explain(const sim::Settings& document, const scenarios::Scenario& scenario,
                    const workloads::StepReport& report, double share, unsigned jobs);

void write_explanation(std::ostream& out, const Explanation& explanation);
nlohmann::ordered_json explanation_json(const Explanation& explanation);

}  // namespace orrery::tools
