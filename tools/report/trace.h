// Timelines as a trace that ui.perfetto.dev opens: Chrome's JSON, which chrome://tracing and readers of PyTorch's
// profiler know too, or Perfetto's protobuf. See trace_sink.h.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tools/report/critical_path.h"
#include "workloads/step/step.h"

namespace orrery::tools {

/// The part of a step that a trace shows: what overlaps it, uncut.
struct TraceWindow {
  sim::SimTime from{};
  sim::SimTime to{std::numeric_limits<std::int64_t>::max()};
};

struct TraceView {
  std::string name;
  const std::vector<workloads::Timeline>& timelines;
  std::vector<std::string> process_names;         // of the timelines; empty: stage and rank
  const std::vector<workloads::LinkLoad>& links;  // the busiest first
  TraceWindow window;
  std::vector<PathPart> path = {};  // critical_path() of the timelines; empty: neither path nor legend
};

enum class TraceForm : std::uint8_t { chrome, perfetto };
/// Perfetto's for names that end in .pftrace, gzipped or not; of any other Chrome's.
TraceForm trace_form(const std::string& path);

/// Writes one process per timeline and one thread per stream. Spans are complete events ("X", ts and dur in
/// microseconds) with their category; kernels nest inside compute spans; time that a transfer waits for its peers is a
/// slice of its own. A thread of each process is its host: its launches, named and linked to kernels and transfers by
/// `correlation` as PyTorch's profiler does it, and its other work; another the gaps between kernels, two more what the
/// breakdown books them as: the bubble, and the rest. Arguments of kernels and transfers: stream, pass ("F0.3",
/// "optimizer"), layer, kind (matmul, attention, memory), of kernels FLOPs, bytes, type, rates and shape, and of
/// collectives their name, bytes, group and its size. Arrows (flow events) join the slices of one transfer: from sender
/// to receiver, and through the members of a collective in the order of the timelines. Counters: memory of each process
/// in GB; the load of the kTracedLinks busiest links in GB/s, in a process of their own. Streams out: memory does not
/// grow with the trace.
void write_trace(std::ostream& out, const TraceView& view, TraceForm form = TraceForm::chrome);
inline constexpr std::size_t kTracedLinks = 16;

/// "rank 96: stage 3, data 0, tensor 0, stands for 1344 ranks": the coordinates of every dimension that the job has.
std::vector<std::string> process_names(const workloads::Dims& dims, const std::vector<workloads::Timeline>& timelines);

/// "0,5,8:15" as ranks in ascending order, none twice. Throws sim::UserError for what is no such list, ranks that the
/// job does not have, and more than kMostTracedRanks.
std::vector<std::int64_t> parse_trace_ranks(const std::string& text, std::int64_t ranks);
inline constexpr std::int64_t kMostTracedRanks = 1024;
/// "0.1s:0.3s"; either end may be left out. Throws sim::UserError.
TraceWindow parse_trace_window(const std::string& text);

/// Of kernels in a span, nanoseconds: one after the other from its start. A slow GPU or jitter stretches the span, not
/// the list: when the list is longer than the span it is scaled to fit; when it is shorter, what is left is the host's
/// fault.
struct SliceTimes {
  std::int64_t from = 0, to = 0;
};
std::vector<SliceTimes> kernel_times(const workloads::Timeline::Span& span);
/// What a kernel is: "matmul", "attention" or "memory", by what bounds it.
std::string_view kind_of(const workloads::KernelSlice& kernel);

/// Whole nanoseconds as microseconds, chosen so that a reader that computes (int64)(value * 1000.0), as Perfetto does,
/// gets the same nanoseconds back.
std::string trace_microseconds(std::int64_t nanoseconds);

}  // namespace orrery::tools
