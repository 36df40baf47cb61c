// Stretches under way (sim/plan.h), for the engine.
//
// The argument. While nobody else is on the links of a stretch, each of its transfers moves at the rate that it has
// alone, and takes what that takes. So all times of what is left of the stretch follow from those of its streams and of
// the host by maxima and sums, and its end from the three at its beginning by constants (max-plus; Baccelli et al.,
// Synchronization and Linearity, 1992). The stretch holds its links, and one event marks the end of its last transfer.
// Somebody who comes onto a link that is held, at whatever instant, finds there what he would have found: the stretch
// is gone through up to that instant, and a transfer that is then under way put on its links as it is, with the rate
// that it has had since it began. From there on its transfers are transfers like any other, until one ends and the
// links are idle again.
//
// What a stretch makes known, its two ends, it makes known by the time at which they lie, as any transfer does; the
// engine needs no more (sim/engine_part.h). Left out: to go on holding links on which somebody else finds room.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/contention.h"
#include "sim/fluid.h"
#include "sim/plan.h"

namespace orrery::sim {

/// When a stretch's compute operations and its transfers have finished.
struct StretchEnd {
  std::int64_t compute = 0, transfers = 0;
};

class Stretches {
 public:
  /// Of these instances, which all belong to one part; numbers are rows of `instances`, and those of `transfers`.
  Stretches(const Plan& plan, const Network& network, const Contention& contention,
            std::span<const InstanceId> instances, Transfers& transfers);

  bool any() const { return !runs_.empty(); }
  /// Whether an event of this number is a stretch's.
  bool is_stretch(std::uint32_t number) const { return number < runs_.size(); }

  /// One of a stretch's two operations heads its stream.
  struct Arrival {
    OpKind kind = OpKind::stretch;
    std::uint8_t stream = 0;
    std::uint32_t slot = 0, stretch = 0;
    std::int64_t ready = 0;  // of the stream and what it waits for
    std::int64_t host = 0;   // OpKind::stretch: the host turns to it
  };
  /// With the second one it begins. Says when it ends where that is known, else go_on() or disturb() will.
  std::optional<StretchEnd> arrive(std::uint32_t number, const Arrival& arrival);
  /// Transfers::take() has named it.
  std::optional<StretchEnd> go_on(std::uint32_t number);
  /// Transfers::disturbed() has.
  std::optional<StretchEnd> disturb(std::uint32_t number);
  /// What a stretch began with: when its two streams were free, and the host turned to it.
  struct Begin {
    std::int64_t compute = 0, transfers = 0, host = 0;
    std::uint8_t compute_stream = 0, transfer_stream = 0;
  };
  const Begin& begin_of(std::uint32_t number) const { return runs_[number].begin; }

 private:
  /// An item on the routes of an instance.
  struct Row {
    bool transfer = false, limited = false;  // limited: others can be on its links
    std::uint32_t transfers = 0;             // as Stretch::Item
    std::int64_t duration = 0;               // compute: on the device; transfer: latency
    std::int64_t alone = 0;                  // transfer: what follows takes, alone
    std::int64_t host = 0;  // host's begin of the stretch to the earliest end, or arrival of a transfer
    double work = 0, rate = 0;
    std::span<const WeightedLink> links;
  };
  /// max over the three of what the stretch begins with, each with a constant added.
  struct Times {
    std::int64_t compute = kNever, transfers = kNever, host = kNever;
    std::int64_t at(const Begin& begin) const;
  };
  static constexpr std::int64_t kNever = -(std::int64_t{1} << 61);

  /// A stretch of an instance.
  struct Course {
    std::uint32_t slot = 0;
    std::vector<Row> rows;
    std::vector<WeightedLink> links;  // on which others can be, each once
    Times compute, transfers;         // its ends, alone
  };
  enum class State : std::uint8_t { holds, waits, flows };
  struct Run {
    Begin begin;
    const Course* course = nullptr;
    State state = State::holds;
    bool arrived = false;                          // one of its two operations has
    std::uint32_t at = 0;                          // items before are done
    std::int64_t compute = 0, transfers = 0;       // streams are free
    std::int64_t begins = 0;                       // the transfer that is next
    std::vector<std::int64_t> finishes;            // of transfers
    StretchEnd end;                                // while it holds its links
    std::vector<std::unique_ptr<Course>> courses;  // by stretch
  };

  const Course& course_of(std::uint32_t number, std::uint32_t slot, std::uint32_t stretch);
  Course make_course(InstanceId instance, std::uint32_t slot, const Stretch& stretch) const;
  static void find_ends(Course& course);
  static bool to_next_transfer(Run& run);
  static void finish_transfer(Run& run, std::int64_t at);
  static StretchEnd end_alone(Run& run);
  std::optional<StretchEnd> begin(std::uint32_t number);
  std::optional<StretchEnd> advance(std::uint32_t number);
  /// Puts the transfer that is next on its links, where others are, or waits until it begins.
  void share_links(std::uint32_t number);

  const Plan& plan_;
  const Network& network_;
  const Contention& contention_;
  Transfers& transfers_;
  std::vector<InstanceId> instances_;
  std::vector<Run> runs_;
};

}  // namespace orrery::sim
