// Incremental max-min fair sharing; the model is described in fair_sharing.h.
#include "sim/fair_sharing.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "sim/error.h"
#include "sim/hash.h"

namespace orrery::sim {

namespace {
constexpr std::uint32_t kFlowBit = 0x80000000u;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kRateBits = 40;
// What the slackness test forgives: more than the rounding of rates, less than anyone can measure. It makes "exactly
// full" count as slack in the full network and in its quotient alike.
constexpr double kSlackTolerance = 0x1p-38;
}  // namespace

FairSharing::FairSharing(const Table<LinkId, double>& capacity) {
  links_.resize(capacity.size());
  fillings_.resize(capacity.size());
  for (std::size_t l = 0; l < capacity.size(); ++l) {
    links_[l].capacity = capacity.rows()[l];
    links_[l].level = kInfinity;
    links_[l].limit = slack_limit(links_[l].capacity);
  }
}

/// A cast to Load without the library call that the compiler makes of one.
FairSharing::Load FairSharing::load(double weight, double rate) {
  constexpr int kMantissa = 52, kBias = 1023;
  const auto bits = std::bit_cast<std::uint64_t>(weight * rate * 0x1p40);
  const int shift = static_cast<int>(bits >> kMantissa) - kBias - kMantissa;
  const std::uint64_t mantissa = (bits & ((std::uint64_t{1} << kMantissa) - 1)) | (std::uint64_t{1} << kMantissa);
  if (shift >= 0) return static_cast<Load>(mantissa) << shift;
  return shift > -kMantissa - 1 ? static_cast<Load>(mantissa >> -shift) : 0;
}

FairSharing::Load FairSharing::slack_limit(double capacity) { return load(1.0 + kSlackTolerance, capacity); }

double FairSharing::round_rate(double rate) { return round_significant<kRateBits>(rate); }

/// load * 2^-40 for loads that are not negative, rounded to nearest: static_cast<double>(Load) is a library call.
double FairSharing::from_load(Load load) {
  constexpr int kBias = 1023, kMantissa = 52, kWord = 64;
  const auto high = static_cast<std::uint64_t>(load >> kWord);
  const auto low = static_cast<std::uint64_t>(load);
  if (high == 0) return static_cast<double>(low) * 0x1p-40;
  // The upper 63 bits, the last of which says whether anything below is set: enough to round like the whole.
  const int shift = kWord + 1 - std::countl_zero(high);
  auto top = static_cast<std::int64_t>(load >> shift);
  if ((low & ((std::uint64_t{1} << (shift - 1) << 1) - 1)) != 0) top |= 1;
  const auto scale = std::bit_cast<double>(static_cast<std::uint64_t>(shift - 40 + kBias) << kMantissa);
  return static_cast<double>(top) * scale;
}

bool FairSharing::later(const HeapItem& a, const HeapItem& b) {
  return a.level != b.level ? a.level > b.level : a.subject > b.subject;
}

void FairSharing::mark(std::uint32_t link) {
  if (links_[link].dirty) return;
  links_[link].dirty = true;
  dirty_.push_back(link);
}

void FairSharing::report(std::uint32_t flow) {
  if (flows_[flow].reported) return;
  flows_[flow].reported = true;
  changed_.push_back(flow);
}

void FairSharing::add(std::uint32_t flow, std::span<const WeightedLink> links, double cap) {
  SIM_CHECK(flow < kFlowBit && !links.empty(), "transfer {} with {} links", flow, links.size());
  if (flow >= flows_.size()) flows_.resize(flow + 1);
  Flow& f = flows_[flow];
  SIM_CHECK(!f.active, "transfer {} is already active", flow);
  double alone = cap > 0 ? cap : kInfinity;
  for (const WeightedLink& l : links) alone = std::min(alone, links_[index(l.link)].capacity / l.weight);
  f.links = links;
  f.active = true;
  f.fresh = true;
  f.rate = f.alone = round_rate(alone);
  for (const WeightedLink& l : links) {
    Link& link = links_[index(l.link)];
    append(link, {flow, f.generation, l.weight});
    link.demand += load(l.weight, f.alone);
    if (tight(link)) mark(index(l.link));
  }
  report(flow);
}

void FairSharing::remove(std::uint32_t flow) {
  Flow& f = flows_[flow];
  SIM_CHECK(f.active, "transfer {} is not active", flow);
  f.active = false;
  ++f.generation;
  for (const WeightedLink& l : f.links) {
    Link& link = links_[index(l.link)];
    --link.active;
    if (link.active == 0) link.level = kInfinity;
    if (link.active > 0 && tight(link)) mark(index(l.link));
    link.demand -= load(l.weight, f.alone);
  }
}

std::uint32_t FairSharing::take_block(std::uint8_t size_class) {
  if (size_class >= unused_blocks_.size()) unused_blocks_.resize(size_class + 1u, kNone);
  std::uint32_t& unused = unused_blocks_[size_class];
  if (unused != kNone) return std::exchange(unused, entries_[unused].flow);
  const std::size_t begin = entries_.size();
  SIM_CHECK(begin < kNone - (std::size_t{2} << size_class), "{} transfers on links", begin);
  entries_.resize(begin + (std::size_t{2} << size_class));
  return static_cast<std::uint32_t>(begin);
}

/// Before a list moves to a larger block, entries of removed transfers go: it grows with those that are there at one
/// time, not with those that ever were.
void FairSharing::append(Link& link, const Entry& entry) {
  if (link.active++ == 0) link.size = 0;
  if (link.size_class == kNoBlock) {
    link.begin = take_block(link.size_class = 0);
  } else if (link.size == 2u << link.size_class) {
    if (link.active <= link.size / 2) {
      drop_removed(link);
    } else {
      const std::uint32_t before = link.begin;
      const std::uint8_t before_class = link.size_class++;
      link.begin = take_block(link.size_class);
      std::copy_n(entries_.begin() + before, link.size, entries_.begin() + link.begin);
      entries_[before].flow = std::exchange(unused_blocks_[before_class], before);
    }
  }
  entries_[link.begin + link.size++] = entry;
}

void FairSharing::drop_removed(Link& link) {
  const std::span<Entry> entries = entries_of(link);
  const auto end = std::remove_if(entries.begin(), entries.end(), [&](const Entry& entry) {
    return !flows_[entry.flow].active || flows_[entry.flow].generation != entry.generation;
  });
  link.size = static_cast<std::uint32_t>(end - entries.begin());
}

void FairSharing::set_free(std::uint32_t flow) {
  if (flows_[flow].free) return;
  flows_[flow].free = true;
  flows_[flow].stamp = stamp_;
  free_.push_back(flow);
}

/// New ones, and those that the link stops.
void FairSharing::free_held(const Link& link) {
  for (const Entry& entry : entries_of(link)) {
    if (flows_[entry.flow].fresh || flows_[entry.flow].rate >= link.level) set_free(entry.flow);
  }
}

void FairSharing::include(std::uint32_t number) {
  Filling& filling = fillings_[number];
  if (filling.stamp == stamp_) return;
  filling.stamp = stamp_;
  component_links_.push_back(number);
  Link& link = links_[number];
  drop_removed(link);
  if (!link.dirty) return;
  link.dirty = false;
  free_held(link);
}

/// Links that have become slack stop nobody any more: lists the transfers that they stopped.
void FairSharing::loosen() {
  loosened_.clear();
  for (const std::uint32_t number : dirty_) {
    Link& link = links_[number];
    if (tight(link)) continue;
    link.dirty = false;
    drop_removed(link);
    for (const Entry& entry : entries_of(link)) {
      if (flows_[entry.flow].fresh || flows_[entry.flow].rate >= link.level) loosened_.push_back(entry.flow);
    }
    link.level = kInfinity;
  }
}

/// Brings in the links that free transfers can fill.
void FairSharing::reach() {
  for (; reached_ < free_.size(); ++reached_) {
    for (const WeightedLink& l : flows_[free_[reached_]].links) {
      if (tight(links_[index(l.link)])) include(index(l.link));
    }
  }
}

bool FairSharing::has_bottleneck(const Flow& flow) const {
  if (flow.rate >= flow.alone) return true;
  for (const WeightedLink& l : flow.links) {
    const Filling& filling = fillings_[index(l.link)];
    if ((filling.stamp == stamp_ ? filling.next_level : links_[index(l.link)].level) <= flow.rate) return true;
  }
  return false;
}

/// Sets free who was forced down or has lost its bottleneck (or, to come to an end, everyone in sight); false when the
/// rates found are fair.
bool FairSharing::widen(bool all) {
  const std::size_t before = free_.size();
  for (const std::uint32_t number : component_links_) {
    const Link& link = links_[number];
    const double next_level = fillings_[number].next_level;
    if (next_level == link.level) continue;
    for (const Entry& entry : entries_of(link)) {
      const Flow& f = flows_[entry.flow];
      if (f.free) continue;
      const bool forced_down = f.rate > next_level;
      if (forced_down || (f.rate >= link.level && !has_bottleneck(f))) set_free(entry.flow);
    }
  }
  if (free_.size() == before) return false;
  if (all) {
    for (const std::uint32_t number : component_links_) {
      for (const Entry& entry : entries_of(links_[number])) set_free(entry.flow);
    }
  }
  return true;
}

void FairSharing::commit() {
  for (const std::uint32_t flow : free_) {
    Flow& f = flows_[flow];
    f.free = f.fresh = false;
    if (f.rate == f.next) continue;
    f.rate = f.next;
    report(flow);
  }
  for (const std::uint32_t l : component_links_) links_[l].level = fillings_[l].next_level;
}

/// Lists who is on the link: free transfers only count, the others are bounds that level_of() works off.
void FairSharing::load_link(std::uint32_t number) {
  Filling& filling = fillings_[number];
  filling.weight = filling.floor = 0;
  filling.used = 0;
  filling.next_level = kInfinity;
  filling.moving = 0;
  filling.bound = static_cast<std::uint32_t>(solve_.bounds.size());
  for (const Entry& entry : entries_of(links_[number])) {
    filling.weight += entry.weight;
    const Flow& f = flows_[entry.flow];
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
double FairSharing::level_of(std::uint32_t number) {
  Filling& filling = fillings_[number];
  while (filling.moving + (filling.bound_end - filling.bound) > 0) {
    const double left = (links_[number].capacity - from_load(filling.used)) / filling.weight;
    const double level = left > filling.floor ? round_rate(left) : filling.floor;
    const std::uint32_t before = filling.bound;
    for (std::uint32_t b = before; b < filling.bound_end; ++b) {
      const Bound bound = solve_.bounds[b];
      if (bound.rate >= level) continue;
      filling.used += load(bound.weight, bound.rate);
      filling.weight -= bound.weight;
      std::swap(solve_.bounds[b], solve_.bounds[filling.bound++]);
    }
    if (filling.bound == before) return level;
  }
  return kInfinity;
}

void FairSharing::push(double level, std::uint32_t subject) {
  solve_.heap.push_back({level, subject});
  std::push_heap(solve_.heap.begin(), solve_.heap.end(), later);
}

void FairSharing::stop(std::uint32_t flow, double level) {
  Flow& f = flows_[flow];
  if (!f.free || f.stopped) return;
  f.stopped = true;
  f.next = level;
  --solve_.moving;
  for (const WeightedLink& l : f.links) {
    Filling& filling = fillings_[index(l.link)];
    if (filling.stamp != stamp_) continue;
    filling.used += load(l.weight, level);
    filling.weight -= l.weight;
    filling.floor = level;
    --filling.moving;
  }
}

/// Moves all links and transfers that stop at `level` from the heap to bottlenecks, before any of them is stopped:
/// then the order among them cannot matter.
void FairSharing::take_bottlenecks(double level) {
  while (!solve_.heap.empty() && solve_.heap.front().level <= level) {
    std::pop_heap(solve_.heap.begin(), solve_.heap.end(), later);
    const HeapItem item = solve_.heap.back();
    solve_.heap.pop_back();
    if ((item.subject & kFlowBit) != 0) {
      solve_.bottlenecks.push_back(item.subject);
      continue;
    }
    if (fillings_[item.subject].moving == 0) continue;
    const double now = level_of(item.subject);
    if (now > level) {
      push(now, item.subject);
    } else {
      solve_.bottlenecks.push_back(item.subject);
    }
  }
}

void FairSharing::fill() {
  solve_.bounds.clear();
  solve_.heap.clear();
  solve_.moving = free_.size();
  for (const std::uint32_t flow : free_) {
    flows_[flow].stopped = false;
    solve_.heap.push_back({flows_[flow].alone, flow | kFlowBit});
  }
  for (const std::uint32_t l : component_links_) {
    load_link(l);
    solve_.heap.push_back({level_of(l), l});  // each was reached from a flow that moves
  }
  std::make_heap(solve_.heap.begin(), solve_.heap.end(), later);

  while (solve_.moving > 0) {
    const double level = solve_.heap.front().level;
    solve_.bottlenecks.clear();
    take_bottlenecks(level);
    for (const std::uint32_t subject : solve_.bottlenecks) {
      if ((subject & kFlowBit) != 0) continue;
      fillings_[subject].next_level = level;
      for (const Entry& entry : entries_of(links_[subject])) stop(entry.flow, level);
    }
    for (const std::uint32_t subject : solve_.bottlenecks) {
      if ((subject & kFlowBit) != 0) stop(subject & ~kFlowBit, level);
    }
  }
  // Links on which nobody free moves any more may still hold the others.
  for (const std::uint32_t l : component_links_) {
    Filling& filling = fillings_[l];
    if (filling.next_level == kInfinity && filling.bound < filling.bound_end) filling.next_level = level_of(l);
  }
}

void FairSharing::expect_link(std::uint32_t number) const {
  __builtin_prefetch(&links_[number], 1);
  __builtin_prefetch(&fillings_[number], 1);
}

void FairSharing::expect_entries(const Link& link) const {
  if (link.dirty && link.size > 0) __builtin_prefetch(entries_.data() + link.begin);
}

/// Solves what can be reached from a transfer that may rise, or from a link whose load has changed.
void FairSharing::solve_from(std::uint32_t flow, std::uint32_t link) {
  ++stamp_;
  component_links_.clear();
  free_.clear();
  reached_ = 0;
  if (flow != kNone) set_free(flow);
  if (link != kNone) include(link);
  constexpr int kPatience = 64;
  for (int round = 0;; ++round) {
    reach();
    fill();
    if (!widen(round >= kPatience)) break;
  }
  commit();
}

std::span<const std::uint32_t> FairSharing::solve() {
  if (!dirty_.empty()) {
    ++solves_;
    loosen();
    const std::uint64_t before = stamp_;
    for (const std::uint32_t flow : loosened_) {
      if (flows_[flow].stamp <= before) solve_from(flow, kNone);
    }
    constexpr std::size_t kAhead = 3;
    for (std::size_t at = 0; at < dirty_.size(); ++at) {
      if (at + 2 * kAhead < dirty_.size()) expect_link(dirty_[at + 2 * kAhead]);
      if (at + kAhead < dirty_.size()) expect_entries(links_[dirty_[at + kAhead]]);
      if (links_[dirty_[at]].dirty) solve_from(kNone, dirty_[at]);
    }
    dirty_.clear();
  }
  // A transfer that came and went within the instant is nobody's concern any more.
  std::size_t kept = 0;
  for (const std::uint32_t flow : changed_) {
    flows_[flow].reported = flows_[flow].fresh = false;
    if (flows_[flow].active) changed_[kept++] = flow;
  }
  changed_.resize(kept);
  reported_.swap(changed_);
  changed_.clear();
  return reported_;
}

}  // namespace orrery::sim
