// What a served scenario comes to: distributions, shares of time, energy and cost. See serving_study.h.
#include "tools/study/serving_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/error.h"
#include "tools/study/served_tables.h"
#include "tools/study/trace_file.h"
#include "workloads/job/energy.h"
#include "workloads/step/handover_ways.h"

namespace orrery::tools {

namespace {

/// The fewest tensor ranks of which a replica's cache has room, of twice, four times ... as many; 0: none has.
std::int64_t tensor_with_room(const scenarios::ServingScenario& scenario, const scenarios::ServedPool& pool) {
  const calibration::DeviceProfile& device = scenario.machine.device;
  const auto& attention = pool.replica.model.attention;
  workloads::ServedReplica wider = pool.replica;
  for (std::int64_t tensor = 2 * wider.layout.tensor; tensor <= scenario.machine.gpus; tensor *= 2) {
    const bool cuts = attention.heads % tensor == 0 &&
                      (attention.kv_heads % tensor == 0 || tensor % std::max<std::int64_t>(1, attention.kv_heads) == 0);
    if (!cuts || pool.replica.model.pattern.any()) return 0;
    wider.layout.tensor = tensor;
    const workloads::IterationTimes times(wider, scenarios::kernels_of(device, wider.engine.kernels));
    const auto bytes = static_cast<double>(device.memory().value());
    if (workloads::serving_memory(wider, times.pass(), bytes, pool.limits).blocks >= 1) return tensor;
  }
  return 0;
}

}  // namespace

std::string no_room_for_cache(const std::string& id, const char* key, const scenarios::ServingScenario& scenario,
                              const scenarios::ServedPool& pool, const workloads::ServingMemory& memory) {
  const std::int64_t tensor = tensor_with_room(scenario, pool);
  return fmt::format(
      "{}: {}: {:.1f} GB of weights and {:.1f} GB beside them leave no room for a cache in the {:.1f} GB that "
      "{} takes of a {}, expected more GPUs a replica{} or fewer bits",
      id, key, memory.weights / 1e9, (memory.held() - memory.weights) / 1e9, memory.given / 1e9,
      pool.replica.engine.name, scenario.machine.device.name(),
      tensor > 0 ? fmt::format(", as in {{parallelism: {{tensor: {}}}}},", tensor) : "");
}

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
      if (requests[i].refused || requests[i].lost || requests[i].begun == serving::kNever) continue;
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
  std::vector<double> ttft, tpot, e2el;
  serving::Time from = serving::kNever, until = 0;
  double gaps = 0, gap_time = 0;
  for (std::size_t i = 0; i < study.trace.requests.size(); ++i) {
    const serving::Served& served = study.outcome.requests[i];
    study.refused += served.refused && !served.turned_away ? 1 : 0;
    study.turned_away += served.turned_away ? 1 : 0;
    study.lost += served.lost ? 1 : 0;
    if (served.refused || served.lost || static_cast<std::int64_t>(i) < study.trace.warm_up) continue;
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
    if (study.apart) {
      const serving::ApartOutcome::Handed& handed = study.apart->handed[i];
      study.prefill_s += static_cast<double>(handed.computed - served.begun) / kPicoseconds;
      study.transfer_s += static_cast<double>(handed.there - handed.computed) / kPicoseconds;
      study.decode_s += static_cast<double>(served.last - handed.there) / kPicoseconds;
    } else {
      study.prefill_s += static_cast<double>(served.first - served.begun) / kPicoseconds;
      study.decode_s += rest;
    }
    from = std::min(from, served.arrival);
    until = std::max(until, served.last);
    study.good += study.within_promise(i) ? 1 : 0;
  }
  if (study.completed == 0) return;
  const auto n = static_cast<double>(study.completed);
  study.queue_s /= n;
  study.prefill_s /= n;
  study.transfer_s /= n;
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

/// Latencies of each priority by itself.
void count_priorities(ServingStudy& study) {
  const std::vector<serving::Request>& requests = study.trace.requests;
  if (std::all_of(requests.begin(), requests.end(),
                  [&](const serving::Request& r) { return r.priority == requests.front().priority; }))
    return;
  struct Values {
    PriorityStudy sums;
    std::vector<double> ttft, tpot;
  };
  std::map<std::int32_t, Values> by_priority;
  for (std::size_t i = static_cast<std::size_t>(study.trace.warm_up); i < study.trace.requests.size(); ++i) {
    const serving::Served& served = study.outcome.requests[i];
    const serving::Request& request = study.trace.requests[i];
    Values& values = by_priority[request.priority];
    values.sums.turned_away += served.turned_away ? 1 : 0;
    if (served.refused || served.lost) continue;
    const double first = static_cast<double>(served.first - served.arrival) / kPicoseconds;
    const double each = request.output > 1 ? static_cast<double>(served.last - served.first) / kPicoseconds /
                                                 static_cast<double>(request.output - 1)
                                           : 0;
    ++values.sums.completed;
    values.ttft.push_back(first);
    if (request.output > 1) values.tpot.push_back(each);
    values.sums.good += study.within_promise(i) ? 1 : 0;
  }
  for (auto& [priority, values] : by_priority) {
    values.sums.priority = priority;
    values.sums.ttft = latency_of(values.ttft);
    values.sums.tpot = latency_of(values.tpot);
    study.priorities.push_back(values.sums);
  }
}

/// GPU seconds of a pool within [from, until) seconds.
double held_s(const ServingStudy& study, std::size_t number, double from, double until) {
  const PoolStudy& pool = study.pools[number];
  const double end = study.fleet_s;
  const auto within = [&](double begins, double ends) {
    return std::max(0.0, std::min({ends, until, end}) - std::max(begins, from));
  };
  const double each = static_cast<double>(pool.pool.replica.layout.gpus());
  const std::vector<serving::Held>& held = study.outcome_of(number).held;
  if (held.empty()) return within(0, end) * static_cast<double>(pool.pool.gpus());
  double sum = 0;
  for (const serving::Held& h : held)
    sum += within(static_cast<double>(h.from) / kPicoseconds, static_cast<double>(h.until) / kPicoseconds);
  return sum * each;
}

/// What running takes beyond standing: joules of all GPUs of a pool for iterations that are alike.
double running_joules(const workloads::IterationTimes& times, const PoolStudy& pool, const serving::Hour& hour) {
  const workloads::ServedPower& power = pool.pool.replica.power;
  double joules = 0;
  for (const auto* list : {&hour.decode, &hour.mixed}) {
    for (const serving::Work& work : *list)
      if (work.iterations > 0) joules += power.joules(times.work_of(work).duty);
  }
  return joules * static_cast<double>(pool.pool.replica.layout.gpus());
}

/// Hours of a pool: what runs is dealt out by what began within each, what stands by what is held.
void count_hours(ServingStudy& study, std::size_t number, const workloads::IterationTimes& times,
                 const calibration::PowerModel& power, double running) {
  const PoolStudy& pool = study.pools[number];
  const std::vector<serving::Hour>& hours = study.outcome_of(number).hours;
  const auto count = std::min(serving::Outcome::kMostHours, static_cast<std::size_t>(study.fleet_s / 3600) + 1);
  if (study.hours.size() < count) study.hours.resize(count);
  std::vector<double> each(count, 0);
  double sum = 0;
  for (std::size_t i = 0; i < std::min(count, hours.size()); ++i) {
    study.hours[i].output_tokens += hours[i].output_tokens;
    if (power.known()) sum += each[i] = running_joules(times, pool, hours[i]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double from = 3600.0 * static_cast<double>(i), until = i + 1 == count ? study.fleet_s : from + 3600;
    const double held = held_s(study, number, from, until);
    study.hours[i].gpu_s += held;
    if (!power.known()) continue;
    const double ran = sum > 0 ? running * each[i] / sum : 0;
    study.hours[i].joules += (ran + (power.standing + power.host) * held) / power.conversion * study.scenario.power.pue;
  }
}

/// Energy of a pool's nodes and shares of its GPUs' time, from sums over iterations that are alike.
void count_pool(ServingStudy& study, std::size_t number, const workloads::IterationTimes& times) {
  PoolStudy& pool = study.pools[number];
  const workloads::ServedPower& board = pool.pool.replica.power;
  double each = 0;  // joules of a GPU beyond what stands
  for (const auto* list : {&study.outcome_of(number).decode, &study.outcome_of(number).mixed}) {
    for (const serving::Work& work : *list) {
      if (!(work.iterations > 0)) continue;
      const workloads::GpuWork one = times.work_of(work);
      pool.iterations += work.iterations;
      pool.use += one.use;
      if (board.board.known()) each += board.joules(one.duty);
    }
  }
  const double seconds = study.fleet_s;
  const double held = held_s(study, number, 0, seconds);
  study.gpu_s += held;
  pool.gpu_s = held;
  const bool stands = study.outcome_of(number).held.empty();
  const double whole = stands ? seconds * static_cast<double>(pool.pool.replicas)
                              : held / static_cast<double>(pool.pool.replica.layout.gpus());
  if (!(whole > 0)) return;
  pool.idle = std::max(0.0, 1 - pool.use.sum() / whole);
  pool.use = pool.use * (1 / whole);
  const calibration::PowerModel& power = board.board;
  if (!power.known()) return count_hours(study, number, times, power, 0);
  // Of each GPU: it stands all the time, is active while kernels run, and pays for operations and bytes.
  const double gpus = stands ? static_cast<double>(pool.pool.gpus()) : held / seconds;
  const double ran = each * static_cast<double>(pool.pool.replica.layout.gpus());
  double joules = ran + power.standing * seconds * gpus;
  joules = (joules + power.host * seconds * gpus) / power.conversion;
  study.joules += joules * study.scenario.power.pue;
  count_hours(study, number, times, power, ran);
}

/// Over all pools, by their GPUs.
void count_gpus(ServingStudy& study) {
  for (const PoolStudy& pool : study.pools) {
    const double share = study.changes() ? pool.gpu_s / study.gpu_s
                                         : static_cast<double>(pool.pool.gpus()) / static_cast<double>(study.gpus());
    study.use += study.pools.size() == 1 ? pool.use : pool.use * share;
    study.idle += study.pools.size() == 1 ? pool.idle : pool.idle * share;
    study.iterations += pool.iterations;
  }
}

std::shared_ptr<workloads::IterationTimes> times_of(const scenarios::ServingScenario& scenario,
                                                    const scenarios::ServedPool& pool, ServedTables* tables = nullptr) {
  if (tables != nullptr) return tables->times_of(scenario, pool);
  return std::make_shared<workloads::IterationTimes>(
      pool.replica, scenarios::kernels_of(scenario.machine.device, pool.replica.engine.kernels));
}

PoolStudy pool_of(const scenarios::ServingScenario& scenario, const scenarios::ServedPool& pool,
                  const workloads::IterationTimes& times) {
  PoolStudy study;
  study.pool = pool;
  study.memory = workloads::serving_memory(pool.replica, times.pass(),
                                           static_cast<double>(scenario.machine.device.memory().value()), pool.limits);
  if (study.memory.blocks < 1)
    throw sim::UserError(no_room_for_cache(scenario.id, "serving.pools", scenario, pool, study.memory));
  if (const double apart = workloads::apart_weight_bytes(times.pass()); apart > study.memory.given)
    throw sim::UserError(fmt::format(
        "{}: {:.1f} GB of experts' weights are more than the {:.1f} GB that {} takes of a {}, expected more "
        "expert_gpus",
        scenario.id, apart / 1e9, study.memory.given / 1e9, pool.replica.engine.name, scenario.machine.device.name()));
  study.pool.limits.max_sequences = study.memory.sequences;
  if (pool.max_cache_tokens > 0)
    study.memory.blocks = std::min(study.memory.blocks, pool.max_cache_tokens / pool.limits.block_tokens);
  // Micro-batches of all stages share a stage's cache.
  study.blocks = study.memory.blocks * pool.replica.layout.attention_data;
  return study;
}

serving::Limits limits_of(const PoolStudy& study, const scenarios::ServingScenario& scenario) {
  serving::Limits limits = study.pool.scheduler_limits(study.blocks);
  limits.first_token = scenario.transfer.first_token;
  return limits;
}

serving::Trace trace_in_file(const scenarios::ServingScenario& scenario) {
#ifdef ORRERY_DATA_MOUNTED  // a page without a server
  throw sim::UserError(scenario.id + ": traffic.trace: files are read on the command line alone");
#else
  return read_trace(scenario.trace_file, scenario.time_scale, scenario.most_requests.value_or(0));
#endif
}

/// Tiers below the first pool's cache, in contents of the trace.
void lay_tiers(ServingStudy& study, serving::Limits& limits, const workloads::IterationTimes& times) {
  const scenarios::ServedPool& pool = study.pools.front().pool;
  if (pool.tiers.empty()) return;
  if (study.trace.different == 0 || !limits.prefix_caching) {
    study.scenario.assumptions.emplace_back("cache_tiers: no prompt of this traffic shares a beginning with another.");
    return;
  }
  const workloads::ServedLayout& layout = pool.replica.layout;
  const double token = workloads::cache_bytes_per_token(times.pass()) * static_cast<double>(layout.tensor) *
                       static_cast<double>(layout.pipeline);
  study.tier_content_bytes = token * study.trace.content_tokens;
  for (const scenarios::ServedPool::Tier& tier : pool.tiers)
    limits.tiers.push_back({tier.name, static_cast<std::int64_t>(std::min(1e15, tier.bytes / study.tier_content_bytes)),
                            static_cast<serving::Time>(std::ceil(kPicoseconds * study.tier_content_bytes / tier.rate)),
                            static_cast<serving::Time>(kPicoseconds * tier.latency_s)});
}

/// What happens of itself to a fleet must come to an end.
void check_events(const ServingStudy& study, const serving::Fleet& fleet) {
  constexpr double kMost = 1e7;
  const auto last = static_cast<double>(study.trace.requests.back().arrival);
  const double ticks = fleet.autoscale ? last / static_cast<double>(fleet.autoscale->every) : 0;
  const double fails = fleet.failures && fleet.failures->mean_s > 0
                           ? last / kPicoseconds / fleet.failures->mean_s * static_cast<double>(fleet.replicas)
                           : 0;
  if (ticks + fails > kMost)
    throw sim::UserError(fmt::format("{}: the scaler's measurements and failures come to {:.3g}, expected at most {:g}",
                                     study.scenario.id, ticks + fails, kMost));
}

/// Content of a trace that blocks of the cache do not divide is not looked for.
void check_contents(ServingStudy& study, serving::Limits& limits) {
  if (study.trace.different == 0 || study.trace.content_tokens % limits.block_tokens == 0) return;
  limits.prefix_caching = false;
  study.scenario.assumptions.push_back(
      fmt::format("The trace's content is known in blocks of {} tokens, which blocks of {} do not divide: nothing is "
                  "found in the cache.",
                  study.trace.content_tokens, limits.block_tokens));
}

/// A scenario and all that its run needs.
struct Prepared {
  ServingStudy study;
  std::shared_ptr<workloads::IterationTimes> times, answers;
  serving::Fleet fleet;
  std::optional<workloads::HandoverWays> ways;
  std::optional<serving::Apart> apart;
};

/// How a pool changes, where a replica that starts reads its weights too.
void take_changes(serving::Fleet& fleet, const PoolStudy& pool) {
  fleet.autoscale = pool.pool.autoscale;
  fleet.failures = pool.pool.failures;
  if (!(pool.pool.weights_rate > 0)) return;
  const double bytes = pool.memory.weights * static_cast<double>(pool.pool.replica.layout.gpus());
  const auto reads = static_cast<serving::Time>(kPicoseconds * bytes / pool.pool.weights_rate);
  if (fleet.autoscale) fleet.autoscale->start += reads;
  if (fleet.failures) fleet.failures->restart += reads;
}

void prepare_apart(Prepared& p) {
  const scenarios::ServingScenario& scenario = p.study.scenario;
  const workloads::HandoverWays::Pool from{scenario.replica.layout,
                                           std::max(scenario.replicas, scenario.most_replicas)},
      to{scenario.answers->replica.layout, std::max(scenario.answers->replicas, scenario.answers->most_replicas)};
  const workloads::Site site{
      scenario.machine.node, scenario.machine.fabric, scenario.machine.gpus, scenario.machine.gpus_per_node, {}};
  p.ways.emplace(workloads::cluster_of(site), from, to, scenario.share.first);
  serving::Apart& apart = p.apart.emplace(serving::Apart{p.fleet, p.fleet, {}});
  apart.decode.limits = limits_of(p.study.pools.back(), scenario);
  apart.decode.limits.prefix_caching = false;
  apart.decode.limits.tiers.clear();
  apart.decode.replicas = scenario.answers->replicas;
  take_changes(apart.decode, p.study.pools.back());
  check_events(p.study, apart.decode);
  apart.decode.slow = scenario.answers->slow;
  apart.decode.slow_factor = scenario.answers->slow_factor;
  // A request has come to the first pool's front end; what it costs to hand it on is the transfer's latency.
  apart.decode.limits.front = apart.decode.limits.front_token = 0;
  apart.handover = {&*p.ways,
                    workloads::cache_bytes_per_token(p.answers->pass()),
                    workloads::cache_bytes_per_sequence(p.answers->pass()),
                    scenario.transfer.handing,
                    scenario.replica.model.layers,
                    static_cast<serving::Time>(scenario.transfer.latency_s * kPicoseconds),
                    from.layout.attention_data,
                    to.layout.attention_data};
}

/// Both pools as one, for those who look at requests.
void take_apart(ServingStudy& study, serving::ApartOutcome outcome) {
  study.apart = std::move(outcome);
  const serving::Outcome &first = study.apart->prefill, &second = study.apart->decode;
  serving::Outcome& all = study.outcome;
  all.requests = study.apart->requests;
  all.between_tokens = second.between_tokens;
  all.samples = second.samples;
  all.end = std::max(first.end, second.end);
  all.busy = first.busy + second.busy;
  all.preemptions = first.preemptions + second.preemptions;
  all.prompt_tokens = first.prompt_tokens;
  all.found_tokens = first.found_tokens;
  all.output_tokens = first.output_tokens + second.output_tokens;
  all.lost_tokens = study.apart->lost_tokens;
  all.moved = study.apart->moved;
  all.block_time = second.block_time;
  all.peak_blocks = second.peak_blocks;
}

std::unique_ptr<Prepared> prepared(const scenarios::ServingScenario& scenario, ServedTables* tables = nullptr) {
  auto made = std::make_unique<Prepared>();
  Prepared& p = *made;
  ServingStudy& study = p.study;
  study.scenario = scenario;
  p.times = times_of(scenario, scenario, tables);
  study.kernels = p.times->kernels().provenance();
  study.pools.push_back(pool_of(scenario, scenario, *p.times));
  if (scenario.answers) {
    p.answers = times_of(scenario, *scenario.answers, tables);
    study.pools.push_back(pool_of(scenario, *scenario.answers, *p.answers));
  }
  study.memory = study.pools.back().memory;
  study.blocks = study.pools.back().blocks;
  study.trace = traffic_of(scenario);
  if (study.trace.requests.empty()) throw sim::UserError(scenario.id + ": traffic comes to no request at all");
  p.fleet.replicas = scenario.replicas;
  p.fleet.router = scenario.router;
  p.fleet.front_ends = scenario.front_ends;
  p.fleet.looks_every = static_cast<serving::Time>(scenario.router_looks_every_s * kPicoseconds);
  p.fleet.slow = scenario.slow;
  p.fleet.slow_factor = scenario.slow_factor;
  p.fleet.limits = limits_of(study.pools.front(), scenario);
  take_changes(p.fleet, study.pools.front());
  check_contents(study, p.fleet.limits);
  lay_tiers(study, p.fleet.limits, *p.times);
  check_events(study, p.fleet);
  if (scenario.answers) prepare_apart(p);
  return made;
}

/// Pools apart of all share a network; the others do not meet.
void run(const std::vector<std::unique_ptr<Prepared>>& all) {
  std::vector<serving::ApartRun> runs;
  std::vector<Prepared*> whose;
  for (const auto& p : all) {
    if (!p->apart) {
      p->study.outcome = serving::serve(p->study.trace, p->fleet, *p->times);
      continue;
    }
    runs.push_back({&p->study.trace, &*p->apart, &*p->times, &*p->answers});
    whose.push_back(p.get());
  }
  std::vector<serving::ApartOutcome> outcomes = serving::serve_apart(runs);
  for (std::size_t i = 0; i < outcomes.size(); ++i) take_apart(whose[i]->study, std::move(outcomes[i]));
}

ServingStudy counted(Prepared& p) {
  ServingStudy& study = p.study;
  study.fleet_s = static_cast<double>(study.outcome.end) / kPicoseconds;
  count_requests(study);
  count_priorities(study);
  study.saturated = waits_grow(study);
  count_pool(study, 0, *p.times);
  if (p.answers) count_pool(study, 1, *p.answers);
  count_gpus(study);
  for (const serving::Served& served : study.outcome.requests) {
    if (!study.hours.empty())
      study
          .hours[std::min(study.hours.size() - 1,
                          static_cast<std::size_t>(static_cast<double>(served.arrival) / kPicoseconds / 3600))]
          .requests += 1;
  }
  return std::move(study);
}

}  // namespace

serving::Trace traffic_of(const scenarios::ServingScenario& scenario) {
  return scenario.trace_file.empty() ? serving::trace_of(scenario.traffic, scenario.limits.block_tokens)
                                     : trace_in_file(scenario);
}

bool ServingStudy::within_promise(std::size_t request) const {
  const serving::Served& served = outcome.requests[request];
  if (served.refused || served.lost) return false;
  const scenarios::Slo& slo = scenario.slo;
  const double first = static_cast<double>(served.first - served.arrival) / kPicoseconds;
  const double rest = static_cast<double>(served.last - served.first) / kPicoseconds;
  const std::int32_t output = trace.requests[request].output;
  return (slo.ttft_s == 0 || first <= slo.ttft_s) &&
         (slo.tpot_s == 0 || output == 1 || rest / (output - 1) <= slo.tpot_s);
}

std::vector<PoolStudy> served_pools(const scenarios::ServingScenario& scenario) {
  std::vector<PoolStudy> pools{pool_of(scenario, scenario, *times_of(scenario, scenario))};
  if (scenario.answers) pools.push_back(pool_of(scenario, *scenario.answers, *times_of(scenario, *scenario.answers)));
  return pools;
}

std::vector<ServingStudy> study_serving(const std::vector<scenarios::ServingScenario>& scenarios) {
  std::vector<std::unique_ptr<Prepared>> all;
  for (const scenarios::ServingScenario& scenario : scenarios) all.push_back(prepared(scenario));
  run(all);
  std::vector<ServingStudy> studies;
  for (const auto& p : all) studies.push_back(counted(*p));
  return studies;
}

ServingStudy study_serving(const scenarios::ServingScenario& scenario, ServedTables* tables) {
  std::vector<std::unique_ptr<Prepared>> all;
  all.push_back(prepared(scenario, tables));
  if (all.front()->ways) all.front()->ways->keep_one_of_alike();
  run(all);
  return counted(*all.front());
}

}  // namespace orrery::tools
