// Do parallel aggregated trees hand every part to every rank, in so many rounds, over the links that are loaded?
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/catch.h"
#include "tests/workloads/group_on_nodes.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// The trees themselves: of part p, rank p is the root; in a round of distance d every rank that holds it passes it on
/// to the rank d above, if that one is below n above the root. The farthest distance comes first.
struct Trees {
  std::size_t rounds = 0;
  std::vector<std::set<std::size_t>> holds;                              // parts, by rank
  std::vector<std::map<std::pair<std::size_t, std::size_t>, int>> sent;  // parts by sender and receiver, by round

  explicit Trees(std::size_t n) : holds(n) {
    std::size_t distance = 1;
    while (distance < n) distance *= 2;
    for (std::size_t i = 0; i < n; ++i) holds[i] = {i};
    for (distance /= 2; distance >= 1; distance /= 2, ++rounds) {
      const auto before = holds;
      sent.emplace_back();
      for (std::size_t i = 0; i < n; ++i) {
        for (const std::size_t part : before[i]) {
          const std::size_t offset = (i + n - part) % n;
          if (offset + distance >= n) continue;
          const std::size_t to = (i + distance) % n;
          CHECK(holds[to].insert(part).second);  // comes once
          ++sent.back()[{i, to}];
        }
      }
    }
  }
};

const std::vector<std::string> kWirings = {"ndr-rail", "selene-hdr",
                                           "{kind: single_switch, nics: 4, nic_rate: 200 Gb/s, efficiency: 0.9}"};

std::vector<double> loads(const OwnRoute& route, const topology::Cluster& cluster) {
  std::vector<double> out(cluster.links().size(), 0);
  for (const auto& [link, weight] : route.links) out[sim::index(link)] += weight;
  return out;
}

}  // namespace

TEST_CASE("after ceil(log2 n) rounds of aggregated trees every rank has every part once, having sent n - 1") {
  for (const std::size_t n : {2, 3, 4, 5, 7, 8, 24, 33}) {
    const Trees trees(n);
    CHECK(static_cast<double>(trees.rounds) == std::ceil(std::log2(static_cast<double>(n))));
    std::vector<int> parts(n, 0);
    for (const auto& round : trees.sent)
      for (const auto& [pair, count] : round) parts[pair.first] += count;
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(trees.holds[i].size() == n);
      CHECK(parts[i] == static_cast<int>(n) - 1);
    }
  }
}

TEST_CASE("aggregated trees load the links of their messages, and take their closed form") {
  for (const std::string& fabric : kWirings) {
    for (const std::int64_t nodes : {2, 3, 5, 8}) {
      INFO(fabric << ", " << nodes << " nodes");
      const tests::GroupOnNodes s(fabric, nodes, 1);
      const Trees trees(s.gpus.size());
      std::vector<double> parts(s.cluster.links().size(), 0);
      double paths = 0;
      for (const auto& round : trees.sent) {
        double longest = 0;
        for (const auto& [pair, count] : round) {
          const auto path = s.cluster.path(s.gpus[pair.first], s.gpus[pair.second], pair.first);
          for (const auto& [link, weight] : path.links) parts[sim::index(link)] += weight * count;
          longest = std::max(longest, sim::to_seconds(path.latency));
        }
        paths += longest;
      }
      const double n = static_cast<double>(nodes), bytes = 1e9;
      const std::vector<double> loaded = loads(pat_route(s.gpus, s.cluster), s.cluster);
      double fullest = 0;
      for (std::size_t l = 0; l < parts.size(); ++l) {
        const topology::LinkInfo& link = s.cluster.links()[sim::LinkId{static_cast<std::uint32_t>(l)}];
        fullest = std::max(fullest, parts[l] * bytes / n / link.capacity.value());
        const bool left_out = loaded[l] == 0 && link.never_binding && link.tier != topology::Tier::leaf;
        if (!left_out) CHECK(loaded[l] * (n - 1) == Approx(parts[l]).epsilon(1e-12));
      }
      const auto& library = s.job.software.library;
      const double latency = sim::to_seconds(library.collective_base) + 2.8e-6 * n + paths +
                             std::ceil(std::log2(n)) * sim::to_seconds(library.collective_step_ring) / 3.5;
      for (const CollectiveOp op : {CollectiveOp::all_gather, CollectiveOp::reduce_scatter}) {
        const auto timed = s.time(op, bytes, "pat");
        CHECK(timed.algorithm == "pat");
        // Three quarters of a NIC's rate, which no link above it undercuts here.
        CHECK(sim::to_seconds(timed.time) == Approx(latency + fullest / 0.75).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("a library with aggregated trees takes them for short calls of one GPU per node, and nothing else") {
  tests::GroupOnNodes s("ndr-rail", 32, 1);
  s.job.software.library.collective_algorithms.add(calibration::CollectiveAlgorithm::pat);
  CHECK(s.time(CollectiveOp::reduce_scatter, 4e6).algorithm == "pat");
  CHECK(s.time(CollectiveOp::all_gather, 1e10).algorithm == "ring Simple");
  CHECK(s.time(CollectiveOp::all_reduce, 4e6).algorithm != "pat");
  // Between two nodes NCCL rates a ring under LL at 14 us and trees at 18.
  tests::GroupOnNodes two("ndr-rail", 2, 1);
  two.job.software.library.collective_algorithms.add(calibration::CollectiveAlgorithm::pat);
  CHECK(two.time(CollectiveOp::all_gather, 1e3).algorithm == "ring LL");
  s.gpus.push_back(1);  // a second one of node 0
  CHECK(s.time(CollectiveOp::reduce_scatter, 4e6).algorithm != "pat");
}

TEST_CASE("a step whose library has aggregated trees alone runs, folded as in full") {
  const auto [before, alone] = tests::check_folded_with(
      calibration::CollectiveAlgorithm::pat, {"parallelism.tensor=8", "parallelism.pipeline=1", "parallelism.data=4"});
  CHECK(alone > before);  // three quarters of a NIC's rate
}
