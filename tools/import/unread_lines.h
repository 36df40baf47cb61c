// Lines and words of a text that an importer does not read, so that a remark can name them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace orrery::tools {

class UnreadLines {
 public:
  void add(std::int64_t line, const std::string& text) { lines_.emplace_back(line, text); }
  bool empty() const { return lines_.empty(); }
  /// `not read: line 3 "text", line 8 "text", lines 12 to 19, 31`: the first with their text, the others by their
  /// numbers.
  std::string remark() const;

 private:
  std::vector<std::pair<std::int64_t, std::string>> lines_;
};

}  // namespace orrery::tools
