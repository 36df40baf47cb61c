// Timelines as a Chrome trace (JSON object format of the "Trace Event Format", Google 2016), which ui.perfetto.dev and
// chrome://tracing open.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "workloads/step.h"

namespace orrery::tools {

/// Writes one process per timeline ("stage 3 (rank 96, stands for 1344 ranks)") and one thread per stream. Spans are
/// complete events ("X", ts and dur in microseconds) with their category; kernels nest inside compute spans; time that
/// a transfer waits for its peers is a slice of its own. Streams out: memory does not grow with the trace.
void write_trace(std::ostream& out, const std::string& name, const std::vector<workloads::Timeline>& timelines);

/// Whole nanoseconds as microseconds, chosen so that a reader that computes (int64)(value * 1000.0), as Perfetto does,
/// gets the same nanoseconds back.
std::string trace_microseconds(std::int64_t nanoseconds);

}  // namespace orrery::tools
