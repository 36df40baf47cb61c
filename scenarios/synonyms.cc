// The tables of synonyms. A word of one meaning alone is here; what may mean several things is refused with all of
// them.
#include "scenarios/synonyms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "scenarios/schema.h"

namespace orrery::scenarios {

namespace {

struct Synonym {
  std::string_view word, meant;
};

constexpr std::array kKeys{
    Synonym{"tensor", "parallelism.tensor"},
    Synonym{"pipeline", "parallelism.pipeline"},
    Synonym{"data", "parallelism.data"},
    Synonym{"context", "parallelism.context"},
    Synonym{"expert", "parallelism.expert"},
    Synonym{"sharding", "parallelism.sharding"},
    Synonym{"micro", "batch.micro"},
    Synonym{"tp", "parallelism.tensor"},
    Synonym{"pp", "parallelism.pipeline"},
    Synonym{"dp", "parallelism.data"},
    Synonym{"cp", "parallelism.context"},
    Synonym{"ep", "parallelism.expert"},
    Synonym{"etp", "parallelism.expert_tensor"},
    Synonym{"vp", "parallelism.virtual_pipeline"},
    Synonym{"vpp", "parallelism.virtual_pipeline"},
    Synonym{"sp", "parallelism.sequence_parallel"},
    Synonym{"zero", "parallelism.sharding"},
    Synonym{"mbs", "batch.micro"},
    Synonym{"gbs", "batch.global"},
    Synonym{"gpus", "cluster.gpus"},
    Synonym{"device", "cluster.device"},
    Synonym{"fabric", "cluster.fabric"},
    Synonym{"dtype", "precision"},
};

struct ValueSynonym {
  std::string_view key, word, meant;
};
constexpr std::array kValues{
    ValueSynonym{"parallelism.sharding", "zero0", "none"},
    ValueSynonym{"parallelism.sharding", "zero1", "optimizer"},
    ValueSynonym{"parallelism.sharding", "zero2", "gradients"},
    ValueSynonym{"parallelism.sharding", "zero3", "parameters"},
    ValueSynonym{"parallelism.sharding", "fsdp", "parameters"},
    ValueSynonym{"parallelism.sharding", "ddp", "none"},
    ValueSynonym{"parallelism.sharding", "0", "none"},
    ValueSynonym{"parallelism.sharding", "1", "optimizer"},
    ValueSynonym{"parallelism.sharding", "2", "gradients"},
    ValueSynonym{"parallelism.sharding", "3", "parameters"},
    ValueSynonym{"precision", "float16", "fp16"},
    ValueSynonym{"precision", "half", "fp16"},
    ValueSynonym{"precision", "bfloat16", "bf16"},
    ValueSynonym{"precision", "float32", "fp32"},
    ValueSynonym{"precision", "float8", "fp8"},
    ValueSynonym{"precision", "fp4", "nvfp4"},
};

struct NameSynonym {
  std::string_view kind, word, meant;
};
constexpr std::array kNames{
    NameSynonym{"devices", "a100", "a100-sxm-80gb"},
    NameSynonym{"devices", "h100", "h100-sxm-80gb"},
    NameSynonym{"devices", "h200", "h200-sxm-141gb"},
    NameSynonym{"devices", "v100", "v100-sxm-32gb"},
    NameSynonym{"devices", "gh200", "gh200-96gb"},
    NameSynonym{"devices", "mi250x", "mi250x-gcd"},
    NameSynonym{"fabrics", "ndr", "ndr-rail"},
    NameSynonym{"fabrics", "infiniband", "ndr-rail"},
    NameSynonym{"fabrics", "nvl72", "nvl72-ndr"},
    NameSynonym{"software", "megatron", "megatron-core-0.16"},
    NameSynonym{"software", "megatron-core", "megatron-core-0.16"},
    NameSynonym{"software", "megatron-lm", "megatron-core-0.16"},
    NameSynonym{"software", "nemo", "nemo-26.08"},
    NameSynonym{"software", "megatron-bridge", "nemo-26.08"},
    NameSynonym{"software", "torchtitan", "torchtitan-2025.06"},
    NameSynonym{"software", "fsdp", "pytorch-fsdp2-2026"},
    NameSynonym{"software", "fsdp2", "pytorch-fsdp2-2026"},
    NameSynonym{"software", "deepspeed", "deepspeed-2026"},
    NameSynonym{"software", "nanotron", "nanotron-2025"},
    NameSynonym{"software", "huggingface", "transformers-2026"},
    NameSynonym{"software", "trl", "transformers-2026"},
    NameSynonym{"software", "axolotl", "transformers-2026"},
    NameSynonym{"software", "llama-factory", "transformers-2026"},
    NameSynonym{"software", "composer", "llm-foundry"},
    NameSynonym{"scenarios", "eos", "eos-gpt3-175b"},
};

/// In lower case, with a hyphen for a space: RTX 4090.
std::string lower(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c == ' ' ? '-' : c);
  });
  return word;
}

/// Names of which a part between hyphens begins with `word`.
std::vector<std::string> names_begun(const std::string& word, const std::vector<std::string>& names) {
  std::vector<std::string> begun;
  std::copy_if(names.begin(), names.end(), std::back_inserter(begun),
               [&](const std::string& name) { return ("-" + name).find("-" + word) != std::string::npos; });
  return begun;
}

/// Letters and digits alone: Llama-3.1-8B and llama3.1-8b are one name, rtx4090 begins rtx-4090-24gb.
std::string plain(const std::string& word) {
  std::string kept;
  std::copy_if(word.begin(), word.end(), std::back_inserter(kept),
               [](unsigned char c) { return std::isalnum(c) != 0; });
  return kept;
}

/// Names of which the first parts between hyphens are `word` but for punctuation; or, behind parts that a publisher
/// adds (-Instruct, -hf, -v0.1), the whole of one.
std::vector<std::string> names_alike(const std::string& word, const std::vector<std::string>& names) {
  constexpr std::size_t kShortest = 4;
  if (plain(word).size() < kShortest) return {};
  const auto begins = [](const std::string& name, const std::string& bare) {
    for (std::size_t end = name.find('-'); end != std::string::npos; end = name.find('-', end + 1)) {
      if (plain(name.substr(0, end)) == bare) return true;
    }
    return false;
  };
  std::vector<std::string> alike;
  for (std::string rest = word; alike.empty() && plain(rest).size() >= kShortest;) {
    std::copy_if(names.begin(), names.end(), std::back_inserter(alike),
                 [&](const std::string& name) { return plain(name) == plain(rest); });
    const std::size_t cut = rest.rfind('-');
    rest = cut == std::string::npos ? "" : rest.substr(0, cut);
  }
  if (alike.empty())
    std::copy_if(names.begin(), names.end(), std::back_inserter(alike),
                 [&](const std::string& name) { return begins(name, plain(word)); });
  return alike;
}

/// Whether `word` is a run of the parts of `name` between hyphens.
bool is_part(const std::string& name, const std::string& word) {
  return ("-" + name + "-").find("-" + word + "-") != std::string::npos;
}

}  // namespace

std::string key_meant(const std::string& word) {
  std::string only;
  for (const Key& key : schema()) {
    if (key.path == word) return word;
  }
  for (const Synonym& one : kKeys) {
    if (one.word == word) return std::string(one.meant);
  }
  if (word.empty() || word.find('.') != std::string::npos) return word;
  for (const Key& key : schema()) {
    if (!key.path.ends_with("." + word) || key.path.find('*') != std::string::npos) continue;
    if (!only.empty()) return word;
    only = key.path;
  }
  return only.empty() ? word : only;
}

std::string value_meant(const std::string& key, const std::string& value) {
  for (const ValueSynonym& one : kValues) {
    if ((key == one.key || key.starts_with(std::string(one.key) + ".")) && one.word == value)
      return std::string(one.meant);
  }
  return value;
}

std::string key_of_value(const std::string& word) {
  for (const ValueSynonym& one : kValues) {
    if (one.word == word && word.size() > 1) return std::string(one.key);
  }
  return {};
}

std::string name_meant(std::string_view kind, const std::string& typed, const std::vector<std::string>& names,
                       std::vector<std::string>* several) {
  const std::string word = lower(typed);  // H100
  for (const NameSynonym& one : kNames) {
    if (one.kind == kind && one.word == word && std::find(names.begin(), names.end(), one.meant) != names.end())
      return std::string(one.meant);
  }
  std::vector<std::string> parts;
  std::copy_if(names.begin(), names.end(), std::back_inserter(parts),
               [&](const std::string& name) { return !word.empty() && is_part(name, word); });
  if (parts.empty()) parts = names_alike(word, names);
  if (parts.size() == 1) return parts.front();
  if (several != nullptr) *several = parts;
  return {};
}

std::vector<std::string> names_near(const std::string& typed, const std::vector<std::string>& names) {
  constexpr std::size_t kShortest = 3;
  const std::string word = lower(typed);
  std::vector<std::string> near;
  if (word.size() >= kShortest) near = names_begun(word, names);
  if (const std::string nearest = near.empty() ? sim::nearest_word(word, names) : ""; !nearest.empty())
    return {nearest};
  for (std::size_t size = word.size(); near.empty() && size > std::max(kShortest, word.size() / 2);)
    near = names_begun(word.substr(0, --size), names);
  return near;
}

std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;  // that a line holds
  if (names.size() <= kMost) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kMost, ", "), names.size() - kMost);
}

std::string near_text(const std::vector<std::string>& near) {
  if (near.empty()) return {};
  if (near.size() == 1) return fmt::format("; did you mean \"{}\"?", near.front());
  return "; expected one of " + names_text(near);
}

std::string key_near(const std::string& word) {
  std::vector<std::string> words;
  for (const Synonym& one : kKeys) words.emplace_back(one.word);
  for (const Key& key : schema()) {
    const std::string last = key.path.substr(key.path.rfind('.') + 1);
    if (last.find_first_of("[*") == std::string::npos) words.push_back(last);
  }
  const std::string nearest = sim::nearest_word(word, words);
  if (nearest.empty()) return {};
  if (const std::string meant = key_meant(nearest); meant != nearest) return meant;
  for (const Key& key : schema())  // of several that end so the first, as the language lists them
    if (key.path == nearest || key.path.ends_with("." + nearest)) return key.path;
  return {};
}

}  // namespace orrery::scenarios
