// Grids are logarithmic, with shapes off the powers of two in between, because tiles divide those unevenly. Shapes of
// models: the products of a layer and of the LM head at tensor parallelism 1, 2, 4 and 8 (Megatron-LM's split, Shoeybi
// et al., arXiv 1909.08053), for one sequence.
#include "calibration/measure/measurement_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_set>

#include "calibration/measure/measurement.h"
#include "sim/real.h"

namespace orrery::calibration {
namespace {

using SizeList = std::vector<std::int64_t>;

constexpr double kLongestMeasured = 0.05;  // seconds; longer shapes say nothing new
constexpr double kMemoryShare = 0.6;

using sim::real;
int width_of(CaseType t) {
  if (t == CaseType::float32) return 4;
  return t >= CaseType::fp8_e4m3 ? 1 : 2;
}
/// Before Blackwell, fp8 products want both operands contiguous in k, and libraries have blocks of scales so alone.
bool wants_forward(CaseType t) { return t >= CaseType::fp8_e4m3; }

/// Collects cases once each, if the device can run them.
class Plan {
 public:
  Plan(const GpuFacts& device, double budget) : device_(device), budget_(budget) {}

  void add(const Case& what, double budget = 0) {
    const bool matrix = what.k > 0 || what.attention.heads > 0;
    if (matrix && device_.peak[static_cast<int>(what.dtype)] <= 0) return;
    if (wants_forward(what.dtype) && what.form != CaseForm::none && what.form != CaseForm::tn) return;
    if (memory_bytes(what) > kMemoryShare * device_.memory.bytes) return;
    if (kernel_seconds(what, device_) > kLongestMeasured) return;
    if (!seen_.insert(key_of(what)).second) return;
    PlannedCase planned{what, budget > 0 ? budget : budget_, 0};
    planned.estimate = estimate(planned);
    cases_.push_back(planned);
  }
  std::size_t size() const { return cases_.size(); }
  std::vector<PlannedCase> take() { return std::move(cases_); }

  void gemm(CaseType type, CaseForm form, std::int64_t m, std::int64_t n, std::int64_t k, bool accumulate = false,
            std::int64_t batch = 1) {
    Case c;
    c.kind = batch > 1 ? CaseClass::batched_gemm : CaseClass::gemm;
    c.dtype = type;
    c.form = form;
    c.m = m;
    c.n = n;
    c.k = k;
    c.batch = batch;
    if (accumulate) set_name(c, "accumulate");
    add(c);
  }
  void grid(CaseType type, CaseForm form, const SizeList& ms, const SizeList& ns, const SizeList& ks,
            bool accumulate = false) {
    for (const std::int64_t m : ms)
      for (const std::int64_t n : ns)
        for (const std::int64_t k : ks) gemm(type, form, m, n, k, accumulate);
  }
  void grouped_gemm(CaseType type, CaseForm form, std::int64_t m, std::int64_t n, std::int64_t k,
                    std::int64_t experts) {
    for (const char* name : {"loop", "streams", "grouped"}) {
      const bool one_launch = std::string_view(name) == "grouped";
      if (one_launch ? type != CaseType::bfloat16 && type != CaseType::fp8_row : type >= CaseType::fp8_block) continue;
      Case c;
      c.kind = CaseClass::grouped_gemm;
      set_name(c, name);
      c.dtype = type;
      c.form = form;
      c.m = m;
      c.n = n;
      c.k = k;
      c.batch = experts;
      add(c);
    }
  }
  void attention(CaseType type, std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t kv_heads,
                 std::int64_t head_dim, std::int64_t window = 0) {
    for (const char* pass : {"forward", "backward"}) {
      Case c;
      c.kind = CaseClass::attention;
      set_name(c, pass);
      c.dtype = type;
      c.batch = batch;
      c.attention.seq = seq;
      c.attention.heads = heads;
      c.attention.kv_heads = kv_heads;
      c.attention.head_dim = head_dim;
      c.attention.window = window;
      add(c);
    }
  }
  void streaming(std::string_view name, std::int64_t rows, std::int64_t columns) {
    Case c;
    c.kind = CaseClass::streaming;
    set_name(c, name);
    const bool single = name == "accumulate" || name == "optimizer" || name == "lamb" || name == "gradient_norm";
    c.dtype = single ? CaseType::float32 : CaseType::bfloat16;
    c.m = rows;
    c.n = columns;
    c.elements = rows * columns;
    c.bytes = static_cast<std::int64_t>(streaming_bytes(name) * real(c.elements));
    add(c);
  }
  void host(std::string_view name, std::int64_t bytes = 0) {
    Case c;
    c.kind = CaseClass::host;
    set_name(c, name);
    c.bytes = bytes;
    add(c);
  }
  void sustained(CaseType type, double seconds, std::int64_t heads = 0) {
    Case c;
    c.kind = CaseClass::sustained;
    set_name(c, "steady_over_cold");
    c.dtype = type;
    if (heads > 0) {
      c.batch = 4;
      c.attention.seq = 8192;
      c.attention.heads = c.attention.kv_heads = heads;
      c.attention.head_dim = 128;
    } else {
      c.m = c.n = c.k = 8192;
    }
    add(c, seconds);
  }
  /// Products, or a copy of 1 GiB, for a share of the time.
  void power(std::string_view kernel, CaseType type, int percent, double seconds, std::int64_t size = 8192) {
    Case c;
    c.kind = CaseClass::power;
    set_name(c, fmt::format("{}_{}", kernel, percent));
    c.dtype = type;
    if (kernel == "copy") {
      c.m = size;
      c.n = (std::int64_t{1} << 29) / size;
      c.elements = c.m * c.n;
      c.bytes = static_cast<std::int64_t>(streaming_bytes(kernel) * real(c.elements));
    } else if (kernel == "attention") {
      c.batch = 4;
      c.attention = {size, 16, 16, 128, 0};
    } else {
      c.m = c.n = c.k = size;
    }
    add(c, seconds);
  }
  void idle(double seconds) {
    Case c;
    c.kind = CaseClass::power;
    set_name(c, "idle");
    add(c, seconds);
  }
  void interference(std::string_view name, CaseType type, std::int64_t m, std::int64_t n, std::int64_t k) {
    Case c;
    c.kind = CaseClass::interference;
    set_name(c, name);
    c.dtype = type;
    c.m = m;
    c.n = n;
    c.k = k;
    add(c, 4 * budget_);
  }
  /// The last `fresh` of `seq` positions of each sequence attend to all of these.
  void paged_attention(const char* name, CaseType type, std::int64_t sequences, std::int64_t fresh, std::int64_t seq,
                       std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim, std::int64_t window = 0) {
    Case c;
    c.kind = CaseClass::paged_attention;
    set_name(c, name);
    c.dtype = type;
    c.m = fresh;
    c.batch = sequences;
    c.attention = {seq, heads, kv_heads, head_dim, window};
    add(c);
  }
  void experts(CaseType type, std::int64_t tokens, std::int64_t hidden, std::int64_t width, std::int64_t experts,
               std::int64_t chosen) {
    Case c;
    c.kind = CaseClass::experts;
    set_name(c, "plain");
    c.dtype = type;
    c.m = tokens;
    c.n = width;
    c.k = hidden;
    c.batch = experts;
    c.elements = chosen;
    add(c);
  }
  void sampling(std::int64_t rows, std::int64_t logits) {
    Case c;
    c.kind = CaseClass::sampling;
    set_name(c, "softmax_draw");
    c.dtype = CaseType::bfloat16;
    c.m = rows;
    c.n = logits;
    add(c);
  }
  /// What interference runs beside, alone.
  void traffic() {
    Case c;
    c.kind = CaseClass::interference;
    set_name(c, "traffic_alone");
    c.bytes = kTrafficBytes;
    add(c, 4 * budget_);
  }
  void collective(std::string_view name, std::int64_t gpus, std::int64_t bytes) {
    Case c;
    c.kind = CaseClass::collective;
    set_name(c, name);
    c.dtype = CaseType::bfloat16;
    c.gpus = gpus;
    c.bytes = bytes;
    add(c);
  }

 private:
  double estimate(const PlannedCase& p) const {
    const Case& c = p.what;
    const double once = kernel_seconds(c, device_);
    // Buffers past the L2 cache are filled with random numbers, at least one set.
    const double filled = std::max(memory_bytes(c), 3 * device_.memory.l2_bytes);
    const double set_up = 0.02 + filled / 5e11;
    const double repeats = std::max(p.budget, 5 * std::max(once, 1e-3)) + 3 * std::max(once, 1e-3);
    double reference = 0.005;
    if (c.kind == CaseClass::gemm || c.kind == CaseClass::batched_gemm) reference += 64 * real(c.k) * 1e-8;
    if (c.kind == CaseClass::attention)
      reference += 2 * real(c.attention.seq * c.attention.head_dim) * 2e-8 +
                   (c.name[0] == 'b' ? 0.6 : 32 * real(c.attention.seq * c.attention.head_dim) * 2e-9);
    if (c.kind == CaseClass::paged_attention) reference += 16 * real(c.attention.seq * c.attention.head_dim) * 4e-9;
    if (c.kind == CaseClass::power) return set_up + p.budget + 0.3;
    if (c.kind == CaseClass::sustained) return set_up + p.budget + 2.2;
    if (c.kind == CaseClass::collective) return set_up + repeats + 0.5 * real(c.gpus);
    return set_up + reference + repeats;
  }

  const GpuFacts& device_;
  double budget_;
  std::vector<PlannedCase> cases_;
  std::unordered_set<std::string> seen_;
};

constexpr std::array kStreaming{"layer_norm",
                                "layer_norm_backward",
                                "gelu",
                                "gelu_backward",
                                "bias_dropout_residual",
                                "softmax",
                                "softmax_backward",
                                "optimizer",
                                "copy",
                                "cross_entropy",
                                "permute",
                                "unpermute",
                                "embedding",
                                "embedding_backward",
                                "cast_transpose",
                                "accumulate",
                                "gradient_norm",
                                "dropout",
                                "rms_norm",
                                "rms_norm_backward",
                                "swiglu",
                                "swiglu_backward",
                                "bias_dropout_residual_backward",
                                "cross_entropy_backward",
                                "lamb"};

/// About `elements` of them, in rows of the length that the kernel has in training.
void streaming_of(Plan& plan, std::string_view name, std::int64_t elements, std::int64_t hidden) {
  std::int64_t columns = hidden;
  if (name.substr(0, 7) == "softmax") columns = 2048;
  if (name.substr(0, 5) == "cross") columns = 51200;
  const std::int64_t rows = std::max<std::int64_t>(64, elements / columns / 64 * 64);
  plan.streaming(name, rows, columns);
}

/// What a board draws at rest, moving bytes and multiplying.
void power_at_most(Plan& plan, CaseType main, double seconds) {
  plan.idle(seconds);
  plan.power("copy", main, 100, seconds);
  plan.power("gemm", main, 100, seconds);
}

/// By type of operands, and how clock and power follow the share of the time that a kernel runs.
void power_by_share(Plan& plan, CaseType main, double seconds) {
  plan.power("gemm", CaseType::fp8_e4m3, 100, seconds);
  for (const int percent : {75, 50, 25}) plan.power("gemm", main, percent, seconds);
  plan.power("gemm", CaseType::fp8_e4m3, 50, seconds);
  plan.power("copy", main, 50, seconds);
  plan.power("gemm", main, 100, seconds, 2048);
  plan.power("attention", main, 100, seconds);
}

/// Whether the module found PyTorch's library, whose kernels of attention then stand in the place of its own.
bool has_pytorch(const GpuFacts& device) {
  return std::string_view(device.libraries).find("PyTorch") != std::string_view::npos;
}

CaseType main_type(const GpuFacts& device) {
  return device.peak[static_cast<int>(CaseType::bfloat16)] > 0 ? CaseType::bfloat16 : CaseType::float16;
}

/// What inference engines run: lists of few sizes, or of more.
struct ServedSizes {
  SizeList sequences, tokens, fresh, cached, rows, few_tokens;
  int all_reduce_step = 1;  // in powers of two
};
void served(Plan& plan, const GpuFacts& device, const ServedSizes& sizes) {
  struct Heads {
    std::int64_t all, kv, dim;
  };
  const CaseType main = main_type(device);
  const char* const decode = has_pytorch(device) ? "decode" : "decode_plain";
  for (const Heads& h : {Heads{32, 8, 128}, Heads{8, 1, 128}, Heads{16, 16, 128}, Heads{64, 8, 64}}) {
    for (const std::int64_t sequences : sizes.sequences)
      for (const std::int64_t tokens : sizes.tokens)
        plan.paged_attention(decode, main, sequences, 1, tokens, h.all, h.kv, h.dim);
    for (const std::int64_t fresh : sizes.fresh)
      for (const std::int64_t cached : sizes.cached)
        plan.paged_attention("prefill", main, 1, fresh, fresh + cached, h.all, h.kv, h.dim);
  }
  struct Layer {
    std::int64_t out, in;
  };
  // Of Llama 8B and 70B, whole and shared by four and eight GPUs.
  const Layer layers[]{{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336},
                       {1280, 8192}, {8192, 1024}, {14336, 8192}, {8192, 7168}};
  for (const CaseType type : {main, CaseType::fp8_e4m3, CaseType::fp8_block, CaseType::nvfp4})
    for (const Layer& layer : layers)
      for (const std::int64_t rows : sizes.rows) plan.gemm(type, CaseForm::tn, rows, layer.out, layer.in);
  for (const std::int64_t tokens : sizes.few_tokens) {
    plan.experts(main, tokens, 2048, 768, 128, 8);  // Qwen3-30B-A3B
    plan.experts(main, tokens, 4096, 3584, 8, 2);   // Mixtral 8x7B on four GPUs
    plan.experts(main, tokens, 7168, 256, 256, 8);  // DeepSeek-V3 on eight
    plan.experts(main, tokens, 2880, 2880, 32, 4);  // gpt-oss-20b
    plan.sampling(tokens, 32000);
    plan.sampling(tokens, 151936);
  }
  for (std::int64_t gpus = 2; gpus <= device.gpus && gpus <= 8; gpus *= 2)
    for (int power = 13; power <= 23; power += sizes.all_reduce_step)
      plan.collective("all_reduce_graph", gpus, std::int64_t{1} << power);
}

/// What Blackwell trains in.
void scaled_types(Plan& plan, const SizeList& sizes) {
  for (const CaseType type : {CaseType::mxfp8, CaseType::nvfp4, CaseType::fp8_block, CaseType::fp8_row})
    plan.grid(type, CaseForm::tn, sizes, sizes, sizes);
}

void coarse(Plan& plan, const GpuFacts& device, bool quick) {
  const CaseType main = main_type(device);
  const SizeList wide{512, 2048, 8192}, few{1024, 4096, 16384};
  plan.grid(main, CaseForm::tn, {512, 2048, 8192}, wide, wide);
  for (const std::int64_t seq : {2048, 8192})
    for (const std::int64_t head_dim : {64, 128}) plan.attention(main, 32768 / seq / 2, seq, 16, 16, head_dim);
  for (const char* name : kStreaming)
    for (const std::int64_t elements : {1 << 20, 1 << 24, 1 << 27}) streaming_of(plan, name, elements, 4096);
  for (const char* name : {"launch_eager", "launch_graph", "kernel_gap"}) plan.host(name);
  for (const char* name : {"copy_h2d", "copy_d2h", "copy_d2d"})
    for (const std::int64_t bytes : {1 << 16, 1 << 28}) plan.host(name, bytes);
  plan.grid(CaseType::fp8_e4m3, CaseForm::tn, few, few, few);
  plan.grid(main, CaseForm::nn, few, {2048, 8192}, {2048, 8192});
  plan.grid(main, CaseForm::nt, {2048, 8192}, {2048, 8192}, few, true);
  plan.sustained(main, quick ? 6 : 10);
  power_at_most(plan, main, quick ? 1.5 : 3);
  for (const char* name : {"gemm_beside_copy", "gemm_beside_copy_50", "gemm_beside_copy_20", "gemm_beside_reduction"})
    plan.interference(name, main, 4096, 4096, 4096);
  plan.traffic();
  scaled_types(plan, {1024, 4096, 8192});
  served(plan, device, {{1, 16, 128}, {256, 2048, 16384}, {256, 2048}, {0, 4096}, {1, 16, 64, 192}, {1, 32, 512}, 2});
  for (const CaseType type : {main, CaseType::fp8_row})
    for (const std::int64_t tokens : {128, 512, 2048}) plan.grouped_gemm(type, CaseForm::tn, tokens, 4096, 2048, 16);
  const std::array all{"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_receive"};
  for (std::int64_t gpus = 2; gpus <= device.gpus && gpus <= 8; gpus *= 2)
    for (const char* name : all)
      for (const std::int64_t bytes : {1 << 16, 1 << 22, 1 << 28}) plan.collective(name, gpus, bytes);
}

/// The products of a model, forward, and of both gradients.
void products_of(Plan& plan, const ModelKernels& model, CaseType type, bool gradients) {
  for (const auto& [out, in] : model.products) {
    if (out % 16 != 0 || in % 16 != 0) continue;
    plan.gemm(type, CaseForm::tn, model.seq, out, in);
    if (!gradients) continue;
    plan.gemm(type, CaseForm::nn, model.seq, in, out);
    plan.gemm(type, CaseForm::nt, out, in, model.seq, true);
  }
}

void of_models(Plan& plan, const std::vector<ModelKernels>& models, CaseType main, bool fp8) {
  for (const ModelKernels& m : models) {
    products_of(plan, m, fp8 ? CaseType::fp8_e4m3 : main, !fp8);
    // Models of Mamba alone have none.
    if (!fp8 && m.heads > 0) plan.attention(main, 1, m.seq, m.heads, m.kv_heads, m.head_dim);
  }
}

void fine(Plan& plan, const GpuFacts& device) {
  const CaseType main = main_type(device);
  const SizeList all{256, 512, 1024, 2048, 4096, 8192, 16384}, odd{384, 768, 1536, 3072, 6144, 12288};
  plan.grid(CaseType::fp8_e4m3, CaseForm::tn, {1024, 2048, 4096, 8192}, {1024, 2048, 4096, 8192},
            {1024, 2048, 4096, 8192});
  for (const std::int64_t seq : {512, 1024, 2048, 4096, 16384, 32768})
    for (const std::int64_t heads : {8, 32})
      for (const std::int64_t group : {1, 8})
        for (const std::int64_t head_dim : {64, 128})
          plan.attention(main, std::max<std::int64_t>(1, 16384 / seq), seq, heads, heads / group, head_dim);
  for (const std::int64_t seq : {8192, 32768}) plan.attention(main, 1, seq, 32, 8, 128, 4096);
  plan.sustained(CaseType::fp8_e4m3, 25);
  plan.sustained(main, 25, 16);
  for (const char* name : kStreaming) {
    for (int power = 16; power <= 28; power += 2) streaming_of(plan, name, std::int64_t{1} << power, 12288);
    streaming_of(plan, name, 1 << 26, 1024);
  }
  for (const std::int64_t batch : {16, 64})
    for (const std::int64_t seq : {1024, 2048, 4096})
      for (const std::int64_t head_dim : {64, 128}) {
        plan.gemm(main, CaseForm::tn, seq, seq, head_dim, false, batch);
        plan.gemm(main, CaseForm::nn, seq, head_dim, seq, false, batch);
        plan.gemm(main, CaseForm::nt, seq, head_dim, seq, false, batch);
      }
  plan.grid(main, CaseForm::tn, all, all, all);
  plan.grid(CaseType::fp8_e5m2, CaseForm::tn, {1024, 4096, 16384}, {2048, 8192}, {2048, 8192});
  plan.grid(CaseType::fp8_e5m2, CaseForm::tn, {2048, 8192}, {2048, 8192}, {1024, 4096, 16384}, true);
  plan.grid(CaseType::float16, CaseForm::tn, {512, 2048, 8192}, {512, 2048, 8192}, {512, 2048, 8192});
  plan.grid(CaseType::float32, CaseForm::tn, {2048, 8192}, {2048, 8192}, {2048, 8192});
  plan.grid(main, CaseForm::tn, odd, {768, 3072, 12288}, {768, 3072, 12288});
  plan.grid(main, CaseForm::nn, odd, {1024, 4096}, {1024, 4096});
  plan.grid(main, CaseForm::nt, {1024, 4096}, {1024, 4096}, odd, true);
  plan.grid(main, CaseForm::nt, {2048, 8192}, {2048, 8192}, {1024, 4096});
  for (const char* name : {"copy_h2d", "copy_d2h", "copy_d2d"})
    for (int power = 12; power <= 30; power += 3) plan.host(name, std::int64_t{1} << power);
  scaled_types(plan, {512, 2048, 3072, 6144, 12288});
  served(plan, device,
         {{1, 4, 8, 32, 64, 256},
          {64, 512, 1024, 4096, 8192, 32768},
          {64, 512, 1024, 4096, 8192},
          {0, 1024, 8192, 32768},
          {2, 4, 8, 32, 96, 128, 160, 224},
          {2, 4, 8, 16, 64, 128, 256, 1024, 2048},
          1});
  for (const char* name : {"gemm_beside_copy", "gemm_beside_copy_50", "gemm_beside_copy_20", "gemm_beside_reduction"}) {
    plan.interference(name, main, 2048, 12288, 12288);
    plan.interference(name, main, 2048, 3072, 12288);
  }
  const std::array operations{"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_receive"};
  for (std::int64_t gpus = 2; gpus <= device.gpus && gpus <= 8; gpus *= 2)
    for (const char* name : operations)
      for (int power = 10; power <= 30; power += 2) plan.collective(name, gpus, std::int64_t{1} << power);
}

}  // namespace

double memory_bytes(const Case& c) {
  const double width = width_of(c.dtype);
  switch (c.kind) {
    case CaseClass::gemm:
    case CaseClass::batched_gemm:
    case CaseClass::grouped_gemm:
    case CaseClass::sustained:
    case CaseClass::power:
    case CaseClass::interference:
      if (c.k == 0 && c.attention.heads == 0) return 1.2 * real(c.bytes);  // a copy's power, or a board at rest
      if (c.attention.heads > 0) break;
      return std::max(real(c.batch), 1.0) * (width * (real(c.m) * real(c.k) + real(c.k) * real(c.n)) +
                                             (c.name[0] == 'a' || width == 4 ? 4 : 2) * real(c.m) * real(c.n));
    case CaseClass::attention:
      break;
    case CaseClass::paged_attention:
      return width * real(c.batch * c.attention.head_dim) *
             (2 * real(c.attention.seq * c.attention.kv_heads) + 2 * real(c.m * c.attention.heads));
    case CaseClass::experts:
      return width *
             (3 * real(c.batch) * real(c.n) * real(c.k) + real(c.m * c.elements) * (2 * real(c.k) + 3 * real(c.n)));
    case CaseClass::sampling:
      return width * real(c.m) * real(c.n);
    case CaseClass::streaming:
      return real(c.bytes) * 1.2;
    default:
      return 2 * real(c.bytes);
  }
  const bool backward = c.name[0] == 'b';
  const double positions = real(c.batch) * real(c.attention.seq);
  return positions * real(c.attention.head_dim) * width *
         (backward ? 6 * real(c.attention.heads) + 4 * real(c.attention.kv_heads)
                   : 2 * real(c.attention.heads) + 2 * real(c.attention.kv_heads));
}

double kernel_seconds(const Case& c, const GpuFacts& device) {
  double flops = 0;
  if (c.kind == CaseClass::paged_attention) {
    flops = 4 * real(c.batch) * real(c.m) * real(c.attention.seq) * real(c.attention.heads * c.attention.head_dim);
  } else if (c.kind == CaseClass::experts) {
    flops = 6 * real(c.m * c.elements) * real(c.n) * real(c.k);
  } else if (c.attention.heads > 0) {
    // Two products forward and five backward over half of the square, or over the window.
    const double seen = c.attention.window > 0 ? std::min(real(c.attention.window), real(c.attention.seq) / 2)
                                               : real(c.attention.seq) / 2;
    flops = 4 * real(c.batch) * real(c.attention.heads) * real(c.attention.seq) * seen * real(c.attention.head_dim) *
            (c.name[0] == 'b' ? 2.5 : 1);
  } else if (c.k > 0) {
    flops = 2 * std::max(real(c.batch), 1.0) * real(c.m) * real(c.n) * real(c.k);
  }
  const double peak = device.peak[static_cast<int>(c.dtype)];
  const double compute = peak > 0 ? flops / (0.6 * peak) : 0;
  double bytes = memory_bytes(c), rate = 0.8 * device.memory.bandwidth;
  if (c.kind == CaseClass::experts)  // of those that have a token
    bytes *= std::min(1.0, real(c.m * c.elements) / real(c.batch));
  if (c.kind == CaseClass::host) {
    bytes = real(c.bytes);
    rate = 1e10;
  }  // a slow PCIe link
  if (c.kind == CaseClass::collective) {
    bytes = 2 * real(c.bytes);
    rate = 2e10;
  }
  return 3e-6 + std::max(compute, rate > 0 ? bytes / rate : 0);
}

namespace {

constexpr std::int64_t kWide = 12288;  // GPT-3 175B's hidden size

/// How early a case is measured, among those after the coarse ones: by chance, so that what a run gets to in the time
/// that it has is a sample of everything, but sooner what shapes of models of today are far apart in.
std::vector<PlannedCase> by_chance(std::vector<PlannedCase> plan, std::size_t first) {
  const auto turn = [](const PlannedCase& p) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : key_of(p.what)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    const bool products = p.what.kind == CaseClass::gemm;
    const bool sooner = (products && std::min(p.what.n, p.what.k) >= kWide) || p.what.kind == CaseClass::attention;
    const double at = static_cast<double>(hash >> 11) * 0x1p-53;
    if (p.what.kind == CaseClass::sustained) return 1.0;
    return sooner ? at / 3 : at;
  };
  std::stable_sort(plan.begin() + static_cast<std::ptrdiff_t>(first), plan.end(),
                   [&](const PlannedCase& a, const PlannedCase& b) { return turn(a) < turn(b); });
  return plan;
}

}  // namespace

std::vector<PlannedCase> measurement_plan(const GpuFacts& device, const std::vector<ModelKernels>& models, bool quick) {
  const CaseType main = main_type(device);
  Plan plan(device, quick ? 0.03 : 0.1);
  coarse(plan, device, quick);
  if (quick) return plan.take();
  power_by_share(plan, main, 3);
  for (const std::int64_t seq : {4096, 8192})
    plan.attention(main, 1, seq, 64, 8, 64, 128);  // gpt-oss, every other layer
  const std::size_t first = plan.size();
  of_models(plan, models, main, false);
  of_models(plan, models, main, true);
  fine(plan, device);
  return by_chance(plan.take(), first);
}

std::vector<PlannedCase> verification_plan(const GpuFacts& device) {
  Plan plan(device, 0.01);
  for (int t = 1; t < kCaseTypes; ++t) {
    const auto type = static_cast<CaseType>(t);
    for (const CaseForm form : {CaseForm::tn, CaseForm::nn, CaseForm::nt}) {
      plan.gemm(type, form, 512, 768, 1024);
      plan.gemm(type, form, 272, 1040, 336);  // multiples of 16 that no tile divides
      plan.gemm(type, form, 512, 256, 384, false, 6);
      plan.grouped_gemm(type, form, 96, 256, 384, 5);
      if (type != CaseType::float32 && type < CaseType::fp8_block) plan.gemm(type, form, 512, 768, 1024, true);
    }
  }
  for (const CaseType type : {CaseType::bfloat16, CaseType::float16})
    for (const std::int64_t kv_heads : {4, 1})
      for (const std::int64_t head_dim : {64, 128})
        for (const std::int64_t window : {0, 96}) plan.attention(type, 2, 256, 4, kv_heads, head_dim, window);
  plan.attention(CaseType::bfloat16, 1, 2048, 8, 2, 128);
  for (const char* name : kStreaming) {
    plan.streaming(name, 192, 1024);
    plan.streaming(name, 256, 6144);
    plan.streaming(name, 64, 12288);
    plan.streaming(name, 320, 640);
  }
  for (const char* name : {"decode_plain", "decode"})
    for (const std::int64_t seq : {33, 1000})
      for (const std::int64_t window : {0, 48})
        plan.paged_attention(name, CaseType::bfloat16, 3, 1, seq, 8, 2, 128, window);
  for (const std::int64_t fresh : {64, 200})
    plan.paged_attention("prefill", CaseType::bfloat16, 2, fresh, 256, 8, 2, 128);
  plan.experts(CaseType::bfloat16, 24, 512, 256, 16, 4);
  plan.sampling(5, 32000);
  for (const char* name : {"launch_eager", "launch_graph", "kernel_gap"}) plan.host(name);
  for (const char* name : {"copy_h2d", "copy_d2h", "copy_d2d"}) plan.host(name, 1 << 20);
  for (const char* name : {"gemm_beside_copy", "gemm_beside_copy_20", "gemm_beside_reduction"})
    plan.interference(name, CaseType::bfloat16, 2048, 2048, 2048);
  for (std::int64_t gpus = 2; gpus <= device.gpus; gpus *= 2)
    for (const char* name :
         {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_receive", "all_reduce_graph"})
      plan.collective(name, gpus, 1 << 20);
  return plan.take();
}

}  // namespace orrery::calibration
