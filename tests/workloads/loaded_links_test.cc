// A folded run's network has the links that routes load and no others, with the capacities that all links have.
#include "workloads/groups/loaded_links.h"

#include "tests/catch.h"
#include "tests/workloads/example.h"
#include "workloads/groups/groups.h"
#include "workloads/job/job_values.h"

using namespace orrery;
using namespace orrery::workloads;
using sim::LinkId;
using sim::WeightedLink;

namespace {

Job job_of_nodes(std::vector<std::string> sets) {
  sets.insert(sets.end(), {"cluster.device=h100-sxm-80gb", "cluster.gpus=64", "batch={global: 64, micro: 1}",
                           "parallelism={tensor: 4, pipeline: 2, data: 8}", "cluster.fabric=ndr-rail"});
  return tests::small_job(sets);
}

}  // namespace

TEST_CASE("links of routes are numbered anew in the cluster's order") {
  const topology::Cluster cluster = cluster_of(site_of(job_of_nodes({})));
  const auto last = static_cast<std::uint32_t>(cluster.links().size() - 1);
  sim::Network network;
  network.add_route(std::vector<WeightedLink>{{LinkId{last}, 1.0}, {LinkId{64}, 0.5}}, {});
  network.add_route(std::vector<WeightedLink>{{LinkId{63}, 2.0}, {LinkId{64}, 1.0}}, {});
  const std::vector<LinkId> links = keep_loaded_links(network, cluster);
  CHECK(links == std::vector{LinkId{63}, LinkId{64}, LinkId{last}});
  REQUIRE(network.capacity.size() == links.size());
  for (std::uint32_t l = 0; l < links.size(); ++l)
    CHECK(network.capacity[LinkId{l}] == cluster.links()[links[l]].capacity.value());
  // A route's links stand in their order.
  CHECK(network.route_links ==
        std::vector<WeightedLink>{{LinkId{1}, 0.5}, {LinkId{2}, 1.0}, {LinkId{0}, 2.0}, {LinkId{1}, 1.0}});
  const std::uint32_t of_node = cluster.links_of_node();
  REQUIRE(of_node > 0);
  std::vector<std::uint32_t> copies(static_cast<std::size_t>(cluster.nodes()), 0);
  copies[63 / of_node] = 5;
  CHECK(
      copies_of_links(links, cluster, copies) ==
      std::vector<std::uint32_t>{5, 64 / of_node == 63 / of_node ? 5u : 0u, last / of_node < copies.size() ? 0u : 1u});
}

TEST_CASE("a slow NIC is as slow where only loaded links are there") {
  for (const char* slow : {"perturb={slow_nics: [{node: 3, nic: 1, rate: 0.5}]}", "perturb={jitter: {sigma: 0.01}}"}) {
    INFO(slow);
    const Job job = job_of_nodes({slow});
    const topology::Cluster cluster = cluster_of(site_of(job));
    const GroupInputs inputs = group_inputs_of(job);
    const auto all = make_groups(inputs, cluster), part = make_groups(inputs, cluster, true);
    CHECK(part->folded.network.capacity.rows() == all->folded.network.capacity.rows());
    CHECK(part->folded.network.route_links == all->folded.network.route_links);
    CHECK(part->folded.link_representative == all->folded.link_representative);
  }
}
