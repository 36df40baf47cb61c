// Medians, because hosts are interrupted and collectives wait for those who come late; of collectives the lower
// quartile, since nothing makes a transfer shorter than it is. A launch costs the host what lies between the ends of
// two launches one after the other on a thread; between phases lies what the framework does for a micro-batch.
#include "tools/learn/observe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "tools/learn/decompose.h"
#include "tools/learn/kernel_names.h"

namespace orrery::tools {

namespace {

constexpr double kTouched = 0.02;  // of a product, beside a collective: less is the end of one that it follows

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

Observation of_samples(std::vector<double> samples, double q) {
  std::sort(samples.begin(), samples.end());
  return {quantile(samples, q), (quantile(samples, 0.75) - quantile(samples, 0.25)) / 2, samples.size()};
}

/// Sizes that differ by less than a thousandth are one size.
std::string size_text(double bytes) { return fmt::format("{:.3g}", bytes); }

/// Of whose groups collectives are: groups are few, events many, so each group's name is read once.
class Roles {
 public:
  explicit Roles(const Trace& trace) : trace_(trace) {}

  /// Empty for work that is no collective. Stays valid.
  const std::string& of(const DeviceEvent& event) {
    static const std::string kNobody;
    if (event.collective == kNone) return kNobody;
    const CollectiveFacts& facts = trace_.collectives[static_cast<std::size_t>(event.collective)];
    const auto [at, added] = known_.try_emplace({facts.group, facts.group_size});
    if (added) at->second = role_of_group(trace_.name(facts.group), facts.group_size);
    return at->second;
  }

 private:
  const Trace& trace_;
  std::map<std::pair<NameId, std::int64_t>, std::string> known_;  // by name and ranks
};

/// How much longer the mean product is that runs beside a collective of a tensor group, for some of its time, than
/// the one that runs alone. Products of a name are either always split to overlap or never, so that no name runs both
/// ways; which products these are is the same in the prediction's trace, and hangs on no time.
std::optional<Observation> products_beside_tensor_calls(Roles& roles, const std::vector<DeviceEvent>& events) {
  std::vector<TimeSpan> calls;
  for (const DeviceEvent& event : events) {
    if (event.collective == kNone || roles.of(event) != "tensor") continue;
    if (!calls.empty() && event.start <= calls.back().to)
      calls.back().to = std::max(calls.back().to, event.end);
    else
      calls.push_back({event.start, event.end});
  }
  struct Mean {
    double sum = 0;
    std::size_t count = 0;
    void add(double value) {
      sum += value;
      ++count;
    }
  } beside, alone;
  std::size_t next = 0;
  for (const DeviceEvent& event : events) {
    const auto length = static_cast<double>(event.end - event.start);
    if (event.what != OpClass::matmul || length <= 0) continue;
    while (next < calls.size() && calls[next].to <= event.start) ++next;
    double touched = 0;
    for (std::size_t i = next; i < calls.size() && calls[i].from < event.end; ++i)
      touched += static_cast<double>(std::min(calls[i].to, event.end) - std::max(calls[i].from, event.start));
    (touched > kTouched * length ? beside : alone).add(length);
  }
  if (beside.count == 0 || alone.count == 0) return std::nullopt;
  const double ratio = beside.sum / static_cast<double>(beside.count) * static_cast<double>(alone.count) / alone.sum;
  return Observation{ratio, 0, beside.count + alone.count};
}

/// A device that is slower than its profile is so in both directions; what is split to overlap, in one more.
std::optional<Observation> forward_share_of_products(const std::vector<DeviceEvent>& events) {
  double forward = 0;
  double all = 0;
  std::size_t products = 0;
  for (const DeviceEvent& event : events) {
    if (event.what != OpClass::matmul || event.phase == Phase::other) continue;
    const double seconds = static_cast<double>(event.end - event.start) * kNano;
    all += seconds;
    forward += event.phase == Phase::forward ? seconds : 0;
    ++products;
  }
  if (all <= 0) return std::nullopt;
  return Observation{forward / all, 0, products};
}

class Observer {
 public:
  explicit Observer(const Trace& trace) : trace_(trace), roles_(trace), events_(within_steps(trace)) {
    steps_ = static_cast<double>(std::max<std::size_t>(1, trace.steps.size()));
    routes_ = std::any_of(events_.begin(), events_.end(), [](const DeviceEvent& event) {
      return event.what == OpClass::experts || event.what == OpClass::grouped_matmul;
    });
  }

  Observations run() {
    hosts();
    kernels();
    calls();
    slow_beside_calls();
    if (const auto ratio = products_beside_tensor_calls(roles_, events_)) out_["products.beside_tensor"] = *ratio;
    return std::move(out_);
  }

 private:
  /// What a launch's interval is counted as: one of a phase, or one of these.
  enum Interval : std::size_t { step_begin = kPhases, forward_begin, tensor_call, other_call, kIntervals };
  static std::string name_of_interval(std::size_t interval) {
    static constexpr std::string_view kOthers[] = {"step_begin", "forward_begin", "call.tensor", "call.other"};
    return fmt::format("host.{}",
                       interval < kPhases ? name_of(static_cast<Phase>(interval)) : kOthers[interval - kPhases]);
  }
  /// By phase and class of operation.
  static std::size_t row_of(const DeviceEvent& event) {
    return static_cast<std::size_t>(event.phase) * kOpClasses + static_cast<std::size_t>(event.what);
  }
  static std::string name_of_row(std::size_t row) {
    return fmt::format("{}.{}", name_of(static_cast<Phase>(row / kOpClasses)),
                       name_of(static_cast<OpClass>(row % kOpClasses)));
  }

  /// Intervals between the ends of launches on each thread, and from the mark of a step to the end of the first launch
  /// of its first forward pass, which so stands apart from those of later micro-batches.
  void hosts() {
    // By correlation, what started first of those that have the same.
    std::vector<std::pair<std::int64_t, const DeviceEvent*>> launched;
    launched.reserve(events_.size());
    for (const DeviceEvent& event : events_) launched.emplace_back(event.correlation, &event);
    const auto before = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (!std::is_sorted(launched.begin(), launched.end(), before))
      std::stable_sort(launched.begin(), launched.end(), before);
    struct Thread {
      const DeviceEvent* last = nullptr;
      Nanoseconds end = 0;
    };
    std::map<std::int32_t, Thread> threads;
    std::array<std::vector<double>, kIntervals> samples;
    std::array<std::vector<double>, kPhases * kOpClasses> of_classes;
    std::size_t step = 0, begun = trace_.steps.size();
    for (const HostEvent& call : trace_.host) {
      if (call.kind != HostKind::runtime || call.correlation == kNone) continue;
      const auto at = std::lower_bound(launched.begin(), launched.end(), std::pair(call.correlation, nullptr), before);
      if (at == launched.end() || at->first != call.correlation) continue;
      const DeviceEvent& event = *at->second;
      while (step < trace_.steps.size() && trace_.steps[step].to <= call.start) ++step;
      const bool within = step < trace_.steps.size() && trace_.steps[step].from <= call.start;
      const bool begins = within && step != begun && event.phase == Phase::forward;
      if (begins) {
        samples[step_begin].push_back(static_cast<double>(call.end - trace_.steps[step].from) * kNano);
        begun = step;
      }
      Thread& thread = threads[call.thread];
      if (!begins && thread.last != nullptr && event.work == DeviceWork::kernel) {
        const double interval = static_cast<double>(call.end - thread.end) * kNano / call.launches;
        samples[interval_of(event, *thread.last)].push_back(interval);
        // Layers of experts have a few long intervals, which medians do not see.
        if (routes_ && !is_collective(event.what) && event.phase != Phase::other)
          of_classes[row_of(event)].push_back(interval);
      }
      thread = {&event, call.end};
    }
    for (std::size_t row = 0; row < of_classes.size(); ++row) {
      const std::vector<double>& values = of_classes[row];
      if (values.empty()) continue;
      const double sum = std::accumulate(values.begin(), values.end(), 0.0);
      out_["host.experts." + name_of_row(row)] = {sum / static_cast<double>(values.size()),
                                                  of_samples(values, 0.5).spread, values.size()};
    }
    for (std::size_t interval = 0; interval < kIntervals; ++interval) {
      // What begins a micro-batch also waits for its predecessors: the quickest tell what the host itself takes.
      const double q = interval == forward_begin ? 0.25 : 0.5;
      if (!samples[interval].empty()) out_[name_of_interval(interval)] = of_samples(std::move(samples[interval]), q);
    }
  }

  std::size_t interval_of(const DeviceEvent& event, const DeviceEvent& before) {
    if (is_collective(event.what)) return roles_.of(event) == "tensor" ? tensor_call : other_call;
    if (event.phase == Phase::forward && before.phase != Phase::forward) return forward_begin;
    return static_cast<std::size_t>(event.phase);
  }

  void kernels() {
    std::array<std::size_t, kPhases> counts{};
    std::array<std::pair<double, std::size_t>, kPhases * kOpClasses> times{};
    for (const DeviceEvent& event : events_) {
      if (event.work != DeviceWork::kernel || is_collective(event.what)) continue;
      ++counts[static_cast<std::size_t>(event.phase)];
      if (!is_streaming(event.what)) continue;
      auto& time = times[row_of(event)];
      time.first += static_cast<double>(event.end - event.start) * kNano;
      ++time.second;
    }
    for (std::size_t phase = 0; phase < kPhases; ++phase) {
      if (counts[phase] > 0)
        out_[fmt::format("count.{}", name_of(static_cast<Phase>(phase)))] = {
            static_cast<double>(counts[phase]) / steps_, 0, counts[phase]};
    }
    for (std::size_t row = 0; row < times.size(); ++row) {
      const auto& [sum, count] = times[row];
      if (count > 0) out_["time." + name_of_row(row)] = {sum / steps_, 0, count};
    }
    if (const auto share = forward_share_of_products(events_)) out_["products.forward_share"] = *share;
  }

  void calls() {
    std::map<std::string, std::vector<double>> times;
    std::map<std::tuple<OpClass, NameId, std::int64_t, std::uint64_t>, std::vector<double>*>
        known;  // by what names say
    for (const DeviceEvent& event : events_) {
      if (event.collective == kNone) continue;
      const CollectiveFacts& facts = trace_.collectives[static_cast<std::size_t>(event.collective)];
      if (facts.group_size < 2) continue;
      const auto [at, added] =
          known.try_emplace({event.what, facts.group, facts.group_size, std::bit_cast<std::uint64_t>(facts.bytes)});
      if (added) {
        at->second =
            &times[fmt::format("call.{}.{}.{}", name_of(event.what), roles_.of(event), size_text(facts.bytes))];
      }
      at->second->push_back(static_cast<double>(event.end - event.start) * kNano);
    }
    for (auto& [name, values] : times) out_[name] = of_samples(std::move(values), 0.25);
  }

  /// The name of a kernel without what this program puts behind it: "(overlapped)".
  std::string bare_name(const DeviceEvent& event) const {
    const std::string& name = trace_.name(event.name);
    return trace_.own ? name.substr(0, name.find(" (")) : name;
  }

  /// Of products whose name runs both alone and beside collectives of one role: time beside them over time alone.
  void slow_beside_calls() {
    struct Times {
      std::vector<double> alone;
      std::map<std::string, std::vector<double>> beside;
    };
    std::map<std::string, Times> products;
    std::map<std::pair<NameId, Phase>, Times*> known;
    std::vector<const DeviceEvent*> running;
    std::size_t next = 0;
    for (const DeviceEvent& event : events_) {
      if (event.what != OpClass::matmul) continue;
      while (next < events_.size() && events_[next].start < event.end) {
        if (events_[next].collective != kNone) running.push_back(&events_[next]);
        ++next;
      }
      std::erase_if(running, [&](const DeviceEvent* call) { return call->end <= event.start; });
      const auto length = static_cast<double>(event.end - event.start);
      if (length <= 0) continue;
      const auto [at, added] = known.try_emplace({event.name, event.phase});
      if (added) at->second = &products[fmt::format("{} {}", bare_name(event), name_of(event.phase))];
      Times& times = *at->second;
      std::map<std::string_view, double> touched;  // by role, the most that a call of it shares
      for (const DeviceEvent* call : running) {
        const auto shared = static_cast<double>(std::min(call->end, event.end) - std::max(call->start, event.start));
        if (shared < kTouched * length) continue;
        double& most = touched[roles_.of(*call)];
        most = std::max(most, shared);
      }
      if (touched.empty()) times.alone.push_back(length);
      // Beside calls of two roles, what one of them takes is not told.
      if (touched.size() == 1 && touched.begin()->second > 0.9 * length)
        times.beside[std::string(touched.begin()->first)].push_back(length);
    }
    std::map<std::string, std::vector<double>> ratios;
    for (auto& [name, times] : products) {
      if (times.alone.empty()) continue;
      const double alone = of_samples(times.alone, 0.5).value;
      for (const auto& [role, values] : times.beside) {
        for (const double value : values) ratios[role].push_back(value / alone);
      }
    }
    for (const auto& [role, values] : ratios) out_["slow." + role] = of_samples(values, 0.5);
  }

  const Trace& trace_;
  Roles roles_;
  std::vector<DeviceEvent> events_;
  double steps_ = 1;
  bool routes_ = false;  // tokens to experts
  Observations out_;
};

}  // namespace

std::string role_of_group(const std::string& name, std::int64_t ranks) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  // Megatron's MODEL_PARALLEL groups, PyTorch's mesh_dp and mesh_tp, DeepSpeed's and this program's own names.
  // A group over data and context reduces gradients, so that data comes before context.
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {{"expert_data", "expert_data"},
                                                                             {"expert", "expert"},
                                                                             {"ep", "expert"},
                                                                             {"tensor", "tensor"},
                                                                             {"tp", "tensor"},
                                                                             {"pipeline", "pipeline"},
                                                                             {"pp", "pipeline"},
                                                                             {"data", "data"},
                                                                             {"fsdp", "data"},
                                                                             {"dp", "data"},
                                                                             {"replicate", "data"},
                                                                             {"shard", "data"},
                                                                             {"context", "context"},
                                                                             {"cp", "context"},
                                                                             {"embedding", "embedding"},
                                                                             {"norm", "norm"}};
  for (const auto& [word, role] : kWords) {
    const std::size_t at = lower.find(word);
    if (at == std::string::npos) continue;
    const auto letter = [&](std::size_t i) {
      return i < lower.size() && std::isalpha(static_cast<unsigned char>(lower[i]));
    };
    const bool whole = word.size() > 2 || ((at == 0 || !letter(at - 1)) && !letter(at + word.size()));
    if (whole) return std::string(role);
  }
  return fmt::format("of {} ranks", ranks);
}

Observations observe(const Trace& trace) { return Observer(trace).run(); }

Observations observe(const std::vector<Trace>& ranks) {
  Observations mean;
  std::map<std::string, double> have;
  for (const Trace& trace : ranks) {
    for (const auto& [name, one] : observe(trace)) {
      Observation& sum = mean[name];
      sum.value += one.value;
      sum.spread = std::max(sum.spread, one.spread);
      sum.samples += one.samples;
      ++have[name];
    }
  }
  for (auto& [name, sum] : mean) sum.value /= have[name];
  return mean;
}

std::vector<double> bucket_bytes(const std::vector<Trace>& ranks, OpClass operation) {
  std::vector<double> out;
  for (const Trace& trace : ranks) {
    for (const DeviceEvent& event : within_steps(trace)) {
      if (event.what != operation || event.collective == kNone) continue;
      const CollectiveFacts& facts = trace.collectives[static_cast<std::size_t>(event.collective)];
      if (role_of_group(trace.name(facts.group), facts.group_size) == "data") out.push_back(facts.bytes);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace orrery::tools
