// Chrome's trace events. Times are microseconds with three decimals.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tools/report/trace.h"
#include "tools/report/trace_sink.h"

namespace orrery::tools {

namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_of(const TraceValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
  if (const auto* time = std::get_if<TraceTime>(&value)) return trace_microseconds(time->nanoseconds);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  return fmt::format("{}", std::get<std::int64_t>(value));
}

std::string json_of(const TraceArguments& arguments) {
  std::string text;
  for (const auto& [name, value] : arguments)
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name, json_of(value));
  return text;
}

class ChromeSink : public TraceSink {
 public:
  explicit ChromeSink(std::ostream& out) : out_(out) {}

  void begin(const std::string& scenario) override {
    out_ << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"scenario\":" << quoted(scenario) << "},\"traceEvents\":[";
  }
  void end() override { out_ << "\n]}\n"; }

  void process(std::size_t process, const std::string& name, std::size_t order) override {
    metadata(process, 0, "process_name", "\"name\":" + quoted(name));
    metadata(process, 0, "process_sort_index", fmt::format("\"sort_index\":{}", order));
  }
  void thread(std::size_t process, std::size_t thread, const std::string& name, std::size_t order) override {
    metadata(process, thread, "thread_name", "\"name\":" + quoted(name));
    metadata(process, thread, "thread_sort_index", fmt::format("\"sort_index\":{}", order));
  }

  void counter(std::size_t process, const std::string& name, const char* unit, std::int64_t at_ns,
               double value) override {
    next();
    write(R"({{"ph":"C","pid":{},"tid":0,"name":{},"ts":{},"args":{{"{}":{}}}}})", process, quoted(name),
          trace_microseconds(at_ns), unit, value);
  }

  void slice(std::size_t process, std::size_t thread, const std::string& name, std::string_view category,
             std::int64_t from_ns, std::int64_t to_ns, const TraceArguments& arguments,
             const std::optional<TraceArrow>& arrow) override {
    next();
    write(R"({{"ph":"X","pid":{},"tid":{},"name":{},"cat":"{}","ts":{},"dur":{},"args":{{{}}}}})", process, thread,
          quoted(name), category, trace_microseconds(from_ns),
          trace_microseconds(std::max<std::int64_t>(0, to_ns - from_ns)), json_of(arguments));
    if (!arrow) return;
    next();
    write(R"({{"ph":"{}","pid":{},"tid":{},"name":"transfer","cat":"transfer","id":{},"bp":"e","ts":{}}})",
          arrow->phase, process, thread, arrow->id, trace_microseconds(arrow->at_ns));
  }

 private:
  void metadata(std::size_t process, std::size_t thread, const char* what, const std::string& argument) {
    next();
    write(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{{}}}}})", process, thread, what, argument);
  }
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

}  // namespace

std::unique_ptr<TraceSink> chrome_sink(std::ostream& out) { return std::make_unique<ChromeSink>(out); }

}  // namespace orrery::tools
