// Writes traces event by event. All times are rounded down to whole nanoseconds first, both ends of every slice by the
// same rule, so that what nests in picoseconds nests in the file. Left out: flow arrows between ranks, counters.
#include "tools/report/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>

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

void write_names(TraceWriter& writer, std::size_t process, const Timeline& timeline) {
  const std::string name = timeline.ranks > 1 ? fmt::format("stage {} (rank {}, stands for {} ranks)", timeline.stage,
                                                            timeline.rank, timeline.ranks)
                                              : fmt::format("stage {} (rank {})", timeline.stage, timeline.rank);
  writer.metadata(process, 0, "process_name", "\"name\":" + quoted(name));
  writer.metadata(process, 0, "process_sort_index", fmt::format("\"sort_index\":{}", process));
  std::array<bool, workloads::kStreams> used{};
  for (const Timeline::Span& span : timeline.spans) used[static_cast<std::size_t>(span.stream)] = true;
  for (std::size_t stream = 0; stream < workloads::kStreams; ++stream) {
    if (!used[stream]) continue;
    const std::string label(workloads::name_of(static_cast<workloads::Stream>(stream)));
    writer.metadata(process, stream + 1, "thread_name", "\"name\":" + quoted(label));
    writer.metadata(process, stream + 1, "thread_sort_index", fmt::format("\"sort_index\":{}", stream));
  }
}

/// Kernels one after the other from the start of their span. A slow GPU or jitter stretches the span, not the list:
/// when the list is longer than the span it is scaled to fit; when it is shorter, what is left is the host's fault.
void write_kernels(TraceWriter& writer, std::size_t process, const Timeline::Span& span) {
  double sum = 0;
  for (const workloads::KernelSlice& kernel : span.kernels) sum += static_cast<double>(kernel.duration.value());
  const double room = static_cast<double>((span.finish - span.start).value());
  const double scale = sum > room && sum > 0 ? room / sum : 1.0;
  double at = static_cast<double>(span.start.value());
  const std::int64_t end = nanoseconds(span.finish);
  for (const workloads::KernelSlice& kernel : span.kernels) {
    const double until = at + scale * static_cast<double>(kernel.duration.value());
    writer.slice(process, static_cast<std::size_t>(span.stream) + 1, kernel.name, "kernel",
                 std::min(end, static_cast<std::int64_t>(at / 1000)),
                 std::min(end, static_cast<std::int64_t>(until / 1000)), "");
    at = until;
  }
}

void write_spans(TraceWriter& writer, std::size_t process, const Timeline& timeline) {
  std::array<std::int64_t, workloads::kStreams> busy_until{};
  for (const Timeline::Span& span : timeline.spans) {
    const std::size_t stream = static_cast<std::size_t>(span.stream);
    const std::int64_t start = nanoseconds(span.start), finish = nanoseconds(span.finish);
    const bool transfer = span.kernels.empty() && span.bytes > 0;
    const std::int64_t ready = std::max(busy_until[stream], nanoseconds(span.ready));
    if (transfer && ready < start) {
      writer.slice(process, stream + 1, "wait for peers: " + span.name, "wait", ready, start, "");
    }
    writer.slice(
        process, stream + 1, span.name, workloads::name_of(span.category), start, finish,
        transfer ? fmt::format("\"bytes\":{}", span.bytes) : fmt::format("\"kernels\":{}", span.kernels.size()));
    write_kernels(writer, process, span);
    busy_until[stream] = std::max(busy_until[stream], finish);
  }
}

}  // namespace

std::string trace_microseconds(std::int64_t nanoseconds) {
  std::string text = fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
  // 1.001 is stored a little below 1.001: times 1000 and cut off, it would lose a nanosecond and slices would overlap.
  // One more picosecond is far above that error and far below a nanosecond.
  if (static_cast<std::int64_t>(std::strtod(text.c_str(), nullptr) * 1000.0) != nanoseconds) text += "001";
  return text;
}

void write_trace(std::ostream& out, const std::string& name, const std::vector<Timeline>& timelines) {
  TraceWriter writer(out);
  writer.begin(name);
  for (std::size_t process = 0; process < timelines.size(); ++process) {
    write_names(writer, process, timelines[process]);
    write_spans(writer, process, timelines[process]);
  }
  writer.end();
}

}  // namespace orrery::tools
