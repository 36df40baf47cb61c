// One iteration of a served model, looked at: kernels, what bounds them, where its time goes, a timeline. What a loop
// of requests asks a table for is here taken apart.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "scenarios/serving.h"
#include "tools/report/trace.h"
#include "workloads/step/iteration_times.h"
#include "workloads/step/serving_memory.h"

namespace orrery::tools {

struct IterationStudy {
  scenarios::ServingScenario scenario;
  workloads::PassTokens tokens;
  std::vector<workloads::PartOfIteration> parts;
  std::vector<std::int64_t> layers;  // of each stack of the pass
  workloads::ServingMemory memory;
  double seconds = 0;
  std::string kernels;  // what their times rest on

  workloads::UseOfTime use() const;
};

/// Throws sim::UserError where the scenario asks for none, or weights do not fit.
IterationStudy study_iteration(const scenarios::ServingScenario& scenario);
void write_iteration(std::ostream& out, const IterationStudy& study);
nlohmann::ordered_json iteration_json(const IterationStudy& study);
/// Kernels one behind the other on a rank, the layers of a kind together.
void trace_iteration(std::ostream& out, const IterationStudy& study, TraceForm form);

}  // namespace orrery::tools
