// Transfers that share links; see fluid.h.
#include "sim/fluid.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"

namespace orrery::sim {

std::int64_t fluid_time(double work, double rate) {
  const double time = std::ceil(work * kPicosecondsPerSecond / rate - 1e-3);
  if (!(time < static_cast<double>(kLatest))) [[unlikely]]
    refuse_time(fmt::format("a transfer of {:.3g} bytes at {:.3g} bytes/s", work, rate));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(time));
}

void Transfers::begin(std::uint32_t transfer, std::int64_t at, double work, std::span<const WeightedLink> links,
                      double alone, std::uint32_t island) {
  SIM_CHECK(at >= 0, "a transfer begins at {} ps", at);
  if (at >= kLatest) [[unlikely]]
    refuse_time("a step");
  if (transfer >= transfers_.size()) transfers_.resize(transfer + 1);
  Transfer& t = transfers_[transfer];
  const std::uint32_t version = t.version;
  t = Transfer{};
  t.version = version;
  t.links = links;
  t.alone = alone;
  t.island = island;
  t.remaining = work;
  schedule(transfer, at);
}

void Transfers::stop(std::uint32_t transfer) {
  Transfer& t = transfers_[transfer];
  ++t.version;
  if (t.flowing) sharing_.remove(part_, flow_of(transfer));
  t.flowing = false;
  t.queued = t.finish = kUnknown;
}

void Transfers::schedule(std::uint32_t transfer, std::int64_t at) {
  Transfer& t = transfers_[transfer];
  t.finish = at;
  if (t.queued <= at) return;  // an earlier event is on its way and will be put off
  t.queued = at;
  const Event event{at, transfer, ++t.version};
  if (island_ == kAll || island_ == t.island) [[likely]]
    queue_.push(event);
  else
    waiting_[t.island].push_back(event);
}

void Transfers::divide(std::uint32_t islands) {
  waiting_.resize(islands);
  queue_.empty_into([&](const Event& event) {
    if (holds(event)) waiting_[transfers_[event.subject].island].push_back(event);
  });
  island_ = kNoIsland;
}

std::int64_t Transfers::next_of(std::uint32_t island) const {
  std::int64_t next = kUnknown;
  for (const Event& event : waiting_[island]) next = std::min(next, event.at);
  return next;
}

void Transfers::enter(std::uint32_t island) {
  for (const Event& event : waiting_[island]) queue_.push(event);
  waiting_[island].clear();
  island_ = island;
}

void Transfers::leave() {
  queue_.empty_into([&](const Event& event) {
    if (holds(event)) waiting_[island_].push_back(event);
  });
  island_ = kNoIsland;
}

void Transfers::unite() {
  for (auto& events : waiting_) {
    for (const Event& event : events) queue_.push(event);
    events.clear();
  }
  island_ = kAll;
}

/// A rate that several solves of one instant moved to and fro is what it was: what has been moved is added up where
/// rates differ from one instant to the next alone, so that it does not tell in which order they were solved.
void Transfers::predict(std::uint32_t transfer, std::int64_t now) {
  Transfer& t = transfers_[transfer];
  const double rate = sharing_.rate(flow_of(transfer));
  if (t.rate == rate) return;
  t.remaining -= t.rate * (static_cast<double>(now - t.updated) / kPicosecondsPerSecond);
  t.updated = now;
  t.rate = rate;
  schedule(transfer, now + fluid_time(std::max(t.remaining, 0.0), t.rate));
}

[[gnu::always_inline]] inline bool Transfers::handle(const Event& event) {
  Transfer& t = transfers_[event.subject];
  if (t.version != event.version) return false;
  t.queued = kUnknown;
  if (t.finish > event.at) {
    schedule(event.subject, t.finish);
    return false;
  }
  ++events_;
  if (t.held) [[unlikely]] {
    release(t);
    return true;
  }
  if (t.flowing) {
    sharing_.remove(part_, flow_of(event.subject));
    ++t.version;
    return true;
  }
  if (!holder_.empty()) disturb(t.links);
  t.flowing = true;
  t.updated = event.at;
  sharing_.add(part_, flow_of(event.subject), t.links, t.alone);
  return false;
}

bool Transfers::idle(std::span<const WeightedLink> links) const {
  return std::all_of(links.begin(), links.end(),
                     [&](const WeightedLink& l) { return holder_[index(l.link)] == kNobody && sharing_.idle(l.link); });
}

void Transfers::hold(std::uint32_t stretch, std::int64_t at, std::span<const WeightedLink> links) {
  begin(stretch, at, 0, links, 0);
  transfers_[stretch].held = true;
  for (const WeightedLink& l : links) holder_[index(l.link)] = stretch;
}

void Transfers::release(Transfer& stretch) {
  for (const WeightedLink& l : stretch.links) holder_[index(l.link)] = kNobody;
  stretch.held = false;
  stretch.queued = kUnknown;
  ++stretch.version;
}

void Transfers::disturb(std::span<const WeightedLink> links) {
  for (const WeightedLink& l : links) {
    const std::uint32_t stretch = holder_[index(l.link)];
    if (stretch == kNobody) continue;
    release(transfers_[stretch]);
    disturbed_.push_back(stretch);
  }
}

void Transfers::flow(std::uint32_t stretch, const UnderWay& transfer) {
  disturb(transfer.links);
  begin(stretch, transfer.finish, transfer.work, transfer.links, transfer.rate);
  Transfer& t = transfers_[stretch];
  t.flowing = true;
  t.updated = transfer.begun;
  t.rate = FairSharing::round_rate(transfer.rate);
  sharing_.add(part_, flow_of(stretch), t.links, t.alone);
}

/// Rows of those to come are fetched ahead: many events of an instant are more than the nearest caches hold.
std::span<const std::uint32_t> Transfers::take() {
  constexpr std::size_t kNext = 2, kNear = 5, kFar = 8, kFarthest = 12;
  const std::span<const Event> events = queue_.take();
  finished_.clear();
  for (std::size_t e = 0; e < events.size(); ++e) {
    if (e + kFarthest < events.size()) __builtin_prefetch(&transfers_[events[e + kFarthest].subject]);
    if (e + kFar < events.size()) {
      constexpr std::size_t kLine = 64 / sizeof(WeightedLink);
      const std::span<const WeightedLink> links = transfers_[events[e + kFar].subject].links;
      __builtin_prefetch(links.data());
      if (links.size() > kLine) __builtin_prefetch(links.data() + kLine);
    }
    if (e + kNext < events.size()) sharing_.expect_lists(transfers_[events[e + kNext].subject].links);
    if (e + kNear < events.size()) {
      const std::uint32_t later = events[e + kNear].subject;
      sharing_.expect(flow_of(later), transfers_[later].links);
    }
    if (handle(events[e])) finished_.push_back(events[e].subject);
  }
  return finished_;
}

}  // namespace orrery::sim
