// A compiled program as text: what a stage does in a step, operation by operation, for people and for golden tests.
#pragma once

#include <cstdint>
#include <string>

#include "workloads/compile/program_notes.h"

namespace orrery::workloads {

struct ProgramTextOptions {
  std::int64_t passes = 0;  // the first so many passes, in full; 0: the first of each kind, cut where they are long
  bool kernels = false;     // below each compute operation its kernels, with their times
};

/// The operations of a stage's program in the order in which the host issues them. A line holds the operation's number;
/// its pass as schedules draw it (F0 is the forward pass of micro-batch 0, B1.3 the backward pass of micro-batch 3
/// through chunk 1); its stream; what it is; device time of kernels or latency of a transfer, in us; MB that a transfer
/// puts on the links of its route; host time to issue it, in us; and the operations that it waits for besides those
/// before it on its stream. What is left out is counted. `plan`: with its programs, which a simulation takes away.
std::string program_text(const StagePrograms& plan, std::int64_t stage, const ProgramTextOptions& options = {});

}  // namespace orrery::workloads
