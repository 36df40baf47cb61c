// The scripts, one function an engine. See served_launches.h. A flag that moves no times, or none that are modelled
// (stream intervals, fusions that kernels' tables have), is left out.
#include "tools/study/served_launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "scenarios/scenario.h"
#include "tools/study/table_file.h"

namespace orrery::tools {

namespace {

bool is_blackwell(const LaunchedRow& r) { return r.device.starts_with("b") || r.device.starts_with("gb"); }

std::int64_t up_to(std::int64_t tokens, std::int64_t step) { return (tokens + step - 1) / step * step; }

/// Keys of a pool; 0: the engine's default.
std::string limits(std::int64_t sequences, std::int64_t tokens, double share) {
  std::string text = ", prefix_caching: false";
  if (tokens > 0 && sequences > 0) sequences = std::min(sequences, tokens);
  if (sequences > 0) text += fmt::format(", max_sequences: {}", sequences);
  if (tokens > 0) text += fmt::format(", max_batched_tokens: {}", tokens);
  if (share > 0) text += fmt::format(", memory_utilization: {}", share);
  return text;
}

/// 70b_fp[48]_*_docker.sh, gptoss_fp4_*.sh, minimaxm2.5_*.sh, kimik2.5_*.sh.
ServedLaunch of_vllm(const LaunchedRow& r) {
  ServedLaunch launch;
  constexpr std::int64_t kBatched = 8192;
  if (r.model == "Llama-3.1-70B") {
    launch.cache = "fp8";
    launch.pool = limits(is_blackwell(r) ? 512 : r.concurrency, kBatched, 0.9);
  } else if (r.model == "gpt-oss-120b") {
    if (is_blackwell(r))
      launch.cache = "fp8";
    else if (r.day >= "2026")
      launch.software = "kernels: {experts: marlin}";  // VLLM_MXFP4_USE_MARLIN
    launch.pool = limits(is_blackwell(r) ? 512 : r.concurrency, kBatched, 0.9);
  } else if (r.model == "Kimi-K2.5") {
    launch.pool = limits(r.concurrency, 0, r.precision == "int4" ? 0.95 : 0.9);
  } else if (r.model == "MiniMax-M2.5") {
    // From April 2026 on, with v0.19.
    if (is_blackwell(r) && r.day >= "2026-04") {
      launch.cache = "fp8";
      launch.pool = limits(0, 2 * r.input, 0.9);
      launch.software = "graph_sizes: '1 2 4 8:248:8 256:2048:16'";  // --max-cudagraph-capture-size
      if (r.day >= "2026-04-21") launch.router = "tf32";             // VLLM_FLOAT32_MATMUL_PRECISION=high
    } else {
      const bool h100 = r.device == "h100-sxm";
      launch.pool = limits(h100 ? 256 : 0, 0, h100 ? 0.9 : 0.95);
      if (!h100) launch.expert = r.tensor;  // [ "$EP_SIZE" -ge 1 ]
    }
  }
  return launch;
}

/// dsr1_fp[48]_*_trt_mtp.sh came on 2026-01-14 and ran again, on a release of its own, on 2026-02-05 and 06 (commits
/// bf345672, 5d517074, 0aae52d4).
bool drafts(const LaunchedRow& r) {
  return r.version == "1.2.0rc6.post3" || (r.version == "1.1.0rc2.post2" && r.day >= "2026-01-14");
}

/// Three drafts an iteration, one where attention is data-parallel. How many are accepted is not published of these
/// runs; taken are the lengths of its successor while it thinks (golden_al_distribution/dsv4_mtp.yaml: 2.49 and 1.79).
std::string drafted(const LaunchedRow& r) {
  return r.attention_data > 1 ? ", speculative: {tokens: 1, accepted: 0.79}"
                              : ", speculative: {tokens: 3, accepted: 1.49}";
}

/// Until 2025-11-02 the scripts chose how experts and attention were cut, by the load; later the columns have it.
void set_by_load(const LaunchedRow& r, ServedLaunch& launch) {
  const std::int64_t gpus = r.tensor * r.attention_data;
  const bool long_prompts = r.input == 8192, even = r.input == 1024 && r.output == 1024;
  std::int64_t experts_from = 1, attention_from = 65;
  if (r.precision == "fp4") {
    attention_from = long_prompts ? 33 : 256;
    experts_from = gpus == 4 || long_prompts ? 33 : even ? 9 : 17;
  } else if (r.device == "h200-sxm" ? long_prompts : even) {
    attention_from = 33;
  }
  launch.expert = r.concurrency >= experts_from ? gpus : 1;
  launch.attention_data = r.concurrency >= attention_from ? gpus : 1;
}

/// 70b_fp[48]_*_trt_*.sh, dsr1_fp[48]_*_trt*.sh, gptoss_fp4_*_trt*.sh.
ServedLaunch of_trtllm(const LaunchedRow& r) {
  ServedLaunch launch;
  if (r.model == "Llama-3.1-70B") {
    launch.pool = limits(0, 0, 0);
    if (r.input == 1024 && r.output == 1024 && r.tensor < 8) launch.pool += ", gather: {iterations: 20, fill: 0.9}";
  } else if (r.model == "gpt-oss-120b") {
    launch.cache = is_blackwell(r) ? "fp8" : "bf16";
    launch.pool = limits(is_blackwell(r) ? 512 : r.concurrency, 20000, 0.85);
  } else if (r.model == "DeepSeek-R1") {
    launch.cache = "fp8";
    const std::int64_t least = up_to(r.concurrency + r.input + 64, 64);
    const bool roomy = is_blackwell(r) && r.day >= "2026-01-29";
    launch.pool = limits(0, roomy ? std::max<std::int64_t>(8192, least) : least, is_blackwell(r) ? 0.8 : 0.75);
    const bool blocks = r.precision == "fp8";
    if (r.day <= "2025-11-02") set_by_load(r, launch);
    const std::int64_t groups = launch.attention_data > 0 ? launch.attention_data : r.attention_data;
    if (groups > 1)  // attention_dp_config: enable_balance
      launch.pool += fmt::format(", gather: {{iterations: 60, prompts: {}}}", groups);
    else if (roomy && blocks && r.input == 1024 && r.output == 1024 && r.concurrency >= 64 && !drafts(r))
      launch.pool += ", gather: {iterations: 40, fill: 0.8}";
    if (r.day < "2026" && blocks)  // moe_config.backend: DEEPGEMM
      launch.software = "kernels: {experts: grouped}";
    if (drafts(r)) launch.pool += drafted(r);
  }
  return launch;
}

/// qwen3.5_*.sh; what ran on B300 ahead of its own script of 2026-04-17 was launched as on B200.
ServedLaunch of_qwen35(const LaunchedRow& r) {
  ServedLaunch launch;
  constexpr std::int64_t kPiece = 16384, kLong = 32768, kMost = 128;
  const bool bf16 = r.precision == "bf16", fp8 = r.precision == "fp8", b300 = r.device == "b300-sxm";
  if (!bf16) {
    launch.cache = "fp8";
    launch.states = "bf16";  // --mamba-ssm-dtype
  }
  if (!is_blackwell(r)) {
    launch.pool = limits(kMost, kPiece, 0.8);
  } else if (fp8 && r.day >= (b300 ? "2026-04-17" : "2026-04-30")) {
    launch.pool = limits(b300 ? r.concurrency : 0, kPiece, 0.8);
    launch.pool += fmt::format(", polls_every: {}", !b300 && r.concurrency > 4 ? 30 : 10);
  } else {
    launch.pool = limits(kMost, kLong, bf16 || fp8 ? 0.82 : b300 ? 0.8 : 0.85);
    launch.pool += fmt::format(", polls_every: {}", r.concurrency >= 16 ? 30 : 10);
  }
  return launch;
}

/// dsr1_fp[48]_*.sh, glm5_fp8_*.sh.
ServedLaunch of_sglang(const LaunchedRow& r) {
  ServedLaunch launch;
  if (r.model == "Qwen3.5-397B-A17B") return of_qwen35(r);
  if (r.model == "GLM-5" && is_blackwell(r)) {
    launch.cache = "fp8";
    launch.pool = limits(r.concurrency, 32768, 0.85);
    return launch;
  }
  if (r.model != "DeepSeek-R1") return launch;
  if (!is_blackwell(r)) {
    launch.pool = limits(r.input == 1024 && r.output == 1024 ? 512 : 256, 32768, 0.82);
    return launch;
  }
  launch.cache = "fp8";
  if (r.precision == "fp4")
    launch.pool = limits(256, 16384, 0.85);
  else if (r.tensor * r.attention_data == 4)
    launch.pool = limits(32, 8192, 0.95);
  else
    launch.pool = limits(128, 32768, 0.82);
  // --scheduler-recv-interval
  launch.pool += fmt::format(", polls_every: {}", r.concurrency >= 16 && r.tensor * r.attention_data != 4 ? 30 : 10);
  return launch;
}

/// aiconfigurator's generator (backends/trtllm.py, rule_plugin/benchmark/*.rule): a prompt and 1500 tokens beside what
/// decodes.
ServedLaunch of_laboratory(const LaunchedRow& r) {
  ServedLaunch launch;
  constexpr std::int64_t kBeside = 1500, kBlock = 32;
  if (r.engine == "trtllm")
    launch.pool = limits(r.concurrency, up_to(r.concurrency + r.input + kBeside, kBlock), 0.8);
  else
    launch.pool = limits(r.concurrency, r.concurrency + r.input + kBeside, 0);
  // Its generator has written launches of SGLang (agg enable_mixed_chunk) since the end of 2025.
  if (r.engine == "sglang" && !r.version.starts_with("0.5.1.")) launch.pool += ", batching: sglang-mixed";
  return launch;
}

TableFile launches_in(const char* name) {
  const std::string file = scenarios::data_directory() + "/scenarios/published/" + name;
  return TableFile::parse(file, std::filesystem::exists(file) ? read_packed_text(file, "limits of workers") : "");
}

const TableFile& known_pools() {
  static const TableFile kTable = launches_in("served_pools.csv");
  return kTable;
}

const TableFile& known_recipes() {
  static const TableFile kTable = launches_in("served_recipes.csv");
  return kTable;
}

bool lists(const std::string& numbers, std::int64_t number) {
  return (" " + numbers + " ").find(fmt::format(" {} ", number)) != std::string::npos;
}

/// Whether a line of such a table is of the row's workers, under its load.
bool is_launch_of(const TableFile& table, std::size_t i, const LaunchedRow& r, const LaunchedApart& apart) {
  const auto is = [&](const char* column, std::int64_t number) {
    return table.number(i, column) == static_cast<double>(number);
  };
  return table.text(i, "engine") == r.engine && table.text(i, "device") == r.device &&
         table.text(i, "model") == r.model && table.text(i, "precision") == r.precision && is("input", r.input) &&
         is("output", r.output) && is("prefill_workers", apart.prefill.workers) &&
         is("decode_workers", apart.decode.workers) && is("decode_gpus", apart.decode.gpus()) &&
         lists(table.text(i, "concurrencies"), r.concurrency);
}

WorkersOf workers_in(const TableFile& table, std::size_t i, const std::string& role, std::int64_t workers) {
  const auto of = [&](const char* column) {
    return static_cast<std::int64_t>(table.number(i, role + column).value_or(0));
  };
  WorkersOf out{workers, of("_tensor"), 1, of("_attention"), of("_expert"), of("_sequences"), of("_tokens")};
  out.max_cache_tokens = of("_held");
  out.redundant_experts = of("_copies");
  out.memory_share = table.number(i, role + "_share").value_or(0);
  return out;
}

/// The launch of the row's recipe: the one that is cut as the columns say, if one is, and of those the last of its day.
bool set_recipe(const LaunchedRow& r, LaunchedApart& apart) {
  const TableFile& table = known_recipes();
  const auto alike = [](const WorkersOf& a, const WorkersOf& b) {
    return a.tensor == b.tensor && a.attention_data == b.attention_data;
  };
  std::optional<LaunchedApart> best;
  std::pair<bool, std::string> best_of;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    if (!is_launch_of(table, i, r, apart)) continue;
    const LaunchedApart one{workers_in(table, i, "prefill", apart.prefill.workers),
                            workers_in(table, i, "decode", apart.decode.workers), table.text(i, "cache"),
                            static_cast<std::int64_t>(table.number(i, "front_ends").value_or(1)),
                            table.text(i, "rows") == "gathered" ? "kernels: {few_ranks: gather}" : ""};
    const std::string& since = table.text(i, "since");
    // A recipe may have come to the repository behind the run; the first one then is the nearest.
    const std::pair of(alike(one.prefill, apart.prefill) && alike(one.decode, apart.decode),
                       since <= r.day ? since : std::string());
    if (best && !(of > best_of)) continue;
    best = one;
    best_of = of;
  }
  if (!best) return false;
  apart = *best;
  // Limits that the load never comes to would take memory here that the engine had for its cache.
  for (WorkersOf* role : {&apart.prefill, &apart.decode})
    if (role->max_sequences > 0) role->max_sequences = std::min(role->max_sequences, r.concurrency);
  return true;
}

void set_limits(const LaunchedRow& r, LaunchedApart& apart) {
  const TableFile& table = known_pools();
  for (std::size_t i = 0; i < table.rows(); ++i) {
    if (!is_launch_of(table, i, r, apart)) continue;
    const auto limit = [&](const char* column) { return static_cast<std::int64_t>(table.needed(i, column)); };
    apart.decode.max_sequences = limit("decode_batch");
    apart.prefill.max_batched_tokens = limit("prefill_tokens");
    apart.prefill.max_sequences = limit("prefill_batch");
    return;
  }
}

}  // namespace

LaunchedApart launched_apart(const LaunchedRow& row, LaunchedApart apart) {
  if (set_recipe(row, apart)) return apart;
  // Its workers with data-parallel attention spread experts over all of their GPUs (--ep-size), which columns of 2025
  // lack.
  for (WorkersOf* role : {&apart.prefill, &apart.decode})
    if (row.engine == "sglang" && role->attention_data > 1 && role->expert == 1) role->expert = role->gpus();
  // Recipes kimik2.5-fp4-gb200-dynamo-vllm/disagg-gb200-1p1d-dep4-dep16 and -1p4d-dep4-tep4.
  if (row.engine == "vllm" && row.model == "Kimi-K2.5" && row.device == "gb200") {
    std::swap(apart.prefill.tensor, apart.prefill.attention_data);
    if (apart.decode.tensor == 16) std::swap(apart.decode.tensor, apart.decode.attention_data);
  }
  set_limits(row, apart);
  return apart;
}

ServedLaunch launch_of(const LaunchedRow& row) {
  if (row.day.empty()) return of_laboratory(row);
  if (row.engine == "vllm") return of_vllm(row);
  return row.engine == "trtllm" ? of_trtllm(row) : of_sglang(row);
}

}  // namespace orrery::tools
