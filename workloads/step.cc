// Simulates a step: plan, fold, run, account. See step.h.
#include "workloads/step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>

#include "sim/error.h"
#include "sim/fold.h"
#include "workloads/account.h"
#include "workloads/memory.h"
#include "workloads/step_plan.h"
#include "workloads/traffic.h"

namespace orrery::workloads {

namespace {

/// More classes than this are not recorded one by one; the busiest is looked for among so many, spread over all stages.
constexpr std::size_t kMostRecorded = 256;

struct Simulated {
  sim::Result result;
  std::vector<std::int64_t> ranks;        // of the records: the rank that each stands for
  std::vector<std::int64_t> class_sizes;  // of the records
  std::int64_t instances = 0;
};

std::string describe(const sim::Result& result, const StepPlan& step) {
  std::string text = "the schedule locks up:";
  for (std::size_t i = 0; i < std::min<std::size_t>(result.stuck.size(), 4); ++i) {
    const sim::Stuck& stuck = result.stuck[i];
    text += fmt::format(" instance {} operation {} ({} of {} arrived);", sim::index(stuck.instance), stuck.op,
                        stuck.arrived, stuck.members);
  }
  return text + fmt::format(" {} programs", step.plan.programs.size());
}

Simulated simulate(const StepPlan& step, bool full) {
  Simulated out;
  const sim::Folded folded = sim::fold(step.plan, step.network);
  sim::RunOptions options;
  const std::size_t recorded = std::min(kMostRecorded, folded.representative.size());
  for (std::size_t i = 0; i < recorded; ++i) {
    const std::size_t c = i * folded.representative.size() / recorded;
    out.ranks.push_back(sim::index(folded.representative[c]));
    out.class_sizes.push_back(folded.class_size[c]);
    options.record.push_back(full ? folded.representative[c] : sim::InstanceId{static_cast<std::uint32_t>(c)});
  }
  out.result = full ? sim::run(step.plan, step.network, options) : sim::run(folded.plan, folded.network, options);
  out.instances = static_cast<std::int64_t>(full ? step.plan.instances.size() : folded.plan.instances.size());
  SIM_CHECK(out.result.outcome == sim::Outcome::finished, "{}", describe(out.result, step));
  return out;
}

void rate(const Job& job, StepReport& report) {
  const double tokens = static_cast<double>(job.batch.global) * static_cast<double>(job.model.seq);
  const double seconds = sim::to_seconds(report.iteration), gpus = static_cast<double>(job.gpus);
  report.tokens_per_s = tokens / seconds;
  report.tokens_per_s_per_gpu = report.tokens_per_s / gpus;
  const double model = model_flops(job.model, job.batch.global);
  const double hardware = hardware_flops(job.model, job.batch.global, job.recompute);
  report.model_tflops_per_gpu = model / seconds / gpus / 1e12;
  report.hardware_tflops_per_gpu = hardware / seconds / gpus / 1e12;
  report.aggregate_pflops = model / seconds / 1e15;
  const double peak = std::max(job.device.peak(DataType::bf16).value(), job.device.peak(DataType::fp16).value()) / 1e12;
  report.mfu_pct = 100 * report.model_tflops_per_gpu / peak;
  report.hfu_pct = 100 * report.hardware_tflops_per_gpu / peak;
}

void evaluate(const Job& job, const topology::Cluster& cluster, StepReport& report) {
  report.iteration_with_evaluation_s = sim::to_seconds(report.iteration);
  report.tokens_per_s_with_evaluation = report.tokens_per_s;
  if (job.evaluation.every_steps == 0) return;
  const StepPlan step = make_plan(job, cluster, true);
  const Simulated one = simulate(step, false);
  const auto batches = static_cast<double>((job.evaluation.sequences + job.batch.global - 1) / job.batch.global);
  report.evaluation_s = batches * sim::to_seconds(one.result.makespan);
  report.iteration_with_evaluation_s +=
      sim::to_seconds(job.software.step_host) + report.evaluation_s / static_cast<double>(job.evaluation.every_steps);
  report.tokens_per_s_with_evaluation =
      static_cast<double>(job.batch.global) * static_cast<double>(job.model.seq) / report.iteration_with_evaluation_s;
}

Timeline timeline(const StepPlan& step, const sim::Record& record, std::int64_t rank, std::int64_t ranks) {
  Timeline out;
  out.rank = rank, out.ranks = ranks;
  const auto stage = sim::index(step.plan.instances[sim::InstanceId{static_cast<std::uint32_t>(rank)}].program);
  out.stage = stage;
  const sim::Program& program = step.plan.programs[sim::ProgramId{stage}];
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const OpNote& note = step.stages.notes[stage][op];
    Timeline::Span span;
    span.stream = static_cast<Stream>(program.stream[op]);
    span.category = static_cast<Category>(program.category[op]);
    span.ready = record.ready[op], span.start = record.start[op], span.finish = record.finish[op];
    const std::string pass =
        note.microbatch < 0 ? "" : fmt::format("{}{}.{} ", letter_of(note.kind), note.chunk, note.microbatch);
    if (program.kind[op] == sim::OpKind::compute) {
      for (const Kernel& kernel : step.stages.runs[note.run]) span.kernels.push_back({kernel.name, kernel.time});
      span.name = pass + span.kernels.front().name;
    } else {
      const TrafficKey& key = step.stages.traffic[note.traffic];
      span.name = fmt::format("{}{} ({})", pass, calibration::name_of(key.op), key.what);
      span.bytes = key.bytes * note.share;
    }
    out.spans.push_back(std::move(span));
  }
  return out;
}

/// The window of a rank that counts as its step.
struct Window {
  sim::SimTime begin{}, end{};
};

/// When the rank is at work: from its first kernel, or the gather of parameters that this waited for, to its last
/// kernel or data-parallel collective.
Window at_work(const sim::Record& record, const sim::Program& program) {
  Window window{sim::SimTime(std::numeric_limits<std::int64_t>::max()), {}};
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const bool compute = program.kind[op] == sim::OpKind::compute;
    const auto category = static_cast<Category>(program.category[op]);
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
sim::Duration longest_at_work(const StepPlan& step, const Simulated& run) {
  sim::Duration longest{};
  for (std::size_t i = 0; i < run.result.records.size(); ++i) {
    const auto instance = sim::InstanceId{static_cast<std::uint32_t>(run.ranks[i])};
    const Window window = at_work(run.result.records[i], step.plan.programs[step.plan.instances[instance].program]);
    longest = std::max(longest, sim::Duration(window.end.value() - window.begin.value()));
  }
  return longest;
}

void account_for(const Job& job, const StepPlan& step, const Simulated& run, const StepOptions& options,
                 StepReport& report) {
  double most = -1;
  for (std::size_t i = 0; i < run.result.records.size(); ++i) {
    const sim::Record& record = run.result.records[i];
    const auto instance = sim::InstanceId{static_cast<std::uint32_t>(run.ranks[i])};
    const sim::ProgramId stage = step.plan.instances[instance].program;
    const sim::Program& program = step.plan.programs[stage];
    const double busy = busy_seconds(record, program);
    if (busy > most) {
      most = busy;
      const bool apart = job.parallelism.optimizer_post_validation;
      const sim::SimTime begin = apart ? at_work(record, program).begin : sim::SimTime{};
      report.breakdown_s = account(record, program, begin, sim::SimTime(begin.value() + report.iteration.value()));
      report.busiest_stage = sim::index(stage);
    }
    if (options.timelines) report.timelines.push_back(timeline(step, record, run.ranks[i], run.class_sizes[i]));
  }
}

void count_tiers(StepReport& report) {
  for (std::uint8_t t = 0; t <= static_cast<std::uint8_t>(topology::Tier::global); ++t) {
    const auto tier = static_cast<topology::Tier>(t);
    double bytes = 0;
    for (const TrafficRow& row : report.traffic) {
      if (row.level == topology::name_of(tier)) bytes += row.simulated_bytes;
    }
    if (bytes > 0) report.tier_bytes.push_back({tier, bytes});
  }
}

/// The fullest moment of each stage that was recorded, counted in simulated time.
void count_memory(const Job& job, const StepPlan& step, const Simulated& run, StepReport& report) {
  std::vector<bool> done(report.stages.size(), false);
  for (std::size_t i = 0; i < run.result.records.size(); ++i) {
    const auto instance = sim::InstanceId{static_cast<std::uint32_t>(run.ranks[i])};
    const sim::ProgramId program = step.plan.instances[instance].program;
    const std::size_t stage = sim::index(program);
    if (done[stage]) continue;
    done[stage] = true;
    const HighWater top =
        counted_high_water(run.result.records[i], step.plan.programs[program], step.stages.notes[stage],
                           chunk_bytes(job, step.split, static_cast<std::int32_t>(stage)));
    StageMemory& memory = report.stages[stage];
    memory.counted_activations = top.bytes();
    const bool in_step = memory.peak.during == StageMemory::During::optimizer;
    memory.peak.at_s = in_step ? sim::to_seconds(report.iteration) : top.at_s;
  }
}

void add_memory(const Job& job, const StepPlan& step, StepReport& report) {
  report.stages = stage_memory(job, step.split);
  for (const StageMemory& stage : report.stages) {
    report.peak_bytes = std::max(report.peak_bytes, stage.total);
    report.allocated_bytes = std::max(report.allocated_bytes, stage.allocated);
    report.reserved_bytes = std::max(report.reserved_bytes, stage.total - stage.parts.context);
  }
  report.capacity_bytes = static_cast<double>(job.device.memory().value());
  report.fits = report.peak_bytes <= report.capacity_bytes;
}

}  // namespace

std::string_view name_of(Category category) {
  static constexpr std::array<std::string_view, kCategories> names{"compute",   "tensor_comm",  "pipeline_comm",
                                                                   "data_comm", "context_comm", "expert_comm",
                                                                   "bubble",    "optimizer",    "other"};
  return names[static_cast<std::size_t>(category)];
}

std::string_view name_of(StageMemory::During during) {
  static constexpr std::array<std::string_view, 3> names{"forward", "backward", "optimizer"};
  return names[static_cast<std::size_t>(during)];
}

std::string_view name_of(Stream stream) {
  static constexpr std::array<std::string_view, kStreams> names{"compute",
                                                                "tensor collective",
                                                                "data collective",
                                                                "pipeline send",
                                                                "pipeline receive",
                                                                "pipeline send (gradient)",
                                                                "pipeline receive (gradient)",
                                                                "pipeline send (returning)",
                                                                "pipeline receive (returning)",
                                                                "pipeline send (returning gradient)",
                                                                "pipeline receive (returning gradient)",
                                                                "context collective"};
  return names[static_cast<std::size_t>(stream)];
}

StepReport simulate_step(const Job& job, const StepOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  StepReport report;
  const topology::Cluster cluster(job.node, job.fabric, job.gpus, job.gpus_per_node, sim::Settings());
  const StepPlan step = make_plan(job, cluster);
  const Simulated run = simulate(step, options.full);
  report.gpus = job.gpus;
  report.ranks_simulated = run.instances;
  report.events = run.result.events;
  report.iteration = job.parallelism.optimizer_post_validation ? longest_at_work(step, run)
                                                               : sim::Duration(run.result.makespan.value());
  account_for(job, step, run, options, report);
  rate(job, report);
  evaluate(job, cluster, report);
  add_memory(job, step, report);
  if (options.count_memory) count_memory(job, step, run, report);
  report.traffic = merge_traffic(closed_form_traffic(job), count_traffic(step));
  count_tiers(report);
  report.assumptions = job.assumptions;
  report.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

std::vector<TrafficRow> traffic_table(const Job& job) {
  const topology::Cluster cluster(job.node, job.fabric, job.gpus, job.gpus_per_node, sim::Settings());
  return merge_traffic(closed_form_traffic(job), count_traffic(make_plan(job, cluster)));
}

}  // namespace orrery::workloads
