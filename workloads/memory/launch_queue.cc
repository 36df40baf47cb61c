// A launch begins when the host has made it and the device is done with the one before. Left out: launches that are
// made at once on several streams, which the queue of one connection puts in order anyway.
#include "workloads/memory/launch_queue.h"

#include <algorithm>

namespace orrery::workloads {

void LaunchQueue::launch(double launches, double host, double device) {
  launched_ += launches;
  host_ += host;
  device_ = std::max(device_, host_) + device;
  pending_.push_back({launched_, device_});
  while (!pending_.empty() && pending_.front().launched <= launched_ - room_) {
    host_ = std::max(host_, pending_.front().done);
    pending_.pop_front();
  }
}

void LaunchQueue::hold_device(double until) { device_ = std::max(device_, until); }

void LaunchQueue::synchronize() {
  host_ = std::max(host_, device_);
  pending_.clear();
}

}  // namespace orrery::workloads
