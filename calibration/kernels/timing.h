// Repeated measurement of a workload with device events.
#pragma once

#include <functional>

#include "calibration/kernels/workload.h"

namespace orrery::calibration::gpu {

/// An event, destroyed with its owner.
class Mark {
 public:
  Mark();
  ~Mark();
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  void record(Stream stream);
  /// What `stream` is given from now on waits for it.
  void hold(Stream stream) const;
  void wait() const;
  /// Seconds from `begin` to this one; both must be over.
  double since(const Mark& begin) const;

 private:
  Event event_ = nullptr;
};

/// What is enqueued on a stream between beginning and end, as a graph of its device; the device is the current one's.
class Recording {
 public:
  explicit Recording(Stream stream);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  /// Throws Failure, unavailable, where the work cannot be recorded.
  void end();
  bool works() const { return exec_ != nullptr; }
  void launch(Stream stream) const;

 private:
  Stream stream_ = nullptr;
  Graph graph_ = nullptr;
  GraphExec exec_ = nullptr;
};

/// Work recorded once and replayed: the launches follow each other without the host.
class Replay {
 public:
  /// `record` enqueues on the stream that it is given.
  Replay(Device& device, const std::function<void(Stream)>& record);
  /// False where the work cannot be recorded.
  bool works() const { return recording_.works(); }
  void launch(Stream stream) const { recording_.launch(stream); }

 private:
  Recording recording_;
};

/// Seconds of one launch, many times, for about `budget` seconds: after a warm-up, launches are put into batches of at
/// least a millisecond that rotate through all sets, so that neither events nor the L2 cache count.
GpuTiming time_workload(Device& device, Workload& workload, double budget);

}  // namespace orrery::calibration::gpu
