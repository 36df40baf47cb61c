// The slow reference of serving: token by token, without closed sums. See serving.h.
#include "tests/reference/serving.h"

#include <algorithm>
#include <deque>
#include <vector>

namespace orrery::reference {

namespace {

using serving::Served;
using serving::Time;

struct Running {
  std::size_t request;
  std::int64_t tokens;        // known: prompt and answer so far
  std::int64_t computed = 0;  // with keys in the cache
  std::int64_t generated = 0;
  bool decodes = false;  // has computed all that it had to since it last began
};

std::int64_t blocks_of(std::int64_t tokens, std::int64_t block) { return (tokens + block - 1) / block; }

class Engine {
 public:
  Engine(const serving::Trace& trace, const serving::Limits& limits, serving::StepTimes& times)
      : trace_(trace), limits_(limits), times_(times), served_(trace.requests.size()), seen_(trace.requests.size()) {}

  std::vector<Served> run() {
    std::size_t next = 0;
    const bool closed = trace_.concurrency > 0;
    const auto take = [&](Time at) {
      served_[next].arrival = at;
      read_ = std::max(read_, at) + limits_.front_token * trace_.requests[next].input;
      seen_[next] = read_ + limits_.front;
      coming_.push_back(next);
      ++next;
    };
    while (next < served_.size() && (!closed || static_cast<std::int64_t>(next) < trace_.concurrency))
      take(closed ? 0 : trace_.requests[next].arrival);
    for (;;) {
      const auto seen = [&] { return seen_[coming_.front()]; };
      const bool idle = waiting_.empty() && running_.empty();
      if (idle && coming_.empty()) break;
      if (idle) now_ = std::max(now_, seen());
      // A plan that was made while the last iteration ran knows what had been seen when that began.
      const Time known = limits_.ahead && !idle ? began_ : now_;
      // Looks at what has come behind so many iterations that only decode, or one with prompts in it.
      const bool looks = idle || prompted_ || decoded_ >= limits_.polls_every;
      if (looks) decoded_ = 0;
      prompted_ = false;
      while (looks && !coming_.empty() && seen() <= known) {
        line_up({coming_.front(), trace_.requests[coming_.front()].input});
        coming_.pop_front();
      }
      began_ = now_;
      const std::size_t ended = iterate();
      for (std::size_t i = 0; closed && i < ended && next < served_.size(); ++i) take(now_);
    }
    return served_;
  }

 private:
  std::int64_t held() const {
    std::int64_t sum = 0;
    for (const Running& r : running_) sum += blocks_of(r.computed, limits_.block_tokens);
    return sum;
  }

  /// One iteration; how many requests ended with it.
  std::size_t iterate() {
    std::vector<std::int64_t> fresh(running_.size(), 0);
    std::int64_t budget = limits_.batched_tokens;
    std::int64_t free = limits_.blocks - held();
    bool preempted = false;
    const auto need = [&](const Running& r, std::int64_t tokens) {
      return blocks_of(r.computed + tokens, limits_.block_tokens) - blocks_of(r.computed, limits_.block_tokens);
    };
    const auto preempt = [&](std::size_t at) {
      Running out = running_[at];
      free += blocks_of(out.computed, limits_.block_tokens);
      out.computed = 0;
      out.decodes = false;
      ++served_[out.request].preemptions;
      wait_again(out);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(at));
      fresh.erase(fresh.begin() + static_cast<std::ptrdiff_t>(at));
      preempted = true;
    };
    // All that decode have their token first, whatever came after them; then prompts that were begun.
    const auto decodes = [](const Running& r) { return r.decodes; };
    const auto decode_need = [&] {
      std::int64_t sum = 0;
      for (const Running& r : running_) sum += decodes(r) ? need(r, 1) : 0;
      return sum;
    };
    while (decode_need() > free) preempt(victim(fresh));
    for (std::size_t i = 0; i < running_.size(); ++i) {
      if (!decodes(running_[i])) continue;
      fresh[i] = 1;
      --budget;
    }
    free -= decode_need();
    for (std::size_t i = 0; i < running_.size() && budget > 0;) {
      if (decodes(running_[i])) {
        ++i;
        continue;
      }
      const std::int64_t tokens = std::min(running_[i].tokens - running_[i].computed, budget);
      if (need(running_[i], tokens) > free) {
        const std::size_t out = victim(fresh);
        if (decodes(running_[out])) {  // gives back the block that it was to have, too
          free += need(running_[out], 1);
        }
        preempt(out);
        if (out == i) break;
        if (out < i) --i;
        continue;
      }
      fresh[i] = tokens;
      free -= need(running_[i], tokens);
      budget -= tokens;
      ++i;
    }
    const bool wait = !preempted && gathers();
    while (!preempted && !wait && !waiting_.empty() && budget > 0 &&
           static_cast<std::int64_t>(running_.size()) < limits_.sequences) {
      const Running& first = waiting_.front();
      const std::int64_t tokens = std::min(first.tokens, budget);
      if (need(first, tokens) > free) break;
      free -= need(first, tokens);
      budget -= tokens;
      if (served_[first.request].begun == serving::kNever) served_[first.request].begun = now_;
      running_.push_back(first);
      waited_ = 0;
      fresh.push_back(tokens);
      waiting_.pop_front();
    }
    return execute(fresh);
  }

  /// The one of the highest number, and of these the last that came, comes last.
  bool ahead_of(const Running& a, const Running& b) const {
    const std::int32_t of_a = trace_.requests[a.request].priority, of_b = trace_.requests[b.request].priority;
    return of_a != of_b ? of_a < of_b : a.request < b.request;
  }

  /// Where in running_ stands who is thrown out: the last; or of the least urgent, of those without a chunk, the last
  /// that came.
  std::size_t victim(const std::vector<std::int64_t>& fresh) const {
    if (limits_.order == serving::Order::arrival) return running_.size() - 1;
    std::size_t out = running_.size();
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const bool has_chunk = !running_[i].decodes && fresh[i] > 0;
      if (!has_chunk && (out == running_.size() || ahead_of(running_[out], running_[i]))) out = i;
    }
    return out;
  }

  void wait_again(const Running& r) {
    if (limits_.order == serving::Order::arrival)
      waiting_.push_front(r);
    else
      line_up(r);
  }

  /// Behind all that come first.
  void line_up(const Running& r) {
    std::size_t at = waiting_.size();
    if (limits_.order == serving::Order::priority)
      while (at > 0 && ahead_of(r, waiting_[at - 1])) --at;
    waiting_.insert(waiting_.begin() + static_cast<std::ptrdiff_t>(at), r);
  }

  /// Whether prompts wait for more of them; counts the iterations that they did.
  bool gathers() {
    const serving::Gather& g = limits_.gather;
    if (g.iterations == 0 || waiting_.empty()) return false;
    std::int64_t tokens = 0, prompts = 0;
    for (const Running& r : running_) tokens += r.decodes ? 1 : 0;
    const bool nobody = tokens == 0;
    for (const Running& r : waiting_) {
      if (static_cast<std::int64_t>(running_.size()) + prompts >= limits_.sequences) break;
      tokens += r.tokens;
      ++prompts;
    }
    const bool wait = (tokens < g.tokens || prompts < g.prompts) && !nobody && prompts > 0 && waited_ < g.iterations;
    waited_ += wait ? 1 : 0;
    return wait;
  }

  std::size_t execute(const std::vector<std::int64_t>& fresh) {
    std::int64_t count = 0, keys = 0, sampled = 0;
    std::vector<serving::Piece> pieces;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const Running& r = running_[i];
      if (fresh[i] == 0) continue;
      sampled += r.computed + fresh[i] == r.tokens ? 1 : 0;
      if (r.decodes) {
        ++count;
        keys += r.tokens;
      } else {
        pieces.push_back({fresh[i], r.computed});
      }
    }
    prompted_ = !pieces.empty();
    ++decoded_;
    now_ += pieces.empty() ? times_.decode(count, keys).at(keys) : times_.mixed({count, keys, pieces, sampled});
    std::size_t ended = 0;
    std::vector<Running> stay;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      Running r = running_[i];
      r.computed += fresh[i];
      if (fresh[i] > 0 && r.computed == r.tokens) {
        ++r.tokens;
        ++r.generated;
        r.decodes = true;
        Served& served = served_[r.request];
        if (served.first == serving::kNever) served.first = now_;
        served.last = now_;
        if (r.generated == trace_.requests[r.request].output) {
          ++ended;
          continue;
        }
      }
      stay.push_back(r);
    }
    running_ = std::move(stay);
    return ended;
  }

  const serving::Trace& trace_;
  const serving::Limits& limits_;
  serving::StepTimes& times_;
  std::vector<Served> served_;
  std::vector<Time> seen_;
  Time read_ = 0;  // when the front end is through with those that have come
  std::deque<std::size_t> coming_;
  std::deque<Running> waiting_;
  std::vector<Running> running_;
  Time now_ = 0, began_ = 0;
  std::int64_t waited_ = 0, decoded_ = 0;
  bool prompted_ = false;
};

}  // namespace

std::vector<Served> serve_by_token(const serving::Trace& trace, const serving::Limits& limits,
                                   serving::StepTimes& times) {
  return Engine(trace, limits, times).run();
}

}  // namespace orrery::reference
