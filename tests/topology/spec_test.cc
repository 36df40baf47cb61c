// Are node sections and fabrics read in full, and is every wrong one refused with its key?
#include <map>

#include "tests/catch.h"
#include "tests/topology/fixtures.h"

namespace orrery::topology {

namespace {

using Fields = std::map<std::string, std::string>;

sim::Settings mapping(const Fields& fields) {
  sim::Settings settings = nowhere();
  int line = 1;
  for (const auto& [key, value] : fields) settings.set(key, sim::Settings::scalar(value, {"test", ++line, 1}));
  return settings;
}

sim::Settings with(Fields fields, const std::string& key, const std::string& value) {
  fields[key] = value;
  return mapping(fields);
}

sim::Settings mesh_link(const std::string& a, const std::string& b) {
  sim::Settings pair = sim::Settings::sequence({"test", 2, 1});
  pair.append(sim::Settings::scalar(a, {"test", 2, 1}));
  pair.append(sim::Settings::scalar(b, {"test", 2, 1}));
  sim::Settings link = mapping({{"rate", "50 GB/s"}});
  link.set("pair", pair);
  return link;
}

const Fields kNode = {{"kind", "nvswitch"}, {"gpus", "8"}, {"switches", "4"}, {"links", "18"}, {"rate", "450 GB/s"}};
const Fields kFabric = {{"kind", "fat_tree"}, {"nics", "8"}, {"nic_rate", "400 Gb/s"}};

template <class Call>
std::string complaint(Call call) {
  try {
    call();
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "no complaint";
}

bool says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  WARN(text);
  return false;
}

}  // namespace

TEST_CASE("A node section is read in full") {
  const NodeSpec spec = load_node_spec(mapping({{"kind", "nvswitch"},
                                                {"gpus", "16"},
                                                {"switches", "4"},
                                                {"links", "18"},
                                                {"rate", "450 GB/s"},
                                                {"latency", "2 us"},
                                                {"efficiency", "0.8"},
                                                {"pcie", "64 GB/s"},
                                                {"pcie_switches", "2"},
                                                {"provenance", "here"}}));
  CHECK(spec.gpus == 16);
  CHECK(spec.switches == 4);
  CHECK(spec.links == 18);
  CHECK(spec.rate.value() == 450e9);
  CHECK(spec.latency == sim::microseconds(2));
  CHECK(spec.efficiency == 0.8);
  CHECK(spec.pcie.value() == 64e9);
  CHECK(spec.pcie_switches == 2);
  CHECK(spec.provenance == "here");
}

TEST_CASE("A fabric is read in full") {
  const FabricSpec spec = load_fabric_spec(mapping({{"kind", "fat_tree"},
                                                    {"name", "f"},
                                                    {"routing", "ecmp"},
                                                    {"ecmp_seed", "5"},
                                                    {"flows_per_nic", "4"},
                                                    {"nics", "4"},
                                                    {"nic_rate", "200 Gb/s"},
                                                    {"efficiency", "0.9"},
                                                    {"nic_latency", "3 us"},
                                                    {"message_gap", "7 us"},
                                                    {"switch_latency", "1 us"},
                                                    {"rail", "true"},
                                                    {"radix", "40"},
                                                    {"unit_nodes", "20"},
                                                    {"uplink_rate", "400 Gb/s"},
                                                    {"oversubscription", "2"},
                                                    {"spine_radix", "128"},
                                                    {"core_oversubscription", "3"},
                                                    {"pod_leaves", "12"},
                                                    {"spine_groups", "rail"},
                                                    {"provenance", "here"}}));
  CHECK(spec.name == "f");
  CHECK(spec.routes.policy == FabricSpec::Routing::ecmp);
  CHECK(spec.routes.ecmp_seed == 5U);
  CHECK(spec.routes.flows_per_nic == 4);
  CHECK(spec.nics == 4);
  CHECK(spec.nic_rate.value() == Approx(25e9));
  CHECK(spec.efficiency == 0.9);
  CHECK(spec.message.latency == sim::microseconds(3));
  CHECK(spec.message.gap == sim::microseconds(7));
  CHECK(spec.switches.latency == sim::microseconds(1));
  CHECK(spec.tree.rail);
  CHECK(spec.switches.radix == 40);
  CHECK(spec.tree.unit_nodes == 20);
  CHECK(spec.switches.uplink_rate.value() == Approx(50e9));
  CHECK(spec.tree.oversubscription == 2);
  CHECK(spec.tree.spine_radix == 128);
  CHECK(spec.tree.core_oversubscription == 3);
  CHECK(spec.tree.pod_leaves == 12);
  CHECK(spec.tree.spine_groups == FabricSpec::SpineGroups::rail);
  CHECK(spec.provenance == "here");
  // Left out: switches are joined at the NICs' rate.
  CHECK(load_fabric_spec(mapping(kFabric)).switches.uplink_rate.value() == Approx(50e9));
  CHECK(load_fabric_spec(mapping({{"kind", "none"}})).kind == &fabrics::none);
}

TEST_CASE("A rate may depend on the device's family") {
  sim::Settings fabric = mapping({{"kind", "fat_tree"}});
  fabric.set("nic_rate", mapping({{"a100", "200 Gb/s"}, {"h100", "400 Gb/s"}, {"h100-pcie", "100 Gb/s"}}));
  CHECK(load_fabric_spec(fabric, "a100-sxm-80gb").nic_rate.value() == Approx(25e9));
  CHECK(load_fabric_spec(fabric, "h100-sxm-80gb").nic_rate.value() == Approx(50e9));
  CHECK(load_fabric_spec(fabric, "h100-pcie-80gb").nic_rate.value() == Approx(12.5e9));
  CHECK(says(complaint([&] { load_fabric_spec(fabric, "mi300x"); }), "mi300x"));
  CHECK(says(complaint([&] { load_fabric_spec(fabric); }), "nic_rate"));
}

TEST_CASE("A mesh is read, and has to hang together") {
  sim::Settings node = mapping({{"kind", "mesh"}, {"gpus", "3"}});
  sim::Settings mesh = sim::Settings::sequence({"test", 2, 1});
  mesh.append(mesh_link("0", "1"));
  node.set("mesh", mesh);
  CHECK(says(complaint([&] { load_node_spec(node); }), "GPU 2 has no way"));
  mesh.append(mesh_link("2", "1"));
  node.set("mesh", mesh);
  CHECK(load_node_spec(node).mesh.size() == 2);
  node.set("mesh_rate", sim::Settings::scalar("10 GB/s", {"test", 3, 1}));
  CHECK(load_node_spec(node).mesh.size() == 3);  // the pair 0, 2 is left
  mesh.append(mesh_link("1", "0"));
  node.set("mesh", mesh);
  CHECK(says(complaint([&] { load_node_spec(node); }), "twice"));
  CHECK(load_node_spec(mapping({{"kind", "mesh"}, {"gpus", "8"}, {"mesh_rate", "64 GB/s"}})).mesh.size() == 8 * 7 / 2);
}

TEST_CASE("Wrong node sections are refused at their key") {
  const auto refused = [](const sim::Settings& node) { return complaint([&] { load_node_spec(node); }); };
  REQUIRE(refused(mapping(kNode)) == "no complaint");
  CHECK(says(refused(with(kNode, "rate", "0 GB/s")), "rate"));
  CHECK(says(refused(with(kNode, "rate", "450")), "rate"));
  CHECK(says(refused(with(kNode, "gpus", "0")), "gpus"));
  CHECK(says(refused(with(kNode, "gpus", "1000000000000")), "gpus"));
  CHECK(says(refused(with(kNode, "links", "3")), "links"));
  CHECK(says(refused(with(kNode, "efficiency", "0")), "efficiency"));
  CHECK(says(refused(with(kNode, "efficiency", "1.1")), "efficiency"));
  CHECK(says(refused(with(kNode, "efficiency", "nan")), "efficiency"));
  CHECK(says(refused(with(kNode, "latency", "-1 us")), "latency"));
  CHECK(says(refused(with(kNode, "kind", "nvswich")), "nvswitch"));
  CHECK(says(refused(with(kNode, "swiches", "4")), "did you mean \"switches\""));
  CHECK(says(refused(with(kNode, "mesh_rate", "64 GB/s")), "mesh_rate"));
  CHECK(says(refused(mapping({{"kind", "mesh"}, {"mesh_rate", "64 GB/s"}, {"links", "3"}})), "links"));
  CHECK(says(refused(mapping({{"kind", "nvswitch"}, {"switches", "4"}, {"links", "18"}})), "rate"));
}

TEST_CASE("Wrong fabrics are refused at their key") {
  const auto refused = [](const sim::Settings& fabric) { return complaint([&] { load_fabric_spec(fabric); }); };
  REQUIRE(refused(mapping(kFabric)) == "no complaint");
  CHECK(says(refused(with(kFabric, "nic_rate", "0 Gb/s")), "nic_rate"));
  CHECK(says(refused(with(kFabric, "nics", "0")), "nics"));
  CHECK(says(refused(with(kFabric, "nics", "-8")), "nics"));
  CHECK(says(refused(with(kFabric, "radix", "1e99")), "radix"));
  CHECK(says(refused(with(kFabric, "oversubscription", "0")), "oversubscription"));
  CHECK(says(refused(with(kFabric, "routing", "ecmpp")), "ecmp"));
  CHECK(says(refused(with(kFabric, "ecmp_seed", "1")), "ecmp_seed"));
  CHECK(says(refused(with(kFabric, "nic_rates", "1 Gb/s")), "did you mean \"nic_rate\""));
  CHECK(says(refused(with(kFabric, "groups", "4")), "groups"));
  CHECK(says(refused(mapping({{"kind", "none"}, {"nics", "8"}})), "nics"));
  CHECK(says(refused(mapping({{"kind", "fat_tree"}})), "nic_rate"));
  CHECK(says(refused(mapping({{"kind", "dragonfly"}, {"nic_rate", "200 Gb/s"}})), "groups"));
  CHECK(says(
      refused(mapping({{"kind", "fat_tree"}, {"nic_rate", "1 Gb/s"}, {"rail", "false"}, {"spine_groups", "rail"}})),
      "spine_groups"));
}

TEST_CASE("Every documented key can be read by some kind, and its default is the one that is documented") {
  for (const auto* keys : {&node_keys(), &fabric_keys()}) {
    for (const sim::Key& key : *keys) {
      CHECK_FALSE(key.meaning.empty());
      CHECK((key.type == "choice") == !key.choices.empty());
    }
  }
  const FabricSpec spec = load_fabric_spec(mapping({{"kind", "fat_tree"}, {"nic_rate", "400 Gb/s"}}));
  const std::map<std::string, std::string> taken = {
      {"nics", std::to_string(spec.nics)},
      {"radix", std::to_string(spec.switches.radix)},
      {"unit_nodes", std::to_string(spec.tree.unit_nodes)},
      {"flows_per_nic", std::to_string(spec.routes.flows_per_nic)},
      {"nic_latency", fmt::format("{:.2g} us", sim::to_seconds(spec.message.latency) * 1e6)},
      {"switch_latency", fmt::format("{:.2g} us", sim::to_seconds(spec.switches.latency) * 1e6)},
      {"efficiency", fmt::format("{}", spec.efficiency)},
      {"gpu_spread", fmt::format("{}", spec.gpus.spread)},
      {"oversubscription", fmt::format("{}", spec.tree.oversubscription)},
      {"core_oversubscription", fmt::format("{}", spec.tree.core_oversubscription)}};
  std::size_t found = 0;
  for (const sim::Key& key : fabric_keys()) {
    if (!taken.contains(key.path)) continue;
    ++found;
    CHECK(key.fallback == taken.at(key.path));
  }
  CHECK(found == taken.size());
}

TEST_CASE("Clusters that cannot be are refused") {
  const auto refused = [](const FabricSpec& fabric, std::int64_t gpus, std::int64_t per_node) {
    return complaint([&] { Cluster(a100_node(), fabric, gpus, per_node, nowhere()); });
  };
  CHECK(refused(ndr(), 16, 8) == "no complaint");
  CHECK(refused(FabricSpec{}, 5, 8) == "no complaint");  // one node, part filled
  CHECK(says(refused(ndr(), 12, 8), "use 8 or 16"));
  CHECK(says(refused(ndr(), 0, 8), "at least 1"));
  CHECK(says(refused(ndr(), 16, 16), "1 to 8"));
  CHECK(says(refused(ndr(), 16, 0), "1 to 8"));
  CHECK(says(refused(FabricSpec{}, 16, 8), "joins no nodes"));
  CHECK(refused(tiny(), 8 * 8, 8) == "no complaint");
  CHECK(says(refused(tiny(), 9 * 8, 8), "hold 8 nodes"));
  FabricSpec star = ndr();
  star.kind = &fabrics::single_switch;
  CHECK(refused(star, 8 * 8, 8) == "no complaint");
  CHECK(says(refused(star, 9 * 8, 8), "at most 8 nodes"));
  FabricSpec crowded = ndr();
  crowded.tree.unit_nodes = 40;
  CHECK(says(refused(crowded, 16, 8), "unit_nodes"));
  CHECK(says(refused(tomahawk(), 400'000'000, 8), "GPUs"));
}

}  // namespace orrery::topology
