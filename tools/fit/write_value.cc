// One number of a YAML document replaced in its text, so that comments, order and line breaks stay. What was written is
// read again and compared: a rule that does not hold for some document refuses instead of breaking it.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tools/fit/step_fit.h"

namespace orrery::tools {

using sim::Settings;

namespace {

/// Where line and column, both from 1, lie in `text`. Columns count characters of the keys' ASCII lines.
std::size_t offset_of(const std::string& text, const sim::Place& place) {
  std::size_t at = 0;
  for (int line = 1; line < place.line; ++line) at = text.find('\n', at) + 1;
  return at + static_cast<std::size_t>(place.column - 1);
}

/// `text` with a key more: of the document itself at its end, of a block at the head of its lines. Of the blocks only
/// `fitted` is made where there is none: what it holds may be set by any document.
std::string added(const Settings& document, std::string text, const std::string& file, const std::string& key,
                  const std::string& value) {
  const std::size_t dot = key.find('.');
  const std::string block = key.substr(0, dot), rest = dot == std::string::npos ? "" : key.substr(dot + 1);
  const Settings* there = document.find(block);
  const bool possible = there != nullptr ? there->is_mapping() : rest.empty() || block == "fitted";
  if (!possible || rest.find('.') != std::string::npos)
    throw sim::UserError({file, 0, 0}, key, "is not there; write it by hand, then fit again");
  if (!text.empty() && text.back() != '\n') text += '\n';
  if (rest.empty()) return text + fmt::format("{}: {}\n", block, value);
  if (there == nullptr) return text + fmt::format("{}:\n  {}: {}\n", block, rest, value);
  const std::size_t line = text.find('\n', offset_of(text, there->place())) + 1;
  return text.insert(line, fmt::format("  {}: {}\n", rest, value));
}

}  // namespace

std::string with_value(const std::string& text, const std::string& file, const std::string& key,
                       const std::string& value) {
  const Settings document = scenarios::parse_yaml(text, file);
  const Settings* member = document.find_path(key);
  std::string changed = text;
  if (member == nullptr) {
    changed = added(document, text, file, key, value);
  } else {
    const std::size_t begin = offset_of(text, member->place());
    const std::size_t colon = text.find(':', begin);
    if (!member->is_scalar() || colon == std::string::npos) member->fail("is no number that could be replaced");
    const std::size_t from = text.find_first_not_of(' ', colon + 1);
    std::size_t to = std::min(text.find_first_of(",}\n", from), text.size());
    to = std::min(to, text.find(" #", from));
    while (to > from && std::isspace(static_cast<unsigned char>(text[to - 1])) != 0) --to;
    changed.replace(from, to - from, value);
  }
  const Settings again = scenarios::parse_yaml(changed, file);
  const Settings* written = again.find_path(key);
  if (written == nullptr || written->text() != value) {
    throw sim::UserError({file, 0, 0}, key, "cannot be replaced in place; write it by hand");
  }
  return changed;
}

}  // namespace orrery::tools
