// How a mistake of the user must look from outside.
#pragma once

#include <algorithm>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.h"
#include "tests/tools/program.h"

namespace orrery::tests {

/// Status 2, nothing on standard output, one line on standard error that contains each of `parts`.
inline void check_refused(const Outcome& outcome, const std::vector<std::string>& parts) {
  INFO("stderr: " << outcome.err);
  CHECK(outcome.status == 2);
  CHECK(outcome.out.empty());
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  for (const std::string& part : parts) {
    INFO("expected part: " << part);
    CHECK(outcome.err.find(part) != std::string::npos);
  }
}

template <std::convertible_to<std::string_view> Part>
void check_refused(const Outcome& outcome, const Part& part) {
  check_refused(outcome, std::vector<std::string>{std::string(part)});
}

}  // namespace orrery::tests
