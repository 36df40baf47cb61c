// Every state is a changed scenario, so that all of the language's checks hold for it.
#include "tools/study/campaign_prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "scenarios/campaign.h"
#include "sim/error.h"
#include "tools/parallel.h"
#include "tools/study/rl_study.h"

namespace orrery::tools {

using sim::Settings;
using workloads::Job;

namespace {

/// More would be a campaign of another machine, and as many steps to simulate for every slow cause.
constexpr std::int64_t kMostMissing = 16;

Settings number(std::int64_t value) { return Settings::scalar(fmt::format("{}", value), {"campaign", 0, 0}); }

/// `list` of the perturbations with one more item.
void perturb(Settings& document, const std::string& list, const std::string& item) {
  const std::string path = "perturb." + list;
  Settings items = Settings::sequence({"campaign", 0, 0});
  if (const Settings* there = document.find_path(path); there != nullptr) {
    for (const Settings& one : there->items()) items.append(one);
  }
  const Settings added = scenarios::parse_yaml(item, "campaign");
  items.append(added);
  document.set_path(path, items);
}

/// A replica takes as many nodes of every kind as any other.
void shrink_others(Settings& document, const workloads::Machine& machine, std::int64_t replicas, std::int64_t missing) {
  if (!machine.mixed()) return;
  Settings list = Settings::sequence({"campaign", 0, 0});
  std::size_t kind = 0;
  for (Settings other : document.find_path("cluster.others")->items()) {
    other.set("gpus", number(machine.gpus_of_kind(++kind) / replicas * (replicas - missing)));
    list.append(other);
  }
  document.set_path("cluster.others", list);
}

struct State {
  std::size_t phase = 0, level = 0, slow = 0;
};

/// The cause of slowness that is the `slow`th of its fleet; nullptr: none.
const campaign::Cause* slow_cause(const campaign::Fleet& fleet, std::size_t slow) {
  std::size_t row = 0;
  for (const campaign::Cause& cause : fleet.causes) {
    if (cause.effect == campaign::Effect::slow && ++row == slow) return &cause;
  }
  return nullptr;
}

/// A step of the state with one NIC at `nic_rate` of its rate. `global`: sequences, all replicas there.
sim::Duration step_of(const PricedCampaign& campaign, const Settings& document, const State& state, std::int64_t global,
                      double nic_rate) {
  Settings changed = document;
  changed.set("campaign", Settings{});
  changed.set("evaluation", Settings{});
  const Job& job = campaign.scenario.job;
  const campaign::Machine& machine = campaign.machine;
  const auto missing = static_cast<std::int64_t>(state.level);
  const std::int64_t data = job.parallelism.data / machine.replicas * (machine.replicas - missing);
  if (missing > 0) {
    changed.set_path("cluster.gpus", number(job.machine.gpus - missing * machine.replica_gpus));
    changed.set_path("parallelism.data", number(data));
    shrink_others(changed, job.machine, machine.replicas, missing);
  }
  const campaign::Cause* cause = slow_cause(campaign.spec.fleet, state.slow);
  if (cause != nullptr && cause->slowdown > 1)
    perturb(changed, "slow_gpus", fmt::format("{{gpu: 0, slowdown: {}}}", cause->slowdown));
  if (nic_rate < 1) perturb(changed, "slow_nics", fmt::format("{{node: 0, nic: 0, rate: {}}}", nic_rate));
  workloads::Question options;
  options.parts = workloads::Question::Parts::times;
  const std::int64_t row_sequences = data * job.batch.micro;
  const std::int64_t least = (global + row_sequences - 1) / row_sequences;
  const std::int64_t most = missing > 0 ? least + job.parallelism.pipeline : least;
  for (std::int64_t microbatches = least;; ++microbatches) {
    changed.set_path("batch.global", number(missing > 0 ? microbatches * row_sequences : global));
    try {
      return workloads::simulate_step(scenarios::load_scenario(changed).job, options).iteration;
    } catch (const sim::UserError&) {
      if (microbatches >= most) throw;  // a schedule may want whole groups of micro-batches
    }
  }
}

/// The state's step. With a NIC that flaps it is the mean pace of steps with and without an outage: outages fall
/// anywhere in a step. One that leaves nothing holds the job for as long as it lasts, unless no message passes the NIC.
/// `step`: of the state with one NIC at such a share of its rate.
template <class StepAt>
sim::Duration price(const campaign::Cause* cause, const campaign::Machine& machine, StepAt step) {
  const sim::Duration up = step(cause == nullptr ? 1 : cause->nic_rate);
  if (cause == nullptr || cause->outage.length_s <= 0 || machine.nics_per_node == 0) return up;
  const double left = cause->outage.rate > 0 ? cause->outage.rate : campaign::kLeastNicShare;
  const sim::Duration out = step(left);
  if (cause->outage.rate <= 0) {
    const bool waits = out > up || cause->nic_rate <= campaign::kLeastNicShare;
    return waits ? sim::seconds(sim::to_seconds(up) * cause->outage.stall()) : up;
  }
  const double away = cause->outage.length_s / cause->outage.every_s;
  return sim::seconds(1 / ((1 - away) / sim::to_seconds(up) + away / sim::to_seconds(out)));
}

std::int64_t missing_replicas(const PricedCampaign& campaign, const Settings& document) {
  if (!campaign.spec.elastic.on) return 0;
  const std::int64_t data = campaign.scenario.job.parallelism.data, least = campaign.spec.elastic.min_replicas;
  if (least > data) {
    document.find_path("campaign.elastic")
        ->fail(fmt::format("got min_replicas {}, expected at most parallelism.data, which is {}", least, data));
  }
  const std::int64_t each = data / campaign.machine.replicas;
  return std::min(kMostMissing, (data - least) / each);
}

/// Whole nodes of every kind come and go: where a node holds parts of several replicas these do so together.
void take_replicas(const workloads::Machine& nodes, std::int64_t data, campaign::Machine& machine) {
  const std::int64_t per_node = nodes.gpus_per_node;
  const std::size_t kinds = nodes.mixture.kinds();
  std::int64_t together = 1;
  for (std::size_t kind = 0; kind < kinds; ++kind)
    together = std::lcm(together, per_node / std::gcd(per_node, nodes.gpus_of_kind(kind) / data));
  machine.replicas = data % together == 0 ? data / together : 1;
  machine.replica_gpus = nodes.gpus / machine.replicas;
  for (std::size_t kind = 0; kind < kinds && nodes.mixed(); ++kind) {
    const std::int64_t gpus = nodes.gpus_of_kind(kind);
    machine.kinds.push_back({gpus / per_node, gpus / machine.replicas});
  }
}

std::size_t slow_causes(const campaign::Fleet& fleet) {
  return static_cast<std::size_t>(std::count_if(fleet.causes.begin(), fleet.causes.end(), [](const auto& cause) {
    return cause.effect == campaign::Effect::slow;
  }));
}

campaign::Spec spec_of(const Settings& document) {
  std::optional<campaign::Spec> spec = scenarios::load_campaign(document);
  if (!spec) {
    throw sim::UserError(
        fmt::format("{}: campaign: is missing, expected as in {{tokens: 15e12, failures: llama3-2024}}",
                    document.place().file.text()));
  }
  return std::move(*spec);
}

/// A step of reinforcement learning whose updates have a GPU or a NIC that is slower than the others. Left out: passes
/// that score answers on it, and slow GPUs that write answers.
sim::Duration rl_step(const RlStudy& study, const campaign::Cause* cause, double nic_rate) {
  Settings update = scenarios::parse_yaml(study.scenario.update_yaml, study.scenario.id);
  if (cause != nullptr && cause->slowdown > 1)
    perturb(update, "slow_gpus", fmt::format("{{gpu: 0, slowdown: {}}}", cause->slowdown));
  if (nic_rate < 1) perturb(update, "slow_nics", fmt::format("{{node: 0, nic: 0, rate: {}}}", nic_rate));
  workloads::Question options;
  options.parts = workloads::Question::Parts::times;
  const sim::Duration slow = workloads::simulate_step(scenarios::load_scenario(update).job, options).iteration;
  const double longer = std::max(0.0, sim::to_seconds(slow) - sim::to_seconds(study.prices.update));
  return sim::seconds(study.step_s() + static_cast<double>(study.scenario.updates()) * longer);
}

/// Of the trainer's job, whose weights and optimizer states are what is saved; a step is one of reinforcement learning,
/// and whatever fails, of the engine or of the trainer, ends it.
PricedCampaign price_rl_campaign(const Settings& document, unsigned jobs) {
  PricedCampaign campaign;
  campaign.spec = spec_of(document);
  const RlStudy study = study_rl(scenarios::load_rl(document));
  const scenarios::RlScenario& rl = study.scenario;
  const Settings& section = document.at("campaign");
  if (campaign.spec.elastic.on)
    section.at("elastic").fail(
        "is of a training step, expected no such key beside rl: engine and trainer keep their GPUs");
  if (!campaign.spec.ramp.empty())
    section.at("ramp").fail("is of a training step, expected no such key beside rl: every step has as many prompts");
  campaign.scenario = scenarios::load_scenario(scenarios::parse_yaml(rl.update_yaml, document.place().file.text()));
  campaign.scenario.id = rl.id;
  campaign.scenario.job.description = rl.description;
  if (const Settings* cost = document.find("cost"); cost != nullptr && cost->is_mapping())
    campaign.scenario.job.training.price_per_gpu_hour_usd = cost->get_number("price_per_gpu_hour_usd", 0);
  campaign.report = workloads::simulate_step(campaign.scenario.job);
  campaign.machine = machine_of(campaign.scenario, campaign.report.memory.stages);
  campaign::Machine& machine = campaign.machine;
  machine.gpus = machine.replica_gpus = rl.gpus;
  machine.nodes = std::max<std::int64_t>(1, rl.gpus / machine.gpus_per_node);
  machine.replicas = 1;
  machine.kinds.clear();
  machine.global = rl.spec.batch.count();
  machine.seq = std::max<std::int64_t>(1, std::llround(study.steps.tokens / static_cast<double>(machine.global)));
  campaign.report.iteration = sim::seconds(study.step_s());
  campaign.report.memory.fits = study.prices.fits;
  const std::size_t slow = slow_causes(campaign.spec.fleet);
  campaign.prices = {1, slow + 1, std::vector<sim::Duration>(slow + 1), {}, 0};
  const std::vector<char> done = for_each_parallel(slow + 1, jobs, "states of the machine", [&](std::size_t i) {
    const campaign::Cause* cause = slow_cause(campaign.spec.fleet, i);
    campaign.prices.step[i] = i == 0 ? campaign.report.iteration
                                     : price(cause, machine, [&](double rate) { return rl_step(study, cause, rate); });
  });
  campaign.interrupted = std::find(done.begin(), done.end(), 0) != done.end();
  return campaign;
}

}  // namespace

campaign::Machine machine_of(const scenarios::Scenario& scenario, const std::vector<workloads::StageMemory>& stages) {
  const Job& job = scenario.job;
  campaign::Machine machine;
  machine.gpus = job.machine.gpus;
  machine.gpus_per_node = job.machine.gpus_per_node / job.machine.hosts_per_node;
  machine.nodes = job.machine.gpus / machine.gpus_per_node;
  machine.nics_per_node =
      job.machine.fabric.kind == &topology::fabrics::none ? 0 : job.machine.fabric.nics / job.machine.hosts_per_node;
  take_replicas(job.machine, job.parallelism.data, machine);
  machine.global = job.batch.global;
  machine.seq = job.model.seq;
  machine.training_tokens = job.training.tokens;
  machine.pcie = job.machine.node.pcie.value();
  const auto shared = static_cast<double>(job.shard_ranks());
  using workloads::Sharding;
  const double weights = job.parallelism.sharding == Sharding::parameters ? shared : 1;
  const double states = job.parallelism.sharding != Sharding::none ? shared : 1;
  double weight_bytes = 0, optimizer_bytes = 0;
  for (const workloads::StageMemory& stage : stages) {
    weight_bytes += static_cast<double>(job.parallelism.tensor) * stage.parameters * weights;
    optimizer_bytes += static_cast<double>(job.parallelism.tensor) * stage.optimizer * states;
    machine.rank_bytes = std::max(machine.rank_bytes, stage.parameters + stage.optimizer);
  }
  machine.state_bytes = weight_bytes + optimizer_bytes;
  if (job.parallelism.expert > 1 && weight_bytes > 0) {
    // A rank holds its own experts alone; what shares out their optimizer states meets each once.
    const double all = workloads::parameter_count(job.model) *
                       static_cast<double>(calibration::bytes_of(job.method.precision.activations));
    machine.state_bytes = states > 1 ? all + optimizer_bytes : machine.state_bytes * all / weight_bytes;
  }
  return machine;
}

PricedCampaign price_campaign(const Settings& document, unsigned jobs) {
  if (document.is_mapping() && document.find("rl") != nullptr) return price_rl_campaign(document, jobs);
  PricedCampaign campaign;
  campaign.scenario = scenarios::load_scenario(document);
  campaign.spec = spec_of(document);
  campaign.report = workloads::simulate_step(campaign.scenario.job);
  campaign.machine = machine_of(campaign.scenario, campaign.report.memory.stages);
  const auto levels = static_cast<std::size_t>(missing_replicas(campaign, document)) + 1;
  const std::size_t slow = slow_causes(campaign.spec.fleet);
  std::vector<std::int64_t> globals;
  for (const campaign::Ramp& ramp : campaign.spec.ramp) globals.push_back(ramp.global);
  globals.push_back(campaign.scenario.job.batch.global);
  campaign.prices = {levels, slow + 1, std::vector<sim::Duration>(globals.size() * levels * (slow + 1)),
                     sim::seconds(campaign.report.evaluation.seconds), campaign.scenario.job.evaluation.every_steps};
  std::vector<sim::Duration>& step = campaign.prices.step;
  const std::vector<char> done = for_each_parallel(step.size(), jobs, "states of the machine", [&](std::size_t i) {
    const State state{i / (levels * (slow + 1)), i / (slow + 1) % levels, i % (slow + 1)};
    const bool usual = state.phase + 1 == globals.size() && state.level == 0 && state.slow == 0;
    const auto at = [&](double rate) { return step_of(campaign, document, state, globals[state.phase], rate); };
    step[i] =
        usual ? campaign.report.iteration : price(slow_cause(campaign.spec.fleet, state.slow), campaign.machine, at);
  });
  campaign.interrupted = std::find(done.begin(), done.end(), 0) != done.end();
  return campaign;
}

}  // namespace orrery::tools
