// Recommenders: the model's keys, the section `tables`, and where the tables lie. A recommender is one stage on every
// GPU: its batch is shared out over all of them, its layers are repeated, its tables lie where the balancer puts them.
#include "scenarios/load_recommender.h"

#include <algorithm>
#include <array>
#include <limits>

#include "scenarios/library.h"
#include "scenarios/schema.h"
#include "workloads/model/table_placement.h"
#include "workloads/step/step.h"

namespace orrery::scenarios {

using sim::Settings;
using workloads::Job;
using workloads::Recommender;
using workloads::TableOptimizer;
using workloads::TablePlacement;

namespace {

constexpr const char* kShippedModel = "dlrm-dcnv2";
constexpr std::array kModelKeys{"dense_features", "bottom_mlp",  "top_mlp",    "cross_layers",
                                "cross_rank",     "table_width", "table_rows", "table_lookups"};
constexpr std::array kOtherKeys{"kind", "name", "label", "inherits", "parameters"};
/// Tables and layers of a model, and ranks that tables are balanced over: more would take minutes to place.
constexpr std::size_t kMostTables = 4096, kMostLayers = 64;
constexpr std::int64_t kMostPlaces = 4096, kMostParts = 4'000'000;
constexpr double kMostTableWeights = 1e15;

bool is_recommender(const Settings& model) {
  const Settings* kind = given(&model, "kind");
  return kind != nullptr && kind->is_scalar() && kind->text() == "dlrm";
}

std::vector<std::int64_t> numbers(const Settings& section, const char* key, std::size_t most) {
  const Settings& list = required(section, key);
  if (!list.is_sequence() || list.items().empty() || list.items().size() > most)
    list.fail(fmt::format("got {}, expected a list of 1 to {} numbers",
                          list.is_sequence() ? fmt::format("{} items", list.items().size()) : "something else", most));
  std::vector<std::int64_t> out;
  for (const Settings& item : list.items()) out.push_back(item.as_int());
  return out;
}

/// A recommender of which only the kind is given is the benchmark's.
Settings whole_model(const Settings& section, Job& job) {
  const bool sizes = std::any_of(kModelKeys.begin(), kModelKeys.end(),
                                 [&](const char* key) { return given(&section, key) != nullptr; });
  if (sizes) return section;
  Settings whole = resolve(shelf_of("models"), Settings::scalar(kShippedModel, section.place())).document;
  for (const auto& [name, member] : section.members()) whole.set(name, member);
  job.assumptions.push_back(fmt::format("model gives no sizes: those of {}.", kShippedModel));
  return whole;
}

void load_sizes(const Settings& section, Job& job) {
  for (const auto& [name, member] : section.members()) {
    const auto is = [&name = name](const char* key) { return name == key; };
    if (std::any_of(kModelKeys.begin(), kModelKeys.end(), is) || std::any_of(kOtherKeys.begin(), kOtherKeys.end(), is))
      continue;
    member.fail(fmt::format("got a key of transformers beside kind: dlrm, expected none, or one of {}",
                            fmt::join(kModelKeys, ", ")));
  }
  Recommender& model = job.model.recommender;
  model.dense_features = required(section, "dense_features").as_int();
  model.bottom = numbers(section, "bottom_mlp", kMostLayers);
  model.top = numbers(section, "top_mlp", kMostLayers);
  model.width = required(section, "table_width").as_int();
  model.cross_layers = integer(&section, "cross_layers", 0);
  if (model.cross_layers > 0) model.cross_rank = required(section, "cross_rank").as_int();
  const std::vector<std::int64_t> rows = numbers(section, "table_rows", kMostTables);
  const bool several = given(&section, "table_lookups") != nullptr;
  const std::vector<std::int64_t> lookups =
      several ? numbers(section, "table_lookups", kMostTables) : std::vector<std::int64_t>(rows.size(), 1);
  if (!several) assume(job, "model.table_lookups", "1", "one look-up of a sample in each table");
  if (lookups.size() != rows.size())
    section.at("table_lookups")
        .fail(fmt::format("got {} numbers, expected one for each of the {} tables", lookups.size(), rows.size()));
  for (std::size_t t = 0; t < rows.size(); ++t) model.tables.push_back({rows[t], lookups[t]});
  if (model.bottom.back() != model.width)
    section.at("bottom_mlp")
        .fail(fmt::format("got a last layer of {}, expected model.table_width, which is {}", model.bottom.back(),
                          model.width));
  number(&section, "parameters", 0);
  const double weights = workloads::load_of(model, workloads::all_tables(model)).elements;
  if (weights > kMostTableWeights)
    fail_at(section, "table_rows",
            fmt::format("got {:.3g} weights in tables, expected at most {:.0e}", weights, kMostTableWeights));
}

/// What a recommender has no part in.
void refuse_layouts(const Settings& document, const workloads::Parallelism& p, const workloads::Method& method) {
  const std::array<std::pair<const char*, std::int64_t>, 6> degrees{{{"tensor", p.tensor},
                                                                     {"pipeline", p.pipeline},
                                                                     {"virtual_pipeline", p.virtual_pipeline},
                                                                     {"context", p.context},
                                                                     {"expert", p.expert},
                                                                     {"expert_tensor", p.expert_tensor}}};
  for (const auto& [key, degree] : degrees) {
    if (degree > 1)
      fail_at(document, fmt::format("parallelism.{}", key),
              fmt::format("got {} with a recommender, expected 1: tables are laid out by tables.placement", degree));
  }
  if (p.sharding != workloads::Sharding::none)
    fail_at(document, "parallelism.sharding",
            fmt::format("got {} with a recommender, expected none", name_of(p.sharding)));
  for (const char* key : {"finetune", "experts"}) {
    if (given(&document, key) != nullptr) fail_at(document, key, "got a section of transformers, expected none");
  }
  if (method.recompute != workloads::Recompute::none)
    fail_at(document, "recompute", "got recomputation with a recommender, expected none");
  if (calibration::is_quantised(method.precision.matmul))
    fail_at(document, "precision",
            fmt::format("got {} with a recommender, expected fp32, bf16 or fp16", name_of(method.precision.matmul)));
}

/// All of a rank's samples are one micro-batch.
void load_batch_at_once(const Settings& document, Job& job) {
  const std::int64_t all = job.batch.global / job.parallelism.data;
  const Settings& batch = document.at("batch");
  if (given(&batch, "micro") != nullptr && job.batch.micro != all)
    batch.at("micro").fail(fmt::format("got {}, expected {} or none: a recommender takes its part of the batch at once",
                                       job.batch.micro, all));
  job.batch.micro = all;
}

/// Lines on what a recommender has not got.
void drop_assumptions(Job& job) {
  constexpr std::array kAbout{"attention ",
                              "recompute ",
                              "optimizer ",
                              "batch.micro ",
                              "overlap ",
                              "parallelism.tensor ",
                              "parallelism.sharding ",
                              "parallelism.pipeline ",
                              "parallelism.schedule "};
  std::erase_if(job.assumptions, [&](const std::string& line) {
    return std::any_of(kAbout.begin(), kAbout.end(), [&](const char* word) { return line.starts_with(word); });
  });
}

/// Bytes/s at which a GPU sends to its peers: by NVLink, or through its share of the node's NICs.
double link_rate(const workloads::Machine& machine) {
  if (machine.gpus <= machine.gpus_per_node) return machine.node.rate.value();
  const auto nics = static_cast<double>(std::max<std::int64_t>(1, machine.fabric.nics));
  return machine.fabric.nic_rate.value() * nics / static_cast<double>(machine.gpus_per_node);
}

/// What the balancer goes by, where the scenario does not say; HugeCTR's MLPerf runs weigh a vector sent against a row
/// read by bandwidth of memory over that of the link, a quarter of it (train.py, mem_comm_work_ratio), and repeat
/// tables below 8 MB on one node and 12.5 MB on several (config_DGXH100_1x8x6912.sh and config_DGXH100_8x8x2112.sh).
workloads::PlacementPolicy load_policy(const Settings* section, Job& job, bool among_nodes) {
  workloads::PlacementPolicy policy;
  policy.ranks = among_nodes ? job.machine.gpus / job.machine.gpus_per_node : job.machine.gpus;
  const double of_place = among_nodes ? static_cast<double>(job.machine.gpus_per_node) : 1;
  constexpr double kWork = 4;
  policy.vector_cost = job.machine.device.memory_bandwidth().value() / link_rate(job.machine) / kWork;
  policy.replicated_below = among_nodes ? 12.5e6 : 8e6;
  if (const Settings* below = given(section, "replicate_below"); below != nullptr)
    policy.replicated_below = static_cast<double>(below->as_bytes().value());
  else
    assume(job, "tables.replicate_below", among_nodes ? "12.5 MB" : "8 MB", "as HugeCTR's MLPerf runs had it");
  const double memory = static_cast<double>(job.machine.device.memory().value());
  double room = 0.75 * memory;
  if (const Settings* given_room = given(section, "memory"); given_room != nullptr)
    room = static_cast<double>(given_room->as_bytes().value());
  policy.capacity = room * of_place;
  if (const Settings* placement = given(section, "placement"); placement != nullptr) {
    const std::string word = placement->as_choice({"auto", "table", "row", "column", "data"});
    for (const auto kind : {TablePlacement::table, TablePlacement::row, TablePlacement::column, TablePlacement::data}) {
      if (name_of(kind) == word) policy.placement = kind;
    }
  }
  return policy;
}

bool exchanges_among_nodes(const Settings* section, Job& job) {
  const bool alike = job.machine.gpus % job.machine.gpus_per_node == 0;
  const bool several = job.machine.gpus > job.machine.gpus_per_node && job.machine.gpus_per_node > 1 && alike;
  const Settings* exchange = given(section, "exchange");
  if (exchange == nullptr) {
    if (several) assume(job, "tables.exchange", "hierarchical", "as there are several nodes");
    return several;
  }
  const bool hierarchical = exchange->as_choice({"flat", "hierarchical"}) == "hierarchical";
  if (hierarchical && !alike)
    exchange->fail("got hierarchical, but the last NVLink domain is filled in part, expected flat");
  return hierarchical && several;
}

void place(const Settings* section, Job& job) {
  Recommender& model = job.model.recommender;
  const bool among_nodes = exchanges_among_nodes(section, job);
  workloads::PlacementPolicy policy = load_policy(section, job, among_nodes);
  // At the key that a reader would change first.
  const auto refuse = [&](const std::string& message) {
    for (const char* key : {"memory", "placement", "exchange"}) {
      if (const Settings* member = given(section, key); member != nullptr) member->fail(message);
    }
    if (section != nullptr) section->fail(message);
    throw sim::UserError("tables: " + message);
  };
  if (policy.ranks > kMostPlaces)
    refuse(fmt::format("got {} {} to balance tables over, expected at most {}", policy.ranks,
                       among_nodes ? "nodes" : "GPUs", kMostPlaces));
  if (static_cast<std::int64_t>(model.tables.size()) * policy.ranks > kMostParts)
    refuse(fmt::format("got {} tables over {} {}, expected at most {} parts", model.tables.size(), policy.ranks,
                       among_nodes ? "nodes" : "GPUs", kMostParts));
  std::optional<workloads::TablePlan> plan = place_tables(model, policy);
  if (!plan && given(section, "memory") == nullptr) {  // running out of memory is an answer, not a mistake
    policy.capacity = std::numeric_limits<double>::infinity();
    plan = place_tables(model, policy);
    job.assumptions.push_back(
        "tables.memory is not given: none, as three quarters of the GPU's do not hold the tables.");
  }
  const double bytes = workloads::load_of(model, workloads::all_tables(model)).elements * bytes_of_table_weight(model);
  if (!plan)
    refuse(fmt::format(
        "got tables of {:.4g} GB with their optimizer, which placement {} cannot put on {} {} of {:.4g} "
        "GB each, expected another placement or more GPUs",
        bytes / 1e9, name_of(policy.placement), policy.ranks, among_nodes ? "nodes" : "GPUs", policy.capacity / 1e9));
  plan->ranks = policy.ranks;
  plan->node_ranks = among_nodes ? job.machine.gpus_per_node : 1;
  model.plan = *std::move(plan);
  const workloads::TableLoad load = workloads::load_of(model, model.plan.busiest);
  job.assumptions.push_back(fmt::format(
      "Tables ({:.4g} GB with their optimizer): {} lie on every rank; the busiest {} looks up {:.4g} rows of "
      "a sample and sends {:.4g} vectors, {:.3g} times the mean of all.",
      bytes / 1e9, model.plan.replicated.size(), among_nodes ? "node" : "rank", load.lookups, load.vectors,
      model.plan.imbalance));
  job.assumptions.push_back(
      fmt::format("Look-ups fall on the rows of a table alike{}: what is looked up often in truth, caches serve.",
                  model.distinct < 1 ? fmt::format(", {:g} of them on rows of their own", model.distinct) : ""));
}

/// Seconds of a step at least: bytes of rows over all memories.
void check_length(const Settings& document, const Recommender& model, std::int64_t samples,
                  const workloads::Machine& machine) {
  const double rows =
      workloads::load_of(model, workloads::all_tables(model)).lookups * static_cast<double>(model.width);
  const double wide = static_cast<double>(model.interaction() * (8 * model.cross_layers + 4));
  const double bytes = static_cast<double>(samples) * (4 * rows + 2 * wide);
  const double ideal = bytes / machine.device.memory_bandwidth().value() / static_cast<double>(machine.gpus);
  if (!(ideal <= kLongestIdealStep))
    fail_at(document, "batch.global",
            fmt::format("got a step of at least {:.3g} s on these GPUs, expected at most {:.0e} s", ideal,
                        kLongestIdealStep));
}

}  // namespace

bool trains_recommender(const Settings& document) {
  return is_recommender(resolve(shelf_of("models"), required(document, "model")).document);
}

void refuse_recommender_keys(const Settings& document, const Settings& model) {
  for (const char* key : kModelKeys) {
    if (const Settings* member = given(&model, key); member != nullptr)
      member->fail("got a key of recommenders, expected model.kind: dlrm beside it");
  }
  if (given(&document, "tables") != nullptr)
    fail_at(document, "tables", "got a section of recommenders, expected model.kind: dlrm beside it");
}

void load_recommender(const Settings& document, Job& job) {
  const Resolved resolved = resolve(shelf_of("models"), required(document, "model"));
  check_keys(resolved.document, "model");
  const Settings section = whole_model(resolved.document, job);
  workloads::Model& model = job.model;
  const std::string label = text(&section, "label", "");
  model.name = text(&section, "name", resolved.name.empty() ? label : resolved.name);
  if (model.name.empty()) model.name = "inline";
  load_sizes(section, job);
  model.layers = 1 + std::max<std::int64_t>(1, model.recommender.cross_layers);
  load_layout(document, job);
  if (given(given(&document, "parallelism"), "sharding") == nullptr)
    job.parallelism.sharding = workloads::Sharding::none;  // whatever transformers share out in this software
  load_options(document, job);
  refuse_layouts(document, job.parallelism, job.method);
  load_batch_at_once(document, job);
  drop_assumptions(job);
  const Settings* tables = given(&document, "tables");
  if (tables != nullptr && !tables->is_mapping()) tables->expected("a mapping, as in {placement: row}");
  if (const Settings* optimizer = given(&document, "optimizer"); optimizer == nullptr) {
    job.method.optimizer = workloads::OptimizerKind::adagrad;
    assume(job, "optimizer", "adagrad", "as MLPerf's recommenders train");
  }
  if (const Settings* optimizer = given(tables, "optimizer"); optimizer != nullptr) {
    const std::string word = optimizer->as_choice({"sgd", "rowwise_adagrad", "adagrad"});
    for (const auto kind : {TableOptimizer::sgd, TableOptimizer::rowwise_adagrad, TableOptimizer::adagrad}) {
      if (name_of(kind) == word) model.recommender.table_optimizer = kind;
    }
  }
  model.recommender.distinct = number(tables, "distinct", 1);
  model.recommender.prefetches = boolean(tables, "prefetch", true);
  place(tables, job);
  check_length(document, model.recommender, job.batch.global, job.machine);
  check_job(document, job);
}

}  // namespace orrery::scenarios
