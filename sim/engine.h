// The engine: runs a Plan over a Network and says when everything started and finished.
//
// Laws: after run() starts there is no virtual call, std::function, string or per-event allocation; time is integer
// picoseconds; an instant is the unit of change (all events at t are drained, then the touched rates are solved once);
// the table is the truth and an event a hint; ties break by content; no global state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/id.h"
#include "sim/network.h"
#include "sim/plan.h"
#include "sim/units.h"

namespace orrery::sim {

enum class Outcome : std::uint8_t { finished, deadlock };

/// Per-operation times of one recorded instance; all columns have the program's length.
struct Record {
  InstanceId instance{};
  std::vector<SimTime> ready;  // stream, waits and host are ready (a transfer: this member has arrived)
  std::vector<SimTime> start;  // begins to run (a transfer: the last member has arrived)
  std::vector<SimTime> finish;
};

/// An operation that could not run when nothing more could happen.
struct Stuck {
  InstanceId instance{};
  std::uint32_t op = 0;
  CommunicatorId communicator{};  // transfers: what it waits on
  std::uint32_t arrived = 0;      // transfers: members that had arrived, of ...
  std::uint32_t members = 0;
};

struct Result {
  Outcome outcome = Outcome::finished;
  SimTime makespan{};        // the last finish
  std::uint64_t events = 0;  // operations finished + fluid events handled
  std::uint64_t solves = 0;  // instants at which links had to be shared anew
  Table<InstanceId, SimTime> last_finish;
  std::vector<Record> records;  // of the instances asked for, in that order
  std::vector<Stuck> stuck;     // head of each blocked stream, at most 64; empty when finished
};

struct RunOptions {
  std::vector<InstanceId> record;      // whose operations are recorded
  std::size_t rows_shared_from = 256;  // instances from which rows of signals are shared (compiled.h); same times
  /// Every transfer moves as if it were alone on its route. Times are then a longest path, and none is later than where
  /// links are shared: a rate is never above that of a transfer alone, and whatever ends earlier lets nothing begin
  /// later.
  bool alone = false;
};

/// What the fluid part of a transfer of `work` bytes takes when no link limits it: work / rate_cap, rounded up to
/// picoseconds; nothing without work or cap.
Duration unlimited_transfer(double work, double rate_cap);

/// Simulates the plan. Throws InternalError for tables that do not fit (see check()).
Result run(const Plan& plan, const Network& network, const RunOptions& options = {});

}  // namespace orrery::sim
