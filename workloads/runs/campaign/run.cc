// The event loop of a campaign. Only what ends a stretch of steps is an event: a failure, something becoming slow or
// being found out, a planned stop, nodes coming back, the end. Between two events time jumps by W and its inverse
// (progress.h).
//
// After a failure come detection, diagnosis, a wait for nodes where the pool is short, then allocation, initialisation,
// loading and warm-up; a failure on the way begins anew. Lost nodes come back after their repair. With elastic data
// parallelism the job takes as many whole replicas as the healthy nodes hold, at least the least. Planned stops
// (maintenance, a slow node found, nodes back for a larger job) wait for the end of the step and for a checkpoint, so
// that they lose nothing. Of several things that are slow the worst decides the step. Left out: failures of spares and
// of nodes in repair, failure rates of a job that shrank, which stay those of the whole one.
#include "workloads/runs/campaign/run.h"

#include <algorithm>

#include "workloads/runs/campaign/failure_clock.h"
#include "workloads/runs/campaign/ledger.h"
#include "workloads/runs/campaign/pool.h"

namespace orrery::campaign {

namespace {

/// Strikes after which a campaign is given up.
constexpr std::int64_t kMostStrikes = 1'000'000;

class Run {
 public:
  Run(const Plan& plan, std::uint64_t seed, bool record)
      : plan_(plan), record_(record), clock_(plan, seed), pool_(plan.pool, seed), ledger_(plan), saves_(plan) {
    out_.causes.resize(plan.hazards.size());
    maintenance_at_ = plan.maintenance.every;
  }

  Outcome go() {
    if (plan_.restart.first) begin();
    while (!over_) stretch();
    ledger_.add_content_to(out_.shares);
    out_.wall = now_;
    out_.steps = ledger_.steps();
    out_.finished = out_.steps == plan_.steps;
    return std::move(out_);
  }

 private:
  /// Something slow that nobody has found yet; the search that finds one finds all of its kind.
  struct Hidden {
    std::size_t cause;
    Elapsed found_at;
    std::int64_t count;
  };

  bool worn_out() const { return out_.failures + out_.degradations >= kMostStrikes; }
  std::size_t state() const;
  Elapsed end_of(std::int64_t step) const {
    return here_.begin + (time_until(plan_, step, here_.state) - time_until(plan_, here_.from, here_.state));
  }
  std::int64_t step_at(Elapsed time) const {
    return here_.from + steps_within(plan_, here_.from, time - here_.begin, here_.state);
  }
  /// The end of the step under way at `time`.
  std::int64_t step_after(Elapsed time) const;
  /// The start ahead of the first step.
  void begin();
  /// Runs from now on until something ends it, the stretch from now's step in one state of the machine.
  void stretch();
  /// The next planned stop, however early: the next maintenance, what is found out, or nodes for more replicas.
  Elapsed next_planned() const;
  void hide(const Strike& strike);
  void cut(std::int64_t step);
  void end_at(Elapsed end, std::int64_t step);
  void fail(const Strike& strike);
  /// Goes back to the newest checkpoint that `cause` left.
  Elapsed fall_back(std::size_t cause);
  /// From a failure now to the next step, or to the limit; failures on the way begin anew.
  void recover(std::size_t cause, Elapsed lost);
  /// Waits for nodes, takes them, starts and loads. False where a failure or the limit came between.
  bool restart(bool swapped);
  /// False where a failure or the limit came before its end; now is then that moment.
  bool spend(Share share, Elapsed time);
  /// Ends the step, saves, does what is due, and starts again.
  void stop_in_order(std::int64_t step, Elapsed due);
  /// The machine is down: nothing fails, and what its memories held is gone.
  void maintain();

  const Plan& plan_;
  bool record_, over_ = false;
  FailureClock clock_;
  Pool pool_;
  Ledger ledger_;
  Saves saves_;
  Outcome out_;
  std::vector<Hidden> hidden_;
  std::size_t level_ = 0;
  Elapsed now_{}, maintenance_at_{};
  /// The stretch of steps under way, in one state of the machine.
  struct Here {
    Elapsed begin{};
    std::int64_t from = 0;  // its first step
    std::size_t state = 0;
  } here_;
};

std::size_t Run::state() const {
  std::size_t worst = 0;
  const auto& step = plan_.phases.back().step;
  for (const Hidden& hidden : hidden_) {
    const std::size_t slow = plan_.hazards[hidden.cause].slow;
    if (step[level_ * plan_.slow + slow] > step[level_ * plan_.slow + worst]) worst = slow;
  }
  return level_ * plan_.slow + worst;
}

std::int64_t Run::step_after(Elapsed time) const {
  const std::int64_t step = step_at(time);
  return end_of(step) >= time ? step : std::min(plan_.steps, step + 1);
}

void Run::begin() {
  const Plan::Restart& start = plan_.restart;
  const bool up = spend(Share::restart, start.allocate) && spend(Share::initialisation, start.initialise[0]) &&
                  spend(Share::loading, start.first_load) && spend(Share::warm_up, start.warm_up);
  if (up || over_) return;
  const std::size_t cause = clock_.next().cause;
  clock_.take();
  recover(cause, {});
}

void Run::stretch() {
  here_.begin = now_;
  here_.from = ledger_.steps();
  here_.state = state();
  const Elapsed finish = end_of(plan_.steps);
  while (true) {
    const Strike strike = clock_.next();
    const Elapsed due = next_planned();
    if (due < std::min({strike.at, finish, plan_.limit})) {
      const std::int64_t step = step_after(due);
      if (step < plan_.steps && end_of(step) + plan_.restart.drain <= std::min(strike.at, plan_.limit))
        return stop_in_order(step, due);
    }
    if (finish <= std::min(strike.at, plan_.limit)) return end_at(finish, plan_.steps);
    if (plan_.limit <= strike.at || worn_out()) {
      const Elapsed end = std::min(plan_.limit, strike.at);
      return end_at(end, step_at(end));
    }
    clock_.take();
    if (plan_.hazards[strike.cause].effect != Effect::slow) return fail(strike);
    hide(strike);
    if (state() == here_.state) continue;
    // The step under way ends as it began, unless something else ends it first.
    const std::int64_t step = step_after(strike.at);
    if (end_of(step) < std::min({clock_.next().at, finish, plan_.limit})) return cut(step);
  }
}

Elapsed Run::next_planned() const {
  Elapsed due = maintenance_at_;
  for (const Hidden& hidden : hidden_) due = std::min(due, hidden.found_at);
  if (level_ > 0 && plan_.pool.regrow) due = std::min(due, pool_.time_of(level_ - 1));
  return std::max(due, here_.begin);
}

void Run::hide(const Strike& strike) {
  ++out_.degradations;
  ++out_.causes[strike.cause].count;
  for (Hidden& hidden : hidden_) {
    if (hidden.cause != strike.cause) continue;
    ++hidden.count;
    return;
  }
  hidden_.push_back({strike.cause, strike.at + plan_.hazards[strike.cause].detection, 1});
}

void Run::cut(std::int64_t step) {
  now_ = end_of(step);
  saves_.note(here_.from, here_.begin, here_.state, step, now_);
  ledger_.add(here_.from, step, here_.state);
}

void Run::end_at(Elapsed end, std::int64_t step) {
  over_ = true;
  now_ = end;
  at(out_.shares, Share::lost) += end - end_of(step);
  ledger_.add(here_.from, step, here_.state);
}

void Run::fail(const Strike& strike) {
  const std::int64_t step = step_at(strike.at);
  saves_.note(here_.from, here_.begin, here_.state, step, strike.at);
  at(out_.shares, Share::lost) += strike.at - end_of(step);
  out_.causes[strike.cause].lost += strike.at - end_of(step);
  ledger_.add(here_.from, step, here_.state);
  now_ = strike.at;
  recover(strike.cause, strike.at - end_of(step));
}

Elapsed Run::fall_back(std::size_t cause) {
  saves_.lose(plan_.hazards[cause].loses);
  const std::int64_t step = saves_.newest().step;
  const Elapsed lost = ledger_.roll_back(step);
  saves_.forget_after(step);
  at(out_.shares, Share::lost) += lost;
  out_.causes[cause].lost += lost;
  return lost;
}

void Run::recover(std::size_t cause, Elapsed lost) {
  while (true) {
    const Elapsed from = now_;
    const Hazard& hazard = plan_.hazards[cause];
    ++out_.failures;
    ++out_.causes[cause].count;
    lost += fall_back(cause);
    pool_.lose(hazard.nodes, now_ + hazard.repair);
    const bool up = spend(Share::detection, hazard.detection) && spend(Share::diagnosis, hazard.diagnosis) &&
                    restart(hazard.nodes > 0);
    out_.causes[cause].down += now_ - from;
    if (record_) out_.stops.push_back({from, now_, lost, cause});
    if (up || over_) return;
    over_ = worn_out();
    if (over_) return;
    cause = clock_.next().cause;
    clock_.take();
    lost = {};
  }
}

bool Run::restart(bool swapped) {
  pool_.take_back(now_);
  while (pool_.level() >= plan_.levels) {
    if (!spend(Share::waiting, pool_.next_return() - now_)) return false;
    pool_.take_back(now_);
  }
  const std::size_t before = level_;
  level_ = pool_.level();
  const Elapsed swap = swapped && level_ == before ? plan_.restart.swap : Elapsed{};
  const Saves::Newest newest = saves_.newest();
  const Elapsed load = newest.tier != Saves::kNone ? plan_.saves[newest.tier].load : Elapsed{};
  return spend(Share::restart, swap + plan_.restart.allocate) &&
         spend(Share::initialisation, plan_.restart.initialise[level_]) && spend(Share::loading, load) &&
         spend(Share::warm_up, plan_.restart.warm_up);
}

bool Run::spend(Share share, Elapsed time) {
  const Elapsed begin = now_, end = begin + time;
  while (true) {
    const Strike& strike = clock_.next();
    const Elapsed stop = std::min(strike.at, plan_.limit);
    if (end <= stop) {
      at(out_.shares, share) += time;
      now_ = end;
      return true;
    }
    if (strike.at < plan_.limit && plan_.hazards[strike.cause].effect == Effect::slow && !worn_out()) {
      hide(strike);
      clock_.take();
      continue;
    }
    over_ = plan_.limit <= strike.at || worn_out();
    at(out_.shares, share) += stop - begin;
    now_ = stop;
    return false;
  }
}

void Run::stop_in_order(std::int64_t step, Elapsed due) {
  cut(step);
  const Elapsed from = now_;
  ++out_.planned_stops;
  at(out_.shares, Share::drain) += plan_.restart.drain;
  now_ += plan_.restart.drain;
  if (!plan_.saves.empty() && step > 0) saves_.note_all(step);
  bool swapped = false;
  for (std::size_t i = hidden_.size(); i-- > 0;) {
    if (hidden_[i].found_at > due) continue;
    const Hazard& hazard = plan_.hazards[hidden_[i].cause];
    saves_.lose(hazard.loses);
    pool_.lose(hazard.nodes * hidden_[i].count, now_ + hazard.repair);
    swapped = swapped || hazard.nodes > 0;
    hidden_.erase(hidden_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (maintenance_at_ <= due) maintain();
  const bool up = !over_ && restart(swapped);
  if (record_) out_.stops.push_back({from, now_, {}, Stop::kPlanned});
  if (up || over_) return;
  const std::size_t cause = clock_.next().cause;
  clock_.take();
  recover(cause, {});
}

void Run::maintain() {
  const Elapsed begin = now_, end = std::min(plan_.limit, begin + plan_.maintenance.time);
  clock_.shelter(begin, end);
  at(out_.shares, Share::maintenance) += end - begin;
  now_ = end;
  over_ = end == plan_.limit;
  saves_.lose(Loses::group);
  while (maintenance_at_ <= now_) maintenance_at_ += plan_.maintenance.every;
}

}  // namespace

Outcome run(const Plan& plan, std::uint64_t seed, bool record) { return Run(plan, seed, record).go(); }

}  // namespace orrery::campaign
