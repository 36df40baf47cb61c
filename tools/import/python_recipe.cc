// Follows a recipe in Python. See python_recipe.h. Objects are values here: two names of one object are two objects,
// but for a function's arguments, whose changes are handed back. Left out: classes, comprehensions, exceptions, and
// what other files define.
#include "tools/import/python_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>

#include "tools/import/import.h"
#include "tools/import/python_expressions.h"
#include "tools/import/python_tokens.h"
#include "tools/import/python_values.h"

namespace orrery::tools {

using sim::Settings;

namespace {

constexpr int kDeepestCall = 16, kMostHops = 8;
constexpr std::size_t kMostModules = 64, kMostWords = 2'000'000;

struct Parameter {
  std::string name;
  std::size_t fallback = 0;  // word at which its default begins; 0: none
};
struct Function {
  std::vector<Parameter> parameters;
  std::size_t begin = 0, end = 0;  // words of its body
};
/// A file with what it defines and what it imports from files that can be read.
struct Module {
  std::string file;
  std::map<std::string, Function> functions;
  std::map<std::string, Settings> values;                              // of a module at rest; see globals_
  std::map<std::string, std::pair<std::string, std::string>> imports;  // its name for it: of which module, called what
};
/// A function of a module.
struct Found {
  Module* module = nullptr;
  std::string name;
};

class Interpreter final : PythonExpressions {
 public:
  Interpreter(const std::vector<PythonToken>& tokens, const std::string& file, const PythonModules& modules)
      : PythonExpressions(tokens), modules_(modules), module_(&read_[file]) {
    module_->file = file;
  }

  PythonRecipe recipe(const std::string& wanted);

 private:
  std::string names() const {
    std::vector<std::string> all;
    for (const auto& [name, function] : module_->functions) all.push_back(name);
    return all.empty() ? "the file's functions, of which it has none" : fmt::format("{}", fmt::join(all, ", "));
  }

  // --- modules -----------------------------------------------------------------------------------------------------
  /// The module that `name` stands for in the one at hand, with its definitions read; null where it cannot be read.
  Module* read_module(const std::string& name);
  /// Goes on in another module, whose values become the ones at hand.
  void enter(Module* module) {
    module_->values = std::move(globals_);
    module_ = module;
    globals_ = std::move(module->values);
  }
  /// The function that a name stands for, through any number of modules that hand it on.
  std::optional<Found> function_of(const std::string& name, int hops = 0);

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

  /// A package that is named as the one around the file ("from . import model_registry") by its folder.
  std::string package_name(const std::string& module) const {
    if (module != ".") return module;
    std::error_code error;
    return std::filesystem::absolute(module_->file, error).lexically_normal().parent_path().filename().string();
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

  /// A call that stands alone and is not followed may change the recipe that its words name.
  void remark_on_call(std::size_t begin, const Settings& value, const Scope& scope);

  /// A value, or several with commas between them, as a list.
  Settings values(Scope& scope);
  /// What `a.b += by` makes of a value.
  Settings changed_value(std::size_t begin, std::size_t sign, const Settings& by, const Scope& scope);
  /// `a, b = value`; false where the words up to `sign` are something else.
  bool assign_several(std::size_t begin, std::size_t sign, const Settings& value, Scope& scope);

  /// To the dotted name that the words up to `sign` are; to nothing where they are something else.
  void assign(std::size_t begin, std::size_t sign, Settings value, Scope& scope);

  /// With its defaults.
  void call(const std::string& name) {
    std::vector<Settings> none;
    run(name, none, {}, {});
  }
  bool defines(const std::string& name) override { return function_of(name).has_value(); }
  std::optional<Settings> imports(const std::string& name) override;

  Settings run(const std::string& name, std::vector<Settings>& in_order, const Scope& named,
               const sim::Place& place) override;

  /// Where the file's main part makes no recipe: its functions, each with its defaults.
  void try_functions();

  int hops_ = 0, calls_ = 0, blocks_ = 0, writes_ = 0;
  std::map<std::string, int> written_;  // variables: which write was their last; 0: imported alone
  int scope_depth_ = 0;                 // blocks within the body of a function or file
  bool ambiguous_ = false;
  const PythonModules& modules_;
  std::map<std::string, Module> read_;                   // by file
  Module* module_;                                       // the one at hand
  std::set<std::string> called_;                         // functions of the file itself
  std::vector<std::pair<std::string, Settings>> found_;  // by which function
};

Module* Interpreter::read_module(const std::string& name) {
  const std::optional<PythonModule> text = modules_ ? modules_(name, module_->file) : std::nullopt;
  if (!text) return nullptr;
  const auto [there, fresh] = read_.try_emplace(text->file);
  Module* module = &there->second;
  if (!fresh) return module;
  module->file = text->file;
  if (read_.size() > kMostModules || tokens_.size() > kMostWords) return module;
  std::vector<PythonToken> words;
  try {
    words = python_tokens(text->text, text->file);
  } catch (const sim::UserError& broken) {
    remarks_.push_back(broken.what());
    return module;
  }
  const std::size_t begin = tokens_.size(), behind = at_;
  tokens_.insert(tokens_.end(), words.begin(), words.end());
  // Its statements define; what they say beyond that is not the recipe's.
  const auto found = found_;
  const auto written = written_;
  const auto remarks = remarks_;
  const int depth = scope_depth_, steps = steps_;
  Module* const from = module_;
  enter(module);
  scope_depth_ = 0;
  std::string broken;
  try {
    block(begin, tokens_.size() - 1, globals_, "");
  } catch (const sim::UserError& error) {  // what stands above it is known
    broken = error.what();
  }
  enter(from);
  scope_depth_ = depth;
  steps_ = steps;
  found_ = found;
  written_ = written;
  remarks_ = remarks;
  if (!broken.empty()) remarks_.push_back(broken);
  at_ = behind;
  return module;
}

std::optional<Found> Interpreter::function_of(const std::string& name, int hops) {
  if (module_->functions.contains(name)) return Found{module_, name};
  const auto imported = module_->imports.find(name);
  if (imported == module_->imports.end() || hops > kMostHops) return std::nullopt;
  const auto [where, called] = imported->second;
  Module* const from = module_;
  Module* const module = read_module(where);
  if (module == nullptr || module == from) return std::nullopt;
  enter(module);
  std::optional<Found> found = function_of(called, hops + 1);
  enter(from);
  return found;
}

std::optional<Settings> Interpreter::imports(const std::string& name) {
  const auto imported = module_->imports.find(name);
  if (imported == module_->imports.end()) return std::nullopt;
  const auto [where, called] = imported->second;
  Module* const from = module_;
  // Classes are known by their names.
  const bool constant = std::all_of(called.begin(), called.end(), [](unsigned char c) { return std::islower(c) == 0; });
  const bool lower = std::islower(static_cast<unsigned char>(called[called[0] == '_' ? 1 : 0])) != 0;
  Module* const module = (constant || lower) && !called.empty() && ++hops_ <= kMostHops ? read_module(where) : nullptr;
  std::optional<Settings> value;
  if (module != nullptr && module != from) {
    enter(module);
    if (const auto found = globals_.find(called); found != globals_.end())
      value = found->second;
    else
      value = imports(called);
    enter(from);
  }
  if (constant || lower) --hops_;
  return value ? value : python_object(package_name(where) + "." + called, now().place);
}

PythonRecipe Interpreter::recipe(const std::string& wanted) {
  const std::string file = module_->file;
  block(0, tokens_.size() - 1, globals_, "");
  if (!wanted.empty()) {
    if (!module_->functions.contains(wanted)) {
      throw sim::UserError({file, 1, 1}, "recipe", fmt::format("got {}, expected one of {}", wanted, names()));
    }
    found_.clear();
    call(wanted);
  }
  if (found_.empty()) try_functions();
  if (found_.empty()) {
    throw sim::UserError({file, 1, 1}, "recipe",
                         "is not there, expected a recipe of NeMo 2 or Megatron-Bridge: a call of pretrain_recipe, a "
                         "ConfigContainer, or one with model and trainer; or a Trainer.Config of TorchTitan's");
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
    Settings value = now().kind == Kind::newline ? Settings::scalar("null", now().place) : values(scope);
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
    if (modules_ && modules_(module, module_->file))
      module_->imports[now().text] = {module, name.text};
    else
      scope[now().text] = python_object(package_name(module) + "." + name.text, name.place);
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
  module_->functions[name] = std::move(made);
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
      const Settings value = expression(scope);
      remark_on_call(begin, value, scope);
    }
    skip_line();
    return;
  }
  const std::size_t sign = at_;
  step();
  Settings value = values(scope);
  std::size_t last = at_;
  if (changed) value = changed_value(begin, sign, value, scope);
  skip_line();
  assign(begin, sign, std::move(value), scope);
  at_ = std::max(at_, last);
}

void Interpreter::remark_on_call(std::size_t begin, const Settings& value, const Scope& scope) {
  // What starts the job, or prints it, is handed the recipe and leaves it as it is.
  static const std::set<std::string> kStarts{"pretrain", "finetune", "run",   "train",   "add", "main",
                                             "print",    "info",     "debug", "warning", "log", "validate"};
  if (!value.is_mapping()) return;  // followed, or no call
  std::string path;
  std::size_t word = begin;
  for (; word < at_ && (tokens_[word].kind == Kind::name || tokens_[word].is(".")); ++word) path += tokens_[word].text;
  const std::string name = path.substr(path.rfind('.') + 1);
  if (word == at_ || !tokens_[word].is("(") || defines(path) || kStarts.contains(name)) return;
  const bool handed = std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                                  tokens_.begin() + static_cast<std::ptrdiff_t>(at_), [&](const PythonToken& each) {
                                    const auto held = each.kind == Kind::name ? scope.find(each.text) : scope.end();
                                    return held != scope.end() && is_python_recipe(held->second);
                                  });
  const std::string remark =
      fmt::format("line {}: what {}(...) changes is not in this file", tokens_[begin].place.line, path);
  if (handed && (remarks_.empty() || remarks_.back() != remark)) remarks_.push_back(remark);
}

Settings Interpreter::values(Scope& scope) {
  Settings value = expression(scope);
  if (!is(",")) return value;
  Settings all = Settings::sequence(value.place());
  all.append(python_trimmed(std::move(value)));
  while (take(",") && now().kind != Kind::newline && now().kind != Kind::end)
    all.append(python_trimmed(expression(scope)));
  return all;
}

Settings Interpreter::changed_value(std::size_t begin, std::size_t sign, const Settings& by, const Scope& scope) {
  const std::string operation = tokens_[sign].text.substr(0, tokens_[sign].text.size() - 1);
  const auto held = scope.find(tokens_[begin].text);
  std::string path;
  for (std::size_t i = begin + 1; i < sign; ++i) path += tokens_[i].text;
  const Settings* before = held == scope.end() ? nullptr : &held->second;
  if (before != nullptr && !path.empty())
    before = before->is_mapping() && path[0] == '.' ? before->find_path(path.substr(1)) : nullptr;
  if (before == nullptr) return python_object("a sum", tokens_[begin].place);
  const std::optional<Settings> result = python_compute(*before, operation, by);
  return result ? *result : python_object("a sum", tokens_[begin].place);
}

bool Interpreter::assign_several(std::size_t begin, std::size_t sign, const Settings& value, Scope& scope) {
  std::vector<std::string> names;
  for (std::size_t word = begin; word < sign; ++word) {
    const bool name = (word - begin) % 2 == 0;
    if (name ? tokens_[word].kind != Kind::name : !tokens_[word].is(",")) return false;
    if (name) names.push_back(tokens_[word].text);
  }
  if (names.size() < 2) return false;
  const bool known = value.is_sequence() && value.items().size() == names.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    written_[names[i]] = ++writes_;
    scope[names[i]] = known ? Settings(value.items()[i])
                            : python_object(fmt::format("{}[{}]", python_target(value), i), tokens_[begin].place);
  }
  return true;
}

void Interpreter::assign(std::size_t begin, std::size_t sign, Settings value, Scope& scope) {
  if (assign_several(begin, sign, value, scope)) return;
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
  const std::optional<Found> found = function_of(name);
  const Function function = found->module->functions.at(found->name);
  Module* const from = module_;
  if (found->module == from) called_.insert(name);
  if (++calls_ > kDeepestCall)
    throw sim::UserError(place, "python", fmt::format("{} calls itself, or too many others, expected a recipe", name));
  const std::size_t behind = at_, remarked = remarks_.size();
  const int outer = scope_depth_;
  if (found->module != from) enter(found->module);
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
  if (module_ != from) {
    for (std::size_t i = remarked; i < remarks_.size(); ++i) {
      if (remarks_[i].starts_with("line "))
        remarks_[i] = std::filesystem::path(module_->file).filename().string() + " " + remarks_[i];
    }
    enter(from);
  }
  at_ = behind;
  --calls_;
  for (std::size_t i = 0; i < in_order.size() && i < function.parameters.size(); ++i)
    in_order[i] = scope[function.parameters[i].name];
  return result ? *result : Settings::scalar("null", place);
}

void Interpreter::try_functions() {
  std::vector<std::pair<std::string, Settings>> made;
  const std::set<std::string> by_main = called_;
  for (const auto& [name, function] : std::map<std::string, Function>(module_->functions)) {
    if (by_main.contains(name) || name.starts_with("_")) continue;
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

}  // namespace

std::optional<PythonModule> module_near(const std::string& name, const std::string& from) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(from, error).lexically_normal().parent_path();
  std::size_t dots = 0;
  while (dots < name.size() && name[dots] == '.') ++dots;
  for (std::size_t i = 1; i < dots; ++i) folder = folder.parent_path();
  std::string rest = name.substr(dots);
  std::replace(rest.begin(), rest.end(), '.', '/');
  const auto readable = [&](const std::filesystem::path& path) {
    return std::filesystem::is_regular_file(path, error);
  };
  // An absolute name of a package is looked for from each folder above that its first word leads down from.
  const std::string first = rest.substr(0, rest.find('/'));
  for (int above = 0; above < 12; ++above) {
    std::filesystem::path path = folder / (rest + ".py");
    if (!rest.empty() && readable(path)) return PythonModule{path.string(), read_text(path.string())};
    path = folder / rest / "__init__.py";
    if (readable(path)) return PythonModule{path.string(), read_text(path.string())};
    const std::string inside = folder.filename().string();
    if (dots > 0 || rest.find('/') == std::string::npos || !folder.has_relative_path()) break;
    folder = folder.parent_path();
    if (inside == first && above > 0 && !std::filesystem::exists(folder / first, error)) break;
  }
  return std::nullopt;
}

PythonRecipe read_python_recipe(const std::string& text, const std::string& file, const std::string& function,
                                const PythonModules& modules) {
  return Interpreter(python_tokens(text, file), file, modules).recipe(function);
}

}  // namespace orrery::tools
