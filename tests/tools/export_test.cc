// Does import read back what export wrote? Random scenarios of what Megatron-LM can express, and the shipped ones.
#include <fmt/format.h>

#include <random>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"

using namespace orrery;
using tests::Folder;

namespace {

scenarios::Scenario scenario_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  sim::Settings document = scenarios::parse_yaml(text, "random.yaml");
  for (const std::string& set : sets) scenarios::apply_set(document, set);
  return scenarios::load_scenario(document);
}

/// Everything of a job that a launch line carries, as text.
std::string carried(const workloads::Job& job) {
  const workloads::Model& m = job.model;
  const workloads::Parallelism& p = job.parallelism;
  const auto number = [](auto value) { return static_cast<int>(value); };
  std::string text = fmt::format("gpus {} {}\n", job.machine.gpus, job.machine.gpus_per_node);
  text += fmt::format(
      "model {} {} {} {} {} {} {} {} gated {} parallel {} window {} tied {} {} {} {}"
      " activation {} qk {} every {}\n",
      m.layers, m.hidden, m.attention.heads, m.attention.kv_heads, m.head_dim(), m.mlp.hidden, m.vocab, m.seq,
      m.mlp.gated, m.parallel_block, m.attention.window, m.tied_embeddings, number(m.positions), number(m.norm),
      number(m.biases), number(m.mlp.activation), m.attention.qk_norm, m.attention.window_every);
  text += fmt::format("layout {} {} {} {} {} sp {} ring {} layers [{}] sharding {} {} schedule {}\n", p.tensor,
                      p.pipeline, p.virtual_pipeline, p.data, p.context, p.sequence_parallel, number(p.context_method),
                      fmt::join(p.stage_layers, " "), number(p.sharding), job.shard_ranks(), p.schedule->name);
  text += fmt::format("batch {} {}\n", job.batch.global, job.batch.micro);
  text += fmt::format("types {} {} {} {} {}\n", number(job.method.precision.matmul),
                      number(job.method.precision.activations), number(job.method.precision.gradients),
                      number(job.method.precision.accumulation), number(job.method.precision.parameters));
  text += fmt::format("work {} {} {} {} overlap {} {} {} {}\n", number(job.method.recompute),
                      job.method.recomputed_layers, number(job.method.attention), number(job.method.optimizer),
                      job.overlap.tensor, job.overlap.pipeline, job.overlap.gradients, job.overlap.parameters);
  const workloads::RecomputedParts& again = job.method.recomputed;
  if (job.method.recompute == workloads::Recompute::selective)
    text += fmt::format("again {} {} {} {} {} {}\n", again.core_attention, again.norms, again.mlp, again.latent_up,
                        again.experts, again.expert_activation);
  text += fmt::format("placement {}", number(job.placement.kind));
  for (const workloads::Dim dim : job.placement.order) text += fmt::format(" {}", name_of(dim));
  text += "\n";
  text += fmt::format("evaluation {} {} tokens {}\n", job.evaluation.every_steps, job.evaluation.sequences,
                      job.training.tokens);
  return text;
}

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  int pick(std::initializer_list<int> values) { return values.begin()[engine_() % values.size()]; }
  std::string word(std::initializer_list<const char*> values) { return values.begin()[engine_() % values.size()]; }
  const char* truth() { return engine_() % 2 == 0 ? "true" : "false"; }

 private:
  std::mt19937 engine_;
};

std::string random_scenario(unsigned seed) {
  Dice dice(seed);
  const int tensor = dice.pick({1, 2, 4}), pipeline = dice.pick({1, 2, 4}), context = dice.pick({1, 1, 2});
  const int data = dice.pick({1, 2, 4}), chunks = pipeline > 1 ? dice.pick({1, 2, 3}) : 1;
  // Gloss over what the loader would refuse: whole nodes, and micro-batches that interleaving can cut.
  const int gpus = tensor * pipeline * context * data * 8, replicas = data * 8;
  const int micro = dice.pick({1, 2}), global = replicas * micro * pipeline * dice.pick({1, 2});
  const std::string type = dice.word({"bf16", "fp16"});
  const std::string sharding = dice.word({"none", "optimizer", "gradients", "parameters"});
  const bool interleaved = chunks > 1;
  const std::string gated = dice.truth();
  std::string text = fmt::format(
      R"(name: random
cluster: {{device: h100-sxm-80gb, gpus: {}, gpus_per_node: 8, fabric: ndr-rail}}
model: {{kind: gpt, layers: 24, hidden: {}, heads: 16, kv_heads: {}, ffn_hidden: {}, vocab: {}, seq: 4096,
        gated_mlp: {}, tied_embeddings: {}, positions: {}, norm: {}, biases: {}{}{}{}{}}}
parallelism: {{tensor: {}, pipeline: {}, virtual_pipeline: {}, context: {}, sequence_parallel: {}, sharding: {},
              context_method: {}{}{}}}
)",
      gpus, dice.pick({1024, 2048}), dice.pick({4, 16}), dice.pick({4096, 5632}), dice.pick({50257, 32000}), gated,
      dice.truth(), dice.word({"learned", "rotary", "none"}), dice.word({"layer_norm", "rms_norm"}),
      dice.word({"all", "qkv", "none"}), dice.pick({0, 1}) == 0 ? "" : ", head_dim: 128",
      context == 1 && dice.pick({0, 1}) == 0
          ? dice.word({", attention_window: 1024", ", attention_window: 1024, attention_window_every: 6"})
          : "",
      dice.word({"", ", qk_norm: true"}), gated == "false" ? dice.word({"", ", activation: squared_relu"}) : "", tensor,
      pipeline, chunks, context, tensor > 1 ? dice.truth() : "false", sharding,
      context > 1 ? dice.word({"ring", "all_gather"}) : "ring",
      sharding != "none" && dice.pick({0, 1}) == 0 ? fmt::format(", shard_group: {}", replicas) : "",
      pipeline == 4 && !interleaved && dice.pick({0, 1}) == 0 ? ", stage_layers: [5, 7, 7, 5]" : "");
  text += fmt::format("batch: {{global: {}, micro: {}}}\n", global, micro);
  text += fmt::format("precision: {{matmul: {}, activations: {}, gradients: {}, parameters: {}}}\n",
                      dice.word({"fp8", "fp8-blockwise", type.c_str()}), type, dice.word({"fp32", type.c_str()}), type);
  text += fmt::format("recompute: {}\n",
                      dice.word({"none", "selective", "full", "{kind: full, layers: 2}", "{modules: [norms, mlp]}"}));
  text += fmt::format("attention: {}\n", context > 1 ? "flash" : dice.word({"flash", "unfused"}));
  text += fmt::format("optimizer: {}\n", dice.word({"adam", "sgd"}));
  text += fmt::format("overlap: {{tensor: {}, pipeline: {}, gradients: {}, parameters: {}}}\n", dice.truth(),
                      interleaved ? dice.truth() : "false", dice.truth(), dice.truth());
  if (dice.pick({0, 1}) == 0) text += fmt::format("evaluation: {{every_steps: 10, sequences: {}}}\n", 3 * global);
  if (dice.pick({0, 1}) == 0) text += fmt::format("training: {{tokens: {}}}\n", 4096L * 1'000'000);
  if (dice.pick({0, 3}) == 0) text += "placement: {order: [tensor, context, pipeline, data]}\n";
  return text;
}

workloads::Job read_back(const std::string& line) {
  tools::Draft draft = tools::import_megatron(tools::read_launch_line(line, "launch.sh"));
  draft.apply("cluster.fabric=ndr-rail");
  return scenarios::load_scenario(draft.document()).job;
}

}  // namespace

TEST_CASE("import reads back what export wrote, for random scenarios") {
  int refused = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const std::string text = random_scenario(seed);
    INFO(text);
    scenarios::Scenario scenario;
    try {
      scenario = scenario_of(text);
    } catch (const sim::UserError&) {
      ++refused;
      continue;
    }
    const std::string line = tools::megatron_arguments(scenario);
    INFO(line);
    REQUIRE(carried(read_back(line)) == carried(scenario.job));
  }
  CHECK(refused < 50);  // at least half of what the dice throw loads
}

TEST_CASE("shipped scenarios export to launch lines that mean the same") {
  for (const char* name : {"megatron-gpt3-175b-12288", "gpt3-6.7b-h100", "eos-gpt3-175b"}) {
    INFO(name);
    // Flags count validation in whole batches, and send ahead only where stages are interleaved.
    const scenarios::Scenario scenario =
        scenarios::load_scenario(scenarios::read_scenario(name, {"evaluation=null", "overlap.pipeline=null"}));
    if (scenario.job.model.parallel_block) continue;
    const workloads::Job back = read_back(tools::megatron_arguments(scenario));
    CHECK(back.machine.gpus == scenario.job.machine.gpus);
    CHECK(back.parallelism.tensor == scenario.job.parallelism.tensor);
    CHECK(back.parallelism.virtual_pipeline == scenario.job.parallelism.virtual_pipeline);
    CHECK(back.batch.global == scenario.job.batch.global);
    CHECK(back.model.vocab == scenario.job.model.vocab);
  }
}

TEST_CASE("every way that context ranks exchange has its word on the launch line") {
  for (const char* method : {"ring", "all_gather", "all_to_all"}) {
    INFO(method);
    const scenarios::Scenario scenario = scenarios::load_scenario(scenarios::read_scenario(
        "gpt3-6.7b-h100", {"overlap.pipeline=null", "parallelism.context=2", "parallelism.data=null",
                           std::string("parallelism.context_method=") + method}));
    const workloads::Job back = read_back(tools::megatron_arguments(scenario));
    CHECK(back.parallelism.context == 2);
    CHECK(workloads::name_of(back.parallelism.context_method) == method);
  }
}

TEST_CASE("what Megatron-LM has no flag for is refused, with what was expected") {
  const Folder folder;
  const std::string file = folder.write("small.yaml", tests::small_scenario());
  const auto refused = [&](const std::string& set, const std::string& part) {
    const tests::Outcome outcome = tests::orrery({"export", "megatron", file, "--set", set});
    INFO(outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(part) != std::string::npos);
  };
  CHECK(tests::orrery({"export", "megatron", file}).status == 0);
  refused("model.parallel_block=true", "model.parallel_block");
  refused("model.post_norm=true", "model.post_norm");
  refused("optimizer=lamb", "adam or sgd");
  refused("placement.random_seed=3", "placement");
  refused("recompute={kind: selective, modules: [norms, qkv]}", "recompute.modules: got qkv");
  refused("finetune={kind: lora, rank: 8}", "finetune.kind");
  refused("offload={activation_layers: 2}", "offload.activation_layers");
  refused("parallelism={tensor: 4, tensor_in: 2, data: null, sequence_parallel: false}", "parallelism.tensor_in");
  const tests::Outcome schedule = tests::orrery(
      {"export", "megatron", file, "--set", "parallelism.schedule=zb_h1", "--set", "parallelism.virtual_pipeline=1"});
  CHECK(schedule.status == 2);
  CHECK(schedule.err.find("zb_h1") != std::string::npos);
}

TEST_CASE("states of the optimizer in the host's memory go to Megatron-LM's flags and come back") {
  const auto states_of = [](const std::string& offload) {
    const scenarios::Scenario scenario =
        scenarios::load_scenario(scenarios::read_scenario("gpt3-6.7b-h100", {"offload=" + offload}));
    const std::string arguments = tools::megatron_arguments(scenario);
    const bool precise = arguments.find("--use-precision-aware-optimizer") != std::string::npos;
    CHECK(precise == scenario.job.method.host_states.any());
    CHECK(read_back(arguments).method.host_states == scenario.job.method.host_states);
    return scenario.job.method.host_states;
  };
  CHECK(states_of("{optimizer: true}") == workloads::HostStates{1, false, false});
  CHECK(states_of("{optimizer: true, optimizer_fraction: 0.5, optimizer_overlap: true}") ==
        workloads::HostStates{0.5, false, true});
  CHECK(states_of("{optimizer: false}") == workloads::HostStates{});
}

TEST_CASE("latent attention whose queries are not compressed comes back as it was") {
  const scenarios::Scenario scenario = scenarios::load_scenario(scenarios::read_scenario(
      "qwen3-30b-a3b-h100", {"model=deepseek-v2-lite", "parallelism.virtual_pipeline=1", "parallelism.schedule=1f1b"}));
  const workloads::Job back = read_back(tools::megatron_arguments(scenario));
  CHECK(back.model.attention.latent == scenario.job.model.attention.latent);
  CHECK(back.model.experts.dense_layers == scenario.job.model.experts.dense_layers);
}

TEST_CASE("a mixture of experts comes back from Megatron-LM's flags as it was") {
  const Folder folder;
  const char* const text = R"(name: mixture
cluster: {device: h100-sxm-80gb, gpus: 64, gpus_per_node: 8, fabric: ndr-rail}
model: {kind: moe, layers: 8, hidden: 2048, heads: 16, ffn_hidden: 8192, vocab: 51200, seq: 4096, gated_mlp: true,
        tied_embeddings: false, positions: rotary, norm: rms_norm, biases: none, experts: 64, top_k: 6,
        expert_ffn_hidden: 1024, shared_experts: 2, shared_gate: true, dense_layers: 2, mtp_layers: 1,
        attention_kind: mla, q_lora: 768, kv_lora: 256, qk_nope_dim: 64, qk_rope_dim: 32, v_dim: 64}
parallelism: {tensor: 2, pipeline: 2, virtual_pipeline: 2, expert: 8, expert_tensor: 1, sequence_parallel: true,
              sharding: optimizer}
batch: {global: 64, micro: 1}
experts: {dispatcher: deepep, grouped_gemm: true, capacity_factor: 1.5, fused_permutation: false, fused_router: true}
overlap: {tensor: false, pipeline: true, gradients: true, parameters: true, experts: true}
recompute: {kind: selective, modules: [moe_act, mla_up_proj, norms]}
software: megatron-core-0.14
)";
  const scenarios::Scenario scenario = scenario_of(text);
  const std::string script = folder.write("run.sh", tools::megatron_arguments(scenario));
  const auto draft = tools::import_megatron(tools::read_launch_line(tools::read_text(script), script));
  const workloads::Job back = scenarios::load_scenario(draft.document()).job, job = scenario.job;
  CHECK(back.software.name == "megatron-core-0.14");  // the oldest that knows --overlap-moe-expert-parallel-comm
  workloads::Experts experts = back.model.experts;
  // One shared expert of twice the width is what the flag can say.
  CHECK(experts.shared_width() == job.model.experts.shared_width());
  experts.shared = job.model.experts.shared;
  experts.shared_ffn_hidden = job.model.experts.shared_ffn_hidden;
  CHECK(experts == job.model.experts);
  CHECK(back.model.attention.latent == job.model.attention.latent);
  CHECK(back.method.experts == job.method.experts);
  CHECK(back.parallelism.expert == 8);
  CHECK(back.parallelism.expert_tensor == 1);
  CHECK(back.overlap.experts);
  CHECK(back.method.recompute == workloads::Recompute::selective);
  CHECK(back.method.recomputed == job.method.recomputed);
}

TEST_CASE("blocks by pattern come back from Megatron-LM's letters as they were") {
  const Folder folder;
  const char* const text = R"(name: hybrid
cluster: {device: h100-sxm-80gb, gpus: 16, gpus_per_node: 8, fabric: ndr-rail}
model: {kind: moe, hidden: 2048, heads: 16, kv_heads: 2, head_dim: 128, vocab: 51200, seq: 4096, gated_mlp: false,
        activation: squared_relu, tied_embeddings: false, positions: none, norm: rms_norm, biases: none,
        blocks: {pattern: M E M E A F, repeat: 2}, mtp_layers: 1, mtp_block: A+E, mixers: {
        M: {kind: mamba2, heads: 32, head_dim: 128, state: 64, groups: 4, chunk: 128}, A: {kind: attention}},
        channels: {F: {kind: mlp, ffn_hidden: 8192}, E: {kind: moe, experts: 32, top_k: 4, expert_ffn_hidden: 1024,
        expert_latent: 512, shared_experts: 1, shared_expert_ffn_hidden: 2048}}}
parallelism: {tensor: 2, expert: 8, expert_tensor: 1, sequence_parallel: true, sharding: optimizer}
batch: {global: 64, micro: 1}
overlap: {tensor: false, pipeline: false, gradients: true, parameters: true}
software: megatron-core-0.16
)";
  const scenarios::Scenario scenario = scenario_of(text);
  const std::string line = tools::megatron_arguments(scenario);
  CHECK(line.find("--hybrid-layer-pattern \"MEME*-MEME*-/*E\"") != std::string::npos);
  const std::string script = folder.write("run.sh", line);
  const auto draft = tools::import_megatron(tools::read_launch_line(tools::read_text(script), script));
  const workloads::Model back = scenarios::load_scenario(draft.document()).job.model, model = scenario.job.model;
  CHECK(back.layers == model.layers);
  CHECK(back.pattern == model.pattern);
  CHECK(back.experts == model.experts);
  CHECK(workloads::parameter_count(back) == workloads::parameter_count(model));
  const auto refused = [&](const std::string& set) -> std::string {
    try {
      return tools::megatron_arguments(scenario_of(text, {set}));
    } catch (const sim::UserError& error) {
      return error.what();
    }
  };
  CHECK(refused("model.mixers.A.output_gate=true").find("attention other than the usual") != std::string::npos);
  CHECK(refused("model.mixers.M={kind: kda, heads: 8, head_dim: 64}").find("mixers other than Mamba-2") !=
        std::string::npos);
}
