// Which links routes load, as a set of bits with the count of those ahead of every word, so that a number is found in
// two look-ups and the cluster's other links cost a bit each. See loaded_links.h.
#include "workloads/groups/loaded_links.h"

#include <algorithm>
#include <bit>

namespace orrery::workloads {

using sim::LinkId;

std::vector<LinkId> keep_loaded_links(sim::Network& network, const topology::Cluster& cluster) {
  constexpr std::size_t kBits = 64;
  const topology::LinkTable& all = cluster.links();
  std::vector<std::uint64_t> loaded(all.size() / kBits + 1);
  for (const sim::WeightedLink& link : network.route_links)
    loaded[sim::index(link.link) / kBits] |= std::uint64_t{1} << sim::index(link.link) % kBits;
  std::vector<LinkId> links;
  std::vector<std::uint32_t> ahead;  // by word
  ahead.reserve(loaded.size());
  for (std::size_t word = 0; word < loaded.size(); ++word) {
    ahead.push_back(static_cast<std::uint32_t>(links.size()));
    for (std::uint64_t left = loaded[word]; left != 0; left &= left - 1)
      links.push_back(
          LinkId{static_cast<std::uint32_t>(word * kBits) + static_cast<std::uint32_t>(std::countr_zero(left))});
  }
  network.capacity.reserve(links.size());
  for (const LinkId link : links) network.capacity.push_back(all[link].capacity.value());
  for (sim::WeightedLink& link : network.route_links) {
    const std::size_t word = sim::index(link.link) / kBits, bit = sim::index(link.link) % kBits;
    const std::uint64_t below = loaded[word] & ((std::uint64_t{1} << bit) - 1);
    link.link = LinkId{ahead[word] + static_cast<std::uint32_t>(std::popcount(below))};
  }
  return links;
}

void add_all_links(sim::Network& network, const topology::Cluster& cluster) {
  const topology::LinkTable& links = cluster.links();
  network.capacity.rows().reserve(links.size());
  for (const topology::LinkInfo& link : links) network.capacity.push_back(link.capacity.value());
}

void slow_down_nics(const Perturbation& perturbed, const topology::Cluster& cluster, std::span<const LinkId> links,
                    sim::Network& network) {
  if (network.capacity.empty()) return;  // nothing is loaded
  for (const auto& slow : perturbed.slow_nics) {
    for (const LinkId link : cluster.nic_links(slow.node, slow.nic)) {
      const auto place = std::lower_bound(links.begin(), links.end(), link);
      if (links.empty())
        network.capacity[link] *= slow.rate;
      else if (place != links.end() && *place == link)
        network.capacity[LinkId{static_cast<std::uint32_t>(place - links.begin())}] *= slow.rate;
    }
  }
}

std::vector<std::uint32_t> copies_of_links(std::span<const LinkId> links, const topology::Cluster& cluster,
                                           std::span<const std::uint32_t> of_node) {
  std::vector<std::uint32_t> copies;
  copies.reserve(links.size());
  for (const LinkId link : links) {
    const std::int64_t node = cluster.node_of_link(link);
    copies.push_back(node < cluster.nodes() ? of_node[static_cast<std::size_t>(node)] : 1);
  }
  return copies;
}

}  // namespace orrery::workloads
