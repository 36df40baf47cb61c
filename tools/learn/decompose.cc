// A sweep over the device's events in the order of their starts. Computing comes first, then communication, then
// copies; what overlaps among equals counts for the earlier one. Steps are cut where the host begins them, so that work
// which the device does late counts for the step that launched it; a step takes from its beginning to that of the next.
#include "tools/learn/decompose.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tools/learn/kernel_names.h"
#include "tools/report/text.h"

namespace orrery::tools {

namespace {

constexpr std::size_t kMostUnnamed = 5;

bool communicates(OpClass what) { return is_collective(what); }
bool copies(OpClass what) { return what == OpClass::memcpy || what == OpClass::memset; }

/// Sorted times in which something ran, merged.
class Covered {
 public:
  /// Adds [from, to) and returns the part of it that was free. Times come in the order of `from`.
  Nanoseconds add(Nanoseconds from, Nanoseconds to) {
    const Nanoseconds begin = std::max(from, until_);
    if (to <= begin) return 0;
    if (!spans_.empty() && spans_.back().to == begin)
      spans_.back().to = to;
    else
      spans_.push_back({begin, to});
    until_ = to;
    return to - begin;
  }
  const std::vector<TimeSpan>& spans() const { return spans_; }

 private:
  std::vector<TimeSpan> spans_;
  Nanoseconds until_ = std::numeric_limits<Nanoseconds>::min();
};

/// What `free` does not cover of events that come in the order of their starts.
class Beside {
 public:
  explicit Beside(const std::vector<TimeSpan>& free) : spans_(free) {}
  /// The parts of [from, to) outside of the spans; `use` gets each.
  template <class Use>
  void outside(Nanoseconds from, Nanoseconds to, const Use& use) {
    while (at_ < spans_.size() && spans_[at_].to <= from) ++at_;
    for (std::size_t i = at_; i < spans_.size() && spans_[i].from < to; ++i) {
      if (spans_[i].from > from) use(from, spans_[i].from);
      from = std::max(from, spans_[i].to);
    }
    if (from < to) use(from, to);
  }

 private:
  const std::vector<TimeSpan>& spans_;
  std::size_t at_ = 0;
};

std::vector<TimeSpan> merged(const std::vector<TimeSpan>& a, const std::vector<TimeSpan>& b) {
  std::vector<TimeSpan> all;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all),
             [](const TimeSpan& x, const TimeSpan& y) { return x.from < y.from; });
  Covered covered;
  for (const TimeSpan& span : all) covered.add(span.from, span.to);
  return covered.spans();
}

class Sweep {
 public:
  explicit Sweep(const Trace& trace) : trace_(trace), events_(within_steps(trace)) {}

  Decomposition run() {
    out_.steps = trace_.steps.size();
    out_.read = trace_.device.size();
    out_.within = events_.size();
    computing();
    exposed(&communicates);
    exposed(&copies);
    idle();
    std::map<NameId, double> unnamed;
    for (const DeviceEvent& event : events_) {
      const double seconds = static_cast<double>(event.end - event.start) * kNano;
      out_.device_s += seconds;
      if (event.what != OpClass::unknown) continue;
      out_.unnamed_s += seconds;
      unnamed[event.name] += seconds;
    }
    for (const auto& [name, seconds] : unnamed) out_.unnamed.emplace_back(trace_.name(name), seconds);
    std::sort(out_.unnamed.begin(), out_.unnamed.end(),
              [](const auto& a, const auto& b) { return a.second > b.second; });
    out_.unnamed.resize(std::min(out_.unnamed.size(), kMostUnnamed));
    per_step();
    return std::move(out_);
  }

 private:
  void computing() {
    Covered covered;
    for (const DeviceEvent& event : events_) {
      if (communicates(event.what) || copies(event.what)) continue;
      count(Part{event.phase, false, false, event.what}, event, covered.add(event.start, event.end));
    }
    busy_ = covered.spans();
  }

  void exposed(bool (*of)(OpClass)) {
    Beside beside(busy_);
    Covered covered;
    for (const DeviceEvent& event : events_) {
      if (!of(event.what)) continue;
      Nanoseconds free = 0;
      beside.outside(event.start, event.end, [&](Nanoseconds from, Nanoseconds to) { free += covered.add(from, to); });
      count(Part{Phase::other, true, false, event.what}, event, free);
    }
    busy_ = merged(busy_, covered.spans());
  }

  /// Idle time belongs to the phase of what is waited for.
  void idle() {
    std::size_t next = 0;
    for (std::size_t i = 0; i + 1 < busy_.size(); ++i) {
      const Nanoseconds gap = busy_[i + 1].from - busy_[i].to;
      if (gap <= 0) continue;
      while (next < events_.size() && events_[next].start < busy_[i + 1].from) ++next;
      const Phase phase = next < events_.size() ? events_[next].phase : Phase::other;
      Tally& tally = out_.parts[Part{phase, true, true, OpClass::unknown}];
      tally.seconds += static_cast<double>(gap) * kNano;
      ++tally.count;
    }
  }

  void count(const Part& part, const DeviceEvent& event, Nanoseconds own) {
    Tally& tally = out_.parts[part];
    tally.seconds += static_cast<double>(own) * kNano;
    tally.busy_s += static_cast<double>(event.end - event.start) * kNano;
    ++tally.count;
  }

  void per_step() {
    const auto n = static_cast<double>(out_.steps);
    const TimeSpan all{trace_.steps.front().from, trace_.steps.back().to};
    out_.step_s = static_cast<double>(all.to - all.from) * kNano / n;
    out_.device_s /= n;
    out_.unnamed_s /= n;
    for (auto& [name, seconds] : out_.unnamed) seconds /= n;
    double sum = 0;
    for (auto& [part, tally] : out_.parts) {
      tally.seconds /= n;
      tally.busy_s /= n;
      tally.count /= n;
      sum += tally.seconds;
    }
    // A host's mark may end before its kernels do: a step takes what the device took.
    out_.step_s = std::max(out_.step_s, sum);
    // Before the first kernel and behind the last, and where steps are cut by the host's clock and not the device's.
    out_.parts[Part{Phase::other, true, true, OpClass::unknown}].seconds += out_.step_s - sum;
  }

  const Trace& trace_;
  std::vector<DeviceEvent> events_;
  std::vector<TimeSpan> busy_;
  Decomposition out_;
};

}  // namespace

std::string text(const Part& part) {
  if (part.idle) {
    return part.phase == Phase::other ? "idle at the ends of a step" : fmt::format("idle, {}", name_of(part.phase));
  }
  if (part.exposed) return fmt::format("exposed {}", name_of(part.what));
  return fmt::format("{}: {}", name_of(part.phase), name_of(part.what));
}

std::string_view stream_of(const Part& part) {
  if (part.idle) return "idle";
  return part.exposed ? "communication" : "compute";
}

std::vector<DeviceEvent> within_steps(const Trace& trace) {
  std::vector<DeviceEvent> out;
  for (const DeviceEvent& event : trace.device) {
    const Nanoseconds at = event.launched != kNone ? event.launched : event.start;
    const auto behind = std::upper_bound(trace.steps.begin(), trace.steps.end(), at,
                                         [](Nanoseconds t, const TimeSpan& step) { return t < step.from; });
    if (behind != trace.steps.begin() && at <= std::prev(behind)->to) out.push_back(event);
  }
  return out;
}

Decomposition decompose(const Trace& trace) { return Sweep(trace).run(); }

Decomposition mean_of(const std::vector<Decomposition>& ranks) {
  Decomposition mean;
  const auto n = static_cast<double>(ranks.size());
  for (const Decomposition& rank : ranks) {
    mean.step_s += rank.step_s / n;
    mean.steps = std::max(mean.steps, rank.steps);
    mean.read += rank.read;
    mean.within += rank.within;
    mean.device_s += rank.device_s / n;
    mean.unnamed_s += rank.unnamed_s / n;
    mean.unnamed.insert(mean.unnamed.end(), rank.unnamed.begin(), rank.unnamed.end());
    for (const auto& [part, tally] : rank.parts) {
      Tally& sum = mean.parts[part];
      sum.seconds += tally.seconds / n;
      sum.busy_s += tally.busy_s / n;
      sum.count += tally.count / n;
    }
  }
  std::sort(mean.unnamed.begin(), mean.unnamed.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  mean.unnamed.resize(std::min(mean.unnamed.size(), kMostUnnamed));
  return mean;
}

std::string naming_text(const Decomposition& d) {
  const double share = d.device_s > 0 ? 100 * (1 - d.unnamed_s / d.device_s) : 100;
  std::string out = fmt::format("{:.2f} % of the device's time is explained by name.\n", share);
  out += fmt::format(
      "{} kernels, copies and fills read, {}.\n", d.read,
      d.within == d.read ? std::string("all within the steps") : fmt::format("{} of them within the steps", d.within));
  for (const auto& [name, seconds] : d.unnamed)
    out += fmt::format("  not known: {}  {}\n", time_text(seconds), shortened(name, 70));
  return out;
}

}  // namespace orrery::tools
