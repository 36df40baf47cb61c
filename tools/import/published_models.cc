// Names of published models. A name is words between signs; some say nothing of its sizes and are left out, and of
// models that are others' tunings under a name of their own a catalogue says whose sizes they have, by their cards and
// configs on Hugging Face. Left out: folders whose name says nothing, whose config.json `import hf` reads.
#include "tools/import/published_models.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "scenarios/scenario.h"
#include "tools/import/known_recipes.h"

namespace orrery::tools {

namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Letters and digits of a name, in lower case.
std::string letters_and_digits(std::string_view name) {
  std::string out;
  for (const char c : lower(std::string(name))) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) out += c;
  }
  return out;
}

/// What a name begins with when what says nothing of sizes is left out, and whose sizes those are. The first that is
/// met: DeepSeek-R1's distillates stand ahead of itself.
struct SameSizes {
  std::string_view begins, ships;
  std::string_view beside = {};
};
constexpr std::string_view kSees = "vision encoder", kHears = "sound encoder";
constexpr SameSizes kSameSizes[] = {
    {"llama-3.3-70b", "llama3.1-70b"},
    {"llama-7b", "llama2-7b"},
    {"llama-65b", "llama1-65b"},
    {"open-llama-3b", "openllama-3b"},
    {"open-llama-7b", "llama2-7b"},
    {"tinyllama-v1", "tinyllama-1.1b"},
    {"vicuna-7b", "llama2-7b"},
    {"vicuna-13b", "llama2-13b"},
    {"llava-1.5-7b", "llama2-7b", kSees},
    {"llava-1.5-13b", "llama2-13b", kSees},
    {"orpheus-3b", "orpheus-3b"},
    {"deepseek-r1-distill-qwen-1.5b", "qwen2.5-1.5b"},
    {"deepseek-r1-distill-qwen-7b", "qwen2.5-7b"},
    {"deepseek-r1-distill-qwen-14b", "qwen2.5-14b"},
    {"deepseek-r1-distill-qwen-32b", "qwen2.5-32b"},
    {"deepseek-r1-distill-llama-8b", "llama3.1-8b"},
    {"deepseek-r1-distill-llama-70b", "llama3.1-70b"},
    {"deepseek-r1-qwen3-8b", "qwen3-8b"},  // DeepSeek-R1-0528-Qwen3-8B
    {"deepseek-r1", "deepseek-v3"},
    {"deepseek-v3.1", "deepseek-v3"},
    {"deepseek-v3.2", "deepseek-v3.2"},
    {"deepseek-v3", "deepseek-v3"},
    {"minimax-m2.", "minimax-m2"},
    {"kimi-k2.", "kimi-k2", kSees},
    {"kimi-k2", "kimi-k2"},
    {"glm-5.1", "glm-5"},
    {"deepseek-v2.5", "deepseek-v2"},
    {"deepcoder-14b", "qwen2.5-14b"},
    {"qwq-32b", "qwen2.5-32b"},
    {"qwen2-0.5b", "qwen2.5-0.5b"},
    {"qwen2-1.5b", "qwen2.5-1.5b"},
    {"cogito-v1-preview-llama-3b", "llama3.2-3b"},
    {"cogito-v1-preview-llama-8b", "llama3.1-8b"},
    {"cogito-v1-preview-llama-70b", "llama3.1-70b"},
    {"cogito-v1-preview-qwen-14b", "qwen2.5-14b"},
    {"cogito-v1-preview-qwen-32b", "qwen2.5-32b"},
    {"plano-orchestrator-4b", "qwen3-4b"},
    {"internvl3-5-1b", "qwen3-0.6b", kSees},
    {"internvl3-5-2b", "qwen3-1.7b", kSees},
    {"internvl3-5-4b", "qwen3-4b", kSees},
    {"internvl3-5-8b", "qwen3-8b", kSees},
    {"internvl3-5-14b", "qwen3-14b", kSees},
    {"mistral-small-3.1-24b", "mistral-small-24b", kSees},
    {"mistral-small-3.2-24b", "mistral-small-24b", kSees},
    {"magistral-small", "mistral-small-24b"},
    {"devstral-small", "mistral-small-24b"},
    {"pixtral-12b", "mistral-nemo-12b", kSees},
    {"ministral-3-3b", "ministral-3-3b", kSees},
    {"ministral-3-8b", "ministral-3-8b", kSees},
    {"ministral-3-14b", "ministral-3-14b", kSees},
    {"voxtral-mini-3b", "voxtral-mini-3b", kHears},
    {"phi-3.5-mini", "phi3-mini-3.8b"},
    {"gpt-oss-safeguard-20b", "gpt-oss-20b"},
    {"gpt-oss-safeguard-120b", "gpt-oss-120b"},
    {"smolvlm2-2.2b", "smollm2-1.7b", kSees},
    {"lfm2-450m", "lfm2-350m", kSees},  // LFM2-VL-450M
    {"glm-4.1v-9b", "glm-4-9b", kSees},
    {"glm-4.6v-flash", "glm-4-9b", kSees},
    {"glm-4.5v", "glm-4.5-air", kSees},
    {"paddleocr", "ernie-4.5-0.3b", kSees},
    {"c4ai-command-r7b", "command-r7b"},
    {"command-r7b", "command-r7b"},
    {"redpajama-incite-3b", "redpajama-incite-3b"},
    {"dbrx", "dbrx-132b"},
    {"granite-4.0-tiny-preview", "granite-4.0-tiny-7b"},
    {"ai21-jamba-1.5-large", "jamba-1.5-large"},
    {"ai21-jamba-large-1.5", "jamba-1.5-large"},
};

/// Words that say nothing of a model's sizes.
bool says_no_size(const std::string& word) {
  static const std::set<std::string> kWords{
      "nvidia",  "chat",       "instruct",    "it",        "hf",   "base",   "pt",       "meta",
      "sft",     "rl",         "thinking",    "dpo",       "bnb",  "nf4",    "4bit",     "bf16",
      "fp16",    "fp8",        "gptq",        "nvfp4",     "awq",  "8bit",   "aqlm",     "2bit",
      "1x16",    "v0.1",       "v1.0",        "v0.2",      "v0.3", "int4",   "int8",     "gguf",
      "unsloth", "linearized", "dequantized", "reasoning", "vl",   "vision", "deduped",  "inst",
      "coder",   "math",       "dynamic",     "w4a16",     "w8a8", "fp4",    "quantized"};
  const bool date = word.size() == 4 && word.find_first_not_of("0123456789") == std::string::npos;
  return date || kWords.contains(word);
}

std::vector<std::string> words_of_name(const std::string& name) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find_first_of("-_", at), name.size());
    words.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string ships_as(const std::string& name) {
  if (const std::string model = model_of_recipe(name); !model.empty()) return model;
  for (const std::string& ships : scenarios::shipped("models")) {
    if (letters_and_digits(ships) == letters_and_digits(name)) return ships;
  }
  return "";
}

PublishedModel model_by_name(const std::string& name) {
  PublishedModel found;
  found.ships = ships_as(name);
  std::string rest;
  for (const std::string& word : words_of_name(name)) {
    if (word == "vl" || word == "vision") found.beside = kSees;
    if (!says_no_size(word)) rest += (rest.empty() ? "" : "-") + word;
  }
  for (const SameSizes& same : kSameSizes) {
    if (!rest.starts_with(same.begins)) continue;
    found.ships = same.ships;
    if (!same.beside.empty()) found.beside = same.beside;
    break;
  }
  if (found.ships.empty()) found.ships = ships_as(rest);
  return found;
}

/// A model whose family, version and size stand in a name one after the other: "Skywork-Reward-V2-Qwen3-8B". Of words
/// without a version ("Distill-Qwen-7B") nothing follows.
PublishedModel model_inside_name(const std::string& name) {
  const std::vector<std::string> words = words_of_name(name);
  for (std::size_t from = 0; from < words.size(); ++from) {
    std::string part;
    bool version = false;
    for (std::size_t i = from; i < words.size() && i < from + 5; ++i) {
      const bool size =
          words[i].size() > 1 && words[i].ends_with("b") && std::isdigit(static_cast<unsigned char>(words[i][0])) != 0;
      part += (i == from ? "" : "-") + words[i];
      if (size && version && i > from && !ships_as(part).empty()) return {ships_as(part), "", part};
      const bool digits = words[i].find_first_of("0123456789") != std::string::npos;
      version = version || (digits && !size);
    }
  }
  return {};
}

}  // namespace

PublishedModel published_model(const std::string& name) {
  std::string path = lower(name);
  const std::string last = path.substr(path.rfind('/') + 1);
  if (PublishedModel found = model_by_name(last); !found.ships.empty()) return found;
  // A folder of somebody's runs says in its path what was trained; what a repository's owner is called says nothing.
  for (bool own = true; !path.empty(); own = false) {
    const std::size_t slash = path.rfind('/');
    const std::string part = path.substr(slash + 1);  // npos + 1 is 0
    PublishedModel found = model_inside_name(part);
    if (found.ships.empty() && !own) {
      found = model_by_name(part);
      found.inferred = part;
    }
    if (!found.ships.empty()) return found;
    path.resize(slash == std::string::npos ? 0 : slash);
  }
  return {};
}

}  // namespace orrery::tools
