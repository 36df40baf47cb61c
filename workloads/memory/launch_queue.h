// A host that launches ahead of its device: the driver takes so many launches before it blocks.
#pragma once

#include <deque>

namespace orrery::workloads {

/// Two clocks, in seconds. Launches of one stream, in order.
class LaunchQueue {
 public:
  /// `room`: launches that may be pending; 0: the host waits for each.
  explicit LaunchQueue(double room) : room_(room) {}
  void set_room(double room) { room_ = room; }

  /// So many launches, which take the host so long to make and the device so long to do.
  void launch(double launches, double host, double device);
  /// The device does nothing more before that.
  void hold_device(double until);
  /// The host waits for its device.
  void synchronize();

  double host() const { return host_; }
  double device() const { return device_; }

 private:
  struct Pending {
    double launched, done;  // launches up to its end, and when the device is there
  };
  double room_, host_ = 0, device_ = 0, launched_ = 0;
  std::deque<Pending> pending_;
};

}  // namespace orrery::workloads
