// Readers of serving_samples.h.
#include "calibration/measure/serving_samples.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "calibration/measure/engine_tables.h"
#include "calibration/measure/table.h"
#include "sim/error.h"
#include "sim/real.h"

namespace orrery::calibration {
namespace {

std::uint64_t mixed(std::uint64_t h, double value) {
  std::uint64_t x = h ^ (static_cast<std::uint64_t>(value * 1000) + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

/// The sizes of a row, whatever its types and engine.
std::uint64_t shape_of(const TableLine& line) {
  std::uint64_t h = 1;
  for (const char* column : {"batch",    "kv_tokens", "new_tokens", "chunk_tokens", "cached_tokens",
                             "heads",    "kv_heads",  "head_dim",   "window",       "m",
                             "n",        "k",         "tokens",     "hidden",       "expert_ffn",
                             "top_k",    "experts",   "moe_tp",     "moe_ep",       "gpus",
                             "elements", "nodes",     "seq",        "k_heads",      "v_heads",
                             "groups"})
    if (line.has(column)) h = mixed(h, zero_or_more(line, column));
  return h;
}

namespace {

using sim::Place;
using sim::real;
using sim::UserError;

double cache_bytes_of(const TableLine& line) { return line.text("kv_dtype") == "fp8" ? 1 : 2; }

void add(const TableLine& line, ServingSamples& out, const Asked& shape, Engine engine, double seconds) {
  out.rows.push_back({engine, shape, seconds, shape_of(line)});
}

void read_decode(const TableLine& line, ServingSamples& out) {
  DecodeAttention a;
  a.sequences = real(line.count("batch"));
  const double tokens = real(line.count("kv_tokens"));
  a.heads = real(line.count("heads"));
  a.kv_heads = real(line.count("kv_heads"));
  a.head_dim = real(line.count("head_dim"));
  a.window = zero_or_more(line, "window");
  a.visible = a.sequences * (a.window > 0 ? std::min(a.window, tokens) : tokens);
  a.cached = a.sequences * tokens;
  a.kv_bytes = cache_bytes_of(line);
  add(line, out, asked(a), engine_of(line), measured_seconds(line, "us"));
}

void read_context(const TableLine& line, ServingSamples& out) {
  const PromptPiece piece{real(line.count("batch")), real(line.count("new_tokens")),
                          zero_or_more(line, "cached_tokens")};
  PrefillAttention a;
  a.pieces = {&piece, 1};
  a.heads = real(line.count("heads"));
  a.kv_heads = real(line.count("kv_heads"));
  a.head_dim = real(line.count("head_dim"));
  a.window = zero_or_more(line, "window");
  a.kv_bytes = cache_bytes_of(line);
  a.fp8 = line.text("dtype") == "fp8";
  add(line, out, asked(a), engine_of(line), measured_seconds(line, "us"));
}

void read_latent_decode(const TableLine& line, ServingSamples& out) {
  LatentDecode a;
  a.sequences = real(line.count("batch"));
  a.visible = a.sequences * real(line.count("kv_tokens"));
  a.heads = real(line.count("heads"));
  a.kv_bytes = cache_bytes_of(line);
  add(line, out, asked(a), engine_of(line), measured_seconds(line, "us"));
}

void read_latent_context(const TableLine& line, ServingSamples& out) {
  const PromptPiece piece{real(line.count("batch")), real(line.count("new_tokens")),
                          zero_or_more(line, "cached_tokens")};
  PrefillAttention a;
  a.pieces = {&piece, 1};
  a.heads = a.kv_heads = real(line.count("heads"));
  a.head_dim = 192;
  a.value_dim = 128;
  a.kv_bytes = cache_bytes_of(line);
  a.fp8 = line.text("dtype") == "fp8";
  add(line, out, asked(a), engine_of(line), measured_seconds(line, "us"));
}

/// Widths of the models whose blocks tables hold, by their configurations; none: another model.
std::optional<SparseBlock> sparse_model(std::string_view model) {
  const auto is = [&](std::string_view part) { return model.find(part) != std::string_view::npos; };
  SparseBlock b;
  if (is("DeepSeek-V3.2") || is("GLM-5")) {
    const bool glm = is("GLM-5");
    b.all_heads = glm ? 64 : 128;
    b.hidden = glm ? 6144 : 7168;
    b.q_rank = glm ? 2048 : 1536;
    b.kv_rank = 512;
    b.nope = glm ? 192 : 128;
    b.rope = 64;
    b.value = glm ? 256 : 128;
    b.index_heads = glm ? 32 : 64;
    b.chosen = 2048;
    return b;
  }
  if (is("DeepSeek-V4")) {
    const bool pro = is("V4-Pro");
    b.kind = SparseBlock::Kind::csa;
    b.all_heads = pro ? 128 : 64;
    b.hidden = pro ? 7168 : 4096;
    b.q_rank = pro ? 1536 : 1024;
    b.value = 512;
    b.out_groups = pro ? 16 : 8;
    b.out_rank = 1024;
    b.index_heads = 64;
    b.chosen = pro ? 1024 : 512;
    b.ratio = 4;
    b.window = 128;
    return b;
  }
  if (!is("MiniMax-M3")) return {};
  b.kind = SparseBlock::Kind::msa;
  b.all_heads = 64;
  b.kv_heads = b.index_heads = 4;
  b.hidden = 6144;
  b.chosen = 16 * 128;
  return b;
}

void read_sparse_block(const TableLine& line, ServingSamples& out) {
  const auto type = weight_type(line, "gemm_dtype");
  std::optional<SparseBlock> block = sparse_model(line.text("model"));
  if (!block || !type || (*type != WeightType::bf16 && *type != WeightType::fp8_block && *type != WeightType::nvfp4)) {
    ++out.left_out[!block ? kNoModel : kNoType];
    return;
  }
  const std::string_view op = line.text("op");
  if (op.starts_with("dsv4_hca")) {
    block->kind = SparseBlock::Kind::hca;
    block->index_heads = block->chosen = 0;
    block->ratio = 128;
  }
  if (op.find("skip_indexer") != std::string_view::npos) block->index_heads = 0;
  block->type = *type;
  block->decode = line.has("kv_tokens");
  block->sequences = real(line.count("batch"));
  block->fresh = block->decode ? 1 : real(line.count("new_tokens"));
  block->cached = block->decode ? real(line.count("kv_tokens")) - 1 : zero_or_more(line, "cached_tokens");
  block->heads = real(line.count("heads"));
  block->kv_bytes = line.text("kv_dtype").starts_with("fp8") ? 1 : 2;
  if (line.text("dtype").starts_with("fp8")) block->computed = DataType::fp8;
  add(line, out, asked(*block), engine_of(line), measured_seconds(line, "us"));
}

void read_block(const TableLine& line, ServingSamples& out) {
  if (line.has("op") && !line.text("op").starts_with("mla")) return read_sparse_block(line, out);
  const bool decode = line.has("kv_tokens");
  PromptPiece piece{real(line.count("batch")), 1, 0};
  if (decode) {
    piece.cached = real(line.count("kv_tokens")) - 1;
  } else {
    piece.fresh = real(line.count("new_tokens"));
    piece.cached = zero_or_more(line, "cached_tokens");
  }
  const auto type = weight_type(line, "gemm_dtype");
  const bool other = line.text("model") != "deepseek-ai/DeepSeek-V3";
  if (!type || other) {
    ++out.left_out[other ? kNoModel : kNoType];
    return;
  }
  LatentBlock b;
  b.type = *type;
  b.pieces = {&piece, 1};
  b.decode = decode;
  b.heads = real(line.count("heads"));
  b.kv_bytes = cache_bytes_of(line);
  add(line, out, asked(b), engine_of(line), measured_seconds(line, "us"));
}

void read_product(const TableLine& line, ServingSamples& out) {
  const auto type = weight_type(line, "dtype");
  if (!type) {
    ++out.left_out[kNoType];
    return;
  }
  const ServedProduct p{*type, real(line.count("m")), real(line.count("n")), real(line.count("k"))};
  add(line, out, asked(p), engine_of(line), measured_seconds(line, "us"));
}

void read_mixture(const TableLine& line, ServingSamples& out) {
  const auto type = weight_type(line, "dtype");
  const std::string_view kernel = line.text("kernel");
  if (!type) {
    ++out.left_out[kNoType];
    return;
  }
  if (kernel == "deepepmoe") return read_dispatched(line, out);
  ServedMixture x;
  x.type = *type;
  x.tokens = real(line.count("tokens"));
  x.hidden = real(line.count("hidden"));
  const double parts = real(line.count("moe_tp")), ffn = real(line.count("expert_ffn"));
  x.ffn = ffn / parts;
  x.top_k = real(line.count("top_k"));
  x.experts = real(line.count("experts"));
  x.ranks = real(line.count("moe_ep"));
  x.alpha = exponent_of(line);
  // NVIDIA's Nemotron 3 have a squared ReLU and no gate.
  x.gated = kernel.find("nongated") == std::string_view::npos && !(x.top_k == 22 && x.experts == 512) &&
            !(x.hidden == 2688 && ffn == 1856);
  if (x.gated && kernel.find("min_latency") != std::string_view::npos) x.kernels = ExpertKernels::least_latency;
  add(line, out, asked(x), engine_of(line), measured_seconds(line, "us"));
}

void read_reduce(const TableLine& line, ServingSamples& out) {
  const bool eager = line.text("kernel").ends_with("eager");
  const ServedAllReduce r{real(line.count("gpus")), 2 * real(line.count("elements")), !eager};
  add(line, out, asked(r), engine_of(line), measured_seconds(line, "us"));
}

void read_low_latency(const TableLine& line, ServingSamples& out) {
  LowLatencyExchange x;
  x.tokens = real(line.count("tokens"));
  x.hidden = real(line.count("hidden"));
  x.top_k = real(line.count("top_k"));
  x.experts = real(line.count("experts"));
  x.nodes = real(line.count("nodes"));
  x.gpus = 8 * x.nodes;
  x.pass = ExchangePass::dispatch;
  add(line, out, asked(x), engine_of(line), measured_seconds(line, "dispatch_us"));
  x.pass = ExchangePass::combine;
  add(line, out, asked(x), engine_of(line), measured_seconds(line, "combine_us"));
}

/// FlashInfer's kernels, which SGLang has as a choice: how its own predictions carry over to chunks on a prefix.
void read_chunk(const TableLine& line, ServingSamples& out) {
  const double sequences = real(line.count("batch")), cached = zero_or_more(line, "cached_tokens");
  const double heads = real(line.count("heads")), kv_heads = real(line.count("kv_heads"));
  const double channels = real(line.count("head_dim"));
  if (line.text("phase") == "decode") {
    DecodeAttention a{sequences, sequences * (cached + 1), 0, heads, kv_heads, channels};
    add(line, out, asked(a), Engine::sglang, measured_seconds(line, "us"));
    return;
  }
  const PromptPiece piece{sequences, real(line.count("chunk_tokens")), cached};
  PrefillAttention a;
  a.pieces = {&piece, 1};
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.head_dim = channels;
  add(line, out, asked(a), Engine::sglang, measured_seconds(line, "us"));
}

/// What tables call the kernels of mixers with a state.
struct ScanKernelName {
  std::string_view name;
  ServedScan::Part part;
  std::size_t variant;
};
constexpr ScanKernelName kScanKernelNames[]{
    {"causal_conv1d_fn", ServedScan::Part::convolution, 0},
    {"causal_conv1d_fn_qkv3", ServedScan::Part::convolution, 1},
    {"causal_conv1d_update", ServedScan::Part::convolution, 2},
    {"chunk_gated_delta_rule", ServedScan::Part::prompt, 0},
    {"chunk_gated_delta_rule_triton", ServedScan::Part::prompt, 0},
    {"chunk_gated_delta_rule_flashinfer", ServedScan::Part::prompt, 1},
    {"chunk_kda", ServedScan::Part::prompt, 2},
    {"chunk_kda_with_fused_gate", ServedScan::Part::prompt, 2},
    {"flashkda_fwd", ServedScan::Part::prompt, 3},
    {"fused_recurrent_gated_delta_rule", ServedScan::Part::step, 0},
    {"fused_recurrent_gated_delta_rule_packed_decode", ServedScan::Part::step, 1},
    {"fused_recurrent_kda", ServedScan::Part::step, 2},
    {"fused_sigmoid_gating_delta_rule_update", ServedScan::Part::step, 5},
    {"fused_recurrent_kda_packed_decode", ServedScan::Part::step, 3},
    {"kda_fused_decode", ServedScan::Part::step, 4},
    {"fused_kda_decode", ServedScan::Part::step, 4},
};

void read_scan(const TableLine& line, ServingSamples& out) {
  const std::string_view kernel = line.text("kernel");
  const auto* known = std::find_if(std::begin(kScanKernelNames), std::end(kScanKernelNames),
                                   [&](const ScanKernelName& one) { return one.name == kernel; });
  const bool mamba = line.has("d_state");
  if (known == std::end(kScanKernelNames) || (mamba && known->part != ServedScan::Part::convolution)) {
    ++out.left_out[std::string(kernel) + ", which no kernel of the model is"];
    return;
  }
  ServedScan s;
  s.part = known->part;
  s.variant = known->variant;
  s.sequences = real(line.count("batch"));
  s.positions = real(line.count("seq"));
  if (mamba) {
    s.kind = &kMamba2Scan;
    s.variant = s.variant == 2 ? 4 : 3;  // in tables of their own; of prompts and of steps
    s.heads = real(line.count("heads"));
    s.value_dim = real(line.count("head_dim"));
    s.key_heads = real(line.count("groups"));
    s.key_dim = real(line.count("d_state"));
  } else {
    s.kind = kernel.find("kda") == std::string_view::npos ? &kGatedDeltaScan : &kKdaScan;
    s.heads = real(line.count("v_heads"));
    s.value_dim = real(line.count("head_v"));
    s.key_heads = real(line.count("k_heads"));
    s.key_dim = real(line.count("head_k"));
  }
  add(line, out, asked(s), engine_of(line), measured_seconds(line, "us"));
}

/// The first whose columns are all there.
const std::vector<ServingTable>& serving_tables() {
  static const std::vector<ServingTable> all{
      {{"engine", "op", "kernel", "dtype", "tokens", "heads", "us"}, read_absorbed},
      {{"engine", "dtype", "tokens", "rank_tokens", "hidden", "expert_ffn", "top_k", "experts", "slots", "moe_ep",
        "us"},
       read_copied_experts},
      {{"model", "tp", "prefill_chunk", "prefill_kv", "decodes", "decode_kv", "us"}, read_mixed_batch},
      {{"model", "tp", "n", "n_big", "prefill_chunk", "prefill_kv", "kv_small", "kv_big", "kv_mean", "mean_us",
        "max_us", "skewed_us"},
       read_uneven},
      {{"model", "tp", "layer", "tokens_or_sequences", "us"}, read_engine_layer},
      {{"model", "tp", "tokens", "activated_experts", "us"}, read_activated},
      {{"tokens", "routed_tokens", "experts", "experts_on_gpu", "tp", "top_k", "hidden", "expert_ffn", "experts_used",
        "us"},
       read_loaded},
      {{"engine", "model", "gemm_dtype", "kv_dtype", "batch", "heads", "us"}, read_block},
      {{"engine", "kv_dtype", "batch", "kv_tokens", "heads", "kv_heads", "head_dim", "window", "us"}, read_decode},
      {{"engine", "kv_dtype", "batch", "new_tokens", "cached_tokens", "heads", "kv_heads", "head_dim", "us"},
       read_context},
      {{"engine", "kv_dtype", "batch", "kv_tokens", "heads", "tp", "us"}, read_latent_decode},
      {{"engine", "kv_dtype", "batch", "new_tokens", "heads", "tp", "us"}, read_latent_context},
      {{"phase", "batch", "chunk_tokens", "cached_tokens", "heads", "kv_heads", "head_dim", "us"}, read_chunk},
      {{"engine", "dtype", "m", "n", "k", "us"}, read_product},
      {{"engine", "dtype", "tokens", "hidden", "expert_ffn", "top_k", "experts", "moe_tp", "moe_ep", "distribution",
        "us"},
       read_mixture},
      {{"engine", "kernel", "gpus", "elements", "us"}, read_reduce},
      {{"engine", "nodes", "hidden", "tokens", "top_k", "experts", "dispatch_us", "combine_us"}, read_low_latency},
      {{"engine", "kernel", "phase", "batch", "seq", "heads", "head_dim", "groups", "d_state", "us"}, read_scan},
      {{"engine", "kernel", "phase", "batch", "seq", "k_heads", "head_k", "v_heads", "head_v", "us"}, read_scan},
  };
  return all;
}

const ServingTable* table_with(const std::map<std::string, std::size_t>& columns) {
  for (const ServingTable& t : serving_tables())
    if (std::all_of(t.columns.begin(), t.columns.end(), [&](const std::string& c) { return columns.count(c) == 1; }))
      return &t;
  return nullptr;
}

std::map<std::string, std::size_t> columns_of(std::string_view header) {
  std::map<std::string, std::size_t> out;
  for (const std::string_view c : fields_of(header)) out.emplace(std::string(c), out.size());
  return out;
}

std::string_view without_break(std::string_view text) {
  while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

bool is_serving_table(const std::string& file) {
  const std::string text = whole_text(file);
  return table_with(columns_of(without_break(std::string_view(text).substr(0, text.find('\n'))))) != nullptr;
}

ServingSamples read_serving_samples(const std::string& file) {
  const std::string text = whole_text(file);
  std::string_view rest = text;
  int number = 0;
  const auto next = [&](std::string_view& line) {
    if (rest.empty()) return false;
    const std::size_t end = rest.find('\n');
    line = without_break(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    ++number;
    return true;
  };
  std::string_view line;
  if (!next(line)) throw UserError(Place{file, 1, 1}, "header", "the file is empty");
  const std::map<std::string, std::size_t> columns = columns_of(line);
  const ServingTable* table = table_with(columns);
  if (table == nullptr)
    throw UserError(Place{file, 1, 1}, "header", "got '" + std::string(line) + "', expected a table of kernels");
  ServingSamples out;
  std::vector<char> asked(columns.size(), 0);
  while (next(line))
    if (!line.empty()) table->read(TableLine(file, number, columns, line, &asked), out);
  for (const auto& [name, at] : columns)
    if (asked[at] == 0) out.unread.push_back(name);
  return out;
}

}  // namespace orrery::calibration
