// The links of a cluster that a job's routes load. In a folded run, where one rank stands for many, these are a few
// thousand of a cluster's millions, and its network holds no others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/network.h"
#include "topology/cluster.h"
#include "workloads/groups/perturbation.h"

namespace orrery::workloads {

/// Numbers the links of the routes anew, by their order on the cluster, and gives them their capacities. Returns by
/// new number which link it is. `network` has routes over links of the cluster, and no link yet.
std::vector<sim::LinkId> keep_loaded_links(sim::Network& network, const topology::Cluster& cluster);

/// All links of the cluster, by its own numbers, ahead of any route.
void add_all_links(sim::Network& network, const topology::Cluster& cluster);

/// Links in tier order carry what is left of their rate when a NIC is slow: every link between that NIC's GPUs and the
/// leaf. `links`: as keep_loaded_links() returned them; empty: the network has all of the cluster's.
void slow_down_nics(const Perturbation& perturbed, const topology::Cluster& cluster, std::span<const sim::LinkId> links,
                    sim::Network& network);

/// By link of the network: how many it stands for where a node stands for `of_node` ones.
std::vector<std::uint32_t> copies_of_links(std::span<const sim::LinkId> links, const topology::Cluster& cluster,
                                           std::span<const std::uint32_t> of_node);

}  // namespace orrery::workloads
