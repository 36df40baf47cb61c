// What all formats of traces have in common once their events are read. See trace.h.
//
// The phase of a kernel follows from the call that launched it, found by its correlation: under
// "autograd::engine::evaluate_function" or on the threads that autograd runs on it is the backward pass, under
// "Optimizer.step" (or an annotation that says optimizer) the optimizer, under another operation the forward pass.
// Annotations of Nsight traces (NVTX ranges) are taken alike. What was recomputed counts as the backward pass.
#include "tools/learn/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>

#include "sim/error.h"
#include "tools/learn/kernel_names.h"

namespace orrery::tools {

NameId Names::intern(std::string_view text) {
  const auto at = ids_.find(text);
  if (at != ids_.end()) return at->second;
  const auto id = static_cast<NameId>(texts_.size());
  texts_.emplace_back(text);
  ids_.emplace(text, id);
  return id;
}

std::string_view name_of(Phase phase) {
  static constexpr std::array<std::string_view, kPhases> kNames{"forward", "backward", "optimizer", "other"};
  return kNames[static_cast<std::size_t>(phase)];
}

namespace {

bool holds(const std::string& text, std::string_view word) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
}

/// What a name of the host's says of the work below it.
enum class Mark : std::uint8_t { none, backward, optimizer, step };

Mark mark_of(const std::string& name, HostKind kind) {
  if (name.starts_with("ProfilerStep#")) return Mark::step;
  if (name.starts_with("autograd::engine::evaluate_function")) return Mark::backward;
  if (name.starts_with("Optimizer.step") || name.starts_with("Optimizer.zero_grad")) return Mark::optimizer;
  if (kind != HostKind::annotation) return Mark::none;
  if (holds(name, "optimizer")) return Mark::optimizer;
  if (holds(name, "backward")) return Mark::backward;
  return Mark::none;
}

/// Walks the calls of the host in the order of time, thread by thread, and remembers what each launch stands under.
class CallStacks {
 public:
  explicit CallStacks(Trace& trace) : trace_(trace) {
    for (NameId id = 0; id < trace.names.size(); ++id) {
      marks_.push_back(mark_of(trace.name(id), HostKind::operation));
      annotation_marks_.push_back(mark_of(trace.name(id), HostKind::annotation));
    }
    for (const HostEvent& call : trace.host) {
      if (mark(call) == Mark::backward && call.kind == HostKind::operation) autograd_.insert(call.thread);
    }
  }

  void walk() {
    for (std::size_t i = 0; i < trace_.host.size(); ++i) {
      const HostEvent& call = trace_.host[i];
      std::vector<std::size_t>& stack = stacks_[call.thread];
      while (!stack.empty() && trace_.host[stack.back()].end <= call.start) stack.pop_back();
      if (stack.size() > kDeepest) {  // each launch looks through its stack
        throw sim::UserError(fmt::format("{}: got calls within calls more than {} deep, expected a trace of a step",
                                         trace_.file, kDeepest));
      }
      if (call.kind == HostKind::runtime && call.correlation != kNone)
        launches_.push_back({call.correlation, call.end, caller(stack), phase(stack, call.thread)});
      stack.push_back(i);
    }
    const auto before = [](const Launch& a, const Launch& b) { return a.correlation < b.correlation; };
    if (!std::is_sorted(launches_.begin(), launches_.end(), before))
      std::sort(launches_.begin(), launches_.end(), before);
  }

  void label(DeviceEvent& event) const {
    const auto at = launch_of(event.correlation);
    if (event.correlation == kNone || at == launches_.end() || at->correlation != event.correlation) return;
    event.launched = at->returned;
    event.caller = at->caller;
    if (trace_.own) return;
    event.phase = at->phase;
    // RCCL's kernels, and NCCL's that do several calls, do not say which.
    if (event.what != OpClass::collective) return;
    const OpClass called = class_of_operation(trace_.name(at->caller));
    if (called != OpClass::unknown) event.what = called;
  }

 private:
  static constexpr std::size_t kDeepest = 1000;

  struct Launch {
    std::int64_t correlation = kNone;
    Nanoseconds returned = 0;
    NameId caller = 0;
    Phase phase = Phase::other;
  };

  /// The first with at least this correlation. Where numbers follow each other, as in this program's own traces, it
  /// stands where its number says.
  std::vector<Launch>::const_iterator launch_of(std::int64_t correlation) const {
    if (!launches_.empty() && correlation > launches_.front().correlation &&
        correlation <= launches_.back().correlation) {
      const auto place =
          static_cast<std::uint64_t>(correlation) - static_cast<std::uint64_t>(launches_.front().correlation);
      if (place < launches_.size() && launches_[place].correlation == correlation &&
          launches_[place - 1].correlation < correlation)
        return launches_.begin() + static_cast<std::ptrdiff_t>(place);
    }
    return std::lower_bound(launches_.begin(), launches_.end(), correlation,
                            [](const Launch& l, std::int64_t c) { return l.correlation < c; });
  }

  Mark mark(const HostEvent& call) const {
    return call.kind == HostKind::annotation ? annotation_marks_[call.name] : marks_[call.name];
  }
  NameId caller(const std::vector<std::size_t>& stack) const {
    for (auto at = stack.rbegin(); at != stack.rend(); ++at) {
      if (trace_.host[*at].kind == HostKind::operation) return trace_.host[*at].name;
    }
    return 0;
  }
  Phase phase(const std::vector<std::size_t>& stack, std::int32_t thread) const {
    bool operation = false;
    for (auto at = stack.rbegin(); at != stack.rend(); ++at) {
      const Mark what = mark(trace_.host[*at]);
      if (what == Mark::optimizer) return Phase::optimizer;
      if (what == Mark::backward) return Phase::backward;
      operation = operation || trace_.host[*at].kind == HostKind::operation;
    }
    if (!operation && autograd_.contains(thread)) return Phase::backward;
    return operation ? Phase::forward : Phase::other;
  }

  Trace& trace_;
  std::vector<Mark> marks_, annotation_marks_;
  std::set<std::int32_t> autograd_;  // threads that it runs on
  std::map<std::int32_t, std::vector<std::size_t>> stacks_;
  std::vector<Launch> launches_;
};

/// What the simulated clock counts in picoseconds, with room for sums; nobody profiles for so long.
constexpr Nanoseconds kLongestTrace = std::int64_t{11} * 86'400 * 1'000'000'000;

/// Throws UserError where an event's times, of which `first` is the earliest, are not those of a trace.
template <class Event>
void check_times(const Trace& trace, const std::vector<Event>& events, Nanoseconds first) {
  // Compared as floating point, whose differences do not overflow.
  for (const Event& event : events) {
    const double begin = static_cast<double>(event.start) - static_cast<double>(first);
    const double end = static_cast<double>(event.end) - static_cast<double>(first);
    if (begin >= -static_cast<double>(kLongestTrace) && end >= begin && end <= static_cast<double>(kLongestTrace))
      continue;
    throw sim::UserError(fmt::format("{}: got an event from {:.6g} s to {:.6g} s, expected a trace of at most 11 days",
                                     trace.file, begin / 1e9, end / 1e9));
  }
}

void move_to_zero(Trace& trace) {
  Nanoseconds first = std::numeric_limits<Nanoseconds>::max();
  for (const DeviceEvent& event : trace.device) first = std::min(first, event.start);
  for (const HostEvent& event : trace.host) first = std::min(first, event.start);
  if (trace.own) first = 0;  // a step begins at 0, whatever begins later
  check_times(trace, trace.device, first);
  check_times(trace, trace.host, first);
  for (DeviceEvent& event : trace.device) {
    event.start -= first;
    event.end -= first;
  }
  for (HostEvent& event : trace.host) {
    event.start -= first;
    event.end -= first;
  }
}

void find_steps(Trace& trace) {
  for (const HostEvent& call : trace.host) {
    if (call.kind == HostKind::annotation && mark_of(trace.name(call.name), call.kind) == Mark::step)
      trace.steps.push_back({call.start, call.end});
  }
  if (!trace.steps.empty()) return;
  TimeSpan all;
  for (const DeviceEvent& event : trace.device) all.to = std::max(all.to, event.end);
  for (const HostEvent& event : trace.host) all.to = std::max(all.to, event.end);
  trace.steps.push_back(all);
}

/// Names are few, events many: each name is looked up once.
void classify(Trace& trace) {
  std::vector<std::optional<OpClass>> known(trace.names.size());
  for (DeviceEvent& event : trace.device) {
    if (event.what != OpClass::unknown) continue;
    if (event.work != DeviceWork::kernel) {
      event.what = event.work == DeviceWork::memcpy ? OpClass::memcpy : OpClass::memset;
      continue;
    }
    if (event.collective != kNone) {
      const CollectiveFacts& facts = trace.collectives[static_cast<std::size_t>(event.collective)];
      event.what = class_of_operation(trace.name(facts.operation));
    }
    if (event.what != OpClass::unknown) continue;
    std::optional<OpClass>& what = known[event.name];
    if (!what) what = class_of_kernel(trace.name(event.name));
    event.what = *what;
  }
}

}  // namespace

void complete(Trace& trace) {
  classify(trace);
  move_to_zero(trace);
  std::stable_sort(trace.host.begin(), trace.host.end(), [](const HostEvent& a, const HostEvent& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  CallStacks stacks(trace);
  stacks.walk();
  for (DeviceEvent& event : trace.device) stacks.label(event);
  std::stable_sort(trace.device.begin(), trace.device.end(),
                   [](const DeviceEvent& a, const DeviceEvent& b) { return a.start < b.start; });
  find_steps(trace);
}

std::vector<Trace> read_trace(const std::string& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (error || !std::filesystem::is_regular_file(status))
    throw sim::UserError(fmt::format("{}: cannot be read, expected the file of a trace", file));
  std::array<char, 16> head{};
  std::ifstream(file, std::ios::binary).read(head.data(), head.size());
  if (std::string_view(head.data(), head.size()).starts_with("SQLite format 3")) return read_nsight(file);
  return read_kineto(file);
}

}  // namespace orrery::tools
