// Who runs: requests that wait, prompts that are being computed, sequences that decode, and the cache that they share.
// All that decode do so in every iteration that decodes at all, so that each gains a token: a sequence's place in time
// is a count of such iterations, and only joining and leaving touch it.
#pragma once

#include <cstdint>
#include <deque>
#include <queue>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/runs/serving/kv_blocks.h"
#include "workloads/runs/serving/step_times.h"
#include "workloads/runs/serving/trace.h"

namespace orrery::serving {

struct Batching;

/// Where prompts and answers are computed apart: whether the first token is shown as soon as the prompt is computed,
/// once the cache has come to where the answer is written, or is computed there (from the prompt's last token).
enum class FirstToken : std::uint8_t { prefill, transfer, decode };

/// Prompts that wait while others decode, until there are more of them: so many tokens with those that decode, so many
/// prompts, or for so many iterations at most. 0: nobody waits.
struct Gather {
  std::int64_t iterations = 0, tokens = 0, prompts = 0;
};

/// Who of those that wait comes first, and who is thrown out last: by arrival; or by priority, and of these by arrival
/// (vLLM's --scheduling-policy priority, SGLang's --enable-priority-scheduling).
enum class Order : std::uint8_t { arrival, priority };

/// What a replica's engine may hold.
struct Limits {
  std::int64_t sequences = 256;        // under way at a time
  std::int64_t batched_tokens = 8192;  // of an iteration
  std::int64_t blocks = 1, block_tokens = 16;
  bool chunked_prefill = true, prefix_caching = true;
  const Batching* batching = nullptr;
  /// From a request's arrival to where the scheduler sees it: the server's front end.
  Time front = 0;
  /// Whether an iteration is put together while the one before it runs: of what comes meanwhile it knows nothing.
  bool ahead = false;
  /// Of a sequence that decodes, in the mean: 1, and those of a draft that are accepted. Times of decoding iterations
  /// are then those of one token.
  double tokens_per_iteration = 1;
  FirstToken first_token = FirstToken::transfer;
  std::vector<Tier> tiers = {};  // below its cache, each of a replica
  TierWrite tier_write = TierWrite::on_eviction;
  /// That the front end takes for each token of a prompt ahead of `front`, of one request after the other.
  Time front_token = 0;
  Gather gather = {};
  /// Iterations that only decode between two looks at what has come; one with prompts in it is followed by a look.
  std::int64_t polls_every = 1;
  Order order = Order::arrival;
  /// Who comes when so many wait is turned away (SGLang's --max-queued-requests). 0: nobody is.
  std::int64_t waiting = 0;
};

struct Sequence {
  std::int32_t prompt = 0;               // tokens to compute ahead of its next: the prompt, and what a preemption lost
  std::int32_t computed = 0;             // of these
  std::int32_t generated = 0;            // as of `joined`
  std::int32_t held = 0;                 // blocks of content
  std::int64_t joined = 0, leaves = 0;   // iterations that decode, done when it began to and when it is through
  std::int32_t before = -1, after = -1;  // neighbours by admission
  std::int32_t admissions = 0;
  std::int32_t staged_from = 0, staged_until = 0;  // contents that were read for it from below the cache
  bool running = false, decoding = false;
  bool planned = false;  // has a chunk in the next iteration
};

/// Part of a prompt in an iteration.
struct Chunk {
  std::int32_t sequence = 0;
  std::int64_t fresh = 0;
};

/// What the next iteration does.
struct Plan {
  bool decodes = true;
  std::vector<Chunk> chunks;
};

class Scheduler {
 public:
  /// `sequences`: one for each request, which the schedulers of a fleet share.
  Scheduler(const Trace& trace, const Limits& limits, std::vector<Sequence>& sequences);

  const Limits& limits() const { return limits_; }
  const KvBlocks& blocks() const { return blocks_; }
  const Sequence& sequence(std::int32_t id) const { return sequences_[static_cast<std::size_t>(id)]; }
  const Request& request(std::int32_t id) const { return trace_.requests[static_cast<std::size_t>(id)]; }
  const std::deque<std::int32_t>& waiting() const { return waiting_; }
  const std::vector<std::int32_t>& prefilling() const { return prefilling_; }
  std::int64_t decoding() const { return decoding_; }
  std::int64_t keys() const { return keys_; }    // that the next decoding iteration sees
  std::int64_t steps() const { return steps_; }  // decoding iterations done
  std::int64_t running() const { return running_; }

  /// Blocks that the next decoding iteration, or so many of them, take.
  std::int64_t blocks_of_steps(std::int64_t steps) const;
  /// Decoding iterations that the free blocks are enough for.
  std::int64_t steps_of_blocks() const;
  /// Those until the first sequence is through; there must be one.
  std::int64_t steps_to_end();
  /// Blocks that a chunk of a sequence takes.
  std::int64_t blocks_of_chunk(std::int32_t id, std::int64_t fresh) const;
  /// Blocks that those that run may still take until their ends.
  std::int64_t promised_blocks() const { return promised_; }
  /// Most blocks that it can come to hold.
  std::int64_t blocks_at_end(std::int32_t id) const;

  // What policies do.
  /// The first that waits begins to run, on what the cache has of its prompt. A policy says how much it computes.
  std::int32_t admit();
  /// Tokens of the first that waits which the cache has, and blocks that holding them takes of the free ones.
  struct Found {
    std::int64_t contents = 0, tokens = 0, blocks = 0;
    std::int64_t read = 0;  // of the contents, those that were read from below the cache
  };
  Found found() const;
  /// Blocks of a chunk of the first that waits.
  std::int64_t blocks_to_begin(const Found& found, std::int64_t fresh) const;
  void add_chunk(Plan& plan, std::int32_t id, std::int64_t fresh);
  /// Who would be thrown out: the sequence that began to run last, or of the least urgent the last that came.
  std::int32_t victim() const;
  /// It goes back to the head of those that wait, or of its priority, and loses what it has computed.
  std::int32_t preempt();
  /// Preempts until all that decode have room for a token more; whether any was.
  bool make_room();
  /// Whether prompts that wait are to wait for more (Limits::gather); a policy then lets nobody in.
  bool gathers();

  // What the replica does.
  /// Whether the last plan let nobody in for that reason, and iterations until it would.
  bool gathering() const { return gathering_; }
  std::int64_t gather_left() const { return limits_.gather.iterations - waited_; }
  /// A request comes, and waits.
  void wait(std::int32_t id);
  /// Contents of a request that comes have been read from below the cache.
  void stage(std::int32_t id, std::int64_t from, std::int64_t until) {
    at(id).staged_from = static_cast<std::int32_t>(from);
    at(id).staged_until = static_cast<std::int32_t>(until);
  }
  /// All that wait leave.
  std::deque<std::int32_t> take_waiting() { return std::exchange(waiting_, {}); }
  void lie_above(CacheTiers* below) { blocks_.lie_above(below, limits_.tier_write); }
  void do_steps(std::int64_t steps);
  /// A chunk is through; whether its prompt is, so that it has a token.
  bool finish_chunk(const Chunk& chunk);
  /// Calls finished(id) for each sequence that the last decoding iteration finished, or its prompt where it has one
  /// token; which has it leave().
  template <class F>
  void each_finished(F&& finished) {
    while (!ends_.empty() && ends_.top().at <= steps_) {
      const End end = ends_.top();
      ends_.pop();
      if (holds(end)) finished(end.sequence);
    }
  }
  void leave(std::int32_t id);

  // Prompts and answers apart. Where prompts are computed, what a sequence leaves stays until it is handed over; where
  // answers are, its room is taken before it comes.
  /// Takes a sequence out whose blocks of its own stay; how many those are.
  std::int64_t leave_behind(std::int32_t id);
  void give_left(std::int64_t blocks) { blocks_.give(blocks); }
  /// Room for one that comes with its prompt computed: a place, and the blocks that the policy asks for, beside those
  /// of `steps` iterations. False where there is none.
  bool reserve(std::int32_t id, std::int64_t steps);
  /// Gives that room back.
  void drop(std::int32_t id);
  /// It is here, and decodes.
  void join(std::int32_t id);
  std::int64_t reserved() const { return reserved_; }

  /// Those that were thrown out since the last call.
  std::vector<std::int32_t> take_preempted() { return std::exchange(preempted_, {}); }
  std::int64_t prompt_tokens() const { return prompt_tokens_; }
  std::int64_t found_tokens() const { return found_tokens_; }

 private:
  struct End {
    std::int64_t at;
    std::int32_t sequence, admission;
    bool operator<(const End& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;  // the earliest on top
    }
  };
  bool holds(const End& end) const {
    const Sequence& s = sequence(end.sequence);
    return s.decoding && s.admissions == end.admission;
  }
  Sequence& at(std::int32_t id) { return sequences_[static_cast<std::size_t>(id)]; }
  std::int64_t visible(const Sequence& s) const { return s.prompt + 1 + steps_ - s.joined; }
  std::size_t phase(const Sequence& s) const;
  /// Among those that wait, ahead of the less urgent and of later ones.
  void enqueue(std::int32_t id);
  bool more_urgent(std::int32_t a, std::int32_t b) const {
    return std::pair(request(a).priority, a) < std::pair(request(b).priority, b);
  }
  void begin_decoding(std::int32_t id);
  std::int64_t stop(std::int32_t id);
  void link(std::int32_t id);
  /// Tokens whose keys come with it: of its prompt, and of what was written elsewhere ahead of a failure.
  std::int64_t handed_tokens(std::int32_t id) const;

  const Trace& trace_;
  Limits limits_;
  KvBlocks blocks_;
  std::vector<Sequence>& sequences_;
  std::deque<std::int32_t> waiting_;
  std::vector<std::int32_t> prefilling_;  // by admission
  std::priority_queue<End> ends_;
  std::vector<std::int64_t> phases_;  // sequences that decode, by (keys that one sees - steps done) mod block
  std::int64_t decoding_ = 0, keys_ = 0, steps_ = 0, running_ = 0;
  std::int32_t newest_ = -1, oldest_ = -1;
  std::int64_t promised_ = 0, reserved_ = 0;
  bool gathering_ = false;
  std::int64_t waited_ = 0;  // iterations
  std::vector<std::int32_t> preempted_;
  std::int64_t prompt_tokens_ = 0, found_tokens_ = 0;
};

}  // namespace orrery::serving
