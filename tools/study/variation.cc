// Reading of --vary. Left out: values that depend on each other (zip, conditions); an infeasible combination costs
// microseconds and says why.
#include "tools/study/variation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "scenarios/schema.h"
#include "scenarios/synonyms.h"

namespace orrery::tools {

namespace {

constexpr const char* kSource = "--vary";

[[noreturn]] void refuse(const std::string& key, const std::string& message) {
  throw sim::UserError({kSource, 0, 0}, key, message);
}

/// Splits at `separator` outside brackets and quotes.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    }
    if (c == separator && depth == 0 && quote == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// BEGIN:END:FACTOR or BEGIN:END:+STEP, all numbers; nothing for any other text.
std::optional<std::vector<std::string>> range_of(const std::string& key, const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 3) return std::nullopt;
  const bool adds = parts[2].starts_with('+');
  const auto begin = number_in(parts[0]), end = number_in(parts[1]), by = number_in(parts[2].substr(adds ? 1 : 0));
  if (!begin || !end || !by) return std::nullopt;
  const auto bad = [&](const char* why) {
    refuse(key, fmt::format("got {}, {}, expected BEGIN:END:FACTOR or BEGIN:END:+STEP, as in 1:8:2", text, why));
  };
  if (*end < *begin) bad("which ends before it begins");
  if (adds && !(*by > 0)) bad("whose step is not above 0");
  if (!adds && !(*by > 1 && *begin > 0)) bad("whose factor is not above 1, or which does not begin above 0");
  const double tolerance = 1e-9 * std::max(std::abs(*end), std::abs(*begin));
  std::vector<std::string> values;
  for (std::size_t i = 0;; ++i) {
    const double n = static_cast<double>(i);
    const double value = adds ? *begin + n * *by : *begin * std::pow(*by, n);
    if (value > *end + tolerance) break;
    if (values.size() >= kMostValues) bad("which makes too many values");
    const double whole = std::round(value);
    const bool is_whole = std::abs(value - whole) <= tolerance && std::abs(whole) < 1e15;
    values.push_back(is_whole ? fmt::format("{}", static_cast<std::int64_t>(whole)) : fmt::format("{}", value));
  }
  return values;
}

bool takes_list(const std::string& key) {
  for (const scenarios::Key& known : scenarios::schema()) {
    if (known.path == key) return known.type.find("list") != std::string::npos;
  }
  return true;  // below what documents name as they like
}

/// "2-8" and "2..8" are no numbers, and no key has names of two numbers.
void refuse_other_range(const std::string& key, const std::string& text) {
  const std::size_t dots = text.find(".."), hyphen = text.find('-', 1);
  const std::size_t at = dots != std::string::npos ? dots : hyphen;
  if (at == std::string::npos) return;
  std::string from = text.substr(0, at), to = text.substr(at + (dots != std::string::npos ? 2 : 1));
  if (from.size() > to.size() || (from.size() == to.size() && from > to)) std::swap(from, to);  // a reversed one
  const auto digits = [](const std::string& part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
  };
  if (digits(from) && digits(to))
    refuse(key, fmt::format("got {}, expected {}:{}:2 (doubling), {}:{}:+1 (each), or values with commas", text, from,
                            to, from, to));
}

void check_key(const std::string& key) {
  std::vector<std::string> paths;
  for (const scenarios::Key& known : scenarios::schema()) {
    // "name.*" stands for whatever names a document gives its members.
    const std::size_t star = known.path.find(".*");
    if (known.path == key || (star != std::string::npos && key.starts_with(known.path.substr(0, star + 1)))) return;
    paths.push_back(known.path);
  }
  const bool plain = key.find('.') == std::string::npos;
  const std::string nearest = plain ? scenarios::key_near(key) : sim::nearest_word(key, paths);
  refuse(key, nearest.empty() ? "there is no such key; orrery schema lists all of them"
                              : fmt::format("there is no such key; did you mean \"{}\"?", nearest));
}

}  // namespace

Variation parse_variation(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    refuse("", fmt::format("got \"{}\", expected key.path=value,value,...", text));
  }
  Variation variation;
  variation.key = scenarios::key_meant(text.substr(0, equals));
  check_key(variation.key);
  if (text.find('\n') != std::string::npos) refuse(variation.key, "got a line break, expected values on one line");
  const std::string all = text.substr(equals + 1);
  // What looks like one list of values is meant as these, where the key takes no list.
  const bool listed =
      all.starts_with('[') && all.ends_with(']') && !takes_list(variation.key) && split(all, ',').size() == 1;
  for (std::string& part : split(listed ? all.substr(1, all.size() - 2) : all, ',')) {
    const std::size_t first = part.find_first_not_of(' ');
    if (first == std::string::npos)
      refuse(variation.key, "got an empty value, expected null, which means the default, or a value");
    part = part.substr(first, part.find_last_not_of(' ') + 1 - first);
    refuse_other_range(variation.key, part);
    const auto range = range_of(variation.key, part);
    for (const std::string& value : range ? *range : std::vector<std::string>{part}) variation.texts.push_back(value);
  }
  std::set<std::string> seen;
  for (const std::string& value : variation.texts) {
    if (!seen.insert(value).second) {
      refuse(variation.key, fmt::format("got {} a second time, expected each value once", value));
    }
    variation.assignments.push_back(scenarios::parse_assignment(variation.key + "=" + value, kSource));
  }
  return variation;
}

Product::Product(std::vector<Variation> variations, std::size_t limit) : variations_(std::move(variations)) {
  if (variations_.empty()) refuse("", "is not given, expected what to vary, as in --vary parallelism.tensor=4,8");
  double points = 1;
  for (std::size_t i = 0; i < variations_.size(); ++i) {
    points *= static_cast<double>(variations_[i].texts.size());
    for (std::size_t j = 0; j < i; ++j) {
      if (variations_[j].key == variations_[i].key) {
        refuse(variations_[i].key, "is given a second time, expected all of its values in one --vary");
      }
    }
  }
  if (points > static_cast<double>(limit)) {
    refuse("", fmt::format("makes {:.4g} points, expected at most {}, or a higher --limit", points, limit));
  }
  for (const Variation& variation : variations_) size_ *= variation.texts.size();
}

std::vector<std::size_t> Product::choices(std::size_t index) const {
  std::vector<std::size_t> choice(variations_.size());
  for (std::size_t i = variations_.size(); i-- > 0;) {
    choice[i] = index % variations_[i].texts.size();
    index /= variations_[i].texts.size();
  }
  return choice;
}

std::vector<std::string> Product::texts(std::size_t index) const {
  const std::vector<std::size_t> choice = choices(index);
  std::vector<std::string> values;
  for (std::size_t i = 0; i < choice.size(); ++i) values.push_back(variations_[i].texts[choice[i]]);
  return values;
}

void Product::apply(std::size_t index, sim::Settings& document) const {
  const std::vector<std::size_t> choice = choices(index);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    scenarios::apply(document, variations_[i].assignments[choice[i]]);
  }
}

}  // namespace orrery::tools
