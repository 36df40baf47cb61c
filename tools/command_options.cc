// Options on CLI11: the only file beside the catalogue and its table that compiles its header; see command_options.h.
#include "tools/command_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace orrery::tools {

CommandOption CommandOption::required() {
  option_->required();
  return *this;
}

CommandOption CommandOption::type_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

CommandOption CommandOption::allow_extra_args(bool allowed) {
  option_->allow_extra_args(allowed);
  return *this;
}

CommandOption CommandOption::delimiter(char separator) {
  option_->delimiter(separator);
  return *this;
}

CommandOption CommandOption::needs(CommandOption other) {
  option_->needs(other.option_);
  return *this;
}

CommandOption CommandOption::check(const Range& range) {
  if (const auto* whole = std::get_if<0>(&range.bounds)) {
    option_->check(CLI::Range(whole->first, whole->second));
    return *this;
  }
  const auto [least, most] = std::get<1>(range.bounds);
  option_->check(CLI::Range(least, most));
  option_->check([least = least, most = most](const std::string& text) {  // CLI11 takes what is no number for in range
    const bool number = text.find_first_not_of("0123456789.eE+-") == std::string::npos;
    return number ? std::string() : fmt::format("got {}, expected {} to {}", text, least, most);
  });
  return *this;
}

CommandOption CommandOption::check(const OneOf& words) {
  option_->check(CLI::IsMember(words.words));
  return *this;
}

CommandOption CommandOption::check(AtLeastZero) {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

CommandOption CommandOption::check(MoreThanZero) {
  option_->check(CLI::PositiveNumber);
  return *this;
}

template <typename Value>
CommandOption CommandOptions::add_option(const std::string& names, Value& value, const std::string& meaning) {
  return CommandOption(*app_->add_option(names, value, meaning));
}

template CommandOption CommandOptions::add_option(const std::string&, std::string&, const std::string&);
template CommandOption CommandOptions::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template CommandOption CommandOptions::add_option(const std::string&, std::vector<std::int64_t>&, const std::string&);
template CommandOption CommandOptions::add_option(const std::string&, int&, const std::string&);
template CommandOption CommandOptions::add_option(const std::string&, unsigned&, const std::string&);
template CommandOption CommandOptions::add_option(const std::string&, std::uint16_t&, const std::string&);
template CommandOption CommandOptions::add_option(const std::string&, std::int64_t&, const std::string&);
template CommandOption CommandOptions::add_option(const std::string&, std::uint64_t&, const std::string&);
template CommandOption CommandOptions::add_option(const std::string&, double&, const std::string&);

CommandOption CommandOptions::add_flag(const std::string& names, bool& value, const std::string& meaning) {
  return CommandOption(*app_->add_flag(names, value, meaning));
}

CommandOptions CommandOptions::add_subcommand(const std::string& name, const std::string& summary) {
  return CommandOptions(*app_->add_subcommand(name, summary));
}

void CommandOptions::require_subcommand() { app_->require_subcommand(1); }

void CommandOptions::allow_extras() { app_->allow_extras(); }

std::vector<std::string> CommandOptions::remaining() const { return app_->remaining(); }

bool CommandOptions::parsed() const { return app_->parsed(); }

}  // namespace orrery::tools
