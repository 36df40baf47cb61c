// Do errors say where they come from, whatever machine built the program?
#include "sim/error.h"

#include "tests/catch.h"

using namespace orrery::sim;

TEST_CASE("an internal error names its file as the repository does") {
  std::string what;
  try {
    SIM_CHECK(1 + 1 == 3, "{} apples", 2);
  } catch (const InternalError& error) {
    what = error.what();
  }
  CHECK(what.starts_with("tests/sim/error_test.cc:"));
  CHECK(what.find("1 + 1 == 3 does not hold: 2 apples") != std::string::npos);
}
