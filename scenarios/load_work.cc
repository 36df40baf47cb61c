// The sections `model`, `parallelism` and `batch`: what is trained and how it is laid out over ranks.
//
// Defaults: kv_heads = heads (multi-head attention); ffn_hidden = 4 hidden (GPT), or with a gated MLP 8/3 hidden
// rounded up to a multiple of 256 (Touvron et al., LLaMA, arXiv 2302.13971, and its code); data = gpus / (tensor x
// pipeline x context).
#include <algorithm>

#include "scenarios/library.h"
#include "scenarios/load.h"
#include "scenarios/load_encoder.h"
#include "scenarios/load_experts.h"
#include "scenarios/load_low_rank.h"
#include "scenarios/load_pattern.h"
#include "scenarios/load_recommender.h"
#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "workloads/schedules/catalogue.h"

namespace orrery::scenarios {

using sim::Settings;
using workloads::Job;
using workloads::Schedule;

namespace {

/// The value of the enumeration whose name the text is; `text` is one of them.
template <class Enum>
Enum enum_named(std::string_view name, int count) {
  for (int i = 0; i < count; ++i) {
    if (workloads::name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  SIM_CHECK(false, "no enumerator is called {}", name);
  return {};
}

/// A choice of the model that by default is the first; what is absent is noted as `phrase`.
template <class Enum>
Enum choice(const Settings& section, const char* key, const std::vector<std::string>& choices,
            std::vector<std::string>& absent, const char* phrase) {
  if (const Settings* member = given(&section, key); member != nullptr)
    return enum_named<Enum>(member->as_choice(choices), static_cast<int>(choices.size()));
  absent.emplace_back(phrase);
  return static_cast<Enum>(0);
}

void load_features(const Settings& section, Job& job) {
  workloads::Model& model = job.model;
  std::vector<std::string> absent;
  const auto flag = [&](const char* key, bool fallback, const char* phrase) {
    if (given(&section, key) == nullptr) absent.emplace_back(phrase);
    return boolean(&section, key, fallback);
  };
  const Settings* activation = given(&section, "activation");
  if (activation != nullptr)
    model.mlp.activation = enum_named<workloads::Activation>(
        activation->as_choice({"gelu", "swiglu", "squared_relu", "relu"}), workloads::kActivations);
  const bool gates = model.mlp.activation == workloads::Activation::swiglu;
  model.mlp.gated =
      activation != nullptr ? boolean(&section, "gated_mlp", gates) : flag("gated_mlp", false, "no gated MLP");
  if (gates && !model.mlp.gated)
    activation->fail("got swiglu with gated_mlp false, expected gelu, squared_relu or relu");
  if (activation == nullptr && model.mlp.gated) model.mlp.activation = workloads::Activation::swiglu;
  model.parallel_block = flag("parallel_block", false, "no parallel block");
  model.tied_embeddings = flag("tied_embeddings", true, "tied embeddings");
  model.positions = choice<workloads::Positions>(
      section, "positions", {"learned", "rotary", "none", "alibi", "relative"}, absent, "learned positions");
  model.norm = choice<workloads::Norm>(section, "norm", {"layer_norm", "rms_norm"}, absent, "layer norms");
  model.biases = choice<workloads::Biases>(section, "biases", {"all", "qkv", "none"}, absent, "biases");
  if (!absent.empty()) {
    job.assumptions.push_back(fmt::format("The model's features that are not given: {}.", fmt::join(absent, ", ")));
  }
  model.post_norm = boolean(&section, "post_norm", false);
  model.residual_streams = integer(&section, "residual_streams", 1);
  model.attention.qk_norm = boolean(&section, "qk_norm", false);
  model.attention.rotary_factor = number(&section, "rotary_factor", 1);
  model.attention.window = integer(&section, "attention_window", 0);
  const Settings* kind = given(&section, "attention_window_kind");
  model.attention.chunked = kind != nullptr && kind->as_choice({"sliding", "chunked"}) == "chunked";
  if (model.attention.chunked && model.attention.window == 0)
    kind->fail("got chunked without attention_window, expected the tokens of a chunk there, or sliding");
  if (model.attention.window > model.seq && !model.attention.chunked)
    section.at("attention_window").expected(fmt::format("at most model.seq, which is {}", model.seq));
  model.attention.window_every = integer(&section, "attention_window_every", 0);
  if (model.attention.window_every > model.layers)
    section.at("attention_window_every").expected(fmt::format("at most model.layers, which is {}", model.layers));
  if (given(&section, "attention_window") == nullptr && given(&section, "blocks") == nullptr) {
    assume(job, "model.attention_window", "none", "that is full causal attention");
  }
}

/// Chunks per stage as the schedule needs them: some lay two, whatever virtual_pipeline says by default.
const Schedule* with_chunks(const Settings& given_name, const Schedule& schedule, bool chunks_given, Job& job) {
  std::int64_t& chunks = job.parallelism.virtual_pipeline;
  if (chunks == 1 && schedule.with_one_chunk != nullptr) {
    job.assumptions.push_back(fmt::format("parallelism.schedule: {} with one chunk per stage runs as {}.",
                                          schedule.name, schedule.with_one_chunk->name));
    return schedule.with_one_chunk;
  }
  const std::int64_t needed = schedule.chunks;
  if (needed == workloads::kAnyChunks || needed == chunks) return &schedule;
  if (needed == 1) {
    given_name.fail(fmt::format("got {} with virtual_pipeline {}, expected {}, or virtual_pipeline: 1 beside it",
                                schedule.name, chunks, workloads::usual_schedule(chunks).name));
  }
  // One chunk is what a record says that knows no other number.
  if (chunks_given && chunks != 1) {
    given_name.fail(fmt::format("got {} with virtual_pipeline {}, expected {} or none", schedule.name, chunks, needed));
  }
  if (chunks_given || job.parallelism.pipeline > 1) {
    job.assumptions.push_back(
        fmt::format("parallelism.virtual_pipeline: {} lays {} chunks on every stage.", schedule.name, needed));
  }
  chunks = needed;
  return &schedule;
}

/// Stages that step their optimizers apart cannot share an embedding between the first and the last of them, or one
/// waits for the other: the authors of ZB-H1 and ZB-H2 untie it (--untie-embeddings-and-output-weights in their
/// example script, github.com/sail-sg/zero-bubble-pipeline-parallelism), and so does a model that leaves it open.
void untie_embeddings(const Settings& document, Job& job) {
  const workloads::Parallelism& layout = job.parallelism;
  if (!layout.optimizer_post_validation || layout.chunk_map().ends_meet()) return;
  const Resolved model = resolve(shelf_of("models"), required(document, "model"));
  if (given(&model.document, "tied_embeddings") != nullptr) return;
  job.model.tied_embeddings = false;
  for (std::string& line : job.assumptions) {  // what load_features said before the schedule was known
    const std::size_t at = line.starts_with("The model's features") ? line.find(" tied embeddings") : std::string::npos;
    if (at != std::string::npos) line.replace(at, 5, " untied");
  }
  assume(job, "model.tied_embeddings", "false",
         fmt::format("as the authors of {} train: shared, the first stage would wait for the last",
                     layout.schedule->name));
}

const Schedule* load_schedule(const Settings* section, Job& job) {
  const std::int64_t chunks = job.parallelism.virtual_pipeline;
  if (const Settings* name = given(section, "schedule"); name != nullptr) {
    const Schedule* schedule = workloads::schedule_named(name->as_choice(workloads::schedule_names()));
    return with_chunks(*name, *schedule, given(section, "virtual_pipeline") != nullptr, job);
  }
  const Schedule& usual = workloads::usual_schedule(chunks);
  if (chunks > 1) {
    assume(job, "parallelism.schedule", usual.name, "as virtual_pipeline is above 1");
    return &usual;
  }
  const Schedule* preferred = workloads::schedule_named(job.software.defaults.schedule);
  // What a generation prefers may need more than one chunk.
  const Schedule* schedule = preferred != nullptr && preferred->chunks == 1 ? preferred : &usual;
  if (job.parallelism.pipeline > 1)
    assume(job, "parallelism.schedule", schedule->name, "as there is one chunk per stage");
  return schedule;
}

/// Layers of every block of the pipeline, where the scenario gives them.
void load_stage_layers(const Settings* section, Job& job) {
  const Settings* list = given(section, "stage_layers");
  job.machine.mixture.balances_layers = false;
  if (list == nullptr) return;
  if (list->is_scalar() && list->text() == "balanced") {
    job.machine.mixture.balances_layers = true;  // once the kinds of nodes are placed
    return;
  }
  const std::int64_t blocks = job.parallelism.chunk_map().blocks();
  const bool sequence = list->is_sequence();
  std::int64_t sum = 0;
  if (sequence) {
    for (const Settings& item : list->items()) {
      job.parallelism.stage_layers.push_back(item.as_int(0, job.model.layers));
      sum += job.parallelism.stage_layers.back();
    }
  }
  if (!sequence || static_cast<std::int64_t>(list->items().size()) != blocks || sum != job.model.layers) {
    list->fail(fmt::format(
        "got {}, expected {} numbers (one for each of the {} pieces of the pipeline, first to last) that sum to "
        "the model's {} layers, or balanced",
        sequence ? fmt::format("{} numbers that sum to {}", list->items().size(), sum)
                 : std::string("something else than a list"),
        blocks, blocks, job.model.layers));
  }
}

void load_context(const Settings* section, Job& job) {
  workloads::Parallelism& layout = job.parallelism;
  layout.context = integer(section, "context", 1);
  const Settings* method = given(section, "context_method");
  if (method != nullptr)
    layout.context_method =
        enum_named<workloads::ContextMethod>(method->as_choice({"ring", "all_gather", "all_to_all"}), 3);
  else if (layout.context > 1)
    assume(job, "parallelism.context_method", "ring", "as Megatron-LM sends keys and values");
}

/// The data-parallel degree: given, or what the other degrees leave of the GPUs.
void load_data_degree(const Settings& document, const Settings* section, Job& job) {
  workloads::Parallelism& layout = job.parallelism;
  const std::int64_t others = layout.tensor * layout.pipeline * layout.context;  // each at most 2^20: no overflow
  std::string product = fmt::format("tensor {} x pipeline {}", layout.tensor, layout.pipeline);
  if (layout.context > 1) product += fmt::format(" x context {}", layout.context);
  if (const Settings* data = given(section, "data"); data != nullptr) {
    layout.data = data->as_int();
    if (others > job.machine.gpus || layout.data * others != job.machine.gpus) {
      const std::string right = job.machine.gpus % others == 0 ? fmt::format("data: {}", job.machine.gpus / others)
                                                               : fmt::format("a multiple of {} GPUs", others);
      data->fail(fmt::format("got {} x data {}, which needs {} GPUs, but cluster.gpus is {}, expected {}", product,
                             layout.data, static_cast<double>(layout.data) * static_cast<double>(others),
                             job.machine.gpus, right));
    }
    return;
  }
  if (others > job.machine.gpus || job.machine.gpus % others != 0) {
    fail_at(document, "parallelism.tensor",
            fmt::format("got {}, which does not divide cluster.gpus, which is {}, expected a multiple of {} GPUs",
                        product, job.machine.gpus, others));
  }
  layout.data = job.machine.gpus / others;
  assume(job, "parallelism.data", std::to_string(layout.data), "which uses all GPUs");
}

void load_batch(const Settings& document, Job& job, bool data_given) {
  const Settings& section = document.at("batch");
  job.batch.micro = integer(&section, "micro", 1);
  if (given(&section, "micro") == nullptr) assume(job, "batch.micro", "1", "the smallest micro-batch");
  const Settings& global = required(section, "global");
  job.batch.global = global.as_int();
  std::int64_t& packed = job.model.attention.document;
  packed = integer(&section, "document_tokens", 0);
  if (packed > 0 && job.model.recommender.any())
    section.at("document_tokens").fail("got documents with a recommender, which has no sequences, expected none");
  if (packed > job.model.seq)
    section.at("document_tokens").expected(fmt::format("at most model.seq, which is {}", job.model.seq));
  const std::int64_t step = job.parallelism.data * job.batch.micro;
  const std::int64_t rest = job.batch.global % step;
  if (rest == 0) return;
  const std::int64_t padded = job.batch.global - rest + step;
  // Where the scenario leaves the data-parallel degree open, its batch need not fit the degree that is derived.
  if (!data_given && (padded - job.batch.global) * 100 <= job.batch.global) {
    job.assumptions.push_back(
        fmt::format("batch.global {} is no multiple of data {} x micro {}: {} sequences are simulated.",
                    job.batch.global, job.parallelism.data, job.batch.micro, padded));
    job.batch.global = padded;
    return;
  }
  global.fail(fmt::format("expected a multiple of data {} x micro {} = {}, got {}", job.parallelism.data,
                          job.batch.micro, step, job.batch.global));
}

/// Groups inside those that share out a state; one of all of these is what there is without the key.
void load_groups_inside(const Settings* section, Job& job) {
  const auto part = [&](const char* key) {
    const std::int64_t ranks = integer(section, key, 0);
    return ranks == job.shard_ranks() ? 0 : ranks;
  };
  job.parallelism.inside.weights = part("weight_group");
  job.parallelism.inside.gradients = part("gradient_group");
  job.parallelism.inside.secondary = integer(section, "secondary_group", 0);
}

/// `name` is only what a model is called; who gives it that of one that ships has likely meant to take that over.
void refuse_bare_name(const Settings& section, const Resolved& resolved) {
  const Settings* name = given(&section, "name");
  if (name == nullptr || !resolved.name.empty() || given(&section, "layers") != nullptr ||
      given(&section, "blocks") != nullptr)
    return;
  const std::vector<std::string> models = shipped("models");
  if (std::find(models.begin(), models.end(), name->text()) == models.end()) return;
  name->fail(fmt::format("got {0}, a model that ships, and no layers beside it; expected inherits: {0}", name->text()));
}

/// Attention, MLP and experts of layers that are all alike, or alternate.
void load_layers_alike(const Settings& section, Job& job) {
  workloads::Model& model = job.model;
  model.attention.kv_heads = integer(&section, "kv_heads", model.attention.heads);
  if (given(&section, "kv_heads") == nullptr) {
    assume(job, "model.kv_heads", std::to_string(model.attention.kv_heads), "one per query head");
  }
  load_mixture(section, job);
  const bool all_experts = model.experts.any() && model.experts.dense_layers == 0 && model.experts.every == 1;
  const std::int64_t wide = all_experts       ? model.experts.ffn_hidden
                            : model.mlp.gated ? (8 * model.hidden / 3 + 255) / 256 * 256
                                              : 4 * model.hidden;
  model.mlp.hidden = integer(&section, "ffn_hidden", wide);
  if (given(&section, "ffn_hidden") == nullptr && !all_experts) {
    assume(job, "model.ffn_hidden", std::to_string(wide),
           model.mlp.gated ? "8/3 of hidden rounded up to a multiple of 256" : "4 x hidden");
  }
  model.attention.head_width = integer(&section, "head_dim", 0);
  if (model.attention.head_width == 0 && !model.attention.latent.any() && model.hidden % model.attention.heads != 0) {
    fail_at(section, "heads",
            fmt::format("expected a divisor of hidden {}, got {}; or head_dim beside it", model.hidden,
                        model.attention.heads));
  }
  if (model.attention.heads % model.attention.kv_heads != 0) {
    fail_at(section, "kv_heads",
            fmt::format("expected a divisor of heads {}, got {}", model.attention.heads, model.attention.kv_heads));
  }
}

/// Blocks of a pattern; where model.layers is given too, it has to be as many.
std::int64_t count_of_blocks(const Settings& section) {
  const std::int64_t blocks = blocks_of(section);
  const Settings* layers = given(&section, "layers");
  if (layers != nullptr && layers->as_int() != blocks)
    layers->fail(fmt::format("got {}, expected {}, the blocks of model.blocks, or none", layers->text(), blocks));
  return blocks;
}

}  // namespace

void load_model(const Settings& document, Job& job) {
  const Settings& reference = required(document, "model");
  const Resolved resolved = resolve(shelf_of("models"), reference);
  const Settings& section = resolved.document;
  check_keys(section, "model");
  if (const Settings* kind = given(&section, "kind"); kind != nullptr) kind->as_choice({"gpt", "moe", "dlrm"});
  refuse_recommender_keys(document, section);
  workloads::Model& model = job.model;
  const std::string label = text(&section, "label", "");
  model.name = text(&section, "name", resolved.name.empty() ? label : resolved.name);
  if (model.name.empty()) model.name = "inline";
  refuse_bare_name(section, resolved);
  const bool pattern = has_pattern(section);
  model.layers = pattern ? count_of_blocks(section) : required(section, "layers").as_int();
  model.hidden = required(section, "hidden").as_int();
  model.attention.heads = pattern ? integer(&section, "heads", 1) : required(section, "heads").as_int();
  model.vocab = required(section, "vocab").as_int();
  model.seq = required(section, "seq").as_int();
  load_features(section, job);
  load_encoder(section, job);
  number(&section, "parameters", 0);
  number(&section, "active_parameters", 0);
  if (pattern)
    load_pattern(section, job);
  else
    load_layers_alike(section, job);
  load_low_rank(section, job);
}

void load_layout(const Settings& document, Job& job) {
  const Settings* section = given(&document, "parallelism");
  workloads::Parallelism& layout = job.parallelism;
  layout.tensor = integer(section, "tensor", 1);
  layout.pipeline = integer(section, "pipeline", 1);
  layout.virtual_pipeline = integer(section, "virtual_pipeline", 1);
  for (const char* key : {"tensor", "pipeline", "virtual_pipeline"}) {
    const bool idle = layout.pipeline == 1 && std::string_view(key) == "virtual_pipeline";
    if (given(section, key) == nullptr && !idle) assume(job, fmt::format("parallelism.{}", key), "1", "that is none");
  }
  load_context(section, job);
  load_data_degree(document, section, job);
  load_expert_layout(document, section, job);

  const std::string by_default = fmt::format("the default of {}", job.software.name);
  if (const Settings* sharding = given(section, "sharding"); sharding != nullptr) {
    layout.sharding =
        enum_named<workloads::Sharding>(sharding->as_choice({"none", "optimizer", "gradients", "parameters"}), 4);
  } else {
    layout.sharding = job.software.defaults.sharding;
    assume(job, "parallelism.sharding", name_of(layout.sharding), by_default);
  }
  layout.shard_group = integer(section, "shard_group", 0);
  layout.inside.tensor_in = integer(section, "tensor_in", 1);
  layout.sequence_parallel = boolean(section, "sequence_parallel", job.software.defaults.sequence_parallel);
  if (given(section, "sequence_parallel") == nullptr) {
    if (layout.tensor == 1 || layout.inside.tensor_in > 1 || job.model.seq % layout.tensor != 0)
      layout.sequence_parallel = false;
    if (layout.tensor > 1)
      assume(job, "parallelism.sequence_parallel", layout.sequence_parallel ? "true" : "false", by_default);
  }
  layout.schedule = load_schedule(section, job);
  load_groups_inside(section, job);
  load_stage_layers(section, job);
  // Without it ZB-H2 would wait for the first stage again.
  const bool staggers = layout.schedule->runtimes.step_apart;
  layout.optimizer_post_validation = boolean(section, "optimizer_post_validation", staggers);
  if (staggers && given(section, "optimizer_post_validation") == nullptr) {
    assume(job, "parallelism.optimizer_post_validation", "true",
           fmt::format("as the authors of {} step the optimizer", layout.schedule->name));
  }
  untie_embeddings(document, job);
  load_batch(document, job, given(section, "data") != nullptr);
}

}  // namespace orrery::scenarios
