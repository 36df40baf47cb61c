// See tie.h. Left out: sums, brackets, conditions.
#include "tools/study/tie.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>

#include "scenarios/schema.h"

namespace orrery::tools {

namespace {

[[noreturn]] void refuse(const std::string& key, const std::string& message) {
  throw sim::UserError({"--tie", 0, 0}, key, message);
}

bool is_key(const std::string& path) {
  for (const scenarios::Key& known : scenarios::schema())
    if (known.path == path) return true;
  return false;
}

std::string key_named(const std::string& name) {
  if (is_key(name)) return name;
  for (const char* section : {"parallelism.", "cluster.", "batch.", "model."})
    if (is_key(section + name)) return section + name;
  refuse(name, "there is no such key, expected one of the language, as in pipeline=gpus/tensor/data");
}

std::optional<std::int64_t> number_in(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// What a document holds at a dotted path; null where nothing.
const sim::Settings* member_at(const sim::Settings& document, const std::string& path) {
  const sim::Settings* at = &document;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t dot = std::min(path.find('.', from), path.size());
    if (!at->is_mapping()) return nullptr;
    at = at->find(path.substr(from, dot - from));
    if (at == nullptr) return nullptr;
    from = dot + 1;
  }
  return at->is_scalar() ? at : nullptr;
}

std::int64_t value_of(const Tie::Factor& factor, const std::string& tied, const sim::Settings& document) {
  if (factor.key.empty()) return factor.number;
  const sim::Settings* member = member_at(document, factor.key);
  // Degrees that are left open are 1.
  if (member == nullptr && factor.key.starts_with("parallelism.")) return 1;
  if (member == nullptr) refuse(tied, fmt::format("{} is not given, expected a whole number", factor.key));
  const auto value = number_in(member->text());
  if (!value || *value < 1)
    refuse(tied, fmt::format("{} is {}, expected a whole number above 0", factor.key, member->text()));
  return *value;
}

}  // namespace

void Tie::apply(sim::Settings& document) const {
  std::int64_t above = 1, below = 1;
  for (const Factor& factor : factors) {
    std::int64_t& product = factor.divides ? below : above;
    const std::int64_t value = value_of(factor, key, document);
    if (product > std::numeric_limits<std::int64_t>::max() / value) refuse(key, "is too large a number");
    product *= value;
  }
  if (above % below != 0) refuse(key, fmt::format("got {}/{}, expected a whole number", above, below));
  scenarios::apply_set(document, fmt::format("{}={}", key, above / below));
}

Tie parse_tie(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    refuse("", fmt::format("got \"{}\", expected KEY=A*B/C, as in pipeline=gpus/tensor/data", text));
  Tie tie;
  tie.key = key_named(text.substr(0, equals));
  bool divides = false;
  for (std::size_t from = equals + 1; from <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("*/", from), text.size());
    const std::string word = text.substr(from, end - from);
    if (word.empty()) refuse(tie.key, fmt::format("got \"{}\", expected a key or a number on either side", text));
    Tie::Factor factor;
    factor.divides = divides;
    if (const auto number = number_in(word); number) {
      if (*number < 1) refuse(tie.key, fmt::format("got {}, expected a whole number above 0", word));
      factor.number = *number;
    } else {
      factor.key = key_named(word);
      if (factor.key == tie.key) refuse(tie.key, "is tied to itself");
    }
    tie.factors.push_back(factor);
    divides = end < text.size() && text[end] == '/';
    from = end + 1;
  }
  return tie;
}

}  // namespace orrery::tools
