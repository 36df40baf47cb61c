// The part of PyTorch's library that torch.cc calls, on host memory: tensors as pointers with sizes, attention by the
// textbook in float64, queries that are fewer than keys being the last positions (as flash_attention's masks are
// aligned), and products of groups. Signatures: shim.h and c_shim_cuda.h, stable/library.h and native_functions.yaml of
// pytorch/pytorch.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "calibration/kernels/values.h"

using namespace orrery::calibration::gpu;

namespace {

struct Tensor {
  void* data = nullptr;
  std::vector<std::int64_t> sizes;
  std::int64_t bytes = 0;
  bool owns = false;
  std::vector<std::int64_t> strides;
  std::int32_t type = 15;
  ~Tensor() {
    if (owns) std::free(data);
  }
};
Tensor& of(void* handle) { return *static_cast<Tensor*>(handle); }
void* made(const std::vector<std::int64_t>& sizes, std::int64_t width) {
  auto* const t = new Tensor{nullptr, sizes, width, true, {}, 15};
  for (const std::int64_t s : sizes) t->bytes *= s;
  t->data = std::calloc(static_cast<std::size_t>(std::max<std::int64_t>(t->bytes, 8)), 1);
  return t;
}
int guards = 0;

/// [batch, positions, heads, channels] in bf16.
double at(const Tensor& t, std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) {
  const std::int64_t i = ((b * t.sizes[1] + s) * t.sizes[2] + h) * t.sizes[3] + d;
  return static_cast<double>(from_bf16(static_cast<const std::uint16_t*>(t.data)[i]));
}
void add(Tensor& t, std::vector<double>& sums, std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d,
         double value) {
  sums[static_cast<std::size_t>(((b * t.sizes[1] + s) * t.sizes[2] + h) * t.sizes[3] + d)] += value;
}
void store(Tensor& t, const std::vector<double>& sums) {
  for (std::size_t i = 0; i < sums.size(); ++i)
    static_cast<std::uint16_t*>(t.data)[i] = to_bf16(static_cast<float>(sums[i]));
}
std::size_t count(const Tensor& t) { return static_cast<std::size_t>(t.bytes / 2); }

/// The weights of query `i`, and the logarithm of their sum.
std::vector<double> weights(const Tensor& q, const Tensor& k, std::int64_t b, std::int64_t i, std::int64_t h,
                            double scale, std::int64_t left, double& log_sum) {
  const std::int64_t keys = k.sizes[1], here = i + keys - q.sizes[1], group = q.sizes[2] / k.sizes[2];
  std::vector<double> p(static_cast<std::size_t>(keys));
  double sum = 0;
  for (std::int64_t j = left < 0 ? 0 : std::max<std::int64_t>(0, here - left); j <= here; ++j) {
    double score = 0;
    for (std::int64_t d = 0; d < q.sizes[3]; ++d) score += at(q, b, i, h, d) * at(k, b, j, h / group, d);
    sum += p[static_cast<std::size_t>(j)] = std::exp(score * scale);
  }
  for (double& w : p) w /= sum;
  log_sum = std::log(sum);
  return p;
}

constexpr std::int32_t kInt32 = 3, kFloat32 = 6, kE4m3 = 24, kE4m3Fnuz = 25;

double element(const Tensor& t, std::int64_t offset) {
  const auto byte = static_cast<const std::uint8_t*>(t.data)[offset];
  if (t.type == kE4m3) return static_cast<double>(from_e4m3(byte));
  if (t.type == kE4m3Fnuz) return static_cast<double>(from_e4m3_fnuz(byte));
  if (t.type == kFloat32) return static_cast<double>(static_cast<const float*>(t.data)[offset]);
  return static_cast<double>(from_bf16(static_cast<const std::uint16_t*>(t.data)[offset]));
}
/// What a call was given, which is its own from then on.
std::unique_ptr<Tensor> taken(std::uint64_t argument) {
  return std::unique_ptr<Tensor>(reinterpret_cast<Tensor*>(argument));
}
std::unique_ptr<Tensor> taken_if_there(std::uint64_t argument) {
  if (argument == 0) return nullptr;
  const std::unique_ptr<std::uint64_t> value(reinterpret_cast<std::uint64_t*>(argument));
  return taken(*value);
}

/// Rows of A, or with two matrices of two dimensions what is summed over, belong to a group up to its end.
Tensor* grouped(const Tensor& a, const Tensor& b, const Tensor& ends, const Tensor* of_rows, const Tensor* of_columns) {
  const bool sums = b.sizes.size() == 2;
  const std::int64_t groups = ends.sizes[0], n = b.sizes.back();
  auto* const out = static_cast<Tensor*>(sums ? made({groups, a.sizes[0], n}, 2) : made({a.sizes[0], n}, 2));
  std::int64_t begin = 0, written = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t end = static_cast<const std::int32_t*>(ends.data)[g];
    for (std::int64_t row = sums ? 0 : begin; row < (sums ? a.sizes[0] : end); ++row)
      for (std::int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (std::int64_t k = sums ? begin : 0; k < (sums ? end : a.sizes[1]); ++k)
          sum += element(a, row * a.strides[0] + k * a.strides[1]) *
                 element(b, sums ? k * b.strides[0] + column * b.strides[1]
                                 : g * b.strides[0] + k * b.strides[1] + column * b.strides[2]);
        if (of_rows != nullptr) sum *= element(*of_rows, row) * element(*of_columns, g * n + column);
        static_cast<std::uint16_t*>(out->data)[written++] = to_bf16(static_cast<float>(sum));
      }
    begin = end;
  }
  return out;
}

}  // namespace

extern "C" {

std::int32_t aoti_torch_dtype_int32() { return kInt32; }
std::int32_t aoti_torch_dtype_float8_e4m3fn() { return kE4m3; }
std::int32_t aoti_torch_dtype_float8_e4m3fnuz() { return kE4m3Fnuz; }
int aoti_torch_call_dispatcher(const char* name, const char* overload, std::uint64_t* stack) {
  if (guards != 1 || *overload != 0) return 1;
  const bool scaled = std::strcmp(name, "aten::_scaled_grouped_mm") == 0;
  if (!scaled && std::strcmp(name, "aten::_grouped_mm") != 0) return 1;
  const std::unique_ptr<Tensor> a = taken(stack[0]), b = taken(stack[1]);
  const std::unique_ptr<Tensor> of_rows = scaled ? taken(stack[2]) : nullptr,
                                of_columns = scaled ? taken(stack[3]) : nullptr;
  const std::unique_ptr<Tensor> ends = taken_if_there(stack[scaled ? 4 : 2]);
  // fp8 has kernels for weights that lie along what is summed over alone.
  if (ends == nullptr || ends->type != kInt32 || (scaled && (b->sizes.size() != 3 || b->strides[1] != 1))) return 1;
  if (scaled &&
      (of_rows->sizes != std::vector{a->sizes[0]} || of_columns->sizes != std::vector{b->sizes[0], b->sizes[2]}))
    return 1;
  stack[0] = reinterpret_cast<std::uint64_t>(grouped(*a, *b, *ends, of_rows.get(), of_columns.get()));
  return 0;
}
std::int32_t aoti_torch_device_type_cuda() { return 1; }
std::int32_t aoti_torch_dtype_bfloat16() { return 15; }
std::int32_t aoti_torch_dtype_float16() { return 5; }
std::int32_t aoti_torch_dtype_float32() { return kFloat32; }
int aoti_torch_create_tensor_from_blob(void* data, std::int64_t dimensions, const std::int64_t* sizes,
                                       const std::int64_t* strides, std::int64_t, std::int32_t type,
                                       std::int32_t device, std::int32_t, void** out) {
  if (device != 1) return 1;
  const std::int64_t width = type == kInt32 || type == kFloat32 ? 4 : type >= kE4m3 ? 1 : 2;
  auto* const t = new Tensor{data, {sizes, sizes + dimensions}, width, false, {strides, strides + dimensions}, type};
  for (const std::int64_t s : t->sizes) t->bytes *= s;
  *out = t;
  return 0;
}
int aoti_torch_new_uninitialized_tensor(void** out) {
  *out = new Tensor;
  return 0;
}
int aoti_torch_delete_tensor_object(void* tensor) {
  delete static_cast<Tensor*>(tensor);
  return 0;
}
int aoti_torch_get_data_ptr(void* tensor, void** data) {
  *data = of(tensor).data;
  return 0;
}
int aoti_torch_get_storage_size(void* tensor, std::int64_t* bytes) {
  *bytes = of(tensor).bytes;
  return 0;
}
int aoti_torch_create_cuda_stream_guard(void*, std::int32_t, void** out) {
  ++guards;
  *out = &guards;
  return 0;
}
int aoti_torch_delete_cuda_stream_guard(void*) {
  --guards;
  return 0;
}

int aoti_torch_cuda__flash_attention_forward(void* query, void* key, void* value, void**, void**, std::int64_t,
                                             std::int64_t, double, std::int32_t causal, std::int32_t, double* scale,
                                             std::int64_t* left, std::int64_t*, void**, void**, void** out,
                                             void** log_sums, void** state, void** unused, void** mask) {
  const Tensor &q = of(query), &k = of(key), &v = of(value);
  if (guards != 1 || causal != 1 || q.sizes[2] % k.sizes[2] != 0 || q.sizes[1] > k.sizes[1]) return 1;
  *out = made(q.sizes, 2);
  *log_sums = made({q.sizes[0], q.sizes[2], q.sizes[1]}, 4);
  for (void** other : {state, unused, mask}) *other = made({1}, 8);
  std::vector<double> sums(count(of(*out)));
  for (std::int64_t b = 0; b < q.sizes[0]; ++b)
    for (std::int64_t h = 0; h < q.sizes[2]; ++h)
      for (std::int64_t i = 0; i < q.sizes[1]; ++i) {
        double log_sum = 0;
        const std::vector<double> p = weights(q, k, b, i, h, *scale, left == nullptr ? -1 : *left, log_sum);
        for (std::int64_t j = 0; j < k.sizes[1]; ++j)
          for (std::int64_t d = 0; d < q.sizes[3]; ++d)
            add(of(*out), sums, b, i, h, d,
                p[static_cast<std::size_t>(j)] * at(v, b, j, h * k.sizes[2] / q.sizes[2], d));
        static_cast<float*>(of(*log_sums).data)[(b * q.sizes[2] + h) * q.sizes[1] + i] = static_cast<float>(log_sum);
      }
  store(of(*out), sums);
  return 0;
}

int aoti_torch_cuda__flash_attention_backward(void* dout, void* query, void* key, void* value, void* out, void*, void*,
                                              void*, std::int64_t, std::int64_t, double, std::int32_t causal, void*,
                                              void*, double* scale, std::int64_t* left, std::int64_t*, void** dq,
                                              void** dk, void** dv) {
  const Tensor &g = of(dout), &q = of(query), &k = of(key), &v = of(value), &o = of(out);
  if (guards != 1 || causal != 1) return 1;
  *dq = made(q.sizes, 2);
  *dk = made(k.sizes, 2);
  *dv = made(k.sizes, 2);
  std::vector<double> q_sums(count(of(*dq))), k_sums(count(of(*dk))), v_sums(count(of(*dv)));
  for (std::int64_t b = 0; b < q.sizes[0]; ++b)
    for (std::int64_t h = 0; h < q.sizes[2]; ++h)
      for (std::int64_t i = 0; i < q.sizes[1]; ++i) {
        const std::int64_t kv = h * k.sizes[2] / q.sizes[2];
        double log_sum = 0, mean = 0;
        const std::vector<double> p = weights(q, k, b, i, h, *scale, left == nullptr ? -1 : *left, log_sum);
        for (std::int64_t d = 0; d < q.sizes[3]; ++d) mean += at(g, b, i, h, d) * at(o, b, i, h, d);
        for (std::int64_t j = 0; j < k.sizes[1]; ++j) {
          const double weight = p[static_cast<std::size_t>(j)];
          double dp = 0;
          for (std::int64_t d = 0; d < q.sizes[3]; ++d) dp += at(g, b, i, h, d) * at(v, b, j, kv, d);
          const double ds = weight * (dp - mean) * *scale;
          for (std::int64_t d = 0; d < q.sizes[3]; ++d) {
            add(of(*dq), q_sums, b, i, h, d, ds * at(k, b, j, kv, d));
            add(of(*dk), k_sums, b, j, kv, d, ds * at(q, b, i, h, d));
            add(of(*dv), v_sums, b, j, kv, d, weight * at(g, b, i, h, d));
          }
        }
      }
  store(of(*dq), q_sums);
  store(of(*dk), k_sums);
  store(of(*dv), v_sums);
  return 0;
}
}
