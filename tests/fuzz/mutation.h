// Random changes of inputs that know what the readers read: words, numbers, lines, brackets.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace orrery::fuzz {

/// Inputs grow no longer than this.
inline constexpr std::size_t kLargestInput = std::size_t{64} << 10;

class Mutation {
 public:
  /// Words of `inputs` replace words; pieces of them are spliced in.
  Mutation(std::vector<std::string> inputs, std::uint64_t seed);
  /// The next input: one of the first ones with one to six changes, of one in thirty-two many more.
  std::string next();
  /// `text` with one change.
  std::string changed(std::string text);

 private:
  std::size_t below(std::size_t count) { return count == 0 ? 0 : static_cast<std::size_t>(random_() % count); }
  void change_bytes(std::string& text);
  void change_word(std::string& text);
  void change_number(std::string& text);
  void change_lines(std::string& text);
  void splice(std::string& text);
  void repeat(std::string& text);

  std::vector<std::string> inputs_, words_;
  std::mt19937_64 random_;
};

}  // namespace orrery::fuzz
