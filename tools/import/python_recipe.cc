// Follows a recipe in Python. See python_recipe.h. Objects are values here: two names of one object are two objects,
// but for a function's arguments, whose changes are handed back. Left out: classes, comprehensions, exceptions, and
// what other files define.
#include "tools/import/python_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/import/python_expressions.h"
#include "tools/import/python_tokens.h"
#include "tools/import/python_values.h"

namespace orrery::tools {

using sim::Settings;

namespace {

constexpr int kDeepestCall = 16;

struct Parameter {
  std::string name;
  std::size_t fallback = 0;  // word at which its default begins; 0: none
};
struct Function {
  std::vector<Parameter> parameters;
  std::size_t begin = 0, end = 0;  // words of its body
};

class Interpreter final : PythonExpressions {
 public:
  explicit Interpreter(std::vector<PythonToken> tokens) : PythonExpressions(std::move(tokens)) {}

  /// `parts`: words of the modules that it imports, each behind those that it imports itself, and of the file, the
  /// last.
  PythonRecipe recipe(const std::string& file, const std::string& wanted,
                      const std::vector<std::pair<std::size_t, std::size_t>>& parts);

 private:
  std::string names() const {
    std::vector<std::string> all;
    for (const auto& [name, function] : functions_) all.push_back(name);
    return all.empty() ? "the file's functions, of which it has none" : fmt::format("{}", fmt::join(all, ", "));
  }

  void read_modules(const std::vector<std::pair<std::size_t, std::size_t>>& parts);

  // --- statements --------------------------------------------------------------------------------------------------
  /// Follows the statements of a block; what it returns, if it does.
  std::optional<Settings> block(std::size_t begin, std::size_t end, Scope& scope, const std::string& function);

  std::optional<Settings> statement(Scope& scope, const std::string& function);

  std::optional<Settings> nested(std::pair<std::size_t, std::size_t> words, Scope& scope, const std::string& function) {
    const std::size_t behind = at_;
    if (++blocks_ > kDeepestExpression)
      throw sim::UserError(now().place, "python", "nests too deep, expected a recipe");
    ++scope_depth_;
    std::optional<Settings> result = block(words.first, words.second, scope, function);
    --scope_depth_;
    --blocks_;
    at_ = behind;
    return result;
  }

  /// `from a.b import c as d` names a.b.c.
  void imported(Scope& scope);
  void define();

  std::optional<Settings> condition(Scope& scope, const std::string& function);

  void loop() {
    remarks_.push_back(fmt::format("line {}: a loop, which is not followed", now().place.line));
    skip_to({":"});
    body();
    if (is("else")) {
      step();
      body();
    }
  }

  /// `a.b = value`, `a: type = value`, or an expression alone.
  void assignment_or_call(Scope& scope);

  /// To the dotted name that the words up to `sign` are; to nothing where they are something else.
  void assign(std::size_t begin, std::size_t sign, Settings value, Scope& scope);

  /// With its defaults.
  void call(const std::string& name) {
    std::vector<Settings> none;
    run(name, none, {}, {});
  }
  bool defines(const std::string& name) const override { return functions_.contains(name); }

  Settings run(const std::string& name, std::vector<Settings>& in_order, const Scope& named,
               const sim::Place& place) override;

  /// Where the file's main part makes no recipe: its functions, each with its defaults.
  void try_functions();

  int calls_ = 0, blocks_ = 0, writes_ = 0;
  std::map<std::string, int> written_;  // variables: which write was their last; 0: imported alone
  int scope_depth_ = 0;                 // blocks within the body of a function or file
  bool ambiguous_ = false;
  std::map<std::string, Function> functions_;
  std::set<std::string> called_;
  std::set<std::string> of_modules_;                     // functions that other files define
  std::vector<std::pair<std::string, Settings>> found_;  // by which function
};

void Interpreter::read_modules(const std::vector<std::pair<std::size_t, std::size_t>>& parts) {
  for (const auto& [begin, end] : parts) {
    block(begin, end, globals_, "");
    for (const auto& [name, function] : functions_) of_modules_.insert(name);
  }
  found_.clear();
  remarks_.clear();
  written_.clear();
}

PythonRecipe Interpreter::recipe(const std::string& file, const std::string& wanted,
                                 const std::vector<std::pair<std::size_t, std::size_t>>& parts) {
  read_modules({parts.begin(), parts.end() - 1});
  block(parts.back().first, parts.back().second, globals_, "");
  if (!wanted.empty()) {
    if (!functions_.contains(wanted)) {
      throw sim::UserError({file, 1, 1}, "recipe", fmt::format("got {}, expected one of {}", wanted, names()));
    }
    found_.clear();
    call(wanted);
  }
  if (found_.empty()) try_functions();
  if (found_.empty()) {
    throw sim::UserError({file, 1, 1}, "recipe",
                         "is not there, expected a recipe of NeMo 2 or Megatron-Bridge: a call of pretrain_recipe, a "
                         "ConfigContainer, or one with model and trainer");
  }
  if (ambiguous_) {
    std::vector<std::string> made;
    for (const auto& [function, value] : found_) made.push_back(function);
    throw sim::UserError(
        {file, 1, 1}, "recipe",
        fmt::format("got {} of them, expected --recipe with one of {}", made.size(), fmt::join(made, ", ")));
  }
  return {found_.back().second, found_.back().first, remarks_};
}

std::optional<Settings> Interpreter::block(std::size_t begin, std::size_t end, Scope& scope,
                                           const std::string& function) {
  at_ = begin;
  std::optional<Settings> result;
  while (at_ < end && !result) {
    const Kind kind = now().kind;
    if (kind == Kind::newline || kind == Kind::indent || kind == Kind::dedent)
      step();
    else
      result = statement(scope, function);
  }
  if (result || scope_depth_ != 0) return result;
  // Of several variables the one that was written last counts. What is imported and not yet called is none.
  std::vector<std::pair<int, const Settings*>> made;
  for (const auto& [name, value] : scope) {
    const auto written = written_.find(name);
    if (is_python_recipe(value) && (written == written_.end() || written->second > 0))
      made.emplace_back(written == written_.end() ? 0 : written->second, &value);
  }
  std::stable_sort(made.begin(), made.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [when, value] : made) found_.emplace_back(function, *value);
  return result;
}

std::optional<Settings> Interpreter::statement(Scope& scope, const std::string& function) {
  static const std::set<std::string> kSkipped{"import", "pass",     "assert", "del",      "raise",
                                              "global", "nonlocal", "break",  "continue", "@"};
  if (kSkipped.contains(now().text) && now().kind != Kind::string) {
    skip_line();
  } else if (is("from")) {
    imported(scope);
  } else if (is("async")) {
    step();
  } else if (is("def")) {
    define();
  } else if (is("class")) {
    skip_to({":"});
    body();
  } else if (is("return")) {
    step();
    Settings value = now().kind == Kind::newline ? Settings::scalar("null", now().place) : expression(scope);
    skip_line();
    return value;
  } else if (is("if")) {
    return condition(scope, function);
  } else if (is("for") || is("while")) {
    loop();
  } else if (is("with")) {
    step();
    skip_to({":"});
    return nested(body(), scope, function);
  } else if (is("try")) {
    step();
    const auto tried = body();
    while (is("except") || is("else") || is("finally")) {
      skip_to({":"});
      body();
    }
    return nested(tried, scope, function);
  } else {
    assignment_or_call(scope);
  }
  return std::nullopt;
}

void Interpreter::imported(Scope& scope) {
  step();
  std::string module;
  for (; !is("import") && now().kind != Kind::newline && now().kind != Kind::end; step()) module += now().text;
  while (now().kind != Kind::newline && now().kind != Kind::end) {
    step();
    if (now().kind != Kind::name) continue;
    const PythonToken name = now();
    const bool renamed = tokens_[at_ + 1].is("as") && tokens_[at_ + 2].kind == Kind::name;
    if (renamed) {
      step();
      step();
    }
    const bool followed = of_modules_.contains(name.text) || globals_.contains(name.text);
    if (followed && !renamed) continue;
    scope[now().text] = python_object(module + "." + name.text, name.place);
    written_[now().text] = 0;
  }
}

void Interpreter::define() {
  step();
  const std::string name = now().text;
  step();
  Function made;
  if (!is("(")) broken("(");
  step();
  while (!is(")") && now().kind != Kind::end) {
    take("**");
    take("*");
    if (take(",") || take("/")) continue;
    if (is(")")) break;
    if (now().kind != Kind::name) broken("a parameter");
    Parameter parameter{now().text};
    step();
    if (take(":")) skip_to({",", "="});
    if (take("=")) {
      parameter.fallback = at_;
      skip_to({","});
    }
    made.parameters.push_back(std::move(parameter));
  }
  need(")");
  skip_to({":"});
  std::tie(made.begin, made.end) = body();
  functions_[name] = std::move(made);
}

std::optional<Settings> Interpreter::condition(Scope& scope, const std::string& function) {
  std::optional<std::pair<std::size_t, std::size_t>> taken;
  bool known = true, done = false;
  const int line = now().place.line;
  while (is("if") || is("elif")) {
    step();
    const bool main = is("__name__");
    const std::optional<bool> holds = main ? std::optional<bool>(true) : python_truth(expression(scope));
    skip_to({":"});
    const auto words = body();
    if (done || !known) continue;
    known = holds.has_value();
    done = known && *holds;
    if (done) taken = words;
  }
  if (is("else")) {
    step();
    const auto words = body();
    if (known && !done) taken = words;
  }
  if (!known)
    remarks_.push_back(fmt::format("line {}: a condition that only a run can say; its branches are left out", line));
  return taken ? nested(*taken, scope, function) : std::nullopt;
}

void Interpreter::assignment_or_call(Scope& scope) {
  const std::size_t begin = at_;
  skip_to({"=", ":", "+=", "-=", "*=", "/=", "//="});
  const bool typed = is(":");
  if (take(":")) skip_to({"="});
  const bool changed = now().text.size() >= 2 && now().text.back() == '=' && now().kind == Kind::operation;
  if (!is("=") && !changed) {
    if (!typed) {
      at_ = begin;
      expression(scope);
    }
    skip_line();
    return;
  }
  const std::size_t sign = at_;
  step();
  Settings value = expression(scope);
  std::size_t last = at_;
  if (changed) value = python_object("a sum", tokens_[begin].place);
  skip_line();
  assign(begin, sign, std::move(value), scope);
  at_ = std::max(at_, last);
}

void Interpreter::assign(std::size_t begin, std::size_t sign, Settings value, Scope& scope) {
  const std::string variable = tokens_[begin].text;
  std::string path;
  bool dotted = tokens_[begin].kind == Kind::name;
  std::size_t word = begin + 1;
  for (; word + 1 < sign && tokens_[word].is(".") && tokens_[word + 1].kind == Kind::name; word += 2)
    path += (path.empty() ? "" : ".") + tokens_[word + 1].text;
  dotted = dotted && (word == sign || tokens_[word].is(":"));
  if (!dotted) {
    std::string text;
    for (std::size_t i = begin; i < sign; ++i) text += tokens_[i].text;
    if (variable == "recipe" || variable == "cfg" || variable == "config")
      remarks_.push_back(fmt::format("line {}: {} = ..., which is not followed", tokens_[begin].place.line, text));
    return;
  }
  written_[variable] = ++writes_;
  if (path.empty()) {
    scope[variable] = python_trimmed(std::move(value));
    return;
  }
  auto held = scope.find(variable);
  if (held == scope.end()) held = scope.emplace(variable, lookup(variable, scope, tokens_[begin].place)).first;
  if (!held->second.is_mapping()) held->second = python_object(variable, tokens_[begin].place);
  python_assign(held->second, path, python_trimmed(std::move(value)));
}

Settings Interpreter::run(const std::string& name, std::vector<Settings>& in_order, const Scope& named,
                          const sim::Place& place) {
  called_.insert(name);
  const Function function = functions_.at(name);
  if (++calls_ > kDeepestCall)
    throw sim::UserError(place, "python", fmt::format("{} calls itself, or too many others, expected a recipe", name));
  const std::size_t behind = at_;
  const int outer = scope_depth_;
  Scope scope;
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    const Parameter& parameter = function.parameters[i];
    if (const auto given = named.find(parameter.name); given != named.end()) {
      scope[parameter.name] = given->second;
    } else if (i < in_order.size()) {
      scope[parameter.name] = in_order[i];
    } else if (parameter.fallback != 0) {
      at_ = parameter.fallback;
      scope[parameter.name] = expression(globals_);
    } else {
      scope[parameter.name] = python_object(parameter.name, place);
    }
  }
  scope_depth_ = 0;
  const std::optional<Settings> result = block(function.begin, function.end, scope, name);
  scope_depth_ = outer;
  if (result && is_python_recipe(*result)) found_.emplace_back(name, *result);
  at_ = behind;
  --calls_;
  for (std::size_t i = 0; i < in_order.size() && i < function.parameters.size(); ++i)
    in_order[i] = scope[function.parameters[i].name];
  return result ? *result : Settings::scalar("null", place);
}

void Interpreter::try_functions() {
  std::vector<std::pair<std::string, Settings>> made;
  const std::set<std::string> by_main = called_;
  for (const auto& [name, function] : std::map<std::string, Function>(functions_)) {
    if (by_main.contains(name) || name.starts_with("_") || of_modules_.contains(name)) continue;
    found_.clear();
    const std::vector<std::string> before = remarks_;
    call(name);
    if (!found_.empty())
      made.emplace_back(name, found_.back().second);
    else
      remarks_ = before;
  }
  const auto usual = std::find_if(made.begin(), made.end(), [](const auto& each) {
    return each.first == "pretrain_recipe" || each.first == "pretrain_config";
  });
  if (usual != made.end()) made = {*usual};
  ambiguous_ = made.size() > 1;
  found_ = std::move(made);
}

constexpr std::size_t kMostModules = 64;

/// The words of a file behind those of the modules that it imports, each module once.
void gather(const PythonModule& module, const PythonModules& modules, std::set<std::string>& known,
            std::vector<PythonToken>& words, std::vector<std::pair<std::size_t, std::size_t>>& parts) {
  const std::vector<PythonToken> own = python_tokens(module.text, module.file);
  for (std::size_t at = 0; modules && at + 1 < own.size(); ++at) {
    const bool line = at == 0 || own[at - 1].kind == PythonToken::Kind::newline;
    if (!line || !own[at].is("from")) continue;
    std::string name;
    std::size_t next = at + 1;
    for (; next < own.size() && !own[next].is("import") && own[next].kind != PythonToken::Kind::newline; ++next)
      name += own[next].text;
    const std::optional<PythonModule> there = modules(name);
    if (!there || known.size() > kMostModules || !known.insert(there->file).second) continue;
    gather(*there, modules, known, words, parts);
  }
  const std::size_t begin = words.size();
  words.insert(words.end(), own.begin(), own.end());
  parts.emplace_back(begin, words.size() - 1);
}

}  // namespace

PythonRecipe read_python_recipe(const std::string& text, const std::string& file, const std::string& function,
                                const PythonModules& modules) {
  std::set<std::string> known{file};
  std::vector<PythonToken> words;
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  gather({file, text}, modules, known, words, parts);
  return Interpreter(std::move(words)).recipe(file, function, parts);
}

}  // namespace orrery::tools
