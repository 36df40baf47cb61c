// What a board does in the long run. Two ratios that a short benchmark of one kernel hides. Sustained: the rate of a
// kernel that has run until clocks and power settled, over its rate on a board that has rested. Interference: the time
// of a product beside a kernel that streams through memory from a few multiprocessors, as a collective does, over its
// time alone. And power: what the board draws, and at what clock, while a kernel runs for a share of the time; pauses
// come so often that a limiter, which holds the mean over some tens of milliseconds, sees the share and not them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "calibration/kernels/timing.h"

namespace orrery::calibration::gpu {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::unique_ptr<Workload> workload_of(Device& device, Case what) {
  if (what.attention.heads > 0) {
    std::strcpy(what.name, "forward");
    return make_attention(device, what);
  }
  if (std::strncmp(what.name, "copy", 4) == 0) {
    std::strcpy(what.name, "copy");
    return make_streaming(device, what);
  }
  what.name[0] = 0;
  what.form = CaseForm::tn;
  what.batch = 1;
  return make_gemm(device, what);
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// Seconds of one launch, in a batch of `launches`.
double batch(Device& device, Workload& workload, int launches) {
  Mark begin, end;
  begin.record(device.stream());
  for (int i = 0; i < launches; ++i) workload.launch(i % workload.sets(), device.stream());
  end.record(device.stream());
  end.wait();
  return end.since(begin) / launches;
}

/// As many launches as fill `seconds`.
int launches_for(double seconds, double one) { return static_cast<int>(std::clamp(seconds / one, 1.0, 1e5)); }

/// Traffic on a stream of its own until it goes out of scope, whatever happens in between.
class Background {
 public:
  Background(Device& device, bool reduction) : reduction_(reduction), a_(kBytes), b_(kBytes), out_(kBytes) {
    for (const Memory* m : {&a_, &b_})
      fill(m->data(), Filled::bf16, Fill::normal, 1, static_cast<std::int64_t>(kBytes / 2), 7, device.stream());
    check(gpuStreamSynchronize(device.stream()), "filling the traffic's buffers");
    void* flag = nullptr;
    check(gpuHostAlloc(&flag, sizeof *stop_), "allocating pinned memory");
    stop_ = static_cast<volatile int*>(flag);
    *stop_ = 0;
    check(gpuStreamCreateWithFlags(&stream_, gpuStreamNonBlocking), "making a stream");
    start(1);  // loads the kernel while nothing else runs
    check(gpuStreamSynchronize(stream_), "running the traffic");
  }
  ~Background() {
    if (stop_ != nullptr) *stop_ = 1;
    if (stream_ != nullptr) static_cast<void>(gpuStreamSynchronize(stream_));
    if (stream_ != nullptr) static_cast<void>(gpuStreamDestroy(stream_));
    if (stop_ != nullptr) static_cast<void>(gpuHostFree(const_cast<int*>(stop_)));
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// `rounds` through the buffers; an end in sight, should the flag never reach the device. Blocks rest for `rest`
  /// cycles behind each turn.
  void start(int rounds, long long rest = 0) {
    background(out_.data(), a_.data(), reduction_ ? b_.data() : nullptr, kBytes, kBlocks, rounds, rest, stop_, stream_);
    check_launch("starting the traffic");
  }
  /// Seconds of a round at full rate while nothing else runs.
  double round() {
    constexpr int kRounds = 4;
    Mark begin, end;
    begin.record(stream_);
    start(kRounds);
    end.record(stream_);
    end.wait();
    return end.since(begin) / kRounds;
  }
  /// Cycles of rest that leave a share of the full rate. A turn is 16 bytes of every thread.
  static long long rest_for(double share, double round, double clock_hz) {
    constexpr double kTurns = static_cast<double>(kBytes) / 16 / (kBlocks * 512);
    return std::llround(round / kTurns * (1 / share - 1) * clock_hz);
  }

 private:
  static constexpr std::size_t kBytes = kTrafficBytes / 2;  // read, and as many written; beyond any L2 cache
  static constexpr int kBlocks = 24;                        // channels of NCCL inside an NVSwitch node
  bool reduction_;
  Memory a_, b_, out_;
  volatile int* stop_ = nullptr;
  Stream stream_ = nullptr;
};

}  // namespace

GpuTiming measure_sustained(Device& device, const Case& what, double budget) {
  const std::unique_ptr<Workload> workload = workload_of(device, what);
  const double one = batch(device, *workload, 2);
  std::this_thread::sleep_for(std::chrono::duration<double>(std::min(2.0, budget / 5)));
  batch(device, *workload, launches_for(0.02, one));  // clocks rise from idle within milliseconds
  std::vector<double> cold, steady;
  for (int i = 0; i < 3; ++i) cold.push_back(batch(device, *workload, launches_for(0.02, one)));
  GpuTiming timing;
  const auto begin = Clock::now();
  while (seconds_since(begin) < budget) {
    const double now = batch(device, *workload, launches_for(0.2, one));
    if (seconds_since(begin) < 0.75 * budget) continue;
    steady.push_back(now);
    timing.sm_mhz = device.monitor().sm_mhz();
    timing.power_w = device.monitor().power_w();
  }
  if (steady.empty()) steady.push_back(batch(device, *workload, launches_for(0.2, one)));
  for (const double s : steady) {
    if (timing.repeats < kMostRepeats) timing.seconds[timing.repeats++] = median(cold) / s;
  }
  return timing;
}

namespace {

/// Joules and when the counter last moved, so that its steps do not count. `turn` is what is done in between.
template <class Turn>
std::pair<double, Clock::time_point> energy_now(const Monitor& monitor, const Turn& turn) {
  const double before = monitor.energy_j();
  const auto begin = Clock::now();
  double now = before;
  while (now == before && seconds_since(begin) < 0.3) {
    turn();
    now = monitor.energy_j();
  }
  return {now, Clock::now()};
}

}  // namespace

GpuTiming measure_power(Device& device, const Case& what, double budget) {
  constexpr double kPeriod = 20e-3;
  const std::string name = what.name;
  const std::size_t mark = name.rfind('_');
  const bool idle = mark == std::string::npos;
  const double share = idle ? 1 : std::clamp(std::atof(name.c_str() + mark + 1) / 100, 0.01, 1.0);
  const std::unique_ptr<Workload> workload = idle ? nullptr : workload_of(device, what);
  const int launches = idle ? 0 : launches_for(share * kPeriod, batch(device, *workload, 2));
  GpuTiming timing;
  double clocks = 0, watts = 0;
  int asked = 0;
  bool counts = false;
  const auto period = [&] {
    const auto begin = Clock::now();
    double busy = kPeriod;
    if (!idle) {
      Mark first, last;
      first.record(device.stream());
      for (int i = 0; i < launches; ++i) workload->launch(i % workload->sets(), device.stream());
      last.record(device.stream());
      if (counts) clocks += device.monitor().sm_mhz();
      last.wait();
      busy = last.since(first);
      if (counts && timing.repeats < kMostRepeats) timing.seconds[timing.repeats++] = busy / launches;
    }
    if (counts) {
      watts += device.monitor().power_w();
      ++asked;
    }
    // Not by sleeping alone, which wakes late.
    const double length = idle ? kPeriod : busy / share;
    while (seconds_since(begin) < length)
      if (length - seconds_since(begin) > 1e-3) std::this_thread::sleep_for(std::chrono::microseconds(300));
  };
  const auto begin = Clock::now();
  while (seconds_since(begin) < budget / 3) period();
  counts = true;
  const auto from = energy_now(device.monitor(), period);
  while (seconds_since(begin) < budget) period();
  const auto to = energy_now(device.monitor(), period);
  const double seconds = std::chrono::duration<double>(to.second - from.second).count();
  timing.power_w = to.first > from.first ? (to.first - from.first) / seconds : watts / asked;
  if (!(timing.power_w > 0)) throw Failure{GpuStatus::unavailable, "nothing here tells what the board draws"};
  timing.sm_mhz = clocks / asked;
  if (idle) timing.seconds[timing.repeats++] = seconds;
  return timing;
}

GpuTiming measure_interference(Device& device, const Case& what, double budget) {
  const auto begin = Clock::now();
  GpuTiming timing;
  const auto more = [&] { return timing.repeats < 16 && (timing.repeats < 3 || seconds_since(begin) < budget); };
  if (std::strcmp(what.name, "traffic_alone") == 0) {
    Background traffic(device, false);
    while (more()) timing.seconds[timing.repeats++] = traffic.round();
    return timing;
  }
  const std::unique_ptr<Workload> workload = workload_of(device, what);
  const bool reduction = std::strcmp(what.name, "gemm_beside_reduction") == 0;
  const int percent = std::atoi(std::strrchr(what.name, '_') + 1);
  const double one = batch(device, *workload, 2);
  const int launches = launches_for(5e-3, one);
  while (more()) {
    const double alone = batch(device, *workload, launches);
    double beside = 0;
    {
      Background traffic(device, reduction);
      const bool rests = percent > 0 && percent < 100;
      traffic.start(4000, rests ? Background::rest_for(percent / 100.0, traffic.round(), device.facts().clock_hz) : 0);
      beside = batch(device, *workload, launches);
    }
    timing.seconds[timing.repeats++] = beside / alone;
  }
  return timing;
}

}  // namespace orrery::calibration::gpu
