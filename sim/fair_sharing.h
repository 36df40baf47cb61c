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
// Tables are flat: who is on which link lies in one pool of blocks whose sizes are powers of two, what only a solve
// needs lies apart from what every add() and remove() touches, which is one cache line per link.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/large_pages.h"
#include "sim/network.h"

namespace orrery::sim {

class FairSharing {
 public:
  /// `capacity` is copied.
  explicit FairSharing(const Table<LinkId, double>& capacity);

  /// Starts transfer number `flow` (small numbers, used again after remove()). `links` must stay valid until
  /// remove(); not empty. `cap` in bytes/s, 0 = none.
  void add(std::uint32_t flow, std::span<const WeightedLink> links, double cap);
  void remove(std::uint32_t flow);
  /// One of these comes soon: its rows are fetched meanwhile.
  void expect(std::uint32_t flow, std::span<const WeightedLink> links) const {
    if (flow < flows_.size()) __builtin_prefetch(&flows_[flow], 1);
    for (const WeightedLink& l : links) __builtin_prefetch(&links_[index(l.link)], 1);
  }

  /// Solves again what add() and remove() touched since the last call. Returns the transfers whose rate changed
  /// (every new one is among them), each once, in no particular order; valid until the next call.
  std::span<const std::uint32_t> solve();
  /// Bytes/s, as of the last solve().
  double rate(std::uint32_t flow) const { return flows_[flow].rate; }
  /// How many calls of solve() had to share anything; a transfer that finds its links slack costs none.
  std::uint64_t solves() const { return solves_; }

  __extension__ using Load = __int128;  // bytes/s in units of 2^-40, exact under addition and removal

  /// weight * rate (bytes/s, products below 2^80), rounded down.
  static Load load(double weight, double rate);
  /// The highest load at which a link counts as slack.
  static Load slack_limit(double capacity);
  /// A rate as it is kept here: 40 significant bits.
  static double round_rate(double rate);

 private:
  static constexpr std::uint8_t kNoBlock = 0xff;
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct alignas(64) Flow {
    std::span<const WeightedLink> links;
    double rate = 0;
    double alone = 0;  // the rate that it has when nobody else is there
    double next = 0;   // the rate that this solve finds
    std::uint32_t generation = 0;
    bool active = false;
    bool fresh = false;  // not solved yet
    bool free = false;   // its rate may change in this solve; else it moves at most as fast as before
    bool stopped = false;
    bool reported = false;
    std::uint64_t stamp = 0;  // of the last solve that set it free
  };
  struct Entry {
    std::uint32_t flow = 0;  // in an unused block: the next unused block of this size
    std::uint32_t generation = 0;
    double weight = 0;
  };
  struct Bound {
    std::uint32_t flow = 0;
    double weight = 0;
    double rate = 0;
  };
  struct alignas(64) Link {
    Load demand = 0;
    Load limit = 0;
    double capacity = 0;
    double level = 0;  // the rate at which it is full; infinity while it stops nobody
    std::uint32_t active = 0;
    std::uint32_t begin = 0;  // its block of entries_, with entries of removed transfers until the list is read
    std::uint32_t size = 0;
    std::uint8_t size_class = kNoBlock;  // the block holds 2 << size_class entries
    bool dirty = false;
  };
  /// A link during one solve.
  struct alignas(64) Filling {
    Load used = 0;      // of those that have stopped
    double weight = 0;  // of transfers that have not stopped
    double floor = 0;   // the last level at which a free transfer of this link stopped
    double next_level = 0;
    std::uint32_t moving = 0;  // free transfers that have not stopped
    std::uint32_t bound = 0;   // rows of Solve::bounds: transfers that are not free and have not stopped
    std::uint32_t bound_end = 0;
    std::uint64_t stamp = 0;
  };
  static_assert(sizeof(Link) == 64 && sizeof(Flow) == 64 && sizeof(Filling) == 64);
  struct HeapItem {
    double level = 0;
    std::uint32_t subject = 0;  // link, or flow with kFlowBit
  };

  static double from_load(Load load);
  static bool later(const HeapItem& a, const HeapItem& b);
  bool tight(const Link& link) const { return link.demand > link.limit; }
  void mark(std::uint32_t link);
  void report(std::uint32_t flow);
  std::span<Entry> entries_of(const Link& link) { return {entries_.data() + link.begin, link.size}; }
  std::span<const Entry> entries_of(const Link& link) const { return {entries_.data() + link.begin, link.size}; }
  void append(Link& link, const Entry& entry);
  std::uint32_t take_block(std::uint8_t size_class);
  void drop_removed(Link& link);
  void expect_link(std::uint32_t number) const;
  void expect_entries(const Link& link) const;
  void loosen();
  void solve_from(std::uint32_t flow, std::uint32_t link);
  void free_held(const Link& link);
  void set_free(std::uint32_t flow);
  void include(std::uint32_t link);
  void reach();
  bool has_bottleneck(const Flow& flow) const;
  bool widen(bool all);
  void commit();
  void load_link(std::uint32_t link);
  double level_of(std::uint32_t link);
  void fill();
  void push(double level, std::uint32_t subject);
  void take_bottlenecks(double level);
  void stop(std::uint32_t flow, double level);

  LargeTable<Flow> flows_;
  LargeTable<Link> links_;
  LargeTable<Filling> fillings_;              // by link
  LargeTable<Entry> entries_;                 // who is on the links, in blocks
  std::vector<std::uint32_t> unused_blocks_;  // by size class, the first of a chain
  std::vector<std::uint32_t> dirty_;
  std::vector<std::uint32_t> loosened_;  // transfers on links that have become slack
  std::vector<std::uint32_t> changed_;
  std::vector<std::uint32_t> reported_;
  std::vector<std::uint32_t> component_links_;  // links that may be full and carry free transfers, or were touched
  std::vector<std::uint32_t> free_;             // transfers whose rate may change
  std::size_t reached_ = 0;                     // how many of free_ have brought in their links
  /// What one solve works with; kept for its memory.
  struct Solve {
    std::vector<HeapItem> heap;              // what stops next on top
    std::vector<std::uint32_t> bottlenecks;  // what stops at the level reached
    std::vector<Bound> bounds;
    std::size_t moving = 0;  // free transfers that have not stopped
  } solve_;
  std::uint64_t stamp_ = 0;
  std::uint64_t solves_ = 0;
};

}  // namespace orrery::sim
