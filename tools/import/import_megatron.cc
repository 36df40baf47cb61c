// `orrery import megatron`: the arguments of Megatron-LM's pretrain_gpt.py, with its defaults and its rules where an
// argument is left out (megatron/training/arguments.py). Left out: encoders, vision, and what changes values but not
// the work of a step. What nobody knows here is named and skipped.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "scenarios/library.h"
#include "tools/import/hybrid_letters.h"
#include "tools/import/idle_keys.h"
#include "tools/import/import.h"
#include "tools/import/known_devices.h"
#include "tools/import/known_optimizers.h"
#include "tools/import/known_vocabularies.h"
#include "tools/import/launch_ways.h"
#include "tools/import/megatron_deepspeed.h"
#include "tools/import/megatron_flags.h"
#include "tools/import/megatron_forks.h"
#include "tools/import/megatron_launch.h"
#include "tools/import/megatron_newer.h"
#include "tools/import/megatron_site.h"
#include "tools/import/megatron_stacks.h"
#include "workloads/schedules/schedule.h"

namespace orrery::tools {

using sim::Place;
using sim::Settings;
using sim::UserError;

namespace {

void take(Launch& launch, Draft& draft, const std::string& flag, const char* key) {
  if (const std::optional<std::int64_t> given = launch.count(flag)) draft.set(key, *given, launch.place(flag));
}

/// Tokens that stand for spans (T5), which these tokenizers of Megatron-LM's have beyond their words
/// (megatron/training/tokenizer/tokenizer.py).
std::int64_t extra_ids(Launch& launch, Draft& draft, const std::optional<Settings>& tokenizer) {
  const std::int64_t ids = launch.count("vocab-extra-ids", 0).value_or(0);
  const std::string type = tokenizer ? tokenizer->text() : "GPT2BPETokenizer";
  if (ids == 0 || type.starts_with("BertWordPiece") || type == "SentencePieceTokenizer") return ids;
  draft.ignored(fmt::format("--vocab-extra-ids {}", ids), "without effect: " + type + " takes none");
  return 0;
}

void take_vocabulary(Launch& launch, Draft& draft) {
  // Pai-Megatron-Patch has its own tokenizers, and tokens beyond theirs (megatron_patch/tokenizer).
  const std::optional<Settings> patched = launch.value("patch-tokenizer-type"), own = launch.value("tokenizer-type");
  const std::optional<Settings>& tokenizer = patched ? patched : own;
  std::int64_t extra = launch.count("extra-vocab-size", 0).value_or(0);
  const std::int64_t spans = extra_ids(launch, draft, own);
  take(launch, draft, "vocab-size", "model.vocab");
  take(launch, draft, "pad-vocab-size-to", "model.vocab");  // of BigScience's Megatron-DeepSpeed
  take(launch, draft, "padded-vocab-size", "model.vocab");  // filled up already
  if (draft.has("model.vocab") || launch.is_set("model.vocab")) return;
  if (tokenizer && tokenizer->text() != "GPT2BPETokenizer") {
    const std::string files = fmt::format("{} {}", fmt::join(launch.words("tokenizer-model"), " "), launch.file_name());
    // Of two of the patch's tokenizers the checkpoint says whose they are, which the script's folder is called after.
    const bool by_model = patched && (patched->text() == "LLamaTokenizer" || patched->text() == "DeepSeekV2Tokenizer");
    auto known = patched && !by_model ? vocabulary_of(patched->text(), "") : std::nullopt;
    if (!known) {
      known = vocabulary_of(by_model ? "" : tokenizer->text(), by_model ? files + " " + launch.folder_name() : files);
      if (known) extra = 0;
    }
    if (!known && by_model) known = vocabulary_of(patched->text(), "");
    if (known) {
      const std::int64_t more = extra + spans;
      draft.set("model.vocab", known->second + more, tokenizer->place());
      const std::string size = fmt::format("{}, that of {}{}", known->second + more, known->first,
                                           more > 0 ? fmt::format(" and {} more", more) : "");
      // A type that reads any model file has that file's size, which its usual name keeps to itself.
      const std::string own_file =
          std::filesystem::path(fmt::format("{}", fmt::join(launch.words("tokenizer-model"), " "))).filename().string();
      const bool other = known->first == tokenizer->text() && known->first.starts_with("Llama") && !own_file.empty() &&
                         own_file != "tokenizer.model" && own_file.find('$') == std::string::npos;
      if (other)
        draft.first(
            fmt::format("model.vocab: {}, stands in: the size is that of {}; --set model.vocab=N", size, own_file));
      else
        draft.assumed("model.vocab", size + "; --set model.vocab=N for another");
      return;
    }
    draft.set("model.vocab", kUnknownVocabulary, tokenizer->place());
    return draft.first(fmt::format("model.vocab: {} stands in: {} says no size of the vocabulary; --set model.vocab=N",
                                   kUnknownVocabulary, tokenizer->text()));
  }
  draft.set("model.vocab", std::int64_t{50257});
  draft.assumed("model.vocab", "50257, that of GPT2BPETokenizer");
}

/// Rows of the vocabulary beyond its words (megatron/training/tokenizer/tokenizer.py, _vocab_size_with_padding).
/// `vocabulary`: of a model that ships.
void take_padding(Launch& launch, Draft& draft, std::int64_t vocabulary = 0) {
  const bool whole = launch.flag("no-pad-vocab-size"), other = launch.flag("disable-pad-vocab-size");
  const std::int64_t multiple = launch.count("make-vocab-size-divisible-by").value_or(128);
  const bool filled = launch.has("padded-vocab-size") || launch.has("pad-vocab-size-to") || whole || other;
  pad_vocabulary(draft, filled ? 1 : multiple, vocabulary);
}

void take_attention(Launch& launch, Draft& draft) {
  const std::int64_t heads = launch.need("num-attention-heads");
  draft.set("model.heads", heads, launch.place("num-attention-heads"));
  // Megatron-DeepSpeed's name, and that of Pai-Megatron-Patch for Falcon.
  for (const char* other : {"num-key-value-heads", "n-head-kv"}) {
    if (const auto theirs = launch.count(other)) return draft.set("model.kv_heads", *theirs, launch.place(other));
  }
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
    const bool whole = !left.empty() && left.size() < 10 &&
                       left.find_first_not_of("0123456789", left[0] == '-' ? 1 : 0) == std::string::npos && left != "-";
    if (!whole)
      launch.refuse("window-size",
                    fmt::format("got {}, expected tokens to the left and right, as in (127,0)", window->text()));
    const std::int64_t span = std::stoll(left);
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
  const std::int64_t plain = launch.count("qk-nope-head-dim").value_or(128),  // names of Pai-Megatron-Patch's
      turned = launch.count("qk-rope-head-dim").value_or(64);
  // arguments.py has no default for this one: queries are not compressed unless asked.
  if (const std::optional<std::int64_t> queries = launch.count("q-lora-rank", 0); queries.value_or(0) > 0)
    draft.set("model.q_lora", *queries, launch.place("q-lora-rank"));
  else
    draft.assumed("model.q_lora", "none, as --q-lora-rank is not given");
  size("kv-lora-rank", "model.kv_lora", 512);
  size("qk-head-dim", "model.qk_nope_dim", plain);
  size("qk-pos-emb-head-dim", "model.qk_rope_dim", turned);
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

/// Experts of a layer, the most where layers differ in them.
std::optional<std::int64_t> experts_of(Launch& launch) {
  if (is_megablocks(launch)) return launch.count("moe-num-experts");
  std::int64_t most = 0;
  const std::vector<std::string> each = launch.words("num-experts");
  for (const std::string& word : each) {
    const bool number = word.size() < 7 && word.find_first_not_of("0123456789") == std::string::npos;
    if (!number || word.empty()) return launch.count("num-experts");
    most = std::max<std::int64_t>(most, std::stoll(word));
  }
  return each.size() < 2 ? launch.count("num-experts") : std::optional<std::int64_t>(most);
}

/// One expert alone is an MLP: Megatron-DeepSpeed's default of --num-experts.
bool has_experts(Launch& launch) { return experts_of(launch).value_or(1) > 1; }

/// `hidden`, `gated`: of the model.
void take_mixture(Launch& launch, Draft& draft, std::int64_t hidden, bool gated) {
  const std::optional<std::int64_t> experts = experts_of(launch);
  if (!experts) return;
  if (const auto each = launch.words("num-experts"); each.size() > 1 && is_megatron_deepspeed(launch))
    draft.first(fmt::format("--num-experts {}: layers with experts have {} each here", fmt::join(each, " "), *experts));
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
  if (is_megatron_deepspeed(launch)) take_deepspeed_mixture(launch, draft);
  if (is_megablocks(launch)) take_megablocks(launch, draft);
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
    const std::int64_t letters = std::max<std::int64_t>(1, layers_of_letters(pattern->text()));
    if (const auto stated = launch.count("num-layers"); stated && *stated != letters)
      draft.first(fmt::format("--num-layers {}: --{} has {} layers, which hold", *stated, flag, letters));
    launch.stand_for("num-layers", letters);
    if (is_qwen3_next(launch)) {
      put_qwen3_next(*pattern, draft);
      continue;
    }
    if (has_experts(launch) && pattern->text().find('E') == std::string::npos)
      launch.refuse("num-experts",
                    "got experts beside a pattern without E, which Megatron-LM's own layers do not have");
    put_letters(draft, *pattern, sizes, hidden);
  }
}

/// Pai-Megatron-Patch's models of images and text.
void remark_on_vision(const Launch& launch, Draft& draft) {
  std::vector<std::string> here;
  for (const char* flag : {"vision-tower", "patch-size", "image-size", "image-folder", "img-h", "patch-dim"})
    if (launch.has(flag)) here.push_back(std::string("--") + flag);
  if (launch.text("model-provider").find("vlm") != std::string::npos) here.emplace_back("--model-provider");
  if (!here.empty())
    draft.first(
        fmt::format("vision encoder ({}): left out, with the tokens of images; the language model alone is "
                    "simulated",
                    fmt::join(here, ", ")));
  for (const char* flag : {"freeze-llm", "freeze-LM"})
    if (launch.has(flag)) draft.first(fmt::format("--{}: the language model is trained here, weights and all", flag));
}

void take_model(Launch& launch, Draft& draft) {
  const bool t5 = is_t5(launch);
  if (t5) take_stack_layers(launch);
  draft.set("model.kind", std::string(has_experts(launch) ? "moe" : "gpt"));
  const bool letters =
      launch.find("hybrid-layer-pattern") != nullptr || launch.find("hybrid-override-pattern") != nullptr;
  if (!letters) draft.set("model.layers", launch.need("num-layers"), launch.place("num-layers"));
  const std::int64_t hidden = launch.need("hidden-size");
  take_hybrid(launch, draft, hidden);
  if (letters) draft.set("model.layers", launch.need("num-layers"), launch.place("num-layers"));
  draft.set("model.hidden", hidden, launch.place("hidden-size"));
  take_attention(launch, draft);
  const bool quick = launch.flag("quick-geglu"), plain = launch.flag("geglu");
  const bool gated = launch.flag("swiglu") || quick || plain;
  if (quick || plain) draft.set("model.activation", std::string("gelu"));
  draft.set("model.gated_mlp", gated);
  if (launch.flag("squared-relu")) draft.set("model.activation", std::string("squared_relu"));
  if (launch.flag("qk-layernorm")) draft.set("model.qk_norm", true);
  const std::int64_t wide = gated ? hidden * 4 * 2 / 3 / 64 * 64 : 4 * hidden;
  const std::string named =
      launch.has("ffn-hidden-size") ? "ffn-hidden-size" : "intermediate-size";  // the patch's name
  draft.set("model.ffn_hidden", launch.count(named).value_or(wide), launch.place(named));
  take_mixture(launch, draft, hidden, gated);
  take_further_parts(launch, draft, has_experts(launch));
  if (!letters && !t5) take_attention_variants(launch, draft, launch.need("num-layers"), has_experts(launch));
  take_vocabulary(launch, draft);
  remark_on_vision(launch, draft);
  if (t5) take_stack_lengths(launch, draft);
  if (!t5) {  // megatron/training/arguments.py: of the two names the other stands for it
    const char* const length = launch.has("seq-length") ? "seq-length" : "encoder-seq-length";
    const bool said = launch.has(length);
    draft.set("model.seq", launch.need(said ? length : "seq-length"), launch.place(said ? length : "seq-length"));
  }
  draft.set("model.tied_embeddings", !launch.flag("untie-embeddings-and-output-weights"));

  std::string positions = "learned_absolute";
  if (const std::optional<Settings> type = launch.value("position-embedding-type"))
    positions = type->as_choice({"learned_absolute", "rope", "mrope", "none", "alibi", "rotary", "relative"});
  if (positions == "rotary") positions = "rope";  // as Pai-Megatron-Patch calls it
  if (positions == "mrope") {
    draft.ignored("--position-embedding-type mrope", "rotary by three positions of a token: the same work");
    positions = "rope";
  }
  // Megatron-LM's older name, and those of Pai-Megatron-Patch.
  bool rotary = launch.flag("use-rotary-position-embeddings");
  for (const char* other : {"use-llama2-rotary-position-embeddings", "use-llama-rotary-position-embeddings"})
    rotary = launch.flag(other) || rotary;
  if (launch.flag("use-alibi-mask")) positions = "alibi";  // the patch's, for Baichuan 13B
  if (launch.flag("no-position-embedding") && !rotary && positions == "learned_absolute") positions = "none";
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
  if (t5 || is_bert(launch)) put_stacks(launch, draft);
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

std::int64_t take_chunks(Launch& launch, Draft& draft, std::int64_t layers, std::int64_t stages) {
  const std::string by_layers = "num-layers-per-virtual-pipeline-stage",
                    by_stages = "num-virtual-stages-per-pipeline-rank";
  const std::optional<std::int64_t> per_chunk = launch.count(by_layers), given = launch.count(by_stages);
  if (const auto pieces = take_layout_letters(launch, draft, layers, stages)) return *pieces;
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
  const bool optimizer = launch.flag("use-distributed-optimizer") || is_slime(launch);
  const bool torch = launch.flag("use-torch-fsdp2");
  const bool fsdp = launch.flag("use-custom-fsdp") || launch.flag("use-megatron-fsdp");
  const bool kept = launch.flag("torch-fsdp2-no-reshard-after-forward");
  std::string sharding = optimizer ? "optimizer" : !torch ? "none" : kept ? "gradients" : "parameters";
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

/// GPUs of a node, where the launcher is left to count them: deepspeed without --num_gpus, torchrun with what a command
/// counts. All eight, where the batch and the layout go with them.
std::optional<std::int64_t> whole_node(Launch& launch, Draft& draft, std::int64_t replica, std::int64_t nodes) {
  constexpr std::int64_t kUsual = 8, kMost = 1 << 20;
  const bool counted = launch.has("nproc-per-node") || launch.launcher() == "deepspeed";
  const std::int64_t micro = launch.count("micro-batch-size").value_or(1), gpus = kUsual * nodes;
  if (!counted || nodes > kMost || replica > gpus || gpus % replica != 0 || micro > kMost) return std::nullopt;
  if (launch.count("global-batch-size").value_or(gpus / replica * micro) % (gpus / replica * micro) != 0)
    return std::nullopt;
  draft.assumed("cluster.gpus_per_node", "8, all of a node: the launcher counts them where it runs");
  return kUsual;
}

constexpr std::int64_t kMostRanks = 1 << 20;

/// The GPUs of the job, which are set with their machine. `replica`, `of_experts`: ranks of a copy of the model, and of
/// its experts.
std::int64_t take_machine(Launch& launch, Draft& draft, std::int64_t replica, std::int64_t of_experts) {
  // What only the launch can say is no reason to stop where the user says the GPUs.
  const bool said = launch.is_set("cluster.gpus");
  std::optional<std::int64_t> per_node, nodes;
  for (const char* flag :
       {"nproc-per-node", "num-gpus", "gpus-per-node", "ntasks-per-node", "npernode", "actor-num-gpus-per-node"}) {
    if (!per_node) per_node = launch.whole(flag, said);
  }
  for (const char* flag : {"nnodes", "num-nodes", "nodes", "actor-num-nodes"}) {  // the last of slime's trainers
    if (!nodes) nodes = launch.whole(flag, said);
  }
  if (!per_node) per_node = launch.variable({"GPUS_PER_NODE", "NPROC_PER_NODE", "SLURM_GPUS_ON_NODE"});
  // Without a launcher of its own each of Slurm's tasks is a process of the training.
  if (!per_node && launch.launcher().empty() && !launch.has("nproc-per-node"))
    per_node = launch.variable({"SLURM_NTASKS_PER_NODE"});
  if (!nodes) nodes = launch.variable({"NNODES", "NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  std::optional<std::int64_t> gpus = launch.variable({"WORLD_SIZE"});
  if (const auto given = launch.count("world-size")) gpus = given;
  if (!gpus && !per_node && !said) per_node = whole_node(launch, draft, replica, nodes.value_or(1));
  if (per_node && !nodes && !gpus) {
    nodes = 1;
    draft.assumed("nodes", "1: the launch line says no other number");
  }
  if (per_node && nodes && *per_node <= kMostRanks && *nodes <= kMostRanks) gpus = *per_node * *nodes;
  if (!gpus) {
    gpus = replica;
    draft.assumed("cluster.gpus", fmt::format("{}, one replica: the launch line names no number of nodes", *gpus));
  }
  const std::int64_t least = replica <= kMostRanks && of_experts <= kMostRanks ? std::lcm(replica, of_experts) : 0;
  if (!said && *gpus < least && least <= kMostRanks) {
    draft.first(
        fmt::format("cluster.gpus: {}, the fewest for its layout: the {} that are started are too few; --set "
                    "cluster.gpus=N for more",
                    least, *gpus));
    gpus = least;
  }
  const std::string device = take_device(launch, draft);
  draft.set("cluster.gpus", *gpus);
  constexpr std::int64_t kLargestNode = 8;  // of the device that stands in
  if (per_node && *per_node > kLargestNode)
    draft.first(
        fmt::format("cluster.gpus_per_node: the script has nodes of {} GPUs, the device that stands in has {} in "
                    "one; --set cluster.device=NAME, cluster.gpus_per_node={}",
                    *per_node, kLargestNode, *per_node));
  else if (per_node && *per_node > 0 && *gpus >= *per_node)
    draft.set("cluster.gpus_per_node", *per_node);
  if (*gpus > (per_node ? *per_node : 8)) draft.set("cluster.fabric", std::string(usual_fabric(device)));
  return *gpus;
}

void take_layout(Launch& launch, Draft& draft) {
  const std::int64_t tensor = launch.count("tensor-model-parallel-size").value_or(1);
  const std::int64_t stages = launch.count("pipeline-model-parallel-size").value_or(1);
  const std::int64_t ulysses = deepspeed_sequence_ranks(launch);
  const std::int64_t context = launch.count("context-parallel-size").value_or(ulysses);
  if (ulysses > 1 && context == ulysses) draft.set("parallelism.context_method", std::string("all_to_all"));
  const bool theirs = launch.has("moe-expert-parallel-size");
  const std::string of_expert = theirs ? "moe-expert-parallel-size" : "expert-model-parallel-size";
  const auto expert = launch.count(of_expert);
  const auto expert_tensor = launch.count("expert-tensor-parallel-size");
  if (has_experts(launch)) {
    draft.set("parallelism.expert", expert.value_or(1), launch.place(of_expert));
    if (draft.document().find_path("parallelism.expert_tensor") == nullptr)
      draft.set("parallelism.expert_tensor", expert_tensor.value_or(tensor),
                launch.place("expert-tensor-parallel-size"));
  } else if (expert && *expert > 1) {
    draft.ignored("--" + of_expert, "the model has no experts");
  }
  draft.set("parallelism.tensor", tensor, launch.place("tensor-model-parallel-size"));
  draft.set("parallelism.pipeline", stages, launch.place("pipeline-model-parallel-size"));
  draft.set("parallelism.context", context, launch.place("context-parallel-size"));
  if (tensor > kMostRanks || stages > 10'000 || context > kMostRanks) return;  // which the loader refuses

  const std::int64_t replica = tensor * stages * context;
  const Settings* apart = draft.document().find_path("parallelism.expert_tensor");
  const std::int64_t cut = apart != nullptr ? apart->as_int(1, 1'000'000'000'000) : 1;
  const bool mixture = has_experts(launch) && expert.value_or(1) <= kMostRanks && cut <= kMostRanks;
  const std::int64_t gpus = take_machine(launch, draft, replica, mixture ? stages * expert.value_or(1) * cut : 1);

  const std::int64_t layers = launch.need("num-layers");
  const std::int64_t chunks = take_chunks(launch, draft, layers, stages);
  draft.set("parallelism.virtual_pipeline", chunks);
  draft.set("parallelism.schedule", std::string(workloads::usual_schedule(chunks).name));
  take_zero_bubble(launch, draft, stages);
  take_megablocks_ranks(launch, draft, gpus / (tensor * stages));
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
  take_sharding(launch, draft, std::max<std::int64_t>(1, gpus / (tensor * stages)));
  if (launch.flag("use-tp-pp-dp-mapping")) draft.apply("placement.order=[tensor, context, pipeline, data]");

  const std::int64_t data = std::max<std::int64_t>(1, gpus / replica);
  const std::int64_t micro = launch.count("micro-batch-size").value_or(1);
  draft.set("batch.micro", micro, launch.place("micro-batch-size"));
  const std::int64_t steps = launch.count("gradient-accumulation-steps").value_or(1);  // of Pai's DeepSpeed scripts
  const std::int64_t most = 1'000'000;
  draft.set("batch.global",
            launch.count("global-batch-size").value_or(std::min(micro, most) * data * std::min(steps, most)),
            launch.place("global-batch-size"));
  draft.set("overlap.tensor", launch.flag("tp-comm-overlap"));
  draft.set("overlap.pipeline", chunks > 1 && !launch.flag("no-overlap-p2p-communication"));
  draft.set("overlap.gradients", launch.flag("overlap-grad-reduce"));
  draft.set("overlap.parameters", launch.flag("overlap-param-gather"));
  if (launch.flag("overlap-moe-expert-parallel-comm")) draft.set("overlap.experts", true);
}

void take_precision(Launch& launch, Draft& draft) {
  const bool fp16 = launch.flag("fp16"), bf16 = launch.flag("bf16") || (is_slime(launch) && !fp16);
  if (fp16 && bf16) launch.refuse("bf16", "contradicts --fp16, expected one");
  const std::optional<Settings> format = launch.value("fp8-format");
  if (format) format->as_choice({"e4m3", "hybrid"});
  const bool hybrid = launch.flag("fp8-hybrid"), e4m3 = launch.flag("fp8-e4m3");  // their older names
  const bool eight = format || hybrid || e4m3 || launch.value("fp4-format");      // whose products work on 16 bits
  const std::string wide = fp16 ? "fp16" : bf16 || eight ? "bf16" : "fp32";
  if (!fp16 && !bf16) draft.assumed("precision", wide + ": neither --bf16 nor --fp16 is given");
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
  const std::optional<Settings> sent = launch.value("megatron-fsdp-grad-comm-dtype");
  const bool narrow = launch.flag("grad-reduce-in-bf16") || (sent && sent->text() == "bf16");
  draft.set("precision.gradients", narrow ? std::string("bf16") : fp32 ? "fp32" : wide);
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
  const bool hf = launch.flag("enable-gradient-checkpointing");  // of Pai's scripts around Hugging Face's models
  // Megatron-LM v2.5 and v2.6 (megatron/arguments.py), which without it recompute nothing.
  const std::optional<Settings> older = launch.value("activations-checkpoint-method");
  const std::optional<std::int64_t> of_older = launch.count("activations-checkpoint-num-layers");
  std::string recompute = old || hf || older ? "full" : activations ? "selective" : "none";
  if (granularity) recompute = granularity->as_choice({"selective", "full"});
  std::optional<Settings> method = launch.value("recompute-method");
  if (method && recompute == "selective")
    launch.refuse("recompute-method", "belongs to --recompute-granularity full, got selective, expected full");
  if (!method && older) method = older;
  const std::optional<std::int64_t> newer = launch.count("recompute-num-layers"), some = newer ? newer : of_older;
  const char* number = newer ? "recompute-num-layers" : "activations-checkpoint-num-layers";
  std::vector<std::string> modules = launch.words("recompute-modules");
  if (launch.flag("moe-layer-recompute") && recompute != "full") {  // the older name of the module
    recompute = "selective";
    modules.emplace_back("moe");
  }
  const bool in_part = method && method->as_choice({"uniform", "block"}) == "block" && some && recompute == "full";
  if (in_part) {
    draft.set("recompute.kind", recompute);
    draft.set("recompute.layers", *some, launch.place(number));
  } else if (recompute == "selective" && !modules.empty()) {
    take_recomputed_modules(modules, "--recompute-modules", draft);
  } else {
    draft.set("recompute", recompute);
    if (some && *some > 1)
      draft.ignored(fmt::format("--{} {}", number, *some), "the input of every layer is kept, not of one in so many");
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
  const std::string name = optimizer ? optimizer->text() : "adam";  // forks have more
  take_optimizer(name, draft);
  if (name == "cpu-adam") draft.set("offload.optimizer", true, optimizer->place());
  take_offload(launch, draft);

  const Settings& batch = draft.document().at("batch");
  const std::int64_t global = batch.get_int("global", 1), seq = draft.document().at("model").get_int("seq", 1);
  const std::optional<std::int64_t> every = launch.count("eval-interval"), passes = launch.count("eval-iters", -1);
  if (passes.value_or(0) < 0)
    draft.ignored("--eval-iters -1", "the whole of a validation set, whose length the line does not say");
  if (every && passes.value_or(100) > 0) {
    draft.set("evaluation.every_steps", *every, launch.place("eval-interval"));
    draft.set("evaluation.sequences", std::min<std::int64_t>(passes.value_or(100), 1'000'000'000) * global);
  }
  const std::optional<std::int64_t> steps = launch.count("train-iters"), samples = launch.count("train-samples"),
                                    tokens = launch.count("train-tokens");
  if (tokens) draft.set("training.tokens", *tokens, launch.place("train-tokens"));
  if (steps && samples) launch.refuse("train-samples", "contradicts --train-iters, expected one");
  if ((steps || samples) && !tokens) {
    const double sequences =
        steps ? static_cast<double>(*steps) * static_cast<double>(global) : static_cast<double>(*samples);
    draft.set("training.tokens", fmt::format("{:.0f}", sequences * static_cast<double>(seq)));
  }
}

/// The oldest generation of those that ship that knows all of the line's flags: those that each release has first
/// (NVIDIA/Megatron-LM core_v0.11.0 to core_v0.16.0, megatron/training/arguments.py and transformer_config.py).
void take_software(Launch& launch, Draft& draft) {
  if (is_megatron_deepspeed(launch)) {
    if (launch.flag("cross-entropy-loss-fusion"))
      draft.ignored("--cross-entropy-loss-fusion", "not of Megatron-DeepSpeed");
    return take_deepspeed(launch, draft);
  }
  const auto& flags = software_since();
  const auto since = std::find_if(flags.begin(), flags.end(), [&](const auto& each) { return launch.has(each.first); });
  const bool known = since != flags.end();
  if (known) draft.set("software", std::string(since->second), launch.place(since->first));
  draft.assumed("software", fmt::format("{}{}; --set software=NAME for another generation",
                                        known ? since->second : std::string(scenarios::kDefaultSoftware).c_str(),
                                        known ? fmt::format(", for --{}", since->first) : ""));
  if (launch.flag("cross-entropy-loss-fusion")) draft.apply("software.recipe.loss=fused");
  take_graphs(launch, draft, has_experts(launch));
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
  take_padding(launch, draft, shipped.job.model.vocab);
  remark_on_the_rest(launch, draft, has_experts(launch));
  return draft;
}

Draft import_way(const LaunchLine& line, const std::vector<std::string>& sets, const std::string& model = "") {
  const std::filesystem::path file = line.place.file.text();
  Draft draft(fmt::format("{} (Megatron-LM)", file.filename().string()), line.place);
  for (const std::string& what : line.left_out) draft.ignored(what);
  Launch launch(line, sets, draft);
  if (!model.empty()) return import_over_model(launch, draft, model);
  draft.set("name", file.has_extension() ? file.stem().string() : std::string("megatron"));
  remark_on_reinforcement(launch, draft);
  take_model(launch, draft);
  take_layout(launch, draft);
  take_precision(launch, draft);
  take_work(launch, draft);
  if (!draft.has("attention"))
    draft.assumed("attention", "the default of the software; no --attention-backend is given");
  take_software(launch, draft);
  take_environment(launch, draft);
  take_padding(launch, draft);
  remark_on_the_rest(launch, draft, has_experts(launch));
  return draft;
}

}  // namespace

Draft import_megatron_over(const LaunchLine& line, const std::string& model, const std::vector<std::string>& sets) {
  return import_way(line, sets, model);
}

Draft import_with_idle_options(const LaunchLine& line, const std::string& model, const std::vector<std::string>& sets) {
  Draft draft = import_way(line, sets, model);
  std::vector<SaidKey> said;
  for (const LaunchOption& option : line.options) {
    const std::string words = option.values.empty() ? "" : fmt::format(" {}", fmt::join(option.values, " "));
    said.push_back({{option.name}, "--" + option.name + words});
  }
  tell_idle(draft, said, [&](std::size_t i) {
    LaunchLine rest = line;
    rest.options.erase(rest.options.begin() + static_cast<std::ptrdiff_t>(i));
    return import_way(rest, sets, model);
  });
  return draft;
}

Draft import_megatron(const LaunchScript& script, const std::vector<std::string>& sets) {
  Draft draft = draft_of_ways(script, [&](std::size_t way) { return import_way(script.ways[way], sets); });
  std::vector<SaidKey> said;
  std::vector<std::string> names;
  for (const LaunchLine& line : script.ways) {
    for (const LaunchOption& option : line.options) {
      if (std::find(names.begin(), names.end(), option.name) != names.end()) continue;
      names.push_back(option.name);
      // A script that a launcher starts stands behind its last option.
      const auto program = std::find_if(option.values.begin(), option.values.end(),
                                        [](const std::string& value) { return value.ends_with(".py"); });
      const std::vector<std::string> values(option.values.begin(), program);
      const std::string words = values.empty() ? "" : fmt::format(" {}", fmt::join(values, " "));
      said.push_back({{option.name}, "--" + option.name + words});
    }
  }
  tell_idle(draft, said, [&](std::size_t i) {
    LaunchScript rest = script;
    for (LaunchLine& line : rest.ways)
      std::erase_if(line.options, [&](const LaunchOption& option) { return option.name == names[i]; });
    return draft_of_ways(rest, [&](std::size_t way) { return import_way(rest.ways[way], sets); });
  });
  return draft;
}

}  // namespace orrery::tools
