// Blocks of the lists of who is on which link; see sharing_tables.h.
#include "sim/sharing_tables.h"

namespace orrery::sim {

std::uint32_t EntryPool::take_block(std::uint8_t size_class) {
  if (size_class >= unused_blocks_.size()) unused_blocks_.resize(size_class + 1u, kNone);
  std::uint32_t& unused = unused_blocks_[size_class];
  if (unused != kNone) return std::exchange(unused, entries_[unused].flow);
  const std::size_t begin = entries_.size();
  SIM_CHECK(begin < kNone - (std::size_t{2} << size_class), "{} transfers on links", begin);
  entries_.resize(begin + (std::size_t{2} << size_class));
  return static_cast<std::uint32_t>(begin);
}

void EntryPool::move(SharedLink& link, std::uint8_t size_class) {
  const std::uint32_t before = link.begin;
  link.begin = take_block(size_class);
  std::copy_n(entries_.begin() + before, link.size, entries_.begin() + link.begin);
  entries_[before].flow = std::exchange(unused_blocks_[link.size_class], before);
  link.size_class = size_class;
}

void EntryPool::enlarge(SharedLink& link) {
  if (link.size_class == kNoBlock) {
    link.begin = take_block(link.size_class = 0);
  } else {
    move(link, static_cast<std::uint8_t>(link.size_class + 1));
  }
}

void EntryPool::shrink(SharedLink& link) {
  std::uint8_t size_class = link.size_class;
  while (size_class > 0 && 4 * link.size <= 2u << size_class) --size_class;
  if (size_class != link.size_class) move(link, size_class);
}

}  // namespace orrery::sim
