// Settings -> Scenario: the entry, the shared readers, and the sections `software` and `cluster`.
#include "scenarios/load.h"

#include <algorithm>
#include <filesystem>

#include "scenarios/campaign.h"
#include "scenarios/library.h"
#include "scenarios/load_recommender.h"
#include "scenarios/made_once.h"
#include "scenarios/schema.h"
#include "workloads/schedules/catalogue.h"
#include "workloads/step/steady_clock.h"

namespace orrery::scenarios {

using sim::Settings;
using sim::UserError;
using workloads::Job;

namespace {

/// Says that a document was changed in the scenario, and where.
void note_changes(Job& job, const Shelf& shelf, const Settings& reference, const Resolved& resolved) {
  if (!resolved.changed) return;
  std::vector<std::string> changed;
  const auto list = [&](const Settings& keys, const std::string& above, const auto& again) -> void {
    for (const auto& [name, member] : keys.members()) {
      const std::string key = above + name;
      const bool block = shelf.kind == "software" && key != "recipe" && calibration::is_block(key);
      if (block && member.is_mapping())
        again(member, key + ".", again);
      else if (key != "inherits")
        changed.push_back(key);
    }
  };
  list(reference, "", list);
  job.assumptions.push_back(
      fmt::format("{}: {} with {} changed by the scenario.", shelf.key, resolved.name, fmt::join(changed, ", ")));
}

/// A step is trained, and nothing of it served.
void refuse_serving(const Settings& document) {
  for (const char* key : {"serving", "traffic", "workload"})
    if (const Settings* section = given(&document, key); section != nullptr)
      section->fail("says how a model is served, which orrery serving runs, expected a training step");
  if (const Settings* section = given(&document, "rl"); section != nullptr)
    section->fail("is a step of reinforcement learning, which orrery rl runs, expected a training step");
  const Settings* precision = given(&document, "precision");
  if (precision == nullptr || !precision->is_mapping()) return;
  for (const char* key : {"weights", "attention", "experts", "kv_cache", "states"})
    if (const Settings* type = given(precision, key); type != nullptr)
      type->fail("is of a model that is served, expected matmul, activations, gradients or parameters");
}

/// Returns its document.
Settings load_fabric(const Settings& cluster, Job& job) {
  const Settings* reference = given(&cluster, "fabric");
  Settings fallback;
  if (reference == nullptr) {
    if (job.machine.gpus > job.machine.gpus_per_node) {
      fail_at(cluster, "fabric",
              fmt::format("is missing; {} GPUs in nodes of {} need one, as in ndr-rail", job.machine.gpus,
                          job.machine.gpus_per_node));
    }
    assume(job, "cluster.fabric", "single-node", "as all GPUs are in one node");
    fallback = Settings::scalar("single-node", cluster.place());
    reference = &fallback;
  }
  const Shelf& shelf = shelf_of("fabrics");
  const Resolved fabric = resolve(shelf, *reference);
  job.machine.fabric = topology::load_fabric_spec(fabric.document, job.machine.device.name());
  if (!fabric.name.empty()) job.machine.fabric.name = fabric.name;
  if (job.machine.fabric.name.empty()) job.machine.fabric.name = "inline";
  note_changes(job, shelf, *reference, fabric);
  const std::int64_t joined = std::max(job.machine.gpus_per_node, job.machine.fabric.gpus.nvlink_domain);
  if (job.machine.fabric.kind == &topology::fabrics::none && job.machine.gpus > joined) {
    reference->fail(fmt::format("got {}, which joins no nodes; {} GPUs in nodes of {} need a fabric that does",
                                job.machine.fabric.name, job.machine.gpus, job.machine.gpus_per_node));
  }
  return fabric.document;
}

/// Makes nodes that the fabric joins by NVLink one node.
void join_domain(const Settings& cluster, Job& job) {
  const std::int64_t domain = job.machine.fabric.gpus.nvlink_domain;
  const Settings* wanted = given(&cluster, "gpus_per_domain");
  if (domain == 0) {
    if (wanted != nullptr)
      wanted->fail(fmt::format("got {}, but NVLink of {} ends at the node, expected no such key", wanted->text(),
                               job.machine.fabric.name));
    return;
  }
  if (job.machine.node.kind != topology::NodeSpec::Kind::nvswitch || domain % job.machine.node.gpus != 0) {
    fail_at(
        cluster, "fabric",
        fmt::format("got {}, which joins {} GPUs by NVLink, expected a fabric without an nvlink_domain, as nodes of "
                    "{} have {} GPUs{}",
                    job.machine.fabric.name, domain, job.machine.device.name(), job.machine.node.gpus,
                    job.machine.node.kind == topology::NodeSpec::Kind::nvswitch ? "" : " and no NVSwitch"));
  }
  const std::int64_t per_host = job.machine.gpus_per_node, hosts = job.machine.gpus / per_host,
                     most = domain / job.machine.node.gpus;
  std::int64_t fill = topology::nodes_per_domain(hosts, most);
  if (wanted != nullptr) {
    const std::int64_t gpus = wanted->as_int(1, domain);
    fill = gpus / per_host;
    if (gpus % per_host != 0 || fill > std::min(hosts, most))
      wanted->fail(fmt::format("got {}, expected a multiple of the {} GPUs of a node, at most {}", gpus, per_host,
                               std::min(hosts, most) * per_host));
  } else if (hosts > 1) {
    assume(job, "cluster.gpus_per_domain", std::to_string(fill * per_host),
           fmt::format("the most of an NVLink domain of {} that all domains fill alike", domain));
  }
  job.machine.node.gpus = per_host;
  topology::join_by_nvlink(job.machine.node, job.machine.fabric, fill);
  job.machine.gpus_per_node = fill * per_host;
  job.machine.hosts_per_node = fill;
}

}  // namespace

const Settings* given(const Settings* section, std::string_view key) {
  const Settings* member = section != nullptr ? section->find(key) : nullptr;
  return member != nullptr && member->is_scalar() && member->text() == "unknown" ? nullptr : member;
}

const Settings& required(const Settings& section, std::string_view key) {
  const Settings& member = section.at(key);
  if (member.is_scalar() && member.text() == "unknown") member.fail("got \"unknown\", but this key has no default");
  return member;
}

std::int64_t integer(const Settings* section, std::string_view key, std::int64_t fallback) {
  const Settings* member = given(section, key);
  return member != nullptr ? member->as_int() : fallback;
}

double number(const Settings* section, std::string_view key, double fallback) {
  const Settings* member = given(section, key);
  return member != nullptr ? member->as_number() : fallback;
}

bool boolean(const Settings* section, std::string_view key, bool fallback) {
  const Settings* member = given(section, key);
  return member != nullptr ? member->as_bool() : fallback;
}

std::string text(const Settings* section, std::string_view key, std::string fallback) {
  return section != nullptr ? section->get_text(key, std::move(fallback)) : fallback;
}

void fail_at(const Settings& document, std::string_view path, const std::string& message) {
  const std::string whole = document.path().empty() ? std::string(path) : fmt::format("{}.{}", document.path(), path);
  for (std::string_view part = path;; part = part.substr(0, part.rfind('.'))) {
    if (const Settings* node = document.find_path(part); node != nullptr)
      throw UserError(node->place(), whole, message);
    if (part.find('.') == std::string_view::npos) break;
  }
  throw UserError(document.place(), whole, message);
}

void assume(Job& job, std::string_view key, std::string_view value, std::string_view why) {
  job.assumptions.push_back(fmt::format("{} is not given: {}, {}.", key, value, why));
}

calibration::DeviceProfile device_of(const Settings& reference, const Settings& document) {
  // Not taken apart at the program's end, which frees it at once.
  static MadeOnce<calibration::DeviceProfile>& known = *new MadeOnce<calibration::DeviceProfile>;
  if (reference.is_mapping()) return calibration::DeviceProfile::load(document);
  return known.of(document, calibration::DeviceProfile::load);
}

void load_software(const Settings& document, Job& job) {
  const Settings* reference = given(&document, "software");
  Settings fallback;
  if (reference == nullptr) {
    assume(job, "software", kDefaultSoftware, "the newest Megatron-Core that ships");
    fallback = Settings::scalar(kDefaultSoftware, document.place());
    reference = &fallback;
  }
  const Settings taken = software_of(document, *reference);
  reference = &taken;
  const Shelf& shelf = shelf_of("software");
  Resolved software = resolve(shelf, *reference);
  if (software.document.find("name") == nullptr) {
    software.document.set("name", Settings::scalar("inline", reference->place(), true));
  }
  static MadeOnce<calibration::Software>& known = *new MadeOnce<calibration::Software>;
  const auto load = [](const Settings& generation) { return calibration::Software::load(generation, recipe_book()); };
  job.software = reference->is_mapping() ? load(software.document) : known.of(software.document, load);
  if (const Settings* schedule = software.document.find_path("defaults.parallelism.schedule"); schedule != nullptr)
    schedule->as_choice(workloads::schedule_names());
  note_changes(job, shelf, *reference, software);
}

/// Sections of a profile that miss their own samples by more than anyone would call a model.
void note_far_sections(const Settings& device, Job& job) {
  constexpr double kFarOffPct = 30;
  const auto note = [&](const std::string& what, const Settings& section) {
    const Settings* error = section.is_mapping() ? section.find("error") : nullptr;
    const double median = error == nullptr ? 0 : error->get_number("median_pct", 0.0);
    if (median > kFarOffPct)
      job.assumptions.push_back(
          fmt::format("The device's times of {} are {:.0f} % off in the median of the kernels that "
                      "they were fitted to.",
                      what, median));
  };
  for (const char* kind : {"attention", "streaming"})
    if (const Settings* section = device.find(kind)) note(kind, *section);
  for (const char* kind : {"gemm", "experts", "collectives"}) {
    const Settings* group = device.find(kind);
    if (group == nullptr) continue;
    for (const auto& [name, section] : group->members()) note(fmt::format("{}.{}", kind, name), section);
  }
}

void load_cluster(const Settings& document, Job& job) {
  const Settings& cluster = document.at("cluster");
  const Shelf& shelf = shelf_of("devices");
  const Settings& reference = required(cluster, "device");
  const Resolved device = resolve(shelf, reference);
  job.machine.device = device_of(reference, device.document);
  job.machine.node = topology::load_node_spec(device.document.at("node"));
  note_changes(job, shelf, reference, device);
  note_far_sections(device.document, job);

  job.machine.gpus = required(cluster, "gpus").as_int();
  const std::int64_t full = job.machine.node.gpus;
  if (const Settings* per_node = given(&cluster, "gpus_per_node"); per_node != nullptr) {
    job.machine.gpus_per_node = std::min(per_node->as_int(), job.machine.gpus);
    if (job.machine.gpus_per_node > full) {
      per_node->fail(fmt::format("expected at most {}, which a node of {} holds, got {}", full,
                                 job.machine.device.name(), per_node->text()));
    }
  } else {
    job.machine.gpus_per_node = std::min(job.machine.gpus, full);
    assume(job, "cluster.gpus_per_node", std::to_string(job.machine.gpus_per_node),
           job.machine.gpus_per_node == full ? "a full node of the device" : "all GPUs in one node");
  }
  if (job.machine.gpus % job.machine.gpus_per_node != 0) {
    cluster.at("gpus").fail(fmt::format("expected whole nodes: a multiple of {} GPUs, got {}",
                                        job.machine.gpus_per_node, job.machine.gpus));
  }
  const Settings fabric = load_fabric(cluster, job);
  join_domain(cluster, job);
  load_other_nodes(cluster, fabric, job);
}

Scenario load_scenario(const Settings& document) {
  if (!document.is_mapping()) document.expected("a scenario: a mapping of keys");
  refuse_other_document(document);
  check_keys(document);
  refuse_serving(document);
  Scenario scenario;
  Job& job = scenario.job;
  const std::string name = text(&document, "name", "");
  scenario.id = text(&document, "id", name);
  job.name = name.empty() ? scenario.id : name;
  if (job.name.empty()) job.name = std::filesystem::path(document.place().file.text()).stem().string();
  if (scenario.id.empty()) scenario.id = job.name;
  job.description = text(&document, "description", "");
  scenario.source = text(&document, "source", "");
  scenario.notes = text(&document, "notes", "");
  load_software(document, job);
  load_cluster(document, job);
  take_measured_host(document, job);
  if (trains_recommender(document)) {
    if (job.machine.mixed())
      fail_at(
          document, "cluster.others",
          "got nodes of other kinds for a recommender, expected nodes of one kind: it has no stages to lie on them");
    load_recommender(document, job);
  } else {
    load_model(document, job);
    load_layout(document, job);
    load_options(document, job);
    check_job(document, job);
  }
  load_perturbation(document, job);
  check_wiring(document, workloads::site_of(job), job.software.library.collective_algorithms);
  load_placement(document, job);
  place_kinds(document, job);
  load_power(document, job);
  job = workloads::at_steady_clock(std::move(job));
  say_situation(job);
  note_what_moves(job);
  load_evaluation(document, job);
  load_training(document, job);
  load_campaign(document);  // checked here, kept by who runs it
  note_extra(document, job);
  scenario.measured = load_measured(document, job.machine.gpus, job.model.seq);
  return scenario;
}

const std::vector<std::string>& variant_sections() {
  static const std::vector<std::string> kSections{"parallelism", "batch",   "precision", "recompute",
                                                  "attention",   "overlap", "optimizer"};
  return kSections;
}

Scenario load_variant(const Scenario& base, const Settings& document, workloads::SteadyClocks* clocks) {
  Scenario scenario = base;
  Job& job = scenario.job;
  for (const std::string& section : variant_sections()) {  // the others are the base's
    if (const Settings* value = document.find(section)) check_keys(*value, section);
  }
  if (job.model.recommender.any())
    throw UserError(fmt::format("{}: got a recommender, whose layout is tables.placement, expected a model of layers",
                                job.model.name));
  job.parallelism = {};
  job.batch = {};
  job.assumptions.clear();
  load_layout(document, job);
  load_options(document, job);
  check_job(document, job);
  place_kinds(document, job);
  job = clocks != nullptr ? clocks->of(std::move(job)) : workloads::at_steady_clock(std::move(job));
  say_situation(job);
  note_what_moves(job);
  return scenario;
}

}  // namespace orrery::scenarios
