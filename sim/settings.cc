// Settings: the tree, its readers and the merging of trees. Numbers are parsed with std::from_chars, so that neither
// the locale nor undefined conversions can change what a file means; whole text must be used up, so "3x" and "0x10"
// are refused. Left out: expressions, references between values, dates.
#include "sim/settings.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "sim/plain_number.h"
#include "sim/settings_children.h"
#include "sim/written_out.h"

namespace orrery::sim {

namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53: above it doubles skip integers
constexpr std::size_t kDeepestPath = 64;

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// A finite number at the front of `text` and what follows it; nothing when there is none or it overflows.
std::optional<std::pair<double, std::string_view>> leading_number(std::string_view text) {
  text = trim(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  return std::pair{value, trim(text.substr(static_cast<std::size_t>(end - text.data())))};
}

std::optional<double> whole_number_text(std::string_view text) {
  if (const std::optional<double> plain = plain_number(text)) return plain;
  const auto parsed = leading_number(text);
  if (!parsed || !parsed->second.empty()) return std::nullopt;
  return parsed->first;
}

struct Scale {
  std::string_view name;
  double factor;
};

constexpr std::array<Scale, 14> kPrefixes{{{"", 1},
                                           {"k", 1e3},
                                           {"K", 1e3},
                                           {"M", 1e6},
                                           {"G", 1e9},
                                           {"T", 1e12},
                                           {"P", 1e15},
                                           {"E", 1e18},
                                           {"Ki", 1024.0},
                                           {"Mi", 1048576.0},
                                           {"Gi", 1073741824.0},
                                           {"Ti", 1099511627776.0},
                                           {"Pi", 1125899906842624.0},
                                           {"Ei", 1152921504606846976.0}}};

/// The factor of a unit made of a prefix and one of `bases`, as in "GB/s".
std::optional<double> prefixed_factor(std::string_view unit, std::span<const Scale> bases) {
  for (const Scale& base : bases) {
    if (!unit.ends_with(base.name)) continue;
    const std::string_view prefix = unit.substr(0, unit.size() - base.name.size());
    for (const Scale& scale : kPrefixes) {
      if (scale.name == prefix) return scale.factor * base.factor;
    }
  }
  return std::nullopt;
}

constexpr std::array<Scale, 19> kTimeUnits{{{"ps", 1},
                                            {"ns", 1e3},
                                            {"us", 1e6},
                                            {"\xc2\xb5s", 1e6},
                                            {"\xce\xbcs", 1e6},
                                            {"ms", 1e9},
                                            {"s", 1e12},
                                            {"sec", 1e12},
                                            {"second", 1e12},
                                            {"seconds", 1e12},
                                            {"min", 60e12},
                                            {"minute", 60e12},
                                            {"minutes", 60e12},
                                            {"h", 3600e12},
                                            {"hour", 3600e12},
                                            {"hours", 3600e12},
                                            {"nsec", 1e3},
                                            {"usec", 1e6},
                                            {"msec", 1e9}}};

std::string describe(const Settings& value) {
  switch (value.kind()) {
    case Settings::Kind::null:
      return "nothing";
    case Settings::Kind::scalar:
      return '"' + value.text() + '"';
    case Settings::Kind::sequence:
      return fmt::format("a list of {}", value.items().size());
    case Settings::Kind::mapping:
      return "a mapping";
  }
  return "?";
}

bool is_null_word(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

template <class Number>
std::string range_text(std::string_view noun, Number low, Number high, bool has_low, bool has_high) {
  if (has_low && has_high) return fmt::format("{} from {} to {}", noun, low, high);
  if (has_low) return fmt::format("{} of at least {}", noun, low);
  if (has_high) return fmt::format("{} of at most {}", noun, high);
  return std::string(noun);
}

/// Number times unit. `factor_of` maps the unit's text to its factor or nothing.
template <class FactorOf>
double read_quantity(const Settings& value, const char* expected, FactorOf factor_of) {
  if (!value.is_scalar()) value.fail(fmt::format("expected {}, got {}", expected, describe(value)));
  const auto parsed = leading_number(value.text());
  if (!parsed) value.fail(fmt::format("expected {}, got {}", expected, describe(value)));
  const auto& [number, unit] = *parsed;
  if (unit.empty()) value.fail(fmt::format("expected {}, got {} without a unit", expected, describe(value)));
  const std::optional<double> factor = factor_of(unit);
  if (!factor)
    value.fail(fmt::format("expected {}, got {} with the unknown unit \"{}\"", expected, describe(value), unit));
  const double product = number * *factor;
  if (!std::isfinite(product) || product < 0) {
    value.fail(fmt::format("expected {} that is finite and not negative, got {}", expected, describe(value)));
  }
  return product;
}

std::string path_in(const std::string& list, std::size_t item) {
  std::array<char, std::numeric_limits<std::size_t>::digits10 + 1> digits{};
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), item);
  const std::string_view number(digits.data(), static_cast<std::size_t>(written.ptr - digits.data()));
  std::string path;
  path.reserve(list.size() + number.size() + 2);
  path += list;
  path += '[';
  path += number;
  path += ']';
  return path;
}

char lower_case(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Letters that both words have, as often as both have them, case ignored. An edit adds one to what they share at most.
std::size_t shared_letters(std::string_view a, std::string_view b) {
  std::array<int, 256> left{};
  for (const char c : a) ++left[static_cast<unsigned char>(lower_case(c))];
  std::size_t shared = 0;
  for (const char c : b) shared += left[static_cast<unsigned char>(lower_case(c))]-- > 0 ? 1 : 0;
  return shared;
}

/// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours, case ignored. `most`, or
/// more, where it is no less than that.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t most) {
  const std::size_t longer = std::max(a.size(), b.size());
  if (longer - std::min(a.size(), b.size()) >= most) return most;  // so many come or go
  if (longer - shared_letters(a, b) >= most) return most;
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> before(width), above(width), row(width);
  for (std::size_t j = 0; j < width; ++j) above[j] = j;
  std::size_t least_above = 0;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    std::size_t least = i;
    for (std::size_t j = 1; j < width; ++j) {
      const bool same = lower_case(a[i - 1]) == lower_case(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower_case(a[i - 1]) == lower_case(b[j - 2]) &&
          lower_case(a[i - 2]) == lower_case(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
      least = std::min(least, row[j]);
    }
    // Whatever follows comes from this row, or by a swap from the one above.
    if (least >= most && least_above + 1 >= most) return most;
    least_above = least;
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[width - 1];
}

}  // namespace

Settings Settings::scalar(std::string text, Place place, bool quoted) {
  Settings value;
  value.kind_ = !quoted && is_null_word(text) ? Kind::null : Kind::scalar;
  value.quoted_ = quoted;
  value.place_ = std::move(place);
  if (value.kind_ == Kind::scalar) value.text_ = std::move(text);
  return value;
}

std::string_view Settings::checked_as() const {
  return children_ != nullptr ? children_->checked_as : std::string_view{};
}

bool Settings::same_as(const Settings& other) const {
  return children_ == other.children_ && kind_ == other.kind_ && quoted_ == other.quoted_ &&
         place_.line == other.place_.line && place_.column == other.place_.column && place_.file == other.place_.file &&
         text_ == other.text_ && path() == other.path();
}

Settings Settings::sequence(Place place, std::string path) {
  Settings value;
  value.kind_ = Kind::sequence;
  value.place_ = std::move(place);
  value.path_ = std::move(path);
  return value;
}

Settings Settings::mapping(Place place, std::string path) {
  Settings value;
  value.kind_ = Kind::mapping;
  value.place_ = std::move(place);
  value.path_ = std::move(path);
  return value;
}

const std::vector<Settings>& Settings::items() const {
  static const std::vector<Settings> none;
  if (children_ == nullptr) return none;
  if (children_->unmade.load(std::memory_order_acquire) != nullptr) make_items(*this);
  return children_->items;
}

std::size_t Settings::item_count() const {
  const char* unmade = children_ == nullptr ? nullptr : children_->unmade.load(std::memory_order_acquire);
  return unmade != nullptr ? packed_numbers(unmade).first : items().size();
}

const std::vector<std::pair<std::string, Settings>>& Settings::members() const {
  static const std::vector<std::pair<std::string, Settings>> none;
  return children_ == nullptr ? none : children_->members;
}

/// What this value holds, to be changed: a copy of its own where others share it. One level deep: what lies below is
/// shared still.
Settings::Children& Settings::own_children() {
  static_cast<void>(items());  // as they are where they lie now
  if (children_ == nullptr) {
    children_ = std::make_shared<Children>();
  } else if (children_.use_count() > 1) {
    children_ = std::make_shared<Children>(*children_);
  } else {
    std::atomic_thread_fence(std::memory_order_acquire);  // what other threads read before they let go stays before
  }
  children_->checked_as = {};  // it is no longer what was packed
  return *children_;
}

std::string Settings::path() const { return list_ == nullptr ? path_ : path_in(*list_, item_); }

// Written by hand: every value of a document but plain items has a path of its own.
std::string Settings::path_of(std::string_view key) const {
  const std::string above = path();
  std::string path;
  path.reserve(above.size() + 1 + key.size());
  path += above;
  if (!above.empty() && !key.starts_with('[')) path += '.';
  path += key;
  return path;
}

std::string Settings::path_of(std::size_t item) const { return path_in(path(), item); }

/// Gives this value and all below it their paths. What has its path already has it all the way down.
void Settings::move_to(std::string path) {
  if (list_ == nullptr && path_ == path) return;
  list_ = nullptr;
  path_ = std::move(path);
  if (children_ == nullptr) return;
  Children& children = own_children();
  for (auto& [key, member] : children.members) member.move_to(path_of(key));
  if (kind_ == Kind::sequence) children.path = std::make_shared<const std::string>(path_);
  for (std::size_t i = 0; i < children.items.size(); ++i) children.items[i].move_into(children.path, i);
}

/// The same of an item. Tables of numbers have thousands, whose paths nobody asks for.
void Settings::move_into(const std::shared_ptr<const std::string>& list, std::size_t item) {
  if (children_ != nullptr) return move_to(path_in(*list, item));
  path_.clear();
  list_ = list;
  item_ = static_cast<std::uint32_t>(item);
}

void Settings::fail(const std::string& message) const { throw UserError(place_, path(), message); }

void Settings::expected(const std::string& what) const {
  fail(fmt::format("got {}, expected {}", describe(*this), what));
}

const Settings* Settings::find(std::string_view key) const {
  if (kind_ == Kind::null) return nullptr;
  if (kind_ != Kind::mapping) fail(fmt::format("expected a mapping (with the key {}), got {}", key, describe(*this)));
  for (const auto& [name, member] : members()) {
    if (name == key) return member.is_null() ? nullptr : &member;
  }
  return nullptr;
}

const Settings* Settings::find_path(std::string_view dotted) const {
  const Settings* node = this;
  while (node != nullptr && !dotted.empty()) {
    const std::size_t dot = dotted.find('.');
    node = node->is_mapping() ? node->find(dotted.substr(0, dot)) : nullptr;
    dotted = dot == std::string_view::npos ? std::string_view{} : dotted.substr(dot + 1);
  }
  return node;
}

const Settings& Settings::at(std::string_view key) const {
  const Settings* member = find(key);
  if (member == nullptr) {
    const std::string above = path();
    const std::string path = above.empty() ? std::string(key) : fmt::format("{}.{}", above, key);
    throw UserError(place_, path, "is missing; this key is required");
  }
  return *member;
}

void Settings::append(Settings item) {
  SIM_CHECK(kind_ == Kind::sequence, "append to a value that is no sequence: {}", path());
  Children& children = own_children();
  if (children.path == nullptr) children.path = std::make_shared<const std::string>(path());
  item.move_into(children.path, children.items.size());
  constexpr std::size_t kFew = 8;  // most lists have no more, which then move to no larger block
  if (children.items.empty()) children.items.reserve(kFew);
  children.items.push_back(std::move(item));
}

void Settings::set(std::string key, Settings value) {
  SIM_CHECK(kind_ == Kind::mapping, "set in a value that is no mapping: {}", path());
  value.move_to(path_of(key));
  Children& children = own_children();
  for (auto& [name, member] : children.members) {
    if (name == key) {
      member = std::move(value);
      return;
    }
  }
  children.members.emplace_back(std::move(key), std::move(value));
}

void Settings::erase(std::string_view key) {
  const auto named = [&](const auto& member) { return member.first == key; };
  if (std::none_of(members().begin(), members().end(), named)) return;
  std::erase_if(own_children().members, named);
}

void Settings::set_path(std::string_view dotted, Settings value) {
  const auto depth = static_cast<std::size_t>(std::count(dotted.begin(), dotted.end(), '.')) + 1;
  if (depth > kDeepestPath) value.fail(fmt::format("expected a key of at most {} parts, got {}", kDeepestPath, depth));
  Settings* node = this;
  std::string_view rest = dotted;
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string name(rest.substr(0, dot));
    if (name.empty()) value.fail(fmt::format("expected a key such as cluster.gpus, got \"{}\"", dotted));
    if (node->kind_ == Kind::null) {
      node->kind_ = Kind::mapping;
      if (node->place_.file.empty()) node->place_ = value.place_;
    }
    if (node->kind_ != Kind::mapping) {
      throw UserError(value.place_, std::string(dotted),
                      fmt::format("expected {} to be a mapping, but it is {}", node->path(), describe(*node)));
    }
    if (dot == std::string_view::npos) {
      node->set(name, std::move(value));
      return;
    }
    const auto at_name = [&](const auto& member) { return member.first == name; };
    if (std::none_of(node->members().begin(), node->members().end(), at_name)) node->set(name, mapping(value.place_));
    auto& members = node->own_children().members;
    node = &std::find_if(members.begin(), members.end(), at_name)->second;
    rest.remove_prefix(dot + 1);
  }
}

std::int64_t Settings::as_int(std::int64_t low, std::int64_t high) const {
  using Limits = std::numeric_limits<std::int64_t>;
  const std::string_view text = trim(text_);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool good = kind_ == Kind::scalar && error == std::errc{} && end == text.data() + text.size();
  if (kind_ == Kind::scalar && !good) {
    const std::optional<double> number = whole_number_text(text);
    good = number && std::floor(*number) == *number && std::abs(*number) < kExactIntegers;
    if (good) value = static_cast<std::int64_t>(*number);
  }
  if (!good || value < low || value > high) {
    fail(fmt::format("expected {}, got {}{}",
                     range_text("an integer", low, high, low != Limits::min(), high != Limits::max()), describe(*this),
                     good ? "" : written_out(std::string(text))));
  }
  return value;
}

double Settings::as_number(double low, double high) const {
  const std::optional<double> value = kind_ == Kind::scalar ? whole_number_text(text_) : std::nullopt;
  if (!value || *value < low || *value > high) {
    fail(fmt::format("expected {}, got {}{}",
                     range_text("a number", low, high, std::isfinite(low), std::isfinite(high)), describe(*this),
                     kind_ == Kind::scalar ? written_out(text_) : ""));
  }
  return *value;
}

std::vector<double> Settings::as_numbers() const {
  std::vector<double> numbers(item_count());
  const char* unmade = children_ == nullptr ? nullptr : children_->unmade.load(std::memory_order_acquire);
  if (unmade != nullptr) {
    std::memcpy(numbers.data(), packed_numbers(unmade).second, numbers.size() * sizeof(double));
    return numbers;
  }
  std::transform(items().begin(), items().end(), numbers.begin(),
                 [](const Settings& item) { return item.as_number(); });
  return numbers;
}

bool Settings::as_bool() const {
  std::string word = text_;
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (kind_ == Kind::scalar && (word == "true" || word == "yes" || word == "on")) return true;
  if (kind_ == Kind::scalar && (word == "false" || word == "no" || word == "off")) return false;
  fail(fmt::format("expected true or false, got {}", describe(*this)));
}

std::string Settings::as_choice(const std::vector<std::string>& choices) const {
  if (kind_ == Kind::scalar && std::find(choices.begin(), choices.end(), text_) != choices.end()) return text_;
  std::string message = fmt::format("expected one of {}, got {}", fmt::join(choices, ", "), describe(*this));
  const std::string nearest = kind_ == Kind::scalar ? nearest_word(text_, choices) : "";
  if (!nearest.empty()) message += fmt::format("; did you mean \"{}\"?", nearest);
  fail(message);
}

Bytes Settings::as_bytes() const {
  constexpr const char* kExpected = "a size with a unit, as in \"80 GB\" or \"512 MiB\"";
  constexpr std::array<Scale, 1> kBases{{{"B", 1}}};
  const double bytes = read_quantity(*this, kExpected, [&](std::string_view u) { return prefixed_factor(u, kBases); });
  if (bytes > 9e18) fail(fmt::format("expected {} of at most 9e18 bytes, got {}", kExpected, describe(*this)));
  return Bytes(std::llround(bytes));
}

Bandwidth Settings::as_bandwidth() const {
  constexpr const char* kExpected = "a rate with a unit, as in \"400 Gb/s\" (bits) or \"25 GB/s\" (bytes)";
  constexpr std::array<Scale, 5> kBases{{{"B/s", 1}, {"b/s", 0.125}, {"Bps", 1}, {"bps", 0.125}, {"bit/s", 0.125}}};
  const double rate = read_quantity(*this, kExpected, [&](std::string_view u) { return prefixed_factor(u, kBases); });
  if (rate <= 0) fail(fmt::format("expected {} above zero, got {}", kExpected, describe(*this)));
  return Bandwidth(rate);
}

FlopRate Settings::as_flop_rate() const {
  constexpr const char* kExpected = "a compute rate with a unit, as in \"989 TFLOP/s\"";
  constexpr std::array<Scale, 6> kBases{
      {{"FLOP/s", 1}, {"FLOPS", 1}, {"FLOPs", 1}, {"FLOPs/s", 1}, {"flop/s", 1}, {"flops", 1}}};
  const double rate = read_quantity(*this, kExpected, [&](std::string_view u) { return prefixed_factor(u, kBases); });
  if (rate <= 0) fail(fmt::format("expected {} above zero, got {}", kExpected, describe(*this)));
  return FlopRate(rate);
}

Duration Settings::as_duration() const {
  constexpr const char* kExpected = "a time with a unit, as in \"5 us\" or \"1.2 ms\"";
  constexpr double kLongest = 1e18;  // a million seconds: sums of a few stay inside SimTime
  const auto factor_of = [](std::string_view unit) -> std::optional<double> {
    for (const Scale& scale : kTimeUnits) {
      if (scale.name == unit) return scale.factor;
    }
    return std::nullopt;
  };
  const double picoseconds = read_quantity(*this, kExpected, factor_of);
  if (picoseconds > kLongest) {
    fail(fmt::format("expected {} of at most 1000000 s, got {}", kExpected, describe(*this)));
  }
  return Duration(std::llround(picoseconds));
}

double Settings::as_watts() const {
  constexpr std::array<Scale, 1> kBases{{{"W", 1}}};
  return read_quantity(*this, "a power with a unit, as in \"700 W\"",
                       [&](std::string_view u) { return prefixed_factor(u, kBases); });
}

double Settings::as_joules() const {
  constexpr std::array<Scale, 6> kUnits{
      {{"J", 1}, {"mJ", 1e-3}, {"uJ", 1e-6}, {"nJ", 1e-9}, {"pJ", 1e-12}, {"fJ", 1e-15}}};
  const auto factor_of = [&](std::string_view unit) -> std::optional<double> {
    for (const Scale& scale : kUnits)
      if (scale.name == unit) return scale.factor;
    return std::nullopt;
  };
  return read_quantity(*this, "an energy with a unit, as in \"0.9 pJ\"", factor_of);
}

std::int64_t Settings::get_int(std::string_view key, std::int64_t fallback, std::int64_t low, std::int64_t high) const {
  const Settings* member = find(key);
  return member != nullptr ? member->as_int(low, high) : fallback;
}

double Settings::get_number(std::string_view key, double fallback, double low, double high) const {
  const Settings* member = find(key);
  return member != nullptr ? member->as_number(low, high) : fallback;
}

bool Settings::get_bool(std::string_view key, bool fallback) const {
  const Settings* member = find(key);
  return member != nullptr ? member->as_bool() : fallback;
}

std::string Settings::get_text(std::string_view key, std::string fallback) const {
  const Settings* member = find(key);
  if (member == nullptr) return fallback;
  if (!member->is_scalar()) member->fail(fmt::format("expected text, got {}", describe(*member)));
  return member->text();
}

std::string Settings::get_choice(std::string_view key, std::string fallback,
                                 const std::vector<std::string>& choices) const {
  const Settings* member = find(key);
  return member != nullptr ? member->as_choice(choices) : fallback;
}

Duration Settings::get_duration(std::string_view key, Duration fallback) const {
  const Settings* member = find(key);
  return member != nullptr ? member->as_duration() : fallback;
}

Bandwidth Settings::get_bandwidth(std::string_view key, Bandwidth fallback) const {
  const Settings* member = find(key);
  return member != nullptr ? member->as_bandwidth() : fallback;
}

void Settings::refuse_unknown(const std::vector<std::string>& known) const {
  if (kind_ == Kind::null) return;
  if (kind_ != Kind::mapping) fail(fmt::format("expected a mapping, got {}", describe(*this)));
  for (const auto& [name, member] : members()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = nearest_word(name, known);
    member.fail(nearest.empty() ? fmt::format("unknown key; expected one of {}", fmt::join(known, ", "))
                                : fmt::format("unknown key; did you mean \"{}\"?", nearest));
  }
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestWord = 100;  // nobody mistypes more, and the distance is quadratic
  if (word.size() > kLongestWord) return "";
  std::string best;
  // Of two letters one may be wrong, else a third: what is further off is another word.
  const std::size_t most = word.size() < 2 ? 0 : std::max<std::size_t>(word.size() / 3, 1);
  std::size_t best_distance = most + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 2 * kLongestWord) continue;
    const std::size_t distance = edit_distance(word, candidate, best_distance);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

Settings overlay(const Settings& base, const Settings& changes) {
  if (!base.is_mapping() || !changes.is_mapping()) return changes;
  Settings merged = changes;
  for (const auto& [name, member] : base.members()) {
    const auto same = [&key = name](const auto& other) { return other.first == key; };
    const auto change = std::find_if(changes.members().begin(), changes.members().end(), same);
    merged.set(name, change == changes.members().end() ? member : overlay(member, change->second));
  }
  return merged;
}

}  // namespace orrery::sim
