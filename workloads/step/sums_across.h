// All-reduces of an engine's groups that lie on several nodes: NCCL's, alone on an idle network, as a training step's
// are timed (workloads/collectives).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "workloads/job/job.h"

namespace orrery::workloads {

/// Timed when first asked for; any thread may ask.
class SumsAcross {
 public:
  SumsAcross(Site site, calibration::DeviceProfile device, calibration::Software software)
      : site_(std::move(site)), device_(std::move(device)), software_(std::move(software)) {}
  /// Of a buffer over the first GPUs of the site, more than a node has; between sizes that were timed in proportion.
  double seconds(std::int64_t gpus, double bytes) const;

 private:
  std::vector<double> timed(std::int64_t gpus) const;

  Site site_;
  calibration::DeviceProfile device_;
  calibration::Software software_;  // its collective library
  mutable std::mutex guard_;
  mutable std::map<std::int64_t, std::vector<double>> times_;  // by GPUs: seconds of powers of two from kLeast bytes on
};

}  // namespace orrery::workloads
