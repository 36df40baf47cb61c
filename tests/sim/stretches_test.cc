// Does a stretch take what its operations take when they are listed one by one, whoever comes onto its links and when?
#include "sim/stretches.h"

#include <algorithm>

#include "sim/engine.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/sim/random_plan.h"
#include "tests/thinned.h"

using namespace orrery;
using sim::Duration;
using sim::InstanceId;
using sim::LinkId;
using sim::Op;
using sim::OpKind;
using sim::SimTime;
using sim::Stretch;

namespace {

constexpr std::uint8_t kCompute = 0, kTransfers = 1, kMessages = 2, kStreams = 3;
constexpr std::uint32_t kOwn = 0, kFirstMessages = 1;  // slots

/// One program twice: with its stretches, and with their operations in their place.
struct Twice {
  sim::Program whole, listed;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> alike;  // operations that end together
  std::vector<std::uint32_t> whole_waits, listed_waits;        // of the next compute operation
  std::uint32_t last_compute[2] = {0, 0};
  bool any_compute = false;

  void both(const Op& op, bool after_compute) {
    const bool computes = op.kind == OpKind::compute;
    std::vector<std::uint32_t> a, b;
    if (computes) {
      a.swap(whole_waits);
      b.swap(listed_waits);
    }
    if (after_compute && any_compute) {
      a.push_back(last_compute[0]);
      b.push_back(last_compute[1]);
    }
    alike.emplace_back(whole.add(op, a), listed.add(op, b));
    if (!computes) return;
    any_compute = true;
    last_compute[0] = alike.back().first;
    last_compute[1] = alike.back().second;
  }

  void stretch(std::uint32_t number) {
    const Stretch& stretch = whole.stretches[number];
    Op op;
    op.kind = OpKind::stretch;
    op.stream = kCompute;
    op.slot = kOwn;
    op.pattern = number;
    for (const Stretch::Item& item : stretch.items) op.issue += Duration(item.issue);
    const std::uint32_t whole_compute = whole.add(op, whole_waits);
    op.kind = OpKind::stretch_transfers;
    op.stream = kTransfers;
    op.issue = {};
    const std::uint32_t whole_transfers = whole.add(op);
    whole_waits.clear();
    list(stretch);
    alike.emplace_back(whole_compute, last_compute[1]);
    alike.emplace_back(whole_transfers, last_transfer);
    last_compute[0] = whole_compute;
    any_compute = true;
  }

 private:
  void list(const Stretch& stretch) {
    std::vector<std::uint32_t> transfers;
    for (const Stretch::Item& item : stretch.items) {
      Op one;
      one.kind = item.transfer ? OpKind::transfer : OpKind::compute;
      one.stream = item.transfer ? kTransfers : kCompute;
      one.issue = Duration(item.issue);
      one.duration = Duration(item.duration);
      one.issue_bound = Duration(item.issue_bound);
      std::vector<std::uint32_t> waits = listed_waits;
      if (item.transfer) {
        one.slot = kOwn;
        one.pattern = item.pattern;
        one.work = item.work;
        one.rate_cap = item.rate_cap;
        if (any_compute) waits.push_back(last_compute[1]);
        transfers.push_back(last_transfer = listed.add(one, waits));
        continue;
      }
      if (item.transfers > 0) waits.push_back(transfers[item.transfers - 1]);
      last_compute[1] = listed.add(one, waits);
      any_compute = true;
      listed_waits.clear();
    }
  }
  std::uint32_t last_transfer = 0;
};

Stretch random_stretch(test::Random& random, bool narrow) {
  Stretch stretch;
  std::uint32_t transfers = 0, awaited = 0;
  const std::uint32_t items = 2 + random.below(10);
  for (std::uint32_t i = 0; i < items; ++i) {
    Stretch::Item item;
    item.issue = test::random_time(random) / 8;
    item.transfer = i + 1 < items && random.chance(50);
    if (item.transfer) {
      item.pattern = random.below(2);
      item.duration = test::random_time(random) / 10;
      item.work = random.chance(90) ? 1000.0 * (1 + random.below(60)) : 0.0;
      item.rate_cap = narrow || random.chance(30) ? 1e9 * (0.2 + random.unit()) : 0.0;
      ++transfers;
    } else {
      item.duration = test::random_time(random);
      item.issue_bound = item.issue + test::random_time(random) / 2;
      if (random.chance(70)) awaited = std::max(awaited, transfers - random.below(std::min(2u, transfers + 1)));
      item.transfers = random.chance(80) ? awaited : 0;
    }
    stretch.items.push_back(item);
  }
  if (transfers == 0) {
    stretch.items.insert(stretch.items.begin(), {true, 0, 0, 0, 1000, 0, 5000, 0});
    transfers = 1;
  }
  stretch.items.back().transfers = transfers;
  return stretch;
}

struct Pair {
  sim::Plan whole, listed;
  sim::Network network;
  std::vector<Twice> programs;
};

/// Instances that exchange messages, each pair over two of a few links, on which their own transfers run too.
Pair random_pair(std::uint64_t seed) {
  test::Random random(seed);
  Pair out;
  const std::uint32_t instances = 1 + random.below(4), links = 1 + random.below(5);
  for (std::uint32_t l = 0; l < links; ++l) out.network.add_link(sim::Bandwidth(1e9 * (0.5 + random.below(3))));
  const auto route = [&] {
    std::vector<sim::WeightedLink> on;
    for (std::uint32_t l = 0; l < links; ++l) {
      if (random.chance(40)) on.push_back({LinkId{l}, test::random_weight(random)});
    }
    return out.network.add_route(on, Duration(test::random_time(random) / 10));
  };
  std::vector<std::vector<sim::CommunicatorId>> slots(instances);
  out.programs.resize(instances);
  const auto communicator = [&](const std::vector<std::uint32_t>& members) {
    const sim::RouteId first = route();
    route();
    const sim::Communicator made{static_cast<std::uint32_t>(members.size()), first, 2, 0};
    for (sim::Plan* plan : {&out.whole, &out.listed}) {
      const sim::CommunicatorId id = plan->communicators.push_back(made);
      if (plan == &out.whole) continue;
      for (const std::uint32_t m : members) slots[m].push_back(id);
    }
  };
  for (std::uint32_t i = 0; i < instances; ++i) {
    communicator({i});
    for (std::uint32_t s = 0; s < 1 + random.below(3); ++s)
      out.programs[i].whole.stretches.push_back(random_stretch(random, random.chance(50)));
  }
  std::vector<std::vector<std::uint32_t>> slot_of(instances, std::vector<std::uint32_t>(instances, 0));
  for (std::uint32_t a = 0; a < instances; ++a) {
    for (std::uint32_t b = a + 1; b < instances; ++b) {
      slot_of[a][b] = static_cast<std::uint32_t>(slots[a].size());
      slot_of[b][a] = static_cast<std::uint32_t>(slots[b].size());
      communicator({a, b});
    }
  }
  const std::uint32_t steps = 10 + random.below(60);
  for (std::uint32_t step = 0; step < steps; ++step) {
    const std::uint32_t a = random.below(instances), b = random.below(instances);
    Twice& program = out.programs[a];
    Op op;
    op.issue = Duration(test::random_time(random) / 5);
    op.duration = Duration(test::random_time(random) / 4);
    if (random.chance(40)) {
      program.stretch(random.below(static_cast<std::uint32_t>(program.whole.stretches.size())));
    } else if (a == b && random.chance(50)) {
      op.issue_bound = op.issue + Duration(test::random_time(random) / 2);
      op.host_waits = random.chance(20);
      program.both(op, false);
    } else {
      op.kind = OpKind::transfer;
      op.pattern = random.below(2);
      op.work = 1000.0 * (1 + random.below(60));
      op.stream = a == b ? kTransfers : kMessages;
      for (const std::uint32_t end : a == b ? std::vector{a} : std::vector{a, b}) {
        Twice& its = out.programs[end];
        op.slot = a == b ? kOwn : slot_of[end][end == a ? b : a];
        its.both(op, random.chance(60));
        if (random.chance(50)) its.whole_waits.push_back(its.alike.back().first);
        if (!its.whole_waits.empty() && its.whole_waits.back() == its.alike.back().first)
          its.listed_waits.push_back(its.alike.back().second);
      }
    }
  }
  for (sim::Plan* plan : {&out.whole, &out.listed}) {
    plan->streams = kStreams;
    for (std::uint32_t i = 0; i < instances; ++i) {
      plan->programs.push_back(plan == &out.whole ? out.programs[i].whole : out.programs[i].listed);
      plan->add_instance({sim::ProgramId{i}}, slots[i]);
    }
  }
  return out;
}

/// An instance with one stretch of a kernel, a transfer and a kernel, and another that sends to itself on its link.
sim::Plan one_disturbed(double bytes, sim::Network& network) {
  const auto link = network.add_link(sim::Bandwidth(1e9));
  const std::vector<sim::WeightedLink> on{{link, 1.0}};
  sim::Plan plan;
  plan.streams = 2;
  plan.communicators.push_back({1, network.add_route(on, {}), 1, 0});
  plan.communicators.push_back({1, network.add_route(on, {}), 1, 0});
  sim::Program stretched;
  Stretch::Item kernel, transfer;
  kernel.duration = 1'000'000;
  transfer.transfer = true;
  transfer.work = 3000;
  Stretch::Item last = kernel;
  last.transfers = 1;
  stretched.stretches.push_back({{kernel, transfer, last}});
  Op op;
  op.kind = OpKind::stretch;
  op.slot = 0;
  stretched.add(op);
  op.kind = OpKind::stretch_transfers;
  op.stream = 1;
  stretched.add(op);
  sim::Program other;
  Op send;
  send.duration = Duration(2'000'000);
  other.add(send);
  send.kind = OpKind::transfer;
  send.duration = {};
  send.slot = 0;
  send.work = bytes;
  other.add(send, std::vector{0u});
  plan.programs.push_back(stretched);
  plan.programs.push_back(other);
  plan.add_instance({sim::ProgramId{0}}, std::vector{sim::CommunicatorId{0}});
  plan.add_instance({sim::ProgramId{1}}, std::vector{sim::CommunicatorId{1}});
  return plan;
}

}  // namespace

TEST_CASE("a stretch ends when its operations, listed one by one, do", "[stretch]") {
  std::uint64_t fewer = 0, more = 0, shared = 0;
  for (std::uint64_t seed = 1; seed <= tests::thinned(4000u); ++seed) {
    INFO("seed " << seed);
    const Pair pair = random_pair(seed);
    sim::RunOptions options;
    for (std::uint32_t i = 0; i < pair.programs.size(); ++i) options.record.push_back(InstanceId{i});
    if (seed % 2 == 0) options.rows_shared_from = 1;
    const sim::Result whole = sim::run(pair.whole, pair.network, options);
    const sim::Result listed = sim::run(pair.listed, pair.network, options);
    REQUIRE(listed.outcome == sim::Outcome::finished);
    REQUIRE(whole.outcome == sim::Outcome::finished);
    CHECK(whole.makespan == listed.makespan);
    CHECK(whole.last_finish.rows() == listed.last_finish.rows());
    for (std::size_t i = 0; i < pair.programs.size(); ++i) {
      for (const auto& [a, b] : pair.programs[i].alike)
        CHECK(whole.records[i].finish[a].value() == listed.records[i].finish[b].value());
    }
    (whole.events < listed.events ? fewer : more) += 1;
    shared += listed.solves;
  }
  CHECK(fewer > 2 * more);
  CHECK(shared > 10'000);  // or nobody disturbed anybody
}

TEST_CASE("who comes onto a stretch's link shares it with what is under way there", "[stretch]") {
  // The kernel ends at 1 us. 3000 B at 1 GB/s: alone until 2 us, 2000 B left. Then shared with 1000 B, which takes 2 us
  // at half the rate; the last 1000 B end at 5 us, the second kernel at 6 us.
  sim::Network network;
  const sim::Plan plan = one_disturbed(1000, network);
  const sim::Result result = sim::run(plan, network);
  CHECK(result.last_finish[InstanceId{0}] == SimTime(6'000'000));
  CHECK(result.last_finish[InstanceId{1}] == SimTime(4'000'000));
}

TEST_CASE("a stretch is refused among several, or where times are drawn", "[stretch]") {
  sim::Network network;
  const sim::Plan plan = one_disturbed(1000, network);
  sim::Plan drawn = plan, slow = plan, several = plan, alone = plan;
  sim::Plan loose = plan;
  loose.programs[sim::ProgramId{0}].stretches[0].items[2].transfers = 0;
  CHECK_THROWS_AS(sim::run(loose, network), sim::InternalError);
  drawn.noise.sigma = 0.1;
  CHECK_THROWS_AS(sim::run(drawn, network), sim::InternalError);
  slow.instances[InstanceId{0}].slowdown = 1.5;
  CHECK_THROWS_AS(sim::run(slow, network), sim::InternalError);
  several.add_instance({sim::ProgramId{0}}, std::vector{sim::CommunicatorId{0}});
  ++several.communicators[sim::CommunicatorId{0}].members;
  CHECK_THROWS_AS(sim::run(several, network), sim::InternalError);
  alone.programs[sim::ProgramId{0}].kind[1] = OpKind::compute;
  CHECK_THROWS_AS(sim::run(alone, network), sim::InternalError);
}
