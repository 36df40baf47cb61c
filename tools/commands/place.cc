// `orrery place`: several jobs on the nodes of one cluster; what each placement costs them, alone and together.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/parallel.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/report.h"
#include "tools/report/sheet.h"
#include "tools/report/text.h"
#include "tools/study/alignment.h"
#include "tools/study/node_kinds.h"
#include "tools/study/placement_search.h"
#include "tools/study/placements.h"
#include "topology/fabrics.h"
#include "workloads/job/job_values.h"

namespace orrery::tools {

namespace {

using nlohmann::ordered_json;

/// Shares of nodes that are tried one by one, and so proven best.
constexpr std::size_t kMostShares = 200;

struct PlaceFlags {
  std::vector<std::string> scenarios, sets;
  std::string json, report;
  std::int64_t gpus = 0, ecmp_seeds = 0, improve = 0;
  std::uint64_t seed = 1;
  unsigned jobs = 0;
};

struct Study {
  std::vector<scenarios::Scenario> jobs;
  std::int64_t gpus = 0;           // of the cluster
  std::optional<NodeKinds> kinds;  // of its nodes
  std::vector<PlacementCost> placements;
  std::vector<topology::Cluster> clusters;  // one for each seed of paths
  std::vector<double> best_alone_s, bound_s;
  std::size_t best = 0, shares = 0;  // shares: that were tried, all that there are; 0: too many
  std::size_t named = 0;             // placements ahead of the shares
};

/// To the GPUs that were asked for.
void enlarge(const PlaceFlags& options, Study& study) {
  const std::int64_t per_node = study.jobs.front().job.machine.gpus_per_node;
  if (options.gpus < study.gpus || options.gpus % per_node != 0) {
    throw sim::UserError(fmt::format("--gpus: got {}, expected at least the jobs' {} in whole nodes of {}",
                                     options.gpus, study.gpus, per_node));
  }
  study.gpus = options.gpus;
}

bool on_one_cluster(const workloads::Machine& machine, const workloads::Machine& first) {
  return machine.node == first.node && machine.fabric == first.fabric && machine.gpus_per_node == first.gpus_per_node &&
         machine.device.name() == first.device.name();
}

void load_jobs(const PlaceFlags& options, Study& study) {
  for (const std::string& file : options.scenarios) {
    study.jobs.push_back(scenarios::load_scenario(scenarios::read_scenario(file, options.sets)));
    const workloads::Machine &machine = study.jobs.back().job.machine, &first = study.jobs.front().job.machine;
    if (!on_one_cluster(machine, first)) {
      throw sim::UserError(
          fmt::format("orrery: place: got {} on {} with {}, expected the {} on {} of {}, as one cluster", file,
                      machine.device.name(), machine.fabric.name, first.device.name(), first.fabric.name,
                      options.scenarios.front()));
    }
    if (machine.gpus % machine.gpus_per_node != 0) {
      throw sim::UserError(fmt::format("orrery: place: got {} with {} GPUs in NVLink domains of {}, expected full ones",
                                       file, machine.gpus, machine.gpus_per_node));
    }
    study.gpus += machine.gpus;
  }
  if (options.gpus > 0) enlarge(options, study);
  std::vector<const workloads::Job*> jobs;
  for (const scenarios::Scenario& scenario : study.jobs) jobs.push_back(&scenario.job);
  study.kinds.emplace(jobs, study.gpus);
}

std::vector<workloads::PlacedJob> placed(const Study& study, const NodeLists& nodes) {
  std::vector<workloads::PlacedJob> jobs;
  for (std::size_t j = 0; j < study.jobs.size(); ++j) jobs.push_back({&study.jobs[j].job, nodes[j]});
  return jobs;
}

/// The clusters that a placement is priced on: as it is, or with paths hashed by every seed.
void make_clusters(const PlaceFlags& options, Study& study) {
  workloads::Site site = workloads::site_of(study.jobs.front().job);
  site.gpus = study.gpus;
  site.faults = {};
  site.others = study.kinds->others();
  using Routing = topology::FabricSpec::Routing;
  if (options.ecmp_seeds > 0 && site.fabric.routes.policy != Routing::ecmp) {
    throw sim::UserError(
        fmt::format("--ecmp-seeds: got {}, expected a fabric whose routing is ecmp; {} has none to hash",
                    options.ecmp_seeds, site.fabric.name));
  }
  for (std::int64_t seed = 1; seed <= options.ecmp_seeds; ++seed) {
    site.fabric.routes.ecmp_seed = static_cast<std::uint64_t>(seed);
    study.clusters.push_back(workloads::cluster_of(site));
  }
  if (options.ecmp_seeds == 0) study.clusters.push_back(workloads::cluster_of(site));
}

/// Each job alone with all its nodes below one switch that holds up nothing: no placement is quicker.
void find_bounds(Study& study) {
  for (const scenarios::Scenario& scenario : study.jobs) {
    workloads::Site site = workloads::site_of(scenario.job);
    site.faults = {};
    const std::int64_t nodes = site.gpus / site.gpus_per_node;
    if (site.fabric.kind != &topology::fabrics::none) {
      site.fabric.kind = &topology::fabrics::single_switch;
      site.fabric.routes = {};
      site.fabric.switches.radix = nodes * site.fabric.nics;
    }
    std::vector<std::int64_t> own(static_cast<std::size_t>(nodes));
    std::iota(own.begin(), own.end(), std::int64_t{0});
    const std::vector<workloads::PlacedJob> placed{{&scenario.job, own}};
    study.bound_s.push_back(sim::to_seconds(workloads::steps_together(placed, workloads::cluster_of(site)).front()));
  }
}

void price(const Study& study, const std::vector<std::vector<std::int64_t>>& units, PlacementCost& cost) {
  const std::vector<workloads::PlacedJob> jobs = placed(study, cost.nodes);
  cost.step_s.assign(jobs.size(), 0);
  cost.alone_s = cost.worst_s = cost.step_s;
  for (const topology::Cluster& cluster : study.clusters) {
    const std::vector<sim::Duration> together = workloads::steps_together(jobs, cluster);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const auto seeds = static_cast<double>(study.clusters.size());
      cost.step_s[j] += sim::to_seconds(together[j]) / seeds;
      cost.worst_s[j] = std::max(cost.worst_s[j], sim::to_seconds(together[j]));
      const sim::Duration alone = workloads::steps_together(std::vector{jobs[j]}, cluster).front();
      cost.alone_s[j] += sim::to_seconds(alone) / seeds;
    }
  }
  for (const workloads::PlacedJob& job : jobs) {
    const std::set<std::int64_t> mine(job.nodes.begin(), job.nodes.end());
    cost.units.push_back(std::count_if(units.begin(), units.end(), [&](const auto& unit) {
      return std::any_of(unit.begin(), unit.end(), [&](std::int64_t node) { return mine.count(node) == 1; });
    }));
  }
}

/// The policies' node lists with the pipelines of every job in neighbouring nodes, where one has any.
void propose_aligned(Study& study) {
  const bool any = std::any_of(study.jobs.begin(), study.jobs.end(), [](const scenarios::Scenario& scenario) {
    return scenario.job.parallelism.pipeline > 1 && scenario.job.parallelism.data > 1 && !scenario.job.machine.mixed();
  });
  if (!any) return;
  for (std::size_t p = 0; p < policy_names().size(); ++p) {
    PlacementCost cost = study.placements[p];
    if (cost.name == "random") continue;
    cost.name += ", pipelines";
    for (std::size_t j = 0; j < study.jobs.size(); ++j) {
      if (study.jobs[j].job.machine.mixed()) continue;  // its stages want nodes of their kinds
      cost.nodes[j] = aligned(workloads::group_inputs_of(study.jobs[j].job), study.jobs[j].job.machine.gpus_per_node,
                              cost.nodes[j], workloads::Dim::pipeline);
    }
    study.placements.push_back(std::move(cost));
  }
}

/// Betters the best of what was tried by swaps, one after another.
void improve(const PlaceFlags& options, const std::vector<std::vector<std::int64_t>>& units, Study& study) {
  PlacementCost best = study.placements[study.best];
  std::set<std::int64_t> taken;
  for (const std::vector<std::int64_t>& list : best.nodes) taken.insert(list.begin(), list.end());
  std::vector<std::int64_t> free;
  for (const auto& unit : units)
    for (const std::int64_t node : unit)
      if (taken.count(node) == 0) free.push_back(node);
  const auto slowdown = [&](const NodeLists& nodes) {
    double sum = 0;
    for (const topology::Cluster& cluster : study.clusters) {
      const std::vector<sim::Duration> steps = workloads::steps_together(placed(study, nodes), cluster);
      for (std::size_t j = 0; j < steps.size(); ++j) sum += sim::to_seconds(steps[j]) / study.bound_s[j];
    }
    return sum / static_cast<double>(study.jobs.size() * study.clusters.size());
  };
  Progress progress("swaps");
  std::size_t done = 0;
  const auto count = static_cast<std::size_t>(options.improve) + 1;
  PlacementCost better{"swaps", {}, {}, {}, {}, 1, {}};
  const auto cost = [&](const NodeLists& nodes) {
    progress.show(++done, count);
    return InterruptGuard::interrupted() ? 2.0 * static_cast<double>(count) : slowdown(nodes);
  };
  better.nodes =
      swapped(best.nodes, free, options.improve, 1.0, options.seed, cost,
              [&](std::int64_t a, std::int64_t b) { return study.kinds->kind_of(a) == study.kinds->kind_of(b); });
  price(study, units, better);
  study.placements.push_back(std::move(better));
}

/// The placements to price: the policies, and every share where they are few.
void propose(const PlaceFlags& options, const std::vector<std::vector<std::int64_t>>& units, Study& study) {
  std::vector<std::int64_t> sizes;
  for (const scenarios::Scenario& scenario : study.jobs)
    sizes.push_back(scenario.job.machine.gpus / scenario.job.machine.gpus_per_node);
  for (const std::string& policy : policy_names())
    study.placements.push_back({policy, study.kinds->place_by(policy, units, options.seed), {}, {}, {}, 1, {}});
  propose_aligned(study);
  const std::size_t named = study.placements.size();
  std::vector<NodeLists> shares;
  if (!study.kinds->several()) shares = all_shares(sizes, units, kMostShares);
  study.shares = shares.size();
  for (const NodeLists& nodes : shares)
    study.placements.push_back(
        {fmt::format("share {}", study.placements.size() - named + 1), nodes, {}, {}, {}, 1, {}});
  study.named = named;
}

/// Compares them, and keeps of the shares the best alone.
void rank(Study& study) {
  study.best_alone_s.clear();
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
  const auto shares = study.placements.begin() + static_cast<std::ptrdiff_t>(study.named);
  if (study.shares > 0 && study.placements.size() > study.named + 1) {
    PlacementCost best = *std::min_element(shares, study.placements.end(), better);
    best.name = "best share";
    study.placements.resize(study.named);
    study.placements.push_back(std::move(best));
  } else if (study.shares > 0 && shares != study.placements.end()) {
    shares->name = "best share";
  }
  study.best = static_cast<std::size_t>(std::min_element(study.placements.begin(), study.placements.end(), better) -
                                        study.placements.begin());
}

/// How much longer steps are than any placement could make them, mean over jobs, in per cent.
double above_bound_pct(const Study& study) {
  const PlacementCost& best = study.placements[study.best];
  double sum = 0;
  for (std::size_t j = 0; j < study.jobs.size(); ++j) sum += best.step_s[j] / study.bound_s[j];
  return 100 * (sum / static_cast<double>(study.jobs.size()) - 1);
}

std::string verdict(const Study& study) {
  const PlacementCost& best = study.placements[study.best];
  const std::string among =
      study.shares > 0
          ? fmt::format("best of all {} ways to share out the nodes of the units, each simulated", study.shares)
          : std::string("best of these");
  const double above = above_bound_pct(study);
  // Nodes below one leaf are within a switch's latency of the bound.
  return above < 0.01
             ? fmt::format("{}: {}; no placement is quicker by more than 0.01 %: the bound, one switch for each job",
                           best.name, among)
             : fmt::format(
                   "{}: {}; no placement makes steps more than {:.2f} % shorter: the bound, one switch "
                   "for each job",
                   best.name, among, 100 - 100 / (1 + above / 100));
}

constexpr const char* kCostMeaning = "cost: the step with all jobs begun at once, over the job's best step alone.";

std::string head_line(const Study& study) {
  const workloads::Machine& machine = study.jobs.front().job.machine;
  return fmt::format("{} jobs on {}, {}", study.jobs.size(), study.kinds->text(), machine.fabric.name);
}

TextTable placements_table(const Study& study) {
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
  return table;
}

void write_study(std::ostream& out, const Study& study) {
  out << head_line(study) << "\n\n";
  placements_table(study).write(out);
  out << '\n' << kCostMeaning << '\n';
  if (study.clusters.size() > 1)
    out << fmt::format("Steps are means over {} seeds of hashed paths.\n", study.clusters.size());
  out << wrapped(verdict(study) + ".", "", "");
}

Sheet study_sheet(const Study& study) {
  const PlacementCost& best = study.placements[study.best];
  Sheet sheet("Placements of jobs", head_line(study));
  sheet.add_fact("best", best.name, verdict(study));
  sheet.add_fact("slow-down of the best", error_text(100 * (best.slowdown - 1)), "mean over the jobs, over each alone");
  SheetChart chart{"Slow-down of each job by placement", "placement", "% over its best step alone", {}, {}, {}};
  for (const PlacementCost& cost : study.placements) chart.labels.push_back(cost.name);
  for (std::size_t j = 0; j < study.jobs.size(); ++j) {
    SheetSeries series{fmt::format("job {}: {}", j + 1, shortened(study.jobs[j].id, 60)), {}};
    for (const PlacementCost& cost : study.placements)
      series.values.push_back(100 * (cost.step_s[j] / study.best_alone_s[j] - 1));
    chart.series.push_back(std::move(series));
  }
  sheet.add_chart("Slow-down", {}, chart);
  const std::string seeds = study.clusters.size() > 1
                                ? fmt::format(" Steps are means over {} seeds of hashed paths.", study.clusters.size())
                                : std::string();
  sheet.add_table("Placements", kCostMeaning + seeds, placements_table(study));
  return sheet;
}

ordered_json study_json(const Study& study) {
  ordered_json json{{"gpus", study.gpus},
                    {"shares_tried", study.shares},
                    {"best", study.placements[study.best].name},
                    {"bound_s", study.bound_s},
                    {"above_bound_pct", above_bound_pct(study)},
                    {"seeds", study.clusters.size()}};
  json["placements"] = ordered_json::array();
  for (const PlacementCost& cost : study.placements) {
    ordered_json row{{"placement", cost.name}, {"slowdown", cost.slowdown}, {"placed", ordered_json::array()}};
    for (std::size_t j = 0; j < study.jobs.size(); ++j) {
      row["placed"].push_back({{"scenario", study.jobs[j].id},
                               {"nodes", cost.nodes[j]},
                               {"units", cost.units[j]},
                               {"alone_s", cost.alone_s[j]},
                               {"step_s", cost.step_s[j]},
                               {"worst_s", cost.worst_s[j]}});
    }
    json["placements"].push_back(std::move(row));
  }
  return json;
}

int place(const PlaceFlags& options) {
  check_writable(options.json);
  check_report(options.report);
  Study study;
  load_jobs(options, study);
  make_clusters(options, study);
  find_bounds(study);
  const std::vector<std::vector<std::int64_t>> units = units_of(study.clusters.front());
  propose(options, units, study);
  const InterruptGuard guard;
  const std::vector<char> done =
      for_each_parallel(study.placements.size(), options.jobs > 0 ? options.jobs : default_jobs(), "placements",
                        [&](std::size_t i) { price(study, units, study.placements[i]); });
  if (std::find(done.begin(), done.end(), 0) != done.end()) return kInterrupted;
  rank(study);
  if (options.improve > 0 && above_bound_pct(study) > 0) {
    improve(options, units, study);
    if (InterruptGuard::interrupted()) return kInterrupted;
    study.shares = 0;  // what is best now is none of them
    rank(study);
  }
  if (!options.json.empty()) write_output(options.json, [&](std::ostream& out) { write_json(out, study_json(study)); });
  if (!options.report.empty())
    write_output(options.report, [&](std::ostream& out) { write_page(out, study_sheet(study).page()); });
  if (options.json != "-" && options.report != "-") write_study(std::cout, study);
  return kDone;
}

}  // namespace

Action declare_place(CommandOptions app) {
  const auto options = std::make_shared<PlaceFlags>();
  app.add_option("scenarios", options->scenarios,
                 "scenarios of the jobs, files (YAML) or names; one may be given twice")
      .required();
  app.add_option("--set", options->sets, "key.path=value, laid over every scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  app.add_option("--gpus", options->gpus, "GPUs of the cluster (default: those of the jobs)").check(Range(1, 1 << 20));
  app.add_option("--seed", options->seed, "of the random placement and of swaps (default 1)");
  app.add_option("--ecmp-seeds", options->ecmp_seeds,
                 "hash flows onto paths with so many seeds, jobs colliding as they do, and take means")
      .check(Range(1, 1000));
  app.add_option("--improve", options->improve, "try so many swaps of nodes on the best placement (default 0)")
      .check(Range(0, 1'000'000));
  app.add_option("--jobs", options->jobs, "placements at a time (default: one per core)").check(Range(1, 1024));
  app.add_option("--json", options->json, "write the result as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--report", options->report, "write the placements and a chart as one HTML file without network")
      .type_name("FILE");
  return [options] { return place(*options); };
}

}  // namespace orrery::tools
