// Max-min fair sharing that is kept up to date while transfers come and go. Only what a change does reach is solved
// again, in two ways:
//  - A link is slack while its transfers, each at the highest rate that its own cap and routes allow when alone, fill
//    no more than its capacity: such a link can stop nobody and takes no part. In a fabric without oversubscription
//    that keeps most re-solves inside one group of ranks.
//  - Rates are max-min fair if and only if every transfer has a bottleneck: its own cap, or a full link on which
//    nobody is faster. So only the transfers that a change can move directly are set free at first, all others on
//    their links keep their rates; whoever is then forced down, or has lost its bottleneck, is set free too, until
//    all have one.
// What changes do reach falls into parts that share no link that could be full, thousands of them where replicas do the
// same at an instant; each is solved by itself, while its rows are at hand.
//
// Why that is enough. Fair: who has a bottleneck can gain only on a full link on which nobody is faster, at the cost of
// someone who has no more (Bertsekas & Gallager, Data Networks, 6.5.2: such rates are the only ones). After the last
// round every free transfer has one, because filling stops it at its cap or at a link that is full at the level
// reached, where all others have stopped at or below that level. Every other one has one, too: on a link whose level is
// what it was its old one stands, and on those whose level moved widen() looks at each. No link is over its capacity:
// one that carries free transfers and could be full takes part in the filling, any other carries what it did or is
// slack. It ends: each round sets at least one more free, and after some rounds everyone in sight. Part by part:
// a level that a change has made untrue may pass for a bottleneck until the part of its link is solved, which sets
// free all that it held.
//
// Exactness. A rate is a function of the transfers that are active, not of the history: rates are kept to 40
// significant bits; loads are summed as integers and sums of weights from Network::add_route are exact in a double,
// so the order of summing cannot show. A network of n identical parts and its quotient therefore have the same rates
// to the last bit.
//
// Algorithm: progressive filling (Bertsekas & Gallager, Data Networks, 6.5.2) with a heap of links by the level at
// which they would be full; the level of a link only grows while others stop, so stale heap entries are corrected
// when they surface.
//
// Parts: a run on several threads gives each a part of the transfers and of the links (sharing_tables.h). Each part
// adds and removes its own transfers, settle() then tells it what others did to its links, and all solve at a time,
// each what its own links' changes reach (sharing_solver.h). Rates being a function of who is active alone, they are
// the same whatever part solves them, and in whatever order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/sharing_solver.h"
#include "sim/sharing_tables.h"

namespace orrery::sim {

class FairSharing {
 public:
  /// `capacity` is copied. `owners`, of every link, where there are several parts.
  explicit FairSharing(const Table<LinkId, double>& capacity, std::uint32_t parts = 1,
                       std::span<const LinkOwner> owners = {});
  FairSharing(const FairSharing&) = delete;
  FairSharing& operator=(const FairSharing&) = delete;

  /// Starts transfer number `flow` (small numbers, used again after remove()). `links` must stay valid until
  /// remove(); not empty. `cap` in bytes/s, 0 = none.
  void add(std::uint32_t flow, std::span<const WeightedLink> links, double cap) {
    if (flow >= tables_.flows.size()) make_room(flow + 1);
    add(0, flow, links, rate_alone(links, cap));
  }
  /// Bytes/s of a transfer on these links with nobody else there.
  double rate_alone(std::span<const WeightedLink> links, double cap) const;
  void remove(std::uint32_t flow) { remove(0, flow); }
  /// One of these comes soon: its rows are fetched meanwhile.
  void expect(std::uint32_t flow, std::span<const WeightedLink> links) const {
    if (flow < tables_.flows.size()) __builtin_prefetch(&tables_.flows[flow], 1);
    for (const WeightedLink& l : links.first(std::min<std::size_t>(links.size(), 16)))
      __builtin_prefetch(&tables_.links[index(l.link)], 1);
  }
  /// Sooner still: the lists of who is on these.
  void expect_lists(std::span<const WeightedLink> links) const {
    for (const WeightedLink& l : links.first(std::min<std::size_t>(links.size(), 4))) {
      const SharedLink& link = tables_.links[index(l.link)];
      tables_.pools[link.owner].expect(link);
    }
  }

  /// Solves again what add() and remove() touched since the last call. Returns the transfers whose rate changed
  /// (every new one is among them), each once, in no particular order; valid until the next call. Of one part.
  std::span<const std::uint32_t> solve();
  /// Bytes/s, as of the last solve().
  double rate(std::uint32_t flow) const { return tables_.flows[flow].rate; }
  /// Whether no transfer is on the link, those of a stretch that holds it left aside.
  bool idle(LinkId link) const { return tables_.links[index(link)].active == 0; }
  /// How many calls of solve() had to share anything; a transfer that finds its links slack costs none.
  std::uint64_t solves() const { return solves_; }

  // The same by parts. What names a part may be called for all parts at a time; what does not, for none meanwhile.

  /// Transfers have numbers below `flows`.
  void make_room(std::size_t flows);
  /// A transfer of this part; below what make_room() was told. `alone`: no more than its rate_alone(), whoever knows it
  /// needs not ask every link.
  void add(std::uint32_t part, std::uint32_t flow, std::span<const WeightedLink> links, double alone);
  void remove(std::uint32_t part, std::uint32_t flow);
  /// Whether settle() has anything to do.
  bool unsettled() const;
  /// What parts have done to links of this part.
  void settle(std::uint32_t part);
  /// Whether links have to be shared anew; after settle(). If so, loosen() of all, then solve() of all, then
  /// solve_rest() follow.
  bool begin_solve(bool at_one_time);
  void loosen(std::uint32_t part) { solvers_[part].loosen(); }
  void solve(std::uint32_t part);
  /// Solves what parts met each other at.
  void solve_rest();
  bool has_changed() const;
  /// Calls changed(flow) for each transfer of this part whose rate changed; a transfer's part is its number modulo the
  /// number of parts, rounded up to a power of two. The lists stay until forget_changed().
  template <class Changed>
  void for_changed(std::uint32_t part, Changed changed) {
    for (const SharingSolver& solver : solvers_) {
      for (const std::uint32_t flow : solver.changed()) {
        if ((flow & part_mask_) == part && forget(flow)) changed(flow);
      }
    }
  }
  void forget_changed();

  using Load = LinkLoad;

  /// weight * rate (bytes/s, products below 2^80), rounded down.
  static Load load(double weight, double rate) { return link_load(weight, rate); }
  /// The highest load at which a link counts as slack.
  static Load slack_limit(double capacity);
  /// A rate as it is kept here: 40 significant bits.
  static double round_rate(double rate) { return round_to_shared(rate); }

 private:
  double capacity_of(LinkId l) const {
    return tables_.fixed.empty() ? tables_.fillings[index(l)].capacity : tables_.fixed[index(l)].capacity;
  }
  std::uint32_t owner_of(LinkId l) const { return tables_.fixed.empty() ? 0 : tables_.fixed[index(l)].owner; }

  /// What a part has done to a link of another.
  struct Change {
    Load load = 0;  // at the rate that the transfer has alone
    LinkEntry entry;
    std::uint32_t link = 0;
    bool added = false;
  };
  /// Links of a route mostly have one weight, so that what they carry is worked out once.
  struct LoadOf {
    double rate = 0, weight = 0;
    Load known = 0;
    Load operator()(double next) {
      if (next == weight) return known;
      weight = next;
      return known = load(next, rate);
    }
  };
  /// What one part leaves for the others.
  struct alignas(64) Left {
    std::vector<std::vector<Change>> changes;  // by part
    std::vector<std::uint32_t> crowded;        // links of its own whose lists want reading
  };

  void put_on(std::uint32_t part, std::uint32_t number, const LinkEntry& entry, Load load);
  void take_off(std::uint32_t part, std::uint32_t number, Load load);
  void make_place(std::uint32_t part, std::uint32_t link);
  /// A transfer that came and went within the instant is nobody's concern any more.
  bool forget(std::uint32_t flow) {
    tables_.flows[flow].reported = tables_.flows[flow].fresh = false;
    return tables_.flows[flow].active;
  }

  SharingTables tables_;
  std::vector<SharingSolver> solvers_;
  std::vector<Left> left_;
  std::vector<char> finished_;  // by part: it met no other
  std::vector<std::uint32_t> reported_;
  std::uint32_t part_mask_ = 0;
  std::uint64_t solves_ = 0;
};

}  // namespace orrery::sim
