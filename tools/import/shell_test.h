// The conditions of a shell: test, [ ] and [[ ]], where some of what they ask is not known.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/import/shell_values.h"

namespace orrery::tools {

struct ShellAnswer {
  std::optional<bool> holds;
  std::optional<bool> usual;  // where only unset variables leave it open, and no more than that is asked
};
/// An operand or an operator of a condition.
struct ShellOperand {
  ShellText text;
  bool plain_word = false;  // written without quotes and expansions, so that it may be an operator
};
/// `sum`: the value of a whole number. `patterns`: whether = compares with a pattern, as [[ ]] does. `is_set`: for -v.
ShellAnswer shell_test(const std::vector<ShellOperand>& operands, bool patterns,
                       const std::function<std::optional<std::int64_t>(const std::string&)>& sum,
                       const std::function<std::optional<bool>(const std::string&)>& is_set);

}  // namespace orrery::tools
