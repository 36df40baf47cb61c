// Attention: buffers and a float64 reference. Forward, sampled queries are computed whole. Backward, the gradients of
// the last keys need only the queries after them (causal), so that a short tail of the sequence is enough; at short
// sequences the tail is everything. Gradients follow Dao, FlashAttention-2, arXiv 2307.08691, section 2.
#include "calibration/kernels/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {
namespace {

constexpr std::int64_t kWhole = 256;  // positions; longer sequences are checked at their end
constexpr double kMostWork = 3e8;     // multiplications of the reference, about half a second

using Row = std::vector<double>;

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

class AttentionWorkload : public Workload {
 public:
  AttentionWorkload(Device& device, const Case& what)
      : case_(what), backward_(std::strcmp(what.name, "backward") == 0) {
    forward_pass_ = make_attention_pass(device, what, false);
    if (backward_) backward_pass_ = make_attention_pass(device, what, true);
    const Storage storage = storage_of(what.dtype);
    const std::int64_t positions = what.batch * what.attention.seq;
    const std::int64_t q = positions * what.attention.heads * what.attention.head_dim,
                       k = positions * what.attention.kv_heads * what.attention.head_dim;
    tensor_.q = buffers_.input(storage, q);
    tensor_.k = buffers_.input(storage, k);
    tensor_.v = buffers_.input(storage, k);
    // Backward, they are made by a forward pass of every set and must outlive the poison.
    const auto result = [&](Storage s, std::int64_t count) {
      return backward_ ? buffers_.scratch(s, count) : buffers_.output(s, count);
    };
    tensor_.out = result(storage, q);
    tensor_.statistics = result(Storage::fp32, positions * what.attention.heads);
    if (backward_) {
      tensor_.dout = buffers_.input(storage, q);
      tensor_.dq = buffers_.output(storage, q);
      tensor_.dk = buffers_.output(storage, k);
      tensor_.dv = buffers_.output(storage, k);
    }
    buffers_.allocate(device);
    for (int set = 0; backward_ && set < buffers_.sets(); ++set) {
      forward_pass_->launch(tensors(set), device.stream());
      forward_pass_->deliver(tensors(set), device.stream());
    }
    check(gpuStreamSynchronize(device.stream()), "running the forward pass");
  }

  int sets() const override { return buffers_.sets(); }

  void launch(int set, Stream stream) override {
    AttentionPass& pass = backward_ ? *backward_pass_ : *forward_pass_;
    pass.launch(tensors(set), stream);
    if (delivers_) pass.deliver(tensors(set), stream);
  }

  double error(Device& device) override {
    delivers_ = true;
    run_once(device, *this, buffers_);
    delivers_ = false;
    differences_ = {};
    // The first head of the first sequence and the last of the last.
    for (int corner = 0; corner < 2; ++corner) {
      const std::int64_t batch = corner == 0 ? 0 : case_.batch - 1;
      const std::int64_t kv_head = corner == 0 ? 0 : case_.attention.kv_heads - 1;
      read_head(batch, kv_head);
      backward_ ? check_gradients(batch, kv_head) : check_output(batch, kv_head);
    }
    // Each tensor by itself: gradients differ in size, and the largest would hide the others.
    if (!backward_) return differences_[0].relative();
    return std::max({differences_[0].relative(), differences_[1].relative(), differences_[2].relative()});
  }

  double tolerance() const override { return 2e-2; }

 private:
  AttentionTensors tensors(int set) const {
    const auto at = [&](int tensor) { return tensor < 0 ? nullptr : buffers_.at<void>(tensor, set); };
    return {at(tensor_.q),    at(tensor_.k),  at(tensor_.v),  at(tensor_.out), at(tensor_.statistics),
            at(tensor_.dout), at(tensor_.dq), at(tensor_.dk), at(tensor_.dv)};
  }

  std::int64_t at(std::int64_t batch, std::int64_t position, std::int64_t heads, std::int64_t head) const {
    return ((batch * case_.attention.seq + position) * heads + head) * case_.attention.head_dim;
  }
  Row vector(int tensor, std::int64_t first) const {
    Row row(static_cast<std::size_t>(case_.attention.head_dim));
    for (std::int64_t i = 0; i < case_.attention.head_dim; ++i)
      row[static_cast<std::size_t>(i)] = buffers_.value(tensor, first + i);
    return row;
  }
  void compare(int tensor, std::int64_t first, const Row& right, Difference& d) const {
    const Row computed = buffers_.read(tensor, first, case_.attention.head_dim);
    for (std::size_t i = 0; i < right.size(); ++i) d.add(computed[i], right[i]);
  }

  void read_head(std::int64_t batch, std::int64_t kv_head) {
    keys_.clear();
    values_.clear();
    for (std::int64_t j = 0; j < case_.attention.seq; ++j) {
      keys_.push_back(vector(tensor_.k, at(batch, j, case_.attention.kv_heads, kv_head)));
      values_.push_back(vector(tensor_.v, at(batch, j, case_.attention.kv_heads, kv_head)));
    }
  }

  /// Weights of the keys that query `i` sees, from the first one on.
  Row weights(const Row& q, std::int64_t i, std::int64_t first) const {
    Row p;
    for (std::int64_t j = first; j <= i; ++j)
      p.push_back(dot(q, keys_[static_cast<std::size_t>(j)]) * attention_scale(case_));
    const double largest = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& w : p) sum += w = std::exp(w - largest);
    for (double& w : p) w /= sum;
    return p;
  }
  std::int64_t first_key(std::int64_t i) const {
    return case_.attention.window == 0 ? 0 : std::max<std::int64_t>(0, i - case_.attention.window + 1);
  }
  std::int64_t group() const { return case_.attention.heads / case_.attention.kv_heads; }
  std::int64_t tail() const {
    if (case_.attention.seq <= kWhole) return case_.attention.seq;
    const double each = 8.0 * static_cast<double>(group() * case_.attention.seq * case_.attention.head_dim);
    return static_cast<std::int64_t>(std::clamp(kMostWork / each, 4.0, 48.0));
  }

  void check_output(std::int64_t batch, std::int64_t kv_head) {
    const std::int64_t head = kv_head * group() + group() - 1;
    for (std::int64_t sample = 0; sample < std::min<std::int64_t>(case_.attention.seq, 16); ++sample) {
      // The first queries see few keys, the last all.
      const std::int64_t i = sample < 8 ? sample : case_.attention.seq - 1 - (sample - 8) * (case_.attention.seq / 16);
      const Row p = weights(vector(tensor_.q, at(batch, i, case_.attention.heads, head)), i, first_key(i));
      Row right(static_cast<std::size_t>(case_.attention.head_dim));
      for (std::size_t j = 0; j < p.size(); ++j) add(right, p[j], values_[static_cast<std::size_t>(first_key(i)) + j]);
      compare(tensor_.out, at(batch, i, case_.attention.heads, head), right, differences_[0]);
    }
  }

  static void add(Row& to, double factor, const Row& row) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * row[i];
  }

  void check_gradients(std::int64_t batch, std::int64_t kv_head) {
    const std::int64_t begin = case_.attention.seq - tail();
    std::vector<Row> dk(static_cast<std::size_t>(tail()), Row(static_cast<std::size_t>(case_.attention.head_dim)));
    std::vector<Row> dv = dk;
    for (std::int64_t head = kv_head * group(); head < (kv_head + 1) * group(); ++head) {
      for (std::int64_t i = begin; i < case_.attention.seq; ++i) {
        const std::int64_t here = at(batch, i, case_.attention.heads, head), first = first_key(i);
        const Row q = vector(tensor_.q, here), grad = vector(tensor_.dout, here);
        const Row p = weights(q, i, first);
        Row dp;
        for (std::size_t j = 0; j < p.size(); ++j)
          dp.push_back(dot(grad, values_[static_cast<std::size_t>(first) + j]));
        const double mean = dot(p, dp);
        Row dq(static_cast<std::size_t>(case_.attention.head_dim));
        for (std::size_t j = 0; j < p.size(); ++j) {
          const auto key = static_cast<std::size_t>(first) + j;
          const double ds = p[j] * (dp[j] - mean) * attention_scale(case_);
          add(dq, ds, keys_[key]);
          if (key < static_cast<std::size_t>(begin)) continue;
          add(dk[key - static_cast<std::size_t>(begin)], ds, q);
          add(dv[key - static_cast<std::size_t>(begin)], p[j], grad);
        }
        compare(tensor_.dq, here, dq, differences_[0]);
      }
    }
    for (std::int64_t j = begin; j < case_.attention.seq; ++j) {
      const std::int64_t here = at(batch, j, case_.attention.kv_heads, kv_head);
      compare(tensor_.dk, here, dk[static_cast<std::size_t>(j - begin)], differences_[1]);
      compare(tensor_.dv, here, dv[static_cast<std::size_t>(j - begin)], differences_[2]);
    }
  }

  Case case_;
  bool backward_, delivers_ = false;
  Buffers buffers_;
  /// Of buffers_; -1: none.
  struct Numbers {
    int q = -1, k = -1, v = -1, out = -1, statistics = -1, dout = -1, dq = -1, dk = -1, dv = -1;
  } tensor_;
  std::unique_ptr<AttentionPass> forward_pass_, backward_pass_;
  std::vector<Row> keys_, values_;         // of the head that is checked
  std::array<Difference, 3> differences_;  // out; or dq, dk, dv
};

}  // namespace

std::unique_ptr<Workload> make_attention(Device& device, const Case& what) {
  return std::make_unique<AttentionWorkload>(device, what);
}

}  // namespace orrery::calibration::gpu
