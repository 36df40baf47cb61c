// Does anything fall between all keys drawn together? Mixtures of experts, shard groups, context, adapters, recomputed
// modules, schedules, offload, perturbations and mixed nodes in one scenario: it is refused in one line, or computed;
// what it moves comes out alike by formula and by count; and a folded run says what a run of every rank says, in every
// digit. Of as many scenarios as ORRERY_ALL_KEYS_JOBS says (40), from the seed ORRERY_ALL_KEYS_SEED (1).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/laws/alike.h"
#include "tests/laws/draw.h"
#include "workloads/step/step.h"

using namespace orrery;
using tests::Draw;

namespace {

/// A section of a scenario: `name: {key: value, ...}`.
class Section {
 public:
  explicit Section(std::string name) : name_(std::move(name)) {}
  template <class T>
  void set(const std::string& key, const T& value) {
    keys_.push_back(fmt::format("{}: {}", key, value));
  }
  std::string text() const { return keys_.empty() ? "" : fmt::format("{}: {{{}}}\n", name_, fmt::join(keys_, ", ")); }

 private:
  std::string name_;
  std::vector<std::string> keys_;
};

const std::vector<std::string>& choices(const std::string& path) {
  for (const scenarios::Key& key : scenarios::schema()) {
    if (key.path == path && !key.choices.empty()) return key.choices;
  }
  FAIL("no choices of " << path);
  throw std::logic_error(path);
}

/// How ranks are cut: drawn first, so that the rest fits to it more often than not.
struct RankCut {
  std::int64_t tensor, pipeline, data, context, chunks, expert, micro;
  std::string schedule;
  bool mixture, tuned;
  std::int64_t gpus() const { return tensor * pipeline * data * context; }
};

RankCut cut_of(Draw& draw) {
  RankCut cut;
  cut.tensor = draw.of<std::int64_t>({1, 1, 2, 2, 4, 8});
  cut.pipeline = draw.of<std::int64_t>({1, 1, 2, 3, 4});
  cut.data = draw.of<std::int64_t>({1, 2, 3, 4, 4, 6, 8});
  cut.context = draw.of<std::int64_t>({1, 1, 1, 2, 2, 4});
  if (cut.gpus() > 128) cut.data = 1;
  cut.schedule = draw.chance(30) ? "1f1b" : draw.of(choices("parallelism.schedule"));
  cut.chunks = cut.schedule.find("interleaved") != std::string::npos && cut.pipeline > 1 ? 2 : 1;
  cut.mixture = draw.chance(55);
  cut.tuned = !cut.mixture && draw.chance(25);
  cut.expert = cut.mixture ? draw.of<std::int64_t>({1, 2, 2, 4, 8}) : 1;
  cut.micro = draw.of<std::int64_t>({1, 1, 1, 2, 4});
  return cut;
}

std::string cluster_section(const RankCut& cut, Draw& draw) {
  Section out("cluster");
  out.set("device", draw.text({"a100-sxm-80gb", "h100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb", "mi300x"}));
  out.set("gpus", cut.gpus());
  const std::int64_t whole = std::gcd(cut.gpus(), std::int64_t{8});  // nodes of so many are whole
  if (cut.gpus() > 8 ? whole < 8 : draw.chance(25)) out.set("gpus_per_node", whole);
  out.set("fabric", draw.text({"ndr-rail", "ndr-rail", "tomahawk4-200g", "selene-hdr", "slingshot11", "azure-ndv5",
                               "aws-p5-efa", "roce-4x200g"}));
  if (cut.pipeline > 1 && draw.chance(20)) {
    const std::int64_t others = cut.gpus() / cut.pipeline * (1 + draw.below(cut.pipeline - 1));
    out.set("others", fmt::format("[{{device: {}, gpus: {}}}]",
                                  draw.text({"a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb"}), others));
  }
  return out.text();
}

void draw_mixture(const RankCut& cut, Draw& draw, Section& model) {
  const std::int64_t experts = draw.of<std::int64_t>({8, 8, 16, 24});
  model.set("experts", experts);
  model.set("top_k", draw.of<std::int64_t>({1, 2, 4}));
  model.set("expert_ffn_hidden", draw.of<std::int64_t>({512, 1024}));
  if (draw.chance(10)) model.set("expert_latent", 256);
  if (draw.chance(15)) {
    model.set("expert_groups", 2);
    model.set("top_groups", 1 + draw.below(2));
  }
  if (draw.chance(30)) model.set("shared_experts", 1 + draw.below(2));
  if (draw.chance(15)) model.set("shared_gate", "true");
  if (draw.chance(25)) model.set("dense_layers", 1 + draw.below(cut.pipeline * cut.chunks));
  if (draw.chance(20)) model.set("moe_every", 2);
  if (draw.chance(20)) model.set("mtp_layers", 1);
}

void draw_attention(const RankCut& cut, std::int64_t heads, Draw& draw, Section& model) {
  if (cut.mixture && draw.chance(20)) {
    model.set("attention_kind", "mla");
    model.set("kv_lora", 128);
    if (draw.chance(60)) model.set("q_lora", 256);
    model.set("qk_nope_dim", 64);
    model.set("qk_rope_dim", 32);
    model.set("v_dim", 64);
    return;
  }
  if (draw.chance(40)) model.set("kv_heads", std::max(heads / draw.of<std::int64_t>({2, 4, 8}), cut.tensor));
  if (draw.chance(10)) model.set("head_dim", 128);
  if (draw.chance(20)) model.set("qk_norm", "true");
  if (draw.chance(cut.context > 1 ? 3 : 15)) {
    model.set("attention_window", draw.of<std::int64_t>({16, 64}));
    if (draw.chance(50)) model.set("attention_window_every", 1 + draw.below(cut.pipeline));
  }
}

std::string model_section(const RankCut& cut, Draw& draw) {
  Section out("model");
  const std::int64_t heads = draw.of<std::int64_t>({8, 8, 16});
  out.set("kind", cut.mixture ? "moe" : "gpt");
  out.set("layers", cut.pipeline * cut.chunks * draw.of<std::int64_t>({1, 2, 2, 3}) + (draw.chance(15) ? 1 : 0));
  out.set("hidden", heads * 64);
  out.set("heads", heads);
  if (draw.chance(30)) out.set("ffn_hidden", draw.of<std::int64_t>({512, 1536, 4096}));
  out.set("vocab", draw.of<std::int64_t>({1000, 32000, 50257}));
  out.set("seq", draw.of<std::int64_t>({64, 512, 2048}));
  draw_attention(cut, heads, draw, out);
  if (cut.mixture) draw_mixture(cut, draw, out);
  if (draw.chance(15) && !cut.mixture && !cut.tuned) out.set("parallel_block", "true");
  if (draw.chance(10)) out.set("post_norm", "true");
  if (draw.chance(10)) out.set("residual_streams", 1 + draw.below(4));
  if (draw.chance(50)) out.set("gated_mlp", draw.flag());
  if (draw.chance(15)) out.set("activation", draw.text({"gelu", "squared_relu"}));
  if (draw.chance(50)) out.set("tied_embeddings", draw.flag());
  if (draw.chance(40)) out.set("positions", draw.text({"learned", "rotary", "none", "alibi"}));
  if (draw.chance(30)) out.set("norm", draw.text({"layer_norm", "rms_norm"}));
  if (draw.chance(30)) out.set("biases", draw.text({"all", "none", "qkv"}));
  return out.text();
}

std::string parallelism_section(const RankCut& cut, Draw& draw) {
  Section out("parallelism");
  out.set("tensor", cut.tensor);
  out.set("pipeline", cut.pipeline);
  out.set("data", cut.data);
  if (cut.context > 1) {
    out.set("context", cut.context);
    out.set("context_method", draw.text({"ring", "all_gather", "all_to_all"}));
  }
  if (cut.chunks > 1) out.set("virtual_pipeline", cut.chunks);
  if (cut.tensor > 2 && draw.chance(10)) out.set("tensor_in", 2);
  if (cut.mixture) {
    out.set("expert", cut.expert);
    if (draw.chance(30)) out.set("expert_tensor", draw.of<std::int64_t>({1, 2, 4}));
  }
  out.set("schedule", cut.schedule);
  const std::string sharding = draw.text({"none", "optimizer", "gradients", "parameters"});
  if (draw.chance(85)) out.set("sharding", sharding);
  if (sharding != "none" && draw.chance(35)) {
    const std::int64_t copies = std::gcd(cut.data * cut.context, draw.of<std::int64_t>({2, 3, 4}));
    out.set("shard_group", cut.data * cut.context / copies);
  }
  if (sharding == "parameters" && draw.chance(25))
    out.set(draw.text({"weight_group", "gradient_group", "secondary_group"}), draw.of<std::int64_t>({1, 2, 4}));
  if (cut.mixture || draw.chance(50)) out.set("sequence_parallel", cut.tensor > 1);
  if (draw.chance(8)) out.set("optimizer_post_validation", "true");
  return out.text();
}

std::string recompute_section(const RankCut& cut, Draw& draw) {
  if (draw.chance(40)) return "recompute: " + draw.text({"none", "selective", "full"}) + "\n";
  if (draw.chance(15)) return "";
  Section out("recompute");
  if (draw.chance(20)) {
    out.set("kind", "full");
    out.set("layers", 1 + draw.below(3));
    return out.text();
  }
  std::vector<std::string> modules;
  for (const char* module :
       {"core_attention", "attention_out", "qkv", "mlp", "mlp_up", "mlp_down", "activation", "norms"})
    if (draw.chance(22)) modules.emplace_back(module);
  for (const char* module : {"moe", "moe_act", "mla_up_proj", "router"})
    if (cut.mixture && draw.chance(15)) modules.emplace_back(module);
  if (modules.empty()) modules.emplace_back("core_attention");
  out.set("modules", fmt::format("[{}]", fmt::join(modules, ", ")));
  if (draw.chance(25)) out.set("layers", 1 + draw.below(3));
  return out.text();
}

std::string experts_section(const RankCut& cut, Draw& draw) {
  if (!cut.mixture) return "";
  Section out("experts");
  if (draw.chance(40)) out.set("dispatcher", draw.of(choices("experts.dispatcher")));
  if (draw.chance(15)) out.set("fp8_dispatch", draw.flag());
  if (draw.chance(15)) out.set("fused_mlp", draw.flag());
  if (draw.chance(15)) out.set("overlap_shared", draw.flag());
  if (draw.chance(20)) {
    out.set("capacity_factor", draw.text({"1", "1.25", "2"}));
    out.set("pad_to_capacity", draw.flag());
  }
  if (draw.chance(20)) {
    out.set("imbalance", draw.text({"1.1", "1.5"}));
  } else if (draw.chance(15)) {
    out.set("skew", "0.3");
    out.set("seed", draw.below(9));
  }
  return out.text();
}

std::string offload_section(const RankCut& cut, Draw& draw) {
  if (draw.chance(85)) return "";
  Section out("offload");
  if (cut.pipeline == 1 && draw.chance(50)) out.set("activation_layers", 1);
  if (draw.chance(30)) return out.text();
  out.set("optimizer", "true");
  if (draw.chance(30)) out.set("optimizer_fraction", "0.5");
  if (draw.chance(30)) out.set("optimizer_overlap", "true");
  if (draw.chance(15)) out.set("parameters", "true");
  return out.text();
}

std::string perturb_section(const RankCut& cut, Draw& draw) {
  if (draw.chance(70)) return "";
  Section out("perturb");
  if (draw.chance(40))
    out.set("slow_gpus",
            fmt::format("[{{gpu: {}, slowdown: {}}}]", draw.below(cut.gpus()), draw.text({"0.5", "1.1", "1.37", "3"})));
  if (draw.chance(30))
    out.set("slow_nics", fmt::format("[{{node: 0, nic: {}, rate: 0.{}}}]", draw.below(4), 1 + draw.below(9)));
  if (draw.chance(30))
    out.set("background", fmt::format("{{{}: 0.{}}}", draw.text({"leaf", "spine", "core"}), 1 + draw.below(8)));
  if (draw.chance(25)) out.set("jitter", fmt::format("{{sigma: 0.{}, seed: {}}}", 1 + draw.below(4), draw.below(99)));
  if (draw.chance(25))
    out.set("message_jitter", fmt::format("{{sigma: 0.{}, seed: {}}}", 1 + draw.below(4), draw.below(99)));
  return out.text();
}

std::string other_sections(const RankCut& cut, Draw& draw) {
  std::string text;
  if (draw.chance(60)) text += "precision: " + draw.text({"bf16", "bf16", "fp16", "fp8", "fp8-blockwise"}) + "\n";
  if (draw.chance(30)) text += "attention: " + draw.text({"flash", cut.context > 1 ? "flash" : "unfused"}) + "\n";
  if (draw.chance(30))
    text += "optimizer: " + draw.text({"adam", "lamb", "sgd", "muon", "adamw_8bit", "adafactor", "lion"}) + "\n";
  if (draw.chance(70)) text += "software: " + draw.of(scenarios::shipped("software")) + "\n";
  if (draw.chance(60)) {
    Section overlap("overlap");
    for (const char* part : {"tensor", "pipeline", "gradients", "parameters"}) overlap.set(part, draw.flag());
    if (cut.mixture && draw.chance(15)) overlap.set("experts", "true");
    text += overlap.text();
  }
  if (cut.tuned) {
    Section tuned("finetune");
    tuned.set("kind", draw.text({"lora", "lora", "qlora"}));
    tuned.set("rank", draw.of<std::int64_t>({8, 16, 32}));
    if (draw.chance(60)) tuned.set("modules", draw.text({"attention", "all"}));
    if (draw.chance(30)) tuned.set("dropout", "0.1");
    text += tuned.text();
  }
  if (draw.chance(10)) text += fmt::format("placement: {{random_seed: {}}}\n", draw.below(9));
  if (draw.chance(8)) text += "evaluation: {every_steps: 10, sequences: 64}\n";
  return text;
}

std::string all_keys(Draw& draw) {
  const RankCut cut = cut_of(draw);
  const std::int64_t rounds = draw.of<std::int64_t>({1, 2, 3, 4, 8, 16, 2 * cut.pipeline, 4 * cut.pipeline});
  Section batch("batch");
  batch.set("global", cut.data * cut.micro * rounds);
  batch.set("micro", cut.micro);
  if (draw.chance(10)) batch.set("document_tokens", 64);
  // One after the other: what is drawn depends on the order.
  std::string text = cluster_section(cut, draw);
  text += model_section(cut, draw);
  text += parallelism_section(cut, draw);
  text += batch.text();
  text += recompute_section(cut, draw);
  text += experts_section(cut, draw);
  text += offload_section(cut, draw);
  text += perturb_section(cut, draw);
  text += other_sections(cut, draw);
  return text;
}

/// The first line in which two texts differ.
std::string difference(const std::string& a, const std::string& b) {
  std::size_t line = 0, at = 0;
  while (at < std::min(a.size(), b.size()) && a[at] == b[at]) {
    if (a[at++] == '\n') line = at;
  }
  if (at == a.size() && at == b.size()) return "";
  return fmt::format("'{}' folded, '{}' full", a.substr(line, a.find('\n', at) - line),
                     b.substr(line, b.find('\n', at) - line));
}

/// What is wrong with a run; empty where nothing is.
std::string wrong_with(const workloads::Job& job) {
  workloads::Question options, brief;
  const workloads::StepReport folded = workloads::simulate_step(job, options);
  options.ranks = workloads::Question::Ranks::every;
  const workloads::StepReport full = workloads::simulate_step(job, options);
  if (const std::string wrong = tests::contradiction(folded); !wrong.empty() && !folded.traffic.empty()) return wrong;
  if (std::string wrong = difference(tests::comparable(folded), tests::comparable(full)); !wrong.empty()) return wrong;
  brief.parts = workloads::Question::Parts::times;
  const sim::Duration alone = workloads::simulate_step(job, brief).iteration;
  return alone == folded.iteration ? ""
                                   : fmt::format("brief {} ps, folded {} ps", alone.value(), folded.iteration.value());
}

std::int64_t asked(const char* variable, std::int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoll(text) : otherwise;
}

}  // namespace

TEST_CASE("all keys drawn together are computed alike in every way, or refused in one line") {
  const std::int64_t jobs = asked("ORRERY_ALL_KEYS_JOBS", 40);
  const std::clock_t begin = std::clock();
  Draw draw(static_cast<std::uint64_t>(asked("ORRERY_ALL_KEYS_SEED", 1)));
  std::int64_t run = 0, refused = 0;
  std::vector<std::string> wrong;
  while (run < jobs && refused < 50 * jobs) {
    const std::string text = all_keys(draw);
    std::string found;
    try {
      found = wrong_with(scenarios::load_scenario(scenarios::parse_yaml(text, "all.yaml")).job);
      ++run;
    } catch (const sim::UserError& error) {
      ++refused;
      const std::string line = error.what();
      if (line.find('\n') != std::string::npos || !line.starts_with("all.yaml:")) found = "not one line: " + line;
    } catch (const std::exception& error) {
      ++run;
      found = error.what();
    }
    if (!found.empty()) wrong.push_back(found + "\n" + text);
  }
  std::cout << fmt::format("all keys together: {} run, {} refused, {:.1f} s\n", run, refused,
                           static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  CHECK(run == jobs);
  for (const std::string& one : wrong) std::cout << one << "\n";
  CHECK(wrong.empty());
}
