// What a trace is written to, event by event: a file in the form of Chrome's trace events, or of Perfetto's protobuf.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace orrery::tools {

/// A time as an argument, in nanoseconds; shown in microseconds, as a trace's own times are.
struct TraceTime {
  std::int64_t nanoseconds = 0;
};
using TraceValue = std::variant<std::int64_t, double, TraceTime, std::string>;
/// Named values of a slice, in order; names outlive the trace.
using TraceArguments = std::vector<std::pair<std::string_view, TraceValue>>;

/// One point of the arrow `id`, at the slice that it is given with. `phase`: s begins, t goes on, f ends.
struct TraceArrow {
  char phase = 's';
  std::int64_t id = 0, at_ns = 0;
};

/// Slices of one thread come in the order of their beginnings, a slice before those inside it. All times are whole
/// nanoseconds. Failures to write show in the stream's state.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void begin(const std::string& scenario) = 0;
  virtual void end() = 0;
  /// `order`: where readers show it.
  virtual void process(std::size_t process, const std::string& name, std::size_t order) = 0;
  virtual void thread(std::size_t process, std::size_t thread, const std::string& name, std::size_t order) = 0;
  virtual void counter(std::size_t process, const std::string& name, const char* unit, std::int64_t at_ns,
                       double value) = 0;
  virtual void slice(std::size_t process, std::size_t thread, const std::string& name, std::string_view category,
                     std::int64_t from_ns, std::int64_t to_ns, const TraceArguments& arguments,
                     const std::optional<TraceArrow>& arrow = {}) = 0;
};

/// The JSON object format of the "Trace Event Format" (Google, 2016), which ui.perfetto.dev and chrome://tracing open
/// and readers of PyTorch's profiler know.
std::unique_ptr<TraceSink> chrome_sink(std::ostream& out);
/// Perfetto's own format (perfetto.dev/docs/reference/trace-packet-proto), deflated: a tenth as large.
std::unique_ptr<TraceSink> perfetto_sink(std::ostream& out);

}  // namespace orrery::tools
