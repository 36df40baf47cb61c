// Options on CLI11: the only file beside the catalogue and its table that compiles its header; see command_options.h.
#include "tools/command_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <type_traits>

#include "sim/settings.h"

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

namespace {

/// What CLI11 calls a check in its help, with a sentence of ours where a word fails it. Empty: it holds.
template <typename Said>
CLI::Validator check_of(CLI::Validator named, Said said) {
  return named.operation([said](std::string& text) { return said(text); });
}

/// The whole of `text` as a number.
template <typename Number>
bool reads_as(const std::string& text, Number& number) {
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

template <typename Number>
CLI::Validator range_check(Number least, Number most) {
  return check_of(CLI::Range(least, most), [least, most](const std::string& text) {
    Number value{};
    if (reads_as(text, value) && value >= least && value <= most) return std::string();
    const char* whole = std::is_integral_v<Number> ? "a whole number" : "a number";
    return most >= std::numeric_limits<Number>::max()
               ? fmt::format("got {}, expected {} from {}", text, whole, least)
               : fmt::format("got {}, expected {} from {} to {}", text, whole, least, most);
  });
}

}  // namespace

CommandOption CommandOption::check(const Range& range) {
  if (const auto* whole = std::get_if<0>(&range.bounds))
    option_->check(range_check(whole->first, whole->second));
  else
    option_->check(range_check(std::get<1>(range.bounds).first, std::get<1>(range.bounds).second));
  return *this;
}

CommandOption CommandOption::check(const OneOf& words) {
  option_->check(check_of(CLI::IsMember(words.words), [taken = words.words](const std::string& text) {
    if (std::find(taken.begin(), taken.end(), text) != taken.end()) return std::string();
    const std::string near = sim::nearest_word(text, taken);
    return fmt::format("got {}, expected one of {}{}", text, fmt::join(taken, ", "),
                       near.empty() ? "" : fmt::format("; did you mean {}?", near));
  }));
  return *this;
}

CommandOption CommandOption::check(AtLeastZero) {
  option_->check(check_of(CLI::NonNegativeNumber, [](const std::string& text) {
    double value = 0;
    return reads_as(text, value) && value >= 0 ? std::string() : fmt::format("got {}, expected a number from 0", text);
  }));
  return *this;
}

CommandOption CommandOption::check(MoreThanZero) {
  option_->check(check_of(CLI::PositiveNumber, [](const std::string& text) {
    double value = 0;
    return reads_as(text, value) && value > 0 ? std::string() : fmt::format("got {}, expected a number above 0", text);
  }));
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
