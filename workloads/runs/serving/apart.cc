// Both pools in order of time, of one model or of several. At an instant stretches end first, then requests come and
// caches arrive, and then iterations are put together, so that a plan knows what has come by its begin.
#include "workloads/runs/serving/apart.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <queue>

#include "sim/error.h"
#include "sim/fluid.h"
#include "workloads/runs/serving/replica.h"
#include "workloads/runs/serving/routing.h"

namespace orrery::serving {

namespace {

constexpr double kPicosecondsASecond = 1e12;

/// What comes of itself at a known time.
struct Coming {
  enum class What : std::uint8_t { request, computed, there, given };
  Time at = 0;
  What what = What::request;
  std::int32_t request = 0;
  bool operator<(const Coming& other) const {
    if (at != other.at) return at > other.at;  // the earliest on top
    if (what != other.what) return what > other.what;
    return request > other.request;
  }
};

/// Replicas of a pool by what they do next; events are hints, and the replica is the truth.
class Pool {
 public:
  Pool(const Trace& trace, const Fleet& fleet, StepTimes& times)
      : sequences_(trace.requests.size()), slow_(times, fleet.slow_factor) {
    outcome.requests.resize(trace.requests.size());
    outcome.samples.resize(static_cast<std::size_t>(fleet.replicas));
    for (std::int64_t i = 0; i < fleet.replicas; ++i)
      replicas_.push_back(std::make_unique<Replica>(trace, fleet.limits, i < fleet.slow ? slow_ : times, sequences_,
                                                    outcome, static_cast<std::int32_t>(i), nullptr));
  }
  std::int64_t size() const { return std::ssize(replicas_); }
  Replica& at(std::int64_t i) { return *replicas_[static_cast<std::size_t>(i)]; }
  /// The replica's next act may have changed.
  void changed(std::int64_t i) {
    if (const Time next = at(i).next(); next != kNever) acts_.push({next, at(i).in_stretch() ? 0 : 1, i});
  }
  /// The first act of all: when, whether a stretch ends then (0) or an iteration begins (1), and whose.
  struct Act {
    Time at = 0;
    int rank = 0;
    std::int64_t replica = 0;
    bool operator<(const Act& other) const {
      if (at != other.at) return at > other.at;
      return rank != other.rank ? rank > other.rank : replica > other.replica;
    }
  };
  std::optional<Act> first() {
    while (!acts_.empty()) {
      const Act act = acts_.top();
      Replica& replica = at(act.replica);
      if (replica.next() == act.at && (replica.in_stretch() ? 0 : 1) == act.rank) return act;
      acts_.pop();
    }
    return std::nullopt;
  }

  Outcome outcome;

 private:
  std::vector<Sequence> sequences_;
  SlowTimes slow_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::priority_queue<Act> acts_;
};

/// Prompts alone: each answer ends with the token that comes of its prompt.
Trace prompts_of(const Trace& trace) {
  Trace prompts = trace;
  for (Request& request : prompts.requests) request.output = 1;
  return prompts;
}

/// Caches on their way, of all models on one network.
class Flows {
 public:
  explicit Flows(const sim::Table<sim::LinkId, double>& capacity) : sharing_(capacity), transfers_(sharing_) {}

  Time next() const { return transfers_.empty() ? kNever : transfers_.next(); }
  bool none() const { return under_way_ == 0; }
  void begin(std::int32_t owner, std::int32_t request, Time at, double bytes, const Ways::Way& way, Time latency) {
    std::uint32_t slot = static_cast<std::uint32_t>(slots_.size());
    if (free_.empty()) {
      slots_.push_back({});
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    slots_[slot] = {owner, request, latency};
    ++under_way_;
    sharing_.make_room(std::max<std::size_t>(transfers_.flows(), slot + 1));
    transfers_.begin(slot, std::max(at, transfers_.now()), bytes, way.links, sharing_.rate_alone(way.links, 0));
  }
  /// All that happens at the next instant: through(owner, request, when its last byte is there).
  template <class Through>
  void advance(Through&& through) {
    const Time now = next();
    while (next() == now) {
      sharing_.make_room(transfers_.flows());
      for (const std::uint32_t slot : transfers_.take()) {
        through(slots_[slot].owner, slots_[slot].request, now + slots_[slot].latency);
        free_.push_back(slot);
        --under_way_;
      }
    }
    for (const std::uint32_t slot : sharing_.solve()) transfers_.predict(slot, now);
  }

 private:
  sim::FairSharing sharing_;
  sim::Transfers transfers_;
  struct Slot {
    std::int32_t owner = 0, request = 0;
    Time latency = 0;
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::int64_t under_way_ = 0;
};

/// What comes next: at an instant, ends of stretches ahead of what flows and of what comes, and iterations last.
struct Next {
  enum class What : std::uint8_t { ends, flows, comes, begins_prompts, begins_answers };
  Time at = kNever;
  What what = What::comes;
  bool operator<(const Next& other) const { return at != other.at ? at < other.at : what < other.what; }
};

/// The pools of one model.
class Loop {
 public:
  /// `flows`: where its caches are on their way; null: nowhere. `number`: among the models that share it.
  Loop(const ApartRun& run, Flows* flows, std::int32_t number)
      : trace_(*run.trace),
        fleet_(*run.fleet),
        flows_(flows),
        number_(number),
        prompts_(prompts_of(trace_)),
        first_(prompts_, fleet_.prefill, *run.prefill),
        second_(trace_, fleet_.decode, *run.decode) {
    out_.requests.resize(trace_.requests.size());
    out_.handed.resize(trace_.requests.size());
    for (std::int64_t i = 0; i < first_.size(); ++i) first_.at(i).leave_behind(computed_);
    for (std::int64_t i = 0; i < second_.size(); ++i) second_.at(i).tell(ended_);
    blocks_.resize(trace_.requests.size(), 0);
    groups_.resize(static_cast<std::size_t>(second_.size()), 0);
    from_groups_.resize(static_cast<std::size_t>(first_.size()), 0);
    if (fleet_.decode.router == Router::round_robin) lines_.resize(static_cast<std::size_t>(second_.size()));
    const auto count = static_cast<std::int32_t>(trace_.requests.size());
    const std::int64_t at_once = trace_.concurrency > 0 ? trace_.concurrency : count;
    for (; come_ < std::min<std::int64_t>(at_once, count); ++come_)
      coming_.push({trace_.concurrency > 0 ? 0 : trace_.requests[static_cast<std::size_t>(come_)].arrival,
                    Coming::What::request, come_});
  }

  Next next() {
    const auto one = first_.first(), two = second_.first();
    Next next{coming_.empty() ? kNever : coming_.top().at, Next::What::comes};
    if (one) next = std::min(next, {one->at, Next::What::begins_prompts});
    if (two) next = std::min(next, {two->at, two->rank == 0 ? Next::What::ends : Next::What::begins_answers});
    return next;
  }
  void act(Next::What what) {
    if (what == Next::What::comes)
      come();
    else if (what == Next::What::begins_prompts)
      act_of_first(first_.first()->replica);
    else
      act_of_second(second_.first()->replica);
  }
  /// A cache is there.
  void through(std::int32_t request, Time at) { coming_.push({at, Coming::What::there, request}); }
  ApartOutcome outcome() {
    std::size_t waiting = waiting_.size();
    for (const std::deque<std::int32_t>& line : lines_) waiting += line.size();
    SIM_CHECK(waiting == 0, "{} requests wait to be handed over for ever", waiting);
    finish();
    return std::move(out_);
  }

 private:
  void act_of_first(std::int64_t replica) {
    first_.at(replica).act();
    first_.changed(replica);
    for (const Replica::Finished& f : computed_) {
      blocks_[static_cast<std::size_t>(f.request)] = f.blocks;
      coming_.push({f.at, Coming::What::computed, f.request});
    }
    computed_.clear();
  }

  void act_of_second(std::int64_t replica) {
    Replica& r = second_.at(replica);
    r.act();
    second_.changed(replica);
    // Ends of an iteration with prompts in it lie ahead: who waits for room is tried then.
    for (const Replica::Finished& f : ended_) coming_.push({f.at, Coming::What::given, f.request});
    ended_.clear();
  }

  void come() {
    const Coming next = coming_.top();
    coming_.pop();
    switch (next.what) {
      case Coming::What::request:
        return begin(next.request, next.at);
      case Coming::What::computed:
        out_.handed[static_cast<std::size_t>(next.request)].computed = next.at;
        line_of(next.request).push_back(next.request);
        return hand_over(next.at);
      case Coming::What::there:
        return arrive(next.request, next.at);
      case Coming::What::given:
        next_of_loop(next.at);
        return hand_over(next.at);
    }
  }

  void next_of_loop(Time at) {
    if (trace_.concurrency > 0 && come_ < static_cast<std::int32_t>(trace_.requests.size()))
      coming_.push({at, Coming::What::request, come_++});
  }

  void begin(std::int32_t request, Time at) {
    const Request& r = trace_.requests[static_cast<std::size_t>(request)];
    Served& served = out_.requests[static_cast<std::size_t>(request)];
    served.arrival = at;
    const std::int64_t blocks = second_.at(0).scheduler().blocks_at_end(request);
    if (blocks > fleet_.decode.limits.blocks ||
        first_.at(0).scheduler().blocks_at_end(request) > fleet_.prefill.limits.blocks) {
      served.refused = true;
      return next_of_loop(at);
    }
    const std::int64_t replica = routed(fleet_.prefill, fleet_.prefill.replicas, trace_, r, turns_, at, looks_,
                                        [&](std::int64_t i) -> Replica& { return first_.at(i); });
    if (first_.at(replica).full()) {
      served.refused = served.turned_away = true;
      return next_of_loop(at);
    }
    first_.at(replica).add(request, at);
    ApartOutcome::Handed& handed = out_.handed[static_cast<std::size_t>(request)];
    handed.from = static_cast<std::int32_t>(replica);
    // Dealt out in turn, an answer waits for its replica, whether another has room or not.
    if (!lines_.empty())
      handed.to = static_cast<std::int32_t>(answer_turns_.next(fleet_.decode.front_ends, second_.size(), 1));
    first_.changed(replica);
  }

  /// Where it waits for room: with all others, or for the replica that it was dealt out to.
  std::deque<std::int32_t>& line_of(std::int32_t request) {
    if (lines_.empty()) return waiting_;
    return lines_[static_cast<std::size_t>(out_.handed[static_cast<std::size_t>(request)].to)];
  }

  /// Those that wait, in their order, as far as there is room.
  void hand_over(Time at) {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      while (!lines_[i].empty() && second_.at(static_cast<std::int64_t>(i)).reserve(lines_[i].front())) {
        const std::int32_t request = lines_[i].front();
        lines_[i].pop_front();
        begin_flow(request, static_cast<std::int64_t>(i), at);
      }
    }
    while (!waiting_.empty()) {
      const std::int32_t request = waiting_.front();
      std::vector<std::int64_t> order(static_cast<std::size_t>(second_.size()));
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return second_.at(a).under_way() < second_.at(b).under_way();
      });
      const auto to =
          std::find_if(order.begin(), order.end(), [&](std::int64_t i) { return second_.at(i).reserve(request); });
      if (to == order.end()) return;
      waiting_.pop_front();
      begin_flow(request, *to, at);
    }
  }

  void begin_flow(std::int32_t request, std::int64_t to, Time at) {
    ApartOutcome::Handed& handed = out_.handed[static_cast<std::size_t>(request)];
    const Handover& h = fleet_.handover;
    handed.begun = at;
    handed.to = static_cast<std::int32_t>(to);
    const double bytes =
        h.bytes_a_token * trace_.requests[static_cast<std::size_t>(request)].input + h.bytes_a_sequence;
    out_.bytes += bytes;
    if (h.ways == nullptr || !(bytes > 0)) return coming_.push({at + h.latency, Coming::What::there, request});
    const std::int64_t from_group = from_groups_[static_cast<std::size_t>(handed.from)]++ % h.groups_from;
    const std::int64_t to_group = groups_[static_cast<std::size_t>(to)]++ % h.groups_to;
    const Ways::Way way = h.ways->way(handed.from * h.groups_from + from_group, to * h.groups_to + to_group);
    double left = bytes;
    if (h.handing == Handing::layer_by_layer) left = behind_prompt(request, bytes, way);
    flows_->begin(number_, request, at, left, way, way.latency + h.latency);
  }

  /// Bytes that are left when the prompt is through, where its layers flow while later ones are computed: those of the
  /// last, and what the way, had it nobody else, does not move meanwhile.
  double behind_prompt(std::int32_t request, double bytes, const Ways::Way& way) const {
    const Served& served = first_outcome().requests[static_cast<std::size_t>(request)];
    double rate = 1e30;
    for (const sim::WeightedLink& l : way.links)
      rate = std::min(rate, fleet_.handover.ways->capacity()[l.link] / l.weight);
    const double meanwhile = static_cast<double>(served.first - served.begun) / kPicosecondsASecond;
    return std::max(bytes / static_cast<double>(fleet_.handover.layers), bytes - rate * meanwhile);
  }
  const Outcome& first_outcome() const { return first_.outcome; }

  void arrive(std::int32_t request, Time at) {
    ApartOutcome::Handed& handed = out_.handed[static_cast<std::size_t>(request)];
    handed.there = at;
    first_.at(handed.from).give_left(blocks_[static_cast<std::size_t>(request)], at);
    first_.changed(handed.from);
    const FirstToken habit = fleet_.decode.limits.first_token;
    // Shown with the cache it is seen when the engine there looks for caches that have come, once an iteration
    // (sglang, disaggregation/decode.py, process_decode_queue; TensorRT-LLM, py_executor.py,
    // _handle_first_token_response).
    const Time shown = habit == FirstToken::transfer ? second_.at(handed.to).next_turn(at) : at;
    if (trace_.requests[static_cast<std::size_t>(request)].output == 1 && habit != FirstToken::decode) {
      // Nothing is left to write: its place is given back at once.
      second_.at(handed.to).drop(request);
      second_.outcome.requests[static_cast<std::size_t>(request)] = {
          .arrival = at, .begun = at, .first = shown, .last = shown, .replica = handed.to};
      second_.outcome.end = std::max(second_.outcome.end, at);
      coming_.push({shown, Coming::What::given, request});
      return;
    }
    second_.at(handed.to).join(request, at,
                               habit == FirstToken::decode    ? kNever
                               : habit == FirstToken::prefill ? handed.computed
                                                              : shown);
    second_.changed(handed.to);
  }

  void finish() {
    for (Pool* pool : {&first_, &second_}) {
      for (std::int64_t i = 0; i < pool->size(); ++i) {
        pool->outcome.prompt_tokens += pool->at(i).scheduler().prompt_tokens();
        pool->outcome.found_tokens += pool->at(i).scheduler().found_tokens();
        add_tiers(pool->outcome.tiers, pool->at(i).tiers());
      }
    }
    for (std::size_t i = 0; i < out_.requests.size(); ++i) {
      Served& served = out_.requests[i];
      if (served.refused) continue;
      const Served &prompt = first_.outcome.requests[i], &answer = second_.outcome.requests[i];
      served.begun = prompt.begun;
      served.first = fleet_.decode.limits.first_token == FirstToken::prefill ? prompt.first : answer.first;
      served.last = answer.last;
      served.replica = answer.replica;
      served.preemptions = prompt.preemptions + answer.preemptions;
    }
    out_.prefill = std::move(first_.outcome);
    out_.decode = std::move(second_.outcome);
  }

  const Trace& trace_;
  const Apart& fleet_;
  Flows* flows_;
  std::int32_t number_;
  Trace prompts_;
  Pool first_, second_;
  ApartOutcome out_;
  std::priority_queue<Coming> coming_;
  std::int32_t come_ = 0;
  Turns turns_, answer_turns_;
  Looks looks_;
  std::vector<Replica::Finished> computed_, ended_;
  std::vector<std::int64_t> blocks_;             // that each prompt left behind
  std::deque<std::int32_t> waiting_;             // for room in the second pool
  std::vector<std::deque<std::int32_t>> lines_;  // or for each replica of it, where they are dealt out in turn
  std::vector<std::int64_t> groups_, from_groups_;
};

}  // namespace

std::vector<ApartOutcome> serve_apart(std::span<const ApartRun> runs) {
  std::optional<Flows> flows;
  for (const ApartRun& run : runs) {
    SIM_CHECK(run.fleet->prefill.limits.batching != nullptr && run.fleet->decode.limits.batching != nullptr,
              "a fleet without a policy");
    if (!flows && run.fleet->handover.ways != nullptr) flows.emplace(run.fleet->handover.ways->capacity());
  }
  std::vector<std::unique_ptr<Loop>> loops;
  for (const ApartRun& run : runs)
    loops.push_back(
        std::make_unique<Loop>(run, flows ? &*flows : nullptr, static_cast<std::int32_t>(std::ssize(loops))));
  for (;;) {
    Next next{flows ? flows->next() : kNever, Next::What::flows};
    Loop* first = nullptr;
    for (const auto& loop : loops) {
      if (const Next own = loop->next(); own < next) {
        next = own;
        first = loop.get();
      }
    }
    if (next.at == kNever) break;
    if (first != nullptr)
      first->act(next.what);
    else
      flows->advance([&](std::int32_t owner, std::int32_t request, Time at) {
        loops[static_cast<std::size_t>(owner)]->through(request, at);
      });
  }
  SIM_CHECK(!flows || flows->none(), "caches that flow for ever");
  std::vector<ApartOutcome> outcomes;
  for (const auto& loop : loops) outcomes.push_back(loop->outcome());
  return outcomes;
}

ApartOutcome serve_apart(const Trace& trace, const Apart& fleet, StepTimes& prefill, StepTimes& decode) {
  const ApartRun run{&trace, &fleet, &prefill, &decode};
  return std::move(serve_apart({&run, 1}).front());
}

}  // namespace orrery::serving
