// Do collectives over GPUs joined by direct links reach the bandwidth that is cited for them, and never what their
// links cannot carry?
#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/collectives/collective.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

Job job_on(const std::string& device, const std::string& fabric, std::int64_t gpus) {
  return tests::small_job({"cluster.device=" + device, "cluster.fabric=" + fabric,
                           "cluster.gpus=" + std::to_string(gpus), "parallelism={tensor: 1, pipeline: 1}",
                           "batch={global: " + std::to_string(gpus) + ", micro: 1}", "software=megatron-rocm-2024"});
}

std::vector<std::int64_t> first(std::int64_t n) {
  std::vector<std::int64_t> gpus;
  for (std::int64_t g = 0; g < n; ++g) gpus.push_back(g);
  return gpus;
}

/// GB/s that each GPU sends in a call of 4 GiB.
double bus_rate(const Job& job, CollectiveOp op, const std::vector<std::int64_t>& gpus) {
  const topology::Cluster cluster = cluster_of(site_of(job));
  const std::vector<double> sizes{4.0 * (std::int64_t{1} << 30)};
  const auto timed = time_collective(op, sizes, gpus, cluster, job.machine.device, job.software);
  const auto ranks = static_cast<std::int64_t>(gpus.size());
  return wire_bytes(op, ranks, sizes[0]) / sim::to_seconds(timed[0].time) / 1e9;
}

constexpr double kXgmi = 0.75 * 64;    // GB/s, payload of a link between two MI300X, one direction
constexpr double kFabric = 0.75 * 50;  // of one between two dies of MI250X

}  // namespace

TEST_CASE("RCCL on MI300X: 312.9 GB/s over eight, 47.7 over two (stas00/ml-engineering), within 8 %") {
  const Job job = job_on("mi300x", "single-node", 8);
  CHECK(bus_rate(job, CollectiveOp::all_reduce, first(8)) == Approx(312.9).epsilon(0.08));
  CHECK(bus_rate(job, CollectiveOp::all_reduce, first(2)) == Approx(47.7).epsilon(0.08));
}

TEST_CASE("dies of MI250X: 135 GB/s over eight, 52 over four, 129 over a package (AxoNN), a pair what joins it") {
  const Job job = job_on("mi250x-gcd", "single-node", 8);
  CHECK(bus_rate(job, CollectiveOp::all_reduce, first(8)) == Approx(135).epsilon(0.02));
  CHECK(bus_rate(job, CollectiveOp::all_gather, first(4)) == Approx(52).epsilon(0.02));
  CHECK(bus_rate(job, CollectiveOp::all_reduce, {0, 1}) == Approx(129).epsilon(0.02));
  CHECK(bus_rate(job, CollectiveOp::all_reduce, {0, 6}) == Approx(2 * kFabric).epsilon(0.02));
  CHECK(bus_rate(job, CollectiveOp::all_reduce, {1, 3}) == Approx(kFabric).epsilon(0.02));
}

TEST_CASE("whatever the collective and the group, no GPU sends more than its links to the group carry") {
  const Job job = job_on("mi300x", "single-node", 8);
  using enum CollectiveOp;
  for (std::int64_t n = 2; n <= 8; ++n) {
    for (const CollectiveOp op : {all_reduce, all_gather, reduce_scatter, all_to_all, send_receive}) {
      const double rate = bus_rate(job, op, first(n)), links = kXgmi * static_cast<double>(n - 1);
      CAPTURE(n, static_cast<int>(op));
      CHECK(rate <= links * 1.0001);
      // All links but for the protocol's share; a message goes to one neighbour, over one link.
      CHECK(rate >= 0.9 * (op == send_receive ? kXgmi : links));
    }
  }
}

TEST_CASE("more GPUs of a mesh are never slower to all-reduce with: their links come with them") {
  const Job job = job_on("mi300x", "single-node", 8);
  double before = 0;
  for (std::int64_t n = 2; n <= 8; ++n) {
    const double rate = bus_rate(job, CollectiveOp::all_reduce, first(n));
    CHECK(rate > before);
    before = rate;
  }
}

TEST_CASE("an all-to-all over dies is held back by the pairs that share a link") {
  const Job job = job_on("mi250x-gcd", "single-node", 8);
  const topology::Cluster cluster = cluster_of(site_of(job));
  // Every die sends 1/7 of what it sends to each other by the node's routes; the fullest link gives the rate.
  std::vector<double> load(cluster.links().size(), 0.0);
  for (std::int64_t a = 0; a < 8; ++a) {
    for (std::int64_t b = 0; b < 8; ++b) {
      if (a == b) continue;
      for (const auto& link : cluster.path(a, b).links) load[sim::index(link.link)] += 1.0 / 7;
    }
  }
  double rate = 1e300;
  for (std::uint32_t l = 0; l < load.size(); ++l) {
    if (load[l] > 0) rate = std::min(rate, cluster.links()[sim::LinkId{l}].capacity.value() / load[l] / 1e9);
  }
  CHECK(bus_rate(job, CollectiveOp::all_to_all, first(8)) == Approx(std::min(rate, 75.0)).epsilon(0.02));
}

TEST_CASE("between nodes rings leave by every NIC, and the mesh inside does not hold them back") {
  const Job job = job_on("mi300x", "azure-ndv5", 32);
  const double nics =
      static_cast<double>(job.machine.fabric.nics) *
      std::min(job.machine.fabric.nic_rate.value() * job.machine.fabric.efficiency, job.machine.node.pcie.value()) /
      1e9;
  const double rate = bus_rate(job, CollectiveOp::all_gather, first(32));
  CHECK(rate <= nics);
  CHECK(rate >= 0.8 * std::min(nics, 7 * kXgmi * 8 / 7));
}
