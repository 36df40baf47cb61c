// The walk over a document by its table. Left out: what holds between keys, which only the readers know.
#include "sim/keys.h"

#include <algorithm>
#include <utility>

#include "sim/long_time.h"

namespace orrery::sim {

namespace {

bool is_quantity(std::string_view unit) {
  return unit == "bytes" || unit == "bytes/s" || unit == "FLOP/s" || unit == "s" || unit == "W" || unit == "J" ||
         unit == "time";
}

/// Whether a row speaks of numbers: those of a list may be plain or quantities.
bool is_number(const Key& key) { return key.type == "integer" || key.type == "number" || key.type == "quantity"; }

double quantity_of(const Settings& value, std::string_view unit) {
  if (unit == "bytes") return static_cast<double>(value.as_bytes().value());
  if (unit == "bytes/s") return value.as_bandwidth().value();
  if (unit == "FLOP/s") return value.as_flop_rate().value();
  if (unit == "time") return as_long_time(value);
  if (unit == "W") return value.as_watts();
  if (unit == "J") return value.as_joules();
  SIM_CHECK(unit == "s", "a quantity in {}", unit);
  return static_cast<double>(value.as_duration().value());
}

double number_of(const Settings& value, const Key& key) {
  if (key.type == "quantity" || (key.type == "list" && is_quantity(key.unit))) return quantity_of(value, key.unit);
  if (key.type == "integer") return static_cast<double>(value.as_int());
  return value.as_number();
}

}  // namespace

std::string text(const Bounds& bounds) {
  if (bounds.high.empty()) return bounds.low.empty() ? "" : fmt::format("at least {}", bounds.low);
  if (bounds.low.empty()) return fmt::format("at most {}", bounds.high);
  return fmt::format("{} to {}", bounds.low, bounds.high);
}

KeyTable::KeyTable(std::vector<Key> rows, std::string absent_word)
    : rows_(std::move(rows)), absent_word_(std::move(absent_word)) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Key& key = rows_[i];
    SIM_CHECK(row_of_.emplace(key.path, i).second, "two rows for the key {}", key.path);
    Range range;
    const auto bound = [&](std::string_view text, double& into) {
      if (!text.empty()) into = number_of(Settings::scalar(std::string(text), Place{key.path, 0, 0}), key);
    };
    bound(key.bounds.low, range.low);
    bound(key.bounds.high, range.high);
    ranges_.push_back(range);
    // Every part of the path is a name below the parts ahead of it.
    for (std::size_t from = 0; from <= key.path.size();) {
      const std::size_t dot = std::min(key.path.find('.', from), key.path.size());
      std::string name = key.path.substr(from, dot - from);
      if (name.ends_with("[]")) name.resize(name.size() - 2);
      std::vector<std::string>& known = names_[key.path.substr(0, from == 0 ? 0 : from - 1)];
      if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(std::move(name));
      from = dot + 1;
    }
  }
}

const Key* KeyTable::find(std::string_view path) const {
  const auto at = row_of_.find(path);
  return at != row_of_.end() ? &rows_[at->second] : nullptr;
}

const std::vector<std::string>& KeyTable::names_below(std::string_view path) const {
  static const std::vector<std::string> kNone;
  const auto at = names_.find(path);
  return at != names_.end() ? at->second : kNone;
}

void KeyTable::refuse_misplaced(const Settings& document, const std::vector<std::string>& known) const {
  for (const auto& [name, member] : document.members()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string ending = "." + name;
    std::vector<std::string> meant;
    for (const Key& key : rows_) {
      const bool fits = key.path.ends_with(ending) && key.path.find_first_of("[*") == std::string::npos;
      if (fits && meant.size() < 3) meant.push_back("\"" + key.path + "\"");
    }
    if (!meant.empty()) member.fail(fmt::format("unknown key; did you mean {}?", fmt::join(meant, " or ")));
  }
}

void KeyTable::check(const Settings& document, std::string_view path) const {
  if (!document.is_mapping()) return;
  const std::vector<std::string>& known = names_below(path);
  if (known.empty()) return;
  const bool free = std::find(known.begin(), known.end(), "*") != known.end();
  if (!free) {
    refuse_misplaced(document, known);
    document.refuse_unknown(known);
  }
  const std::string prefix = path.empty() ? "" : std::string(path) + ".";
  for (const auto& [name, member] : document.members()) {
    const bool named = !free || std::find(known.begin(), known.end(), name) != known.end();
    check_member(member, prefix + (named ? name : "*"));
  }
}

void KeyTable::check_member(const Settings& value, const std::string& path) const {
  if (is_absent(value)) return;
  const auto at = row_of_.find(path);
  if (value.is_mapping()) {
    if (at == row_of_.end() || rows_[at->second].type != "name") check(value, path);
    return;
  }
  if (value.is_sequence()) {
    const bool list = at != row_of_.end() && rows_[at->second].type == "list";
    const std::string of_item = path + "[]";
    for (const Settings& item : value.items()) {
      if (item.is_mapping())
        check(item, of_item);
      else if (list && item.is_scalar())
        check_scalar(item, at->second);  // not looked up again: tables of times hold thousands
      else if (list)
        check_member(item, path);
    }
    return;
  }
  if (at != row_of_.end()) check_scalar(value, at->second);
}

bool KeyTable::is_absent(const Settings& value) const {
  return value.is_null() || (value.is_scalar() && !absent_word_.empty() && value.text() == absent_word_);
}

void KeyTable::check_scalar(const Settings& value, std::size_t row) const {
  const Key& key = rows_[row];
  const bool numbers = is_number(key) || (key.type == "list" && key.bounds.given());
  if (numbers && !is_absent(value)) check_number(value, row);
}

void KeyTable::check_number(const Settings& value, std::size_t row) const {
  const double number = number_of(value, rows_[row]);
  if (number >= ranges_[row].low && number <= ranges_[row].high) return;
  value.fail(fmt::format("got {}, expected {}", value.text(), text(rows_[row].bounds)));
}

}  // namespace orrery::sim
