// Left out: what is learnt from coverage. That is libFuzzer's part, which also calls these changes (libfuzzer.cc).
#include "tests/fuzz/mutation.h"

#include <array>
#include <cctype>
#include <set>
#include <string_view>

namespace orrery::fuzz {

namespace {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }
bool in_number(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.'; }

struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// The word around `at`; empty between words.
Range word_at(const std::string& text, std::size_t at) {
  Range range{at, at};
  while (range.begin > 0 && in_word(text[range.begin - 1])) --range.begin;
  while (range.end < text.size() && in_word(text[range.end])) ++range.end;
  return range;
}

/// The line around `at`, its line break included.
Range line_at(const std::string& text, std::size_t at) {
  const std::size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const std::size_t behind = text.find('\n', at);
  return {before == std::string::npos ? 0 : before + 1, behind == std::string::npos ? text.size() : behind + 1};
}

std::vector<std::string> words_of(const std::vector<std::string>& inputs) {
  std::set<std::string> words;
  for (const std::string& input : inputs) {
    for (std::size_t at = 0; at < input.size();) {
      const Range word = word_at(input, at);
      if (word.size() > 0 && word.size() < 40) words.insert(input.substr(word.begin, word.size()));
      at = word.end + 1;
    }
  }
  return {words.begin(), words.end()};
}

}  // namespace

Mutation::Mutation(std::vector<std::string> inputs, std::uint64_t seed)
    : inputs_(std::move(inputs)), words_(words_of(inputs_)), random_(seed) {
  for (std::string& input : inputs_) {
    if (input.size() > kLargestInput) input.resize(kLargestInput);
  }
}

std::string Mutation::next() {
  std::string text = inputs_[below(inputs_.size())];
  const std::size_t changes = below(32) == 0 ? 20 + below(80) : 1 + below(6);
  for (std::size_t i = 0; i < changes; ++i) text = changed(std::move(text));
  return text;
}

std::string Mutation::changed(std::string text) {
  switch (below(12)) {
    case 0:
    case 1:
      change_bytes(text);
      break;
    case 2:
    case 3:
      change_word(text);
      break;
    case 4:
    case 5:
    case 6:
      change_number(text);
      break;
    case 7:
    case 8:
      change_lines(text);
      break;
    case 9:
    case 10:
      splice(text);
      break;
    default:
      repeat(text);
      break;
  }
  if (text.size() > kLargestInput) text.resize(kLargestInput);
  return text;
}

void Mutation::change_bytes(std::string& text) {
  static constexpr std::string_view kFavourites = "[]{}:,-#&*!|>'\"%@`?\n\t\r 0123456789eE.~<\\/=$()+;";
  const std::size_t at = below(text.size() + 1);
  const char byte = below(4) == 0 ? static_cast<char>(below(256)) : kFavourites[below(kFavourites.size())];
  const std::size_t what = below(4);
  if (what == 0 && at < text.size()) text[at] = byte;
  if (what == 1) text.insert(at, 1, byte);
  if (what == 2) text.erase(at, 1 + below(4));
  if (what == 3) text.erase(at, below(80));
}

void Mutation::change_word(std::string& text) {
  if (words_.empty()) return;
  const Range word = word_at(text, below(text.size() + 1));
  text.replace(word.begin, word.size(), words_[below(words_.size())]);
}

void Mutation::change_number(std::string& text) {
  static constexpr std::array<std::string_view, 34> kNumbers{"0",         "1",
                                                             "2",         "3",
                                                             "5",         "7",
                                                             "8",         "16",
                                                             "64",        "100",
                                                             "1000",      "4096",
                                                             "1e6",       "1e9",
                                                             "1e18",      "1e300",
                                                             "-1",        "-0",
                                                             "1e-12",     "1e-300",
                                                             "0.5",       "0.999",
                                                             "1.0000001", "65536",
                                                             "null",      "nan",
                                                             "inf",       "2147483648",
                                                             "[]",        "{}",
                                                             "true",      "0x10",
                                                             "1_000",     "9223372036854775807"};
  const std::size_t begin = text.find_first_of("0123456789", below(text.size() + 1));
  if (begin == std::string::npos) return;
  std::size_t end = begin;
  while (end < text.size() && in_number(text[end])) ++end;
  if (below(3) == 0) {  // a digit alone: values near valid ones reach further than extremes do
    text[begin] = static_cast<char>('0' + below(10));
    return;
  }
  text.replace(begin, end - begin, kNumbers[below(kNumbers.size())]);
}

void Mutation::change_lines(std::string& text) {
  const Range range = line_at(text, below(text.size() + 1));
  const std::string line = text.substr(range.begin, range.size());
  if (below(2) == 0) text.erase(range.begin, range.size());
  text.insert(line_at(text, below(text.size() + 1)).begin, line);
}

void Mutation::splice(std::string& text) {
  const std::string& other = inputs_[below(inputs_.size())];
  if (below(3) > 0) {  // a line of another input
    const Range line = line_at(other, below(other.size() + 1));
    text.insert(line_at(text, below(text.size() + 1)).begin, other.substr(line.begin, line.size()));
    return;
  }
  text.resize(below(text.size() + 1));
  text += other.substr(below(other.size() + 1));
}

void Mutation::repeat(std::string& text) {
  const std::size_t at = below(text.size() + 1);
  const std::string piece = text.substr(at, 1 + below(24));
  const std::size_t times = below(8) == 0 ? 100 + below(3000) : 1 + below(3);
  std::string all;
  for (std::size_t i = 0; i < times && all.size() < kLargestInput; ++i) all += piece;
  text.insert(at, all);
}

}  // namespace orrery::fuzz
