// The account of sequences.
#include "workloads/runs/serving/scheduler.h"

#include <algorithm>

#include "sim/error.h"
#include "workloads/runs/serving/batching.h"

namespace orrery::serving {

Scheduler::Scheduler(const Trace& trace, const Limits& limits, std::vector<Sequence>& sequences)
    : trace_(trace),
      limits_(limits),
      blocks_(limits.blocks, limits.block_tokens, trace.content_tokens, limits.prefix_caching ? trace.different : 0),
      sequences_(sequences),
      phases_(static_cast<std::size_t>(limits.block_tokens), 0) {}

void Scheduler::wait(std::int32_t id) {
  // One that comes from a replica that failed brings what was written of its answer.
  at(id).prompt = request(id).input + at(id).generated;
  limits_.order == Order::priority ? enqueue(id) : waiting_.push_back(id);
}

void Scheduler::enqueue(std::int32_t id) {
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), id,
                                   [&](std::int32_t a, std::int32_t b) { return more_urgent(a, b); }),
                  id);
}

std::int32_t Scheduler::victim() const {
  if (limits_.order == Order::arrival) return newest_;
  std::int32_t out = -1;
  for (std::int32_t id = newest_; id >= 0; id = sequence(id).before)
    if (!sequence(id).planned && (out < 0 || more_urgent(out, id))) out = id;
  return out;
}

std::size_t Scheduler::phase(const Sequence& s) const {
  const std::int64_t block = limits_.block_tokens;
  return static_cast<std::size_t>((((s.prompt + 1 - s.joined) % block) + block) % block);
}

std::int64_t Scheduler::blocks_of_steps(std::int64_t steps) const {
  // A sequence begins a block where it sees 1 key more than whole blocks hold: once in as many steps as a block has
  // tokens.
  const auto block = static_cast<std::int64_t>(phases_.size());
  std::int64_t sum = steps / block * decoding_;
  for (std::int64_t i = 0; i < steps % block; ++i)
    sum += phases_[static_cast<std::size_t>((((1 - steps_ - i) % block) + block) % block)];
  return sum;
}

std::int64_t Scheduler::steps_of_blocks() const {
  if (decoding_ == 0) return 0;
  const auto block = static_cast<std::int64_t>(phases_.size());
  const std::int64_t rounds = blocks_.free() / decoding_;
  std::int64_t steps = rounds * block, left = blocks_.free() - rounds * decoding_;
  for (std::int64_t i = 0; i < block; ++i, ++steps) {
    left -= phases_[static_cast<std::size_t>((((1 - steps_ - i) % block) + block) % block)];
    if (left < 0) break;
  }
  return steps;
}

std::int64_t Scheduler::steps_to_end() {
  while (!holds(ends_.top())) ends_.pop();
  return ends_.top().at - steps_;
}

std::int64_t Scheduler::blocks_of_chunk(std::int32_t id, std::int64_t fresh) const {
  const Sequence& s = sequence(id);
  // What is cached ahead of it may end inside a block of content, of which a token is computed once more.
  const std::int64_t held = std::max(blocks_.of_tokens(s.computed), s.held * blocks_.of_content());
  return std::max<std::int64_t>(0, blocks_.of_tokens(s.computed + fresh) - held);
}

std::int64_t Scheduler::blocks_at_end(std::int32_t id) const {
  const Request& r = request(id);
  return blocks_.of_tokens(static_cast<std::int64_t>(r.input) + r.output - 1);
}

Scheduler::Found Scheduler::found() const {
  if (!limits_.prefix_caching || waiting_.empty()) return {};
  const std::int32_t id = waiting_.front();
  const auto contents = trace_.contents_of(request(id));
  const std::int64_t here = blocks_.found(contents);
  const Sequence& s = sequence(id);
  // What left the cache while the request waited is missing from a beginning that was read in part.
  const std::int64_t count = here >= s.staged_from ? std::max<std::int64_t>(here, s.staged_until) : here;
  if (count == 0) return {};
  // A token at least is computed, for the next one to be drawn from.
  const std::int64_t most = (sequence(id).prompt - 1) / limits_.block_tokens * limits_.block_tokens;
  return {count, std::min(count * trace_.content_tokens, most),
          blocks_.unheld(contents.first(static_cast<std::size_t>(here))) + (count - here) * blocks_.of_content(),
          count - here};
}

std::int64_t Scheduler::blocks_to_begin(const Found& found, std::int64_t fresh) const {
  const std::int64_t held = std::max(blocks_.of_tokens(found.tokens), found.contents * blocks_.of_content());
  return found.blocks + std::max<std::int64_t>(0, blocks_.of_tokens(found.tokens + fresh) - held);
}

void Scheduler::link(std::int32_t id) {
  Sequence& s = at(id);
  s.before = newest_;
  s.after = -1;
  (newest_ >= 0 ? at(newest_).after : oldest_) = id;
  newest_ = id;
  ++running_;
}

std::int32_t Scheduler::admit() {
  const Found cached = found();
  const std::int32_t id = waiting_.front();
  waiting_.pop_front();
  waited_ = 0;
  Sequence& s = at(id);
  s.running = true;
  ++s.admissions;
  s.computed = static_cast<std::int32_t>(cached.tokens);
  s.held = static_cast<std::int32_t>(cached.contents);
  const auto contents = trace_.contents_of(request(id)).first(static_cast<std::size_t>(cached.contents));
  blocks_.hold(contents.first(static_cast<std::size_t>(cached.contents - cached.read)));
  if (cached.read > 0) {
    blocks_.take(cached.read * blocks_.of_content());
    for (const std::int32_t content : contents.last(static_cast<std::size_t>(cached.read))) blocks_.remember(content);
  }
  s.staged_from = s.staged_until = 0;
  prompt_tokens_ += s.prompt;
  found_tokens_ += cached.tokens;
  link(id);
  promised_ += blocks_at_end(id) - s.held * blocks_.of_content();
  prefilling_.push_back(id);
  return id;
}

void Scheduler::add_chunk(Plan& plan, std::int32_t id, std::int64_t fresh) {
  const std::int64_t blocks = blocks_of_chunk(id, fresh);
  blocks_.take(blocks);
  promised_ -= blocks;
  at(id).planned = true;
  plan.chunks.push_back({id, fresh});
}

std::int64_t Scheduler::stop(std::int32_t id) {
  Sequence& s = at(id);
  // Blocks of what was computed: of a sequence that decodes all but the token that it would compute next.
  const std::int64_t tokens = s.decoding ? visible(s) - 1 : s.computed;
  const std::int64_t held = s.held * blocks_.of_content();
  const std::int64_t own = std::max<std::int64_t>(0, blocks_.of_tokens(tokens) - held);
  blocks_.give(own);
  promised_ -= blocks_at_end(id) - held - own;
  if (limits_.prefix_caching) blocks_.release(trace_.contents_of(request(id)).first(static_cast<std::size_t>(s.held)));
  if (s.decoding) {
    --decoding_;
    keys_ -= visible(s);
    --phases_[phase(s)];
  } else {
    prefilling_.erase(std::remove(prefilling_.begin(), prefilling_.end(), id), prefilling_.end());
  }
  (s.before >= 0 ? at(s.before).after : oldest_) = s.after;
  (s.after >= 0 ? at(s.after).before : newest_) = s.before;
  s.running = s.decoding = false;
  s.held = 0;
  --running_;
  return own;
}

std::int64_t Scheduler::leave_behind(std::int32_t id) {
  const std::int64_t own = stop(id);
  blocks_.take(own);
  return own;
}

std::int64_t Scheduler::handed_tokens(std::int32_t id) const {
  // The prompt's last token is computed once more, for the first of the answer to be drawn from.
  return request(id).input + sequence(id).generated - (limits_.first_token == FirstToken::decode ? 1 : 0);
}

bool Scheduler::reserve(std::int32_t id, std::int64_t steps) {
  // Who was thrown out comes first.
  if (running_ + reserved_ >= limits_.sequences || !waiting_.empty()) return false;
  const std::int64_t own = blocks_.of_tokens(handed_tokens(id));
  const std::int64_t asked = limits_.batching->preempts ? own + blocks_of_steps(steps) : promised_ + blocks_at_end(id);
  if (asked > blocks_.free()) return false;
  blocks_.take(own);
  promised_ += blocks_at_end(id) - own;
  ++reserved_;
  return true;
}

void Scheduler::drop(std::int32_t id) {
  const std::int64_t own = blocks_.of_tokens(handed_tokens(id));
  blocks_.give(own);
  promised_ -= blocks_at_end(id) - own;
  --reserved_;
}

void Scheduler::join(std::int32_t id) {
  Sequence& s = at(id);
  --reserved_;
  s.running = true;
  ++s.admissions;
  s.prompt = s.computed = static_cast<std::int32_t>(handed_tokens(id));
  s.generated += limits_.first_token == FirstToken::decode ? 0 : 1;
  link(id);
  begin_decoding(id);
}

std::int32_t Scheduler::preempt() {
  const std::int32_t id = victim();
  Sequence& s = at(id);
  if (s.decoding) {
    s.generated += static_cast<std::int32_t>(steps_ - s.joined);
    const Request& r = request(id);
    const std::int32_t lost = r.input + s.generated;
    stop(id);
    s.prompt = lost;
  } else {
    stop(id);
  }
  s.computed = 0;
  limits_.order == Order::priority ? enqueue(id) : waiting_.push_front(id);
  preempted_.push_back(id);
  return id;
}

bool Scheduler::make_room() {
  gathering_ = false;
  bool any = false;
  while (decoding_ > 0 && blocks_of_steps(1) > blocks_.free()) {
    preempt();
    any = true;
  }
  return any;
}

bool Scheduler::gathers() {
  const Gather& g = limits_.gather;
  gathering_ = false;
  if (g.iterations == 0 || waiting_.empty()) return false;
  std::int64_t tokens = decoding_, prompts = 0;
  for (const std::int32_t id : waiting_) {
    if (running_ + prompts >= limits_.sequences || (tokens >= g.tokens && prompts >= g.prompts)) break;
    tokens += sequence(id).prompt;
    ++prompts;
  }
  const bool enough = tokens >= g.tokens && prompts >= g.prompts;
  gathering_ = !enough && decoding_ > 0 && prompts > 0 && waited_ < g.iterations;
  return gathering_;
}

void Scheduler::do_steps(std::int64_t steps) {
  if (gathering_) waited_ += steps;
  const std::int64_t blocks = blocks_of_steps(steps);
  blocks_.take(blocks);
  promised_ -= blocks;
  keys_ += steps * decoding_;
  steps_ += steps;
}

void Scheduler::begin_decoding(std::int32_t id) {
  Sequence& s = at(id);
  s.decoding = true;
  s.joined = steps_;
  s.leaves = steps_ + request(id).output - s.generated;
  ++decoding_;
  keys_ += visible(s);
  ++phases_[phase(s)];
  ends_.push({s.leaves, id, s.admissions});
}

bool Scheduler::finish_chunk(const Chunk& chunk) {
  Sequence& s = at(chunk.sequence);
  s.planned = false;
  s.computed += static_cast<std::int32_t>(chunk.fresh);
  if (limits_.prefix_caching) {
    const auto contents = trace_.contents_of(request(chunk.sequence));
    while (s.held < static_cast<std::int32_t>(contents.size()) &&
           static_cast<std::int64_t>(s.held + 1) * trace_.content_tokens <= s.computed &&
           blocks_.remember(contents[static_cast<std::size_t>(s.held)]))
      ++s.held;
  }
  if (s.computed < s.prompt) return false;
  prefilling_.erase(std::find(prefilling_.begin(), prefilling_.end(), chunk.sequence));
  ++s.generated;
  begin_decoding(chunk.sequence);
  return true;
}

void Scheduler::leave(std::int32_t id) { stop(id); }

}  // namespace orrery::serving
