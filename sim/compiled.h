// A program as the engine runs it: operations sorted by stream, every wait a row in the instance's table of signals,
// the host's clock folded into offsets from the last operation that it waited for. Made once per program, shared by all
// its instances.
//
// A row of the table of signals keeps when an operation finished, and which one. It is used again by a later operation
// of the same stream that cannot start before everyone who reads the row has started, by the order of streams and waits
// inside the program alone. So an instance needs about as many rows as there are operations in flight, not as many as
// there are operations: ten thousand instances stay in the cache. Where few instances run, finding such rows takes
// longer than it saves, and every operation has its own.
//
// That a stage does not receive more than it has worked off is often not to be told from its program, but from who
// sends. So a stream for whose operations some rows did not do has a few more that are taken in turn. Whoever takes one
// looks first whether all have passed who read what is in it (`readers`); as a rule they have, else the engine keeps
// it elsewhere until they do.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan.h"

namespace orrery::sim {

inline constexpr std::uint32_t kNoSignal = 0xffffffff;
inline constexpr std::uint32_t kNoTurn = 0xffffffff;

/// The finish of operation `op`, which is in row `signal` once that row says so.
struct Wait {
  std::uint32_t signal = kNoSignal;
  std::uint32_t op = 0;
};

struct CompiledOp {
  std::int64_t duration = 0;         // ps; transfer: latency
  std::int64_t host_start = 0;       // the host begins to issue it, ps after its segment began
  std::int64_t host_bound = 0;       // ps after host_start; compute: issue_bound; transfer: issue
  Wait segment;                      // the operation that the host waited for last; no signal: the step's start
  std::uint32_t op = 0;              // row of the program
  std::uint32_t signal = kNoSignal;  // where its finish is kept, when another stream or the host needs it
  std::uint32_t waits_begin = 0;     // rows of CompiledProgram::waits
  std::uint32_t waits_end = 0;
  std::uint32_t slot = kNoSlot;  // transfers only
  std::uint32_t occurrence = 0;  // this is the k-th transfer on its slot
  std::uint32_t turn = kNoTurn;  // row of CompiledProgram::turn_begin, where the row of its signal is taken in turn
  std::uint8_t stream = 0;
  OpKind kind = OpKind::compute;
};

struct CompiledProgram {
  std::vector<CompiledOp> ops;              // by stream, in issue order within each
  std::vector<std::uint32_t> stream_begin;  // per stream, and the end
  std::vector<Wait> waits;
  std::vector<std::uint32_t> slot_begin;  // per slot, and the end, into slot_ops
  std::vector<std::uint32_t> slot_ops;    // the transfers of a slot in issue order, as rows of `ops`
  /// A stream whose next operation is this row of `ops`, or a later one, has no more that reads the signal.
  struct Reader {
    std::uint32_t stream = 0;
    std::uint32_t passed = 0;
  };
  std::vector<Reader> readers;            // by turn
  std::vector<std::uint32_t> turn_begin;  // rows of `readers`, and the end
  std::uint32_t signals = 0;
};

enum class Rows : std::uint8_t { of_their_own, shared };

CompiledProgram compile(const Program& program, std::uint8_t streams, Rows rows);

}  // namespace orrery::sim
