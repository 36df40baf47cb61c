// Rows of the schema for what is served: engines, pools, traffic and what is promised. See schema_serving.h.
#include "scenarios/schema_serving.h"

#include "calibration/serving_kernels.h"
#include "workloads/runs/serving/batching.h"

namespace orrery::scenarios {

namespace {

using Rows = std::vector<Key>;

constexpr const char* kByEngine = "the default of the engine";

Rows precision_rows() {
  return {
      {"precision.weights", "choice", "", "bf16", served_type_names(), "Of linear layers, where a model is served."},
      {"precision.attention", "choice", "", "precision.weights", served_type_names(),
       "Of projections into and out of attention, likewise."},
      {"precision.experts", "choice", "", "precision.weights", served_type_names(), "Of routed experts, likewise."},
      {"precision.kv_cache", "choice", "", "bf16", {"bf16", "fp8"}, "Keys and values that are cached."},
  };
}

Rows pool_rows() {
  return {
      {"serving", "mapping", "", "-", {}, "The model is served, not trained: for orrery serving."},
      {"serving.pools",
       "list",
       "",
       "",
       {},
       "Replicas that are alike; one pool: prompts and answers together; two: apart."},
      {"serving.pools[].name", "text", "", "all", {}, "Of the pool."},
      {"serving.pools[].role", "choice", "", "both", {"both", "prefill", "decode"}, "What its replicas compute."},
      {"serving.pools[].replicas",
       "integer",
       "replicas",
       "as many as the GPUs make",
       {},
       "Copies of the model, each with its own requests.",
       {"1", "1000000"}},
      {"serving.pools[].parallelism", "mapping", "", "-", {}, "How a replica is cut over its GPUs."},
      {"serving.pools[].parallelism.tensor",
       "integer",
       "GPUs",
       "1",
       {},
       "Ranks that layers are cut over.",
       {"1", "1024"}},
      {"serving.pools[].parallelism.pipeline", "integer", "stages", "1", {}, "Stages of layers.", {"1", "1024"}},
      {"serving.pools[].parallelism.expert",
       "integer",
       "ranks",
       "1",
       {},
       "Groups of a stage's ranks that routed experts are dealt out to; experts are cut over the ranks of a group.",
       {"1", "4096"}},
      {"serving.pools[].parallelism.attention_data",
       "integer",
       "groups",
       "1",
       {},
       "Tensor groups with sequences of their own, which share the experts.",
       {"1", "4096"}},
      {"serving.pools[].max_sequences",
       "integer",
       "sequences",
       kByEngine,
       {},
       "Under way at a time.",
       {"1", "1000000"}},
      {"serving.pools[].max_batched_tokens", "integer", "tokens", kByEngine, {}, "Of an iteration.", {"1", "1000000"}},
      {"serving.pools[].chunked_prefill",
       "boolean",
       "",
       kByEngine,
       {},
       "Prompts are cut to what an iteration has room for."},
      {"serving.pools[].block_tokens", "integer", "tokens", kByEngine, {}, "Of a block of the cache.", {"1", "4096"}},
      {"serving.pools[].memory_utilization",
       "number",
       "",
       kByEngine,
       {},
       "Share of a GPU's memory that the engine takes.",
       {"0.01", "1"}},
      {"serving.pools[].prefix_caching", "boolean", "", kByEngine, {}, "Beginnings of prompts are found in the cache."},
      {"serving.pools[].batching", "choice", "", kByEngine, serving::batching_names(),
       "Policy that puts iterations together."},
      {"serving.pools[].redundant_experts",
       "integer",
       "experts",
       "0",
       {},
       "Copies of experts beyond one of each.",
       {"0", "4096"}},
      {"serving.pools[].slow", "mapping", "", "-", {}, "Replicas that are slower than the others."},
      {"serving.pools[].slow.replicas", "integer", "replicas", "1", {}, "How many.", {"1", "1000000"}},
      {"serving.pools[].slow.factor", "number", "", "", {}, "How many times as long iterations take.", {"1", "1000"}},
      {"serving.pools[].speculative", "mapping", "", "-", {}, "Tokens that are drafted, and checked in one pass."},
      {"serving.pools[].speculative.method",
       "choice",
       "",
       "mtp",
       {"mtp"},
       "mtp: a further layer of the model's drafts."},
      {"serving.pools[].speculative.tokens", "integer", "tokens", "1", {}, "Drafted an iteration.", {"1", "16"}},
      {"serving.pools[].speculative.accepted", "number", "tokens", "", {}, "Of these, taken in the mean.", {"0", "16"}},
  };
}

Rows fleet_rows() {
  return {
      {"serving.kv_transfer", "mapping", "", "-", {}, "Between a pool of prompts and one of answers."},
      {"serving.kv_transfer.mode",
       "choice",
       "",
       "whole",
       {"whole", "layer_by_layer"},
       "A prompt's cache flows behind it, or layer by layer while it is computed."},
      {"serving.kv_transfer.latency",
       "quantity",
       "time",
       "0 s",
       {},
       "Of a handover, beyond the network's.",
       {"0 s", "10 s"}},
      {"serving.kv_transfer.first_token",
       "choice",
       "",
       kByEngine,
       {"prefill", "transfer", "decode"},
       "When the first token is shown: behind the prompt, when its cache has arrived, or computed where the answer "
       "is."},
      {"serving.router",
       "choice",
       "",
       "round_robin",
       {"round_robin", "least_loaded", "prefix_aware"},
       "Which replica a request goes to."},
      {"serving.slo", "mapping", "", "-", {}, "What users were promised."},
      {"serving.slo.ttft", "quantity", "time", "-", {}, "To the first token.", {"1 us", "1 h"}},
      {"serving.slo.tpot", "quantity", "time", "-", {}, "For each further token.", {"1 us", "1 h"}},
      {"serving.slo.percentile",
       "number",
       "",
       "99",
       {},
       "Share of requests, in per cent, that it holds for.",
       {"1", "100"}},
  };
}

void add_length(Rows& rows, const std::string& path, const char* what) {
  rows.push_back({path, "integer", "tokens", "", {}, what, {"1", "100000000"}});
  rows.push_back({path + ".mean", "number", "tokens", "", {}, "Mean length.", {"1", "100000000"}});
  rows.push_back({path + ".distribution",
                  "choice",
                  "",
                  "constant",
                  {"constant", "uniform", "lognormal"},
                  "How lengths are spread."});
  rows.push_back({path + ".min", "integer", "tokens", "1", {}, "Shortest, where uniform.", {"1", "100000000"}});
  rows.push_back({path + ".max", "integer", "tokens", "-", {}, "Longest.", {"1", "100000000"}});
  rows.push_back(
      {path + ".variation", "number", "", "1", {}, "Standard deviation over mean, where log-normal.", {"0", "10"}});
}

Rows traffic_rows() {
  Rows rows{
      {"workload", "choice", "", "-", {"prefill", "decode"}, "One iteration of a served model, for orrery run."},
      {"workload.kind", "choice", "", "decode", {"prefill", "decode"}, "Sequences that decode, or prompts."},
      {"workload.sequences",
       "integer",
       "sequences",
       "decode: those under way; prefill: 1",
       {},
       "In the iteration.",
       {"1", "1000000"}},
      {"workload.tokens",
       "integer",
       "tokens",
       "prefill: traffic.input; decode: 1",
       {},
       "Computed of each.",
       {"1", "100000000"}},
      {"workload.cached",
       "integer",
       "tokens",
       "decode: traffic.input and half of traffic.output; prefill: 0",
       {},
       "Of each in the cache ahead of those.",
       {"0", "100000000"}},
      {"traffic", "mapping", "", "-", {}, "Requests that come: a trace, an open loop or a closed one."},
      {"traffic.trace",
       "text",
       "",
       "-",
       {},
       "A file of requests: Mooncake's JSON lines, CSV of Azure, BurstGPT or arrival_s, input_tokens, output_tokens."},
      {"traffic.time_scale",
       "number",
       "",
       "1",
       {},
       "Gaps between a trace's requests over what they were: 0.5 is twice the load.",
       {"1e-6", "1e6"}},
      {"traffic.rate", "text", "", "-", {}, "Open loop: requests a time, as in 10/s."},
      {"traffic.arrivals", "choice", "", "poisson", {"poisson", "gamma", "constant"}, "How gaps are spread."},
      {"traffic.burstiness", "number", "", "1", {}, "Shape of gamma gaps; below 1 in bursts.", {"0.01", "100"}},
      {"traffic.duration", "quantity", "time", "-", {}, "Open loop: requests come for so long.", {"1 ms", "1000000 s"}},
      {"traffic.concurrency",
       "integer",
       "requests",
       "-",
       {},
       "Closed loop: so many are under way; the next comes when one ends.",
       {"1", "1000000"}},
      {"traffic.requests",
       "integer",
       "requests",
       "closed loop: 10 x concurrency",
       {},
       "How many are counted.",
       {"1", "20000000"}},
      {"traffic.warmup", "integer", "requests", "0", {}, "Ahead of those, which are not counted.", {"0", "10000000"}},
      {"traffic.length_ratio",
       "number",
       "",
       "1",
       {},
       "Lengths are uniform between so much of what is given and that.",
       {"0.001", "1"}},
      {"traffic.prefix", "mapping", "", "-", {}, "What prompts begin with, and share."},
      {"traffic.prefix.tokens", "integer", "tokens", "", {}, "Length, ahead of input.", {"1", "10000000"}},
      {"traffic.prefix.groups", "integer", "", "1", {}, "Different ones, at equal shares.", {"1", "1000000"}},
      {"traffic.seed", "integer", "", "1", {}, "Of all that is drawn.", {"0", "1000000000"}},
  };
  add_length(rows, "traffic.input", "Tokens of a prompt, a number or a spread of them.");
  add_length(rows, "traffic.output", "Tokens of an answer, a number or a spread of them.");
  return rows;
}

}  // namespace

const std::vector<std::string>& served_type_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < calibration::kWeightTypes; ++i)
      names.emplace_back(name_of(static_cast<calibration::WeightType>(i)));
    return names;
  }();
  return kNames;
}

std::vector<Key> serving_keys() {
  Rows all = precision_rows();
  for (Rows rows : {pool_rows(), fleet_rows(), traffic_rows()})
    std::move(rows.begin(), rows.end(), std::back_inserter(all));
  return all;
}

}  // namespace orrery::scenarios
