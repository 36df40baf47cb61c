// Recommenders in the scenario language: what is left open, and what is refused in one line at its place.
#include "tests/catch.h"
#include "tests/scenarios/expect.h"
#include "workloads/step/step.h"

using namespace orrery::scenarios;
using orrery::workloads::Job;

namespace {

constexpr const char* kText = R"(name: small
cluster: {device: h100-sxm-80gb, gpus: 8}
model: {kind: dlrm, dense_features: 8, bottom_mlp: [64, 16], table_width: 16, table_rows: [1000, 64],
  table_lookups: [4, 2], top_mlp: [128, 1]}
batch: {global: 4096}
precision: fp16
software: hugectr
)";

orrery::sim::Settings document(const std::vector<std::string>& sets) {
  orrery::sim::Settings read = parse_yaml(kText, "t.yaml");
  for (const std::string& set : sets) apply_set(read, set);
  return read;
}

Job job_of(const std::vector<std::string>& sets) { return load_scenario(document(sets)).job; }

bool assumes(const Job& job, const std::string& begin) {
  for (const std::string& line : job.assumptions) {
    if (line.starts_with(begin)) return true;
  }
  return false;
}

struct Mistake {
  std::vector<std::string> sets;
  std::string key, right;
};

}  // namespace

TEST_CASE("a recommender takes its part of the batch at once, on every GPU") {
  const Job job = job_of({});
  CHECK(job.parallelism.data == 8);
  CHECK(job.batch.micro == 512);
  CHECK(job.model.seq == 1);
  CHECK(job.model.recommender.tables.size() == 2);
  CHECK(job.model.recommender.plan.ranks == 8);
  CHECK(job.method.optimizer == orrery::workloads::OptimizerKind::adagrad);
  CHECK_FALSE(assumes(job, "attention"));  // it has none
  CHECK(job_of({"batch.micro=512"}).batch.micro == 512);
}

TEST_CASE("a recommender of which only the kind is given is MLPerf's") {
  const Job job = job_of({"model={kind: dlrm, label: DLRM dcnv2 (MLPerf)}", "batch.global=55296"});
  CHECK(job.model.recommender.tables.size() == 26);
  CHECK(job.model.name == "DLRM dcnv2 (MLPerf)");
  CHECK(assumes(job, "model gives no sizes: those of dlrm-dcnv2"));
}

TEST_CASE("several nodes exchange node by node, unless they are told not to") {
  const std::vector<std::string> nodes{"cluster.gpus=16", "cluster.fabric=ndr-rail"};
  CHECK(job_of(nodes).model.recommender.plan.ranks == 2);
  CHECK(job_of(nodes).model.recommender.plan.node_ranks == 8);
  CHECK(assumes(job_of(nodes), "tables.exchange is not given: hierarchical"));
  const auto flat = job_of({nodes[0], nodes[1], "tables.exchange=flat"}).model.recommender.plan;
  CHECK(flat.ranks == 16);
  CHECK(flat.node_ranks == 1);
}

TEST_CASE("tables that do not fit are placed all the same, unless their memory is given") {
  const std::vector<std::string> large{"tables={placement: table}", "model.table_rows=[1000000000, 64]"};
  const Job job = job_of(large);
  CHECK(assumes(job, "tables.memory is not given: none"));
  CHECK_FALSE(orrery::workloads::simulate_step(job).memory.fits);
}

TEST_CASE("mistakes about recommenders are one line that names the key and what was expected") {
  const std::string gpt = "model={kind: gpt, layers: 8, hidden: 2048, heads: 16, vocab: 51200, seq: 1024";
  for (const Mistake& mistake : std::vector<Mistake>{
           {{"model.layers=4"}, "model.layers", "got a key of transformers beside kind: dlrm"},
           {{"model.table_rows=[]"}, "model.table_rows", "expected a list of 1 to 4096 numbers"},
           {{"model.table_lookups=[4]"}, "model.table_lookups", "expected one for each of the 2 tables"},
           {{"model.bottom_mlp=[64, 8]"}, "model.bottom_mlp", "expected model.table_width, which is 16"},
           {{"model.cross_layers=2"}, "model.cross_rank", "missing"},
           {{"parallelism={tensor: 2}"}, "parallelism.tensor", "expected 1"},
           {{"parallelism={sharding: optimizer}"}, "parallelism.sharding", "expected none"},
           {{"recompute=full"}, "recompute", "expected none"},
           {{"precision=fp8"}, "precision", "expected fp32, bf16 or fp16"},
           {{"batch.global=12"}, "batch.global", "expected a multiple of"},
           {{"batch.micro=256"}, "batch.micro", "expected 512 or none"},
           {{"tables={placement: rows}"}, "tables.placement", "row"},
           {{"tables={memory: 1 MB}", "model.table_rows=[100000000, 64]"},
            "tables.memory",
            "expected another placement"},
           {{"tables={placement: table, memory: 60 GB}", "model.table_rows=[1000000000, 64]"},
            "tables.memory",
            "more GPUs"},
           {{"finetune={kind: lora, rank: 16}"}, "finetune", ""},
           {{gpt + ", table_rows: [4]}"}, "model.table_rows", "expected model.kind: dlrm beside it"},
           {{gpt + "}", "tables={placement: row}"}, "tables", "expected model.kind: dlrm beside it"}}) {
    const std::string error = user_error([&] { load_scenario(document(mistake.sets)); });
    INFO(mistake.sets.front() << " -> " << error);
    CHECK(error.find(mistake.key + ": ") != std::string::npos);
    CHECK(error.find(mistake.right) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  }
}
