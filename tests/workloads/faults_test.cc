// Broken networks in a step: folding stays exact, what is lost or taken costs time, never saves any, and more bandwidth
// never slows a collective, on any kind of fabric.
#include <numeric>
#include <random>

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/collectives/collective.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

using Sets = std::vector<std::string>;

Sets plus(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Sets machine(const std::string& fabric) {
  return {"cluster.device=h100-sxm-80gb", "cluster.gpus=128", "batch={global: 32, micro: 1}",
          "parallelism={tensor: 4, pipeline: 2, data: 16, sharding: optimizer}", "cluster.fabric=" + fabric};
}

const std::vector<std::string>& fabrics() {
  static const std::vector<std::string> kFabrics{
      "{inherits: ndr-rail, unit_nodes: 4}",
      "{inherits: ndr-rail, unit_nodes: 4, routing: spray}",
      "{inherits: ndr-rail, unit_nodes: 4, routing: d_mod_k}",
      "{inherits: ndr-rail, unit_nodes: 4, routing: ecmp, ecmp_seed: 2}",
      "{kind: rail_only, nic_rate: 400 Gb/s, unit_nodes: 4}",
      "{kind: torus, nic_rate: 400 Gb/s, dimensions: [4, 4], nics: 4}",
      "{kind: torus, nic_rate: 400 Gb/s, dimensions: [4, 4], nics: 4, routing: ecmp, ecmp_seed: 1}",
      "{kind: graph, nic_rate: 400 Gb/s, nics: 2, links: [{ends: [a, b], lanes: 4}, {ends: [b, c]}, {ends: [c, a]}], "
      "attach: [a, b, c, a, b, c, [a, b], [b, c], a, b, c, a, b, c, a, b]}"};
  return kFabrics;
}

double seconds(const Sets& sets) { return sim::to_seconds(simulate_step(tests::small_job(sets)).iteration); }

}  // namespace

TEST_CASE("folded and full agree on every kind of fabric and with every fault") {
  for (const std::string& fabric : fabrics()) {
    INFO(fabric);
    const Job job = tests::small_job(machine(fabric));
    CHECK(simulate_step(job).iteration == simulate_step(job, {.ranks = Question::Ranks::every}).iteration);
  }
  const std::string tree = fabrics()[0];
  for (const char* fault :
       {"perturb.lost_links=[{between: [n3 nic2, leaf u0 r2]}]", "perturb.lost_switches=[spine.0]",
        "perturb.slow_links=[{between: [leaf u1 r3, spine.1], rate: 0.1}]", "perturb.lost_switches=[leaf u2 r5]",
        "perturb.slow_links=[{between: [n5 gpu3, n5 nvswitch0], rate: 0.1}]", "perturb.background={spine: 0.7}",
        "perturb.message_jitter={sigma: 1, seed: 9}"}) {
    for (const char* routing : {"adaptive", "d_mod_k"}) {
      const Job job = tests::small_job(plus(machine(tree), {std::string("cluster.fabric.routing=") + routing, fault}));
      INFO(fault << " " << routing);
      CHECK(simulate_step(job).iteration == simulate_step(job, {.ranks = Question::Ranks::every}).iteration);
    }
  }
}

TEST_CASE("a fault never makes a step faster") {
  const Sets tree = machine("{inherits: ndr-rail, unit_nodes: 4, oversubscription: 4}");
  const double whole = seconds(tree);
  for (const char* fault :
       {"perturb.lost_links=[{between: [n3 nic2, leaf u0 r2]}]", "perturb.lost_switches=[leaf u2 r5]",
        "perturb.slow_links=[{between: [n3 nic2, leaf u0 r2], rate: 0.2}]"}) {
    INFO(fault);
    CHECK(seconds(plus(tree, {fault})) > whole);
  }
  const Sets even = machine("{inherits: ndr-rail, unit_nodes: 4}");  // two spines, of which one can be lost
  for (const char* fault :
       {"perturb.lost_switches=[spine.0]", "perturb.background={spine: 0.5}", "perturb.background={leaf: 0.1}"}) {
    INFO(fault);
    CHECK(seconds(plus(even, {fault})) >= seconds(even));
  }
}

TEST_CASE("message jitter moves times by its seed, around what it would be without") {
  const Sets tree = machine("ndr-rail");
  const double still = seconds(tree);
  const double one = seconds(plus(tree, {"perturb.message_jitter={sigma: 0.5, seed: 1}"}));
  CHECK(one != still);
  CHECK(one != seconds(plus(tree, {"perturb.message_jitter={sigma: 0.5, seed: 2}"})));
  CHECK(one == seconds(plus(tree, {"perturb.message_jitter={sigma: 0.5, seed: 1}"})));
  CHECK(seconds(plus(tree, {"perturb.message_jitter={sigma: 0, seed: 1}"})) == still);
}

TEST_CASE("more bandwidth never slows a collective") {
  std::mt19937_64 random(3);
  const Job base = tests::small_job(machine("ndr-rail"));
  for (int round = 0; round < 60; ++round) {
    const Job drawn = tests::small_job(machine(fabrics()[random() % fabrics().size()]));
    topology::FabricSpec fabric = drawn.machine.fabric, faster = drawn.machine.fabric;
    if (random() % 2 == 0) faster.nic_rate = sim::Bandwidth(fabric.nic_rate.value() * 2);
    // With faster uplinks a leaf would need fewer of them: asked for as many as before.
    const double uplink = random() % 2 == 0 ? 2.0 : 1.0;
    faster.switches.uplink_rate = sim::Bandwidth(fabric.switches.uplink_rate.value() * uplink);
    faster.tree.oversubscription =
        fabric.tree.oversubscription * faster.nic_rate.value() / fabric.nic_rate.value() / uplink;
    for (topology::FabricSpec::Edges::Edge& edge : faster.graph.edges)
      edge.rate = sim::Bandwidth(edge.rate.value() * uplink);
    const topology::Cluster before(drawn.machine.node, fabric, 128, 8, sim::Settings()),
        after(drawn.machine.node, faster, 128, 8, sim::Settings());
    std::vector<std::int64_t> gpus(16 + random() % 17 * 7);
    std::iota(gpus.begin(), gpus.end(), 0);
    const std::vector<double> sizes{1e5, 1e7, 1e9};
    for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::all_to_all}) {
      const auto slow = time_collective(op, sizes, gpus, before, base.machine.device, base.software);
      const auto fast = time_collective(op, sizes, gpus, after, base.machine.device, base.software);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        INFO("round " << round << ", " << drawn.machine.fabric.name << ", " << calibration::name_of(op) << " "
                      << sizes[i]);
        CHECK(fast[i].time <= slow[i].time);
      }
    }
  }
}
