// Routes between attention groups. See handover_ways.h.
#include "workloads/step/handover_ways.h"

#include <algorithm>
#include <set>
#include <utility>

namespace orrery::workloads {

HandoverWays::HandoverWays(topology::Cluster cluster, const Pool& from, const Pool& to, std::int64_t first)
    : cluster_(std::move(cluster)), from_(from), to_(to), from_first_(first), to_first_(first) {
  const bool from_ahead = from.layout.gpus() > to.layout.gpus();
  (from_ahead ? to_first_ : from_first_) += (from_ahead ? from : to).gpus();
  for (const topology::LinkInfo& link : cluster_.links()) network_.add_link(link.capacity);
}

std::vector<std::int64_t> HandoverWays::ranks_of(const Pool& pool, std::int64_t first, std::int64_t group) const {
  const ServedLayout& layout = pool.layout;
  const std::int64_t replica = group / layout.attention_data, inside = group % layout.attention_data;
  std::vector<std::int64_t> ranks;
  for (std::int64_t stage = 0; stage < layout.pipeline; ++stage) {
    for (std::int64_t rank = 0; rank < layout.tensor; ++rank)
      ranks.push_back(first + replica * layout.gpus() + stage * layout.stage_gpus() + inside * layout.tensor + rank);
  }
  return ranks;
}

serving::Ways::Way HandoverWays::way(std::int64_t from, std::int64_t to) {
  const auto [place, fresh] = known_.try_emplace({from, to});
  Known& known = place->second;
  if (fresh) {
    const std::vector<std::int64_t> senders = ranks_of(from_, from_first_, from),
                                    receivers = ranks_of(to_, to_first_, to);
    const std::size_t parts = std::max(senders.size(), receivers.size());
    const double share = static_cast<double>(receivers.size()) / static_cast<double>(parts);
    std::vector<sim::WeightedLink> links;
    sim::Duration latency{};
    for (std::size_t part = 0; part < parts; ++part) {
      const topology::Path path =
          cluster_.path(senders[part * senders.size() / parts], receivers[part * receivers.size() / parts], part);
      for (const sim::WeightedLink& link : path.links) links.push_back({link.link, link.weight * share});
      latency = std::max(latency, path.latency);
    }
    const auto all = network_.links_of(network_.add_route(links, latency));
    known = {{all.begin(), all.end()}, latency.value()};
  }
  return {known.links, known.latency};
}

void HandoverWays::keep_one_of_alike() {
  constexpr std::int64_t kMost = 256;  // beyond which ways cost more than they save
  const std::int64_t senders = from_.replicas * from_.layout.attention_data,
                     receivers = to_.replicas * to_.layout.attention_data;
  if (senders * receivers > kMost) return;
  std::map<sim::LinkId, std::vector<std::pair<std::int64_t, double>>> crossed;  // by which way, with what weight
  for (std::int64_t from = 0; from < senders; ++from) {
    for (std::int64_t to = 0; to < receivers; ++to) {
      for (const sim::WeightedLink& link : way(from, to).links)
        crossed[link.link].emplace_back(from * receivers + to, link.weight);
    }
  }
  std::set<std::pair<double, std::vector<std::pair<std::int64_t, double>>>> seen;
  std::set<sim::LinkId> dropped;
  for (auto& [link, by] : crossed) {
    if (!seen.emplace(network_.capacity[link], std::move(by)).second) dropped.insert(link);
  }
  for (auto& [ends, known] : known_)
    std::erase_if(known.links, [&](const sim::WeightedLink& link) { return dropped.count(link.link) > 0; });
}

double HandoverWays::rate_alone(std::int64_t from, std::int64_t to) {
  double rate = 1e30;
  for (const sim::WeightedLink& link : way(from, to).links)
    rate = std::min(rate, network_.capacity[link.link] / link.weight);
  return rate;
}

}  // namespace orrery::workloads
