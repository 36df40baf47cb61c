// The sections that say how the work is done: precision, recompute, attention, overlap, optimizer, evaluation, training
// and cost; and what was measured. What is left out of the first four is the training software's
// default.
#include <algorithm>
#include <cmath>

#include "scenarios/load.h"
#include "scenarios/load_experts.h"
#include "workloads/schedules/schedule.h"

namespace orrery::scenarios {

using sim::Settings;
using workloads::DataType;
using workloads::Job;

namespace {

DataType type_named(const std::string& name) {
  const std::vector<std::string>& names = calibration::data_type_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<DataType>(i);
  }
  SIM_CHECK(false, "no data type is called {}", name);
  return {};
}

DataType read_type(const Settings* section, const char* key, DataType fallback,
                   const std::vector<std::string>& choices) {
  const Settings* type = given(section, key);
  return type != nullptr ? type_named(type->as_choice(choices)) : fallback;
}

/// A generation's 16-bit type, where it is the other one of fp16 and bf16 than the scenario trains in.
DataType in_training_type(DataType preferred, const workloads::Precision& precision) {
  const bool sixteen = preferred == DataType::bf16 || preferred == DataType::fp16;
  const bool no_fp8 = preferred == DataType::fp8 && precision.matmul != DataType::fp8;
  return sixteen || no_fp8 ? precision.activations : preferred;
}

/// Whether the optimizer updates weights of 16 bits as they are, without a copy in fp32: as said by precision.master,
/// or where units are sharded by PyTorch (FSDP2 keeps what the model is: a model whose parameters and gradients are
/// said to be 16 bits has no copy, one under mixed precision has fp32 shards and says neither).
void load_master(const Settings* classes, Job& job) {
  const workloads::Precision& precision = job.method.precision;
  const Settings* master = given(classes, "master");
  if (master != nullptr) {
    const bool none = master->as_choice({"none", "fp32"}) == "none";
    if (none && precision.activations == DataType::fp32)
      master->fail(
          "got none with weights in fp32, which are their own, expected fp16 or bf16 as precision.activations");
    calibration::OptimizerStates& states = job.software.optimizer.states;
    if (none)
      states = calibration::OptimizerStates::as_weights;
    else if (states == calibration::OptimizerStates::as_weights)
      states = calibration::OptimizerStates::fp32;
    return;
  }
  const auto sixteen = [](DataType type) { return type == DataType::bf16 || type == DataType::fp16; };
  const bool said = given(classes, "parameters") != nullptr && given(classes, "gradients") != nullptr;
  const bool alone = said && sixteen(precision.parameters) && sixteen(precision.gradients);
  if (!alone || !job.software.layers.linear.copies_units() || job.software.optimizer.follows_weights()) return;
  job.software.optimizer.states = calibration::OptimizerStates::as_weights;
  job.assumptions.emplace_back(
      "precision.master is not given: none, as parameters and gradients are said to be in 16 bits and FSDP2 keeps what "
      "the model is; precision.master: fp32 for mixed precision.");
}

void load_precision(const Settings& document, Job& job) {
  const Settings* section = given(&document, "precision");
  workloads::Precision& precision = job.method.precision;
  const Settings* matmul = section;
  const Settings* classes = section != nullptr && section->is_mapping() ? section : nullptr;
  if (classes != nullptr) {
    matmul = given(classes, "matmul");
  }
  precision.matmul = matmul != nullptr ? type_named(matmul->as_choice(calibration::data_type_names())) : DataType::bf16;
  if (matmul == nullptr)
    assume(job, classes != nullptr ? "precision.matmul" : "precision", "bf16", "the usual training type");
  const DataType wide = calibration::is_quantised(precision.matmul) ? DataType::bf16 : precision.matmul;
  precision.activations = read_type(
      classes, "activations", wide,
      precision.matmul == DataType::fp32 ? std::vector<std::string>{"fp32"} : std::vector<std::string>{"fp16", "bf16"});
  // One buffer is accumulated in and reduced (megatron/model/distributed.py). Megatron-LM makes it fp32 unasked only
  // for bf16, whose sums would lose too much (megatron/arguments.py).
  const DataType buffers = precision.activations == DataType::fp16 ? job.software.gradients.fp16_accumulation
                                                                   : job.software.gradients.gradient_dtype;
  precision.gradients = read_type(classes, "gradients", in_training_type(buffers, precision), {"fp32", "bf16", "fp16"});
  precision.accumulation = precision.gradients;
  precision.parameters =
      read_type(classes, "parameters", in_training_type(job.software.gradients.parameter_gather_dtype, precision),
                {"fp32", "bf16", "fp16", "fp8"});
  load_master(classes, job);
  job.assumptions.push_back(fmt::format("Gradients are reduced in {} and parameters gathered in {}.",
                                        calibration::name_of(precision.gradients),
                                        calibration::name_of(precision.parameters)));
}

/// The index of the choice that was given, else of the software's default.
std::size_t load_choice(const Settings& document, Job& job, const char* key, const std::vector<std::string>& choices,
                        std::string_view preferred) {
  std::string word(preferred);
  if (const Settings* member = given(&document, key); member != nullptr) {
    word = member->as_choice(choices);
  } else {
    assume(job, key, preferred, fmt::format("the default of {}", job.software.name));
  }
  return static_cast<std::size_t>(std::find(choices.begin(), choices.end(), word) - choices.begin());
}

void load_overlap(const Settings& document, Job& job) {
  const Settings* section = given(&document, "overlap");
  const calibration::Software& software = job.software;
  if (section != nullptr && section->is_scalar()) {
    const bool all = section->as_bool();
    job.overlap = {all, all, all, all, false};
    return;
  }
  std::vector<std::string> absent;
  const auto flag = [&](const char* key, bool fallback) {
    if (given(section, key) == nullptr) absent.push_back(fmt::format("{} {}", key, fallback));
    return boolean(section, key, fallback);
  };
  job.overlap.tensor = flag("tensor", software.defaults.overlap_tensor);
  // What runtimes that post messages ahead gain would be lost in waiting else.
  using calibration::PipelineOverlap;
  const PipelineOverlap pipeline = software.defaults.overlap_pipeline;
  const bool overlaps = pipeline == PipelineOverlap::always ||
                        (pipeline == PipelineOverlap::of_chunks && job.parallelism.virtual_pipeline > 1);
  job.overlap.pipeline = flag("pipeline", overlaps || job.parallelism.schedule->runtimes.post_ahead);
  const bool last = software.gradients.of_shards == calibration::ShardReduction::all_reduce_last &&
                    job.parallelism.sharding == workloads::Sharding::optimizer;
  job.overlap.gradients = flag("gradients", software.defaults.overlap_gradients && !last);
  job.overlap.parameters = flag("parameters", software.defaults.overlap_parameters);
  job.overlap.experts = boolean(section, "experts", false);
  const bool pairs = workloads::pairs_passes(job.parallelism) || job.parallelism.schedule->copies() > 1;
  if (job.overlap.experts && !pairs) {
    section->at("experts").fail(
        "got true, expected false: exchanges hide behind another micro-batch on one stage, with interleaved_1f1b or "
        "with dualpipe");
  }
  if (!absent.empty()) {
    job.assumptions.push_back(
        fmt::format("overlap is not given in full: {}, the default of {}.", fmt::join(absent, ", "), software.name));
  }
}

/// A word, or a mapping that says which parts of a layer selective recomputation is of. Names as Megatron-Core's
/// --recompute-modules has them, and the longer ones.
void load_recompute(const Settings& document, const std::vector<std::string>& kinds, Job& job) {
  using Parts = workloads::RecomputedParts;
  const Settings* section = given(&document, "recompute");
  if (section == nullptr || !section->is_mapping()) {
    std::vector<std::string> words = kinds;
    words.emplace_back("partial");
    const std::size_t word = load_choice(document, job, "recompute", words, name_of(job.software.defaults.recompute));
    const bool partial = word == kinds.size();
    job.method.recompute = partial ? workloads::Recompute::selective : static_cast<workloads::Recompute>(word);
    if (partial)
      job.assumptions.emplace_back(
          "recompute: partial does not say what is computed again: core attention, as selective.");
    return;
  }
  job.method.recompute = static_cast<workloads::Recompute>(
      load_choice(*section, job, "kind", kinds, name_of(workloads::Recompute::selective)));
  if (const Settings* layers = given(section, "layers"); layers != nullptr) {
    const std::string got = fmt::format("got {}, expected ", layers->as_int());
    if (job.method.recompute == workloads::Recompute::none) layers->fail(got + "none beside kind: none");
    job.method.recomputed_layers = layers->as_int();
  }
  const Settings* modules = given(section, "modules");
  if (modules == nullptr) return;
  if (!modules->is_sequence()) modules->expected("a list, as in [core_attention, moe_act]");
  static const std::vector<std::pair<std::string, bool Parts::*>> kParts{
      {"core_attention", &Parts::core_attention},
      {"core_attn", &Parts::core_attention},
      {"attention_core", &Parts::core_attention},
      {"norms", &Parts::norms},
      {"layernorm", &Parts::norms},
      {"qkv", &Parts::qkv},
      {"attention_out", &Parts::attention_out},
      {"mlp_down", &Parts::mlp_down},
      {"activation", &Parts::activation},
      {"mlp", &Parts::mlp},
      {"mlp_up", &Parts::mlp},
      {"mla_up_proj", &Parts::latent_up},
      {"moe", &Parts::experts},
      {"moe_act", &Parts::expert_activation},
      {"router", &Parts::router},
      {"every_second_product", &Parts::every_second_product}};
  std::vector<std::string> names;
  for (const auto& [name, part] : kParts) names.push_back(name);
  Parts& parts = job.method.recomputed;
  parts = {};
  parts.core_attention = false;
  for (const Settings& module : modules->items()) {
    const std::string name = module.as_choice(names);
    for (const auto& [known, part] : kParts) {
      if (known == name) parts.*part = true;
    }
    // In blocks of a mixture, of which every operation but products and exchanges runs again.
    if (parts.every_second_product && job.model.experts.any()) parts.norms = true;
  }
}

/// Says where blocks that are recomputed as a whole end early, without which HFU looks too low beside MFU.
void say_early_stop(Job& job) {
  const workloads::Method& method = job.method;
  if (method.recompute != workloads::Recompute::full) return;
  if (!workloads::stops_ahead_of_last_product(job.model, job.software.layers.linear, method.adapters)) return;
  job.assumptions.push_back(
      fmt::format("recompute: full stops ahead of each block's last product, which no gradient needs, as {} does: "
                  "hardware FLOPs of blocks, and HFU, are less than 4/3 of the model's.",
                  job.software.name));
}

/// Adapters beside experts are whole on the ranks of their groups.
void check_adapters_of_mixture(const Settings& section, Job& job) {
  if (!job.model.experts.any()) return;
  const workloads::Adapters& adapters = job.method.adapters;
  const workloads::Parallelism& layout = job.parallelism;
  if (job.model.experts.mtp_layers > 0)
    section.fail("got adapters of a model with layers that predict further tokens, expected model.mtp_layers: 0");
  if (!adapters.on_mlp) return;
  if (layout.expert_tensor > 1)
    section.fail(
        fmt::format("got adapters beside experts that {} ranks share out (parallelism.expert_tensor), expected 1, or "
                    "modules: attention",
                    layout.expert_tensor));
  job.assumptions.emplace_back(
      "finetune: all experts of a rank share an adapter, which the ranks of an expert group keep alike, as "
      "Megatron-Bridge does (share_expert_adapters).");
}

/// Fine-tuning by low-rank adapters beside frozen weights.
void load_finetune(const Settings& document, Job& job) {
  const Settings* section = given(&document, "finetune");
  if (section == nullptr) return;
  if (!section->is_mapping()) section->expected("a mapping, as in {kind: lora, rank: 16}");
  const std::string kind = required(*section, "kind").as_choice({"lora", "qlora", "full"});
  if (kind == "full") {  // which is training as ever, of weights that somebody has trained before
    for (const auto& [name, member] : section->members()) {
      if (name != "kind") member.fail("has no meaning beside kind: full, which trains all weights");
    }
    return;
  }
  workloads::Adapters& adapters = job.method.adapters;
  if (kind == "qlora") adapters.frozen = workloads::Adapters::Frozen::nf4;
  adapters.rank = required(*section, "rank").as_int();
  const Settings* modules = given(section, "modules");
  adapters.on_mlp = modules != nullptr && modules->as_choice({"attention", "all"}) == "all";
  adapters.dropout = number(section, "dropout", 0) > 0;
  const bool quantised = calibration::is_quantised(job.method.precision.matmul);
  adapters.fp8_activation_input = boolean(section, "fp8_activation_input", quantised);
  if (job.model.pattern.any())
    job.assumptions.emplace_back(
        "finetune: adapters stand beside the products of attention, and with modules: all of MLPs; mixers with a state "
        "and latent attention have none.");
  check_adapters_of_mixture(*section, job);
  if (job.model.parallel_block)
    section->fail("got a model with parallel_block, expected one whose attention and MLP follow each other");
  if (kind == "qlora" && quantised)
    section->find("kind")->fail(
        fmt::format("got qlora with products in {}, expected bf16 or fp16, which 4 bits are made into",
                    calibration::name_of(job.method.precision.matmul)));
  job.assumptions.push_back(fmt::format(
      "finetune: frozen weights are held in {}; only the adapters have gradients{}.",
      kind == "qlora"
          ? std::string("4 bits and their scales (nf4), but embedding and head, and made into 16 for each product")
          : fmt::format("{} alone, as the products read them", calibration::name_of(job.method.precision.matmul)),
      adapters.fp8_activation_input ? "; the input of the MLP's activation is kept in fp8" : ""));
}

/// Muon's matrices have to be whole, and those of linear layers are all that it updates.
void check_muon(const Settings& optimizer, Job& job) {
  if (job.method.optimizer != workloads::OptimizerKind::muon) return;
  const auto refuse = [&](const char* with, const char* expected) {
    optimizer.fail(fmt::format("got muon with {}, expected {}", with, expected));
  };
  if (job.parallelism.sharding == workloads::Sharding::parameters)
    refuse("parallelism.sharding: parameters, which cuts every matrix over all ranks",
           "parallelism.sharding: none, optimizer or gradients, or another optimizer");
  if (job.method.adapters.any()) refuse("finetune", "another optimizer for adapters");
  if (job.model.recommender.any()) refuse("a recommender", "adagrad, adam or sgd");
  job.assumptions.emplace_back(
      "optimizer: muon makes updates of a stage's matrices orthogonal in bf16, five iterations each, tensor ranks "
      "those "
      "of their own parts; ranks that share out states do so for their share, for which gradients of matrices that end "
      "in another rank's share are not gathered; adam updates embeddings, head, norms and biases.");
}

}  // namespace

void load_options(const Settings& document, Job& job) {
  load_precision(document, job);
  const std::vector<std::string> recomputes{"none", "selective", "full"}, attentions{"flash", "unfused", "math"};
  const std::vector<std::string> optimizers = workloads::optimizer_names();
  load_recompute(document, recomputes, job);
  // math is PyTorch's name for unfused attention.
  const std::size_t attention =
      load_choice(document, job, "attention", attentions, name_of(job.software.defaults.attention));
  job.method.attention = attention == 0 ? workloads::AttentionKind::flash : workloads::AttentionKind::unfused;
  load_overlap(document, job);
  load_expert_style(document, job);
  load_finetune(document, job);
  say_early_stop(job);  // adapters run to the end
  job.method.optimizer = workloads::OptimizerKind::adam;
  if (const Settings* optimizer = given(&document, "optimizer"); optimizer != nullptr) {
    const std::string word = optimizer->as_choice(optimizers);
    job.method.optimizer = static_cast<workloads::OptimizerKind>(std::find(optimizers.begin(), optimizers.end(), word) -
                                                                 optimizers.begin());
    check_muon(*optimizer, job);
  } else {
    assume(job, "optimizer", "adam", "the usual one");
  }
  load_offload(document, job);
}

void load_evaluation(const Settings& document, Job& job) {
  const Settings* section = given(&document, "evaluation");
  if (section == nullptr) return;
  job.evaluation.every_steps = required(*section, "every_steps").as_int();
  job.evaluation.sequences = required(*section, "sequences").as_int();
}

void load_training(const Settings& document, Job& job) {
  if (const Settings* section = given(&document, "training"); section != nullptr) {
    job.training.tokens = number(section, "tokens", 0);
  }
  if (const Settings* section = given(&document, "cost"); section != nullptr) {
    job.training.price_per_gpu_hour_usd = number(section, "price_per_gpu_hour_usd", 0);
  }
}

namespace {
void load_cooling(const Settings& section, Job& job) {
  const Settings* given_cooling = given(&section, "cooling");
  if (given_cooling == nullptr) return;
  const calibration::PowerModel& power = job.machine.device.power();
  if (!power.known() || (!power.governs && given(&section, "cap") == nullptr)) {
    given_cooling->fail(
        fmt::format("{}'s clock does not follow from its power, expected a device whose clock does, or a cap",
                    job.machine.device.name()));
  }
  using By = workloads::Cooling::By;
  const std::string kind = required(*given_cooling, "kind").as_choice({"air", "liquid"});
  workloads::Cooling cooling = workloads::usual_cooling(kind == "liquid" ? By::liquid : By::air, power.limit);
  cooling.inlet_c = number(given_cooling, "inlet", cooling.inlet_c);
  cooling.resistance = number(given_cooling, "resistance", cooling.resistance);
  cooling.heating = number(given_cooling, "heating", cooling.heating);
  cooling.slowdown_c = number(given_cooling, "slowdown", cooling.slowdown_c);
  if (const Settings* rows = given(given_cooling, "rows")) cooling.rows = rows->as_int();
  if (const Settings* tau = given(given_cooling, "time_constant"))
    cooling.time_constant_s = sim::to_seconds(tau->as_duration());
  // What stands there, with what it leaks at the slowdown temperature, must leave the last row something to work with.
  const double limit = job.power.limit_of(power), room = workloads::least_room_w(cooling, limit);
  const double standing =
      job.power.at_temperature(power, cooling.slowdown_c - workloads::reference_temperature_c(power.limit)).standing;
  if (room <= standing) {
    given_cooling->fail(fmt::format(
        "got cooling that leaves the last of {} rows {:.0f} W below {:g} C, expected more than the {:.0f} W that {} "
        "draws there with nothing to do",
        cooling.rows, std::max(0.0, room), cooling.slowdown_c, standing, job.machine.device.name()));
  }
  job.power.cooling = cooling;
}

void load_temperature(const Settings& section, Job& job) {
  const calibration::PowerModel& power = job.machine.device.power();
  job.power.warmer_k = number(&section, "warmer", 0);
  job.power.temperature_spread_k = number(&section, "temperature_spread", 0);
  job.power.leakage_per_k = number(&section, "leakage_per_kelvin", job.power.leakage_per_k);
  const Settings* cap = given(&section, "cap");
  for (const char* key : {"warmer", "temperature_spread"}) {
    const Settings* given_key = given(&section, key);
    if (given_key == nullptr || given_key->as_number() == 0) continue;
    if (!power.known() || (!power.governs && cap == nullptr)) {
      given_key->fail(
          fmt::format("{}'s clock does not follow from its power, expected a device whose clock does, or a cap",
                      job.machine.device.name()));
    }
    const double limit = cap != nullptr ? std::min(cap->as_watts(), power.limit) : power.limit;
    const double standing = job.power.at_temperature(power, 3 * job.power.temperature_spread_k).standing;
    if (standing >= limit) {
      given_key->fail(
          fmt::format("got {}, at which {} would draw {:.0f} W with nothing to do, expected less than its {:g} W",
                      given_key->text(), job.machine.device.name(), standing, limit));
    }
  }
}
}  // namespace

void load_power(const Settings& document, Job& job) {
  const Settings* section = given(&document, "power");
  if (section == nullptr) return;
  const calibration::PowerModel& power = job.machine.device.power();
  job.power.pue = number(section, "pue", 1);
  job.power.carbon_g_per_kwh = number(section, "carbon_g_per_kwh", 0);
  load_temperature(*section, job);
  if (const Settings* cap = given(section, "cap")) {
    if (!power.known())
      cap->fail(fmt::format("{} has no power model, expected a device with one", job.machine.device.name()));
    job.power.cap_w = cap->as_watts();
    if (job.power.cap_w <= power.standing) {
      cap->fail(fmt::format("got {}, expected more than the {:g} W that {} draws with nothing to do", cap->text(),
                            power.standing, job.machine.device.name()));
    }
  }
  load_cooling(*section, job);
}

void note_extra(const Settings& document, Job& job) {
  const Settings* extra = given(&document, "extra");
  if (extra == nullptr) return;
  if (given(&document, "measured") == nullptr)
    extra->fail("got facts of a measured run without 'measured', expected keys of the scenario");
  if (!extra->is_mapping()) extra->fail("expected a mapping of facts, as in {cuda_graph: true}");
  std::vector<std::string> names;
  for (const auto& [name, value] : extra->members())
    names.push_back(value.is_scalar() ? fmt::format("{} {}", name, value.text()) : name);
  if (!names.empty())
    job.assumptions.push_back(fmt::format("Not modelled, of the record's extra: {}.", fmt::join(names, ", ")));
}

std::optional<Measured> load_measured(const Settings& document, std::int64_t gpu_count, std::int64_t tokens) {
  const Settings* section = given(&document, "measured");
  if (section == nullptr) return std::nullopt;
  const auto read = [&](const char* key) -> std::optional<double> {
    const Settings* member = given(section, key);
    if (member == nullptr) return std::nullopt;
    return member->as_number();
  };
  Measured measured;
  measured.iteration_s = read("iteration_s");
  measured.iteration_wall_s = read("iteration_wall_s");
  measured.tokens_per_s = read("tokens_per_s");
  measured.tokens_per_s_including_eval = read("tokens_per_s_including_eval");
  measured.tflops_per_gpu = read("tflops_per_gpu");
  measured.mfu_pct = read("mfu_pct");
  measured.hfu_pct = read("hfu_pct");
  measured.memory.peak_gb = read("memory_gb");
  if (const Settings* kind = given(section, "memory_kind"); kind != nullptr) {
    measured.memory.kind = kind->as_choice({"allocated", "reserved", "device"});
  }
  if (const Settings* rank = given(section, "memory_rank"); rank != nullptr)
    measured.memory.rank = rank->as_choice({"fullest", "first", "last"});
  const double gpus = static_cast<double>(gpu_count);
  const double seq = static_cast<double>(tokens);
  // Other spellings of throughput; an explicit tokens_per_s wins.
  const std::pair<const char*, double> throughputs[] = {
      {"tokens_per_s_per_gpu", gpus}, {"samples_per_s", seq}, {"samples_per_s_per_gpu", gpus * seq}};
  for (const auto& [key, factor] : throughputs) {
    const std::optional<double> value = read(key);
    if (value && !measured.tokens_per_s) measured.tokens_per_s = *value * factor;
  }
  if (const std::optional<double> pflops = read("aggregate_pflops"); pflops && !measured.tflops_per_gpu) {
    measured.tflops_per_gpu = *pflops * 1000 / gpus;
  }
  measured.memory.model_state_gb = read("model_state_gb");
  measured.evaluation_s = read("evaluation_s");
  measured.power_w = read("power_w");
  measured.energy_j = read("energy_j");
  if (const Settings* failed = given(section, "failed"); failed != nullptr) {
    failed->as_choice({"crashed_or_oom"});
    measured.failed = true;
  }
  if (given(section, "oom") != nullptr) measured.memory.oom = boolean(section, "oom", false);
  measured.tflops_kind = text(section, "tflops_kind", "");
  measured.iteration_source = text(section, "iteration_source", "");
  return measured;
}

}  // namespace orrery::scenarios
