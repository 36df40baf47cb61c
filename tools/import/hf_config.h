// What readers of Hugging Face's configurations share: a config.json's members and which of them were asked for, and
// the keys that most families have.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tools/import/import.h"

namespace orrery::tools {

using sim::Settings;

/// What a config says, and which of its keys were asked for.
class Config {
 public:
  explicit Config(Settings members) : members_(std::move(members)) {}

  const Settings* find(const std::string& key) {
    asked_.insert(key);
    return members_.find(key);
  }
  /// The first of several spellings; the user's error when none is there.
  const Settings& need(const std::vector<std::string>& keys) {
    const Settings* found = nullptr;
    for (const std::string& key : keys) {
      const Settings* member = find(key);
      if (found == nullptr) found = member;
    }
    if (found == nullptr)
      members_.fail(fmt::format("holds no {}; a config.json of this family has it", fmt::join(keys, " or ")));
    return *found;
  }
  /// Puts in what a file may leave out.
  void assume(const std::string& key, std::int64_t value) {
    if (members_.find(key) == nullptr) members_.set(key, Settings::scalar(std::to_string(value), members_.place()));
  }
  /// What a part leaves to the whole around it.
  void take_over(const std::string& key, const Settings& value) {
    if (members_.find(key) == nullptr) members_.set(key, value);
  }
  /// What stands for a word of the file.
  void replace(const std::string& key, std::int64_t value) {
    members_.set(key, Settings::scalar(std::to_string(value), members_.at(key).place()));
  }
  bool flag(const std::string& key, bool fallback) {
    const Settings* member = find(key);
    return member != nullptr ? member->as_bool() : fallback;
  }
  std::int64_t count(const Settings& member) const { return member.as_int(1, 1'000'000'000); }
  const Settings& members() const { return members_; }
  const std::set<std::string>& asked() const { return asked_; }

 private:
  Settings members_;
  std::set<std::string> asked_;
};

/// Sizes that every family has, under its own names.
struct SizeNames {
  using Spellings = std::vector<std::string>;
  /// The usual ones for what is not given.
  explicit SizeNames(Spellings layers = {}, Spellings hidden = {}, Spellings heads = {}, Spellings vocab = {},
                     Spellings seq = {}, std::int64_t default_seq = 0);
  Spellings layers, hidden, heads, vocab, seq;
  std::int64_t default_seq;  // where the class has one; 0: the file must say it
};

/// What the family's configuration class takes where a file leaves a size out.
void take_default(Draft& draft, const char* key, std::int64_t value);
void take_sizes(Config& config, Draft& draft, const SizeNames& names);
/// A count that the file may leave out.
void take_count(Config& config, Draft& draft, const char* key, const std::vector<std::string>& spellings);
void set_shape(Draft& draft, bool gated, bool parallel, const char* positions, const char* norm);
/// Llama, Mistral and Qwen: gated MLP, RMSNorm, rotary positions, grouped queries.
void llama(Config& config, Draft& draft, const char* biases);
/// A sliding window shorter than the sequence cuts attention in every layer.
void take_window(Config& config, Draft& draft, bool used);
/// Routed experts under the family's own names.
void take_experts(Config& config, Draft& draft, const std::vector<std::string>& counts, const char* width);

}  // namespace orrery::tools
