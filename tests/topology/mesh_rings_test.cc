// Do the rings of a mesh use its links as well as they can be used, and never beyond what they carry?
#include "topology/mesh_rings.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "sim/max_min.h"
#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

/// Links between pairs of `gpus` GPUs, each with its rate in GB/s.
NodeSpec mesh_of(std::int64_t gpus, const std::vector<std::tuple<std::int64_t, std::int64_t, double>>& links) {
  NodeSpec node;
  node.kind = NodeSpec::Kind::mesh;
  node.gpus = gpus;
  for (const auto& [a, b, rate] : links) node.mesh.push_back({a, b, Bandwidth(rate * 1e9)});
  return node;
}

NodeSpec complete(std::int64_t gpus, double rate) {
  std::vector<std::tuple<std::int64_t, std::int64_t, double>> links;
  for (std::int64_t a = 0; a < gpus; ++a) {
    for (std::int64_t b = a + 1; b < gpus; ++b) links.emplace_back(a, b, rate);
  }
  return mesh_of(gpus, links);
}

/// Four MI250X of two dies each: the links of rome_models.cc, model 71, at 50 GB/s each.
NodeSpec four_packages() {
  return mesh_of(8, {{0, 1, 200},
                     {2, 3, 200},
                     {4, 5, 200},
                     {6, 7, 200},
                     {0, 6, 100},
                     {2, 4, 100},
                     {0, 2, 50},
                     {4, 6, 50},
                     {1, 3, 50},
                     {1, 5, 50},
                     {3, 7, 50},
                     {5, 7, 50}});
}

NodeWiring wired(const NodeSpec& node) { return mesh_node(node, node.gpus, 0); }

/// GB/s at which each GPU sends when all rings run beside nothing else.
double rate_of(const NodeWiring& wiring, const std::vector<std::int32_t>& gpus) {
  double rate = 1e300;
  for (const LinkShare& share : ring_shares(wiring, gpus)) {
    const Bundle& bundle = wiring.bundles[share.link / 2];
    rate = std::min(rate, bundle.lane_rate.value() * bundle.lanes / share.weight);
  }
  return rate / 1e9;
}

std::vector<std::int32_t> first(std::int32_t n) {
  std::vector<std::int32_t> gpus(static_cast<std::size_t>(n));
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus;
}

/// Rings as a library's table has them, one way each: the max-min fair rate of the slowest, times their number.
double rate_of_table(const NodeWiring& wiring, const std::vector<std::vector<std::int32_t>>& rings) {
  sim::Table<LinkId, double> capacity;
  for (const Bundle& bundle : wiring.bundles) {
    for (int way = 0; way < 2; ++way) capacity.push_back(bundle.lane_rate.value() * bundle.lanes);
  }
  std::vector<std::vector<sim::WeightedLink>> links(rings.size());
  std::vector<sim::Demand> demands;
  for (std::size_t r = 0; r < rings.size(); ++r) {
    for (std::size_t i = 0; i < rings[r].size(); ++i) {
      const std::int32_t a = rings[r][i], b = rings[r][(i + 1) % rings[r].size()];
      for (const std::uint32_t link : wiring.routes[static_cast<std::size_t>(a * wiring.gpus + b)])
        links[r].push_back({LinkId{link}, 1.0});
    }
    demands.push_back({links[r], 0});
  }
  const std::vector<double> rates = sim::max_min_rates(demands, capacity);
  return *std::min_element(rates.begin(), rates.end()) * static_cast<double>(rings.size()) / 1e9;
}

/// A random mesh in which the GPUs in order close a ring.
NodeSpec random_mesh(std::mt19937& random, std::int64_t gpus) {
  std::uniform_int_distribution<int> rate(1, 4), joined(0, 2);
  std::vector<std::tuple<std::int64_t, std::int64_t, double>> links;
  for (std::int64_t a = 0; a < gpus; ++a) {
    for (std::int64_t b = a + 1; b < gpus; ++b) {
      const bool neighbours = b == a + 1 || (a == 0 && b == gpus - 1);
      if (neighbours || joined(random) == 0) links.emplace_back(a, b, 25.0 * rate(random));
    }
  }
  return mesh_of(gpus, links);
}

/// The best packing of rings by trying: shares of all rings raised in turn, those cheapest at prices that grow with the
/// load (Garg & Konemann, SIAM J. Comput. 2007); within `kStep` of the best.
double rate_by_prices(const NodeWiring& wiring, std::int32_t gpus) {
  constexpr double kStep = 0.01;
  std::vector<double> rates, price, load;
  for (const Bundle& bundle : wiring.bundles) rates.push_back(bundle.lane_rate.value() * bundle.lanes / 1e9);
  for (const double rate : rates) price.push_back(1 / rate);
  load.assign(rates.size(), 0);
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> bundle_of;
  for (std::size_t b = 0; b < wiring.bundles.size(); ++b) {
    const auto low = static_cast<std::int32_t>(wiring.bundles[b].low);
    const auto high = static_cast<std::int32_t>(wiring.bundles[b].high);
    bundle_of[{low, high}] = bundle_of[{high, low}] = b;
  }
  std::vector<std::vector<std::size_t>> rings;
  std::vector<std::int32_t> order = first(gpus);
  do {
    if (order[1] > order.back()) continue;  // the same ring, the other way
    std::vector<std::size_t> ring;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto at = bundle_of.find({order[i], order[(i + 1) % order.size()]});
      if (at != bundle_of.end()) ring.push_back(at->second);
    }
    if (ring.size() == order.size()) rings.push_back(ring);
  } while (std::next_permutation(order.begin() + 1, order.end()));
  double sent = 0;
  for (int round = 0; round < 20'000; ++round) {
    const auto cost = [&](const std::vector<std::size_t>& ring) {
      return std::accumulate(ring.begin(), ring.end(), 0.0, [&](double sum, std::size_t b) { return sum + price[b]; });
    };
    const auto best =
        std::min_element(rings.begin(), rings.end(), [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
    double narrowest = 1e300;
    for (const std::size_t b : *best) narrowest = std::min(narrowest, rates[b]);
    for (const std::size_t b : *best) {
      load[b] += narrowest;
      price[b] *= 1 + kStep * narrowest / rates[b];
    }
    sent += 2 * narrowest;
    const double largest = *std::max_element(price.begin(), price.end());
    for (double& p : price) p /= largest;  // keeps prices in range; only their ratios count
  }
  double fullest = 0;
  for (std::size_t b = 0; b < load.size(); ++b) fullest = std::max(fullest, load[b] / rates[b]);
  return sent / fullest;
}

}  // namespace

TEST_CASE("GPUs that are all joined alike send over every link at once, whatever the size of their group") {
  const NodeWiring eight = wired(complete(8, 64));
  for (std::int32_t n = 2; n <= 8; ++n) CHECK(rate_of(eight, first(n)) == Approx(64.0 * (n - 1)).epsilon(1e-9));
  CHECK(rate_of(eight, {1, 4, 6}) == Approx(2 * 64.0).epsilon(1e-9));
}

TEST_CASE("RCCL's 14 rings over 8 MI300X load every link alike: no better packing of rings exists") {
  // ROCm/rccl, src/graph/rome_models.cc, model 79.
  const NodeWiring eight = wired(complete(8, 64));
  const double table = rate_of_table(eight, {{0, 1, 2, 3, 4, 5, 6, 7},
                                             {0, 1, 2, 3, 4, 5, 7, 6},
                                             {0, 2, 4, 1, 3, 6, 5, 7},
                                             {0, 2, 4, 6, 1, 7, 3, 5},
                                             {0, 3, 1, 5, 2, 7, 4, 6},
                                             {0, 3, 5, 1, 6, 2, 7, 4},
                                             {0, 4, 1, 7, 3, 6, 2, 5},
                                             {7, 6, 5, 4, 3, 2, 1, 0},
                                             {6, 7, 5, 4, 3, 2, 1, 0},
                                             {7, 5, 6, 3, 1, 4, 2, 0},
                                             {5, 3, 7, 1, 6, 4, 2, 0},
                                             {6, 4, 7, 2, 5, 1, 3, 0},
                                             {4, 7, 2, 6, 1, 5, 3, 0},
                                             {5, 2, 6, 3, 7, 1, 4, 0}});
  CHECK(table == Approx(7 * 64.0).epsilon(1e-9));
  CHECK(rate_of(eight, first(8)) == Approx(table).epsilon(1e-9));
}

TEST_CASE("RCCL's four rings over the dies of four MI250X are the best there are: 4 x 50 GB/s") {
  // Model 71. A ring leaves die 1 over its two single links, 100 GB/s together, or by die 0; then it came to die 1 over
  // these two. So no more than 200 GB/s go round.
  const NodeWiring dies = wired(four_packages());
  const double table = rate_of_table(
      dies, {{0, 1, 3, 2, 4, 5, 7, 6}, {6, 7, 5, 4, 2, 3, 1, 0}, {0, 1, 5, 4, 2, 3, 7, 6}, {6, 7, 3, 2, 4, 5, 1, 0}});
  CHECK(table == Approx(200.0).epsilon(1e-9));
  CHECK(rate_of(dies, first(8)) == Approx(200.0).epsilon(1e-6));
}

TEST_CASE("Part of a node's dies use what joins them") {
  const NodeWiring dies = wired(four_packages());
  CHECK(rate_of(dies, {0, 1}) == Approx(200.0));        // one package
  CHECK(rate_of(dies, {0, 6}) == Approx(100.0));        // two links
  CHECK(rate_of(dies, {1, 3}) == Approx(50.0));         // one
  CHECK(rate_of(dies, first(4)) == Approx(2 * 50.0));   // 0 1 3 2, either way round
  CHECK(rate_of(dies, {0, 1, 2}) == Approx(2 * 25.0));  // no ring of links: the hop 1 - 2 takes 0's links again
}

TEST_CASE("The rings found are the best of all rings, on random meshes") {
  std::mt19937 random(7);
  for (int i = 0; i < 12; ++i) {
    const auto gpus = static_cast<std::int32_t>(4 + i % 4);
    const NodeWiring wiring = wired(random_mesh(random, gpus));
    const double found = rate_of(wiring, first(gpus)), tried = rate_by_prices(wiring, gpus);
    CAPTURE(i, gpus);
    CHECK(found >= tried * (1 - 1e-6));
    CHECK(found <= tried * 1.03);
  }
}

TEST_CASE("What goes round is what every GPU sends and receives, and a faster link never slows a ring down") {
  std::mt19937 random(11);
  for (int i = 0; i < 20; ++i) {
    const auto gpus = static_cast<std::int32_t>(3 + i % 6);
    NodeSpec node = random_mesh(random, gpus);
    const NodeWiring wiring = wired(node);
    std::vector<double> out(static_cast<std::size_t>(gpus), 0.0), in = out;
    for (const LinkShare& share : ring_shares(wiring, first(gpus))) {
      const Bundle& bundle = wiring.bundles[share.link / 2];
      const bool up = share.link % 2 == 0;
      out[up ? bundle.low : bundle.high] += share.weight;
      in[up ? bundle.high : bundle.low] += share.weight;
    }
    CAPTURE(i, gpus);
    for (const double sent : out) CHECK(sent == Approx(1.0).epsilon(1e-6));
    for (const double received : in) CHECK(received == Approx(1.0).epsilon(1e-6));
    const double before = rate_of(wiring, first(gpus));
    NodeSpec::MeshLink& link = node.mesh[random() % node.mesh.size()];
    link.rate = Bandwidth(2 * link.rate.value());
    CHECK(rate_of(wired(node), first(gpus)) >= before * (1 - 1e-6));
  }
}

TEST_CASE("A group too large to search takes one ring both ways; one that is joined alike needs no search") {
  std::vector<std::tuple<std::int64_t, std::int64_t, double>> circle;
  for (std::int64_t g = 0; g < 16; ++g) circle.emplace_back(std::min(g, (g + 1) % 16), std::max(g, (g + 1) % 16), 50);
  CHECK(rate_of(wired(mesh_of(16, circle)), first(16)) == Approx(2 * 50.0));
  CHECK(rate_of(wired(complete(16, 50)), first(16)) == Approx(15 * 50.0));
}

}  // namespace orrery::topology
