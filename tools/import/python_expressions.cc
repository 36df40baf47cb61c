// The values of expressions in a Python file. See python_expressions.h. Left out: sets, slices and comprehensions,
// whose values are unknown.
#include "tools/import/python_expressions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <set>

#include "tools/import/python_recipe.h"
#include "tools/import/python_values.h"

namespace orrery::tools {

using sim::Settings;

bool is_python_recipe(const Settings& value) {
  if (!value.is_mapping()) return false;
  const std::string target = python_target(value);
  const std::string name = target.substr(target.rfind('.') + 1);
  const bool library = name.starts_with("pretrain_recipe") || name.starts_with("finetune_recipe") ||
                       (name.ends_with("_config") &&
                        (name.find("pretrain") != std::string::npos || name.find("finetune") != std::string::npos ||
                         name.find("_sft") != std::string::npos || name.find("_peft") != std::string::npos));
  const auto has = [&](const char* key) { return value.find(key) != nullptr; };
  const bool titan = target.ends_with("Trainer.Config") || name.ends_with("TrainerConfig") || name == "JobConfig" ||
                     target.find(".config_registry.") != std::string::npos;  // TorchTitan's
  return library || titan || name == "ConfigContainer" || name.ends_with("_common") ||
         (has("model") && (has("trainer") || has("train")));
}

Settings PythonExpressions::unknown(std::size_t begin) const {
  std::string text;
  for (std::size_t i = begin; i < at_ && text.size() < 60; ++i) text += (text.empty() ? "" : " ") + tokens_[i].text;
  return python_object(text, tokens_[begin].place);
}

Settings PythonExpressions::lookup(const std::string& name, const Scope& scope, const sim::Place& place) {
  if (const auto found = scope.find(name); found != scope.end()) return found->second;
  if (const auto found = globals_.find(name); found != globals_.end()) return found->second;
  if (std::optional<Settings> found = imports(name)) return *found;
  return python_object(name, place);
}

Settings PythonExpressions::expression(Scope& scope) {
  if (++depth_ > kDeepestExpression) broken("expressions that nest less deep");
  const std::size_t begin = at_;
  Settings value = is("lambda") ? (skip_to({","}), unknown(begin)) : logical(scope);
  if (take("if")) {
    const std::optional<bool> holds = python_truth(logical(scope));
    need("else");
    Settings other = expression(scope);
    if (holds && !*holds) value = std::move(other);
    if (!holds) value = unknown(begin);
  }
  if (is("for") || is("async") || is(":=")) {
    skip_to({});
    value = unknown(begin);
  }
  --depth_;
  return value;
}

Settings PythonExpressions::logical(Scope& scope) {
  const std::size_t begin = at_;
  if (take("not")) {
    if (++depth_ > kDeepestExpression) broken("expressions that nest less deep");
    const std::optional<bool> holds = python_truth(logical(scope));
    --depth_;
    return holds ? Settings::scalar(*holds ? "false" : "true", tokens_[begin].place) : unknown(begin);
  }
  Settings value = comparison(scope);
  while (is("and") || is("or")) {
    const bool both = is("and");
    step();
    const std::optional<bool> holds = python_truth(value);
    Settings other = is("not") ? logical(scope) : comparison(scope);
    if (!holds)
      value = unknown(begin);
    else if (*holds == both)
      value = std::move(other);
  }
  return value;
}

Settings PythonExpressions::comparison(Scope& scope) {
  const std::size_t begin = at_;
  Settings value = sum(scope);
  for (;;) {
    std::string operation = now().kind == Kind::operation || now().kind == Kind::name ? now().text : "";
    static const std::set<std::string> kSigns{"==", "!=", "<", "<=", ">", ">=", "is", "in", "not"};
    if (!kSigns.contains(operation)) return value;
    step();
    if (operation == "not") {
      need("in");
      operation = "not in";
    } else if (operation == "is" && take("not")) {
      operation = "is not";
    }
    const Settings other = sum(scope);
    std::optional<Settings> result = python_compare(value, operation, other);
    const std::optional<std::string> key = python_key(value);
    if ((operation == "in" || operation == "not in") && key && is_python_dict(other)) {
      const bool held = other.find(*key) != nullptr;
      result = Settings::scalar(held == (operation == "in") ? "true" : "false", tokens_[begin].place);
    }
    value = result ? *result : unknown(begin);
  }
}

Settings PythonExpressions::sum(Scope& scope) {
  const std::size_t begin = at_;
  Settings value = product(scope);
  while (is("+") || is("-") || is("|") || is("&") || is("^") || is("<<") || is(">>")) {
    const std::string operation = now().text;
    step();
    const std::optional<Settings> result = python_compute(value, operation, product(scope));
    value = result && (operation == "+" || operation == "-") ? *result : unknown(begin);
  }
  return value;
}

Settings PythonExpressions::product(Scope& scope) {
  const std::size_t begin = at_;
  Settings value = signed_value(scope);
  while (is("*") || is("/") || is("//") || is("%") || is("@")) {
    const std::string operation = now().text;
    step();
    const std::optional<Settings> result =
        operation == "@" ? std::nullopt : python_compute(value, operation, signed_value(scope));
    if (operation == "@") signed_value(scope);
    value = result ? *result : unknown(begin);
  }
  return value;
}

Settings PythonExpressions::signed_value(Scope& scope) {
  const std::size_t begin = at_;
  bool minus = false, other = false;
  while (is("-") || is("+") || is("~") || is("await")) {
    minus = minus != is("-");
    other = other || is("~") || is("await");
    step();
  }
  const bool sign = at_ != begin;
  Settings value = postfix(scope);
  if (take("**")) {
    if (++depth_ > kDeepestExpression) broken("expressions that nest less deep");
    const std::optional<Settings> result = python_compute(value, "**", signed_value(scope));
    --depth_;
    value = result ? *result : unknown(begin);
  }
  if (!sign) return value;
  const std::optional<Settings> result =
      python_compute(Settings::scalar("0", tokens_[begin].place), minus ? "-" : "+", value);
  return result && !other ? *result : unknown(begin);
}

Settings PythonExpressions::postfix(Scope& scope) {
  const std::size_t begin = at_;
  std::string path = now().kind == Kind::name ? now().text : "";
  Settings value = atom(scope);
  for (;;) {
    if (take(".")) {
      if (now().kind != Kind::name) broken("a name");
      const std::string name = now().text;
      step();
      if (!path.empty()) path += "." + name;
      const bool folds = name == "lower" && value.is_scalar() && is("(") && tokens_[at_ + 1].is(")");
      if (folds) {
        std::string text = value.text();
        std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
        value = Settings::scalar(std::move(text), value.place(), true);
        step();
        step();
        path.clear();
        continue;
      }
      const Settings* member = value.is_mapping() ? value.find(name) : nullptr;
      value = member != nullptr ? Settings(*member) : attribute(value, name);
    } else if (is("(")) {
      value = called(value, path, scope);
      path.clear();
    } else if (is("[")) {
      value = subscript(value, begin, scope);
      path.clear();
    } else {
      return value;
    }
  }
}

Settings PythonExpressions::attribute(const Settings& value, const std::string& name) const {
  Settings result = python_object(python_target(value) + "." + name, now().place);
  if (const Settings* arguments = value.is_mapping() ? value.find("_args_") : nullptr; arguments != nullptr)
    result.set("_args_", *arguments);
  return result;
}

Settings PythonExpressions::atom(Scope& scope) {
  const PythonToken token = now();
  switch (token.kind) {
    case Kind::number:
      step();
      return Settings::scalar(token.text, token.place);
    case Kind::opaque:
    case Kind::string: {
      std::string text;
      bool known = true;
      for (; now().kind == Kind::string || now().kind == Kind::opaque; step()) {
        known = known && now().kind == Kind::string;
        text += now().text;
      }
      if (!known) return python_object("text", token.place);
      return Settings::scalar(std::move(text), token.place, true);
    }
    case Kind::name:
      step();
      if (token.text == "True" || token.text == "False")
        return Settings::scalar(token.text == "True" ? "true" : "false", token.place);
      if (token.text == "None") return Settings::scalar("null", token.place);
      return lookup(token.text, scope, token.place);
    default:
      break;
  }
  if (is("...")) {
    step();
    return python_object("...", token.place);
  }
  if (is("(") || is("[")) return list(scope);
  if (is("{")) return braces(scope);
  if (is("*") || is("**")) broken("a value");
  broken("a value");
}

Settings PythonExpressions::list(Scope& scope) {
  const std::size_t begin = at_;
  // [list(x) for x in all], which copies.
  static constexpr std::array<const char*, 10> kCopy{"[", "list", "(", "", ")", "for", "", "in", "", "]"};
  bool copies = at_ + kCopy.size() < tokens_.size();
  for (std::size_t i = 0; copies && i < kCopy.size(); ++i)
    copies = kCopy[i][0] == '\0' ? tokens_[at_ + i].kind == Kind::name : tokens_[at_ + i].is(kCopy[i]);
  if (copies && tokens_[at_ + 3].text == tokens_[at_ + 6].text) {
    const Settings all = lookup(tokens_[at_ + 8].text, scope, tokens_[begin].place);
    for (std::size_t i = 0; i < kCopy.size(); ++i) step();
    return all;
  }
  const bool round = is("(");
  step();
  Settings items = Settings::sequence(tokens_[begin].place);
  bool comma = false;
  while (!is(")") && !is("]")) {
    take("*");
    Settings item = expression(scope);
    items.append(python_trimmed(std::move(item)));
    if (items.items().size() > kMostPythonValues) broken("a shorter list");
    if (!take(",")) break;
    comma = true;
  }
  if (!is(")") && !is("]")) broken("a comma");
  step();
  return round && !comma && items.items().size() == 1 ? Settings(items.items().front()) : items;
}

Settings PythonExpressions::braces(Scope& scope) {
  const std::size_t begin = at_;
  const int depth = depth_;
  try {
    step();
    Settings all = python_object("dict", tokens_[begin].place);
    bool known = true;
    while (!is("}") && known) {
      if (take("**")) {
        const Settings more = expression(scope);
        known = is_python_dict(more);
        for (std::size_t i = 1; known && i < more.members().size(); ++i)
          all.set(more.members()[i].first, more.members()[i].second);
      } else {
        const std::optional<std::string> key = python_key(expression(scope));
        known = key && take(":");
        if (known) all.set(*key, python_trimmed(expression(scope)));
      }
      known = known && (take(",") || is("}")) && all.members().size() < kMostPythonValues;
    }
    if (known && take("}")) return all;
  } catch (const sim::UserError&) {  // a comprehension, a set, or more than is looked into
  }
  depth_ = depth;
  at_ = begin;
  skip_brackets();
  return unknown(begin);
}

Settings PythonExpressions::subscript(const Settings& value, std::size_t begin, Scope& scope) {
  const std::size_t open = at_;
  const int depth = depth_;
  try {
    step();
    Settings key = expression(scope);
    if (is(",")) {
      Settings several = Settings::sequence(key.place());
      several.append(std::move(key));
      while (take(",")) several.append(expression(scope));
      key = std::move(several);
    }
    if (take("]")) {
      const std::optional<std::string> word = python_key(key);
      if (word && is_python_dict(value))
        if (const Settings* held = value.find(*word); held != nullptr) return *held;
      if (std::optional<Settings> item = python_item(value, key)) return *item;
      if (word && value.is_mapping()) return python_object(python_target(value) + "[" + *word + "]", key.place());
      return unknown(begin);
    }
  } catch (const sim::UserError&) {  // slices
  }
  depth_ = depth;
  at_ = open;
  skip_brackets();
  return unknown(begin);
}

std::string PythonExpressions::dotted_argument() const {
  std::string path;
  std::size_t word = at_;
  for (; word + 1 < tokens_.size() && tokens_[word].kind == Kind::name; word += 2) {
    path += (path.empty() ? "" : ".") + tokens_[word].text;
    if (!tokens_[word + 1].is(".")) break;
  }
  const bool ends = word + 1 < tokens_.size() && (tokens_[word + 1].is(",") || tokens_[word + 1].is(")"));
  return ends ? path : "";
}

PythonExpressions::Arguments PythonExpressions::arguments(Scope& scope) {
  Arguments given;
  need("(");
  while (!is(")")) {
    if (now().kind == Kind::end) broken(")");
    const bool spread = take("**") || take("*");
    const bool named = now().kind == Kind::name && tokens_[at_ + 1].is("=");
    const std::string name = now().text;
    if (named) {
      step();
      step();
    }
    const std::string path = dotted_argument();
    Settings value = python_trimmed(expression(scope));
    if (named) {
      given.named[name] = std::move(value);
    } else if (!spread) {
      given.in_order.push_back(std::move(value));
      given.paths.push_back(path);
    }
    if (!take(",") && !is(")")) broken("a comma");
  }
  step();
  return given;
}

std::optional<Settings> PythonExpressions::asked(const std::string& path, const Arguments& given,
                                                 const sim::Place& place) const {
  if (given.in_order.size() < 2) return std::nullopt;
  const Settings &value = given.in_order[0], &what = given.in_order[1];
  const auto answer = [&](bool holds) { return Settings::scalar(holds ? "true" : "false", place); };
  // Of objects only a run knows the classes, and the attributes that nobody set here.
  if (path == "isinstance" && value.is_scalar() && !value.is_null()) {
    const std::string type = python_target(what);
    const bool text = python_truth(value).has_value() &&
                      value.text().find_first_not_of("0123456789.-+eE") != std::string::npos &&
                      value.text() != "true" && value.text() != "false";
    if (type == "str" || (!type.empty() && text)) return answer(type == "str" && text);
    return std::nullopt;
  }
  const Settings* member = value.is_mapping() && what.is_scalar() ? value.find(what.text()) : nullptr;
  if (path == "hasattr" && member != nullptr) return answer(true);
  if (path == "getattr" && member != nullptr) return *member;
  return std::nullopt;
}

Settings PythonExpressions::called(const Settings& callee, const std::string& path, Scope& scope) {
  const sim::Place place = now().place;
  Arguments given = arguments(scope);
  const std::string target = python_target(callee), name = target.substr(target.rfind('.') + 1);
  if (path.ends_with(".append") && given.in_order.size() == 1) {
    append(path.substr(0, path.size() - 7), given.in_order[0], scope);
    return Settings::scalar("null", place);
  }
  if (std::optional<Settings> known = asked(path, given, place)) return *known;
  if (given.in_order.size() == 1 && given.named.empty() && given.in_order[0].is_sequence()) {
    if (path == "list" || path == "tuple") return given.in_order[0];
    if (path == "len") return Settings::scalar(std::to_string(given.in_order[0].items().size()), place);
  }
  // Megatron-Bridge's, which of two names it writes hangs on the release of Megatron-Core that runs.
  const bool graphs = path == "set_cuda_graph_modules" && given.in_order.size() == 2;
  // TorchTitan's, which makes each layer of a model from its flavour: what it was asked for says as much.
  const bool registry = path == "model_registry";
  if (graphs || (!registry && defines(path) && !scope.contains(path))) {
    Settings result = graphs ? Settings::scalar("null", place) : run(path, given.in_order, given.named, place);
    if (graphs && given.in_order[0].is_mapping()) {
      python_assign(given.in_order[0], "cuda_graph_modules", given.in_order[1]);
      python_assign(given.in_order[0], "cuda_graph_scope", Settings::scalar("null", place));
    }
    for (std::size_t i = 0; i < given.paths.size(); ++i) {
      const std::size_t dot = given.paths[i].find('.');
      const auto variable = scope.find(given.paths[i].substr(0, dot));
      if (variable == scope.end()) continue;
      if (dot == std::string::npos)
        variable->second = given.in_order[i];
      else if (variable->second.is_mapping() && given.in_order[i].is_mapping())
        python_assign(variable->second, given.paths[i].substr(dot + 1), given.in_order[i]);
    }
    return result;
  }
  const bool wraps =
      target == "run.Config" || target == "run.Partial" || name == "partial" || name == "Config" || name == "Partial";
  const bool copies = name == "replace" || name == "deepcopy";
  // A function of another file that is handed a recipe most often hands it back, changed.
  const bool keeps =
      !given.in_order.empty() && is_python_recipe(given.in_order[0]) && path.find('.') == std::string::npos;
  // What starts the job is handed it as well.
  const bool starts = name == "pretrain" || name == "finetune" || name == "run";
  if (keeps && !copies && !starts)
    remarks_.push_back(fmt::format("line {}: what {}(...) changes is not in this file", place.line, path));
  Settings object = given.in_order.empty() || !(copies || keeps) ? python_object(target, place) : given.in_order[0];
  if (!object.is_mapping()) object = python_object(target, place);
  if (wraps && !given.in_order.empty())
    object.set("_target_", Settings::scalar(python_target(given.in_order[0]), place, true));
  if (const Settings* earlier = callee.is_mapping() ? callee.find("_args_") : nullptr; earlier != nullptr)
    object.set("_args_", *earlier);
  else if (!given.in_order.empty() && !wraps && !copies && !keeps)
    object.set("_args_", sequence_of(given.in_order, place));
  if (!keeps || copies) {
    for (auto& [key, value] : given.named) object.set(key, std::move(value));
  }
  return python_trimmed(std::move(object));
}

Settings PythonExpressions::sequence_of(const std::vector<Settings>& values, const sim::Place& place) {
  Settings items = Settings::sequence(place);
  for (const Settings& value : values) items.append(value);
  return items;
}

void PythonExpressions::append(const std::string& path, const Settings& item, Scope& scope) {
  const std::size_t dot = path.find('.');
  const auto held = scope.find(path.substr(0, dot));
  if (held == scope.end()) return;
  const std::string inner = dot == std::string::npos ? "" : path.substr(dot + 1);
  const Settings* there = held->second.is_mapping() || inner.empty() ? held->second.find_path(inner) : nullptr;
  Settings items = there != nullptr && there->is_sequence() ? *there : Settings::sequence(item.place());
  if (items.items().size() >= 100) return;
  items.append(item);
  if (inner.empty())
    held->second = python_trimmed(std::move(items));
  else if (held->second.is_mapping())
    python_assign(held->second, inner, python_trimmed(std::move(items)));
}

}  // namespace orrery::tools
