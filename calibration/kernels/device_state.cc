// Opening a device, its memory and its errors.
#include "calibration/kernels/device_state.h"

#include <utility>

namespace orrery::calibration::gpu {

void check(ErrorCode code, const char* what) {
  if (code == gpuSuccess) return;
  static_cast<void>(gpuGetLastError());  // an error that stays would be blamed on the next call
  GpuStatus status = GpuStatus::failed;
  if (code == gpuErrorOutOfMemory) status = GpuStatus::out_of_memory;
  if (code == gpuErrorNoDevice || code == gpuErrorInsufficientDriver) status = GpuStatus::no_device;
  throw Failure{status, std::string(what) + ": " + gpuGetErrorString(code)};
}

void check_launch(const char* what) { check(gpuGetLastError(), what); }

Device::Device(int number) : number_(number) {
  check(gpuSetDevice(number), "choosing the device");
  check(gpuFree(nullptr), "starting the device");
  check(gpuStreamCreateWithFlags(&stream_, gpuStreamNonBlocking), "making a stream");
  describe();
}

Device::~Device() {
  if (stream_ != nullptr) static_cast<void>(gpuStreamDestroy(stream_));
}

double Device::free_bytes() const {
  std::size_t free = 0, total = 0;
  check(gpuMemGetInfo(&free, &total), "reading free memory");
  return static_cast<double>(free);
}

bool Device::answers() const {
  static_cast<void>(gpuGetLastError());
  std::size_t free = 0, total = 0;
  return gpuDeviceSynchronize() == gpuSuccess && gpuMemGetInfo(&free, &total) == gpuSuccess;
}

Memory::Memory(std::size_t bytes) { check(gpuMalloc(&data_, bytes), "allocating device memory"); }

Memory::~Memory() {
  if (data_ != nullptr) static_cast<void>(gpuFree(data_));
}

Memory::Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}

}  // namespace orrery::calibration::gpu
