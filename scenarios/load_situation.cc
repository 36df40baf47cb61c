// The sections that say where the work runs and what is not as it should be there: placement and perturb.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "scenarios/load.h"
#include "workloads/groups/slowest.h"

namespace orrery::scenarios {

using sim::Settings;
using topology::Fault;
using topology::Tier;
using workloads::Dim;
using workloads::Job;

namespace {

const std::vector<Settings>& list_of(const Settings& section, const char* what) {
  if (!section.is_sequence()) section.fail(fmt::format("expected a list of {}", what));
  return section.items();
}

void load_order(const Settings& order, Job& job) {
  std::vector<std::string> names;
  for (const Dim dim : workloads::kDims) names.emplace_back(name_of(dim));
  std::vector<Dim>& given = job.placement.order;
  given.clear();
  for (const Settings& item : list_of(order, "tensor, context, data and pipeline, fastest-varying first")) {
    const std::string name = item.as_choice(names);
    const Dim dim =
        workloads::kDims[static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin())];
    if (std::find(given.begin(), given.end(), dim) != given.end())
      item.fail(fmt::format("got {} a second time, expected each of tensor, context, data, pipeline once", name));
    given.push_back(dim);
  }
  if (given.size() != workloads::kDims.size()) {
    order.fail(fmt::format("got {} dimensions, expected each of tensor, context, data, pipeline once", given.size()));
  }
}

void load_gpu_list(const Settings& list, Job& job) {
  const std::vector<Settings>& items = list_of(list, "GPU numbers, one per rank");
  std::vector<bool> taken(static_cast<std::size_t>(job.machine.gpus), false);
  for (const Settings& item : items) {
    const std::int64_t gpu = item.as_int(0, job.machine.gpus - 1);
    if (taken[static_cast<std::size_t>(gpu)])
      item.fail(fmt::format("got GPU {} a second time, expected one rank per GPU", gpu));
    taken[static_cast<std::size_t>(gpu)] = true;
    job.placement.gpus.push_back(gpu);
  }
  if (job.placement.gpus.size() != taken.size()) {
    list.fail(fmt::format("got {} GPUs, expected all {} of the cluster", job.placement.gpus.size(), job.machine.gpus));
  }
}

void load_arrangement(const Settings& document, const Settings& by, Job& job) {
  const std::string word = by.as_choice({"node", "rail", "pod"});
  if (word != "node" && job.machine.gpus % job.machine.gpus_per_node != 0)
    by.fail(fmt::format("got {}, but the last NVLink domain is filled in part, expected node", word));
  if (word == "rail") job.placement.by = workloads::Placement::By::rail;
  if (word != "pod") return;
  job.placement.by = workloads::Placement::By::pod;
  const topology::Cluster cluster = workloads::cluster_of(workloads::site_of(job), document.at("cluster"));
  const auto pods = cluster.pods();
  for (std::size_t turn = 0; static_cast<std::int64_t>(job.placement.node_order.size()) < cluster.nodes(); ++turn) {
    for (const std::vector<std::int64_t>& pod : pods) {
      if (turn < pod.size()) job.placement.node_order.push_back(pod[turn]);
    }
  }
}

}  // namespace

void load_placement(const Settings& document, Job& job) {
  const Settings* section = given(&document, "placement");
  if (section == nullptr) return;
  const Settings* order = given(section, "order");
  const Settings* seed = given(section, "random_seed");
  const Settings* gpus = given(section, "gpus");
  const Settings* by = given(section, "by");
  if ((order != nullptr) + (seed != nullptr) + (gpus != nullptr) > 1) {
    section->fail("got more than one of order, random_seed and gpus, expected one");
  }
  if (by != nullptr && (seed != nullptr || gpus != nullptr))
    by->fail("has no meaning with random_seed or gpus, expected order, or neither");
  if (by != nullptr) load_arrangement(document, *by, job);
  if (order != nullptr) {
    load_order(*order, job);
  } else if (seed != nullptr) {
    job.placement.kind = workloads::Placement::Kind::random;
    job.placement.seed = static_cast<std::uint64_t>(seed->as_int());
  } else if (gpus != nullptr) {
    job.placement.kind = workloads::Placement::Kind::list;
    load_gpu_list(*gpus, job);
  }
}

namespace {

/// Each GPU's own pace, drawn: what the fleet's spread comes to in one machine, in place of its expectation.
void draw_paces(const Settings* section, Job& job) {
  const Settings* drawn = given(section, "gpu_spread");
  if (drawn == nullptr) return;
  const std::uint64_t seed = static_cast<std::uint64_t>(required(*drawn, "seed").as_int());
  const double spread = std::exchange(job.machine.fabric.gpus.spread, 0.0);
  if (spread == 0) return;
  std::map<std::int64_t, double> slowdown;
  for (std::int64_t gpu = 0; gpu < job.machine.gpus; ++gpu)
    slowdown[gpu] = workloads::drawn_slowdown(spread, seed, gpu);
  for (const auto& slow : job.perturbation.slow_gpus) slowdown[slow.gpu] *= slow.slowdown;
  job.perturbation.slow_gpus.clear();
  for (const auto& [gpu, factor] : slowdown) job.perturbation.slow_gpus.push_back({gpu, factor});
  job.assumptions.push_back(fmt::format(
      "perturb.gpu_spread: every GPU's pace is drawn, its standard deviation {:g} %, by seed {}.", 100 * spread, seed));
}

void load_slow_gpus_and_nics(const Settings* section, Job& job) {
  if (const Settings* list = given(section, "slow_gpus"); list != nullptr) {
    std::set<std::int64_t> seen;
    for (const Settings& item : list_of(*list, "mappings {gpu, slowdown}")) {
      const std::int64_t gpu = required(item, "gpu").as_int(0, job.machine.gpus - 1);
      if (!seen.insert(gpu).second) item.at("gpu").fail(fmt::format("got GPU {} a second time, expected it once", gpu));
      job.perturbation.slow_gpus.push_back({gpu, required(item, "slowdown").as_number()});
    }
  }
  if (const Settings* list = given(section, "slow_nics"); list != nullptr) {
    std::set<std::pair<std::int64_t, std::int64_t>> seen;
    for (const Settings& item : list_of(*list, "mappings {node, nic, rate}")) {
      const std::int64_t hosts = job.machine.hosts_per_node, nics = job.machine.fabric.nics / hosts;
      const std::int64_t host =
          required(item, "node").as_int(0, job.machine.gpus * hosts / job.machine.gpus_per_node - 1);
      const std::int64_t node = host / hosts;
      const std::int64_t nic = host % hosts * nics + required(item, "nic").as_int(0, nics - 1);
      if (!seen.insert({node, nic}).second) {
        item.at("nic").fail(fmt::format("got NIC {} of node {} a second time, expected it once", nic % nics, host));
      }
      job.perturbation.slow_nics.push_back({node, nic, required(item, "rate").as_number()});
    }
  }
}

/// Where the fault was written, for what only the wiring can tell.
Fault fault_at(Fault::Kind kind, const Settings& place) {
  Fault fault;
  fault.kind = kind;
  fault.place = place.place();
  fault.key = place.path();
  return fault;
}

std::string component_name(const Settings& name) {
  if (!name.is_scalar() || name.text().empty()) name.fail("expected a name, as in leaf u0 r3 or n12 nic3");
  return name.text();
}

void load_links(const Settings* section, const char* key, Fault::Kind kind, Job& job) {
  const Settings* list = given(section, key);
  if (list == nullptr) return;
  const bool slow = kind == Fault::Kind::slow_link;
  for (const Settings& item : list_of(*list, slow ? "mappings {between, rate}" : "mappings {between, lanes}")) {
    const Settings& between = required(item, "between");
    if (!between.is_sequence() || between.items().size() != 2)
      between.fail("expected two ends, as in [leaf u0 r0, spine.3]");
    Fault fault = fault_at(kind, between);
    fault.a = component_name(between.items()[0]);
    fault.b = component_name(between.items()[1]);
    if (slow) fault.rate = required(item, "rate").as_number();
    if (!slow) fault.lanes = static_cast<std::int32_t>(integer(&item, "lanes", 0));
    job.perturbation.faults.list.push_back(std::move(fault));
  }
}

void load_faults(const Settings* section, Job& job) {
  load_links(section, "slow_links", Fault::Kind::slow_link, job);
  load_links(section, "lost_links", Fault::Kind::lost_link, job);
  if (const Settings* list = given(section, "lost_switches"); list != nullptr) {
    for (const Settings& item : list_of(*list, "names of switches")) {
      Fault fault = fault_at(Fault::Kind::lost_switch, item);
      fault.a = component_name(item);
      job.perturbation.faults.list.push_back(std::move(fault));
    }
  }
  const Settings* background = given(section, "background");
  if (background == nullptr) return;
  for (const Tier tier : {Tier::leaf, Tier::spine, Tier::core, Tier::global}) {
    job.perturbation.faults.background[static_cast<std::size_t>(tier)] = number(background, topology::name_of(tier), 0);
  }
}

}  // namespace

void load_perturbation(const Settings& document, Job& job) {
  const Settings* section = given(&document, "perturb");
  if (section == nullptr) return;
  load_slow_gpus_and_nics(section, job);
  draw_paces(section, job);
  load_faults(section, job);
  if (const Settings* jitter = given(section, "message_jitter"); jitter != nullptr) {
    job.perturbation.message_sigma = required(*jitter, "sigma").as_number();
    job.perturbation.message_seed = static_cast<std::uint64_t>(integer(jitter, "seed", 0));
  }
  if (const Settings* jitter = given(section, "jitter"); jitter != nullptr) {
    job.perturbation.jitter_sigma = required(*jitter, "sigma").as_number();
    job.perturbation.jitter_seed = static_cast<std::uint64_t>(integer(jitter, "seed", 0));
  }
}

}  // namespace orrery::scenarios
