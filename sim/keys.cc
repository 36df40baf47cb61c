// The walk over a document by its table. Left out: what holds between keys, which only the readers know.
#include "sim/keys.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "sim/long_time.h"

namespace orrery::sim {

namespace {

bool is_quantity(std::string_view unit) {
  return unit == "bytes" || unit == "bytes/s" || unit == "FLOP/s" || unit == "s" || unit == "W" || unit == "J" ||
         unit == "time";
}

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

}  // namespace

std::string text(const Bounds& bounds) {
  if (bounds.high.empty()) return bounds.low.empty() ? "" : fmt::format("at least {}", bounds.low);
  if (bounds.low.empty()) return fmt::format("at most {}", bounds.high);
  return fmt::format("{} to {}", bounds.low, bounds.high);
}

KeyTable::KeyTable(std::vector<Key> rows, std::string absent_word)
    : rows_(std::move(rows)), absent_word_(std::move(absent_word)) {
  row_of_.reserve(rows_.size());
  rules_.reserve(rows_.size());
  std::unordered_set<std::string_view> listed;
  listed.reserve(2 * rows_.size());
  names_.reserve(rows_.size() / 4);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    SIM_CHECK(row_of_.emplace(rows_[i].path, i).second, "two rows for the key {}", rows_[i].path);
    rules_.push_back(rule_of(rows_[i]));
    list_names(rows_[i].path, listed);
  }
  read_bounds();
}

KeyTable::Rule KeyTable::rule_of(const Key& key) {
  Rule rule;
  rule.list = key.type == "list";
  rule.name = key.type == "name";
  if (key.type == "integer") rule.form = Form::integer;
  if (key.type == "number") rule.form = Form::number;
  // Items of a list may be plain or quantities.
  if (key.type == "quantity") rule.form = Form::quantity;
  if (rule.list && key.bounds.given()) rule.form = is_quantity(key.unit) ? Form::quantity : Form::number;
  return rule;
}

/// Hundreds of rows have the same few bounds, each of which is read once.
void KeyTable::read_bounds() {
  struct Known {
    Form form;
    std::string_view unit;
    double value;
  };
  std::unordered_multimap<std::string_view, Known> known;  // by text
  known.reserve(rows_.size() / 2);
  const Place here{"a table of keys", 0, 0};
  const Key* before = nullptr;  // rows that stand together are often alike
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Key& key = rows_[i];
    Rule& rule = rules_[i];
    const Form form = rule.form == Form::other ? Form::number : rule.form;
    if (before != nullptr && rules_[i - 1].form == rule.form && before->bounds.low == key.bounds.low &&
        before->bounds.high == key.bounds.high && before->unit == key.unit) {
      rule.low = rules_[i - 1].low;
      rule.high = rules_[i - 1].high;
      continue;
    }
    before = &key;
    const auto bound = [&](std::string_view text, double& into) {
      if (text.empty()) return;
      const auto [begin, end] = known.equal_range(text);
      const auto at = std::find_if(
          begin, end, [&](const auto& one) { return one.second.form == form && one.second.unit == key.unit; });
      if (at != end) {
        into = at->second.value;
        return;
      }
      try {
        into = number_of(Settings::scalar(std::string(text), here), form, key.unit);
      } catch (const UserError& error) {
        SIM_CHECK(false, "the bounds of {}: {}", key.path, error.what());
      }
      known.emplace(text, Known{form, key.unit, into});
    };
    bound(key.bounds.low, rule.low);
    bound(key.bounds.high, rule.high);
  }
}

/// Every part of a path is a name below the parts ahead of it. `listed`: paths of the names that are.
void KeyTable::list_names(std::string_view path, std::unordered_set<std::string_view>& listed) {
  // Where anything lies below its last but one part already, the parts ahead have been listed.
  const std::size_t last = path.rfind('.');
  const bool above = last != std::string_view::npos && names_.contains(path.substr(0, last));
  for (std::size_t from = above ? last + 1 : 0; from <= path.size();) {
    const std::size_t dot = std::min(path.find('.', from), path.size());
    std::string_view name = path.substr(from, dot - from);
    if (name.ends_with("[]")) name.remove_suffix(2);
    if (listed.insert(path.substr(0, from + name.size())).second)
      names_[path.substr(0, from == 0 ? 0 : from - 1)].emplace_back(name);
    from = dot + 1;
  }
}

double KeyTable::number_of(const Settings& value, Form form, std::string_view unit) {
  if (form == Form::quantity) return quantity_of(value, unit);
  if (form == Form::integer) return static_cast<double>(value.as_int());
  return value.as_number();
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
    if (at == row_of_.end() || !rules_[at->second].name) check(value, path);
    return;
  }
  if (value.is_sequence()) {
    const bool list = at != row_of_.end() && rules_[at->second].list;
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
  const Rule& rule = rules_[row];
  if (rule.form == Form::other || is_absent(value)) return;
  const double number = number_of(value, rule.form, rows_[row].unit);
  if (number >= rule.low && number <= rule.high) return;
  value.fail(fmt::format("got {}, expected {}", value.text(), text(rows_[row].bounds)));
}

}  // namespace orrery::sim
