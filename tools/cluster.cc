// Clusters by name. Left out: fabrics with software of their own; a bare fabric runs the default generation.
#include "tools/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "scenarios/library.h"
#include "scenarios/scenario.h"
#include "scenarios/synonyms.h"
#include "sim/error.h"
#include "tools/command_options.h"

namespace orrery::tools {

namespace {

/// A file, or the name of a shipped scenario, or part of one; else a fabric is meant. What is neither is refused with
/// what may be meant of both.
bool is_scenario(const std::string& text) {
  std::error_code unreadable;
  if (text.find('/') != std::string::npos || text.ends_with(".yaml") || text.ends_with(".yml") ||
      std::filesystem::exists(text, unreadable) || text == "-")
    return true;
  std::vector<std::string> names = scenarios::shipped("scenarios");
  for (const char* kind : {"served", "trained"}) {
    for (std::string& name : scenarios::shipped(kind)) names.push_back(std::move(name));
  }
  const std::vector<std::string> fabrics = scenarios::shipped("fabrics");
  if (std::find(fabrics.begin(), fabrics.end(), text) != fabrics.end()) return false;
  if (std::find(names.begin(), names.end(), text) != names.end()) return true;
  if (!scenarios::name_meant("fabrics", text, fabrics).empty()) return false;
  if (!scenarios::name_meant("scenarios", text, names).empty()) return true;
  std::vector<std::string> both = fabrics;
  both.insert(both.end(), names.begin(), names.end());
  if (const std::string device = scenarios::name_meant("devices", text, scenarios::shipped("devices")); !device.empty())
    throw sim::UserError(
        {text, 0, 0}, "",
        fmt::format("got a device ({}), expected a fabric or a scenario, as in ndr-rail --device {}", device, text));
  const scenarios::Shelf* other = scenarios::shelf_with(text);
  const std::vector<std::string> near =
      other != nullptr ? std::vector<std::string>{} : scenarios::names_near(text, both);
  throw sim::UserError(
      {text, 0, 0}, "",
      (other != nullptr ? fmt::format("got a {}, expected a fabric or a scenario", other->noun)
                        : "there is no such file, fabric or scenario") +
          (near.empty() ? "; orrery list fabrics and orrery list scenarios name them" : scenarios::near_text(near)));
}

/// A fabric's own file: it says its kind, or inherits a fabric that ships, and of no cluster.
bool is_fabric_file(const std::string& path) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(path, unreadable)) return false;
  const sim::Settings document = scenarios::read_once(path);
  if (!document.is_mapping() || document.find("cluster") != nullptr) return false;
  const sim::Settings* parent = document.find("inherits");
  const std::vector<std::string> fabrics = scenarios::shipped("fabrics");
  return document.find("kind") != nullptr ||
         (parent != nullptr && parent->is_scalar() &&
          std::find(fabrics.begin(), fabrics.end(), parent->text()) != fabrics.end());
}

/// A key of a fabric: `nics`, or as a scenario has it, `cluster.fabric.nics`.
void set_of_fabric(sim::Settings& fabric, const std::string& set) {
  constexpr std::string_view kWithin = "cluster.fabric.";
  scenarios::Assignment assignment = scenarios::parse_assignment(set);
  if (assignment.key.starts_with(kWithin)) assignment.key.erase(0, kWithin.size());
  scenarios::apply(fabric, assignment);
}

/// Of a scenario that is served, or of reinforcement learning, its cluster: what runs there is nothing that is asked.
void keep_cluster(sim::Settings& document) {
  if (!document.is_mapping()) return;
  const auto has = [&](const char* key) { return document.find(key) != nullptr; };
  if (!has("serving") && !has("models") && !has("rl")) return;
  std::vector<std::string> rest;
  for (const auto& [key, member] : document.members()) {
    if (key != "name" && key != "id" && key != "description" && key != "cluster") rest.push_back(key);
  }
  for (const std::string& key : rest) document.erase(key);
}

/// A file that says `cluster` and nothing of what runs there: any model does, a sequence on each GPU, since nothing is
/// asked but of the cluster. Without `gpus` it has as many as the command says. Returns whether it was one.
bool complete_cluster(sim::Settings& document, std::int64_t gpus) {
  const sim::Settings* cluster = document.find("cluster");
  if (cluster == nullptr || !cluster->is_mapping() || document.find("model") != nullptr) return false;
  const sim::Place place = cluster->place();  // what is applied may move the section
  if (cluster->find("gpus") == nullptr && gpus > 0)
    scenarios::apply(document, {"cluster.gpus", sim::Settings::scalar(std::to_string(gpus), place)});
  const std::int64_t all = document.at("cluster").at("gpus").as_int();
  for (const auto& [key, value] : {std::pair<const char*, std::string>("model", "llama3.1-8b"),
                                   {"batch.global", std::to_string(all)},
                                   {"batch.micro", "1"}}) {
    if (document.find_path(key) == nullptr) scenarios::apply(document, {key, sim::Settings::scalar(value, place)});
  }
  return true;
}

}  // namespace

sim::Settings document_of(const std::string& kind, const std::string& name) {
  const std::string flag = kind == "devices" ? "--device" : "--" + kind;
  return scenarios::resolve(scenarios::shelf_of(kind), sim::Settings::scalar(name, {flag, 0, 0})).document;
}

void declare_cluster(CommandOptions app, ClusterOptions& options) {
  app.add_option("cluster", options.what, "a scenario's or a fabric's file, or the name of a shipped one").required();
  app.add_option("--device", options.device, "device profile of the nodes of a fabric (default h100-sxm-80gb)");
  app.add_option("--set", options.sets, "key.path=value, laid over the scenario or the fabric; may be repeated")
      .allow_extra_args(false)
      .type_name("KEY=VALUE");
}

NamedCluster read_cluster(const ClusterOptions& options, std::int64_t gpus) {
  if (is_scenario(options.what) && !is_fabric_file(options.what)) {
    sim::Settings document = scenarios::read_scenario(options.what, options.sets);
    keep_cluster(document);
    const bool alone = complete_cluster(document, gpus);
    const scenarios::Scenario scenario = scenarios::load_scenario(document);
    const workloads::Job& job = scenario.job;
    const sim::Settings* fabric = document.at("cluster").find("fabric");
    return {fmt::format("{}: {} x {} on {}", scenario.id, job.machine.gpus, job.machine.device.name(),
                        job.machine.fabric.name),
            job.machine.device,
            job.software,
            workloads::cluster_of(workloads::site_of(job), document.at("cluster")),
            fabric != nullptr && !fabric->is_null()
                ? scenarios::resolve(scenarios::shelf_of("fabrics"), *fabric).document
                : sim::Settings{},
            alone ? std::nullopt : std::optional(job)};
  }
  sim::Settings fabric_document = document_of("fabrics", options.what);
  for (const std::string& set : options.sets) set_of_fabric(fabric_document, set);
  const sim::Settings device_document = document_of("devices", options.device);
  calibration::DeviceProfile device = calibration::DeviceProfile::load(device_document);
  topology::FabricSpec fabric = topology::load_fabric_spec(fabric_document, device.name());
  topology::NodeSpec node = topology::load_node_spec(device_document.at("node"));
  if (fabric.gpus.nvlink_domain > node.gpus && node.kind == topology::NodeSpec::Kind::nvswitch) {
    const std::int64_t hosts = (gpus + node.gpus - 1) / node.gpus;
    topology::join_by_nvlink(node, fabric, topology::nodes_per_domain(hosts, fabric.gpus.nvlink_domain / node.gpus));
  }
  return {fmt::format("{}: {} x {}", options.what, gpus, options.device), std::move(device),
          calibration::Software::load(document_of("software", scenarios::kDefaultSoftware), scenarios::recipe_book()),
          topology::Cluster(node, fabric, gpus, std::min(node.gpus, gpus), fabric_document), fabric_document};
}

}  // namespace orrery::tools
