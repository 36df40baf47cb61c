// Who is on which link, and when links are shared anew; the model is described in fair_sharing.h.
#include "sim/fair_sharing.h"

#include <algorithm>
#include <bit>

#include "sim/error.h"

namespace orrery::sim {

namespace {
constexpr std::uint32_t kMostFlows = 0x80000000u;
// What the slackness test forgives: more than the rounding of rates, less than anyone can measure. It makes "exactly
// full" count as slack in the full network and in its quotient alike.
constexpr double kSlackTolerance = 0x1p-38;
}  // namespace

FairSharing::FairSharing(const Table<LinkId, double>& capacity, std::uint32_t parts, std::span<const LinkOwner> owners)
    : left_(parts), finished_(parts, 1), part_mask_(std::bit_ceil(parts) - 1) {
  SIM_CHECK(parts == 1 || owners.size() == capacity.size(), "{} owners of {} links", owners.size(), capacity.size());
  tables_.links.resize(capacity.size());
  tables_.fillings.resize(capacity.size());
  tables_.pools.resize(parts);
  for (std::size_t l = 0; l < capacity.size(); ++l) {
    SharedLink& link = tables_.links[l];
    const double rate = tables_.fillings[l].capacity = capacity.rows()[l];
    link.level = kInfinity;
    link.limit = slack_limit(rate);
    if (parts == 1 || owners.empty()) continue;
    link.owner = owners[l].part;
    link.shared = owners[l].shared;
    tables_.fixed.push_back({rate, link.owner});
  }
  solvers_.reserve(parts);
  for (std::uint32_t part = 0; part < parts; ++part) {
    solvers_.emplace_back(tables_, part);
    left_[part].changes.resize(parts);
  }
}

FairSharing::Load FairSharing::slack_limit(double capacity) { return load(1.0 + kSlackTolerance, capacity); }

void FairSharing::make_room(std::size_t flows) {
  SIM_CHECK(flows <= kMostFlows, "{} transfers", flows);
  if (flows > tables_.flows.size()) tables_.flows.resize(flows);
}

/// Before a list moves to a larger block, entries of removed transfers go: it grows with those that are there at one
/// time, not with those that ever were. Which are removed is not to be asked of other parts' transfers before all have
/// settled; until then such a list grows.
void FairSharing::make_place(std::uint32_t part, std::uint32_t number) {
  SharedLink& link = tables_.links[number];
  if (!link.shared) {
    if (link.active <= link.size / 2) {
      tables_.drop_removed(link);
    } else {
      tables_.pools[part].enlarge(link);
    }
    return;
  }
  tables_.pools[part].enlarge(link);
  left_[part].crowded.push_back(number);
}

[[gnu::always_inline]] inline void FairSharing::put_on(std::uint32_t part, std::uint32_t number, const LinkEntry& entry,
                                                       Load load) {
  SharedLink& link = tables_.links[number];
  if (link.active++ == 0) link.size = 0;
  if (tables_.pools[part].full(link)) make_place(part, number);
  tables_.pools[part].append(link, entry);
  link.demand += load;
  if (link.tight()) solvers_[part].mark(number);
}

[[gnu::always_inline]] inline void FairSharing::take_off(std::uint32_t part, std::uint32_t number, Load load) {
  SharedLink& link = tables_.links[number];
  --link.active;
  if (link.active == 0) link.level = kInfinity;
  if (link.active > 0 && link.tight()) solvers_[part].mark(number);
  link.demand -= load;
}

double FairSharing::rate_alone(std::span<const WeightedLink> links, double cap) const {
  double alone = cap > 0 ? cap : kInfinity;
  for (const WeightedLink& l : links) alone = std::min(alone, capacity_of(l.link) / l.weight);
  return alone;
}

void FairSharing::add(std::uint32_t part, std::uint32_t flow, std::span<const WeightedLink> links, double alone) {
  SIM_CHECK(flow < tables_.flows.size() && !links.empty(), "transfer {} with {} links", flow, links.size());
  SharingFlow& f = tables_.flows[flow];
  SIM_CHECK(!f.active, "transfer {} is already active", flow);
  f.links = links;
  f.active = true;
  f.fresh = true;
  f.holder = 0xffffffff;
  f.rate = f.alone = round_rate(alone);
  LoadOf load_of{f.alone};
  for (const WeightedLink& l : links) {
    const LinkEntry entry{flow, f.generation, l.weight};
    const std::uint32_t owner = owner_of(l.link);
    if (owner == part) {
      put_on(part, index(l.link), entry, load_of(l.weight));
    } else {
      left_[part].changes[owner].push_back({load_of(l.weight), entry, index(l.link), true});
    }
  }
  solvers_[part].report(flow);
}

void FairSharing::remove(std::uint32_t part, std::uint32_t flow) {
  SharingFlow& f = tables_.flows[flow];
  SIM_CHECK(f.active, "transfer {} is not active", flow);
  f.active = false;
  LoadOf load_of{f.alone};
  for (const WeightedLink& l : f.links) {
    const std::uint32_t owner = owner_of(l.link);
    if (owner == part) {
      take_off(part, index(l.link), load_of(l.weight));
    } else {
      left_[part].changes[owner].push_back({load_of(l.weight), {}, index(l.link), false});
    }
  }
  ++f.generation;
}

bool FairSharing::unsettled() const {
  return std::any_of(left_.begin(), left_.end(), [](const Left& left) {
    return !left.crowded.empty() ||
           std::any_of(left.changes.begin(), left.changes.end(), [](const auto& changes) { return !changes.empty(); });
  });
}

void FairSharing::settle(std::uint32_t part) {
  for (Left& from : left_) {
    for (const Change& change : from.changes[part]) {
      if (change.added)
        put_on(part, change.link, change.entry, change.load);
      else
        take_off(part, change.link, change.load);
    }
    from.changes[part].clear();
  }
  for (const std::uint32_t number : left_[part].crowded) {
    SharedLink& link = tables_.links[number];
    tables_.drop_removed(link);
    tables_.pools[part].shrink(link);
  }
  left_[part].crowded.clear();
}

bool FairSharing::begin_solve(bool at_one_time) {
  if (std::none_of(solvers_.begin(), solvers_.end(), [](const SharingSolver& s) { return s.touched(); })) return false;
  ++solves_;
  std::uint64_t stamps = 0;
  for (const SharingSolver& solver : solvers_) stamps = std::max(stamps, solver.stamp());
  const std::uint64_t parts = solvers_.size();
  stamps = (stamps + parts) / parts * parts;
  for (SharingSolver& solver : solvers_) solver.begin(stamps, at_one_time);
  return true;
}

/// What its own links' changes reach, then what is left of the others'.
void FairSharing::solve(std::uint32_t part) {
  bool all = true;
  for (std::size_t n = 0; n < solvers_.size(); ++n)
    all = solvers_[part].solve_for(solvers_[(part + n) % solvers_.size()]) && all;
  finished_[part] = all ? 1 : 0;
}

void FairSharing::solve_rest() {
  if (std::find(finished_.begin(), finished_.end(), 0) != finished_.end()) {
    solvers_[0].go_on_alone();
    for (const SharingSolver& solver : solvers_) solvers_[0].solve_for(solver);
  }
  for (SharingSolver& solver : solvers_) solver.forget_changes();
}

bool FairSharing::has_changed() const {
  return std::any_of(solvers_.begin(), solvers_.end(), [](const SharingSolver& s) { return !s.changed().empty(); });
}

void FairSharing::forget_changed() {
  for (SharingSolver& solver : solvers_) solver.changed().clear();
}

std::span<const std::uint32_t> FairSharing::solve() {
  SharingSolver& only = solvers_.front();
  if (only.touched()) {
    begin_solve(false);
    only.loosen();
    only.solve_for(only);
    only.forget_changes();
  }
  reported_.clear();
  if (only.changed().empty()) return reported_;
  for (const std::uint32_t flow : only.changed()) {
    if (forget(flow)) reported_.push_back(flow);
  }
  only.changed().clear();
  return reported_;
}

}  // namespace orrery::sim
