// The Chrome trace that PyTorch's profiler (libkineto/src/output_json.cpp) and this program write, read event by event:
// memory grows with what is kept of the events, not with the file. Events of phase X alone are read; categories kernel,
// gpu_memcpy and gpu_memset are the device's, cuda_runtime, cuda_driver (hip_*, runtime, driver) the launches, cpu_op
// the framework's operations. ts and dur are microseconds with at most three decimals, in 64-bit floating point where
// Kineto writes absolute times; they are read from their digits. Left out: python_function, ac2g arrows, counters.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/error.h"
#include "tools/learn/kernel_names.h"
#include "tools/learn/trace.h"

namespace orrery::tools {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::size_t kLongestToken = 64;  // blocks without a quotation mark: no trace has such texts or numbers

/// The bytes of a file, gunzipped where they are gzipped, and how many lines have gone by.
class Bytes {
 public:
  explicit Bytes(const std::string& file) : file_(file), in_(gzopen(file.c_str(), "rb"), gzclose), block_(kBlock) {
    if (in_ == nullptr) throw sim::UserError(fmt::format("{}: cannot be read, expected a trace", file));
    gzbuffer(in_.get(), 1U << 18);
    refill();
  }
  bool done() const { return at_ == end_; }
  char operator*() const { return *at_; }
  void next() {
    if (++at_ == end_) refill();
  }
  /// Of the byte at hand, both from 1.
  sim::Place place() const {
    std::int64_t line = lines_ + 1, column = column_ + 1;
    for (const char* c = block_.data(); c < at_; ++c) {
      column = *c == '\n' ? 1 : column + 1;
      line += *c == '\n' ? 1 : 0;
    }
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    return {file_, static_cast<int>(std::min(line, kMost)), static_cast<int>(std::min(column, kMost))};
  }
  bool cut() const { return cut_; }

 private:
  void refill() {
    for (const char* c = block_.data(); c < end_; ++c) {
      column_ = *c == '\n' ? 0 : column_ + 1;
      lines_ += *c == '\n' ? 1 : 0;
    }
    const int got = gzread(in_.get(), block_.data(), static_cast<unsigned>(block_.size()));
    int error = Z_OK;
    gzerror(in_.get(), &error);
    cut_ = got < 0 || error == Z_BUF_ERROR;
    at_ = block_.data();
    end_ = at_ + std::max(got, 0);
    const bool quotes = std::memchr(at_, '"', static_cast<std::size_t>(end_ - at_)) != nullptr;
    without_quotes_ = quotes ? 0 : without_quotes_ + 1;
    if (without_quotes_ > kLongestToken)
      throw sim::UserError(fmt::format("{}: got 64 MiB without a text in them, expected the JSON of a trace", file_));
  }

  std::string file_;
  std::unique_ptr<gzFile_s, int (*)(gzFile_s*)> in_;
  std::vector<char> block_;
  const char *at_ = nullptr, *end_ = nullptr;
  std::int64_t lines_ = 0, column_ = 0;
  std::size_t without_quotes_ = 0;
  bool cut_ = false;
};

/// Bytes as the parser of nlohmann/json takes them; without any, the end.
class ByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;
  explicit ByteIterator(Bytes* bytes = nullptr) : bytes_(bytes) {}
  char operator*() const { return **bytes_; }
  ByteIterator& operator++() {
    bytes_->next();
    return *this;
  }
  bool operator==(const ByteIterator&) const { return bytes_ == nullptr || bytes_->done(); }
  bool operator!=(const ByteIterator& other) const { return !(*this == other); }

 private:
  Bytes* bytes_;
};

constexpr Nanoseconds kNoNumber = std::numeric_limits<Nanoseconds>::min();

/// Microseconds as their digits say, in nanoseconds, cut off behind the third decimal; kNoNumber for other texts.
Nanoseconds nanoseconds_of(std::string_view text) {
  std::int64_t whole = 0;
  const char *end = text.data() + text.size(), *at = text.data();
  const auto [behind, error] = std::from_chars(at, end, whole);
  const bool digits = error == std::errc{} && (behind == end || *behind == '.');
  if (!digits || std::abs(whole) > std::numeric_limits<std::int64_t>::max() / 2000) {
    const std::string copy(text);
    char* stop = nullptr;
    const double number = std::strtod(copy.c_str(), &stop);
    if (stop == copy.c_str() || std::isnan(number)) return kNoNumber;
    return static_cast<Nanoseconds>(std::clamp(number * 1000.0, -4e18, 4e18));
  }
  std::int64_t part = 0, unit = 100;
  for (at = behind == end ? end : behind + 1; at < end && unit > 0 && *at >= '0' && *at <= '9'; ++at, unit /= 10)
    part += (*at - '0') * unit;
  return whole * 1000 + (text.starts_with('-') ? -part : part);
}

std::int64_t whole_number(std::string_view text) {
  std::int64_t value = kNone;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

enum class Field : std::uint8_t {
  none,
  ph,
  cat,
  name,
  pid,
  tid,
  ts,
  dur,
  args,  // of an event
  stream,
  device,
  correlation,
  collective,
  in_elements,
  out_elements,
  dtype,
  group_size,
  group_name,
  group_about,
  group_ranks,
  arrived,
  bytes,
  pass,
  kind,
  launches,
  text  // of its arguments
};

Field event_field(std::string_view key) {
  static const std::unordered_map<std::string_view, Field> kFields{
      {"ph", Field::ph},   {"cat", Field::cat}, {"name", Field::name}, {"pid", Field::pid},
      {"tid", Field::tid}, {"ts", Field::ts},   {"dur", Field::dur},   {"args", Field::args}};
  const auto at = kFields.find(key);
  return at == kFields.end() ? Field::none : at->second;
}

Field argument_field(std::string_view key) {
  static const std::unordered_map<std::string_view, Field> kFields{{"stream", Field::stream},
                                                                   {"device", Field::device},
                                                                   {"correlation", Field::correlation},
                                                                   {"Collective name", Field::collective},
                                                                   {"In msg nelems", Field::in_elements},
                                                                   {"Out msg nelems", Field::out_elements},
                                                                   {"dtype", Field::dtype},
                                                                   {"Group size", Field::group_size},
                                                                   {"Process Group Name", Field::group_name},
                                                                   {"Process Group Description", Field::group_about},
                                                                   {"Process Group Ranks", Field::group_ranks},
                                                                   {"arrived", Field::arrived},
                                                                   {"bytes", Field::bytes},
                                                                   {"pass", Field::pass},
                                                                   {"kind", Field::kind},
                                                                   {"launches", Field::launches},
                                                                   {"name", Field::text}};
  const auto at = kFields.find(key);
  return at == kFields.end() ? Field::none : at->second;
}

/// Bytes of an element, as torch::toString names the types.
double size_of_type(std::string_view type) {
  for (const auto& [name, size] : std::initializer_list<std::pair<std::string_view, double>>{
           {"Float", 4}, {"Half", 2}, {"BFloat16", 2}, {"Double", 8}, {"Int", 4}, {"Long", 8}, {"Short", 2}}) {
    if (type == name) return size;
  }
  return 1;  // Byte, Char, Bool and the types of 8 bits
}

/// One event as it is read; texts stay valid until the next one.
struct Event {
  std::string ph, cat, name;
  std::int64_t pid = 0, tid = 0;
  Nanoseconds ts = kNoNumber, dur = kNoNumber;
  struct Arguments {
    std::string dtype, collective, pass, kind, text;
    struct Group {
      std::string name, about, ranks;
      std::int64_t size = 0;
    } group;
    Nanoseconds arrived = kNone;
    std::int64_t stream = kNone, device = 0, correlation = kNone, launches = 1;
    double in_elements = 0, out_elements = 0, bytes = 0;
  } args;
};

/// What the sax parser calls. Events stand in the array `traceEvents` of an object, or the document is that array.
class Handler {
 public:
  Handler(const std::string& file, const Bytes& bytes) : file_(file), bytes_(bytes) {}

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t value) { return number(std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) { return number(std::to_string(value)); }
  bool number_float(double, const std::string& digits) { return number(digits); }
  bool string(std::string& value) {
    take(value);
    return true;
  }
  template <class Binary>
  bool binary(Binary&) {
    return true;
  }
  bool start_object(std::size_t) {
    ++depth_;
    if (events_depth_ > 0 && depth_ == events_depth_ + 1) event_ = Event{};
    return true;
  }
  bool end_object() {
    if (events_depth_ > 0 && depth_ == events_depth_ + 1) keep();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) {
    ++depth_;
    if (events_depth_ == 0 && (depth_ == 1 || (depth_ == 2 && top_ == "traceEvents"))) {
      events_depth_ = depth_;
      seen_events_ = true;
    }
    return true;
  }
  bool end_array() {
    if (depth_ == events_depth_) events_depth_ = 0;
    --depth_;
    return true;
  }
  bool key(std::string& key) {
    if (events_depth_ > 0 && depth_ == events_depth_ + 1)
      field_ = event_field(key);
    else if (events_depth_ > 0 && depth_ == events_depth_ + 2)
      argument_ = argument_field(key);
    else if (depth_ == 1)
      top_ = key;
    else if (depth_ == 2)
      second_ = key;
    return true;
  }
  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception&) {
    return false;
  }

  bool seen_events() const { return seen_events_; }
  std::vector<Trace> traces();

 private:
  struct Process {
    Trace trace;
    std::string name;
  };

  bool number(const std::string& digits) {
    take(digits);
    return true;
  }

  void take(std::string_view value) {
    if (events_depth_ > 0 && depth_ == events_depth_ + 1) {
      take_event(value);
    } else if (events_depth_ > 0 && depth_ == events_depth_ + 2 && field_ == Field::args) {
      take_argument(value);
    } else if (depth_ == 2 && top_ == "distributedInfo") {
      if (second_ == "rank") rank_ = whole_number(value);
      if (second_ == "world_size") world_size_ = whole_number(value);
    } else if (depth_ == 2 && top_ == "otherData" && second_ == "scenario") {
      own_ = true;
    }
  }

  void take_event(std::string_view value) {
    switch (field_) {
      case Field::ph:
        event_.ph = value;
        break;
      case Field::cat:
        event_.cat = value;
        break;
      case Field::name:
        event_.name = value;
        break;
      case Field::pid:
        event_.pid = whole_number(value);
        break;
      case Field::tid:
        event_.tid = whole_number(value);
        break;
      case Field::ts:
        event_.ts = nanoseconds_of(value);
        break;
      case Field::dur:
        event_.dur = nanoseconds_of(value);
        break;
      default:
        break;
    }
  }

  void take_argument(std::string_view value) {
    const auto number = [&] { return std::strtod(std::string(value).c_str(), nullptr); };
    switch (argument_) {
      case Field::stream:
        event_.args.stream = whole_number(value);
        break;
      case Field::device:
        event_.args.device = whole_number(value);
        break;
      case Field::correlation:
        event_.args.correlation = whole_number(value);
        break;
      case Field::group_size:
        event_.args.group.size = whole_number(value);
        break;
      case Field::launches:
        event_.args.launches = whole_number(value);
        break;
      case Field::collective:
        event_.args.collective = value;
        break;
      case Field::dtype:
        event_.args.dtype = value;
        break;
      case Field::group_name:
        event_.args.group.name = value;
        break;
      case Field::group_about:
        event_.args.group.about = value;
        break;
      case Field::group_ranks:
        event_.args.group.ranks = value;
        break;
      case Field::arrived:
        event_.args.arrived = nanoseconds_of(value) == kNoNumber ? kNone : nanoseconds_of(value);
        break;
      case Field::pass:
        event_.args.pass = value;
        break;
      case Field::kind:
        event_.args.kind = value;
        break;
      case Field::text:
        event_.args.text = value;
        break;
      case Field::in_elements:
        event_.args.in_elements = number();
        break;
      case Field::out_elements:
        event_.args.out_elements = number();
        break;
      case Field::bytes:
        event_.args.bytes = number();
        break;
      default:
        break;
    }
  }

  void keep();
  void keep_device(Trace& trace, DeviceWork work);
  void keep_host(Trace& trace, HostKind kind);
  std::int32_t keep_collective(Trace& trace);

  void check_times() const;

  const std::string& file_;
  const Bytes& bytes_;  // says where the event ends
  std::string top_, second_;
  std::size_t depth_ = 0, events_depth_ = 0, kept_ = 0;
  Field field_ = Field::none, argument_ = Field::none;
  Event event_;
  std::map<std::int64_t, Process> processes_;  // this program's own traces have one for each rank
  std::optional<std::int64_t> rank_, world_size_;
  bool own_ = false, seen_events_ = false;
};

/// The phase that this program's own traces name: the pass, or the optimizer's step.
Phase own_phase(const std::string& pass) {
  if (pass.starts_with('F')) return Phase::forward;
  if (pass.starts_with('B') || pass.starts_with('b') || pass.starts_with('W')) return Phase::backward;
  return pass == "optimizer" ? Phase::optimizer : Phase::other;
}

void Handler::keep() {
  if (event_.ph == "M" && event_.name == "process_name") processes_[event_.pid].name = event_.args.text;
  if (event_.ph != "X") return;
  const std::string& cat = event_.cat;
  // Kineto's processes are the host's and a device's number; only this program's are ranks.
  Trace& trace = processes_[own_ ? event_.pid : 0].trace;
  const bool own_transfer = own_ && !event_.args.collective.empty() && event_.args.correlation != kNone;
  if (cat == "kernel" || cat == "Kernel" || own_transfer) {
    keep_device(trace, DeviceWork::kernel);
  } else if (cat == "gpu_memcpy" || cat == "Memcpy") {
    keep_device(trace, DeviceWork::memcpy);
  } else if (cat == "gpu_memset" || cat == "Memset") {
    keep_device(trace, DeviceWork::memset);
  } else if (cat == "cpu_op" || cat == "Operator") {
    keep_host(trace, HostKind::operation);
  } else if (cat == "cuda_runtime" || cat == "cuda_driver" || cat == "hip_runtime" || cat == "hip_driver" ||
             cat == "runtime" || cat == "driver" || cat == "Runtime") {
    keep_host(trace, HostKind::runtime);
  } else if (cat == "user_annotation") {
    keep_host(trace, HostKind::annotation);
  }
}

std::int32_t Handler::keep_collective(Trace& trace) {
  if (event_.args.collective.empty()) return kNone;
  CollectiveFacts facts;
  facts.operation = trace.names.intern(event_.args.collective);
  const bool described = !event_.args.group.about.empty() && event_.args.group.about != "undefined";
  facts.group = trace.names.intern(described ? event_.args.group.about : event_.args.group.name);
  facts.group_size = event_.args.group.size;
  facts.ranks = trace.names.intern(event_.args.group.ranks);
  facts.arrived = own_ ? event_.args.arrived : kNone;
  facts.bytes = event_.args.bytes > 0
                    ? event_.args.bytes
                    : std::max(event_.args.in_elements, event_.args.out_elements) * size_of_type(event_.args.dtype);
  trace.collectives.push_back(facts);
  return static_cast<std::int32_t>(trace.collectives.size()) - 1;
}

/// Of work of the device, which would be lost from the step in silence.
void Handler::check_times() const {
  constexpr std::size_t kMostOfName = 80;
  for (const auto& [key, value, least] :
       {std::tuple("ts", event_.ts, kNoNumber + 1), std::tuple("dur", event_.dur, Nanoseconds{0})}) {
    if (value >= least) continue;
    throw sim::UserError(
        bytes_.place(), key,
        fmt::format("got {} for {}, expected microseconds{}",
                    value == kNoNumber ? "no number" : fmt::format("{}", static_cast<double>(value) / 1e3),
                    event_.name.substr(0, kMostOfName), least == 0 ? ", 0 or more" : ""));
  }
}

void Handler::keep_device(Trace& trace, DeviceWork work) {
  check_times();
  DeviceEvent event;
  event.name = trace.names.intern(event_.name);
  event.stream = static_cast<std::int32_t>(event_.args.stream != kNone ? event_.args.stream : event_.tid);
  event.device = static_cast<std::int32_t>(event_.args.device);
  event.start = event_.ts;
  event.end = event_.ts + event_.dur;
  event.correlation = event_.args.correlation;
  event.work = work;
  event.collective = keep_collective(trace);
  if (own_) {
    event.phase = own_phase(event_.args.pass);
    if (event.collective == kNone) event.what = class_of_own_kernel(event_.name, event_.args.kind);
  }
  trace.device.push_back(event);
  if (++kept_ > kMostTraceEvents)
    throw sim::UserError(
        fmt::format("{}: holds more than {} events, expected a few steps of one rank", file_, kMostTraceEvents));
}

void Handler::keep_host(Trace& trace, HostKind kind) {
  HostEvent event;
  event.name = trace.names.intern(event_.name);
  event.kind = kind;
  event.thread = static_cast<std::int32_t>(event_.tid);
  event.launches = static_cast<std::int32_t>(std::clamp<std::int64_t>(event_.args.launches, 1, 1'000'000));
  event.start = event_.ts == kNoNumber ? 0 : event_.ts;
  event.end = event.start + std::max<Nanoseconds>(event_.dur, 0);
  event.correlation = event_.args.correlation;
  trace.host.push_back(event);
  if (++kept_ > kMostTraceEvents)
    throw sim::UserError(
        fmt::format("{}: holds more than {} events, expected a few steps of one rank", file_, kMostTraceEvents));
}

std::vector<Trace> Handler::traces() {
  std::vector<Trace> out;
  for (auto& [pid, process] : processes_) {
    Trace& trace = process.trace;
    if (trace.device.empty()) continue;
    trace.file = file_;
    trace.own = own_;
    trace.rank = rank_;
    trace.world_size = world_size_;
    if (own_ && process.name.starts_with("rank ")) {
      const std::string_view rest = std::string_view(process.name).substr(5);
      trace.rank = whole_number(rest.substr(0, rest.find(':')));
    }
    out.push_back(std::move(trace));
  }
  return out;
}

}  // namespace

std::vector<Trace> read_kineto(const std::string& file) {
  Bytes bytes(file);
  if (bytes.done()) {
    throw sim::UserError(
        {file, 1, 1}, "traceEvents",
        bytes.cut() ? "is no whole gzip file, expected a trace" : "got an empty file, expected a trace");
  }
  Handler handler(file, bytes);
  const bool whole = nlohmann::json::sax_parse(ByteIterator(&bytes), ByteIterator(), &handler);
  if (!whole) {
    const bool ended = bytes.done();
    throw sim::UserError(bytes.place(), "traceEvents",
                         ended ? "got the end of the file within the trace, expected a whole one: it was cut off"
                               : "got what is no JSON, expected a trace of PyTorch's profiler, or of this program");
  }
  if (!handler.seen_events())
    throw sim::UserError({file, 1, 1}, "traceEvents", "is not there, expected a trace of PyTorch's profiler");
  std::vector<Trace> traces = handler.traces();
  if (traces.empty()) {
    throw sim::UserError({file, 1, 1}, "traceEvents",
                         "got no kernel of a device, expected a trace taken with ProfilerActivity.CUDA");
  }
  for (Trace& trace : traces) complete(trace);
  return traces;
}

}  // namespace orrery::tools
