// The values that the page's controls show of what is served. Left out: what no control moves.
#include "tools/whatif/served_layout.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "workloads/runs/serving/routing.h"

namespace orrery::tools {

using nlohmann::ordered_json;
using scenarios::RlScenario;
using scenarios::ServedPool;
using scenarios::ServingScenario;
using sim::Settings;

namespace {

bool is_mapping_at(const Settings& document, const std::string& path) {
  const Settings* value = document.find_path(path);
  return value != nullptr && value->is_mapping();
}

/// Tokens of a request or an answer: at the key itself, or at its members where it is a mapping.
void add_length(ordered_json& out, const Settings& document, const std::string& path, double mean, double variation) {
  if (!is_mapping_at(document, path)) {
    out[path] = mean;
  } else if (document.find_path(path + ".percentiles") == nullptr) {
    out[path + ".mean"] = mean;
    out[path + ".variation"] = variation;
  }
}

void add_machine(ordered_json& out, const workloads::Machine& machine, std::int64_t gpus,
                 const workloads::Model& model) {
  out["cluster.device"] = machine.device.name();
  out["cluster.gpus"] = gpus;
  out["cluster.gpus_per_node"] = machine.gpus_per_node;
  out["cluster.fabric"] = machine.fabric.name;
  out["model"] = model.name;
  out["model.layers"] = model.layers;
  out["model.experts"] = model.experts.count;
}

/// `list`: where its pool stands, as in "serving.pools[0]".
void add_pool(ordered_json& out, const std::string& list, const ServedPool& pool) {
  const workloads::ServedLayout& layout = pool.replica.layout;
  out[list + ".replicas"] = pool.replicas;
  out[list + ".parallelism.tensor"] = layout.tensor;
  out[list + ".parallelism.pipeline"] = layout.pipeline;
  out[list + ".parallelism.expert"] = layout.expert;
  out[list + ".parallelism.attention_data"] = layout.attention_data;
  out[list + ".max_sequences"] = pool.limits.max_sequences;
  out[list + ".max_batched_tokens"] = pool.limits.max_batched_tokens;
  out[list + ".memory_utilization"] = pool.limits.memory_utilization;
  out[list + ".chunked_prefill"] = pool.chunked_prefill;
  out[list + ".prefix_caching"] = pool.prefix_caching;
}

void add_precision(ordered_json& out, const std::string& section, const workloads::ServedPrecision& precision) {
  out[section + "precision.weights"] = name_of(precision.weights);
  out[section + "precision.kv_cache"] = precision.kv_bytes == 1 ? "fp8" : "bf16";
}

void add_traffic(ordered_json& out, const serving::Traffic& traffic, const Settings& document) {
  out["traffic"] = traffic.concurrency > 0 ? "closed loop" : "open loop";
  if (traffic.concurrency > 0) {
    out["traffic.concurrency"] = traffic.concurrency;
    out["traffic.requests"] = traffic.requests - traffic.warm_up;
  } else {
    out["traffic.rate"] = fmt::format("{:g}/s", traffic.rate);
    if (traffic.duration > 0) out["traffic.duration"] = fmt::format("{:g} s", traffic.duration);
    if (traffic.requests > 0) out["traffic.requests"] = traffic.requests - traffic.warm_up;
    for (const char* key : {"traffic.arrivals", "traffic.burstiness", "traffic.levels"})
      if (document.find_path(key) != nullptr) out[key] = true;
  }
  add_length(out, document, "traffic.input", traffic.input.mean, traffic.input.variation);
  add_length(out, document, "traffic.output", traffic.output.mean, traffic.output.variation);
}

}  // namespace

ordered_json served_layout(const ServingScenario& scenario, const Settings& document) {
  ordered_json out;
  add_machine(out, scenario.machine, scenario.machine.gpus, scenario.replica.model);
  out["software"] = scenario.replica.engine.name;
  add_precision(out, "", scenario.replica.precision);
  const Settings* pools = document.find_path("serving.pools");
  const bool listed = pools != nullptr && pools->is_sequence();
  if (listed && scenario.answers) {
    const Settings* role = pools->items()[0].find("role");
    const bool swapped = role != nullptr && role->text() == "decode";
    add_pool(out, swapped ? "serving.pools[1]" : "serving.pools[0]", scenario);
    add_pool(out, swapped ? "serving.pools[0]" : "serving.pools[1]", *scenario.answers);
  } else if (listed) {
    add_pool(out, "serving.pools[0]", scenario);
  }
  if (listed) {
    for (std::size_t i = 0; i < pools->items().size(); ++i) {
      const Settings* role = pools->items()[i].find("role");
      out[fmt::format("serving.pools[{}].role", i)] = role != nullptr ? role->text() : "both";
    }
  }
  out["serving.router"] = name_of(scenario.router);
  out["serving.slo.ttft"] = fmt::format("{:g} ms", 1e3 * scenario.slo.ttft_s);
  out["serving.slo.tpot"] = fmt::format("{:g} ms", 1e3 * scenario.slo.tpot_s);
  out["serving.slo.percentile"] = scenario.slo.percentile;
  if (scenario.trace_file.empty()) add_traffic(out, scenario.traffic, document);
  out["cost.price_per_gpu_hour_usd"] = scenario.price_per_gpu_hour_usd;
  return out;
}

ordered_json rl_layout(const RlScenario& scenario, const Settings& document) {
  const rl::StepSpec& spec = scenario.spec;
  const workloads::Parallelism& split = scenario.update.parallelism;
  ordered_json out;
  add_machine(out, scenario.update.machine, scenario.gpus, scenario.update.model);
  out["rl.algorithm"] = scenario.algorithm;
  out["rl.framework"] = scenario.framework.name;
  out["rl.prompts"] = spec.batch.prompts;
  out["rl.samples_per_prompt"] = spec.batch.samples;
  out["rl.mini_batch"] = scenario.mini_batch;
  out["rl.epochs"] = scenario.epochs;
  for (const auto& [key, length] : {std::pair<std::string, const rl::Lengths*>("rl.prompt", &spec.batch.prompt),
                                    {"rl.answer", &spec.batch.answer}}) {
    add_length(out, document, key, length->mean, length->variation);
    if (is_mapping_at(document, key)) out[key + ".max"] = length->most;
  }
  const bool colocated = spec.placement == rl::Placement::colocated;
  out["rl.placement"] = colocated                                   ? "colocated"
                        : spec.placement == rl::Placement::separate ? "separate"
                                                                    : "asynchronous";
  if (!colocated) out["rl.placement.rollout_gpus"] = scenario.rollout_gpus;
  if (spec.placement == rl::Placement::asynchronous) out["rl.placement.staleness"] = spec.staleness;
  out["rl.weight_transfer"] = name_of(scenario.route);
  const Settings* pools = document.find_path("rl.rollout.pools");
  if (pools != nullptr && pools->is_sequence()) add_pool(out, "rl.rollout.pools[0]", scenario.rollout);
  add_precision(out, "rl.rollout.", scenario.rollout.replica.precision);
  out["rl.rollout.software"] = scenario.rollout.replica.engine.name;
  out["rl.training.software"] = scenario.update.software.name;
  out["rl.training.parallelism.tensor"] = split.tensor;
  out["rl.training.parallelism.pipeline"] = split.pipeline;
  out["rl.training.parallelism.context"] = split.context;
  out["rl.training.parallelism.expert"] = split.expert;
  out["rl.training.parallelism.data"] = split.data;
  out["rl.training.parallelism.sharding"] = calibration::name_of(split.sharding);
  return out;
}

}  // namespace orrery::tools
