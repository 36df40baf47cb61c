// Links that can be full; see contention.h.
#include "sim/contention.h"

#include <algorithm>
#include <bit>

#include "sim/fair_sharing.h"

namespace orrery::sim {

namespace {

constexpr std::uint32_t kNobody = 0xffffffff;

/// The transfers that a program issues on one slot along one of its routes.
struct Use {
  std::uint32_t slot = 0;
  std::uint32_t pattern = 0;
  double cap = 0;  // the highest, bytes/s; infinity where one has none
  friend bool operator<(const Use& a, const Use& b) {
    return a.slot != b.slot ? a.slot < b.slot : a.pattern < b.pattern;
  }
};

struct Uses {
  std::vector<Use> by_slot;
  std::vector<std::uint32_t> streams;  // by slot, a bit for each stream that transfers are issued on
};

Uses uses_of(const Program& program) {
  Uses uses;
  std::size_t last = 0;  // of by_slot: mostly the one again, and there are few
  const auto note = [&](std::uint32_t op, std::uint32_t pattern, double rate_cap) {
    const std::uint32_t slot = program.slot[op];
    if (slot >= uses.streams.size()) uses.streams.resize(slot + 1, 0);
    uses.streams[slot] |= std::uint32_t{1} << program.stream[op];
    const double cap = rate_cap > 0 ? rate_cap : kInfinity;
    const auto same = [&](const Use& use) { return use.slot == slot && use.pattern == pattern; };
    if (last >= uses.by_slot.size() || !same(uses.by_slot[last])) {
      const auto found = std::find_if(uses.by_slot.begin(), uses.by_slot.end(), same);
      last = static_cast<std::size_t>(found - uses.by_slot.begin());
      if (found == uses.by_slot.end()) uses.by_slot.push_back({slot, pattern, cap});
    }
    uses.by_slot[last].cap = std::max(uses.by_slot[last].cap, cap);
  };
  // By slot and stream, the stretches that have been looked at.
  std::vector<std::vector<bool>> seen(program.stretches.size());
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == OpKind::transfer && program.work[op] > 0)
      note(op, program.pattern[op], program.rate_cap[op]);
    if (program.kind[op] != OpKind::stretch_transfers) continue;
    std::vector<bool>& known = seen[program.pattern[op]];
    const std::size_t place = std::size_t{program.slot[op]} << 5 | program.stream[op];
    if (known.size() <= place) known.resize(place + 1, false);
    if (known[place]) continue;
    known[place] = true;
    for (const Stretch::Item& item : program.stretches[program.pattern[op]].items) {
      if (item.transfer && item.work > 0) note(op, item.pattern, item.rate_cap);
    }
  }
  std::sort(uses.by_slot.begin(), uses.by_slot.end());
  return uses;
}

/// The most that transfers can load each link with at one time.
class Demands {
 public:
  explicit Demands(std::size_t links) : total_(links), most_(links), of_(links, kNobody) {}

  /// One communicator's transfers, `at_once` at a time, along the routes of `uses`: whatever they are, they load a link
  /// no more than as many of the heaviest.
  void add(std::uint32_t communicator, std::uint32_t first_route, std::span<const Use> uses, std::uint32_t at_once,
           const Contention& contention, const Network& network) {
    touched_.clear();
    for (const Use& use : uses) {
      const RouteId route{first_route + use.pattern};
      const double rate = contention.rate_alone(route, use.cap);
      for (const WeightedLink& l : network.links_of(route)) {
        const std::uint32_t link = index(l.link);
        if (of_[link] != communicator) {
          of_[link] = communicator;
          most_[link] = 0;
          touched_.push_back(link);
        }
        most_[link] = std::max(most_[link], FairSharing::load(l.weight, rate));
      }
    }
    for (const std::uint32_t link : touched_) total_[link] += most_[link] * static_cast<int>(at_once);
  }

  bool can_fill(std::uint32_t link, double capacity) const { return total_[link] > FairSharing::slack_limit(capacity); }

 private:
  std::vector<FairSharing::Load> total_;
  std::vector<FairSharing::Load> most_;  // of the communicator of_[link]
  std::vector<std::uint32_t> of_;
  std::vector<std::uint32_t> touched_;
};

/// By route.
std::vector<double> rates_alone(const Network& network) {
  std::vector<double> rates(network.routes());
  for (std::uint32_t r = 0; r < network.routes(); ++r) rates[r] = network.rate_alone(RouteId{r});
  return rates;
}

}  // namespace

double Contention::rate_alone(RouteId r, double cap) const {
  const double rate = route_rate[index(r)];
  return FairSharing::round_rate(cap > 0 ? std::min(cap, rate) : rate);
}

Contention without_contention(const Network& network) {
  Contention contention;
  contention.route_begin.assign(network.routes() + 1, 0);
  contention.route_rate = rates_alone(network);
  return contention;
}

Contention find_contention(const Plan& plan, const Network& network) {
  return find_contention(plan, network, std::vector<bool>(plan.communicators.size(), true));
}

Contention find_contention(const Plan& plan, const Network& network, const std::vector<bool>& communicators) {
  Contention contention;
  contention.route_rate = rates_alone(network);
  std::vector<Uses> uses;
  uses.reserve(plan.programs.size());
  for (const Program& program : plan.programs) uses.push_back(uses_of(program));
  Demands demands(network.capacity.size());
  std::vector<bool> seen(plan.communicators.size()), used(network.routes());
  for (std::uint32_t i = 0; i < plan.instances.size(); ++i) {
    const Uses& own = uses[index(plan.instances[InstanceId{i}].program)];
    const auto slots = plan.slots_of(InstanceId{i});
    for (auto use = own.by_slot.begin(); use != own.by_slot.end();) {
      const std::uint32_t slot = use->slot;
      const auto end = std::find_if(use, own.by_slot.end(), [&](const Use& u) { return u.slot != slot; });
      const std::uint32_t communicator = index(slots[slot]);
      // All members say the same of every transfer, so the first that names the communicator speaks for all.
      if (!seen[communicator] && communicators[communicator]) {
        seen[communicator] = true;
        const std::uint32_t first_route = index(plan.communicators.rows()[communicator].first_route);
        const auto at_once = static_cast<std::uint32_t>(std::popcount(own.streams[slot]));
        demands.add(communicator, first_route, {&*use, static_cast<std::size_t>(end - use)}, at_once, contention,
                    network);
        for (auto u = use; u != end; ++u) used[first_route + u->pattern] = true;
      }
      use = end;
    }
  }

  contention.route_begin.reserve(network.routes() + 1);
  contention.route_begin.push_back(0);
  for (std::uint32_t r = 0; r < network.routes(); ++r) {
    if (used[r]) {
      for (const WeightedLink& l : network.links_of(RouteId{r})) {
        if (demands.can_fill(index(l.link), network.capacity[l.link])) contention.route_links.push_back(l);
      }
    }
    contention.route_begin.push_back(static_cast<std::uint32_t>(contention.route_links.size()));
  }
  return contention;
}

}  // namespace orrery::sim
