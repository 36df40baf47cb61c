// Rows of the schema for what is served: engines, pools, traffic and what is promised. See schema_serving.h.
#include "scenarios/schema_serving.h"

#include <fmt/format.h>

#include "calibration/device/serving_kernels.h"
#include "sim/key_rows.h"
#include "workloads/runs/serving/batching.h"

namespace orrery::scenarios {

namespace {

using Rows = std::vector<Key>;

constexpr const char* kByEngine = "the default of the engine";

Rows precision_rows() {
  return {
      sim::key_row("precision.weights", "choice", "", "model.served.weights", served_type_names(),
                   "Of linear layers, where a model is served."),
      sim::key_row("precision.attention", "choice", "", "precision.weights, or as published", served_type_names(),
                   "Of projections into and out of attention, likewise."),
      sim::key_row("precision.experts", "choice", "", "precision.weights, or as published", served_type_names(),
                   "Of routed experts, likewise."),
      sim::key_row("precision.kv_cache", "choice", "", "bf16", {"bf16", "fp8"}, "Keys and values that are cached."),
      sim::key_row("precision.states", "choice", "", "fp32", {"bf16", "fp32"},
                   "States of mixers, where a model is served."),
      sim::key_row("precision.router", "choice", "", "model.served.router", {"bf16", "fp32", "tf32"},
                   "What routers of experts multiply in, where a model is served."),
      sim::key_row("model.served", "mapping", "", "-", {}, "What is so where the model is served."),
      sim::key_row("model.served.weights", "choice", "", "bf16", served_type_names(),
                   "Type that its linear layers were published in."),
      sim::key_row("model.served.attention", "choice", "", "model.served.weights", served_type_names(),
                   "Of projections into and out of attention, likewise."),
      sim::key_row("model.served.experts", "choice", "", "model.served.weights", served_type_names(),
                   "Of routed experts, likewise."),
      sim::key_row("model.served.router", "choice", "", "bf16", {"bf16", "fp32", "tf32"},
                   "What its published implementation has routers multiply in."),
      sim::key_row("model.served.routing_power", "number", "", "0: by chance", {},
                   "Exponent of the power law that loads of experts follow.", {"0", "3"}),
      sim::key_row("model.served.qk_norm_over", "choice", "", "head", {"head", "all_heads"},
                   "What queries and keys are normalised over: tensor ranks add up squares of all heads."),
  };
}

Rows layout_rows() {
  return {
      sim::key_row("serving.pools[].parallelism", "mapping", "", "-", {}, "How a replica is cut over its GPUs."),
      sim::key_row("serving.pools[].parallelism.tensor", "integer", "GPUs", "1", {}, "Ranks that layers are cut over.",
                   {"1", "1024"}),
      sim::key_row("serving.pools[].parallelism.pipeline", "integer", "stages", "1", {}, "Stages of layers.",
                   {"1", "1024"}),
      sim::key_row(
          "serving.pools[].parallelism.expert", "integer", "ranks", "1", {},
          "Groups of a stage's ranks that routed experts are dealt out to; experts are cut over the ranks of a group.",
          {"1", "4096"}),
      sim::key_row("serving.pools[].parallelism.attention_data", "integer", "groups", "1", {},
                   "Tensor groups with sequences of their own, which share the experts.", {"1", "4096"}),
      sim::key_row("serving.pools[].parallelism.expert_gpus", "integer", "GPUs", "0: those of attention", {},
                   "Of their own for routed experts, beside those of attention, where answers are written.",
                   {"0", "4096"}),
      sim::key_row("serving.pools[].parallelism.micro_batches", "integer", "", "3 with expert_gpus, else 1", {},
                   "That go to and fro between attention and experts on GPUs of their own.", {"1", "16"}),
  };
}

Rows pool_rows() {
  return {
      sim::key_row("serving", "mapping", "", "-", {}, "The model is served, not trained: for orrery serving."),
      sim::key_row("serving.pools", "list", "", "", {},
                   "Replicas that are alike; one pool: prompts and answers together; two: apart."),
      sim::key_row("serving.pools[].name", "text", "", "all", {}, "Of the pool."),
      sim::key_row("serving.pools[].role", "choice", "", "both", {"both", "prefill", "decode"},
                   "What its replicas compute."),
      sim::key_row("serving.pools[].replicas", "integer", "replicas", "as many as the GPUs make", {},
                   "Copies of the model, each with its own requests.", {"1", "1000000"}),
      sim::key_row("serving.pools[].max_sequences", "integer", "sequences", kByEngine, {}, "Under way at a time.",
                   {"1", "1000000"}),
      sim::key_row("serving.pools[].max_batched_tokens", "integer", "tokens", kByEngine, {}, "Of an iteration.",
                   {"1", "1000000"}),
      sim::key_row("serving.pools[].chunked_prefill", "boolean", "", kByEngine, {},
                   "Prompts are cut to what an iteration has room for."),
      sim::key_row("serving.pools[].block_tokens", "integer", "tokens", kByEngine, {}, "Of a block of the cache.",
                   {"1", "4096"}),
      sim::key_row("serving.pools[].memory_utilization", "number", "", kByEngine, {},
                   "Share of a GPU's memory that the engine takes.", {"0.01", "1"}),
      sim::key_row("serving.pools[].prefix_caching", "boolean", "", kByEngine, {},
                   "Beginnings of prompts are found in the cache."),
      sim::key_row("serving.pools[].graphs", "choice", "", "default", {"default", "none"},
                   "Captured CUDA graphs: those of the engine, or none, as vLLM's --enforce-eager."),
      sim::key_row("serving.pools[].batching", "choice", "", kByEngine, serving::batching_names(),
                   "Policy that puts iterations together."),
      sim::key_row("serving.pools[].redundant_experts", "integer", "experts", "0", {},
                   "Copies of experts beyond one of each.", {"0", "4096"}),
      sim::key_row("serving.pools[].slow", "mapping", "", "-", {}, "Replicas that are slower than the others."),
      sim::key_row("serving.pools[].slow.replicas", "integer", "replicas", "1", {}, "How many.", {"1", "1000000"}),
      sim::key_row("serving.pools[].slow.factor", "number", "", "", {}, "How many times as long iterations take.",
                   {"1", "1000"}),
  };
}

Rows beside_pool_rows() {
  return {
      sim::key_row("serving.pools[].polls_every", "integer", "iterations", "1", {},
                   "That only decode, between two looks at the requests that have come.", {"1", "100000"}),
      sim::key_row("serving.pools[].order", "choice", "", "arrival", {"arrival", "priority"},
                   "Who of those that wait comes first, and is thrown out last: by arrival, or by priority and then by "
                   "arrival."),
      sim::key_row("serving.pools[].max_cache_tokens", "integer", "tokens", "what memory holds", {},
                   "Of the cache of an attention group, where memory holds more (SGLang's --max-total-tokens).",
                   {"0", "1000000000"}),
      sim::key_row("serving.pools[].max_waiting", "integer", "requests", "0: any number", {},
                   "That wait at a replica; who comes when there are as many is turned away.", {"0", "10000000"}),
      sim::key_row("serving.pools[].gather", "mapping", "", "-", {},
                   "Prompts that wait for more of them while others decode."),
      sim::key_row("serving.pools[].gather.iterations", "integer", "iterations", "", {}, "At most.", {"1", "100000"}),
      sim::key_row("serving.pools[].gather.fill", "number", "", "0", {},
                   "Until they are, with what decodes, such a share of max_batched_tokens.", {"0", "1"}),
      sim::key_row("serving.pools[].gather.prompts", "integer", "prompts", "0", {}, "Until they are so many.",
                   {"0", "100000"}),
      sim::key_row("serving.pools[].cache_tiers", "list", "", "-", {},
                   "Where content of the cache goes below the GPUs, the nearest first: host memory, disks."),
      sim::key_row("serving.pools[].cache_tiers[].name", "text", "", "tier 1, 2, ...", {}, "Of the tier."),
      sim::key_row("serving.pools[].cache_tiers[].capacity", "quantity", "bytes", "", {}, "Of each replica.",
                   {"1 MB", "1000 PB"}),
      sim::key_row("serving.pools[].cache_tiers[].read_rate", "quantity", "bytes/s", "", {},
                   "From there to all GPUs of a replica.", {"1 MB/s", "1000 TB/s"}),
      sim::key_row("serving.pools[].cache_tiers[].latency", "quantity", "time", "0 s", {}, "Of a request's first byte.",
                   {"0 s", "10 s"}),
      sim::key_row("serving.pools[].tier_write", "choice", "", "on_eviction", {"on_eviction", "through"},
                   "When content is written to the first tier: as it leaves the GPUs, or as soon as it is computed."),
      sim::key_row("serving.pools[].speculative", "mapping", "", "-", {},
                   "Tokens that are drafted, and checked in one pass."),
      sim::key_row("serving.pools[].speculative.method", "choice", "", "mtp", {"mtp"},
                   "mtp: a further layer of the model's drafts."),
      sim::key_row("serving.pools[].speculative.tokens", "integer", "tokens", "1", {}, "Drafted an iteration.",
                   {"1", "16"}),
      sim::key_row("serving.pools[].speculative.accepted", "number", "tokens", "", {}, "Of these, taken in the mean.",
                   {"0", "16"}),
  };
}

Rows fleet_rows() {
  return {
      sim::key_row("serving.kv_transfer", "mapping", "", "-", {}, "Between a pool of prompts and one of answers."),
      sim::key_row("serving.kv_transfer.mode", "choice", "", "whole", {"whole", "layer_by_layer"},
                   "A prompt's cache flows behind it, or layer by layer while it is computed."),
      sim::key_row("serving.kv_transfer.latency", "quantity", "time", "0 s", {}, "Of a handover, beyond the network's.",
                   {"0 s", "10 s"}),
      sim::key_row("serving.kv_transfer.first_token", "choice", "", kByEngine, {"prefill", "transfer", "decode"},
                   "When the first token is shown: behind the prompt, when its cache has arrived, or computed where "
                   "the answer is."),
      sim::key_row("serving.router", "choice", "", "round_robin", {"round_robin", "least_loaded", "prefix_aware"},
                   "Which replica a request goes to, and of pools apart in turn which writes its answer."),
      sim::key_row("serving.front_ends", "integer", "", "1", {},
                   "That deal requests out in turn, each for itself; a request comes to one of them by chance.",
                   {"1", "1000"}),
      sim::key_row(
          "serving.router_looks_every", "quantity", "time", "0 s: it knows what is", {},
          "How old what the router knows of loads and caches may be: it looks again behind so long, and goes by that.",
          {"0 s", "1 h"}),
      sim::key_row("serving.slo", "mapping", "", "-", {}, "What users were promised."),
      sim::key_row("serving.slo.ttft", "quantity", "time", "-", {}, "To the first token.", {"1 us", "1 h"}),
      sim::key_row("serving.slo.tpot", "quantity", "time", "-", {}, "For each further token.", {"1 us", "1 h"}),
      sim::key_row(
          "serving.slo.window", "quantity", "time", "5 min", {},
          "Length of the busiest stretch, for which orrery search seeks a fleet too; at most a fifth of the run.",
          {"1 s", "24 h"}),
      sim::key_row("serving.slo.percentile", "number", "", "99", {},
                   "Share of requests, in per cent, that it holds for.", {"1", "100"}),
  };
}

Rows elastic_rows() {
  return {
      sim::key_row("serving.pools[].weights_rate", "quantity", "bytes/s", "in start_up and restart", {},
                   "At which a replica that starts reads its weights, beside start_up or restart.",
                   {"1 MB/s", "1000 TB/s"}),
  };
}

/// Of the section and of a pool: `of` is the path that they stand at.
Rows changing_rows(const std::string& of) {
  return {
      sim::key_row(of + "autoscale", "mapping", "", "-", {}, "Replicas are added and given back as the load asks for."),
      sim::key_row(
          of + "autoscale.by", "choice", "", "under_way", {"under_way", "waiting", "cache", "ttft", "itl"},
          "What the number follows: requests under way, those that wait, or the share of the cache in use, of each; "
          "the mean time to the first token (where prompts are computed apart, until they are), or between tokens."),
      sim::key_row(of + "autoscale.target", "number", "", "", {}, "Of that, for each replica.", {"0.001", "1000000"}),
      sim::key_row(of + "autoscale.target_time", "quantity", "time", "", {}, "Mean time that ttft or itl is to have.",
                   {"1 us", "1 h"}),
      sim::key_row(of + "autoscale.least", "integer", "replicas", "1", {}, "Fewest.", {"1", "1000000"}),
      sim::key_row(of + "autoscale.most", "integer", "replicas", "as many as the GPUs make", {}, "Most.",
                   {"1", "1000000"}),
      sim::key_row(of + "autoscale.tolerance", "number", "", "0.1", {},
                   "Deviation from the target within which nothing changes.", {"0", "1"}),
      sim::key_row(of + "autoscale.every", "quantity", "time", "15 s", {}, "From one measurement to the next.",
                   {"1 s", "1 h"}),
      sim::key_row(of + "autoscale.lag", "quantity", "time", "30 s", {}, "From a measurement to what follows of it.",
                   {"0 s", "1 h"}),
      sim::key_row(of + "autoscale.start_up", "quantity", "time", "", {},
                   "From when a replica is asked for until it serves: a node, its image, weights, graphs.",
                   {"0 s", "10 h"}),
      sim::key_row(of + "autoscale.hold", "quantity", "time", "300 s", {},
                   "Fewer are kept only than all that was asked for within this time.", {"0 s", "10 h"}),
      sim::key_row(of + "failures", "mapping", "", "-", {}, "Replicas that fail while they serve."),
      sim::key_row(of + "failures.mean_time", "quantity", "time", "-", {}, "Between failures of a replica.",
                   {"1 s", "1000000 h"}),
      sim::key_row(of + "failures.at", "quantity", "time", "-", {}, "When some fail, in place of mean_time.",
                   {"0 s", "300 h"}),
      sim::key_row(of + "failures.replicas", "integer", "replicas", "1", {}, "How many, with at.", {"1", "1000000"}),
      sim::key_row(of + "failures.noticed", "quantity", "time", "30 s", {}, "Until no more requests are sent to it.",
                   {"0 s", "10 h"}),
      sim::key_row(of + "failures.restart", "quantity", "time", "", {}, "From then until it serves again.",
                   {"0 s", "300 h"}),
      sim::key_row(of + "failures.requests", "choice", "", "migrate", {"migrate", "again", "lost"},
                   "What becomes of those that had come to it: they go on elsewhere with what is written, begin again "
                   "there, or are lost."),
      sim::key_row(of + "failures.seed", "integer", "", "1", {}, "Of when they fail.", {"0", "1000000000"}),
  };
}

void add_length(Rows& rows, const std::string& path, const char* what) {
  rows.push_back(sim::key_row(path, "integer", "tokens", "", {}, what, {"1", "100000000"}));
  rows.push_back(sim::key_row(path + ".mean", "number", "tokens", "", {}, "Mean length.", {"1", "100000000"}));
  rows.push_back(sim::key_row(path + ".distribution", "choice", "", "constant", {"constant", "uniform", "lognormal"},
                              "How lengths are spread."));
  rows.push_back(
      sim::key_row(path + ".min", "integer", "tokens", "1", {}, "Shortest, where uniform.", {"1", "100000000"}));
  rows.push_back(sim::key_row(path + ".max", "integer", "tokens", "-", {}, "Longest.", {"1", "100000000"}));
  rows.push_back(sim::key_row(path + ".variation", "number", "", "1", {},
                              "Standard deviation over mean, where log-normal.", {"0", "10"}));
}

void add_sessions(Rows& rows) {
  rows.push_back(
      sim::key_row("traffic.session", "mapping", "", "-", {}, "Users come back, and send along what was said."));
  rows.push_back(sim::key_row("traffic.session.gap", "quantity", "time", "", {},
                              "From one question to the next, in the mean (exponential).", {"1 ms", "1000 h"}));
  add_length(rows, "traffic.session.turns", "Questions of a user, a number or a spread of them.");
}

/// What is asked of each token, by requests or by a model's generation_config.
void add_sampling(Rows& rows, const std::string& of) {
  const auto add = [&](const char* key, const char* type, const char* fallback, const char* help, const char* least,
                       const char* most) {
    rows.push_back({of + key, type, "", fallback, {}, help, {least, most}});
  };
  add("temperature", "number", "1", "0: the greatest logit.", "0", "10");
  add("top_p", "number", "1", "A token is drawn of the most probable that make up so much.", "1e-6", "1");
  add("top_k", "integer", "0: all", "A token is drawn of so many.", "0", "10000000");
  add("min_p", "number", "0", "And of those that have such a share of the greatest.", "0", "1");
  add("repetition_penalty", "number", "1", "1: none, which engines then do not count for.", "0.01", "100");
  add("frequency_penalty", "number", "0", "0: none.", "-2", "2");
  add("presence_penalty", "number", "0", "0: none.", "-2", "2");
  add("logprobs", "integer", "-1: none", "Of so many tokens beside the one that is drawn.", "-1", "10000000");
}

Rows traffic_rows() {
  Rows rows{
      sim::key_row("workload", "choice", "", "-", {"prefill", "decode"},
                   "One iteration of a served model, for orrery run."),
      sim::key_row("workload.kind", "choice", "", "decode", {"prefill", "decode"},
                   "Sequences that decode, or prompts."),
      sim::key_row("workload.sequences", "integer", "sequences", "decode: those under way; prefill: 1", {},
                   "In the iteration.", {"1", "1000000"}),
      sim::key_row("workload.tokens", "integer", "tokens", "prefill: traffic.input; decode: 1", {}, "Computed of each.",
                   {"1", "100000000"}),
      sim::key_row("workload.cached", "integer", "tokens",
                   "decode: traffic.input and half of traffic.output; prefill: 0", {},
                   "Of each in the cache ahead of those.", {"0", "100000000"}),
      sim::key_row("traffic", "mapping", "", "-", {}, "Requests that come: a trace, an open loop or a closed one."),
      sim::key_row("traffic.trace", "text", "", "-", {},
                   "A file of requests: Mooncake's JSON lines, CSV of Azure, BurstGPT or arrival_s, input_tokens, "
                   "output_tokens."),
      sim::key_row("traffic.time_scale", "number", "", "1", {},
                   "Gaps between a trace's requests over what they were: 0.5 is twice the load.", {"1e-6", "1e6"}),
      sim::key_row("traffic.rate", "text", "", "-", {}, "Open loop: requests a time, as in 10/s."),
      sim::key_row("traffic.arrivals", "choice", "", "poisson", {"poisson", "gamma", "constant"},
                   "How gaps are spread."),
      sim::key_row("traffic.burstiness", "number", "", "1", {}, "Shape of gamma gaps; below 1 in bursts.",
                   {"0.01", "100"}),
      sim::key_row("traffic.duration", "quantity", "time", "-", {}, "Open loop: requests come for so long.",
                   {"1 ms", "1000000 s"}),
      sim::key_row("traffic.levels", "list", "", "-", {},
                   "Open loop: the rate in equal parts of the duration, each over what rate says: [0.5, 1, 2, 1].",
                   {"0", "1000"}),
      sim::key_row("traffic.concurrency", "integer", "requests", "-", {},
                   "Closed loop: so many are under way; the next comes when one ends.", {"1", "1000000"}),
      sim::key_row("traffic.requests", "integer", "requests", "closed loop: 10 x concurrency", {},
                   "How many are counted.", {"1", "20000000"}),
      sim::key_row("traffic.warmup", "integer", "requests", "0", {}, "Ahead of those, which are not counted.",
                   {"0", "10000000"}),
      sim::key_row("traffic.length_ratio", "number", "", "1", {},
                   "Lengths are uniform between so much of what is given and that.", {"0.001", "1"}),
      sim::key_row(
          "traffic.priorities", "list", "", "-", {},
          "Shares of requests by priority, of the most urgent first, for pools whose order is by priority: [0.2, 0.8].",
          {"0", "1000"}),
      sim::key_row("traffic.prefix", "mapping", "", "-", {}, "What prompts begin with, and share."),
      sim::key_row("traffic.prefix.tokens", "integer", "tokens", "", {}, "Length, ahead of input.", {"1", "10000000"}),
      sim::key_row("traffic.prefix.groups", "integer", "", "1", {}, "Different ones, at equal shares.",
                   {"1", "1000000"}),
      sim::key_row("traffic.seed", "integer", "", "1", {}, "Of all that is drawn.", {"0", "1000000000"}),
  };
  add_length(rows, "traffic.input", "Tokens of a prompt, a number or a spread of them.");
  add_sessions(rows);
  rows.push_back(
      sim::key_row("traffic.sampling", "mapping", "", "the model's generation_config, where the engine reads it", {},
                   "What requests ask of each token: greedy, model, or keys; what these leave out is the model's."));
  add_sampling(rows, "traffic.sampling.");
  rows.push_back(
      sim::key_row("model.generation", "mapping", "", "-", {}, "The published generation_config of a model."));
  add_sampling(rows, "model.generation.");
  add_length(rows, "traffic.output", "Tokens of an answer, a number or a spread of them.");
  return rows;
}

/// Sections of a model that shares its cluster are those of a scenario of its own, whose reader checks them.
Rows models_rows() {
  Rows rows{
      sim::key_row("models", "list", "", "-", {}, "Models that are served on one cluster, each on GPUs of its own."),
      sim::key_row("models[].name", "text", "", "model 1, model 2, ...", {}, "Of the model, in the answer."),
      sim::key_row("models[].description", "text", "", "-", {}, "What it is for, for people."),
      sim::key_row("models[].gpus", "integer", "GPUs", "what its pools take", {}, "Of the cluster that it may use.",
                   {"1", "1048576"}),
      sim::key_row("models[].model", "name", "", "model", {}, "As model."),
      sim::key_row("models[].software", "name", "", "software", {}, "As software of a served model."),
  };
  for (const char* section : {"precision", "serving", "traffic"})
    rows.push_back(
        sim::key_row(fmt::format("models[].{}", section), "mapping", "", section, {}, fmt::format("As {}.", section)));
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
  for (Rows rows : {pool_rows(), layout_rows(), beside_pool_rows(), fleet_rows(), elastic_rows(),
                    changing_rows("serving."), changing_rows("serving.pools[]."), traffic_rows(), models_rows()})
    std::move(rows.begin(), rows.end(), std::back_inserter(all));
  return all;
}

}  // namespace orrery::scenarios
