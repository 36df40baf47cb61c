// Writes a table of flows to standard output: orrery_flow_patterns PATTERN HOSTS [HOSTS_PER_LEAF [SEED]]. For timing
// `orrery flows` and any other program that reads such tables on the same input.
#include "tests/reference/flow_patterns.h"

#include <exception>
#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) try {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() < 2 || args.size() > 4) {
    std::cerr << "orrery_flow_patterns ring|perm|one|grp|wave HOSTS [HOSTS_PER_LEAF [SEED]]\n";
    return 2;
  }
  const auto hosts = static_cast<std::uint32_t>(std::stoul(args[1]));
  const auto leaf =
      args.size() > 2 ? static_cast<std::uint32_t>(std::stoul(args[2])) : orrery::reference::leaf_size(hosts);
  std::cout << orrery::reference::flow_table(args[0], hosts, leaf, args.size() > 3 ? std::stoull(args[3]) : 1);
  return std::cout.flush() ? 0 : 2;
} catch (const std::exception& error) {
  std::cerr << "orrery_flow_patterns: " << error.what() << '\n';
  return 2;
}
