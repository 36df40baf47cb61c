// `orrery topology`: a cluster in numbers and as a picture. The cluster is a scenario's, or a shipped fabric with a
// device and a number of GPUs.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "sim/error.h"
#include "tools/cluster.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/report/output.h"
#include "tools/report/page.h"
#include "tools/report/rank_map.h"
#include "tools/report/report.h"
#include "tools/report/sheet.h"
#include "tools/report/text.h"
#include "topology/cluster.h"
#include "workloads/job/job_values.h"
#include "workloads/step/hashed_paths.h"

extern char** environ;

namespace orrery::tools {

namespace {

using topology::Cluster;

/// What the reader was quoted for one of each; -1: nothing. A link is a cable with what is plugged in at both its ends.
struct Quotes {
  double switch_usd = -1, switch_w = -1, link_usd = -1, link_w = -1;

  /// With what the fabric states, where nothing was quoted.
  Quotes over(const sim::Settings& fabric) const {
    Quotes out = *this;
    const auto stated = [&](const char* key, double quoted) {
      const sim::Settings* found = quoted < 0 && fabric.is_mapping() ? fabric.find(key) : nullptr;
      return found != nullptr && !found->is_null() ? found : nullptr;
    };
    if (const auto* usd = stated("switch_price", switch_usd)) out.switch_usd = usd->as_number();
    if (const auto* usd = stated("link_price", link_usd)) out.link_usd = usd->as_number();
    if (const auto* watts = stated("switch_power", switch_w)) out.switch_w = watts->as_watts();
    if (const auto* watts = stated("link_power", link_w)) out.link_w = watts->as_watts();
    return out;
  }
};

struct TopologyOptions {
  ClusterOptions cluster;
  Quotes quotes;
  std::string dot, svg, json, report;
  std::int64_t gpus = 256;
};

std::string rate_text(sim::Bandwidth rate) { return si_text(rate.value(), "B/s"); }

/// What hashing costs: the expectation of one leaf's uplinks beside flows that are thrown over the whole fabric.
void write_collisions(std::ostream& out, const Cluster& cluster, const Cluster::Description& about) {
  constexpr std::int64_t kSeeds = 4, kMostFlows = 20'000;
  const auto& up = about.uplinks;
  out << fmt::format("Expected ECMP slow-down of a fully loaded leaf uplink: {:.3f}\n", about.collision_factor);
  out << wrapped(fmt::format("{} flows of {} hashed onto {} uplinks of {}: some uplinks get more than they carry while "
                             "others idle.",
                             up.flows, rate_text(up.flow_rate), up.lanes, rate_text(up.lane_rate)),
                 "  ", "  ");
  if (cluster.nodes() * cluster.nics_per_node() * cluster.fabric_spec().routes.flows_per_nic > kMostFlows) return;
  const topology::Slowdown thrown = cluster.throw_flows(kSeeds);
  out << wrapped(
      fmt::format("Thrown with {} seeds, every NIC to the next unit, way up and way down: a flow takes {:.3f} "
                  "times as long as spread evenly, the slowest {:.2f} times.",
                  kSeeds, thrown.mean, thrown.slowest),
      "  ", "  ");
}

/// A job's groups as they are placed and, where that is in order, at random.
struct PlacedPaths {
  std::string placement;
  std::vector<workloads::HashedPaths> rows;
};

std::vector<PlacedPaths> hashed_paths(const NamedCluster& named) {
  constexpr std::int64_t kSeeds = 8;
  std::vector<PlacedPaths> placed;
  if (!named.job || named.cluster.fabric_spec().routes.policy != topology::FabricSpec::Routing::ecmp) return placed;
  workloads::Job job = *named.job;
  using Kind = workloads::Placement::Kind;
  const bool ordered = job.placement.kind == Kind::order;
  placed.push_back({ordered ? "in order" : "as placed",
                    workloads::hashed_paths(workloads::site_of(job), workloads::group_inputs_of(job), kSeeds)});
  if (ordered && named.cluster.nodes() > 1) {
    job.placement.kind = Kind::random;
    placed.push_back(
        {"at random", workloads::hashed_paths(workloads::site_of(job), workloads::group_inputs_of(job), kSeeds)});
  }
  return placed;
}

constexpr const char* kHashedMeaning =
    "Groups of the job between nodes, paths hashed with seeds 1 to 8, each kind under way alone";

TextTable hashed_table(const std::vector<PlacedPaths>& placed) {
  TextTable table({{"placement", Align::left},
                   {"dimension", Align::left},
                   {"groups"},
                   {"spread evenly"},
                   {"hashed, mean"},
                   {"95 % reach"},
                   {"slowest"}});
  for (const PlacedPaths& paths : placed) {
    for (const workloads::HashedPaths& row : paths.rows) {
      table.add_row({paths.placement, std::string(row.group), count_text(static_cast<double>(row.groups)),
                     si_text(row.even, "B/s"), si_text(row.mean, "B/s"), si_text(row.worst_twentieth, "B/s"),
                     si_text(row.slowest, "B/s")});
    }
  }
  return table;
}

void write_cut_off(std::ostream& out, const Cluster& cluster) {
  constexpr std::size_t kMostNamed = 8;
  std::vector<std::string> names = cluster.cut_off();
  if (names.empty()) return;
  const std::size_t all = names.size();
  names.resize(std::min(all, kMostNamed));
  out << wrapped(fmt::format("Cut off: {} NIC{} ({}{}); their GPUs use the next NIC of the node.", all,
                             all == 1 ? "" : "s", fmt::join(names, ", "), all > kMostNamed ? ", ..." : ""),
                 "", "  ");
}

TextTable counts_table(const Cluster::Description& about) {
  TextTable counts({{"", Align::left}, {""}});
  for (const auto& row : about.vertices) counts.add_row({row.what, count_text(static_cast<double>(row.count))});
  return counts;
}

TextTable links_table(const Cluster::Description& about) {
  TextTable tiers({{"tier", Align::left}, {"links"}, {"rate of each"}, {"together"}});
  for (const auto& row : about.tiers) {
    tiers.add_row({std::string(topology::name_of(row.tier)), count_text(static_cast<double>(row.links)),
                   rate_text(row.rate_each), rate_text(row.total)});
  }
  return tiers;
}

TextTable paths_table(const Cluster::Description& about) {
  TextTable paths({{"highest tier", Align::left}, {"hops"}, {"latency"}, {"share of GPUs"}});
  for (const auto& row : about.paths) {
    paths.add_row({std::string(topology::name_of(row.top)), fmt::format("{}", row.hops),
                   time_text(sim::to_seconds(row.latency)), fmt::format("{:.2f} %", 100 * row.share)});
  }
  return paths;
}

/// What is bought for the network between nodes. Left out: spares, racks, ports of a switch that are split among cables
/// (each link counts as one), copper, which has no transceivers, and NICs, which come with their nodes.
struct Parts {
  std::int64_t switches = 0, nic_links = 0, switch_links = 0;

  explicit Parts(const Cluster::Description& about) {
    constexpr std::string_view kSwitch = " switch";
    for (const auto& row : about.vertices) {
      if (std::string_view(row.what).ends_with(kSwitch) && row.what != "PCIe switch") switches += row.count;
    }
    for (const auto& row : about.tiers) {
      if (row.tier == topology::Tier::leaf) nic_links += row.links;
      if (row.tier > topology::Tier::leaf) switch_links += row.links;
    }
  }
  std::int64_t links() const { return nic_links + switch_links; }
  /// Nothing where one of the two was not quoted.
  std::optional<double> of_all(double a_switch, double a_link) const {
    if (a_switch < 0 || a_link < 0) return std::nullopt;
    return static_cast<double>(switches) * a_switch + static_cast<double>(links()) * a_link;
  }
};

TextTable parts_table(const Parts& parts, const Quotes& quotes, std::int64_t gpus) {
  const auto number = [](std::int64_t count) { return count_text(static_cast<double>(count)); };
  TextTable table({{"", Align::left}, {""}});
  table.add_row({"switches", number(parts.switches)});
  table.add_row({"cables between NICs and switches", number(parts.nic_links)});
  table.add_row({"cables between switches", number(parts.switch_links)});
  table.add_row({"transceivers, if all are optical", number(2 * parts.links())});
  if (const auto usd = parts.of_all(quotes.switch_usd, quotes.link_usd)) {
    table.add_row({"price, USD", count_text(std::round(*usd))});
    table.add_row({"price a GPU, USD", count_text(std::round(*usd / static_cast<double>(gpus)))});
  }
  if (const auto watts = parts.of_all(quotes.switch_w, quotes.link_w)) {
    table.add_row({"power", si_text(*watts, "W")});
    table.add_row({"power a GPU", si_text(*watts / static_cast<double>(gpus), "W")});
  }
  return table;
}

nlohmann::ordered_json parts_json(const Parts& parts, const Quotes& quotes) {
  nlohmann::ordered_json json{{"switches", parts.switches},
                              {"nic_cables", parts.nic_links},
                              {"switch_cables", parts.switch_links},
                              {"transceivers", 2 * parts.links()}};
  if (const auto usd = parts.of_all(quotes.switch_usd, quotes.link_usd)) json["price_usd"] = *usd;
  if (const auto watts = parts.of_all(quotes.switch_w, quotes.link_w)) json["network_w"] = *watts;
  return json;
}

/// Levels from the highest switches down to what is inside a node, each with its links towards the next one below.
std::vector<SheetLevel> levels_of(const Cluster::Description& about) {
  struct Level {
    const char* what;
    topology::Tier below;  // of the links towards the next level
  };
  using topology::Tier;
  constexpr std::array kLevels{
      Level{"global exchange", Tier::global}, Level{"core switch", Tier::core}, Level{"spine switch", Tier::spine},
      Level{"leaf switch", Tier::leaf},       Level{"NIC", Tier::nic},          Level{"GPU", Tier::node},
      Level{"NVSwitch", Tier::node}};
  std::vector<SheetLevel> levels;
  for (const Level& level : kLevels) {
    for (const auto& row : about.vertices)
      if (row.what == std::string_view(level.what) && row.count > 0) levels.push_back({level.what, row.count, "", 0});
    if (levels.empty() || levels.back().what != level.what || level.what == std::string_view("NVSwitch")) continue;
    for (const auto& row : about.tiers) {
      if (row.tier != level.below || row.links == 0) continue;
      levels.back().links = fmt::format("{} {} links of {}, together {}", count_text(static_cast<double>(row.links)),
                                        topology::name_of(row.tier), rate_text(row.rate_each), rate_text(row.total));
      levels.back().bytes_per_s = row.total.value();
    }
  }
  return levels;
}

Sheet description_sheet(const NamedCluster& named, const std::vector<PlacedPaths>& placed, const Quotes& quotes) {
  const Cluster& cluster = named.cluster;
  const Cluster::Description about = cluster.describe();
  Sheet sheet("Cluster: " + named.title, cluster.fabric_spec().provenance);
  sheet.add_fact("GPUs", count_text(static_cast<double>(cluster.gpus())),
                 fmt::format("{} nodes of {}", cluster.nodes(), cluster.gpus_per_node()));
  sheet.add_fact("bisection", rate_text(about.bisection), "of payload, between two halves of the nodes");
  if (about.collision_factor > 1.0)
    sheet.add_fact("ECMP", fmt::format("x {:.3f}", about.collision_factor),
                   "expected slow-down of a fully loaded leaf uplink");
  sheet.add_levels(
      "Levels",
      "From the highest switches down to the GPUs of a node; a line stands for a bundle of links, the wider "
      "the more bytes a second it carries.",
      levels_of(about));
  sheet.add_table("Counts", {}, counts_table(about));
  if (const Parts parts(about); parts.links() > 0)
    sheet.add_table("Parts of the network", {}, parts_table(parts, quotes, cluster.gpus()));
  SheetChart rates{"Rate of all links of a tier, one direction", "tier", "TB/s", {}, {}, {{"rate", {}}}};
  for (const auto& row : about.tiers) {
    rates.labels.emplace_back(topology::name_of(row.tier));
    rates.series[0].values.push_back(row.total.value() / 1e12);
  }
  sheet.add_chart("Rates", {}, rates);
  sheet.add_table("Links", "One direction, line rates.", links_table(about));
  sheet.add_table("Paths", "From GPU 0 to all others.", paths_table(about));
  if (!placed.empty()) sheet.add_table("Hashed paths", kHashedMeaning + std::string("."), hashed_table(placed));
  return sheet;
}

void write_description(std::ostream& out, const std::string& title, const Cluster& cluster, const Quotes& quotes) {
  const Cluster::Description about = cluster.describe();
  out << wrapped(fmt::format("{}, {} nodes of {}", title, cluster.nodes(), cluster.gpus_per_node()), "", "  ");
  if (!cluster.fabric_spec().provenance.empty()) out << wrapped(cluster.fabric_spec().provenance, "  ", "  ");
  out << "\nCounts\n";
  counts_table(about).write(out);
  if (const Parts parts(about); parts.links() > 0) {
    out << "\nParts of the network between nodes\n";
    parts_table(parts, quotes, cluster.gpus()).write(out);
  }
  out << "\nLinks, one direction, line rates\n";
  links_table(about).write(out);
  out << fmt::format("\nBisection between two halves of the nodes: {} of payload\n", rate_text(about.bisection));
  if (about.collision_factor > 1.0) write_collisions(out, cluster, about);
  if (cluster.fabric_spec().switches.sharp) out << "The switches can add up what passes through them (SHARP).\n";
  write_cut_off(out, cluster);
  out << "\nPaths from GPU 0 to all others\n";
  paths_table(about).write(out);
}

nlohmann::ordered_json hashed_json(const std::vector<PlacedPaths>& placed) {
  auto json = nlohmann::ordered_json::array();
  for (const PlacedPaths& paths : placed) {
    for (const workloads::HashedPaths& row : paths.rows) {
      json.push_back({{"placement", paths.placement},
                      {"dimension", row.group},
                      {"groups", row.groups},
                      {"even_bytes_per_s", row.even},
                      {"mean_bytes_per_s", row.mean},
                      {"reached_by_95_pct_bytes_per_s", row.worst_twentieth},
                      {"slowest_bytes_per_s", row.slowest}});
    }
  }
  return json;
}

nlohmann::ordered_json description_json(const std::string& title, const Cluster& cluster,
                                        const std::vector<PlacedPaths>& placed, const Quotes& quotes) {
  const Cluster::Description about = cluster.describe();
  nlohmann::ordered_json json;
  json["cluster"] = title;
  json["gpus"] = cluster.gpus();
  json["nodes"] = cluster.nodes();
  json["vertices"] = nlohmann::ordered_json::array();
  for (const auto& row : about.vertices) json["vertices"].push_back({{"what", row.what}, {"count", row.count}});
  json["tiers"] = nlohmann::ordered_json::array();
  for (const auto& row : about.tiers) {
    json["tiers"].push_back({{"tier", topology::name_of(row.tier)},
                             {"links", row.links},
                             {"bytes_per_s_each", row.rate_each.value()},
                             {"bytes_per_s", row.total.value()}});
  }
  if (const Parts parts(about); parts.links() > 0) json["parts"] = parts_json(parts, quotes);
  json["bisection_bytes_per_s"] = about.bisection.value();
  json["ecmp_slowdown"] = about.collision_factor;
  json["sharp"] = cluster.fabric_spec().switches.sharp;
  json["cut_off"] = cluster.cut_off();
  json["paths"] = nlohmann::ordered_json::array();
  for (const auto& row : about.paths) {
    json["paths"].push_back({{"tier", topology::name_of(row.top)},
                             {"hops", row.hops},
                             {"latency_s", sim::to_seconds(row.latency)},
                             {"share_pct", 100 * row.share}});
  }
  if (!placed.empty()) json["hashed_paths"] = hashed_json(placed);
  return json;
}

/// Runs Graphviz without a shell, so that no file name can be read as a command.
void run_dot(const std::string& dot_file, const std::string& svg_file, const std::string& shown) {
  std::string program = "dot", format = "-Tsvg", output = "-o" + svg_file, input = dot_file;
  char* arguments[] = {program.data(), format.data(), output.data(), input.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, "dot", nullptr, nullptr, arguments, environ);
  int status = 0;
  if (failed == 0) {
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  }
  if (failed == ENOENT || (failed == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127)) {
    throw sim::UserError(
        fmt::format("{}: drawing needs the program dot of Graphviz, which is not installed; install "
                    "the package graphviz, or write --dot and draw it elsewhere",
                    shown));
  }
  if (failed != 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw sim::UserError(fmt::format("{}: Graphviz could not draw the cluster ({}); try --dot with fewer GPUs", shown,
                                     failed != 0 ? std::strerror(failed) : "dot failed"));
  }
}

void write_svg(const Cluster& cluster, const std::string& path) {
  check_writable(path);
  namespace fs = std::filesystem;
  const std::string stem = (fs::temp_directory_path() / fmt::format("orrery-{}", ::getpid())).string();
  const std::string dot_file = stem + ".dot", svg_file = stem + ".svg";
  const auto clean = [&] {
    std::error_code ignored;
    fs::remove(dot_file, ignored);
    fs::remove(svg_file, ignored);
  };
  try {
    write_output(dot_file, [&](std::ostream& out) { cluster.write_dot(out); });
    run_dot(dot_file, svg_file, path);
    write_output(path, [&](std::ostream& out) { out << std::ifstream(svg_file, std::ios::binary).rdbuf(); });
  } catch (...) {
    clean();
    throw;
  }
  clean();
}

int topology(const TopologyOptions& options) {
  check_writable(options.dot);
  check_writable(options.svg);
  check_writable(options.json);
  check_report(options.report);
  const NamedCluster named = read_cluster(options.cluster, options.gpus);
  const Cluster& cluster = named.cluster;
  const Quotes quotes = options.quotes.over(named.fabric);
  const auto whole = [](const char* given, double one, const char* other, double two) {
    if ((one < 0) != (two < 0))
      throw sim::UserError(fmt::format("topology: got {} alone, expected {} too: a network is both",
                                       one < 0 ? other : given, one < 0 ? given : other));
  };
  whole("--switch-price", quotes.switch_usd, "--link-price", quotes.link_usd);
  whole("--switch-power", quotes.switch_w, "--link-power", quotes.link_w);
  if (!options.dot.empty()) write_output(options.dot, [&](std::ostream& out) { cluster.write_dot(out); });
  if (!options.svg.empty()) write_svg(cluster, options.svg);
  const bool printed = options.dot != "-" && options.svg != "-" && options.json != "-" && options.report != "-";
  const auto placed =
      printed || !options.json.empty() || !options.report.empty() ? hashed_paths(named) : std::vector<PlacedPaths>{};
  if (!options.json.empty()) {
    write_output(options.json,
                 [&](std::ostream& out) { write_json(out, description_json(named.title, cluster, placed, quotes)); });
  }
  if (!options.report.empty()) {
    nlohmann::ordered_json page = description_sheet(named, placed, quotes).page();
    page["rank_map"] = named.job ? rank_map_json(named.job->parallelism, named.job->placement, named.job->machine)
                                 : unit_map_json(cluster);
    write_output(options.report, [&](std::ostream& out) { write_page(out, page); });
  }
  if (printed) {
    write_description(std::cout, named.title, cluster, quotes);
    if (!placed.empty()) {
      std::cout << '\n' << kHashedMeaning << '\n';
      hashed_table(placed).write(std::cout);
    }
  }
  return kDone;
}

}  // namespace

Action declare_topology(CommandOptions app) {
  const auto options = std::make_shared<TopologyOptions>();
  declare_cluster(app, options->cluster);
  app.add_option("--gpus", options->gpus, "GPUs on a fabric (default 256)").check(Range(1, 1 << 20));
  Quotes& quotes = options->quotes;
  constexpr double kMost = 1e9;
  const auto quote = [&](const char* name, double& value, const char* help, const char* unit) {
    return app.add_option(name, value, help).type_name(unit).check(Range(0.0, kMost));
  };
  quote("--switch-price", quotes.switch_usd, "dollars a switch (default: as the fabric states)", "USD");
  quote("--link-price", quotes.link_usd, "dollars a cable with its transceivers (likewise)", "USD");
  quote("--switch-power", quotes.switch_w, "watts a switch (likewise)", "W");
  quote("--link-power", quotes.link_w, "watts of the transceivers at both ends of a cable (likewise)", "W");
  app.add_option("--dot", options->dot, "write the graph for Graphviz to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--svg", options->svg, "draw the graph (needs Graphviz)").type_name("FILE");
  app.add_option("--json", options->json, "write the numbers as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--report", options->report, "write the numbers and a chart as one HTML file that needs no network")
      .type_name("FILE");
  return [options] { return topology(*options); };
}

}  // namespace orrery::tools
