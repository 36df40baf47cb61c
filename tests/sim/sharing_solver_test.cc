// Two parts of a run that share links at one time: who finds another at work takes back what it began and says so, and
// what it left is solved when it is alone. The other's claim is put there by hand, so that no clock decides.
#include "sim/sharing_solver.h"

#include <vector>

#include "sim/fair_sharing.h"
#include "tests/catch.h"

using namespace orrery::sim;

namespace {

constexpr std::uint32_t kParts = 2;

/// Two links of 12 bytes/s of part 0. Transfer 0 crosses the first one, 1 both, 2 and 3 the second.
struct Meeting {
  SharingTables tables;
  const std::vector<std::vector<WeightedLink>> routes{
      {{LinkId{0}}}, {{LinkId{0}}, {LinkId{1}}}, {{LinkId{1}}}, {{LinkId{1}}}};

  Meeting() {
    tables.links.resize(2);
    tables.fillings.resize(2);
    tables.pools.resize(kParts);
    tables.flows.resize(routes.size());
    for (LinkFilling& filling : tables.fillings) filling.capacity = 12;
    for (SharedLink& link : tables.links) {
      link.level = kInfinity;
      link.limit = FairSharing::slack_limit(12);
    }
    for (std::uint32_t f = 0; f < routes.size(); ++f) {
      SharingFlow& flow = tables.flows[f];
      flow.links = routes[f];
      flow.rate = flow.alone = 12;
      flow.active = flow.fresh = true;
      for (const WeightedLink& l : routes[f]) {
        SharedLink& link = tables.links[index(l.link)];
        if (tables.pools[0].full(link)) tables.pools[0].enlarge(link);
        tables.pools[0].append(link, {f, 0, 1});
        link.demand += link_load(1, 12);
        ++link.active;
      }
    }
  }
  /// A solver of a part, which has seen both links change.
  SharingSolver solver(std::uint32_t part, bool claiming) {
    SharingSolver made(tables, part);
    for (const std::uint32_t link : {0u, 1u}) made.mark(link);
    made.begin(kParts, claiming);
    made.loosen();
    return made;
  }
  std::vector<double> rates() const {
    std::vector<double> out;
    for (const SharingFlow& flow : tables.flows) out.push_back(flow.rate);
    return out;
  }
};

// The second link's three get 4 each; the first one's other what is left.
const std::vector<double> kFair{8, 4, 4, 4}, kBefore{12, 12, 12, 12};

}  // namespace

TEST_CASE("a solver that meets nobody solves all, and leaves no claim behind") {
  for (const bool claiming : {false, true}) {
    Meeting m;
    SharingSolver solver = m.solver(0, claiming);
    CHECK(solver.solve_for(solver));
    CHECK(m.rates() == kFair);
    for (const LinkFilling& filling : m.tables.fillings) CHECK(filling.claim == 0);
    for (const SharingFlow& flow : m.tables.flows) CHECK(flow.claim == 0);
    for (const SharedLink& link : m.tables.links) CHECK_FALSE(link.dirty);
  }
}

TEST_CASE("a solver that finds another part on a link, or on a transfer, leaves all as it was and says so") {
  for (const std::uint32_t part : {0u, 1u}) {  // the one of the lower number waits a while first
    for (const bool on_link : {true, false}) {
      INFO("part " << part << (on_link ? ", a link" : ", a transfer"));
      Meeting m;
      std::uint32_t& claim = on_link ? m.tables.fillings[1].claim : m.tables.flows[2].claim;
      claim = (1 - part) + 1;
      SharingSolver solver = m.solver(part, true);
      CHECK_FALSE(solver.solve_for(solver));
      CHECK(m.rates() == kBefore);
      for (const SharedLink& link : m.tables.links) CHECK(link.dirty);
      for (const SharingFlow& flow : m.tables.flows) CHECK_FALSE(flow.free);
      CHECK(claim == (1 - part) + 1);
      claim = 0;
      solver.go_on_alone();
      CHECK(solver.solve_for(solver));
      CHECK(m.rates() == kFair);
    }
  }
}

TEST_CASE("of changes that do not meet another part the solver solves those it can") {
  // Without the transfer that joins them the links are no concern of each other.
  Meeting m;
  m.tables.flows[1].active = false;
  for (SharedLink& link : m.tables.links) {
    link.demand -= link_load(1, 12);
    --link.active;
  }
  m.tables.flows[0].rate = m.tables.flows[0].alone = 24;  // more than its link has
  m.tables.links[0].demand = link_load(1, 24);
  m.tables.fillings[1].claim = 2;
  SharingSolver solver = m.solver(0, true);
  CHECK_FALSE(solver.solve_for(solver));
  CHECK(m.rates()[0] == 12);
  CHECK(m.rates()[2] == 12);
  m.tables.fillings[1].claim = 0;
  solver.go_on_alone();
  CHECK(solver.solve_for(solver));
  CHECK(m.rates()[2] == 6);
  CHECK(m.rates()[3] == 6);
}
