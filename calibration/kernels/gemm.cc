// Matrix products: buffers, and a reference that computes some entries of C in float64 from the same rounded inputs.
// Errors: 16-bit results round at 2^-9 (bf16) or 2^-12 (fp16) relative; fp8 products are summed with fewer than 24 bits
// on some devices.
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "calibration/kernels/product.h"
#include "calibration/kernels/timing.h"
#include "calibration/kernels/values.h"
#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {
namespace {

constexpr int kEntries = 32;
constexpr std::size_t kStreams = 4;  // TransformerEngine's GroupedLinear: get_num_compute_streams()

/// The case of one expert of a group.
Case single(Case what) {
  what.kind = CaseClass::gemm;
  what.batch = 1;
  return what;
}

/// Streams that begin where another one is and that it waits for, so that a graph can record them.
class Fan {
 public:
  explicit Fan(std::size_t count) : streams_(count, nullptr), done_(count) {
    for (Stream& s : streams_) check(gpuStreamCreateWithFlags(&s, gpuStreamNonBlocking), "making a stream");
    for (auto& mark : done_) mark = std::make_unique<Mark>();
  }
  ~Fan() {
    for (const Stream s : streams_)
      if (s != nullptr) static_cast<void>(gpuStreamDestroy(s));
  }
  Fan(const Fan&) = delete;
  Fan& operator=(const Fan&) = delete;

  void open(Stream from) {
    begin_.record(from);
    for (const Stream s : streams_) begin_.hold(s);
  }
  Stream at(std::size_t i) const { return streams_[i]; }
  void close(Stream into) {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      done_[i]->record(streams_[i]);
      done_[i]->hold(into);
    }
  }

 private:
  std::vector<Stream> streams_;
  Mark begin_;
  std::vector<std::unique_ptr<Mark>> done_;
};

Storage storage_of_b(CaseType a, Fp8 fp8) { return storage_of(a == CaseType::fp8_e5m2 ? CaseType::fp8_e4m3 : a, fp8); }

Storage storage_of_c(const Case& c) {
  if (accumulates(c) || c.dtype == CaseType::float32) return Storage::fp32;
  return c.dtype == CaseType::float16 ? Storage::fp16 : Storage::bf16;
}

class GemmWorkload : public Workload {
 public:
  GemmWorkload(Device& device, const Case& what)
      : case_(what), apart_(what.kind == CaseClass::grouped_gemm && std::strcmp(what.name, "grouped") != 0) {
    if (apart_ && std::strcmp(what.name, "streams") == 0) fan_ = std::make_unique<Fan>(kStreams);
    // A product's workspace is its own: those that run at once must not share one.
    for (std::size_t i = 0; i < (fan_ == nullptr ? 1 : kStreams); ++i)
      products_.push_back(apart_                                 ? make_product(device, single(what))
                          : what.kind == CaseClass::grouped_gemm ? make_torch_grouped(device, what)
                                                                 : make_product(device, what));
    // A standard deviation of 1 for inputs gives sqrt(k) for the result: far inside the range of fp16 up to k = 1e8.
    const Fp8 fp8 = fp8_of(device);
    a_ = buffers_.input(storage_of(what.dtype, fp8), what.batch * what.m * what.k);
    b_ = buffers_.input(storage_of_b(what.dtype, fp8), what.batch * what.k * what.n);
    const std::int64_t results = what.batch * what.m * what.n;
    // A C that is added to is an input too: poison would stay in it.
    c_ = accumulates(what) ? buffers_.input(storage_of_c(what), results) : buffers_.output(storage_of_c(what), results);
    buffers_.allocate(device);
  }

  int sets() const override { return buffers_.sets(); }

  void launch(int set, Stream stream) override {
    if (!apart_) {
      void* const c = buffers_.at<void>(c_, set);
      products_.front()->launch(buffers_.at<void>(a_, set), buffers_.at<void>(b_, set), c, stream);
      if (delivers_) products_.front()->deliver(c, stream);
      return;
    }
    if (fan_ != nullptr) fan_->open(stream);
    const auto expert = [&](int tensor, std::int64_t i, std::int64_t elements) {
      return buffers_.at<char>(tensor, set) + bytes_of(buffers_.tensor(tensor).storage, i * elements);
    };
    for (std::int64_t i = 0; i < case_.batch; ++i) {
      const auto turn = static_cast<std::size_t>(i) % products_.size();
      products_[turn]->launch(expert(a_, i, case_.m * case_.k), expert(b_, i, case_.k * case_.n),
                              expert(c_, i, case_.m * case_.n), fan_ == nullptr ? stream : fan_->at(turn));
    }
    if (fan_ != nullptr) fan_->close(stream);
  }

  double error(Device& device) override {
    delivers_ = true;
    run_once(device, *this, buffers_);
    delivers_ = false;
    Difference difference;
    for (int i = 0; i < kEntries; ++i) {
      // The corners first, where wrong strides show, then anywhere.
      const std::uint64_t draw = bits_at(1, static_cast<std::uint64_t>(i));
      const std::int64_t row = corner(i & 1, case_.m, draw, i), column = corner(i >> 1 & 1, case_.n, draw >> 20, i);
      const std::int64_t batch = i < 4 ? case_.batch - 1 : static_cast<std::int64_t>(draw >> 40) % case_.batch;
      const std::int64_t at = (batch * case_.m + row) * case_.n + column;
      difference.add(buffers_.read(c_, at, 1).front(), entry(batch, row, column, at));
    }
    return difference.relative();
  }

  double tolerance() const override { return case_.dtype >= CaseType::fp8_e4m3 ? 5e-2 : 1e-2; }

 private:
  static std::int64_t corner(int last, std::int64_t size, std::uint64_t draw, int i) {
    if (i < 4) return last != 0 ? size - 1 : 0;
    return static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(size));
  }

  double entry(std::int64_t batch, std::int64_t row, std::int64_t column, std::int64_t at) const {
    double sum = accumulates(case_) ? buffers_.value(c_, at) : 0;
    const std::int64_t in_a = batch * case_.m * case_.k, in_b = batch * case_.k * case_.n;
    for (std::int64_t k = 0; k < case_.k; ++k) {
      const std::int64_t a = case_.form == CaseForm::nt ? k * case_.m + row : row * case_.k + k;
      const std::int64_t b = case_.form == CaseForm::tn ? column * case_.k + k : k * case_.n + column;
      sum += buffers_.value(a_, in_a + a) * buffers_.value(b_, in_b + b);
    }
    return sum;
  }

  Case case_;
  bool apart_ = false, delivers_ = false;  // apart: a launch for each expert
  std::unique_ptr<Fan> fan_;
  Buffers buffers_;
  int a_ = 0, b_ = 0, c_ = 0;
  std::vector<std::unique_ptr<Product>> products_;  // one for each stream
};

}  // namespace

bool accumulates(const Case& what) { return std::strcmp(what.name, "accumulate") == 0; }

std::unique_ptr<Workload> make_gemm(Device& device, const Case& what) {
  if (device.facts().peak[static_cast<int>(what.dtype)] <= 0) {
    throw Failure{GpuStatus::unavailable, "the device has no matrix units for this type"};
  }
  return std::make_unique<GemmWorkload>(device, what);
}

std::unique_ptr<Workload> make_grouped_gemm(Device& device, const Case& what) { return make_gemm(device, what); }

}  // namespace orrery::calibration::gpu
