// Timelines as events, one by one. All times are rounded down to whole nanoseconds first, both ends of every slice by
// the same rule, so that what nests in picoseconds nests in the file. Categories and arguments of kernels, transfers
// and launches are those of PyTorch's profiler (libkineto/src/output_json.cpp), so that its readers find what they look
// for.
#include "tools/report/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <tuple>

#include "sim/error.h"
#include "sim/settings.h"
#include "tools/report/trace_sink.h"
#include "workloads/groups/placement.h"

namespace orrery::tools {

namespace {

using workloads::Timeline;

std::int64_t nanoseconds(sim::SimTime t) { return t.value() / 1000; }

/// Threads are numbered from 1, as processes are.
std::size_t thread_of(const workloads::Stream& stream) { return std::size_t{stream.order} + 1; }

std::size_t host_thread() { return workloads::all_streams().size() + 1; }

/// The pass that a span belongs to, as in "F0.3" for the forward pass of micro-batch 3 over chunk 0.
std::string pass_of(const Timeline::Span& span) {
  if (span.category == workloads::Category::optimizer) return "optimizer";
  return span.microbatch < 0 ? "" : fmt::format("{}{}.{}", span.pass, span.chunk, span.microbatch);
}

/// A rate as people read it.
double rounded(double rate) { return std::strtod(fmt::format("{:.4g}", rate).c_str(), nullptr); }

void add_shape(const workloads::KernelSlice& kernel, TraceArguments& arguments) {
  using Names = std::array<std::string_view, std::tuple_size_v<workloads::KernelShape>>;
  constexpr Names kProduct{"m", "n", "k", "batch"};
  constexpr Names kAttention{"batch", "heads", "kv_heads", "queries", "keys", "head_dim"};
  const Names& names = kind_of(kernel) == "attention" ? kAttention : kProduct;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (kernel.shape[i] > 0) arguments.emplace_back(names[i], kernel.shape[i]);
  }
}

/// What a kernel does: FLOPs of matrix products, bytes of memory traffic, the rate that it reaches, and its shape.
void add_work(const workloads::KernelSlice& kernel, TraceArguments& arguments) {
  const double seconds = sim::to_seconds(kernel.duration);
  arguments.emplace_back("type", std::string(calibration::name_of(kernel.type)));
  arguments.emplace_back("bytes", kernel.bytes);
  if (kernel.flops > 0) arguments.emplace_back("flops", kernel.flops);
  if (kernel.flops > 0 && seconds > 0) arguments.emplace_back("tflops", rounded(kernel.flops / seconds / 1e12));
  if (kernel.bytes > 0 && seconds > 0) arguments.emplace_back("gbs", rounded(kernel.bytes / seconds / 1e9));
  add_shape(kernel, arguments);
}

/// The chunk and micro-batch of a span's pass, and its layer, where it is of one.
void add_pass(const Timeline::Span& span, TraceArguments& arguments) {
  if (span.microbatch >= 0) {
    arguments.emplace_back("chunk", std::int64_t{span.chunk});
    arguments.emplace_back("microbatch", std::int64_t{span.microbatch});
  }
  if (span.layer >= 0) arguments.emplace_back("layer", std::int64_t{span.layer});
}

/// `correlation`: of the first.
void write_kernels(TraceSink& sink, std::size_t process, const Timeline::Span& span, std::int64_t correlation) {
  const std::vector<SliceTimes> times = kernel_times(span);
  for (std::size_t k = 0; k < times.size(); ++k) {
    const workloads::KernelSlice& kernel = span.kernels[k];
    TraceArguments arguments{{"correlation", correlation++},
                             {"stream", static_cast<std::int64_t>(thread_of(span.stream))},
                             {"kind", std::string(kind_of(kernel))},
                             {"pass", pass_of(span)}};
    add_work(kernel, arguments);
    sink.slice(process, thread_of(span.stream), kernel.name, "kernel", times[k].from, times[k].to, arguments);
  }
}

/// Which timelines take part in a communicator, and where its arrows begin to be numbered.
struct Members {
  std::vector<std::size_t> timelines;
  std::int64_t first_arrow = 0, turns = 0;
};

std::map<std::int64_t, Members> members_of(const std::vector<Timeline>& timelines) {
  std::map<std::int64_t, Members> members;
  for (std::size_t i = 0; i < timelines.size(); ++i) {
    for (const Timeline::Span& span : timelines[i].spans) {
      if (span.meeting.communicator == workloads::kNoCommunicator) continue;
      Members& of = members[span.meeting.communicator];
      if (of.timelines.empty() || of.timelines.back() != i) of.timelines.push_back(i);
      of.turns = std::max(of.turns, span.meeting.turn + 1);
    }
  }
  std::int64_t arrows = 0;
  for (auto& [communicator, of] : members) {
    of.first_arrow = arrows;
    if (of.timelines.size() > 1) arrows += of.turns;
  }
  return members;
}

class TimelineWriter {
 public:
  TimelineWriter(TraceSink& sink, const TraceView& view)
      : sink_(sink), view_(view), members_(members_of(view.timelines)) {}

  void write(std::size_t which) {
    const Timeline& timeline = view_.timelines[which];
    // 0 is the idle process of a kernel to some readers.
    process_ = which + 1;
    write_names(which, timeline);
    std::vector<std::int64_t> busy_until(workloads::all_streams().size());
    for (const Timeline::Span& span : timeline.spans) {
      std::int64_t& busy = busy_until[span.stream.order];
      write_span(which, span, std::max(busy, nanoseconds(span.ready)));
      busy = std::max(busy, nanoseconds(span.finish));
    }
    write_idle(timeline);
    write_gaps(timeline);
    write_memory(timeline);
  }

  /// The load of the busiest links.
  void write_links() {
    process_ = view_.timelines.size() + 1;
    if (view_.links.empty()) return;
    sink_.process(process_, "network, the busiest links", process_);
    for (std::size_t i = 0; i < std::min(kTracedLinks, view_.links.size()); ++i) {
      const workloads::LinkLoad& link = view_.links[i];
      const std::string name =
          fmt::format("{} ({}, {:.4g} GB/s)", link.name, topology::name_of(link.tier), link.capacity / 1e9);
      write_counter(name, "GB/s", link.rates, [](const auto& rate) { return rate.bytes_per_s / 1e9; });
    }
  }

 private:
  bool is_shown(sim::SimTime from, sim::SimTime to) const { return from <= view_.window.to && to >= view_.window.from; }

  void write_names(std::size_t which, const Timeline& timeline) {
    const std::string name = which < view_.process_names.size()
                                 ? view_.process_names[which]
                                 : fmt::format("rank {}: stage {}", timeline.rank, timeline.stage);
    sink_.process(process_, name, process_);
    std::vector<bool> used(workloads::all_streams().size());
    for (const Timeline::Span& span : timeline.spans) used[span.stream.order] = true;
    const bool hosted = std::any_of(timeline.spans.begin(), timeline.spans.end(),
                                    [](const Timeline::Span& span) { return span.host.until > span.host.from; });
    if (hosted) write_thread(host_thread(), "host");
    for (const workloads::Stream& stream : workloads::all_streams()) {
      if (!used[stream.order]) continue;
      write_thread(thread_of(stream), std::string(stream.name));
    }
  }

  void write_thread(std::size_t thread, const std::string& name) { sink_.thread(process_, thread, name, thread - 1); }

  void write_span(std::size_t which, const Timeline::Span& span, std::int64_t ready) {
    if (!is_shown(std::min(span.ready, span.start), span.finish)) return;
    const std::size_t thread = thread_of(span.stream);
    const std::int64_t start = nanoseconds(span.start), finish = nanoseconds(span.finish);
    const bool transfer = span.kernels.empty() && span.bytes > 0;
    if (transfer && ready < start)
      sink_.slice(process_, thread, "wait for peers: " + span.name, "wait", ready, start, {});
    TraceArguments arguments;
    if (transfer)
      arguments = transfer_arguments(span);
    else
      arguments = {{"kernels", static_cast<std::int64_t>(span.kernels.size())}, {"pass", pass_of(span)}};
    add_pass(span, arguments);
    sink_.slice(process_, thread, span.name, workloads::name_of(span.category), start, finish, arguments,
                transfer ? arrow_of(which, span, start, finish) : std::nullopt);
    write_kernels(sink_, process_, span, correlation_);
    write_host(span);
  }

  TraceArguments transfer_arguments(const Timeline::Span& span) const {
    TraceArguments arguments{{"bytes", span.bytes}};
    if (span.call.ranks == 0) return arguments;
    if (span.ready < span.start) arguments.emplace_back("arrived", TraceTime{nanoseconds(span.ready)});
    arguments.emplace_back("correlation", correlation_);
    arguments.emplace_back("stream", static_cast<std::int64_t>(thread_of(span.stream)));
    arguments.emplace_back("pass", pass_of(span));
    arguments.emplace_back("Collective name", std::string(calibration::name_of(span.call.op)));
    arguments.emplace_back("Group size", span.call.ranks);
    arguments.emplace_back("Process Group Description", std::string(span.call.group));
    return arguments;
  }

  /// The host's work for a span: launches at its end, one for each kernel or transfer, other work before them or before
  /// the kernel that it belongs to.
  void write_host(const Timeline::Span& span) {
    sim::Duration launches{};
    for (const workloads::KernelSlice& kernel : span.kernels) launches += kernel.host + kernel.issue;
    const bool transfer = span.kernels.empty();
    sim::SimTime at = transfer ? span.host.from : sim::SimTime(span.host.until.value() - launches.value());
    const auto work = [&](sim::SimTime from, sim::SimTime until) {
      if (until > from)
        sink_.slice(process_, host_thread(), "host work", "cpu_op", nanoseconds(from), nanoseconds(until), {});
    };
    work(span.host.from, at);
    const auto launch = [&](sim::SimTime until, std::int64_t count) {
      if (until > at) {
        sink_.slice(process_, host_thread(), "cudaLaunchKernel", "cuda_runtime", nanoseconds(at), nanoseconds(until),
                    {{"correlation", correlation_}, {"launches", count}});
      }
      ++correlation_;
      at = until;
    };
    for (const workloads::KernelSlice& kernel : span.kernels) {
      work(at, at + kernel.host);
      at = at + kernel.host;
      launch(at + kernel.issue, kernel.launches);
    }
    if (transfer) launch(span.host.until, 1);
  }

  /// The gaps between kernels on a track of its own: what the rank waits for without computing.
  void write_idle(const Timeline& timeline) {
    const std::size_t thread = host_thread() + 1;
    sink_.thread(process_, thread, "no kernel runs", thread);
    std::vector<std::pair<sim::SimTime, sim::SimTime>> busy;
    for (const Timeline::Span& span : timeline.spans) {
      if (!span.kernels.empty()) busy.emplace_back(span.start, span.finish);
    }
    std::sort(busy.begin(), busy.end());
    sim::SimTime until{};
    for (const auto& [start, finish] : busy) {
      const bool seen = nanoseconds(start) > nanoseconds(until) && is_shown(until, start);
      if (seen) sink_.slice(process_, thread, "idle", "idle", nanoseconds(until), nanoseconds(start), {});
      until = std::max(until, finish);
    }
  }

  /// What the gaps are booked as in the breakdown: the bubble on a track of its own, and all else that is exposed.
  void write_gaps(const Timeline& timeline) {
    const std::size_t bubble = host_thread() + 2, exposed = bubble + 1;
    const auto of_pipeline = [](const Timeline::Gap& gap) { return gap.category == workloads::Category::bubble; };
    const auto bubbles = std::count_if(timeline.gaps.begin(), timeline.gaps.end(), of_pipeline);
    if (bubbles > 0) sink_.thread(process_, bubble, "bubble", bubble);
    if (bubbles < std::ssize(timeline.gaps)) sink_.thread(process_, exposed, "exposed time, by cause", exposed);
    for (const Timeline::Gap& gap : timeline.gaps) {
      if (!is_shown(gap.from, gap.to)) continue;
      sink_.slice(process_, of_pipeline(gap) ? bubble : exposed, std::string(workloads::name_of(gap.category)), "gap",
                  nanoseconds(gap.from), nanoseconds(gap.to), {});
    }
  }

  /// The end of an arrow stands at the end of its slice, so that readers meet it after the beginning, whichever rank
  /// comes first in the file. A transfer of less than two nanoseconds has no room for both.
  std::optional<TraceArrow> arrow_of(std::size_t which, const Timeline::Span& span, std::int64_t start,
                                     std::int64_t finish) const {
    if (span.meeting.communicator == workloads::kNoCommunicator || finish < start + 2) return {};
    const Members& of = members_.at(span.meeting.communicator);
    if (of.timelines.size() < 2) return {};
    const bool message = span.category == workloads::Category::pipeline_comm;
    const bool first = message ? span.stream.sends : of.timelines.front() == which;
    const bool last = message ? !first : of.timelines.back() == which;
    return TraceArrow{first ? 's' : last ? 'f' : 't', of.first_arrow + span.meeting.turn, last ? finish - 1 : start};
  }

  void write_memory(const Timeline& timeline) {
    write_counter("memory", "GB", timeline.memory, [](const auto& point) { return point.bytes / 1e9; });
  }

  /// The points within the window, and the one in force where it begins.
  template <class Point, class Value>
  void write_counter(const std::string& name, const char* unit, const std::vector<Point>& points, const Value& value) {
    const Point* before = nullptr;
    for (const Point& point : points) {
      if (point.at > view_.window.to) break;
      if (point.at < view_.window.from) {
        before = &point;
        continue;
      }
      if (before != nullptr && point.at > view_.window.from)
        sink_.counter(process_, name, unit, nanoseconds(view_.window.from), value(*before));
      before = nullptr;
      sink_.counter(process_, name, unit, nanoseconds(point.at), value(point));
    }
    if (before != nullptr) sink_.counter(process_, name, unit, nanoseconds(view_.window.from), value(*before));
  }

  TraceSink& sink_;
  const TraceView& view_;
  std::map<std::int64_t, Members> members_;
  std::size_t process_ = 0;
  std::int64_t correlation_ = 1;  // of the next kernel or transfer
};

/// The critical path and the legend, in a process of their own behind all others.
class PathWriter {
 public:
  PathWriter(TraceSink& sink, const TraceView& view) : sink_(sink), view_(view), process_(view.timelines.size() + 2) {}

  void write() {
    sink_.process(process_, "step: critical path and legend", 0);
    sink_.thread(process_, kPath, "critical path", kPath);
    sink_.thread(process_, kLegend, "legend", kLegend);
    for (std::size_t i = 0; i < view_.path.size();) i = write_run(i);
    const sim::SimTime end = view_.path.back().to;
    sink_.slice(process_, kLegend, "what the tracks are: select this", "legend",
                nanoseconds(std::min(end, view_.window.from)), nanoseconds(std::min(end, view_.window.to)), legend());
  }

 private:
  static constexpr std::size_t kPath = 1, kLegend = 2;

  const Timeline::Span* span_of(const PathPart& part) const {
    return part.span == PathPart::kNone ? nullptr : &view_.timelines[part.timeline].spans[part.span];
  }

  /// The parts of one pass on one rank lie in a slice that is named by both. Returns the part behind them.
  std::size_t write_run(std::size_t first) {
    const Timeline& timeline = view_.timelines[view_.path[first].timeline];
    const auto label = [&](const PathPart& part) {
      const Timeline::Span* span = span_of(part);
      return span == nullptr ? "host, or a rank that is not drawn" : pass_of(*span);
    };
    const std::string pass = label(view_.path[first]);
    std::size_t end = first + 1;
    while (end < view_.path.size() && view_.path[end].timeline == view_.path[first].timeline &&
           label(view_.path[end]) == pass)
      ++end;
    const sim::SimTime from = view_.path[first].from, to = view_.path[end - 1].to;
    if (from > view_.window.to || to < view_.window.from) return end;
    sink_.slice(
        process_, kPath, fmt::format("stage {}, rank {}: {}", timeline.stage, timeline.rank, pass), "critical path",
        nanoseconds(from), nanoseconds(to),
        {{"rank", timeline.rank}, {"stage", timeline.stage}, {"parts", static_cast<std::int64_t>(end - first)}});
    for (std::size_t i = first; i < end; ++i) {
      const PathPart& part = view_.path[i];
      if (const Timeline::Span* span = span_of(part)) {
        sink_.slice(process_, kPath, span->name, "critical path", nanoseconds(part.from), nanoseconds(part.to),
                    {{"category", std::string(workloads::name_of(span->category))}});
      }
    }
    return end;
  }

  static TraceArguments legend() {
    return {{"compute", std::string("kernels by pass: F forward, B backward, b and W its halves; F3.2 is micro-batch 2 "
                                    "over chunk 3")},
            {"collective, send, receive", std::string("transfers, a track for each stream; arrows join their ranks")},
            {"host", std::string("launches, each before its kernel; correlation tells which")},
            {"no kernel runs", std::string("all gaps between kernels")},
            {"bubble", std::string("the gaps in which a rank waits for other stages of the pipeline")},
            {"exposed time, by cause", std::string("all other gaps, by what the next kernel waited for")},
            {"critical path", std::string("the operations that follow on each other from the step's end back to its "
                                          "beginning, through the ranks that are drawn")},
            {"layer", std::string("of the model, the embedding 0")},
            {"m, n, k", std::string("of a product, as the library is asked for it, whole also where it is cut")},
            {"memory", std::string("what a rank holds, in GB")}};
  }

  TraceSink& sink_;
  const TraceView& view_;
  std::size_t process_;
};

void write_path(TraceSink& sink, const TraceView& view) { PathWriter(sink, view).write(); }

/// Digits alone; nothing else is a rank.
std::optional<std::int64_t> rank_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.front() == '-') return {};
  return value;
}

}  // namespace

std::vector<SliceTimes> kernel_times(const Timeline::Span& span) {
  double sum = 0;
  for (const workloads::KernelSlice& kernel : span.kernels) sum += static_cast<double>(kernel.duration.value());
  const double room = static_cast<double>((span.finish - span.start).value());
  const double scale = sum > room && sum > 0 ? room / sum : 1.0;
  double at = static_cast<double>(span.start.value());
  const std::int64_t end = nanoseconds(span.finish);
  std::vector<SliceTimes> times;
  for (const workloads::KernelSlice& kernel : span.kernels) {
    const double until = at + scale * static_cast<double>(kernel.duration.value());
    times.push_back(
        {std::min(end, static_cast<std::int64_t>(at / 1000)), std::min(end, static_cast<std::int64_t>(until / 1000))});
    at = until;
  }
  return times;
}

std::string_view kind_of(const workloads::KernelSlice& kernel) {
  if (kernel.flops <= 0) return "memory";
  const auto ends = [&](std::string_view tail) { return std::string_view(kernel.name).ends_with(tail); };
  return ends("attention forward") || ends("attention backward") ? "attention" : "matmul";
}

std::string trace_microseconds(std::int64_t nanoseconds) {
  std::string text = fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
  // 1.001 is stored a little below 1.001: times 1000 and cut off, it would lose a nanosecond and slices would overlap.
  // One more picosecond is far above that error and far below a nanosecond.
  if (static_cast<std::int64_t>(std::strtod(text.c_str(), nullptr) * 1000.0) != nanoseconds) text += "001";
  return text;
}

void write_trace(std::ostream& out, const TraceView& view, TraceForm form) {
  const std::unique_ptr<TraceSink> sink = form == TraceForm::perfetto ? perfetto_sink(out) : chrome_sink(out);
  sink->begin(view.name);
  TimelineWriter timelines(*sink, view);
  for (std::size_t i = 0; i < view.timelines.size() && out; ++i) timelines.write(i);
  timelines.write_links();
  if (!view.path.empty()) write_path(*sink, view);
  sink->end();
}

TraceForm trace_form(const std::string& path) {
  return path.ends_with(".pftrace") || path.ends_with(".pftrace.gz") ? TraceForm::perfetto : TraceForm::chrome;
}

std::vector<std::string> process_names(const workloads::Dims& dims, const std::vector<Timeline>& timelines) {
  using workloads::Dim;
  std::vector<std::string> names;
  for (const Timeline& timeline : timelines) {
    std::string name = fmt::format("rank {}: stage {}", timeline.rank, dims.place(timeline.rank, Dim::pipeline));
    for (const Dim dim : {Dim::data, Dim::context, Dim::tensor}) {
      if (dims.size(dim) > 1) name += fmt::format(", {} {}", name_of(dim), dims.place(timeline.rank, dim));
    }
    if (timeline.ranks > 1) name += fmt::format(", stands for {} ranks", timeline.ranks);
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::int64_t> parse_trace_ranks(const std::string& text, std::int64_t ranks) {
  const auto refuse = [&](const std::string& problem) {
    throw sim::UserError(
        fmt::format("--trace-ranks: got '{}'{}, expected ranks from 0 to {} and ranges of them, at most {} in "
                    "all, as in 0,5,8:15",
                    text, problem, ranks - 1, kMostTracedRanks));
  };
  std::set<std::int64_t> chosen;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, comma - begin);
    begin = comma + 1;
    const std::size_t colon = part.find(':');
    const auto first = part.empty() ? std::nullopt : rank_in(part.substr(0, colon));
    const auto last = colon == std::string_view::npos ? first
                      : colon + 1 == part.size()      ? std::nullopt
                                                      : rank_in(part.substr(colon + 1));
    if (!first || !last || *last < *first) refuse("");
    if (*last >= ranks) refuse(fmt::format(", the job has {} ranks", ranks));
    if (*last - *first >= kMostTracedRanks) refuse(", too many to draw");
    for (std::int64_t rank = *first; rank <= *last; ++rank) chosen.insert(rank);
    if (static_cast<std::int64_t>(chosen.size()) > kMostTracedRanks) refuse(", too many to draw");
  }
  return {chosen.begin(), chosen.end()};
}

TraceWindow parse_trace_window(const std::string& text) {
  TraceWindow window;
  const std::size_t colon = text.find(':');
  const auto time = [&](const std::string& part) {
    return sim::SimTime(sim::Settings::scalar(part, {"--trace-window", 0, 0}).as_duration().value());
  };
  const bool one = colon != std::string::npos && text.find(':', colon + 1) == std::string::npos && text.size() > 1;
  if (one && colon > 0) window.from = time(text.substr(0, colon));
  if (one && colon + 1 < text.size()) window.to = time(text.substr(colon + 1));
  if (!one || window.from > window.to) {
    throw sim::UserError(
        fmt::format("--trace-window: got '{}', expected FROM:TO of two times, the first not later, as in "
                    "0.1s:0.3s",
                    text));
  }
  return window;
}

}  // namespace orrery::tools
