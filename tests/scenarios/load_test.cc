// Does a scenario become the job that it means, and do its defaults say that they were taken?
#include <algorithm>
#include <sstream>

#include "tests/catch.h"
#include "tests/scenarios/expect.h"
#include "workloads/schedules/catalogue.h"
#include "workloads/step/steady_clock.h"
#include "workloads/step/step.h"

using namespace orrery::scenarios;
using orrery::sim::Settings;
namespace workloads = orrery::workloads;
using workloads::DataType;
using workloads::Job;

namespace {

bool assumes(const Job& job, const std::string& text) {
  return std::any_of(job.assumptions.begin(), job.assumptions.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

Job job_with(int line, const std::string& text) { return load_text(with_line(line, text)).job; }

Job job_set(const std::string& assignment) {
  Settings document = parse_yaml(small_scenario(), "t.yaml");
  apply_set(document, assignment);
  return load_scenario(document).job;
}

}  // namespace

TEST_CASE("what is given arrives") {
  const Scenario scenario = load_text(small_scenario());
  const Job& job = scenario.job;
  CHECK(scenario.id == "small");
  CHECK(job.name == "small");
  CHECK(job.machine.device.name() == "a100-sxm-80gb");
  CHECK(job.machine.fabric.name == "selene-hdr");
  CHECK(job.software.name == "megatron-2023");
  CHECK(job.machine.gpus == 64);
  CHECK(job.machine.gpus_per_node == 8);
  CHECK(job.model.layers == 24);
  CHECK(job.parallelism.tensor == 4);
  CHECK(job.parallelism.data == 8);
  CHECK(job.microbatches() == 256 / (8 * 2));
  CHECK(job.method.precision.matmul == DataType::bf16);
  CHECK_FALSE(scenario.measured);
}

TEST_CASE("what is left out takes the documented default and says so") {
  const Job job = load_text(small_scenario()).job;
  CHECK(job.model.attention.kv_heads == 16);
  CHECK(job.model.mlp.hidden == 4 * 2048);
  CHECK(job.model.attention.window == 0);
  CHECK(job.model.tied_embeddings);
  CHECK(job.parallelism.virtual_pipeline == 1);
  CHECK(job.method.recompute == job.software.defaults.recompute);
  CHECK(job.method.attention == job.software.defaults.attention);
  CHECK(job.parallelism.sharding == job.software.defaults.sharding);
  CHECK(job.parallelism.sequence_parallel == job.software.defaults.sequence_parallel);
  CHECK(job.overlap.gradients == job.software.defaults.overlap_gradients);
  for (const char* key :
       {"recompute is not given: ", "attention is not given: ", "parallelism.sharding is not given: ",
        "parallelism.sequence_parallel is not given: ", "parallelism.schedule is not given: 1f1b",
        "overlap is not given", "optimizer is not given: adam", "cluster.gpus_per_node is not given: 8",
        "model.attention_window is not given: none", "model.kv_heads is not given: 16"}) {
    INFO(key);
    CHECK(assumes(job, key));
  }
  CHECK_FALSE(assumes(job, "software is not given"));
  CHECK(assumes(job_with(20, ""), "software is not given: megatron-core-0.16"));
  CHECK(assumes(job_with(18, ""), "batch.micro is not given: 1"));
  const Job derived = job_with(15, "");
  CHECK(derived.parallelism.data == 64 / (4 * 2));
  CHECK(assumes(derived, "parallelism.data is not given: 8"));
  CHECK(assumes(job_with(19, ""), "precision is not given: bf16"));
}

TEST_CASE("unknown, null and absent are the same") {
  const std::vector<std::string> absent = job_with(18, "").assumptions;
  CHECK(job_with(18, "  micro: unknown").assumptions == absent);
  CHECK(job_with(18, "  micro: null").assumptions == absent);
  CHECK(job_with(18, "  micro:").assumptions == absent);
  const std::vector<std::string> usual = load_text(small_scenario()).job.assumptions;
  const Scenario partial = load_text(small_scenario() + "recompute: partial\n");
  CHECK(partial.job.method.recompute == workloads::Recompute::selective);
  CHECK(std::any_of(partial.job.assumptions.begin(), partial.job.assumptions.end(),
                    [](const std::string& a) { return a.starts_with("recompute: partial does not say"); }));
  CHECK(load_text(small_scenario() + "recompute: unknown\nattention: unknown\nplacement: unknown\n").job.assumptions ==
        usual);
  CHECK(job_with(11, "  seq: 1024\n  attention_window: unknown").assumptions == usual);
  CHECK(job_with(20, "").software.name == job_with(20, "software: unknown").software.name);
}

TEST_CASE("a gated MLP is 8/3 wide, rounded up to a multiple of 256") {
  // 8 x 2048 / 3 = 5461.3; 21.3 multiples of 256, so 22 of them. 8 x 3072 / 3 = 8192 = 32 x 256 exactly.
  CHECK(job_with(11, "  seq: 1024\n  gated_mlp: true").model.mlp.hidden == 22 * 256);
  CHECK(job_with(8, "  hidden: 3072\n  gated_mlp: true").model.mlp.hidden == 8192);
}

TEST_CASE("schedules: chunks choose interleaving, one chunk never does") {
  const auto schedule = [](const std::string& lines) {
    return job_with(14, "  pipeline: 2\n" + lines).parallelism.schedule;
  };
  CHECK(schedule("  virtual_pipeline: 3") == &workloads::schedules::interleaved_1f1b);
  CHECK(schedule("  schedule: gpipe") == &workloads::schedules::gpipe);
  CHECK(schedule("  schedule: interleaved_1f1b") == &workloads::schedules::one_f_one_b);
  // This generation's own default is interleaving, which one chunk cannot do.
  CHECK(job_with(20, "software: nemo-23.04").parallelism.schedule == &workloads::schedules::one_f_one_b);
}

TEST_CASE("precision: one word, or a mapping per class of tensors") {
  const Job half = job_with(19, "precision: fp16");
  CHECK(half.method.precision.matmul == DataType::fp16);
  CHECK(half.method.precision.activations == DataType::fp16);
  CHECK(half.method.precision.gradients == half.software.gradients.gradient_dtype);
  CHECK(half.method.precision.parameters == DataType::fp16);
  Settings document = parse_yaml(with_line(19, "precision: fp8"), "t.yaml");
  apply_set(document, "cluster.device=h100-sxm-80gb");
  const Job eight = load_scenario(document).job;
  CHECK(eight.method.precision.matmul == DataType::fp8);
  CHECK(eight.method.precision.activations == DataType::bf16);
  const Job mixed = job_with(19, "precision: {matmul: bf16, gradients: bf16, parameters: fp32}");
  CHECK(mixed.method.precision.gradients == DataType::bf16);
  CHECK(mixed.method.precision.parameters == DataType::fp32);
}

TEST_CASE("blocks that are recomputed up to their last product alone are said to be") {
  const auto says = [](const std::string& recompute, const std::string& software, const std::string& more = "") {
    const std::string text = with_line(20, "software: " + software) + "recompute: " + recompute + "\n" + more;
    return assumes(load_text(text).job, "last product");
  };
  const std::string early = "{inherits: megatron-2023, recomputes_needed_only: true}";
  for (const char* kind : {"full", "{kind: full, layers: 2}"}) {
    CHECK(says(kind, early));
    CHECK(says(kind, "torchtitan-2024.12"));
  }
  // Without full recomputation, or in software whose blocks run to their end, there is nothing to say.
  for (const char* kind : {"none", "selective"}) CHECK_FALSE(says(kind, early));
  CHECK_FALSE(says("full", "megatron-2023"));
  // Nor with adapters: what the last product makes, they add to.
  CHECK_FALSE(says("full", early, "finetune: {kind: lora, rank: 8}\n"));
}

TEST_CASE("facts that the language has no key for are listed, and change nothing") {
  const std::string measured = "measured: {iteration_s: 1, model_state_gb: 2, power_w: 500, energy_j: 3e6}\n";
  const Scenario plain = load_text(small_scenario() + measured);
  const Scenario with = load_text(small_scenario() + measured + "extra: {fsdp_unit: block, modules: [mlp]}\n");
  CHECK(assumes(with.job, "Not modelled, of the record's extra: fsdp_unit block, modules."));
  REQUIRE(with.job.assumptions.size() == plain.job.assumptions.size() + 1);
  CHECK(workloads::simulate_step(with.job).iteration == workloads::simulate_step(plain.job).iteration);
  CHECK(plain.measured->memory.model_state_gb == 2);
  CHECK(plain.measured->power_w == 500);
  CHECK(plain.measured->energy_j == 3e6);
  CHECK_FALSE(plain.measured->failed);
  CHECK(load_text(small_scenario() + "measured: {failed: crashed_or_oom}\n").measured->failed);
}

TEST_CASE("activations: swiglu gates, gelu may, and what a gated MLP applies by default") {
  using workloads::Activation;
  const auto model = [](const std::string& lines) { return job_with(11, "  seq: 1024\n" + lines).model; };
  CHECK(model("").mlp.activation == Activation::gelu);
  CHECK(model("  gated_mlp: true").mlp.activation == Activation::swiglu);
  CHECK(model("  activation: swiglu").mlp.gated);
  CHECK_FALSE(model("  activation: squared_relu").mlp.gated);
  const workloads::Model geglu = model("  activation: gelu\n  gated_mlp: true");
  CHECK((geglu.mlp.gated && geglu.mlp.activation == Activation::gelu));
}

TEST_CASE("NVLink domains fill alike: the most trays that divide the job") {
  const auto domain = [](const std::string& cluster) {
    Settings document = parse_yaml(small_scenario(), "t.yaml");
    apply_set(document, "cluster=" + cluster);
    apply_set(document, "parallelism={tensor: 4}");
    apply_set(document, "batch={global: 6912}");
    return load_scenario(document).job;
  };
  // 64 of 72 in each of 4 racks; all 72 of 2; 2 trays of one rack.
  CHECK(domain("{device: gb200, gpus: 256, fabric: nvl72-ndr}").machine.gpus_per_node == 64);
  CHECK(domain("{device: gb200, gpus: 144, fabric: nvl72-ndr}").machine.gpus_per_node == 72);
  const Job small = domain("{device: gb200, gpus: 8, fabric: nvl72-ndr}");
  CHECK(small.machine.gpus_per_node == 8);
  CHECK(small.machine.hosts_per_node == 2);
  CHECK(small.machine.fabric.nics == 2 * 4);
  CHECK(domain("{device: gb200, gpus: 64, gpus_per_domain: 32, fabric: nvl72-ndr}").machine.gpus_per_node == 32);
  // One rack after the other: 72, 72, 72 and 40.
  const Job filled = domain("{device: gb200, gpus: 256, gpus_per_domain: 72, fabric: nvl72-ndr}");
  CHECK(filled.machine.gpus_per_node == 72);
  CHECK(workloads::site_of(filled).gpus == 4 * 72);
  CHECK(filled.replicas() == 64);
  // Two GPUs of every tray.
  CHECK(domain("{device: gb200, gpus: 32, gpus_per_node: 2, fabric: nvl72-ndr}").machine.hosts_per_node == 16);
}

TEST_CASE("overlap: four flags, or one word for all") {
  const Job all = load_text(small_scenario() + "overlap: true\n").job;
  CHECK((all.overlap.tensor && all.overlap.pipeline && all.overlap.gradients && all.overlap.parameters));
  const Job one = load_text(small_scenario() + "overlap: {gradients: true}\n").job;
  CHECK(one.overlap.gradients);
  CHECK(one.overlap.tensor == one.software.defaults.overlap_tensor);
}

TEST_CASE("names may be changed in place") {
  const Job faster = job_set("software.kernel_issue=3 us");
  CHECK(faster.software.host.kernel_issue == orrery::sim::microseconds(3));
  CHECK(faster.software.host.transfer_issue == load_text(small_scenario()).job.software.host.transfer_issue);
  CHECK(assumes(faster, "software: megatron-2023 with host.kernel_issue changed"));
  CHECK(job_set("cluster.device.memory=100 GB").machine.device.memory().value() == 100'000'000'000);
  CHECK(job_with(3, "  device: {inherits: a100-sxm-80gb, memory: 100 GB}").machine.device.memory().value() ==
        100'000'000'000);
  CHECK(job_set("model={inherits: gpt3-6.7b, layers: 30}").model.layers == 30);
  CHECK(job_set("model={inherits: gpt3-6.7b, layers: 30}").model.hidden == 4096);
  CHECK(job_set("model=gpt3-6.7b").model.name == "gpt3-6.7b");
  // Through one more generation: 2023 inherits 2022 inherits 2021.
  const Job late = job_set("software=megatron-2023"), early = job_set("software=megatron-2021");
  CHECK(late.software.library.collective_base == early.software.library.collective_base);
}

TEST_CASE("one node needs no fabric") {
  Settings document = parse_yaml(with_line(5, ""), "t.yaml");
  for (const char* change : {"cluster.gpus=8", "parallelism.data=1"}) apply_set(document, change);
  const Job job = load_scenario(document).job;
  CHECK(job.machine.fabric.kind == &orrery::topology::fabrics::none);
  CHECK(assumes(job, "cluster.fabric is not given: single-node"));
  for (const char* change : {"cluster.gpus=4", "parallelism.pipeline=1"}) apply_set(document, change);
  CHECK(load_scenario(document).job.machine.gpus_per_node == 4);
}

TEST_CASE("a batch that a derived data-parallel degree does not divide is rounded up by at most 1 %") {
  // tensor 4 x pipeline 2 leave 8 of 64 GPUs; 255 sequences are no multiple of 8 x 2, 256 are, 0.4 % more.
  Settings document = parse_yaml(with_line(15, ""), "t.yaml");
  apply_set(document, "batch.global=255");
  const Job job = load_scenario(document).job;
  CHECK(job.batch.global == 256);
  CHECK(assumes(job, "256 sequences are simulated"));
  apply_set(document, "batch.global=33");  // 48 would be half as many again
  CHECK(user_error([&] {
          load_scenario(document);
        }).starts_with("--set: batch.global: expected a multiple of data 8 x micro 2"));
}

TEST_CASE("what waits with the host: activations by either spelling, and the optimizer's states") {
  const auto offloaded = [](const std::string& offload) {
    Settings document = parse_yaml(small_scenario() + "offload: " + offload + "\n", "t.yaml");
    for (const char* set : {"parallelism.pipeline=1", "parallelism.data=16"}) apply_set(document, set);
    return load_scenario(document).job.method.offloaded_layers;
  };
  CHECK(offloaded("{activation_layers: 2}") == 2);
  CHECK(offloaded("{activations_layers: 2, optimizer: false}") == 2);
  CHECK(user_error([&] {
          offloaded("{optimizer_fraction: 0.5}");
        }).starts_with("t.yaml:21:11: offload.optimizer_fraction: got 0.5 without optimizer: true"));
  CHECK(offloaded("{optimizer: true}") == 0);
  CHECK(user_error([&] { offloaded("{activations_layers: 2, activation_layers: 2}"); }).find("expected one of them") !=
        std::string::npos);
}

TEST_CASE("placement, perturbation and evaluation") {
  const auto with = [](const std::string& lines) { return load_text(small_scenario() + lines).job; };
  CHECK(with("placement: {order: [data, tensor, pipeline, context]}\n").placement.order.front() ==
        workloads::Dim::data);
  CHECK(with("placement: {random_seed: 7}\n").placement.seed == 7);
  std::string reversed = "placement: {gpus: [";
  for (int gpu = 63; gpu >= 0; --gpu) reversed += std::to_string(gpu) + ",";
  CHECK(with(reversed + "]}\n").placement.gpus.front() == 63);
  const Job rough = with(
      "perturb: {slow_gpus: [{gpu: 17, slowdown: 1.1}], slow_nics: [{node: 3, nic: 0, rate: 0.5}],"
      " jitter: {sigma: 0.02, seed: 1}}\n");
  REQUIRE(rough.perturbation.slow_gpus.size() == 1);
  CHECK(rough.perturbation.slow_gpus[0].gpu == 17);
  CHECK(rough.perturbation.slow_nics[0].rate == 0.5);
  CHECK(rough.perturbation.jitter_sigma == 0.02);
  CHECK(with("evaluation: {every_steps: 10, sequences: 5660}\n").evaluation.sequences == 5660);
}

TEST_CASE("measured figures, in any of their units") {
  const Scenario record =
      load_text(small_scenario() + "measured: {iteration_s: 1.5, tflops_kind: model, oom: false}\n");
  REQUIRE(record.measured);
  CHECK(*record.measured->iteration_s == 1.5);
  CHECK(record.measured->memory.oom == false);
  // 64 GPUs, sequences of 1024.
  const auto tokens = [](const std::string& line) {
    return *load_text(small_scenario() + line).measured->tokens_per_s;
  };
  CHECK(tokens("measured: {tokens_per_s_per_gpu: 100}\n") == 6400);
  CHECK(tokens("measured: {samples_per_s: 3}\n") == 3072);
  CHECK(tokens("measured: {tokens_per_s: 5, samples_per_s: 3}\n") == 5);
}

TEST_CASE("a variant is what loading the whole document gives, and is refused alike") {
  const Scenario base = load_text(small_scenario());
  const std::vector<std::vector<std::string>> changes{
      {},
      {"parallelism={tensor: 8, pipeline: 1}", "batch.micro=4"},
      {"parallelism={tensor: 2, pipeline: 4, virtual_pipeline: 3, sequence_parallel: true, sharding: gradients}"},
      {"recompute=full", "attention=unfused", "precision=fp16", "optimizer=lamb", "overlap=true"},
      {"batch={global: 512, micro: 1}"}};
  workloads::SteadyClocks clocks;
  for (const std::vector<std::string>& sets : changes) {
    Settings document = parse_yaml(small_scenario(), "t.yaml");
    for (const std::string& set : sets) apply_set(document, set);
    const Job whole = load_scenario(document).job, variant = load_variant(base, document).job;
    INFO(sets.size() << " " << (sets.empty() ? "" : sets[0]));
    for (int again = 0; again < 2; ++again)
      CHECK(load_variant(base, document, &clocks).job.machine.device == whole.machine.device);
    CHECK(orrery::sim::to_seconds(workloads::simulate_step(variant).iteration) ==
          orrery::sim::to_seconds(workloads::simulate_step(whole).iteration));
    CHECK(workloads::simulate_step(variant).memory.peak_bytes == workloads::simulate_step(whole).memory.peak_bytes);
    CHECK(variant.assumptions.size() <= whole.assumptions.size());
  }
  for (const char* set : {"parallelism.tensor=3", "parallelism.data=7", "batch.micro=3", "recompute=some",
                          "parallelism.virtual_pipeline=40", "precision=fp8", "parallelism.tensr=2"}) {
    Settings document = parse_yaml(small_scenario(), "t.yaml");
    apply_set(document, set);
    const std::string whole = user_error([&] { load_scenario(document); });
    CHECK(whole != "(no error)");
    CHECK(user_error([&] { load_variant(base, document); }) == whole);
  }
}

TEST_CASE("the generation that is taken where none is named is the newest Megatron-Core that ships") {
  std::vector<std::vector<int>> versions;
  for (const std::string& name : shipped("software")) {
    const std::string family = "megatron-core-";
    if (!name.starts_with(family) || name.find_first_not_of("0123456789.", family.size()) != std::string::npos)
      continue;
    std::istringstream numbers(name.substr(family.size()));
    std::vector<int> version;
    for (std::string number; std::getline(numbers, number, '.');) version.push_back(std::stoi(number));
    versions.push_back(version);
  }
  REQUIRE(versions.size() > 3);
  const std::vector<int> newest = *std::max_element(versions.begin(), versions.end());
  CHECK(assumes(job_with(20, ""), "software is not given: megatron-core-" + std::to_string(newest[0]) + "." +
                                      std::to_string(newest[1]) + ", the newest Megatron-Core that ships"));
}
