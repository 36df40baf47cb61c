// A job on some nodes of each pod of a larger cluster, its flows hashed onto paths seed by seed where they are hashed:
// its step with the groups of one kind in neighbouring nodes against its step in another order on the same nodes. Left
// out: what else runs on the cluster.
#include "tools/study/placement_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>

#include "scenarios/scenario.h"
#include "sim/hash.h"
#include "tools/parallel.h"
#include "tools/report/text.h"
#include "tools/study/alignment.h"
#include "tools/study/queue_study.h"
#include "workloads/job/job_values.h"
#include "workloads/step/shared_cluster.h"

namespace orrery::tools {

using sim::Settings;
using workloads::Dim;

namespace {

/// Steps in seconds, of rows that ask for the same one: by job, cluster, seed and order of nodes.
class KnownSteps {
 public:
  template <class Simulate>
  double step(const std::string& what, const Simulate& simulate) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = steps_.find(what); known != steps_.end()) return known->second;
    }
    const double seconds = simulate();
    const std::lock_guard lock(mutex_);
    steps_[what] = seconds;
    return seconds;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, double> steps_;
};

struct Question {
  std::string text;  // all that a step follows from, but for the seed and the order of nodes
  scenarios::Scenario scenario;
  std::int64_t cluster_gpus = 0, seeds = 0;
  std::int64_t background = 0;        // jobs like this one beside it
  std::vector<std::int64_t> in_pods;  // nodes of each pod
  Dim together = Dim::pipeline;
};

std::vector<std::string> texts_of(const Settings* list) {
  std::vector<std::string> texts;
  if (list == nullptr) return texts;
  for (const Settings& item : list->items()) texts.push_back(item.text());
  return texts;
}

/// `sets`: of the whole table, under the row's own.
Question question_of(const Settings& given, std::vector<std::string> sets, PlacementRow& row) {
  given.refuse_unknown({"name", "scenario", "set", "cluster_gpus", "in_pods", "together", "against", "background",
                        "seeds", "source", "published", "notes"});
  row.name = given.at("name").text();
  row.source = given.at("source").text();
  row.notes = given.get_text("notes", "");
  row.together = given.at("together").as_choice({"pipeline", "data"});
  row.against = given.at("against").as_choice({"random", "pipeline", "data"});
  if (const Settings* published = given.find("published"); published != nullptr) {
    published->refuse_unknown({"gain_pct"});
    row.published_pct = published->at("gain_pct").as_number(-100, 1000);
  }
  Question question;
  for (std::string& set : texts_of(given.find("set"))) sets.push_back(std::move(set));
  question.scenario = scenarios::load_scenario(
      scenarios::read_scenario(scenarios::data_directory() + "/" + given.at("scenario").text(), sets));
  question.cluster_gpus = given.at("cluster_gpus").as_int(1, 1 << 20);
  question.seeds = given.at("seeds").as_int(1, 1000);
  if (const Settings* background = given.find("background"); background != nullptr)
    question.background = background->as_int(0, 1000);
  for (const Settings& nodes : given.at("in_pods").items()) question.in_pods.push_back(nodes.as_int(0, 1 << 20));
  question.together = row.together == "pipeline" ? Dim::pipeline : Dim::data;
  question.text = fmt::format("{}|{}|{}|{}|{}", given.at("scenario").text(), fmt::join(sets, "|"),
                              question.cluster_gpus, question.background, fmt::join(question.in_pods, ","));
  row.gpus = question.scenario.job.machine.gpus;
  row.pods = static_cast<std::int64_t>(question.in_pods.size());
  return question;
}

topology::Cluster cluster_of(const Question& question, std::uint64_t seed) {
  workloads::Site site = workloads::site_of(question.scenario.job);
  site.gpus = question.cluster_gpus;
  site.faults = {};
  if (site.fabric.routes.policy == topology::FabricSpec::Routing::ecmp) site.fabric.routes.ecmp_seed = seed;
  return workloads::cluster_of(site);
}

/// The first nodes of every pod, as many as are asked for.
std::vector<std::int64_t> places_of(const Question& question, const topology::Cluster& cluster, const Settings& given) {
  const std::vector<std::vector<std::int64_t>> pods = cluster.pods();
  std::vector<std::int64_t> places;
  for (std::size_t p = 0; p < question.in_pods.size(); ++p) {
    const std::int64_t wanted = question.in_pods[p];
    const std::int64_t there = p < pods.size() ? static_cast<std::int64_t>(pods[p].size()) : 0;
    if (wanted > there) given.at("in_pods").fail(fmt::format("got {} nodes of pod {}, which has {}", wanted, p, there));
    places.insert(places.end(), pods[p].begin(), pods[p].begin() + wanted);
  }
  const workloads::Machine& machine = question.scenario.job.machine;
  if (static_cast<std::int64_t>(places.size()) * machine.gpus_per_node != machine.gpus)
    given.at("in_pods").fail(
        fmt::format("got {} nodes, expected the {} of the job", places.size(), machine.gpus / machine.gpus_per_node));
  return places;
}

std::vector<std::int64_t> ordered(const Question& question, const std::vector<std::int64_t>& places,
                                  const std::string& by, std::uint64_t seed) {
  const std::int64_t per_node = question.scenario.job.machine.gpus_per_node;
  if (by != "random")
    return aligned(workloads::group_inputs_of(question.scenario.job), per_node, places,
                   by == "pipeline" ? Dim::pipeline : Dim::data);
  std::vector<std::int64_t> nodes = places;
  for (std::size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[sim::hash_pair(seed, i) % i]);
  return nodes;
}

/// Jobs like the one asked about on the nodes that it leaves, each on any of them, as many as there is room for.
std::vector<workloads::PlacedJob> background_of(const Question& question, const topology::Cluster& cluster,
                                                const std::vector<std::int64_t>& places, std::uint64_t seed) {
  std::vector<std::int64_t> free;
  for (std::int64_t node = 0; node < cluster.nodes(); ++node)
    if (std::find(places.begin(), places.end(), node) == places.end()) free.push_back(node);
  for (std::size_t i = free.size(); i > 1; --i) std::swap(free[i - 1], free[sim::hash_pair(seed + 1000, i) % i]);
  std::vector<workloads::PlacedJob> jobs;
  for (std::int64_t b = 0; b < question.background && free.size() >= places.size(); ++b) {
    jobs.push_back({&question.scenario.job, {free.end() - static_cast<std::ptrdiff_t>(places.size()), free.end()}});
    free.resize(free.size() - places.size());
  }
  return jobs;
}

/// False after Ctrl-C.
bool simulate(const Settings& given, const std::vector<std::string>& sets, unsigned jobs, KnownSteps& known,
              PlacementRow& row) {
  const Question question = question_of(given, sets, row);
  const workloads::Job& job = question.scenario.job;
  std::vector<double> gains(static_cast<std::size_t>(question.seeds)), steps(gains.size());
  const std::vector<char> done = for_each_parallel(gains.size(), jobs, "placements", [&](std::size_t i) {
    const std::uint64_t seed = i + 1;
    const topology::Cluster cluster = cluster_of(question, seed);
    const std::vector<std::int64_t> places = places_of(question, cluster, given);
    const auto step = [&](const std::string& by) {
      return known.step(fmt::format("{}|{}|{}", question.text, seed, by), [&] {
        std::vector<workloads::PlacedJob> placed{{&job, ordered(question, places, by, seed)}};
        for (workloads::PlacedJob& other : background_of(question, cluster, places, seed))
          placed.push_back(std::move(other));
        return sim::to_seconds(workloads::steps_together(placed, cluster).front());
      });
    };
    steps[i] = step(row.together);
    gains[i] = 100 * (step(row.against) / steps[i] - 1);
  });
  if (std::find(done.begin(), done.end(), 0) != done.end()) return false;
  row.step_s = std::accumulate(steps.begin(), steps.end(), 0.0) / static_cast<double>(steps.size());
  row.gain_pct = campaign::distribution(std::move(gains));
  const topology::Cluster cluster = cluster_of(question, 1);
  std::vector<std::int32_t> pod_of(static_cast<std::size_t>(cluster.nodes()), 0);
  const auto pods = cluster.pods();
  for (std::size_t p = 0; p < pods.size(); ++p)
    for (const std::int64_t node : pods[p]) pod_of[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(p);
  const std::vector<std::int64_t> places = places_of(question, cluster, given);
  const std::vector<std::int64_t> before = ordered(question, places, row.against, 1),
                                  after = ordered(question, places, row.together, 1);
  const workloads::GroupInputs inputs = workloads::group_inputs_of(job);
  const auto widest = [&](const std::vector<std::int64_t>& nodes, Dim dim) {
    return widest_group(inputs, job.machine.gpus_per_node, nodes, pod_of, dim);
  };
  row.data_before = widest(before, Dim::data);
  row.data_after = widest(after, Dim::data);
  row.pipeline_before = widest(before, Dim::pipeline);
  row.pipeline_after = widest(after, Dim::pipeline);
  return true;
}

}  // namespace

std::vector<PlacementRow> simulate_placements(const Settings& document, unsigned jobs) {
  document.refuse_unknown({"title", "set", "placements"});
  const std::vector<std::string> sets = texts_of(document.find("set"));
  std::vector<PlacementRow> rows;
  KnownSteps known;
  for (const Settings& given : document.at("placements").items()) {
    rows.emplace_back();
    if (!simulate(given, sets, jobs, known, rows.back())) return {};
  }
  return rows;
}

namespace {

/// Of the mean, by its 95 % interval.
std::string sign_of(const campaign::Distribution& gain) {
  const double low = gain.mean - gain.error, high = gain.mean + gain.error;
  const char* sign = low > 0 ? "gains" : high < 0 ? "loses" : "neither";
  return fmt::format("{:7} {:+.1f} to {:+.1f}", sign, low, high);
}

}  // namespace

void write_placement_rows(std::ostream& out, const std::string& title, const std::vector<PlacementRow>& rows) {
  TextTable table({{"job", Align::left},
                   {"GPUs"},
                   {"together", Align::left},
                   {"against", Align::left},
                   {"pods of\ndata"},
                   {"pods of\npipeline"},
                   {"gain %,\npublished"},
                   {"mean of\nseeds"},
                   {"p5 to p95"},
                   {"mean's sign\nand interval", Align::left}},
                  "");
  for (const PlacementRow& row : rows) {
    table.add_row({row.name, fmt::format("{}", row.gpus), row.together, row.against,
                   fmt::format("{} > {}", row.data_before, row.data_after),
                   fmt::format("{} > {}", row.pipeline_before, row.pipeline_after),
                   row.published_pct ? fmt::format("{:.1f}", *row.published_pct) : "-",
                   fmt::format("{:.1f}", row.gain_pct.mean),
                   fmt::format("{:.1f} to {:.1f}", row.gain_pct.p5, row.gain_pct.p95), sign_of(row.gain_pct)});
  }
  out << title << "\n\n";
  table.write(out);
  out << "\ntogether: groups whose nodes are neighbours. pods: the most that one group touches, before > after.\n"
         "neither: the 95 % interval of the mean holds zero.\n\n"
         "Sources\n";
  for (const PlacementRow& row : rows)
    out << wrapped(fmt::format("{}: {}. {}", row.name, row.source, row.notes), "  - ", "    ");
}

nlohmann::ordered_json placement_rows_json(const std::string& table, const std::vector<PlacementRow>& rows) {
  nlohmann::ordered_json json;
  json["table"] = table;
  json["rows"] = nlohmann::ordered_json::array();
  for (const PlacementRow& row : rows) {
    json["rows"].push_back({{"name", row.name},
                            {"gpus", row.gpus},
                            {"together", row.together},
                            {"against", row.against},
                            {"published_gain_pct",
                             row.published_pct ? nlohmann::ordered_json(*row.published_pct) : nlohmann::ordered_json()},
                            {"gain_pct", row.gain_pct.mean},
                            {"gain_error_pct", row.gain_pct.error},
                            {"gain_p5_pct", row.gain_pct.p5},
                            {"gain_p95_pct", row.gain_pct.p95},
                            {"step_s", row.step_s},
                            {"data_pods", {row.data_before, row.data_after}},
                            {"pipeline_pods", {row.pipeline_before, row.pipeline_after}},
                            {"source", row.source}});
  }
  return json;
}

Grid grid_of(const std::string& title, const std::vector<PlacementRow>& rows) {
  Grid grid;
  grid.title = title;
  grid.columns = {{"job", "job", true},
                  {"GPUs", "gpus"},
                  {"together", "together", true},
                  {"against", "against", true},
                  {"gain %, published", "published_pct"},
                  {"mean of seeds", "predicted_pct"},
                  {"p5", "p5"},
                  {"p95", "p95"},
                  {"difference, points", "error_points"}};
  for (const PlacementRow& row : rows) {
    const campaign::Distribution& gain = row.gain_pct;
    const auto cells = [&](const char* form, const char* none) {
      const auto number = [&](double value) { return fmt::format(fmt::runtime(form), value); };
      return std::vector<std::string>{row.name,
                                      fmt::format("{}", row.gpus),
                                      row.together,
                                      row.against,
                                      row.published_pct ? number(*row.published_pct) : none,
                                      number(gain.mean),
                                      number(gain.p5),
                                      number(gain.p95),
                                      row.published_pct ? number(gain.mean - *row.published_pct) : none};
    };
    grid.rows.push_back({cells("{:.1f}", "-"), cells("{}", ""), false});
    grid.notes.push_back(fmt::format("{}: {}. {}", row.name, row.source, row.notes));
  }
  return grid;
}

}  // namespace orrery::tools
