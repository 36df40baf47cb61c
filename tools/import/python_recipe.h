// A recipe of training that is written in Python (NeMo 2, Megatron-Bridge), as the document that it would make.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/settings.h"

namespace orrery::tools {

/// What a file of Python says of its recipe. Objects are mappings: `_target_` holds the dotted name of what was called,
/// keyword arguments and attributes set later are members, `_args_` holds the others, as in Hydra's form of such
/// objects. What only a run can say (an argument of the command line, a formatted string) is a mapping of `_target_`
/// alone, which holds the text.
struct PythonRecipe {
  sim::Settings recipe;
  std::string function;              // that made it, or whose variable it was; empty: of the file itself
  std::vector<std::string> remarks;  // what was not followed: loops, conditions that are not known
};

struct PythonModule {
  std::string file, text;
};
/// The module of a dotted name (".helpers") that a file imports from, where it can be read.
using PythonModules = std::function<std::optional<PythonModule>(const std::string& name, const std::string& from)>;

/// The text of a module of Python that lies beside the file that imports it, or in the package's tree that the file is
/// part of. Packages that are installed are not looked for.
std::optional<PythonModule> module_near(const std::string& name, const std::string& from);

/// Follows a file as far as recipes go: assignments, dotted overrides, calls with keywords, functions of the file with
/// their defaults, conditions on what is known, numbers, text and lists of these. Nothing is executed; of what is
/// imported the functions and values of `modules` are known, and theirs. `function`: whose recipe is asked for; empty
/// takes that of the file's main part, or else of its only function that makes one. Throws sim::UserError for text that
/// is no Python, for a file without a recipe, and for one with several where none is asked for.
PythonRecipe read_python_recipe(const std::string& text, const std::string& file, const std::string& function = "",
                                const PythonModules& modules = {});

/// The dotted name of what made a value (`_target_`), or the text of a scalar; empty where it has neither.
std::string python_target(const sim::Settings& value);

}  // namespace orrery::tools
