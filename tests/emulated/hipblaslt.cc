// The part of hipBLASLt that product_hipblaslt.cc calls, naive, on host memory, as AMD's header hipblaslt.h defines it:
// column-major matrices, D = alpha op(A) op(B) + beta C, operands of fp8 with one scale each, or one of each row or of
// 32 elements.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "calibration/kernels/values.h"

using namespace orrery::calibration::gpu;

namespace {

struct Desc {
  std::int32_t transposed[2] = {111, 111};
  const void* scale[2] = {nullptr, nullptr};
  std::uint32_t mode[2] = {0, 0};
  /// Of an element of row `i` of an operand, `x` of `k` within it.
  double scale_of(int operand, std::int64_t i, std::int64_t x, std::int64_t k) const {
    if (scale[operand] == nullptr) return 1;
    if (mode[operand] == 2) {
      const auto* const powers = static_cast<const std::uint8_t*>(scale[operand]);
      return std::ldexp(1.0, powers[i * ((k + 31) / 32) + x / 32] - 127);
    }
    return static_cast<double>(static_cast<const float*>(scale[operand])[mode[operand] == 3 ? i : 0]);
  }
};
struct Layout {
  int type = 0;
  std::int64_t rows = 0, columns = 0, leading = 0, stride = 0;
  std::int32_t batch = 1;
};

double read(const void* data, int type, std::int64_t i) {
  const auto byte = [&] { return static_cast<const std::uint8_t*>(data)[i]; };
  const auto half = [&] { return static_cast<const std::uint16_t*>(data)[i]; };
  switch (type) {
    case 0:
      return static_cast<double>(static_cast<const float*>(data)[i]);
    case 2:
      return static_cast<double>(from_fp16(half()));
    case 14:
      return static_cast<double>(from_bf16(half()));
    case 28:
      return static_cast<double>(from_e4m3(byte()));
    case 29:
      return static_cast<double>(from_e5m2(byte()));
    case 1000:
      return static_cast<double>(from_e4m3_fnuz(byte()));
    default:
      return static_cast<double>(from_e5m2_fnuz(byte()));
  }
}
void write(void* data, int type, std::int64_t i, double value) {
  const auto f = static_cast<float>(value);
  if (type == 0)
    static_cast<float*>(data)[i] = f;
  else
    static_cast<std::uint16_t*>(data)[i] = type == 2 ? to_fp16(f) : to_bf16(f);
}

}  // namespace

extern "C" {

int hipblasLtCreate(void** handle) {
  *handle = handle;
  return 0;
}
int hipblasLtGetVersion(void*, int* version) {
  *version = 100000;
  return 0;
}
int hipblasLtMatmulDescCreate(void** desc, int compute, int scale) {
  if (compute != 2 || scale != 0) return 3;
  *desc = new Desc;
  return 0;
}
int hipblasLtMatmulDescDestroy(void* desc) {
  delete static_cast<Desc*>(desc);
  return 0;
}
int hipblasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, std::size_t size) {
  Desc& d = *static_cast<Desc*>(desc);
  if (attribute <= 1 && size == 4) d.transposed[attribute] = *static_cast<const std::int32_t*>(value);
  const bool scale = attribute == 5 || attribute == 6, mode = attribute == 31 || attribute == 32;
  if (scale && size == 8) d.scale[attribute - 5] = *static_cast<const void* const*>(value);
  if (mode && size == 4) d.mode[attribute - 31] = *static_cast<const std::uint32_t*>(value);
  return attribute <= 1 || scale || mode ? 0 : 3;
}
int hipblasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows, std::uint64_t columns,
                                std::int64_t leading) {
  *layout = new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading};
  return 0;
}
int hipblasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return 0;
}
int hipblasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, std::size_t size) {
  Layout& l = *static_cast<Layout*>(layout);
  if (attribute == 0 && size == 4) l.batch = *static_cast<const std::int32_t*>(value);
  if (attribute == 1 && size == 8) l.stride = *static_cast<const std::int64_t*>(value);
  return attribute <= 1 ? 0 : 3;
}
int hipblasLtMatmulPreferenceCreate(void** preference) {
  *preference = preference;
  return 0;
}
int hipblasLtMatmulPreferenceDestroy(void*) { return 0; }
int hipblasLtMatmulPreferenceSetAttribute(void*, int attribute, const void*, std::size_t size) {
  return attribute == 1 && size == 8 ? 0 : 3;
}
/// The choice is 24 bytes of an algorithm, its workspace, a state, waves and four numbers.
int hipblasLtMatmulAlgoGetHeuristic(void*, void* desc, void* a, void* b, void*, void* d, void*, int, void* choice,
                                    int* found) {
  const Desc& how = *static_cast<Desc*>(desc);
  const Layout &first = *static_cast<Layout*>(a), &second = *static_cast<Layout*>(b), &out = *static_cast<Layout*>(d);
  const std::int64_t k = how.transposed[0] == 111 ? first.columns : first.rows;
  const bool fits = k == (how.transposed[1] == 111 ? second.rows : second.columns) &&
                    out.rows == (how.transposed[0] == 111 ? first.rows : first.columns) &&
                    out.columns == (how.transposed[1] == 111 ? second.columns : second.rows);
  // fp8 without scales would be of another meaning; it has kernels for operands that lie along k alone.
  const bool fp8 = first.type >= 28;
  const bool scaled = !fp8 || (how.scale[0] != nullptr && how.scale[1] != nullptr && how.transposed[0] == 112 &&
                               how.transposed[1] == 111);
  *found = fits && scaled ? 1 : 0;
  static_cast<std::uint8_t*>(choice)[0] = 42;
  return *found == 1 ? 0 : 7;
}
int hipblasLtMatmul(void*, void* desc, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout,
                    const void* beta, const void* c, void* c_layout, void* d, void* d_layout, const void* algorithm,
                    void*, std::size_t, void*) {
  if (static_cast<const std::uint8_t*>(algorithm)[0] != 42) return 3;
  const Desc& how = *static_cast<Desc*>(desc);
  const Layout &first = *static_cast<Layout*>(a_layout), &second = *static_cast<Layout*>(b_layout);
  const Layout &before = *static_cast<Layout*>(c_layout), &out = *static_cast<Layout*>(d_layout);
  const std::int64_t k = how.transposed[0] == 111 ? first.columns : first.rows;
  const double by = static_cast<double>(*static_cast<const float*>(alpha));
  const double keep = static_cast<double>(*static_cast<const float*>(beta));
  for (std::int64_t g = 0; g < out.batch; ++g)
    for (std::int64_t j = 0; j < out.columns; ++j)
      for (std::int64_t i = 0; i < out.rows; ++i) {
        double sum = 0;
        for (std::int64_t x = 0; x < k; ++x)
          sum += how.scale_of(0, i, x, k) * how.scale_of(1, j, x, k) *
                 read(a, first.type,
                      g * first.stride + (how.transposed[0] == 111 ? i + x * first.leading : x + i * first.leading)) *
                 read(b, second.type,
                      g * second.stride + (how.transposed[1] == 111 ? x + j * second.leading : j + x * second.leading));
        const std::int64_t at = g * out.stride + i + j * out.leading;
        write(d, out.type, at, by * sum + (keep == 0 ? 0 : keep * read(c, before.type, at)));
      }
  return 0;
}
}
