// Solves anew what changes of fair sharing reach, for one part of a run; the model is described in fair_sharing.h.
//
// Several parts may solve at a time. Each claims what it looks at (sharing_tables.h): the links that it includes and
// all transfers on them, which nobody else then changes until its solve ends. Where two meet, one takes back what it
// has begun and leaves it for later, when one part alone solves what is left.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/sharing_tables.h"

namespace orrery::sim {

class SharingSolver {
 public:
  SharingSolver(SharingTables& tables, std::uint32_t part)
      : tables_(tables), flows_(tables.flows), links_(tables.links), fillings_(tables.fillings), part_(part) {}

  /// The load of a link of this part has changed.
  void mark(std::uint32_t link) {
    if (links_[link].dirty) return;
    links_[link].dirty = true;
    dirty_.push_back(link);
  }
  /// The rate of a transfer has changed.
  void report(std::uint32_t flow) {
    if (flows_[flow].reported) return;
    flows_[flow].reported = true;
    changed_.push_back(flow);
  }
  bool touched() const { return !dirty_.empty(); }

  /// Sharing begins: solves are numbered from `stamps` on, a multiple of the number of parts. `claiming`: others solve
  /// at the same time.
  void begin(std::uint64_t stamps, bool claiming);
  /// Links that have become slack stop nobody any more: lists the transfers that they stopped.
  void loosen();
  /// From now on nobody else solves.
  void go_on_alone() { claiming_ = false; }
  /// Solves what changes on the links of `part` reach; false where another part was at work on some of it.
  bool solve_for(const SharingSolver& part);
  /// The number of the last solve.
  std::uint64_t stamp() const { return stamp_; }

  /// Of the changes that were seen: all are solved.
  void forget_changes() { dirty_.clear(); }
  const std::vector<std::uint32_t>& changed() const { return changed_; }
  std::vector<std::uint32_t>& changed() { return changed_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Bound {
    std::uint32_t flow = 0;
    double weight = 0;
    double rate = 0;
  };
  struct HeapItem {
    double level = 0;
    std::uint32_t subject = 0;  // link, or flow with kFlowBit
  };

  static bool later(const HeapItem& a, const HeapItem& b);
  bool claim(std::uint32_t& claimed);
  void release();
  bool solve_change(std::uint32_t flow, std::uint32_t link);
  void expect_link(std::uint32_t number) const;
  void expect_held(std::uint32_t subject) const;
  void expect_entries(const SharedLink& link) const;
  bool solve_from(std::uint32_t flow, std::uint32_t link);
  bool give_up();
  void free_held(std::uint32_t link);
  void set_free(std::uint32_t flow);
  bool include(std::uint32_t link);
  bool reach();
  template <class Level>
  static bool is_held(SharingFlow& flow, const Level& level_of_link);
  bool is_held_elsewhere(SharingFlow& flow, std::uint32_t link) const;
  bool has_bottleneck(SharingFlow& flow) const;
  bool widen(bool all);
  void commit();
  void load_link(std::uint32_t link);
  double level_of(std::uint32_t link);
  void fill();
  void fill_one(std::uint32_t link);
  void push(double level, std::uint32_t subject);
  void take_bottlenecks(double level);
  void take_level(double level);
  double stops_at(const HeapItem& item, double level);
  void stop(std::uint32_t flow, double level);

  SharingTables& tables_;
  LargeTable<SharingFlow>& flows_;
  LargeTable<SharedLink>& links_;
  LargeTable<LinkFilling>& fillings_;
  std::uint32_t part_;
  bool claiming_ = false;
  std::vector<std::uint32_t*> claims_;  // what this solve has claimed
  std::vector<std::uint32_t> dirty_;
  std::vector<std::uint32_t> changed_;
  /// What a sharing works with, and one solve of it; kept for its memory.
  struct Solve {
    std::vector<std::uint32_t> loosened;         // transfers on links that have become slack
    std::vector<std::uint32_t> component_links;  // links that may be full and carry free transfers, or were touched
    std::vector<std::uint32_t> cleared;          // of these, those that were touched
    std::vector<std::uint32_t> free;             // transfers whose rate may change
    std::size_t reached = 0;                     // how many of these have brought in their links
    std::vector<HeapItem> heap;                  // what stops next on top
    std::vector<std::uint32_t> bottlenecks;      // what stops at the level reached
    std::vector<Bound> bounds;
    std::size_t moving = 0;  // free transfers that have not stopped
  } solve_;
  std::uint64_t before_ = 0;
  std::uint64_t stamp_ = 0;
};

}  // namespace orrery::sim
