// `orrery place`: several jobs on the nodes of one cluster; what each placement costs them, alone and together.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/commands.h"
#include "tools/parallel.h"
#include "tools/report/output.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "tools/study/placements.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;

/// Shares of nodes that are tried one by one, and so proven best.
constexpr std::size_t kMostShares = 200;

struct Options {
  std::vector<std::string> scenarios, sets;
  std::string json;
  std::int64_t gpus = 0;
  std::uint64_t seed = 1;
  unsigned jobs = 0;
};

struct Study {
  std::vector<scenarios::Scenario> jobs;
  std::int64_t gpus = 0;  // of the cluster
  std::vector<PlacementCost> placements;
  std::vector<double> best_alone_s;
  std::size_t best = 0, shares = 0;  // shares: that were tried, all that there are; 0: too many
};

void load_jobs(const Options& options, Study& study) {
  for (const std::string& file : options.scenarios) {
    study.jobs.push_back(scenarios::load_scenario(scenarios::read_scenario(file, options.sets)));
    const workloads::Machine &machine = study.jobs.back().job.machine, &first = study.jobs.front().job.machine;
    const bool alike = machine.node == first.node && machine.fabric == first.fabric &&
                       machine.gpus_per_node == first.gpus_per_node && machine.device.name() == first.device.name();
    if (!alike) {
      throw sim::UserError(
          fmt::format("orrery: place: got {} on {} with {}, expected the {} on {} of {}, as one cluster", file,
                      machine.device.name(), machine.fabric.name, first.device.name(), first.fabric.name,
                      options.scenarios.front()));
    }
    study.gpus += machine.gpus;
  }
  if (options.gpus == 0) return;
  const std::int64_t per_node = study.jobs.front().job.machine.gpus_per_node;
  if (options.gpus < study.gpus || options.gpus % per_node != 0) {
    throw sim::UserError(fmt::format("--gpus: got {}, expected at least the jobs' {} in whole nodes of {}",
                                     options.gpus, study.gpus, per_node));
  }
  study.gpus = options.gpus;
}

std::vector<workloads::PlacedJob> placed(const Study& study, const NodeLists& nodes) {
  std::vector<workloads::PlacedJob> jobs;
  for (std::size_t j = 0; j < study.jobs.size(); ++j) jobs.push_back({&study.jobs[j].job, nodes[j]});
  return jobs;
}

void price(const Study& study, const topology::Cluster& cluster, const std::vector<std::vector<std::int64_t>>& units,
           PlacementCost& cost) {
  const std::vector<workloads::PlacedJob> jobs = placed(study, cost.nodes);
  for (const sim::Duration step : workloads::steps_together(jobs, cluster))
    cost.step_s.push_back(sim::to_seconds(step));
  for (const workloads::PlacedJob& job : jobs) {
    const sim::Duration alone = workloads::steps_together(std::vector{job}, cluster).front();
    cost.alone_s.push_back(sim::to_seconds(alone));
    const std::set<std::int64_t> mine(job.nodes.begin(), job.nodes.end());
    cost.units.push_back(std::count_if(units.begin(), units.end(), [&](const auto& unit) {
      return std::any_of(unit.begin(), unit.end(), [&](std::int64_t node) { return mine.count(node) == 1; });
    }));
  }
}

/// The placements to price: the policies, and every share where they are few.
void propose(const Options& options, const std::vector<std::vector<std::int64_t>>& units, Study& study) {
  std::vector<std::int64_t> sizes;
  for (const scenarios::Scenario& scenario : study.jobs)
    sizes.push_back(scenario.job.machine.gpus / scenario.job.machine.gpus_per_node);
  for (const std::string& policy : policy_names())
    study.placements.push_back({policy, place_by(policy, sizes, units, options.seed), {}, {}, {}, 1});
  const std::vector<NodeLists> shares = all_shares(sizes, units, kMostShares);
  study.shares = shares.size();
  for (const NodeLists& nodes : shares)
    study.placements.push_back(
        {fmt::format("share {}", study.placements.size() - policy_names().size() + 1), nodes, {}, {}, {}, 1});
}

/// Compares them, and keeps of the shares the best alone.
void rank(Study& study) {
  for (std::size_t j = 0; j < study.jobs.size(); ++j) {
    double best = study.placements.front().alone_s[j];
    for (const PlacementCost& cost : study.placements) best = std::min(best, cost.alone_s[j]);
    study.best_alone_s.push_back(best);
  }
  for (PlacementCost& cost : study.placements) {
    double sum = 0;
    for (std::size_t j = 0; j < study.jobs.size(); ++j) sum += cost.step_s[j] / study.best_alone_s[j];
    cost.slowdown = sum / static_cast<double>(study.jobs.size());
  }
  const auto better = [](const PlacementCost& a, const PlacementCost& b) { return a.slowdown < b.slowdown; };
  const std::size_t policies = policy_names().size();
  const auto shares = study.placements.begin() + static_cast<std::ptrdiff_t>(policies);
  if (shares != study.placements.end()) {
    PlacementCost best = *std::min_element(shares, study.placements.end(), better);
    best.name = "best share";
    study.placements.resize(policies);
    study.placements.push_back(std::move(best));
  }
  study.best = static_cast<std::size_t>(std::min_element(study.placements.begin(), study.placements.end(), better) -
                                        study.placements.begin());
}

std::string verdict(const Study& study) {
  const PlacementCost& best = study.placements[study.best];
  return study.shares > 0
             ? fmt::format("{}: best of all {} ways to share out the nodes of the units, each simulated", best.name,
                           study.shares)
             : fmt::format("{}: best of these; with each job alone at its best of them steps would be {:.2f} % shorter",
                           best.name, 100 * (best.slowdown - 1) / best.slowdown);
}

void write_study(std::ostream& out, const Study& study) {
  const workloads::Machine& machine = study.jobs.front().job.machine;
  out << fmt::format("{} jobs on {} x {}, {}\n\n", study.jobs.size(), study.gpus, machine.device.name(),
                     machine.fabric.name);
  TextTable table(
      {{"placement", Align::left}, {"job", Align::left}, {"GPUs"}, {"units"}, {"alone"}, {"together"}, {"cost"}});
  for (const PlacementCost& cost : study.placements) {
    for (std::size_t j = 0; j < study.jobs.size(); ++j) {
      table.add_row({j == 0 ? cost.name : "", shortened(study.jobs[j].id, 30),
                     fmt::format("{}", study.jobs[j].job.machine.gpus), fmt::format("{}", cost.units[j]),
                     time_text(cost.alone_s[j]), time_text(cost.step_s[j]),
                     error_text(100 * (cost.step_s[j] / study.best_alone_s[j] - 1))});
    }
  }
  table.write(out);
  out << "\ncost: the step with all jobs begun at once, over the job's best step alone.\n" << verdict(study) << ".\n";
}

ordered_json study_json(const Study& study) {
  ordered_json json{{"gpus", study.gpus}, {"shares_tried", study.shares}, {"best", study.placements[study.best].name}};
  json["placements"] = ordered_json::array();
  for (const PlacementCost& cost : study.placements) {
    ordered_json row{{"placement", cost.name}, {"slowdown", cost.slowdown}, {"placed", ordered_json::array()}};
    for (std::size_t j = 0; j < study.jobs.size(); ++j) {
      row["placed"].push_back({{"scenario", study.jobs[j].id},
                               {"nodes", cost.nodes[j]},
                               {"units", cost.units[j]},
                               {"alone_s", cost.alone_s[j]},
                               {"step_s", cost.step_s[j]}});
    }
    json["placements"].push_back(std::move(row));
  }
  return json;
}

int place(const Options& options) {
  check_writable(options.json);
  Study study;
  load_jobs(options, study);
  workloads::Site site = workloads::site_of(study.jobs.front().job);
  site.gpus = study.gpus;
  site.faults = {};
  const topology::Cluster cluster = workloads::cluster_of(site);
  const std::vector<std::vector<std::int64_t>> units = units_of(cluster);
  propose(options, units, study);
  const InterruptGuard guard;
  const std::vector<char> done =
      for_each_parallel(study.placements.size(), options.jobs > 0 ? options.jobs : default_jobs(), "placements",
                        [&](std::size_t i) { price(study, cluster, units, study.placements[i]); });
  if (std::find(done.begin(), done.end(), 0) != done.end()) return kInterrupted;
  rank(study);
  if (!options.json.empty()) write_output(options.json, [&](std::ostream& out) { write_json(out, study_json(study)); });
  if (options.json != "-") write_study(std::cout, study);
  return kDone;
}

}  // namespace

Action declare_place(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  app.add_option("scenarios", options->scenarios,
                 "scenarios of the jobs, files (YAML) or names; one may be given twice")
      ->required();
  app.add_option("--set", options->sets, "key.path=value, laid over every scenario; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_option("--gpus", options->gpus, "GPUs of the cluster (default: those of the jobs)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--seed", options->seed, "of the random placement (default 1)");
  app.add_option("--jobs", options->jobs, "placements at a time (default: one per core)")->check(CLI::Range(1, 1024));
  app.add_option("--json", options->json, "write the result as JSON to FILE, or to standard output for -")
      ->type_name("FILE");
  return [options] { return place(*options); };
}

}  // namespace orrery::tools
