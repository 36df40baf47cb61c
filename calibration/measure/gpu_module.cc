// dlopen and dlsym. The library stays loaded: GPU runtimes do not survive being unloaded.
#include "calibration/measure/gpu_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "calibration/measure/statistics.h"
#include "sim/error.h"

namespace orrery::calibration {

using sim::Place;
using sim::UserError;

GpuModule::GpuModule(const std::string& path) : library_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) {
    const char* const why = ::dlerror();
    throw UserError(Place{path, 0, 0}, "GPU module", fmt::format("cannot be loaded: {}", why == nullptr ? "" : why));
  }
  decltype(&orrery_gpu_abi) abi = nullptr;
  const auto find = [this](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library_, symbol));
    return function != nullptr;
  };
  const bool complete = find(abi, "orrery_gpu_abi") && find(message_of_, "orrery_gpu_message") &&
                        find(count_, "orrery_gpu_count") && find(open_, "orrery_gpu_open") &&
                        find(measure_, "orrery_gpu_measure") && find(close_, "orrery_gpu_close");
  if (!complete || abi() != kGpuAbi) {
    throw UserError(Place{path, 0, 0}, "GPU module",
                    "is of another version of orrery, expected the one built with this program");
  }
}

GpuModule::~GpuModule() {
  if (close_ != nullptr) close_();
}

int GpuModule::devices() {
  std::int32_t count = 0;
  if (count_(&count) == GpuStatus::done) return count;
  message_ = message_of_();
  return 0;
}

GpuFacts GpuModule::open(int device) {
  const int count = devices();
  if (device < 0 || device >= count) {
    throw UserError(fmt::format("orrery: calibrate: --device: got {}, expected {}", device,
                                count == 1 ? "0, the only GPU" : fmt::format("0 to {}", count - 1)));
  }
  GpuFacts facts;
  if (open_(device, &facts) != GpuStatus::done)
    throw UserError(fmt::format("orrery: calibrate: GPU {} does not start: {}", device, message_of_()));
  return facts;
}

GpuStatus GpuModule::measure(const Case& what, double budget, bool timed, Measurement& result) {
  GpuTiming timing;
  const GpuStatus status = measure_(&what, budget, timed ? 1 : 0, &timing);
  if (status != GpuStatus::done) {
    message_ = message_of_();
    return status;
  }
  result = {};
  result.what = what;
  result.error = timing.error;
  result.repeats = timing.repeats;
  result.sm_mhz = timing.sm_mhz;
  result.power_w = timing.power_w;
  result.limits = timing.limits;
  if (timing.repeats <= 0) return status;
  const int repeats = std::min<int>(timing.repeats, kMostRepeats);
  const std::vector<double> seconds(timing.seconds, timing.seconds + repeats);
  if (std::any_of(seconds.begin(), seconds.end(), [](double s) { return !std::isfinite(s) || s < 0; })) {
    message_ = "the timer gave no sensible number";
    return GpuStatus::failed;
  }
  const Spread spread = spread_of(seconds);
  result.seconds = spread.median;
  result.spread_pct = spread.spread_pct;
  return status;
}

}  // namespace orrery::calibration
