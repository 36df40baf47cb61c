// A batch is a graph where the work can be recorded, else plain launches. The board rests after each for as long as it
// took: at half of the time no kernel of an H200 reached its power limit, in runs without pauses most products did, and
// took up to a fifth longer. What a limit takes is told by power, and not by each kernel. Left out: the gap between two
// kernels of a graph, about a microsecond, which a training step has as well.
#include "calibration/kernels/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace orrery::calibration::gpu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kBatchSeconds = 1e-3;
constexpr int kMostLaunches = 256;
constexpr int kFewestRepeats = 5;

}  // namespace

Mark::Mark() { check(gpuEventCreate(&event_), "making an event"); }
Mark::~Mark() { static_cast<void>(gpuEventDestroy(event_)); }
void Mark::record(Stream stream) { check(gpuEventRecord(event_, stream), "recording an event"); }
void Mark::hold(Stream stream) const { check(gpuStreamWaitEvent(stream, event_, 0), "waiting for an event"); }
void Mark::wait() const { check(gpuEventSynchronize(event_), "waiting for the kernel"); }
double Mark::since(const Mark& begin) const {
  float milliseconds = 0;
  check(gpuEventElapsedTime(&milliseconds, begin.event_, event_), "reading an event");
  return static_cast<double>(milliseconds) * 1e-3;
}

Recording::Recording(Stream stream) : stream_(stream) {
  check(gpuStreamBeginCapture(stream, gpuStreamCaptureModeThreadLocal), "recording a graph");
}

void Recording::end() {
  const Stream stream = stream_;
  stream_ = nullptr;
  bool recorded = gpuStreamEndCapture(stream, &graph_) == gpuSuccess && graph_ != nullptr;
#if defined(ORRERY_EMULATED)
  recorded = false;
#elif defined(ORRERY_HIP)
  recorded = recorded && hipGraphInstantiate(&exec_, graph_, nullptr, nullptr, 0) == hipSuccess;
#elif CUDART_VERSION >= 12000
  recorded = recorded && cudaGraphInstantiate(&exec_, graph_, 0) == cudaSuccess;
#else
  recorded = recorded && cudaGraphInstantiate(&exec_, graph_, nullptr, nullptr, 0) == cudaSuccess;
#endif
  if (!recorded) exec_ = nullptr;
  static_cast<void>(gpuGetLastError());
  if (!recorded) throw Failure{GpuStatus::unavailable, "the work cannot be recorded into a graph"};
}

Recording::~Recording() {
  if (stream_ != nullptr) {  // what went wrong in between must not leave the stream recording
    static_cast<void>(gpuStreamEndCapture(stream_, &graph_));
    static_cast<void>(gpuGetLastError());
  }
  if (exec_ != nullptr) static_cast<void>(gpuGraphExecDestroy(exec_));
  if (graph_ != nullptr) static_cast<void>(gpuGraphDestroy(graph_));
}

void Recording::launch(Stream stream) const { check(gpuGraphLaunch(exec_, stream), "launching a graph"); }

Replay::Replay(Device& device, const std::function<void(Stream)>& record) : recording_(device.stream()) {
  try {
    record(device.stream());
  } catch (const Failure&) {  // a library that synchronises, say; its launches are timed one by one instead
  }
  try {
    recording_.end();
  } catch (const Failure&) {
  }
}

GpuTiming time_workload(Device& device, Workload& workload, double budget) {
  const Stream stream = device.stream();
  Mark begin, end;
  const auto timed = [&](const auto& work) {
    begin.record(stream);
    work();
    end.record(stream);
  };
  workload.launch(0, stream);  // module load and library start-up
  check(gpuStreamSynchronize(stream), "running the kernel");
  timed([&] { workload.launch(workload.sets() - 1, stream); });
  end.wait();
  const double one = std::max(end.since(begin), 1e-7);
  const int launches = static_cast<int>(std::clamp(std::ceil(kBatchSeconds / one), 1.0, double{kMostLaunches}));
  int next = 0;
  const auto batch = [&](Stream on) {
    for (int i = 0; i < launches; ++i) workload.launch(next++ % workload.sets(), on);
  };
  std::unique_ptr<Replay> replay;
  if (launches > 1) replay = std::make_unique<Replay>(device, batch);
  const bool graph = replay != nullptr && replay->works();
  const auto run = [&] { graph ? replay->launch(stream) : batch(stream); };
  auto start = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  do {  // clocks rise from idle within milliseconds
    run();
    check(gpuStreamSynchronize(stream), "running the kernel");
  } while (spent() < std::min(0.01, budget / 4));

  GpuTiming timing;
  start = Clock::now();
  while (timing.repeats < kMostRepeats && (timing.repeats < kFewestRepeats || spent() < budget)) {
    timed(run);
    // Asked while the batch runs; the largest is the clock under load.
    timing.sm_mhz = std::max(timing.sm_mhz, device.monitor().sm_mhz());
    timing.power_w = std::max(timing.power_w, device.monitor().power_w());
    timing.limits |= device.monitor().limits();
    end.wait();
    const double took = end.since(begin);
    timing.seconds[timing.repeats++] = took / launches;
    std::this_thread::sleep_for(std::chrono::duration<double>(took));
    if (timing.repeats >= 3 && spent() > 10 * budget) break;  // a case far longer than planned
  }
  return timing;
}

void run_once(Device& device, Workload& workload, const Buffers& buffers) {
  buffers.poison(device);
  workload.launch(0, device.stream());
  check_launch("launching the kernel");
  const std::uint64_t unwritten = buffers.unwritten(device);
  if (unwritten != 0) throw Failure{GpuStatus::wrong, std::to_string(unwritten) + " elements were not written"};
}

}  // namespace orrery::calibration::gpu
