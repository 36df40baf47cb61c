// Documents of YAML: scenarios whole, and what their names stand for. Left out: the time of a step, but for the small
// jobs of `step`.
#include <cmath>

#include "calibration/framework/recipe.h"
#include "scenarios/scenario.h"
#include "scenarios/yaml_text.h"
#include "tests/fuzz/target.h"
#include "tests/paths.h"
#include "tools/fit/step_fit.h"
#include "tools/report/milestones.h"
#include "workloads/job/job_values.h"
#include "workloads/memory/memory.h"
#include "workloads/step/step.h"

namespace orrery::fuzz {

using sim::Settings;

namespace {

constexpr const char* kBase =
    "cluster: {device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}\n"
    "model: {layers: 4, hidden: 512, heads: 8, vocab: 1024, seq: 256}\n"
    "parallelism: {tensor: 2, pipeline: 2, data: 4}\n"
    "batch: {global: 16, micro: 1}\n"
    "software: megatron-core-0.8\n";

constexpr const char* kMixture =
    "cluster: {device: h100-sxm-80gb, gpus: 16, fabric: ndr-rail}\n"
    "model: {kind: moe, layers: 4, hidden: 512, heads: 8, ffn_hidden: 1024, vocab: 1024, seq: 256, gated_mlp: true,\n"
    "        experts: 8, top_k: 2, expert_ffn_hidden: 256, shared_experts: 1, dense_layers: 1, moe_every: 1,\n"
    "        attention_kind: mla, q_lora: 64, kv_lora: 32, qk_nope_dim: 32, qk_rope_dim: 16, v_dim: 32}\n"
    "parallelism: {tensor: 2, pipeline: 2, data: 4, expert: 4, expert_tensor: 1, sharding: optimizer}\n"
    "batch: {global: 16, micro: 1}\n"
    "precision: fp8-blockwise\n"
    "recompute: {kind: selective, modules: [core_attention, mlp]}\n"
    "software: megatron-core-0.14\n";

constexpr const char* kPerturbed =
    "cluster: {device: a100-sxm-80gb, gpus: 16, gpus_per_node: 4, fabric: selene-hdr}\n"
    "model: {layers: 4, hidden: 512, heads: 8, kv_heads: 4, ffn_hidden: 1536, vocab: 1024, seq: 512}\n"
    "parallelism: {tensor: 2, pipeline: 2, virtual_pipeline: 2, data: 2, context: 2, sequence_parallel: true,\n"
    "              sharding: gradients, schedule: interleaved_1f1b}\n"
    "batch: {global: 16, micro: 2}\n"
    "precision: bf16\nrecompute: full\nattention: unfused\noptimizer: lamb\n"
    "overlap: {tensor: true, pipeline: true, gradients: true, parameters: false}\n"
    "placement: {random_seed: 3}\n"
    "perturb: {slow_gpus: [{gpu: 3, slowdown: 1.5}], slow_nics: [{node: 1, nic: 0, rate: 0.5}],\n"
    "          background: {leaf: 0.2}, jitter: {sigma: 0.05, seed: 1}}\n"
    "evaluation: {every_steps: 10, sequences: 64}\n"
    "training: {tokens: 1e12}\ncost: {price_per_gpu_hour_usd: 2}\n"
    "offload: {activation_layers: 1}\n"
    "software: nemo-23.09\n";

constexpr const char* kRecommender =
    "cluster: {device: h100-sxm-80gb, gpus: 8, fabric: ndr-rail}\n"
    "model: dlrm-dcnv2\nparallelism: {data: 8}\nbatch: {global: 8192, micro: 1024}\nsoftware: hugectr\n";

/// What a job that was loaded must be. `small` ones are run as well.
void check_job(const workloads::Job& job, bool run) {
  double total = 0;
  for (const workloads::StageMemory& stage : workloads::stage_memory(job, workloads::split_layers(job)))
    total = std::max(total, stage.total);
  expect(std::isfinite(total) && total >= 0, "memory that is no number of bytes");
  constexpr std::int64_t kMostGpus = 64, kMostLayers = 12, kMostMicrobatches = 16;
  if (!run || job.machine.gpus > kMostGpus || job.model.layers > kMostLayers) return;
  if (job.microbatches() > kMostMicrobatches) return;
  const workloads::StepReport report = workloads::simulate_step(job);
  expect(report.iteration.value() > 0, "a step of no time");
  expect(std::isfinite(report.rates.mfu_pct) && report.rates.mfu_pct >= 0, "an MFU that is none");
}

void read_scenario(const std::string& text) {
  check_job(scenarios::load_scenario(scenarios::parse_yaml(text, "input")).job, false);
}
void read_step(const std::string& text) {
  check_job(scenarios::load_scenario(scenarios::parse_yaml(text, "input")).job, true);
}

/// A small job with `text` in place of the document that the key names.
void read_in_job(const char* key, const std::string& text) {
  static const Settings kJob = scenarios::parse_yaml(kBase, "base");
  Settings document = kJob;
  document.set_path(key, scenarios::parse_yaml(text, "input"));
  check_job(scenarios::load_scenario(document).job, false);
}
void read_device(const std::string& text) { read_in_job("cluster.device", text); }
void read_fabric(const std::string& text) { read_in_job("cluster.fabric", text); }
void read_node(const std::string& text) { read_in_job("cluster.device", "inherits: h100-sxm-80gb\nnode:\n" + text); }
void read_software(const std::string& text) { read_in_job("software", text); }
void read_model(const std::string& text) { read_in_job("model", text); }
void read_perturb(const std::string& text) { read_in_job("perturb", text); }
void read_placement(const std::string& text) { read_in_job("placement", text); }

/// Lists of measured records: each is loaded, none is dropped.
void read_records(const std::string& text) {
  const Settings list = scenarios::parse_yaml(text, "input");
  if (!list.is_sequence()) list.expected("a list of records");
  for (const Settings& record : list.items()) {
    if (!record.is_mapping()) record.expected("a mapping");
    static_cast<void>(tools::record_id(record));
    scenarios::load_scenario(record);
  }
}

void read_recipe(const std::string& text) {
  calibration::RecipeBook book;
  book.add(scenarios::parse_yaml(text, "input"));
}

void read_fit(const std::string& text) { tools::step_fit_of(scenarios::parse_yaml(text, "input"), "input"); }

void read_milestones(const std::string& text) {
  for (const tools::Milestone& one : tools::milestones_of(scenarios::parse_yaml(text, "input")))
    expect(std::isfinite(one.parameters), "parameters that are no number");
}

std::vector<std::string> scenario_seeds() {
  std::vector<std::string> seeds = shipped_texts("scenarios", ".yaml");
  for (const char* text : {kBase, kMixture, kPerturbed, kRecommender}) seeds.emplace_back(text);
  return seeds;
}
std::vector<std::string> small_scenarios() { return {kBase, kMixture, kPerturbed, kRecommender}; }
std::vector<std::string> device_seeds() {
  std::vector<std::string> seeds = shipped_sections("calibration/profiles", ".yaml");
  seeds.emplace_back("inherits: h100-sxm-80gb\nmemory: 40 GB\n");
  return seeds;
}
std::vector<std::string> fabric_seeds() { return shipped_sections("scenarios/fabrics", ".yaml"); }
std::vector<std::string> node_seeds() {
  return {"  kind: nvswitch\n  gpus: 8\n  switches: 4\n  links: 18\n  rate: 450 GB/s\n",
          "  kind: mesh\n  switches: null\n  links: null\n  rate: null\n  gpus: 8\n  mesh:\n  - {pair: [0, 1], rate: "
          "50 GB/s}\n  - {pair: [1, 2], rate: 25 GB/s}\n"
          "  - {pair: [2, 3], rate: 50 GB/s}\n  - {pair: [0, 3], rate: 25 GB/s}\n  - {pair: [3, 4], rate: 25 GB/s}\n"
          "  - {pair: [4, 5], rate: 25 GB/s}\n  - {pair: [5, 6], rate: 25 GB/s}\n  - {pair: [6, 7], rate: 25 GB/s}\n",
          "  kind: pcie\n  switches: null\n  links: null\n  gpus: 8\n  rate: 20 GB/s\n"};
}
std::vector<std::string> software_seeds() { return shipped_sections("calibration/software", ".yaml"); }
std::vector<std::string> model_seeds() { return shipped_texts("scenarios/models", ".yaml"); }
std::vector<std::string> perturb_seeds() {
  return {
      "slow_gpus: [{gpu: 3, slowdown: 1.5}]\njitter: {sigma: 0.05, seed: 1}\nmessage_jitter: {sigma: 0.1, seed: 2}\n",
      "slow_nics: [{node: 1, nic: 0, rate: 0.5}]\nbackground: {leaf: 0.2, spine: 0.5}\nlost_switches: [leaf u0 r0]\n",
      "slow_links: [{between: [n0 nic0, leaf u0 r0], rate: 0.5}]\n"};
}
std::vector<std::string> placement_seeds() {
  return {"{random_seed: 3}\n", "{order: [tensor, data, pipeline, context]}\n", "{by: rail}\n",
          "{gpus: [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]}\n"};
}
std::vector<std::string> record_seeds() {
  return {
      "- id: one\n  cluster: {device: a100-sxm-80gb, gpus: 8, fabric: selene-hdr}\n  model: gpt3-6.7b\n"
      "  parallelism: {tensor: 8}\n  batch: {global: 8, micro: 1}\n  source: a paper, table 1\n  notes: none\n"
      "  extra: {dropout: 0.1}\n  measured: {iteration_s: 1.5, tflops_per_gpu: 140, tflops_kind: model,\n"
      "             mfu_pct: 45, memory_gb: 60, memory_kind: allocated, oom: false, power_w: 400}\n"};
}
std::vector<std::string> recipe_seeds() { return shipped_texts("calibration/recipes", ".yaml"); }
std::vector<std::string> fit_seeds() {
  return {
      "description: a fit\nparameters:\n"
      "- {document: megatron-2023, key: software.kernel_issue, low: 1 us, high: 10 us, prior: 2 us, meaning: m}\n"
      "- {document: tomahawk4-200g, key: cluster.fabric.efficiency, low: 0.5, high: 1, start: 0.9}\n"
      "rows:\n- {list: " +
      std::string(tests::kSourceDir) +
      "/tests/published/megascale.yaml}\nloss: robust\nhold_out: {by: rows, folds: 3}\nstarts: 1\n"};
}
std::vector<std::string> milestone_seeds() {
  return {
      "title: t\nmilestones:\n- {name: b, model: gpt3-175b, tokens: 3e11, published: 3e23, by: square, source: s}\n",
      "title: t\nmilestones:\n- {name: a, parameters: 1e9, tokens: 3e11, published: 2e21, by: 6nd, source: s}\n"};
}

}  // namespace

std::vector<Target> document_targets() {
  return {{"scenario", "a scenario", read_scenario, scenario_seeds},
          {"step", "a scenario, and its step where it is small", read_step, small_scenarios},
          {"device", "a device's profile", read_device, device_seeds},
          {"fabric", "a fabric", read_fabric, fabric_seeds},
          {"node", "the inside of a node", read_node, node_seeds},
          {"software", "a generation of training software", read_software, software_seeds},
          {"model", "a model", read_model, model_seeds},
          {"perturb", "what is slow or lost", read_perturb, perturb_seeds},
          {"placement", "which rank lies where", read_placement, placement_seeds},
          {"records", "a list of measured records", read_records, record_seeds},
          {"recipe", "the kernels of a part of a layer", read_recipe, recipe_seeds},
          {"fit", "what a fit may move", read_fit, fit_seeds},
          {"milestones", "a table of milestone systems", read_milestones, milestone_seeds}};
}

}  // namespace orrery::fuzz
