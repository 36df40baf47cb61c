// Solving what changes reach; see sharing_solver.h.
#include "sim/sharing_solver.h"

#include <algorithm>
#include <utility>

namespace orrery::sim {

namespace {

constexpr std::uint32_t kFlowBit = 0x80000000u;

}  // namespace

bool SharingSolver::later(const HeapItem& a, const HeapItem& b) {
  return a.level != b.level ? a.level > b.level : a.subject > b.subject;
}

void SharingSolver::begin(std::uint64_t stamps, bool claiming) {
  before_ = stamps;
  stamp_ = stamps + part_;
  claiming_ = claiming;
}

/// Whoever claims first has it until its solve ends. Of two that meet, the one of the higher number gives up, and the
/// other waits for it to finish or do so: nobody waits for one who waits for it. Nor for long: a thread may have lost
/// its processor.
bool SharingSolver::claim(std::uint32_t& claimed) {
  constexpr int kPatience = 2000;
  for (int look = 0; look < kPatience; ++look) {
    std::uint32_t holder = __atomic_load_n(&claimed, __ATOMIC_ACQUIRE);
    if (holder == part_ + 1) return true;
    if (holder == 0) {
      if (!__atomic_compare_exchange_n(&claimed, &holder, part_ + 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        continue;
      claims_.push_back(&claimed);
      return true;
    }
    if (holder < part_ + 1) return false;
  }
  return false;
}

void SharingSolver::release() {
  for (std::uint32_t* claimed : claims_) __atomic_store_n(claimed, 0, __ATOMIC_RELEASE);
  claims_.clear();
}

void SharingSolver::set_free(std::uint32_t flow) {
  if (flows_[flow].free) return;
  flows_[flow].free = true;
  flows_[flow].stamp = stamp_;
  solve_.free.push_back(flow);
}

/// Whether its own limit or one of its links stops the transfer, by what is said of links' levels. One of replicas'
/// size crosses a link of each, of which several stop it as a rule; the one that did last is asked first.
template <class Level>
bool SharingSolver::is_held(SharingFlow& flow, const Level& level_of_link) {
  if (flow.rate >= flow.alone) return true;
  if (flow.holder != kNone && level_of_link(flow.holder) <= flow.rate) return true;
  for (const WeightedLink& l : flow.links) {
    if (level_of_link(index(l.link)) > flow.rate) continue;
    flow.holder = index(l.link);
    return true;
  }
  return false;
}

/// As of the last solve, by a link other than this. Then a change of this one cannot let it rise.
bool SharingSolver::is_held_elsewhere(SharingFlow& flow, std::uint32_t link) const {
  if (flow.fresh) return false;
  return is_held(flow, [&](std::uint32_t l) { return l == link ? kInfinity : links_[l].level; });
}

/// New ones, and those that the link stops and no other.
void SharingSolver::free_held(std::uint32_t number) {
  const SharedLink& link = links_[number];
  for (const LinkEntry& entry : tables_.entries_of(link)) {
    SharingFlow& f = flows_[entry.flow];
    if (f.fresh || (f.rate >= link.level && !is_held_elsewhere(f, number))) set_free(entry.flow);
  }
}

/// False where another part is at work on the link, or on a transfer that it carries.
bool SharingSolver::include(std::uint32_t number) {
  LinkFilling& filling = fillings_[number];
  if (claiming_ && !claim(filling.claim)) return false;
  SharedLink& link = links_[number];
  if (link.stamp == stamp_) return true;
  if (claiming_) {
    for (const LinkEntry& entry : tables_.entries_of(link)) {
      if (tables_.holds(entry) && !claim(flows_[entry.flow].claim)) return false;
    }
  }
  link.stamp = stamp_;
  __builtin_prefetch(&filling, 1);
  solve_.component_links.push_back(number);
  tables_.drop_removed(link);
  if (!link.dirty) return true;
  link.dirty = false;
  solve_.cleared.push_back(number);
  free_held(number);
  return true;
}

/// Links that have become slack stop nobody any more: lists the transfers that they stopped.
void SharingSolver::loosen() {
  solve_.loosened.clear();
  for (const std::uint32_t number : dirty_) {
    SharedLink& link = links_[number];
    if (link.tight()) continue;
    link.dirty = false;
    tables_.drop_removed(link);
    for (const LinkEntry& entry : tables_.entries_of(link)) {
      if (flows_[entry.flow].fresh || flows_[entry.flow].rate >= link.level) solve_.loosened.push_back(entry.flow);
    }
    link.level = kInfinity;
  }
}

/// Brings in the links that free transfers can fill; false where another part is at work on one.
bool SharingSolver::reach() {
  for (; solve_.reached < solve_.free.size(); ++solve_.reached) {
    for (const WeightedLink& l : flows_[solve_.free[solve_.reached]].links) {
      if (links_[index(l.link)].tight() && !include(index(l.link))) return false;
    }
  }
  return true;
}

bool SharingSolver::has_bottleneck(SharingFlow& flow) const {
  return is_held(flow, [&](std::uint32_t link) {
    return links_[link].stamp == stamp_ ? fillings_[link].next_level : links_[link].level;
  });
}

/// Sets free who was forced down or has lost its bottleneck (or, to come to an end, everyone in sight); false when the
/// rates found are fair.
bool SharingSolver::widen(bool all) {
  const std::size_t before = solve_.free.size();
  for (const std::uint32_t number : solve_.component_links) {
    const SharedLink& link = links_[number];
    const double next_level = fillings_[number].next_level;
    if (next_level == link.level) continue;
    for (const LinkEntry& entry : tables_.entries_of(link)) {
      SharingFlow& f = flows_[entry.flow];
      if (f.free) continue;
      const bool forced_down = f.rate > next_level;
      if (forced_down || (f.rate >= link.level && !has_bottleneck(f))) set_free(entry.flow);
    }
  }
  if (solve_.free.size() == before) return false;
  if (all) {
    for (const std::uint32_t number : solve_.component_links) {
      for (const LinkEntry& entry : tables_.entries_of(links_[number])) set_free(entry.flow);
    }
  }
  return true;
}

void SharingSolver::commit() {
  for (const std::uint32_t flow : solve_.free) {
    SharingFlow& f = flows_[flow];
    f.free = f.fresh = false;
    if (f.rate == f.next) continue;
    f.rate = f.next;
    report(flow);
  }
  for (const std::uint32_t l : solve_.component_links) links_[l].level = fillings_[l].next_level;
}

/// Lists who is on the link: free transfers only count, the others are bounds that level_of() works off.
void SharingSolver::load_link(std::uint32_t number) {
  LinkFilling& filling = fillings_[number];
  filling.weight = filling.floor = 0;
  filling.used = 0;
  filling.next_level = kInfinity;
  filling.moving = 0;
  filling.bound = static_cast<std::uint32_t>(solve_.bounds.size());
  for (const LinkEntry& entry : tables_.entries_of(links_[number])) {
    filling.weight += entry.weight;
    const SharingFlow& f = flows_[entry.flow];
    if (f.free) {
      ++filling.moving;
    } else {
      solve_.bounds.push_back({entry.flow, entry.weight, f.rate});
    }
  }
  filling.bound_end = static_cast<std::uint32_t>(solve_.bounds.size());
}

/// The rate at which the link would be full if all that move on it kept rising together; who is not free and slower
/// than that stops at its own rate. Equality does not stop: then this very link may be what holds it there.
double SharingSolver::level_of(std::uint32_t number) {
  LinkFilling& filling = fillings_[number];
  while (filling.moving + (filling.bound_end - filling.bound) > 0) {
    const double left = (filling.capacity - from_load(filling.used)) / filling.weight;
    const double level = left > filling.floor ? round_to_shared(left) : filling.floor;
    const std::uint32_t before = filling.bound;
    for (std::uint32_t b = before; b < filling.bound_end; ++b) {
      const Bound bound = solve_.bounds[b];
      if (bound.rate >= level) continue;
      filling.used += link_load(bound.weight, bound.rate);
      filling.weight -= bound.weight;
      std::swap(solve_.bounds[b], solve_.bounds[filling.bound++]);
    }
    if (filling.bound == before) return level;
  }
  return kInfinity;
}

void SharingSolver::push(double level, std::uint32_t subject) {
  solve_.heap.push_back({level, subject});
  std::push_heap(solve_.heap.begin(), solve_.heap.end(), later);
}

void SharingSolver::stop(std::uint32_t flow, double level) {
  SharingFlow& f = flows_[flow];
  if (!f.free || f.stopped) return;
  f.stopped = true;
  f.next = level;
  --solve_.moving;
  for (const WeightedLink& l : f.links) {
    if (links_[index(l.link)].stamp != stamp_) continue;
    LinkFilling& filling = fillings_[index(l.link)];
    filling.used += link_load(l.weight, level);
    filling.weight -= l.weight;
    filling.floor = level;
    --filling.moving;
  }
}

/// Moves all links and transfers that stop at `level` from the heap to bottlenecks, before any of them is stopped:
/// then the order among them cannot matter.
void SharingSolver::take_bottlenecks(double level) {
  constexpr std::size_t kFew = 16;
  // Where replicas do the same, most of a large heap is of one level: after a few these are taken in one pass.
  const std::size_t few = std::max(kFew, solve_.heap.size() / 4);
  for (std::size_t taken = 0; !solve_.heap.empty() && solve_.heap.front().level <= level; ++taken) {
    if (taken == few) return take_level(level);
    std::pop_heap(solve_.heap.begin(), solve_.heap.end(), later);
    const HeapItem item = solve_.heap.back();
    solve_.heap.pop_back();
    const double now = stops_at(item, level);
    if (now > level) push(now, item.subject);
  }
}

/// The same, looking at all.
void SharingSolver::take_level(double level) {
  std::size_t left = 0;
  for (const HeapItem& item : solve_.heap) {
    const double now = item.level > level ? item.level : stops_at(item, level);
    if (now > level) solve_.heap[left++] = {now, item.subject};
  }
  solve_.heap.resize(left);
  std::make_heap(solve_.heap.begin(), solve_.heap.end(), later);
}

/// Notes what stops at `level`, where nobody stops at a lower one; else says at which it does. 0: it stops nobody more.
inline double SharingSolver::stops_at(const HeapItem& item, double level) {
  if ((item.subject & kFlowBit) == 0) {
    if (fillings_[item.subject].moving == 0) return 0;
    const double now = level_of(item.subject);
    if (now > level) return now;
  }
  solve_.bottlenecks.push_back(item.subject);
  return level;
}

void SharingSolver::fill() {
  solve_.bounds.clear();
  solve_.heap.clear();
  solve_.moving = solve_.free.size();
  for (const std::uint32_t flow : solve_.free) {
    flows_[flow].stopped = false;
    solve_.heap.push_back({flows_[flow].alone, flow | kFlowBit});
  }
  for (const std::uint32_t l : solve_.component_links) {
    load_link(l);
    solve_.heap.push_back({level_of(l), l});  // each was reached from a flow that moves
  }
  std::make_heap(solve_.heap.begin(), solve_.heap.end(), later);

  while (solve_.moving > 0) {
    const double level = solve_.heap.front().level;
    solve_.bottlenecks.clear();
    take_bottlenecks(level);
    constexpr std::size_t kNear = 3, kFar = 6;
    for (std::size_t at = 0; at < solve_.bottlenecks.size(); ++at) {
      if (at + kFar < solve_.bottlenecks.size() && (solve_.bottlenecks[at + kFar] & kFlowBit) == 0)
        expect_link(solve_.bottlenecks[at + kFar]);
      if (at + kNear < solve_.bottlenecks.size()) expect_held(solve_.bottlenecks[at + kNear]);
      const std::uint32_t subject = solve_.bottlenecks[at];
      if ((subject & kFlowBit) != 0) continue;
      fillings_[subject].next_level = level;
      for (const LinkEntry& entry : tables_.entries_of(links_[subject])) stop(entry.flow, level);
    }
    for (const std::uint32_t subject : solve_.bottlenecks) {
      if ((subject & kFlowBit) != 0) stop(subject & ~kFlowBit, level);
    }
  }
  // Links on which nobody free moves any more may still hold the others.
  for (const std::uint32_t l : solve_.component_links) {
    LinkFilling& filling = fillings_[l];
    if (filling.next_level == kInfinity && filling.bound < filling.bound_end) filling.next_level = level_of(l);
  }
}

/// As fill() with one link that could be full: all free transfers cross it, so that it or a transfer's own limit is
/// what stops next.
void SharingSolver::fill_one(std::uint32_t number) {
  solve_.bounds.clear();
  load_link(number);
  LinkFilling& filling = fillings_[number];
  solve_.moving = solve_.free.size();
  for (const std::uint32_t flow : solve_.free) flows_[flow].stopped = false;
  while (solve_.moving > 0) {
    double lowest = kInfinity;
    for (const std::uint32_t flow : solve_.free) {
      if (!flows_[flow].stopped) lowest = std::min(lowest, flows_[flow].alone);
    }
    const double full = level_of(number);
    if (full <= lowest) filling.next_level = full;
    for (const std::uint32_t flow : solve_.free) {
      if (full <= lowest)
        stop(flow, full);
      else if (flows_[flow].alone <= lowest)
        stop(flow, lowest);
    }
  }
  if (filling.next_level == kInfinity && filling.bound < filling.bound_end) filling.next_level = level_of(number);
}

/// Solves what can be reached from a transfer that may rise, or from a link whose load has changed. False where another
/// part is at work there: then all is as before.
bool SharingSolver::solve_from(std::uint32_t flow, std::uint32_t link) {
  stamp_ += tables_.pools.size();
  solve_.component_links.clear();
  solve_.free.clear();
  solve_.cleared.clear();
  solve_.reached = 0;
  if (flow != kNone) set_free(flow);
  if (link != kNone && !include(link)) return give_up();
  constexpr int kPatience = 64;
  for (int round = 0;; ++round) {
    if (!reach()) return give_up();
    if (solve_.component_links.empty()) {  // no link can stop them
      for (const std::uint32_t alone : solve_.free) flows_[alone].next = flows_[alone].alone;
      break;
    }
    if (solve_.component_links.size() == 1)
      fill_one(solve_.component_links.front());
    else
      fill();
    if (!widen(round >= kPatience)) break;
  }
  commit();
  return true;
}

bool SharingSolver::give_up() {
  for (const std::uint32_t flow : solve_.free) {
    flows_[flow].free = false;
    flows_[flow].stamp = 0;
  }
  for (const std::uint32_t link : solve_.cleared) links_[link].dirty = true;
  return false;
}

/// Solves from one change, unless another has been solved that reached it.
[[gnu::always_inline]] inline bool SharingSolver::solve_change(std::uint32_t flow, std::uint32_t link) {
  if (claiming_ && !claim(flow != kNone ? flows_[flow].claim : fillings_[link].claim)) return false;
  const bool open = flow != kNone ? flows_[flow].stamp < before_ + tables_.pools.size() : links_[link].dirty;
  const bool held = open && flow != kNone && is_held_elsewhere(flows_[flow], kNone);
  const bool done = !open || held || solve_from(flow, link);
  release();
  return done;
}

bool SharingSolver::solve_for(const SharingSolver& part) {
  constexpr int kMeetings = 16;  // with other parts, until this one leaves the rest to them
  constexpr std::size_t kAhead = 3;
  int met = 0;
  for (const std::uint32_t flow : part.solve_.loosened) {
    if (!solve_change(flow, kNone) && ++met == kMeetings) return false;
  }
  // Each begins at another place, so that parts whose links lie in the same components take these in turn.
  const std::span<const std::uint32_t> dirty = part.dirty_;
  const std::size_t begin = claiming_ ? part_ * dirty.size() / tables_.pools.size() : 0;
  for (const auto links : {dirty.subspan(begin), dirty.first(begin)}) {
    for (std::size_t at = 0; at < links.size(); ++at) {
      if (at + 2 * kAhead < links.size()) expect_link(links[at + 2 * kAhead]);
      if (at + kAhead < links.size()) expect_entries(links_[links[at + kAhead]]);
      if (!claiming_ && !links_[links[at]].dirty) continue;
      if (!solve_change(kNone, links[at]) && ++met == kMeetings) return false;
    }
  }
  return met == 0;
}

void SharingSolver::expect_entries(const SharedLink& link) const { tables_.pools[link.owner].expect(link); }

/// Whom a bottleneck stops.
void SharingSolver::expect_held(std::uint32_t subject) const {
  if ((subject & kFlowBit) != 0) return;
  const std::span<const LinkEntry> entries = std::as_const(tables_.pools[links_[subject].owner]).of(links_[subject]);
  if (!entries.empty()) __builtin_prefetch(&flows_[entries.front().flow], 1);
}

void SharingSolver::expect_link(std::uint32_t number) const {
  __builtin_prefetch(&links_[number], 1);
  __builtin_prefetch(&fillings_[number], 1);
}

}  // namespace orrery::sim
