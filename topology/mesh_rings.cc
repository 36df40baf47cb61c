// Several rings over a mesh, as a linear program. See mesh_rings.h.
#include "topology/mesh_rings.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace orrery::topology {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kClose = 1e-9;         // what prices and rates of order one are compared to
constexpr std::size_t kMostExact = 12;  // GPUs: 2^11 subsets of 12 x 12 steps
constexpr int kMostPivots = 10'000;     // whatever is found by then is a packing, if not the best

/// A group in the mesh: for each pair of members the bundles on its hop; as rows those that any hop uses.
class Hops {
 public:
  Hops(const NodeWiring& wiring, std::span<const std::int32_t> gpus, bool direct_only)
      : members_(gpus.size()), rows_of_(members_ * members_) {
    std::vector<std::int32_t> row_of(wiring.bundles.size(), -1);
    for (std::size_t a = 0; a < members_; ++a) {
      for (std::size_t b = a + 1; b < members_; ++b) {
        const auto& route = wiring.routes[static_cast<std::size_t>(gpus[a] * wiring.gpus + gpus[b])];
        if (direct_only && route.size() != 1) continue;
        for (const std::uint32_t link : route) {
          const std::uint32_t bundle = link / 2;
          if (row_of[bundle] < 0) {
            row_of[bundle] = static_cast<std::int32_t>(bundles.size());
            bundles.push_back(bundle);
            rates.push_back(wiring.bundles[bundle].lane_rate.value() * wiring.bundles[bundle].lanes);
          }
          rows_of_[a * members_ + b].push_back(static_cast<std::size_t>(row_of[bundle]));
        }
        rows_of_[b * members_ + a] = rows_of_[a * members_ + b];
      }
    }
    const double fastest = rates.empty() ? 1.0 : *std::max_element(rates.begin(), rates.end());
    for (double& rate : rates) rate /= fastest;
  }

  std::size_t members() const { return members_; }
  const std::vector<std::size_t>& rows(std::size_t a, std::size_t b) const { return rows_of_[a * members_ + b]; }
  /// Every two members have a link of their own, and all links run at the same rate.
  bool all_alike() const {
    const bool every_pair = bundles.size() == members_ * (members_ - 1) / 2;
    return every_pair && std::all_of(rates.begin(), rates.end(), [&](double rate) { return rate == rates.front(); });
  }

  std::vector<std::uint32_t> bundles;
  std::vector<double> rates;  // of each row, in both directions; over that of the fastest

 private:
  std::size_t members_;
  std::vector<std::vector<std::size_t>> rows_of_;  // empty: no hop
};

/// Times that a ring crosses each row.
using Crossings = std::vector<double>;

/// The shortest closed tour of all members where crossing a row costs its price; none where no ring closes. Held &
/// Karp: cost[S, v] of the best path from member 0 over the set S to its last member v.
std::optional<Crossings> shortest_ring(const Hops& hops, const std::vector<double>& price) {
  const std::size_t n = hops.members(), last = n - 1, sets = std::size_t{1} << last;
  std::vector<double> step(n * n, kNever);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b || hops.rows(a, b).empty()) continue;
      step[a * n + b] = 0;
      for (const std::size_t row : hops.rows(a, b)) step[a * n + b] += price[row];
    }
  }
  // Member v > 0 is bit v - 1 of a set.
  std::vector<double> cost(sets * n, kNever);
  std::vector<std::size_t> before(sets * n, 0);
  for (std::size_t v = 1; v < n; ++v) cost[(std::size_t{1} << (v - 1)) * n + v] = step[v];
  for (std::size_t set = 1; set < sets; ++set) {
    for (std::size_t v = 1; v < n; ++v) {
      if ((set >> (v - 1) & 1U) == 0 || cost[set * n + v] == kNever) continue;
      for (std::size_t w = 1; w < n; ++w) {
        if ((set >> (w - 1) & 1U) != 0) continue;
        const std::size_t to = (set | std::size_t{1} << (w - 1)) * n + w;
        const double there = cost[set * n + v] + step[v * n + w];
        if (there >= cost[to]) continue;
        cost[to] = there;
        before[to] = v;
      }
    }
  }
  std::size_t set = sets - 1, at = 0;
  double best = kNever;
  for (std::size_t v = 1; v < n; ++v) {
    const double closed = cost[set * n + v] + step[v * n];
    if (closed >= best) continue;
    best = closed;
    at = v;
  }
  if (best == kNever) return std::nullopt;
  Crossings crossings(hops.rates.size(), 0.0);
  const auto cross = [&](std::size_t a, std::size_t b) {
    for (const std::size_t row : hops.rows(a, b)) ++crossings[row];
  };
  cross(at, 0);
  while (at != 0) {
    const std::size_t previous = before[set * n + at];
    cross(previous, at);
    set &= ~(std::size_t{1} << (at - 1));
    at = previous;
  }
  return crossings;
}

/// The linear program of mesh_rings.h by the revised simplex method; a row's slack is what its link has left.
class RingPacking {
 public:
  explicit RingPacking(const Hops& hops)
      : hops_(hops), rows_(hops.rates.size()), inverse_(rows_ * rows_, 0.0), level_(hops.rates), basis_(rows_) {
    for (std::size_t r = 0; r < rows_; ++r) inverse_[r * rows_ + r] = 1.0;
    for (int pivots = 0; pivots < kMostPivots && improve(); ++pivots) continue;
  }

  /// Load of each row over the rate at which a member sends on all rings together, one direction.
  std::vector<double> shares() const {
    std::vector<double> load(rows_, 0.0);
    double all = 0;
    for (std::size_t b = 0; b < rows_; ++b) {
      if (basis_[b].empty()) continue;
      all += 2 * level_[b];
      for (std::size_t r = 0; r < rows_; ++r) load[r] += level_[b] * basis_[b][r];
    }
    for (double& share : load) share = share <= kClose * all ? 0.0 : share / all;
    return load;
  }

 private:
  /// One pivot; false at the optimum.
  bool improve() {
    std::vector<double> price(rows_, 0.0);
    for (std::size_t b = 0; b < rows_; ++b) {
      if (basis_[b].empty()) continue;
      for (std::size_t r = 0; r < rows_; ++r) price[r] += inverse_[b * rows_ + r];
    }
    const auto cheapest = std::min_element(price.begin(), price.end());
    if (*cheapest < -kClose) {  // a link that had better not be used up
      Crossings slack(rows_, 0.0);
      slack[static_cast<std::size_t>(cheapest - price.begin())] = 1.0;
      return enter(slack, true);
    }
    for (double& p : price) p = std::max(p, 0.0);
    const std::optional<Crossings> ring = shortest_ring(hops_, price);
    if (!ring) return false;
    double cost = 0;
    for (std::size_t r = 0; r < rows_; ++r) cost += price[r] * (*ring)[r];
    return cost < 1 - kClose && enter(*ring, false);
  }

  bool enter(const Crossings& column, bool slack) {
    std::vector<double> direction(rows_, 0.0);
    for (std::size_t b = 0; b < rows_; ++b) {
      for (std::size_t r = 0; r < rows_; ++r) direction[b] += inverse_[b * rows_ + r] * column[r];
    }
    std::size_t leaving = rows_;
    double step = kNever;
    for (std::size_t b = 0; b < rows_; ++b) {
      if (direction[b] <= kClose) continue;
      const double reach = std::max(0.0, level_[b]) / direction[b];
      if (reach >= step) continue;
      step = reach;
      leaving = b;
    }
    if (leaving == rows_) return false;
    for (std::size_t b = 0; b < rows_; ++b) level_[b] -= step * direction[b];
    level_[leaving] = step;
    const double pivot = direction[leaving];
    for (std::size_t r = 0; r < rows_; ++r) inverse_[leaving * rows_ + r] /= pivot;
    for (std::size_t b = 0; b < rows_; ++b) {
      if (b == leaving || direction[b] == 0) continue;
      for (std::size_t r = 0; r < rows_; ++r) inverse_[b * rows_ + r] -= direction[b] * inverse_[leaving * rows_ + r];
    }
    basis_[leaving] = slack ? Crossings{} : column;
    return true;
  }

  const Hops& hops_;
  std::size_t rows_;
  std::vector<double> inverse_;   // of the basis, basis x rows
  std::vector<double> level_;     // of what is in the basis
  std::vector<Crossings> basis_;  // a ring's crossings; empty: a slack
};

/// All members in order, both ways.
std::vector<double> one_ring(const Hops& hops) {
  std::vector<double> shares(hops.rates.size(), 0.0);
  for (std::size_t a = 0; a < hops.members(); ++a) {
    for (const std::size_t row : hops.rows(a, (a + 1) % hops.members())) shares[row] += 0.5;
  }
  return shares;
}

}  // namespace

std::vector<LinkShare> ring_shares(const NodeWiring& wiring, std::span<const std::int32_t> gpus) {
  std::vector<LinkShare> out;
  const std::size_t n = gpus.size();
  if (n < 2) return out;
  if (n == 2) {  // there and back
    for (const auto& [a, b] : {std::pair{gpus[0], gpus[1]}, std::pair{gpus[1], gpus[0]}}) {
      for (const std::uint32_t link : wiring.routes[static_cast<std::size_t>(a * wiring.gpus + b)])
        out.push_back({link, 1.0});
    }
    return out;
  }
  const Hops direct(wiring, gpus, true);
  const bool alike = direct.all_alike(), exact = n <= kMostExact;
  const bool linked = exact && shortest_ring(direct, std::vector<double>(direct.rates.size(), 0.0)).has_value();
  const Hops hops = alike || linked ? direct : Hops(wiring, gpus, false);
  std::vector<double> shares;
  if (alike) {
    shares.assign(hops.rates.size(), 1.0 / static_cast<double>(n - 1));  // every ring alike, and with it every link
  } else {
    shares = exact ? RingPacking(hops).shares() : one_ring(hops);
  }
  for (std::size_t r = 0; r < shares.size(); ++r) {
    if (shares[r] == 0) continue;
    out.push_back({2 * hops.bundles[r], shares[r]});
    out.push_back({2 * hops.bundles[r] + 1, shares[r]});
  }
  return out;
}

std::shared_ptr<const std::vector<LinkShare>> MeshRings::of(const NodeWiring& wiring,
                                                            std::span<const std::int32_t> gpus) const {
  std::uint64_t places = 0;
  for (const std::int32_t gpu : gpus) places |= std::uint64_t{1} << gpu;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = known_.find(places); it != known_.end()) return it->second;
  }
  auto shares = std::make_shared<const std::vector<LinkShare>>(ring_shares(wiring, gpus));
  const std::lock_guard lock(mutex_);
  return known_.emplace(places, std::move(shares)).first->second;
}

}  // namespace orrery::topology
