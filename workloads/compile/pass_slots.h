// Time slots of passes, for software that runs a pipeline slot by slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/schedules/chunk_map.h"
#include "workloads/schedules/schedule.h"

namespace orrery::workloads {

struct PassSlot {
  static constexpr std::int64_t kNone = -1;
  std::int64_t runs = 0;      // in which the pass runs
  std::int64_t sent = kNone;  // in which another stage makes what it waits for; none: nobody does
};

/// Of every pass of every stage, as `orders` has them: those that the schedule names. In an evaluation, where it names
/// none, and where the orders are not those that it names them for, each is the first behind that of the pass before it
/// on its stage and that of the pass which makes its input.
std::vector<std::vector<PassSlot>> slots_of(const Schedule& schedule, const ChunkMap& map, const StageOrders& orders);

/// The inputs of a stage's passes in the order in which other stages send them.
class SlotWalk {
 public:
  /// `slots`: of every pass; none: passes are not run slot by slot.
  explicit SlotWalk(const std::vector<PassSlot>& slots);
  bool any() const { return !slots_.empty(); }
  /// The next pass whose input is sent in a slot ahead of that of pass `next`, each once; nothing where there is no
  /// more.
  std::optional<std::size_t> sent_ahead_of(std::size_t next);

 private:
  const std::vector<PassSlot>& slots_;
  std::vector<std::size_t> as_sent_;
  std::size_t taken_ = 0;
};

}  // namespace orrery::workloads
