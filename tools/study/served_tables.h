// What studies share whose scenarios differ in the layouts and replicas of their pools, and in their traffic, alone: a
// search simulates each layout of a pool again and again, at one load after another and beside one other pool after
// another, and would read the device's kernels and time the same iterations each time.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "scenarios/serving.h"
#include "workloads/step/iteration_times.h"

namespace orrery::tools {

/// For several threads; outlives what it lends.
class ServedTables {
 public:
  /// Tables of the pool's layout: the caller's alone until the pointer goes, then another's. What was timed before is
  /// known, and does not tell what is answered.
  std::shared_ptr<workloads::IterationTimes> times_of(const scenarios::ServingScenario& scenario,
                                                      const scenarios::ServedPool& pool);

 private:
  using Layout =
      std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  using Times = std::unique_ptr<workloads::IterationTimes>;
  const calibration::ServingKernels& kernels_of(const scenarios::ServingScenario& scenario);

  std::mutex mutex_;
  std::optional<calibration::ServingKernels> kernels_;
  std::map<Layout, std::vector<Times>> idle_;
};

}  // namespace orrery::tools
