// The library's outside: translates between the rooms and orrery.h, and their errors into its own.
#include "tools/api/orrery.h"

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "workloads/compile/program_text.h"
#include "workloads/model/causal_flops.h"
#include "workloads/step/step.h"
#include "workloads/step/step_cache.h"

namespace orrery {

struct Scenario::Data {
  scenarios::Scenario scenario;
};

namespace {

/// The rooms' UserError is the library's Error; bugs stay what they are.
template <class Work>
auto translated(Work work) {
  try {
    return work();
  } catch (const sim::UserError& error) {
    throw Error(error.what());
  }
}

/// `square` and `causal`: model FLOPs of the step with the whole square of attention, and as a causal kernel does it.
Result result_of(const workloads::StepReport& report, double square, double causal) {
  Result result;
  result.gpus = report.gpus;
  result.ranks_simulated = report.effort.ranks;
  result.iteration_time_s = sim::to_seconds(report.iteration);
  result.iteration_time_with_evaluation_s = report.evaluation.iteration_s;
  result.tokens_per_s = report.rates.tokens_per_s;
  result.tokens_per_s_per_gpu = report.rates.tokens_per_s_per_gpu;
  result.model_tflops_per_gpu = report.rates.model_tflops_per_gpu;
  result.hardware_tflops_per_gpu = report.rates.hardware_tflops_per_gpu;
  result.mfu_pct = report.rates.mfu_pct;
  result.mfu_causal_pct = report.rates.mfu_pct * causal / square;
  result.hfu_pct = report.rates.hfu_pct;
  for (std::size_t i = 0; i < workloads::kCategories; ++i)
    result.breakdown_s.emplace(workloads::name_of(static_cast<workloads::Category>(i)), report.breakdown_s[i]);
  result.memory.fits = report.memory.fits;
  result.memory.peak_bytes = report.memory.peak_bytes;
  result.memory.capacity_bytes = report.memory.capacity_bytes;
  for (const workloads::StageMemory& stage : report.memory.stages) {
    result.memory.stages.push_back(
        {stage.parameters, stage.gradients, stage.optimizer, stage.activations, stage.buffers, stage.total});
  }
  for (const workloads::TrafficRow& row : report.traffic) {
    result.traffic.push_back({row.dimension, row.operation, row.what, row.level, row.group, row.calls,
                              row.bytes_per_call, row.simulated_bytes});
  }
  result.assumptions = report.assumptions;
  return result;
}

}  // namespace

struct Plan::Data {
  workloads::PlannedStep step;
};

/// Reaches into scenarios and plans.
class Runner {
 public:
  static const workloads::Job& job(const Scenario& scenario) { return scenario.data_->scenario.job; }
  static const workloads::PlannedStep& step(const Plan& plan) { return plan.data_->step; }
};

const std::string& Scenario::name() const { return data_->scenario.id; }
std::int64_t Scenario::gpus() const { return data_->scenario.job.machine.gpus; }
double Scenario::parameters() const { return workloads::parameter_count(data_->scenario.job.model); }
const std::vector<std::string>& Scenario::assumptions() const { return data_->scenario.job.assumptions; }

Scenario load(const std::string& file_or_name, const std::vector<std::string>& sets) {
  return translated([&] {
    return Scenario(std::make_shared<Scenario::Data>(
        Scenario::Data{scenarios::load_scenario(scenarios::read_scenario(file_or_name, sets))}));
  });
}

Scenario parse(const std::string& yaml, const std::vector<std::string>& sets) {
  return translated([&] {
    sim::Settings document = scenarios::parse_yaml(yaml, "scenario");
    for (const std::string& set : sets) scenarios::apply_set(document, set);
    return Scenario(std::make_shared<Scenario::Data>(Scenario::Data{scenarios::load_scenario(document)}));
  });
}

Plan::Plan(const Scenario& scenario) : scenario_(scenario) {
  data_ = translated([&] { return std::make_shared<const Data>(Data{workloads::plan_step(Runner::job(scenario))}); });
}

std::int64_t Plan::ranks() const { return scenario_.gpus(); }
std::int64_t Plan::ranks_simulated() const {
  return static_cast<std::int64_t>(data_->step.plan.groups->folded.plan.instances.size());
}
std::int64_t Plan::stages() const { return static_cast<std::int64_t>(data_->step.plan.stages.programs.size()); }
std::int64_t Plan::operations() const {
  std::int64_t operations = 0;
  for (const sim::Program& program : data_->step.plan.stages.programs) operations += program.size();
  return operations;
}

std::string Plan::text(std::int64_t stage, std::int64_t passes) const {
  if (stage < 0 || stage >= stages() || passes < 0) {
    throw Error("got stage " + std::to_string(stage) + ", passes " + std::to_string(passes) +
                ": expected a stage below " + std::to_string(stages()) + " and no negative number of passes");
  }
  return workloads::program_text(data_->step.plan.stages, stage, {passes});
}

Plan plan(const Scenario& scenario) { return Plan(scenario); }

Result run(const Plan& plan, const RunOptions& options) {
  return translated([&] {
    workloads::Question step;
    if (options.every_rank) step.ranks = workloads::Question::Ranks::every_by_passes;
    step.planned = &Runner::step(plan);
    const auto& job = Runner::job(plan.scenario());
    return result_of(workloads::simulate_step(job, step), workloads::model_flops(job.model, job.batch.global),
                     workloads::causal_model_flops(job.model, job.batch.global));
  });
}

std::string version() { return ORRERY_VERSION; }
std::string data_directory() { return scenarios::data_directory(); }

}  // namespace orrery
