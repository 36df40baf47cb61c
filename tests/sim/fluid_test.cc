// Fluid transfers: worked examples, and whole patterns of traffic against the slow engine.
#include "sim/fluid.h"

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "sim/engine.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/reference/flow_patterns.h"
#include "tests/reference/reference.h"

using namespace orrery;
using sim::LinkId;
using sim::WeightedLink;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000'000;

/// A generated table as a plan for the slow engine and as the network that both use.
struct Table {
  sim::Plan plan;
  sim::Network network;
  std::vector<double> bytes;
  std::vector<std::int64_t> start;

  explicit Table(const std::string& csv) {
    std::istringstream lines(csv);
    std::string line, field, name;
    std::getline(lines, line);
    std::map<std::string, LinkId> links;
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      for (int skipped = 0; skipped < 3; ++skipped) std::getline(fields, field, ',');
      std::getline(fields, field, ',');
      bytes.push_back(std::stod(field));
      std::getline(fields, field, ',');
      start.push_back(sim::seconds(std::stod(field)).value());
      std::vector<WeightedLink> path;
      while (fields >> name) {
        if (!links.contains(name)) links[name] = network.add_link(sim::Bandwidth{25e9});
        path.push_back({links[name]});
      }
      network.add_route(path, sim::Duration{});
    }
    for (std::uint32_t i = 0; i < bytes.size(); ++i) {
      sim::Program program;
      sim::Op wait, transfer;
      wait.duration = sim::Duration(start[i]);
      program.add(wait);
      transfer.kind = sim::OpKind::transfer;
      transfer.slot = 0;
      transfer.work = bytes[i];
      program.add(transfer);
      const auto c = plan.communicators.push_back({1, sim::RouteId{i}, 1});
      plan.add_instance({plan.programs.push_back(program)}, std::vector{c});
    }
  }

  std::vector<std::int64_t> fluid_ends() const {
    sim::Fluid fluid(network.capacity);
    std::vector<std::int64_t> ends(bytes.size(), -1);
    for (std::uint32_t i = 0; i < bytes.size(); ++i) {
      fluid.begin(i, start[i], bytes[i], network.links_of(sim::RouteId{i}), 0);
    }
    fluid.run([&](std::uint32_t flow, std::int64_t at) {
      REQUIRE(ends[flow] == -1);
      ends[flow] = at;
    });
    return ends;
  }
};

}  // namespace

TEST_CASE("transfers begin and end in order of time, and one may begin another") {
  // 25 GB on 25 GB/s from 0 s; a second one of 25 GB from 0.5 s shares it until the first ends at 1.5 s, and ends at
  // 2 s. The first's end begins a third, on another link, which takes 1 s.
  sim::Table<LinkId, double> capacity(2, 25e9);
  const std::vector<WeightedLink> first{{LinkId{0}}}, second{{LinkId{1}}};
  sim::Fluid fluid(capacity);
  fluid.begin(1, kSecond / 2, 25e9, first, 0);
  fluid.begin(0, 0, 25e9, first, 0);
  std::vector<std::pair<std::uint32_t, std::int64_t>> ended;
  fluid.run([&](std::uint32_t transfer, std::int64_t at) {
    ended.emplace_back(transfer, at);
    if (transfer == 0) fluid.begin(2, at, 25e9, second, 0);
  });
  REQUIRE(ended.size() == 3);
  CHECK(ended[0] == std::pair<std::uint32_t, std::int64_t>{0, kSecond * 3 / 2});
  CHECK(ended[1] == std::pair<std::uint32_t, std::int64_t>{1, kSecond * 2});
  CHECK(ended[2] == std::pair<std::uint32_t, std::int64_t>{2, kSecond * 5 / 2});
  CHECK(fluid.events() == 6);
}

TEST_CASE("a transfer takes whole picoseconds, rounded up, and at least one") {
  // At 1 TB/s a byte takes a picosecond.
  CHECK(sim::fluid_time(0, 1e12) == 1);
  CHECK(sim::fluid_time(0.25, 1e12) == 1);
  CHECK(sim::fluid_time(1, 1e12) == 1);
  CHECK(sim::fluid_time(1.5, 1e12) == 2);
  CHECK(sim::fluid_time(7, 1e12) == 7);
  CHECK(sim::fluid_time(7 + 1e-6, 1e12) == 7);    // what rounding leaves of 7 is no eighth one
  CHECK(sim::fluid_time(7 + 0.9e-3, 1e12) == 7);  // a thousandth is forgiven
  CHECK(sim::fluid_time(7 + 1.1e-3, 1e12) == 8);
  CHECK(sim::fluid_time(7.1, 1e12) == 8);
  CHECK(sim::fluid_time(1e18 - 1024, 1e12) == 1'000'000'000'000'000'000 - 1024);
  CHECK_THROWS_AS(sim::fluid_time(1e18, 1e12), sim::UserError);  // the latest instant that is reckoned with
  CHECK(sim::unlimited_transfer(0.5, 1e12).value() == 1);
  CHECK(sim::unlimited_transfer(1, 0.5).value() == 2 * kSecond);
  CHECK(sim::unlimited_transfer(0, 1e12).value() == 0);
}

TEST_CASE("a transfer begins before the latest instant that is reckoned with") {
  const sim::Table<LinkId, double> capacity(1, 25e9);
  const std::vector<WeightedLink> link{{LinkId{0}}};
  sim::Fluid fluid(capacity);
  CHECK_NOTHROW(fluid.begin(0, sim::kLatest - 1, 1, link, 0));
  CHECK_THROWS_AS(fluid.begin(1, sim::kLatest, 1, link, 0), sim::UserError);
}

TEST_CASE("patterns of traffic agree with the slow engine") {
  for (const std::string_view pattern : reference::kFlowPatterns) {
    for (const std::uint32_t hosts_per_leaf : {2u, 4u, 8u}) {
      INFO(pattern << ", " << hosts_per_leaf << " hosts on a leaf");
      const Table table(reference::flow_table(pattern, 16, hosts_per_leaf, hosts_per_leaf));
      const sim::Result slow = reference::run(table.plan, table.network);
      const std::vector<std::int64_t> ends = table.fluid_ends();
      const sim::Result engine = sim::run(table.plan, table.network);
      for (std::uint32_t i = 0; i < ends.size(); ++i) {
        // The slow one rounds each prediction to the nearest picosecond, the fast one up.
        const double close = static_cast<double>(ends.size());
        REQUIRE(std::abs(static_cast<double>(ends[i] - slow.last_finish.rows()[i].value())) <= close);
        REQUIRE(ends[i] == engine.last_finish.rows()[i].value());
      }
    }
  }
}
