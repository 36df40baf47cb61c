// The catalogue of streaming kernels, and the workload that runs and checks one.
#include "calibration/kernels/streaming.h"

#include <algorithm>
#include <map>
#include <string>

#include "calibration/kernels/rows.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {
namespace {

constexpr std::int64_t kSampledRows = 6;
// Kernels whose results depend on every row are checked on a run over this many elements.
constexpr std::int64_t kMostSummed = std::int64_t{1} << 18;

const std::map<std::string, Streaming>& catalogue() {
  const auto x = [](const Buffers& b, int tensor, int set) { return b.at<Bf16>(tensor, set); };
  static const std::map<std::string, Streaming> kCatalogue{
      {"copy",
       elementwise(
           1,
           [=](const Buffers& b, int set, std::int64_t count, Stream s) { copy(x(b, 0, set), x(b, 1, set), count, s); },
           [](const double* in, std::int64_t) { return in[0]; })},
      {"gelu", elementwise(
                   1,
                   [=](const Buffers& b, int set, std::int64_t count, Stream s) {
                     gelu_forward(x(b, 0, set), x(b, 1, set), count, s);
                   },
                   [](const double* in, std::int64_t) { return gelu(in[0]); })},
      {"gelu_backward", elementwise(
                            2,
                            [=](const Buffers& b, int set, std::int64_t count, Stream s) {
                              gelu_backward(x(b, 0, set), x(b, 1, set), x(b, 2, set), count, s);
                            },
                            [](const double* in, std::int64_t) { return in[0] * gelu_slope(in[1]); })},
      {"swiglu", swiglu_forward_case()},
      {"swiglu_backward", swiglu_backward_case()},
      {"dropout", dropout_case(false)},
      {"bias_dropout_residual", dropout_case(true)},
      {"bias_dropout_residual_backward", dropout_backward_case()},
      {"accumulate", accumulate_case()},
      {"layer_norm", norm_forward_case(true)},
      {"layer_norm_backward", norm_backward_case(true)},
      {"rms_norm", norm_forward_case(false)},
      {"rms_norm_backward", norm_backward_case(false)},
      {"softmax", softmax_case()},
      {"softmax_backward", softmax_backward_case()},
      {"cross_entropy", cross_entropy_case()},
      {"cross_entropy_backward", cross_entropy_backward_case()},
      {"permute", permute_case()},
      {"unpermute", unpermute_case()},
      {"embedding", embedding_case()},
      {"embedding_backward", embedding_backward_case()},
      {"optimizer", adam_case()},
      {"lamb", lamb_case()},
      {"gradient_norm", gradient_norm_case()},
      {"cast_transpose", cast_transpose_case()},
  };
  return kCatalogue;
}

class StreamingWorkload : public Workload {
 public:
  StreamingWorkload(Device& device, const Streaming& kernel, std::int64_t rows, std::int64_t columns)
      : kernel_(kernel), rows_(rows), columns_(columns) {
    kernel_.declare(buffers_, rows_, columns_);
    buffers_.allocate(device);
  }

  int sets() const override { return buffers_.sets(); }

  void launch(int set, Stream stream) override {
    kernel_.launch(buffers_, set, rows_, columns_, stream);
    check_launch("launching the kernel");
  }

  double error(Device& device) override {
    const std::int64_t few = std::max<std::int64_t>(kMostSummed / columns_ / 64 * 64, 64);
    if (kernel_.whole && rows_ > few) return StreamingWorkload(device, kernel_, few, columns_).error(device);
    run_once(device, *this, buffers_);
    Difference difference;
    for (std::int64_t i = 0; i < std::min(rows_, kSampledRows); ++i)
      kernel_.row(buffers_, rows_, columns_, sample(i, rows_), difference);
    for (std::int64_t i = 0; kernel_.column && i < kSampledRows; ++i)
      kernel_.column(buffers_, rows_, columns_, sample(i, columns_), difference);
    return difference.relative();
  }

  double tolerance() const override { return 1e-2; }

 private:
  /// The first, the last and some between.
  static std::int64_t sample(std::int64_t i, std::int64_t size) {
    if (i < 2) return i == 0 ? 0 : size - 1;
    return static_cast<std::int64_t>(bits_at(2, static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(size));
  }

  const Streaming& kernel_;
  std::int64_t rows_, columns_;
  Buffers buffers_;
};

}  // namespace

std::unique_ptr<Workload> make_streaming(Device& device, const Case& what) {
  const auto found = catalogue().find(what.name);
  if (found == catalogue().end()) throw Failure{GpuStatus::unavailable, "no kernel of this name"};
  if (found->first == "cast_transpose" && device.facts().peak[static_cast<int>(CaseType::fp8_e4m3)] <= 0)
    throw Failure{GpuStatus::unavailable, "the device has no fp8"};
  const Streaming& kernel = found->second;
  if (what.n % kernel.multiple != 0 || (kernel.multiple > 8 && what.m % kernel.multiple != 0) ||
      (kernel.longest != 0 && what.n > kernel.longest)) {
    throw Failure{GpuStatus::unavailable, "the kernel does not take rows of this length"};
  }
  return std::make_unique<StreamingWorkload>(device, kernel, what.m, what.n);
}

}  // namespace orrery::calibration::gpu
