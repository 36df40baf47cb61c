// Timelines of recorded ranks. Left out: the rates of transfers inside their time (the engine keeps none), so that a
// link's load is the sum of mean rates; links that can never be the bottleneck, which no route names.
#include "workloads/step/timeline.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/error.h"
#include "workloads/memory/high_water.h"

namespace orrery::workloads {

namespace {

/// Kernels as long as their run takes: beside collectives, and where the slowest GPU sets the pace, each takes longer.
void stretch(std::vector<KernelSlice>& kernels, sim::Duration run) {
  sim::Duration sum{};
  for (const KernelSlice& kernel : kernels) sum += kernel.duration;
  if (sum == run || sum.value() <= 0) return;
  const double factor = static_cast<double>(run.value()) / static_cast<double>(sum.value());
  for (KernelSlice& kernel : kernels) kernel.duration = scaled(kernel.duration, factor);
}

/// Those of a run that takes `time`.
std::vector<KernelSlice> slices_of(const std::vector<Kernel>& run, sim::Duration time) {
  std::vector<KernelSlice> kernels;
  for (const Kernel& kernel : run)
    kernels.push_back(
        {kernel.name, kernel.time, kernel.flops, kernel.bytes, kernel.type, {}, {}, kernel.launches, kernel.shape});
  stretch(kernels, time);
  return kernels;
}

Timeline::Span span_of(const StepPlan& step, const sim::Program& program, const RecordedRank& rank, std::uint32_t op) {
  const OpNote& note = step.stages.notes[static_cast<std::size_t>(rank.stage)][op];
  Timeline::Span span;
  span.stream = all_streams()[program.stream[op]];
  span.category = static_cast<Category>(program.category[op]);
  span.ready = rank.record->ready[op];
  span.start = rank.record->start[op];
  span.finish = rank.record->finish[op];
  span.pass = letter_of(note.kind);
  span.chunk = note.chunk;
  span.microbatch = note.microbatch;
  span.layer = note.layer;
  const std::string pass =
      note.microbatch < 0 ? "" : fmt::format("{}{}.{} ", letter_of(note.kind), note.chunk, note.microbatch);
  if (program.kind[op] == sim::OpKind::compute) {
    span.kernels = slices_of(step.stages.runs[note.run], sim::Duration(program.duration[op]));
    span.name = pass + span.kernels.front().name;
  } else {
    const TrafficKey& key = step.stages.traffic[note.traffic];
    const bool with_host = key.group.name == CommGroup::host.name;
    span.name = with_host ? pass + key.what : fmt::format("{}{} ({})", pass, calibration::name_of(key.op), key.what);
    span.bytes = key.bytes * note.share;
    span.call = {key.op, key.group.name, key.ranks};
  }
  return span;
}

/// When the host was at work for each operation: it issues them one after the other, and waits where the program says
/// so until the operation is done, as the engine has it.
class HostClock {
 public:
  HostClock(const StepPlan& step, const RecordedRank& rank, const sim::Program& program,
            const calibration::HostCosts& costs)
      : step_(step), rank_(rank), program_(program), costs_(costs) {}

  void pass(Timeline::Span& span, std::uint32_t op) {
    span.host.from = now_;
    now_ = sim::SimTime(now_.value() + program_.issue[op]);
    span.host.until = now_;
    if (program_.kind[op] == sim::OpKind::compute && !costs_.blocking_launches) {
      const OpNote& note = step_.stages.notes[static_cast<std::size_t>(rank_.stage)][op];
      const std::vector<Kernel>& kernels = step_.stages.runs[note.run];
      for (std::size_t k = 0; k < kernels.size(); ++k) {
        const double share = kernels[k].backward ? costs_.backward_issue_share : 1.0;
        span.kernels[k].issue = scaled(costs_.kernel_issue, share) * kernels[k].launches;
        span.kernels[k].host = kernels[k].host;
      }
    }
    if (program_.host_waits[op] != 0) now_ = std::max(now_, rank_.record->finish[op]);
  }

 private:
  const StepPlan& step_;
  const RecordedRank& rank_;
  const sim::Program& program_;
  const calibration::HostCosts& costs_;
  sim::SimTime now_{};
};

}  // namespace

Timeline timeline_of(const Dims& dims, const StepPlan& step, const sim::Program& program, const RecordedRank& rank,
                     const calibration::HostCosts& host) {
  Timeline out;
  out.rank = rank.rank;
  out.ranks = rank.ranks;
  out.stage = rank.stage;
  const std::vector<GroupSlot>& slots = step.groups->slots[static_cast<std::size_t>(rank.stage)];
  std::vector<std::int64_t> communicators, turns(slots.size(), 0);
  for (const GroupSlot& slot : slots)
    communicators.push_back(communicator_of(*find_group(step.groups->list, slot.group), dims, rank.rank, slot.end));
  out.spans.reserve(program.size());
  HostClock clock(step, rank, program, host);
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    out.spans.push_back(span_of(step, program, rank, op));
    clock.pass(out.spans.back(), op);
    if (program.kind[op] != sim::OpKind::transfer) continue;
    const std::uint32_t slot = program.slot[op];
    out.spans.back().meeting.communicator = communicators[slot];
    out.spans.back().meeting.turn = turns[slot]++;
  }
  return out;
}

void KernelUses::add(const StepPlan& step, const sim::Program& program, std::int64_t stage) {
  // Runs of one length first: there are millions of operations and few of these.
  std::map<std::pair<std::size_t, std::int64_t>, std::int64_t> runs;
  const std::vector<OpNote>& notes = step.stages.notes[static_cast<std::size_t>(stage)];
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == sim::OpKind::compute) ++runs[{notes[op].run, program.duration[op]}];
  }
  for (const auto& [run, times] : runs) {
    for (KernelSlice& kernel : slices_of(step.stages.runs[run.first], sim::Duration(run.second))) {
      KernelUse& use = uses_[{kernel.name, kernel.flops, kernel.bytes, kernel.type}];
      use.count += times;
      use.time += kernel.duration * times;
    }
  }
}

std::vector<KernelUse> KernelUses::list() const {
  std::vector<KernelUse> uses;
  for (const auto& [key, use] : uses_) {
    uses.push_back(use);
    std::tie(uses.back().name, uses.back().flops, uses.back().bytes, uses.back().type) = key;
  }
  return uses;
}

StageBars bars_of(const StepPlan& step, const sim::Program& program, const RecordedRank& rank) {
  StageBars out{rank.rank, rank.stage, {}};
  out.bars.reserve(program.size());
  const std::vector<OpNote>& notes = step.stages.notes[static_cast<std::size_t>(rank.stage)];
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    out.bars.push_back({rank.record->start[op], rank.record->finish[op], all_streams()[program.stream[op]],
                        static_cast<Category>(program.category[op]), program.kind[op] == sim::OpKind::compute,
                        letter_of(notes[op].kind), notes[op].chunk, notes[op].microbatch});
  }
  return out;
}

std::vector<Timeline::Memory> memory_over_time(const StepPlan& step, const sim::Program& program,
                                               const RecordedRank& rank, const StageMemory& memory,
                                               const std::vector<PassBytes>& chunks) {
  const auto stage = static_cast<std::size_t>(rank.stage);
  const double kept = memory.total - memory.activations - memory.parts.step - memory.passing_gradients;
  std::vector<Timeline::Memory> points{{sim::SimTime{}, kept}};
  for (const HeldBytes& held : held_over_time(*rank.record, program, step.stages.notes[stage], chunks)) {
    const sim::SimTime at(held.at);
    if (points.back().at != at) points.push_back({at, 0});
    // Of one instant the last: what is freed and taken at once was never held together.
    points.back().bytes = kept + held.bytes;
  }
  if (memory.parts.step > 0) {
    sim::SimTime last{};
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      if (static_cast<Category>(program.category[op]) == Category::optimizer && rank.record->start[op] > last)
        last = rank.record->start[op];
    }
    points.push_back({std::max(last, points.back().at), kept + memory.parts.step});
  }
  return points;
}

namespace {

/// Calls `each(link, bytes, start, finish)` for every link that a recorded transfer crosses. Each communicator's
/// transfers count once, as the first of its recorded members saw them.
template <class Each>
void for_each_load(const sim::Plan& plan, const sim::Network& network, std::span<const sim::Record> records,
                   const Each& each) {
  std::map<std::uint32_t, std::pair<std::size_t, std::uint32_t>> seen_by;  // communicator -> record, slot
  for (std::size_t r = 0; r < records.size(); ++r) {
    const sim::Record& record = records[r];
    const sim::Program& program = plan.programs[plan.instances[record.instance].program];
    const auto slots = plan.slots_of(record.instance);
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] != sim::OpKind::transfer || program.work[op] <= 0) continue;
      const sim::CommunicatorId id = slots[program.slot[op]];
      const auto owner = seen_by.try_emplace(sim::index(id), r, program.slot[op]).first->second;
      if (owner != std::pair(r, program.slot[op]) || record.finish[op] <= record.start[op]) continue;
      const sim::RouteId route{sim::index(plan.communicators[id].first_route) + program.pattern[op]};
      for (const sim::WeightedLink& link : network.links_of(route))
        each(link.link, program.work[op] * link.weight, record.start[op].value(), record.finish[op].value());
    }
  }
}

struct RateChange {
  std::int64_t at;
  double rate;    // bytes/s more
  int transfers;  // more
};

/// Adds up the changes to a link's rate.
void add_rates(std::vector<RateChange> changes, LinkLoad& load) {
  std::sort(changes.begin(), changes.end(), [](const RateChange& a, const RateChange& b) { return a.at < b.at; });
  double rate = 0, busy = 0;
  int under_way = 0;
  for (const RateChange& change : changes) {
    const sim::SimTime at(change.at);
    if (under_way > 0) busy += static_cast<double>(change.at - load.rates.back().at.value());
    rate += change.rate;
    under_way += change.transfers;
    if (load.rates.empty() || load.rates.back().at != at) load.rates.push_back({at, 0});
    load.rates.back().bytes_per_s = under_way == 0 ? 0 : std::max(0.0, rate);  // no residue of rounding when idle
  }
  load.busy_s = busy / sim::kPicosecondsPerSecond;
}

}  // namespace

std::vector<LinkLoad> link_loads(const sim::Plan& plan, const sim::Network& network,
                                 std::span<const sim::Record> records, std::span<const sim::LinkId> full_link,
                                 const topology::Cluster& cluster) {
  std::map<sim::LinkId, double> moved;
  for_each_load(plan, network, records,
                [&](sim::LinkId link, double bytes, std::int64_t, std::int64_t) { moved[link] += bytes; });
  std::vector<sim::LinkId> busiest;
  for (const auto& [link, bytes] : moved) busiest.push_back(link);
  std::stable_sort(busiest.begin(), busiest.end(), [&](sim::LinkId a, sim::LinkId b) {
    return moved.at(a) / network.capacity[a] > moved.at(b) / network.capacity[b];
  });
  busiest.resize(std::min(busiest.size(), kMostLinkLoads));
  std::map<sim::LinkId, std::vector<RateChange>> changes;
  for (const sim::LinkId link : busiest) changes[link];
  for_each_load(plan, network, records, [&](sim::LinkId link, double bytes, std::int64_t start, std::int64_t finish) {
    const auto of_link = changes.find(link);
    if (of_link == changes.end()) return;
    const double rate = bytes / static_cast<double>(finish - start) * sim::kPicosecondsPerSecond;
    of_link->second.push_back({start, rate, 1});
    of_link->second.push_back({finish, -rate, -1});
  });
  std::vector<LinkLoad> loads;
  for (const sim::LinkId link : busiest) {
    const sim::LinkId full = full_link[sim::index(link)];
    LinkLoad load{cluster.link_name(full), cluster.links()[full].tier, network.capacity[link], moved.at(link), 0, {}};
    add_rates(std::move(changes.at(link)), load);
    loads.push_back(std::move(load));
  }
  return loads;
}

}  // namespace orrery::workloads
