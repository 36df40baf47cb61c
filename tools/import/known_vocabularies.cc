// Sizes of vocabularies (known_vocabularies.h), as the config.json of each family has them; BERT's as Google's
// vocab.txt.
#include "tools/import/known_vocabularies.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "tools/import/import.h"

namespace orrery::tools {

std::optional<std::pair<std::string, std::int64_t>> vocabulary_of(const std::string& type, std::string files) {
  using Sizes = std::vector<std::pair<std::string, std::int64_t>>;
  static const Sizes kFamilies{
      {"qwen3", 151936},       {"qwen2.5-0.5b", 151936}, {"qwen2.5-1.5b", 151936},  {"qwen2.5-3b", 151936},
      {"qwen2.5", 152064},     {"qwen2p5", 152064},      {"qwen_2p5_3b", 151936},   {"qwen_2p5", 152064},
      {"qwen2", 152064},       {"llama-4", 202048},      {"llama4", 202048},        {"llama-3", 128256},
      {"llama3", 128256},      {"llama-2", 32000},       {"llama2", 32000},         {"mixtral", 32000},
      {"mistral-7b", 32000},   {"mistral", 32000},       {"deepseek-v2", 102400},   {"deepseek_v2", 102400},
      {"deepseek-v3", 129280}, {"deepseek_v3", 129280},  {"deepseek-r1", 129280},   {"nemotron-mini", 256000},
      {"gpt-oss", 201088},     {"kimi-k2", 163840},      {"glm-4.5", 151552},       {"nemotron-3", 131072},
      {"llama_3", 128256},     {"llama3p1", 128256},     {"nemotron-nano", 131072}, {"llama", 32000}};
  static const Sizes kTypes{{"Llama2Tokenizer", 32000},
                            {"Llama3Tokenizer", 128256},
                            {"TikTokenizer", 128256},
                            // Pai-Megatron-Patch's (megatron_patch/tokenizer/__init__.py), without --extra-vocab-size
                            {"LLamaTokenizer", 32000},
                            {"LLama2Tokenizer", 32000},
                            {"LLama3Tokenizer", 128000},
                            {"MistralTokenizer", 32000},
                            {"MixtralTokenizer", 32000},
                            {"VicunaTokenizerFromHF", 32000},
                            {"YiTokenizer", 64000},
                            {"FalconTokenizer", 65024},
                            {"BaichuanTokenizer", 64000},
                            {"BloomTokenizerFromHF", 250880},
                            {"BloomTokenizerFromCustom", 134298},
                            {"ChatGLMTokenizerFromHF", 130528},
                            {"GLM10BZHTokenizerFromHF", 50048},
                            {"IcetkGLM130BTokenizer", 150528},
                            {"StarcoderTokenizerFromHF", 49152},
                            {"QwenTokenizer", 151851},
                            {"QwenVLTokenizer", 151851},
                            {"Qwen2Tokenizer", 151643},
                            {"Qwen3Tokenizer", 151643},
                            {"Qwen2VLTokenizer", 151643},
                            {"DeepSeekV2Tokenizer", 100000},  // and 2400 more are DeepSeek-V2's 102400
                            {"BertWordPieceLowerCase", 30522},
                            {"BertWordPieceCase", 28996}};
  std::transform(files.begin(), files.end(), files.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto& each : kFamilies) {
    if (files.find(each.first) != std::string::npos) return each;
  }
  for (const auto& each : kTypes) {
    if (each.first == type) return each;
  }
  return std::nullopt;
}

void pad_vocabulary(Draft& draft, std::int64_t multiple, std::int64_t vocabulary) {
  constexpr std::int64_t kOfMegatron = 128;  // what a scenario's software does by itself
  if (multiple == kOfMegatron) return;
  const sim::Settings* said = draft.document().find_path("model.vocab");
  const std::int64_t words = said != nullptr ? said->as_int(1, 1'000'000'000) : vocabulary;
  const sim::Settings* split = draft.document().find_path("parallelism.tensor");
  const std::int64_t tensor = split != nullptr ? split->as_int(1, 1'000'000) : 1, unit = multiple * tensor;
  const std::int64_t rows = (words + unit - 1) / unit * unit;
  if (rows != words) draft.apply(fmt::format("model.vocab={}", rows));
  if (rows % (kOfMegatron * tensor) != 0) draft.apply("software.pads_vocabulary=false");
}

}  // namespace orrery::tools
