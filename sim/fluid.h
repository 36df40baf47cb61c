// Transfers that share links, in order of time. An event marks the instant at which a transfer begins to move its
// bytes; from then on FairSharing gives its rate, and the finish predicted from it is an event too. All events of an
// instant are handled before rates are solved, once.
//
// A row of `transfers_` is the truth and an event a hint: an event whose version is not the row's is skipped, and one
// that fires before the row's finish is put off to it. Left out: links that change their capacity.
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

class Fluid {
 public:
  /// `capacity` is copied.
  explicit Fluid(const Table<LinkId, double>& capacity) : sharing_(capacity) {}

  /// Transfer number `transfer` (small numbers, used again after it has finished) begins to move `work` > 0 bytes at
  /// `at` (ps, not before the instant that run() is at). `links` must stay valid until then; not empty. `cap` in
  /// bytes/s, 0 = none.
  void begin(std::uint32_t transfer, std::int64_t at, double work, std::span<const WeightedLink> links, double cap);

  /// Runs until nothing is left to happen. Calls finished(transfer, at) for each transfer when it has finished; it may
  /// begin others.
  template <class Finished>
  void run(Finished finished) {
    run_together([&](std::span<const std::uint32_t> transfers, std::int64_t at) {
      for (const std::uint32_t transfer : transfers) finished(transfer, at);
    });
  }
  /// Likewise with all that finish at an instant, in the order of their numbers: finished(transfers, at), which is
  /// called again where what it begins finishes at once.
  template <class Finished>
  void run_together(Finished finished) {
    while (!queue_.empty()) {
      const std::int64_t now = queue_.next();
      while (!queue_.empty() && queue_.next() == now) {
        handle_all(queue_.take());
        if (!finished_.empty()) finished(std::span<const std::uint32_t>(finished_), now);
      }
      for (const std::uint32_t transfer : sharing_.solve()) predict(transfer, now);
    }
  }

  /// Starts and finishes of transfers so far.
  std::uint64_t events() const { return events_; }
  /// Instants at which links had to be shared anew.
  std::uint64_t solves() const { return sharing_.solves(); }

 private:
  static constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

  struct Transfer {
    std::span<const WeightedLink> links;
    double cap = 0;
    double remaining = 0;            // bytes
    double rate = 0;                 // bytes/s
    std::int64_t updated = 0;        // when `remaining` was true
    std::int64_t finish = kUnknown;  // predicted; before it flows, when it begins
    std::int64_t queued = kUnknown;  // its valid event
    std::uint32_t version = 0;
    bool flowing = false;
  };

  void handle_all(std::span<const Event> events);
  bool handle(const Event& event);  // true when the transfer has finished
  void predict(std::uint32_t transfer, std::int64_t now);
  void schedule(std::uint32_t transfer, std::int64_t at);

  LargeTable<Transfer> transfers_;
  FairSharing sharing_;
  EventQueue queue_;
  std::vector<std::uint32_t> finished_;  // in the order of their numbers
  std::uint64_t events_ = 0;
};

}  // namespace orrery::sim
