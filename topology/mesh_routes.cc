// Shortest paths over any graph of switches; see mesh_routes.h.
#include "topology/mesh_routes.h"

#include <algorithm>
#include <map>

namespace orrery::topology {

namespace {
constexpr std::size_t kMostRemembered = 16'000'000;  // rows of columns; 200 MB
}

MeshRoutes::MeshRoutes(const FabricWiring& wiring, const std::vector<std::uint32_t>& first_link, bool single)
    : component_(wiring.groups.size(), kNoGroup) {
  const std::size_t n = wiring.groups.size();
  std::vector<std::vector<Arc>> from(n);
  for (std::size_t b = 0; b < wiring.bundles.size(); ++b) {
    const Bundle& bundle = wiring.bundles[b];
    const std::int32_t lanes = lanes_between(bundle, 1, 1, 0, 0);
    const std::int32_t each = single ? 1 : lanes;
    for (std::int32_t i = 0; i < (single ? lanes : (lanes > 0 ? 1 : 0)); ++i) {
      const std::uint32_t link = first_link[b] + 2 * static_cast<std::uint32_t>(i);
      from[bundle.low].push_back({bundle.high, link, each});
      from[bundle.high].push_back({bundle.low, link + 1, each});
    }
  }
  begin_.push_back(0);
  for (std::vector<Arc>& arcs : from) {
    std::sort(arcs.begin(), arcs.end(),
              [](const Arc& a, const Arc& b) { return a.to != b.to ? a.to < b.to : a.link < b.link; });
    arcs_.insert(arcs_.end(), arcs.begin(), arcs.end());
    begin_.push_back(static_cast<std::uint32_t>(arcs_.size()));
  }
  std::vector<std::uint32_t> open;
  for (std::uint32_t v = 0; v < n; ++v) {
    if (component_[v] != kNoGroup) continue;
    component_[v] = v;
    open.assign(1, v);
    while (!open.empty()) {
      const std::uint32_t u = open.back();
      open.pop_back();
      for (std::uint32_t a = begin_[u]; a < begin_[u + 1]; ++a) {
        if (component_[arcs_[a].to] != kNoGroup) continue;
        component_[arcs_[a].to] = v;
        open.push_back(arcs_[a].to);
      }
    }
  }
}

/// As far as `from`, and all that is no farther: in a machine of ten thousand switches most ways lead to neighbours.
std::shared_ptr<const MeshRoutes::Column> MeshRoutes::towards(std::uint32_t to, std::uint32_t from) const {
  {
    const std::lock_guard lock(mutex_);
    const auto it = known_.find(to);
    if (it != known_.end() && (it->second->hops[from] >= 0 || it->second->whole)) return it->second;
  }
  const std::size_t n = component_.size();
  auto column = std::make_shared<Column>(Column{std::vector<std::int32_t>(n, -1), std::vector<double>(n, 0.0), true});
  std::vector<std::uint32_t> order{to};
  column->hops[to] = 0;
  column->paths[to] = 1;
  for (std::size_t next = 0; next < order.size(); ++next) {
    const std::uint32_t u = order[next];  // its count of paths is complete: all nearer switches came before it
    if (column->hops[from] >= 0 && column->hops[u] >= column->hops[from]) {
      column->whole = false;
      break;
    }
    for (std::uint32_t a = begin_[u]; a < begin_[u + 1]; ++a) {
      const std::uint32_t v = arcs_[a].to;
      if (column->hops[v] < 0) {
        column->hops[v] = column->hops[u] + 1;
        order.push_back(v);
      }
      if (column->hops[v] == column->hops[u] + 1) column->paths[v] += column->paths[u] * arcs_[a].lanes;
    }
  }
  const std::lock_guard lock(mutex_);
  if (known_.size() * n > kMostRemembered) known_.clear();
  return known_[to] = std::move(column);
}

std::int32_t MeshRoutes::hops(std::uint32_t from, std::uint32_t to) const { return towards(to, from)->hops[from]; }

void MeshRoutes::spread(std::uint32_t from, std::uint32_t to, bool by_path,
                        std::vector<sim::WeightedLink>& links) const {
  const auto column = towards(to, from);
  SIM_CHECK(column->hops[from] >= 0, "no way from switch {} to switch {}", from, to);
  std::map<std::uint32_t, double> here{{from, 1.0}}, next;  // flow that arrives at each switch of one distance
  for (std::int32_t hops = column->hops[from]; hops > 0; --hops) {
    next.clear();
    for (const auto& [u, flow] : here) {
      double all = 0;
      const auto share = [&](const Arc& arc) {
        if (column->hops[arc.to] != hops - 1) return 0.0;
        return by_path ? column->paths[arc.to] * arc.lanes : static_cast<double>(arc.lanes);
      };
      for (std::uint32_t a = begin_[u]; a < begin_[u + 1]; ++a) all += share(arcs_[a]);
      for (std::uint32_t a = begin_[u]; a < begin_[u + 1]; ++a) {
        const double part = share(arcs_[a]);
        if (part == 0) continue;
        links.push_back({sim::LinkId{arcs_[a].link}, flow * part / all});
        next[arcs_[a].to] += flow * part / all;
      }
    }
    here.swap(next);
  }
}

void MeshRoutes::walk(std::uint32_t from, std::uint32_t to,
                      const std::function<std::size_t(std::uint32_t at, std::size_t choices)>& pick,
                      std::vector<sim::WeightedLink>& links) const {
  const auto column = towards(to, from);
  SIM_CHECK(column->hops[from] >= 0, "no way from switch {} to switch {}", from, to);
  std::vector<std::uint32_t> choices;
  for (std::uint32_t at = from; at != to;) {
    choices.clear();
    for (std::uint32_t a = begin_[at]; a < begin_[at + 1]; ++a) {
      if (column->hops[arcs_[a].to] == column->hops[at] - 1) choices.push_back(a);
    }
    const Arc& arc = arcs_[choices[pick(at, choices.size())]];
    links.push_back({sim::LinkId{arc.link}, 1.0});
    at = arc.to;
  }
}

}  // namespace orrery::topology
