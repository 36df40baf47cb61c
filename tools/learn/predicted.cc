// What the simulator says of a step that was traced. See predicted.h.
#include "tools/learn/predicted.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "sim/error.h"
#include "tools/learn/kernel_names.h"
#include "tools/report/trace.h"

namespace orrery::tools {

using workloads::Timeline;

namespace {

Nanoseconds nanoseconds(sim::SimTime t) { return t.value() / 1000; }

Phase phase_of(const Timeline::Span& span) {
  if (span.category == workloads::Category::optimizer) return Phase::optimizer;
  if (span.microbatch < 0) return Phase::other;
  return span.pass == 'F' ? Phase::forward : Phase::backward;
}

class TimelineReader {
 public:
  explicit TimelineReader(Trace& trace)
      : trace_(trace), launch_(trace.names.intern("cudaLaunchKernel")), work_(trace.names.intern("host work")) {}

  void read(const Timeline::Span& span) {
    DeviceEvent event;
    event.stream = span.stream.order + 1;
    event.phase = phase_of(span);
    if (span.kernels.empty()) {
      add_transfer(span, event);
    } else {
      const std::vector<SliceTimes> times = kernel_times(span);
      for (std::size_t k = 0; k < times.size(); ++k) {
        event.name = trace_.names.intern(span.kernels[k].name);
        event.what = class_of(span.kernels[k], event.name);
        event.start = times[k].from;
        event.end = times[k].to;
        event.correlation = next_ + static_cast<std::int64_t>(k);
        trace_.device.push_back(event);
      }
    }
    add_launches(span);
  }

 private:
  /// Kernels are many and their names few: each is looked up once, by its name and whether it is one of memory.
  OpClass class_of(const workloads::KernelSlice& kernel, NameId name) {
    const std::size_t row = 2 * std::size_t{name} + (kernel.flops <= 0 ? 1 : 0);
    if (row >= classes_.size()) classes_.resize(row + 1);
    std::optional<OpClass>& known = classes_[row];
    if (!known) known = class_of_own_kernel(kernel.name, kind_of(kernel));
    return *known;
  }

  void add_transfer(const Timeline::Span& span, DeviceEvent event) {
    if (span.call.ranks == 0) return;
    CollectiveFacts facts;
    facts.operation = trace_.names.intern(calibration::name_of(span.call.op));
    facts.group = trace_.names.intern(span.call.group);
    facts.group_size = span.call.ranks;
    facts.bytes = span.bytes;
    if (span.ready < span.start) facts.arrived = nanoseconds(span.ready);
    event.name = trace_.names.intern(span.name);
    event.what = class_of_operation(trace_.name(facts.operation));
    event.start = nanoseconds(span.start);
    event.end = nanoseconds(span.finish);
    event.correlation = next_;
    event.collective = static_cast<std::int32_t>(trace_.collectives.size());
    trace_.collectives.push_back(facts);
    trace_.device.push_back(event);
  }

  /// As the writer of traces places them: launches at the end of the host's time for a span, other work before them or
  /// before the kernel that it belongs to.
  void add_launches(const Timeline::Span& span) {
    sim::Duration launches{};
    for (const workloads::KernelSlice& kernel : span.kernels) launches += kernel.host + kernel.issue;
    const bool transfer = span.kernels.empty();
    sim::SimTime at = transfer ? span.host.from : sim::SimTime(span.host.until.value() - launches.value());
    const auto work = [&](sim::SimTime from, sim::SimTime until) {
      if (until <= from) return;
      HostEvent event;
      event.name = work_;
      event.start = nanoseconds(from);
      event.end = nanoseconds(until);
      trace_.host.push_back(event);
    };
    work(span.host.from, at);
    const auto launch = [&](sim::SimTime until, std::int64_t count) {
      if (until > at) {
        HostEvent call;
        call.name = launch_;
        call.kind = HostKind::runtime;
        call.launches = static_cast<std::int32_t>(count);
        call.start = nanoseconds(at);
        call.end = nanoseconds(until);
        call.correlation = next_;
        trace_.host.push_back(call);
      }
      ++next_;
      at = until;
    };
    for (const workloads::KernelSlice& kernel : span.kernels) {
      work(at, at + kernel.host);
      at = at + kernel.host;
      launch(at + kernel.issue, kernel.launches);
    }
    if (transfer) launch(span.host.until, 1);
  }

  Trace& trace_;
  NameId launch_, work_;
  std::int64_t next_ = 1;                        // correlation
  std::vector<std::optional<OpClass>> classes_;  // by name, of kernels with products and of others
};

}  // namespace

Trace trace_of(const Timeline& timeline) {
  Trace trace;
  trace.own = true;
  trace.rank = timeline.rank;
  std::size_t events = 0;
  for (const Timeline::Span& span : timeline.spans) events += std::max<std::size_t>(1, span.kernels.size());
  trace.device.reserve(events);
  trace.host.reserve(events + timeline.spans.size());
  TimelineReader reader(trace);
  for (const Timeline::Span& span : timeline.spans) reader.read(span);
  complete(trace);
  return trace;
}

std::vector<std::int64_t> ranks_of(const std::vector<Trace>& traces, const workloads::Parallelism& layout,
                                   std::int64_t gpus) {
  std::set<std::int64_t> taken;
  for (const Trace& trace : traces) {
    if (!trace.own && trace.world_size && *trace.world_size != gpus) {
      throw sim::UserError({trace.file, 1, 1}, "distributedInfo.world_size",
                           fmt::format("got {} ranks, expected the {} of the scenario", *trace.world_size, gpus));
    }
    if (!trace.rank) continue;
    if (*trace.rank < 0 || *trace.rank >= gpus) {
      throw sim::UserError({trace.file, 1, 1}, "rank",
                           fmt::format("got {}, expected 0 to {}, the ranks of the scenario", *trace.rank, gpus - 1));
    }
    if (!taken.insert(*trace.rank).second)
      throw sim::UserError({trace.file, 1, 1}, "rank", fmt::format("got {} twice, expected a rank once", *trace.rank));
  }
  std::vector<std::int64_t> ranks;
  std::int64_t next = 0;
  for (const Trace& trace : traces) {
    while (!trace.rank && taken.contains(next)) ++next;
    if (!trace.rank && next >= gpus)
      throw sim::UserError(fmt::format("{}: got more traces than the {} ranks of the scenario", trace.file, gpus));
    ranks.push_back(trace.rank.value_or(next));
    taken.insert(ranks.back());
  }
  std::set<std::int64_t> stages;
  const workloads::Dims dims = layout.dims();
  for (const std::int64_t rank : ranks) stages.insert(dims.place(rank, workloads::Dim::pipeline));
  for (std::int64_t stage = 0; ranks.size() > 1 && stage < layout.pipeline; ++stage) {
    if (stages.contains(stage)) continue;
    throw sim::UserError(fmt::format(
        "{}: got traces of {} ranks, none of them of stage {} of the pipeline, expected one of each stage, or of one "
        "rank alone",
        traces.front().file, ranks.size(), stage));
  }
  return ranks;
}

std::vector<Trace> predict(const scenarios::Scenario& scenario, const std::vector<std::int64_t>& ranks) {
  workloads::Question options;
  options.timelines = ranks;
  const workloads::StepReport report = workloads::simulate_step(scenario.job, options);
  std::vector<Trace> traces;
  for (const workloads::Timeline& timeline : report.timelines) {
    traces.push_back(trace_of(timeline));
    // The step ends when its last rank does.
    traces.back().steps = {{0, report.iteration.value() / 1000}};
  }
  return traces;
}

}  // namespace orrery::tools
