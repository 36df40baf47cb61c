// Do the algorithms take their closed form on an idle network, over sizes, groups and topologies, do they obey the laws
// that any collective obeys, and is the choice among them NCCL's?
#include <fmt/format.h>

#include <cmath>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/collectives/catalogue.h"
#include "workloads/collectives/collective.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

constexpr double kKiB = 1024, kMiB = 1024 * kKiB;

/// A cluster and a group on it: `per_node` GPUs of each of the first `nodes` nodes.
struct Setting {
  std::string fabric;
  std::int64_t nodes, per_node;
  Job job;
  topology::Cluster cluster;
  std::vector<std::int64_t> gpus;

  Setting(const std::string& fabric_name, std::int64_t node_count, std::int64_t members,
          const std::string& device = "h100-sxm-80gb")
      : fabric(fabric_name),
        nodes(node_count),
        per_node(members),
        job(tests::small_job({"cluster.fabric=" + fabric, "cluster.device=" + device,
                              fmt::format("cluster.gpus={}", 8 * nodes), fmt::format("parallelism.data={}", 2 * nodes),
                              fmt::format("batch.global={}", 16 * nodes)})),
        cluster(job.machine.node, job.machine.fabric, 8 * nodes, 8, sim::Settings()) {
    for (std::int64_t node = 0; node < nodes; ++node)
      for (std::int64_t g = 0; g < per_node; ++g) gpus.push_back(8 * node + g);
  }

  double n() const { return static_cast<double>(nodes * per_node); }
  double m() const { return static_cast<double>(nodes); }
  double g() const { return static_cast<double>(per_node); }
  double levels() const { return std::ceil(std::log2(m())); }
  /// The NICs of a node that the group leaves through: those of its members.
  double rails() const {
    std::int64_t rails = 1;
    for (std::int64_t i = 1; i < per_node; ++i) rails += cluster.nic_of(i) != cluster.nic_of(i - 1) ? 1 : 0;
    return static_cast<double>(rails);
  }
  double rate() const { return rails() * job.machine.fabric.nic_rate.value() * job.machine.fabric.efficiency; }
  double path(std::int64_t a, std::int64_t b) const { return sim::to_seconds(cluster.path(8 * a, 8 * b).latency); }
  double around() const {
    double sum = 0;
    for (std::int64_t i = 0; i < nodes; ++i) sum += path(i, (i + 1) % nodes);
    return sum;
  }
  double longest() const {
    double most = 0;
    for (std::int64_t i = 0; i < nodes; ++i) most = std::max(most, path(i, (i + 1) % nodes));
    return most;
  }
  double inside(CollectiveOp op, double bytes) const {
    return sim::to_seconds(
        job.machine.device.node_collective(op, per_node, sim::Bytes(static_cast<std::int64_t>(bytes))).total());
  }
  /// bytes/s along a chain inside the node.
  double chain_rate() const {
    return job.machine.device.node_collective(CollectiveOp::all_gather, per_node, sim::Bytes(1 << 30)).rate.value();
  }
  /// Bytes of a long buffer per second that the switch of a full node reduces: the profile's all-reduce in a node.
  double switch_rate() const {
    const auto node = job.machine.device.node_collective(CollectiveOp::all_reduce, 8, sim::Bytes(1 << 30));
    return node.rate.value() * (1 << 30) / node.wire_bytes;
  }
  double seconds(CollectiveOp op, double bytes, std::string_view algorithm) const {
    return sim::to_seconds(
        time_collective(op, std::vector<double>{bytes}, gpus, cluster, job.machine.device, job.software, algorithm)[0]
            .time);
  }
  std::string_view chosen(CollectiveOp op, double bytes) const {
    return time_collective(op, std::vector<double>{bytes}, gpus, cluster, job.machine.device, job.software)[0]
        .algorithm;
  }
};

/// Fabrics on which nothing above the NICs can be short: rail-optimised fat trees of two and three tiers, one switch
/// with as many NICs as GPUs, one with half as many.
std::vector<std::string> fabrics() {
  return {"ndr-rail", "selene-hdr", "{kind: single_switch, nics: 8, nic_rate: 100 Gb/s, nic_latency: 3 us}",
          "{kind: single_switch, nics: 4, nic_rate: 200 Gb/s, efficiency: 0.9}"};
}

template <typename Check>
void everywhere(const Check& check) {
  for (const std::string& fabric : fabrics())
    for (const std::int64_t nodes : {2, 3, 4, 8, 33})
      for (const std::int64_t members : {1, 4, 8}) {
        INFO(fabric << ", " << members << " GPUs of each of " << nodes << " nodes");
        check(Setting(fabric, nodes, members));
      }
}

}  // namespace

TEST_CASE("rings take base + stages + share of the buffer over the rate, under each protocol") {
  struct Costs {
    const char* name;
    double base, node, net, share;
  };
  everywhere([](const Setting& s) {
    const auto& own = s.job.software.library;
    const Costs simple{"ring Simple", sim::to_seconds(own.collective_base), sim::to_seconds(own.collective_step_node),
                       sim::to_seconds(own.collective_step_ring), 1};
    for (const Costs& c :
         {Costs{"ring LL", 6.6e-6, 0.6e-6, 2.7e-6, 0.5}, Costs{"ring LL128", 14e-6, 1.9e-6, 4e-6, 120.0 / 128}, simple})
      for (const double bytes : {1e3, 1e6, 1e9})
        for (const CollectiveOp op :
             {CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::reduce_scatter}) {
          const double passes = op == CollectiveOp::all_reduce ? 2 : 1;
          const double expected = c.base + passes * (s.m() * c.net + s.around() + (s.n() - s.m()) * c.node +
                                                     (s.n() - 1) / s.n() * bytes / (s.rate() * c.share));
          CHECK(s.seconds(op, bytes, c.name) == Approx(expected).epsilon(1e-7));
        }
  });
}

TEST_CASE("the gap between messages holds a ring back once a part, and only where a network is in it") {
  const auto gapped = [](const char* gap, std::int64_t nodes, std::int64_t members) {
    return Setting(std::string("{inherits: ndr-rail, message_gap: ") + gap + "}", nodes, members);
  };
  for (const char* protocol : {"ring LL", "ring LL128", "ring Simple"})
    for (const std::int64_t nodes : {2, 3, 8})
      for (const std::int64_t members : {1, 8})
        for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather}) {
          INFO(protocol << ", " << members << " GPUs of each of " << nodes << " nodes");
          const double passes = op == CollectiveOp::all_reduce ? 2 : 1;
          const double parts = static_cast<double>(nodes * members - 1);
          const double without = gapped("0 s", nodes, members).seconds(op, 1e8, protocol);
          const double with = gapped("40 us", nodes, members).seconds(op, 1e8, protocol);
          CHECK(with - without == Approx(passes * parts * 40e-6).epsilon(1e-6));
        }
  for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather})
    CHECK(gapped("40 us", 1, 8).seconds(op, 1e8, "auto") == gapped("0 s", 1, 8).seconds(op, 1e8, "auto"));
}

TEST_CASE("a double binary tree is a pipeline: (stages + chunks - 1) chunk times and the latency of each stage once") {
  everywhere([](const Setting& s) {
    const double stages = 2 * s.levels(), chain = 2 * (s.g() - 1), channels = 2 * s.rails();
    // Of two nodes each sends half of the buffer up one tree and half of it down the other.
    const double sent = s.nodes == 2 ? 1 : 2;
    const double chain_rate = chain > 0 ? s.chain_rate() : 1;
    // Below 32 KiB per channel LL sends everything as one chunk, which every stage holds before it sends it on.
    for (const double bytes : {64.0, 1e4, 3e4}) {
      const double expected = 6.8e-6 + chain * (0.6e-6 + bytes / (0.5 * chain_rate)) + stages * (6.8e-6 + s.longest()) +
                              (stages - 2 + sent) * bytes / (0.5 * s.rate());
      CHECK(s.seconds(CollectiveOp::all_reduce, bytes, "tree LL") == Approx(expected).epsilon(1e-6));
    }
    // Simple's chunks of 512 KiB stay whole when there are at least eight for every stage of depth.
    const double depth = s.g() - 1 + std::floor(std::log2(s.m()));
    const double bytes = 16 * (depth + 1) * channels * 512 * kKiB, chunk = channels * 512 * kKiB;
    const auto& own = s.job.software.library;
    const double expected = sim::to_seconds(own.collective_base) +
                            chain * (sim::to_seconds(own.collective_step_node) + chunk / chain_rate) +
                            stages * (sim::to_seconds(own.collective_step_tree) + s.longest()) +
                            ((stages - 2) * chunk + sent * bytes) / s.rate();
    CHECK(s.seconds(CollectiveOp::all_reduce, bytes, "tree Simple") == Approx(expected).epsilon(1e-6));
  });
}

namespace {
/// NCCL's rules, in whole KiB: a chunk is halved while fewer of it than `chunks` make up a channel's part.
double halved(double part, double chunk, std::initializer_list<std::pair<double, double>> rules) {
  for (const auto& [chunks, least] : rules) {
    while (static_cast<std::int64_t>(part / chunk) < static_cast<std::int64_t>(std::ceil(chunks)) &&
           chunk > least * kKiB)
      chunk /= 2;
  }
  return std::min(chunk, part);
}
}  // namespace

TEST_CASE("chunks of a tree are halved until enough of them fill the pipe, down to each rule's least") {
  everywhere([](const Setting& s) {
    const double stages = 2 * s.levels(), chain = 2 * (s.g() - 1), channels = 2 * s.rails();
    const double sent = s.nodes == 2 ? 1 : 2, depth = std::floor(std::log2(s.m()));
    const double chain_rate = chain > 0 ? s.chain_rate() : 1;
    const auto& own = s.job.software.library;
    const double base = sim::to_seconds(own.collective_base), node = sim::to_seconds(own.collective_step_node);
    const double net = sim::to_seconds(own.collective_step_tree);
    for (double part = 8 * kKiB; part < 2048 * kMiB; part *= 1.37) {
      const double bytes = std::floor(part) * channels;
      const auto expected = [&](double begin, double in_node, double between, double chunk, double share) {
        const double piece = chunk * channels;
        return begin + chain * (in_node + (chain > 0 ? piece / (share * chain_rate) : 0)) +
               stages * (between + s.longest()) + ((stages - 2) * piece + sent * bytes) / (share * s.rate());
      };
      const double filled = 1 + depth + 0.1 * s.g();
      const double ll128 =
          halved(std::floor(part), 576 * kKiB, {{filled * 64 / s.g(), 128}, {filled * 16 / s.g(), 32}});
      const double whole = s.g() - 1 + depth;
      const double simple = halved(std::floor(part), 512 * kKiB, {{whole * 8, 128}, {whole * 4, 64}, {whole, 32}});
      INFO(bytes << " bytes");
      CHECK(s.seconds(CollectiveOp::all_reduce, bytes, "tree LL128") ==
            Approx(expected(14e-6, 1.25e-6, 8.5e-6, ll128, 120.0 / 128)).epsilon(1e-6));
      CHECK(s.seconds(CollectiveOp::all_reduce, bytes, "tree Simple") ==
            Approx(expected(base, node, net, simple, 1)).epsilon(1e-6));
      CHECK(s.seconds(CollectiveOp::all_reduce, bytes, "tree LL") ==
            Approx(expected(6.8e-6, 0.6e-6, 6.8e-6, std::min(std::floor(part), 32 * kKiB), 0.5)).epsilon(1e-6));
    }
  });
}

TEST_CASE("NVLS with a tree: chunks over sixteen channels and eight heads, two stages a level") {
  for (const std::string& fabric : fabrics())
    for (const std::int64_t nodes : {2, 4, 16, 33}) {
      INFO(fabric << ", " << nodes << " nodes");
      const Setting s(fabric, nodes, 8);
      const double stages = 2 * s.levels(), pipes = 16 * 8, sent = nodes == 2 ? 1 : 2;
      for (const double bytes : {1 * kMiB, 4 * kMiB, 64 * kMiB, 16384 * kMiB}) {
        const double most = nodes >= 4 ? 64 * kKiB : bytes < 64 * kMiB ? 64 * kKiB : 128 * kKiB;
        const double chunk = std::min(bytes < 8 * kMiB ? 32 * kKiB : most, bytes / pipes);
        const double rate = std::min(s.rate(), s.switch_rate() * sent);
        const double expected =
            25e-6 + stages * (20.9e-6 + s.longest()) + (stages - 2) * chunk * pipes / s.rate() + sent * bytes / rate;
        CHECK(s.seconds(CollectiveOp::all_reduce, bytes, "nvls_tree") == Approx(expected).epsilon(1e-6));
      }
    }
}

TEST_CASE("SHARP sends the buffer once, whatever the number of nodes, where the node's switch keeps up") {
  everywhere([](const Setting& s) {
    const double node = s.per_node > 1 ? 2 * (3.7e-6 + 0.4e-6 * (s.g() - 1)) : 0;
    const double rate = s.per_node == 8 ? std::min(s.rate(), s.switch_rate()) : s.rate();
    for (const double bytes : {1e3, 1e8})
      CHECK(s.seconds(CollectiveOp::all_reduce, bytes, "sharp") ==
            Approx(31e-6 + node + s.longest() + bytes / rate).epsilon(1e-6));
  });
}

TEST_CASE("two levels take what the node takes and what one rank per rail takes between nodes") {
  everywhere([](const Setting& s) {
    const auto& own = s.job.software.library;
    const double base = sim::to_seconds(own.collective_base), net = sim::to_seconds(own.collective_step_ring);
    const double tree = sim::to_seconds(own.collective_step_tree);
    for (const double bytes : {1e6, 1e9}) {
      const double gather = s.inside(CollectiveOp::all_gather, bytes);
      const double scatter = s.inside(CollectiveOp::reduce_scatter, bytes);
      const double once = s.m() * net + s.around() + (s.m() - 1) / s.m() * bytes / s.rate();
      CHECK(s.seconds(CollectiveOp::all_gather, bytes, "hierarchical_ring") ==
            Approx(gather + base + once).epsilon(1e-6));
      CHECK(s.seconds(CollectiveOp::reduce_scatter, bytes, "hierarchical_ring") ==
            Approx(scatter + base + once).epsilon(1e-6));
      CHECK(s.seconds(CollectiveOp::all_reduce, bytes, "hierarchical_ring") ==
            Approx(scatter + gather + base + 2 * once).epsilon(1e-6));
      const double sent = s.nodes == 2 ? 1 : 2;
      CHECK(s.seconds(CollectiveOp::all_reduce, bytes, "hierarchical_tree") ==
            Approx(scatter + gather + base + 2 * s.levels() * (tree + s.longest()) + sent * bytes / s.rate())
                .epsilon(1e-6));
    }
  });
}

TEST_CASE("exchanges send each part once; by way of the node's rails each GPU posts one message to a node") {
  for (const std::string& fabric : {fabrics()[0], fabrics()[2]})
    for (const std::int64_t nodes : {2, 4, 16}) {
      INFO(fabric << ", " << nodes << " nodes");
      Setting s(fabric, nodes, 8);
      const double base = sim::to_seconds(s.job.software.library.collective_base);
      double farthest = 0;
      for (std::int64_t i = 1; i < nodes; ++i) farthest = std::max(farthest, s.path(0, i));
      for (const double bytes : {1e5, 1e9}) {
        // A GPU's NIC carries the parts of the n - 8 others outside of its node.
        const double wire = (s.n() - 8) / s.n() * bytes / (s.rate() / 8);
        CHECK(s.seconds(CollectiveOp::all_to_all, bytes, "pairwise") ==
              Approx(base + (s.n() - 8) * 1e-6 + farthest + wire).epsilon(1e-6));
        CHECK(s.seconds(CollectiveOp::all_to_all, bytes, "hierarchical_exchange") ==
              Approx(base + (s.m() - 1) * 1e-6 + s.inside(CollectiveOp::all_to_all, bytes) + farthest + wire)
                  .epsilon(1e-6));
      }
      // A library that reaches half of a NIC's rate takes twice as long between nodes.
      s.job.software.library.exchange_share = 0.5;
      CHECK(s.seconds(CollectiveOp::all_to_all, 1e9, "pairwise") ==
            Approx(base + (s.n() - 8) * 1e-6 + farthest + (s.n() - 8) / s.n() * 1e9 / (0.5 * s.rate() / 8))
                .epsilon(1e-6));
    }
}

TEST_CASE("a copy goes to each rank alike where nobody chooses experts") {
  GroupShape shape;
  shape.ranks = 16;
  shape.nodes = 2;
  shape.per_node = 8;
  shape.exchange.once = true;
  CHECK(exchange_load(shape).inside == 7.0 / 16);
  CHECK(exchange_load(shape).between == 8.0 / 16);
}

TEST_CASE("a broadcast is a chain of all ranks, along which chunks follow each other") {
  everywhere([](const Setting& s) {
    const auto& own = s.job.software.library;
    const double chunk = 2 * s.rails() * 512 * kKiB, inside = s.n() - s.m();
    for (const double bytes : {1e5, 1e9}) {
      const double piece = std::min(bytes, chunk);
      double expected = sim::to_seconds(own.collective_base) + (s.m() - 1) * sim::to_seconds(own.collective_step_ring) +
                        s.around() + inside * sim::to_seconds(own.collective_step_node) +
                        ((s.m() - 2) * piece + bytes) / s.rate();
      if (inside > 0) expected += inside * piece / s.chain_rate();
      CHECK(s.seconds(CollectiveOp::broadcast, bytes, "chain") == Approx(expected).epsilon(1e-6));
    }
  });
}

TEST_CASE("of a broadcast's three ranks on two nodes one hands its chunks on inside its node") {
  const Setting s("ndr-rail", 2, 2);
  GroupShape shape;
  shape.ranks = 3;
  shape.nodes = shape.per_node = 2;
  const Call call{CollectiveOp::broadcast, 1e9, shape, 100e9, 400e9, s.job.machine.device, s.job.software};
  const auto& own = s.job.software.library;
  const double base = sim::to_seconds(own.collective_base), net = sim::to_seconds(own.collective_step_ring),
               node = sim::to_seconds(own.collective_step_node), chunk = 2 * 512 * kKiB / s.chain_rate();
  const Algorithm& chain = choose(call, "chain");
  CHECK(chain.estimate(call, protocols()[2]).latency == Approx(base + net + node + chunk));
  // Half of what LL sends is data, of LL128 120 of 128 bytes.
  CHECK(chain.estimate(call, protocols()[0]).latency == Approx(6.6e-6 + 2.7e-6 + 0.6e-6 + 2 * chunk));
  CHECK(chain.estimate(call, protocols()[1]).latency == Approx(14e-6 + 4e-6 + 1.9e-6 + chunk * 128 / 120));
}

TEST_CASE("no collective gets slower with a faster network, whatever runs it") {
  for (const std::string_view name : {"ring LL", "ring LL128", "ring Simple", "tree LL", "tree LL128", "tree Simple",
                                      "nvls_tree", "sharp", "hierarchical_ring", "hierarchical_tree"})
    for (const double bytes : {1e3, 1e6, 1e9}) {
      double before = 1e300;
      for (const int gigabits : {50, 100, 200, 400, 800}) {
        const Setting s(fmt::format("{{inherits: ndr-rail, nic_rate: {0} Gb/s, uplink_rate: {0} Gb/s}}", gigabits), 8,
                        8);
        const double t = s.seconds(CollectiveOp::all_reduce, bytes, name);
        INFO(name << ", " << bytes << " bytes, " << gigabits << " Gb/s");
        CHECK(t <= before);
        before = t;
      }
    }
}

TEST_CASE(
    "of one algorithm and protocol, more bytes and more nodes take longer; only the choice between them may not") {
  for (const std::string_view name : {"ring LL", "ring LL128", "ring Simple", "tree LL", "tree LL128", "tree Simple",
                                      "nvls_tree", "hierarchical_ring", "hierarchical_tree"}) {
    for (const double bytes : {1e4, 1e6, 1e8}) {
      double before = 0;
      for (const std::int64_t nodes : {2, 4, 8, 16, 32, 64, 128}) {
        const Setting s("ndr-rail", nodes, 8);
        const double t = s.seconds(CollectiveOp::all_reduce, bytes, name);
        INFO(name << ", " << bytes << " bytes, " << nodes << " nodes");
        // NCCL halves the chunks of these trees as they get deeper, so that one more level can cost less than it saves.
        if (name != "tree LL128" && name != "tree Simple") CHECK(t > before);
        CHECK(s.seconds(CollectiveOp::all_reduce, 2 * bytes, name) > t);
        before = t;
      }
    }
  }
}

TEST_CASE("the bandwidth of NVLS trees falls with the nodes by the stages alone: as much time for each doubling") {
  const double bytes = 64 * kMiB;
  std::vector<double> seconds;
  for (const std::int64_t nodes : {4, 8, 16, 32}) {
    const Setting s("ndr-rail", nodes, 8);
    seconds.push_back(s.seconds(CollectiveOp::all_reduce, bytes, kAuto));
    CHECK(s.chosen(CollectiveOp::all_reduce, bytes) == "nvls_tree");
  }
  const Setting s("ndr-rail", 4, 8);
  // Two more stages, each with a chunk of 64 KiB in 16 channels at each of the eight NICs.
  const double expected = 2 * (20.9e-6 + s.longest() + 16 * 64 * kKiB / (s.rate() / 8));
  for (std::size_t i = 1; i < seconds.size(); ++i) CHECK(seconds[i] - seconds[i - 1] == Approx(expected).epsilon(1e-6));
}

TEST_CASE("NCCL's choice: latency first, bandwidth later, and only what the software may use") {
  Setting s("selene-hdr", 16, 8, "a100-sxm-80gb");
  CHECK(s.chosen(CollectiveOp::all_reduce, 8) == "tree LL");
  CHECK(s.chosen(CollectiveOp::all_reduce, 1 * kMiB) == "tree LL128");
  CHECK(s.chosen(CollectiveOp::all_reduce, 16384 * kMiB) == "ring Simple");  // NCCL holds a tree for 8 % slower
  CHECK(s.chosen(CollectiveOp::all_gather, 8) == "ring LL");
  CHECK(s.chosen(CollectiveOp::all_gather, 16384 * kMiB) == "ring Simple");
  const auto only = [&](calibration::CollectiveAlgorithm a) {
    s.job.software.library.collective_algorithms = {};
    s.job.software.library.collective_algorithms.add(a);
  };
  using enum calibration::CollectiveAlgorithm;
  only(sharp);
  CHECK(s.chosen(CollectiveOp::all_reduce, 1e9) == "sharp");
  CHECK(s.chosen(CollectiveOp::all_gather, 1e9).substr(0, 4) == "ring");  // nothing else can
  CHECK(s.chosen(CollectiveOp::all_to_all, 1e9) == "pairwise");
  only(hierarchical_ring);
  CHECK(s.chosen(CollectiveOp::all_gather, 1e9) == "hierarchical_ring");
  Setting uneven("ndr-rail", 4, 8);
  CHECK(uneven.chosen(CollectiveOp::all_reduce, 1e9) == "nvls_tree");
  uneven.gpus.pop_back();
  CHECK(uneven.chosen(CollectiveOp::all_reduce, 1e9) != "nvls_tree");  // it pairs GPUs at the same place of every node
  only(nvls_tree);                                                     // A100's switch does not reduce
  CHECK(s.chosen(CollectiveOp::all_reduce, 1e9).substr(0, 4) == "ring");
}

TEST_CASE("of algorithms that take as long the first of the catalogue is chosen") {
  // With one GPU in a node the way by the node's rails is the direct one: as many messages, nothing inside a node.
  Setting s("ndr-rail", 4, 1);
  using enum calibration::CollectiveAlgorithm;
  s.job.software.library.collective_algorithms = {};
  s.job.software.library.collective_algorithms.add(pairwise);
  s.job.software.library.collective_algorithms.add(hierarchical_exchange);
  REQUIRE(s.seconds(CollectiveOp::all_to_all, 1e6, "pairwise") ==
          s.seconds(CollectiveOp::all_to_all, 1e6, "hierarchical_exchange"));
  CHECK(s.chosen(CollectiveOp::all_to_all, 1e6) == "pairwise");
}

TEST_CASE("what NCCL believes of a ring is its tuning model, with the plateau of Simple all-reduces") {
  // NVIDIA/nccl, src/graph/tuning.cc: base + steps inside nodes + steps between them, 1.4 times that for all-reduces by
  // Simple; then the ranks' parts at the line rate, of which LL has half and at most 22.5 GB/s between two nodes.
  const Setting s("ndr-rail", 2, 8);
  const GroupShape shape = shape_of(s.gpus, s.cluster);
  constexpr double kLine = 400e9, kBytes = 1e6;
  const auto believed = [&](CollectiveOp op, std::size_t protocol) {
    const Call call{op, kBytes, shape, s.rate(), kLine, s.job.machine.device, s.job.software};
    return believed_ring(call, protocols()[protocol]);
  };
  const double part = kBytes / 16;
  // A stage over NVLink is 0.6, 1.9 and 3.4 us, but no less than 1, 1 and 3 us to post it; over the network 2.7, 4 and
  // 14 us with one, one and two NIC latencies of 0.6 us.
  const double gather_ll = 6.6e-6 + 14 * 1e-6 + 1 * 3.3e-6 + 15 * part / 22.5e9;
  const double gather_ll128 = 14e-6 + 14 * 1.9e-6 + 1 * 4.6e-6 + 15 * part / (0.92 * kLine);
  const double gather_simple = 8.4e-6 + 14 * 3.4e-6 + 1 * 15.2e-6 + 15 * part / kLine;
  CHECK(believed(CollectiveOp::all_gather, 0) == Approx(gather_ll).epsilon(1e-12));
  CHECK(believed(CollectiveOp::all_gather, 1) == Approx(gather_ll128).epsilon(1e-12));
  CHECK(believed(CollectiveOp::all_gather, 2) == Approx(gather_simple).epsilon(1e-12));
  CHECK(believed(CollectiveOp::reduce_scatter, 2) == Approx(gather_simple).epsilon(1e-12));
  const double reduce_simple = 1.4 * (8.4e-6 + 28 * 3.4e-6 + 2 * 15.2e-6) + 30 * part / kLine;
  const double reduce_ll = 6.6e-6 + 28 * 1e-6 + 2 * 3.3e-6 + 30 * part / 22.5e9;
  CHECK(believed(CollectiveOp::all_reduce, 2) == Approx(reduce_simple).epsilon(1e-12));
  CHECK(believed(CollectiveOp::all_reduce, 0) == Approx(reduce_ll).epsilon(1e-12));
}

TEST_CASE("what NCCL believes of a ring by LL: half of a slow line, 22.5 GB/s between two nodes and 19 between more") {
  for (const std::int64_t nodes : {2, 3}) {
    const Setting s("ndr-rail", nodes, 8);
    const GroupShape shape = shape_of(s.gpus, s.cluster);
    for (const double line : {10e9, 40e9, 400e9}) {
      const Call call{CollectiveOp::all_gather, 1e6, shape, s.rate(), line, s.job.machine.device, s.job.software};
      const double rate = std::min(line / 2, nodes == 2 ? 22.5e9 : 19e9);
      const double expected = 6.6e-6 + (s.n() - s.m()) * 1e-6 + (s.m() - 1) * 3.3e-6 + (s.n() - 1) / s.n() * 1e6 / rate;
      CHECK(believed_ring(call, protocols()[0]) == Approx(expected).epsilon(1e-12));
    }
  }
}

TEST_CASE("what NCCL believes of a tree is its tuning model, corrected for each power of two of the size") {
  // NVIDIA/nccl, src/graph/tuning.cc: treeCorrectionFactor in tenths, from 64 bytes on; below, and from 512 MiB on,
  // none.
  constexpr int kTenths[3][23] = {{10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5, 4, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10},
                                  {10, 10, 10, 10, 10, 9, 8, 8, 8, 7, 6, 6, 6, 6, 6, 6, 8, 9, 9, 9, 9, 10, 10},
                                  {9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 6, 5, 5, 5, 5, 6, 7, 8, 7, 7, 8, 9, 9}};
  struct Costs {
    double base, node, net;
  };
  constexpr Costs kCosts[3] = {
      {6.8e-6, 0.6e-6, 6.8e-6 + 0.6e-6}, {14e-6, 1.25e-6, 8.5e-6 + 0.6e-6}, {8.4e-6, 4e-6, 14e-6 + 1.2e-6}};
  for (const char* device : {"h100-sxm-80gb", "a100-sxm-80gb"})
    for (const std::int64_t nodes : {2, 5})
      for (const double line : {50e9, 400e9, 3200e9}) {  // of a node: the slow line holds, or channels do
        const Setting s("ndr-rail", nodes, 8, device);
        const GroupShape shape = shape_of(s.gpus, s.cluster);
        const bool hopper = device[0] == 'h', two = nodes == 2;
        const double channels = 16;
        const double rate =
            std::min(0.92 * line, channels * (hopper ? (two ? 41.4e9 : 36e9) : (two ? 23.6e9 : 17.8e9)));
        const double rates[3] = {std::min(rate / 3.8, two ? 22.5e9 : 19e9),
                                 std::min(rate * 120 / 128, channels * (hopper ? (two ? 36.7e9 : 29e9) : 20e9)), rate};
        for (std::size_t protocol = 0; protocol < 3; ++protocol)
          for (int power = -2; power < 26; ++power)
            for (const double part : {1.0, 1.9}) {  // the table goes by the power below
              const double bytes = part * std::ldexp(64, power);
              const bool corrected = power >= 0 && power < 23;
              const double tenths = corrected ? kTenths[protocol][power] : 10;
              const Costs& c = kCosts[protocol];
              const double latency = c.base + 2 * (7 * c.node + std::floor(std::log2(s.m())) * c.net);
              const Call call{CollectiveOp::all_reduce, bytes,         shape, s.rate(), line,
                              s.job.machine.device,     s.job.software};
              INFO(device << ", " << nodes << " nodes, " << line << " bytes/s, protocol " << protocol << ", 2^"
                          << power);
              CHECK(believed_tree(call, protocols()[protocol]) ==
                    Approx(latency + 20 * bytes / (tenths * rates[protocol])).epsilon(1e-6));
            }
      }
}

TEST_CASE("an estimate's path is travelled once, round the nodes once, or twice, as its pattern says") {
  const Setting s("ndr-rail", 4, 8);
  const GroupShape shape = shape_of(s.gpus, s.cluster);
  const Call call{CollectiveOp::all_reduce, 1e6, shape, 100e9, 400e9, s.job.machine.device, s.job.software};
  const double hop = sim::to_seconds(shape.hop);
  REQUIRE(hop > 0);
  CHECK(seconds_of({1e-3, 1e9, 0, Pattern::around}, call) == Approx(1e-3 + 4 * hop + 1e9 / 100e9));
  CHECK(seconds_of({1e-3, 1e9, 0, Pattern::twice}, call) == Approx(1e-3 + 8 * hop + 1e9 / 100e9));
  CHECK(seconds_of({1e-3, 1e9, 50e9, Pattern::around}, call) == Approx(1e-3 + 4 * hop + 1e9 / 50e9));
  CHECK(seconds_of({1e-3, 1e9, 200e9, Pattern::around}, call) == Approx(1e-3 + 4 * hop + 1e9 / 100e9));
}

TEST_CASE("whatever is chosen sends no less than the bound says") {
  for (const std::int64_t nodes : {2, 3, 16}) {
    Setting s("ndr-rail", nodes, 8);
    const GroupShape shape = shape_of(s.gpus, s.cluster);
    for (std::uint32_t bits = 1; bits < 1U << calibration::kCollectiveAlgorithms.size(); ++bits) {
      s.job.software.library.collective_algorithms.bits = bits;
      for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::reduce_scatter})
        for (const double bytes : {1e3, 1e7, 1e10}) {
          const CollectiveCost cost =
              collective_cost(op, bytes, shape, s.job.machine.device, s.job.software, s.cluster);
          CHECK(cost.work >= least_bytes_between_nodes(op, bytes, shape, s.job.software) * (1 - 1e-12));
          CHECK(cost.latency.value() > 0);
        }
    }
  }
}

TEST_CASE("a cap of any rate but nothing holds a call back, even one below a byte a second") {
  const Setting s("ndr-rail", 2, 8);
  GroupShape shape;
  const Call call{CollectiveOp::all_reduce, 1e6, shape, 100, 400e9, s.job.machine.device, s.job.software};
  Estimate estimate{.latency = 3, .work = 50, .rate_cap = 0, .pattern = Pattern::own};
  for (const auto& [cap, rate] : {std::pair(0.0, 100.0), {0.5, 0.5}, {1.0, 1.0}, {99.0, 99.0}, {101.0, 100.0}}) {
    estimate.rate_cap = cap;
    CHECK(seconds_of(estimate, call) == Approx(3 + 50 / rate));
  }
}
