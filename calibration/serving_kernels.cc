// Answers of serving_kernels.h from the data sheet: what every kernel takes where nothing was fitted.
#include "calibration/serving_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "calibration/profile_model.h"
#include "calibration/routing.h"
#include "sim/error.h"

namespace orrery::calibration {
namespace {

constexpr double kSixteenBits = 2;
// Assumed of any device: what one small kernel takes at least, and the shares of the data sheet that large ones reach.
constexpr double kLaunch = 3e-6, kMemoryShare = 0.85, kProductShare = 0.7, kPromptShare = 0.55;
/// Bytes for which as much time passes as they take before memory is at its rate: Little's law, about 1 us of latency.
constexpr double kFill = 1e-6;

double streamed(const DeviceProfile& device, double bytes) {
  return bytes > 0 ? kFill + bytes / (kMemoryShare * device.memory_bandwidth().value()) : 0;
}

double beside(double a, double b) {
  const double high = std::max(a, b);
  if (!(high > 0)) return 0;
  const double ratio = std::min(a, b) / high, square = ratio * ratio;
  return high * std::sqrt(std::sqrt(1 + square * square));
}

/// Products of a kernel beside its memory traffic.
double joined(const DeviceProfile& device, DataType type, double flops, double bytes, double share) {
  return kLaunch + beside(flops / (share * device.peak(type).value()), streamed(device, bytes));
}

double pairs_of(const PromptPiece& p, double window) {
  const AttentionModel::Shape one{1, p.fresh, p.fresh + p.cached, 1, 1, 1, window, true};
  return p.sequences * AttentionModel::pairs(one);
}

template <class... Sizes>
void check(const char* what, Sizes... sizes) {
  SIM_CHECK(((std::isfinite(sizes) && sizes >= 0) && ...), "a size of {} is negative or infinite", what);
}

constexpr std::array<std::string_view, kEngines> kEngineNames{"trtllm", "vllm", "sglang"};
constexpr std::array<std::string_view, kWeightTypes> kTypeNames{"bf16",  "fp8",       "fp8-block", "nvfp4",
                                                                "mxfp4", "mxfp4-fp8", "int8",      "int4"};

}  // namespace

std::string_view name_of(Engine engine) { return kEngineNames[static_cast<std::size_t>(engine)]; }
std::string_view name_of(WeightType type) { return kTypeNames[static_cast<std::size_t>(type)]; }

double weight_bytes(WeightType type) {
  switch (type) {
    case WeightType::bf16:
      return 2;
    case WeightType::fp8:
    case WeightType::int8:
      return 1;
    case WeightType::fp8_block:
      return 1 + 4.0 / (128 * 128);
    case WeightType::nvfp4:
      return 0.5 + 1.0 / 16;
    case WeightType::mxfp4:
    case WeightType::mxfp4_fp8:
      return 0.5 + 1.0 / 32;
    case WeightType::int4:
      return 0.5 + 2.0 / 128;  // a scale in 16 bits for each group of 128
  }
  return 2;
}

DataType multiplied_as(WeightType type) {
  switch (type) {
    case WeightType::fp8:
      return DataType::fp8;
    case WeightType::fp8_block:
      return DataType::fp8_blockwise;
    case WeightType::nvfp4:
      return DataType::nvfp4;
    case WeightType::mxfp4_fp8:
      return DataType::mxfp8;
    default:
      return DataType::bf16;
  }
}

MixtureLoad load_of(const ServedMixture& m) {
  const auto whole = [](double x) { return std::max<std::int64_t>(1, std::llround(x)); };
  const std::int64_t ranks = whole(m.ranks), experts = whole(m.experts);
  constexpr std::uint64_t kDraws = 8;
  const std::uint64_t draws = m.alpha > 0 ? kDraws : 1;
  const Routing routing{whole(m.tokens), whole(m.top_k),   experts, experts % ranks == 0 ? ranks : 1,
                        m.alpha,         Beyond::all_ranks};
  MixtureLoad out;
  for (std::uint64_t draw = 0; draw < draws; ++draw)
    for (const std::int64_t tokens : tokens_of_experts(routing, draw)) {
      out.rows += static_cast<double>(tokens) / static_cast<double>(draws);
      if (tokens > 0) out.activated += 1 / static_cast<double>(draws);
    }
  return out;
}

struct ServingKernels::Model {
  std::string provenance = "assumed: the data sheet's roofline at common shares";
};

ServingKernels::ServingKernels(const DeviceProfile& device, Engine engine, const sim::Settings*)
    : device_(device), engine_(engine), model_(std::make_shared<Model>()) {}

const std::string& ServingKernels::provenance() const { return model_->provenance; }

double ServingKernels::seconds(const DecodeAttention& s) const {
  check("attention", s.sequences, s.visible, s.longest, s.heads, s.kv_heads, s.head_dim, s.window, s.kv_bytes);
  if (!(s.sequences > 0)) return 0;
  const double bytes =
      2 * s.visible * s.kv_heads * s.head_dim * s.kv_bytes + 2 * kSixteenBits * s.sequences * s.heads * s.head_dim;
  return joined(device_, DataType::bf16, 4 * s.visible * s.heads * s.head_dim, bytes, kProductShare);
}

double ServingKernels::seconds(const LatentDecode& s) const {
  check("attention", s.sequences, s.visible, s.longest, s.heads, s.kv_lora, s.rope, s.kv_bytes);
  if (!(s.sequences > 0)) return 0;
  const double row = s.kv_lora + s.rope;
  const double bytes = s.visible * row * s.kv_bytes + kSixteenBits * s.sequences * s.heads * (row + s.kv_lora);
  return joined(device_, DataType::bf16, 2 * s.visible * s.heads * (row + s.kv_lora), bytes, kProductShare);
}

double ServingKernels::seconds(const PrefillAttention& s) const {
  check("attention", s.heads, s.kv_heads, s.head_dim, s.value_dim, s.window, s.kv_bytes);
  const double value_dim = s.value_dim > 0 ? s.value_dim : s.head_dim;
  double pairs = 0, bytes = 0;
  for (const PromptPiece& p : s.pieces) {
    check("a piece of a prompt", p.sequences, p.fresh, p.cached);
    if (!(p.sequences * p.fresh > 0)) continue;
    pairs += pairs_of(p, s.window);
    bytes += p.sequences * (p.fresh * s.heads + (p.fresh + p.cached) * s.kv_heads) * (s.head_dim + value_dim);
  }
  if (!(pairs > 0)) return 0;
  return joined(device_, DataType::bf16, 2 * pairs * s.heads * (s.head_dim + value_dim), kSixteenBits * bytes,
                kPromptShare);
}

double ServingKernels::seconds(const ServedProduct& s) const {
  check("a product", s.m, s.n, s.k);
  if (!(s.m * s.n * s.k > 0)) return 0;
  const double bytes = weight_bytes(s.type) * s.n * s.k + kSixteenBits * s.m * (s.n + s.k);
  return joined(device_, multiplied_as(s.type), 2 * s.m * s.n * s.k, bytes, kProductShare);
}

double ServingKernels::seconds(const ServedMixture& s) const {
  check("a mixture", s.tokens, s.hidden, s.ffn, s.top_k, s.experts, s.ranks, s.slots, s.alpha);
  const MixtureLoad load = load_of(s);
  const double weight = (s.gated ? 3 : 2) * s.hidden * s.ffn;
  const double bytes =
      load.activated * weight * weight_bytes(s.type) + kSixteenBits * load.rows * (2 * s.hidden + 3 * s.ffn);
  // Sorting of choices and the sum of rows are kernels of their own.
  return 4 * kLaunch + joined(device_, multiplied_as(s.type), 2 * load.rows * weight, bytes, kProductShare);
}

double ServingKernels::seconds(const LatentBlock& s) const {
  check("attention", s.heads, s.hidden, s.q_lora, s.kv_lora, s.nope, s.rope, s.value, s.kv_bytes);
  double rows = 0, visible = 0, longest = 0;
  for (const PromptPiece& p : s.pieces) {
    check("a piece of a prompt", p.sequences, p.fresh, p.cached);
    rows += p.sequences * p.fresh;
    visible += p.sequences * (p.fresh + p.cached);
    longest = std::max(longest, p.fresh + p.cached);
  }
  if (!(rows > 0)) return 0;
  const double key = s.nope + s.rope;
  double time = 4 * kLaunch;  // norms, rotation and the write into the cache
  time += seconds(ServedProduct{s.type, rows, s.q_lora + s.kv_lora + s.rope, s.hidden});
  time += seconds(ServedProduct{s.type, rows, s.heads * key, s.q_lora});
  if (s.decode) {
    time += s.heads > 0 ? 2 * joined(device_, DataType::bf16, 2 * rows * s.heads * s.nope * s.kv_lora,
                                     kSixteenBits * s.heads * s.nope * s.kv_lora, kProductShare)
                        : 0;
    time += seconds(LatentDecode{rows, visible, longest, s.heads, s.kv_lora, s.rope, s.kv_bytes});
  } else {
    time += seconds(ServedProduct{s.type, visible, s.heads * (s.nope + s.value), s.kv_lora});
    time += seconds(PrefillAttention{s.pieces, s.heads, s.heads, key, s.value, 0, kSixteenBits});
  }
  return time + seconds(ServedProduct{s.type, rows, s.hidden, s.heads * s.value});
}

double ServingKernels::seconds(const ServedAllReduce& s) const {
  check("an all-reduce", s.gpus, s.bytes);
  if (!(s.gpus > 1) || !(s.bytes > 0)) return 0;
  constexpr double kEager = 20e-6;  // of the host, assumed
  const auto gpus = static_cast<std::int64_t>(std::ceil(s.gpus));
  const CollectiveTiming timing =
      device_.node_collective(CollectiveOp::all_reduce, gpus, Bytes(static_cast<std::int64_t>(std::ceil(s.bytes))));
  // One shot: everyone reads from everyone, and waits for them once.
  const double one_shot = 2 * kLaunch + (s.gpus - 1) * s.bytes / timing.rate.value();
  return std::min(one_shot, sim::to_seconds(timing.total())) + (s.graph ? 0 : kEager);
}

double ServingKernels::seconds(const LowLatencyExchange& s) const {
  check("an exchange", s.tokens, s.hidden, s.top_k, s.experts, s.gpus, s.nodes);
  if (!(s.tokens * s.hidden * s.top_k > 0)) return 0;
  const bool dispatch = s.pass == ExchangePass::dispatch;
  const double row = s.hidden * (dispatch ? 1 + 4.0 / 128 : kSixteenBits);
  constexpr double kStart = 20e-6, kNic = 50e9, kNicShare = 0.8;
  const double within =
      device_.node_collective(CollectiveOp::all_to_all, std::max<std::int64_t>(2, std::llround(s.gpus)), Bytes(1 << 26))
          .rate.value();
  const double rate = s.nodes > 1 ? kNicShare * kNic : within;
  return kStart + s.tokens * s.top_k * row / rate;
}

}  // namespace orrery::calibration
