// Nodes of several kinds in one job: cluster.others, and which stage of the pipeline lies on which of them. Left out: a
// stage whose replicas lie on nodes of two kinds, which would want micro-batches shared out by speed, and nodes that
// NVLink joins.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "scenarios/library.h"
#include "scenarios/load.h"
#include "workloads/groups/placement.h"
#include "workloads/step/balanced_layers.h"

namespace orrery::scenarios {

using sim::Settings;
using workloads::Job;
using workloads::Machine;
using workloads::OtherKind;

namespace {

OtherKind load_other(const Settings& item, const Settings& fabric, const Machine& machine) {
  const Settings& reference = required(item, "device");
  const Resolved document = resolve(shelf_of("devices"), reference);
  OtherKind other;
  other.device = device_of(reference, document.document);
  other.nodes.node = topology::load_node_spec(document.document.at("node"));
  other.nodes.nic_rate = topology::load_fabric_spec(fabric, other.device.name()).nic_rate;
  const std::int64_t per_node = machine.gpus_per_node, nics = machine.fabric.nics;
  const std::int64_t gpus = required(item, "gpus").as_int(1, machine.gpus);
  if (gpus % per_node != 0)
    item.at("gpus").fail(fmt::format("got {}, expected whole nodes: a multiple of {} GPUs", gpus, per_node));
  other.nodes.nodes = gpus / per_node;
  if (!topology::wired_alike(machine.node, other.nodes.node, per_node, nics)) {
    reference.fail(
        fmt::format("got {}, whose nodes are wired otherwise than those of {}, expected a device with {} GPUs and {} "
                    "NICs behind NVSwitches in a node, or the same node",
                    other.device.name(), machine.device.name(), per_node, nics));
  }
  if (const Settings* stages = given(&item, "stages"); stages != nullptr) {
    if (!stages->is_sequence() || stages->items().empty())
      stages->fail("got no list, expected the stages on these nodes, as in [2, 3]");
    for (const Settings& stage : stages->items()) other.stages.push_back(stage.as_int());
  }
  return other;
}

/// Of a stage, what the scenario asks for: 0 where it asks for no other kind.
std::vector<std::uint8_t> kinds_asked(const Settings& document, std::int64_t pipeline,
                                      const std::vector<OtherKind>& others) {
  std::vector<std::uint8_t> kinds(static_cast<std::size_t>(pipeline), 0);
  for (std::size_t other = 0; other < others.size(); ++other) {
    for (const std::int64_t stage : others[other].stages) {
      const bool there = stage >= 0 && stage < pipeline;
      if (!there || kinds[static_cast<std::size_t>(stage)] != 0) {
        fail_at(document, "cluster.others",
                fmt::format("got stage {}, expected each of the stages 0 to {} once at most", stage, pipeline - 1));
      }
      kinds[static_cast<std::size_t>(stage)] = static_cast<std::uint8_t>(other + 1);
    }
  }
  return kinds;
}

/// Kind of every node, as the cluster numbers them.
std::vector<std::uint8_t> kinds_of_nodes(const Machine& machine) {
  std::vector<std::uint8_t> kinds;
  for (std::size_t kind = 0; kind < machine.mixture.kinds(); ++kind) {
    const std::int64_t nodes = machine.gpus_of_kind(kind) / machine.gpus_per_node;
    kinds.insert(kinds.end(), static_cast<std::size_t>(nodes), static_cast<std::uint8_t>(kind));
  }
  return kinds;
}

/// The nodes in the order in which ranks fill them, so that every stage gets those that it asks for.
std::vector<std::int64_t> nodes_by_stage(const Settings& document, const std::vector<std::uint8_t>& asked,
                                         const Machine& machine) {
  const std::vector<std::uint8_t> kinds = kinds_of_nodes(machine);
  const std::int64_t of_stage = machine.gpus / static_cast<std::int64_t>(asked.size()),
                     per_node = machine.gpus_per_node;
  std::vector<std::int64_t> next(machine.mixture.kinds(), 0), order;
  for (std::size_t kind = 1, begin = 0; kind < next.size(); ++kind) {
    begin += static_cast<std::size_t>(machine.gpus_of_kind(kind - 1) / per_node);
    next[kind] = static_cast<std::int64_t>(begin);
  }
  for (std::int64_t slot = 0; slot < static_cast<std::int64_t>(kinds.size()); ++slot) {
    const std::uint8_t kind = asked[static_cast<std::size_t>(slot * per_node / of_stage)];
    const std::int64_t node = next[kind]++;
    if (node >= static_cast<std::int64_t>(kinds.size()) || kinds[static_cast<std::size_t>(node)] != kind) {
      fail_at(document, "cluster.others",
              fmt::format("got stages that take more than the {} GPUs of {}, at {} for each stage, expected as many",
                          machine.gpus_of_kind(kind), machine.device_of_kind(kind).name(), of_stage));
    }
    order.push_back(node);
  }
  return order;
}

/// Which kind every stage lies on; refuses a stage that lies on two.
std::vector<std::uint8_t> kinds_of_stages(const Settings& document, const workloads::RankMap& ranks,
                                          const Machine& machine) {
  const std::int64_t pipeline = ranks.dims().size(workloads::Dim::pipeline);
  const std::vector<std::uint8_t> kinds = kinds_of_nodes(machine);
  std::vector<int> found(static_cast<std::size_t>(pipeline), -1);
  for (std::int64_t rank = 0; rank < ranks.ranks(); ++rank) {
    const std::int64_t stage = ranks.dims().place(rank, workloads::Dim::pipeline);
    const std::uint8_t kind = kinds[static_cast<std::size_t>(ranks.gpu_of(rank) / machine.gpus_per_node)];
    int& of_stage = found[static_cast<std::size_t>(stage)];
    if (of_stage >= 0 && of_stage != kind) {
      fail_at(
          document, "cluster.others",
          fmt::format("got stage {} of {} on nodes of {} and of {}, expected nodes of one kind for each stage of {} "
                      "GPUs (or the slower device for all of them: the faster ones wait for it)",
                      stage, pipeline, machine.device_of_kind(static_cast<std::size_t>(of_stage)).name(),
                      machine.device_of_kind(kind).name(), machine.gpus / pipeline));
    }
    of_stage = kind;
  }
  return {found.begin(), found.end()};
}

}  // namespace

void load_other_nodes(const Settings& cluster, const Settings& fabric, Job& job) {
  const Settings* list = given(&cluster, "others");
  if (list == nullptr) return;
  Machine& machine = job.machine;
  if (!list->is_sequence()) list->fail("got no list, expected one of {device, gpus, stages}");
  if (machine.fabric.gpus.nvlink_domain > 0 || machine.hosts_per_node > 1)
    list->fail(
        fmt::format("got nodes of other kinds on {}, which joins nodes by NVLink, expected a fabric that does not",
                    machine.fabric.name));
  constexpr std::size_t kMostKinds = 16;
  if (list->items().size() > kMostKinds)
    list->fail(fmt::format("got {} kinds, expected at most {}", list->items().size(), kMostKinds));
  std::int64_t sum = 0;
  for (const Settings& item : list->items()) {
    machine.mixture.others.push_back(load_other(item, fabric, machine));
    sum += machine.mixture.others.back().nodes.nodes * machine.gpus_per_node;
  }
  if (sum >= machine.gpus) {
    list->fail(fmt::format("got {} GPUs of other kinds, expected fewer than the {} of cluster.gpus, which counts all",
                           sum, machine.gpus));
  }
}

void place_kinds(const Settings& document, Job& job) {
  Machine& machine = job.machine;
  if (machine.mixed()) {
    const std::vector<std::uint8_t> asked = kinds_asked(document, job.parallelism.pipeline, machine.mixture.others);
    const bool any = std::any_of(asked.begin(), asked.end(), [](std::uint8_t kind) { return kind != 0; });
    const bool plain = job.placement.kind == workloads::Placement::Kind::order &&
                       job.placement.by == workloads::Placement::By::node &&
                       job.placement.order.back() == workloads::Dim::pipeline;
    if (any && !plain) {
      fail_at(document, "cluster.others",
              "got stages beside a placement of its own, expected one or the other, as stages order the nodes");
    }
    if (plain) job.placement.node_order = any ? nodes_by_stage(document, asked, machine) : std::vector<std::int64_t>{};
    machine.mixture.kind_of_stage = kinds_of_stages(
        document, workloads::RankMap(job.parallelism.dims(), job.placement, machine.gpus_per_node), machine);
    if (any && machine.mixture.kind_of_stage != asked) {
      fail_at(document, "cluster.others",
              fmt::format("got stages of {} GPUs that share nodes with others, expected whole nodes of {} for each",
                          machine.gpus / job.parallelism.pipeline, machine.gpus_per_node));
    }
  }
  if (machine.mixture.balances_layers) job.parallelism.stage_layers = workloads::balanced_layers(job);
}

}  // namespace orrery::scenarios
