// The one way from text to JSON: whatever a file, a trace or a browser sends is bounded before a tree of it is built.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace orrery::tools {

/// What keeps a text from being read: "got ..." without a full stop, and the byte where it was met.
struct JsonProblem {
  std::size_t at = 0;
  std::string got;
};

/// The tree of a text. Throws JsonProblem where it is no JSON, nests deeper than 64 levels, or holds more than 2
/// million values.
nlohmann::json parse_json(std::string_view text);

}  // namespace orrery::tools
