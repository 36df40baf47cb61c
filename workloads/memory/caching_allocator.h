// PyTorch's caching allocator as far as it decides what stays reserved (c10/cuda/CUDACachingAllocator.cpp): memory
// comes from the device in segments, segments are split into blocks, the smallest free block that is large enough is
// taken, and nothing goes back to the device before an allocation fails.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace orrery::workloads {

class CachingAllocator {
 public:
  using Block = std::int32_t;

  /// `capacity`: bytes that the device has for it; 0: as many as are asked for.
  explicit CachingAllocator(std::int64_t capacity = 0) : capacity_(capacity) {}

  /// Beyond the capacity where nothing else helps.
  Block allocate(std::int64_t bytes);
  /// Nothing where the device has no room for another segment.
  std::optional<Block> try_allocate(std::int64_t bytes);
  /// The block may be handed out again at once.
  void free(Block block);
  /// Gives segments back to the device that no block of is in use.
  void release_cached();

  std::int64_t reserved() const { return reserved_; }
  std::int64_t allocated() const { return allocated_; }

 private:
  /// Part of a segment; `before` and `behind` are its neighbours there, or kNone.
  struct Part {
    std::int64_t address = 0, bytes = 0;
    Block before = kNone, behind = kNone;
    bool small = false, free = false;
  };
  struct Free {
    std::int64_t bytes, address;
    Block block;
    friend auto operator<=>(const Free&, const Free&) = default;
  };
  static constexpr Block kNone = -1;

  Block new_part(const Part& part);
  std::optional<Block> find(std::int64_t bytes, bool may_fail);
  void split(Block block, std::int64_t bytes);
  /// `block` takes in what lies behind it.
  void take_in_behind(Block block);
  std::set<Free>& pool(const Part& part) { return free_[part.small ? 1 : 0]; }
  Part& at(Block block) { return parts_[static_cast<std::size_t>(block)]; }

  std::int64_t capacity_, reserved_ = 0, allocated_ = 0, next_address_ = 0;
  std::vector<Part> parts_;
  std::vector<Block> unused_;
  std::array<std::set<Free>, 2> free_;  // of segments for large blocks, and for small ones
};

}  // namespace orrery::workloads
