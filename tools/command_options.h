// The options of a command, as it declares them: a thin face before CLI11, whose header takes longer to compile than
// any command. One file, command_options.cc, compiles it for all of them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace orrery::tools {

/// Values from `least` to `most`, both included; whole numbers or any.
struct Range {
  Range(int from, int to) : bounds(std::pair<std::int64_t, std::int64_t>(from, to)) {}
  Range(double from, double to) : bounds(std::pair<double, double>(from, to)) {}
  std::variant<std::pair<std::int64_t, std::int64_t>, std::pair<double, double>> bounds;
};

struct AtLeastZero {};
struct MoreThanZero {};

/// These words and no other.
struct OneOf {
  OneOf(std::vector<std::string> taken) : words(std::move(taken)) {}
  OneOf(std::initializer_list<const char*> taken) : words(taken.begin(), taken.end()) {}
  std::vector<std::string> words;
};

/// One option or positional while it is declared; each call hands back the same option.
class CommandOption {
 public:
  explicit CommandOption(CLI::Option& option) : option_(&option) {}
  CommandOption required();
  /// What help and completion call the value, such as FILE.
  CommandOption type_name(const std::string& name);
  /// Whether one use of the option may be followed by several values.
  CommandOption allow_extra_args(bool allowed);
  /// What separates values within one word.
  CommandOption delimiter(char separator);
  /// Refused without `other`.
  CommandOption needs(CommandOption other);
  CommandOption check(const Range& range);
  CommandOption check(const OneOf& words);
  CommandOption check(AtLeastZero);
  CommandOption check(MoreThanZero);

 private:
  CLI::Option* option_;
};

/// A command whose options are being declared. Values are written where the references point to when the command line
/// is parsed; they keep what they held where the option is not given.
class CommandOptions {
 public:
  explicit CommandOptions(CLI::App& app) : app_(&app) {}
  /// Value: std::string, std::int64_t or a vector of either, another whole number (int, unsigned, std::uint16_t,
  /// std::int64_t, std::uint64_t) or double; command_options.cc has the list.
  template <typename Value>
  CommandOption add_option(const std::string& names, Value& value, const std::string& meaning);
  CommandOption add_flag(const std::string& names, bool& value, const std::string& meaning);
  /// A command below this one.
  CommandOptions add_subcommand(const std::string& name, const std::string& summary);
  /// Exactly one of the commands below must be named.
  void require_subcommand();
  /// Keeps words that no option takes, for remaining().
  void allow_extras();
  std::vector<std::string> remaining() const;
  /// Whether the command line named this command.
  bool parsed() const;

 private:
  CLI::App* app_;
};

}  // namespace orrery::tools
