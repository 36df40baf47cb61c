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

class Draft;
/// Lays the rows over the draft's vocabulary that a program makes of it which fills it up to a multiple of `multiple`
/// on each tensor rank (Megatron-LM's --make-vocab-size-divisible-by; 1: only so that ranks share it). `vocabulary`: 0
/// where the model in the draft says it.
void pad_vocabulary(Draft& draft, std::int64_t multiple, std::int64_t vocabulary = 0);

}  // namespace orrery::tools
