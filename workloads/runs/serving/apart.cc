// Both pools in order of time. At an instant stretches end first, then requests come and caches arrive, and then
// iterations are put together, so that a plan knows what has come by its begin.
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

class Loop {
 public:
  Loop(const Trace& trace, const Apart& fleet, StepTimes& prefill, StepTimes& decode)
      : trace_(trace),
        fleet_(fleet),
        prompts_(prompts_of(trace)),
        first_(prompts_, fleet.prefill, prefill),
        second_(trace, fleet.decode, decode) {
    out_.requests.resize(trace.requests.size());
    out_.handed.resize(trace.requests.size());
    for (std::int64_t i = 0; i < first_.size(); ++i) first_.at(i).leave_behind(computed_);
    for (std::int64_t i = 0; i < second_.size(); ++i) second_.at(i).tell(ended_);
    blocks_.resize(trace.requests.size(), 0);
    groups_.resize(static_cast<std::size_t>(second_.size()), 0);
    from_groups_.resize(static_cast<std::size_t>(first_.size()), 0);
    if (fleet.handover.ways != nullptr) {
      sharing_.emplace(fleet.handover.ways->capacity());
      transfers_.emplace(*sharing_);
    }
  }

  ApartOutcome run() {
    const auto count = static_cast<std::int32_t>(trace_.requests.size());
    const std::int64_t at_once = trace_.concurrency > 0 ? trace_.concurrency : count;
    for (; come_ < std::min<std::int64_t>(at_once, count); ++come_)
      coming_.push({trace_.concurrency > 0 ? 0 : trace_.requests[static_cast<std::size_t>(come_)].arrival,
                    Coming::What::request, come_});
    while (step()) continue;
    SIM_CHECK(waiting_.empty() && flowing_ == 0, "{} requests wait to be handed over for ever", waiting_.size());
    finish();
    return std::move(out_);
  }

 private:
  bool step() {
    const auto one = first_.first(), two = second_.first();
    const Time comes = coming_.empty() ? kNever : coming_.top().at;
    const Time flows = transfers_ && !transfers_->empty() ? transfers_->next() : kNever;
    const Time act = std::min(one ? one->at : kNever, two ? two->at : kNever);
    const Time now = std::min({act, comes, flows});
    if (now == kNever) return false;
    if (two && two->at == now && two->rank == 0)
      act_of_second(two->replica);
    else if (flows == now)
      flow();
    else if (comes == now)
      come();
    else if (one && one->at == now)
      act_of_first(one->replica);
    else
      act_of_second(two->replica);
    return true;
  }

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
        waiting_.push_back(next.request);
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
    const std::int64_t replica = routed(fleet_.prefill, fleet_.prefill.replicas, trace_, r, turn_++,
                                        [&](std::int64_t i) -> Replica& { return first_.at(i); });
    first_.at(replica).add(request, at);
    out_.handed[static_cast<std::size_t>(request)].from = static_cast<std::int32_t>(replica);
    first_.changed(replica);
  }

  /// Those that wait, in their order, as far as there is room.
  void hand_over(Time at) {
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
    std::uint32_t slot = static_cast<std::uint32_t>(slots_.size());
    if (free_.empty()) {
      slots_.push_back({});
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    slots_[slot] = {request, way.latency + h.latency};
    ++flowing_;
    sharing_->make_room(std::max<std::size_t>(transfers_->flows(), slot + 1));
    transfers_->begin(slot, std::max(at, transfers_->now()), left, way.links, sharing_->rate_alone(way.links, 0));
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

  void flow() {
    const Time now = transfers_->next();
    while (!transfers_->empty() && transfers_->next() == now) {
      sharing_->make_room(transfers_->flows());
      for (const std::uint32_t slot : transfers_->take()) {
        coming_.push({now + slots_[slot].latency, Coming::What::there, slots_[slot].request});
        free_.push_back(slot);
        --flowing_;
      }
    }
    for (const std::uint32_t slot : sharing_->solve()) transfers_->predict(slot, now);
  }

  void arrive(std::int32_t request, Time at) {
    ApartOutcome::Handed& handed = out_.handed[static_cast<std::size_t>(request)];
    handed.there = at;
    first_.at(handed.from).give_left(blocks_[static_cast<std::size_t>(request)], at);
    first_.changed(handed.from);
    if (trace_.requests[static_cast<std::size_t>(request)].output == 1 &&
        fleet_.decode.limits.first_token != FirstToken::decode) {
      // Nothing is left to write: its place is given back at once.
      second_.at(handed.to).drop(request);
      second_.outcome.requests[static_cast<std::size_t>(request)] = {
          .arrival = at, .begun = at, .first = at, .last = at, .replica = handed.to};
      second_.outcome.end = std::max(second_.outcome.end, at);
      coming_.push({at, Coming::What::given, request});
      return;
    }
    const FirstToken habit = fleet_.decode.limits.first_token;
    second_.at(handed.to).join(request, at,
                               habit == FirstToken::decode    ? kNever
                               : habit == FirstToken::prefill ? handed.computed
                                                              : at);
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
  Trace prompts_;
  Pool first_, second_;
  ApartOutcome out_;
  std::priority_queue<Coming> coming_;
  std::int32_t come_ = 0;
  std::int64_t turn_ = 0, flowing_ = 0;
  std::vector<Replica::Finished> computed_, ended_;
  std::vector<std::int64_t> blocks_;  // that each prompt left behind
  std::deque<std::int32_t> waiting_;  // for room in the second pool
  std::vector<std::int64_t> groups_, from_groups_;
  std::optional<sim::FairSharing> sharing_;
  std::optional<sim::Transfers> transfers_;
  struct Slot {
    std::int32_t request = 0;
    Time latency = 0;
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace

ApartOutcome serve_apart(const Trace& trace, const Apart& fleet, StepTimes& prefill, StepTimes& decode) {
  SIM_CHECK(fleet.prefill.limits.batching != nullptr && fleet.decode.limits.batching != nullptr,
            "a fleet without a policy");
  return Loop(trace, fleet, prefill, decode).run();
}

}  // namespace orrery::serving
