// `orrery replay`: traces of ranks over another network. Formats are told by the files' names and first bytes: .et is
// Chakra's, all else a profiler's.
#include "tools/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/error.h"
#include "tools/cluster.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/learn/predicted.h"
#include "tools/learn/trace.h"
#include "tools/replay/chakra.h"
#include "tools/replay/from_trace.h"
#include "tools/replay/members.h"
#include "tools/report/output.h"
#include "tools/report/report.h"
#include "tools/report/text.h"
#include "workloads/groups/placement.h"
#include "workloads/job/job_values.h"

namespace orrery::tools {

using nlohmann::ordered_json;

namespace {

constexpr std::size_t kMostRows = 30;

struct ReplayOptions {
  std::vector<std::string> files, sets;
  std::string scenario, fabric, groups, json;
};

bool is_chakra(const std::string& file) { return file.ends_with(".et") || file.ends_with(".et.gz"); }

/// Folders stand for the execution traces in them.
std::vector<std::string> files_of(const std::vector<std::string>& named) {
  std::vector<std::string> files;
  for (const std::string& name : named) {
    std::error_code error;
    if (!std::filesystem::is_directory(name, error)) {
      files.push_back(name);
      continue;
    }
    const std::size_t before = files.size();
    for (const auto& entry : std::filesystem::directory_iterator(name, error)) {
      if (is_chakra(entry.path().string())) files.push_back(entry.path().string());
    }
    if (files.size() == before)
      throw sim::UserError(fmt::format("{}: got a folder without execution traces, expected files *.RANK.et", name));
  }
  std::sort(files.begin(), files.end(), [](const std::string& a, const std::string& b) {
    return std::pair(rank_of_file(a), a) < std::pair(rank_of_file(b), b);
  });
  return files;
}

/// The groups of --groups, else those beside the first file.
ChakraGroups groups_of(const ReplayOptions& options, const std::string& file) {
  if (!options.groups.empty()) return read_chakra_groups(options.groups);
  const std::string beside = (std::filesystem::path(file).parent_path() / kChakraGroupsFile).string();
  std::error_code error;
  return std::filesystem::exists(beside, error) ? read_chakra_groups(beside) : ChakraGroups{};
}

std::vector<RankGraph> chakra_graphs(const ReplayOptions& options, const std::vector<std::string>& files) {
  const ChakraGroups groups = groups_of(options, files.front());
  const auto named = [](const std::string& file) { return rank_of_file(file) != kNoPeer; };
  const bool numbered = std::all_of(files.begin(), files.end(), named);
  std::vector<RankGraph> graphs;
  for (const std::string& file : files) {
    const std::int64_t rank = numbered ? rank_of_file(file) : static_cast<std::int64_t>(graphs.size());
    graphs.push_back(read_chakra(file, rank, static_cast<std::int64_t>(files.size()), groups));
  }
  return graphs;
}

std::vector<RankGraph> profiler_graphs(const std::vector<std::string>& files, const workloads::Job* job) {
  std::vector<Trace> traces;
  for (const std::string& file : files) {
    for (Trace& trace : read_trace(file)) traces.push_back(std::move(trace));
  }
  std::vector<std::int64_t> ranks;
  if (job != nullptr) {
    ranks = ranks_of(traces, job->parallelism, job->machine.gpus);
  } else {
    for (const Trace& trace : traces) ranks.push_back(trace.rank.value_or(static_cast<std::int64_t>(ranks.size())));
  }
  std::optional<Members> members;
  if (job != nullptr) members.emplace(workloads::group_layout_of(*job));
  const std::set<std::int64_t> traced(ranks.begin(), ranks.end());
  std::vector<RankGraph> graphs;
  for (std::size_t i = 0; i < traces.size(); ++i)
    graphs.push_back(graph_of_trace(traces[i], ranks[i], traced, members ? &*members : nullptr));
  return graphs;
}

void write_text(std::ostream& out, const Replayed& replayed, const std::string& network) {
  const std::string change = replayed.traced_s > 0 ? fmt::format(", traced {}, {:+.2f} %", time_text(replayed.traced_s),
                                                                 100 * (replayed.replayed_s / replayed.traced_s - 1))
                                                   : std::string();
  out << fmt::format("replayed {} rank{} on {}: {}{}\n", replayed.ranks.size(), replayed.ranks.size() == 1 ? "" : "s",
                     network, time_text(replayed.replayed_s), change);
  TextTable table(
      {{"call", Align::left}, {"group", Align::left}, {"ranks"}, {"MB"}, {"calls"}, {"traced us"}, {"replayed us"}});
  for (std::size_t i = 0; i < std::min(kMostRows, replayed.calls.size()); ++i) {
    const ReplayedCalls& row = replayed.calls[i];
    table.add_row({row.operation, row.group, fmt::format("{}", row.ranks), fmt::format("{:.3f}", row.bytes / 1e6),
                   fmt::format("{}", row.calls), fmt::format("{:.2f}", row.traced_s * 1e6),
                   fmt::format("{:.2f}", row.replayed_s * 1e6)});
  }
  if (!replayed.calls.empty()) table.write(out);
  if (replayed.calls.size() > kMostRows) out << fmt::format("  and {} more\n", replayed.calls.size() - kMostRows);
  for (const std::string& assumption : replayed.assumptions) out << wrapped(assumption, "  ", "  ");
}

ordered_json replay_json(const Replayed& replayed, const std::string& network) {
  ordered_json json;
  json["network"] = network;
  json["traced_s"] = replayed.traced_s > 0 ? ordered_json(replayed.traced_s) : ordered_json(nullptr);
  json["replayed_s"] = replayed.replayed_s;
  json["nodes"] = replayed.nodes;
  json["ranks"] = ordered_json::array();
  for (const ReplayedRank& rank : replayed.ranks) {
    json["ranks"].push_back({{"rank", rank.rank},
                             {"traced_s", rank.traced_s > 0 ? ordered_json(rank.traced_s) : ordered_json(nullptr)},
                             {"replayed_s", rank.replayed_s},
                             {"compute_s", rank.compute_s}});
  }
  json["calls"] = ordered_json::array();
  for (const ReplayedCalls& row : replayed.calls) {
    json["calls"].push_back({{"op", row.operation},
                             {"group", row.group},
                             {"group_ranks", row.ranks},
                             {"bytes", row.bytes},
                             {"count", row.calls},
                             {"traced_s", row.traced_s},
                             {"replayed_s", row.replayed_s}});
  }
  json["assumptions"] = replayed.assumptions;
  return json;
}

int run_replay(const ReplayOptions& options) {
  check_writable(options.json);
  if (options.scenario.empty() && (!options.fabric.empty() || !options.sets.empty()))
    throw sim::UserError("orrery: replay: got a network without --scenario, expected the scenario that was traced");
  std::vector<std::string> sets = options.sets;
  if (!options.fabric.empty()) sets.push_back("cluster.fabric=" + options.fabric);
  std::optional<NamedCluster> named;
  if (!options.scenario.empty()) named = read_cluster({options.scenario, {}, sets}, 0);
  const workloads::Job* job = named && named->job ? &*named->job : nullptr;
  if (named && job == nullptr)
    throw sim::UserError(fmt::format("--scenario: got {}, expected a scenario", options.scenario));
  const std::vector<std::string> files = files_of(options.files);
  const bool chakra = is_chakra(files.front());
  for (const std::string& file : files) {
    if (is_chakra(file) != chakra)
      throw sim::UserError(fmt::format("{}: got traces of two formats, expected one", file));
  }
  const std::vector<RankGraph> graphs = chakra ? chakra_graphs(options, files) : profiler_graphs(files, job);
  std::optional<ReplayNetwork> network;
  if (named) {
    network.emplace(ReplayNetwork{named->cluster, named->device, named->software, {}});
    const workloads::RankMap map(job->parallelism.dims(), job->placement, named->cluster.gpus_per_node());
    for (std::int64_t rank = 0; rank < map.ranks(); ++rank) network->gpus.push_back(map.gpu_of(rank));
  }
  const Replayed replayed = replay(graphs, network ? &*network : nullptr);
  const std::string title = named ? named->title : "the network that was traced";
  if (!options.json.empty())
    write_output(options.json, [&](std::ostream& out) { write_json(out, replay_json(replayed, title)); });
  if (options.json != "-") write_text(std::cout, replayed, title);
  return kDone;
}

}  // namespace

Action declare_replay(CommandOptions app) {
  const auto options = std::make_shared<ReplayOptions>();
  app.add_option("traces", options->files,
                 "execution traces of Chakra (.et, .et.gz, or a folder of them), traces of PyTorch's profiler (.json, "
                 ".json.gz), exports of Nsight Systems (.sqlite) or this program's own, a rank each")
      .required()
      .type_name("TRACE...");
  app.add_option("--scenario", options->scenario,
                 "the job that was traced (YAML): its cluster is the network; without it calls take what was traced")
      .type_name("SCENARIO");
  app.add_option("--fabric", options->fabric, "another fabric for it").type_name("NAME");
  app.add_option("--groups", options->groups,
                 std::string("ranks of Chakra's process groups, as ASTRA-sim takes them (default: ") +
                     kChakraGroupsFile + " beside the traces)")
      .type_name("FILE");
  app.add_option("--json", options->json, "write times as JSON to FILE, or to standard output for -").type_name("FILE");
  app.add_option("--set", options->sets, "key.path=value, laid over the scenario; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
  return [options] { return run_replay(*options); };
}

}  // namespace orrery::tools
