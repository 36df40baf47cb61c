// A campaign as flat tables: what it does without a failure as counts and times, what can happen to it as rates, what
// each thing costs as times. Compiled once from what the scenario says (Spec), the machine, and the step simulator's
// prices; run for every seed (run.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/runs/campaign/elapsed.h"
#include "workloads/runs/campaign/spec.h"

namespace orrery::campaign {

/// Nodes that stand in for each other, and what of them one replica has.
struct NodeKind {
  std::int64_t nodes = 1, replica_gpus = 1;
};

/// What of the job and its cluster a campaign needs.
struct Machine {
  std::int64_t gpus = 1, nodes = 1, gpus_per_node = 1, nics_per_node = 0;
  std::int64_t replicas = 1;      // data-parallel
  std::int64_t replica_gpus = 1;  // of one of them
  std::vector<NodeKind> kinds;    // of a cluster of several; empty: nodes of one
  std::int64_t global = 1, seq = 1;
  double training_tokens = 0;  // where the campaign names none
  double pcie = 0;             // bytes/s of one GPU to its host
  double state_bytes = 0;      // weights and optimizer states of the model, each once
  double rank_bytes = 0;       // of the fullest rank: what it loads
};

/// Step times of every state of the machine, from the step simulator. A state is a number of missing replicas (level)
/// and the worst of the slow causes under way (0: none; i + 1: the i-th cause of effect slow).
struct Prices {
  std::size_t levels = 1, slow = 1;
  std::vector<sim::Duration> step;  // [phase][level][slow]: a phase for each item of the ramp, then the usual batch
  sim::Duration evaluation{};
  std::int64_t evaluation_every = 0;  // steps; 0: none
  sim::Duration at(std::size_t phase, std::size_t level, std::size_t cause) const {
    return step[(phase * levels + level) * slow + cause];
  }
};

/// Where checkpoints go, in steps and times.
struct Save {
  Store to = Store::storage;
  std::int64_t every = 1;  // steps
  Elapsed stall{};         // what the step waits
  Elapsed durable{};       // from the end of the stall until it can be loaded
  Elapsed load{};
};

/// A cause as a process in time.
struct Hazard {
  double rate = 0;        // per second, of all components: exponential
  double components = 0;  // with Weibull's theta, shape and age, in seconds; rate is then 0
  double theta_s = 0, shape = 1, age_s = 0;
  Effect effect = Effect::crash;
  Loses loses = Loses::process;
  std::int64_t nodes = 0;  // that it takes out of the pool
  std::size_t slow = 0;    // its row of the prices
  Elapsed detection{}, diagnosis{}, repair{};
  std::string name;
};

/// Steps of one batch size, from `begin` on.
struct Phase {
  std::int64_t begin = 0;
  std::vector<std::int64_t> step;    // ps of a step by state, with all that each step spends
  std::vector<std::int64_t> priced;  // ps of a step by state, by the simulator
};

struct Plan {
  std::int64_t steps = 0;  // to do
  Elapsed limit{};         // when it stops, done or not
  bool window = false;     // the limit is its aim
  std::vector<Phase> phases;
  std::size_t levels = 1, slow = 1;  // state = level x slow + cause
  std::int64_t data_per_step = 0;    // ps
  struct Evaluation {
    std::int64_t every = 0;  // steps; 0: none
    Elapsed time{};
  } evaluation;
  std::vector<Save> saves;  // as Spec's tiers; none: nothing is saved
  std::vector<Hazard> hazards;
  struct Restart {
    Elapsed swap{}, allocate{}, warm_up{}, drain{};
    std::vector<Elapsed> initialise;  // by level
    bool first = false;               // the campaign begins with a start
    Elapsed first_load{};             // of the checkpoint that it begins from
  } restart;
  struct Pool {
    std::int64_t nodes = 1, gpus_per_node = 1, replica_gpus = 1, replicas = 1;
    bool regrow = true;
    std::vector<NodeKind> kinds = {};  // of several, spares among them; empty: nodes of one
  } pool;
  struct Downtime {
    Elapsed every = kNoTime, time{};
  } maintenance;
  std::vector<std::string> notes;  // which defaults were taken
};

/// Throws sim::UserError for what cannot be compiled (no steps).
Plan compile(const Spec& spec, const Machine& machine, const Prices& prices);

/// Failures per second that end the job: all but the slow ones; of Weibull causes the rate at the start's age.
double failure_rate(const Plan& plan);
/// The same with checkpoints `every` steps apart (tiers keep their ratios).
Plan with_interval(const Plan& plan, const Spec& spec, const Machine& machine, std::int64_t every);

}  // namespace orrery::campaign
