// Prices are steps of the step simulator on the whole cluster, the job alone, its nodes dealt out in turn over the
// units of the span: the widest that a placement of that span can be, so that slow-downs are none too small. Left out:
// what running jobs cost each other on links that they share (`orrery place` simulates that for a few jobs).
#include "tools/study/queue_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "sim/error.h"
#include "sim/hash.h"
#include "tools/parallel.h"
#include "tools/study/placements.h"
#include "tools/study/queue_failures.h"
#include "workloads/step/shared_cluster.h"

namespace orrery::tools {

using queue::kSpans;
using queue::Span;
using sim::Settings;

namespace {

/// Sizes that are priced by themselves, those with the most GPU-time; others take the next smaller one's price.
constexpr std::size_t kMostSizes = 32;
constexpr double kMostMilliseconds = 4e18;

double seconds(std::int64_t ms) { return static_cast<double>(ms) / 1000; }

Settings number(std::int64_t value) { return Settings::scalar(fmt::format("{}", value), {"queue", 0, 0}); }

/// The scenario's job with so many GPUs; nothing where a replica does not divide them.
std::optional<scenarios::Scenario> resized(const scenarios::Scenario& scenario, const Settings& document,
                                           std::int64_t gpus) {
  const workloads::Job& job = scenario.job;
  const std::int64_t replica = job.machine.gpus / job.parallelism.data;
  if (gpus % replica != 0) return std::nullopt;
  const std::int64_t data = gpus / replica;
  Settings changed = document;
  changed.set("campaign", Settings{});
  changed.set("evaluation", Settings{});
  changed.set_path("cluster.gpus", number(gpus));
  changed.set_path("parallelism.data", number(data));
  changed.set_path("batch.global", number(job.batch.global / job.parallelism.data * data));
  try {
    return scenarios::load_scenario(changed);
  } catch (const sim::UserError&) {
    return std::nullopt;  // a layout that this size does not take
  }
}

/// The nodes of one kind, and the scenario's job on them.
struct Partition {
  Settings document;
  std::int64_t gpus = 0;
};

/// `data`, `global`: the job's replicas and sequences. `device`: of the nodes; empty: all of them, which have to be of
/// one kind.
Partition partition_of(const Settings& whole, const workloads::Machine& machine, std::int64_t data, std::int64_t global,
                       const std::string& device) {
  std::vector<std::string> names;
  for (std::size_t kind = 0; kind < machine.mixture.kinds(); ++kind)
    names.push_back(machine.device_of_kind(kind).name());
  const auto found = std::find(names.begin(), names.end(), device);
  if (found == names.end() && (machine.mixed() || !device.empty())) {
    throw sim::UserError(fmt::format("--device: got {}, expected one of {}: a queue runs on nodes of one kind",
                                     device.empty() ? "none" : device, fmt::join(names, ", ")));
  }
  if (!machine.mixed()) return {whole, machine.gpus};
  const auto kind = static_cast<std::size_t>(found - names.begin());
  Partition part{whole, machine.gpus_of_kind(kind)};
  const std::int64_t replica = machine.gpus / data, replicas = part.gpus / replica;
  if (replicas == 0) {
    throw sim::UserError(
        fmt::format("--device: got {} with {} GPUs, expected at least the {} of a replica of the scenario's job",
                    device, part.gpus, replica));
  }
  if (kind > 0)
    part.document.set_path("cluster.device", whole.find_path("cluster.others")->items()[kind - 1].at("device"));
  part.document.set_path("cluster.others", Settings{});
  part.document.set_path("cluster.gpus", number(replicas * replica));
  part.document.set_path("parallelism.data", number(replicas));
  part.document.set_path("batch.global", number(global / data * replicas));
  return part;
}

/// Free whole nodes of an empty cluster in the order in which a job of the span would be dealt them.
std::vector<std::int64_t> dealt(const queue::Layout& layout, Span span, std::int64_t nodes) {
  std::vector<std::vector<std::int64_t>> units(layout.pod_of.size());
  for (std::size_t n = 0; n < layout.unit_of.size(); ++n)
    units[static_cast<std::size_t>(layout.unit_of[n])].push_back(static_cast<std::int64_t>(n));
  const auto pods = static_cast<std::size_t>(*std::max_element(layout.pod_of.begin(), layout.pod_of.end())) + 1;
  // Units of all pods in turn; within a span only the first unit's, or the first pod's.
  std::vector<std::vector<std::size_t>> of_pod(pods);
  for (std::size_t u = 0; u < units.size(); ++u) of_pod[static_cast<std::size_t>(layout.pod_of[u])].push_back(u);
  std::vector<std::size_t> order;
  for (std::size_t turn = 0; order.size() < units.size(); ++turn) {
    for (const auto& pod : of_pod)
      if (turn < pod.size()) order.push_back(pod[turn]);
  }
  if (span == Span::pod) order = of_pod.front();
  if (span == Span::unit) order = {0};
  std::vector<std::int64_t> chosen;
  for (std::size_t turn = 0; static_cast<std::int64_t>(chosen.size()) < nodes; ++turn) {
    bool any = false;
    for (const std::size_t unit : order) {
      if (turn >= units[unit].size() || static_cast<std::int64_t>(chosen.size()) == nodes) continue;
      chosen.push_back(units[unit][turn]);
      any = true;
    }
    if (!any) return {};  // the span does not hold them
  }
  return chosen;
}

void price(const scenarios::Scenario& job, const topology::Cluster& cluster, const queue::Layout& layout,
           QueuePrice& out) {
  const queue::NodePool pool(layout);
  const std::int64_t nodes = pool.nodes_for(out.gpus);
  const auto step_on = [&](std::vector<std::int64_t> list) {
    std::sort(list.begin(), list.end());
    const std::vector<workloads::PlacedJob> placed{{&job.job, std::move(list)}};
    return sim::to_seconds(workloads::steps_together(placed, cluster).front());
  };
  std::vector<std::int64_t> best;
  for (const queue::Share& share : pool.choose(out.gpus, queue::Placement::best_fit, 0)) best.push_back(share.node);
  out.best_s = step_on(std::move(best));
  for (const Span span : {Span::unit, Span::pod, Span::cluster}) {
    std::vector<std::int64_t> list = dealt(layout, span, nodes);
    if (!list.empty())
      out.factor[static_cast<std::size_t>(span)] = std::max(1.0, step_on(std::move(list)) / out.best_s);
  }
}

/// Sizes that span nodes, those with the most GPU-time.
std::vector<std::int64_t> sizes_to_price(const QueueTrace& trace, std::int64_t per_node) {
  std::map<std::int64_t, double> weight;
  for (const queue::Request& job : trace.jobs)
    if (job.gpus > per_node) weight[job.gpus] += static_cast<double>(job.gpus) * static_cast<double>(job.work_ms);
  std::vector<std::pair<double, std::int64_t>> order;
  for (const auto& [gpus, time] : weight) order.emplace_back(-time, gpus);
  std::sort(order.begin(), order.end());
  if (order.size() > kMostSizes) order.resize(kMostSizes);
  std::vector<std::int64_t> sizes;
  for (const auto& [time, gpus] : order) sizes.push_back(gpus);
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

/// False after Ctrl-C.
bool price_all(const Settings& document, const topology::Cluster& cluster, unsigned jobs, QueueStudy& study) {
  const std::int64_t per_node = study.layout.gpus_per_node;
  for (const std::int64_t gpus : sizes_to_price(study.trace, per_node)) study.prices.push_back({gpus});
  std::vector<char> unpriced(study.prices.size(), 0);
  const std::vector<char> done = for_each_parallel(study.prices.size(), jobs, "sizes", [&](std::size_t i) {
    QueuePrice& one = study.prices[i];
    const std::int64_t whole = queue::NodePool(study.layout).nodes_for(one.gpus) * per_node;
    const auto job = resized(study.scenario, document, whole);
    unpriced[i] = job ? 0 : 1;
    if (job) price(*job, cluster, study.layout, one);
  });
  if (std::find(done.begin(), done.end(), 0) != done.end()) return false;
  std::vector<std::int64_t> without;
  for (std::size_t i = unpriced.size(); i-- > 0;) {
    if (unpriced[i] == 0) continue;
    without.push_back(study.prices[i].gpus);
    study.prices.erase(study.prices.begin() + static_cast<std::ptrdiff_t>(i));
  }
  std::reverse(without.begin(), without.end());
  if (!without.empty())
    study.notes.push_back(
        fmt::format("The scenario's layout does not fit jobs of {} GPUs: they run no longer wherever "
                    "they lie, or as the next smaller size that it fits.",
                    fmt::join(without, ", ")));
  return true;
}

/// The trace with the row of slow-downs of every job.
queue::Trace priced_trace(const QueueStudy& study) {
  queue::Trace trace{study.trace.jobs, {{1, 1, 1, 1}}, study.failures};
  for (const QueuePrice& one : study.prices) trace.curves.push_back(one.factor);
  double most = 0;
  for (queue::Request& job : trace.jobs) {
    const auto above = std::upper_bound(study.prices.begin(), study.prices.end(), job.gpus,
                                        [](std::int64_t gpus, const QueuePrice& one) { return gpus < one.gpus; });
    job.curve = static_cast<std::uint32_t>(above - study.prices.begin());
    most += static_cast<double>(std::max(job.work_ms, job.limit_ms)) * trace.curves[job.curve].back();
  }
  if (most > kMostMilliseconds)
    throw sim::UserError(fmt::format("{}: trace: its jobs run {:.3g} s one after another, expected at most {:.3g}",
                                     study.trace_file, most / 1000, kMostMilliseconds / 1000));
  return trace;
}

double percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::min(sorted.size() - 1, rank == 0 ? 0 : rank - 1)];
}

void summarise(const queue::Trace& trace, const queue::Outcome& outcome, QueueRow& row) {
  __int128 all = 0;
  for (const __int128 use : outcome.gpu_ms) all += use;
  for (std::size_t u = 0; u < queue::kUses; ++u)
    row.shares[u] = all > 0 ? static_cast<double>(outcome.gpu_ms[u]) / static_cast<double>(all) : 0;
  const double work = row.shares[static_cast<std::size_t>(queue::Use::work)],
               slow = row.shares[static_cast<std::size_t>(queue::Use::slow_down)];
  row.utilisation = work + slow;
  row.stretch = work > 0 ? (work + slow) / work : 1;
  row.makespan_s = seconds(outcome.end_ms - outcome.begin_ms);
  row.backfilled = outcome.backfilled;
  row.held_gpus = outcome.held_gpus;
  double slowdown = 0;
  for (std::size_t j = 0; j < trace.jobs.size(); ++j) {
    const queue::Placed& placed = outcome.jobs[j];
    const double wait = seconds(placed.start_ms - trace.jobs[j].submit_ms), run = seconds(placed.running_ms),
                 response = seconds(placed.end_ms - trace.jobs[j].submit_ms);
    row.waits.all_s.push_back(wait);
    row.failures += placed.failures;
    constexpr double kShort = 10;  // Feitelson et al., Theory and practice in parallel job scheduling, JSSPP 1997
    slowdown += std::max(1.0, response / std::max(run, kShort));
    ++row.spans[static_cast<std::size_t>(placed.span)];
  }
  const auto jobs = static_cast<double>(trace.jobs.size());
  row.bounded_slowdown = slowdown / jobs;
  std::vector<double> sorted = row.waits.all_s;
  std::sort(sorted.begin(), sorted.end());
  row.waits.mean_s = std::accumulate(sorted.begin(), sorted.end(), 0.0) / jobs;
  row.waits.p50_s = percentile(sorted, 0.5);
  row.waits.p95_s = percentile(sorted, 0.95);
  row.waits.p99_s = percentile(sorted, 0.99);
  row.waits.max_s = sorted.back();
}

std::vector<QueueRow> rows_of(const QueueOptions& options) {
  const auto chosen = [](const std::vector<std::string>& asked, const std::vector<std::string>& all) {
    return asked.empty() ? all : asked;
  };
  const auto number_in = [](const std::vector<std::string>& all, const std::string& name) {
    return std::find(all.begin(), all.end(), name) - all.begin();
  };
  std::vector<QueueRow> rows;
  for (const std::string& order : chosen(options.orders, queue_order_names())) {
    for (const std::string& placement : chosen(options.placements, queue_placement_names())) {
      QueueRow row;
      row.order = order;
      row.placement = placement;
      row.policy = {static_cast<queue::Order>(number_in(queue_order_names(), order)),
                    static_cast<queue::Placement>(number_in(queue_placement_names(), placement))};
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

/// Jobs drawn from the trace's for each of its arrivals: other queues of the same mix (bootstrap).
queue::Trace resample(const queue::Trace& trace, std::uint64_t seed) {
  queue::Trace drawn = trace;
  for (std::size_t j = 0; j < drawn.jobs.size(); ++j) {
    const std::int64_t submit = drawn.jobs[j].submit_ms;
    drawn.jobs[j] = trace.jobs[sim::hash_pair(seed, j) % trace.jobs.size()];
    drawn.jobs[j].submit_ms = submit;
  }
  return drawn;
}

/// False after Ctrl-C.
bool study_resamples(const queue::Trace& trace, const QueueOptions& options, QueueStudy& study) {
  std::vector<QueueRow> rows(static_cast<std::size_t>(options.resamples));
  const queue::Policy policy = study.rows[study.best].policy;
  const std::vector<char> done = for_each_parallel(rows.size(), options.jobs, "resampled queues", [&](std::size_t i) {
    const queue::Trace drawn = resample(trace, i + 1);
    summarise(drawn, queue::replay(study.layout, drawn, policy, i + 1), rows[i]);
    rows[i].waits.all_s.clear();
  });
  const auto over = [&](const auto& figure) {
    std::vector<double> values;
    for (const QueueRow& row : rows) values.push_back(figure(row));
    return campaign::distribution(std::move(values));
  };
  if (std::find(done.begin(), done.end(), 0) != done.end()) return false;
  if (rows.empty()) return true;
  study.resampled = {options.resamples, over([](const QueueRow& row) { return row.utilisation; }),
                     over([](const QueueRow& row) { return row.waits.mean_s; }),
                     over([](const QueueRow& row) { return row.waits.p95_s; }),
                     over([](const QueueRow& row) { return row.bounded_slowdown; })};
  return true;
}

void say_what_was_left_out(QueueStudy& study) {
  const QueueTrace& trace = study.trace;
  const auto left_out = [&](std::int64_t count, const std::string& what) {
    if (count > 0) study.notes.push_back(fmt::format("{} jobs {} are left out.", count, what));
  };
  left_out(trace.without_gpus, "without GPUs");
  left_out(trace.without_time, "without a time");
  left_out(trace.elsewhere, "that ask for other devices");
  left_out(trace.too_large, fmt::format("of more than {} GPUs", study.layout.gpus()));
  if (!trace.limits)
    study.notes.emplace_back("The trace has no limits: the scheduler is taken to know how long each job runs.");
}

}  // namespace

const std::vector<std::string>& queue_order_names() {
  static const std::vector<std::string> kNames{"fifo", "shortest", "backfill"};
  return kNames;
}

const std::vector<std::string>& queue_placement_names() {
  static const std::vector<std::string> kNames{"best_fit", "first_fit", "spread", "random"};
  return kNames;
}

queue::Layout layout_of(const topology::Cluster& cluster) {
  queue::Layout layout;
  layout.gpus_per_node = static_cast<std::int32_t>(cluster.gpus_per_node());
  const auto nodes = static_cast<std::size_t>(cluster.nodes());
  std::vector<std::int32_t> pod_of(nodes, 0);
  const std::vector<std::vector<std::int64_t>> pods = cluster.pods(), units = units_of(cluster);
  for (std::size_t p = 0; p < pods.size(); ++p)
    for (const std::int64_t node : pods[p]) pod_of[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(p);
  layout.unit_of.assign(nodes, 0);
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const std::int64_t node : units[u])
      layout.unit_of[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(u);
    layout.pod_of.push_back(pod_of[static_cast<std::size_t>(units[u].front())]);
  }
  return layout;
}

QueueStudy study_queue(const Settings& whole, const std::string& trace_file, const QueueOptions& options) {
  QueueStudy study;
  study.trace_file = trace_file;
  study.scenario = scenarios::load_scenario(whole);
  const Partition part = partition_of(whole, study.scenario.job.machine, study.scenario.job.parallelism.data,
                                      study.scenario.job.batch.global, options.device);
  const Settings& document = part.document;
  if (study.scenario.job.machine.mixed()) {
    study.notes.push_back(fmt::format("The nodes of {} alone, a partition of {} GPUs.", options.device, part.gpus));
    study.scenario = scenarios::load_scenario(document);
  }
  const workloads::Machine& machine = study.scenario.job.machine;
  workloads::Site site = workloads::site_of(study.scenario.job);
  site.gpus = options.gpus > 0 ? options.gpus : part.gpus;
  if (site.gpus % machine.gpus_per_node != 0)
    throw sim::UserError(fmt::format("--gpus: got {}, expected whole nodes of {}", site.gpus, machine.gpus_per_node));
  site.faults = {};
  const topology::Cluster cluster = workloads::cluster_of(site);
  study.layout = layout_of(cluster);
  study.trace = read_queue_trace(trace_file, study.layout.gpus(), options.device);
  say_what_was_left_out(study);
  study.interrupted = !price_all(document, cluster, options.jobs, study);
  if (study.interrupted) return study;
  if (options.failures) {
    QueueFailures failures = queue_failures(study.scenario, document);
    study.failures = failures.rates;
    study.notes.push_back(std::move(failures.note));
  }
  const queue::Trace trace = priced_trace(study);
  study.rows = rows_of(options);
  const std::vector<char> done = for_each_parallel(study.rows.size(), options.jobs, "policies", [&](std::size_t i) {
    summarise(trace, queue::replay(study.layout, trace, study.rows[i].policy, 1), study.rows[i]);
  });
  study.interrupted = std::find(done.begin(), done.end(), 0) != done.end();
  if (study.interrupted) return study;
  const auto better = [](const QueueRow& a, const QueueRow& b) { return a.bounded_slowdown < b.bounded_slowdown; };
  study.best =
      static_cast<std::size_t>(std::min_element(study.rows.begin(), study.rows.end(), better) - study.rows.begin());
  study.interrupted = !study_resamples(trace, options, study);
  return study;
}

}  // namespace orrery::tools
