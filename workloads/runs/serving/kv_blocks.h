// Blocks of a paged cache: those that one sequence has to itself, and those with content that others may find again
// (prefix caching, vLLM's by hash of a block and all ahead of it). Content that nobody holds stays until its room is
// needed, the least recently held first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/runs/serving/cache_tiers.h"

namespace orrery::serving {

class KvBlocks {
 public:
  /// `content_tokens`: of a block of content, of which there are `different`.
  KvBlocks(std::int64_t blocks, std::int64_t block_tokens, std::int64_t content_tokens, std::int64_t different);

  /// What leaves these blocks, or all that comes to be in them, goes there too.
  void lie_above(CacheTiers* below, TierWrite write) {
    below_ = below;
    write_ = write;
  }

  std::int64_t capacity() const { return capacity_; }
  std::int64_t block_tokens() const { return block_tokens_; }
  std::int64_t of_tokens(std::int64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }
  /// Blocks of the cache that a block of content takes.
  std::int64_t of_content() const { return content_blocks_; }
  /// Blocks that nobody holds.
  std::int64_t free() const { return capacity_ - private_ - shared_; }
  std::int64_t used() const { return private_ + shared_; }

  /// How many of these, from the first on, the cache has.
  std::int64_t found(std::span<const std::int32_t> contents) const;
  /// What hold() would take of free(), as content that nobody holds counts there.
  std::int64_t unheld(std::span<const std::int32_t> contents) const;
  void hold(std::span<const std::int32_t> contents);
  void release(std::span<const std::int32_t> contents);
  /// Private blocks of a sequence become content that it holds. False where the cache has that content already.
  bool remember(std::int32_t content);

  /// Takes private blocks; there must be so many.
  void take(std::int64_t blocks);
  void give(std::int64_t blocks);

 private:
  struct Content {
    std::int32_t holders = 0, before = -1, after = -1;  // neighbours by age, where nobody holds it
    bool cached = false;
  };
  void unlink(std::int32_t content);
  void evict();

  std::int64_t capacity_, block_tokens_, content_blocks_;
  std::int64_t private_ = 0, shared_ = 0, idle_ = 0;  // idle: content that nobody holds
  std::vector<Content> contents_;
  CacheTiers* below_ = nullptr;
  TierWrite write_ = TierWrite::on_eviction;
  std::int32_t oldest_ = -1, newest_ = -1;
};

}  // namespace orrery::serving
