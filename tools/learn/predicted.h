// A simulated rank as the trace that a profiler would have taken of it, so that measured and predicted are read by the
// same code.
#pragma once

#include <vector>

#include "tools/learn/trace.h"
#include "workloads/step/step.h"

namespace orrery::tools {

/// The trace of a timeline: what write_trace() writes of it and read_trace() reads.
Trace trace_of(const workloads::Timeline& timeline);

/// The ranks of `traces`: as they say; those that do not say count on from the first that is free. Throws
/// sim::UserError for two traces of a rank, a rank that the job does not have, a world of another size, and traces of
/// several ranks that leave out a stage of the pipeline.
std::vector<std::int64_t> ranks_of(const std::vector<Trace>& traces, const workloads::Job& job);

/// The traces of `ranks` of a simulated step of the job, in their order.
std::vector<Trace> predict(const workloads::Job& job, const std::vector<std::int64_t>& ranks);

}  // namespace orrery::tools
