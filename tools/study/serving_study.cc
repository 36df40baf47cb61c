// What a served scenario comes to: distributions, shares of time, energy and cost. See serving_study.h.
#include "tools/study/serving_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/error.h"
#include "tools/study/trace_file.h"
#include "workloads/step/energy.h"

namespace orrery::tools {

namespace {

constexpr double kPicoseconds = 1e12;

Latency latency_of(std::vector<double>& values) {
  Latency latency;
  if (values.empty()) return latency;
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  for (const double value : values) latency.mean += value / n;
  for (const double value : values) latency.deviation += (value - latency.mean) * (value - latency.mean) / n;
  latency.deviation = std::sqrt(latency.deviation);
  // Between neighbours, as numpy's percentile has it.
  const auto at = [&](double share) {
    const double place = share * (n - 1);
    const auto low = static_cast<std::size_t>(place);
    const std::size_t high = std::min(values.size() - 1, low + 1);
    return values[low] + (values[high] - values[low]) * (place - static_cast<double>(low));
  };
  latency.p50 = at(0.5);
  latency.p90 = at(0.9);
  latency.p95 = at(0.95);
  latency.p99 = at(0.99);
  return latency;
}

/// Whether requests wait ever longer: the last quarter of them much longer than the second.
bool waits_grow(const ServingStudy& study) {
  const auto& requests = study.outcome.requests;
  if (study.trace.concurrency > 0 || requests.size() < 40) return false;
  const auto mean_wait = [&](std::size_t from, std::size_t until) {
    double sum = 0, count = 0;
    for (std::size_t i = from; i < until; ++i) {
      if (requests[i].refused || requests[i].begun == serving::kNever) continue;
      sum += static_cast<double>(requests[i].begun - requests[i].arrival) / kPicoseconds;
      ++count;
    }
    return count > 0 ? sum / count : 0;
  };
  const std::size_t quarter = requests.size() / 4;
  const double early = mean_wait(quarter, 2 * quarter), late = mean_wait(3 * quarter, requests.size());
  return late > 2 * early && late > study.e2el.mean / 4;
}

void count_requests(ServingStudy& study) {
  const scenarios::Slo& slo = study.scenario.slo;
  std::vector<double> ttft, tpot, e2el;
  serving::Time from = serving::kNever, until = 0;
  double gaps = 0, gap_time = 0;
  for (std::size_t i = 0; i < study.trace.requests.size(); ++i) {
    const serving::Served& served = study.outcome.requests[i];
    study.refused += served.refused ? 1 : 0;
    if (served.refused || static_cast<std::int64_t>(i) < study.trace.warm_up) continue;
    const serving::Request& request = study.trace.requests[i];
    const double first = static_cast<double>(served.first - served.arrival) / kPicoseconds;
    const double rest = static_cast<double>(served.last - served.first) / kPicoseconds;
    const double each = request.output > 1 ? rest / (request.output - 1) : 0;
    ++study.completed;
    study.input_tokens += request.input;
    study.output_tokens += request.output;
    ttft.push_back(first);
    if (request.output > 1) tpot.push_back(each);
    e2el.push_back(first + rest);
    gaps += request.output - 1;
    gap_time += rest;
    study.queue_s += static_cast<double>(served.begun - served.arrival) / kPicoseconds;
    study.prefill_s += static_cast<double>(served.first - served.begun) / kPicoseconds;
    study.decode_s += rest;
    from = std::min(from, served.arrival);
    until = std::max(until, served.last);
    const bool good = (slo.ttft_s == 0 || first <= slo.ttft_s) && (slo.tpot_s == 0 || each <= slo.tpot_s);
    study.good += good ? 1 : 0;
  }
  if (study.completed == 0) return;
  const auto n = static_cast<double>(study.completed);
  study.queue_s /= n;
  study.prefill_s /= n;
  study.decode_s /= n;
  study.duration_s = static_cast<double>(until - from) / kPicoseconds;
  study.ttft = latency_of(ttft);
  study.tpot = latency_of(tpot);
  study.e2el = latency_of(e2el);
  const serving::LogHistogram& between = study.outcome.between_tokens;
  study.itl = {gaps > 0 ? gap_time / gaps : 0,        0,
               between.quantile(0.5) / kPicoseconds,  between.quantile(0.9) / kPicoseconds,
               between.quantile(0.95) / kPicoseconds, between.quantile(0.99) / kPicoseconds};
}

/// Energy of all nodes and shares of the GPUs' time, from sums over iterations that are alike.
void count_gpus(ServingStudy& study, const workloads::IterationTimes& times) {
  workloads::IterationTimes::Traffic traffic;
  for (const auto* list : {&study.outcome.decode, &study.outcome.mixed}) {
    for (const serving::Work& work : *list) {
      if (!(work.iterations > 0)) continue;
      study.iterations += work.iterations;
      study.use += times.use_of(work);
      const auto one = times.traffic_of(work);
      traffic.flops += one.flops;
      traffic.bytes += one.bytes;
    }
  }
  const double whole =
      static_cast<double>(study.outcome.end) / kPicoseconds * static_cast<double>(study.scenario.replicas);
  if (!(whole > 0)) return;
  const double busy = study.use.sum();
  study.idle = std::max(0.0, 1 - busy / whole);
  study.use = study.use * (1 / whole);
  calibration::PowerModel power = study.scenario.power.at_temperature(study.scenario.machine.device.power());
  if (!power.known()) return;
  const auto type = static_cast<std::size_t>(calibration::multiplied_as(study.scenario.replica.precision.weights));
  // Of each GPU: it stands all the time, is active while kernels run, and pays for operations and bytes.
  const double running = (study.use.compute + study.use.memory + study.use.communication + study.use.padding) * whole;
  const double each = power.active * running + power.per_flop[type] * traffic.flops + power.per_byte * traffic.bytes;
  const double per_replica = static_cast<double>(study.scenario.replica.layout.gpus());
  const double gpus = static_cast<double>(study.gpus());
  const double seconds = static_cast<double>(study.outcome.end) / kPicoseconds;
  double joules = each * per_replica + power.standing * seconds * gpus;
  // A limiter stretches what would draw more; serving is bound by memory, so that the energy stays what it is.
  joules = (joules + power.host * seconds * gpus) / power.conversion;
  study.joules = joules * study.scenario.power.pue;
}

std::string shortage(const workloads::ServingMemory& memory, const scenarios::ServingScenario& s) {
  return fmt::format(
      "{}: {:.1f} GB of weights and {:.1f} GB beside them leave no room for a cache in the {:.1f} GB that "
      "{} takes of a {}, expected more GPUs a replica or fewer bits",
      s.id, memory.weights / 1e9, (memory.held() - memory.weights) / 1e9, memory.given / 1e9, s.replica.engine.name,
      s.machine.device.name());
}

}  // namespace

ServingStudy study_serving(const scenarios::ServingScenario& scenario) {
  ServingStudy study;
  study.scenario = scenario;
  workloads::IterationTimes times(scenario.replica,
                                  scenarios::kernels_of(scenario.machine.device, scenario.replica.engine.kernels));
  study.kernels = times.kernels().provenance();
  study.memory = workloads::serving_memory(
      scenario.replica, times.pass(), static_cast<double>(scenario.machine.device.memory().value()), scenario.limits);
  if (study.memory.blocks < 1) throw sim::UserError(shortage(study.memory, scenario));
  study.trace = scenario.trace_file.empty()
                    ? serving::trace_of(scenario.traffic, scenario.limits.block_tokens)
                    : read_trace(scenario.trace_file, scenario.time_scale, scenario.most_requests.value_or(0));
  if (study.trace.requests.empty()) throw sim::UserError(scenario.id + ": traffic comes to no request at all");
  serving::Fleet fleet;
  fleet.replicas = scenario.replicas;
  fleet.router = scenario.router;
  // Micro-batches of all stages share a stage's cache.
  study.blocks = study.memory.blocks * scenario.replica.layout.attention_data;
  fleet.limits = {scenario.limits.max_sequences * scenario.replica.layout.attention_data,
                  scenario.limits.max_batched_tokens * scenario.replica.layout.attention_data,
                  study.blocks,
                  scenario.limits.block_tokens,
                  scenario.chunked_prefill,
                  scenario.prefix_caching,
                  scenario.batching,
                  static_cast<serving::Time>(scenario.replica.engine.host.request * kPicoseconds),
                  scenario.replica.engine.host.plans == calibration::Plans::ahead};
  if (study.trace.different > 0 && study.trace.content_tokens % scenario.limits.block_tokens != 0) {
    fleet.limits.prefix_caching = false;
    study.scenario.assumptions.push_back(
        fmt::format("The trace's content is known in blocks of {} tokens, which blocks of {} do not divide: nothing is "
                    "found in the cache.",
                    study.trace.content_tokens, scenario.limits.block_tokens));
  }
  study.outcome = serving::serve(study.trace, fleet, times);
  count_requests(study);
  study.saturated = waits_grow(study);
  count_gpus(study, times);
  return study;
}

}  // namespace orrery::tools
