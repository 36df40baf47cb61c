// Which inputs an answer hangs on most: every number of the device, the fabric and the software generation that a
// scenario refers to, moved a little up and down, one at a time. Left out: interactions of two inputs, counts (a chip
// has no 5 % more processors), and the work itself (model, layout, batch), which the user chose.
#pragma once

#include <string>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

/// One input and how the step answers it.
struct Sensitivity {
  std::string key;         // as --set takes it: "cluster.device.sustained.matmul"
  std::string value;       // as its document has it
  std::string meaning;     // of the schema
  std::string set_by;      // of a software key: what gives it its value; else empty
  double elasticity = 0;   // per cent of the step for one per cent of the input; 0.5: half of it
  double spread = 0;       // relative standard deviation of what the number may really be (see input_spread)
  bool one_sided = false;  // the other side is refused (an efficiency above 1)
};

/// Inputs that move the step, those that move it most first. `share`: how far each is moved, 0.05 is 5 %. Simulations
/// run on `jobs` threads, `simulations` counts them. Throws sim::UserError where the scenario does not load.
struct SensitivityStudy {
  std::vector<Sensitivity> inputs;
  std::size_t tried = 0, simulations = 0;
  bool interrupted = false;
};
SensitivityStudy sensitivities(const sim::Settings& document, double share, unsigned jobs);

/// How far the number of a key may be off in what `scenario` refers to, as a relative standard deviation, from
/// calibration/spreads.yaml: the first entry whose pattern (a key, or a beginning and *) fits, and that is of all
/// documents or of the one that gives the scenario this number; 0 where none does. Throws sim::UserError for documents
/// that are not there.
double input_spread(const sim::Settings& scenario, const std::string& key);

}  // namespace orrery::tools
