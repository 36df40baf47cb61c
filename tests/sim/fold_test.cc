// Folding on plans whose classes can be told by hand. That folded and full give the same times is in random_test.cc.
#include "sim/fold.h"

#include <algorithm>
#include <array>
#include <set>

#include "sim/engine.h"
#include "tests/catch.h"

using namespace orrery::sim;

namespace {

struct Tables {
  Plan plan;
  Network network;
};

/// `groups` rings of `size` ranks: each rank computes, meets its group over its NICs, then all ranks of all groups over
/// one shared switch. Rank g * size + r is member r of group g; its NIC is link 1 + g * size + r.
Tables rings(std::uint32_t groups, std::uint32_t size) {
  Tables t;
  const LinkId shared = t.network.add_link(Bandwidth{100e9});
  Program p;
  Op op;
  op.duration = Duration(1000);
  p.add(op);
  op.kind = OpKind::transfer;
  op.slot = 0;
  op.work = 1e6;
  p.add(op);
  op.slot = 1;
  p.add(op);
  const auto program = t.plan.programs.push_back(p);
  std::vector<CommunicatorId> group;
  for (std::uint32_t g = 0; g < groups; ++g) {
    std::vector<WeightedLink> ring{{shared, 0.25}};
    for (std::uint32_t r = 0; r < size; ++r) ring.push_back({t.network.add_link(Bandwidth{10e9}), 1.5});
    group.push_back(t.plan.communicators.push_back({size, t.network.add_route(ring, Duration(10)), 1}));
  }
  const RouteId all_route = t.network.add_route(std::vector<WeightedLink>{{shared, 1}}, {});
  const auto all = t.plan.communicators.push_back({groups * size, all_route, 1});
  for (std::uint32_t g = 0; g < groups; ++g) {
    for (std::uint32_t r = 0; r < size; ++r) {
      t.plan.add_instance({program, 1.0, g * size + r}, std::vector{group[g], all});
    }
  }
  return t;
}

}  // namespace

TEST_CASE("ranks that nothing tells apart are one") {
  const Tables t = rings(6, 4);
  const Folded f = fold(t.plan, t.network);
  REQUIRE(f.plan.instances.size() == 1);
  CHECK(f.class_size == std::vector<std::uint32_t>{24});
  CHECK(f.representative == std::vector<InstanceId>{InstanceId{0}});
  // One ring class, one all-ranks class; in each the class arrives once.
  REQUIRE(f.plan.communicators.size() == 2);
  for (const Communicator& c : f.plan.communicators) CHECK(c.members == 1);
  // The shared switch, and one NIC for all. A NIC carries one ring, the switch all six.
  REQUIRE(f.network.capacity.size() == 2);
  const auto ring = f.network.links_of(f.plan.communicators[CommunicatorId{0}].first_route);
  REQUIRE(ring.size() == 2);
  std::vector<double> weights{ring[0].weight, ring[1].weight};
  std::sort(weights.begin(), weights.end());
  CHECK(weights == std::vector<double>{1.5, 6 * 0.25});
  CHECK(f.network.route_latency[0] == Duration(10));
}

TEST_CASE("as many classes as there are speeds, also where tables must grow for them") {
  // Two ranks of each of 3000 speeds, in two rounds, so that each speed is met again after all others.
  constexpr std::uint32_t kSpeeds = 3000;
  Plan plan;
  Program p;
  Op op;
  op.duration = Duration(1000);
  p.add(op);
  const auto program = plan.programs.push_back(p);
  for (std::uint32_t i = 0; i < 2 * kSpeeds; ++i)
    plan.add_instance({program, 1 + 1e-4 * (i % kSpeeds), i}, std::vector<CommunicatorId>{});
  const Folded f = fold(plan, Network{});
  CHECK(f.plan.instances.size() == kSpeeds);
  CHECK(f.class_size == std::vector<std::uint32_t>(kSpeeds, 2));
}

TEST_CASE("a slow rank splits itself, its group and nobody else") {
  Tables t = rings(6, 4);
  t.plan.instances[InstanceId{9}].slowdown = 1.2;  // member 1 of group 2
  const Folded f = fold(t.plan, t.network);
  // The slow one, the three others of its group, and the twenty ranks of the other groups.
  REQUIRE(f.plan.instances.size() == 3);
  std::multiset<std::uint32_t> sizes(f.class_size.begin(), f.class_size.end());
  CHECK(sizes == std::multiset<std::uint32_t>{1, 3, 20});
  CHECK(f.class_of[InstanceId{8}] == f.class_of[InstanceId{11}]);
  CHECK(f.class_of[InstanceId{8}] != f.class_of[InstanceId{9}]);
  CHECK(f.class_of[InstanceId{0}] == f.class_of[InstanceId{23}]);
}

TEST_CASE("a weak link splits the groups that use it") {
  Tables t = rings(5, 3);
  t.network.capacity[LinkId{1}] = 5e9;  // a NIC of group 0
  const Folded f = fold(t.plan, t.network);
  CHECK(f.plan.instances.size() == 2);
  CHECK(f.class_size[index(f.class_of[InstanceId{0}])] == 3);
  CHECK(f.class_size[index(f.class_of[InstanceId{3}])] == 12);
}

TEST_CASE("an unused link makes no difference") {
  Tables t = rings(5, 3);
  t.network.add_link(Bandwidth{1});
  CHECK(fold(t.plan, t.network).plan.instances.size() == 1);
}

TEST_CASE("noise tells ranks apart by their key") {
  Tables t = rings(2, 2);
  t.plan.noise.sigma = 0.1;
  CHECK(fold(t.plan, t.network).plan.instances.size() == 4);
  for (std::uint32_t i = 0; i < 4; ++i) t.plan.instances[InstanceId{i}].noise_key = i % 2;
  CHECK(fold(t.plan, t.network).plan.instances.size() == 2);
}

TEST_CASE("loads tell ranks apart by their group and their place in it") {
  Tables t = rings(2, 2);
  t.plan.loads = {2, {0.5, 1.5}, 0};
  for (std::uint32_t i = 0; i < 4; ++i) {
    t.plan.instances[InstanceId{i}].load_group = i / 2;
    t.plan.instances[InstanceId{i}].load_place = i % 2;
  }
  CHECK(fold(t.plan, t.network).plan.instances.size() == 4);
  for (std::uint32_t i = 0; i < 4; ++i) t.plan.instances[InstanceId{i}].load_group = 0;
  CHECK(fold(t.plan, t.network).plan.instances.size() == 2);
}

TEST_CASE("noise on messages tells communicators apart by their key, and ranks by their communicators") {
  Tables t = rings(2, 2);
  const std::uint32_t groups = 2;  // two rings; the communicator of all comes after them
  for (std::uint32_t c = 0; c < t.plan.communicators.size(); ++c) t.plan.communicators[CommunicatorId{c}].noise_key = c;
  CHECK(fold(t.plan, t.network).plan.instances.size() == 1);  // without noise keys tell nobody apart
  t.plan.message_noise.sigma = 0.1;
  CHECK(fold(t.plan, t.network).plan.instances.size() == groups);
  for (std::uint32_t c = 0; c < groups; ++c) t.plan.communicators[CommunicatorId{c}].noise_key = 5;
  CHECK(fold(t.plan, t.network).plan.instances.size() == 1);
}

TEST_CASE("a ring of sends folds to one rank that meets itself") {
  // Rank i sends to i + 1: slot 0 out, slot 1 in, on two streams.
  Tables t;
  t.plan.streams = 2;
  constexpr std::uint32_t kRanks = 7;
  Program p;
  Op op;
  op.duration = Duration(100);
  p.add(op);
  op.kind = OpKind::transfer;
  op.work = 1e3;
  op.slot = 0;
  p.add(op);
  op.slot = 1;
  op.stream = 1;
  p.add(op);
  const auto program = t.plan.programs.push_back(p);
  std::vector<CommunicatorId> out;
  for (std::uint32_t i = 0; i < kRanks; ++i) {
    const std::vector<WeightedLink> route{{t.network.add_link(Bandwidth{1e9})}};
    out.push_back(t.plan.communicators.push_back({2, t.network.add_route(route, {}), 1}));
  }
  for (std::uint32_t i = 0; i < kRanks; ++i) {
    t.plan.add_instance({program}, std::vector{out[i], out[(i + kRanks - 1) % kRanks]});
  }
  const Folded f = fold(t.plan, t.network);
  REQUIRE(f.plan.instances.size() == 1);
  CHECK(f.plan.communicators[CommunicatorId{0}].members == 2);
  // 100 ps of compute, 100 of latency, then 1 kB at 1 GB/s: a microsecond.
  CHECK(run(f.plan, f.network).makespan == SimTime(200 + 1'000'000));
  CHECK(run(t.plan, t.network).makespan == SimTime(200 + 1'000'000));
}

namespace {
/// Rings of four over NICs of their own, of which `made` are there, then all ranks together over all of these. A ring's
/// latency is that of its kind, its number modulo 3. NIC r of ring g is link 4 g + r, whoever is made.
Tables rings_of_kinds(std::uint32_t rings, const std::vector<std::uint32_t>& made) {
  Tables t;
  Program p;
  Op op;
  op.kind = OpKind::transfer;
  op.work = 1e6;
  for (op.slot = 0; op.slot < 2; ++op.slot) p.add(op);
  const auto program = t.plan.programs.push_back(p);
  for (std::uint32_t nic = 0; nic < 4 * rings; ++nic) t.network.add_link(Bandwidth{10e9});
  std::vector<WeightedLink> nics;
  std::vector<CommunicatorId> group;
  for (const std::uint32_t g : made) {
    std::vector<WeightedLink> ring;
    for (std::uint32_t r = 0; r < 4; ++r) ring.push_back({LinkId{4 * g + r}, 1.5});
    nics.insert(nics.end(), ring.begin(), ring.end());
    group.push_back(t.plan.communicators.push_back({4, t.network.add_route(ring, Duration(10 + g % 3)), 1}));
  }
  const auto members = static_cast<std::uint32_t>(4 * made.size());
  const auto all = t.plan.communicators.push_back({members, t.network.add_route(nics, {}), 1});
  for (std::size_t i = 0; i < made.size(); ++i) {
    for (std::uint32_t r = 0; r < 4; ++r) t.plan.add_instance({program, 1.0, 0}, std::vector{group[i], all});
  }
  return t;
}
}  // namespace

TEST_CASE("what stands for several folds as they do") {
  const Tables whole = rings_of_kinds(7, {0, 1, 2, 3, 4, 5, 6}), part = rings_of_kinds(7, {0, 1, 2});
  const Folded all = fold(whole.plan, whole.network);
  Copies copies{{}, std::vector<std::uint32_t>(part.network.capacity.size(), 0)};  // of 7 groups the first 3 are made
  for (std::uint32_t g = 0; g < 3; ++g) {
    const std::uint32_t stands_for = std::array{3u, 2u, 2u}[g];
    copies.instances.insert(copies.instances.end(), 4, stands_for);
    std::fill_n(copies.links.begin() + 4 * g, 4, stands_for);
  }
  const Folded folded = fold(part.plan, part.network, copies);
  REQUIRE(all.plan.instances.size() == 3);
  CHECK(folded.class_size == std::vector<std::uint32_t>{12, 8, 8});
  CHECK(folded.class_size == all.class_size);
  CHECK(folded.representative == all.representative);
  CHECK(folded.link_representative == all.link_representative);
  CHECK(folded.network.route_links == all.network.route_links);
  CHECK(folded.network.route_latency == all.network.route_latency);
}
