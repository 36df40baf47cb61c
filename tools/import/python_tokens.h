// The words of a Python file, as far as a recipe of training needs them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/error.h"

namespace orrery::tools {

/// One word of Python (The Python Language Reference, chapter 2): of a string `text` holds what it means, of everything
/// else what was written. A formatted string and bytes are `opaque`, since only a run says what they hold.
struct PythonToken {
  enum class Kind { name, number, string, opaque, operation, newline, indent, dedent, end };
  Kind kind = Kind::end;
  std::string text;
  sim::Place place;

  bool is(const char* word) const { return (kind == Kind::operation || kind == Kind::name) && text == word; }
};

/// Cuts `text` into words; the last is `end`. Throws sim::UserError at `file` for a string or a bracket that does not
/// close, brackets deeper than 100, a character that Python has no use for, and a dedent that meets no indent.
std::vector<PythonToken> python_tokens(const std::string& text, const std::string& file);

}  // namespace orrery::tools
