// The options of a launch line of Megatron-LM by name, and which of them were asked for, so that the others can be
// named.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tools/import/import.h"
#include "tools/import/launch_ways.h"
#include "tools/import/megatron_flags.h"

namespace orrery::tools {

class Launch {
 public:
  /// `sets`: what the user lays over the scenario, which stands for what the script does not say.
  Launch(const LaunchLine& line, const std::vector<std::string>& sets, Draft& draft) : line_(line), draft_(draft) {
    for (const std::string& set : sets) sets_[set.substr(0, set.find('='))] = set.substr(set.find('=') + 1);
    for (const LaunchOption& option : line.options) {
      const auto [known, fresh] = options_.emplace(normal(option.name), &option);
      if (fresh) continue;
      if (known->second->values != option.values && taken_flags().contains(known->first)) {
        draft.ignored(fmt::format("--{} {} (line {})", option.name, text_of(*known->second), known->second->place.line),
                      fmt::format("{} follows (line {}), and of the same flag the last holds", text_of(option),
                                  option.place.line));
      }
      known->second = &option;
    }
  }

  const LaunchOption* find(const std::string& name) {
    asked_.insert(name);
    const auto found = options_.find(name);
    return found != options_.end() ? found->second : nullptr;
  }
  /// Whether it is there, which says nothing of who takes it.
  bool has(const std::string& name) const { return options_.contains(name); }
  bool flag(const std::string& name) {
    const LaunchOption* option = find(name);
    if (option == nullptr) return false;
    static const std::set<std::string> kWords{"true", "false", "True", "False", "0", "1"};
    const bool open = !option->values.empty() && option->values[0].find('$') != std::string::npos;
    if (open)
      draft_.ignored(fmt::format("{} behind --{}", option->values[0], name),
                     "what it holds is not known, taken as nothing");
    if (!option->values.empty() && !open && !kWords.contains(option->values[0]))
      draft_.ignored(fmt::format("{} behind --{}", fmt::join(option->values, " "), name), "the flag takes no value");
    if (!option->values.empty() && kWords.contains(option->values[0]))
      refuse(*option, fmt::format("takes no value, got {}, expected the flag alone, or nothing", option->values[0]));
    return true;
  }
  /// The value as a Settings scalar whose path is the flag, so that complaints name it.
  std::optional<sim::Settings> value(const std::string& name) {
    const LaunchOption* option = find(name);
    if (option == nullptr) return std::nullopt;
    const bool open = !option->values.empty() && option->values[0].find_first_of("$`") != std::string::npos;
    if (const std::optional<std::string> given = open ? given_for(name) : std::nullopt) {
      sim::Settings holder = sim::Settings::mapping(option->place);
      holder.set("--" + option->name, sim::Settings::scalar(*given, option->place, true));
      return holder.members().front().second;
    }
    if (option->values.empty()) refuse(*option, "has no value, expected one");
    if (open) refuse(*option, not_known(name, option->values[0]));
    if (option->values.size() > 1 && said_.insert(name).second) {
      const std::vector<std::string> rest(option->values.begin() + 1, option->values.end());
      draft_.first(fmt::format("{} behind --{} {}: not taken over, the first value alone is", fmt::join(rest, " "),
                               name, option->values[0]));
    }
    sim::Settings holder = sim::Settings::mapping(option->place);
    holder.set("--" + option->name, sim::Settings::scalar(option->values[0], option->place, true));
    return holder.members().front().second;
  }
  /// All of an option's values; words that one variable held are several, as the shell makes of them.
  std::vector<std::string> words(const std::string& name) {
    std::vector<std::string> all;
    const LaunchOption* option = find(name);
    if (option == nullptr) return all;
    for (const std::string& value : option->values) {
      std::istringstream text(value);
      for (std::string word; text >> word;) all.push_back(word);
    }
    return all;
  }
  std::optional<std::int64_t> count(const std::string& name, std::int64_t low = 1) {
    const std::optional<sim::Settings> given = value(name);
    if (!given) return std::nullopt;
    std::string digits = given->text();  // Python's int() takes 146_484_375
    if (digits.find('_') == std::string::npos) return given->as_int(low, 1'000'000'000'000);
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    return sim::Settings::scalar(digits, given->place()).as_int(low, 1'000'000'000'000);
  }
  std::int64_t need(const std::string& name) {
    const std::optional<std::int64_t> given = count(name);
    if (given) return *given;
    if (const std::optional<std::string> set = given_for(name))  // what the user says in the script's place
      return sim::Settings::scalar(*set, line_.place, true).as_int(1, 1'000'000'000'000);
    const bool some = std::any_of(line_.options.begin(), line_.options.end(), [](const LaunchOption& each) {
      return each.name == "hidden-size" || each.name == "seq-length" || each.name == "micro-batch-size";
    });
    throw sim::UserError(
        line_.place, "--" + name,
        some ? "is not given, and Megatron-LM has no default for it" + how_to_set(name)
             : std::string("is not given, nor is any size of a model: no training of Megatron-LM's is started here, "
                           "or its arguments stand in another file"));
  }
  sim::Place place(const std::string& name) const {
    const auto found = options_.find(name);
    return found != options_.end() ? found->second->place : line_.place;
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& message) const {
    throw sim::UserError(place(name), "--" + name, message);
  }
  const std::string& program() const { return line_.program; }
  const std::vector<std::string>& documents() const { return line_.documents; }
  const sim::Place& place() const { return line_.place; }
  std::optional<std::int64_t> variable(const std::vector<std::string>& names) const {
    for (const auto& [name, text] : line_.variables) {
      const bool digits = !text.empty() && text.size() < 8 && text.find_first_not_of("0123456789") == std::string::npos;
      if (digits && std::find(names.begin(), names.end(), name) != names.end()) return std::stoll(text);
    }
    return std::nullopt;
  }
  /// The first value of an option that is there, which says nothing of who takes it.
  std::string text(const std::string& name) const {
    const auto found = options_.find(name);
    return found != options_.end() && !found->second->values.empty() ? found->second->values[0] : "";
  }
  /// The text of a variable of the script; empty: it has none.
  std::string text_of_variable(const std::string& name) const {
    for (const auto& [variable, text] : line_.variables)
      if (variable == name) return text;
    return "";
  }
  /// What starts the training: "torchrun", "deepspeed".
  const std::string& launcher() const { return line_.launcher; }
  std::string folder_name() const {
    return std::filesystem::path(line_.place.file.text()).parent_path().filename().string();
  }
  std::string file_name() const { return std::filesystem::path(line_.place.file.text()).filename().string(); }
  /// A size that the model has and the launch does not say.
  void stand_for(const std::string& name, std::int64_t value) {
    stand_ins_.push_back({name, {std::to_string(value)}, line_.place});
    options_[name] = &stand_ins_.back();
  }
  bool is_set(const std::string& key) const { return sets_.contains(key); }
  /// A count of the launcher, where it is a plain number: "8", "gpu:8". `optional`: else it is left out.
  std::optional<std::int64_t> whole(const std::string& name, bool optional) {
    const LaunchOption* option = find(name);
    if (option == nullptr) return std::nullopt;
    const std::string text = option->values.empty() ? "" : option->values[0];
    const std::string digits = text.substr(text.rfind(':') + 1);
    const bool plain =
        !digits.empty() && digits.size() < 8 && digits.find_first_not_of("0123456789") == std::string::npos;
    if (plain) return std::stoll(digits);
    if (optional) return std::nullopt;
    if (text.find_first_of("$`") == std::string::npos) return count(name);
    draft_.assumed("--" + name, fmt::format("{}, which the script does not assign", text));
    return std::nullopt;
  }
  std::vector<std::string> unasked() const {
    std::vector<std::string> rest;
    for (const auto& [name, option] : options_) {
      if (!asked_.contains(name)) rest.push_back(name);
    }
    return rest;
  }

 private:
  /// torchrun takes both spellings of its own options.
  static std::string normal(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
  }
  static std::string text_of(const LaunchOption& option) {
    return option.values.empty() ? "no value" : fmt::format("{}", fmt::join(option.values, " "));
  }
  [[noreturn]] static void refuse(const LaunchOption& option, const std::string& message) {
    throw sim::UserError(option.place, "--" + option.name, message);
  }

  /// The keys that flags with a whole number become.
  static const std::map<std::string, std::string>& keys() {
    static const std::map<std::string, std::string> kKeys{{"num-layers", "model.layers"},
                                                          {"hidden-size", "model.hidden"},
                                                          {"ffn-hidden-size", "model.ffn_hidden"},
                                                          {"num-attention-heads", "model.heads"},
                                                          {"num-query-groups", "model.kv_heads"},
                                                          {"n-head-kv", "model.kv_heads"},
                                                          {"num-key-value-heads", "model.kv_heads"},
                                                          {"kv-channels", "model.head_dim"},
                                                          {"seq-length", "model.seq"},
                                                          {"vocab-size", "model.vocab"},
                                                          {"padded-vocab-size", "model.vocab"},
                                                          {"num-experts", "model.experts"},
                                                          {"moe-router-topk", "model.top_k"},
                                                          {"topk", "model.top_k"},
                                                          {"moe-ffn-hidden-size", "model.expert_ffn_hidden"},
                                                          {"mtp-num-layers", "model.mtp_layers"},
                                                          {"tensor-model-parallel-size", "parallelism.tensor"},
                                                          {"pipeline-model-parallel-size", "parallelism.pipeline"},
                                                          {"context-parallel-size", "parallelism.context"},
                                                          {"ds-sequence-parallel-size", "parallelism.context"},
                                                          {"moe-expert-parallel-size", "parallelism.expert"},
                                                          {"expert-model-parallel-size", "parallelism.expert"},
                                                          {"expert-tensor-parallel-size", "parallelism.expert_tensor"},
                                                          {"micro-batch-size", "batch.micro"},
                                                          {"global-batch-size", "batch.global"},
                                                          {"world-size", "cluster.gpus"}};
    return kKeys;
  }
  static std::string how_to_set(const std::string& flag) {
    const auto key = keys().find(flag);
    return key != keys().end() ? fmt::format("; --set {}=N says it", key->second) : std::string();
  }
  std::optional<std::string> given_for(const std::string& flag) const {
    const auto key = keys().find(flag);
    if (key == keys().end()) return std::nullopt;
    const auto found = sets_.find(key->second);
    return found != sets_.end() ? std::optional<std::string>(found->second) : std::nullopt;
  }
  static std::string not_known(const std::string& flag, const std::string& text) {
    const auto key = keys().find(flag);
    return how_to_give(text, key != keys().end() ? key->second : "");
  }

  const LaunchLine& line_;
  std::list<LaunchOption> stand_ins_;
  Draft& draft_;
  std::map<std::string, std::string> sets_;
  std::map<std::string, const LaunchOption*> options_;
  std::set<std::string> asked_, said_;
};

}  // namespace orrery::tools
