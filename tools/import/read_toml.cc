// A TOML document (toml.io, v1.0) as Settings with places, so that complaints point into the user's file. The parser is
// toml11. Left out: dates and times, which no configuration of a training framework needs.
#include <fmt/format.h>

#include <sstream>

#include "sim/error.h"
#include "sim/printable.h"
#include "tools/import/import.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <toml.hpp>
#pragma GCC diagnostic pop

namespace orrery::tools {

using sim::Place;
using sim::Settings;

namespace {

constexpr int kDeepest = 32;
// The parser's time grows with the square of the text: 4 s for 250 kB. TorchTitan's configurations have 2 to 5.
constexpr std::size_t kLongest = 32 << 10;

/// Versions 3 and 4 of toml11, of Debian 12 and 13, name the members of a location differently.
template <class Location>
Place place_at(const Location& at, const std::string& file) {
  if constexpr (requires { at.line(); })
    return {file, static_cast<int>(at.line()), static_cast<int>(at.column())};
  else
    return {file, static_cast<int>(at.first_line_number()), static_cast<int>(at.first_column_number())};
}

Place place_of(const toml::value& value, const std::string& file) { return place_at(value.location(), file); }

template <class Error>
Place place_of_error(const Error& error, const std::string& file) {
  if constexpr (requires { error.location(); })
    return place_at(error.location(), file);
  else
    return {file, 1, 1};
}

Settings settings_of(const toml::value& value, const std::string& file, int depth) {
  const Place place = place_of(value, file);
  if (depth > kDeepest) throw sim::UserError(place, "", "is nested too deep, expected a configuration");
  if (value.is_table()) {
    Settings out = Settings::mapping(place);
    for (const auto& [key, member] : value.as_table()) out.set(key, settings_of(member, file, depth + 1));
    return out;
  }
  if (value.is_array()) {
    Settings out = Settings::sequence(place);
    for (const toml::value& item : value.as_array()) out.append(settings_of(item, file, depth + 1));
    return out;
  }
  if (value.is_string()) return Settings::scalar(toml::get<std::string>(value), place, true);
  if (value.is_boolean()) return Settings::scalar(value.as_boolean() ? "true" : "false", place);
  if (value.is_integer()) return Settings::scalar(std::to_string(value.as_integer()), place);
  if (value.is_floating()) return Settings::scalar(fmt::format("{}", value.as_floating()), place);
  return Settings::scalar("", place);
}

}  // namespace

Settings read_toml(const std::string& file) {
  const std::string text = read_text(file);
  if (text.size() > kLongest) {
    throw sim::UserError({file, 1, 1}, "",
                         fmt::format("got {} bytes, expected a configuration of at most {}", text.size(), kLongest));
  }
  // TOML is UTF-8; where it is not, the parser reads behind the end of one of its buffers.
  for (std::size_t at = 0, line = 1, length = 0; at < text.size(); at += length) {
    length = sim::utf8_length(text, at);
    if (length == 0)
      throw sim::UserError({file, static_cast<int>(line), 1}, "", "got bytes that are no UTF-8, expected text");
    line += text[at] == '\n' ? 1 : 0;
  }
  // The parser recurses; no configuration has brackets within brackets so deep.
  int open = 0;
  for (const char c : text) {
    open += c == '[' || c == '{' ? 1 : 0;
    open -= (c == ']' || c == '}') && open > 0 ? 1 : 0;
    if (open > kDeepest) throw sim::UserError({file, 1, 1}, "", "is nested too deep, expected a configuration");
  }
  std::istringstream in(text);
  toml::value document;
  try {
    document = toml::parse(in, file);
  } catch (const toml::syntax_error& error) {
    throw sim::UserError(place_of_error(error, file), "",
                         "got what is no TOML, expected a configuration as toml.io describes it");
  } catch (const std::exception&) {  // the parser's own, and those of the standard library that it lets through
    throw sim::UserError({file, 1, 1}, "", "got what is no TOML, expected a configuration as toml.io describes it");
  }
  return settings_of(document, file, 0);
}

}  // namespace orrery::tools
