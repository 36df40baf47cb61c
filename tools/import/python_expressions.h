// The values of expressions in a Python file. See python_recipe.h for what is followed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/settings.h"
#include "tools/import/python_words.h"

namespace orrery::tools {

/// Whether a value is what a recipe makes: NeMo 2's run.Partial, Megatron-Bridge's ConfigContainer, or a call of a
/// library's recipe.
bool is_python_recipe(const sim::Settings& value);

class PythonExpressions : protected PythonWords {
 protected:
  using Settings = sim::Settings;
  using Scope = std::map<std::string, Settings>;
  static constexpr int kDeepestExpression = 60;

  using PythonWords::PythonWords;
  ~PythonExpressions() = default;

  /// A function of the file itself, or one that it imports from a module that can be read.
  virtual bool defines(const std::string& name) = 0;
  /// A value that it imports from a module that can be read; none: it imports none of that name.
  virtual std::optional<Settings> imports(const std::string& name) = 0;
  /// Its value, with the last values of what was handed to it in order.
  virtual Settings run(const std::string& name, std::vector<Settings>& in_order, const Scope& named,
                       const sim::Place& place) = 0;

  Settings unknown(std::size_t begin) const;
  Settings lookup(const std::string& name, const Scope& scope, const sim::Place& place);
  Settings expression(Scope& scope);
  Settings logical(Scope& scope);
  Settings comparison(Scope& scope);
  /// Sums and products alike from the left: products bind closer.
  Settings sum(Scope& scope);
  Settings product(Scope& scope);
  Settings signed_value(Scope& scope);
  /// A value with the attributes, calls and subscripts behind it. `path`: its dotted name, where that is all it is.
  Settings postfix(Scope& scope);
  Settings attribute(const Settings& value, const std::string& name) const;
  Settings atom(Scope& scope);
  /// A list or a tuple; a value in parentheses is itself. Comprehensions are unknown.
  Settings list(Scope& scope);
  /// A dictionary, as an object called dict whose members are its keys; sets are not looked into.
  Settings braces(Scope& scope);
  /// The item of a list or a dictionary that is known, else a name for it.
  Settings subscript(const Settings& value, std::size_t begin, Scope& scope);
  struct Arguments {
    std::vector<Settings> in_order;
    std::vector<std::string> paths;  // the variable or dotted name that each of these is, or nothing
    Scope named;
  };
  Arguments arguments(Scope& scope);
  /// The argument at hand where it is a dotted name and nothing else; empty where it is more.
  std::string dotted_argument() const;
  /// What isinstance, hasattr and getattr say, where the value is known; nothing for other calls.
  std::optional<Settings> asked(const std::string& path, const Arguments& given, const sim::Place& place) const;
  /// A call: of the file's own function, of what wraps a class (run.Config), of a list's append, or an object.
  Settings called(const Settings& callee, const std::string& path, Scope& scope);
  static Settings sequence_of(const std::vector<Settings>& values, const sim::Place& place);
  void append(const std::string& path, const Settings& item, Scope& scope);

  int depth_ = 0;
  Scope globals_;
  std::vector<std::string> remarks_;  // what was not followed
};

}  // namespace orrery::tools
