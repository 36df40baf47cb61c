// Do recommenders hold, compute and exchange what their tables and layers say? Expectations are derived from sizes.
#include <cmath>

#include "scenarios/scenario.h"
#include "tests/catch.h"
#include "workloads/model/families/families.h"
#include "workloads/model/table_placement.h"
#include "workloads/step/step.h"

using namespace orrery;
using namespace orrery::workloads;

namespace {

/// Four tables of width 16, of which samples look up 4, 2, 1 and 1 rows; 1M, 4096, 64 and 64 rows.
Job recommender_job(const std::vector<std::string>& sets = {}) {
  static const char* const text = R"(
name: recommender
cluster: {device: h100-sxm-80gb, gpus: 8}
model: {kind: dlrm, dense_features: 8, bottom_mlp: [64, 16], table_width: 16, table_rows: [1000000, 4096, 64, 64],
        table_lookups: [4, 2, 1, 1], cross_layers: 2, cross_rank: 32, top_mlp: [128, 1]}
batch: {global: 65536}
precision: fp16
tables: {placement: row, replicate_below: 0 B}
software: hugectr
)";
  sim::Settings document = scenarios::parse_yaml(text, "recommender.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return scenarios::load_scenario(document).job;
}

StepReport step(const std::vector<std::string>& sets) { return simulate_step(recommender_job(sets)); }
double step_seconds(const std::vector<std::string>& sets) { return sim::to_seconds(step(sets).iteration); }
double waiting_for_tables(const StepReport& report) {
  return report.breakdown_s[static_cast<std::size_t>(Category::table_comm)];
}

const TrafficRow& row(const StepReport& report, const std::string& what) {
  for (const TrafficRow& r : report.traffic) {
    if (r.what == what) return r;
  }
  FAIL("no row " << what);
  return report.traffic.front();
}

/// Tables of one row each, which samples look up so often.
Recommender looked_up(const std::vector<std::int64_t>& lookups) {
  Recommender model;
  model.width = 4;
  for (const std::int64_t n : lookups) model.tables.push_back({8, n});
  return model;
}

const std::vector<std::string> kTwoNodes{"cluster.gpus=16", "cluster.fabric=ndr-rail"};

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

}  // namespace

TEST_CASE("a recommender weighs its tables and its layers, and computes six FLOPs a weight of a layer and sample") {
  const Job job = recommender_job();
  const double tables = (1000000 + 4096 + 64 + 64) * 16.0;
  // Five vectors of 16 side by side; products and biases.
  const double bottom = 8 * 64 + 64 * 16, cross = 2 * (80 * 32 + 32 * 80), top = 80 * 128 + 128 * 1;
  const double biases = 64 + 16 + 2 * (32 + 80) + 128 + 1;
  CHECK(parameter_count(job.model) == Approx(tables + bottom + cross + top + biases));
  CHECK(model_flops(job.model, 10) == Approx(6 * 10 * (bottom + cross + top)));
}

TEST_CASE("MLPerf's recommender has 26.1 billion weights in tables and 16 million in layers") {
  sim::Settings document = scenarios::parse_yaml(
      "name: x\ncluster: {device: h100-sxm-80gb, gpus: 8}\nmodel: dlrm-dcnv2\nbatch: {global: 55296}\n"
      "precision: fp16\nsoftware: hugectr\n",
      "x.yaml");
  const Recommender model = scenarios::load_scenario(document).job.model.recommender;
  const double rows = 5 * 40e6 + 39060 + 17295 + 7424 + 20265 + 3 + 7122 + 1543 + 63 + 3067956 + 405282 + 10 + 2209 +
                      11938 + 155 + 4 + 976 + 14 + 590152 + 12973 + 108 + 36;
  CHECK(load_of(model, all_tables(model)).elements == Approx(rows * 128));
  CHECK(load_of(model, all_tables(model)).lookups == 214);
  CHECK(model.interaction() == 27 * 128);
}

TEST_CASE("n look-ups meet r (1 - (1 - 1/r)^n) of r rows") {
  Recommender model = looked_up({1});
  model.tables[0].rows = 2;
  CHECK(distinct_rows(model, all_tables(model), 1) == Approx(1));
  CHECK(distinct_rows(model, all_tables(model), 2) == Approx(1.5));
  CHECK(distinct_rows(model, all_tables(model), 1e6) == Approx(2));
  // A table without end repeats nothing, but for what the model says.
  model.tables[0].rows = std::int64_t{1} << 60;
  CHECK(distinct_rows(model, all_tables(model), 1000) == Approx(1000));
  model.distinct = 0.25;
  CHECK(distinct_rows(model, all_tables(model), 1000) == Approx(250));
}

TEST_CASE("the balancer puts tables where least is looked up, and cuts a hot one") {
  PlacementPolicy policy;
  policy.ranks = 2;
  policy.capacity = 1e9;
  policy.vector_cost = 0;
  // 4 | 2 + 2: nothing to cut.
  const auto even = place_tables(looked_up({4, 2, 2}), policy);
  REQUIRE(even.has_value());
  CHECK(even->imbalance == Approx(1));
  CHECK(load_of(looked_up({4, 2, 2}), even->busiest).lookups == Approx(4));
  // 100 on one rank against 2: in halves, 50 + 1 | 50 + 1.
  const Recommender hot = looked_up({100, 1, 1});
  const auto cut = place_tables(hot, policy);
  REQUIRE(cut.has_value());
  CHECK(load_of(hot, cut->busiest).lookups == Approx(51));
  CHECK(cut->imbalance == Approx(1));
  // Vectors that cost as much as 1000 rows are not worth it: 100 + a vector | 2 + two vectors.
  policy.vector_cost = 1000;
  const auto whole = place_tables(hot, policy);
  REQUIRE(whole.has_value());
  CHECK(whole->vectors == Approx(3));
  // Whole tables, by order.
  policy.placement = TablePlacement::table;
  CHECK(place_tables(hot, policy)->vectors == Approx(3));
  policy.placement = TablePlacement::row;
  CHECK(place_tables(hot, policy)->vectors == Approx(6));
  policy.placement = TablePlacement::column;
  CHECK(place_tables(hot, policy)->vectors == Approx(3));
  policy.placement = TablePlacement::data;
  CHECK(place_tables(hot, policy)->replicated.size() == 3);
}

TEST_CASE("tables are placed within the memory there is, or not at all") {
  PlacementPolicy policy;
  policy.ranks = 2;
  const Recommender model = looked_up({1, 1, 1});  // 8 rows x 4 x 8 bytes each
  policy.placement = TablePlacement::table;
  policy.capacity = 2 * 256;
  CHECK(load_of(model, place_tables(model, policy)->fullest).elements == Approx(2 * 32));
  policy.capacity = 256;  // three tables on two ranks
  CHECK_FALSE(place_tables(model, policy).has_value());
  policy.placement = TablePlacement::automatic;
  CHECK_FALSE(place_tables(model, policy).has_value());
  policy.capacity = 1.5 * 256;  // in halves they fit
  REQUIRE(place_tables(model, policy).has_value());
  CHECK(load_of(model, place_tables(model, policy)->fullest).elements == Approx(1.5 * 32));
  policy.placement = TablePlacement::data;
  CHECK_FALSE(place_tables(model, policy).has_value());
}

TEST_CASE("what crosses the links is what the sizes say, by formula and by count") {
  for (const auto& sets :
       std::vector<std::vector<std::string>>{{},
                                             {"tables.placement=table"},
                                             {"tables.placement=column"},
                                             {"tables.placement=auto"},
                                             {"tables.placement=auto", "tables.replicate_below=1 MB"},
                                             {"tables.placement=data"},
                                             with(kTwoNodes, {}),
                                             with(kTwoNodes, {"tables.exchange=flat"}),
                                             with(kTwoNodes, {"tables.placement=auto"})}) {
    const StepReport report = step(sets);
    for (const TrafficRow& r : report.traffic) {
      INFO(fmt::format("{}: {}", fmt::join(sets, " "), r.what));
      CHECK(r.closed_form_bytes == Approx(r.simulated_bytes));
      CHECK(r.simulated_bytes > 0);
    }
  }
  // Cut by rows over 8 GPUs, each sends 7/8 of four vectors of 16 fp16 for each of 65536 samples.
  CHECK(row(step({}), "vectors, forward").simulated_bytes == Approx(8 * 7.0 / 8 * 65536 * 4 * 16 * 2));
  // Eight look-ups a sample, 4 bytes each, from each rank's 8192 samples to 7 others of 8.
  CHECK(row(step({}), "keys").simulated_bytes == Approx(7 * 8192 * 8 * 4.0));
  // Among two nodes each GPU sends half of an eighth of its node's vectors, after 7/8 inside the node.
  const StepReport nodes = step(kTwoNodes);
  CHECK(row(nodes, "vectors, forward").simulated_bytes == Approx(16 * 0.5 * 65536 * 4 * 16 * 2 / 8));
  CHECK(row(nodes, "vectors inside the node").simulated_bytes == Approx(16 * 7.0 / 8 * 65536 * 4 * 16 * 2));
}

TEST_CASE("tables that lie on every rank are exchanged by nobody, and their gradients by all") {
  const StepReport own = step({"tables.placement=data"}), shared = step({});
  CHECK(waiting_for_tables(own) == 0);
  const auto reduced = [](const StepReport& report) {
    double sum = 0;
    for (const TrafficRow& r : report.traffic) sum += r.dimension == "data" ? r.simulated_bytes : 0;
    return sum;
  };
  // 1,004,224 rows of 16 fp16 gradients: 2 x 7/8 of them for each of 8 GPUs.
  CHECK(reduced(own) - reduced(shared) == Approx(8 * 2 * 7.0 / 8 * 1004224 * 16 * 2));
}

TEST_CASE("tables take four bytes a weight, and as many again for AdaGrad") {
  const auto bytes = [](const std::vector<std::string>& sets) {
    const StageMemory m = step(sets).memory.stages.front();
    return m.parameters + m.optimizer;
  };
  const double weights = 1004224 * 16.0 / 8;  // of each of 8 GPUs
  const double sgd = bytes({"tables.optimizer=sgd"});
  CHECK(bytes({"tables.optimizer=adagrad"}) - sgd == Approx(4 * weights));
  CHECK(bytes({"tables.optimizer=rowwise_adagrad"}) - sgd == Approx(4 * weights / 16));
  CHECK(bytes({"tables.optimizer=sgd", "model.table_rows=[2000000, 4096, 64, 64]"}) - sgd == Approx(4 * 1e6 * 16 / 8));
}

TEST_CASE("look-ups wait for the memory, exchanges for the links") {
  // Many look-ups of wide rows: half the memory's bandwidth takes nearly twice as long, half the links' hardly longer.
  const std::vector<std::string> wide{"model.table_lookups=[800, 400, 1, 1]", "tables.distinct=1"};
  const double base = step_seconds(wide);
  CHECK(step_seconds(with(wide, {"cluster.device.memory_bandwidth=1.675 TB/s"})) > 1.6 * base);
  // Across a network of a hundredth of its rate the exchange is what is waited for.
  const StepReport slow = step(with(kTwoNodes, {"cluster.fabric={inherits: ndr-rail, nic_rate: 4 Gb/s}"}));
  CHECK(waiting_for_tables(slow) > 0.3 * sim::to_seconds(slow.iteration));
  CHECK(waiting_for_tables(slow) > 10 * waiting_for_tables(step(kTwoNodes)));
}

TEST_CASE("keys of the next batch are sorted while nothing else can be done, unless this batch's come first") {
  CHECK(step_seconds({"tables.prefetch=false"}) >= step_seconds({}));
}

TEST_CASE("a folded recommender's step is that of all its ranks") {
  for (const auto& sets : {std::vector<std::string>{}, kTwoNodes}) {
    Question full;
    full.ranks = Question::Ranks::every;
    CHECK(simulate_step(recommender_job(sets), full).iteration == simulate_step(recommender_job(sets)).iteration);
  }
}

TEST_CASE("a look-up of a narrow part of a row moves a sector of 32 bytes") {
  Recommender model = looked_up({10});
  model.width = 64;
  const auto lookups = [&](double columns) { return load_of(model, {{0, 1, columns}}).lookups; };
  CHECK(lookups(1) == Approx(10));
  CHECK(lookups(0.5) == Approx(5));
  CHECK(lookups(1.0 / 8) == Approx(10.0 / 8));   // 8 floats
  CHECK(lookups(1.0 / 64) == Approx(10.0 / 8));  // one
}
