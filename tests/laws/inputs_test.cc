// Every input counts: walks the whole schema of the scenario language. Each key either moves the answer, in the
// direction that physics asks for, or is refused with a reason, or is text for people. A key that is missing from the
// table below fails the test, so that no key can be added, read and ignored.
#include "tests/laws/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "tests/catch.h"
#include "workloads/step/step.h"
#include "workloads/step/training_cost.h"

using namespace orrery;
using namespace orrery::tests;

namespace {

sim::Settings document(const Sets& sets) {
  static const char* const text = R"(
name: walk
cluster: {device: a100-sxm-80gb, gpus: 16, fabric: ndr-rail}
model: {kind: gpt, layers: 8, hidden: 2048, heads: 16, ffn_hidden: 8192, vocab: 51200, seq: 1024}
parallelism: {tensor: 2, pipeline: 2, data: 4, sequence_parallel: false, sharding: none}
batch: {global: 32, micro: 1}
precision: bf16
recompute: none
attention: flash
overlap: {tensor: false, pipeline: false, gradients: false, parameters: false}
software: megatron-2023
)";
  sim::Settings root = scenarios::parse_yaml(text, "walk.yaml");
  for (const std::string& set : sets) scenarios::apply_set(root, set);
  return root;
}

/// What a user reads off a run.
struct Answer {
  double step_s = 0, with_evaluation_s = 0, memory = 0, mfu = 0, capacity = 0;
  double training_s = 0, cost_usd = 0, site_j = 0, carbon_g = 0, reserved = 0;
  bool operator==(const Answer&) const = default;
};

Answer answer(const Sets& sets) {
  const workloads::Job job = scenarios::load_scenario(document(sets)).job;
  const auto report = workloads::simulate_step(job);
  const workloads::TrainingCost run =
      workloads::training_cost(job.training, job.machine.gpus, report.evaluation.tokens_per_s);
  const double step_s = sim::to_seconds(report.iteration);
  return {step_s,
          report.evaluation.iteration_s,
          report.memory.peak_bytes,
          report.rates.mfu_pct,
          report.memory.capacity_bytes,
          run.time_s,
          run.usd,
          report.energy.site_j(),
          report.energy.grams_of(report.energy.site_j()),
          report.memory.reserved_bytes};
}

const Sets kUnfused{"attention=unfused"};
// One unit of 32 nodes filled twice over, so that traffic climbs to the spines; data groups cross units.
const Sets kTwoUnits{"cluster.gpus=512", "parallelism.data=128", "batch.global=256",
                     "placement={order: [data, pipeline, context, tensor]}"};
// 64 leaves: more than a switch of 32 ports can join in two tiers.
const Sets kManyLeaves{"cluster.gpus=1024",
                       "parallelism.data=256",
                       "batch.global=512",
                       "placement={order: [data, pipeline, context, tensor]}",
                       "cluster.fabric.unit_nodes=16",
                       "cluster.fabric.switch_latency=500 us"};
const Sets kEthernet{"cluster.gpus=1024", "parallelism.data=256", "batch.global=512", "cluster.fabric=tomahawk4-200g",
                     "placement={order: [data, pipeline, context, tensor]}"};

std::vector<Case> language() {
  using enum Effect;
  return {
      {"cluster.device", faster, "h100-sxm-80gb", {}, ""},
      {"cluster.gpus", faster, "32", {"parallelism.data=null", "batch.global=64"}, ""},
      {"cluster.gpus_per_node", slower, "2", {"parallelism.tensor=4", "parallelism.data=2"}, ""},
      {"cluster.fabric", slower, "roce-4x200g", {}, ""},
      {"cluster.gpus_per_domain", slower, "4", {"cluster.device=gb200", "cluster.fabric=nvl72-ndr"}, "16"},
      {"cluster.others", faster, "[{device: h100-sxm-80gb, gpus: 8}]", {"cluster.fabric=ndr-rail"}, ""},
      {"cluster.others[].device", refused, "cluster.others=[{device: mi300x, gpus: 8}]", {}, ""},
      {"cluster.others[].gpus", refused, "cluster.others=[{device: a100-sxm-40gb, gpus: 12}]", {}, ""},
      {"cluster.others[].stages", refused, "cluster.others=[{device: a100-sxm-40gb, gpus: 8, stages: [5]}]", {}, ""},
      {"model", differs, "gpt3-6.7b", {}, ""},
      {"model.kind", refused, "bert", {}, ""},
      {"model.layers", slower, "16", {}, ""},
      {"model.hidden", slower, "4096", {}, ""},
      {"model.heads", differs, "32", {}, ""},
      {"model.kv_heads", faster, "2", {}, ""},
      {"model.head_dim", slower, "256", {}, "128"},
      {"model.positions", slower, "rotary", {}, "none"},
      {"model.norm", more_memory, "layer_norm", {}, "rms_norm"},
      {"model.biases", faster, "none", {}, "all"},
      {"model.ffn_hidden", slower, "16384", {}, ""},
      {"model.vocab", slower, "102400", {}, ""},
      {"model.seq", slower, "2048", {}, ""},
      {"model.gated_mlp", slower, "true", {}, ""},
      {"model.activation", slower, "swiglu", {}, "squared_relu"},  // two up projections for one
      {"model.qk_norm", slower, "true", {}, ""},
      {"model.rotary_factor", slower, "1.2", {"model.positions=rotary"}, "1"},
      {"model.parallel_block", faster, "true", {}, ""},
      {"model.post_norm", slower, "true", {}, ""},
      {"model.residual_streams", slower, "4", {}, ""},
      {"model.tied_embeddings", faster, "false", {}, ""},  // nothing to add up between first and last stage
      {"parallelism.tensor", differs, "4", {"parallelism.data=null"}, ""},
      {"parallelism.pipeline", differs, "4", {"parallelism.data=null"}, ""},
      {"parallelism.virtual_pipeline",
       faster,
       "4",
       {"overlap.pipeline=true", "batch.global=8", "software.kernel_issue=0 us", "software.microbatch_host=0 us"},
       ""},
      {"parallelism.data", refused, "3", {}, ""},
      {"parallelism.context", faster, "2", {"model.seq=16384", "parallelism.data=null", "batch.global=4"}, ""},
      {"parallelism.context_method",
       slower,
       "all_gather",
       {"model.seq=16384", "parallelism.context=2", "parallelism.data=2"},
       "ring"},
      {"parallelism.stage_layers", slower, "[6, 2]", {}, "[4, 4]"},
      {"parallelism.optimizer_post_validation", faster, "true", {"parallelism.schedule=zb_h1"}, "false"},
      {"parallelism.expert", refused, "2", {}, ""},
      {"parallelism.sequence_parallel", differs, "true", {}, ""},
      {"parallelism.sharding", differs, "optimizer", {}, ""},
      {"parallelism.shard_group", more_memory, "2", {"parallelism.sharding=optimizer"}, ""},
      {"parallelism.tensor_in", differs, "2", {"parallelism.tensor=4", "parallelism.pipeline=1"}, "1"},
      {"parallelism.weight_group", more_memory, "2", {"parallelism.sharding=parameters"}, ""},
      {"parallelism.gradient_group", more_memory, "2", {"parallelism.sharding=parameters"}, ""},
      {"parallelism.secondary_group", more_memory, "2", {"parallelism.sharding=parameters"}, ""},
      {"parallelism.schedule", more_memory, "gpipe", {}, ""},
      {"batch.global", slower, "64", {}, ""},
      {"batch.micro", faster, "2", {}, ""},
      {"batch.document_tokens", faster, "128", {}, ""},
      {"precision", faster, "fp8", {"cluster.device=h100-sxm-80gb", "model.hidden=8192", "model.ffn_hidden=32768"}, ""},
      {"precision.matmul",
       faster,
       "precision={matmul: fp8}",
       {"cluster.device=h100-sxm-80gb", "model.hidden=8192", "model.ffn_hidden=32768"},
       "precision={matmul: bf16}"},
      {"precision.activations", refused, "precision={activations: fp32}", {}, ""},
      {"precision.gradients", faster, "precision={gradients: bf16}", {}, "precision={gradients: fp32}"},
      {"precision.master", faster, "precision={master: none}", {}, "precision={master: fp32}"},
      {"precision.parameters", slower, "precision={parameters: fp32}", kSharded, "precision={parameters: bf16}"},
      {"recompute", slower, "full", {}, ""},
      {"recompute.layers", slower, "2", {"recompute={kind: full}"}, "1"},
      {"attention", slower, "unfused", {}, ""},
  };
}

std::vector<Case> windows() {
  using enum Effect;
  return {
      {"model.attention_window", faster, "128", {}, ""},
      {"model.attention_window_kind", faster, "chunked", {"model.attention_window=128"}, "sliding"},
      {"model.attention_window_every", slower, "2", {"model.attention_window=128"}, "4"},
  };
}

std::vector<Case> with_the_host() {
  using enum Effect;
  return {
      {"offload.activation_layers",
       more_memory,
       "offload={activation_layers: 0}",
       {"parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=16"},
       "offload={activation_layers: 4}"},
      {"offload.activations_layers",
       more_memory,
       "offload={activations_layers: 0}",
       {"parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.data=16"},
       "offload={activations_layers: 4}"},
      {"offload.optimizer", slower, "offload={optimizer: true}", {}, "offload={optimizer: false}"},
      {"offload.optimizer_fraction",
       slower,
       "offload={optimizer: true}",
       {},
       "offload={optimizer: true, optimizer_fraction: 0.5}"},
      {"offload.optimizer_overlap",
       faster,
       "offload={optimizer: true, optimizer_overlap: true}",
       {},
       "offload={optimizer: true}"},
      {"offload.parameters",
       differs,
       "offload={optimizer: true, parameters: true}",
       {"parallelism.sharding=parameters"},
       "offload={optimizer: true}"},
  };
}

std::vector<Case> adapters() {
  using enum Effect;
  return {
      {"finetune", faster, "{kind: lora, rank: 16}", {}, ""},
      {"finetune.kind", refused, "finetune={kind: prefix, rank: 16}", {}, ""},
      {"finetune.rank", slower, "finetune={kind: lora, rank: 512}", {}, "finetune={kind: lora, rank: 16}"},
      {"finetune.modules",
       slower,
       "finetune={kind: lora, rank: 16, modules: all}",
       {},
       "finetune={kind: lora, rank: 16}"},
      {"finetune.dropout",
       slower,
       "finetune={kind: lora, rank: 16, dropout: 0.1}",
       {},
       "finetune={kind: lora, rank: 16}"},
      {"finetune.fp8_activation_input",
       more_memory,
       "finetune={kind: lora, rank: 16, fp8_activation_input: false}",
       {},
       "finetune={kind: lora, rank: 16, fp8_activation_input: true}"},
  };
}

std::vector<Case> options() {
  using enum Effect;
  return {
      {"overlap.tensor",
       faster,
       "true",
       {"parallelism.sequence_parallel=true", "software.tensor_overlap_slowdown=1"},
       ""},
      {"overlap.pipeline", faster, "true", {}, ""},
      {"overlap.gradients", faster, "true", {"software.gradient_bucket='40 MB'"}, ""},
      {"overlap.parameters", faster, "true", plus(kSharded, {"software.parameter_bucket='40 MB'"}), ""},
      {"optimizer", slower, "lamb", {}, ""},
      {"software", differs, "megatron-2021", {}, ""},
      {"placement.order", slower, "[data, pipeline, context, tensor]", {}, "[tensor, context, data, pipeline]"},
      {"placement.random_seed", slower, "3", {}, ""},
      {"placement.gpus", slower, "[0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]", {}, ""},
      {"perturb.slow_gpus", slower, "[{gpu: 3, slowdown: 1.2}]", {}, ""},
      {"perturb.slow_gpus[].gpu", refused, "perturb.slow_gpus=[{gpu: 99, slowdown: 1.2}]", {}, ""},
      {"perturb.slow_gpus[].slowdown",
       slower,
       "perturb.slow_gpus=[{gpu: 3, slowdown: 1.4}]",
       {},
       "perturb.slow_gpus=[{gpu: 3, slowdown: 1.2}]"},
      {"perturb.slow_nics", slower, "[{node: 0, nic: 0, rate: 0.1}]", {}, ""},
      {"perturb.slow_nics[].node", refused, "perturb.slow_nics=[{node: 99, nic: 0, rate: 0.1}]", {}, ""},
      {"perturb.slow_nics[].nic", refused, "perturb.slow_nics=[{node: 0, nic: 99, rate: 0.1}]", {}, ""},
      {"perturb.slow_nics[].rate",
       slower,
       "perturb.slow_nics=[{node: 0, nic: 0, rate: 0.05}]",
       {},
       "perturb.slow_nics=[{node: 0, nic: 0, rate: 0.1}]"},
      {"placement.by", slower, "rail", {}, "node"},
      {"perturb.slow_links", slower, "[{between: [n0 nic0, leaf u0 r0], rate: 0.1}]", {}, ""},
      {"perturb.slow_links[].between", refused, "perturb.slow_links=[{between: [n0 nic0], rate: 0.1}]", {}, ""},
      {"perturb.slow_links[].rate",
       slower,
       "perturb.slow_links=[{between: [n0 nic0, leaf u0 r0], rate: 0.05}]",
       {},
       "perturb.slow_links=[{between: [n0 nic0, leaf u0 r0], rate: 0.1}]"},
      {"perturb.lost_links", slower, "[{between: [n0 nic0, leaf u0 r0]}]", kTwoUnits, ""},
      {"perturb.lost_links[].between", refused, "perturb.lost_links=[{between: [n0 nic0, n0 nic1]}]", {}, ""},
      {"perturb.lost_links[].lanes",
       refused,
       "perturb.lost_links=[{between: [n0 nic0, leaf u0 r0], lanes: 2}]",
       {},
       ""},
      {"perturb.lost_switches", slower, "[leaf u0 r0]", kTwoUnits, ""},
      {"perturb.background.leaf", slower, "0.9", {}, ""},
      {"perturb.background.spine", slower, "0.9", kTwoUnits, ""},
      {"perturb.background.core", slower, "0.9", plus(kManyLeaves, {"cluster.fabric.radix=32"}), ""},
      {"perturb.background.global",
       slower,
       "0.9",
       {"cluster.fabric=slingshot11", "cluster.fabric.nodes_per_switch=1", "cluster.fabric.switches_per_group=1",
        "cluster.fabric.groups=2"},
       ""},
      {"perturb.message_jitter.sigma",
       differs,
       "perturb.message_jitter={sigma: 2, seed: 1}",
       {},
       "perturb.message_jitter={sigma: 1, seed: 1}"},
      {"perturb.message_jitter.seed",
       differs,
       "perturb.message_jitter={sigma: 2, seed: 2}",
       {},
       "perturb.message_jitter={sigma: 2, seed: 1}"},
      {"perturb.jitter.sigma",
       differs,
       "perturb.jitter={sigma: 0.1, seed: 1}",
       {},
       "perturb.jitter={sigma: 0.05, seed: 1}"},
      {"perturb.jitter.seed",
       differs,
       "perturb.jitter={sigma: 0.1, seed: 2}",
       {},
       "perturb.jitter={sigma: 0.1, seed: 1}"},
      {"evaluation.every_steps",
       longer_evaluation,
       "evaluation={every_steps: 5, sequences: 100}",
       {},
       "evaluation={every_steps: 10, sequences: 100}"},
      {"evaluation.sequences",
       longer_evaluation,
       "evaluation={every_steps: 10, sequences: 200}",
       {},
       "evaluation={every_steps: 10, sequences: 100}"},
      {"training.tokens", longer_training, "2e9", {}, "1e9"},
      {"cost.price_per_gpu_hour_usd", dearer, "3", {"training.tokens=1e9"}, "2"},
  };
}

std::vector<Case> power() {
  using enum Effect;
  const std::vector<std::string> warm{"cluster.device=h100-sxm-80gb", "power.cap=400 W", "power.cooling.kind=air"};
  return {
      // On a device whose clock follows from its limit, products that reach it.
      {"power.cap", slower, "400 W", {"cluster.device=h100-sxm-80gb"}, "600 W"},
      {"power.pue", differs, "1.5", {}, "1.1"},
      {"power.warmer", slower, "30", {"cluster.device=h100-sxm-80gb", "power.cap=400 W"}, "10"},
      {"power.temperature_spread", slower, "10", {"cluster.device=h100-sxm-80gb", "power.cap=400 W"}, "2"},
      {"power.leakage_per_kelvin",
       slower,
       "0.03",
       {"cluster.device=h100-sxm-80gb", "power.cap=400 W", "power.warmer=20"},
       "0.02"},
      {"power.carbon_g_per_kwh", differs, "400", {}, "100"},
      {"power.cooling.kind", faster, "liquid", warm, "air"},
      {"power.cooling.inlet", slower, "40", warm, "20"},
      {"power.cooling.resistance", slower, "0.09", warm, "0.05"},
      {"power.cooling.heating", slower, "0.03", warm, "0.005"},
      {"power.cooling.rows", slower, "4", warm, "1"},
      {"power.cooling.slowdown", slower, "45", warm, "95"},
  };
}

std::vector<Case> fabric() {
  using enum Effect;
  return {
      {"cluster.fabric.inherits", slower, "roce-4x200g", {}, "ndr-rail"},
      {"cluster.fabric.kind", refused, "star", {}, ""},
      {"cluster.fabric.nics", slower, "1", {}, "8"},
      {"cluster.fabric.nvlink_domain", faster, "16", {}, "8"},
      {"cluster.fabric.gpu_spread", slower, "0.02", {}, "0"},
      {"perturb.gpu_spread", differs, "{seed: 3}", {"cluster.fabric={inherits: ndr-rail, gpu_spread: 0.02}"}, ""},
      {"perturb.gpu_spread.seed",
       differs,
       "perturb.gpu_spread={seed: 5}",
       {"cluster.fabric={inherits: ndr-rail, gpu_spread: 0.02}"},
       "perturb.gpu_spread={seed: 3}"},
      {"cluster.fabric.nic_rate", slower, "100 Gb/s", {}, "400 Gb/s"},
      {"cluster.fabric.efficiency", slower, "0.5", {}, "0.9"},
      {"cluster.fabric.nic_latency", slower, "500 us", {}, "2 us"},
      // Of rings: where trees are allowed a gap makes the library take them, which its model holds for slower.
      {"cluster.fabric.message_gap", slower, "500 us", {"software.collective_algorithms=[ring]"}, "0 s"},
      {"cluster.fabric.switch_latency", slower, "500 us", {}, "1 us"},
      {"cluster.fabric.radix", slower, "32", kManyLeaves, "128"},
      {"cluster.fabric.routing", slower, "ecmp", plus(kTwoUnits, {"cluster.fabric.uplink_rate='400 Gb/s'"}),
       "adaptive"},
      {"cluster.fabric.ecmp_seed", differs, "5", kEthernet, "4"},
      {"cluster.fabric.flows_per_nic", faster, "64", kEthernet, "1"},
      {"cluster.fabric.rail", differs, "false",
       plus(kTwoUnits, {"cluster.fabric.unit_nodes=4", "cluster.fabric.switch_latency=500 us"}), "true"},
      {"cluster.fabric.unit_nodes", differs, "16", plus(kTwoUnits, {"cluster.fabric.switch_latency=500 us"}), "32"},
      // Uplinks of the downlinks' rate collide more often than twice as fast ones: why Tomahawk-4 ports were split.
      {"cluster.fabric.uplink_rate", slower, "200 Gb/s", plus(kEthernet, {"cluster.fabric.radix=128"}), "400 Gb/s"},
      {"cluster.fabric.oversubscription", slower, "16", kTwoUnits, "1"},
      {"cluster.device.node.rate", slower, "10 GB/s", {}, "300 GB/s"},
      {"cluster.device.node.efficiency", slower, "0.02", {}, "0.9"},
      {"cluster.device.node.pcie", slower, "1 GB/s", {}, "32 GB/s"},
      {"cluster.device.node.latency",
       slower,
       "5 ms",
       {"parallelism.tensor=1", "parallelism.data=2", "parallelism.pipeline=8"},
       "1 us"},
      {"cluster.device.node.gpus", slower, "4", {"parallelism.tensor=8", "parallelism.data=1"}, "8"},
      // The same peak from half as many processors: only how tiles fill them changes.
      {"cluster.device.processors", differs, "54", {}, "108"},
      {"cluster.device.memory_bandwidth", slower, "0.5 TB/s", {}, "2 TB/s"},
      {"cluster.device.memory", more_capacity, "100 GB", {}, "80 GB"},
      {"cluster.device.sustained.matmul", slower, "0.7", {}, "0.95"},
      {"cluster.device.sustained.fp8", slower, "0.7", kFp8, "0.95"},
      {"cluster.device.sustained.attention", slower, "0.5", {}, "0.95"},
      {"cluster.device.peak.bf16", differs, "200 TFLOP/s", {}, "312 TFLOP/s"},
      {"cluster.device.host.launch", slower, "200 us", {}, "2.88 us"},
  };
}

/// "key=value", unless the value names its key itself (members of list items and of pairs).
std::string assignment(const std::string& key, const std::string& value) {
  const std::string root = key.substr(0, key.find('.'));
  const bool whole = value.starts_with(root + "=") || value.starts_with(root + ".");
  return whole ? value : key + "=" + value;
}

/// Text for people and for the scoreboard; containers whose members have cases of their own; what only orrery
/// collective asks.
bool is_text_or_container(const scenarios::Key& key) {
  static const std::set<std::string> names{"name",  "id",         "description", "source", "notes",
                                           "label", "provenance", "facts",       "offers", "error"};
  const std::string last = key.path.substr(key.path.rfind('.') + 1);
  return names.contains(last) || key.type == "mapping" || key.path.starts_with("measured.");
}

}  // namespace

void orrery::tests::check(const Case& c) {
  INFO(c.key);
  Sets before = c.base, after = c.base;
  if (!c.other.empty()) before.push_back(assignment(c.key, c.other));
  after.push_back(assignment(c.key, c.value));
  if (c.effect == Effect::refused) {
    try {
      answer(after);
      FAIL_CHECK("was not refused");
    } catch (const sim::UserError& error) {
      const std::string last = c.key.substr(c.key.rfind('.') + 1);
      INFO(error.what());
      CHECK(std::string(error.what()).find(last) != std::string::npos);
    }
    return;
  }
  const Answer a = answer(before), b = answer(after);
  INFO(fmt::format("{} -> {} s, {} -> {} GB", a.step_s, b.step_s, a.memory / 1e9, b.memory / 1e9));
  switch (c.effect) {
    case Effect::slower:
      CHECK(b.step_s > a.step_s);
      break;
    case Effect::faster:
      CHECK(b.step_s < a.step_s);
      break;
    case Effect::more_memory:
      CHECK(b.memory > a.memory);
      break;
    case Effect::more_capacity:
      CHECK(b.capacity > a.capacity);
      break;
    case Effect::lower_mfu:
      CHECK(b.mfu < a.mfu);
      break;
    case Effect::longer_training:
      CHECK(b.training_s > a.training_s);
      break;
    case Effect::dearer:
      CHECK(b.cost_usd > a.cost_usd);
      break;
    case Effect::longer_evaluation:
      CHECK(b.with_evaluation_s > a.with_evaluation_s);
      break;
    default:
      CHECK_FALSE(a == b);
      break;
  }
}

TEST_CASE("every key of the language moves the answer as it must, or is refused") {
  for (const Case& c : language()) check(c);
  for (const Case& c : windows()) check(c);
  for (const Case& c : options()) check(c);
  for (const Case& c : with_the_host()) check(c);
  for (const Case& c : adapters()) check(c);
  for (const Case& c : power()) check(c);
}

TEST_CASE("every key of a fabric and the data sheet of a device move the answer as they must") {
  for (const Case& c : fabric()) check(c);
}

TEST_CASE("no key of the schema is missing from the walk") {
  std::set<std::string> walked;
  for (const auto& cases : {language(), windows(), options(), with_the_host(), adapters(), power(), mixture_cases(),
                            recommender_cases(), software_cases(), fabric()}) {
    for (const Case& c : cases) walked.insert(c.key);
  }
  // Checked elsewhere: the tables of the kernel-time model (below), wiring that only other kinds of fabric and node
  // read, and the counts of chips and ports that topology tests derive from port arithmetic.
  const std::vector<std::string> elsewhere{"cluster.device.gemm",
                                           "cluster.device.attention",
                                           "cluster.device.streaming",
                                           "cluster.device.collectives",
                                           "cluster.device.experts",  // tests/calibration/experts_test.cc
                                           "cluster.device.power",    // power_test.cc; tests/workloads/eager_test.cc
                                           "cluster.device.host.",    // tests/scenarios/measured_host_test.cc
                                           "cluster.device.interference.",  // likewise
                                           "cluster.fabric.q",              // tests/topology/slim_fly_test.cc
                                           "power.cooling.time_constant",   // tests/workloads/energy_test.cc
                                           "cluster.device.scans",          // tests/workloads/pattern_test.cc
                                           "cluster.device.sparse",         // tests/workloads/sparse_test.cc
                                           "model.encoder",                 // tests/workloads/encoder_test.cc
                                           "model.blocks",                  // tests/workloads/pattern_test.cc
                                           "model.mixers",                  // likewise
                                           "model.channels",                // likewise
                                           "model.mtp_block",               // tests/workloads/pattern_test.cc
                                           "model.source_tokens",           // tests/workloads/stacks_test.cc
                                           "model.layer_inputs",            // likewise
                                           "model.low_rank",                // tests/workloads/operators_test.cc
                                           "model.active_parameters",
                                           "cluster.device.mxfp8_products",  // profile_inputs_test.cc
                                           "cluster.device.peak",
                                           "cluster.device.inherits",
                                           "model.inherits",
                                           "model.parameters",   // shipped models are held to it (shipped_test.cc)
                                           "extra.",             // changes nothing (load_test.cc)
                                           "serving.",           // requests (tests/serving/inputs_test.cc)
                                           "traffic.",           // likewise
                                           "model.generation.",  // what requests ask for, likewise
                                           "model.served",       // likewise
                                           "models",             // several served (tests/tools/served_commands_test.cc)
                                           "rl",                 // steps of RL (tests/rl/inputs_test.cc)
                                           "workload",           // likewise
                                           "precision.attention",
                                           "precision.weights",
                                           "precision.experts",
                                           "precision.kv_cache",
                                           "precision.states",
                                           "precision.router",
                                           "campaign.",  // runs over steps (tests/campaign/inputs_test.cc)
                                           "cluster.device.node.kind",
                                           "cluster.device.node.switches",
                                           "cluster.device.node.links",
                                           "cluster.device.node.mesh",
                                           "cluster.device.node.pcie_switches",
                                           "cluster.device.node.host_",
                                           "cluster.fabric.sharp",
                                           "cluster.fabric.switch_price",  // sums: tests/tools/network_test.cc
                                           "cluster.fabric.link_price",    // likewise
                                           "cluster.fabric.switch_power",  // likewise
                                           "cluster.fabric.link_power",    // likewise
                                           "cluster.fabric.dimensions",
                                           "cluster.fabric.links",
                                           "cluster.fabric.nic_rate.",     // by device: tests/topology/spec_test.cc
                                           "cluster.fabric.uplink_rate.",  // likewise
                                           "cluster.fabric.attach",
                                           "cluster.fabric.spine_radix",
                                           "cluster.fabric.core_oversubscription",
                                           "cluster.fabric.pod_leaves",
                                           "cluster.fabric.spine_groups",
                                           "cluster.fabric.groups",
                                           "cluster.fabric.switches_per_group",
                                           "cluster.fabric.nodes_per_switch",
                                           "cluster.fabric.local_rate",
                                           "cluster.fabric.global_rate",
                                           "cluster.fabric.local_links",
                                           "cluster.fabric.global_links"};
  for (const scenarios::Key& key : scenarios::schema()) {
    const bool known = walked.contains(key.path) || is_text_or_container(key) ||
                       std::any_of(elsewhere.begin(), elsewhere.end(),
                                   [&](const std::string& prefix) { return key.path.starts_with(prefix); });
    INFO(key.path);
    CHECK(known);
  }
}
