// Does the program show what the network does: what hashing costs, what a fault cuts off, what a placement moves?
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/tools/program.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;
using tests::Outcome;
using tests::small_scenario;

namespace {

/// The number that follows `label` in what the program printed.
double number_after(const std::string& text, const std::string& label) {
  const std::size_t at = text.find(label);
  INFO(text);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + label.size()));
}

json json_of(const Outcome& outcome) {
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out);
}

double sum(const json& tiers) {
  double all = 0;
  for (const auto& [tier, bytes] : tiers.items()) all += bytes.get<double>();
  return all;
}

const char* const kScattered = "placement: {random_seed: 4}\n";

}  // namespace

TEST_CASE("a scenario that is served or of reinforcement learning has a cluster and a model that can be asked for") {
  for (const char* name : {"llama3.1-70b-serving-h100", "qwen3-32b-grpo-256h100-async", "two-models-h100"}) {
    INFO(name);
    const Outcome drawn = tests::orrery({"topology", name});
    INFO(drawn.err);
    CHECK(drawn.status == 0);
    const json bus = json_of(tests::orrery({"collective", name, "--op", "all_reduce", "--gpus", "8", "--json", "-"}));
    CHECK(bus["rows"].size() > 3);
  }
  // The same wires as of a file with the cluster alone.
  const Folder folder;
  const std::string cluster = "cluster: {device: h100-sxm-80gb, gpus: 64, fabric: ndr-rail}\n";
  const std::string alone = folder.write("alone.yaml", "name: c\n" + cluster);
  const std::string served = folder.write(
      "served.yaml", "name: c\n" + cluster + "model: llama3.1-8b\nserving: {pools: [{parallelism: {tensor: 2}}]}\n");
  CHECK(tests::orrery({"topology", served}).out == tests::orrery({"topology", alone}).out);
  const std::string flops = tests::orrery({"flops", served}).out;
  CHECK(flops == tests::orrery({"flops", "llama3.1-8b"}).out);
  CHECK(flops.find("parameters") != std::string::npos);
  const Outcome several = tests::orrery({"flops", "two-models-h100"});
  CHECK(several.status == 2);
  CHECK(several.err.find("several models") != std::string::npos);
  const Outcome swept = tests::orrery({"sweep", served, "--vary", "traffic.rate=1/s,2/s"});
  CHECK(swept.status == 2);
  CHECK(swept.out.empty());
  CHECK(swept.err.find("served.yaml:4:") == swept.err.find_last_of('/') + 1);
  CHECK(swept.err.find("orrery serving SCENARIO") != std::string::npos);
}

TEST_CASE("topology says what hashing costs with MegaScale's split ports and without") {
  const auto printed = [](const char* fabric) {
    return tests::orrery({"topology", fabric, "--device", "a100-sxm-80gb", "--gpus", "1024"}).out;
  };
  const std::string label = "slow-down of a fully loaded leaf uplink: ", thrown = "a flow takes ";
  const std::string split = printed("tomahawk4-200g"), whole = printed("tomahawk4-unsplit");
  // 64 flows on 32 lanes twice as fast; 32 on 32 as fast. X others on a flow's lane, binomial.
  const double none = std::pow(31.0 / 32, 63);
  CHECK(number_after(split, label) == Approx(((1 + 63.0 / 32) + none) / 2).epsilon(1e-3));
  CHECK(number_after(whole, label) == Approx(1 + 31.0 / 32).epsilon(1e-3));
  // The text breaks lines where it likes.
  const auto flat = [](std::string text) {
    for (std::size_t at; (at = text.find("\n  ")) != std::string::npos;) text.replace(at, 3, " ");
    return text;
  };
  CHECK(number_after(flat(split), thrown) < number_after(flat(whole), thrown));
  CHECK(number_after(flat(split), "the slowest ") < number_after(flat(whole), "the slowest "));
}

TEST_CASE("topology names what a fault cuts off; a cluster cut in two is refused") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", small_scenario());
  const Outcome one = tests::orrery({"topology", file, "--set", "perturb.lost_switches=[leaf u0 r3]"});
  CHECK(one.status == 0);
  CHECK(one.out.find("Cut off: 2 NICs (n0 nic3, n1 nic3)") != std::string::npos);
  std::string all = "perturb.lost_links=[{between: [n1 nic0, leaf u0 r0]}";
  for (int i = 1; i < 8; ++i)
    all += ", {between: [n1 nic" + std::to_string(i) + ", leaf u0 r" + std::to_string(i) + "]}";
  for (const char* command : {"topology", "run"}) {
    const Outcome cut = tests::orrery({command, file, "--set", all + "]"});
    CHECK(cut.status == 2);
    CHECK(cut.out.empty());
    CHECK(cut.err.find("perturb.lost_links[0].between: cuts the cluster: node 1 and node 0") != std::string::npos);
  }
}

TEST_CASE("every kind of fabric is described and drawn") {
  const Folder folder;
  const std::string ports = "nic_rate: 400 Gb/s, nics: 4";
  for (const std::string& fabric :
       {"{kind: torus, " + ports + ", dimensions: [2, 1]}", "{kind: rail_only, " + ports + "}",
        "{kind: graph, " + ports + ", links: [{ends: [left, right], lanes: 2}], attach: [left, right]}",
        "{kind: single_switch, " + ports + "}"}) {
    const std::string file = folder.write("small.yaml", small_scenario("ndr-rail", fabric));
    const std::string dot = folder.file("small.dot");
    const Outcome outcome = tests::orrery({"topology", file, "--dot", dot});
    INFO(fabric << outcome.err);
    CHECK(outcome.status == 0);
    CHECK(outcome.out.find("Bisection") != std::string::npos);
    CHECK(tests::read_file(dot).find("gpu7") != std::string::npos);
    CHECK(tests::orrery({"run", file}).status == 0);
  }
}

TEST_CASE("topology counts what a network is made of, and sums what a switch and a cable cost") {
  // Two full units of 32 nodes on rails: 8 leaves each, 32 ways down and 32 up; a spine per way up holds 64 / 8 of
  // them.
  const json plain = json_of(tests::orrery({"topology", "ndr-rail", "--gpus", "512", "--json", "-"}));
  const json& parts = plain["parts"];
  CHECK(parts["nic_cables"] == 512);
  CHECK(parts["switch_cables"] == 512);
  CHECK(parts["transceivers"] == 2048);
  CHECK_FALSE(parts.contains("price_usd"));
  const json quoted =
      json_of(tests::orrery({"topology", "ndr-rail", "--gpus", "512", "--switch-price", "20000", "--link-price", "1500",
                             "--switch-power", "900", "--link-power", "34", "--json", "-"}));
  const double switches = parts["switches"].get<double>();
  CHECK(quoted["parts"]["price_usd"] == switches * 20000 + 1024 * 1500);
  CHECK(quoted["parts"]["network_w"] == switches * 900 + 1024 * 34);
  // A fabric may state them itself, and what is quoted beside it goes before what it states.
  const Folder folder;
  const std::string file = folder.write("own.yaml",
                                        "inherits: ndr-rail\nswitch_price: 20000\nlink_price: 1500\n"
                                        "switch_power: 0.9 kW\nlink_power: 34 W\n");
  const std::string sum = "cluster.fabric={inherits: ndr-rail, switch_price: 1, link_price: 2}";
  for (const char* option : {"--gpus", "--set"}) {
    const json stated =
        json_of(tests::orrery({"topology", option == std::string("--set") ? "gpt3-6.7b-h100" : file, option,
                               option == std::string("--set") ? sum : "512", "--json", "-"}))["parts"];
    if (option == std::string("--gpus")) {
      CHECK(stated == quoted["parts"]);
    } else {
      CHECK(stated["price_usd"] == stated["switches"].get<double>() + 2 * (stated["nic_cables"].get<double>() +
                                                                           stated["switch_cables"].get<double>()));
      CHECK_FALSE(stated.contains("network_w"));
    }
  }
  const json dearer = json_of(
      tests::orrery({"topology", file, "--gpus", "512", "--switch-price", "0", "--link-price", "3000", "--json", "-"}));
  CHECK(dearer["parts"]["price_usd"] == 1024 * 3000);
  CHECK(dearer["parts"]["network_w"] == quoted["parts"]["network_w"]);
  CHECK_FALSE(json_of(tests::orrery({"topology", "single-node", "--gpus", "8", "--json", "-"})).contains("parts"));
  const Outcome half = tests::orrery({"topology", "ndr-rail", "--switch-price", "20000"});
  CHECK(half.status == 2);
  CHECK(half.err.find("--link-price") != std::string::npos);
  CHECK(tests::orrery({"topology", "ndr-rail", "--switch-price", "-1", "--link-price", "1"}).status == 2);
}

TEST_CASE("run, traffic and compare show the traffic by tier, and what a placement moves") {
  const Folder folder;
  const std::string packed = folder.write("packed.yaml", small_scenario());
  const std::string scattered = folder.write("scattered.yaml", small_scenario() + kScattered);
  const json run = json_of(tests::orrery({"run", packed, "--json", "-"}));
  const json table = json_of(tests::orrery({"traffic", packed, "--json", "-"}));
  CHECK(run["tier_bytes"] == table["tier_bytes"]);
  const json both = json_of(tests::orrery({"compare", packed, scattered, "--json", "-"}));
  const json ours = both["target"]["tier_bytes"], theirs = both["baseline"]["tier_bytes"];
  CHECK(ours == run["tier_bytes"]);
  CHECK(sum(ours) == Approx(sum(theirs)).epsilon(1e-12));
  CHECK(ours["node"].get<double>() > theirs["node"].get<double>());
  CHECK(both["ThroughputSpeedup"].get<double>() > 1);
  CHECK(tests::orrery({"compare", packed, scattered}).out.find("bytes, at most over node links") != std::string::npos);
  CHECK(tests::orrery({"run", packed}).out.find("Traffic of the step") != std::string::npos);
}

TEST_CASE("run --ecmp-seeds gives the step over seeds of hashed paths, and refuses a fabric that hashes nothing") {
  const Folder folder;
  // 256 GPUs below leaves of two nodes: flows to other leaves are hashed onto uplinks as fast as NICs.
  const std::string scenario =
      folder.write("hashed.yaml", small_scenario("gpus: 16, gpus_per_node: 8, fabric: ndr-rail",
                                                 "gpus: 256, gpus_per_node: 8, fabric: {inherits: tomahawk4-200g, "
                                                 "unit_nodes: 2, uplink_rate: 200 Gb/s}"));
  const std::vector<std::string> sets{"--set", "parallelism.data=64", "--set", "batch.global=128"};
  const auto asked = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), sets.begin(), sets.end());
    return tests::orrery(arguments);
  };
  const json run = json_of(asked({"run", scenario, "--ecmp-seeds", "4", "--json", "-"}));
  CHECK(run["hashed_steps"]["seeds"] == 4);
  CHECK(run["hashed_steps"]["p95_s"] >= run["hashed_steps"]["mean_s"]);
  CHECK(run["hashed_steps"]["mean_s"] > 0);
  const Outcome refused = tests::orrery({"run", "gpt3-6.7b-h100", "--ecmp-seeds", "3"});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("--ecmp-seeds: got 3") != std::string::npos);

  const json placed = json_of(asked({"topology", scenario, "--json", "-"}));
  std::map<std::string, double> slowest;  // of the data dimension
  for (const json& row : placed["hashed_paths"]) {
    CHECK(row["mean_bytes_per_s"].get<double>() <= row["even_bytes_per_s"].get<double>() * (1 + 1e-9));
    if (row["dimension"] == "data") slowest[row["placement"]] = row["slowest_bytes_per_s"];
  }
  REQUIRE(slowest.size() == 2);
  CHECK(slowest["at random"] < slowest["in order"]);
}

TEST_CASE("topology and collective take a shipped scenario by its name") {
  const json mesh =
      json_of(tests::orrery({"collective", "gpt3-6.7b-mi300x", "--op", "all_reduce", "--gpus", "8", "--json", "-"}));
  CHECK_FALSE(mesh.empty());
  CHECK(tests::orrery({"topology", "gpt3-6.7b-mi300x"}).out.find("line rates") != std::string::npos);
}
