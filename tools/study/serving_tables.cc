// Tables of measured serving, row by row beside what is predicted. See serving_tables.h.
#include "tools/study/serving_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "scenarios/scenario.h"
#include "scenarios/serving.h"
#include "sim/error.h"
#include "tools/parallel.h"
#include "tools/report/text.h"
#include "tools/study/request_tables.h"
#include "tools/study/served_launches.h"
#include "tools/study/serving_study.h"
#include "tools/study/table_file.h"

namespace orrery::tools {

using nlohmann::ordered_json;

namespace {

struct NameHere {
  std::string_view table, here;
};

/// Names of models as the tables have them.
constexpr std::array<NameHere, 41> kModels{{{"MiniMax-M2.5", "minimax-m2"},
                                            {"Qwen3.5-397B-A17B", "qwen3.5-397b-a17b"},
                                            {"GLM-5", "glm-5"},
                                            {"GPT-J 6B", "gptj-6b"},
                                            {"bloom-176b", "bloom-176b"},
                                            {"mistralai/Mixtral-8x22B-v0.1", "mixtral-8x22b"},
                                            {"mistralai/Mixtral-8x22B-Instruct-v0.1", "mixtral-8x22b"},
                                            {"llama2-70b", "llama2-70b"},
                                            {"Llama-3.1-8B", "llama3.1-8b"},
                                            {"Llama-3.1-70B", "llama3.1-70b"},
                                            {"Llama-3.1-405B", "llama3.1-405b"},
                                            {"Llama-3-70B", "llama3-70b"},
                                            {"Llama-3.3-70B", "llama3.1-70b"},
                                            {"Qwen3-32B", "qwen3-32b"},
                                            {"Qwen3-14B", "qwen3-14b"},
                                            {"Qwen3-235B-A22B", "qwen3-235b-a22b"},
                                            {"Qwen3-30B-A3B", "qwen3-30b-a3b"},
                                            {"gpt-oss-120b", "gpt-oss-120b"},
                                            {"gpt-oss-20b", "gpt-oss-20b"},
                                            {"DeepSeek-R1", "deepseek-v3"},
                                            {"Kimi-K2.5", "kimi-k2"},
                                            {"Llama-4-Scout", "llama4-scout"},
                                            {"Llama-4-Maverick", "llama4-maverick"},
                                            {"Mixtral 8x7B", "mixtral-8x7b"},
                                            {"Mixtral 8x22B", "mixtral-8x22b"},
                                            {"Mistral 7B", "mistral-7b"},
                                            {"LLaMA 7B", "llama2-7b"},
                                            {"LLaMA 70B", "llama2-70b"},
                                            {"Falcon 180B", "falcon-180b"},
                                            {"meta-llama/Llama-2-7b-hf", "llama2-7b"},
                                            {"meta-llama/Llama-2-70b-hf", "llama2-70b"},
                                            {"meta-llama/Llama-3.1-70B-Instruct", "llama3.1-70b"},
                                            {"meta-llama/Llama-3.1-8B-Instruct", "llama3.1-8b"},
                                            {"meta-llama/Llama-3.1-8B", "llama3.1-8b"},
                                            {"mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"},
                                            {"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
                                            {"Qwen/Qwen3-14B", "qwen3-14b"},
                                            {"01-ai/Yi-34B", "yi-34b"},
                                            {"codellama/CodeLlama-34b-Instruct-hf", "codellama-34b"},
                                            {"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"},
                                            {"RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", "llama4-scout"}}};
constexpr std::array<NameHere, 17> kDevices{{{"rtx4090", "rtx-4090-24gb"},
                                             {"rtxpro6000", "rtx-pro-6000-96gb"},
                                             {"rtx-pro-6000-server", "rtx-pro-6000-96gb"},
                                             {"a100-pcie", "a100-pcie-80gb"},
                                             {"h100-sxm", "h100-sxm-80gb"},
                                             {"h200-sxm", "h200-sxm-141gb"},
                                             {"a100-sxm", "a100-sxm-80gb"},
                                             {"b200-sxm", "b200-sxm-180gb"},
                                             {"b300-sxm", "b300-sxm-288gb"},
                                             {"gb200", "gb200"},
                                             {"gb300", "gb300"},
                                             {"l40s", "l40s-48gb"},
                                             {"mi300x", "mi300x"},
                                             {"mi325x", "mi325x"},
                                             {"h100-pcie", "h100-pcie-80gb"},
                                             {"h200-nvl-141gb", "h200-nvl-141gb"},
                                             {"mi355x", "mi355x"}}};
constexpr std::array<NameHere, 10> kTypes{{{"bf16", "bf16"},
                                           {"fp16", "bf16"},
                                           {"fp8", "fp8"},
                                           {"fp8_block", "fp8-block"},
                                           {"nvfp4", "nvfp4"},
                                           {"fp4", "nvfp4"},
                                           {"int4", "int4"},
                                           {"int4_wo", "int4"},
                                           {"mxfp4", "mxfp4"},
                                           {"", "bf16"}}};
constexpr std::array<NameHere, 3> kEngineOf{
    {{"vllm", "vllm-0.15"}, {"sglang", "sglang-0.5"}, {"trtllm", "trtllm-1.0"}}};

/// What a published checkpoint that a table calls by a short name has: types of projections of attention, of other
/// linear layers, of routed experts. Others are of one type throughout.
struct Checkpoint {
  std::string_view model, label, attention, weights, experts, experts_on_blackwell;
};
constexpr std::array<Checkpoint, 14> kCheckpoints{{
    // deepseek-ai/DeepSeek-R1, config.json, quantization_config: blocks of 128 x 128.
    {"DeepSeek-R1", "fp8", "fp8-block", "fp8-block", "fp8-block", "fp8-block"},
    // nvidia/DeepSeek-R1-0528-NVFP4: linear layers of MLPs and experts.
    {"DeepSeek-R1", "fp4", "bf16", "nvfp4", "nvfp4", "nvfp4"},
    // moonshotai/Kimi-K2.5 and nvidia/Kimi-K2.5-NVFP4: routed experts alone.
    {"Kimi-K2.5", "int4", "bf16", "bf16", "int4", "int4"},
    {"Kimi-K2.5", "fp4", "bf16", "bf16", "nvfp4", "nvfp4"},
    // openai/gpt-oss: experts in MXFP4; activations of 8 bits where matrix units take them.
    {"gpt-oss-120b", "fp4", "bf16", "bf16", "mxfp4", "mxfp4-fp8"},
    {"gpt-oss-120b", "fp8", "bf16", "bf16", "mxfp4", "mxfp4-fp8"},
    {"gpt-oss-20b", "fp4", "bf16", "bf16", "mxfp4", "mxfp4-fp8"},
    {"gpt-oss-20b", "fp8", "bf16", "bf16", "mxfp4", "mxfp4-fp8"},
    // Qwen/Qwen3-235B-A22B-FP8 and MiniMaxAI/MiniMax-M2.5: blocks.
    {"Qwen3-235B-A22B", "fp8", "fp8-block", "fp8-block", "fp8-block", "fp8-block"},
    {"MiniMax-M2.5", "fp8", "fp8-block", "fp8-block", "fp8-block", "fp8-block"},
    // Qwen/Qwen3.5-397B-A17B-FP8 and zai-org/GLM-5-FP8: blocks; nvidia/Qwen3.5-397B-A17B-NVFP4: routed experts.
    {"Qwen3.5-397B-A17B", "fp8", "fp8-block", "fp8-block", "fp8-block", "fp8-block"},
    {"Qwen3.5-397B-A17B", "fp4", "bf16", "bf16", "nvfp4", "nvfp4"},
    {"GLM-5", "fp8", "fp8-block", "fp8-block", "fp8-block", "fp8-block"},
    // nvidia/MiniMax-M2.5-NVFP4: experts.
    {"MiniMax-M2.5", "fp4", "bf16", "bf16", "nvfp4", "nvfp4"},
}};

template <class Names>
std::string name_here(const Names& names, const std::string& text, const char* what) {
  for (const NameHere& one : names) {
    if (one.table == text) return std::string(one.here);
  }
  throw sim::UserError(fmt::format("{} '{}' does not ship", what, text));
}

/// The release that stands for an engine's version; the newest where the table does not say it.
std::string engine_of(const std::string& engine, const std::string& version) {
  if (engine == "trtllm" && version == "1.0.0rc3") return "trtllm-1.0rc3";
  if (engine == "vllm" && (version.starts_with("0.11.") || version.starts_with("0.12."))) return "vllm-0.12";
  for (const char* late : {"0.17.", "0.18.", "0.19."})
    if (engine == "vllm" && version.starts_with(late)) return "vllm-0.17";
  return name_here(kEngineOf, engine, "the engine");
}

std::string model_yaml(const std::string& model) {
  return model == "DeepSeek-R1" ? "deepseek-v3" : name_here(kModels, model, "the model");
}

/// What most rows have in common.
struct ServedCell {
  std::string device, engine, model, weights = "bf16", attention, experts, cache = "bf16", states, router;
  std::int64_t gpus = 1, replicas = 1, tensor = 1, pipeline = 1, expert = 1, attention_data = 1;
  std::string pool;    // further keys of the pool
  std::string habits;  // further keys of the engine
  std::string pools;   // all of them as YAML, where there are two
  std::int64_t front_ends = 1;
  std::string traffic;  // its keys
};

/// Types of the checkpoint that a table calls so.
void take_checkpoint(ServedCell& c, const std::string& model, const std::string& label) {
  const bool blackwell = c.device.starts_with("b") || c.device.starts_with("gb");
  for (const Checkpoint& checkpoint : kCheckpoints) {
    if (checkpoint.model != model || checkpoint.label != label) continue;
    c.attention = checkpoint.attention;
    c.weights = checkpoint.weights;
    c.experts = blackwell ? checkpoint.experts_on_blackwell : checkpoint.experts;
  }
}

/// What llm-compressor's recipes leave in 16 bits (vllm-project/llm-compressor, examples/quantization_w8a8_fp8).
void take_recipe(ServedCell& c) {
  if (c.model == "llama4-scout" && c.weights == "fp8") c.attention = "bf16";
}

/// What joins the nodes that so many GPUs take; NVLink where a rack's domain does.
std::string fabric_of(const std::string& device, std::int64_t gpus) {
  if (device == "gb200") return gpus > 4 ? ", fabric: nvl72-ndr" : "";
  if (device == "gb300") return gpus > 4 ? ", fabric: nvl72-xdr" : "";
  return gpus > 8 ? ", fabric: ndr-rail" : "";
}

std::string yaml_of(const std::string& id, const ServedCell& c) {
  const std::string pools = c.pools.empty()
                                ? fmt::format(
                                      "  - {{replicas: {}, parallelism: {{tensor: {}, pipeline: {}, expert: {}, "
                                      "attention_data: {}}}{}}}\n",
                                      c.replicas, c.tensor, c.pipeline, c.expert, c.attention_data, c.pool)
                                : c.pools;
  return fmt::format(
      "name: {}\ncluster: {{device: {}, gpus: {}{}}}\nmodel: {}\nprecision: {{weights: {}, attention: {}, experts: {}, "
      "kv_cache: {}{}{}}}\n"
      "software: {}\nserving:\n{}  pools:\n{}traffic: {{{}}}\n",
      id, c.device, c.gpus, fabric_of(c.device, c.gpus), c.model, c.weights,
      c.attention.empty() ? c.weights : c.attention, c.experts.empty() ? c.weights : c.experts, c.cache,
      c.states.empty() ? "" : ", states: " + c.states, c.router.empty() ? "" : ", router: " + c.router,
      c.habits.empty() ? c.engine : fmt::format("{{inherits: {}, {}}}", c.engine, c.habits),
      c.front_ends == 1 ? "" : fmt::format("  front_ends: {}\n", c.front_ends), pools, c.traffic);
}

std::int64_t whole_at(const TableFile& t, std::size_t row, const char* column, std::int64_t fallback) {
  return static_cast<std::int64_t>(t.number(row, column).value_or(static_cast<double>(fallback)));
}

void take_measured(ServingRow& out, const TableFile& t, std::size_t row, const char* column, const char* metric) {
  if (const auto value = t.number(row, column); value && *value > 0) out.measured[metric] = *value;
}

/// What the launch says of them, as further keys of a pool.
std::string limits_text(const WorkersOf& w) {
  std::string text;
  const auto add = [&](const char* key, std::int64_t value) {
    if (value > 0) text += fmt::format(", {}: {}", key, value);
  };
  add("max_sequences", w.max_sequences);
  add("max_batched_tokens", w.max_batched_tokens);
  add("max_cache_tokens", w.max_cache_tokens);
  add("redundant_experts", w.redundant_experts);
  if (w.memory_share > 0) text += fmt::format(", memory_utilization: {}", w.memory_share);
  return text;
}

/// Workers that compute prompts and those that write answers, each with its layout.
void set_apart(ServedCell& c, const TableFile& t, std::size_t row, const LaunchedRow& launched) {
  const auto workers_of = [&](const std::string& prefix) {
    const auto of = [&](const char* column) { return whole_at(t, row, (prefix + column).c_str(), 1); };
    if (t.text(row, prefix + "workers").empty())
      throw sim::UserError("how many workers compute prompts, and how many write answers, is not stated");
    return WorkersOf{of("workers"), of("tp"), of("pp"), of("attention_dp"), of("moe_ep")};
  };
  const LaunchedApart apart = launched_apart(launched, {workers_of("p_"), workers_of("d_"), {}, 1, {}});
  std::int64_t gpus = 0;
  for (const auto& [role, w] : {std::pair("prefill", apart.prefill), std::pair("decode", apart.decode)}) {
    gpus += w.workers * w.gpus();
    c.pools += fmt::format(
        "  - {{role: {}, replicas: {}, parallelism: {{tensor: {}, pipeline: {}, expert: {}, "
        "attention_data: {}}}{}}}\n",
        role, w.workers, w.tensor, w.pipeline, w.expert, w.attention_data, limits_text(w));
  }
  if (!apart.cache.empty()) c.cache = apart.cache;
  c.front_ends = apart.front_ends;
  c.habits = apart.software;
  // Whole nodes, or trays.
  const std::int64_t node = c.device.starts_with("gb") ? 4 : 8;
  c.gpus = gpus > node ? (gpus + node - 1) / node * node : gpus;
}

std::vector<std::string> points_scenarios(const TableFile& t, std::size_t row, ServingRow& out) {
  const std::string mode = t.text(row, "mode");
  out.group = fmt::format("{} {} {} {}", t.text(row, "engine"), t.text(row, "device"), t.text(row, "model"), mode);
  take_measured(out, t, row, "ttft_ms", "ttft_ms");
  take_measured(out, t, row, "tpot_ms", "tpot_ms");
  ServedCell c;
  c.device = name_here(kDevices, t.text(row, "device"), "the device");
  c.engine = engine_of(t.text(row, "engine"), t.text(row, "version"));
  c.model = model_yaml(t.text(row, "model"));
  const std::string gemm = t.text(row, "gemm_dtype").empty() ? t.text(row, "precision") : t.text(row, "gemm_dtype");
  c.weights = name_here(kTypes, gemm, "the type");
  const std::string moe = t.text(row, "moe_dtype").empty() ? gemm : t.text(row, "moe_dtype");
  c.experts = name_here(kTypes, moe, "the type");
  take_checkpoint(c, t.text(row, "model"), t.text(row, "precision"));
  LaunchedRow row_of{t.text(row, "engine"),         t.text(row, "version"),
                     t.text(row, "device"),         t.text(row, "model"),
                     t.text(row, "precision"),      t.text(row, "measured"),
                     whole_at(t, row, "tp", 1),     whole_at(t, row, "attention_dp", 1),
                     whole_at(t, row, "moe_ep", 1), whole_at(t, row, "concurrency", 1),
                     whole_at(t, row, "isl", 1),    whole_at(t, row, "osl", 1)};
  const ServedLaunch launch = mode == "agg" ? launch_of(row_of) : ServedLaunch{};
  // TensorRT-LLM's checkpoints of 8 and 4 bits say that the cache has 8; other engines' default is the activations'.
  if (t.text(row, "engine") == "trtllm" && c.weights != "bf16") c.cache = "fp8";
  if (!launch.cache.empty()) c.cache = launch.cache;
  if (mode == "agg") {
    c.pool = launch.pool;
    c.habits = launch.software;
    c.states = launch.states;
    c.router = launch.router;
    c.tensor = whole_at(t, row, "tp", 1);
    c.pipeline = whole_at(t, row, "pp", 1);
    c.attention_data = whole_at(t, row, "attention_dp", 1);
    c.expert = launch.expert > 0 ? launch.expert : whole_at(t, row, "moe_ep", 1);
    if (launch.attention_data > 0) {
      c.tensor = c.tensor * c.attention_data / launch.attention_data;
      c.attention_data = launch.attention_data;
    }
    c.gpus = c.tensor * c.pipeline * c.attention_data;
  } else {
    set_apart(c, t, row, row_of);
  }
  const auto concurrency = static_cast<std::int64_t>(t.needed(row, "concurrency", 1));
  const std::int64_t fewest = std::max<std::int64_t>(concurrency, 1);
  // Warm-ups are over before the benchmark begins, so that its first prompts come all at once.
  // InferenceX's client asks for temperature 0 (utils/bench_serving, backend_request_func.py), the laboratory's for
  // nothing (aiconfigurator, backend_templates/benchmark/bench_run.sh.j2).
  c.traffic = fmt::format("concurrency: {}, requests: {}, input: {}, output: {}, length_ratio: {}, sampling: {}",
                          concurrency, 10 * fewest, whole_at(t, row, "isl", 1), whole_at(t, row, "osl", 1),
                          t.number(row, "length_ratio", 0.01).value_or(1), row_of.day.empty() ? "model" : "greedy");
  return {yaml_of(out.id, c)};
}

std::vector<std::string> online_scenarios(const TableFile& t, std::size_t row, ServingRow& out) {
  const std::string known = t.text(row, "workload_known");
  out.group = fmt::format("online {} {}", t.text(row, "device"), known);
  take_measured(out, t, row, "ttft_mean_ms", "ttft_ms");
  take_measured(out, t, row, "itl_mean_ms", "itl_ms");
  take_measured(out, t, row, "e2e_mean_ms", "e2e_ms");
  take_measured(out, t, row, "ttft_p99_ms", "ttft_p99_ms");
  take_measured(out, t, row, "e2e_p99_ms", "e2e_p99_ms");
  if (known == "unknown") throw sim::UserError("the source does not state its workload");
  ServedCell c;
  c.device = name_here(kDevices, t.text(row, "device"), "the device");
  c.engine = "vllm-0.15";
  c.model = model_yaml(t.text(row, "model"));
  const std::string type = t.text(row, "precision");
  c.weights = type == "fp8" ? "fp8" : "bf16";
  take_recipe(c);
  c.tensor = whole_at(t, row, "tp", 1);
  if (whole_at(t, row, "dp", 1) > 1) throw sim::UserError("several replicas behind one address are not simulated here");
  c.gpus = c.tensor;
  const std::int64_t sequences = whole_at(t, row, "max_num_seqs", 128);
  c.pool = fmt::format(", max_sequences: {}, max_batched_tokens: {}, memory_utilization: {}", sequences,
                       whole_at(t, row, "max_num_batched_tokens", 2048), t.number(row, "gpu_mem_util").value_or(0.9));
  // inference-perf's users each ask one question, again and again, behind a system prompt (shared_prefix_datagen.py:
  // the text of request i is that of user i modulo their number), so that all but the last block of a prompt is known
  // from the second time on.
  const std::int64_t prompt =
      std::max<std::int64_t>(2, whole_at(t, row, "system_prompt_tokens", 1) + whole_at(t, row, "question_tokens", 1));
  const std::int64_t users =
      std::max<std::int64_t>(1, whole_at(t, row, "system_prompts", 1) * whole_at(t, row, "users_per_system_prompt", 1));
  std::vector<std::string> scenarios;
  const std::string rates = t.text(row, "rate_rps");
  const auto stages = 1 + std::count(rates.begin(), rates.end(), '+');
  const double duration = t.needed(row, "duration_s", 1) / static_cast<double>(stages);
  for (std::size_t from = 0; from < rates.size();) {
    const std::size_t plus = std::min(rates.find('+', from), rates.size());
    c.traffic =
        fmt::format("rate: {}/s, input: 1, output: {}, prefix: {{tokens: {}, groups: {}}}, duration: {} s",
                    rates.substr(from, plus - from), whole_at(t, row, "output_tokens", 1), prompt - 1, users, duration);
    scenarios.push_back(yaml_of(out.id, c));
    from = plus + 1;
  }
  return scenarios;
}

/// A rate beyond any engine's.
constexpr double kAtOnce = 1'000'000;

std::string all_at_once(std::int64_t requests, std::int64_t input, std::int64_t output) {
  return fmt::format("rate: {}/s, arrivals: constant, requests: {}, input: {}, output: {}, sampling: greedy", kAtOnce,
                     requests, input, output);
}

/// All prompts in one iteration, and then all answers.
void set_static_batch(ServedCell& c, std::int64_t batch, std::int64_t input, std::int64_t output) {
  c.pool = fmt::format(", max_sequences: {}, max_batched_tokens: {}", batch, std::max(batch, batch * input));
  c.traffic = fmt::format("concurrency: {}, requests: {}, input: {}, output: {}, sampling: greedy", batch, batch, input,
                          output);
}

std::vector<std::string> offline_scenarios(const TableFile& t, std::size_t row, ServingRow& out) {
  const std::string version = t.text(row, "version");
  out.group = fmt::format("{} {} {}", version, t.text(row, "device"), t.text(row, "model"));
  take_measured(out, t, row, "tokens_per_s_gpu", "tokens_per_s_per_gpu");
  const bool fixed = version.find("static batch") != std::string::npos;
  if (fixed) take_measured(out, t, row, "ttft_ms", "ttft_ms");
  ServedCell c;
  c.device = name_here(kDevices, t.text(row, "device"), "the device");
  c.engine = "trtllm-1.0";
  c.model = model_yaml(t.text(row, "model"));
  c.weights = name_here(kTypes, t.text(row, "weights"), "the type");
  if (c.weights != "bf16") c.cache = "fp8";
  c.tensor = whole_at(t, row, "tp", 1);
  c.pipeline = whole_at(t, row, "pp", 1);
  c.attention_data = whole_at(t, row, "attention_dp", 1);
  c.expert = whole_at(t, row, "ep", 1);
  c.gpus = c.tensor * c.pipeline * c.attention_data;
  if (fixed) {
    set_static_batch(c, whole_at(t, row, "batch", 1), whole_at(t, row, "isl", 1), whole_at(t, row, "osl", 1));
    return {yaml_of(out.id, c)};
  }
  if (c.model.starts_with("gpt-oss")) take_checkpoint(c, t.text(row, "model"), t.text(row, "weights"));
  const auto requests = static_cast<std::int64_t>(t.number(row, "requests").value_or(1000));
  c.habits = "host: {token: 0 s}";  // trtllm-bench reads tokens, no text
  if (version.find("v1.0") != std::string::npos) {
    // Its overview: mixtures with --ep and enable_attention_dp, the sizes of graphs, and the cache's share.
    const std::string& model = t.text(row, "model");
    if (model.starts_with("Qwen3") || model.starts_with("Llama-4")) {
      std::swap(c.tensor, c.attention_data);
      c.expert = c.attention_data;
    }
    c.habits += ", graph_sizes: '1 2 4 8 16 32 64 128 256 384 512 1024 2048 4096 8192'";
    c.pool = ", memory_utilization: 0.95";
  }
  c.traffic = all_at_once(requests, whole_at(t, row, "isl", 1), whole_at(t, row, "osl", 1));
  return {yaml_of(out.id, c)};
}

/// Runs of Splitwise: one batch at a time, prompts and then answers, under the vLLM of its time.
std::vector<std::string> power_scenarios(const TableFile& t, std::size_t row, ServingRow& out) {
  out.group = fmt::format("static batch {} {}", t.text(row, "device"), t.text(row, "model"));
  take_measured(out, t, row, "prompt_ms", "ttft_ms");
  take_measured(out, t, row, "token_ms", "tpot_ms");
  ServedCell c;
  c.device = name_here(kDevices, t.text(row, "device"), "the device");
  c.engine = "vllm-0.2";
  c.model = model_yaml(t.text(row, "model"));
  c.gpus = c.tensor = whole_at(t, row, "tp", 1);
  set_static_batch(c, whole_at(t, row, "batch", 1), whole_at(t, row, "prompt_tokens", 1),
                   whole_at(t, row, "output_tokens", 2));
  return {yaml_of(out.id, c)};
}

/// AMD's and Oracle's figures of vLLM on Instinct devices.
std::vector<std::string> amd_scenarios(const TableFile& t, std::size_t row, ServingRow& out) {
  const std::string kind = t.text(row, "kind");
  out.group = fmt::format("{} {}", t.text(row, "device"), kind);
  take_measured(out, t, row, "tokens_per_s", "tokens_per_s");
  if (t.text(row, "isl").empty()) throw sim::UserError("the source does not state how long prompts and answers are");
  ServedCell c;
  c.device = name_here(kDevices, t.text(row, "device"), "the device");
  c.engine = "vllm-0.15";
  c.model = model_yaml(t.text(row, "model"));
  c.weights = name_here(kTypes, t.text(row, "weights"), "the type");
  c.cache = t.text(row, "kv") == "fp8" ? "fp8" : "bf16";
  c.gpus = c.tensor = whole_at(t, row, "tp", 1);
  const std::int64_t input = whole_at(t, row, "isl", 1), output = whole_at(t, row, "osl", 1);
  if (kind.find("static batch") != std::string::npos) {
    set_static_batch(c, whole_at(t, row, "batch", 1), input, output);
    return {yaml_of(out.id, c)};
  }
  const std::int64_t sequences = whole_at(t, row, "max_num_seqs", 256);
  c.pool =
      fmt::format(", max_sequences: {}, max_batched_tokens: {}", sequences, std::max<std::int64_t>(8192, sequences));
  c.traffic = all_at_once(whole_at(t, row, "requests", 1000), input, output);
  return {yaml_of(out.id, c)};
}

/// What MLPerf's tasks ask: mean and most tokens of prompts (max_input_len of closed/NVIDIA/configs), requests of the
/// data set, the longest answer (their mean the row has). Lengths scatter log-normally where answers are not all as
/// long; how far is assumed.
struct InferenceTask {
  std::string_view name, model;
  std::int64_t input, longest_prompt, requests, longest;
  bool fixed_answers;
};
constexpr std::array<InferenceTask, 5> kTasks{{{"llama2-70b-99", "llama2-70b", 290, 1024, 24576, 1024, false},
                                               {"llama2-70b-99.9", "llama2-70b", 290, 1024, 24576, 1024, false},
                                               {"llama3.1-405b", "llama3.1-405b", 9400, 20000, 8313, 2000, false},
                                               {"llama3.1-8b", "llama3.1-8b", 780, 2540, 13368, 128, true},
                                               {"deepseek-r1", "deepseek-v3", 800, 3140, 4388, 20000, false}}};

/// The mean of log-normal lengths that is `mean` once none is more than `most`.
double mean_uncut(double mean, double most, double variation) {
  const double sigma = std::sqrt(std::log1p(variation * variation));
  const auto below = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  const auto cut = [&](double uncut) {
    const double at = (std::log(most / uncut) + sigma * sigma / 2) / sigma;
    return uncut * below(at - sigma) + most * (1 - below(at));
  };
  double low = mean, high = 2 * mean;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (cut(middle) < mean ? low : high) = middle;
  }
  return low;
}

/// Layout and limits of a submission.
ServedCell inference_cell(const TableFile& t, std::size_t row, const InferenceTask& task) {
  ServedCell c;
  c.device = name_here(kDevices, t.text(row, "device"), "the device");
  c.model = task.model;
  // Llama 2 and 3.1 405B run as engines of TensorRT, the others as PyTorch's behind a server that reads tokens
  // (closed/NVIDIA/code/*/tensorrt: DEFAULT_CORE_TYPE, README.md; configs/*: batch_scheduler_policy).
  const bool vllm = t.text(row, "framework").starts_with("vLLM");
  const bool built = c.model == "llama2-70b" || c.model == "llama3.1-405b";
  c.engine = vllm ? "vllm-0.15" : built ? "trtllm-1.0-tensorrt" : "trtllm-1.0";
  if (!vllm && !built) c.habits = "batching: trtllm-max-utilization, host: {token: 0 s}";
  // There without gemm_allreduce_plugin.
  if (built && c.device == "gb300") c.habits = "kernels: {sums: own_kernels}";
  c.weights = name_here(kTypes, t.text(row, "weights"), "the type");
  if (c.model == "deepseek-v3" && c.weights == "nvfp4") c.attention = "bf16";
  c.cache = t.text(row, "kv").empty() ? "bf16" : t.text(row, "kv");
  c.tensor = whole_at(t, row, "tp", 1);
  if (t.text(row, "attention_dp") == "True") std::swap(c.tensor, c.attention_data);
  c.pipeline = whole_at(t, row, "pp", 1);
  c.expert = whole_at(t, row, "ep", 1);
  const std::int64_t each = c.tensor * c.attention_data * c.pipeline;
  c.replicas = std::max<std::int64_t>(1, whole_at(t, row, "gpus", each) / each);
  c.gpus = c.replicas * each;
  const std::int64_t tokens = whole_at(t, row, "max_num_tokens", 8192);
  c.pool =
      fmt::format(", max_sequences: {}, max_batched_tokens: {}{}", std::min(tokens, whole_at(t, row, "max_batch", 256)),
                  tokens, t.text(row, "chunked") == "True" ? ", chunked_prefill: true" : "");
  return c;
}

std::vector<std::string> inference_scenarios(const TableFile& t, std::size_t row, ServingRow& out) {
  const std::string scenario = t.text(row, "scenario"), name = t.text(row, "model");
  const bool offline = scenario == "Offline";
  out.group = fmt::format("mlperf {} {} {}", scenario, t.text(row, "device"), name);
  if (offline) {
    take_measured(out, t, row, "tokens_per_s", "tokens_per_s");
  } else {
    take_measured(out, t, row, "ttft_mean_ms", "ttft_ms");
    take_measured(out, t, row, "tpot_mean_ms", "tpot_ms");
  }
  const auto* task =
      std::find_if(kTasks.begin(), kTasks.end(), [&](const InferenceTask& one) { return one.name == name; });
  if (task == kTasks.end()) throw sim::UserError(fmt::format("how long the prompts of {} are is not known", name));
  if (t.text(row, "tp").empty()) throw sim::UserError("the source does not state its layout");
  const auto answer = t.number(row, "mean_output_tokens");
  if (!answer) throw sim::UserError("the source does not state how long answers are");
  ServedCell c = inference_cell(t, row, *task);
  constexpr double kVariation = 0.7;
  const std::string scatter = fmt::format("distribution: lognormal, variation: {}", kVariation);
  const auto most = static_cast<double>(task->longest_prompt);
  const std::string lengths =
      fmt::format("input: {{mean: {:.0f}, {}, max: {}}}, output: {}",
                  mean_uncut(static_cast<double>(task->input), most, kVariation), scatter, task->longest_prompt,
                  task->fixed_answers ? fmt::format("{:.0f}", *answer)
                                      : fmt::format("{{mean: {}, {}, max: {}}}", *answer, scatter, task->longest));
  const double rate = offline ? kAtOnce : t.needed(row, "offered_requests_per_s", 0.001);
  // A run lasts ten minutes and more (loadgen's min_duration), and asks the data set again and again. Offline, of its
  // length the log tells when 99 % were through; of a long one so many rounds of full batches are as good as all.
  constexpr double kServerSeconds = 600, kRounds = 20;
  const double offline_s = t.number(row, "latency_p99_s").value_or(0) / 0.99;
  const double asked =
      offline ? t.number(row, "requests_per_s").value_or(0) * offline_s : std::ceil(kServerSeconds * rate);
  const double rounds = kRounds * static_cast<double>(c.replicas * c.attention_data * c.pipeline) *
                        t.number(row, "max_batch").value_or(256);
  const std::int64_t requests = asked > 0 ? std::llround(std::min(asked, rounds)) : task->requests;
  c.traffic = fmt::format("rate: {}/s, {}requests: {}, {}, sampling: greedy", rate,
                          offline ? "arrivals: constant, " : "", requests, lengths);
  return {yaml_of(out.id, c)};
}

std::vector<std::string> capacity_scenarios(const TableFile& t, std::size_t row, ServingRow& out) {
  out.id = fmt::format("{}-tp{}-{}", t.text(row, "model"), t.text(row, "tp"), t.text(row, "max_num_batched_tokens"));
  out.group = "kv-capacity " + t.text(row, "device");
  take_measured(out, t, row, "kv_blocks_of_16", "kv_blocks");
  ServedCell c;
  c.device = name_here(kDevices, t.text(row, "device"), "the device");
  c.engine = t.text(row, "source").find("vLLM 0.19") != std::string::npos ? "vllm-0.17" : "vllm-0.15";
  c.model = model_yaml(t.text(row, "model"));
  c.weights = name_here(kTypes, t.text(row, "weights"), "the type");
  take_recipe(c);
  c.tensor = c.gpus = whole_at(t, row, "tp", 1);
  c.pool = fmt::format(", max_sequences: {}, max_batched_tokens: {}, memory_utilization: {}",
                       whole_at(t, row, "max_num_seqs", 128), whole_at(t, row, "max_num_batched_tokens", 2048),
                       t.number(row, "gpu_mem_util").value_or(0.9));
  c.traffic = "concurrency: 1, requests: 1, input: 8, output: 2";
  return {yaml_of("capacity", c)};
}

using RowReader = std::vector<std::string> (*)(const TableFile&, std::size_t, ServingRow&);

struct TableForm {
  std::string_view column_a, column_b;  // that tell it
  RowReader read;
};
constexpr std::array<TableForm, 7> kForms{{{"concurrency", "tpot_ms", points_scenarios},
                                           {"rate_rps", "itl_mean_ms", online_scenarios},
                                           {"tokens_per_s_gpu", "isl", offline_scenarios},
                                           {"kv_blocks_of_16", "sum_gb", capacity_scenarios},
                                           {"mean_output_tokens", "offered_requests_per_s", inference_scenarios},
                                           {"prompt_ms", "token_ms", power_scenarios},
                                           {"tokens_per_s", "max_num_seqs", amd_scenarios}}};

const TableForm* form_of(const TableFile& table) {
  for (const TableForm& form : kForms) {
    if (table.has(form.column_a) && table.has(form.column_b)) return &form;
  }
  return nullptr;
}

void predict_row(ServingRow& row, const std::vector<std::string>& scenarios) {
  std::map<std::string, double> sums;
  double weight = 0;
  for (const std::string& text : scenarios) {
    row.scenario += text;
    const ServingStudy study = study_serving(scenarios::load_serving(scenarios::parse_yaml(text, row.id)));
    const auto n = static_cast<double>(std::max<std::int64_t>(1, study.completed));
    weight += n;
    const double rate = study.duration_s > 0 ? study.output_tokens / study.duration_s : 0;
    for (const auto& [metric, value] : {std::pair<const char*, double>("ttft_ms", 1e3 * study.ttft.mean),
                                        {"tpot_ms", 1e3 * study.tpot.mean},
                                        {"itl_ms", 1e3 * study.itl.mean},
                                        {"e2e_ms", 1e3 * study.e2el.mean},
                                        {"ttft_p99_ms", 1e3 * study.ttft.p99},
                                        {"e2e_p99_ms", 1e3 * study.e2el.p99},
                                        {"tokens_per_s", rate},
                                        {"tokens_per_s_per_gpu", rate / static_cast<double>(study.gpus())},
                                        {"kv_blocks", static_cast<double>(study.blocks)}})
      sums[metric] += n * value;
  }
  for (const auto& [metric, value] : row.measured) {
    if (const auto sum = sums.find(metric); sum != sums.end()) row.predicted[metric] = sum->second / weight;
  }
}

struct ErrorSummary {
  std::vector<double> errors;
  ordered_json json() const {
    std::vector<double> absolute;
    double sum = 0, absolute_sum = 0;
    for (const double error : errors) {
      absolute.push_back(std::abs(error));
      sum += error;
      absolute_sum += std::abs(error);
    }
    std::sort(absolute.begin(), absolute.end());
    const auto n = static_cast<double>(errors.size());
    const std::size_t half = absolute.size() / 2;
    const double median = absolute.size() % 2 == 1 ? absolute[half] : (absolute[half - 1] + absolute[half]) / 2;
    return {{"n", errors.size()},
            {"mape_pct", absolute_sum / n},
            {"median_ape_pct", median},
            {"max_ape_pct", absolute.back()},
            {"bias_pct", sum / n}};
  }
};

using ErrorSummaries = std::map<std::string, ErrorSummary>;

ordered_json json_of_summaries(const ErrorSummaries& summaries) {
  ordered_json json = ordered_json::object();
  for (const auto& [metric, summary] : summaries) json[metric] = summary.json();
  return json;
}

}  // namespace

std::optional<double> ServingRow::error_pct(const std::string& metric) const {
  const auto m = measured.find(metric), p = predicted.find(metric);
  if (m == measured.end() || p == predicted.end() || !(p->second > 0)) return std::nullopt;
  const bool rate = metric.starts_with("tokens_per_s");
  return 100 * ((rate ? m->second / p->second : p->second / m->second) - 1);
}

std::optional<std::string> served_device_here(const std::string& name) {
  for (const NameHere& one : kDevices) {
    if (one.table == name) return std::string(one.here);
  }
  return std::nullopt;
}

bool is_serving_table(const std::string& file) {
  if (!file.ends_with(".csv") && !file.ends_with(".csv.gz")) return false;
  const TableFile table = TableFile::parse(file, read_packed_text(file, "a table of measurements"));
  return is_request_table(table) || is_seconds_table(table) || form_of(table) != nullptr;
}

std::vector<ServingRow> rows_of_table(const TableFile& table, unsigned jobs,
                                      const std::function<void(std::size_t, ServingRow&)>& predict) {
  std::vector<ServingRow> rows(table.rows());
  for_each_parallel(rows.size(), jobs, "rows", [&](std::size_t i) {
    ServingRow& row = rows[i];
    row.id = table.text(i, "id");
    try {
      predict(i, row);
      if (!table.text(i, "suspect").empty()) {
        row.status = "suspect";
        row.message = table.text(i, "suspect");
      }
    } catch (const sim::UserError& error) {
      row.status = "error";
      row.message = error.what();
    }
  });
  return rows;
}

std::vector<ServingRow> validate_serving(const std::string& file, unsigned jobs) {
  const TableFile table = TableFile::parse(file, read_packed_text(file, "a table of measurements"));
  if (is_request_table(table)) return validate_requests(table);
  if (is_seconds_table(table)) return validate_seconds(table);
  const TableForm* form = form_of(table);
  if (form == nullptr) throw sim::UserError(fmt::format("{}: is no table of measured serving", file));
  return rows_of_table(table, jobs,
                       [&](std::size_t i, ServingRow& row) { predict_row(row, form->read(table, i, row)); });
}

ordered_json serving_rows_json(const std::vector<ServingRow>& rows) {
  ordered_json json;
  json["rows"] = ordered_json::array();
  ErrorSummaries all;
  std::map<std::string, ErrorSummaries> groups;
  std::map<std::string, std::int64_t> counts;
  for (const ServingRow& row : rows) {
    ordered_json one{{"id", row.id}, {"group", row.group}, {"status", row.status}};
    if (!row.message.empty()) one["message"] = row.message;
    one["measured"] = row.measured;
    one["predicted"] = row.predicted;
    if (!row.scenario.empty()) one["as_scenario"] = row.scenario;
    one["error_pct"] = ordered_json::object();
    for (const auto& [metric, value] : row.measured) {
      const auto error = row.error_pct(metric);
      if (!error) continue;
      one["error_pct"][metric] = *error;
      if (row.status != "ok") continue;
      all[metric].errors.push_back(*error);
      groups[row.group][metric].errors.push_back(*error);
    }
    ++counts[row.status];
    json["rows"].push_back(std::move(one));
  }
  json["groups"] = ordered_json::object();
  for (const auto& [name, summaries] : groups) json["groups"][name] = json_of_summaries(summaries);
  json["summary"] = json_of_summaries(all);
  json["statuses"] = counts;
  return json;
}

void write_serving_rows(std::ostream& out, const std::vector<ServingRow>& rows) {
  const ordered_json json = serving_rows_json(rows);
  TextTable table({{"group", Align::left}, {"metric", Align::left}, {"rows"}, {"median"}, {"mean"}, {"bias"}});
  const auto add = [&](const std::string& name, const ordered_json& summaries) {
    for (const auto& [metric, s] : summaries.items())
      table.add_row({shortened(name, 44), metric, std::to_string(s["n"].get<std::int64_t>()),
                     fmt::format("{:.1f} %", s["median_ape_pct"].get<double>()),
                     fmt::format("{:.1f} %", s["mape_pct"].get<double>()), error_text(s["bias_pct"].get<double>())});
  };
  for (const auto& [name, summaries] : json["groups"].items()) add(name, summaries);
  table.add_note();
  add("all", json["summary"]);
  table.write(out);
  std::map<std::string, std::int64_t> reasons;
  for (const ServingRow& row : rows) {
    if (row.status == "error") ++reasons[row.message.substr(0, row.message.find('\n'))];
    if (row.status == "suspect") ++reasons["run, and left out of the means: " + row.message];
  }
  if (!reasons.empty()) out << "\nNot counted\n";
  for (const auto& [reason, count] : reasons) out << wrapped(fmt::format("{} rows: {}", count, reason), "  - ", "    ");
}

}  // namespace orrery::tools
