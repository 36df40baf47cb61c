// What is broken or busy in a network: links at part of their rate, lost links, lost switches, traffic of others. The
// ends of a link are named as in the pictures of `orrery topology --svg`: "leaf u0 r3", "spine p1.7", "n12 nic3",
// "n0 gpu5", "n0 nvswitch2", or as the list of edges names them.
//
// Traffic of others takes a share of every link of a tier and does not give way; left out: that it comes in bursts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/error.h"

namespace orrery::topology {

struct Fault {
  enum class Kind : std::uint8_t { slow_link, lost_link, lost_switch };
  Kind kind = Kind::slow_link;
  std::string a, b;        // the ends; of a switch only `a`
  double rate = 1.0;       // slow_link: share of its rate that is left, in (0, 1]
  std::int32_t lanes = 0;  // lost_link: so many of the parallel links; 0: all
  sim::Place place;        // where it was written, and under which key
  std::string key;
  bool operator==(const Fault& other) const {
    return kind == other.kind && a == other.a && b == other.b && rate == other.rate && lanes == other.lanes;
  }
};

struct Faults {
  std::vector<Fault> list;
  std::array<double, 6> background{};  // by Tier: share of every link of the tier that others' traffic takes, below 1
  bool empty() const { return *this == Faults{}; }
  bool operator==(const Faults&) const = default;
};

}  // namespace orrery::topology
