// Cases of what inference engines run: attention of one query a sequence over pages of a cache, of chunks on a cached
// prefix, experts of few tokens, sampling. The plain kernels are this module's own; attention of a library is
// PyTorch's (torch_attention.cc). References are computed in float64 for some sequences, heads, tokens and rows.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "calibration/kernels/attention.h"
#include "calibration/kernels/rows.h"
#include "calibration/kernels/values.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {
namespace {

using Row64 = std::vector<double>;

/// A table in device memory.
class Indices {
 public:
  Indices() = default;
  explicit Indices(std::vector<std::int32_t> values) : values_(std::move(values)), memory_(values_.size() * 4) {
    check(gpuMemcpy(memory_.data(), values_.data(), values_.size() * 4, gpuMemcpyHostToDevice), "writing a table");
  }
  const std::int32_t* data() const { return static_cast<const std::int32_t*>(memory_.data()); }
  std::int32_t operator[](std::int64_t i) const { return values_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<std::int32_t> values_;
  Memory memory_;
};

/// All numbers below `count` in an order that looks like chance: pages of a cache that has been used for a while.
std::vector<std::int32_t> shuffled(std::int64_t count) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int32_t>(i);
  for (std::size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[bits_at(5, i) % i]);
  return out;
}

/// softmax(q keys') values for one query, in float64.
Row64 attended(const Row64& q, const std::vector<Row64>& keys, const std::vector<Row64>& values, double scale) {
  Row64 weights;
  for (const Row64& key : keys) {
    double score = 0;
    for (std::size_t i = 0; i < q.size(); ++i) score += q[i] * key[i];
    weights.push_back(score * scale);
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - largest);
  Row64 out(q.size());
  for (std::size_t j = 0; j < values.size(); ++j)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += weights[j] / sum * values[j][i];
  return out;
}

Row64 inputs_of(const Buffers& buffers, int tensor, std::int64_t first, std::int64_t count) {
  Row64 out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(buffers.value(tensor, first + i));
  return out;
}

void compare_row(const Buffers& buffers, int tensor, std::int64_t first, const Row64& right, Difference& difference) {
  const Row64 computed = buffers.read(tensor, first, static_cast<std::int64_t>(right.size()));
  for (std::size_t i = 0; i < right.size(); ++i) difference.add(computed[i], right[i]);
}

std::int64_t first_seen(const Case& c, std::int64_t query) {
  return c.attention.window == 0 ? 0 : std::max<std::int64_t>(0, query - c.attention.window + 1);
}

/// One query of each sequence over pages.
class PagedWorkload : public Workload {
 public:
  PagedWorkload(Device& device, const Case& what) : case_(what) {
    const Case::Attention& a = what.attention;
    if (what.m != 1 || a.head_dim < 16 || a.head_dim > kLongestHead || (a.head_dim & (a.head_dim - 1)) != 0)
      throw Failure{GpuStatus::unavailable,
                    "the plain kernel decodes, with heads of 16 to 256 channels, powers of two"};
    if (what.dtype != CaseType::bfloat16) throw Failure{GpuStatus::unavailable, "the plain kernel is of bfloat16"};
    shape_.keys = a.seq;
    shape_.pages = (a.seq + kPageTokens - 1) / kPageTokens;
    shape_.window = a.window;
    shape_.heads = static_cast<int>(a.heads);
    shape_.kv_heads = static_cast<int>(a.kv_heads);
    shape_.head_dim = static_cast<int>(a.head_dim);
    shape_.scale = static_cast<float>(attention_scale(what));
    shape_.splits = paged_splits(shape_, what.batch, device.facts().processors);
    const std::int64_t pages = what.batch * shape_.pages;
    const std::int64_t cached = pages * kPageTokens * a.kv_heads * a.head_dim;
    q_ = buffers_.input(Storage::bf16, what.batch * a.heads * a.head_dim);
    k_ = buffers_.input(Storage::bf16, cached);
    v_ = buffers_.input(Storage::bf16, cached);
    out_ = buffers_.output(Storage::bf16, what.batch * a.heads * a.head_dim);
    parts_ = buffers_.scratch(Storage::fp32, paged_part_floats(shape_, what.batch));
    buffers_.allocate(device);
    table_ = Indices(shuffled(pages));
  }
  int sets() const override { return buffers_.sets(); }
  void launch(int set, Stream stream) override {
    paged_attention(buffers_.at<Bf16>(out_, set), buffers_.at<float>(parts_, set), buffers_.at<Bf16>(q_, set),
                    buffers_.at<Bf16>(k_, set), buffers_.at<Bf16>(v_, set), table_.data(), shape_, case_.batch, stream);
  }
  double error(Device& device) override {
    run_once(device, *this, buffers_);
    Difference difference;
    const std::int64_t group = case_.attention.heads / case_.attention.kv_heads;
    for (const std::int64_t sequence : {std::int64_t{0}, case_.batch - 1})
      for (const std::int64_t head : {std::int64_t{0}, case_.attention.heads - 1}) {
        std::vector<Row64> keys, values;
        for (std::int64_t j = first_seen(case_, case_.attention.seq - 1); j < case_.attention.seq; ++j) {
          const std::int64_t page = table_[sequence * shape_.pages + j / kPageTokens];
          const std::int64_t at = ((page * case_.attention.kv_heads + head / group) * kPageTokens + j % kPageTokens) *
                                  case_.attention.head_dim;
          keys.push_back(inputs_of(buffers_, k_, at, case_.attention.head_dim));
          values.push_back(inputs_of(buffers_, v_, at, case_.attention.head_dim));
        }
        const std::int64_t here = (sequence * case_.attention.heads + head) * case_.attention.head_dim;
        compare_row(
            buffers_, out_, here,
            attended(inputs_of(buffers_, q_, here, case_.attention.head_dim), keys, values, attention_scale(case_)),
            difference);
      }
    return difference.relative();
  }
  double tolerance() const override { return 2e-2; }

 private:
  Case case_;
  PagedShape shape_;
  Buffers buffers_;
  Indices table_;
  int q_ = 0, k_ = 0, v_ = 0, out_ = 0, parts_ = 0;
};

/// The last m of seq positions over all of these, by a library.
class CachedWorkload : public Workload {
 public:
  CachedWorkload(Device& device, const Case& what) : case_(what), pass_(make_cached_pass(device, what)) {
    const Case::Attention& a = what.attention;
    const Storage storage = storage_of(what.dtype);
    tensors_.q = buffers_.input(storage, what.batch * what.m * a.heads * a.head_dim);
    tensors_.k = buffers_.input(storage, what.batch * a.seq * a.kv_heads * a.head_dim);
    tensors_.v = buffers_.input(storage, what.batch * a.seq * a.kv_heads * a.head_dim);
    tensors_.out = buffers_.output(storage, what.batch * what.m * a.heads * a.head_dim);
    buffers_.allocate(device);
  }
  int sets() const override { return buffers_.sets(); }
  void launch(int set, Stream stream) override {
    AttentionTensors t;
    t.q = buffers_.at<void>(tensors_.q, set);
    t.k = buffers_.at<void>(tensors_.k, set);
    t.v = buffers_.at<void>(tensors_.v, set);
    t.out = buffers_.at<void>(tensors_.out, set);
    pass_->launch(t, stream);
    if (delivers_) pass_->deliver(t, stream);
  }
  double error(Device& device) override {
    delivers_ = true;
    run_once(device, *this, buffers_);
    delivers_ = false;
    Difference difference;
    const Case::Attention& a = case_.attention;
    const std::int64_t group = a.heads / a.kv_heads;
    const auto row = [&](int tensor, std::int64_t sequence, std::int64_t positions, std::int64_t position,
                         std::int64_t heads, std::int64_t head) {
      return inputs_of(buffers_, tensor, ((sequence * positions + position) * heads + head) * a.head_dim, a.head_dim);
    };
    for (const std::int64_t sequence : {std::int64_t{0}, case_.batch - 1})
      for (const std::int64_t query : {std::int64_t{0}, case_.m - 1}) {
        const std::int64_t head = sequence == 0 ? 0 : a.heads - 1, position = a.seq - case_.m + query;
        std::vector<Row64> keys, values;
        for (std::int64_t j = first_seen(case_, position); j <= position; ++j) {
          keys.push_back(row(tensors_.k, sequence, a.seq, j, a.kv_heads, head / group));
          values.push_back(row(tensors_.v, sequence, a.seq, j, a.kv_heads, head / group));
        }
        const Row64 q = row(tensors_.q, sequence, case_.m, query, a.heads, head);
        compare_row(buffers_, tensors_.out, ((sequence * case_.m + query) * a.heads + head) * a.head_dim,
                    attended(q, keys, values, attention_scale(case_)), difference);
      }
    return difference.relative();
  }
  double tolerance() const override { return 2e-2; }

 private:
  Case case_;
  std::unique_ptr<AttentionPass> pass_;
  Buffers buffers_;
  struct Numbers {
    int q = 0, k = 0, v = 0, out = 0;
  } tensors_;
  bool delivers_ = false;
};

/// Experts in turn: choice c of token t is expert (t * chosen + c) modulo their number.
class ExpertsWorkload : public Workload {
 public:
  ExpertsWorkload(Device& device, const Case& what) {
    if (what.dtype != CaseType::bfloat16) throw Failure{GpuStatus::unavailable, "the plain kernels are of bfloat16"};
    if (std::strcmp(what.name, "plain") != 0)
      throw Failure{GpuStatus::unavailable, "no library with an interface of C has experts"};
    if (what.m * what.elements > (std::int64_t{1} << 22) || what.batch > 65535)
      throw Failure{GpuStatus::unavailable, "the plain kernels are of few tokens"};
    const auto whole = [](std::int64_t v) { return static_cast<int>(v); };
    sizes_ = {whole(what.m), whole(what.k), whole(what.n), whole(what.batch), whole(what.elements)};
    const std::int64_t rows = what.m * what.elements;
    x_ = buffers_.input(Storage::bf16, what.m * what.k);
    // Sums over a row of weights stay near one.
    gate_up_ = buffers_.input(Storage::bf16, what.batch * 2 * what.n * what.k, 1 / std::sqrt(double(what.k)));
    down_ = buffers_.input(Storage::bf16, what.batch * what.k * what.n, 1 / std::sqrt(double(what.n)));
    hidden_ = buffers_.scratch(Storage::bf16, rows * what.n);
    rows_ = buffers_.scratch(Storage::bf16, rows * what.k);
    y_ = buffers_.output(Storage::bf16, what.m * what.k);
    buffers_.allocate(device);
    std::vector<std::vector<std::int32_t>> of_expert(static_cast<std::size_t>(what.batch));
    for (std::int64_t choice = 0; choice < rows; ++choice)
      of_expert[static_cast<std::size_t>(choice % what.batch)].push_back(static_cast<std::int32_t>(choice));
    std::vector<std::int32_t> first{0}, token, row(static_cast<std::size_t>(rows));
    for (const std::vector<std::int32_t>& choices : of_expert) {
      for (const std::int32_t choice : choices) {
        row[static_cast<std::size_t>(choice)] = static_cast<std::int32_t>(token.size());
        token.push_back(choice / static_cast<std::int32_t>(what.elements));
      }
      first.push_back(static_cast<std::int32_t>(token.size()));
    }
    first_ = Indices(first);
    token_ = Indices(token);
    row_ = Indices(row);
  }
  int sets() const override { return buffers_.sets(); }
  void launch(int set, Stream stream) override {
    few_experts(buffers_.at<Bf16>(y_, set), buffers_.at<Bf16>(hidden_, set), buffers_.at<Bf16>(rows_, set),
                buffers_.at<Bf16>(x_, set), buffers_.at<Bf16>(gate_up_, set), buffers_.at<Bf16>(down_, set),
                {first_.data(), token_.data(), row_.data()}, sizes_, stream);
  }
  double error(Device& device) override {
    run_once(device, *this, buffers_);
    Difference difference;
    for (const std::int64_t token : {std::int64_t{0}, std::int64_t{sizes_.tokens - 1}}) {
      const Row64 x = inputs_of(buffers_, x_, token * sizes_.hidden, sizes_.hidden);
      const std::int64_t columns = std::min<std::int64_t>(sizes_.hidden, 24);
      Row64 y(static_cast<std::size_t>(columns));
      for (std::int64_t c = 0; c < sizes_.chosen; ++c) add_expert((token * sizes_.chosen + c) % sizes_.experts, x, y);
      compare_row(buffers_, y_, token * sizes_.hidden, y, difference);
    }
    return difference.relative();
  }
  double tolerance() const override { return 2e-2; }

 private:
  static double dot(const Buffers& b, int weight, std::int64_t first, const Row64& x) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += b.value(weight, first + static_cast<std::int64_t>(i)) * x[i];
    return sum;
  }
  /// Adds the expert's share to the first columns of a token.
  void add_expert(std::int64_t expert, const Row64& x, Row64& y) const {
    Row64 hidden;
    for (std::int64_t n = 0; n < sizes_.width; ++n) {
      const std::int64_t gate = (expert * 2 * sizes_.width + n) * sizes_.hidden;
      const std::int64_t up = gate + std::int64_t{sizes_.width} * sizes_.hidden;
      const double value = swiglu(dot(buffers_, gate_up_, gate, x), dot(buffers_, gate_up_, up, x));
      hidden.push_back(static_cast<double>(from_bf16(to_bf16(static_cast<float>(value)))));
    }
    for (std::size_t h = 0; h < y.size(); ++h)
      y[h] += dot(buffers_, down_, (expert * sizes_.hidden + static_cast<std::int64_t>(h)) * sizes_.width, hidden) /
              sizes_.chosen;
  }

  ExpertSizes sizes_;
  Buffers buffers_;
  Indices first_, token_, row_;
  int x_ = 0, gate_up_ = 0, down_ = 0, hidden_ = 0, rows_ = 0, y_ = 0;
};

/// A token of each row; the error of the sums, and of draws that lie beside their token's share.
class SamplingWorkload : public Workload {
 public:
  SamplingWorkload(Device& device, const Case& what) : rows_(what.m), columns_(what.n) {
    if (columns_ % 8 != 0) throw Failure{GpuStatus::unavailable, "rows of logits have multiples of 8"};
    logits_ = buffers_.input(Storage::bf16, rows_ * columns_);
    token_ = buffers_.output(Storage::int32, rows_);
    log_sum_ = buffers_.output(Storage::fp32, rows_);
    buffers_.allocate(device);
  }
  int sets() const override { return buffers_.sets(); }
  void launch(int set, Stream stream) override {
    sample(buffers_.at<std::int32_t>(token_, set), buffers_.at<float>(log_sum_, set), buffers_.at<Bf16>(logits_, set),
           rows_, columns_, kSeed, stream);
  }
  double error(Device& device) override {
    run_once(device, *this, buffers_);
    Difference sums;
    double beside = 0;
    for (const std::int64_t row : {std::int64_t{0}, rows_ - 1}) {
      const Row64 logits = inputs_of(buffers_, logits_, row * columns_, columns_);
      double total = 0;
      for (const double l : logits) total += std::exp(l);
      sums.add(buffers_.read(log_sum_, row, 1).front(), std::log(total));
      const auto token = static_cast<std::int64_t>(buffers_.read(token_, row, 1).front());
      if (token < 0 || token >= columns_) return 1;
      // Tokens before it, in the order of the threads.
      const auto place = [](std::int64_t t) {
        return std::array{t / 8 % kSamplingThreads, t / 8 / kSamplingThreads, t % 8};
      };
      double before = 0;
      for (std::int64_t t = 0; t < columns_; ++t)
        if (place(t) < place(token)) before += std::exp(logits[static_cast<std::size_t>(t)]) / total;
      const double draw = static_cast<double>(draw_at(kSeed, static_cast<std::uint64_t>(row)));
      const double own = std::exp(logits[static_cast<std::size_t>(token)]) / total;
      beside = std::max({beside, before - draw, draw - before - own});
    }
    return std::max(sums.relative(), beside);
  }
  double tolerance() const override { return 1e-3; }

 private:
  static constexpr std::uint64_t kSeed = 11;
  std::int64_t rows_, columns_;
  Buffers buffers_;
  int logits_ = 0, token_ = 0, log_sum_ = 0;
};

}  // namespace

std::unique_ptr<Workload> make_paged_attention(Device& device, const Case& what) {
  if (std::strcmp(what.name, "decode_plain") == 0) return std::make_unique<PagedWorkload>(device, what);
  return std::make_unique<CachedWorkload>(device, what);
}
std::unique_ptr<Workload> make_experts(Device& device, const Case& what) {
  return std::make_unique<ExpertsWorkload>(device, what);
}
std::unique_ptr<Workload> make_sampling(Device& device, const Case& what) {
  return std::make_unique<SamplingWorkload>(device, what);
}

}  // namespace orrery::calibration::gpu
