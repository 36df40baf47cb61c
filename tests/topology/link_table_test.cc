// Does a table that keeps one node of each kind give every link, as a row for each would?
#include <vector>

#include "sim/error.h"
#include "tests/catch.h"
#include "topology/cluster.h"

using namespace orrery::topology;
using orrery::sim::LinkId;

namespace {

LinkInfo link_of(double rate) { return {orrery::sim::Bandwidth(rate), Tier::leaf, 1, false}; }

/// The rates of all links, by their numbers and by going through them.
std::vector<double> by_number(const LinkTable& table) {
  std::vector<double> rates;
  for (std::uint32_t i = 0; i < table.size(); ++i) rates.push_back(table[LinkId{i}].capacity.value());
  return rates;
}
std::vector<double> in_order(const LinkTable& table) {
  std::vector<double> rates;
  for (const LinkInfo& link : table) rates.push_back(link.capacity.value());
  return rates;
}

}  // namespace

TEST_CASE("links of nodes of a kind are those of one", "[topology]") {
  LinkTable table;
  CHECK(table.size() == 0);
  CHECK(in_order(table).empty());
  // Two nodes of the first kind, one of the second, two of the third, and three links between switches.
  table.set_nodes({{link_of(1), link_of(2)}, {link_of(3), link_of(4)}, {link_of(5), link_of(6)}}, {2, 3}, 5);
  table.add(1, link_of(7));
  table.add(2, link_of(8));
  const std::vector<double> rates{1, 2, 1, 2, 3, 4, 5, 6, 5, 6, 7, 8, 8};
  REQUIRE(table.size() == rates.size());
  CHECK(by_number(table) == rates);
  CHECK(in_order(table) == rates);
  CHECK(table.between().size() == 3);

  table.change(LinkId{2}).capacity = orrery::sim::Bandwidth(9);
  table.change(LinkId{12}).capacity = orrery::sim::Bandwidth(10);
  std::vector<double> changed = rates;
  changed[2] = 9;
  changed[12] = 10;
  CHECK(by_number(table) == changed);
  CHECK(in_order(table) == changed);
  CHECK(table.size() == rates.size());
  CHECK_THROWS_AS(table.between(), orrery::sim::InternalError);
}

TEST_CASE("nodes may have no links, and switches none between them", "[topology]") {
  LinkTable lone;
  lone.set_nodes({{}}, {}, 4);
  CHECK(in_order(lone).empty());
  lone.add(1, link_of(3));
  CHECK(by_number(lone) == std::vector<double>{3});
  CHECK(in_order(lone) == std::vector<double>{3});
  LinkTable inside;
  inside.set_nodes({{link_of(1)}}, {}, 3);
  CHECK(in_order(inside) == std::vector<double>{1, 1, 1});
  CHECK(by_number(inside) == in_order(inside));
}
