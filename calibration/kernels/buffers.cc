// One allocation for all sets; every tensor begins at a multiple of 256 bytes, which is what libraries ask for at most.
#include "calibration/kernels/buffers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "calibration/kernels/values.h"

namespace orrery::calibration::gpu {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kMostSets = 256;
/// Of the L2 cache, so that a set is gone when its turn comes again.
constexpr double kTimesL2 = 3;

std::uint64_t seed_of(int tensor, int set) {
  return scramble(0x0ddba11ull + static_cast<std::uint64_t>(tensor) * 1000003u + static_cast<std::uint64_t>(set));
}

double decode(Storage storage, const char* at) {
  const auto as = [at](auto value) {
    memcpy(&value, at, sizeof value);
    return value;
  };
  switch (storage) {
    case Storage::bf16:
      return static_cast<double>(from_bf16(as(std::uint16_t{})));
    case Storage::fp16:
      return static_cast<double>(from_fp16(as(std::uint16_t{})));
    case Storage::fp32:
      return static_cast<double>(as(float{}));
    case Storage::e4m3:
      return static_cast<double>(from_e4m3(as(std::uint8_t{})));
    case Storage::e5m2:
      return static_cast<double>(from_e5m2(as(std::uint8_t{})));
    case Storage::int32:
      return as(std::int32_t{});
    case Storage::byte:
      return as(std::uint8_t{});
    default:
      break;  // of inputs alone, which are not read back
  }
  return 0;
}

double rounded(Storage storage, float value) {
  switch (storage) {
    case Storage::bf16:
      return static_cast<double>(from_bf16(to_bf16(value)));
    case Storage::fp16:
      return static_cast<double>(from_fp16(to_fp16(value)));
    case Storage::e4m3:
      return static_cast<double>(from_e4m3(to_e4m3(value)));
    case Storage::e5m2:
      return static_cast<double>(from_e5m2(to_e5m2(value)));
    case Storage::e4m3_fnuz:
      return static_cast<double>(from_e4m3_fnuz(to_e4m3_fnuz(value)));
    case Storage::e5m2_fnuz:
      return static_cast<double>(from_e5m2_fnuz(to_e5m2_fnuz(value)));
    case Storage::e2m1:
      return static_cast<double>(from_e2m1(to_e2m1(value)));
    default:
      return static_cast<double>(value);
  }
}

/// The kernel's name for it.
Filled filled_of(Storage storage) {
  switch (storage) {
    case Storage::bf16:
      return Filled::bf16;
    case Storage::fp16:
      return Filled::fp16;
    case Storage::e4m3:
      return Filled::e4m3;
    case Storage::e5m2:
      return Filled::e5m2;
    case Storage::e4m3_fnuz:
      return Filled::e4m3_fnuz;
    case Storage::e5m2_fnuz:
      return Filled::e5m2_fnuz;
    case Storage::e2m1:
      return Filled::e2m1;
    default:
      return Filled::fp32;
  }
}

}  // namespace

int width_of(Storage s) {
  switch (s) {
    case Storage::bf16:
    case Storage::fp16:
      return 2;
    case Storage::fp32:
    case Storage::int32:
      return 4;
    default:
      return 1;
  }
}

std::int64_t bytes_of(Storage s, std::int64_t count) {
  return s == Storage::e2m1 ? (count + 1) / 2 : count * width_of(s);
}

Fp8 fp8_of(const Device& device) {
  return std::strncmp(device.facts().architecture, "gfx94", 5) == 0 ? Fp8::fnuz : Fp8::ocp;
}

Storage storage_of(CaseType t, Fp8 fp8) {
  switch (t) {
    case CaseType::bfloat16:
      return Storage::bf16;
    case CaseType::float16:
      return Storage::fp16;
    case CaseType::fp8_e5m2:
      return fp8 == Fp8::fnuz ? Storage::e5m2_fnuz : Storage::e5m2;
    case CaseType::fp8_e4m3:
    case CaseType::fp8_block:
    case CaseType::fp8_row:
    case CaseType::mxfp8:
      return fp8 == Fp8::fnuz ? Storage::e4m3_fnuz : Storage::e4m3;
    case CaseType::nvfp4:
      return Storage::e2m1;
    default:
      return Storage::fp32;
  }
}

int Buffers::add(const Tensor& tensor) {
  tensors_.push_back(tensor);
  tensors_.back().offset = set_bytes_;
  const auto bytes = static_cast<std::size_t>(bytes_of(tensor.storage, tensor.count));
  set_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return static_cast<int>(tensors_.size()) - 1;
}

int Buffers::input(Storage storage, std::int64_t count, double scale, Fill fill) {
  return add({storage, count, Role::input, fill, scale, 0});
}
int Buffers::output(Storage storage, std::int64_t count) {
  return add({storage, count, Role::output, Fill::normal, 1, 0});
}
int Buffers::scratch(Storage storage, std::int64_t count) {
  return add({storage, count, Role::scratch, Fill::normal, 1, 0});
}

void Buffers::allocate(Device& device) {
  const double bytes = static_cast<double>(set_bytes_), free = device.free_bytes();
  if (bytes > 0.9 * free) {
    throw Failure{GpuStatus::out_of_memory, "needs " + std::to_string(set_bytes_ >> 20) + " MiB, " +
                                                std::to_string(static_cast<std::int64_t>(free) >> 20) +
                                                " MiB are free"};
  }
  const double wanted = std::ceil(kTimesL2 * device.facts().memory.l2_bytes / std::max(bytes, 1.0));
  sets_ = static_cast<int>(std::clamp(std::min(wanted, 0.5 * free / bytes), 1.0, static_cast<double>(kMostSets)));
  memory_ = Memory(set_bytes_ * static_cast<std::size_t>(sets_));
  for (int set = 0; set < sets_; ++set) {
    for (int i = 0; i < static_cast<int>(tensors_.size()); ++i) {
      const Tensor& t = tensor(i);
      if (t.role != Role::input) continue;
      fill(at<void>(i, set), filled_of(t.storage), t.fill, t.scale, t.count, seed_of(i, set), device.stream());
      check_launch("filling the inputs");
    }
  }
  check(gpuStreamSynchronize(device.stream()), "filling the inputs");
}

double Buffers::value(int number, std::int64_t index) const {
  const Tensor& t = tensor(number);
  const std::uint64_t seed = seed_of(number, 0), i = static_cast<std::uint64_t>(index);
  if (t.fill == Fill::index) return static_cast<double>(bits_at(seed, i) % static_cast<std::uint64_t>(t.scale));
  if (t.fill == Fill::byte_mask) return static_cast<double>(bits_at(seed, i) & 1u);
  const float normal = normal_at(seed, i);
  // In the order of the kernel, so that both round alike.
  return rounded(t.storage, static_cast<float>(t.scale) * (t.fill == Fill::square ? normal * normal : normal));
}

std::vector<double> Buffers::read(int number, std::int64_t first, std::int64_t count) const {
  const Tensor& t = tensor(number);
  const auto width = static_cast<std::size_t>(width_of(t.storage));
  std::vector<char> bytes(static_cast<std::size_t>(count) * width);
  check(gpuMemcpy(bytes.data(), at<char>(number, 0) + static_cast<std::size_t>(first) * width, bytes.size(),
                  gpuMemcpyDeviceToHost),
        "reading a result");
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = decode(t.storage, bytes.data() + i * width);
  return values;
}

std::vector<double> Buffers::read_column(int number, std::int64_t rows, std::int64_t columns,
                                         std::int64_t column) const {
  const Tensor& t = tensor(number);
  const auto width = static_cast<std::size_t>(width_of(t.storage));
  std::vector<char> bytes(static_cast<std::size_t>(rows) * width);
  check(gpuMemcpy2D(bytes.data(), width, at<char>(number, 0) + static_cast<std::size_t>(column) * width,
                    static_cast<std::size_t>(columns) * width, width, static_cast<std::size_t>(rows),
                    gpuMemcpyDeviceToHost),
        "reading a result");
  std::vector<double> values(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = decode(t.storage, bytes.data() + i * width);
  return values;
}

void Buffers::poison(Device& device) const {
  for (int i = 0; i < static_cast<int>(tensors_.size()); ++i) {
    const Tensor& t = tensor(i);
    if (t.role != Role::output) continue;
    const auto bytes = static_cast<std::size_t>(bytes_of(t.storage, t.count));
    check(gpuMemsetAsync(at<void>(i, 0), 0xff, bytes, device.stream()), "poisoning the outputs");
  }
}

std::uint64_t Buffers::unwritten(Device& device) const {
  Memory counter(sizeof(unsigned long long));
  auto* const found = static_cast<unsigned long long*>(counter.data());
  check(gpuMemsetAsync(found, 0, sizeof *found, device.stream()), "counting unwritten elements");
  for (int i = 0; i < static_cast<int>(tensors_.size()); ++i) {
    const Tensor& t = tensor(i);
    if (t.role != Role::output) continue;
    count_poison(at<void>(i, 0), width_of(t.storage), t.count, found, device.stream());
    check_launch("counting unwritten elements");
  }
  unsigned long long count = 0;
  check(gpuStreamSynchronize(device.stream()), "running the kernel");
  check(gpuMemcpy(&count, found, sizeof count, gpuMemcpyDeviceToHost), "counting unwritten elements");
  return count;
}

double Difference::relative() const {
  const double error = std::sqrt(difference_ / reference_);
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

}  // namespace orrery::calibration::gpu
