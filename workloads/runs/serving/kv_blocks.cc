// The account of blocks, and the list of content by age.
#include "workloads/runs/serving/kv_blocks.h"

#include "sim/error.h"

namespace orrery::serving {

KvBlocks::KvBlocks(std::int64_t blocks, std::int64_t block_tokens, std::int64_t content_tokens, std::int64_t different)
    : capacity_(blocks),
      block_tokens_(block_tokens),
      content_blocks_(content_tokens / block_tokens),
      contents_(static_cast<std::size_t>(different)) {
  SIM_CHECK(different == 0 || (content_blocks_ > 0 && content_tokens % block_tokens == 0),
            "content of {} tokens in blocks of {}", content_tokens, block_tokens);
}

std::int64_t KvBlocks::found(std::span<const std::int32_t> contents) const {
  std::int64_t count = 0;
  for (const std::int32_t content : contents) {
    if (!contents_[static_cast<std::size_t>(content)].cached) break;
    ++count;
  }
  return count;
}

std::int64_t KvBlocks::unheld(std::span<const std::int32_t> contents) const {
  std::int64_t count = 0;
  for (const std::int32_t content : contents) {
    if (contents_[static_cast<std::size_t>(content)].holders == 0) ++count;
  }
  return count * content_blocks_;
}

void KvBlocks::unlink(std::int32_t content) {
  Content& c = contents_[static_cast<std::size_t>(content)];
  (c.before >= 0 ? contents_[static_cast<std::size_t>(c.before)].after : oldest_) = c.after;
  (c.after >= 0 ? contents_[static_cast<std::size_t>(c.after)].before : newest_) = c.before;
  c.before = c.after = -1;
  idle_ -= content_blocks_;
}

void KvBlocks::hold(std::span<const std::int32_t> contents) {
  for (const std::int32_t content : contents) {
    Content& c = contents_[static_cast<std::size_t>(content)];
    if (c.holders++ > 0) continue;
    unlink(content);
    shared_ += content_blocks_;
  }
}

void KvBlocks::release(std::span<const std::int32_t> contents) {
  // The last of a prompt first, so that it is the first to go: what stays must be a beginning.
  for (std::size_t i = contents.size(); i-- > 0;) {
    Content& c = contents_[static_cast<std::size_t>(contents[i])];
    if (--c.holders > 0) continue;
    shared_ -= content_blocks_;
    idle_ += content_blocks_;
    c.before = newest_;
    (newest_ >= 0 ? contents_[static_cast<std::size_t>(newest_)].after : oldest_) = contents[i];
    newest_ = contents[i];
  }
}

bool KvBlocks::remember(std::int32_t content) {
  Content& c = contents_[static_cast<std::size_t>(content)];
  if (c.cached) return false;
  c.cached = true;
  c.holders = 1;
  private_ -= content_blocks_;
  shared_ += content_blocks_;
  if (below_ != nullptr && write_ == TierWrite::through) below_->put(content);
  return true;
}

void KvBlocks::evict() {
  const std::int32_t content = oldest_;
  unlink(content);
  contents_[static_cast<std::size_t>(content)].cached = false;
  if (below_ != nullptr && write_ == TierWrite::on_eviction) below_->put(content);
}

void KvBlocks::take(std::int64_t blocks) {
  SIM_CHECK(blocks <= free(), "{} blocks of {} free ones", blocks, free());
  private_ += blocks;
  while (private_ + shared_ + idle_ > capacity_) evict();
}

void KvBlocks::give(std::int64_t blocks) {
  private_ -= blocks;
  SIM_CHECK(private_ >= 0, "more blocks are given back than were taken");
}

}  // namespace orrery::serving
