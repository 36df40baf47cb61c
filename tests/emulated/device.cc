// What an emulated device is: its facts, no monitor, and naive attention in float64 in place of a library's. Together
// with the sources of the GPU modules and with rocblas.cc it makes a module that runs on the host.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "calibration/kernels/attention.h"
#include "calibration/kernels/buffers.h"
#include "calibration/kernels/values.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {

Monitor::Monitor(const std::string&) : problem_("the device is emulated") {}
Monitor::~Monitor() = default;
std::string Monitor::version() const { return {}; }
double Monitor::sm_mhz() const { return 0; }
double Monitor::power_w() const { return 0; }
double Monitor::power_limit_w() const { return 0; }
double Monitor::energy_j() const { return 0; }
std::int32_t Monitor::limits() const { return 0; }
std::string Monitor::state() const { return {}; }
GpuFacts::Links Monitor::links() const { return {}; }

void Device::describe() {
  monitor_ = std::make_unique<Monitor>("");
  std::snprintf(facts_.name, sizeof facts_.name, "emulated");
  if (const char* const architecture = std::getenv("ORRERY_EMULATED_ARCHITECTURE"); architecture != nullptr)
    std::snprintf(facts_.architecture, sizeof facts_.architecture, "%s", architecture);
  facts_.gpus = 1;
  facts_.processors = 1;
  facts_.memory.bytes = facts_.memory.free_bytes = free_bytes();
  facts_.memory.l2_bytes = 1 << 16;  // so that small cases have several sets
  facts_.memory.bandwidth = 1e9;
  for (double& peak : facts_.peak) peak = 1e9;
}

namespace {

/// Full score matrices; gradients by the textbook: D = rowsum(dO * O), where the reference sums weights.
class NaivePass : public AttentionPass {
 public:
  NaivePass(const Case& what, bool backward) : c_(what), backward_(backward) {}

  void launch(const AttentionTensors& t, Stream) override {
    for (std::int64_t b = 0; b < c_.batch; ++b) {
      for (std::int64_t h = 0; h < c_.attention.heads; ++h) one_head(t, b, h);
    }
  }

 private:
  using Matrix = std::vector<std::vector<double>>;

  std::int64_t at(std::int64_t b, std::int64_t s, std::int64_t heads, std::int64_t h) const {
    return ((b * c_.attention.seq + s) * heads + h) * c_.attention.head_dim;
  }
  Matrix read(const void* from, std::int64_t b, std::int64_t heads, std::int64_t h) const {
    Matrix m(static_cast<std::size_t>(c_.attention.seq));
    for (std::int64_t s = 0; s < c_.attention.seq; ++s)
      for (std::int64_t i = 0; i < c_.attention.head_dim; ++i)
        m[static_cast<std::size_t>(s)].push_back(
            static_cast<double>(from_bf16(static_cast<const Bf16*>(from)[at(b, s, heads, h) + i])));
    return m;
  }
  /// `add`: to what is there, which a group of query heads shares.
  void write(void* to, const Matrix& m, std::int64_t b, std::int64_t heads, std::int64_t h, bool add) const {
    const Matrix before = read(to, b, heads, h);
    for (std::size_t s = 0; s < m.size(); ++s)
      for (std::size_t i = 0; i < m[s].size(); ++i)
        static_cast<Bf16*>(to)[at(b, static_cast<std::int64_t>(s), heads, h) + static_cast<std::int64_t>(i)] =
            to_bf16(static_cast<float>(m[s][i] + (add ? before[s][i] : 0)));
  }

  void one_head(const AttentionTensors& t, std::int64_t b, std::int64_t h) const {
    const std::int64_t group = c_.attention.heads / c_.attention.kv_heads, kv = h / group;
    const Matrix q = read(t.q, b, c_.attention.heads, h), k = read(t.k, b, c_.attention.kv_heads, kv),
                 v = read(t.v, b, c_.attention.kv_heads, kv);
    const auto n = static_cast<std::size_t>(c_.attention.seq), dim = static_cast<std::size_t>(c_.attention.head_dim);
    const auto zeros = [&](std::size_t columns) { return Matrix(n, std::vector<double>(columns)); };
    Matrix p = zeros(n), out = zeros(dim);
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < n; ++j) {
        if (!sees(c_, static_cast<std::int64_t>(i), static_cast<std::int64_t>(j))) continue;
        double score = 0;
        for (std::size_t x = 0; x < dim; ++x) score += q[i][x] * k[j][x];
        sum += p[i][j] = std::exp(score * attention_scale(c_));
      }
      for (std::size_t j = 0; j < n; ++j) {
        p[i][j] /= sum;
        for (std::size_t x = 0; x < dim; ++x) out[i][x] += p[i][j] * v[j][x];
      }
      if (!backward_)
        static_cast<float*>(
            t.statistics)[(b * c_.attention.heads + h) * c_.attention.seq + static_cast<std::int64_t>(i)] =
            static_cast<float>(std::log(sum));
    }
    if (!backward_) return write(t.out, out, b, c_.attention.heads, h, false);
    const Matrix grad = read(t.dout, b, c_.attention.heads, h);
    Matrix dq = zeros(dim), dk = zeros(dim), dv = zeros(dim);
    for (std::size_t i = 0; i < n; ++i) {
      double d = 0;
      for (std::size_t x = 0; x < dim; ++x) d += grad[i][x] * out[i][x];
      for (std::size_t j = 0; j < n; ++j) {
        double dp = 0;
        for (std::size_t x = 0; x < dim; ++x) dp += grad[i][x] * v[j][x];
        const double ds = p[i][j] * (dp - d) * attention_scale(c_);
        for (std::size_t x = 0; x < dim; ++x) {
          dq[i][x] += ds * k[j][x];
          dk[j][x] += ds * q[i][x];
          dv[j][x] += p[i][j] * grad[i][x];
        }
      }
    }
    write(t.dq, dq, b, c_.attention.heads, h, false);
    write(t.dk, dk, b, c_.attention.kv_heads, kv, h % group != 0);
    write(t.dv, dv, b, c_.attention.kv_heads, kv, h % group != 0);
  }

  Case c_;
  bool backward_;
};

[[noreturn]] void no_time() { throw Failure{GpuStatus::unavailable, "an emulated device has no time"}; }

}  // namespace

std::unique_ptr<AttentionPass> make_attention_pass(Device& device, const Case& what, bool backward) {
  // As the module for ROCm does.
  if (std::getenv("ORRERY_EMULATED_TORCH") != nullptr) return make_torch_pass(device, what, backward);
  return std::make_unique<NaivePass>(what, backward);
}
void list_attention_library(Inventory&) {}
void list_collective_library(Inventory&) {}
void end_collectives() {}
GpuTiming measure_host(Device&, const Case&, double) { no_time(); }
GpuTiming measure_sustained(Device&, const Case&, double) { no_time(); }
GpuTiming measure_power(Device&, const Case&, double) { no_time(); }
GpuTiming measure_interference(Device&, const Case&, double) { no_time(); }
GpuTiming measure_collective(Device&, const Case&, double, bool) { no_time(); }

}  // namespace orrery::calibration::gpu
