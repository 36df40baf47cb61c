// The engine: drives the parts of a run (sim/engine_part.h) from instant to instant. With one part this is a loop; with
// several, each does its share of an instant on a thread of its own, and they meet:
//  1. transfers of the instant begin and finish, and ranks run ahead (take);
//  2. parts tell each other of links and communicators that they have in common (settle, read_mail), until there is no
//     more word, and again from 1 if more happens at the same instant;
//  3. links are shared anew, each part solving what its own links' changes reach;
//  4. each predicts when its transfers finish.
// That pays where many ranks do the same at an instant, which is the rule: replicas do. An instant at which little
// happens is gone through by one thread.
//
// Why the times are the same. What a rank does depends on when what it waits for happens, not on who is looked at
// first; all that happens at an instant has happened before links are shared; and rates are a function of the transfers
// that are active alone (sim/fair_sharing.h). Left out: links that change their capacity while the step runs.
#include "sim/engine.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>

#include "sim/engine_part.h"
#include "sim/engine_threads.h"
#include "sim/error.h"
#include "sim/fluid.h"
#include "sim/team.h"

namespace orrery::sim {

namespace {

class Engine {
 public:
  Engine(const Plan& plan, const Network& network, const RunOptions& options, const Threads& threads);
  Result run();

 private:
  std::vector<Record> empty_records(const RunOptions& options) const;
  template <class Work>
  void each(const Work& work);
  std::int64_t earliest() const;
  void exchange();
  void share(std::int64_t now);
  void run_instants();
  void run_instants_alone();
  std::uint64_t events() const;

  EngineTables tables_;
  FairSharing sharing_;
  std::vector<Record> records_;
  std::vector<std::unique_ptr<EnginePart>> parts_;
  std::optional<Team> team_;
  std::uint64_t together_from_;  // events of an instant
  bool together_ = true;         // whether parts work at a time
};

Engine::Engine(const Plan& plan, const Network& network, const RunOptions& options, const Threads& threads)
    : tables_(plan, network, options, threads),
      sharing_(network.capacity, tables_.partition.parts, tables_.partition.owners),
      records_(empty_records(options)),
      parts_(tables_.partition.parts),
      together_from_(threads.together_from) {
  if (parts_.size() > 1) team_.emplace(static_cast<std::uint32_t>(parts_.size()));
  each([&](std::uint32_t part) { parts_[part] = std::make_unique<EnginePart>(tables_, part, sharing_, records_); });
}

std::vector<Record> Engine::empty_records(const RunOptions& options) const {
  std::vector<Record> records;
  for (const InstanceId instance : options.record) {
    const std::uint32_t size = tables_.plan.programs[tables_.plan.instances[instance].program].size();
    const auto never = [&] { return std::vector<SimTime>(size, kNever); };
    records.push_back({instance, never(), never(), never()});
  }
  return records;
}

/// Calls work(part) for each, at a time where that pays.
template <class Work>
void Engine::each(const Work& work) {
  if (team_ && together_) return team_->run(work);
  for (std::uint32_t part = 0; part < parts_.size(); ++part) work(part);
}

std::int64_t Engine::earliest() const {
  std::int64_t earliest = EnginePart::kNothing;
  for (const auto& part : parts_) earliest = std::min(earliest, part->next());
  return earliest;
}

/// Parts tell each other what they have done, until nobody has anything to say.
void Engine::exchange() {
  const auto posted = [](const auto& part) { return part->has_posted(); };
  while (sharing_.unsettled() || std::any_of(parts_.begin(), parts_.end(), posted)) {
    for (const auto& part : parts_) part->turn_mail();
    each([&](std::uint32_t part) {
      sharing_.settle(part);
      parts_[part]->read_mail(parts_);
    });
  }
}

void Engine::share(std::int64_t now) {
  if (sharing_.begin_solve(team_ && together_)) {
    each([&](std::uint32_t part) { sharing_.loosen(part); });
    each([&](std::uint32_t part) { sharing_.solve(part); });
    sharing_.solve_rest();
  }
  if (!sharing_.has_changed()) return;
  const auto shift = static_cast<std::uint32_t>(std::bit_width(parts_.size() - 1));
  each([&](std::uint32_t part) {
    sharing_.for_changed(part, [&](std::uint32_t flow) { parts_[part]->predict(flow >> shift, now); });
  });
  sharing_.forget_changed();
}

std::uint64_t Engine::events() const {
  std::uint64_t events = 0;
  for (const auto& part : parts_) events += part->events();
  return events;
}

/// Of one part, which has nobody to tell or to ask.
void Engine::run_instants_alone() {
  EnginePart& part = *parts_.front();
  sharing_.make_room(part.flows());
  part.start();
  for (std::int64_t now = part.next(); now != EnginePart::kNothing; now = part.next()) {
    do {
      sharing_.make_room(part.flows());
      part.take(now);
    } while (part.next() == now);
    for (const std::uint32_t flow : sharing_.solve()) part.predict(flow, now);
    part.run_ahead(sharing_);
  }
}

void Engine::run_instants() {
  if (parts_.size() == 1) return run_instants_alone();
  each([&](std::uint32_t part) { parts_[part]->start(); });
  exchange();
  std::uint64_t before = events();
  for (std::int64_t now = earliest(); now != EnginePart::kNothing; now = earliest()) {
    do {
      for (const auto& part : parts_) sharing_.make_room(part->flows());
      each([&](std::uint32_t part) { parts_[part]->take(now); });
      exchange();
    } while (earliest() == now);
    share(now);
    // What one instant was like, the next will be.
    const std::uint64_t after = events();
    together_ = after - before >= together_from_;
    before = after;
  }
}

Result Engine::run() {
  run_instants();
  Result result;
  result.events = events();
  result.solves = sharing_.solves();
  result.last_finish = Table<InstanceId, SimTime>(tables_.plan.instances.size(), SimTime{});
  bool finished = true;
  for (const auto& part : parts_) {
    for (std::size_t rank = 0; rank < part->ranks(); ++rank) {
      result.last_finish[part->instance_of(rank)] = part->last_finish(rank);
      result.makespan = std::max(result.makespan, part->last_finish(rank));
    }
    finished = finished && part->finished();
  }
  result.records = std::move(records_);
  if (!finished) {
    result.outcome = Outcome::deadlock;
    if (parts_.size() == 1) result.stuck = parts_.front()->stuck();
  }
  return result;
}

}  // namespace

Duration unlimited_transfer(double work, double rate_cap) {
  return Duration(work > 0 && rate_cap > 0 ? fluid_time(work, rate_cap) : 0);
}

Result run(const Plan& plan, const Network& network, const RunOptions& options, const Threads& threads) {
  check(plan, network);
  for (const InstanceId instance : options.record)
    SIM_CHECK(index(instance) < plan.instances.size(), "cannot record the unknown instance {}", index(instance));
  Result result = Engine(plan, network, options, threads).run();
  if (result.outcome == Outcome::finished || threads.count <= 1) return result;
  // Who waits for whom is told from one part that knows all.
  result = Engine(plan, network, options, Threads{}).run();
  SIM_CHECK(result.outcome != Outcome::finished, "what several parts lock up at, one part finishes");
  return result;
}

Result run(const Plan& plan, const Network& network, const RunOptions& options) {
  return run(plan, network, options, Threads{});
}

}  // namespace orrery::sim
