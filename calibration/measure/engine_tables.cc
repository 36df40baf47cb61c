// Readers of engine_tables.h. A row is put together of what a simulated iteration asks for in its place: attention of a
// chunk and of decodes one after the other, experts of the fullest rank, products and bytes of a layer.
// Sources of the tables: ai-dynamo/aiconfigurator (absorbed products, experts with copies and behind DeepEP),
// casys-kaist/LLMServingSim (vLLM 0.19: layers, batches that mix, uneven lengths, experts by load), NetX-lab/Frontier
// (experts by load).
#include "calibration/measure/engine_tables.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>

#include "calibration/device/serving_families.h"
#include "sim/real.h"
#include "sim/units.h"

namespace orrery::calibration {

using sim::real;

Engine engine_of(const TableLine& line) {
  for (std::size_t e = 0; e < kEngines; ++e)
    if (line.text("engine") == name_of(static_cast<Engine>(e))) return static_cast<Engine>(e);
  line.fail("engine", "got '" + std::string(line.text("engine")) + "', expected trtllm, vllm or sglang");
}

std::optional<WeightType> weight_type(const TableLine& line, const std::string& column) {
  static const std::map<std::string_view, WeightType> names{{"bfloat16", WeightType::bf16},
                                                            {"float16", WeightType::bf16},
                                                            {"fp8", WeightType::fp8},
                                                            {"fp8_block", WeightType::fp8_block},
                                                            {"nvfp4", WeightType::nvfp4},
                                                            {"w4a16_mxfp4", WeightType::mxfp4},
                                                            {"w4a8_mxfp4_mxfp8", WeightType::mxfp4_fp8},
                                                            {"int8_wo", WeightType::int8},
                                                            {"int4_wo", WeightType::int4}};
  const auto found = names.find(line.text(column));
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

double zero_or_more(const TableLine& line, const std::string& column) { return real(line.optional_count(column, 0)); }
double measured_seconds(const TableLine& line, const char* column) { return line.number(column) * 1e-6; }

double exponent_of(const TableLine& line) {
  constexpr std::string_view kPowerLaw = "power_law_";
  const std::string_view t = line.text("distribution");
  if (!t.starts_with(kPowerLaw)) return 0;
  double out = 0;
  const std::string_view digits = t.substr(kPowerLaw.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return out;
}

namespace {

/// Of the models that the tables name, by their configurations.
struct TabledModel {
  std::string_view name;
  double hidden, heads, kv_heads, head_dim, ffn, vocabulary, top_k, experts;
};
constexpr TabledModel kTabledModels[]{{"Llama-3.1-8B", 4096, 32, 8, 128, 14336, 128256, 0, 0},
                                      {"Qwen3-32B", 5120, 64, 8, 128, 25600, 151936, 0, 0},
                                      {"Qwen3-30B-A3B-Instruct-2507", 2048, 32, 4, 128, 768, 151936, 8, 128}};

/// A rank's part; none: another model, which counts as left out.
std::optional<TabledModel> part_of_model(const TableLine& line, ServingSamples& out) {
  const auto* found = std::find_if(std::begin(kTabledModels), std::end(kTabledModels),
                                   [&](const TabledModel& m) { return m.name == line.text("model"); });
  if (found == std::end(kTabledModels)) {
    ++out.left_out[kNoModel];
    return {};
  }
  const double ranks = real(line.count("tp"));
  TabledModel m = *found;
  m.heads /= ranks;
  m.kv_heads = std::max(1.0, m.kv_heads / ranks);
  m.ffn /= ranks;
  m.vocabulary /= ranks;
  return m;
}

void add_whole(ServingSamples& out, Engine engine, const std::string& name, std::vector<ServedPart> parts,
               double seconds) {
  out.whole.push_back({engine, name, std::move(parts), seconds});
}

/// Sequences of so many keys each, and how many the longest has.
Asked decodes_of(const TabledModel& m, double sequences, double visible, double longest) {
  DecodeAttention a;
  a.sequences = sequences;
  a.visible = visible;
  a.longest = longest;
  a.heads = m.heads;
  a.kv_heads = m.kv_heads;
  a.head_dim = m.head_dim;
  return asked(a);
}

void add_chunk(std::vector<ServedPart>& parts, const TabledModel& m, double chunk, double cached) {
  if (!(chunk > 0)) return;
  const PromptPiece piece{1, chunk, cached};
  PrefillAttention a;
  a.pieces = {&piece, 1};
  a.heads = m.heads;
  a.kv_heads = m.kv_heads;
  a.head_dim = m.head_dim;
  parts.emplace_back(asked(a));
}

/// Experts of a type whose rank has that load; `tokens`: those that its choices were made for.
Asked loaded(const ServedMixture& mixture, const MixtureLoad& load) {
  Asked out = asked(mixture);
  out.work[mixture::activated] = load.activated;
  out.work[mixture::rows] = load.rows;
  return out;
}

/// Experts of the fullest rank as a mixture of its own, with no more choices than it has experts.
Asked of_fullest_rank(ServedMixture m, const MixtureLoad& load) {
  m.experts = std::max(1.0, std::ceil((m.slots > 0 ? m.slots : m.experts) / m.ranks));
  m.top_k = std::min(m.top_k, m.experts);
  m.tokens = load.rows / m.top_k;
  m.ranks = 1;
  m.slots = m.alpha = 0;  // the load is what they come to
  return loaded(m, load);
}

ServedMixture experts_of(const TableLine& line, WeightType type) {
  ServedMixture m;
  m.type = type;
  m.tokens = real(line.count("tokens"));
  m.hidden = real(line.count("hidden"));
  m.ffn = real(line.count("expert_ffn")) / real(line.count("moe_tp"));
  m.top_k = real(line.count("top_k"));
  m.experts = real(line.count("experts"));
  m.ranks = real(line.count("moe_ep"));
  m.alpha = exponent_of(line);
  return m;
}

}  // namespace

std::optional<double> seconds_of(const WholeSample& sample, const ServingKernels& kernels) {
  const DeviceProfile& device = kernels.device();
  double sum = 0;
  for (const ServedPart& part : sample.parts) {
    if (const auto* asked = std::get_if<Asked>(&part)) {
      sum += kernels.model().seconds(*asked);
    } else if (const auto* beside = std::get_if<DecodesBeside>(&part)) {
      sum += kernels.model().seconds_beside(beside->decodes, sum);
    } else if (const auto* product = std::get_if<ServedProduct>(&part)) {
      sum += kernels.seconds(*product);
    } else if (const auto* gemm = std::get_if<Gemm>(&part)) {
      if (!device.has(gemm->dtype)) return {};
      sum += sim::to_seconds(device.gemm(*gemm));
    } else if (const auto* moved = std::get_if<LayerBytes>(&part)) {
      sum += sim::to_seconds(device.streaming(Streaming::copy, moved->bytes));
    }
  }
  return sum;
}

/// One product of every head: queries into the space of latent rows ahead of attention, values out of it behind.
void read_absorbed(const TableLine& line, ServingSamples& out) {
  constexpr std::int64_t kLatent = 512, kHead = 128;  // of DeepSeek-V2 and V3
  const std::string_view op = line.text("op"), kernel = line.text("kernel"), type = line.text("dtype");
  const bool ahead = op == "mla_gen_pre";
  if (!ahead && op != "mla_gen_post")
    line.fail("op", "got '" + std::string(op) + "', expected mla_gen_pre or mla_gen_post");
  Gemm g;
  g.m = line.count("tokens");
  g.batch = line.count("heads");
  g.n = ahead ? kLatent : kHead;
  g.k = ahead ? kHead : kLatent;
  if (type == "fp8" && kernel.find("dequant") == std::string_view::npos) {
    g.dtype = kernel.find("block") == std::string_view::npos ? DataType::fp8 : DataType::fp8_blockwise;
    g.cast_input = true;
  } else if (type != "fp8" && type != "bfloat16") {
    line.fail("dtype", "got '" + std::string(type) + "', expected bfloat16 or fp8");
  }
  const Engine engine = engine_of(line);
  add_whole(out, engine, std::string(name_of(engine)) + " absorbed products " + std::string(name_of(g.dtype)), {g},
            measured_seconds(line, "us"));
}

/// TensorRT-LLM's on ranks with copies of busy experts; `rank_tokens` come to the rank that is timed. Where a balancer
/// places experts (EPLB), ranks have as many choices each; else those of the fullest. A rank has a row at least of
/// each token that comes.
void read_copied_experts(const TableLine& line, ServingSamples& out) {
  const auto type = weight_type(line, "dtype");
  if (!type) {
    ++out.left_out[kNoType];
    return;
  }
  if (const std::string_view kernel = line.text("kernel"); kernel != "wideep_compute_cutlass") {
    ++out.left_out[std::string(kernel) + ", which no kernel of the model is"];
    return;
  }
  ServedMixture m = experts_of(line, *type);
  const std::string_view op = line.text("op");
  const bool balanced = op == "wideep_moe_eplb";
  if (!balanced && op != "wideep_moe")
    line.fail("op", "got '" + std::string(op) + "', expected wideep_moe or wideep_moe_eplb");
  m.slots = real(line.count("slots"));
  MixtureLoad load;
  if (balanced) {
    ServedMixture all = m;
    all.ranks = 1;
    load.activated = std::min(load_of(all).activated * m.slots / m.experts, m.slots) / m.ranks;
    load.rows = m.tokens * m.top_k / m.ranks;
  } else {
    load = load_of(m);
  }
  load.rows = std::max(load.rows, real(line.count("rank_tokens")));
  load.activated = std::clamp(load.activated, 1.0, load.rows);
  const Engine engine = engine_of(line);
  add_whole(out, engine,
            std::string(name_of(engine)) + " experts with copies " + std::string(name_of(*type)) +
                (balanced ? ", balanced" : ""),
            {of_fullest_rank(m, load)}, measured_seconds(line, "us"));
}

void read_dispatched(const TableLine& line, ServingSamples& out) {
  const auto type = weight_type(line, "dtype");
  if (!type) {
    ++out.left_out[kNoType];
    return;
  }
  ServedMixture m = experts_of(line, *type);
  const bool prompts = line.file().find("context") != std::string::npos;
  m.kernels = prompts ? ExpertKernels::contiguous : ExpertKernels::masked;
  out.rows.push_back({engine_of(line), of_fullest_rank(m, load_of(m)), measured_seconds(line, "us"), shape_of(line)});
}

/// A chunk of one prompt beside decodes of one length, in one launch.
void read_mixed_batch(const TableLine& line, ServingSamples& out) {
  const auto m = part_of_model(line, out);
  if (!m) return;
  const double sequences = zero_or_more(line, "decodes"), keys = zero_or_more(line, "decode_kv");
  const double chunk = zero_or_more(line, "prefill_chunk");
  std::vector<ServedPart> parts;
  add_chunk(parts, *m, chunk, zero_or_more(line, "prefill_kv"));
  if (sequences * keys > 0) {
    const Asked decodes = decodes_of(*m, sequences, sequences * keys, keys);
    if (parts.empty())
      parts.emplace_back(decodes);
    else
      parts.emplace_back(DecodesBeside{decodes});
  }
  if (parts.empty()) line.fail("decodes", "expected a chunk or decodes");
  const char* what = parts.size() > 1 ? "chunk with decodes" : chunk > 0 ? "chunk alone" : "decodes alone";
  add_whole(out, Engine::vllm, std::string("vllm attention, ") + what, std::move(parts), measured_seconds(line, "us"));
}

/// Three times in one row: all lengths the mean, all the longest, and as they are. All of them are about three times
/// what the same source's table of batches that mix says of the same launch, whatever the sizes: why, it does not say.
void read_uneven(const TableLine& line, ServingSamples& out) {
  const auto m = part_of_model(line, out);
  if (!m) return;
  const double n = real(line.count("n")), big = real(line.count("n_big"));
  const double few = real(line.count("kv_small")), many = real(line.count("kv_big"));
  if (big > n) line.fail("n_big", "expected at most n");
  const double all = (n - big) * few + big * many;
  if (std::abs(real(line.count("kv_mean")) * n - all) > n) line.fail("kv_mean", "is not the mean of n lengths");
  std::vector<ServedPart> chunk;
  add_chunk(chunk, *m, zero_or_more(line, "prefill_chunk"), zero_or_more(line, "prefill_kv"));
  const std::string beside = chunk.empty() ? "" : ", beside a chunk";
  const auto add = [&](const char* lengths, const char* column, double visible, double longest) {
    std::vector<ServedPart> parts = chunk;
    const Asked decodes = decodes_of(*m, n, visible, longest);
    if (chunk.empty())
      parts.emplace_back(decodes);
    else
      parts.emplace_back(DecodesBeside{decodes});
    add_whole(out, Engine::vllm, std::string("vllm decodes of ") + lengths + beside, std::move(parts),
              measured_seconds(line, column));
  };
  add("one length", "mean_us", all, all / n);
  add("one length", "max_us", n * many, many);
  add("uneven lengths", "skewed_us", all, many);
}

/// vLLM's, launched one by one; tokens, or sequences of what samples.
void read_engine_layer(const TableLine& line, ServingSamples& out) {
  const auto m = part_of_model(line, out);
  if (!m) return;
  constexpr double kBytes = 2;
  const std::string_view layer = line.text("layer");
  const double rows = real(line.count("tokens_or_sequences"));
  const double width = (m->heads + 2 * m->kv_heads) * m->head_dim, turned = (m->heads + m->kv_heads) * m->head_dim;
  // What each product makes of what, and what each other layer moves of a row.
  const std::map<std::string_view, std::pair<double, double>> products{{"qkv_proj", {width, m->hidden}},
                                                                       {"o_proj", {m->hidden, m->heads * m->head_dim}},
                                                                       {"gate_up_proj", {2 * m->ffn, m->hidden}},
                                                                       {"down_proj", {m->hidden, m->ffn}},
                                                                       {"lm_head", {m->vocabulary, m->hidden}}};
  const std::map<std::string_view, double> moved{{"layernorm", 4 * m->hidden},
                                                 {"final_layernorm", 4 * m->hidden},
                                                 {"qk_norm", 2 * turned},
                                                 {"rotary_emb", 2 * turned},
                                                 {"act_fn", 3 * m->ffn},
                                                 {"embedding", 2 * m->hidden},
                                                 {"sampler", 7 * m->vocabulary * real(line.count("tp"))}};
  const auto product = products.find(layer);
  const auto bytes = moved.find(layer);
  if (product == products.end() && bytes == moved.end()) {
    ++out.left_out["layer " + std::string(layer) + ", which no kernel of the model is"];
    return;
  }
  ServedPart part = LayerBytes{bytes == moved.end() ? 0 : kBytes * rows * bytes->second};
  if (product != products.end())
    part = ServedProduct{WeightType::bf16, rows, product->second.first, product->second.second};
  add_whole(out, Engine::vllm, "vllm layer " + std::string(layer), {part}, measured_seconds(line, "us"));
}

/// All of a token's choices among so many experts.
void read_activated(const TableLine& line, ServingSamples& out) {
  const auto m = part_of_model(line, out);
  if (!m) return;
  if (m->experts == 0) {
    ++out.left_out[kNoModel];
    return;
  }
  ServedMixture x;
  x.tokens = real(line.count("tokens"));
  x.hidden = m->hidden;
  x.ffn = m->ffn;
  x.top_k = m->top_k;
  x.experts = m->experts;
  const MixtureLoad load{real(line.count("activated_experts")), x.tokens * x.top_k};
  if (load.activated > std::min(x.experts, load.rows))
    line.fail("activated_experts", "expected at most the experts, and the choices of all tokens");
  add_whole(out, Engine::vllm, "vllm experts by load", {loaded(x, load)}, measured_seconds(line, "us"));
}

/// Grouped products of a rank by the share of its experts that have tokens; kernels are vLLM's in 16 bits.
void read_loaded(const TableLine& line, ServingSamples& out) {
  ServedMixture x;
  x.tokens = real(line.count("tokens"));
  x.hidden = real(line.count("hidden"));
  x.ffn = real(line.count("expert_ffn")) / real(line.count("tp"));
  x.top_k = real(line.count("top_k"));
  x.experts = real(line.count("experts"));
  const double here = real(line.count("experts_on_gpu")), used = line.number("experts_used");
  if (here > x.experts || used > 1) line.fail("experts_used", "expected a share of the experts that are on the GPU");
  x.ranks = x.experts / here;
  const MixtureLoad load{std::max(1.0, used * here), real(line.count("routed_tokens"))};
  add_whole(out, Engine::vllm, "vllm experts by load", {loaded(x, load)}, measured_seconds(line, "us"));
}

}  // namespace orrery::calibration
