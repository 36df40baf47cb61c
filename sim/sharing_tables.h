// What fair sharing (sim/fair_sharing.h) knows of transfers and links, and which part of a run sees to which of them.
//
// Tables are flat: who is on which link lies in pools of blocks whose sizes are powers of two, what only a solve needs
// lies apart from what every add() and remove() touches, which is one cache line per link.
//
// Parts: a run on several threads gives each a part of the transfers and of the links. A link's owner keeps the list of
// who is on it. While links are shared anew any part may solve any link; it then claims each link that it includes and
// each transfer that it meets there, so that no two work on what one change can reach.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sim/error.h"
#include "sim/hash.h"
#include "sim/large_pages.h"
#include "sim/network.h"

namespace orrery::sim {

/// The level of a link that nobody uses, the rate of a transfer that nothing stops.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Bytes/s in units of 2^-40, exact under addition and removal.
__extension__ using LinkLoad = __int128;

/// weight * rate (bytes/s, products below 2^80), rounded down. A cast without the library call that compilers make of
/// it.
inline LinkLoad link_load(double weight, double rate) {
  constexpr int kMantissa = 52, kBias = 1023;
  const auto bits = std::bit_cast<std::uint64_t>(weight * rate * 0x1p40);
  const int shift = static_cast<int>(bits >> kMantissa) - kBias - kMantissa;
  const std::uint64_t mantissa = (bits & ((std::uint64_t{1} << kMantissa) - 1)) | (std::uint64_t{1} << kMantissa);
  if (shift >= 0) return static_cast<LinkLoad>(mantissa) << shift;
  return shift > -kMantissa - 1 ? static_cast<LinkLoad>(mantissa >> -shift) : 0;
}

/// load * 2^-40 for loads that are not negative, rounded to nearest; likewise without a library call.
inline double from_load(LinkLoad load) {
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

/// A rate as it is kept in sharing: 40 significant bits.
inline double round_to_shared(double rate) { return round_significant<40>(rate); }

/// Which part of a run sees to a link.
struct LinkOwner {
  std::uint8_t part = 0;
  bool shared = false;  // transfers of other parts cross it too
};

struct alignas(64) SharingFlow {
  std::span<const WeightedLink> links;
  double rate = 0;
  double alone = 0;  // the rate that it has when nobody else is there
  double next = 0;   // the rate that this solve finds
  std::uint32_t generation = 0;
  std::uint32_t claim = 0;            // one more than the part whose solve has claimed it; 0: none
  std::uint32_t holder = 0xffffffff;  // one of its links that was last seen to stop it; none
  bool active : 1 = false;
  bool fresh : 1 = false;  // not solved yet
  bool free : 1 = false;   // its rate may change in this solve; else it moves at most as fast as before
  bool stopped : 1 = false;
  bool reported : 1 = false;
  std::uint64_t stamp = 0;  // of the last solve that set it free
};

/// A transfer on a link.
struct LinkEntry {
  std::uint32_t flow = 0;  // in an unused block: the next unused block of this size
  std::uint32_t generation = 0;
  double weight = 0;
};

inline constexpr std::uint8_t kNoBlock = 0xff;

struct alignas(64) SharedLink {
  LinkLoad demand = 0;
  LinkLoad limit = 0;
  double level = 0;         // the rate at which it is full; infinity while it stops nobody
  std::uint64_t stamp = 0;  // of the last solve that it took part in
  std::uint32_t active = 0;
  std::uint32_t begin = 0;  // its block of its owner's pool, with entries of removed transfers until the list is read
  std::uint32_t size = 0;
  std::uint8_t size_class = kNoBlock;  // the block holds 2 << size_class entries
  bool dirty = false;
  std::uint8_t owner = 0;
  bool shared = false;  // as LinkOwner::shared
  bool tight() const { return demand > limit; }
};

/// What of a link never changes, apart from what does: parts that put transfers on each other's links would wait for
/// the lines that the other writes.
struct FixedLink {
  double capacity = 0;
  std::uint8_t owner = 0;
};

/// A link during one solve.
struct alignas(64) LinkFilling {
  LinkLoad used = 0;  // of those that have stopped
  double weight = 0;  // of transfers that have not stopped
  double floor = 0;   // the last level at which a free transfer of this link stopped
  double next_level = 0;
  std::uint32_t moving = 0;  // free transfers that have not stopped
  std::uint32_t bound = 0;   // rows of the solver's bounds: transfers that are not free and have not stopped
  std::uint32_t bound_end = 0;
  std::uint32_t claim = 0;  // likewise of the link
  double capacity = 0;
};
static_assert(sizeof(SharedLink) == 64 && sizeof(SharingFlow) == 64 && sizeof(LinkFilling) == 64);

/// The lists of the links of one part.
class EntryPool {
 public:
  std::span<LinkEntry> of(const SharedLink& link) { return {entries_.data() + link.begin, link.size}; }
  std::span<const LinkEntry> of(const SharedLink& link) const { return {entries_.data() + link.begin, link.size}; }
  void expect(const SharedLink& link) const { __builtin_prefetch(entries_.data() + link.begin); }
  bool full(const SharedLink& link) const { return link.size_class == kNoBlock || link.size == 2u << link.size_class; }
  /// To a block of twice the size.
  void enlarge(SharedLink& link);
  /// To a smaller block, where three quarters are not used.
  void shrink(SharedLink& link);
  /// Into a block that has room.
  void append(SharedLink& link, const LinkEntry& entry) { entries_[link.begin + link.size++] = entry; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t take_block(std::uint8_t size_class);
  void move(SharedLink& link, std::uint8_t size_class);

  LargeTable<LinkEntry> entries_;
  std::vector<std::uint32_t> unused_blocks_;  // by size class, the first of a chain
};

struct SharingTables {
  LargeTable<SharingFlow> flows;
  LargeTable<SharedLink> links;
  LargeTable<LinkFilling> fillings;  // by link
  LargeTable<FixedLink> fixed;       // by link; of one part none
  std::vector<EntryPool> pools;      // by part

  bool holds(const LinkEntry& entry) const {
    return flows[entry.flow].active && flows[entry.flow].generation == entry.generation;
  }
  std::span<LinkEntry> entries_of(const SharedLink& link) { return pools[link.owner].of(link); }
  void drop_removed(SharedLink& link) {
    const std::span<LinkEntry> entries = entries_of(link);
    const auto end =
        std::remove_if(entries.begin(), entries.end(), [&](const LinkEntry& entry) { return !holds(entry); });
    link.size = static_cast<std::uint32_t>(end - entries.begin());
  }
};

}  // namespace orrery::sim
