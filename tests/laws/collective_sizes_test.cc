// A larger buffer takes longer, and not much longer: of every collective on every fabric that ships, a buffer that is
// 1.15 times as large takes no less than 0.95 and no more than 2 times as long. Exempt is what the libraries themselves
// do: where NCCL's tuning model (NVIDIA/nccl, src/graph/tuning.cc) goes from one algorithm or protocol to another,
// whose times differ at that size, and where the protocol of a node's collectives was measured to switch. Each is
// listed.
#include <fmt/format.h>

#include <map>
#include <numeric>
#include <set>
#include <string>

#include "calibration/device/collective_model.h"
#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "tools/cluster.h"
#include "workloads/collectives/collective.h"

using namespace orrery;
using workloads::CollectiveOp;

namespace {

struct Pace {
  std::string from, to;
  double first = 0, then = 0;  // bytes
  double ratio = 1;            // of the times
};

std::vector<double> sizes() {
  std::vector<double> out;
  for (double bytes = 1024; bytes < 4e9; bytes *= 1.15) out.push_back(bytes);
  return out;
}

/// Devices of fabrics that are not H100's.
std::string device_of(const std::string& fabric) {
  const std::map<std::string, std::string> others{{"nvl72-ndr", "gb200"},
                                                  {"nvl72-xdr", "gb300"},
                                                  {"amd-400g-rail", "mi300x"},
                                                  {"azure-ndv4", "a100-sxm-40gb"},
                                                  {"selene-hdr", "a100-sxm-80gb"},
                                                  {"tomahawk4-200g", "a100-sxm-80gb"},
                                                  {"alps-slingshot11", "gh200-96gb"},
                                                  {"jupiter-ndr200", "gh200-96gb"}};
  const auto found = others.find(fabric);
  return found == others.end() ? "h100-sxm-80gb" : found->second;
}

/// Sizes at which a collective's pace leaves the law's bounds.
std::vector<Pace> leaps(const tools::NamedCluster& on, CollectiveOp op, std::int64_t group) {
  std::vector<std::int64_t> gpus(static_cast<std::size_t>(group));
  std::iota(gpus.begin(), gpus.end(), 0);
  const std::vector<double> buffers = sizes();
  const auto timed = workloads::time_collective(op, buffers, gpus, on.cluster, on.device, on.software);
  std::vector<Pace> out;
  for (std::size_t i = 1; i < timed.size(); ++i) {
    const double ratio = sim::to_seconds(timed[i].time) / sim::to_seconds(timed[i - 1].time);
    if (ratio < 0.95 || ratio > 2)
      out.push_back(
          {std::string(timed[i - 1].algorithm), std::string(timed[i].algorithm), buffers[i - 1], buffers[i], ratio});
  }
  return out;
}

/// NCCL's own switches whose sides differ by more: from and to, with the fabrics on which that is seen.
bool is_switch_of_nccl(const std::string& fabric, const Pace& pace) {
  using Switch = std::pair<std::string, std::string>;
  static const std::map<Switch, std::set<std::string>> known{
      {{"nvls_tree", "tree LL"}, {"a100-800g-node", "perlmutter-slingshot11", "roce-4x200g", "slingshot11"}},
      {{"tree LL", "tree LL128"}, {"alps-slingshot11", "jupiter-ndr200"}},
      {{"tree LL", "ring LL"}, {"jean-zay-4x100g", "slingshot11"}},
      {{"ring LL", "nvls_tree"}, {"jean-zay-4x100g"}},
      {{"ring LL128", "tree LL128"}, {"azure-ndv4", "selene-hdr", "tomahawk4-200g"}},
      {{"ring LL", "ring LL128"}, {"jean-zay-4x100g", "nvl72-ndr", "nvl72-xdr", "xdr-rail"}},
      // Chunks of trees under LL128 stay at 576 KiB where 72 GPUs are one node to NCCL (src/enqueue.cc).
      {{"tree LL128", "ring LL128"}, {"nvl72-ndr", "nvl72-xdr"}},
  };
  const auto found = known.find({pace.from, pace.to});
  return found != known.end() && found->second.count(fabric) == 1;
}

/// Switches of protocols inside a node that were measured: GB300's trays go from 19 to 85 us between 1 and 8 MB, eight
/// A100 from 33 to 74 us between 2 and 8 MB (NVIDIA ai-dynamo/aiconfigurator). Groups larger than those measured have
/// none.
bool was_measured(const std::string& fabric, std::int64_t group, const Pace& pace) {
  if (pace.from != "node") return false;
  const std::string device = device_of(fabric);
  return (device == "gb300" && group <= 4) || (device.starts_with("a100") && group == 8 && pace.ratio < 2.05);
}

}  // namespace

TEST_CASE("a slightly larger buffer takes slightly longer, on every fabric") {
  std::size_t pairs = 0;
  std::vector<std::string> wrong;
  for (const std::string& fabric : scenarios::shipped("fabrics"))
    for (const std::int64_t group : {2, 4, 8, 16, 24, 32, 64, 72, 256, 1024}) {
      tools::ClusterOptions options;
      options.what = fabric;
      options.device = device_of(fabric);
      std::optional<tools::NamedCluster> on;
      try {
        on.emplace(tools::read_cluster(options, group));
      } catch (const sim::UserError&) {
        continue;  // a fabric for fewer GPUs
      }
      for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::reduce_scatter,
                                    CollectiveOp::all_to_all, CollectiveOp::broadcast, CollectiveOp::send_receive}) {
        pairs += sizes().size() - 1;
        for (const Pace& pace : leaps(*on, op, group))
          if (!is_switch_of_nccl(fabric, pace) && !was_measured(fabric, group, pace))
            wrong.push_back(fmt::format("{}, operation {}, {} GPUs: {:.0f} to {:.0f} bytes ({} to {}): x {:.2f}",
                                        fabric, static_cast<int>(op), group, pace.first, pace.then, pace.from, pace.to,
                                        pace.ratio));
      }
    }
  CHECK(pairs > 100000);
  CHECK(wrong == std::vector<std::string>{});
}

TEST_CASE("beyond the groups that were measured the faster protocol runs in a node") {
  calibration::CollectiveModel m;
  m.gpus = {2, 4};
  m.switch_bytes = {1e6, 1e6};
  m.low_latency = {5e-6, 1e-6, 0, {100e9, 100e9}};
  m.bulk = {10e-6, 10e-6, 0, {500e9, 500e9}};
  for (const double group : {4.0, 5.0, 64.0})
    for (double bytes = 1e4; bytes < 1e10; bytes *= 1.3) {
      const double low = m.low_latency_part(CollectiveOp::all_gather, group, bytes).seconds;
      const double bulk = m.bulk_part(CollectiveOp::all_gather, group, bytes).seconds;
      const double time = sim::to_seconds(m.timing(CollectiveOp::all_gather, group, bytes).total());
      if (group > 4) CHECK(time == Approx(std::min(low, bulk)).epsilon(1e-6));
      if (group == 4) CHECK(time == Approx(bytes <= 1e6 ? low : std::max(bulk, time)).epsilon(1e-6));
    }
}
