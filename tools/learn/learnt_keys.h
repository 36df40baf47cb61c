// The numbers of a software generation that a trace can tell, and by what.
#pragma once

#include <string_view>
#include <vector>

namespace orrery::tools {

struct LearntKey {
  std::string_view key, unit;  // of the generation; values below in that unit
  double low = 0, high = 1;    // between which it is looked for
  /// Beginnings of the names of the observations (observe.h) that it follows from.
  std::vector<std::string_view> rests_on;
  double step = 0;  // numbers that count in wholes: the least change that does anything
};
const std::vector<LearntKey>& learnt_keys();

}  // namespace orrery::tools
