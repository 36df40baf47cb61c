// A test that needs what this machine lacks says so in one line; `tools/bootstrap test` shows these lines at its end.
#pragma once

#include <iostream>
#include <string>

namespace orrery::tests {

/// `why`: what is missing and what is not tested without it; the package, where one has it.
inline void skipped(const std::string& why) { std::cout << "skipped: " << why << std::endl; }

}  // namespace orrery::tests
