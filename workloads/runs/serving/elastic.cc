// Requests in their order, and between them what happens to the fleet.
#include "workloads/runs/serving/elastic.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "sim/error.h"
#include "workloads/runs/serving/pool.h"
#include "workloads/runs/serving/routing.h"

namespace orrery::serving {

namespace {

/// What is left of a request's answer on a replica that failed, by what requests are promised then. False where the
/// request is lost.
bool taken_off(Pool& pool, AtFailure what, std::int32_t id, Time now) {
  Sequence& s = pool.sequence(id);
  Served& served = pool.outcome.requests[static_cast<std::size_t>(id)];
  s.staged_from = s.staged_until = 0;
  if (what != AtFailure::migrate) pool.outcome.lost_tokens += s.generated;
  if (what == AtFailure::lost) {
    served.lost = true;
    served.last = now;
    return false;
  }
  if (what == AtFailure::again) {
    s.generated = 0;
    served.first = kNever;
  }
  ++pool.outcome.moved;
  return true;
}

/// Requests come when the trace says. Replicas run up to whoever looks at them.
class OpenLoop {
 public:
  OpenLoop(const Trace& trace, const Fleet& fleet, StepTimes& times)
      : trace_(trace),
        fleet_(fleet),
        last_(trace.requests.back().arrival),
        pool_(trace, fleet, times, last_, Pool::Tells{}, 0) {}

  Outcome run() {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(trace_.requests.size()); ++i) {
      const Time arrival = trace_.requests[static_cast<std::size_t>(i)].arrival;
      happen_until(arrival);
      deal(i, arrival);
    }
    happen_until(kNever);
    SIM_CHECK(door_.empty(), "{} requests wait for a replica for ever", door_.size());
    pool_.run(kNever);
    pool_.finish(last_);
    return std::move(pool_.outcome);
  }

 private:
  void deal(std::int32_t id, Time now) {
    const std::vector<std::int64_t>& open = pool_.open();
    if (open.empty()) {
      door_.push_back(id);
      return;
    }
    const Request& request = trace_.requests[static_cast<std::size_t>(id)];
    const auto then = [&](std::int64_t number) -> Replica& {
      Replica& replica = pool_.at(open[static_cast<std::size_t>(number)]);
      replica.run(now);
      return replica;
    };
    const std::int64_t number = routed(fleet_, std::ssize(open), trace_, request, turns_, now, looks_, then);
    pool_.at(open[static_cast<std::size_t>(number)]).add(id, now, request.arrival);
  }

  void happen_until(Time until) {
    while (pool_.next_change() <= until && pool_.next_change() != kNever) {
      const Pool::Change change = pool_.happen(std::ssize(door_));
      if (change.what == Pool::Change::What::nothing || change.what == Pool::Change::What::fails) continue;
      looks_ = {};
      if (change.what == Pool::Change::What::opens) {
        for (const std::int32_t id : std::exchange(door_, {})) deal(id, change.at);
      }
      for (const std::int32_t id : change.requests)
        if (taken_off(pool_, fleet_.failures->requests, id, change.at)) deal(id, change.at);
    }
  }

  const Trace& trace_;
  const Fleet& fleet_;
  Time last_;  // arrival
  Pool pool_;
  std::deque<std::int32_t> door_;  // requests that no replica takes
  Turns turns_;
  Looks looks_;
};

/// A request comes when one ends, at its user's replica.
class ClosedLoopOfUsers {
 public:
  ClosedLoopOfUsers(const Trace& trace, const Fleet& fleet, StepTimes& times)
      : fleet_(fleet),
        pool_(trace, fleet, times, kNever - 1, Pool::Tells{nullptr, &ended_}, 0),
        user_of_(trace.requests.size(), 0),
        left_(std::ssize(trace.requests)) {
    const std::int64_t count = std::ssize(trace.requests), parts = fleet.replicas;
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::int64_t from = count * i / parts, until = count * (i + 1) / parts;
      const std::int64_t share = trace.concurrency * (i + 1) / parts - trace.concurrency * i / parts;
      const std::int64_t first = std::min(until, from + share);
      for (std::int64_t request = from; request < first; ++request) {
        user_of_[static_cast<std::size_t>(request)] = static_cast<std::int32_t>(users_.size());
        users_.push_back({i, i});
        coming_.push_back({0, static_cast<std::int32_t>(request)});
      }
      lists_.push_back({static_cast<std::int32_t>(first), static_cast<std::int32_t>(until)});
    }
  }

  Outcome run() {
    Time now = 0;
    while (left_ > 0) {
      const auto act = pool_.first();
      const Time ends = act && act->rank == 0 ? act->at : kNever, begins = act ? act->at : kNever;
      const Time comes = coming_.empty() ? kNever : coming_.front().at, changes = pool_.next_change();
      now = std::min({begins, comes, changes});
      SIM_CHECK(now != kNever, "{} requests wait for ever", left_);
      if (ends == now)
        this->act(act->replica);
      else if (changes == now)
        change();
      else if (comes == now)
        come();
      else
        this->act(act->replica);
    }
    pool_.finish(pool_.outcome.end);
    return std::move(pool_.outcome);
  }

 private:
  struct Coming {
    Time at = 0;
    std::int32_t request = 0;
  };
  struct User {
    std::int64_t replica = 0;
    std::int64_t list = 0;  // of requests that are its replica's, as long as nothing has changed
  };

  void act(std::int64_t replica) {
    pool_.at(replica).act();
    pool_.changed(replica);
    for (const Replica::Finished& f : ended_) end(f.request, f.at);
    ended_.clear();
  }

  /// Its user's next request comes.
  void end(std::int32_t request, Time at) {
    --left_;
    const std::int32_t user = user_of_[static_cast<std::size_t>(request)];
    std::int32_t next = -1;
    if (moved_) {
      if (rest_.empty()) return;
      next = rest_.front();
      rest_.pop_front();
    } else {
      ClosedLoop& list = lists_[static_cast<std::size_t>(users_[static_cast<std::size_t>(user)].list)];
      if (list.next == list.end) return;
      next = list.next++;
    }
    user_of_[static_cast<std::size_t>(next)] = user;
    const auto later = [](Time time, const Coming& other) { return time < other.at; };
    coming_.insert(std::upper_bound(coming_.begin(), coming_.end(), at, later), {at, next});
  }

  void come() {
    const Coming next = coming_.front();
    coming_.pop_front();
    deal(next.request, next.at, next.at);
  }

  void deal(std::int32_t id, Time now, Time arrival) {
    if (pool_.open().empty()) {
      door_.push_back({arrival, id});
      return;
    }
    const std::int64_t replica = users_[static_cast<std::size_t>(user_of_[static_cast<std::size_t>(id)])].replica;
    pool_.at(replica).add(id, now, arrival);
    pool_.changed(replica);
    if (pool_.outcome.requests[static_cast<std::size_t>(id)].refused) end(id, now);
  }

  void change() {
    const Pool::Change change = pool_.happen(std::ssize(door_));
    if (change.what == Pool::Change::What::nothing || change.what == Pool::Change::What::fails) return;
    move_users();
    for (const Coming& waiting : std::exchange(door_, {})) deal(waiting.request, change.at, waiting.at);
    for (const std::int32_t id : change.requests) {
      if (taken_off(pool_, fleet_.failures->requests, id, change.at))
        deal(id, change.at, pool_.outcome.requests[static_cast<std::size_t>(id)].arrival);
      else
        end(id, change.at);
    }
  }

  /// As many users for each replica that is open, and as few as possible to another one than theirs.
  void move_users() {
    if (!moved_) {
      for (const ClosedLoop& list : lists_)
        for (std::int32_t id = list.next; id < list.end; ++id) rest_.push_back(id);
      moved_ = true;
    }
    const std::vector<std::int64_t>& open = pool_.open();
    if (open.empty()) return;
    std::vector<std::int64_t> count(static_cast<std::size_t>(pool_.slots()), 0), order = open;
    for (const User& user : users_) ++count[static_cast<std::size_t>(user.replica)];
    const auto users_of = [&](std::int64_t i) { return count[static_cast<std::size_t>(i)]; };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return users_of(a) > users_of(b); });
    std::vector<std::int64_t> room(count.size(), 0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto each = std::ssize(users_) / std::ssize(order), more = std::ssize(users_) % std::ssize(order);
      room[static_cast<std::size_t>(order[i])] = each + (static_cast<std::int64_t>(i) < more ? 1 : 0);
    }
    std::vector<User*> moves;
    for (User& user : users_) {
      if (room[static_cast<std::size_t>(user.replica)]-- <= 0) moves.push_back(&user);
    }
    std::size_t at = 0;
    for (User* user : moves) {
      while (room[static_cast<std::size_t>(order[at])] <= 0) ++at;
      user->replica = order[at];
      --room[static_cast<std::size_t>(order[at])];
    }
  }

  const Fleet& fleet_;
  std::vector<Replica::Finished> ended_;
  Pool pool_;
  std::vector<User> users_;
  std::vector<std::int32_t> user_of_;  // of each request
  std::vector<ClosedLoop> lists_;      // of each replica that there is at first
  std::deque<std::int32_t> rest_;      // of all, once somebody has moved
  std::deque<Coming> coming_;          // by time
  std::deque<Coming> door_;            // for which there is no replica
  std::int64_t left_;
  bool moved_ = false;
};

}  // namespace

Outcome serve_elastic(const Trace& trace, const Fleet& fleet, StepTimes& times) {
  SIM_CHECK(fleet.limits.batching != nullptr && !trace.requests.empty(), "a fleet that changes serves requests");
  SIM_CHECK(trace.concurrency == 0 || trace.concurrency >= fleet.replicas, "{} users of {} replicas", trace.concurrency,
            fleet.replicas);
  if (trace.concurrency > 0) return ClosedLoopOfUsers(trace, fleet, times).run();
  return OpenLoop(trace, fleet, times).run();
}

}  // namespace orrery::serving
