// Islands: instances that for most of a run meet nobody but each other, such as the ranks of a replica, which its
// stages' messages join and which data parallelism joins with others a few times a step.
//
// The argument. Transfers of communicators that lie inside of islands alone cannot fill a link that two islands use
// (sim/contention.h): as long as nothing else moves, none stops another island's. What joins it with others is the
// transfers of joint communicators, those with members in several islands, and no such transfer begins to move bytes,
// or ends, before the last member has arrived and the latency has passed. So while no joint transfer is under way an
// island may go through its own instants up to the earliest end that a joint transfer at which it has arrived can have:
// nobody can tell it anything that lies before (Chandy & Misra, Asynchronous distributed simulation via a sequence of
// parallel computations, 1981; the latency is their lookahead). Then ten thousand ranks run as replicas do that fit a
// cache, one after the other, in place of going through the state of all at each instant (sim/engine_part.h). Times are
// the same: what an island does depends on its own instants, in order, and on when joint transfers end.
//
// Left out: to run ahead of joint transfers that are under way, which take from an island's links what it finds there.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/contention.h"
#include "sim/plan.h"

namespace orrery::sim {

struct Islands {
  static constexpr std::uint32_t kJoint = 0xffffffff;

  std::uint32_t count = 0;                     // at least two, or none
  std::vector<std::uint32_t> of_instance;      // empty where there are none
  std::vector<std::uint32_t> of_communicator;  // kJoint: members in several
};

/// Communicators that are met on seldom join islands; those that are met on often lie inside of one, and so do the
/// former where that makes islands of no more than `most` instances. None where a joint communicator's transfers can
/// take from links of islands that have no member in it.
Islands find_islands(const Plan& plan, const Network& network, const Contention& contention, std::uint64_t most);

}  // namespace orrery::sim
