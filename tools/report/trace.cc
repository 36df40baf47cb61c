// Writes traces event by event. All times are rounded down to whole nanoseconds first, both ends of every slice by the
// same rule, so that what nests in picoseconds nests in the file. Categories and arguments of kernels, transfers and
// launches are those of PyTorch's profiler (libkineto/src/output_json.cpp), so that its readers find what they look
// for.
#include "tools/report/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>

#include "sim/error.h"
#include "sim/settings.h"
#include "workloads/compile/placement.h"

namespace orrery::tools {

namespace {

using workloads::Timeline;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::int64_t nanoseconds(sim::SimTime t) { return t.value() / 1000; }

class TraceWriter {
 public:
  explicit TraceWriter(std::ostream& out) : out_(out) {}

  void begin(const std::string& name) {
    out_ << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"scenario\":" << quoted(name) << "},\"traceEvents\":[";
  }
  void end() { out_ << "\n]}\n"; }

  void metadata(std::size_t process, std::size_t thread, const char* what, const std::string& argument) {
    next();
    write(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{{}}}}})", process, thread, what, argument);
  }

  void counter(std::size_t process, const std::string& name, const char* unit, std::int64_t at_ns, double value) {
    next();
    write(R"({{"ph":"C","pid":{},"tid":0,"name":{},"ts":{},"args":{{"{}":{}}}}})", process, quoted(name),
          trace_microseconds(at_ns), unit, value);
  }

  /// One point of the arrow `id` within the slice that holds it. `phase`: s begins, t goes on, f ends.
  void arrow(std::size_t process, std::size_t thread, char phase, std::int64_t id, std::int64_t at_ns) {
    next();
    write(R"({{"ph":"{}","pid":{},"tid":{},"name":"transfer","cat":"transfer","id":{},"bp":"e","ts":{}}})", phase,
          process, thread, id, trace_microseconds(at_ns));
  }

  /// `arguments`: the inside of a JSON object; may be empty.
  void slice(std::size_t process, std::size_t thread, const std::string& name, std::string_view category,
             std::int64_t from_ns, std::int64_t to_ns, const std::string& arguments) {
    next();
    write(R"({{"ph":"X","pid":{},"tid":{},"name":{},"cat":"{}","ts":{},"dur":{},"args":{{{}}}}})", process, thread,
          quoted(name), category, trace_microseconds(from_ns),
          trace_microseconds(std::max<std::int64_t>(0, to_ns - from_ns)), arguments);
  }

 private:
  /// Through operator<<, which stops at the first failure; writing to the stream's buffer would run on past a full
  /// disk.
  template <class... Parts>
  void write(fmt::format_string<Parts...> form, Parts&&... parts) {
    text_.clear();
    fmt::format_to(std::back_inserter(text_), form, std::forward<Parts>(parts)...);
    out_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
  }
  void next() {
    out_ << (first_ ? "\n" : ",\n");
    first_ = false;
  }
  std::ostream& out_;
  fmt::memory_buffer text_;
  bool first_ = true;
};

/// Threads are numbered from 1, as processes are.
std::size_t thread_of(const workloads::Stream& stream) { return std::size_t{stream.order} + 1; }

std::size_t host_thread() { return workloads::all_streams().size() + 1; }

/// The pass that a span belongs to, as in "F0.3" for the forward pass of micro-batch 3 over chunk 0.
std::string pass_of(const Timeline::Span& span) {
  if (span.category == workloads::Category::optimizer) return "optimizer";
  return span.microbatch < 0 ? "" : fmt::format("{}{}.{}", span.pass, span.chunk, span.microbatch);
}

/// What a kernel does: FLOPs of matrix products, bytes of memory traffic, and the rate that it reaches.
std::string kernel_arguments(const workloads::KernelSlice& kernel) {
  const double seconds = sim::to_seconds(kernel.duration);
  std::string text = fmt::format("\"type\":\"{}\",\"bytes\":{}", calibration::name_of(kernel.type), kernel.bytes);
  if (kernel.flops > 0) text += fmt::format(",\"flops\":{}", kernel.flops);
  if (kernel.flops > 0 && seconds > 0) text += fmt::format(",\"tflops\":{:.4g}", kernel.flops / seconds / 1e12);
  if (kernel.bytes > 0 && seconds > 0) text += fmt::format(",\"gbs\":{:.4g}", kernel.bytes / seconds / 1e9);
  return text;
}

/// The chunk and micro-batch of a span's pass; empty where it is none.
std::string pass_arguments(const Timeline::Span& span) {
  return span.microbatch < 0 ? "" : fmt::format(R"(,"chunk":{},"microbatch":{})", span.chunk, span.microbatch);
}

/// `correlation`: of the first.
void write_kernels(TraceWriter& writer, std::size_t process, const Timeline::Span& span, std::int64_t correlation) {
  const std::vector<SliceTimes> times = kernel_times(span);
  for (std::size_t k = 0; k < times.size(); ++k) {
    const workloads::KernelSlice& kernel = span.kernels[k];
    writer.slice(process, thread_of(span.stream), kernel.name, "kernel", times[k].from, times[k].to,
                 fmt::format(R"("correlation":{},"stream":{},"kind":"{}","pass":"{}",)", correlation++,
                             thread_of(span.stream), kind_of(kernel), pass_of(span)) +
                     kernel_arguments(kernel));
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
      if (span.communicator == workloads::kNoCommunicator) continue;
      Members& of = members[span.communicator];
      if (of.timelines.empty() || of.timelines.back() != i) of.timelines.push_back(i);
      of.turns = std::max(of.turns, span.turn + 1);
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
  TimelineWriter(TraceWriter& writer, const TraceView& view)
      : writer_(writer), view_(view), members_(members_of(view.timelines)) {}

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
    write_memory(timeline);
  }

  /// The load of the busiest links.
  void write_links() {
    process_ = view_.timelines.size() + 1;
    if (view_.links.empty()) return;
    writer_.metadata(process_, 0, "process_name", "\"name\":\"network, the busiest links\"");
    writer_.metadata(process_, 0, "process_sort_index", fmt::format("\"sort_index\":{}", process_));
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
    writer_.metadata(process_, 0, "process_name", "\"name\":" + quoted(name));
    writer_.metadata(process_, 0, "process_sort_index", fmt::format("\"sort_index\":{}", process_));
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

  void write_thread(std::size_t thread, const std::string& name) {
    writer_.metadata(process_, thread, "thread_name", "\"name\":" + quoted(name));
    writer_.metadata(process_, thread, "thread_sort_index", fmt::format("\"sort_index\":{}", thread - 1));
  }

  void write_span(std::size_t which, const Timeline::Span& span, std::int64_t ready) {
    if (!is_shown(std::min(span.ready, span.start), span.finish)) return;
    const std::size_t thread = thread_of(span.stream);
    const std::int64_t start = nanoseconds(span.start), finish = nanoseconds(span.finish);
    const bool transfer = span.kernels.empty() && span.bytes > 0;
    if (transfer && ready < start) {
      writer_.slice(process_, thread, "wait for peers: " + span.name, "wait", ready, start, "");
    }
    writer_.slice(process_, thread, span.name, workloads::name_of(span.category), start, finish,
                  (transfer ? transfer_arguments(span)
                            : fmt::format(R"("kernels":{},"pass":"{}")", span.kernels.size(), pass_of(span))) +
                      pass_arguments(span));
    write_kernels(writer_, process_, span, correlation_);
    if (transfer) write_arrow(which, span, start, finish);
    write_host(span);
  }

  std::string transfer_arguments(const Timeline::Span& span) const {
    std::string arguments = fmt::format("\"bytes\":{}", span.bytes);
    if (span.call.ranks == 0) return arguments;
    if (span.ready < span.start)
      arguments += fmt::format(",\"arrived\":{}", trace_microseconds(nanoseconds(span.ready)));
    return arguments + fmt::format(R"(,"correlation":{},"stream":{},"pass":"{}","Collective name":"{}",)"
                                   R"("Group size":{},"Process Group Description":"{}")",
                                   correlation_, thread_of(span.stream), pass_of(span),
                                   calibration::name_of(span.call.op), span.call.ranks, span.call.group);
  }

  /// The host's work for a span: launches at its end, one for each kernel or transfer, other work before them.
  void write_host(const Timeline::Span& span) {
    sim::Duration launches{};
    for (const workloads::KernelSlice& kernel : span.kernels) launches += kernel.issue;
    const bool transfer = span.kernels.empty();
    sim::SimTime at = transfer ? span.host.from : sim::SimTime(span.host.until.value() - launches.value());
    if (at > span.host.from) {
      writer_.slice(process_, host_thread(), "host work", "cpu_op", nanoseconds(span.host.from), nanoseconds(at), "");
    }
    const auto launch = [&](sim::SimTime until, std::int64_t count) {
      if (until > at) {
        writer_.slice(process_, host_thread(), "cudaLaunchKernel", "cuda_runtime", nanoseconds(at), nanoseconds(until),
                      fmt::format(R"("correlation":{},"launches":{})", correlation_, count));
      }
      ++correlation_;
      at = until;
    };
    for (const workloads::KernelSlice& kernel : span.kernels) launch(at + kernel.issue, kernel.launches);
    if (transfer) launch(span.host.until, 1);
  }

  /// The gaps between kernels on a track of its own: what the rank waits for without computing.
  void write_idle(const Timeline& timeline) {
    const std::size_t thread = host_thread() + 1;
    writer_.metadata(process_, thread, "thread_name", "\"name\":\"no kernel runs\"");
    writer_.metadata(process_, thread, "thread_sort_index", fmt::format("\"sort_index\":{}", thread));
    std::vector<std::pair<sim::SimTime, sim::SimTime>> busy;
    for (const Timeline::Span& span : timeline.spans) {
      if (!span.kernels.empty()) busy.emplace_back(span.start, span.finish);
    }
    std::sort(busy.begin(), busy.end());
    sim::SimTime until{};
    for (const auto& [start, finish] : busy) {
      const bool seen = nanoseconds(start) > nanoseconds(until) && is_shown(until, start);
      if (seen) writer_.slice(process_, thread, "idle", "idle", nanoseconds(until), nanoseconds(start), "");
      until = std::max(until, finish);
    }
  }

  /// The end of an arrow stands at the end of its slice, so that readers meet it after the beginning, whichever rank
  /// comes first in the file. A transfer of less than two nanoseconds has no room for both.
  void write_arrow(std::size_t which, const Timeline::Span& span, std::int64_t start, std::int64_t finish) {
    if (span.communicator == workloads::kNoCommunicator || finish < start + 2) return;
    const Members& of = members_.at(span.communicator);
    if (of.timelines.size() < 2) return;
    const bool message = span.category == workloads::Category::pipeline_comm;
    const bool first = message ? span.stream.sends : of.timelines.front() == which;
    const bool last = message ? !first : of.timelines.back() == which;
    const std::size_t thread = thread_of(span.stream);
    writer_.arrow(process_, thread,
                  first  ? 's'
                  : last ? 'f'
                         : 't',
                  of.first_arrow + span.turn, last ? finish - 1 : start);
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
        writer_.counter(process_, name, unit, nanoseconds(view_.window.from), value(*before));
      before = nullptr;
      writer_.counter(process_, name, unit, nanoseconds(point.at), value(point));
    }
    if (before != nullptr) writer_.counter(process_, name, unit, nanoseconds(view_.window.from), value(*before));
  }

  TraceWriter& writer_;
  const TraceView& view_;
  std::map<std::int64_t, Members> members_;
  std::size_t process_ = 0;
  std::int64_t correlation_ = 1;  // of the next kernel or transfer
};

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

void write_trace(std::ostream& out, const TraceView& view) {
  TraceWriter writer(out);
  writer.begin(view.name);
  TimelineWriter timelines(writer, view);
  for (std::size_t i = 0; i < view.timelines.size() && out; ++i) timelines.write(i);
  timelines.write_links();
  writer.end();
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
