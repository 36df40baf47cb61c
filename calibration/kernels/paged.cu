// Attention of one query a sequence over keys and values in pages, split along the keys where the device would idle,
// and the joining of the splits: Dao et al., Flash-Decoding for long-context inference (2023); pages as in Kwon et al.,
// arXiv 2309.06180. Pages are [page][kv head][token][channel]. A key is a group of lanes', eight channels each, which
// hold several query heads of the key's head, so that a key is read once for all of them. Left out: matrix units, whose
// rate counts where a key head has many more query heads than kQueries.
#include "calibration/kernels/abi.h"
#include "calibration/kernels/device.h"
#include "calibration/kernels/rows.h"

namespace orrery::calibration::gpu {
namespace {

constexpr int kPagedThreads = 128, kQueries = 8;

struct Task {
  std::int64_t sequence = 0;
  int kv_head = 0, first_head = 0, heads = 0;
};

__device__ inline Task task_of(const PagedShape& s) {
  const int group = s.heads / s.kv_heads, blocks = (group + kQueries - 1) / kQueries;
  const int at = static_cast<int>(blockIdx.x);
  Task t;
  t.sequence = at / (s.kv_heads * blocks);
  t.kv_head = at / blocks % s.kv_heads;
  const int begin = at % blocks * kQueries;
  t.first_head = t.kv_head * group + begin;
  t.heads = group - begin < kQueries ? group - begin : kQueries;
  return t;
}

/// Of a group of lanes: the largest score so far, and sums in units of e^largest.
struct Running8 {
  float largest = Largest::kNothing, total = 0;
  float sum[8] = {};
};

/// Adds what the groups of lanes of a block have of a query; lane groups are `lanes` wide.
__device__ inline void merged(const Running8& own, int lanes, int channels, float* sums, float* largest, float* totals,
                              float* out, float& top, float& total) {
  const int group = static_cast<int>(threadIdx.x) / lanes, groups = kPagedThreads / lanes;
  __syncthreads();
  if (static_cast<int>(threadIdx.x) % lanes == 0) {
    largest[group] = own.largest;
    totals[group] = own.total;
  }
  for (int j = 0; j < 8; ++j) sums[threadIdx.x * 8 + j] = own.sum[j];
  __syncthreads();
  top = Largest::kNothing;
  for (int g = 0; g < groups; ++g) top = Largest::of(top, largest[g]);
  total = 0;
  for (int g = 0; g < groups; ++g) total += totals[g] * exponential(largest[g] - top);
  for (int c = static_cast<int>(threadIdx.x); c < channels; c += kPagedThreads) {
    float sum = 0;
    for (int g = 0; g < groups; ++g) sum += sums[(g * lanes + c / 8) * 8 + c % 8] * exponential(largest[g] - top);
    out[c] = sum;
  }
}

__global__ void __launch_bounds__(kPagedThreads) paged_part(Bf16* out, float* parts, const Bf16* q, const Bf16* k,
                                                            const Bf16* v, const std::int32_t* table, PagedShape s) {
  __shared__ float sums[kPagedThreads * 8], largest[kPagedThreads], totals[kPagedThreads], row[kLongestHead];
  const Task task = task_of(s);
  const int lanes = s.head_dim / 8, lane = static_cast<int>(threadIdx.x) % lanes;
  const int group = static_cast<int>(threadIdx.x) / lanes, groups = kPagedThreads / lanes;
  const std::int64_t low = s.window > 0 && s.window < s.keys ? s.keys - s.window : 0;
  const std::int64_t each = (s.keys - low + s.splits - 1) / s.splits, from = low + each * blockIdx.y;
  const std::int64_t to = from + each < s.keys ? from + each : s.keys;
  Eight query[kQueries];
  Running8 running[kQueries];
#pragma unroll
  for (int h = 0; h < kQueries; ++h) {
    const std::int64_t at = (task.sequence * s.heads + task.first_head + h) * lanes + lane;
    query[h] = h < task.heads ? unpack(load(q, at)) : Eight{};
    for (int j = 0; j < 8; ++j) query[h].at[j] *= s.scale;
  }
  // All groups of lanes go round as often, because they shuffle together.
  for (std::int64_t base = from; base < to; base += groups) {
    const std::int64_t key = base + group;
    const bool there = key < to;
    Eight keys{}, values{};
    if (there) {
      const std::int64_t page = table[task.sequence * s.pages + key / kPageTokens];
      const std::int64_t at = ((page * s.kv_heads + task.kv_head) * kPageTokens + key % kPageTokens) * lanes + lane;
      keys = unpack(load(k, at));
      values = unpack(load(v, at));
    }
#pragma unroll
    for (int h = 0; h < kQueries; ++h) {
      if (h >= task.heads) continue;
      float score = 0;
      for (int j = 0; j < 8; ++j) score += query[h].at[j] * keys.at[j];
      for (int step = lanes / 2; step > 0; step /= 2) score += shuffle_xor(score, step);
      if (!there) continue;
      Running8& r = running[h];
      const float top = Largest::of(r.largest, score), kept = exponential(r.largest - top);
      const float weight = exponential(score - top);
      r.largest = top;
      r.total = r.total * kept + weight;
      for (int j = 0; j < 8; ++j) r.sum[j] = r.sum[j] * kept + weight * values.at[j];
    }
  }
#pragma unroll
  for (int h = 0; h < kQueries; ++h) {
    if (h >= task.heads) continue;
    float top = 0, total = 0;
    merged(running[h], lanes, s.head_dim, sums, largest, totals, row, top, total);
    const std::int64_t head = task.sequence * s.heads + task.first_head + h;
    float* const part = parts + (head * s.splits + blockIdx.y) * (s.head_dim + 2);
    for (int c = static_cast<int>(threadIdx.x); c < s.head_dim; c += kPagedThreads) {
      if (s.splits == 1)
        out[head * s.head_dim + c] = to_bf16(row[c] / total);
      else
        part[c] = row[c];
    }
    if (s.splits > 1 && threadIdx.x == 0) {
      part[s.head_dim] = top;
      part[s.head_dim + 1] = total;
    }
  }
}

__global__ void __launch_bounds__(kPagedThreads) paged_join(Bf16* out, const float* parts, int splits, int head_dim) {
  const std::int64_t head = blockIdx.x;
  const float* const own = parts + head * splits * (head_dim + 2);
  float top = Largest::kNothing, total = 0;
  for (int i = 0; i < splits; ++i) top = Largest::of(top, own[i * (head_dim + 2) + head_dim]);
  for (int i = 0; i < splits; ++i)
    total += own[i * (head_dim + 2) + head_dim + 1] * exponential(own[i * (head_dim + 2) + head_dim] - top);
  for (int c = static_cast<int>(threadIdx.x); c < head_dim; c += kPagedThreads) {
    float sum = 0;
    for (int i = 0; i < splits; ++i)
      sum += own[i * (head_dim + 2) + c] * exponential(own[i * (head_dim + 2) + head_dim] - top);
    out[head * head_dim + c] = to_bf16(sum / total);
  }
}

}  // namespace

int paged_splits(const PagedShape& s, std::int64_t sequences, std::int64_t processors) {
  constexpr std::int64_t kShortest = 256, kMostSplits = 128;  // keys of a part
  const std::int64_t blocks = (s.heads / s.kv_heads + kQueries - 1) / kQueries;
  const std::int64_t tasks = sequences * s.kv_heads * blocks;
  const std::int64_t keys = s.window > 0 && s.window < s.keys ? s.window : s.keys;
  const std::int64_t wanted = 4 * processors / tasks, most = (keys + kShortest - 1) / kShortest;
  const std::int64_t fewer = wanted < most ? wanted : most;
  return static_cast<int>(fewer < 1 ? 1 : fewer > kMostSplits ? kMostSplits : fewer);
}

void paged_attention(Bf16* out, float* parts, const Bf16* q, const Bf16* k, const Bf16* v, const std::int32_t* table,
                     const PagedShape& s, std::int64_t sequences, Stream stream) {
  const std::int64_t blocks = (s.heads / s.kv_heads + kQueries - 1) / kQueries;
  const dim3 grid(static_cast<unsigned>(sequences * s.kv_heads * blocks), static_cast<unsigned>(s.splits));
  ORRERY_LAUNCH(paged_part, grid, kPagedThreads, stream, out, parts, q, k, v, table, s);
  if (s.splits == 1) return;
  ORRERY_LAUNCH(paged_join, static_cast<unsigned>(sequences * s.heads), kPagedThreads, stream, out, parts, s.splits,
                s.head_dim);
}

}  // namespace orrery::calibration::gpu
