// Does `orrery place` lay jobs on nodes as its policies say, and does it find the best share of small clusters?
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"
#include "tools/study/placement_search.h"
#include "tools/study/placements.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;
using tools::NodeLists;

namespace {

using Units = std::vector<std::vector<std::int64_t>>;
const Units kUnits{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}};

/// A job of two nodes below leaves of two nodes, with thin uplinks.
std::string thin() {
  return tests::small_scenario("fabric: ndr-rail", "fabric: {inherits: ndr-rail, unit_nodes: 2, oversubscription: 8}");
}

}  // namespace

TEST_CASE("policies use every node at most once, and each as it is named") {
  const std::vector<std::int64_t> sizes{2, 4, 3};
  for (const std::string& policy : tools::policy_names()) {
    INFO(policy);
    const NodeLists lists = tools::place_by(policy, sizes, kUnits, 7);
    std::set<std::int64_t> taken;
    for (std::size_t j = 0; j < sizes.size(); ++j) {
      CHECK(static_cast<std::int64_t>(lists[j].size()) == sizes[j]);
      taken.insert(lists[j].begin(), lists[j].end());
    }
    CHECK(taken.size() == 9);
  }
  // Each job whole in the unit that it fits best; the nodes of a spread one from all units; of interleaved ones in
  // turn.
  CHECK(tools::place_by("pack", sizes, kUnits, 1) == NodeLists{{8, 9}, {0, 1, 2, 3}, {4, 5, 6}});
  CHECK(tools::place_by("spread", {3}, kUnits, 1) == NodeLists{{0, 4, 8}});
  CHECK(tools::place_by("interleave", {2, 3}, kUnits, 1) == NodeLists{{0, 2}, {1, 3, 4}});
}

TEST_CASE("all shares of small cases, and none of large ones") {
  // Two jobs of two nodes in two units of two: apart, or a node of each in each.
  CHECK(tools::all_shares({2, 2}, {{0, 1}, {2, 3}}, 100).size() == 2);
  // One job of two nodes in three units of two: in one unit, or in two.
  CHECK(tools::all_shares({2}, {{0, 1}, {2, 3}, {4, 5}}, 100).size() == 2);
  CHECK(tools::all_shares({8, 8, 8, 8}, Units(8, std::vector<std::int64_t>{0, 1, 2, 3}), 10).empty());
}

TEST_CASE("two jobs on thin uplinks: interleaved they cost each other, the best share keeps them apart") {
  const Folder folder;
  const std::string file = folder.write("thin.yaml", thin());
  const tests::Outcome outcome = tests::orrery({"place", file, file, "--json", "-"});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const json result = json::parse(outcome.out);
  std::map<std::string, json> by_name;
  for (const json& row : result["placements"]) by_name[row["placement"]] = row;
  CHECK(by_name.at("pack")["slowdown"] == 1.0);
  CHECK(by_name.at("interleave")["slowdown"].get<double>() > 1.0);
  CHECK(by_name.at("best share")["slowdown"] == 1.0);
  CHECK(result["shares_tried"] == 2);
  for (const json& job : by_name.at("interleave")["placed"]) {
    CHECK(job["units"] == 2);
    CHECK(job["step_s"] >= job["alone_s"]);
  }
  // The step alone is that of orrery run.
  const json step = json::parse(tests::orrery({"run", file, "--json", "-"}).out);
  CHECK(by_name.at("pack")["placed"][0]["step_s"] == step["iteration_time_s"]);
  CHECK(tests::orrery({"place", file, file, "--json", "-", "--jobs", "1"}).out == outcome.out);
  const tests::Outcome text = tests::orrery({"place", file, file});
  CHECK(text.out.find("best of all 2 ways") != std::string::npos);
}

TEST_CASE("nothing is quicker than the bound, and a placement that reaches it is proven best") {
  const Folder folder;
  const std::string file = folder.write("thin.yaml", thin());
  const json result = json::parse(tests::orrery({"place", file, file, "--json", "-"}).out);
  for (const json& row : result["placements"])
    for (std::size_t j = 0; j < 2; ++j)
      CHECK(row["placed"][j]["alone_s"].get<double>() >= result["bound_s"][j].get<double>() * (1 - 1e-12));
  // Two nodes below one leaf are as near as below one switch.
  CHECK(result["above_bound_pct"].get<double>() >= 0);
  CHECK(result["above_bound_pct"].get<double>() < 0.01);
  CHECK(tests::orrery({"place", file, file}).out.find("no placement is\nquicker") != std::string::npos);
}

TEST_CASE("hashed paths are priced seed by seed, and refused where nothing hashes") {
  const Folder folder;
  const std::string hashed = folder.write(
      "hashed.yaml",
      tests::small_scenario("fabric: ndr-rail", "fabric: {inherits: ndr-rail, unit_nodes: 2, routing: ecmp}"));
  const auto place = [&](const std::string& seeds) {
    return json::parse(tests::orrery({"place", hashed, hashed, "--ecmp-seeds", seeds, "--json", "-"}).out);
  };
  const json one = place("1"), five = place("5");
  CHECK(five["seeds"] == 5);
  for (const json& row : five["placements"]) {
    for (const json& job : row["placed"])
      CHECK(job["worst_s"].get<double>() >= job["step_s"].get<double>() * (1 - 1e-12));  // a mean, rounded
    // Jobs that stay below leaves of their own meet no hash.
    if (row["placement"] == "pack") CHECK(row["slowdown"].get<double>() == Approx(1));
    if (row["placement"] == "interleave") CHECK(row["slowdown"].get<double>() > 1);
  }
  CHECK(one != five);
  const std::string adaptive = folder.write("thin.yaml", thin());
  tests::check_refused(tests::orrery({"place", adaptive, adaptive, "--ecmp-seeds", "3"}), {"--ecmp-seeds: got 3"});
}

TEST_CASE("swaps find what costs least, take free nodes, and end at the bound") {
  // The cost: nodes of a job that lie in another unit (of two) than its first.
  const auto apart = [](const NodeLists& lists) {
    double cost = 0;
    for (const auto& list : lists)
      for (const std::int64_t node : list) cost += node / 2 != list.front() / 2 ? 1 : 0;
    return cost;
  };
  const NodeLists start{{0, 2}, {4, 6}};
  CHECK(apart(start) == 2);
  int asked = 0;
  const NodeLists found = tools::swapped(start, {1, 3, 5, 7}, 1000, 0, 1, [&](const NodeLists& lists) {
    ++asked;
    return apart(lists);
  });
  CHECK(apart(found) == 0);
  CHECK(asked < 500);
  std::set<std::int64_t> nodes;
  for (const auto& list : found) nodes.insert(list.begin(), list.end());
  CHECK(nodes.size() == 4);
  CHECK(tools::swapped(start, {}, 0, 0, 1, apart) == start);
}

TEST_CASE("jobs on nodes of two kinds get nodes of each, and steps as orrery run says") {
  const Folder folder;
  std::string text = thin();
  text.replace(text.find("gpus: 16,"), 9, "gpus: 32, others: [{device: a100-sxm-80gb, gpus: 16}],");
  text.replace(text.find("data: 4"), 7, "data: 8");
  const std::string mixed = folder.write("mixed.yaml", text), plain = folder.write("plain.yaml", thin());
  // Nodes 0 to 3 are H100s, two for each job; 4 and 5 A100s, for the second stages of the mixed one.
  const tests::Outcome outcome = tests::orrery({"place", mixed, plain, "--improve", "20", "--json", "-"});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const json result = json::parse(outcome.out);
  CHECK(result["gpus"] == 48);
  CHECK(result["shares_tried"] == 0);
  REQUIRE(result["placements"].size() >= 4);
  for (const json& row : result["placements"]) {
    INFO(row["placement"]);
    const std::vector<std::int64_t> of_mixed = row["placed"][0]["nodes"], of_plain = row["placed"][1]["nodes"];
    REQUIRE(of_mixed.size() == 4);
    REQUIRE(of_plain.size() == 2);
    for (std::size_t i = 0; i < 4; ++i) CHECK((of_mixed[i] >= 4) == (i >= 2));
    for (const std::int64_t node : of_plain) CHECK(node < 4);
    std::set<std::int64_t> all(of_mixed.begin(), of_mixed.end());
    all.insert(of_plain.begin(), of_plain.end());
    CHECK(all.size() == 6);
  }
  const auto step_of = [](const std::string& file) {
    return json::parse(tests::orrery({"run", file, "--json", "-"}).out)["iteration_time_s"].get<double>();
  };
  const json& packed = result["placements"][0];
  REQUIRE(packed["placement"] == "pack");
  CHECK(packed["placed"][0]["alone_s"].get<double>() == Approx(step_of(mixed)).epsilon(1e-9));
  CHECK(packed["placed"][1]["alone_s"].get<double>() == Approx(step_of(plain)).epsilon(1e-9));
  // Nodes more than the jobs' are of the device.
  const tests::Outcome more = tests::orrery({"place", mixed, "--gpus", "64", "--json", "-"});
  REQUIRE(more.status == 0);
  const json spread = json::parse(more.out)["placements"];
  for (const json& row : spread) {
    const std::vector<std::int64_t> nodes = row["placed"][0]["nodes"];
    for (std::size_t i = 0; i < 4; ++i) CHECK((nodes[i] >= 6) == (i >= 2));
  }
}

TEST_CASE("jobs that do not fit one cluster are refused in one line") {
  const Folder folder;
  const std::string file = folder.write("case.yaml", thin()),
                    other = folder.write("other.yaml", tests::small_scenario());
  tests::check_refused(tests::orrery({"place", file, other}), {"other.yaml", "one cluster"});
  tests::check_refused(tests::orrery({"place", file, file, "--gpus", "24"}),
                       {"--gpus: got 24, expected at least the jobs' 32"});
}
