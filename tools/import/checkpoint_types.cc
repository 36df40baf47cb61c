// See checkpoint_types.h. Forms: transformers' quantizers (fp8, gptq, awq, mxfp4: modules_to_not_convert), vLLM's
// compressed-tensors (config_groups with targets, ignore), ModelOpt's (quant_algo, ignore or exclude_modules,
// quantized_layers of MIXED_PRECISION). Left out: types of activations, of some layers alone.
#include "tools/import/checkpoint_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace orrery::tools {

using sim::Settings;

namespace {

constexpr std::size_t kLongestPattern = 300, kMostPatterns = 5000;

std::string checkpoint_word(const Settings& config, const char* key) {
  const Settings* value = config.find(key);
  return value != nullptr && value->is_scalar() ? value->text() : "";
}

/// Patterns of modules below a key: a list of them, or one.
void add_patterns(const Settings& config, const char* key, std::vector<std::string>& patterns) {
  const Settings* list = config.find(key);
  if (list == nullptr) return;
  if (list->is_scalar()) patterns.push_back(list->text());
  if (!list->is_sequence()) return;
  for (const Settings& each : list->items()) {
    if (each.is_scalar() && patterns.size() < kMostPatterns) patterns.push_back(each.text());
  }
}

/// What a place of a pattern takes: a sign, any sign, digits, or any number of any.
struct PatternPart {
  enum class Kind : std::uint8_t { sign, any, digits, rest };
  Kind kind = Kind::sign;
  char sign = 0;
};
using PatternParts = std::vector<PatternPart>;

/// Of a regular expression without choices: signs, `.`, `.*`, `.+`, `\d+`, `[0-9]+` and signs behind a backslash; of a
/// pattern with stars, each any number of signs. Nothing for more.
std::optional<PatternParts> parts_of_pattern(const std::string& text, bool expression) {
  PatternParts tokens;
  const auto at = [&](std::size_t i, const char* word) { return text.compare(i, std::string(word).size(), word) == 0; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!expression) {
      tokens.push_back(c == '*' ? PatternPart{PatternPart::Kind::rest, 0} : PatternPart{PatternPart::Kind::sign, c});
    } else if (at(i, ".*") || at(i, ".+")) {
      if (text[i + 1] == '+') tokens.push_back({PatternPart::Kind::any, 0});
      tokens.push_back({PatternPart::Kind::rest, 0});
      ++i;
    } else if (at(i, "\\d+") || at(i, "[0-9]+")) {
      tokens.push_back({PatternPart::Kind::digits, 0});
      i += c == '[' ? 5 : 2;
    } else if (c == '\\' && i + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[i + 1])) == 0) {
      tokens.push_back({PatternPart::Kind::sign, text[++i]});
    } else if (c == '.') {
      tokens.push_back({PatternPart::Kind::any, 0});
    } else if (std::string_view("\\[]{}()?+*|").find(c) != std::string_view::npos) {
      return std::nullopt;
    } else if (c != '^' && c != '$') {
      tokens.push_back({PatternPart::Kind::sign, c});
    }
  }
  if (expression && !text.ends_with("$")) tokens.push_back({PatternPart::Kind::rest, 0});  // as Python's re.match
  return tokens;
}

bool takes_name(const PatternParts& tokens, const std::string& name) {
  std::vector<bool> here(name.size() + 1, false);  // whether the tokens so far take so many signs
  here[0] = true;
  for (const PatternPart& token : tokens) {
    std::vector<bool> next(name.size() + 1, false);
    for (std::size_t i = 0; i <= name.size(); ++i) {
      const bool digit = i > 0 && std::isdigit(static_cast<unsigned char>(name[i - 1])) != 0;
      switch (token.kind) {
        case PatternPart::Kind::sign:
          next[i] = i > 0 && here[i - 1] && name[i - 1] == token.sign;
          break;
        case PatternPart::Kind::any:
          next[i] = i > 0 && here[i - 1];
          break;
        case PatternPart::Kind::digits:
          next[i] = digit && (here[i - 1] || next[i - 1]);
          break;
        case PatternPart::Kind::rest:
          next[i] = here[i] || (i > 0 && next[i - 1]);
          break;
      }
    }
    here = std::move(next);
  }
  return here[name.size()];
}

/// An expression without its choices: one for each. `(a|b)c` is ac and bc.
void add_choices(const std::string& text, std::vector<std::string>& all) {
  constexpr std::size_t kMost = 64;
  const std::size_t close = text.find(')');
  const std::size_t open = close != std::string::npos ? text.rfind('(', close) : std::string::npos;
  if (open == std::string::npos || all.size() >= kMost) return all.push_back(text);
  std::string inside = text.substr(open + 1, close - open - 1);
  if (inside.starts_with("?:")) inside = inside.substr(2);
  for (std::size_t from = 0; from <= inside.size() && all.size() < kMost;) {
    const std::size_t end = std::min(inside.find('|', from), inside.size());
    add_choices(text.substr(0, open) + inside.substr(from, end - from) + text.substr(close + 1), all);
    from = end + 1;
  }
}

/// Whether a pattern is of the module: "re:..." a regular expression, with stars a name's parts, else the module, one
/// around it, or one of its names. Nothing where it cannot be read.
std::optional<bool> is_of(const std::string& pattern, const std::string& module) {
  if (pattern.size() > kLongestPattern) return std::nullopt;
  if (pattern.starts_with("re:")) {
    std::vector<std::string> choices;
    add_choices(pattern.substr(3), choices);
    bool of = false;
    for (const std::string& choice : choices) {
      const std::optional<PatternParts> tokens = parts_of_pattern(choice, true);
      if (!tokens) return std::nullopt;
      of = of || takes_name(*tokens, module);
    }
    return of;
  }
  if (pattern.find('*') != std::string::npos)
    return takes_name(*parts_of_pattern(pattern, false), module) ||
           takes_name(*parts_of_pattern(pattern + ".*", false), module);
  return module == pattern || module.starts_with(pattern + ".") || module.ends_with("." + pattern) ||
         module.find("." + pattern + ".") != std::string::npos;
}

std::string type_of_algorithm(const std::string& name) {
  constexpr std::array<std::pair<const char*, const char*>, 9> kTypes{{{"NVFP4", "nvfp4"},
                                                                       {"NVFP4_AWQ", "nvfp4"},
                                                                       {"W4A8_NVFP4_FP8", "nvfp4"},
                                                                       {"FP8", "fp8"},
                                                                       {"FP8_PB_WO", "fp8-block"},
                                                                       {"FP8_PB", "fp8-block"},
                                                                       {"MXFP4", "mxfp4"},
                                                                       {"W4A16_AWQ", "int4"},
                                                                       {"W4A8_AWQ", "int4"}}};
  for (const auto& [theirs, ours] : kTypes)
    if (name == theirs) return ours;
  return "";
}

/// Of a group of compressed-tensors, by its bits and how they are packed.
std::string type_of_modules(const Settings& group, const std::string& format) {
  const Settings* weights = group.find("weights");
  if (weights == nullptr || !weights->is_mapping()) return "";
  const std::string bits = checkpoint_word(*weights, "num_bits"), kind = checkpoint_word(*weights, "type"),
                    own = checkpoint_word(group, "format"), packed = own.empty() ? format : own;
  if (bits == "8" && kind == "float") return checkpoint_word(*weights, "strategy") == "block" ? "fp8-block" : "fp8";
  if (bits == "4" && kind == "int") return "int4";
  if (bits == "4" && kind == "float") {
    const bool mx = packed.starts_with("mxfp4") || checkpoint_word(*weights, "group_size") == "32";
    return mx ? "mxfp4" : "nvfp4";
  }
  return "";
}

/// A type of the modules that are neither left out nor of another group.
struct TypedModules {
  std::string type;
  std::vector<std::string> targets;  // empty: all linear layers
};

bool is_target(const TypedModules& group, const std::string& module) {
  return group.targets.empty() || std::any_of(group.targets.begin(), group.targets.end(), [&](const std::string& each) {
           return each == "Linear" || each == "FusedMoE" || is_of(each, module).value_or(false);
         });
}

}  // namespace

std::string CheckpointTypes::text() const {
  std::string out = "weights: " + weights;
  if (attention != weights) out += ", attention: " + attention;
  if (experts != weights) out += ", experts: " + experts;
  if (!kv_cache.empty()) out += ", kv_cache: " + kv_cache;
  return "{" + out + "}";
}

std::optional<CheckpointTypes> checkpoint_types(const Settings& config, std::int64_t layers) {
  const Settings* inner = config.is_mapping() ? config.find("quantization") : nullptr;
  const Settings& said = inner != nullptr && inner->is_mapping() ? *inner : config;
  if (!said.is_mapping()) return std::nullopt;
  const std::string method = checkpoint_word(said, "quant_method"), algorithm = checkpoint_word(said, "quant_algo");
  CheckpointTypes types;
  std::vector<std::string> left;
  for (const char* key : {"ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers"})
    add_patterns(said, key, left);
  std::vector<TypedModules> groups;
  if (const Settings* layered = said.find("quantized_layers"); layered != nullptr && layered->is_mapping()) {
    for (const auto& [module, how] : layered->members())
      if (how.is_mapping() && groups.size() < kMostPatterns)
        groups.push_back({type_of_algorithm(checkpoint_word(how, "quant_algo")), {module}});
  } else if (!type_of_algorithm(algorithm).empty()) {
    groups.push_back({type_of_algorithm(algorithm), {}});
  } else if (const Settings* by = said.find("config_groups"); by != nullptr && by->is_mapping()) {
    for (const auto& [name, group] : by->members()) {
      if (!group.is_mapping()) continue;
      groups.push_back({type_of_modules(group, checkpoint_word(said, "format")), {}});
      add_patterns(group, "targets", groups.back().targets);
    }
  } else if (method == "fp8") {
    groups.push_back({said.find("weight_block_size") != nullptr ? "fp8-block" : "fp8", {}});
  } else if (method == "mxfp4") {
    groups.push_back({"mxfp4", {}});
  } else if ((method == "gptq" || method == "awq" || method == "auto-round") && checkpoint_word(said, "bits") == "4") {
    groups.push_back({"int4", {}});
  }
  if (groups.empty()) return std::nullopt;
  const auto type = [&](const std::vector<std::string>& modules) {
    std::vector<std::string> found;
    for (const std::string& module : modules) {
      const auto group =
          std::find_if(groups.begin(), groups.end(), [&](const TypedModules& each) { return is_target(each, module); });
      const bool out = std::any_of(left.begin(), left.end(),
                                   [&](const std::string& each) { return is_of(each, module).value_or(false); });
      found.push_back(out || group == groups.end() || group->type.empty() ? "bf16" : group->type);
    }
    return found;
  };
  const std::string layer = fmt::format("model.layers.{}.", layers / 2);
  const std::vector<std::string> attention = type({layer + "self_attn.q_proj", layer + "self_attn.o_proj"});
  const std::string experts = type({layer + "mlp.experts.0.down_proj"})[0];
  const std::vector<std::string> others = type({layer + "mlp.down_proj", layer + "mlp.shared_experts.down_proj"});
  types.attention = attention[0];
  if (attention[1] != attention[0])
    types.told.push_back(
        fmt::format("attention's last product is in {}, here in {} as its others", attention[1], attention[0]));
  types.experts = experts;
  types.weights = method == "mxfp4" && !left.empty() ? "bf16" : others[1] != others[0] ? others[1] : others[0];
  for (const std::string& each : left)
    if (!is_of(each, layer)) types.told.push_back("the pattern " + each + ", which is not read");
  std::string cache = checkpoint_word(said, "kv_cache_quant_algo");
  const Settings* scheme = said.find("kv_cache_scheme");
  if (cache == "FP8" || (scheme != nullptr && scheme->is_mapping() && checkpoint_word(*scheme, "num_bits") == "8"))
    types.kv_cache = "fp8";
  if (!cache.empty() && cache != "FP8") types.told.push_back("keys and values in " + cache + ", here in 16 bits");
  return types;
}

}  // namespace orrery::tools
