// Readers of served_rows.h. Engines hand activations in 16 bits to products of narrower weights, and time the cast with
// them; what is measured here has none, so that a sample says how many bytes a cast would move.
#include "calibration/measure/served_rows.h"

#include <algorithm>
#include <optional>
#include <string>

#include "sim/real.h"

namespace orrery::calibration {
namespace {

using sim::real;

std::optional<WeightType> weight_of(DataType type) {
  switch (type) {
    case DataType::bf16:
    case DataType::fp16:
      return WeightType::bf16;
    case DataType::fp8:
      return WeightType::fp8;
    case DataType::fp8_blockwise:
      return WeightType::fp8_block;
    case DataType::nvfp4:
      return WeightType::nvfp4;
    default:
      return std::nullopt;
  }
}

/// Of the shape alone, so that rows of one shape are held out together.
std::uint64_t shape_number(const Asked& asked) {
  std::uint64_t h = 0xcbf29ce484222325;  // FNV-1a
  for (const double size : asked.work) h = (h ^ static_cast<std::uint64_t>(size * 16)) * 0x100000001b3;
  return h ^ (h >> 29);
}

void add_served(Samples& out, const Asked& asked, double seconds, KernelOf kernel, double cast_bytes = 0) {
  out.served.push_back({asked, seconds, shape_number(asked), kernel, cast_bytes});
}

void read_paged_attention(const TableLine& line, Samples& out) {
  const std::string_view name = line.text("name");
  const double sequences = real(line.count("batch")), fresh = real(line.count("m")), seq = real(line.count("seq"));
  const double heads = real(line.count("heads")), kv_heads = real(line.count("kv_heads"));
  const double head_dim = real(line.count("head_dim")), window = real(line.optional_count("window"));
  if (fresh > seq) line.fail("m", "expected at most seq, the positions that are attended to");
  if (line.count("heads") % line.count("kv_heads") != 0) line.fail("kv_heads", "does not divide heads");
  if (name == "decode" || name == "decode_plain") {
    if (fresh != 1) line.fail("m", "expected 1, of a sequence that decodes");
    DecodeAttention a;
    a.sequences = sequences;
    a.visible = sequences * (window > 0 ? std::min(window, seq) : seq);
    a.cached = sequences * seq;
    a.heads = heads;
    a.kv_heads = kv_heads;
    a.head_dim = head_dim;
    a.window = window;
    add_served(out, asked(a), line.number("seconds"), name == "decode" ? KernelOf::library : KernelOf::plain);
  } else if (name == "prefill") {
    const PromptPiece piece{sequences, fresh, seq - fresh};
    PrefillAttention a;
    a.pieces = {&piece, 1};
    a.heads = heads;
    a.kv_heads = kv_heads;
    a.head_dim = head_dim;
    a.window = window;
    add_served(out, asked(a), line.number("seconds"), KernelOf::library);
  } else {
    line.fail("name", "got '" + std::string(name) + "', expected decode, decode_plain or prefill");
  }
}

void read_experts_of_few(const TableLine& line, Samples& out) {
  ServedMixture m;
  m.tokens = real(line.count("m"));
  m.hidden = real(line.count("k"));
  m.ffn = real(line.count("n"));
  m.experts = real(line.count("batch"));
  m.top_k = real(line.count("elements"));
  if (m.top_k > m.experts) line.fail("elements", "expected at most batch, the experts");
  if (m.tokens * m.top_k > 1e9) line.fail("m", "expected at most 1e9 choices");
  const std::string_view name = line.text("name");
  if (name != "grouped" && name != "plain")
    line.fail("name", "got '" + std::string(name) + "', expected grouped or plain");
  add_served(out, asked(m), line.number("seconds"), name == "plain" ? KernelOf::plain : KernelOf::library);
}

}  // namespace

void read_served(const TableLine& line, Samples& out) {
  const std::string_view kind = line.text("class");
  if (kind == "paged_attention") {
    read_paged_attention(line, out);
  } else if (kind == "experts") {
    read_experts_of_few(line, out);
  } else if (kind == "sampling") {
    add_served(out, asked(ServedSampling{real(line.count("m")), real(line.count("n"))}), line.number("seconds"),
               KernelOf::plain);
  } else {
    ServedAllReduce reduce;
    reduce.gpus = real(line.count("gpus"));
    reduce.bytes = real(line.count("bytes"));
    add_served(out, asked(reduce), line.number("seconds"), KernelOf::plain);
  }
}

void add_served_product(const GemmSample& sample, Samples& out) {
  const Gemm& g = sample.shape;
  const std::optional<WeightType> weight = weight_of(g.dtype);
  if (!weight || g.m > kMostServedRows || g.batch > 1 || g.accumulate || g.form != Gemm::Form::forward) return;
  const ServedProduct product{*weight, real(g.m), real(g.n), real(g.k)};
  const double cast = is_quantised(g.dtype) ? (2 + operand_bytes(g.dtype)) * real(g.m) * real(g.k) : 0;
  add_served(out, asked(product), sample.seconds, KernelOf::library, cast);
}

}  // namespace orrery::calibration
