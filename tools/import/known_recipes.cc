// The recipes of NeMo 2 (nemo/collections/llm/recipes, v2.5) and Megatron-Bridge (src/megatron/bridge/recipes, v0.6).
// See known_recipes.h. Left out: models that do not ship here (StarCoder, Baichuan, ChatGLM, Hyena).
#include "tools/import/known_recipes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "tools/import/import.h"

namespace orrery::tools {

namespace {

/// "Llama31Config8B", "llama31_8b" and "meta-llama/Llama-3.1-8B" differ in signs and in "Config".
std::string bare_name(std::string name) {
  name = name.substr(name.rfind('/') + 1);
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const char* word : {"config", "provider", "model", "meta", "instruct", "base", "hf"}) {
    if (const std::size_t at = out.find(word); at != std::string::npos && out.size() > std::string(word).size())
      out.erase(at, std::string(word).size());
  }
  return out;
}

const std::map<std::string, std::string>& shipped_by_name() {
  static const std::map<std::string, std::string> kModels = [] {
    std::map<std::string, std::string> all;
    const std::pair<const char*, std::vector<const char*>> kNames[] = {
        {"gpt3-175b", {"gpt3_175b", "GPTConfig175B"}},
        {"llama2-7b", {"llama2_7b"}},
        {"llama2-13b", {"llama2_13b"}},
        {"llama2-70b", {"llama2_70b"}},
        {"llama3-8b", {"llama3_8b"}},
        {"llama3-70b", {"llama3_70b"}},
        {"llama3.1-8b", {"llama31_8b"}},
        {"llama3.1-70b", {"llama31_70b"}},
        {"llama3.1-405b", {"llama31_405b"}},
        {"llama3.2-1b", {"llama32_1b"}},
        {"llama3.2-3b", {"llama32_3b"}},
        {"llama4-scout", {"llama4_e16", "Llama4Experts16Config", "Llama-4-Scout-17B-16E"}},
        {"llama4-maverick", {"llama4_e128", "Llama4Experts128Config", "Llama-4-Maverick-17B-128E"}},
        {"mistral-7b", {"mistral_7b", "Mistral-7B-v0.1", "Mistral-7B-v0.3"}},
        {"mixtral-8x7b", {"mixtral_8x7b", "Mixtral-8x7B-v0.1"}},
        {"mixtral-8x22b", {"mixtral_8x22b", "Mixtral-8x22B-v0.1"}},
        {"nemotron4-15b", {"nemotron4_15b"}},
        {"nemotron4-340b", {"nemotron4_340b"}},
        {"gemma2-2b", {"gemma2_2b"}},
        {"gemma2-9b", {"gemma2_9b"}},
        {"gemma2-27b", {"gemma2_27b"}},
        {"gemma3-1b", {"gemma3_1b", "gemma-3-1b-pt"}},
        {"phi3-mini-3.8b", {"phi3_mini_4k_instruct", "Phi3ConfigMini"}},
        {"qwen2.5-0.5b", {"qwen25_500m", "Qwen2.5-0.5B", "qwen2_500m", "Qwen2Config500M"}},
        {"qwen2.5-1.5b", {"qwen25_1p5b", "Qwen2.5-1.5B", "qwen2_1p5b", "Qwen2Config1P5B"}},
        {"qwen2.5-3b", {"qwen25_3b"}},
        {"qwen2.5-7b", {"qwen25_7b", "qwen2_7b", "Qwen2Config7B"}},
        {"qwen2.5-14b", {"qwen25_14b"}},
        {"qwen2.5-32b", {"qwen25_32b"}},
        {"qwen2.5-72b", {"qwen25_72b", "qwen2_72b", "Qwen2Config72B"}},
        {"qwen3-0.6b", {"qwen3_600m", "Qwen3-0.6B"}},
        {"qwen3-1.7b", {"qwen3_1p7b", "Qwen3-1.7B"}},
        {"qwen3-4b", {"qwen3_4b"}},
        {"qwen3-8b", {"qwen3_8b"}},
        {"qwen3-14b", {"qwen3_14b"}},
        {"qwen3-32b", {"qwen3_32b"}},
        {"qwen3-30b-a3b", {"qwen3_30b_a3b"}},
        {"qwen3-235b-a22b", {"qwen3_235b_a22b"}},
        {"deepseek-v2-lite", {"deepseek_v2_lite"}},
        {"deepseek-v2", {"deepseek_v2"}},
        {"deepseek-v3", {"deepseek_v3", "DeepSeek-V3-Base"}},
        {"deepseek-v4-flash", {"deepseek_v4_flash", "DeepSeek-V4-Flash-Base"}},
        {"deepseek-v4-pro", {"deepseek_v4_pro", "DeepSeek-V4-Pro-Base"}},
        {"kimi-k2", {"kimi_k2", "Kimi-K2-Instruct"}},
        {"gpt-oss-20b", {"gpt_oss_20b", "GPTOSSConfig20B"}},
        {"gpt-oss-120b", {"gpt_oss_120b", "GPTOSSConfig120B"}},
        {"qwen3-next-80b-a3b", {"qwen3_next_80b_a3b", "Qwen3-Next-80B-A3B-Instruct"}},
        {"qwen3.5-35b-a3b", {"qwen35_35b_a3b", "qwen35_vl_35b_a3b", "Qwen3.5-35B-A3B"}},
        {"qwen3.5-122b-a10b", {"qwen35_122b_a10b", "qwen35_vl_122b_a10b", "Qwen3.5-122B-A10B"}},
        {"qwen3.5-397b-a17b", {"qwen35_397b_a17b", "qwen35_vl_397b_a17b", "Qwen3.5-397B-A17B"}},
        {"qwen3-30b-a3b", {"qwen3_vl_30b_a3b", "Qwen3-VL-30B-A3B-Instruct"}},
        {"qwen3-235b-a22b", {"qwen3_vl_235b_a22b", "Qwen3-VL-235B-A22B-Instruct"}},
        {"qwen3-8b", {"qwen3_vl_8b", "Qwen3-VL-8B-Instruct"}},
        {"nemotron-h-8b", {"nemotronh_8b", "Nemotron-H-8B-Base-8K"}},
        {"nemotron-h-56b", {"nemotronh_56b", "Nemotron-H-56B-Base-8K"}},
        // Nemotron 3.5 Lightning is Nano with predictions of further tokens, which its recipe says.
        {"nemotron-3-nano-30b-a3b",
         {"nemotron_3_nano", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "NVIDIA-Nemotron-3-Nano-30B-A3B-Base-BF16",
          "nemotron_3_5_lightning", "NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16"}},
        {"nemotron-3-super-120b-a12b", {"nemotron_3_super", "NVIDIA-Nemotron-3-Super-120B-A12B-BF16"}},
        {"nemotron-3-ultra-550b-a55b", {"nemotron_3_ultra", "NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16"}},
        {"glm-5", {"glm5", "glm51", "GLM-5.1"}},
        {"glm-5.2", {"glm52", "GLM-5.2"}},
        {"olmoe-1b-7b", {"olmoe_7b", "OLMoE-1B-7B-0125"}},
    };
    for (const auto& [model, names] : kNames) {
      for (const char* name : names) all[bare_name(name)] = model;
    }
    return all;
  }();
  return kModels;
}

const std::map<std::string, RecipeLayout>& shipped_layouts() {
  // tensor, pipeline, chunks, context, expert, sequence parallelism, nodes, tokens, global and micro-batch
  static const std::map<std::string, RecipeLayout> kLayouts = {
      {"deepseek_v2", {1, 4, 1, 1, 32, false, 16, 4096, 512, 1}},
      {"deepseek_v2_lite", {1, 1, 1, 1, 8, false, 1, 4096, 512, 1}},
      {"deepseek_v3", {2, 16, 1, 1, 64, true, 128, 4096, 4096, 1}},
      {"deepseek_v4_flash", {1, 4, 1, 1, 8, false, 4, 4096, 128, 1}},
      {"deepseek_v4_pro", {1, 4, 1, 1, 8, false, 4, 4096, 128, 1}},
      {"gemma2_27b", {8, 2, 1, 1, 1, false, 2, 4096, 32, 2}},
      {"gemma2_2b", {2, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"gemma2_9b", {8, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"gpt3_175b", {4, 8, 6, 1, 1, true, 64, 2048, 2048, 2}},
      {"gpt_oss_120b", {2, 4, 1, 1, 16, true, 8, 4096, 512, 1}},
      {"gpt_oss_20b", {2, 4, 1, 1, 4, true, 2, 4096, 512, 1}},
      {"kimi_k2", {2, 16, 1, 1, 32, true, 64, 4096, 4096, 1}},
      {"llama2_7b", {2, 1, 1, 1, 1, false, 1, 4096, 512, 1}},
      {"llama31_405b", {8, 8, 2, 4, 1, true, 64, 8192, 512, 1}},
      {"llama31_70b", {4, 4, 5, 2, 1, true, 4, 8192, 512, 1}},
      {"llama31_8b", {1, 1, 1, 2, 1, false, 1, 8192, 512, 1}},
      {"llama32_1b", {1, 1, 1, 1, 1, false, 1, 8192, 512, 1}},
      {"llama32_3b", {1, 1, 1, 1, 1, false, 1, 8192, 512, 1}},
      {"llama3_70b", {4, 4, 5, 2, 1, true, 4, 8192, 512, 1}},
      {"llama3_70b_16k", {8, 2, 1, 2, 1, true, 4, 16384, 512, 1}},
      {"llama3_70b_64k", {8, 4, 1, 8, 1, true, 32, 65536, 512, 1}},
      {"llama3_8b", {1, 1, 1, 2, 1, false, 1, 8192, 512, 1}},
      {"llama3_8b_128k", {4, 2, 1, 8, 1, true, 8, 131072, 512, 1}},
      {"llama3_8b_16k", {4, 2, 1, 2, 1, true, 2, 16384, 512, 1}},
      {"llama3_8b_64k", {4, 2, 1, 4, 1, true, 4, 65536, 512, 1}},
      {"llama4_e128", {4, 1, 1, 1, 128, true, 64, 8192, 512, 1}},
      {"llama4_e16", {4, 1, 1, 1, 16, true, 32, 8192, 512, 1}},
      {"mistral_7b", {1, 1, 1, 2, 1, false, 1, 4096, 512, 1}},
      {"mixtral_8x22b", {2, 4, 14, 2, 8, true, 16, 4096, 512, 1}},
      {"mixtral_8x22b_64k", {2, 4, 14, 2, 8, true, 16, 65536, 512, 1}},
      {"mixtral_8x7b", {1, 4, 8, 1, 8, false, 8, 4096, 512, 1}},
      {"mixtral_8x7b_16k", {4, 2, 1, 4, 1, true, 4, 16384, 512, 1}},
      {"mixtral_8x7b_64k", {8, 4, 1, 4, 1, true, 16, 65536, 512, 1}},
      {"nemotron4_15b", {4, 1, 1, 1, 1, true, 1, 4096, 32, 2}},
      {"nemotron4_15b_16k", {2, 2, 1, 2, 1, true, 1, 16384, 32, 2}},
      {"nemotron4_15b_64k", {4, 2, 1, 4, 1, true, 4, 65536, 32, 2}},
      {"nemotron4_340b", {8, 12, 8, 2, 1, true, 768, 4096, 2304, 1}},
      {"nemotron_3_5_lightning", {1, 1, 1, 2, 8, false, 1, 8192, 512, 1}},
      {"nemotron_3_nano", {1, 1, 1, 1, 8, false, 1, 8192, 1024, 1}},
      {"nemotron_3_ultra", {1, 3, 1, 1, 8, false, 3, 8192, 3072, 1}},
      {"nemotronh_56b", {8, 1, 1, 1, 1, true, 1, 8192, 768, 1}},
      {"nemotronh_8b", {2, 1, 1, 1, 1, true, 1, 8192, 768, 1}},
      {"olmoe_7b", {1, 1, 1, 1, 8, false, 1, 4096, 2048, 1}},
      {"phi3_mini_4k_instruct", {1, 1, 1, 1, 1, false, 1, 4096, 512, 1}},
      {"qwen25_14b", {4, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"qwen25_1p5b", {1, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"qwen25_32b", {8, 2, 1, 1, 1, false, 2, 4096, 32, 2}},
      {"qwen25_500m", {1, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"qwen25_72b", {8, 4, 1, 1, 1, false, 4, 4096, 32, 2}},
      {"qwen25_7b", {2, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"qwen2_1p5b", {1, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"qwen2_500m", {1, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"qwen2_72b", {8, 4, 1, 1, 1, false, 4, 4096, 32, 2}},
      {"qwen2_7b", {2, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"qwen3_14b", {8, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"qwen3_1p7b", {1, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"qwen3_235b_a22b", {4, 16, 1, 2, 8, true, 16, 4096, 32, 1}},
      {"qwen3_30b_a3b", {4, 2, 1, 1, 4, true, 1, 4096, 32, 2}},
      {"qwen3_32b", {8, 2, 1, 1, 1, false, 2, 4096, 32, 2}},
      {"qwen3_4b", {2, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"qwen3_600m", {1, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"qwen3_8b", {4, 1, 1, 1, 1, false, 1, 4096, 32, 2}},
      {"qwen3_next_80b_a3b", {1, 4, 1, 1, 8, false, 4, 4096, 32, 2}},
  };
  return kLayouts;
}

}  // namespace

std::string model_of_recipe(const std::string& name) {
  std::string word = bare_name(name);
  // A recipe for long sequences trains the same model: llama3_8b_64k.
  for (const char* length : {"16k", "64k", "128k"}) {
    if (word.ends_with(length) && word.size() > 5 && !shipped_by_name().contains(word))
      word = word.substr(0, word.size() - std::string(length).size());
  }
  auto found = shipped_by_name().find(word);
  // The language model of Qwen2.5-VL and of Qwen3-VL is the one that is called so without.
  const std::size_t vision = word.find("vl");
  if (found == shipped_by_name().end() && word.starts_with("qwen") && vision != std::string::npos)
    found = shipped_by_name().find(word.erase(vision, 2));
  return found != shipped_by_name().end() ? found->second : std::string();
}

bool is_mixture(const std::string& model) {
  for (const char* family : {"mixtral", "deepseek", "kimi", "gpt-oss", "llama4", "olmoe", "qwen3-30b", "qwen3-235b",
                             "qwen3-next", "qwen3.5", "nemotron-3", "glm-5"}) {
    if (model.starts_with(family)) return true;
  }
  return false;
}

bool is_hybrid(const std::string& model) {
  for (const char* family : {"qwen3-next", "qwen3.5", "nemotron-3", "nemotron-h", "glm-5"}) {
    if (model.starts_with(family)) return true;
  }
  return false;
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const auto& [name, layout] : shipped_layouts()) names.push_back(name);
  return names;
}

const RecipeLayout* layout_of_recipe(const std::string& name) {
  const auto found = shipped_layouts().find(name);
  return found != shipped_layouts().end() ? &found->second : nullptr;
}

std::pair<std::string, std::string> bridge_release(const std::string& file) {
  constexpr std::array<const char*, 7> kByMinor{"megatron-bridge-25.09",
                                                "megatron-bridge-25.09",
                                                "nemo-25.11",
                                                "nemo-26.02",
                                                "nemo-26.04",
                                                "nemo-26.06",
                                                "nemo-26.08"};
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(file, error).lexically_normal().parent_path();
  for (int above = 0; above < 12 && folder.has_relative_path(); ++above, folder = folder.parent_path()) {
    const std::filesystem::path info = folder / "src/megatron/bridge/package_info.py";
    if (!std::filesystem::is_regular_file(info, error)) continue;
    const std::string text = read_text(info.string());
    const std::size_t at = text.find("MINOR = ");
    if (at == std::string::npos) break;
    const int minor = std::clamp(std::atoi(text.c_str() + at + 8), 0, 99);
    const std::string release = kByMinor[std::min<std::size_t>(static_cast<std::size_t>(minor), kByMinor.size() - 1)];
    return {release, fmt::format("{}, as package_info.py of its tree says Megatron-Bridge 0.{}", release, minor)};
  }
  return {"nemo-26.08", "nemo-26.08, Megatron-Bridge 0.6"};
}

}  // namespace orrery::tools
