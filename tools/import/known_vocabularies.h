// Sizes of the vocabularies of tokenizers that launches name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace orrery::tools {

/// Where nothing names one: Llama 3's, which of what is trained today is in the middle.
inline constexpr std::int64_t kUnknownVocabulary = 128256;

/// By a family's name in a path, else by the tokenizer's type: what it was known by, and the size as models pad it.
std::optional<std::pair<std::string, std::int64_t>> vocabulary_of(const std::string& type, std::string files);

}  // namespace orrery::tools
