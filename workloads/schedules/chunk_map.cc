// Arithmetic of the three ways to lay blocks on stages. See chunk_map.h.
#include "workloads/schedules/chunk_map.h"

namespace orrery::workloads {

std::int64_t ChunkMap::block_of(Cell cell) const {
  if (returns(cell.chunk)) return blocks() - 1 - cell.stage;
  return cell.chunk * stages_ + cell.stage;
}

std::optional<Cell> ChunkMap::next(Cell cell) const {
  if (returns(cell.chunk)) return cell.stage > 0 ? std::optional(Cell{cell.stage - 1, cell.chunk}) : std::nullopt;
  if (cell.stage + 1 < stages_) return Cell{cell.stage + 1, cell.chunk};
  if (cell.chunk + 1 == chunks_ || order_ == ChunkOrder::both_ways) return std::nullopt;
  return Cell{order_ == ChunkOrder::vee ? cell.stage : 0, cell.chunk + 1};
}

std::optional<Cell> ChunkMap::previous(Cell cell) const {
  if (returns(cell.chunk)) {
    if (cell.stage + 1 < stages_) return Cell{cell.stage + 1, cell.chunk};
    return order_ == ChunkOrder::vee ? std::optional(Cell{cell.stage, 0}) : std::nullopt;
  }
  if (cell.stage > 0) return Cell{cell.stage - 1, cell.chunk};
  return cell.chunk > 0 ? std::optional(Cell{stages_ - 1, cell.chunk - 1}) : std::nullopt;
}

std::int64_t ChunkMap::crossings() const {
  if (stages_ == 1) return 0;
  return order_ == ChunkOrder::loop ? blocks() - 1 : order_ == ChunkOrder::vee ? 2 * (stages_ - 1) : stages_ - 1;
}

}  // namespace orrery::workloads
