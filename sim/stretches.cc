// See stretches.h.
#include "sim/stretches.h"

#include <algorithm>

#include "sim/engine.h"
#include "sim/error.h"
#include "sim/fair_sharing.h"

namespace orrery::sim {

Stretches::Stretches(const Plan& plan, const Network& network, const Contention& contention,
                     std::span<const InstanceId> instances, Transfers& transfers)
    : plan_(plan), network_(network), contention_(contention), transfers_(transfers) {
  if (std::all_of(plan.programs.begin(), plan.programs.end(), [](const Program& p) { return p.stretches.empty(); }))
    return;
  instances_.assign(instances.begin(), instances.end());
  runs_.resize(instances.size());
  for (std::size_t number = 0; number < runs_.size(); ++number)
    runs_[number].courses.resize(plan.programs[plan.instances[instances_[number]].program].stretches.size());
  transfers_.expect_stretches(static_cast<std::uint32_t>(runs_.size()), network.capacity.size());
}

std::int64_t Stretches::Times::at(const Begin& begin) const {
  return std::max({begin.compute + compute, begin.transfers + transfers, begin.host + host});
}

const Stretches::Course& Stretches::course_of(std::uint32_t number, std::uint32_t slot, std::uint32_t stretch) {
  std::unique_ptr<Course>& course = runs_[number].courses[stretch];
  if (course == nullptr) {
    const Program& program = plan_.programs[plan_.instances[instances_[number]].program];
    course = std::make_unique<Course>(make_course(instances_[number], slot, program.stretches[stretch]));
  }
  SIM_CHECK(course->slot == slot, "stretch {} on the communicators of slots {} and {}", stretch, course->slot, slot);
  return *course;
}

Stretches::Course Stretches::make_course(InstanceId instance, std::uint32_t slot, const Stretch& stretch) const {
  Course course;
  course.slot = slot;
  course.rows.reserve(stretch.items.size());
  const std::uint32_t first_route = index(plan_.communicators[plan_.slots_of(instance)[slot]].first_route);
  std::int64_t host = 0;
  for (const Stretch::Item& item : stretch.items) {
    Row& row = course.rows.emplace_back();
    row.transfers = item.transfers;
    row.duration = item.duration;
    row.host = host + (item.transfer ? item.issue : item.issue_bound);
    host += item.issue;
    if (!item.transfer) continue;
    const RouteId route{first_route + item.pattern};
    const double alone = contention_.route_rate[index(route)];
    row.transfer = true;
    row.duration += network_.route_latency[index(route)].value();
    row.work = item.work;
    row.rate = item.rate_cap > 0 ? std::min(item.rate_cap, alone) : alone;
    row.links = contention_.links_of(route);
    row.limited = item.work > 0 && !row.links.empty();
    if (item.work > 0 && alone < kInfinity)
      row.alone = fluid_time(item.work, FairSharing::round_rate(row.rate));
    else
      row.alone = unlimited_transfer(item.work, item.rate_cap).value();
    if (!row.limited) continue;
    for (const WeightedLink& l : row.links) {
      const auto same = [&](const WeightedLink& other) { return other.link == l.link; };
      if (std::none_of(course.links.begin(), course.links.end(), same)) course.links.push_back(l);
    }
  }
  find_ends(course);
  return course;
}

/// As to_next_transfer() and finish_transfer() of all, with constants in place of times.
void Stretches::find_ends(Course& course) {
  const auto later = [](const Times& a, const Times& b) {
    return Times{std::max(a.compute, b.compute), std::max(a.transfers, b.transfers), std::max(a.host, b.host)};
  };
  const auto after = [](Times times, std::int64_t duration) {
    for (std::int64_t* time : {&times.compute, &times.transfers, &times.host}) {
      if (*time != kNever) *time += duration;
    }
    return times;
  };
  Times compute{0, kNever, kNever}, transfers{kNever, 0, kNever};
  std::vector<Times> finishes;
  for (const Row& row : course.rows) {
    const Times host{kNever, kNever, row.host};
    if (row.transfer) {
      transfers = after(later(later(compute, transfers), host), row.duration + row.alone);
      finishes.push_back(transfers);
    } else {
      const Times ready = row.transfers > 0 ? later(compute, finishes[row.transfers - 1]) : compute;
      compute = later(after(ready, row.duration), host);
    }
  }
  course.compute = compute;
  course.transfers = transfers;
}

/// Goes through compute operations; false at the end of the stretch.
bool Stretches::to_next_transfer(Run& run) {
  const std::vector<Row>& rows = run.course->rows;
  for (; run.at < rows.size(); ++run.at) {
    const Row& row = rows[run.at];
    if (row.transfer) {
      run.begins = std::max({run.compute, run.transfers, run.begin.host + row.host}) + row.duration;
      return true;
    }
    const std::int64_t ready = row.transfers > 0 ? std::max(run.compute, run.finishes[row.transfers - 1]) : run.compute;
    run.compute = std::max(ready + row.duration, run.begin.host + row.host);
  }
  return false;
}

void Stretches::finish_transfer(Run& run, std::int64_t at) {
  run.transfers = at;
  run.finishes.push_back(at);
  ++run.at;
}

/// If nobody comes any more; leaves the run as it is.
StretchEnd Stretches::end_alone(Run& run) {
  const std::uint32_t at = run.at;
  const std::size_t finished = run.finishes.size();
  const std::int64_t compute = run.compute, transfers = run.transfers, begins = run.begins;
  while (to_next_transfer(run)) finish_transfer(run, run.begins + run.course->rows[run.at].alone);
  const StretchEnd end{run.compute, run.transfers};
  run.at = at;
  run.finishes.resize(finished);
  run.compute = compute;
  run.transfers = transfers;
  run.begins = begins;
  return end;
}

std::optional<StretchEnd> Stretches::arrive(std::uint32_t number, const Arrival& arrival) {
  Run& run = runs_[number];
  if (arrival.kind == OpKind::stretch) {
    run.course = &course_of(number, arrival.slot, arrival.stretch);
    run.begin.compute = arrival.ready;
    run.begin.host = arrival.host;
    run.begin.compute_stream = arrival.stream;
  } else {
    run.begin.transfers = arrival.ready;
    run.begin.transfer_stream = arrival.stream;
  }
  run.arrived = !run.arrived;
  return run.arrived ? std::nullopt : begin(number);
}

std::optional<StretchEnd> Stretches::begin(std::uint32_t number) {
  Run& run = runs_[number];
  const Course& course = *run.course;
  const StretchEnd end{course.compute.at(run.begin), course.transfers.at(run.begin)};
  if (course.links.empty()) return end;
  run.at = 0;
  run.compute = run.begin.compute;
  run.transfers = run.begin.transfers;
  run.finishes.clear();
  if (!transfers_.idle(course.links)) return advance(number);
  run.state = State::holds;
  run.end = end;
  transfers_.hold(number, end.transfers, course.links);
  return {};
}

/// From where no transfer is under way.
std::optional<StretchEnd> Stretches::advance(std::uint32_t number) {
  Run& run = runs_[number];
  while (to_next_transfer(run)) {
    const Row& row = run.course->rows[run.at];
    if (!row.limited) {
      finish_transfer(run, run.begins + row.alone);
    } else if (transfers_.idle(run.course->links)) {
      run.state = State::holds;
      run.end = end_alone(run);
      transfers_.hold(number, run.end.transfers, run.course->links);
      return {};
    } else {
      share_links(number);
      return {};
    }
  }
  return StretchEnd{run.compute, run.transfers};
}

void Stretches::share_links(std::uint32_t number) {
  Run& run = runs_[number];
  if (run.begins > transfers_.now()) {
    run.state = State::waits;
    transfers_.wait(number, run.begins);
    return;
  }
  const Row& row = run.course->rows[run.at];
  run.state = State::flows;
  transfers_.flow(number, {run.begins, run.begins + row.alone, row.work, row.rate, row.links});
}

std::optional<StretchEnd> Stretches::go_on(std::uint32_t number) {
  Run& run = runs_[number];
  if (run.state == State::holds) return run.end;
  if (run.state == State::flows) finish_transfer(run, transfers_.now());
  return advance(number);
}

std::optional<StretchEnd> Stretches::disturb(std::uint32_t number) {
  Run& run = runs_[number];
  SIM_CHECK(run.state == State::holds, "stretch {} holds no links", number);
  while (to_next_transfer(run)) {
    const Row& row = run.course->rows[run.at];
    const std::int64_t finish = run.begins + row.alone;
    if (finish <= transfers_.now() || !row.limited) {
      finish_transfer(run, finish);
    } else {
      share_links(number);
      return {};
    }
  }
  return StretchEnd{run.compute, run.transfers};
}

}  // namespace orrery::sim
