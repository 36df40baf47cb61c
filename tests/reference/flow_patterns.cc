// Patterns of traffic on a two-level fat tree; see flow_patterns.h.
#include "tests/reference/flow_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/hash.h"

namespace orrery::reference {

namespace {

struct Flow {
  std::int64_t start_us = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t bytes = 0;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(sim::mix64(seed)) {}
  std::uint64_t below(std::uint64_t n) { return (state_ = sim::mix64(state_)) % n; }
  std::uint64_t from_to(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }

 private:
  std::uint64_t state_;
};

constexpr std::uint64_t kMegabyte = 1'000'000;
constexpr std::int64_t kWindow = 2000;  // us, within which starts are spread
constexpr int kRounds = 5;

/// One cycle through all hosts (Sattolo), so nobody sends to itself.
std::vector<std::uint32_t> derangement(std::uint32_t hosts, Random& random) {
  std::vector<std::uint32_t> to(hosts);
  std::iota(to.begin(), to.end(), 0u);
  for (std::uint32_t i = hosts - 1; i > 0; --i) std::swap(to[i], to[random.below(i)]);
  return to;
}

std::vector<Flow> at_once(const std::vector<std::uint32_t>& to) {
  std::vector<Flow> flows;
  for (std::uint32_t host = 0; host < to.size(); ++host) flows.push_back({0, host, to[host], 100 * kMegabyte});
  return flows;
}

std::vector<Flow> spread(std::uint32_t hosts, int rounds, Random& random) {
  std::vector<Flow> flows;
  for (int round = 0; round < rounds; ++round) {
    const std::vector<std::uint32_t> to = derangement(hosts, random);
    for (std::uint32_t host = 0; host < hosts; ++host) {
      const auto start = round * kWindow + static_cast<std::int64_t>(random.below(kWindow));
      flows.push_back({start, host, to[host], random.from_to(50 * kMegabyte, 150 * kMegabyte)});
    }
  }
  return flows;
}

std::vector<Flow> groups(std::uint32_t hosts, Random& random) {
  constexpr std::uint32_t kGroup = 8;
  constexpr std::int64_t kRoundLength = 8000;  // us
  std::vector<Flow> flows;
  for (int round = 0; round < kRounds; ++round) {
    for (std::uint32_t first = 0; first < hosts; first += kGroup) {
      const auto start = round * kRoundLength + static_cast<std::int64_t>(random.below(kWindow));
      const std::uint64_t bytes = random.from_to(50 * kMegabyte, 100 * kMegabyte);
      for (std::uint32_t i = 0; i < kGroup; ++i) flows.push_back({start, first + i, first + (i + 1) % kGroup, bytes});
    }
  }
  return flows;
}

std::vector<Flow> flows_of(std::string_view pattern, std::uint32_t hosts, Random& random) {
  if (pattern == "perm") return at_once(derangement(hosts, random));
  if (pattern == "one") return spread(hosts, 1, random);
  if (pattern == "wave") return spread(hosts, kRounds, random);
  if (pattern == "grp") {
    if (hosts % 8 != 0) throw std::invalid_argument("grp wants a multiple of 8 hosts");
    return groups(hosts, random);
  }
  if (pattern != "ring") throw std::invalid_argument("the patterns are ring, perm, one, grp and wave");
  std::vector<std::uint32_t> next(hosts);
  for (std::uint32_t i = 0; i < hosts; ++i) next[i] = (i + 1) % hosts;
  return at_once(next);
}

}  // namespace

std::uint32_t leaf_size(std::uint32_t hosts) {
  std::uint32_t best = 1;
  for (std::uint32_t d = 1; d <= hosts / d; ++d) {
    if (hosts % d == 0) best = d;
  }
  return best;
}

std::string flow_table(std::string_view pattern, std::uint32_t hosts, std::uint32_t hosts_per_leaf,
                       std::uint64_t seed) {
  if (hosts < 2 || hosts_per_leaf == 0 || hosts % hosts_per_leaf != 0) {
    throw std::invalid_argument("at least 2 hosts, a multiple of the hosts of a leaf");
  }
  Random random(seed);
  std::vector<Flow> flows = flows_of(pattern, hosts, random);
  std::stable_sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) { return a.start_us < b.start_us; });

  // Switches are numbered downwards behind the hosts: leaves, then spines.
  const std::uint32_t leaves = hosts / hosts_per_leaf;
  const auto leaf = [&](std::uint32_t host) { return 2 * hosts - 1 - host / hosts_per_leaf; };
  const auto uplink = [&](std::uint32_t host, std::uint32_t spine) {
    return hosts + host / hosts_per_leaf * hosts_per_leaf + spine;
  };
  fmt::memory_buffer out;
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "id,src,dst,bytes,start_s,links(space separated)\n");
  for (std::size_t id = 0; id < flows.size(); ++id) {
    const Flow& f = flows[id];
    fmt::format_to(to, "{},{},{},{},0.{:06},link_from_{}_{}_{}_UP ", id, f.from, f.to, f.bytes, f.start_us, f.from,
                   leaf(f.from), f.from);
    if (leaf(f.from) != leaf(f.to)) {
      const std::uint32_t spine = f.to % hosts_per_leaf, number = 2 * hosts - 1 - leaves - spine;
      fmt::format_to(to, "link_from_{}_{}_{}_UP link_from_{}_{}_{}_DOWN ", leaf(f.from), number, uplink(f.from, spine),
                     leaf(f.to), number, uplink(f.to, spine));
    }
    fmt::format_to(to, "link_from_{}_{}_{}_DOWN \n", f.to, leaf(f.to), f.to);
  }
  return fmt::to_string(out);
}

}  // namespace orrery::reference
