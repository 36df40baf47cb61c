// A program as the engine runs it: operations sorted by stream, every wait a number in the instance's table of
// signals, the host's clock folded into offsets from the last operation that it waited for. Made once per program,
// shared by all its instances.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan.h"

namespace orrery::sim {

inline constexpr std::uint32_t kNoSignal = 0xffffffff;

struct CompiledOp {
  std::int64_t duration = 0;          // ps; transfer: latency
  std::int64_t host_start = 0;        // the host begins to issue it, ps after its segment began
  std::int64_t host_bound = 0;        // ps after host_start; compute: issue_bound; transfer: issue
  std::uint32_t op = 0;               // row of the program
  std::uint32_t segment = kNoSignal;  // signal of the operation that the host waited for last; none: the step's start
  std::uint32_t signal = kNoSignal;   // where its finish is kept, when another stream or the host needs it
  std::uint32_t waits_begin = 0;      // signals in CompiledProgram::waits
  std::uint32_t waits_end = 0;
  std::uint32_t slot = kNoSlot;  // transfers only
  std::uint32_t occurrence = 0;  // this is the k-th transfer on its slot
  std::uint8_t stream = 0;
};

struct CompiledProgram {
  std::vector<CompiledOp> ops;              // by stream, in issue order within each
  std::vector<std::uint32_t> stream_begin;  // per stream, and the end
  std::vector<std::uint32_t> waits;         // signals
  std::vector<std::uint32_t> slot_begin;    // per slot, and the end, into slot_ops
  std::vector<std::uint32_t> slot_ops;      // the transfers of a slot in issue order, as rows of `ops`
  std::uint32_t signals = 0;
};

CompiledProgram compile(const Program& program, std::uint8_t streams);

}  // namespace orrery::sim
