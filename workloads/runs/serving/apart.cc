// Both pools in order of time, of one model or of several. At an instant stretches end first, then requests come and
// caches arrive, and then iterations are put together, so that a plan knows what has come by its begin.
#include "workloads/runs/serving/apart.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "sim/error.h"
#include "sim/fluid.h"
#include "sim/hash.h"
#include "workloads/runs/serving/pool.h"
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
  std::int32_t attempt = 0;  // that it is of
  bool operator<(const Coming& other) const {
    if (at != other.at) return at > other.at;  // the earliest on top
    if (what != other.what) return what > other.what;
    return request > other.request;
  }
};

/// Prompts alone: each answer ends with the token that comes of its prompt.
Trace prompts_of(const Trace& trace) {
  Trace prompts = trace;
  for (Request& request : prompts.requests) request.output = 1;
  return prompts;
}

/// Caches on their way, of all models on one network. Those that set out at an instant do so together, so that links
/// are shared once; of one way and size they are one flow whose weights are so many times as large, where products of
/// these with rates (40 significant bits) are exact, so that it moves as each by itself would.
class Flows {
 public:
  explicit Flows(const sim::Table<sim::LinkId, double>& capacity) : sharing_(capacity), transfers_(sharing_) {}

  /// When something ends.
  Time next() const { return transfers_.empty() ? kNever : transfers_.next(); }
  /// When those set out that have not yet.
  Time next_begin() const { return begins_; }
  bool none() const { return under_way_ == 0; }
  /// Its number, for stop(). It sets out with set_out().
  std::uint32_t begin(std::int32_t owner, std::int32_t request, Time at, double bytes, const Ways::Way& way,
                      Time latency) {
    ++under_way_;
    begins_ = std::max(at, transfers_.now());
    for (std::size_t n = waiting_.size(), looked = 0; n-- > 0 && looked < kLooks; ++looked) {
      Slot& slot = slots_[waiting_[n]];
      if (slot.owner != owner || slot.bytes != bytes || slot.latency != latency ||
          slot.way.data() != way.links.data() || !multiplies(way.links, slot.requests.size() + 1))
        continue;
      slot.requests.push_back(request);
      return waiting_[n];
    }
    std::uint32_t number = static_cast<std::uint32_t>(slots_.size());
    if (free_.empty()) {
      slots_.push_back({});
    } else {
      number = free_.back();
      free_.pop_back();
    }
    Slot& slot = slots_[number];
    slot.owner = owner;
    slot.latency = latency;
    slot.bytes = bytes;
    slot.way = way.links;
    slot.requests.assign(1, request);
    slot.stopped = 0;
    waiting_.push_back(number);
    return number;
  }
  /// Those that have begun since the last time: at the instant that advance() handles next.
  void set_out() {
    for (const std::uint32_t number : waiting_) {
      Slot& slot = slots_[number];
      std::span<const sim::WeightedLink> links = slot.way;
      if (slot.requests.size() > 1) {
        slot.links.assign(links.begin(), links.end());
        for (sim::WeightedLink& link : slot.links) link.weight *= static_cast<double>(slot.requests.size());
        links = slot.links;
      }
      sharing_.make_room(std::max<std::size_t>(transfers_.flows(), number + 1));
      transfers_.begin(number, begins_, slot.bytes, links, sharing_.rate_alone(slot.way, 0));
    }
    waiting_.clear();
    begins_ = kNever;
  }
  /// One breaks off, and all that are one flow with it by further calls at this instant; others have its links.
  void stop(std::uint32_t number, Time now) {
    set_out();
    Slot& slot = slots_[number];
    --under_way_;
    if (slot.stopped++ == 0) transfers_.stop(number);
    if (slot.stopped == slot.requests.size()) free_.push_back(number);
    for (const std::uint32_t other : sharing_.solve()) transfers_.predict(other, now);
  }
  /// All that happens at the next instant: through(owner, request, when its last byte is there).
  template <class Through>
  void advance(Through&& through) {
    const Time now = next();
    while (next() == now) {
      sharing_.make_room(transfers_.flows());
      for (const std::uint32_t number : transfers_.take()) {
        const Slot& slot = slots_[number];
        for (const std::int32_t request : slot.requests) through(slot.owner, request, now + slot.latency);
        under_way_ -= std::ssize(slot.requests);
        free_.push_back(number);
      }
    }
    for (const std::uint32_t number : sharing_.solve()) transfers_.predict(number, now);
  }

 private:
  static constexpr std::size_t kLooks = 8;  // at flows that set out together

  static bool multiplies(std::span<const sim::WeightedLink> links, std::size_t count) {
    constexpr int kExact = 53 - 40;
    return std::all_of(links.begin(), links.end(), [&](const sim::WeightedLink& link) {
      const double weight = link.weight * static_cast<double>(count);
      return sim::round_significant<kExact>(weight) == weight;
    });
  }

  sim::FairSharing sharing_;
  sim::Transfers transfers_;
  struct Slot {
    std::int32_t owner = 0;
    Time latency = 0;
    double bytes = 0;  // of each
    std::span<const sim::WeightedLink> way;
    std::vector<sim::WeightedLink> links;  // of several: the same, with their weights
    std::vector<std::int32_t> requests;
    std::size_t stopped = 0;  // of these
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_, waiting_;
  Time begins_ = kNever;
  std::int64_t under_way_ = 0;
};

/// What comes next: at an instant, ends of stretches ahead of what flows, of what happens to replicas and of what
/// comes; then caches set out together, and iterations are last.
struct Next {
  enum class What : std::uint8_t { ends, flows, changes, comes, set_out, begins_prompts, begins_answers };
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
        last_(trace_.concurrency > 0 ? kNever - 1 : trace_.requests.back().arrival),
        first_(prompts_, fleet_.prefill, *run.prefill, last_, Pool::Tells{&computed_, nullptr}, 0),
        second_(trace_, fleet_.decode, *run.decode, last_, Pool::Tells{nullptr, &ended_}, 1),
        left_(std::ssize(trace_.requests)) {
    out_.requests.resize(trace_.requests.size());
    out_.handed.resize(trace_.requests.size());
    states_.resize(trace_.requests.size());
    groups_.resize(static_cast<std::size_t>(second_.slots()), 0);
    from_groups_.resize(static_cast<std::size_t>(first_.slots()), 0);
    at_first_.resize(static_cast<std::size_t>(first_.slots()));
    at_second_.resize(static_cast<std::size_t>(second_.slots()));
    if (fleet_.decode.router == Router::round_robin) lines_.resize(static_cast<std::size_t>(second_.slots()));
    const auto count = static_cast<std::int32_t>(trace_.requests.size());
    const std::int64_t at_once = trace_.concurrency > 0 ? trace_.concurrency : count;
    for (; come_ < std::min<std::int64_t>(at_once, count); ++come_)
      coming_.push({trace_.concurrency > 0 ? 0 : trace_.requests[static_cast<std::size_t>(come_)].arrival,
                    Coming::What::request, come_, 0});
  }

  Next next() {
    const auto one = first_.first(), two = second_.first();
    Next next{coming_.empty() ? kNever : coming_.top().at, Next::What::comes};
    if (one) next = std::min(next, {one->at, Next::What::begins_prompts});
    if (two) next = std::min(next, {two->at, two->rank == 0 ? Next::What::ends : Next::What::begins_answers});
    // Once all are through, nothing that happens to replicas matters.
    if (left_ > 0) next = std::min(next, {std::min(first_.next_change(), second_.next_change()), Next::What::changes});
    return next;
  }
  void act(Next::What what) {
    if (what == Next::What::comes)
      come();
    else if (what == Next::What::changes)
      change();
    else if (what == Next::What::begins_prompts)
      act_of_first(first_.first()->replica);
    else
      act_of_second(second_.first()->replica);
  }
  /// A cache is there.
  void through(std::int32_t request, Time at) {
    state(request).stage = Stage::there;
    coming_.push({at, Coming::What::there, request, state(request).attempt});
  }
  ApartOutcome outcome() {
    std::size_t waiting = waiting_.size() + door_.size();
    for (const std::deque<std::int32_t>& line : lines_) waiting += line.size();
    SIM_CHECK(waiting == 0, "{} requests wait to be handed over for ever", waiting);
    finish();
    return std::move(out_);
  }

 private:
  /// Where a request is: nowhere; its prompt at a replica of the first pool; in a line for room in the second; with
  /// room there, on its way, or `stuck` by a failure that nobody has noticed; `there` but for the way's latency; at a
  /// replica of the second.
  enum class Stage : std::uint8_t { nowhere, prompt, line, stuck, flows, there, answer };
  struct State {
    Stage stage = Stage::nowhere;
    std::int32_t attempt = 0;  // grows when what comes of itself comes no more
    std::uint32_t flow = 0;
    std::int64_t blocks = 0;  // that its prompt left behind
  };
  /// Requests at each replica, where they have to be found.
  using Places = std::vector<std::set<std::int32_t>>;
  State& state(std::int32_t request) { return states_[static_cast<std::size_t>(request)]; }
  ApartOutcome::Handed& handed(std::int32_t request) { return out_.handed[static_cast<std::size_t>(request)]; }

  void act_of_first(std::int64_t replica) {
    first_.at(replica).act();
    first_.changed(replica);
    for (const Replica::Finished& f : computed_) {
      state(f.request).blocks = f.blocks;
      first_.keep(replica, 1, 0);
      coming_.push({f.at, Coming::What::computed, f.request, state(f.request).attempt});
    }
    computed_.clear();
  }

  void act_of_second(std::int64_t replica) {
    Replica& r = second_.at(replica);
    r.act();
    second_.changed(replica);
    // Ends of an iteration with prompts in it lie ahead: who waits for room is tried then.
    for (const Replica::Finished& f : ended_) {
      leave(at_second_, replica, f.request);
      coming_.push({f.at, Coming::What::given, f.request, state(f.request).attempt});
    }
    ended_.clear();
  }

  void come() {
    const Coming next = coming_.top();
    coming_.pop();
    if (next.attempt != state(next.request).attempt) return;
    switch (next.what) {
      case Coming::What::request:
        return begin(next.request, next.at);
      case Coming::What::computed:
        handed(next.request).computed = next.at;
        state(next.request).stage = Stage::line;
        line_of(next.request).push_back(next.request);
        return hand_over(next.at);
      case Coming::What::there:
        return arrive(next.request, next.at);
      case Coming::What::given:
        next_of_loop(next.at);
        return hand_over(next.at);
    }
  }

  /// One is through.
  void next_of_loop(Time at) {
    --left_;
    if (trace_.concurrency > 0 && come_ < static_cast<std::int32_t>(trace_.requests.size()))
      coming_.push({at, Coming::What::request, come_++, 0});
  }

  void begin(std::int32_t request, Time at) {
    Served& served = out_.requests[static_cast<std::size_t>(request)];
    served.arrival = at;
    const std::int64_t blocks = blocks_of(trace_.requests[static_cast<std::size_t>(request)], fleet_.decode.limits);
    const std::int64_t own = blocks_of(prompts_.requests[static_cast<std::size_t>(request)], fleet_.prefill.limits);
    if (blocks > fleet_.decode.limits.blocks || own > fleet_.prefill.limits.blocks) {
      served.refused = true;
      return next_of_loop(at);
    }
    if (first_.open().empty()) {
      door_.push_back(request);
      return;
    }
    const std::int64_t replica = prompt_at(request, at);
    if (first_.at(replica).full()) {
      served.refused = served.turned_away = true;
      return next_of_loop(at);
    }
    begin_prompt(request, replica, at);
  }

  static std::int64_t blocks_of(const Request& r, const Limits& limits) {
    return (static_cast<std::int64_t>(r.input) + r.output - 1 + limits.block_tokens - 1) / limits.block_tokens;
  }

  /// The replica that is to compute its prompt.
  std::int64_t prompt_at(std::int32_t request, Time at) {
    const std::vector<std::int64_t>& open = first_.open();
    return open[static_cast<std::size_t>(
        routed(fleet_.prefill, std::ssize(open), trace_, trace_.requests[static_cast<std::size_t>(request)], turns_, at,
               looks_, [&](std::int64_t i) -> Replica& { return first_.at(open[static_cast<std::size_t>(i)]); }))];
  }

  void begin_prompt(std::int32_t request, std::int64_t replica, Time at) {
    first_.at(replica).add(request, at);
    // With what was written of its answer it may be more than the cache there.
    if (first_.outcome.requests[static_cast<std::size_t>(request)].refused) return lose(request, at);
    state(request).stage = Stage::prompt;
    enter(at_first_, replica, request);
    handed(request).from = static_cast<std::int32_t>(replica);
    deal_answer(request);
    first_.changed(replica);
  }

  /// Dealt out in turn, an answer waits for its replica, whether another has room or not.
  void deal_answer(std::int32_t request) {
    if (lines_.empty()) return;
    const std::vector<std::int64_t>& open = second_.open();
    handed(request).to =
        open.empty()
            ? -1
            : static_cast<std::int32_t>(
                  open[static_cast<std::size_t>(answer_turns_.next(fleet_.decode.front_ends, std::ssize(open), 1))]);
  }

  /// Where it waits for room: with all others, or for the replica that it was dealt out to.
  std::deque<std::int32_t>& line_of(std::int32_t request) {
    if (lines_.empty() || handed(request).to < 0) return waiting_;
    return lines_[static_cast<std::size_t>(handed(request).to)];
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
    while (lines_.empty() && !waiting_.empty()) {
      const std::int32_t request = waiting_.front();
      std::vector<std::int64_t> order = second_.open();
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
    const Handover& h = fleet_.handover;
    State& s = state(request);
    ApartOutcome::Handed& way_of = handed(request);
    way_of.begun = at;
    way_of.to = static_cast<std::int32_t>(to);
    enter(at_second_, to, request);
    if (first_.failed(way_of.from) || second_.failed(to)) {
      s.stage = Stage::stuck;
      return;
    }
    const double bytes = bytes_of(request);
    out_.bytes += bytes;
    if (h.ways == nullptr || !(bytes > 0)) return through(request, at + h.latency);
    const std::int64_t from_group = from_groups_[static_cast<std::size_t>(way_of.from)]++ % h.groups_from;
    const std::int64_t to_group = groups_[static_cast<std::size_t>(to)]++ % h.groups_to;
    const Ways::Way way = h.ways->way(way_of.from * h.groups_from + from_group, to * h.groups_to + to_group);
    double left = bytes;
    if (h.handing == Handing::layer_by_layer) left = behind_prompt(request, bytes, way);
    s.stage = Stage::flows;
    s.flow = flows_->begin(number_, request, at, left, way, way.latency + h.latency);
  }

  double bytes_of(std::int32_t request) const {
    return fleet_.handover.bytes_a_token * prompts_.requests[static_cast<std::size_t>(request)].input +
           fleet_.handover.bytes_a_sequence;
  }

  /// Bytes that are left when the prompt is through, where its layers flow while later ones are computed: those of the
  /// last, and what the way, had it nobody else, does not move meanwhile.
  double behind_prompt(std::int32_t request, double bytes, const Ways::Way& way) const {
    const Served& served = first_.outcome.requests[static_cast<std::size_t>(request)];
    double rate = 1e30;
    for (const sim::WeightedLink& l : way.links)
      rate = std::min(rate, fleet_.handover.ways->capacity()[l.link] / l.weight);
    const double meanwhile = static_cast<double>(served.first - served.begun) / kPicosecondsASecond;
    return std::max(bytes / static_cast<double>(fleet_.handover.layers), bytes - rate * meanwhile);
  }

  void arrive(std::int32_t request, Time at) {
    ApartOutcome::Handed& way = handed(request);
    way.there = at;
    state(request).stage = Stage::answer;
    leave(at_first_, way.from, request);
    first_.keep(way.from, -1, at);
    first_.at(way.from).give_left(state(request).blocks, at);
    first_.changed(way.from);
    const FirstToken habit = fleet_.decode.limits.first_token;
    // Shown with the cache it is seen when the engine there looks for caches that have come, once an iteration
    // (sglang, disaggregation/decode.py, process_decode_queue; TensorRT-LLM, py_executor.py,
    // _handle_first_token_response).
    const Time shown = habit == FirstToken::transfer ? second_.at(way.to).next_turn(at) : at;
    const std::int32_t written = second_.sequence(request).generated;  // ahead of a failure
    if (trace_.requests[static_cast<std::size_t>(request)].output == written + 1 && habit != FirstToken::decode) {
      // Nothing is left to write: its place is given back at once.
      second_.at(way.to).drop(request, at);
      second_.changed(way.to);
      leave(at_second_, way.to, request);
      Served& served = second_.outcome.requests[static_cast<std::size_t>(request)];
      const Time first = written > 0 ? served.first : shown;
      served = {.arrival = at, .begun = at, .first = first, .last = shown, .replica = way.to};
      second_.outcome.end = std::max(second_.outcome.end, at);
      coming_.push({shown, Coming::What::given, request, state(request).attempt});
      return;
    }
    second_.at(way.to).join(request, at,
                            habit == FirstToken::decode    ? kNever
                            : habit == FirstToken::prefill ? way.computed
                                                           : shown);
    second_.changed(way.to);
  }

  // What happens to replicas.
  void change() {
    if (first_.next_change() <= second_.next_change()) {
      const std::int64_t outside = std::ssize(door_);
      return change_of_first(first_.happen(outside));
    }
    std::int64_t outside = std::ssize(waiting_);
    for (const std::deque<std::int32_t>& line : lines_) outside += std::ssize(line);
    change_of_second(second_.happen(outside));
  }

  void change_of_first(const Pool::Change& change) {
    using What = Pool::Change::What;
    if (change.what == What::fails) return break_off(at_first_, change);
    if (change.what == What::nothing) return;
    looks_ = {};
    if (change.what == What::opens) {
      for (const std::int32_t request : std::exchange(door_, {})) come_again(request, change.at);
    }
    if (change.what != What::noticed) return;
    for (const std::int32_t request : take(at_first_, change.replica)) {
      // Its cache is gone, and room that was kept for it elsewhere is free.
      if (state(request).stage == Stage::line) std::erase(line_of(request), request);
      if (state(request).stage == Stage::stuck) {
        second_.at(handed(request).to).drop(request, change.at);
        second_.changed(handed(request).to);
        leave(at_second_, handed(request).to, request);
      }
      begin_anew(request, fleet_.prefill.failures->requests, change.at);
    }
    hand_over(change.at);
  }

  void change_of_second(const Pool::Change& change) {
    using What = Pool::Change::What;
    if (change.what == What::fails) return break_off(at_second_, change);
    if (change.what == What::nothing) return;
    if (change.what == What::noticed) {
      std::vector<std::int32_t> kept;  // whose caches are where they were computed
      for (const std::int32_t request : take(at_second_, change.replica)) {
        if (state(request).stage == Stage::answer) {
          begin_anew(request, fleet_.decode.failures->requests, change.at);
          continue;
        }
        state(request).stage = Stage::line;
        handed(request).begun = kNever;
        kept.push_back(request);
      }
      for (std::size_t i = kept.size(); i-- > 0;) line_of(kept[i]).push_front(kept[i]);
    }
    deal_lines_anew();
    hand_over(change.at);
  }

  /// Those that wait for a replica which takes nobody, or for any.
  void deal_lines_anew() {
    if (lines_.empty()) return;
    std::vector<std::int32_t> waiting(waiting_.begin(), waiting_.end());
    waiting_.clear();
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (second_.is_open(static_cast<std::int64_t>(i))) continue;
      waiting.insert(waiting.end(), lines_[i].begin(), lines_[i].end());
      lines_[i].clear();
    }
    for (const std::int32_t request : waiting) {
      deal_answer(request);
      line_of(request).push_back(request);
    }
    // Prompts under way that were dealt out to such a replica are dealt out anew too.
    for (const std::set<std::int32_t>& requests : at_first_) {
      for (const std::int32_t request : requests)
        if (state(request).stage == Stage::prompt && (handed(request).to < 0 || !second_.is_open(handed(request).to)))
          deal_answer(request);
    }
  }

  /// A replica has failed: what is on its way from it, or to it, stops.
  void break_off(const Places& at, const Pool::Change& change) {
    for (const std::int32_t request : at[static_cast<std::size_t>(change.replica)]) {
      State& s = state(request);
      if (s.stage != Stage::flows && s.stage != Stage::there) continue;
      if (s.stage == Stage::flows) flows_->stop(s.flow, change.at);
      s.stage = Stage::stuck;
      ++s.attempt;
      out_.broken += bytes_of(request);
    }
  }

  /// Its cache is gone: what its user was shown stays, or is written anew, or all is over.
  void begin_anew(std::int32_t request, AtFailure what, Time at) {
    const auto number = static_cast<std::size_t>(request);
    Served &prompt = first_.outcome.requests[number], &answer = second_.outcome.requests[number],
           &served = out_.requests[number];
    Sequence& writes = second_.sequence(request);
    // The token that came of its prompt, where another is not to be computed of it, and whether its user has seen it.
    const FirstToken habit = fleet_.decode.limits.first_token;
    const bool one_more =
        state(request).stage != Stage::answer && prompt.first != kNever && habit != FirstToken::decode;
    const bool shown = one_more && habit == FirstToken::prefill;
    if (shown && writes.generated == 0) answer.first = prompt.first;
    if (shown) answer.last = prompt.first;
    const std::int32_t made = writes.generated + (one_more ? 1 : 0);
    writes.generated = what == AtFailure::migrate ? writes.generated + (shown ? 1 : 0) : 0;
    out_.lost_tokens += made - writes.generated;
    ++state(request).attempt;
    state(request).stage = Stage::nowhere;
    if (what == AtFailure::lost) return lose(request, at);
    if (writes.generated == trace_.requests[number].output) {  // all of it was seen
      handed(request).begun = handed(request).there = at;
      served.begun = std::min(served.begun, prompt.begun);
      return next_of_loop(at);
    }
    if (what == AtFailure::again) answer.first = answer.last = served.first = kNever;
    served.begun = std::min(served.begun, prompt.begun);
    if (what == AtFailure::migrate) served.first = std::min(served.first, prompt.first);
    prompt.begun = prompt.first = kNever;
    first_.sequence(request) = Sequence{};
    prompts_.requests[number].input = trace_.requests[number].input + writes.generated;
    ++out_.moved;
    come_again(request, at);
  }

  void come_again(std::int32_t request, Time at) {
    if (first_.open().empty())
      door_.push_back(request);
    else
      begin_prompt(request, prompt_at(request, at), at);
  }

  void lose(std::int32_t request, Time at) {
    Served& served = out_.requests[static_cast<std::size_t>(request)];
    served.lost = true;
    served.last = at;
    next_of_loop(at);
  }

  /// Those that are at a replica.
  void enter(Places& places, std::int64_t replica, std::int32_t request) {
    if (changes_) places[static_cast<std::size_t>(replica)].insert(request);
  }
  void leave(Places& places, std::int64_t replica, std::int32_t request) {
    if (changes_) places[static_cast<std::size_t>(replica)].erase(request);
  }
  static std::set<std::int32_t> take(Places& places, std::int64_t replica) {
    return std::exchange(places[static_cast<std::size_t>(replica)], {});
  }

  void finish() {
    const Time end = std::max({first_.outcome.end, second_.outcome.end, trace_.concurrency > 0 ? 0 : last_});
    first_.finish(end);
    second_.finish(end);
    for (std::size_t i = 0; i < out_.requests.size(); ++i) {
      Served& served = out_.requests[i];
      if (served.refused || served.lost) continue;
      const Served &prompt = first_.outcome.requests[i], &answer = second_.outcome.requests[i];
      served.begun = std::min(served.begun, prompt.begun);
      served.first =
          fleet_.decode.limits.first_token == FirstToken::prefill ? std::min(served.first, prompt.first) : answer.first;
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
  Trace prompts_;  // what is written of their answers, and lost with a cache, is computed with them
  Time last_;      // arrival
  std::vector<Replica::Finished> computed_, ended_;
  Pool first_, second_;
  const bool changes_ = first_.changes() || second_.changes();
  std::int64_t left_;  // that are not through
  ApartOutcome out_;
  std::vector<State> states_;
  std::priority_queue<Coming> coming_;
  std::int32_t come_ = 0;
  Turns turns_, answer_turns_;
  Looks looks_;
  std::deque<std::int32_t> door_;                // for whom no replica computes prompts
  std::deque<std::int32_t> waiting_;             // for room in the second pool
  std::vector<std::deque<std::int32_t>> lines_;  // or for each replica of it, where they are dealt out in turn
  std::vector<std::int64_t> groups_, from_groups_;
  Places at_first_, at_second_;
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
    if (flows) next = std::min(next, {flows->next_begin(), Next::What::set_out});
    Loop* first = nullptr;
    for (const auto& loop : loops) {
      if (const Next own = loop->next(); own < next) {
        next = own;
        first = loop.get();
      }
    }
    if (next.at == kNever) break;
    if (first != nullptr) {
      first->act(next.what);
      continue;
    }
    if (next.what == Next::What::set_out) flows->set_out();
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
