// Do paths lead where they should, over as many switches as there are, the same way back, and by the hash where ECMP
// decides?
#include <map>
#include <set>

#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

std::vector<std::pair<std::string, std::string>> ends_of(const Cluster& cluster, const Path& path) {
  std::vector<std::pair<std::string, std::string>> ends;
  for (const auto& [link, weight] : path.links) {
    const std::string name = cluster.link_name(link).substr(0, cluster.link_name(link).find(" (lane"));
    const auto arrow = name.find(" -> ");
    ends.emplace_back(name.substr(0, arrow), name.substr(arrow + 4));
  }
  return ends;
}

}  // namespace

TEST_CASE("Hops, tier and latency by distance") {
  const NodeSpec node = a100_node();
  const Cluster cluster = make(node, tiny(), 8);  // 4 pods of one unit of two nodes
  struct Row {
    std::int64_t to;
    Tier top;
    int switches;
  };
  // GPU 0 has NIC 0. Node 1 is of the same unit: its GPU 0 under the same leaf, its GPU 7 on the other rail, which only
  // the spines reach; node 2 is of another pod.
  for (const Row& row :
       {Row{8, Tier::leaf, 1}, Row{8 + 7, Tier::spine, 3}, Row{16, Tier::core, 5}, Row{16 + 7, Tier::core, 5}}) {
    const Path path = cluster.path(0, row.to);
    CHECK(path.top == row.top);
    CHECK(path.latency == sim::microseconds(2 + 0.5 * row.switches));
    // GPU - PCIe - NIC - switches - NIC - PCIe - GPU
    CHECK(path.links.size() == static_cast<std::size_t>(2 + 1 + row.switches + 2));
  }
  CHECK(cluster.path(0, 1).top == Tier::node);
}

TEST_CASE("Paths are the shortest of the graph") {
  const Cluster cluster = make(a100_node(), tiny(), 8);
  const Graph graph = cluster.graph();
  for (const std::uint32_t from : {0U, 13U, 40U}) {
    const std::vector<std::int32_t> hops = hops_from(graph, from);
    for (std::uint32_t to = 0; to < 64; ++to) {
      if (from != to) CHECK(cluster.path(from, to).links.size() == static_cast<std::size_t>(hops[to]));
    }
  }
  double share = 0;
  const std::vector<std::int32_t> hops = hops_from(graph, 0);
  std::map<std::int64_t, double> by_hops;
  for (std::uint32_t to = 1; to < 64; ++to) by_hops[hops[to]] += 1.0 / 63;
  for (const auto& row : cluster.describe().paths) {
    share += row.share;
    by_hops[row.hops] -= row.share;
  }
  CHECK(share == Approx(1.0));
  for (const auto& [h, rest] : by_hops) CHECK(std::abs(rest) < 1e-9);
}

TEST_CASE("There and back mirror each other, links chain up, and weights are one") {
  const Cluster cluster = make(a100_node(), tiny(), 8);
  for (std::int64_t a = 0; a < 64; a += 3) {
    for (std::int64_t b = 0; b < 64; b += 5) {
      const Path there = cluster.path(a, b), back = cluster.path(b, a);
      REQUIRE(there.links.size() == back.links.size());
      CHECK(there.latency == back.latency);
      CHECK(there.top == back.top);
      for (std::size_t i = 0; i < there.links.size(); ++i) {
        CHECK(there.links[i].weight == 1.0);
        CHECK(sim::index(there.links[i].link) == (sim::index(back.links[back.links.size() - 1 - i].link) ^ 1U));
      }
    }
  }
  const auto ends = ends_of(cluster, cluster.path(0, 63));
  REQUIRE(ends.size() == 10);
  for (std::size_t i = 3; i + 4 < ends.size(); ++i) CHECK(ends[i].second == ends[i + 1].first);
  CHECK(ends.front().first == "node 0 GPU 0");
  CHECK(ends.back().second == "GPU 7");
}

TEST_CASE("A bundle carries all its lanes") {
  const Cluster cluster = make(h100_node(), ndr(), 64);
  const Path path = cluster.path(0, 32 * 8);
  std::vector<std::int32_t> lanes;
  for (const auto& [link, weight] : path.links) {
    const LinkInfo& info = cluster.links()[link];
    if (info.tier != Tier::spine) continue;
    lanes.push_back(info.lanes);
    CHECK(info.capacity.value() == Approx(32 * 50e9 * 0.95));
  }
  CHECK(lanes == std::vector<std::int32_t>{32, 32});
}

TEST_CASE("Collectives may name their NICs") {
  const Cluster cluster = make(a100_node(), tiny(), 8);
  // The first GPU of NIC 1 is GPU 4 of its node.
  CHECK(cluster.nic_path(0, 0, 1, 1).links == cluster.path(0, 8 + 4).links);
  CHECK(cluster.nic_path(0, 1, 3, 1).links == cluster.path(4, 24 + 4).links);
  CHECK_THROWS_AS(cluster.nic_path(0, 0, 0, 1), sim::InternalError);
  CHECK_THROWS_AS(cluster.nic_path(0, 2, 1, 0), sim::InternalError);
  CHECK_THROWS_AS(cluster.path(0, 64), sim::InternalError);
}

TEST_CASE(
    "Seeded ECMP: the same flow takes the same lanes, other flows and seeds others, and lanes meet at one switch") {
  FabricSpec fabric = tomahawk();
  fabric.routes.ecmp_seed = 7;
  const Cluster cluster = make(a100_node(), fabric, 1024);  // 4 pods
  const std::int64_t far = 1023 * 8;
  CHECK(cluster.path(0, far, 1).links == cluster.path(0, far, 1).links);
  std::set<std::uint32_t> first_lanes;
  for (std::uint64_t flow = 0; flow < 200; ++flow) {
    const Path path = cluster.path(0, far, flow);
    const auto ends = ends_of(cluster, path);
    REQUIRE(ends.size() == 10);
    for (std::size_t i = 3; i + 4 < ends.size(); ++i) CHECK(ends[i].second == ends[i + 1].first);
    first_lanes.insert(sim::index(path.links[3].link));
    CHECK(cluster.links()[path.links[3].link].lanes == 1);
    CHECK(cluster.links()[path.links[3].link].capacity.value() == Approx(50e9 * 0.95));
  }
  // 200 flows on 32 lanes leave a given lane empty with probability (31/32)^200 = 0.2 %.
  CHECK(first_lanes.size() >= 30);
  fabric.routes.ecmp_seed = 8;
  const Cluster other = make(a100_node(), fabric, 1024);
  int differ = 0;
  for (std::uint64_t flow = 0; flow < 32; ++flow)
    differ += cluster.path(0, far, flow).links != other.path(0, far, flow).links;
  CHECK(differ > 24);
}

TEST_CASE("Seeded ECMP: a NIC's flows take ways of their own and share what it sends") {
  FabricSpec fabric = tomahawk();
  fabric.routes.ecmp_seed = 7;
  const std::int64_t far = 1023 * 8;
  const std::size_t links = make(a100_node(), fabric, 1024).path(0, far).links.size();
  for (const std::int64_t flows : {2, 4, 1000}) {
    fabric.routes.flows_per_nic = flows;
    const auto hashed = static_cast<double>(std::min(flows, FabricSpec::kMostHashed));
    const Path path = make(a100_node(), fabric, 1024).path(0, far);
    // Three links from the GPU to its leaf and three from a leaf to the GPU carry all of it, those between a share.
    CHECK(path.links.size() == 6 + static_cast<std::size_t>(hashed) * (links - 6));
    double between = 0;
    std::set<std::uint32_t> lanes;
    for (std::size_t l = 3; l + 3 < path.links.size(); ++l) {
      CHECK(path.links[l].weight == 1 / hashed);
      between += path.links[l].weight;
      lanes.insert(sim::index(path.links[l].link));
    }
    CHECK(between == Approx(static_cast<double>(links - 6)));
    CHECK(lanes.size() > links - 6);
  }
  // 64 NICs of a unit on 32 lanes of twice their rate: the fullest lane of shares holds less than that of whole flows.
  const auto fullest = [&](std::int64_t flows) {
    fabric.routes.flows_per_nic = flows;
    const Cluster cluster = make(a100_node(), fabric, 128);
    std::map<std::uint32_t, double> load;
    for (std::int64_t gpu = 0; gpu < 64 * 8; ++gpu) {
      for (const auto& [link, weight] : cluster.path(gpu, gpu + 64 * 8).links) load[sim::index(link)] += weight;
    }
    double most = 0;
    for (const auto& [link, weight] : load) {
      if (cluster.links()[LinkId{link}].tier > Tier::leaf) most = std::max(most, weight);
    }
    return most;
  };
  CHECK(fullest(4) < fullest(1));
  CHECK(fullest(32) < fullest(4));
}

}  // namespace orrery::topology
