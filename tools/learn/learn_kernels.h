// A device learnt from traces of a job: how much longer than the profile's its kernels take in this job's steps, class
// by class, as factors on the profile's own rates. A class's time in the traces over its time in the prediction is the
// factor; since slower products draw less power and leave more of the clock, it is found in a few rounds of the
// simulation. Left out: single shapes (calibrate measures those), copies and softmax, whose time the software's numbers
// of copies and metrics follow from, and collectives.
#pragma once

#include <string>
#include <vector>

#include "sim/settings.h"
#include "tools/learn/learn.h"
#include "tools/learn/trace.h"

namespace orrery::tools {

struct LearntKernels {
  std::string what;                        // "matrix products", "norms, backward"
  std::vector<std::string> keys;           // of the device, that the factor is on
  std::vector<double> values;              // of these, with it
  std::vector<double> inherited;           // before
  double measured_s = 0, predicted_s = 0;  // a step's, before
  std::size_t samples = 0;
  bool at_bound = false;
};

/// `document`: the scenario that the traces were taken of, with the software that was learnt: what it lacks of fusions
/// would pass for slow kernels. Simulates a few times.
/// Throws sim::UserError as ranks_of(), and for a device that is written out within the scenario.
std::vector<LearntKernels> learn_kernels(const sim::Settings& document, const std::vector<Trace>& measured);

/// The scenario with a device of these rates; and with what was learnt of its software.
sim::Settings with_kernels(sim::Settings document, const std::vector<LearntKernels>& kernels);
sim::Settings with_software(sim::Settings document, const Learnt& learnt);

/// The device as a document of calibration/profiles that inherits the scenario's. `files`: of the traces.
std::string device_text(const std::vector<LearntKernels>& kernels, const sim::Settings& document,
                        const std::vector<std::string>& files);

}  // namespace orrery::tools
