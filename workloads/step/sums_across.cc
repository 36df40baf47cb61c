// See sums_across.h.
#include "workloads/step/sums_across.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "workloads/collectives/collective.h"

namespace orrery::workloads {

namespace {

constexpr double kLeast = 1024;
constexpr std::size_t kSizes = 20;  // up to 512 MiB

}  // namespace

std::vector<double> SumsAcross::timed(std::int64_t gpus) const {
  std::vector<double> sizes(kSizes, kLeast);
  for (std::size_t i = 1; i < kSizes; ++i) sizes[i] = 2 * sizes[i - 1];
  Site site = site_;
  site.gpus = gpus;
  std::vector<std::int64_t> group(static_cast<std::size_t>(gpus));
  std::iota(group.begin(), group.end(), 0);
  std::vector<double> times;
  for (const TimedCollective& one :
       time_collective(CollectiveOp::all_reduce, sizes, group, cluster_of(site), device_, software_))
    times.push_back(sim::to_seconds(one.time));
  return times;
}

double SumsAcross::seconds(std::int64_t gpus, double bytes) const {
  const std::lock_guard lock(guard_);
  std::vector<double>& times = times_[gpus];
  if (times.empty()) times = timed(gpus);
  const double at = std::log2(std::max(1.0, bytes / kLeast));
  const auto node = std::min(static_cast<std::size_t>(at), times.size() - 2);
  const double from = std::exp2(static_cast<double>(node)) * kLeast;
  const double share = std::max(0.0, (bytes - from) / from);
  return times[node] + share * (times[node + 1] - times[node]);
}

}  // namespace orrery::workloads
