// Blocks by pattern. A word of model.blocks is a block: the name of a mixer, or of a channel, or several names joined
// by
// `+`, as in `M`, `E`, `A+F`, `A+M+F`; a word that is no name and whose letters all are is as many blocks as it has
// letters, so that `MEME*E` of Megatron-LM's --hybrid-override-pattern reads as it stands. Kinds that need no keys
// (attention, mla, mlp, moe) are names by themselves. What a mixer or channel leaves open is what the model says under
// the same key.
#include "scenarios/load_pattern.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "scenarios/library.h"
#include "scenarios/load.h"
#include "scenarios/load_experts.h"
#include "scenarios/load_operators.h"
#include "scenarios/load_stacks.h"
#include "workloads/model/mixers/mixers.h"
#include "workloads/model/products.h"

namespace orrery::scenarios {

using sim::Settings;
using workloads::Job;
using workloads::Model;
using workloads::Operators;
using workloads::StateMixer;
using Channel = Model::Block::Channel;

namespace {

constexpr std::size_t kMostBlocks = 10'000, kMostKinds = 64, kDeepestPattern = 8;

// ---- words ----

struct Word {
  std::string text;
  const Settings* at;
};

void add_words(const Settings& value, std::size_t depth, std::vector<Word>& out);

void add_repeated(const Settings& value, std::size_t depth, std::vector<Word>& out) {
  const Settings* times = given(&value, "repeat");
  const std::int64_t repeat = times == nullptr ? 1 : times->as_int(1, kMostBlocks);
  std::vector<Word> once;
  add_words(required(value, "pattern"), depth + 1, once);
  if (once.size() * static_cast<std::size_t>(repeat) + out.size() > kMostBlocks)
    value.fail(fmt::format("got {} times {} blocks, expected at most {} in all", repeat, once.size(), kMostBlocks));
  for (std::int64_t i = 0; i < repeat; ++i) out.insert(out.end(), once.begin(), once.end());
}

void add_words(const Settings& value, std::size_t depth, std::vector<Word>& out) {
  if (depth > kDeepestPattern)
    value.fail(fmt::format("got patterns {} deep, expected at most {}", depth, kDeepestPattern));
  if (value.is_mapping()) return add_repeated(value, depth, out);
  if (value.is_sequence()) {
    for (const Settings& item : value.items()) add_words(item, depth + 1, out);
    return;
  }
  const std::string& text = value.text();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
    if (end > at) out.push_back({text.substr(at, end - at), &value});
    if (out.size() > kMostBlocks) value.fail(fmt::format("got a pattern of more than {} blocks", kMostBlocks));
    at = end + 1;
  }
}

// ---- what names stand for ----

const std::vector<std::string> kChannels{"mlp", "moe", "none"};

struct Part {
  std::string kind;
  const Settings* section = nullptr;  // null: a kind by its own name
};
using Parts = std::map<std::string, Part>;

bool is_one_of(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// Keys that a mixer or channel of that kind has.
const std::vector<std::string>& keys_of(const std::string& kind) {
  static const std::vector<std::string> attention{"heads",   "kv_heads",    "head_dim",     "v_dim",
                                                  "qk_norm", "output_gate", "key_is_value", "shares_keys"},
      windowed{"heads",       "kv_heads",     "head_dim",    "v_dim", "qk_norm",
               "output_gate", "key_is_value", "shares_keys", "window"},
      stacked{"heads", "kv_heads", "head_dim"},
      latent{"heads", "q_lora", "kv_lora", "qk_nope_dim", "qk_rope_dim", "v_dim"},
      chosen{"heads", "q_lora",      "kv_lora",   "qk_nope_dim", "qk_rope_dim",
             "v_dim", "index_heads", "index_dim", "index_top_k"},
      blocks{"heads",       "kv_heads",  "head_dim",    "qk_norm",    "output_gate",
             "index_heads", "index_dim", "index_top_k", "index_block"},
      compressed{"heads", "head_dim", "q_lora", "window", "compress", "out_groups", "out_lora"},
      compressed_chosen{"heads",      "head_dim", "q_lora",      "window",    "compress",
                        "out_groups", "out_lora", "index_heads", "index_dim", "index_top_k"},
      mlp{"ffn_hidden"}, operators{"run"},
      moe{"experts",           "top_k",           "expert_groups",  "top_groups",
          "expert_ffn_hidden", "expert_latent",   "shared_experts", "shared_expert_ffn_hidden",
          "shared_gate",       "activation_clamp"},
      none;
  if (kind == "attention") return attention;
  if (kind == "bidirectional" || kind == "cross") return stacked;
  if (kind == "sliding" || kind == "chunked") return windowed;
  if (kind == "mla") return latent;
  if (kind == "dsa") return chosen;
  if (kind == "msa") return blocks;
  if (kind == "csa") return compressed_chosen;
  if (kind == "hca") return compressed;
  if (kind == "operators") return operators;
  if (kind == "mlp") return mlp;
  if (kind == "moe") return moe;
  return none;
}

/// Likewise, of a mixer with a state.
std::vector<std::string> keys_of(const workloads::MixerKind& kind) {
  std::vector<std::string> keys{"heads", "head_dim"};
  for (const workloads::MixerWidth& width : kind.widths) keys.emplace_back(width.key);
  if (kind.taps >= 0) keys.emplace_back("conv");
  keys.emplace_back("chunk");
  if (kind.may_leave_norm) keys.emplace_back("gated_norm");
  return keys;
}

void add_parts(const Settings& model, const char* list, const std::vector<std::string>& kinds, Parts& out) {
  const Settings* section = given(&model, list);
  if (section == nullptr) return;
  if (!section->is_mapping()) section->fail("got no mapping, expected names with their kinds");
  for (const auto& [name, member] : section->members()) {
    if (name.empty() || name.find_first_of("+ \t") != std::string::npos)
      member.fail("got a name with a space or +, expected a letter or a word");
    if (out.contains(name)) member.fail("got a name of a mixer and of a channel, expected one of the two");
    const std::string kind = required(member, "kind").as_choice(kinds);
    const workloads::MixerKind* state = workloads::find_mixer(kind);
    const std::vector<std::string> known = state != nullptr ? keys_of(*state) : keys_of(kind);
    for (const auto& [key, value] : member.members()) {
      if (key != "kind" && !is_one_of(known, key))
        value.fail(fmt::format("got a key that {} has not, expected one of {}", kind, fmt::join(known, ", ")));
    }
    out[name] = {kind, &member};
  }
}

Parts parts_of(const Settings& model) {
  Parts parts;
  add_parts(model, "mixers", mixer_names(), parts);
  add_parts(model, "channels", kChannels, parts);
  for (const char* kind : {"attention", "mla", "mlp", "moe"}) parts.try_emplace(kind, Part{kind});
  return parts;
}

/// Words as names joined by `+`.
std::vector<Word> blocks_as_words(const Settings& section, const Parts& parts) {
  std::vector<Word> read, out;
  add_words(section.at("blocks"), 0, read);
  for (Word& word : read) {
    const bool joined = word.text.find('+') != std::string::npos || parts.contains(word.text);
    const bool letters = std::all_of(word.text.begin(), word.text.end(),
                                     [&](char letter) { return parts.contains(std::string(1, letter)); });
    if (joined || !letters) {
      out.push_back(std::move(word));
      continue;
    }
    for (const char letter : word.text) out.push_back({std::string(1, letter), word.at});
  }
  if (out.empty() || out.size() > kMostBlocks)
    section.at("blocks").fail(fmt::format("got {} blocks, expected 1 to {}", out.size(), kMostBlocks));
  return out;
}

// ---- mixers and channels ----

/// The member of the part, else the model's.
const Settings* own_or_model(const Part& part, const Settings& model, const char* key, const char* of_model = nullptr) {
  const Settings* own = part.section == nullptr ? nullptr : given(part.section, key);
  return own != nullptr ? own : given(&model, of_model != nullptr ? of_model : key);
}

std::int64_t needed(const Part& part, const Settings& model, const char* key) {
  const Settings* value = own_or_model(part, model, key);
  if (value == nullptr)
    (part.section != nullptr ? *part.section : model).fail(fmt::format("holds no {}, which {} needs", key, part.kind));
  return value->as_int();
}

/// What a mixer says of the keys that it sees.
workloads::SparseAttention load_sparse(const Part& part, const Settings& model, const Model::Attention& attention) {
  const Settings& section = *part.section;
  workloads::SparseAttention s;
  if (part.kind != "hca") {
    s.index_heads = integer(&section, "index_heads", part.kind == "msa" ? attention.kv_heads : 64);
    if (s.index_heads == 0 && part.kind == "msa")
      section.at("index_heads")
          .fail("got 0, expected heads of the indexer: only dsa and csa may take another's choice");
    s.index_dim = integer(&section, "index_dim", 128);
    s.chosen = required(section, "index_top_k").as_int();
  }
  if (part.kind == "msa") s.block = integer(&section, "index_block", 128);
  if (part.kind == "msa" && s.block == 1) section.at("index_block").fail("got 1, expected blocks of several tokens");
  if (part.kind == "dsa" || part.kind == "msa") return s;
  s.ratio = integer(&section, "compress", part.kind == "csa" ? 4 : 128);
  if (s.ratio == 0 && part.kind == "csa")
    section.at("compress").fail("got 0, expected tokens to a key, or hca, which may see its window alone");
  s.window = integer(&section, "window", 128);
  s.q_rank = needed(part, model, "q_lora");
  s.out_groups = required(section, "out_groups").as_int();
  s.out_rank = required(section, "out_lora").as_int();
  if (attention.heads % s.out_groups != 0)
    section.at("out_groups").fail(fmt::format("got {}, expected a divisor of {} heads", s.out_groups, attention.heads));
  return s;
}

/// Of attention whose keys are those that the usual kinds have, its own widths of values and what it shares.
void load_values(const Settings& section, Model::Attention& a) {
  a.value_width = integer(&section, "v_dim", 0);
  a.key_is_value = boolean(&section, "key_is_value", false);
  a.shares_keys = boolean(&section, "shares_keys", false);
  if (a.key_is_value && a.value_width > 0)
    section.at("v_dim").fail("got a width of values beside key_is_value, expected none: they are the keys");
}

void load_attention(const Part& part, const Settings& model, const Model& whole, Model::Attention& a) {
  const Settings& place = part.section != nullptr ? *part.section : model;
  a = whole.attention;
  a.heads = needed(part, model, "heads");
  a.window = 0;
  a.chunked = false;
  a.sparse = {};
  a.bidirectional = part.kind == "bidirectional";
  if (part.kind == "mla" || part.kind == "dsa") {
    a.kv_heads = a.heads;
    a.latent.kv_rank = needed(part, model, "kv_lora");
    const Settings* queries = own_or_model(part, model, "q_lora");
    a.latent.q_rank = queries == nullptr ? 0 : queries->as_int();
    a.latent.nope_dim = needed(part, model, "qk_nope_dim");
    a.latent.rope_dim = needed(part, model, "qk_rope_dim");
    a.latent.v_dim = needed(part, model, "v_dim");
    if (part.kind == "dsa") a.sparse = load_sparse(part, model, a);
    return;
  }
  const auto size = [&](const char* key, std::int64_t fallback) {
    const Settings* value = own_or_model(part, model, key);
    return value == nullptr ? fallback : value->as_int();
  };
  const auto flag = [&](const char* key) {
    const Settings* value = own_or_model(part, model, key);
    return value != nullptr && value->as_bool();
  };
  a.kv_heads = size("kv_heads", a.heads);
  a.head_width = size("head_dim", 0);
  a.qk_norm = flag("qk_norm");
  a.output_gate = flag("output_gate");
  a.value_width = 0;
  if (part.section != nullptr && (part.kind == "attention" || part.kind == "sliding" || part.kind == "chunked"))
    load_values(*part.section, a);
  if (part.kind == "csa" || part.kind == "hca") {
    a.kv_heads = a.heads;  // which share one
    a.head_width = required(*part.section, "head_dim").as_int();
    a.qk_norm = false;
  }
  if (part.kind == "csa" || part.kind == "hca" || part.kind == "msa") {
    a.sparse = load_sparse(part, model, a);
  } else if (part.kind == "sliding" || part.kind == "chunked") {
    const Settings* window = own_or_model(part, model, "window", "attention_window");
    if (window == nullptr) place.fail(fmt::format("holds no window, which {} attention needs", part.kind));
    a.window = window->as_int();
    a.chunked = part.kind == "chunked";
  }
  if (a.head_width == 0 && whole.hidden % a.heads != 0)
    place.fail(fmt::format("got {} heads of hidden {}, expected a divisor, or head_dim", a.heads, whole.hidden));
  if (a.heads % a.kv_heads != 0)
    place.fail(fmt::format("got {} heads over {} of keys, expected a multiple", a.heads, a.kv_heads));
}

StateMixer load_state(const Part& part, const workloads::MixerKind& kind) {
  const Settings& section = *part.section;
  StateMixer mixer;
  mixer.kind = &kind;
  mixer.heads = required(section, "heads").as_int();
  mixer.value_dim = required(section, "head_dim").as_int();
  mixer.key_heads = mixer.heads;
  mixer.key_dim = mixer.value_dim;
  for (const workloads::MixerWidth& width : kind.widths)
    width.of(mixer) = width.fallback != nullptr ? integer(&section, width.key, width.fallback(mixer))
                                                : required(section, width.key).as_int();
  mixer.conv = integer(&section, "conv", std::max<std::int64_t>(kind.taps, 0));
  mixer.chunk = integer(&section, "chunk", kind.scan->chunk);
  mixer.normed = boolean(&section, "gated_norm", true);
  if (mixer.heads % mixer.key_heads != 0)
    section.fail(fmt::format("got {} heads over {} of keys, expected a multiple", mixer.heads, mixer.key_heads));
  if (kind.as_many_keys && mixer.key_heads != mixer.heads)
    section.fail(
        fmt::format("got {} heads over {} of keys with {}, expected as many", mixer.heads, mixer.key_heads, kind.name));
  return mixer;
}

/// The model's own members with the channel's in their place.
Settings laid_over_model(const Settings& model, const Part& part) {
  Settings all = model;
  if (part.section == nullptr) return all;
  for (const auto& [key, value] : part.section->members()) all.set(key, value);
  return all;
}

class PatternLoader {
 public:
  PatternLoader(const Settings& section, Job& job) : section_(section), job_(job), parts_(parts_of(section)) {}

  void load() {
    Model& model = job_.model;
    std::map<std::string, std::uint8_t> known;
    const auto kind_of = [&](const Word& word) {
      auto found = known.find(word.text);
      if (found == known.end()) {
        if (known.size() == kMostKinds)
          word.at->fail(fmt::format("got more than {} kinds of blocks, expected fewer", kMostKinds));
        found = known.emplace(word.text, static_cast<std::uint8_t>(known.size())).first;
        model.pattern.kinds.push_back(block_of(word));
      }
      return found->second;
    };
    for (const Word& word : blocks_as_words(section_, parts_)) model.pattern.blocks.push_back(kind_of(word));
    if (const Settings* predicts = given(&section_, "mtp_block"); model.experts.mtp_layers > 0 || predicts != nullptr) {
      if (model.experts.mtp_layers == 0)
        predicts->fail("got the block of layers that predict further tokens, expected model.mtp_layers beside it");
      model.pattern.predicts =
          predicts != nullptr ? kind_of({predicts->text(), predicts}) : model.pattern.blocks.back();
    }
    for (const auto& [name, part] : parts_) {
      if (part.section != nullptr && !used_.contains(name))
        part.section->fail("is in no block, expected one of model.blocks that names it");
    }
    refuse_idle_keys();
    stand_for_blocks();
  }

 private:
  Model::Block block_of(const Word& word) {
    Model& model = job_.model;
    Model::Block block;
    block.mlp = model.mlp;
    block.mlp.hidden = 0;
    bool channel = false;
    for (std::size_t at = 0; at <= word.text.size();) {
      const std::size_t end = std::min(word.text.find('+', at), word.text.size());
      const std::string name = word.text.substr(at, end - at);
      at = end + 1;
      const auto part = parts_.find(name);
      if (part == parts_.end()) {
        std::vector<std::string> names;
        for (const auto& [known, one] : parts_) names.push_back(known);
        word.at->fail(fmt::format("got {}, expected names of model.mixers and model.channels joined by +: {}",
                                  name.empty() ? "a block without a name" : name, fmt::join(names, ", ")));
      }
      used_[name] = true;
      const std::string& kind = part->second.kind;
      if (kind == "operators") {
        Operators& place = channel ? block.behind : block.operators;
        if (place.any())
          word.at->fail(
              fmt::format("got {}, expected operators once ahead of a block's channel and once behind it", word.text));
        place = load_operators(*part->second.section, model);
      } else if (kind == "cross") {
        if (!block.attends || block.crosses || block.operators.any() || channel)
          word.at->fail(fmt::format("got {}, expected attention across once, behind the block's own", word.text));
        load_attention(part->second, section_, model, block.cross);
        block.crosses = true;
      } else if (!is_one_of(kChannels, kind)) {
        const workloads::MixerKind* state = workloads::find_mixer(kind);
        const bool attends = state == nullptr;
        if ((attends ? block.attends : block.state.any()) || block.operators.any() || channel)
          word.at->fail(
              fmt::format("got {}, expected one attention and one mixer with a state at most, and behind "
                          "them one channel",
                          word.text));
        if (attends) load_attention(part->second, section_, model, block.attention);
        if (!attends) block.state = load_state(part->second, *state);
        block.attends = block.attends || attends;
      } else {
        if (channel) word.at->fail(fmt::format("got {}, expected one channel in a block", word.text));
        channel = true;
        load_channel(part->second, block);
      }
    }
    if (block.attends && block.state.any() && (block.attention.latent.any() || block.attention.sparse.any()))
      word.at->fail(fmt::format("got {}, expected attention of the usual kind beside a mixer with a state", word.text));
    if (!block.mixes() && block.channel == Channel::none)
      word.at->fail(fmt::format("got {}, a block of nothing, expected a mixer or a channel", word.text));
    return block;
  }

  void load_channel(const Part& part, Model::Block& block) {
    Model& model = job_.model;
    if (part.kind == "none") return;
    const Settings all = laid_over_model(section_, part);
    if (part.kind == "mlp") {
      block.channel = Channel::mlp;
      block.mlp.hidden = needed(part, section_, "ffn_hidden");
      return;
    }
    block.channel = Channel::experts;
    workloads::Experts experts = load_routed(all);
    experts.mtp_layers = model.experts.mtp_layers;
    if (model.experts.any() && !(model.experts == experts))
      (part.section != nullptr ? *part.section : section_)
          .fail("got experts of two kinds, expected one kind of routed experts in a model");
    model.experts = experts;
    check_expert_counts(all, model);
  }

  /// Keys of the model that no block reads, and those of layers in turn.
  void refuse_idle_keys() const {
    const auto refuse = [&](const char* key, const char* why) {
      if (const Settings* value = given(&section_, key); value != nullptr) value->fail(why);
    };
    refuse("attention_window_every", "got layers in turn beside model.blocks, expected the blocks to say it");
    refuse("dense_layers", "got layers in turn beside model.blocks, expected the blocks to say it");
    refuse("moe_every", "got layers in turn beside model.blocks, expected the blocks to say it");
    refuse("attention_kind", "got a kind of attention beside model.blocks, expected mixers to say it");
    refuse("attention_window_kind", "got a kind of window beside model.blocks, expected mixers to say it");
    if (job_.model.parallel_block)
      section_.at("parallel_block").fail("got true beside model.blocks, expected mixers joined by + in a block");
    const auto idle = [&](std::initializer_list<const char*> keys, const char* what, bool used) {
      for (const char* key : keys)
        if (!used) refuse(key, what);
    };
    const std::vector<Model::Block>& kinds = job_.model.pattern.kinds;
    const auto any = [&](auto holds) { return std::any_of(kinds.begin(), kinds.end(), holds); };
    idle({"experts", "top_k", "expert_groups", "top_groups", "expert_ffn_hidden", "expert_latent", "shared_experts",
          "shared_expert_ffn_hidden", "shared_gate", "activation_clamp"},
         "got a key of experts, expected a channel of kind moe in model.blocks", job_.model.experts.any());
    idle({"q_lora", "kv_lora", "qk_nope_dim", "qk_rope_dim", "v_dim"},
         "got a key of latent attention, expected a mixer of kind mla or dsa in model.blocks",
         any([](const Model::Block& block) {
           return block.attends && (block.attention.latent.any() || block.attention.sparse.compressed());
         }));
    idle({"attention_window"}, "got a window, expected a mixer of kind sliding or chunked in model.blocks",
         any([](const Model::Block& block) { return block.attends && block.attention.window > 0; }));
  }

  /// What asks the model for one attention and one MLP sees those of the first blocks that have them.
  void stand_for_blocks() {
    Model& model = job_.model;
    const std::vector<Model::Block>& kinds = model.pattern.kinds;
    const auto first = [&](auto holds) { return std::find_if(kinds.begin(), kinds.end(), holds); };
    const auto attends = first([](const Model::Block& block) { return block.attends; });
    if (attends != kinds.end()) model.attention = attends->attention;
    const auto dense = first([](const Model::Block& block) { return block.channel == Channel::mlp; });
    model.mlp.hidden = dense != kinds.end() ? dense->mlp.hidden : 0;
    if (attends != kinds.end()) return;
    const auto state = first([](const Model::Block& block) { return block.state.any(); });
    if (state != kinds.end()) model.attention.heads = model.attention.kv_heads = state->state.heads;
    // Operators are cut by widths of their own (tensor_cuts).
    if (state == kinds.end() && first([](const Model::Block& block) { return block.operators.any(); }) != kinds.end())
      model.attention.heads = model.attention.kv_heads = model.hidden;
    model.attention.head_width = 1;
  }

  const Settings& section_;
  Job& job_;
  Parts parts_;
  std::map<std::string, bool> used_;
};

}  // namespace

const std::vector<std::string>& mixer_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names{"attention", "bidirectional", "cross", "mla", "sliding",
                                   "chunked",   "dsa",           "csa",   "hca", "msa"};
    for (const workloads::MixerKind* kind : workloads::mixer_kinds()) names.emplace_back(kind->name);
    names.emplace_back("operators");
    return names;
  }();
  return kNames;
}

bool has_pattern(const Settings& section) {
  if (given(&section, "blocks") != nullptr) return true;
  for (const char* key : {"mixers", "channels", "mtp_block"})
    if (const Settings* value = given(&section, key); value != nullptr)
      value->fail("got what blocks are made of, expected model.blocks beside it");
  return false;
}

std::int64_t blocks_of(const Settings& section) {
  return static_cast<std::int64_t>(blocks_as_words(section, parts_of(section)).size());
}

namespace {

/// At whose rates scans run: their own where the device's profile has these.
void say_scans(const std::vector<Model::Block>& kinds, Job& job) {
  std::set<std::string> own;
  bool others = false;
  for (const Model::Block& block : kinds) {
    if (!block.state.any()) continue;
    const calibration::ScanKind& scan = *block.state.kind->scan;
    if (job.machine.device.has(scan))
      own.emplace(scan.name);
    else
      others = true;
  }
  if (!own.empty())
    job.assumptions.push_back(
        fmt::format("model.mixers: scans of {} take what their kernels move and multiply at the rates that the "
                    "device's profile has for them.",
                    fmt::join(own, " and ")));
  if (others)
    job.assumptions.push_back(fmt::format(
        "model.mixers: {}scans take what their kernels move and multiply at the shares that prompts of gated delta "
        "nets reach; backward passes, and scans of other kinds than delta rules, are transferred, since no table times "
        "them.",
        own.empty() ? "" : "other "));
}

}  // namespace

void load_pattern(const Settings& section, Job& job) {
  job.model.experts.mtp_layers = integer(&section, "mtp_layers", 0);
  PatternLoader(section, job).load();
  load_stacks(section, job);
  const std::vector<Model::Block>& kinds = job.model.pattern.kinds;
  say_scans(kinds, job);
  if (std::any_of(kinds.begin(), kinds.end(), [](const Model::Block& block) { return block.attention.sparse.any(); }))
    job.assumptions.emplace_back(
        "model.mixers: scores, choice and attention of sparse mixers take what they multiply and move at the shares "
        "of the device's profile (sparse), in shipped ones those that blocks of engines reach; backward passes are "
        "transferred there, since no table times them, and the indexer is trained on the keys that it chose.");
  if (std::any_of(kinds.begin(), kinds.end(),
                  [](const Model::Block& block) { return block.operators.any() || block.behind.any(); }))
    job.assumptions.emplace_back(
        "model.mixers: operators of a graph run one by one, as eager code runs them: nothing is fused.");
}

namespace {

/// Adapters stand beside attention of the usual kind and MLPs, as in a dense model.
void check_adapters(const Settings& document, const Model& model, const workloads::Adapters& adapters) {
  if (!adapters.any()) return;
  if (model.experts.mtp_layers > 0)
    document.at("finetune")
        .fail(
            "got adapters of a model with layers that predict further tokens, expected "
            "model.mtp_layers: 0");
  const std::vector<Model::Block>& kinds = model.pattern.kinds;
  const bool any = std::any_of(kinds.begin(), kinds.end(), [&](const Model::Block& block) {
    const bool usual = block.attends && !block.attention.latent.any() && !block.attention.sparse.compressed();
    return usual || (adapters.on_mlp && block.channel == Channel::mlp);
  });
  if (!any)
    document.at("finetune")
        .fail(
            "got adapters of a model whose blocks have none of attention of the usual kind, nor, "
            "with modules: all, an MLP: nothing is trained");
}

/// Context ranks of a mixer with a state have all positions of some of its heads, or hand its states on.
void check_scanned(const Settings& document, const Model& model, const Model::Block& block,
                   const workloads::Parallelism& layout) {
  if (layout.context == 1 || !block.state.any()) return;
  const StateMixer& mixer = block.state;
  const auto refuse = [&](const std::string& why) {
    fail_at(document, "parallelism.context",
            fmt::format("got {} with a {} mixer, expected {}", layout.context, mixer.kind->name, why));
  };
  const std::int64_t ranks = layout.tensor * (passes_states(mixer.kind->parts(mixer)) ? 1 : layout.context);
  if (mixer.heads % ranks != 0 || mixer.key_heads % ranks != 0)
    refuse(fmt::format("a divisor of its {} heads and {} of keys or groups over the tensor group", mixer.heads,
                       mixer.key_heads));
  for (const Model::Block& other : model.pattern.kinds) {
    StateMixer alike = other.state;
    alike.own = mixer.own;  // inside of its products
    if (alike.any() && !(alike == mixer)) refuse("1, or one kind of mixer with a state in the pattern");
  }
}

void check_divided(const Settings& document, const Model::Block& block, const workloads::Parallelism& layout) {
  if (block.attends && block.attention.sparse.compressed() && layout.tensor > 1)
    fail_at(document, "parallelism.tensor",
            fmt::format("got {} with attention to compressed keys, expected 1: no framework cuts it by heads",
                        layout.tensor));
  for (const workloads::TensorCut& cut : workloads::tensor_cuts(block)) {
    // More ranks than heads of keys are checked with the software that shares these.
    const bool keys = std::string_view(cut.what) == workloads::kKeyHeadsCut && layout.tensor % cut.size == 0;
    if (cut.size % layout.tensor == 0 || keys) continue;
    fail_at(document, "parallelism.tensor",
            fmt::format("expected a divisor of the {} {} of a block, got {}", cut.size, cut.what, layout.tensor));
  }
}

}  // namespace

void check_pattern(const Settings& document, const Model& model, const workloads::Parallelism& layout,
                   const workloads::Method& method) {
  if (!model.pattern.any()) return;
  check_operators(document, model, layout, method);
  check_stacks(document, model, layout, method);
  check_adapters(document, model, method.adapters);
  const Model::Block* attends = nullptr;
  for (const Model::Block& block : model.pattern.kinds) {
    check_divided(document, block, layout);
    check_scanned(document, model, block, layout);
    if (!block.attends) continue;
    if (layout.context > 1 && block.attention.sparse.any() &&
        layout.context_method != workloads::ContextMethod::all_gather)
      fail_at(document, "parallelism.context_method",
              fmt::format("got {} with attention to some of the keys, expected all_gather: a query may choose any",
                          name_of(layout.context_method)));
    if (layout.tensor > 1 && !layout.sequence_parallel && block.attention.latent.any())
      fail_at(document, "parallelism.sequence_parallel",
              "got false, expected true: with mla every rank of the tensor group would compress the same tokens");
    const auto width = [](const Model::Block& one) {
      const Model::Attention& a = one.attention;
      return std::tuple(a.kv_heads, a.latent.any(), a.heads, a.head_width, a.value_width);
    };
    if (attends != nullptr && width(*attends) != width(block) && layout.context > 1)
      fail_at(document, "parallelism.context",
              fmt::format("got {} with attention of several widths in a pattern, expected 1", layout.context));
    if (attends != nullptr && !(attends->attention.latent == block.attention.latent) && layout.tensor > 1)
      fail_at(document, "parallelism.tensor",
              fmt::format("got {} with latent and other attention in a pattern, expected 1", layout.tensor));
    attends = &block;
  }
  if (layout.inside.tensor_in > 1)
    fail_at(document, "parallelism.tensor_in",
            fmt::format("got {} beside model.blocks, expected 1", layout.inside.tensor_in));
  if (method.recompute == workloads::Recompute::selective && method.recomputed.every_second_product)
    fail_at(document, "recompute", "got every second product beside model.blocks, expected modules, full or none");
}

}  // namespace orrery::scenarios
