// Text of measurements. Bytes of the streaming kernels: what their tensors hold, each read or written once; bf16 unless
// said otherwise.
#include "calibration/measure/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "sim/error.h"

namespace orrery::calibration {
namespace {

std::string number(std::int64_t value) { return value == 0 ? "" : fmt::format("{}", value); }
std::string known(double value) { return value > 0 ? fmt::format("{:.6g}", value) : ""; }

}  // namespace

std::string_view name_of(CaseClass c) {
  static constexpr std::array<std::string_view, kCaseClasses> kNames{
      "gemm",       "batched_gemm", "attention", "streaming",       "host",    "sustained", "interference",
      "collective", "grouped_gemm", "power",     "paged_attention", "experts", "sampling"};
  return kNames.at(static_cast<std::size_t>(c));
}
std::string_view name_of(CaseType t) {
  static constexpr std::array<std::string_view, kCaseTypes> kNames{
      "", "bfloat16", "float16", "float32", "fp8_e4m3", "fp8_e5m2", "fp8_block", "fp8_row", "mxfp8", "nvfp4"};
  return kNames.at(static_cast<std::size_t>(t));
}
std::string_view name_of(CaseForm f) {
  static constexpr std::array<std::string_view, kCaseForms> kNames{"", "tn", "nn", "nt"};
  return kNames.at(static_cast<std::size_t>(f));
}

std::string key_of(const Case& c) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", name_of(c.kind), std::string_view(c.name),
                     name_of(c.dtype), name_of(c.form), number(c.m), number(c.n), number(c.k), number(c.batch),
                     number(c.attention.seq), number(c.attention.heads), number(c.attention.kv_heads),
                     number(c.attention.head_dim), number(c.attention.window), number(c.elements), number(c.bytes),
                     number(c.gpus));
}

std::string key_of_row(std::string_view row) {
  static const auto kCommas = [] {
    const std::string_view columns = kMeasuredColumns;
    return std::count(columns.begin(), columns.end(), ',');
  }();
  if (std::count(row.begin(), row.end(), ',') != kCommas) return {};
  std::size_t end = 0;
  for (int column = 0; column < kCaseColumns; ++column) end = row.find(',', end) + 1;
  return std::string(row.substr(0, end - 1));
}

std::string limits_text(int limits) {
  std::string out;
  for (const auto& [bit, name] : {std::pair{kLimitedByPower, "power"}, std::pair{kLimitedByHeat, "heat"},
                                  std::pair{kLimitedBySetting, "setting"}, std::pair{kLimitedByBoard, "board"}})
    if ((limits & bit) != 0) out += fmt::format("{}{}", out.empty() ? "" : "+", name);
  return out;
}

std::string row_of(const Measurement& m) {
  return fmt::format("{},{:.9g},{:.4g},{},{},{},{},{}", key_of(m.what), m.seconds, m.spread_pct, m.repeats,
                     m.error < 0 ? "" : fmt::format("{:.3g}", m.error), known(m.sm_mhz), known(m.power_w),
                     limits_text(m.limits));
}

std::string describe(const Case& c) {
  std::string text(name_of(c.kind));
  const auto add = [&text](std::string_view part) {
    if (!part.empty()) text += fmt::format(" {}", part);
  };
  add(c.name);
  add(name_of(c.dtype));
  add(name_of(c.form));
  if (c.batch > 1 && c.attention.seq == 0) add(fmt::format("{} of", c.batch));
  if (c.k > 0) add(fmt::format("{} x {} x {}", c.m, c.n, c.k));
  if (c.k == 0 && c.m > 0) add(fmt::format("{} x {}", c.m, c.n));
  if (c.attention.heads > 0) {
    add(fmt::format("batch {}, {} positions, {}/{} heads of {}", c.batch, c.attention.seq, c.attention.heads,
                    c.attention.kv_heads, c.attention.head_dim));
    if (c.attention.window > 0) add(fmt::format("window {}", c.attention.window));
  }
  if (c.gpus > 0) add(fmt::format("on {} GPUs", c.gpus));
  if (c.bytes > 0 && c.kind != CaseClass::streaming) add(fmt::format("{} bytes", c.bytes));
  return text;
}

double streaming_bytes(std::string_view kernel) {
  static const std::map<std::string_view, double> kBytes{
      {"copy", 4},
      {"gelu", 4},
      {"gelu_backward", 6},
      {"swiglu", 6},            // of an output element: two inputs
      {"swiglu_backward", 10},  // three inputs, two outputs
      {"dropout", 5},           // a mask byte
      {"bias_dropout_residual", 7},
      {"bias_dropout_residual_backward", 5},
      {"accumulate", 10},  // 2 read, 4 read and written
      {"layer_norm", 4},
      {"layer_norm_backward", 6},
      {"rms_norm", 4},
      {"rms_norm_backward", 6},
      {"softmax", 4},
      {"softmax_backward", 6},
      {"cross_entropy", 2},
      {"cross_entropy_backward", 4},
      {"permute", 2 + 2.0 / 8},  // of a row: its token is read for eight rows
      {"unpermute", 2 + 2 * 8},  // of a token: eight rows are read
      {"embedding", 4},
      {"embedding_backward", 10},
      {"optimizer", 30},  // Adam: four fp32 read, three fp32 and a bf16 written
      {"lamb", 42},       // four read, three written; two read, one and a bf16 written
      {"gradient_norm", 4},
      {"cast_transpose", 4},  // 2 read, two of 1 written
  };
  const auto found = kBytes.find(kernel);
  return found == kBytes.end() ? 0 : found->second;
}

void set_name(Case& what, std::string_view name) {
  SIM_CHECK(name.size() < sizeof what.name, "the name {} is too long for a case", name);
  std::fill(std::begin(what.name), std::end(what.name), '\0');
  std::copy(name.begin(), name.end(), what.name);
}

}  // namespace orrery::calibration
