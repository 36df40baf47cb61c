// `orrery import megatron`: the arguments of Megatron-LM's pretrain_gpt.py, with its defaults and its rules where an
// argument is left out (megatron/training/arguments.py). Left out: encoders, vision, and what changes values but not
// the work of a step. What nobody knows here is named and skipped.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <list>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>

#include "scenarios/library.h"
#include "tools/import/hybrid_letters.h"
#include "tools/import/import.h"
#include "tools/import/known_optimizers.h"
#include "tools/import/known_vocabularies.h"
#include "tools/import/launch_ways.h"
#include "tools/import/megatron_flags.h"
#include "workloads/schedules/schedule.h"

namespace orrery::tools {

using sim::Place;
using sim::Settings;
using sim::UserError;

namespace {

/// The options of a launch line by name, and which were asked for.
class Launch {
 public:
  /// `sets`: what the user lays over the scenario, which stands for what the script does not say.
  Launch(const LaunchLine& line, const std::vector<std::string>& sets, Draft& draft) : line_(line), draft_(draft) {
    for (const std::string& set : sets) sets_[set.substr(0, set.find('='))] = set.substr(set.find('=') + 1);
    for (const LaunchOption& option : line.options) {
      const auto [known, fresh] = options_.emplace(normal(option.name), &option);
      if (fresh) continue;
      if (known->second->values != option.values && taken_flags().contains(known->first)) {
        draft.ignored(fmt::format("--{} {} (line {})", option.name, text_of(*known->second), known->second->place.line),
                      fmt::format("{} follows (line {}), and of the same flag the last holds", text_of(option),
                                  option.place.line));
      }
      known->second = &option;
    }
  }

  const LaunchOption* find(const std::string& name) {
    asked_.insert(name);
    const auto found = options_.find(name);
    return found != options_.end() ? found->second : nullptr;
  }
  /// Whether it is there, which says nothing of who takes it.
  bool has(const std::string& name) const { return options_.contains(name); }
  bool flag(const std::string& name) {
    const LaunchOption* option = find(name);
    if (option == nullptr) return false;
    static const std::set<std::string> kWords{"true", "false", "True", "False", "0", "1"};
    const bool open = !option->values.empty() && option->values[0].find('$') != std::string::npos;
    if (open)
      draft_.ignored(fmt::format("{} behind --{}", option->values[0], name),
                     "what it holds is not known, taken as nothing");
    if (!option->values.empty() && kWords.contains(option->values[0]))
      refuse(*option, fmt::format("takes no value, got {}, expected the flag alone, or nothing", option->values[0]));
    return true;
  }
  /// The value as a Settings scalar whose path is the flag, so that complaints name it.
  std::optional<Settings> value(const std::string& name) {
    const LaunchOption* option = find(name);
    if (option == nullptr) return std::nullopt;
    const bool open = !option->values.empty() && option->values[0].find_first_of("$`") != std::string::npos;
    if (const std::optional<std::string> given = open ? given_for(name) : std::nullopt) {
      Settings holder = Settings::mapping(option->place);
      holder.set("--" + option->name, Settings::scalar(*given, option->place, true));
      return holder.members().front().second;
    }
    if (option->values.empty()) refuse(*option, "has no value, expected one");
    if (open) refuse(*option, not_known(name, option->values[0]));
    Settings holder = Settings::mapping(option->place);
    holder.set("--" + option->name, Settings::scalar(option->values[0], option->place, true));
    return holder.members().front().second;
  }
  /// All of an option's values; words that one variable held are several, as the shell makes of them.
  std::vector<std::string> words(const std::string& name) {
    std::vector<std::string> all;
    const LaunchOption* option = find(name);
    if (option == nullptr) return all;
    for (const std::string& value : option->values) {
      std::istringstream text(value);
      for (std::string word; text >> word;) all.push_back(word);
    }
    return all;
  }
  std::optional<std::int64_t> count(const std::string& name, std::int64_t low = 1) {
    const std::optional<Settings> given = value(name);
    if (!given) return std::nullopt;
    return given->as_int(low, 1'000'000'000'000);
  }
  std::int64_t need(const std::string& name) {
    const std::optional<std::int64_t> given = count(name);
    if (given) return *given;
    // What says layers by another name is a model of another family.
    for (const char* flag : {"encoder-num-layers", "decoder-seq-length"})
      if (find(flag) != nullptr) refuse(flag, "got an encoder beside a decoder, expected a decoder alone");
    const bool some = std::any_of(line_.options.begin(), line_.options.end(), [](const LaunchOption& each) {
      return each.name == "hidden-size" || each.name == "seq-length" || each.name == "micro-batch-size";
    });
    throw UserError(line_.place, "--" + name,
                    some ? "is not given, and Megatron-LM has no default for it"
                         : "is not given, nor is any size of a model: no training of Megatron-LM's is started here, or "
                           "its arguments stand in another file");
  }
  Place place(const std::string& name) const {
    const auto found = options_.find(name);
    return found != options_.end() ? found->second->place : line_.place;
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& message) const {
    throw UserError(place(name), "--" + name, message);
  }
  std::optional<std::int64_t> variable(const std::vector<std::string>& names) const {
    for (const auto& [name, text] : line_.variables) {
      const bool digits = !text.empty() && text.size() < 8 && text.find_first_not_of("0123456789") == std::string::npos;
      if (digits && std::find(names.begin(), names.end(), name) != names.end()) return std::stoll(text);
    }
    return std::nullopt;
  }
  std::string file_name() const { return std::filesystem::path(line_.place.file.text()).filename().string(); }
  /// A size that the model has and the launch does not say.
  void stand_for(const std::string& name, std::int64_t value) {
    stand_ins_.push_back({name, {std::to_string(value)}, line_.place});
    options_[name] = &stand_ins_.back();
  }
  bool is_set(const std::string& key) const { return sets_.contains(key); }
  /// A count of the launcher, where it is a plain number: "8", "gpu:8". `optional`: else it is left out.
  std::optional<std::int64_t> whole(const std::string& name, bool optional) {
    const LaunchOption* option = find(name);
    if (option == nullptr) return std::nullopt;
    const std::string text = option->values.empty() ? "" : option->values[0];
    const std::string digits = text.substr(text.rfind(':') + 1);
    const bool plain =
        !digits.empty() && digits.size() < 8 && digits.find_first_not_of("0123456789") == std::string::npos;
    if (plain) return std::stoll(digits);
    if (optional) return std::nullopt;
    if (text.find_first_of("$`") == std::string::npos) return count(name);
    draft_.assumed("--" + name, fmt::format("{}, which the script does not assign", text));
    return std::nullopt;
  }
  std::vector<std::string> unasked() const {
    std::vector<std::string> rest;
    for (const auto& [name, option] : options_) {
      if (!asked_.contains(name)) rest.push_back(name);
    }
    return rest;
  }

 private:
  /// torchrun takes both spellings of its own options.
  static std::string normal(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
  }
  static std::string text_of(const LaunchOption& option) {
    return option.values.empty() ? "no value" : fmt::format("{}", fmt::join(option.values, " "));
  }
  [[noreturn]] static void refuse(const LaunchOption& option, const std::string& message) {
    throw UserError(option.place, "--" + option.name, message);
  }

  /// The keys that flags with a whole number become.
  static const std::map<std::string, std::string>& keys() {
    static const std::map<std::string, std::string> kKeys{{"num-layers", "model.layers"},
                                                          {"hidden-size", "model.hidden"},
                                                          {"ffn-hidden-size", "model.ffn_hidden"},
                                                          {"num-attention-heads", "model.heads"},
                                                          {"num-query-groups", "model.kv_heads"},
                                                          {"kv-channels", "model.head_dim"},
                                                          {"seq-length", "model.seq"},
                                                          {"vocab-size", "model.vocab"},
                                                          {"padded-vocab-size", "model.vocab"},
                                                          {"num-experts", "model.experts"},
                                                          {"moe-router-topk", "model.top_k"},
                                                          {"moe-ffn-hidden-size", "model.expert_ffn_hidden"},
                                                          {"mtp-num-layers", "model.mtp_layers"},
                                                          {"tensor-model-parallel-size", "parallelism.tensor"},
                                                          {"pipeline-model-parallel-size", "parallelism.pipeline"},
                                                          {"context-parallel-size", "parallelism.context"},
                                                          {"expert-model-parallel-size", "parallelism.expert"},
                                                          {"expert-tensor-parallel-size", "parallelism.expert_tensor"},
                                                          {"micro-batch-size", "batch.micro"},
                                                          {"global-batch-size", "batch.global"},
                                                          {"world-size", "cluster.gpus"}};
    return kKeys;
  }
  std::optional<std::string> given_for(const std::string& flag) const {
    const auto key = keys().find(flag);
    if (key == keys().end()) return std::nullopt;
    const auto found = sets_.find(key->second);
    return found != sets_.end() ? std::optional<std::string>(found->second) : std::nullopt;
  }
  static std::string not_known(const std::string& flag, const std::string& text) {
    const auto key = keys().find(flag);
    return how_to_give(text, key != keys().end() ? key->second : "");
  }

  const LaunchLine& line_;
  std::list<LaunchOption> stand_ins_;
  Draft& draft_;
  std::map<std::string, std::string> sets_;
  std::map<std::string, const LaunchOption*> options_;
  std::set<std::string> asked_;
};

void take(Launch& launch, Draft& draft, const std::string& flag, const char* key) {
  if (const std::optional<std::int64_t> given = launch.count(flag)) draft.set(key, *given, launch.place(flag));
}

void take_vocabulary(Launch& launch, Draft& draft) {
  const std::optional<Settings> tokenizer = launch.value("tokenizer-type");
  take(launch, draft, "padded-vocab-size", "model.vocab");
  take(launch, draft, "vocab-size", "model.vocab");
  if (draft.has("model.vocab") || launch.is_set("model.vocab")) return;
  if (tokenizer && tokenizer->text() != "GPT2BPETokenizer") {
    const std::string files = fmt::format("{} {}", fmt::join(launch.words("tokenizer-model"), " "), launch.file_name());
    if (const auto known = vocabulary_of(tokenizer->text(), files)) {
      draft.set("model.vocab", known->second, tokenizer->place());
      draft.assumed("model.vocab",
                    fmt::format("{}, that of {}; --set model.vocab=N for another", known->second, known->first));
      return;
    }
    draft.set("model.vocab", kUnknownVocabulary, tokenizer->place());
    return draft.first(fmt::format("model.vocab: {} stands in: {} says no size of the vocabulary; --set model.vocab=N",
                                   kUnknownVocabulary, tokenizer->text()));
  }
  draft.set("model.vocab", std::int64_t{50257});
  draft.assumed("model.vocab", "50257, that of GPT2BPETokenizer");
}

void take_attention(Launch& launch, Draft& draft) {
  const std::int64_t heads = launch.need("num-attention-heads");
  draft.set("model.heads", heads, launch.place("num-attention-heads"));
  const bool grouped = launch.flag("group-query-attention");
  const std::optional<std::int64_t> groups = launch.count("num-query-groups");
  if (grouped) draft.set("model.kv_heads", groups.value_or(1), launch.place("num-query-groups"));
  if (!grouped && groups && *groups != heads)
    launch.refuse("num-query-groups", fmt::format("got {} without --group-query-attention, expected with it", *groups));
  if (!grouped) draft.set("model.kv_heads", heads);
  take(launch, draft, "kv-channels", "model.head_dim");
  if (const std::optional<Settings> window = launch.value("window-size")) {
    std::string left = window->text();
    left.erase(std::remove_if(left.begin(), left.end(), [](char c) { return c == '(' || c == ' '; }), left.end());
    left = left.substr(0, left.find(','));
    const std::int64_t span = Settings::scalar(left, window->place()).as_int(-1, 100'000'000);
    if (span >= 0) draft.set("model.attention_window", span + 1, window->place());  // keys to the left, and its own
  }
  if (const auto every = launch.count("window-attn-skip-freq"))
    draft.set("model.attention_window_every", *every, launch.place("window-attn-skip-freq"));
}

/// Latent attention (--multi-latent-attention); its sizes by default are those of megatron/core's MLATransformerConfig.
void take_latent(Launch& launch, Draft& draft) {
  if (!launch.flag("multi-latent-attention")) return;
  draft.set("model.attention_kind", std::string("mla"));
  const auto size = [&](const char* flag, const char* key, std::int64_t fallback) {
    draft.set(key, launch.count(flag).value_or(fallback), launch.place(flag));
  };
  // arguments.py has no default for this one: queries are not compressed unless asked.
  if (const std::optional<std::int64_t> queries = launch.count("q-lora-rank", 0); queries.value_or(0) > 0)
    draft.set("model.q_lora", *queries, launch.place("q-lora-rank"));
  else
    draft.assumed("model.q_lora", "none, as --q-lora-rank is not given");
  size("kv-lora-rank", "model.kv_lora", 512);
  size("qk-head-dim", "model.qk_nope_dim", 128);
  size("qk-pos-emb-head-dim", "model.qk_rope_dim", 64);
  size("v-head-dim", "model.v_dim", 128);
}

/// Which layers have experts: one in so many, or a list, of which dense first layers are modelled.
void take_pattern(Launch& launch, Draft& draft, std::int64_t count) {
  const std::optional<Settings> pattern = launch.value("moe-layer-freq");
  if (!pattern) return;
  const std::string& text = pattern->text();
  if (text.find('[') == std::string::npos) {
    draft.set("model.moe_every", pattern->as_int(1, 10'000), pattern->place());
    return;
  }
  constexpr std::size_t kMostLayers = 100'000;
  const std::optional<std::vector<bool>> layers = layers_of(text, kMostLayers);
  const std::optional<ExpertLayers> found = layers ? expert_layers(*layers) : std::nullopt;
  if (!found)
    launch.refuse("moe-layer-freq", fmt::format("got {}, expected a number, or dense layers ahead of the others as in "
                                                "([0]*3+[1]*58), or experts in the last of every so many: ([0,1]*24)",
                                                text));
  if (static_cast<std::int64_t>(layers->size()) != count)
    launch.refuse("moe-layer-freq",
                  fmt::format("got {}, of {} layers, expected the {} of --num-layers", text, layers->size(), count));
  if (found->dense > 0) draft.set("model.dense_layers", found->dense, pattern->place());
  if (found->every > 1) draft.set("model.moe_every", found->every, pattern->place());
}

/// One expert alone is an MLP: Megatron-DeepSpeed's default of --num-experts.
bool has_experts(Launch& launch) {
  return launch.find("num-experts") != nullptr && launch.count("num-experts").value_or(1) > 1;
}

/// `hidden`, `gated`: of the model.
void take_mixture(Launch& launch, Draft& draft, std::int64_t hidden, bool gated) {
  const std::optional<std::int64_t> experts = launch.count("num-experts");
  if (!experts) return;
  if (*experts == 1) return draft.ignored("--num-experts", "1 is an MLP, as a dense model has");
  draft.set("model.experts", *experts, launch.place("num-experts"));
  draft.set("model.top_k", launch.count("moe-router-topk").value_or(2), launch.place("moe-router-topk"));
  if (const auto groups = launch.count("moe-router-num-groups")) {
    draft.set("model.expert_groups", *groups, launch.place("moe-router-num-groups"));
    if (const auto open = launch.count("moe-router-group-topk"))
      draft.set("model.top_groups", *open, launch.place("moe-router-group-topk"));
  }
  const std::int64_t wide = launch.count("ffn-hidden-size").value_or(gated ? hidden * 4 * 2 / 3 / 64 * 64 : 4 * hidden);
  draft.set("model.expert_ffn_hidden", launch.count("moe-ffn-hidden-size").value_or(wide),
            launch.place("moe-ffn-hidden-size"));
  take(launch, draft, "moe-latent-size", "model.expert_latent");
  if (const auto shared = launch.count("moe-shared-expert-intermediate-size")) {
    draft.set("model.shared_experts", std::int64_t{1});
    draft.set("model.shared_expert_ffn_hidden", *shared, launch.place("moe-shared-expert-intermediate-size"));
    if (launch.flag("moe-shared-expert-gate")) draft.set("model.shared_gate", true);
  }
  if (const auto predicted = launch.count("mtp-num-layers")) draft.set("model.mtp_layers", *predicted);
  take_pattern(launch, draft, launch.need("num-layers"));
  take_latent(launch, draft);
  std::string dispatcher = "allgather";
  if (const std::optional<Settings> type = launch.value("moe-token-dispatcher-type"))
    dispatcher = type->as_choice({"allgather", "alltoall", "flex"});
  // Before flex had several backends a flag of its own chose the only one.
  const bool deepep = launch.flag("moe-enable-deepep");
  if (deepep && dispatcher != "flex")
    launch.refuse("moe-enable-deepep", fmt::format("got {}, expected --moe-token-dispatcher-type flex", dispatcher));
  const std::optional<Settings> backend = launch.value("moe-flex-dispatcher-backend");
  if (dispatcher == "flex") dispatcher = backend ? backend->as_choice({"deepep", "hybridep"}) : "deepep";
  draft.set("experts.dispatcher", dispatcher);
  if (const auto limit = launch.value("activation-func-clamp-value"))
    draft.set("model.activation_clamp", fmt::format("{:g}", limit->as_number(0, 1e6)), limit->place());
  draft.set("experts.grouped_gemm", launch.flag("moe-grouped-gemm"));
  draft.set("experts.fused_permutation", launch.flag("moe-permute-fusion"));
  draft.set("experts.fused_router", launch.flag("moe-router-fusion"));
  // Without the option the router works in the type of the hidden state (megatron/core/transformer/moe/router.py).
  const std::optional<Settings> scores = launch.value("moe-router-dtype");
  if (scores) scores->as_choice({"fp32", "fp64"});
  draft.set("experts.router_fp32", scores.has_value());
  draft.set("experts.overlap_shared", launch.flag("moe-shared-expert-overlap"));
  if (const std::optional<Settings> room = launch.value("moe-expert-capacity-factor")) {
    draft.set("experts.capacity_factor", room->text(), room->place());
    draft.set("experts.pad_to_capacity", launch.flag("moe-pad-expert-input-to-capacity"));
  }
}

/// Layers by letters, which say how many there are.
void take_hybrid(Launch& launch, Draft& draft, std::int64_t hidden) {
  for (const char* flag : {"hybrid-layer-pattern", "hybrid-override-pattern"}) {
    const std::optional<Settings> pattern = launch.value(flag);
    if (!pattern) continue;
    MambaSizes sizes;
    const auto size = [&](const char* name, std::int64_t& to) { to = launch.count(name).value_or(to); };
    size("mamba-num-heads", sizes.heads);
    size("mamba-head-dim", sizes.head_dim);
    size("mamba-state-dim", sizes.state);
    size("mamba-num-groups", sizes.groups);
    launch.stand_for("num-layers", std::max<std::int64_t>(1, layers_of_letters(pattern->text())));
    if (has_experts(launch) && pattern->text().find('E') == std::string::npos)
      launch.refuse("num-experts",
                    "got experts beside a pattern without E, which Megatron-LM's own layers do not have");
    put_letters(draft, *pattern, sizes, hidden);
  }
}

void take_model(Launch& launch, Draft& draft) {
  draft.set("model.kind", std::string(has_experts(launch) ? "moe" : "gpt"));
  const bool letters =
      launch.find("hybrid-layer-pattern") != nullptr || launch.find("hybrid-override-pattern") != nullptr;
  if (!letters) draft.set("model.layers", launch.need("num-layers"), launch.place("num-layers"));
  const std::int64_t hidden = launch.need("hidden-size");
  take_hybrid(launch, draft, hidden);
  if (letters) draft.set("model.layers", launch.need("num-layers"), launch.place("num-layers"));
  draft.set("model.hidden", hidden, launch.place("hidden-size"));
  take_attention(launch, draft);
  const bool quick = launch.flag("quick-geglu"), gated = launch.flag("swiglu") || quick;
  if (quick) draft.set("model.activation", std::string("gelu"));
  draft.set("model.gated_mlp", gated);
  if (launch.flag("squared-relu")) draft.set("model.activation", std::string("squared_relu"));
  if (launch.flag("qk-layernorm")) draft.set("model.qk_norm", true);
  const std::int64_t wide = gated ? hidden * 4 * 2 / 3 / 64 * 64 : 4 * hidden;
  draft.set("model.ffn_hidden", launch.count("ffn-hidden-size").value_or(wide), launch.place("ffn-hidden-size"));
  take_mixture(launch, draft, hidden, gated);
  take_vocabulary(launch, draft);
  draft.set("model.seq", launch.need("seq-length"), launch.place("seq-length"));
  draft.set("model.tied_embeddings", !launch.flag("untie-embeddings-and-output-weights"));

  std::string positions = "learned_absolute";
  if (const std::optional<Settings> type = launch.value("position-embedding-type"))
    positions = type->as_choice({"learned_absolute", "rope", "mrope", "none", "alibi"});
  if (positions == "mrope") {
    draft.ignored("--position-embedding-type mrope", "rotary by three positions of a token: the same work");
    positions = "rope";
  }
  const bool rotary = launch.flag("use-rotary-position-embeddings");
  if (rotary && (positions == "none" || positions == "alibi"))
    launch.refuse("use-rotary-position-embeddings",
                  fmt::format("contradicts --position-embedding-type {}, expected one", positions));
  draft.set("model.positions", std::string(rotary || positions == "rope"     ? "rotary"
                                           : positions == "learned_absolute" ? "learned"
                                                                             : positions));
  const std::optional<Settings> norm = launch.value("normalization");
  const std::string kind = norm ? norm->as_choice({"LayerNorm", "RMSNorm", "layernorm", "rmsnorm"}) : "";
  const bool rms = kind == "RMSNorm" || kind == "rmsnorm";
  draft.set("model.norm", std::string(rms ? "rms_norm" : "layer_norm"));
  const bool without = launch.flag("disable-bias-linear"), qkv = launch.flag("add-qkv-bias");
  draft.set("model.biases", std::string(!without ? "all" : qkv ? "qkv" : "none"));
}

/// Stages whose first and last hold other numbers of layers than the rest, which share evenly.
void take_uneven_stages(Launch& launch, Draft& draft, std::int64_t layers, std::int64_t stages, std::int64_t chunks) {
  const std::optional<std::int64_t> first = launch.count("decoder-first-pipeline-num-layers");
  const std::optional<std::int64_t> last = launch.count("decoder-last-pipeline-num-layers");
  if (!first && !last) return;
  const std::string flag = first ? "decoder-first-pipeline-num-layers" : "decoder-last-pipeline-num-layers";
  if (chunks > 1)
    return draft.ignored("--" + flag, "uneven stages with virtual stages; the split is as even as it can be");
  const std::int64_t others = stages - (first ? 1 : 0) - (last ? 1 : 0),
                     rest = layers - first.value_or(0) - last.value_or(0);
  if (others < 1 || rest < others || rest % others != 0)
    launch.refuse(flag, fmt::format("leaves {} layers to {} stages, expected a multiple of them", rest, others));
  std::vector<std::string> split;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const bool ends_first = stage == 0 && first, ends_last = stage + 1 == stages && last;
    split.push_back(std::to_string(ends_first ? *first : ends_last ? *last : rest / others));
  }
  draft.apply(fmt::format("parallelism.stage_layers=[{}]", fmt::join(split, ", ")));
}

std::int64_t take_chunks(Launch& launch, std::int64_t layers, std::int64_t stages) {
  const std::string by_layers = "num-layers-per-virtual-pipeline-stage",
                    by_stages = "num-virtual-stages-per-pipeline-rank";
  const std::optional<std::int64_t> per_chunk = launch.count(by_layers), given = launch.count(by_stages);
  if (per_chunk && given) launch.refuse(by_stages, fmt::format("and --{} say the same twice, expected one", by_layers));
  const std::string& flag = per_chunk ? by_layers : by_stages;
  if (!per_chunk && !given) return 1;
  if (stages == 1)
    launch.refuse(flag, "has no meaning with one pipeline stage, expected --pipeline-model-parallel-size of 2 or more");
  if (given) return *given;
  if (layers % (stages * *per_chunk) != 0) {
    launch.refuse(
        flag, fmt::format("got {0}, expected a divisor of {3}: {1} layers over {2} stages", *per_chunk, layers, stages,
                          layers % stages == 0 ? std::to_string(layers / stages) : "the layers of a stage"));
  }
  return layers / (stages * *per_chunk);
}

void take_sharding(Launch& launch, Draft& draft, std::int64_t replicas) {
  const bool optimizer = launch.flag("use-distributed-optimizer");
  const bool torch = launch.flag("use-torch-fsdp2");
  const bool fsdp = launch.flag("use-custom-fsdp") || launch.flag("use-megatron-fsdp");
  std::string sharding = optimizer ? "optimizer" : torch ? "parameters" : "none";
  if (torch && optimizer) launch.refuse("use-torch-fsdp2", "contradicts --use-distributed-optimizer, expected one");
  if (const std::optional<Settings> strategy = launch.value("data-parallel-sharding-strategy"); strategy && fsdp) {
    static const std::map<std::string, std::string> kStrategies{{"no_shard", "none"},
                                                                {"optim", "optimizer"},
                                                                {"optim_grads", "gradients"},
                                                                {"optim_grads_params", "parameters"}};
    sharding = kStrategies.at(strategy->as_choice({"no_shard", "optim", "optim_grads", "optim_grads_params"}));
  }
  draft.set("parallelism.sharding", sharding);
  if (const auto instances = launch.count("num-distributed-optimizer-instances"); instances && *instances > 1) {
    if (replicas % *instances != 0)
      launch.refuse("num-distributed-optimizer-instances",
                    fmt::format("got {}, expected a divisor of the {} replicas", *instances, replicas));
    draft.set("parallelism.shard_group", replicas / *instances, launch.place("num-distributed-optimizer-instances"));
  }
}

void take_layout(Launch& launch, Draft& draft) {
  const std::int64_t tensor = launch.count("tensor-model-parallel-size").value_or(1);
  const std::int64_t stages = launch.count("pipeline-model-parallel-size").value_or(1);
  const std::int64_t context = launch.count("context-parallel-size").value_or(1);
  const auto expert = launch.count("expert-model-parallel-size");
  const auto expert_tensor = launch.count("expert-tensor-parallel-size");
  if (has_experts(launch)) {
    draft.set("parallelism.expert", expert.value_or(1), launch.place("expert-model-parallel-size"));
    draft.set("parallelism.expert_tensor", expert_tensor.value_or(tensor), launch.place("expert-tensor-parallel-size"));
  } else if (expert && *expert > 1) {
    draft.ignored("--expert-model-parallel-size", "the model has no experts");
  }
  draft.set("parallelism.tensor", tensor, launch.place("tensor-model-parallel-size"));
  draft.set("parallelism.pipeline", stages, launch.place("pipeline-model-parallel-size"));
  draft.set("parallelism.context", context, launch.place("context-parallel-size"));
  constexpr std::int64_t kMostRanks = 1 << 20;
  if (tensor > kMostRanks || stages > 10'000 || context > kMostRanks) return;  // which the loader refuses

  // What only the launch can say is no reason to stop where the user says the GPUs.
  const bool said = launch.is_set("cluster.gpus");
  std::optional<std::int64_t> per_node, nodes;
  for (const char* flag : {"nproc-per-node", "num-gpus", "gpus-per-node", "ntasks-per-node"}) {
    if (!per_node) per_node = launch.whole(flag, said);
  }
  for (const char* flag : {"nnodes", "num-nodes", "nodes"}) {
    if (!nodes) nodes = launch.whole(flag, said);
  }
  if (!per_node) per_node = launch.variable({"GPUS_PER_NODE", "NPROC_PER_NODE", "SLURM_GPUS_ON_NODE"});
  if (!nodes) nodes = launch.variable({"NNODES", "NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  std::optional<std::int64_t> gpus = launch.variable({"WORLD_SIZE"});
  if (const auto given = launch.count("world-size")) gpus = given;
  if (per_node && nodes && *per_node <= kMostRanks && *nodes <= kMostRanks) gpus = *per_node * *nodes;
  if (!gpus) {
    gpus = tensor * stages * context;
    draft.assumed("cluster.gpus", fmt::format("{}, one replica: the launch line names no number of nodes", *gpus));
  }
  const bool mixture = has_experts(launch) && expert.value_or(1) <= kMostRanks;
  const std::int64_t replica = tensor * stages * context,
                     of_experts = mixture ? stages * expert.value_or(1) * expert_tensor.value_or(tensor) : 1;
  const std::int64_t least = replica <= kMostRanks && of_experts <= kMostRanks ? std::lcm(replica, of_experts) : 0;
  if (!said && *gpus < least && least <= kMostRanks) {
    draft.first(
        fmt::format("cluster.gpus: {}, the fewest for its layout: the {} that are started are too few; --set "
                    "cluster.gpus=N for more",
                    least, *gpus));
    gpus = least;
  }
  draft.set("cluster.device", std::string("h100-sxm-80gb"));
  draft.assumed("cluster.device", "h100-sxm-80gb; --set cluster.device=NAME, cluster.fabric=NAME for another machine");
  draft.set("cluster.gpus", *gpus);
  if (per_node && *per_node > 0 && *gpus >= *per_node) draft.set("cluster.gpus_per_node", *per_node);
  if (*gpus > (per_node ? *per_node : 8)) draft.set("cluster.fabric", std::string("ndr-rail"));

  const std::int64_t layers = launch.need("num-layers");
  const std::int64_t chunks = take_chunks(launch, layers, stages);
  draft.set("parallelism.virtual_pipeline", chunks);
  draft.set("parallelism.schedule", std::string(workloads::usual_schedule(chunks).name));
  take_uneven_stages(launch, draft, layers, stages, chunks);
  const bool sequence = launch.flag("sequence-parallel");
  draft.set("parallelism.sequence_parallel", sequence && tensor > 1);
  if (sequence && tensor == 1)
    draft.ignored("--sequence-parallel", "Megatron-LM turns it off without tensor parallelism");
  if (const std::optional<Settings> ring = launch.value("cp-comm-type"); ring && context > 1) {
    const std::string kind = ring->as_choice({"p2p", "all_gather", "a2a", "a2a+p2p"});
    const std::string by = kind == "a2a" ? "all_to_all" : kind == "all_gather" ? kind : "ring";
    draft.set("parallelism.context_method", by);
    if (kind == "a2a+p2p") draft.ignored("--cp-comm-type " + kind, "simulated as the ring of p2p");
  }
  take_sharding(launch, draft, std::max<std::int64_t>(1, *gpus / (tensor * stages)));
  if (launch.flag("use-tp-pp-dp-mapping")) draft.apply("placement.order=[tensor, context, pipeline, data]");

  const std::int64_t data = std::max<std::int64_t>(1, *gpus / (tensor * stages * context));
  const std::int64_t micro = launch.count("micro-batch-size").value_or(1);
  draft.set("batch.micro", micro, launch.place("micro-batch-size"));
  draft.set("batch.global", launch.count("global-batch-size").value_or(std::min<std::int64_t>(micro, 1'000'000) * data),
            launch.place("global-batch-size"));
  draft.set("overlap.tensor", launch.flag("tp-comm-overlap"));
  draft.set("overlap.pipeline", chunks > 1 && !launch.flag("no-overlap-p2p-communication"));
  draft.set("overlap.gradients", launch.flag("overlap-grad-reduce"));
  draft.set("overlap.parameters", launch.flag("overlap-param-gather"));
  if (launch.flag("overlap-moe-expert-parallel-comm")) draft.set("overlap.experts", true);
}

void take_precision(Launch& launch, Draft& draft) {
  const bool fp16 = launch.flag("fp16"), bf16 = launch.flag("bf16");
  if (fp16 && bf16) launch.refuse("bf16", "contradicts --fp16, expected one");
  if (!fp16 && !bf16) draft.assumed("precision", "bf16: neither --bf16 nor --fp16 is given, and fp32 is not modelled");
  const std::optional<Settings> format = launch.value("fp8-format");
  if (format) format->as_choice({"e4m3", "hybrid"});
  const bool hybrid = launch.flag("fp8-hybrid"), e4m3 = launch.flag("fp8-e4m3");  // their older names
  const std::string wide = fp16 ? "fp16" : "bf16";
  std::string matmul = format || hybrid || e4m3 ? "fp8" : wide;
  if (const std::optional<Settings> recipe = launch.value("fp8-recipe"); recipe && matmul == "fp8") {
    const std::string word = recipe->as_choice({"tensorwise", "delayed", "mxfp8", "blockwise"});
    if (word == "mxfp8" || word == "blockwise") matmul = word == "mxfp8" ? "mxfp8" : "fp8-blockwise";
  }
  if (const std::optional<Settings> four = launch.value("fp4-format")) {
    four->as_choice({"e2m1"});
    matmul = "nvfp4";
  }
  draft.set("precision.matmul", matmul);
  draft.set("precision.activations", wide);
  const bool fp32 = launch.flag("accumulate-allreduce-grads-in-fp32") || !fp16;
  draft.set("precision.gradients", launch.flag("grad-reduce-in-bf16") ? std::string("bf16") : fp32 ? "fp32" : wide);
  draft.set("precision.parameters", launch.flag("fp8-param-gather") ? std::string("fp8") : wide);
}

/// The optimizer's states with the host (megatron/training/arguments.py: all of them, unless a share is said).
void take_offload(Launch& launch, Draft& draft) {
  const std::optional<Settings> share = launch.value("optimizer-offload-fraction");
  const bool overlaps = launch.flag("overlap-cpu-optimizer-d2h-h2d");
  if (!launch.flag("optimizer-cpu-offload")) return;
  const double fraction = share ? share->as_number(0, 1) : 1;
  if (fraction == 0) return;
  draft.set("offload.optimizer", true);
  if (fraction < 1) draft.set("offload.optimizer_fraction", fmt::format("{:g}", fraction), share->place());
  if (overlaps) draft.set("offload.optimizer_overlap", true);
}

void take_work(Launch& launch, Draft& draft) {
  const std::optional<Settings> granularity = launch.value("recompute-granularity");
  const bool activations = launch.flag("recompute-activations"), old = launch.flag("checkpoint-activations");
  std::string recompute = old ? "full" : activations ? "selective" : "none";
  if (granularity) recompute = granularity->as_choice({"selective", "full"});
  const std::optional<Settings> method = launch.value("recompute-method");
  if (method && recompute == "selective")
    launch.refuse("recompute-method", "belongs to --recompute-granularity full, got selective, expected full");
  const std::optional<std::int64_t> some = launch.count("recompute-num-layers");
  const std::vector<std::string> modules = launch.words("recompute-modules");
  const bool in_part = method && method->as_choice({"uniform", "block"}) == "block" && some && recompute == "full";
  if (in_part) {
    draft.set("recompute.kind", recompute);
    draft.set("recompute.layers", *some, launch.place("recompute-num-layers"));
  } else if (recompute == "selective" && !modules.empty()) {
    take_recomputed_modules(modules, "--recompute-modules", draft);
  } else {
    draft.set("recompute", recompute);
    if (some && *some > 1)
      draft.ignored(fmt::format("--recompute-num-layers {}", *some),
                    "the input of every layer is kept, not of one in so many");
  }

  const std::optional<Settings> backend = launch.value("attention-backend");
  const bool flash = launch.flag("use-flash-attn");
  if (backend) {
    const std::string kind = backend->as_choice({"flash", "fused", "unfused", "local", "auto"});
    if (flash && (kind == "unfused" || kind == "local"))
      launch.refuse("attention-backend", fmt::format("got {} beside --use-flash-attn, expected one", kind));
    if (kind != "auto") draft.set("attention", std::string(kind == "flash" || kind == "fused" ? "flash" : "unfused"));
  } else if (flash) {
    draft.set("attention", std::string("flash"));
  }
  const std::optional<Settings> optimizer = launch.value("optimizer");
  take_optimizer(optimizer ? optimizer->as_choice({"adam", "sgd", "muon", "dist_muon", "lion"}) : "adam", draft);
  take_offload(launch, draft);

  const Settings& batch = draft.document().at("batch");
  const std::int64_t global = batch.get_int("global", 1), seq = draft.document().at("model").get_int("seq", 1);
  const std::optional<std::int64_t> every = launch.count("eval-interval"), passes = launch.count("eval-iters", 0);
  if (every && passes.value_or(100) > 0) {
    draft.set("evaluation.every_steps", *every, launch.place("eval-interval"));
    draft.set("evaluation.sequences", std::min<std::int64_t>(passes.value_or(100), 1'000'000'000) * global);
  }
  const std::optional<std::int64_t> steps = launch.count("train-iters"), samples = launch.count("train-samples");
  if (steps && samples) launch.refuse("train-samples", "contradicts --train-iters, expected one");
  if (steps || samples) {
    const double sequences =
        steps ? static_cast<double>(*steps) * static_cast<double>(global) : static_cast<double>(*samples);
    draft.set("training.tokens", fmt::format("{:.0f}", sequences * static_cast<double>(seq)));
  }
}

/// The oldest generation of those that ship that knows all of the line's flags: those that each release has first
/// (NVIDIA/Megatron-LM core_v0.11.0 to core_v0.16.0, megatron/training/arguments.py and transformer_config.py).
void take_software(Launch& launch, Draft& draft) {
  const auto& flags = software_since();
  const auto since = std::find_if(flags.begin(), flags.end(), [&](const auto& each) { return launch.has(each.first); });
  const bool known = since != flags.end();
  if (known) draft.set("software", std::string(since->second), launch.place(since->first));
  draft.assumed("software", fmt::format("{}{}; --set software=NAME for another generation",
                                        known ? since->second : std::string(scenarios::kDefaultSoftware).c_str(),
                                        known ? fmt::format(", for --{}", since->first) : ""));
  if (launch.flag("cross-entropy-loss-fusion")) draft.apply("software.recipe.loss=fused");
}

void remark_on_the_rest(const Launch& launch, Draft& draft) {
  std::vector<std::string> rest = launch.unasked();
  for (const auto& [why, flags] : skipped_flags()) {
    std::vector<std::string> here;
    for (const std::string& flag : flags) {
      const auto found = std::find(rest.begin(), rest.end(), flag);
      if (found == rest.end()) continue;
      here.push_back("--" + flag);
      rest.erase(found);
    }
    if (!here.empty()) draft.ignored(fmt::format("{}", fmt::join(here, ", ")), why);
  }
  const std::vector<std::string> known(taken_flags().begin(), taken_flags().end());
  for (const std::string& flag : rest) {
    const std::string near = sim::nearest_word(flag, known);
    draft.ignored("--" + flag,
                  near.empty() ? "not known to orrery" : fmt::format("not known to orrery; --{} is", near));
  }
}

/// A scenario that is no more than a model, to be asked for its sizes.
Settings model_alone(const std::string& model) {
  Draft alone("a model", {});
  alone.set("cluster.device", std::string("h100-sxm-80gb"));
  alone.set("cluster.gpus", std::int64_t{1});
  alone.set("model", model);
  alone.set("batch.global", std::int64_t{1});
  return alone.document();
}

/// What the launch says beside the model that it names: sizes in it are those of the model, whatever they say.
Draft import_over_model(Launch& launch, Draft& draft, const std::string& model) {
  draft.set("name", model);
  draft.apply("model=" + model);
  draft.apply(fmt::format("model.seq={}", launch.count("seq-length").value_or(4096)));
  const scenarios::Scenario shipped = scenarios::load_scenario(model_alone(model));
  launch.stand_for("num-layers", shipped.job.model.layers);
  if (shipped.job.model.experts.any()) launch.stand_for("num-experts", shipped.job.model.experts.count);
  take_layout(launch, draft);
  take_precision(launch, draft);
  take_work(launch, draft);
  take_software(launch, draft);
  remark_on_the_rest(launch, draft);
  return draft;
}

Draft import_way(const LaunchLine& line, const std::vector<std::string>& sets, const std::string& model = "") {
  const std::filesystem::path file = line.place.file.text();
  Draft draft(fmt::format("{} (Megatron-LM)", file.filename().string()), line.place);
  for (const std::string& what : line.left_out) draft.ignored(what);
  Launch launch(line, sets, draft);
  if (!model.empty()) return import_over_model(launch, draft, model);
  draft.set("name", file.has_extension() ? file.stem().string() : std::string("megatron"));
  take_model(launch, draft);
  take_layout(launch, draft);
  take_precision(launch, draft);
  take_work(launch, draft);
  if (!draft.has("attention"))
    draft.assumed("attention", "the default of the software; no --attention-backend is given");
  take_software(launch, draft);
  remark_on_the_rest(launch, draft);
  return draft;
}

/// A way through the script and what it makes, or why it makes nothing.
struct Way {
  const LaunchLine* line = nullptr;
  std::optional<Draft> draft;
  std::string outcome;  // the scenario, or the complaint
};

}  // namespace

Draft import_megatron_over(const LaunchLine& line, const std::string& model, const std::vector<std::string>& sets) {
  return import_way(line, sets, model);
}

Draft import_megatron(const LaunchScript& script, const std::vector<std::string>& sets) {
  std::vector<Way> ways;
  std::optional<UserError> complaint;
  for (const LaunchLine& line : script.ways) {
    Way way{&line, {}, {}};
    try {
      way.draft = import_way(line, sets);
      way.outcome = way.draft->values();
    } catch (const UserError& error) {
      if (!complaint) complaint = error;
      way.outcome = error.what();
    }
    ways.push_back(std::move(way));
  }
  const bool alike =
      std::all_of(ways.begin(), ways.end(), [&](const Way& way) { return way.outcome == ways[0].outcome; });
  const std::vector<Way> all = ways;
  std::erase_if(ways, [&](const Way& way) { return !alike && !as_usual(*way.line); });
  if (ways.empty()) ways = all;
  for (const Way& way : ways) {
    if (way.outcome == ways[0].outcome) continue;
    const ShellDecision* at = parting(*ways[0].line, *way.line);
    if (at == nullptr) break;
    throw UserError(at->place, "if",
                    fmt::format("{} is not decided by the script, and the scenario depends on it ({}), expected {}",
                                at->condition, difference(ways[0].outcome, way.outcome), how_to_say(*at)));
  }
  if (!ways[0].draft) throw *complaint;
  Draft draft = *std::move(ways[0].draft);
  if (!alike) {
    for (const Way& way : all) {
      const ShellDecision* at = parting(*ways[0].line, *way.line);
      if (way.outcome == ways[0].outcome || at == nullptr) continue;
      draft.first(fmt::format("line {}: {}: taken as if what is not assigned were unset; otherwise {}; {} says it",
                              at->place.line, at->condition, difference(way.outcome, ways[0].outcome),
                              how_to_say(*at)));
      break;
    }
  }
  for (const std::string& what : script.remarks) draft.ignored(what);
  if (!script.unset.empty())
    draft.assumed("not assigned in the script, taken as unset",
                  fmt::format("{}; --env NAME=VALUE says it", fmt::join(script.unset, ", ")));
  return draft;
}

}  // namespace orrery::tools
