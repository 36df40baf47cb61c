// The rules and constants are PyTorch's: sizes in steps of 512 bytes; up to 1 MiB from segments of 2 MiB, up to 10 MiB
// from segments of 20 MiB, above that from segments of their own size in steps of 2 MiB. A block is split where what is
// left is worth it: 512 bytes of a small segment, more than 1 MiB of a large one.
#include "workloads/memory/caching_allocator.h"

#include <algorithm>

namespace orrery::workloads {

namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kStep = 512, kSmall = kMiB, kSmallSegment = 2 * kMiB;
constexpr std::int64_t kMedium = 10 * kMiB, kMediumSegment = 20 * kMiB, kLargeStep = 2 * kMiB;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t step) { return (bytes + step - 1) / step * step; }

std::int64_t segment_bytes(std::int64_t bytes) {
  if (bytes <= kSmall) return kSmallSegment;
  return bytes < kMedium ? kMediumSegment : rounded_up(bytes, kLargeStep);
}

}  // namespace

CachingAllocator::Block CachingAllocator::new_part(const Part& part) {
  if (unused_.empty()) {
    parts_.push_back(part);
    return static_cast<Block>(parts_.size() - 1);
  }
  const Block block = unused_.back();
  unused_.pop_back();
  at(block) = part;
  return block;
}

void CachingAllocator::split(Block block, std::int64_t bytes) {
  const Part whole = at(block);
  const std::int64_t left = whole.bytes - bytes;
  if (whole.small ? left < kStep : left <= kSmall) return;
  const Block rest = new_part({whole.address + bytes, left, block, whole.behind, whole.small, true});
  if (whole.behind != kNone) at(whole.behind).before = rest;
  at(block).bytes = bytes;
  at(block).behind = rest;
  pool(whole).insert({left, whole.address + bytes, rest});
}

std::optional<CachingAllocator::Block> CachingAllocator::find(std::int64_t bytes, bool may_fail) {
  const std::int64_t size = rounded_up(std::max(bytes, kStep), kStep);
  const bool small = size <= kSmall;
  std::set<Free>& free = free_[small ? 1 : 0];
  const auto found = free.lower_bound({size, 0, kNone});
  Block block = kNone;
  if (found != free.end()) {
    block = found->block;
    free.erase(found);
    at(block).free = false;
  } else {
    const std::int64_t segment = segment_bytes(size);
    if (may_fail && capacity_ > 0 && reserved_ + segment > capacity_) return {};
    block = new_part({next_address_, segment, kNone, kNone, small, false});
    next_address_ += segment;
    reserved_ += segment;
  }
  split(block, size);
  allocated_ += at(block).bytes;
  return block;
}

CachingAllocator::Block CachingAllocator::allocate(std::int64_t bytes) { return *find(bytes, false); }

std::optional<CachingAllocator::Block> CachingAllocator::try_allocate(std::int64_t bytes) { return find(bytes, true); }

void CachingAllocator::take_in_behind(Block block) {
  const Block behind = at(block).behind;
  at(block).bytes += at(behind).bytes;
  at(block).behind = at(behind).behind;
  if (at(block).behind != kNone) at(at(block).behind).before = block;
  unused_.push_back(behind);
}

void CachingAllocator::free(Block block) {
  allocated_ -= at(block).bytes;
  at(block).free = true;
  const auto is_free = [&](Block b) { return b != kNone && at(b).free; };
  if (const Block behind = at(block).behind; is_free(behind)) {
    pool(at(behind)).erase({at(behind).bytes, at(behind).address, behind});
    take_in_behind(block);
  }
  if (const Block before = at(block).before; is_free(before)) {
    pool(at(before)).erase({at(before).bytes, at(before).address, before});
    take_in_behind(before);
    block = before;
  }
  pool(at(block)).insert({at(block).bytes, at(block).address, block});
}

void CachingAllocator::release_cached() {
  for (std::set<Free>& free : free_) {
    std::erase_if(free, [&](const Free& block) {
      const Part& part = at(block.block);
      if (part.before != kNone || part.behind != kNone) return false;
      reserved_ -= part.bytes;
      unused_.push_back(block.block);
      return true;
    });
  }
}

}  // namespace orrery::workloads
