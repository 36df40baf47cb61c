// Values of a recipe in Python. See python_values.h. Left out: integers of more than 64 bits, whose results are
// unknown.
#include "tools/import/python_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tools/import/python_recipe.h"

namespace orrery::tools {

using sim::Settings;

namespace {

struct Number {
  bool whole = false;
  std::int64_t integer = 0;
  double real = 0;
};

/// A number as Python writes it, in base ten.
std::optional<Number> number_of(const Settings& value) {
  if (!value.is_scalar()) return std::nullopt;
  const std::string& text = value.text();
  if (text == "true" || text == "false") return std::nullopt;
  const char* const end = text.data() + text.size();
  Number number{.whole = true};
  if (const auto read = std::from_chars(text.data(), end, number.integer); read.ec == std::errc() && read.ptr == end) {
    number.real = static_cast<double>(number.integer);
    return number;
  }
  number.whole = false;
  if (const auto read = std::from_chars(text.data(), end, number.real); read.ec == std::errc() && read.ptr == end)
    return number;
  return std::nullopt;
}

Settings made(double real, const sim::Place& place) { return Settings::scalar(fmt::format("{:.17g}", real), place); }

std::optional<Settings> whole_result(const Number& a, const std::string& operation, const Number& b,
                                     const sim::Place& place) {
  std::int64_t result = 0;
  bool overflow = false;
  if (operation == "+") overflow = __builtin_add_overflow(a.integer, b.integer, &result);
  if (operation == "-") overflow = __builtin_sub_overflow(a.integer, b.integer, &result);
  if (operation == "*") overflow = __builtin_mul_overflow(a.integer, b.integer, &result);
  if (operation == "//" || operation == "%") {
    if (b.integer <= 0 || a.integer < 0) return std::nullopt;  // signs follow rules of Python's own
    result = operation == "%" ? a.integer % b.integer : a.integer / b.integer;
  }
  if (operation == "**") {
    if (b.integer < 0 || b.integer > 63) return std::nullopt;
    result = 1;
    for (std::int64_t i = 0; i < b.integer; ++i)
      overflow = overflow || __builtin_mul_overflow(result, a.integer, &result);
  }
  if (overflow) return std::nullopt;
  return Settings::scalar(std::to_string(result), place);
}

}  // namespace

Settings python_object(const std::string& target, const sim::Place& place) {
  Settings object = Settings::mapping(place);
  object.set("_target_", Settings::scalar(target.substr(0, 200), place, true));
  return object;
}

std::string python_target(const Settings& value) {
  if (value.is_scalar()) return value.text();
  const Settings* target = value.is_mapping() ? value.find("_target_") : nullptr;
  return target != nullptr && target->is_scalar() ? target->text() : std::string();
}

bool is_python_dict(const Settings& value) { return value.is_mapping() && python_target(value) == "dict"; }

std::optional<std::string> python_key(const Settings& value) {
  if (value.is_scalar() && !value.is_null() && value.text() != "_target_") return value.text();
  if (!value.is_sequence()) return std::nullopt;
  std::string all = "(";
  for (const Settings& item : value.items()) {
    if (!item.is_scalar()) return std::nullopt;
    all += (all.size() == 1 ? "" : ", ") + item.text();
  }
  return all + ")";
}

std::optional<Settings> python_item(const Settings& list, const Settings& place) {
  const std::optional<Number> at = number_of(place);
  if (!list.is_sequence() || !at || !at->whole) return std::nullopt;
  const auto size = static_cast<std::int64_t>(list.items().size());
  const std::int64_t index = at->integer < 0 ? at->integer + size : at->integer;
  if (index < 0 || index >= size) return std::nullopt;
  return list.items()[static_cast<std::size_t>(index)];
}

std::optional<bool> python_truth(const Settings& value) {
  if (value.is_null()) return false;
  if (value.is_sequence()) return !value.items().empty();
  if (value.is_mapping()) return std::nullopt;
  if (value.text() == "true" || value.text() == "false") return value.text() == "true";
  if (const std::optional<Number> number = number_of(value)) return number->real != 0;
  return !value.text().empty();
}

std::optional<Settings> python_compare(const Settings& a, const std::string& operation, const Settings& b) {
  const auto known = [](const Settings& value) { return value.is_scalar() || value.is_null(); };
  const auto answer = [&](bool is) { return Settings::scalar(is ? "true" : "false", a.place()); };
  if (operation == "in" || operation == "not in") {
    if (!known(a) || !b.is_sequence()) return std::nullopt;
    bool found = false;
    for (const Settings& item : b.items()) {
      if (!known(item)) return std::nullopt;
      found = found || (item.kind() == a.kind() && item.text() == a.text());
    }
    return answer(found == (operation == "in"));
  }
  // An object is not None, whatever it is; what only a run can say may be.
  if (!known(a) || !known(b)) return std::nullopt;
  const std::optional<Number> x = number_of(a), y = number_of(b);
  const bool same = x && y ? x->real == y->real : a.kind() == b.kind() && a.text() == b.text();
  if (operation == "==" || operation == "is") return answer(same);
  if (operation == "!=" || operation == "is not") return answer(!same);
  if (!x || !y) return std::nullopt;
  if (operation == "<") return answer(x->real < y->real);
  if (operation == "<=") return answer(x->real <= y->real);
  if (operation == ">") return answer(x->real > y->real);
  return answer(x->real >= y->real);
}

std::optional<Settings> python_compute(const Settings& a, const std::string& operation, const Settings& b) {
  const std::optional<Number> x = number_of(a), y = number_of(b);
  if (a.is_sequence() && operation == "+" && b.is_sequence() &&
      a.items().size() + b.items().size() < kMostPythonValues) {
    Settings both = a;
    for (const Settings& item : b.items()) both.append(item);
    return both;
  }
  if (a.is_sequence() && operation == "*" && y && y->whole && y->integer >= 0 &&
      static_cast<std::int64_t>(a.items().size()) * std::min<std::int64_t>(y->integer, kMostPythonValues) <
          static_cast<std::int64_t>(kMostPythonValues)) {
    Settings all = Settings::sequence(a.place());
    for (std::int64_t i = 0; i < y->integer && !a.items().empty(); ++i)
      for (const Settings& item : a.items()) all.append(item);
    return all;
  }
  if (operation == "+" && a.is_scalar() && b.is_scalar() && !x && !y && a.text().size() + b.text().size() < 4096)
    return Settings::scalar(a.text() + b.text(), a.place(), true);
  if (!x || !y) return std::nullopt;
  if (x->whole && y->whole && operation != "/") return whole_result(*x, operation, *y, a.place());
  if (operation == "+") return made(x->real + y->real, a.place());
  if (operation == "-") return made(x->real - y->real, a.place());
  if (operation == "*") return made(x->real * y->real, a.place());
  if (operation == "/" && y->real != 0) return made(x->real / y->real, a.place());
  return std::nullopt;
}

namespace {

/// How many values a value holds; counting ends at `most`.
std::size_t python_size(const Settings& value, std::size_t most) {
  std::size_t size = 1;
  if (value.is_mapping()) {
    for (const auto& [key, member] : value.members()) {
      if (size >= most) break;
      size += python_size(member, most - size);
    }
  }
  if (value.is_sequence()) {
    for (const Settings& item : value.items()) {
      if (size >= most) break;
      size += python_size(item, most - size);
    }
  }
  return size;
}

bool deeper_than(const Settings& value, int depth) {
  if (depth == 0) return true;
  if (value.is_mapping()) {
    for (const auto& [key, member] : value.members()) {
      if (deeper_than(member, depth - 1)) return true;
    }
  }
  if (value.is_sequence()) {
    for (const Settings& item : value.items()) {
      if (deeper_than(item, depth - 1)) return true;
    }
  }
  return false;
}

}  // namespace

Settings python_trimmed(Settings value) {
  constexpr int kDeepest = 20;
  if (!deeper_than(value, kDeepest) && python_size(value, kMostPythonValues) < kMostPythonValues) return value;
  return python_object(python_target(value), value.place());
}

void python_assign(Settings& object, const std::string& path, Settings value) {
  constexpr int kDeepest = 16;
  const sim::Place place = value.place();
  int depth = 1;
  // What stands in the way of the path becomes an object of the name that it had.
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
    if (++depth > kDeepest) throw sim::UserError(place, "python", "got a path of more than 16 names, expected fewer");
    const std::string ahead = path.substr(0, dot);
    const Settings* there = object.find_path(ahead);
    if (there == nullptr || !there->is_mapping())
      object.set_path(ahead, python_object(there != nullptr ? python_target(*there) : ahead, place));
  }
  object.set_path(path, std::move(value));
  if (python_size(object, kMostPythonValues) >= kMostPythonValues)
    throw sim::UserError(place, "python",
                         fmt::format("makes an object of {} values and more, expected fewer", kMostPythonValues));
}

}  // namespace orrery::tools
