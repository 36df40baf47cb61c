// Which sets of experts a token comes to, against every choice counted one by one.
#include "calibration/device/routing.h"

#include <bit>

#include "tests/catch.h"

using namespace orrery::calibration;

namespace {

/// Of all choices of `top_k` experts, all within `top_groups` groups, each set of groups first and then each choice
/// among its experts, the share that has one of the first `experts / parts`.
double counted(const TokenChoice& c, std::uint32_t parts) {
  const auto experts = static_cast<std::uint32_t>(c.experts), groups = static_cast<std::uint32_t>(c.groups);
  const std::uint32_t each = experts / groups, first = (1u << (experts / parts)) - 1;
  double met = 0, sets = 0;
  for (std::uint32_t open = 0; open < (1u << groups); ++open) {
    if (std::popcount(open) != c.top_groups) continue;
    std::uint32_t choosable = 0;
    for (std::uint32_t group = 0; group < groups; ++group)
      if ((open >> group & 1u) != 0) choosable |= ((1u << each) - 1) << (group * each);
    double choices = 0, hits = 0;
    for (std::uint32_t choice = 0; choice < (1u << experts); ++choice) {
      if (std::popcount(choice) != c.top_k || (choice & ~choosable) != 0) continue;
      ++choices;
      if ((choice & first) != 0) ++hits;
    }
    met += hits / choices;
    ++sets;
  }
  return met / sets;
}

}  // namespace

TEST_CASE("a token comes to a set of experts as often as a count of all its choices says") {
  for (const std::int64_t groups : {1, 2, 4, 8})
    for (std::int64_t open = 1; open <= groups; ++open)
      for (const std::int64_t top_k : {1, 2, 3})
        for (const std::uint32_t parts : {1u, 2u, 4u, 8u, 16u}) {
          const TokenChoice choice{top_k, 16, groups, open};
          if (top_k > 16 / groups * open) continue;
          INFO(parts << " parts, " << open << " of " << groups << " groups, " << top_k << " experts");
          CHECK(reaches(choice, parts) == Approx(counted(choice, parts)).epsilon(1e-12));
        }
}

TEST_CASE("DeepSeek-V3's tokens reach four of eight nodes at most") {
  // Its 256 experts over eight nodes are the eight groups of which four are open to a token (arXiv 2412.19437, 2.1.2).
  const double reached = 8 * reaches({8, 256, 8, 4}, 8);
  CHECK(reached < 4);
  CHECK(reached > 3.5);
  CHECK(8 * reaches({8, 256, 1, 1}, 8) > 5);
}
