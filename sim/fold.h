// Folding: ranks that nothing can tell apart run once.
//
// Colour refinement over instances, communicators and links finds the coarsest equitable partition: two instances
// share a class only if program, slowdown and noise are the same and each slot leads to communicators of one class;
// two communicators only if their members' classes and slots, route latencies and loads on link classes agree; two
// links only if capacity and the load that each communicator class puts on them agree. The quotient of an equitable
// partition has the same max-min rates, hence the same times: folded and full agree to the picosecond.
#pragma once

#include <vector>

#include "sim/network.h"
#include "sim/plan.h"

namespace orrery::sim {

struct Folded {
  Plan plan;                                // one instance per class
  Network network;                          // one link per class, weights summed over the class
  Table<InstanceId, InstanceId> class_of;   // full instance -> folded instance
  std::vector<InstanceId> representative;   // folded instance -> the full instance that stands for it
  std::vector<std::uint32_t> class_size;    // folded instance -> how many full instances it stands for
  std::vector<LinkId> link_representative;  // folded link -> the full link that stands for it
};

/// Instances and links that are there once for several that nothing can tell apart: what is made is a part of the
/// whole.
struct Copies {
  std::vector<std::uint32_t> instances = {};  // by instance: how many it stands for; empty: each for itself
  std::vector<std::uint32_t> links = {};      // likewise, by link
};

/// As the whole folds, where `copies` are left out of the plan. A class's size counts them; class_of knows of none.
Folded fold(const Plan& plan, const Network& network, const Copies& copies = {});

}  // namespace orrery::sim
