// Values of a recipe in Python: scalars, lists, and objects as mappings. See python_recipe.h.
#pragma once

#include <optional>
#include <string>

#include "sim/settings.h"

namespace orrery::tools {

/// An object that `target` names, or a value that only a run can say.
sim::Settings python_object(const std::string& target, const sim::Place& place);

/// Whether a value counts as true; nothing where only a run can say.
std::optional<bool> python_truth(const sim::Settings& value);

/// `a OP b` for numbers, text and None; nothing where the operands do not say.
std::optional<sim::Settings> python_compare(const sim::Settings& a, const std::string& operation,
                                            const sim::Settings& b);
std::optional<sim::Settings> python_compute(const sim::Settings& a, const std::string& operation,
                                            const sim::Settings& b);

/// Sets the value at a dotted path; what stands in its way (a scalar, None) becomes an object. Throws sim::UserError
/// for paths of more than 16 parts, and where the whole would grow past `most` values.
void python_assign(sim::Settings& object, const std::string& path, sim::Settings value, std::size_t most);

/// The value, or only its name where it is nested deeper than 20 or holds `most` values: no recipe's object does.
sim::Settings python_trimmed(sim::Settings value, std::size_t most);

/// How many values a value holds; counting ends at `most`.
std::size_t python_size(const sim::Settings& value, std::size_t most);

}  // namespace orrery::tools
