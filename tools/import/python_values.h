// Values of a recipe in Python: scalars, lists, and objects as mappings. See python_recipe.h.
#pragma once

#include <optional>
#include <string>

#include "sim/settings.h"

namespace orrery::tools {

inline constexpr std::size_t kMostPythonValues = 4000;  // of one object; a whole ConfigContainer has some 900

/// An object that `target` names, or a value that only a run can say.
sim::Settings python_object(const std::string& target, const sim::Place& place);

/// Whether a value is a dictionary whose keys are known.
bool is_python_dict(const sim::Settings& value);
/// What a value is as a key of a dictionary: a text, a number, or a tuple of these; nothing for what only a run can
/// say.
std::optional<std::string> python_key(const sim::Settings& value);
/// The item of a list at a place, from its end where that is negative.
std::optional<sim::Settings> python_item(const sim::Settings& list, const sim::Settings& place);

/// Whether a value counts as true; nothing where only a run can say.
std::optional<bool> python_truth(const sim::Settings& value);

/// `a OP b` for numbers, text and None; nothing where the operands do not say.
std::optional<sim::Settings> python_compare(const sim::Settings& a, const std::string& operation,
                                            const sim::Settings& b);
std::optional<sim::Settings> python_compute(const sim::Settings& a, const std::string& operation,
                                            const sim::Settings& b);

/// Sets the value at a dotted path; what stands in its way (a scalar, None) becomes an object. Throws sim::UserError
/// for paths of more than 16 parts, and where the whole would grow past kMostPythonValues.
void python_assign(sim::Settings& object, const std::string& path, sim::Settings value);

/// The value, or only its name where it is nested deeper than 20 or holds kMostPythonValues: no recipe's object does.
sim::Settings python_trimmed(sim::Settings value);

}  // namespace orrery::tools
