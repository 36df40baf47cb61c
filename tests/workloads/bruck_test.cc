// Does Bruck's all-gather hand every part to every rank, in so many rounds, over the links that the simulation loads?
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "tests/catch.h"
#include "tests/workloads/group_on_nodes.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// The algorithm itself, part by part: rank i begins with part i, and in every round sends what it holds first to the
/// rank `distance` below it, as far as that one lacks anything.
struct Rounds {
  std::size_t rounds = 0;
  std::vector<std::vector<std::size_t>> holds;                        // by rank, in the order in which parts came
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> sent;    // parts, by sender and receiver
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> who;  // by round

  explicit Rounds(std::size_t n) : holds(n) {
    for (std::size_t i = 0; i < n; ++i) holds[i] = {i};
    for (std::size_t distance = 1; holds[0].size() < n; distance *= 2, ++rounds) {
      const auto before = holds;
      who.emplace_back();
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t to = (i + n - distance) % n, parts = std::min(before[i].size(), n - before[to].size());
        holds[to].insert(holds[to].end(), before[i].begin(), before[i].begin() + static_cast<std::ptrdiff_t>(parts));
        sent[{i, to}] += parts;
        who.back().emplace_back(i, to);
      }
    }
  }
};

using Setting = tests::GroupOnNodes;

const std::vector<std::string> kFabrics = {"ndr-rail", "selene-hdr",
                                           "{kind: single_switch, nics: 8, nic_rate: 100 Gb/s, nic_latency: 3 us}",
                                           "{kind: single_switch, nics: 4, nic_rate: 200 Gb/s, efficiency: 0.9}"};

template <typename Check>
void everywhere(const Check& check) {
  for (const std::string& fabric : kFabrics)
    for (const std::int64_t nodes : {2, 3, 5, 8})
      for (const std::int64_t members : {1, 3, 8}) {
        INFO(fabric << ", " << members << " GPUs of each of " << nodes << " nodes");
        check(Setting(fabric, nodes, members));
      }
}

}  // namespace

TEST_CASE("after ceil(log2 n) rounds of Bruck's all-gather every rank has every part, having sent n - 1") {
  for (const std::size_t n : {2, 3, 4, 7, 8, 24, 33}) {
    const Rounds bruck(n);
    CHECK(static_cast<double>(bruck.rounds) == std::ceil(std::log2(static_cast<double>(n))));
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(std::set<std::size_t>(bruck.holds[i].begin(), bruck.holds[i].end()).size() == n);
      std::size_t parts = 0;
      for (const auto& [pair, count] : bruck.sent) parts += pair.first == i ? count : 0;
      CHECK(parts == n - 1);
    }
  }
}

TEST_CASE("Bruck's all-gather loads the links of the messages that its rounds send") {
  everywhere([](const Setting& s) {
    const Rounds bruck(s.gpus.size());
    std::vector<double> parts(s.cluster.links().size(), 0);
    for (const auto& [pair, count] : bruck.sent) {
      const auto path = s.cluster.path(s.gpus[pair.first], s.gpus[pair.second], pair.first);
      for (const auto& [link, weight] : path.links) parts[sim::index(link)] += weight * static_cast<double>(count);
    }
    std::vector<double> loaded(parts.size(), 0);
    for (const auto& [link, weight] : bruck_route(s.gpus, s.cluster).links) loaded[sim::index(link)] += weight;
    const double each = static_cast<double>(s.gpus.size() - 1);  // parts that a rank sends
    for (std::size_t l = 0; l < parts.size(); ++l) {
      const topology::LinkInfo& link = s.cluster.links()[sim::LinkId{static_cast<std::uint32_t>(l)}];
      const bool left_out = loaded[l] == 0 && link.never_binding && link.tier != topology::Tier::leaf;
      if (!left_out) CHECK(loaded[l] * each == Approx(parts[l]).epsilon(1e-12));
    }
  });
}

TEST_CASE("Bruck's all-gather takes base + a step and a path for each round + the parts over the fullest link") {
  everywhere([](const Setting& s) {
    const Rounds bruck(s.gpus.size());
    std::vector<double> parts(s.cluster.links().size(), 0);
    double paths = 0;
    for (const auto& round : bruck.who) {
      double longest = 0;
      for (const auto& [from, to] : round)
        longest = std::max(longest, sim::to_seconds(s.cluster.path(s.gpus[from], s.gpus[to], from).latency));
      paths += longest;
    }
    for (const auto& [pair, count] : bruck.sent) {
      const auto path = s.cluster.path(s.gpus[pair.first], s.gpus[pair.second], pair.first);
      for (const auto& [link, weight] : path.links) parts[sim::index(link)] += weight * static_cast<double>(count);
    }
    const auto& library = s.job.software.library;
    const double latency = sim::to_seconds(library.collective_base) +
                           static_cast<double>(bruck.rounds) * sim::to_seconds(library.collective_step_ring) + paths;
    for (const double bytes : {1e3, 1e6, 1e9}) {
      double fullest = 0;
      const double part = bytes / static_cast<double>(s.gpus.size());
      for (std::size_t l = 0; l < parts.size(); ++l) {
        const auto id = sim::LinkId{static_cast<std::uint32_t>(l)};
        fullest = std::max(fullest, parts[l] * part / s.cluster.links()[id].capacity.value());
      }
      const auto timed = s.time(CollectiveOp::all_gather, bytes, "bruck");
      CHECK(timed.algorithm == "bruck");
      CHECK(sim::to_seconds(timed.time) == Approx(latency + fullest).epsilon(1e-6));
    }
  });
}

TEST_CASE("a library that may use Bruck's algorithm does so for short calls between many nodes, and nothing else") {
  Setting s("ndr-rail", 32, 8);
  using enum calibration::CollectiveAlgorithm;
  s.job.software.library.collective_algorithms = {};
  const auto chosen = [&](CollectiveOp op, double bytes) { return s.time(op, bytes).algorithm; };
  CHECK(chosen(CollectiveOp::all_gather, 1e3).substr(0, 4) == "ring");
  s.job.software.library.collective_algorithms.add(bruck);
  CHECK(chosen(CollectiveOp::all_gather, 1e3) == "bruck");
  CHECK(chosen(CollectiveOp::all_reduce, 1e3).substr(0, 4) == "ring");  // what it cannot do
  // Its long calls have one NIC's rate, a ring's all eight.
  s.job.software.library.collective_algorithms.add(ring);
  CHECK(chosen(CollectiveOp::all_gather, 1e10) == "ring Simple");
}

TEST_CASE("a step whose library has Bruck's algorithm alone runs, folded as in full") {
  const auto [before, alone] =
      tests::check_folded_with(calibration::CollectiveAlgorithm::bruck, {"parallelism.tensor=2", "parallelism.data=8"});
  CHECK(alone > before);  // gathers of parameters at one NIC's rate
}
