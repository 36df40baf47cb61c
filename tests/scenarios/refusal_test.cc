// Is every mistake refused in one line, at its place, with what was expected?
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/scenarios/expect.h"

using namespace orrery::scenarios;
using orrery::sim::Settings;

namespace {

struct Mistake {
  int line;             // of small_scenario()
  std::string instead;  // what stands there
  std::string place;    // of the complaint, with its key
  std::string right;    // what it says, in part
};

std::string error_at(int line, const std::string& instead) {
  return user_error([&] { load_text(with_line(line, instead)); });
}

void check_all(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    const std::string error = error_at(mistake.line, mistake.instead);
    INFO(mistake.instead << " -> " << error);
    CHECK(error.starts_with("t.yaml:" + mistake.place + ": "));
    CHECK(error.find(mistake.right) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  }
}

}  // namespace

TEST_CASE("the small scenario itself is right") { CHECK(error_at(1, "name: small") == "(no error)"); }

TEST_CASE("unknown keys name the nearest") {
  check_all(
      {{1, "nmae: x", "1:1: nmae", "did you mean \"name\"?"},
       {4, "  gpu: 64", "4:3: cluster.gpu", "did you mean \"gpus\"?"},
       {8, "  hiden: 2048", "8:3: model.hiden", "did you mean \"hidden\"?"},
       {13, "  tenosr: 4", "13:3: parallelism.tenosr", "did you mean \"tensor\"?"},
       {18, "  mirco: 2", "18:3: batch.mirco", "did you mean \"micro\"?"},
       {19, "precision: {matmull: fp8}", "19:13: precision.matmull", "did you mean \"matmul\"?"},
       {19, "overlap: {tensors: true}", "19:11: overlap.tensors", "did you mean \"tensor\"?"},
       {19, "measured: {iteration: 1}", "19:12: measured.iteration", "did you mean \"iteration_s\"?"},
       {19, "perturb: {slow_gpu: []}", "19:11: perturb.slow_gpu", "did you mean \"slow_gpus\"?"},
       {19, "perturb: {failed_links: []}", "19:11: perturb.failed_links", "unknown key"},
       {20, "software: {inherits: megatron-2023, kernel_isue: 3 us}", "20:37: software.kernel_isue", "kernel_issue"}});
}

TEST_CASE("names that nothing is called") {
  check_all({{3, "  device: a100-sxm-80bg", "3:3: cluster.device", "did you mean \"a100-sxm-80gb\"?"},
             {5, "  fabric: selene", "5:3: cluster.fabric", "there is no fabric \"selene\""},
             {20, "software: megatron-20023", "20:1: software", "did you mean \"megatron-2023\"?"},
             {20, "software: {inherits: megatron-2032}", "20:12: software.inherits", "did you mean"},
             {20, "software: {inherits: megatron-2023, schedule: 1f1c}",
              "20:37: software.defaults.parallelism.schedule", "did you mean \"1f1b\"?"},
             {20, "software: [a]", "20:1: software", "expected the name of a software generation"},
             {3, "  device: ..", "3:3: cluster.device", "expected the name of a device profile"},
             {3, "  device: 'a b'", "3:3: cluster.device", "expected the name of a device profile"}});
  CHECK(error_at(3, "  device: /no/such.yaml") == "/no/such.yaml: cannot be read: No such file or directory");
}

TEST_CASE("what must be there") {
  check_all({{3, "", "2:1: cluster.device", "is missing"},
             {4, "", "2:1: cluster.gpus", "is missing"},
             {4, "  gpus: unknown", "4:3: cluster.gpus", "no default"},
             {5, "", "2:1: cluster.fabric", "64 GPUs in nodes of 8 need one"},
             {7, "", "6:1: model.layers", "is missing"},
             {7, "  name: gpt3-6.7b", "7:3: model.name", "and no layers beside it; expected inherits: gpt3-6.7b"},
             {7, "  name: mine", "6:1: model.layers", "is missing"},
             {17, "", "16:1: batch.global", "is missing"}});
}

TEST_CASE("numbers out of range, and words that are none") {
  check_all({{4, "  gpus: 0", "4:3: cluster.gpus", "expected 1 to 1048576"},
             {4, "  gpus: 1048577", "4:3: cluster.gpus", "expected 1 to 1048576"},
             {4, "  gpus: many", "4:3: cluster.gpus", "integer"},
             {4, "  gpus: 64.5", "4:3: cluster.gpus", "integer"},
             {7, "  layers: 10001", "7:3: model.layers", "expected 1 to 10000"},
             {8, "  hidden: -2048", "8:3: model.hidden", "expected 1 to 1000000"},
             {11, "  seq: 100000001", "11:3: model.seq", "expected 1 to 100000000"},
             {17, "  global: 1e400", "17:3: batch.global", "integer"},
             {19, "precision: fp7", "19:1: precision",
              "one of fp32, bf16, fp16, fp8, mxfp8, fp8-blockwise, fp8-rowwise, nvfp4"},
             {19, "recompute: some", "19:1: recompute", "one of none, selective, full, partial"},
             {19, "recompute: {kind: full, layers: 0}", "19:25: recompute.layers", "expected 1 to 10000"},
             {19, "recompute: {kind: none, layers: 2}", "19:25: recompute.layers", "none beside kind: none"},
             {19, "attention: flush", "19:1: attention", "did you mean \"flash\"?"},
             {11, "  seq: 1024\n  gated_mlp: false\n  activation: swiglu", "13:3: model.activation",
              "expected gelu, squared_relu or relu"},
             {19, "extra: {cuda_graph: true}", "19:1: extra", "without 'measured'"},
             {19, "measured: {failed: slow}", "19:12: measured.failed", "crashed_or_oom"},
             {19, "optimizer: adan", "19:1: optimizer", "did you mean \"adam\"?"},
             {15, "  data: 8\n  sharding: zero", "16:3: parallelism.sharding",
              "one of none, optimizer, gradients, parameters"},
             {15, "  data: 8\n  schedule: 1f1c", "16:3: parallelism.schedule", "did you mean \"1f1b\"?"},
             {7, "  layers: 24\n  kind: rnn", "8:3: model.kind", "one of gpt"}});
}

TEST_CASE("types that a device has no arithmetic for") {
  check_all({{19, "precision: fp8", "19:1: precision", "got fp8, which a100-sxm-80gb has no arithmetic for"},
             {19, "precision: fp8-blockwise", "19:1: precision", "expected one of fp32, bf16, fp16"},
             {19, "precision: {activations: fp32}", "19:13: precision.activations", "one of fp16, bf16"}});
  // Volta has no bf16, which is what a scenario trains in unless it says otherwise.
  const auto on_volta = [](const std::string& precision) {
    Settings document = parse_yaml(with_line(19, precision), "t.yaml");
    apply_set(document, "cluster.device=v100-sxm-32gb");
    return user_error([&] { load_scenario(document); });
  };
  for (const char* precision : {"precision: bf16", "optimizer: adam", "precision: {matmul: fp16, activations: bf16}"})
    CHECK(on_volta(precision).find("got bf16, which v100-sxm-32gb has no arithmetic for, expected one of fp32, fp16") !=
          std::string::npos);
  CHECK(on_volta("precision: fp16") == "(no error)");
  // Hopper has fp8, and so what scales it in software; units for blocks of 32 and for 4 bits begin with Blackwell.
  const auto error_on = [](const std::string& device, const std::string& type) {
    Settings document = parse_yaml(with_line(19, "precision: " + type), "t.yaml");
    apply_set(document, "cluster.device=" + device);
    return user_error([&] { load_scenario(document); });
  };
  for (const char* type : {"fp8", "fp8-blockwise", "fp8-rowwise", "fp32"})
    CHECK(error_on("h100-sxm-80gb", type) == "(no error)");
  for (const char* type : {"mxfp8", "nvfp4"}) {
    CHECK(error_on("h100-sxm-80gb", type).find("expected one of fp32, bf16, fp16, fp8, fp8-blockwise, fp8-rowwise") !=
          std::string::npos);
    CHECK(error_on("b200-sxm-180gb", type) == "(no error)");
  }
}

TEST_CASE("NVLink that joins nodes: what a domain holds, and where there is none") {
  const auto error_of = [&](const std::string& cluster) {
    Settings document = parse_yaml(small_scenario(), "t.yaml");
    apply_set(document, "cluster=" + cluster);
    return user_error([&] { load_scenario(document); });
  };
  CHECK(error_of("{device: gb200, gpus: 64, fabric: nvl72-ndr}") == "(no error)");
  CHECK(error_of("{device: gb200, gpus: 64, gpus_per_domain: 26, fabric: nvl72-ndr}")
            .find("a multiple of the 4 GPUs of a node, at most 64") != std::string::npos);
  CHECK(error_of("{device: gb200, gpus: 64, gpus_per_domain: 72, fabric: nvl72-ndr}").find("at most 64") !=
        std::string::npos);
  CHECK(error_of("{device: gb200, gpus: 64, gpus_per_domain: 80, fabric: nvl72-ndr}").find("from 1 to 72") !=
        std::string::npos);
  CHECK(error_of("{device: gb200, gpus: 64, gpus_per_domain: 8, fabric: ndr-rail}").find("NVLink of ndr-rail ends") !=
        std::string::npos);
  CHECK(error_of("{device: gh200-96gb, gpus: 64, fabric: nvl72-ndr}").find("and no NVSwitch") != std::string::npos);
}

TEST_CASE("degrees that do not fit the GPUs") {
  check_all({{15, "  data: 9", "15:3: parallelism.data", "cluster.gpus is 64, expected data: 8"},
             {13, "  tensor: 16", "15:3: parallelism.data", "expected data: 2"},
             {4, "  gpus: 60\n  gpus_per_node: 4", "16:3: parallelism.data", "expected a multiple of 8 GPUs"},
             {4, "  gpus: 60", "4:3: cluster.gpus", "a multiple of 8 GPUs, got 60"},
             {4, "  gpus: 64\n  gpus_per_node: 9", "5:3: cluster.gpus_per_node", "at most 8"},
             {15, "  data: 8\n  context: 2", "15:3: parallelism.data", "x context 2 x data 8, which needs 128 GPUs"},
             {15, "  data: 4\n  context: 2\n  context_method: rings", "17:3: parallelism.context_method",
              "did you mean \"ring\"?"},
             {15, "  data: 1\n  context: 8\n  context_method: all_to_all", "16:3: parallelism.context",
              "divides a tensor rank's of both"},
             {15, "  data: 8\n  sharding: none\n  shard_group: 4", "17:3: parallelism.shard_group", "sharding: none"},
             {15, "  data: 8\n  sharding: optimizer\n  shard_group: 3", "17:3: parallelism.shard_group",
              "a divisor of the 8 ranks"},
             {15, "  data: 8\n  expert: 8", "16:3: parallelism.expert", "has no experts"},
             {5, "  fabric: single-node", "5:3: cluster.fabric", "joins no nodes"}});
  Settings document = parse_yaml(with_line(15, ""), "t.yaml");
  apply_set(document, "parallelism.tensor=3");
  CHECK(user_error([&] {
          load_scenario(document);
        }).starts_with("--set: parallelism.tensor: got tensor 3 x pipeline 2, which does not"));
}

TEST_CASE("sequences that cannot be cut over a context group") {
  const auto error = [](const std::vector<const char*>& changes) {
    Settings document = parse_yaml(small_scenario(), "t.yaml");
    apply_set(document, "parallelism.context=2");
    apply_set(document, "parallelism.data=4");
    for (const char* change : changes) apply_set(document, change);
    return user_error([&] { load_scenario(document); });
  };
  CHECK(error({}) == "(no error)");
  CHECK(error({"model.seq=1026"}).find("expected one whose 2 x context = 4 divides it") != std::string::npos);
  CHECK(error({"attention=unfused"}).find("got a split with unfused attention, expected 1, or attention: flash") !=
        std::string::npos);
  CHECK(error({"model.attention_window=128"}).find("with model.attention_window 128, expected 1") != std::string::npos);
}

TEST_CASE("batches that do not fit the layout") {
  check_all({{17, "  global: 250", "17:3: batch.global", "a multiple of data 8 x micro 2 = 16, got 250"},
             {18, "  micro: 3", "17:3: batch.global", "a multiple of data 8 x micro 3 = 24, got 256"},
             {18, "  document_tokens: 2048", "18:3: batch.document_tokens",
              "got \"2048\", expected at most model.seq, which is 1024"},
             {18, "  document_tokens: 0", "18:3: batch.document_tokens", "expected 1 to 100000000"}});
  // 15 micro-batches are no multiple of 2 stages.
  Settings document = parse_yaml(small_scenario(), "t.yaml");
  apply_set(document, "batch.global=240");
  CHECK(user_error([&] { load_scenario(document); }) == "(no error)");
  apply_set(document, "parallelism.virtual_pipeline=2");
  CHECK(user_error([&] {
          load_scenario(document);
        }).starts_with("--set: batch.global: gives 15 micro-batches per rank (global 240 / data 8 / micro 2)"));
}

TEST_CASE("models that do not divide") {
  check_all(
      {{9, "  heads: 18", "9:3: model.heads", "a divisor of hidden 2048, got 18"},
       {9, "  heads: 16\n  kv_heads: 5", "10:3: model.kv_heads", "a divisor of heads 16, got 5"},
       {9, "  heads: 2", "13:3: parallelism.tensor", "a divisor of model.heads, which is 2, got 4"},
       {9, "  heads: 16\n  kv_heads: 2", "14:3: parallelism.tensor", "model.kv_heads, which is 2, got 4"},
       {9, "  heads: 16\n  ffn_hidden: 8190", "14:3: parallelism.tensor", "model.ffn_hidden, which is 8190, got 4"},
       {11, "  seq: 1022\nx: 1", "12:1: x", "unknown key"}});
  Settings document = parse_yaml(with_line(15, "  data: 8\n  sequence_parallel: true"), "t.yaml");
  CHECK(user_error([&] { load_scenario(document); }) == "(no error)");
  apply_set(document, "model.seq=1022");
  CHECK(user_error([&] {
          load_scenario(document);
        }).starts_with("t.yaml:16:3: parallelism.sequence_parallel: got true with model.seq"));
}

TEST_CASE("pipelines that cannot be") {
  // 24 layers with embedding and head are 26 cells: 2 stages x 13 chunks fit, 14 do not.
  CHECK(error_at(14, "  pipeline: 2\n  virtual_pipeline: 13") == "(no error)");
  check_all(
      {{14, "  pipeline: 2\n  virtual_pipeline: 14", "15:3: parallelism.virtual_pipeline", "more chunks than layers"},
       {14, "  pipeline: 2\n  virtual_pipeline: 2\n  schedule: 1f1b", "16:3: parallelism.schedule",
        "expected interleaved_1f1b"},
       {14, "  pipeline: 2\n  virtual_pipeline: 3\n  schedule: zb_v", "16:3: parallelism.schedule",
        "expected 2 or none"},
       {14, "  pipeline: 2\n  stage_layers: [12, 13]", "15:3: parallelism.stage_layers",
        "sum to 25, expected 2 numbers"},
       {14, "  pipeline: 2\n  stage_layers: [24]", "15:3: parallelism.stage_layers", "got 1 numbers"},
       {14, "  pipeline: 2\n  stage_layers: 12", "15:3: parallelism.stage_layers", "something else than a list"}});
  // nanotron's 24 layers are 28 blocks.
  for (const int stages : {26, 27, 28, 29}) {
    const std::string many = std::to_string(stages);
    Settings blocks = parse_yaml(small_scenario(), "t.yaml");
    for (const std::string& change : std::vector<std::string>{
             "software=nanotron-2025", "parallelism.pipeline=" + many, "parallelism.data=1", "parallelism.tensor=1",
             "batch.global=8", "cluster.gpus=" + many, "cluster.gpus_per_node=1"})
      apply_set(blocks, change);
    const std::string said = user_error([&] { load_scenario(blocks); });
    CAPTURE(stages, said);
    CHECK((said == "(no error)") == (stages <= 28));
  }
  Settings document = parse_yaml(small_scenario(), "t.yaml");
  for (const char* change : {"parallelism.pipeline=1", "parallelism.data=16", "parallelism.virtual_pipeline=2"}) {
    apply_set(document, change);
  }
  CHECK(user_error([&] {
          load_scenario(document);
        }).starts_with("--set: parallelism.virtual_pipeline: got 2 with one pipeline"));
  Settings odd = parse_yaml(small_scenario(), "t.yaml");
  for (const char* change : {"parallelism.pipeline=1", "parallelism.data=16", "parallelism.schedule=dualpipe"})
    apply_set(odd, change);
  CHECK(user_error([&] { load_scenario(odd); }).find("parallelism.pipeline: got 1 with dualpipe") != std::string::npos);
  Settings few = parse_yaml(small_scenario(), "t.yaml");  // 48 / data 8 / micro 2 = 3 micro-batches
  for (const char* change : {"batch.global=48", "parallelism.schedule=dualpipe"}) apply_set(few, change);
  CHECK(user_error([&] { load_scenario(few); }).find("dualpipe needs an even number of at least 2 x pipeline = 4") !=
        std::string::npos);
  // Fewer micro-batches than stages are fine for the others.
  for (const char* schedule : {"zb_h1", "zb_h2", "zb_v", "v_half", "v_min"}) {
    Settings one = parse_yaml(small_scenario(), "t.yaml");
    for (const std::string& change : {std::string("batch.global=16"), std::string("parallelism.schedule=") + schedule})
      apply_set(one, change);
    CHECK(user_error([&] { load_scenario(one); }) == "(no error)");
  }
  Settings deep = parse_yaml(small_scenario(), "t.yaml");
  for (const char* change : {"cluster.gpus=32768", "parallelism.pipeline=1024", "parallelism.tensor=4"})
    apply_set(deep, change);
  CHECK(user_error([&] { load_scenario(deep); }).starts_with("--set: parallelism.pipeline: more chunks than layers"));
}

TEST_CASE("sizes that no plan could hold") {
  // 16 million sequences / data 8 / micro 2 = a million micro-batches of 24 layers.
  check_all({{17, "  global: 16000000", "17:3: batch.global", "too many operations"},
             {11, "  seq: 100000000", "17:3: batch.global", "got a step of at least"}});
  Settings document = parse_yaml(small_scenario(), "t.yaml");
  for (const char* change : {"model.hidden=1000000", "model.layers=10000"}) apply_set(document, change);
  CHECK(user_error([&] { load_scenario(document); }).find("parameters, expected at most 1e+15") != std::string::npos);
}

TEST_CASE("fp8 needs a device that has it") {
  check_all({{19, "precision: fp8", "19:1: precision", "a100-sxm-80gb has no arithmetic for"}});
}

TEST_CASE("placement and perturbation name the culprit") {
  check_all(
      {{19, "placement: {order: [tensor, data, pipeline]}", "19:13: placement.order", "each of tensor, context, data"},
       {19, "placement: {order: [data, data, tensor, pipeline]}", "19:27: placement.order[1]", "a second time"},
       {19, "placement: {order: [width]}", "19:21: placement.order[0]", "one of tensor, context, data, pipeline"},
       {19, "placement: {gpus: [0, 1]}", "19:13: placement.gpus", "got 2 GPUs, expected all 64"},
       {19, "placement: {gpus: [0, 0]}", "19:23: placement.gpus[1]", "GPU 0 a second time"},
       {19, "placement: {gpus: [64]}", "19:20: placement.gpus[0]", "from 0 to 63, got \"64\""},
       {19, "placement: {gpus: [0], random_seed: 1}", "19:1: placement", "more than one of"},
       {19, "perturb: {slow_gpus: [{gpu: 64, slowdown: 2}]}", "19:24: perturb.slow_gpus[0].gpu", "from 0 to 63"},
       {19, "perturb: {slow_gpus: [{gpu: 1, slowdown: 0}]}", "19:32: perturb.slow_gpus[0].slowdown",
        "expected 0.1 to 1000"},
       {19, "perturb: {slow_gpus: [{gpu: 1}]}", "19:23: perturb.slow_gpus[0].slowdown", "is missing"},
       {19, "perturb: {slow_gpus: 3}", "19:11: perturb.slow_gpus", "expected a list"},
       {19, "perturb: {slow_nics: [{node: 8, nic: 0, rate: 1}]}", "19:24: perturb.slow_nics[0].node", "from 0 to 7"},
       {19, "perturb: {slow_nics: [{node: 0, nic: 0, rate: 0}]}", "19:41: perturb.slow_nics[0].rate",
        "expected 0.001 to 1"},
       {19, "perturb: {jitter: {sigma: 2}}", "19:20: perturb.jitter.sigma", "expected 0 to 1"},
       {19, "evaluation: {every_steps: 0, sequences: 4}", "19:14: evaluation.every_steps", "expected 1"},
       {19, "measured: {iteration_s: fast}", "19:12: measured.iteration_s", "number"}});
}

TEST_CASE("graphs and tori name what is wrong with their links") {
  const std::string graph = "  fabric: {kind: graph, nic_rate: 100 Gb/s, links: [";
  const std::string torus = "  fabric: {kind: torus, nic_rate: 100 Gb/s, dimensions: ";
  check_all({
      {5, graph + "{ends: [a, a]}], attach: [a]}", "5:54: cluster.fabric.links[0].ends", "joins a to itself"},
      {5, graph + "{ends: [a, b]}, {ends: [b, a]}], attach: [a]}", "5:70: cluster.fabric.links[1].ends",
       "b and a are joined twice"},
      {5, graph + "{ends: [a, b], rate: 0 Gb/s}], attach: [a]}", "5:68: cluster.fabric.links[0].rate", "0 Gb/s"},
      {5, graph + "{ends: [a, b], rate: -1 Gb/s}], attach: [a]}", "5:68: cluster.fabric.links[0].rate", "-1 Gb/s"},
      {5, graph + "{ends: [a, b], lanes: 0}], attach: [a]}", "5:68: cluster.fabric.links[0].lanes", "expected 1 to"},
      {5, graph + "{ends: [a, b]}], attach: [a, c, a, b, a, b, a, b]}", "5:82: cluster.fabric.attach[1]",
       "got 'c', which no link joins"},
      {5, graph + "{ends: [a, b]}], attach: [a, b]}", "5:3: cluster.fabric", "8 nodes, but fabric inline attaches 2"},
      {5, graph + "{ends: [a, b]}, {ends: [c, d]}], attach: [a, c, a, b, a, b, a, b]}", "5:3: cluster.fabric",
       "is in pieces: node 0 and node 1 have no way to each other"},
      {5, torus + "[4, 0]}", "5:61: cluster.fabric.dimensions[1]", "expected 1"},
      {5, torus + "[2, 2]}", "5:3: cluster.fabric", "8 nodes are too many"},
      {5, torus + "8}", "5:45: cluster.fabric.dimensions", "expected a list"},
      {5, torus + "[8], routing: ecmp}", "5:62: cluster.fabric.routing", "needs an ecmp_seed"},
      {5, "  fabric: {kind: fat_tree, nic_rate: 100 Gb/s, dimensions: [8]}", "5:48: cluster.fabric.dimensions",
       "has no meaning for a fabric of kind fat_tree"},
      {5, "  fabric: {kind: fat_tree, nic_rate: 100 Gb/s, routing: spray, ecmp_seed: 3}",
       "5:64: cluster.fabric.ecmp_seed", "has no meaning with routing spray"},
  });
  CHECK(error_at(5, graph + "{ends: [a, b]}], attach: [a, b, a, b, a, b, a, b]}") == "(no error)");
  CHECK(error_at(5, torus + "[2, 4]}") == "(no error)");
}

TEST_CASE("faults name what they cut, and what is not there") {
  check_all({
      {19, "perturb: {lost_links: [{between: [n0 nic0, leaf u9 r0]}]}", "19:25: perturb.lost_links[0].between",
       "got 'leaf u9 r0', which names nothing"},
      {19, "perturb: {lost_links: [{between: [n0 nic0]}]}", "19:25: perturb.lost_links[0].between",
       "expected two ends"},
      {19, "perturb: {slow_links: [{between: [n0 nic0, leaf u0 r0], rate: 0}]}", "19:57: perturb.slow_links[0].rate",
       "expected 0.001 to 1"},
      {19, "perturb: {lost_switches: [leaf u0]}", "19:27: perturb.lost_switches[0]", "which names nothing"},
      {19,
       "perturb: {lost_switches: [leaf u0 r0, leaf u0 r1, leaf u0 r2, leaf u0 r3, leaf u0 r4, leaf u0 r5, leaf u0 r6, "
       "leaf u0 r7]}",
       "19:27: perturb.lost_switches[0]", "cuts the cluster: node 0 and node 1 have no way to each other"},
      {19, "perturb: {background: {leaf: 1}}", "19:24: perturb.background.leaf", "expected 0 to 0.99"},
      {19, "perturb: {background: {node: 0.5}}", "19:24: perturb.background.node", "unknown key"},
      {19, "perturb: {message_jitter: {sigma: 4}}", "19:28: perturb.message_jitter.sigma", "expected 0 to 3"},
      {19, "placement: {by: rail, random_seed: 1}", "19:13: placement.by", "has no meaning with random_seed"},
      {19, "placement: {by: rack}", "19:13: placement.by", "one of node, rail, pod"},
  });
}

TEST_CASE("sections that are no mappings") {
  check_all({{1, "measured: 3", "1:1: measured", "expected a mapping"},
             {1, "placement: tensor", "1:1: placement", "expected a mapping"},
             {1, "overlap: maybe", "1:1: overlap", "true or false"}});
  CHECK(user_error([] { load_text("- 1\n"); }).find("expected a scenario") != std::string::npos);
  CHECK(user_error([] { load_text("cluster: 8\n"); }).starts_with("t.yaml:1:1: cluster: expected a mapping"));
}

TEST_CASE("inheritance that never ends") {
  const auto folder = std::filesystem::temp_directory_path() / "orrery_refusal_test";
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const std::string& text) { std::ofstream(folder / name) << text; };
  write("a.yaml", "inherits: ./b.yaml\n");
  write("b.yaml", "inherits: ./a.yaml\n");
  CHECK(error_at(20, "software: " + (folder / "a.yaml").string()).find("inherits this very document") !=
        std::string::npos);
  for (int i = 0; i < 40; ++i) {
    write(fmt::format("c{}.yaml", i), fmt::format("inherits: ./c{}.yaml\n", i + 1));
  }
  CHECK(error_at(20, "software: " + (folder / "c0.yaml").string()).find("more than 16 files") != std::string::npos);
  // A path is relative to the file that names it, and may inherit a shipped generation.
  write("mine.yaml", "name: mine\ninherits: megatron-2023\nkernel_issue: 9 us\n");
  const auto job = load_text(with_line(20, "software: " + (folder / "mine.yaml").string())).job;
  CHECK(job.software.name == "mine");
  CHECK(job.software.host.kernel_issue == orrery::sim::microseconds(9));
  std::filesystem::remove_all(folder);
}
