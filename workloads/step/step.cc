// Simulates a step: plan, fold, run, account. See step.h.
#include "workloads/step/step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "sim/engine_threads.h"
#include "sim/error.h"
#include "sim/fold.h"
#include "workloads/job/step_plan.h"
#include "workloads/memory/memory.h"
#include "workloads/memory/stage_reserve.h"
#include "workloads/step/account.h"
#include "workloads/step/steady_state.h"
#include "workloads/step/step_cache.h"
#include "workloads/step/step_energy.h"
#include "workloads/step/timeline.h"
#include "workloads/traffic/traffic.h"

namespace orrery::workloads {

namespace {

/// More classes than this are not recorded one by one; the busiest is looked for among so many, spread over all stages.
constexpr std::size_t kMostRecorded = 256;

struct Simulated {
  sim::Plan plan;  // what ran: every rank, or one instance per class
  sim::Result result;
  std::vector<std::int64_t> ranks;        // of the first records: the rank that each stands for
  std::vector<std::int64_t> class_sizes;  // likewise
  std::vector<std::size_t> asked;         // records of Question::timelines, in that order

  const sim::Program& program_of(const sim::Record& record) const {
    return plan.programs[plan.instances[record.instance].program];
  }
  RankRecord rank_of(const sim::Record& record, const StepPlan& step) const {
    return {&record, &program_of(record), &step.groups->slots[stage_of(record)],
            plan.instances[record.instance].slowdown, plan.programs.size() > 1};
  }
  std::size_t stage_of(const sim::Record& record) const { return sim::index(plan.instances[record.instance].program); }
};

std::string describe(const sim::Result& result, const sim::Plan& plan) {
  std::string text = "the schedule locks up:";
  for (std::size_t i = 0; i < std::min<std::size_t>(result.stuck.size(), 4); ++i) {
    const sim::Stuck& stuck = result.stuck[i];
    text += fmt::format(" instance {} operation {} ({} of {} arrived);", sim::index(stuck.instance), stuck.op,
                        stuck.arrived, stuck.members);
  }
  return text + fmt::format(" {} programs", plan.programs.size());
}

/// Runs the step's programs, which move into the result. `asked`: ranks to record beside one of each class.
Simulated simulate(StepPlan& step, bool full, bool recorded, const std::vector<std::int64_t>& asked = {},
                   std::uint32_t threads = 1) {
  Simulated out;
  const sim::Folded& folded = step.groups->folded;
  out.plan = full ? step.groups->plan : folded.plan;
  for (std::size_t stage = 0; stage < step.stages.programs.size(); ++stage) {
    out.plan.programs[sim::ProgramId{static_cast<std::uint32_t>(stage)}] = std::move(step.stages.programs[stage]);
  }
  step.stages.programs.clear();
  sim::RunOptions options;
  const std::size_t records = recorded ? std::min(kMostRecorded, folded.representative.size()) : 0;
  for (std::size_t i = 0; i < records; ++i) {
    const std::size_t c = i * folded.representative.size() / records;
    out.ranks.push_back(sim::index(folded.representative[c]));
    out.class_sizes.push_back(folded.class_size[c]);
    options.record.push_back(full ? folded.representative[c] : sim::InstanceId{static_cast<std::uint32_t>(c)});
  }
  std::map<sim::InstanceId, std::size_t> places;
  for (std::size_t r = 0; r < options.record.size(); ++r) places.try_emplace(options.record[r], r);
  for (const std::int64_t rank : asked) {
    const sim::InstanceId itself{static_cast<std::uint32_t>(rank)};
    const sim::InstanceId instance = full ? itself : folded.class_of[itself];
    const auto [place, added] = places.try_emplace(instance, options.record.size());
    if (added) options.record.push_back(instance);
    out.asked.push_back(place->second);
  }
  options.alone = step.groups->alone;
  out.result = sim::run(out.plan, full ? step.groups->network : folded.network, options, sim::Threads{threads});
  SIM_CHECK(out.result.outcome == sim::Outcome::finished, "{}", describe(out.result, out.plan));
  return out;
}

/// Passes ran as one operation on every rank because the ranks of a tensor group run in step: they are of one class. So
/// they did, if all of a class end with it.
void check_in_step(const sim::Folded& folded, const sim::Result& result) {
  for (std::uint32_t rank = 0; rank < folded.class_of.size(); ++rank) {
    const sim::InstanceId itself{rank};
    const sim::InstanceId first = folded.representative[sim::index(folded.class_of[itself])];
    SIM_CHECK(result.last_finish[itself] == result.last_finish[first], "rank {} ends at {} ps, and rank {} at {} ps",
              rank, result.last_finish[itself].value(), sim::index(first), result.last_finish[first].value());
  }
}

/// By stage and operation; empty where no operation stands for a pass.
std::vector<std::vector<sim::Duration>> tensor_waits(const StagePrograms& stages) {
  std::vector<std::vector<sim::Duration>> waits(stages.notes.size());
  if (stages.whole_passes.empty()) return waits;
  for (std::size_t stage = 0; stage < waits.size(); ++stage) {
    waits[stage].reserve(stages.notes[stage].size());
    for (const OpNote& note : stages.notes[stage]) {
      waits[stage].push_back(note.whole == kNoWholePass ? sim::Duration{}
                                                        : stages.whole_passes[note.whole].tensor_wait);
    }
  }
  return waits;
}

/// `global`: sequences of a step.
void rate(const Model& work, std::int64_t global, const Method& method, const BlocksAgain& again,
          const Machine& machine, StepReport& report) {
  const double tokens = static_cast<double>(global) * static_cast<double>(work.seq);
  const double seconds = sim::to_seconds(report.iteration), gpus = static_cast<double>(report.gpus);
  report.rates.tokens_per_s = tokens / seconds;
  report.rates.tokens_per_s_per_gpu = report.rates.tokens_per_s / gpus;
  const Trained trained = method.adapters.any() ? Trained::adapters : Trained::all;
  const double model = model_flops(work, global, trained);
  const double hardware = hardware_flops(work, global, method.recompute, trained, again);
  report.rates.model_tflops_per_gpu = model / seconds / gpus / 1e12;
  report.rates.hardware_tflops_per_gpu = hardware / seconds / gpus / 1e12;
  report.rates.aggregate_pflops = model / seconds / 1e15;
  const double peak = std::max(machine.mean_peak(DataType::bf16), machine.mean_peak(DataType::fp16)) / 1e12;
  report.rates.mfu_pct = 100 * report.rates.model_tflops_per_gpu / peak;
  report.rates.hfu_pct = 100 * report.rates.hardware_tflops_per_gpu / peak;
}

/// The window of a rank that counts as its step.
struct Window {
  sim::SimTime begin{}, end{};
};

/// When the rank is at work: from its first kernel, or the gather of parameters that this waited for, to its last
/// kernel or data-parallel collective. Fetching a micro-batch is none of it: every stage may do that at once.
Window at_work(const sim::Record& record, const sim::Program& program) {
  Window window{sim::SimTime(std::numeric_limits<std::int64_t>::max()), {}};
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const auto category = static_cast<Category>(program.category[op]);
    const bool compute = program.kind[op] == sim::OpKind::compute && category != Category::host;
    if (compute || category == Category::data_comm) window.end = std::max(window.end, record.finish[op]);
    if (!compute || record.start[op] >= window.begin) continue;
    window.begin = record.start[op];
    for (const std::uint32_t wait : program.waits_of(op)) {
      if (static_cast<Category>(program.category[wait]) == Category::data_comm)
        window.begin = std::min(window.begin, record.start[wait]);
    }
  }
  return window;
}

/// A step after a step after a step: all stages repeat with the period of the one that is longest at work, each begun
/// as much later than the first as it begins here, so every message of the next step is as early as in this one.
sim::Duration longest_at_work(const Simulated& run) {
  sim::Duration longest{};
  for (const sim::Record& record : run.result.records) {
    const Window window = at_work(record, run.plan.programs[run.plan.instances[record.instance].program]);
    longest = std::max(longest, sim::Duration(window.end.value() - window.begin.value()));
  }
  return longest;
}

/// The step's period. `apart`: stages step their optimizers apart, and all classes were recorded.
sim::Duration iteration_of(bool apart, const Simulated& run) {
  return apart ? longest_at_work(run) : sim::Duration(run.result.makespan.value());
}

/// Where the time of one rank went. `apart`: as for iteration_of.
TimeByCategory breakdown_of(bool apart, const RankRecord& rank, sim::Duration iteration,
                            std::span<const sim::Duration> waits, std::vector<Timeline::Gap>* gaps = nullptr) {
  const sim::SimTime begin = apart ? at_work(*rank.record, *rank.program).begin : sim::SimTime{};
  return account(rank, begin, sim::SimTime(begin.value() + iteration.value()), waits, gaps);
}

/// A recorded rank's account of its step.
struct Account {
  std::size_t stage = 0;
  sim::Duration busy{};
  TimeByCategory parts{};
  sim::Duration launching{};  // of its host
};

/// What it takes a rank's host to launch, one operation after the other.
sim::Duration launch_time(const RankRecord& rank) {
  sim::Duration sum{};
  for (std::uint32_t op = 0; op < rank.program->size(); ++op) sum += sim::Duration(rank.program->issue[op]);
  return sum;
}

/// By record; nothing where a record is too coarse: launches stretch passes that were simulated as one operation, and
/// their time cannot be told from waiting for collectives inside.
std::optional<std::vector<Account>> accounts_of(bool apart, const StepPlan& step, const Simulated& run,
                                                sim::Duration iteration) {
  const auto waits = tensor_waits(step.stages);
  std::vector<Account> accounts;
  for (std::size_t i = 0; i < run.ranks.size(); ++i) {
    const RankRecord rank = run.rank_of(run.result.records[i], step);
    const std::size_t stage = run.stage_of(*rank.record);
    if (is_launch_bound(rank, waits[stage])) return {};
    accounts.push_back(
        {stage, busy_time(rank, waits[stage]), breakdown_of(apart, rank, iteration, waits[stage]), launch_time(rank)});
  }
  return accounts;
}

/// Of equally busy ranks the first one tells where the time of the step, which is known, went. `launching`, by stage:
/// the share of the step in which a host launches.
void tell_busiest(const std::vector<Account>& accounts, StepReport& report, std::vector<double>& launching) {
  const auto busiest = std::max_element(accounts.begin(), accounts.end(),
                                        [](const Account& a, const Account& b) { return a.busy < b.busy; });
  report.breakdown_s = in_seconds(busiest->parts);
  report.busiest_stage = static_cast<std::int64_t>(busiest->stage);
  launching.assign(report.rates.stages.size(), 0);
  for (const Account& account : accounts) {
    double& most = report.rates.stages[account.stage].computing_s;
    most = std::max(most, sim::to_seconds(account.busy));
    const double share = sim::to_seconds(account.launching) / sim::to_seconds(report.iteration);
    launching[account.stage] = std::max(launching[account.stage], share);
  }
}

bool account_for(bool apart, const StepPlan& step, const Simulated& run, StepReport& report,
                 std::vector<double>& launching) {
  const auto accounts = accounts_of(apart, step, run, report.iteration);
  if (accounts) tell_busiest(*accounts, report, launching);
  return accounts.has_value();
}

/// Spans of all timelines together: about a gigabyte and a half.
constexpr std::size_t kMostSpans = 4'000'000;

/// How many timelines of this step may be kept.
std::size_t most_timelines(const Simulated& run) {
  std::size_t longest = 1;
  for (const sim::Program& program : run.plan.programs) longest = std::max<std::size_t>(longest, program.size());
  return std::max<std::size_t>(1, kMostSpans / longest);
}

/// The record of the busiest rank of each stage that has one.
std::map<std::size_t, std::size_t> busiest_by_stage(const StepPlan& step, const Simulated& run) {
  std::map<std::size_t, std::pair<sim::Duration, std::size_t>> busiest;  // time at work, record
  for (std::size_t i = 0; i < run.ranks.size(); ++i) {
    const sim::Record& record = run.result.records[i];
    const sim::Duration busy = busy_time(run.rank_of(record, step));
    auto& most = busiest.try_emplace(run.stage_of(record), sim::Duration(-1), 0).first->second;
    if (busy > most.first) most = {busy, i};
  }
  std::map<std::size_t, std::size_t> out;
  for (const auto& [stage, most] : busiest) out[stage] = most.second;
  return out;
}

void draw_bars(const StepPlan& step, const Simulated& run, StepReport& report) {
  const std::size_t room = std::max<std::size_t>(1, most_timelines(run) / 4);
  for (const auto& [stage, i] : busiest_by_stage(step, run)) {
    const sim::Record& record = run.result.records[i];
    if (stage < room) {
      report.busiest.bars.push_back(bars_of(
          step, run.program_of(record), {&record, run.ranks[i], run.class_sizes[i], static_cast<std::int64_t>(stage)}));
    }
  }
}

/// Bars and timelines of ranks, memory and links, as far as the options ask, for traces and reports.
/// `chunks`: bytes of passes, by stage and chunk.
void draw(const Parallelism& layout, const calibration::HostCosts& host,
          const std::vector<std::vector<PassBytes>>& chunks, const topology::Cluster& cluster, const StepPlan& step,
          const Simulated& run, const Question& options, StepReport& report) {
  if (options.stages != Question::Stages::none) draw_bars(step, run, report);
  if (!options.draws_ranks() && options.stages != Question::Stages::timelines) return;
  const Dims dims = layout.dims();
  const auto timeline = [&](const RecordedRank& rank, bool with_spans) {
    const sim::Program& program = run.program_of(*rank.record);
    Timeline drawn;
    drawn.rank = rank.rank;
    drawn.ranks = rank.ranks;
    drawn.stage = rank.stage;
    if (with_spans) drawn = timeline_of(dims, step, program, rank, host);
    drawn.breakdown_s = in_seconds(breakdown_of(layout.optimizer_post_validation, run.rank_of(*rank.record, step),
                                                report.iteration, {}, &drawn.gaps));
    const auto stage = static_cast<std::size_t>(rank.stage);
    drawn.memory = memory_over_time(step, program, rank, report.memory.stages[stage], chunks[stage]);
    return drawn;
  };
  const auto recorded = [&](std::size_t i, std::int64_t rank, std::int64_t ranks) {
    const sim::Record& record = run.result.records[i];
    return RecordedRank{&record, rank, ranks, static_cast<std::int64_t>(run.stage_of(record))};
  };
  const std::size_t room = most_timelines(run);
  if (run.asked.size() > room) {
    throw sim::UserError(
        fmt::format("--trace-ranks: got {} ranks, expected at most {} for a step of so many "
                    "operations",
                    run.asked.size(), room));
  }
  if (options.draws_ranks() && options.timelines->empty()) {
    const std::size_t step_over = (run.ranks.size() + room - 1) / room;
    for (std::size_t i = 0; i < run.ranks.size(); i += step_over)
      report.timelines.push_back(timeline(recorded(i, run.ranks[i], run.class_sizes[i]), true));
  }
  for (std::size_t i = 0; i < run.asked.size(); ++i)
    report.timelines.push_back(timeline(recorded(run.asked[i], (*options.timelines)[i], 1), true));
  if (options.stages == Question::Stages::timelines) {
    KernelUses kernels;
    for (const auto& [stage, i] : busiest_by_stage(step, run)) {
      const RecordedRank rank = recorded(i, run.ranks[i], run.class_sizes[i]);
      report.busiest.timelines.push_back(timeline(rank, false));
      kernels.add(step, run.program_of(*rank.record), rank.stage);
    }
    report.busiest.kernels = kernels.list();
  }
  // A link's load is that of all ranks: known where every class was recorded.
  const Groups& groups = *step.groups;
  if (options.of_every_rank() || groups.settled || run.ranks.size() < groups.folded.representative.size()) return;
  report.links =
      link_loads(run.plan, groups.folded.network, run.result.records, groups.folded.link_representative, cluster);
}

void count_tiers(const RankMap& ranks, const topology::Cluster& cluster, const Groups& groups, StepReport& report) {
  const ByTier bytes = bytes_by_tier(report.traffic, groups.list, ranks, cluster, groups.alike, groups.replicas);
  for (std::size_t t = 0; t < bytes.size(); ++t) {
    if (bytes[t] > 0) report.tier_bytes.push_back({static_cast<topology::Tier>(t), bytes[t]});
  }
}

/// The fullest moment of each stage that was recorded, counted in simulated time.
void count_memory(const std::vector<std::vector<PassBytes>>& chunks, const StepPlan& step, const Simulated& run,
                  StepReport& report) {
  std::vector<bool> done(report.memory.stages.size(), false);
  for (const sim::Record& record : run.result.records) {
    const sim::ProgramId program = run.plan.instances[record.instance].program;
    const std::size_t stage = sim::index(program);
    if (done[stage]) continue;
    done[stage] = true;
    const HighWater top =
        counted_high_water(record, run.plan.programs[program], step.stages.notes[stage], chunks[stage]);
    StageMemory& memory = report.memory.stages[stage];
    memory.counted_activations = top.held + top.working - top.units;
    const bool in_step = memory.peak.during == StageMemory::During::optimizer;
    memory.peak.at_s = in_step ? sim::to_seconds(report.iteration) : top.at_s;
  }
}

double most_reserved(const std::vector<StageMemory>& stages) {
  double most = 0;
  for (const StageMemory& stage : stages) most = std::max(most, stage.reserved());
  return most;
}

/// The stage whose host is behind, if there is one: it holds more blocks than every other, so that its device waits for
/// none of them, and its host launches for most of the step. The hosts of other stages get ahead while their devices
/// wait for the slowest. `launching`, by stage: the share of the step in which a host launches.
std::optional<std::size_t> stage_behind(const LayerSplit& split, const ChunkMap& map,
                                        std::span<const double> launching) {
  constexpr double kBehind = 0.7;
  std::vector<std::int64_t> blocks;
  for (std::int64_t stage = 0; stage < map.stages(); ++stage) {
    const StageLayout here{split, map, stage};
    blocks.push_back(0);
    for (std::int64_t chunk = 0; chunk < here.chunks(); ++chunk) blocks.back() += here.blocks(here.range(chunk));
  }
  const auto most = std::max_element(blocks.begin(), blocks.end());
  const auto stage = static_cast<std::size_t>(most - blocks.begin());
  if (blocks.size() == 1 || std::count(blocks.begin(), blocks.end(), *most) > 1 || launching[stage] < kBehind)
    return {};
  return stage;
}

/// Nothing waits for other streams on a stage whose host is behind.
void settle_reserved(const ReserveInputs& inputs, const LayerSplit& split, const Grounds& grounds,
                     std::span<const double> launching, StepReport& report) {
  std::vector<StageMemory>& stages = report.memory.stages;
  const auto behind = stage_behind(split, inputs.programs.map, launching);
  if (behind) stages[*behind].waiting = 0;
  const std::vector<double> walked = walked_reserves(inputs, split, grounds, stages, behind);
  for (std::size_t stage = 0; stage < walked.size(); ++stage) stages[stage].walked = walked[stage];
  report.memory.reserved_bytes = most_reserved(stages);
}

void add_memory(std::vector<StageMemory> stages, const Machine& machine, StepReport& report) {
  report.memory.stages = std::move(stages);
  for (const StageMemory& stage : report.memory.stages)
    report.memory.allocated_bytes = std::max(report.memory.allocated_bytes, stage.allocated);
  report.memory.reserved_bytes = most_reserved(report.memory.stages);
  const MemoryNeed need = memory_need(report.memory.stages, machine);
  report.memory.peak_bytes = need.peak;
  report.memory.capacity_bytes = need.capacity;
  report.memory.tightest = need.stage;
  report.memory.host = {need.host.peak, need.host.capacity, need.host.fits()};
  report.memory.fits = need.fits();
}

}  // namespace

std::string_view name_of(StageMemory::During during) {
  static constexpr std::array<std::string_view, 3> names{"forward", "backward", "optimizer"};
  return names[static_cast<std::size_t>(during)];
}

namespace {

/// What an exact repetition of the step leaves out of a simulation.
struct Repeated {
  StepPlan step;  // of the shorter step
  Simulated run;  // likewise
  sim::Duration left_out{};
  std::int64_t period = 0, periods = 0;
};

/// What a run took to simulate.
void count_effort(const Simulated& run, StepReport& report) {
  report.effort.ranks = static_cast<std::int64_t>(run.plan.instances.size());
  report.effort.events = run.result.events;
}

/// How many layers each stage has.
void note_layers(const LayerSplit& split, const ChunkMap& map, StepReport& report) {
  for (std::int64_t stage = 0; stage < map.stages(); ++stage)
    report.rates.stages.push_back({0, StageLayout{split, map, stage}.blocks()});
}

/// Adds to every part of `accounts` so many times what it has more than in `fewer`, those of a period less.
void repeat_last(std::vector<Account>& accounts, const std::vector<Account>& fewer, std::int64_t times) {
  for (std::size_t i = 0; i < accounts.size(); ++i) {
    Account& whole = accounts[i];
    const Account& part = fewer[i];
    whole.busy += (whole.busy - part.busy) * times;
    whole.launching += (whole.launching - part.launching) * times;
    for (std::size_t c = 0; c < kCategories; ++c) whole.parts[c] += (whole.parts[c] - part.parts[c]) * times;
  }
}

/// To find a step that repeats.
constexpr int kAttempts = 2;

/// One job on its cluster, simulated as the options ask, with what comes of it in a report.
class StepSimulation {
 public:
  StepSimulation(const Job& job, const topology::Cluster& cluster, const std::shared_ptr<const Groups>& groups,
                 const Question& options, StepReport& report)
      : job_(job),
        cluster_(cluster),
        groups_(groups),
        options_(options),
        report_(report),
        apart_(job.parallelism.optimizer_post_validation) {}

  /// Time alone, folded: the shortest simulation that is exact.
  void time_step() {
    const auto take = [&](const StepTiming& timing) {
      std::tie(report_.iteration, report_.effort.ranks, report_.effort.events) =
          std::tie(timing.iteration, timing.ranks, timing.events);
    };
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const std::optional<Jump> jump = jump_of(attempt);
      if (!jump) break;
      const StepTiming timing = timing_of(short_plan(jump->microbatches, !apart_), &*jump);
      if (timing.holds) return take(timing);
    }
    take(timing_of(options_.planned != nullptr ? options_.planned->plan : short_plan(job_.microbatches(), !apart_),
                   nullptr));
  }

  /// Time, breakdown, timelines, memory and traffic.
  void simulate_in_detail() {
    const LayerSplit split = split_layers(job_);
    add_memory(stage_memory(job_, split), job_.machine, report_);
    note_layers(split, job_.parallelism.chunk_map(), report_);
    chunks_ = chunk_bytes(job_, split);
    const bool drawn = options_.draws_ranks() || options_.stages == Question::Stages::timelines;
    const bool compact = options_.ranks != Question::Ranks::every && !drawn;
    if (!compact || options_.of_every_rank() || options_.stages == Question::Stages::bars || !account_for_repeated())
      simulate_whole(compact);
    const ProgramInputs inputs = program_inputs_of(job_, Workload::training_step);
    settle_reserved({job_.machine, job_.software, job_.parallelism, job_.pipeline_shape(), inputs}, split,
                    {cluster_, groups_->shapes}, launching_, report_);
    add_energy(split, inputs);
    report_.traffic = merge_traffic(closed_form_traffic(job_), report_.traffic);
    count_tiers(RankMap(job_.parallelism.dims(), job_.placement, job_.machine.gpus_per_node), cluster_, *groups_,
                report_);
    report_.assumptions = job_.assumptions;
    if (groups_->settled) {
      report_.assumptions.emplace_back(
          "network: placement, hashed paths or a torus leave few ranks alike, so each group keeps the rate that it has "
          "while all groups of its kind are under way");
    }
    note_main_cause();
  }

  /// One cause that takes half of the step is what the answer hangs on.
  void note_main_cause() {
    const auto compute = static_cast<std::size_t>(Category::compute);
    double whole = report_.breakdown_s[compute];
    std::size_t most = compute;
    for (std::size_t c = 0; c < kCategories; ++c) {
      if (c == compute) continue;
      whole += report_.breakdown_s[c];
      if (most == compute || report_.breakdown_s[c] > report_.breakdown_s[most]) most = c;
    }
    if (whole <= 0 || report_.breakdown_s[most] <= whole / 2) return;
    report_.assumptions.push_back(
        fmt::format("{} takes {:.0f} % of the step of the busiest rank: the answer hangs on this one cause.",
                    name_of(static_cast<Category>(most)), 100 * report_.breakdown_s[most] / whole));
  }

  /// Every micro-batch. `compact`: undisturbed passes as one operation each, where the breakdown can still be told.
  void simulate_whole(bool compact) {
    StepPlan step = !compact                   ? make_plan(job_, cluster_, groups_)
                    : options_.of_every_rank() ? short_plan(job_.microbatches())
                                               : folded_plan();
    while (true) {
      const Simulated run = simulate(step, options_.of_every_rank(), true, options_.named_ranks(),
                                     options_.of_every_rank() ? options_.threads : 1);
      if (options_.of_every_rank() && compact) check_in_step(groups_->folded, run.result);
      count_effort(run, report_);
      report_.iteration = iteration_of(apart_, run);
      if (account_for(apart_, step, run, report_, launching_)) {
        if (options_.counts_memory) count_memory(chunks_, step, run, report_);
        draw(job_.parallelism, job_.software.host, chunks_, cluster_, step, run, options_, report_);
        break;
      }
      compact = false;
      step = make_plan(job_, cluster_, groups_);
    }
    report_.traffic = count_traffic(step);
  }

  /// Of the step, whose time is known.
  void add_energy(const LayerSplit& split, const ProgramInputs& inputs) {
    if (!job_.machine.knows_power()) return;
    report_.energy = step_energy(energy_inputs(job_.machine, job_.power, job_.parallelism, job_.microbatches(), inputs),
                                 split, sim::to_seconds(report_.iteration), closed_form_traffic(job_), groups_->shapes);
  }

  /// Where the job evaluates; adds it to the step's time.
  void evaluate() {
    const Evaluation& evaluation = job_.evaluation;
    report_.evaluation.iteration_s = sim::to_seconds(report_.iteration);
    report_.evaluation.tokens_per_s = report_.rates.tokens_per_s;
    if (evaluation.every_steps == 0) return;
    StepPlan step = make_plan(job_, cluster_, groups_, {Workload::evaluation, true});
    const Simulated one = simulate(step, false, false);
    const std::int64_t global = job_.batch.global;
    const auto batches = static_cast<double>((evaluation.sequences + global - 1) / global);
    report_.evaluation.seconds =
        batches * sim::to_seconds(one.result.makespan) + sim::to_seconds(job_.software.host.evaluation_host);
    report_.evaluation.iteration_s += sim::to_seconds(job_.software.host.step_host) +
                                      report_.evaluation.seconds / static_cast<double>(evaluation.every_steps);
    report_.evaluation.tokens_per_s =
        static_cast<double>(global) * static_cast<double>(job_.model.seq) / report_.evaluation.iteration_s;
  }

 private:
  /// The plan of a folded run, which may have been made before.
  StepPlan folded_plan() const {
    return options_.planned != nullptr ? options_.planned->plan : short_plan(job_.microbatches());
  }
  /// Of a step of so many micro-batches. `timed`: its parts are not asked for.
  StepPlan short_plan(std::int64_t microbatches, bool timed = false) const {
    Job shorter = job_;
    shorter.batch.global = microbatches * job_.parallelism.data * job_.batch.micro;
    return make_plan(shorter, cluster_, groups_, {Workload::training_step, true, timed, job_.microbatches()});
  }

  /// Which shorter step may show a repetition.
  std::optional<Jump> jump_of(int attempt) const {
    if (groups_->folded.representative.size() > kMostRecorded) return {};
    return choose_jump(*job_.parallelism.schedule, job_.pipeline_shape(), job_.perturbation, attempt);
  }

  /// Simulates the shorter step of a jump, if it repeats exactly what is left out.
  std::optional<Repeated> repeat(const Jump& jump, StepPlan step) const {
    Repeated out;
    out.step = std::move(step);
    out.run = simulate(out.step, false, true);
    const auto shift =
        shift_of(jump, job_.parallelism.virtual_pipeline, out.step.stages, out.run.plan, out.run.result.records);
    if (!shift) return {};
    out.left_out = *shift * jump.periods;
    out.period = jump.period;
    out.periods = jump.periods;
    return out;
  }
  std::optional<Repeated> simulate_repeated() const {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const std::optional<Jump> jump = jump_of(attempt);
      if (!jump) return {};
      if (auto repeated = repeat(*jump, short_plan(jump->microbatches))) return repeated;
    }
    return {};
  }

  /// Of a folded step, or of the shorter one of a jump: looked up where a study has met its like before.
  StepTiming timing_of(StepPlan step, const Jump* jump) const {
    const auto time = [&] {
      StepTiming timing;
      const auto read = [&](const Simulated& run, sim::Duration left_out) {
        timing.iteration = iteration_of(apart_, run) + left_out;
        timing.ranks = static_cast<std::int64_t>(run.plan.instances.size());
        timing.events = run.result.events;
      };
      if (jump == nullptr) {
        read(simulate(step, false, apart_), {});
      } else if (const auto repeated = repeat(*jump, std::move(step))) {
        read(repeated->run, repeated->left_out);
      } else {
        timing.holds = false;
      }
      return timing;
    };
    if (options_.cache == nullptr) return time();
    const StepDigest digest = digest_of(step, jump, apart_);
    if (const auto known = options_.cache->timing_of(digest)) return *known;
    const StepTiming timing = time();
    options_.cache->keep(digest, timing);
    return timing;
  }

  /// Time and breakdown of a step that repeats; false where it does not, or the breakdown cannot be told.
  bool account_for_repeated() {
    const std::optional<Repeated> repeated = simulate_repeated();
    if (!repeated) return false;
    const Simulated& run = repeated->run;
    count_effort(run, report_);
    report_.iteration = iteration_of(apart_, run);
    auto accounts = accounts_of(apart_, repeated->step, run, report_.iteration);
    if (!accounts) return false;
    // One period less tells what a period adds to each part of the breakdown.
    const std::int64_t simulated = job_.microbatches() - repeated->period * repeated->periods;
    StepPlan less = short_plan(simulated - repeated->period);
    const Simulated before = simulate(less, false, true);
    const sim::Duration shorter = iteration_of(apart_, before);
    if ((report_.iteration - shorter) * repeated->periods != repeated->left_out) return false;
    const auto fewer = accounts_of(apart_, less, before, shorter);
    if (!fewer) return false;
    repeat_last(*accounts, *fewer, repeated->periods);
    report_.iteration += repeated->left_out;
    tell_busiest(*accounts, report_, launching_);
    report_.effort.events = run.result.events + before.result.events;
    report_.traffic = count_repeated_traffic(repeated->step, less, repeated->periods);
    // The fullest moment comes as early in the shorter step as in the whole one.
    if (options_.counts_memory) count_memory(chunks_, repeated->step, run, report_);
    return true;
  }

  const Job& job_;
  const topology::Cluster& cluster_;
  const std::shared_ptr<const Groups>& groups_;
  const Question& options_;
  StepReport& report_;
  bool apart_;                                  // stages step their optimizers apart
  std::vector<std::vector<PassBytes>> chunks_;  // by stage and chunk
  std::vector<double> launching_;               // by stage, the share of the step in which a host launches
};

/// A delay may move exchanges apart that else share links at one time, so that the step becomes shorter by it (Graham,
/// Bounds on multiprocessing timing anomalies, 1969). That is no mistake, but nothing that a reader expects.
void say_anomaly(Job plain, StepReport& report) {
  Perturbation& perturbed = plain.perturbation;
  const auto slow = std::erase_if(perturbed.slow_gpus, [](const auto& gpu) { return gpu.slowdown > 1; });
  if (slow == 0 && perturbed.slow_nics.empty()) return;
  perturbed.slow_nics.clear();
  Question brief;
  brief.parts = Question::Parts::times;
  const sim::Duration without = simulate_step(plain, brief).iteration;
  constexpr double kTold = 1e-3;
  const double gained = 1 - sim::to_seconds(report.iteration) / sim::to_seconds(without);
  if (gained < kTold) return;
  report.assumptions.push_back(
      fmt::format("perturb: the step is {:.1f} % shorter than without slow GPUs and NICs: the delay moves exchanges "
                  "apart that would share links at one time.",
                  100 * gained));
}

}  // namespace

StepReport simulate_step(const Job& job, const Question& options) {
  const auto begin = std::chrono::steady_clock::now();
  StepReport report;
  StepCache own(1);
  StepCache& cache = options.cache != nullptr ? *options.cache : own;
  const PlannedStep* planned = options.planned;
  const auto cluster = planned != nullptr ? planned->cluster : cache.cluster_of(site_of(job));
  const GroupInputs inputs = group_inputs_of(job);
  // Which class a rank is in, only the groups of all ranks know.
  const bool of_all = options.of_every_rank() || !options.named_ranks().empty();
  const auto groups = of_all               ? make_groups(inputs, *cluster)
                      : planned != nullptr ? planned->plan.groups
                                           : cache.groups_of(cluster, inputs);
  report.gpus = job.machine.gpus;
  StepSimulation simulation(job, *cluster, groups, options, report);
  if (options.parts != Question::Parts::all && !options.of_every_rank() && !options.draws_ranks()) {
    simulation.time_step();
    if (options.parts == Question::Parts::energy)
      simulation.add_energy(split_layers(job), program_inputs_of(job, Workload::training_step));
  } else {
    simulation.simulate_in_detail();
    const Perturbation& perturbed = job.perturbation;
    if (!perturbed.slow_gpus.empty() || !perturbed.slow_nics.empty()) say_anomaly(job, report);
  }
  BlocksAgain again{1, stops_ahead_of_last_product(job.model, job.software.layers.linear, job.method.adapters)};
  if (job.method.recomputed_layers > 0) again.share = share_recomputed(split_layers(job), job.method.recompute);
  rate(job.model, job.batch.global, job.method, again, job.machine, report);
  simulation.evaluate();
  report.effort.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

sim::Duration least_step(const Job& job, StepCache& cache) {
  // Whole picoseconds, rounded at each of a step's transfers, which take microseconds at least.
  constexpr double kSafety = 1 - 1e-7;
  const Perturbation& perturbed = job.perturbation;
  const bool drawn = perturbed.jitter_sigma > 0 || perturbed.message_sigma > 0 || perturbed.routing.skew > 0;
  if (drawn || job.parallelism.optimizer_post_validation) return {};
  const auto cluster = cache.cluster_of(site_of(job));
  const auto lone = cache.lone_of(cache.groups_of(cluster, group_inputs_of(job)));
  Question options;
  options.cache = &cache;
  StepReport report;
  StepSimulation(job, *cluster, lone, options, report).time_step();
  return sim::Duration(static_cast<std::int64_t>(static_cast<double>(report.iteration.value()) * kSafety));
}

std::vector<TrafficRow> traffic_table(const Job& job) {
  const topology::Cluster cluster = cluster_of(site_of(job));
  const auto groups = make_groups(group_inputs_of(job), cluster);
  return merge_traffic(closed_form_traffic(job), count_traffic(make_plan(job, cluster, groups)));
}

}  // namespace orrery::workloads
