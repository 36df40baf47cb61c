// Transfers that share links, in order of time. An event marks the instant at which a transfer begins to move its
// bytes; from then on FairSharing gives its rate, and the finish predicted from it is an event too. All events of an
// instant are handled before rates are solved, once.
//
// A row of `transfers_` is the truth and an event a hint: an event whose version is not the row's is skipped, and one
// that fires before the row's finish is put off to it. Left out: links that change their capacity.
//
// A stretch (sim/stretches.h) holds its links while nobody else is on them: then its transfers move as they do alone,
// and one event marks the end of the last. Whoever comes onto such a link ends that first.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/event_queue.h"
#include "sim/fair_sharing.h"
#include "sim/large_pages.h"
#include "sim/network.h"

namespace orrery::sim {

// ps, 1e6 s: no step takes eleven days, and sums of two such times do not overflow.
inline constexpr std::int64_t kLatest = 1'000'000'000'000'000'000;

/// Picoseconds that `work` bytes take at `rate` bytes/s: at least one, rounded up, except that a thousandth of a
/// picosecond is taken for the rounding of doubles, so that a whole number of picoseconds stays one.
std::int64_t fluid_time(double work, double rate);

/// The transfers of one part of a run, in order of time; who drives them calls take() until no more happens at an
/// instant, shares the links anew, and tells predict() whose rate has changed.
class Transfers {
 public:
  /// Of `part`. Transfer n is flow n * 2^shift + part of `sharing`.
  explicit Transfers(FairSharing& sharing, std::uint32_t part = 0, std::uint32_t shift = 0)
      : sharing_(sharing), part_(part), shift_(shift) {}

  /// As Fluid::begin(), but `alone` is the transfer's rate with nobody else there. Of `island`, where there are such.
  void begin(std::uint32_t transfer, std::int64_t at, double work, std::span<const WeightedLink> links, double alone,
             std::uint32_t island = 0);
  /// A transfer that has not finished breaks off: take() will not name it, and its links are free at the next solve().
  void stop(std::uint32_t transfer);
  bool empty() const { return queue_.empty(); }
  /// The earliest instant at which something may happen.
  std::int64_t next() const { return queue_.next(); }
  /// The instant that take() took last.
  std::int64_t now() const { return queue_.now(); }
  /// All that happens then; those that have finished, in the order of their numbers. `sharing` has room for flows().
  std::span<const std::uint32_t> take();
  std::size_t flows() const { return transfers_.size() << shift_; }

  // Islands (sim/islands.h): from divide() on each has its own order of time, and next(), now() and take() speak of the
  // one that was entered last and has not been left; from unite() on there is one for all, as at first.

  void divide(std::uint32_t islands);
  /// The earliest instant at which something may happen on the island; the last there is if nothing will.
  std::int64_t next_of(std::uint32_t island) const;
  void enter(std::uint32_t island);
  void leave();
  void unite();

  /// For stretches, which have the numbers below `count`: all may hold links of `links`.
  void expect_stretches(std::uint32_t count, std::size_t links) {
    transfers_.resize(count);
    holder_.assign(links, kNobody);
  }
  /// Whether no transfer and no stretch is on any of these.
  bool idle(std::span<const WeightedLink> links) const;
  /// The stretch holds these links, which are idle, until `at`, when take() names it, or until disturbed() does.
  void hold(std::uint32_t stretch, std::int64_t at, std::span<const WeightedLink> links);
  /// take() names the stretch at `at`.
  void wait(std::uint32_t stretch, std::int64_t at) { hold(stretch, at, {}); }
  /// A transfer of a stretch that is under way at this instant, as begin() would have left it, had it begun at `begun`
  /// and met nobody so far: at its own `rate` it finishes at `finish`.
  struct UnderWay {
    std::int64_t begun = 0, finish = 0;
    double work = 0, rate = 0;
    std::span<const WeightedLink> links;
  };
  void flow(std::uint32_t stretch, const UnderWay& transfer);
  /// Stretches onto whose links somebody came at this instant: they hold them no more. The caller empties the list.
  std::vector<std::uint32_t>& disturbed() { return disturbed_; }

  /// The rate of a transfer may have changed at `now`: settles what has been moved and predicts the finish.
  void predict(std::uint32_t transfer, std::int64_t now);
  /// Starts and finishes of transfers so far.
  std::uint64_t events() const { return events_; }

 private:
  static constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

  struct Transfer {
    std::span<const WeightedLink> links;
    double alone = 0;                // bytes/s
    double remaining = 0;            // bytes
    double rate = 0;                 // bytes/s
    std::int64_t updated = 0;        // when `remaining` was true
    std::int64_t finish = kUnknown;  // predicted; before it flows, when it begins
    std::int64_t queued = kUnknown;  // its valid event
    std::uint32_t version = 0;
    std::uint32_t island = 0;
    bool flowing = false;
    bool held = false;  // a stretch that waits, or holds its links
  };

  bool handle(const Event& event);  // true when the transfer has finished
  void schedule(std::uint32_t transfer, std::int64_t at);
  std::uint32_t flow_of(std::uint32_t transfer) const { return transfer << shift_ | part_; }
  static constexpr std::uint32_t kNobody = 0xffffffff;
  void release(Transfer& stretch);
  void disturb(std::span<const WeightedLink> links);

  bool holds(const Event& event) const { return transfers_[event.subject].version == event.version; }
  static constexpr std::uint32_t kAll = 0xffffffff, kNoIsland = 0xfffffffe;

  LargeTable<Transfer> transfers_;
  FairSharing& sharing_;
  std::uint32_t part_, shift_;
  EventQueue queue_;
  std::vector<LargeTable<Event>> waiting_;  // by island, while they are divided; in no order
  std::uint32_t island_ = kAll;             // whose events queue_ has
  std::vector<std::uint32_t> finished_;     // in the order of their numbers
  std::vector<std::uint32_t> holder_;       // by link; empty where there are no stretches
  std::vector<std::uint32_t> disturbed_;
  std::uint64_t events_ = 0;
};

class Fluid {
 public:
  /// `capacity` is copied.
  explicit Fluid(const Table<LinkId, double>& capacity) : sharing_(capacity), transfers_(sharing_) {}

  /// Transfer number `transfer` (small numbers, used again after it has finished) begins to move `work` > 0 bytes at
  /// `at` (ps, not before the instant that run() is at). `links` must stay valid until then; not empty. `cap` in
  /// bytes/s, 0 = none.
  void begin(std::uint32_t transfer, std::int64_t at, double work, std::span<const WeightedLink> links, double cap) {
    transfers_.begin(transfer, at, work, links, sharing_.rate_alone(links, cap));
  }

  /// Runs until nothing is left to happen. Calls finished(transfer, at) for each transfer when it has finished, of
  /// those that finish at an instant in the order of their numbers; it may begin others.
  template <class Finished>
  void run(Finished finished) {
    while (!transfers_.empty()) {
      const std::int64_t now = transfers_.next();
      while (!transfers_.empty() && transfers_.next() == now) {
        sharing_.make_room(transfers_.flows());
        for (const std::uint32_t transfer : transfers_.take()) finished(transfer, now);
      }
      for (const std::uint32_t transfer : sharing_.solve()) transfers_.predict(transfer, now);
    }
  }

  /// Starts and finishes of transfers so far.
  std::uint64_t events() const { return transfers_.events(); }
  /// Instants at which links had to be shared anew.
  std::uint64_t solves() const { return sharing_.solves(); }

 private:
  FairSharing sharing_;
  Transfers transfers_;
};

}  // namespace orrery::sim
