// One run of a served scenario, from its document to what requests and GPUs took. See serving.h.
#include "tools/study/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "tools/report/report.h"
#include "tools/report/text.h"

namespace orrery::tools {

using nlohmann::ordered_json;

namespace {

constexpr double kMs = 1e3;

double per_second(const ServingStudy& study, double count) {
  return study.duration_s > 0 ? count / study.duration_s : 0;
}

double seconds_of(serving::Time time) { return static_cast<double>(time) / sim::kPicosecondsPerSecond; }

std::string share_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string served_layout_text(const workloads::ServedLayout& layout) {
  std::string text = fmt::format("TP {}", layout.tensor);
  if (layout.pipeline > 1) text += fmt::format(" PP {}", layout.pipeline);
  if (layout.attention_data > 1) text += fmt::format(" attention-DP {}", layout.attention_data);
  if (layout.expert > 1) text += fmt::format(" EP {}", layout.expert);
  if (layout.experts_apart())
    text += fmt::format(" on {} GPUs of their own, {} micro-batches", layout.expert_gpus, layout.micro_batches);
  if (layout.redundant_experts > 0) text += fmt::format(" with {} experts twice", layout.redundant_experts);
  return text;
}

std::string_view role_of(const ServingStudy& study, const PoolStudy& pool) {
  if (!study.apart) return "both";
  return &pool == &study.pools.front() ? "prefill" : "decode";
}

std::string what_text(const ServingStudy& study) {
  const scenarios::ServingScenario& s = study.scenario;
  std::vector<std::string> pools;
  for (const PoolStudy& pool : study.pools)
    pools.push_back(fmt::format(
        "{}{} replica{} of {}{}", pool.pool.autoscale ? fmt::format("{} to ", pool.pool.autoscale->least) : "",
        pool.pool.autoscale ? pool.pool.autoscale->most : pool.pool.replicas,
        pool.pool.gpus() == pool.pool.replica.layout.gpus() ? "" : "s", served_layout_text(pool.pool.replica.layout),
        study.apart ? fmt::format(" for {}", role_of(study, pool)) : ""));
  const workloads::ServedPrecision& types = s.replica.precision;
  const bool apart = s.replica.model.experts.any() && types.experts != types.weights;
  return fmt::format("{} on {} x {}, {}, {}, weights {}{}, cache {}", s.replica.model.name, study.gpus(),
                     s.machine.device.name(), s.replica.engine.name, fmt::join(pools, " and "), name_of(types.weights),
                     apart ? fmt::format(", experts {}", name_of(types.experts)) : "",
                     types.kv_bytes == 1 ? "fp8" : "bf16");
}

std::string traffic_text(const ServingStudy& study) {
  const scenarios::ServingScenario& s = study.scenario;
  const auto n = static_cast<double>(std::max<std::int64_t>(1, study.completed));
  const std::string lengths = fmt::format("{} requests, {:.0f} tokens in and {:.0f} out in the mean", study.completed,
                                          study.input_tokens / n, study.output_tokens / n);
  if (!s.trace_file.empty()) return fmt::format("trace {}: {}", s.trace_file, lengths);
  if (s.traffic.concurrency > 0) return fmt::format("{} at a time: {}", s.traffic.concurrency, lengths);
  return fmt::format("{:g} requests a second{}: {}", s.traffic.rate,
                     s.traffic.levels.empty() ? "" : fmt::format(" in {} levels", s.traffic.levels.size()), lengths);
}

/// What the load does to it, first of all.
std::string load_text(const ServingStudy& study) {
  if (study.refused > 0)
    return fmt::format("{} requests are refused: each needs more than the whole cache of {} tokens.", study.refused,
                       study.blocks * study.scenario.limits.block_tokens);
  if (study.turned_away > 0)
    return fmt::format("{} requests are turned away: as many wait as may (max_waiting).", study.turned_away);
  if (study.saturated)
    return "Saturated: more comes than can be served, so that requests wait ever longer; latencies are those of this "
           "many requests alone.";
  return {};
}

void write_latencies(std::ostream& out, const ServingStudy& study) {
  TextTable table({{"", Align::left}, {"mean"}, {"p50"}, {"p90"}, {"p95"}, {"p99"}});
  const auto row = [&](const char* what, const Latency& l) {
    table.add_row({what, time_text(l.mean), time_text(l.p50), time_text(l.p90), time_text(l.p95), time_text(l.p99)});
  };
  row("time to first token", study.ttft);
  row("time a token (TPOT)", study.tpot);
  row("between tokens (ITL)", study.itl);
  row("end to end", study.e2el);
  table.write(out);
}

void write_priorities(std::ostream& out, const ServingStudy& study) {
  if (study.priorities.empty()) return;
  out << "\nBy priority, the most urgent first\n";
  TextTable table({{"", Align::left}, {"requests"}, {"turned away"}, {"TTFT"}, {"p99"}, {"TPOT"}, {"p99"}, {"kept"}});
  for (const PriorityStudy& p : study.priorities)
    table.add_row({std::to_string(p.priority), std::to_string(p.completed), std::to_string(p.turned_away),
                   time_text(p.ttft.mean), time_text(p.ttft.p99), time_text(p.tpot.mean), time_text(p.tpot.p99),
                   study.scenario.slo.any()
                       ? share_text(p.good / static_cast<double>(std::max<std::int64_t>(1, p.completed)))
                       : "-"});
  table.write(out);
}

void write_parts(std::ostream& out, const char* title, const std::vector<std::pair<std::string, double>>& parts,
                 double whole, bool times) {
  out << '\n' << title << '\n';
  TextTable table({{"", Align::left}, {""}, {"", Align::left}});
  for (const auto& [name, value] : parts) {
    const double share = whole > 0 ? value / whole : 0;
    table.add_row({name, times ? time_text(value) : share_text(share), bar(share, 40)});
  }
  table.write(out);
}

std::vector<std::pair<std::string, double>> gpu_parts(const ServingStudy& study) {
  return {{"compute", study.use.compute}, {"memory", study.use.memory},   {"communication", study.use.communication},
          {"host", study.use.host},       {"padding", study.use.padding}, {"idle", study.idle}};
}

std::vector<std::pair<std::string, double>> request_parts(const ServingStudy& study) {
  std::vector<std::pair<std::string, double>> parts{{"queue", study.queue_s}, {"prefill", study.prefill_s}};
  if (study.apart) parts.emplace_back("transfer", study.transfer_s);
  parts.emplace_back("decode", study.decode_s);
  return parts;
}

/// Dollars of a million tokens. A prompt's token and an answer's are priced by the GPU time that each kind takes: of an
/// iteration with both, by its share of what its kernels compute.
struct TokenPrices {
  double input = 0, output = 0;
};
TokenPrices prices_of(const ServingStudy& study) {
  double prompts = 0, answers = 0;
  if (study.apart) {  // each pool's GPUs are there for its own tokens
    prompts = static_cast<double>(study.pools.front().pool.gpus());
    answers = static_cast<double>(study.pools.back().pool.gpus());
  }
  for (const serving::Work& work : study.outcome.decode) answers += seconds_of(work.time);
  double decode_step = 0, steps = 0;
  for (const serving::Work& work : study.outcome.decode) {
    decode_step += seconds_of(work.time);
    steps += work.iterations;
  }
  const double plain = steps > 0 ? decode_step / steps : 0;
  for (const serving::Work& work : study.outcome.mixed) {
    // What an iteration takes beyond one that only decodes is its prompts'.
    const double beside = work.decodes > 0 ? std::min(seconds_of(work.time), plain * work.iterations) : 0;
    answers += beside;
    prompts += seconds_of(work.time) - beside;
  }
  const double all = prompts + answers;
  const double computed = static_cast<double>(study.outcome.prompt_tokens - study.outcome.found_tokens);
  if (!(all > 0) || !(study.usd() > 0)) return {};
  TokenPrices prices;
  if (computed > 0) prices.input = study.usd() * prompts / all / computed * 1e6;
  if (study.output_tokens > 0) prices.output = study.usd() * answers / all / study.output_tokens * 1e6;
  return prices;
}

double hit_share(const ServingStudy& study) {
  return study.outcome.prompt_tokens > 0
             ? static_cast<double>(study.outcome.found_tokens) / static_cast<double>(study.outcome.prompt_tokens)
             : 0;
}

double mean_used(const ServingStudy& study) {
  const double whole = static_cast<double>(study.outcome.end) * static_cast<double>(study.blocks) *
                       static_cast<double>(study.scenario.replicas);
  return whole > 0 ? study.outcome.block_time / whole : 0;
}

double energy_per_token(const ServingStudy& study) {
  return study.joules > 0 && study.outcome.output_tokens > 0
             ? study.joules / static_cast<double>(study.outcome.output_tokens)
             : 0;
}

/// Bytes of all receiving ranks.
double of_all_ranks(const ServingStudy& study, double bytes) {
  const workloads::ServedLayout& layout = study.pools.back().pool.replica.layout;
  return bytes * static_cast<double>(layout.tensor * layout.pipeline);
}

double handed_bytes(const ServingStudy& study) { return of_all_ranks(study, study.apart->bytes - study.apart->broken); }

std::vector<std::string> said_of(const ServingStudy& study) {
  std::vector<std::string> all = study.scenario.assumptions;
  all.push_back(fmt::format("Kernels: {}.", study.kernels));
  all.push_back(
      fmt::format("Engine {}: {}.", study.scenario.replica.engine.name, study.scenario.replica.engine.provenance));
  all.push_back(fmt::format("Batching: {} ({}).", study.scenario.batching->name, study.scenario.batching->source));
  if (study.joules == 0) all.emplace_back("Energy: the device's profile has no power model.");
  return all;
}

std::size_t count_of(const ServingStudy& study, std::size_t pool, serving::FleetEvent::What what) {
  const auto& events = study.outcome_of(pool).events;
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [&](const auto& event) { return event.what == what; }));
}

/// A fleet that changes.
void write_fleet(std::ostream& out, const ServingStudy& study) {
  using What = serving::FleetEvent::What;
  const scenarios::ServingScenario& s = study.scenario;
  std::size_t failed = 0;
  for (std::size_t i = 0; i < study.pools.size(); ++i) {
    const PoolStudy& pool = study.pools[i];
    failed += count_of(study, i, What::fails);
    if (!pool.pool.autoscale) continue;
    out << fmt::format(
        "\nScaling{}: {} replicas were asked for and {} given back; {} GPUs held in the mean, {} at most\n",
        study.apart ? fmt::format(" of {}", pool.pool.pool) : "", count_of(study, i, What::asked_for),
        count_of(study, i, What::given_back), number_text(study.fleet_s > 0 ? pool.gpu_s / study.fleet_s : 0),
        pool.pool.gpus());
  }
  if (!s.fails()) return;
  const serving::Failures& failures = s.failures ? *s.failures : *s.answers->failures;
  out << fmt::format("\nFailures: {}; {} requests {}, {} lost, {} tokens written in vain\n", failed,
                     study.outcome.moved,
                     failures.requests == serving::AtFailure::again ? "begun again elsewhere" : "gone on elsewhere",
                     study.lost, study.outcome.lost_tokens);
  for (std::size_t i = 0; i < study.pools.size(); ++i) {
    if (static_cast<std::int64_t>(count_of(study, i, What::fails)) >= serving::kMostFailures)
      out << fmt::format("  Nothing failed any more behind {} failures of a pool\n", serving::kMostFailures);
  }
  if (study.apart && study.apart->broken > 0)
    out << fmt::format("  {} GB of keys and values were on their way, in vain\n",
                       number_text(of_all_ranks(study, study.apart->broken) / 1e9));
}

double tier_bytes(const ServingStudy& study, std::int64_t contents) {
  return study.tier_content_bytes * static_cast<double>(contents);
}

void write_tiers(std::ostream& out, const ServingStudy& study) {
  if (study.outcome_of(0).tiers.empty()) return;
  out << "\nBelow the cache\n";
  TextTable table({{"", Align::left}, {"capacity"}, {"read"}, {"written"}, {"dropped"}, {"left"}, {"time reading"}});
  for (std::size_t i = 0; i < study.outcome_of(0).tiers.size(); ++i) {
    const serving::TierUse& use = study.outcome_of(0).tiers[i];
    const scenarios::ServedPool::Tier& tier = study.pools.front().pool.tiers[i];
    const double replicas = static_cast<double>(study.pools.front().pool.replicas);
    table.add_row({tier.name, bytes_text(tier.bytes), bytes_text(tier_bytes(study, use.read)),
                   bytes_text(tier_bytes(study, use.written)), bytes_text(tier_bytes(study, use.evicted)),
                   bytes_text(tier_bytes(study, use.left)),
                   share_text(seconds_of(use.reading) / study.fleet_s / replicas)});
  }
  table.write(out);
}

/// Hours, the energy of the site and its carbon; of a run of more than one.
void write_hours(std::ostream& out, const ServingStudy& study) {
  constexpr std::size_t kMost = 48;
  if (study.hours.size() < 2) return;
  out << "\nBy the hour\n";
  std::vector<Column> columns{{"hour"}, {"requests"}, {"tokens/s"}, {"GPUs"}};
  const bool energy = study.joules > 0, carbon = study.scenario.power.carbon_g_per_kwh > 0;
  if (energy) columns.push_back({"kWh"});
  if (carbon && energy) columns.push_back({"kg CO2"});
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < std::min(kMost, study.hours.size()); ++i) {
    const ServingStudy::Hour& hour = study.hours[i];
    const double seconds = std::min(3600.0, study.fleet_s - 3600.0 * static_cast<double>(i));
    std::vector<std::string> cells{std::to_string(i), number_text(hour.requests),
                                   number_text(seconds > 0 ? hour.output_tokens / seconds : 0),
                                   number_text(seconds > 0 ? hour.gpu_s / seconds : 0)};
    if (energy) cells.push_back(number_text(hour.joules / 3.6e6));
    if (carbon && energy) cells.push_back(number_text(study.carbon_g(hour.joules) / 1e3));
    table.add_row(std::move(cells));
  }
  table.write(out);
  if (study.hours.size() > kMost) out << fmt::format("  {} hours more in the JSON\n", study.hours.size() - kMost);
}

void write_energy(std::ostream& out, const ServingStudy& study) {
  if (!(study.joules > 0)) return;
  out << fmt::format(
      "\nEnergy: {} J a token written, {} W a GPU with its share of the node{}\n", number_text(energy_per_token(study)),
      number_text(study.joules / study.fleet_s / study.mean_gpus()),
      study.scenario.power.pue > 1 ? fmt::format(" and of the site (PUE {:g})", study.scenario.power.pue) : "");
  if (study.scenario.power.carbon_g_per_kwh > 0 && study.output_tokens > 0)
    out << fmt::format(
        "Carbon: {} kg of CO2, {} g a million tokens written\n", number_text(study.carbon_g(study.joules) / 1e3),
        number_text(study.carbon_g(study.joules) / static_cast<double>(study.outcome.output_tokens) * 1e6));
}

void write_pools(std::ostream& out, const ServingStudy& study) {
  out << "\nPools\n";
  TextTable table(
      {{"", Align::left}, {"role", Align::left}, {"layout", Align::left}, {"replicas"}, {"GPUs"}, {"busy"}});
  for (const PoolStudy& pool : study.pools)
    table.add_row({pool.pool.pool, std::string(role_of(study, pool)), served_layout_text(pool.pool.replica.layout),
                   std::to_string(pool.pool.replicas), std::to_string(pool.pool.gpus()), share_text(1 - pool.idle)});
  table.write(out);
  out << fmt::format("  {} GB of keys and values handed over, {} s each from the prompt's end to the other pool\n",
                     number_text(handed_bytes(study) / 1e9), number_text(study.transfer_s));
}

void write_memory(std::ostream& out, const ServingStudy& study) {
  const workloads::ServingMemory& memory = study.memory;
  out << fmt::format("\nMemory of a GPU{}: {:.1f} of {:.1f} GB; weights {:.1f}, beside them {:.1f}, cache {:.1f}\n",
                     study.apart ? " that writes" : "", memory.given / 1e9, memory.total / 1e9, memory.weights / 1e9,
                     (memory.held() - memory.weights) / 1e9, memory.cache / 1e9);
  if (memory.states > 0)
    out << fmt::format("  States of {} sequences {:.1f} GB beside\n", memory.sequences, memory.states / 1e9);
  out << fmt::format(
      "  {} blocks of {} tokens a replica; {} used in the mean, {} at most; found in it: {} of prompts; "
      "{} preemptions\n",
      study.blocks, study.scenario.limits.block_tokens, share_text(mean_used(study)),
      share_text(static_cast<double>(study.outcome.peak_blocks) / static_cast<double>(study.blocks)),
      share_text(hit_share(study)), study.outcome.preemptions);
}

}  // namespace

void write_serving(std::ostream& out, const ServingStudy& study) {
  const scenarios::ServingScenario& s = study.scenario;
  out << wrapped(fmt::format("{}: {}", s.id, what_text(study)), "", "  ");
  if (!s.description.empty()) out << wrapped(s.description, "  ", "  ");
  out << wrapped(traffic_text(study), "  ", "    ");
  if (const std::string load = load_text(study); !load.empty()) out << wrapped(load, "  ", "  ");
  const double gpus = study.mean_gpus();
  out << fmt::format(
      "\n  {} requests/s, {} tokens/s written, {} read and written; {} tokens/s/GPU; {} tokens/s a user\n\n",
      number_text(per_second(study, static_cast<double>(study.completed))),
      number_text(per_second(study, study.output_tokens)),
      number_text(per_second(study, study.input_tokens + study.output_tokens)),
      number_text(per_second(study, study.output_tokens) / gpus),
      number_text(study.tpot.mean > 0 ? 1 / study.tpot.mean : 0));
  write_latencies(out, study);
  if (s.slo.any()) {
    const double share = study.good / static_cast<double>(std::max<std::int64_t>(1, study.completed));
    out << fmt::format("\n  Promised{}{} for {:g} % of requests: kept for {}\n",
                       s.slo.ttft_s > 0 ? fmt::format(" TTFT {}", time_text(s.slo.ttft_s)) : "",
                       s.slo.tpot_s > 0 ? fmt::format(" TPOT {}", time_text(s.slo.tpot_s)) : "", s.slo.percentile,
                       share_text(share));
  }
  write_priorities(out, study);
  if (study.apart) write_pools(out, study);
  write_fleet(out, study);
  write_memory(out, study);
  write_tiers(out, study);
  write_parts(out, "Where a request's time goes (mean)", request_parts(study),
              study.queue_s + study.prefill_s + study.decode_s, true);
  write_parts(out, "Where the GPUs' time goes", gpu_parts(study), 1, false);
  write_energy(out, study);
  write_hours(out, study);
  if (const TokenPrices prices = prices_of(study); prices.output > 0)
    out << fmt::format("Cost: {} USD a million tokens read, {} written\n", number_text(prices.input),
                       number_text(prices.output));
  out << "\nAssumptions\n";
  for (const std::string& text : said_of(study)) out << wrapped(text, "  - ", "    ");
}

namespace {

/// Of all pools, by time.
void add_events(ordered_json& list, const ServingStudy& study) {
  std::vector<std::pair<serving::FleetEvent, std::size_t>> all;
  for (std::size_t pool = 0; pool < study.pools.size(); ++pool)
    for (const serving::FleetEvent& event : study.outcome_of(pool).events) all.emplace_back(event, pool);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first.at < b.first.at; });
  for (const auto& [event, pool] : all) {
    list.push_back(
        {{"time_s", seconds_of(event.at)}, {"replica", event.replica}, {"event", serving::name_of(event.what)}});
    if (study.apart) list.back()["pool"] = study.pools[pool].pool.pool;
  }
}

void add_fleet_json(ordered_json& json, const ServingStudy& study) {
  const scenarios::ServingScenario& s = study.scenario;
  json["lost"] = study.lost;
  json["gpu_hours"] = study.gpu_s / 3600;
  json["energy_j"] = study.joules > 0 ? ordered_json(study.joules) : ordered_json();
  json["pue"] = s.power.pue;
  json["carbon_g"] =
      study.joules > 0 && s.power.carbon_g_per_kwh > 0 ? ordered_json(study.carbon_g(study.joules)) : ordered_json();
  json["hours"] = ordered_json::array();
  for (std::size_t i = 0; i < study.hours.size(); ++i) {
    const ServingStudy::Hour& hour = study.hours[i];
    ordered_json one{{"hour", i},
                     {"requests", hour.requests},
                     {"output_tokens", hour.output_tokens},
                     {"gpu_hours", hour.gpu_s / 3600}};
    one["energy_j"] = study.joules > 0 ? ordered_json(hour.joules) : ordered_json();
    json["hours"].push_back(std::move(one));
  }
  if (study.changes()) {
    json["fleet"] = {{"mean_gpus", study.mean_gpus()},
                     {"moved", study.outcome.moved},
                     {"lost_tokens", study.outcome.lost_tokens},
                     {"events", ordered_json::array()}};
    add_events(json["fleet"]["events"], study);
  }
  if (study.outcome_of(0).tiers.empty()) return;
  json["cache_tiers"] = ordered_json::array();
  for (std::size_t i = 0; i < study.outcome_of(0).tiers.size(); ++i) {
    const serving::TierUse& use = study.outcome_of(0).tiers[i];
    json["cache_tiers"].push_back({{"name", study.pools.front().pool.tiers[i].name},
                                   {"read_bytes", tier_bytes(study, use.read)},
                                   {"written_bytes", tier_bytes(study, use.written)},
                                   {"dropped_bytes", tier_bytes(study, use.evicted)},
                                   {"left_bytes", tier_bytes(study, use.left)},
                                   {"reading_s", seconds_of(use.reading)}});
  }
}

}  // namespace

ordered_json serving_json(const ServingStudy& study) {
  const scenarios::ServingScenario& s = study.scenario;
  ordered_json json;
  json["scenario"] = s.id;
  json["gpus"] = study.gpus();
  json["replicas"] = s.replicas;
  json["completed"] = study.completed;
  json["refused"] = study.refused;
  json["turned_away"] = study.turned_away;
  json["duration"] = study.duration_s;
  json["total_input_tokens"] = study.input_tokens;
  json["total_output_tokens"] = study.output_tokens;
  json["request_throughput"] = per_second(study, static_cast<double>(study.completed));
  json["request_goodput"] = s.slo.any() ? ordered_json(per_second(study, study.good)) : ordered_json();
  json["output_throughput"] = per_second(study, study.output_tokens);
  json["total_token_throughput"] = per_second(study, study.input_tokens + study.output_tokens);
  json["output_tokens_per_s_per_gpu"] = per_second(study, study.output_tokens) / study.mean_gpus();
  json["tokens_per_s_per_user"] = study.tpot.mean > 0 ? 1 / study.tpot.mean : 0;
  json["saturated"] = study.saturated;
  for (const auto& [name, latency] : {std::pair<std::string, const Latency*>("ttft", &study.ttft),
                                      {"tpot", &study.tpot},
                                      {"itl", &study.itl},
                                      {"e2el", &study.e2el}}) {
    json["mean_" + name + "_ms"] = latency->mean * kMs;
    json["median_" + name + "_ms"] = latency->p50 * kMs;
    if (name != "itl") json["std_" + name + "_ms"] = latency->deviation * kMs;
    json["p50_" + name + "_ms"] = latency->p50 * kMs;
    json["p90_" + name + "_ms"] = latency->p90 * kMs;
    json["p95_" + name + "_ms"] = latency->p95 * kMs;
    json["p99_" + name + "_ms"] = latency->p99 * kMs;
  }
  json["kv_cache"] = {
      {"blocks", study.blocks},
      {"tokens", study.blocks * s.limits.block_tokens},
      {"mean_used_pct", 100 * mean_used(study)},
      {"peak_used_pct", 100 * static_cast<double>(study.outcome.peak_blocks) / static_cast<double>(study.blocks)},
      {"hit_pct", 100 * hit_share(study)},
      {"preemptions", study.outcome.preemptions}};
  json["time_s"] = ordered_json::object();
  for (const auto& [name, value] : request_parts(study)) json["time_s"][name] = value;
  if (!study.apart) json["time_s"]["transfer"] = 0.0;
  json["gpu_time_pct"] = ordered_json::object();
  for (const auto& [name, value] : gpu_parts(study)) json["gpu_time_pct"][name] = 100 * value;
  const double energy = energy_per_token(study);
  json["energy_per_token_j"] = energy > 0 ? ordered_json(energy) : ordered_json();
  const TokenPrices prices = prices_of(study);
  json["usd_per_million_tokens"] =
      prices.output > 0 ? ordered_json{{"input", prices.input}, {"cached", 0.0}, {"output", prices.output}}
                        : ordered_json();
  json["memory"] = {{"weights_bytes", study.memory.weights},
                    {"cache_bytes", study.memory.cache},
                    {"states_bytes", study.memory.states},
                    {"other_bytes", study.memory.held() - study.memory.weights},
                    {"given_bytes", study.memory.given}};
  json["iterations"] = study.iterations;
  json["pools"] = ordered_json::array();
  for (const PoolStudy& pool : study.pools)
    json["pools"].push_back({{"name", pool.pool.pool},
                             {"role", role_of(study, pool)},
                             {"replicas", pool.pool.replicas},
                             {"gpus", pool.pool.gpus()},
                             {"busy_pct", 100 * (1 - pool.idle)},
                             {"iterations", pool.iterations},
                             {"kv_blocks", pool.blocks}});
  if (!study.priorities.empty()) json["priorities"] = ordered_json::array();
  for (const PriorityStudy& p : study.priorities)
    json["priorities"].push_back({{"priority", p.priority},
                                  {"completed", p.completed},
                                  {"turned_away", p.turned_away},
                                  {"good", p.good},
                                  {"mean_ttft_ms", p.ttft.mean * kMs},
                                  {"p99_ttft_ms", p.ttft.p99 * kMs},
                                  {"mean_tpot_ms", p.tpot.mean * kMs},
                                  {"p99_tpot_ms", p.tpot.p99 * kMs}});
  if (study.apart) json["kv_bytes_handed_over"] = handed_bytes(study);
  if (study.apart && s.fails()) json["kv_bytes_broken_off"] = of_all_ranks(study, study.apart->broken);
  add_fleet_json(json, study);
  json["assumptions"] = said_of(study);
  return json;
}

namespace {

/// Counts in even classes of the logarithm, from the least to the largest.
ordered_json spread_json(std::vector<double> values) {
  constexpr std::size_t kClasses = 40;
  ordered_json json{{"edges", ordered_json::array()}, {"counts", ordered_json::array()}};
  values.erase(std::remove_if(values.begin(), values.end(), [](double v) { return !(v > 0); }), values.end());
  if (values.empty()) return json;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double from = std::log(*low), width = std::max(1e-3, (std::log(*high) - from) / kClasses);
  std::vector<std::int64_t> counts(kClasses, 0);
  for (const double value : values)
    ++counts[std::min(kClasses - 1, static_cast<std::size_t>((std::log(value) - from) / width))];
  for (std::size_t i = 0; i < kClasses; ++i)
    json["edges"].push_back(std::exp(from + (static_cast<double>(i) + 0.5) * width));
  json["counts"] = counts;
  return json;
}

}  // namespace

ordered_json serving_page(const ServingStudy& study) {
  const scenarios::ServingScenario& s = study.scenario;
  ordered_json page = serving_json(study);
  page["kind"] = "serving";
  page["title"] = "Serving of " + shortened(s.id, 120);
  page["subtitle"] = what_text(study);
  page["description"] = s.description;
  page["load"] = load_text(study);
  page["traffic"] = traffic_text(study);
  page["facts"] = ordered_json::array();
  const auto fact = [&](const char* name, const std::string& value, const std::string& note) {
    page["facts"].push_back({name, value, note});
  };
  fact("tokens/s/GPU", number_text(per_second(study, study.output_tokens) / study.mean_gpus()), "written");
  fact("TTFT", time_text(study.ttft.mean), "p99 " + time_text(study.ttft.p99));
  fact("TPOT", time_text(study.tpot.mean), "p99 " + time_text(study.tpot.p99));
  fact("end to end", time_text(study.e2el.mean), "p99 " + time_text(study.e2el.p99));
  fact("requests/s", number_text(per_second(study, static_cast<double>(study.completed))), traffic_text(study));
  if (const double energy = energy_per_token(study); energy > 0)
    fact("energy", number_text(energy) + " J", "a token written");
  if (const TokenPrices prices = prices_of(study); prices.output > 0)
    fact("cost", number_text(prices.output) + " USD", "a million tokens written");
  page["latencies"] = ordered_json::array();
  for (const auto& [name, l] : {std::pair("time to first token", &study.ttft), std::pair("time a token", &study.tpot),
                                std::pair("between tokens", &study.itl), std::pair("end to end", &study.e2el)})
    page["latencies"].push_back(
        {{"name", name}, {"mean", l->mean}, {"p50", l->p50}, {"p90", l->p90}, {"p95", l->p95}, {"p99", l->p99}});
  std::vector<double> ttft, tpot;
  for (std::size_t i = static_cast<std::size_t>(study.trace.warm_up); i < study.trace.requests.size(); ++i) {
    const serving::Served& served = study.outcome.requests[i];
    if (served.refused || served.lost) continue;
    ttft.push_back(seconds_of(served.first - served.arrival));
    if (study.trace.requests[i].output > 1)
      tpot.push_back(seconds_of(served.last - served.first) / (study.trace.requests[i].output - 1));
  }
  page["ttft"] = spread_json(std::move(ttft));
  page["tpot"] = spread_json(std::move(tpot));
  page["timeline"] = ordered_json::array();
  const auto& samples = study.outcome.samples.front();
  const std::size_t every = std::max<std::size_t>(1, samples.size() / 1000);
  for (std::size_t i = 0; i < samples.size(); i += every)
    page["timeline"].push_back({seconds_of(samples[i].from), samples[i].running, samples[i].waiting,
                                100.0 * static_cast<double>(samples[i].blocks) / static_cast<double>(study.blocks)});
  page["request_parts"] = request_parts(study);
  page["gpu_parts"] = gpu_parts(study);
  return page;
}

void write_requests_csv(std::ostream& out, const ServingStudy& study) {
  out << "request,replica,arrival_s,input_tokens,output_tokens,queue_s,ttft_s,tpot_s,e2e_s,preemptions,status\n";
  for (std::size_t i = 0; i < study.trace.requests.size(); ++i) {
    const serving::Served& served = study.outcome.requests[i];
    const serving::Request& request = study.trace.requests[i];
    out << fmt::format("{},{},{:.6f},{},{},", i, served.replica, seconds_of(served.arrival), request.input,
                       request.output);
    if (served.refused) {
      out << (served.turned_away ? ",,,,0,turned_away\n" : ",,,,0,refused\n");
      continue;
    }
    if (served.lost) {
      out << fmt::format(",,,,{},lost\n", served.preemptions);
      continue;
    }
    const double rest = seconds_of(served.last - served.first);
    const bool counted = static_cast<std::int64_t>(i) >= study.trace.warm_up;
    out << fmt::format("{:.6f},{:.6f},{},{:.6f},{},{}\n", seconds_of(served.begun - served.arrival),
                       seconds_of(served.first - served.arrival),
                       request.output > 1 ? fmt::format("{:.9f}", rest / (request.output - 1)) : std::string(),
                       seconds_of(served.last - served.arrival), served.preemptions, counted ? "ok" : "warm_up");
  }
}

void write_timeline_csv(std::ostream& out, const ServingStudy& study) {
  out << "time_s,replica,running,waiting,kv_used_pct\n";
  for (std::size_t replica = 0; replica < study.outcome.samples.size(); ++replica) {
    for (const serving::Sample& sample : study.outcome.samples[replica])
      out << fmt::format("{:.6f},{},{},{},{:.3f}\n", seconds_of(sample.from), replica, sample.running, sample.waiting,
                         100.0 * static_cast<double>(sample.blocks) / static_cast<double>(study.blocks));
  }
}

}  // namespace orrery::tools
