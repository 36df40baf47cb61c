// A software generation learnt from traces of a job: the numbers of the generation that the job's scenario names, set
// so that the prediction shows what the traces show. Each observation of a trace (observe.h) has its twin in the
// prediction; least squares over these twins, with the simulator itself as the model, tell the numbers, and the slopes
// at the end tell which of them these traces determine. Buckets follow from the sizes of messages; features of the
// catalogue are tried one by one. Left out: times of products and attention, which are the device's (calibrate).
#pragma once

#include <string>
#include <vector>

#include "sim/settings.h"
#include "tools/learn/observe.h"

namespace orrery::tools {

struct LearntNumber {
  std::string key, unit;
  double value = 0, inherited = 0;  // in `unit`
  double spread = 0;                // of the samples, as far as they move it
  std::size_t samples = 0;
  std::string rests_on;  // the observations that move with it most
  bool determined = false;
  double low = 0, high = 0;  // where any value between the two would show the same; both 0: one value alone
};

struct Learnt {
  std::vector<LearntNumber> numbers;
  std::vector<std::string> features, without;  // beyond the generation, and of it
  double misfit_before = 0, misfit_after = 0;  // mean relative difference of the observations
  std::size_t observations = 0, simulations = 0;
};

/// `document`: the scenario that the traces were taken of. Simulates on `jobs` threads. Throws sim::UserError as
/// ranks_of(), and for traces in which nothing of what is looked for can be seen.
Learnt learn(const sim::Settings& document, const std::vector<Trace>& measured, unsigned jobs);

/// The generation as a document of calibration/software, with what each number rests on as comments. `files`: of the
/// traces.
std::string software_text(const Learnt& learnt, const sim::Settings& document, const std::string& name,
                          const std::vector<std::string>& files);

}  // namespace orrery::tools
