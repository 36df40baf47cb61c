// Spec, machine and prices -> Plan. Checkpoints: every GPU copies its part to its host (the stall), then hosts write to
// the tier beside the next steps, or before them where the tier blocks; a write that is longer than the interval holds
// up the next one. A checkpoint comes back as it went: storage is read once and passed on to the other replicas
// (MegaScale, arXiv 2402.15627, section 4.4), memories give every rank its own.
#include "workloads/runs/campaign/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "workloads/runs/campaign/closed_form.h"
#include "workloads/runs/campaign/progress.h"

namespace orrery::campaign {

namespace {

/// More than any run has; a window of a century in steps of a millisecond.
constexpr std::int64_t kMostSteps = 4'000'000'000'000;
constexpr double kLimitFactor = 20;

std::int64_t steps_for(double tokens, std::int64_t global, std::int64_t seq) {
  const double steps = std::ceil(tokens / (static_cast<double>(global) * static_cast<double>(seq)) - 1e-9);
  return static_cast<std::int64_t>(std::min(std::max(steps, 0.0), static_cast<double>(kMostSteps)));
}

/// The phases' first steps, and the number of steps.
void lay_out_steps(const Spec& spec, const Machine& machine, Plan& plan) {
  std::int64_t begin = 0;
  double trained = 0;
  for (const Ramp& ramp : spec.ramp) {
    plan.phases.push_back({begin, {}, {}});
    begin += steps_for(ramp.until_tokens - trained, ramp.global, machine.seq);
    trained = ramp.until_tokens;
  }
  plan.phases.push_back({begin, {}, {}});
  const double tokens = spec.tokens > 0 ? spec.tokens : machine.training_tokens;
  if (spec.window_s > 0) {
    plan.steps = kMostSteps;
  } else if (spec.steps > 0) {
    plan.steps = std::min(spec.steps, kMostSteps);
  } else if (tokens > trained) {
    plan.steps = std::min(kMostSteps, begin + steps_for(tokens - trained, machine.global, machine.seq));
  } else if (tokens > 0) {  // done within the ramp
    trained = 0;
    for (std::size_t p = 0; p < spec.ramp.size() && tokens > trained; ++p) {
      const double until = std::min(tokens, spec.ramp[p].until_tokens);
      plan.steps = plan.phases[p].begin + steps_for(until - trained, spec.ramp[p].global, machine.seq);
      trained = until;
    }
  } else {
    throw sim::UserError("campaign: nothing says how long it trains, expected tokens, steps or window");
  }
}

void price_steps(const Spec& spec, const Prices& prices, Plan& plan) {
  plan.levels = prices.levels;
  plan.slow = prices.slow;
  plan.data_per_step = static_cast<std::int64_t>(elapsed(spec.data_per_step_s).value());
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    for (std::size_t state = 0; state < plan.levels * plan.slow; ++state) {
      const sim::Duration step = prices.at(p, state / plan.slow, state % plan.slow);
      const sim::Duration excess = sim::scaled(step, spec.step_excess);
      plan.phases[p].priced.push_back(step.value());
      plan.phases[p].step.push_back((step + excess + sim::Duration(plan.data_per_step)).value());
    }
  }
  plan.evaluation = {prices.evaluation_every, elapsed(prices.evaluation)};
}

double components_of(const Cause& cause, const Machine& machine) {
  const auto nodes = static_cast<double>(machine.nodes);
  switch (cause.per) {
    case Per::device:
      return static_cast<double>(machine.gpus);
    case Per::node:
      return nodes;
    case Per::nic:
      return nodes * static_cast<double>(machine.nics_per_node);
    case Per::group:
      return std::ceil(nodes / static_cast<double>(cause.group));
    case Per::job:
      return 1;
  }
  return 0;
}

void add_hazards(const Spec& spec, const Machine& machine, Plan& plan) {
  constexpr double kSecondsPerHour = 3600;
  std::size_t slow = 0;
  for (const Cause& cause : spec.fleet.causes) {
    Hazard hazard;
    hazard.name = cause.name;
    hazard.effect = cause.effect;
    hazard.loses = cause.loses;
    if (cause.effect == Effect::slow) hazard.slow = ++slow;
    const double components = components_of(cause, machine);
    if (cause.shape == 1) {
      hazard.rate = components / (cause.mtbf_h * kSecondsPerHour);
    } else {
      hazard.components = components;
      hazard.theta_s = cause.mtbf_h * kSecondsPerHour;
      hazard.shape = cause.shape;
      hazard.age_s = cause.age_h * kSecondsPerHour;
    }
    if (cause.loses == Loses::node) hazard.nodes = 1;
    if (cause.loses == Loses::group) hazard.nodes = std::min(cause.group, machine.nodes);
    const Repair& repair = spec.repair;
    const double usual = cause.effect == Effect::crash  ? repair.detection_s
                         : cause.effect == Effect::hang ? repair.hang_detection_s
                                                        : repair.slow_detection_s;
    hazard.detection = elapsed(cause.detection_s >= 0 ? cause.detection_s : usual);
    hazard.diagnosis = elapsed(cause.diagnosis_s >= 0 ? cause.diagnosis_s : repair.diagnosis_s);
    hazard.repair = elapsed(cause.repair_s);
    plan.hazards.push_back(std::move(hazard));
  }
}

double checkpoint_bytes(const Spec& spec, const Machine& machine) {
  return spec.checkpoint.bytes > 0 ? spec.checkpoint.bytes : machine.state_bytes;
}

/// Seconds to move `each` bytes at every node, and `all` at the store.
double transfer_s(double each, double per_node, double all, double total) {
  return std::max(per_node > 0 ? each / per_node : 0, total > 0 ? all / total : 0);
}

double snapshot_s(const Spec& spec, const Machine& machine) {
  const double rate = spec.checkpoint.snapshot > 0 ? spec.checkpoint.snapshot : machine.pcie;
  return rate > 0 ? checkpoint_bytes(spec, machine) / static_cast<double>(machine.gpus) / rate : 0;
}

double write_s(const Tier& tier, const Spec& spec, const Machine& machine) {
  const double all = checkpoint_bytes(spec, machine);
  return transfer_s(all / static_cast<double>(machine.nodes), tier.write, all, tier.total);
}

double load_s(const Tier& tier, const Spec& spec, const Machine& machine) {
  const double all = checkpoint_bytes(spec, machine);
  const double scale = spec.checkpoint.bytes > 0 && machine.state_bytes > 0 ? all / machine.state_bytes : 1;
  const double own = scale * machine.rank_bytes * static_cast<double>(machine.gpus_per_node);
  const double back = spec.checkpoint.snapshot > 0 ? spec.checkpoint.snapshot : machine.pcie;
  const double to_device = back > 0 ? scale * machine.rank_bytes / back : 0;
  if (tier.to == Store::storage)
    return to_device + transfer_s(all / static_cast<double>(machine.nodes), tier.read, all, tier.total);
  return to_device + transfer_s(tier.to == Store::host ? 0 : own, tier.read, 0, 0);
}

/// The first tier's stall where nothing queues: what Young's and Daly's formulas call delta.
double stall_s(const Tier& tier, const Spec& spec, const Machine& machine) {
  return snapshot_s(spec, machine) + (tier.in_background ? 0 : write_s(tier, spec, machine));
}

/// `every`: steps between checkpoints of the first tier.
void add_saves(const Spec& spec, const Machine& machine, std::int64_t every, Plan& plan) {
  plan.saves.clear();
  plan.restart.drain = {};
  const double step_s = static_cast<double>(plan.phases.back().step[0]) / sim::kPicosecondsPerSecond;
  bool first = true;
  for (const Tier& tier : spec.checkpoint.tiers) {
    Save save;
    save.to = tier.to;
    save.every = std::min(sim::saturating_multiply(every, tier.one_in), kMostSteps);
    const double write = write_s(tier, spec, machine), between = static_cast<double>(save.every) * step_s;
    // The copy to the host is made once, for all tiers.
    double stall = first ? snapshot_s(spec, machine) : 0;
    if (!tier.in_background) stall += write;
    if (tier.in_background && write > between) stall += write - between;
    save.stall = elapsed(stall);
    save.durable = elapsed(tier.in_background ? write : 0);
    save.load = elapsed(load_s(tier, spec, machine));
    plan.restart.drain = std::max(plan.restart.drain, elapsed(snapshot_s(spec, machine) + write));
    plan.saves.push_back(save);
    first = false;
  }
}

/// Steps between checkpoints: as given, or by Daly's formula; and says which.
std::int64_t interval_steps(const Spec& spec, const Machine& machine, Plan& plan) {
  if (spec.checkpoint.every_steps > 0) return spec.checkpoint.every_steps;
  const double step_s = static_cast<double>(plan.phases.back().step[0]) / sim::kPicosecondsPerSecond;
  const auto steps = [&](double seconds) {
    return std::max<std::int64_t>(1, std::llround(std::min(seconds / step_s, 1e12)));
  };
  if (spec.checkpoint.every_s > 0) return steps(spec.checkpoint.every_s);
  const double rate = failure_rate(plan);
  if (!(rate > 0)) {
    plan.notes.emplace_back("campaign.checkpoint.every is not given: none is taken, as nothing fails.");
    return kMostSteps;
  }
  const Tier& tier = spec.checkpoint.tiers.front();
  const double written = tier.in_background ? write_s(tier, spec, machine) : 0;
  const double daly = daly_interval(stall_s(tier, spec, machine), 1 / rate);
  const std::int64_t every = steps(std::max(daly, written));
  plan.notes.push_back(fmt::format("campaign.checkpoint.every is not given: {} steps, {}.", every,
                                   daly >= written ? "by Daly's formula" : "as long as one takes to write"));
  return every;
}

/// By replicas: all, one fewer, ...
std::vector<Elapsed> initialisation(const Repair& repair, const Machine& machine, std::size_t levels) {
  std::vector<Elapsed> times;
  for (std::size_t level = 0; level < levels; ++level) {
    const double ranks = static_cast<double>(machine.gpus - static_cast<std::int64_t>(level) * machine.replica_gpus);
    times.push_back(elapsed(repair.initialisation_s + repair.initialisation_per_rank_s * ranks));
  }
  return times;
}

/// Spares go to the kinds by their numbers of nodes, each to the kind that so far has the least of its share.
std::vector<NodeKind> with_spares(const std::vector<NodeKind>& kinds, std::int64_t spares) {
  std::vector<NodeKind> out = kinds;
  for (std::int64_t spare = 0; spare < spares && !kinds.empty(); ++spare) {
    const auto after = [&](std::size_t k) {
      return static_cast<double>(out[k].nodes - kinds[k].nodes + 1) / static_cast<double>(kinds[k].nodes);
    };
    std::size_t least = 0;
    for (std::size_t k = 1; k < kinds.size(); ++k) least = after(k) < after(least) ? k : least;
    ++out[least].nodes;
  }
  return out;
}

}  // namespace

double failure_rate(const Plan& plan) {
  double rate = 0;
  for (const Hazard& hazard : plan.hazards) {
    if (hazard.effect == Effect::slow) continue;
    rate += hazard.rate;
    if (hazard.components > 0 && hazard.age_s > 0)
      rate +=
          hazard.components * hazard.shape / hazard.theta_s * std::pow(hazard.age_s / hazard.theta_s, hazard.shape - 1);
    // New components: over the first scale's time in the mean.
    if (hazard.components > 0 && hazard.age_s == 0) rate += hazard.components / hazard.theta_s;
  }
  return rate;
}

Plan compile(const Spec& spec, const Machine& machine, const Prices& prices) {
  Plan plan;
  lay_out_steps(spec, machine, plan);
  price_steps(spec, prices, plan);
  add_hazards(spec, machine, plan);
  add_saves(spec, machine, interval_steps(spec, machine, plan), plan);
  const Repair& repair = spec.repair;
  plan.restart.swap = elapsed(repair.swap_s);
  plan.restart.allocate = elapsed(repair.scheduler_s + repair.container_s);
  plan.restart.warm_up = elapsed(repair.warm_up_s + spec.data_at_restart_s) +
                         Elapsed(static_cast<Picoseconds>(repair.warm_up_steps) * plan.phases.back().step[0]);
  plan.restart.initialise = initialisation(repair, machine, prices.levels);
  plan.restart.first = spec.first_start != FirstStart::none;
  if (spec.first_start == FirstStart::load) plan.restart.first_load = plan.saves.back().load;
  plan.pool = {machine.nodes + repair.spares, machine.gpus_per_node,
               machine.replica_gpus,          machine.replicas,
               spec.elastic.regrow,           with_spares(machine.kinds, repair.spares)};
  if (!machine.kinds.empty() && repair.spares > 0) {
    std::vector<std::int64_t> shares;
    for (std::size_t k = 0; k < machine.kinds.size(); ++k)
      shares.push_back(plan.pool.kinds[k].nodes - machine.kinds[k].nodes);
    plan.notes.push_back(fmt::format("campaign.repair.spares: shared out over the kinds of nodes by their numbers, {}.",
                                     fmt::join(shares, " and ")));
  }
  if (spec.maintenance.every_s > 0) {
    plan.maintenance.every = elapsed(spec.maintenance.every_s);
    plan.maintenance.time = elapsed(spec.maintenance.for_s);
  }
  plan.window = spec.window_s > 0;
  const Elapsed start = plan.restart.first ? plan.restart.allocate + plan.restart.initialise[0] +
                                                 plan.restart.first_load + plan.restart.warm_up
                                           : Elapsed{};
  const double ideal = to_seconds(plan.window ? Elapsed{} : start + time_until(plan, plan.steps, 0));
  plan.limit = elapsed(plan.window ? spec.window_s : spec.limit_s > 0 ? spec.limit_s : kLimitFactor * ideal);
  return plan;
}

Plan with_interval(const Plan& plan, const Spec& spec, const Machine& machine, std::int64_t every) {
  Plan changed = plan;
  add_saves(spec, machine, every, changed);
  return changed;
}

}  // namespace orrery::campaign
