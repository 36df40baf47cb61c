// A TOML document (toml.io, v1.0) as Settings with places, so that complaints point into the user's file. The parser is
// toml++. Left out: dates and times, which no configuration of a training framework needs.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "sim/error.h"
#include "sim/printable.h"
#include "sim/text_file.h"
#include "tools/import/import.h"

namespace orrery::tools {
/// What the parser takes for granted does not hold. Version 3.3 asserts it of some texts that are no TOML ("[" and a
/// new line), ahead of finding out that they are none.
struct UnexpectedToml {};
}  // namespace orrery::tools

// In every build, so that all of them answer alike.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expression) ((expression) ? static_cast<void>(0) : throw orrery::tools::UnexpectedToml())
#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wexceptions"
#else
#pragma GCC diagnostic ignored "-Wterminate"  // what it takes for granted of its own tables, which no text changes
#endif
#include <toml++/toml.h>
#pragma GCC diagnostic pop
#pragma pop_macro("NDEBUG")

namespace orrery::tools {

using sim::Place;
using sim::Settings;

namespace {

constexpr int kDeepest = 32;
constexpr std::size_t kLargestToml = std::size_t{1} << 20;  // the parser takes 150 bytes for one
constexpr std::size_t kMostTomlKeys = 4096;                 // of a table, as of YAML: each is looked for among all

/// Where the first byte lies that is no UTF-8; npos where all is.
std::size_t first_broken(std::string_view text) {
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    length = sim::utf8_length(text, at);
    if (length == 0) return at;
  }
  return std::string_view::npos;
}

/// The text in ASCII. What the parser's version 3.3 asks of other letters where a text is broken, it does not come back
/// from; so none reaches it. Outside of strings and comments TOML has neither these nor the sign that stands for them.
std::string in_ascii(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80 || c == '~')
      out += fmt::format("~{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out;
}

/// What in_ascii() was given. Left out: text that writes the sign as an escape with two hexadecimal digits behind it,
/// which comes out as the byte that they name.
std::string from_ascii(std::string_view text, const Place& place) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned value = 0;
    if (text[at] == '~' && at + 2 < text.size() &&
        std::from_chars(text.data() + at + 1, text.data() + at + 3, value, 16).ptr == text.data() + at + 3) {
      out += static_cast<char>(value);
      at += 2;
    } else {
      out += text[at];
    }
  }
  if (first_broken(out) != std::string_view::npos)
    throw sim::UserError(place, "", "got bytes that are no UTF-8, expected text");
  return out;
}

Place place_at(const toml::source_region& at, const std::string& file) {
  return {file, static_cast<int>(at.begin.line), static_cast<int>(at.begin.column)};
}

Settings settings_of(const toml::node& value, const std::string& file, int depth) {
  const Place place = place_at(value.source(), file);
  if (depth > kDeepest) throw sim::UserError(place, "", "is nested too deep, expected a configuration");
  if (const toml::table* table = value.as_table()) {
    if (table->size() > kMostTomlKeys)
      throw sim::UserError(place, "", fmt::format("got {} keys, expected at most {}", table->size(), kMostTomlKeys));
    Settings out = Settings::mapping(place);
    for (const auto& [key, member] : *table)
      out.set(from_ascii(key.str(), place), settings_of(member, file, depth + 1));
    return out;
  }
  if (const toml::array* array = value.as_array()) {
    Settings out = Settings::sequence(place);
    for (const toml::node& item : *array) out.append(settings_of(item, file, depth + 1));
    return out;
  }
  if (const auto* text = value.as_string()) return Settings::scalar(from_ascii(text->get(), place), place, true);
  if (const auto* truth = value.as_boolean()) return Settings::scalar(truth->get() ? "true" : "false", place);
  if (const auto* whole = value.as_integer()) return Settings::scalar(std::to_string(whole->get()), place);
  if (const auto* number = value.as_floating_point()) return Settings::scalar(fmt::format("{}", number->get()), place);
  return Settings::scalar("", place);
}

}  // namespace

Settings read_toml(const std::string& file) {
  const std::string text = sim::read_text(file, "a configuration in TOML", kLargestToml);
  if (const std::size_t at = first_broken(text); at != std::string::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    throw sim::UserError({file, static_cast<int>(line), 1}, "", "got bytes that are no UTF-8, expected text");
  }
  // The parser has a limit of its own, but would call them no TOML.
  int open = 0;
  for (const char c : text) {
    open += c == '[' || c == '{' ? 1 : 0;
    open -= (c == ']' || c == '}') && open > 0 ? 1 : 0;
    if (open > kDeepest) throw sim::UserError({file, 1, 1}, "", "is nested too deep, expected a configuration");
  }
  constexpr const char* kProblem = "got what is no TOML, expected a configuration as toml.io describes it";
  toml::table document;
  try {
    document = toml::parse(in_ascii(text), file);
  } catch (const toml::parse_error& error) {
    throw sim::UserError(place_at(error.source(), file), "", kProblem);
  } catch (const UnexpectedToml&) {
    throw sim::UserError({file, 1, 1}, "", kProblem);
  }
  return settings_of(document, file, 0);
}

}  // namespace orrery::tools
