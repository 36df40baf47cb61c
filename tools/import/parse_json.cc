// The library reads nested text without recursion, but copies, compares and prints a tree with it, so that 80,000
// brackets end a program far from where they were read. A look at the brackets ahead of the parser costs little, since
// no tree is there yet. Left out: traces of gigabytes, which tools/learn/kineto.cc takes as events without a tree.
#include "tools/import/parse_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace orrery::tools {

namespace {

constexpr std::size_t kMostJsonLevels = 64;  // as of YAML
constexpr std::size_t kMostJsonValues = 2'000'000;

/// The byte behind the string that begins at `at`.
std::size_t end_of_json_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
  return at;
}

void check_json_size(std::string_view text) {
  std::size_t depth = 0, values = 1;
  for (std::size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '"':
        at = end_of_json_string(text, at);
        break;
      case '[':
      case '{':
        ++values;
        if (++depth > kMostJsonLevels)
          throw JsonProblem{at, fmt::format("got more than {} levels of nesting", kMostJsonLevels)};
        break;
      case ']':
      case '}':
        depth -= depth > 0 ? 1 : 0;
        break;
      case ',':
        if (++values > kMostJsonValues) throw JsonProblem{at, fmt::format("got more than {} values", kMostJsonValues)};
        break;
      default:
        break;
    }
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  check_json_size(text);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    std::string what = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const std::size_t colon = what.find(": ");
    if (colon != std::string::npos) what = what.substr(colon + 2);
    throw JsonProblem{error.byte == 0 ? 0 : error.byte - 1, "got no JSON: " + what};
  } catch (const nlohmann::json::exception& error) {
    throw JsonProblem{0, fmt::format("got no JSON: {}", error.what())};
  }
}

}  // namespace orrery::tools
